"""Judges messages of a server by what other people published about the protocol.

Two oracles: the pydantic models of ``mcp-types`` (all revisions; they also tell of fields that a revision does not
have), and the JSON schemas of the specification that the conformance suite brings along (all but the first revision).
"""

from __future__ import annotations

import functools
import json
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import jsonschema_rs
from mcp_types import methods
from pydantic import TypeAdapter, ValidationError

from support.parties import node_modules, node_program

__all__ = ["Witness"]

EXTRACT = Path(__file__).parent / "schemas.cjs"
STATELESS = "2026-07-28"
#: Errors that have a definition of their own.
ERRORS = {
    -32020: "HeaderMismatchError",
    -32021: "MissingRequiredClientCapabilityError",
    -32022: "UnsupportedProtocolVersionError",
}
#: Methods of extensions, which the oracles do not know, and what they do know of their results.
EXTENSIONS = {
    "resources/directory/read": ("PaginatedResult",),
    "skills/get": ("CacheableResult",),
    "skills/list": ("CacheableResult", "PaginatedResult"),
}


class Witness:
    """Hears one conversation and remembers what was wrong with it, and which messages there were."""

    def __init__(self, revision: str) -> None:
        self.revision = revision
        self.session = revision
        self.asked: dict[str, tuple[str, str]] = {}
        self.seen: set[str] = set()
        self.complaints: list[str] = []

    def sent(self, message: Any) -> None:
        """Note what the client asks, to know what an answer answers."""
        for part in message if isinstance(message, list) else [message]:
            if isinstance(part, dict) and "id" in part and isinstance(part.get("method"), str):
                meta = (part.get("params") or {}).get("_meta") or {}
                revision = STATELESS if "io.modelcontextprotocol/protocolVersion" in meta else self.session
                self.asked[repr(part["id"])] = part["method"], revision

    def heard(self, message: Any) -> None:
        """Judge a message of the server."""
        for part in message if isinstance(message, list) else [message]:
            if "method" in part and "id" in part:
                self.judge_question(part)
            elif "method" in part:
                self.judge_notification(part)
            elif "error" in part:
                self.judge_error(part)
            else:
                self.judge_result(part)

    def judge_question(self, message: dict[str, Any]) -> None:
        method = message["method"]
        self.seen.add(method)
        model = methods.SERVER_REQUESTS.get((method, self.revision))
        if model is None:
            self.complain(message, f"{self.revision} has no {method}")
            return
        self.judge_by_model(model, message, message)
        self.judge_by_schema(definition_of(self.revision, method), message, message)

    def judge_notification(self, message: dict[str, Any]) -> None:
        method = message["method"]
        self.seen.add(method)
        model = methods.SERVER_NOTIFICATIONS.get((method, self.revision))
        if model is None:
            self.complain(message, f"{self.revision} has no {method}")
            return
        self.judge_by_model(model, message, message)
        self.judge_by_schema(definition_of(self.revision, method), message, message)

    def judge_result(self, message: dict[str, Any]) -> None:
        method, self.revision = self.asked[repr(message["id"])]
        if method == "initialize":
            self.revision = self.session = message["result"]["protocolVersion"]
        self.seen.add(method)
        if self.revision == STATELESS and method in EXTENSIONS:
            self.judge_by_schema("JSONRPCResultResponse", message, message)
            for name in EXTENSIONS[method]:
                self.judge_by_schema(name, message["result"], message)
            for resource in message["result"].get("resources", ()):
                self.judge_by_schema("Resource", resource, message)
            return
        model = methods.SERVER_RESULTS.get((method, self.revision))
        if model is None:
            self.complain(message, f"{self.revision} has no {method}")
            return
        self.judge_by_model(model, message["result"], message)
        request = definition_of(self.revision, method)
        result = None if request is None else f"{request.removesuffix('Request')}Result"
        if message["result"].get("resultType") == "input_required":
            self.seen.update(question["method"] for question in message["result"]["inputRequests"].values())
            result = "InputRequiredResult"
        defined = definitions(self.revision)
        self.judge_by_schema(result if result in defined else "EmptyResult", message["result"], message)
        response = "JSONRPCResultResponse" if "JSONRPCResultResponse" in defined else "JSONRPCResponse"
        self.judge_by_schema(response, message, message)

    def judge_error(self, message: dict[str, Any]) -> None:
        code = message["error"]["code"]
        self.seen.add(str(code))
        if message.get("id", 0) is None:
            return  # JSON-RPC wants null where the id could not be read; the schemas do not know of it
        defined = definitions(self.revision)
        envelope = "JSONRPCErrorResponse" if "JSONRPCErrorResponse" in defined else "JSONRPCError"
        own = ERRORS.get(code)
        self.judge_by_schema(own if own in defined else envelope, message, message)

    def judge_by_model(self, model: Any, value: Any, message: Any) -> None:
        adapter = adapter_of(model)
        try:
            known = adapter.validate_python(value, by_name=False)
        except ValidationError as error:
            self.complain(message, f"mcp-types: {error}")
            return
        dumped = adapter.dump_python(known, by_alias=True, mode="json", exclude_unset=True)
        for path in unknown(value, dumped):
            self.complain(message, f"mcp-types: {self.revision} has no {path}")

    def judge_by_schema(self, name: str | None, value: Any, message: Any) -> None:
        if self.revision not in schemas():
            return
        if name is None:
            self.complain(message, "the schema has no such message")
            return
        for error in validator(self.revision, name).iter_errors(value):
            self.complain(message, f"schema.json, {name}: {error.message} at {list(error.instance_path)}")

    def complain(self, message: Any, complaint: str) -> None:
        self.complaints.append(f"{complaint}\n    in {json.dumps(message, ensure_ascii=False)}")


def unknown(value: Any, dumped: Any, path: str = "") -> list[str]:
    """Return the fields of ``value`` that got lost in a model."""
    if isinstance(value, dict) and isinstance(dumped, dict):
        lost = [f"{path}.{key}".lstrip(".") for key in value if key not in dumped]
        return lost + [
            name for key in value if key in dumped for name in unknown(value[key], dumped[key], f"{path}.{key}")
        ]
    if isinstance(value, list) and isinstance(dumped, list):
        return [name for one, other in zip(value, dumped, strict=True) for name in unknown(one, other, f"{path}[]")]
    return []


@functools.cache
def adapter_of(model: Any) -> TypeAdapter[Any]:
    return TypeAdapter(model)


@functools.cache
def schemas() -> Mapping[str, dict[str, Any]]:
    """Return the JSON schema of each revision that has one, without the known errata."""
    suite = node_modules() / "@modelcontextprotocol/conformance/dist/index.js"
    printed = subprocess.run(
        [node_program(), str(EXTRACT), str(suite)], capture_output=True, check=True, timeout=60
    ).stdout
    found: dict[str, dict[str, Any]] = json.loads(printed)
    for schema in found.values():
        defined = schema.get("$defs") or schema["definitions"]
        for name in ("minimum", "maximum", "default"):  # are integers in some, although schema.ts has numbers
            if name in defined.get("NumberSchema", {}).get("properties", {}):
                defined["NumberSchema"]["properties"][name]["type"] = "number"
        if "JSONValue" in defined:  # lacks numbers with a fraction, and null
            defined["JSONValue"]["anyOf"].append({"type": ["number", "null"]})
    return found


def definitions(revision: str) -> dict[str, Any]:
    schema = schemas().get(revision, {"$defs": {}})
    found: dict[str, Any] = schema["$defs"] if "$defs" in schema else schema["definitions"]
    return found


@functools.cache
def validator(revision: str, name: str) -> Any:
    schema = schemas()[revision]
    where = "$defs" if "$defs" in schema else "definitions"
    whole = {"$schema": schema["$schema"], "$ref": f"#/{where}/{name}", where: schema[where]}
    return jsonschema_rs.validator_for(whole)


@functools.cache
def definition_of(revision: str, method: str) -> str | None:
    """Return the name of the definition that describes a method or notification."""
    for name, definition in definitions(revision).items():
        if definition.get("properties", {}).get("method", {}).get("const") == method:
            return name
    return None
