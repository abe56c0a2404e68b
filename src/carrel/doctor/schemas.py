"""JSON schemas of the five revisions, and the judgement of recorded messages by them.

The files in ``schemas/`` are the schemas of the specification (MIT and Apache-2.0 licences) without descriptions, with
two corrections: the limits of a number are numbers, and a JSON value may be null or have a fraction.

https://modelcontextprotocol.io/specification/2026-07-28/schema
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema_rs
import msgspec

__all__ = ["Judge", "errors_in"]

FOLDER = Path(__file__).parent / "schemas"
#: Errors that a revision has a definition for.
ERRORS = {
    -32020: "HeaderMismatchError",
    -32021: "MissingRequiredClientCapabilityError",
    -32022: "UnsupportedProtocolVersionError",
}


@functools.cache
def read_schema(revision: str) -> dict[str, Any]:
    found: dict[str, Any] = msgspec.json.decode((FOLDER / f"{revision}.json").read_bytes())
    return found


@functools.cache
def validator(revision: str, name: str) -> Any:
    schema = read_schema(revision)
    return jsonschema_rs.validator_for({**schema, "$ref": f"#/$defs/{name}"}, validate_formats=False)


@functools.cache
def definition_of(revision: str, method: str) -> str | None:
    """Return the name of the definition of a request or notification; None for one of an extension."""
    for name, definition in read_schema(revision)["$defs"].items():
        if definition.get("properties", {}).get("method", {}).get("const") == method:
            return str(name)
    return None


def errors_in(revision: str, name: str, value: Any) -> Iterator[str]:
    """Yield the violations of a revision's schema definition in a value: location and reason."""
    if name not in read_schema(revision)["$defs"]:
        return
    for number, error in enumerate(validator(revision, name).iter_errors(value)):
        if number == 3:
            return
        where = "/".join(str(part) for part in error.instance_path)
        yield f"{name}{'/' if where else ''}{where}: {shortened(error.message)}"


def shortened(message: str) -> str:
    """Return a message of the validator, in which a long value is cut short."""
    return message if len(message) <= 160 else f"{message[:100]} … {message[-50:]}"


class Judge:
    """Validates the messages of one connection in a revision. Sent messages match responses to requests."""

    def __init__(self, revision: str) -> None:
        self.revision = revision
        self.asked: dict[str | int, dict[str, Any]] = {}
        self.count = 0

    def sent(self, message: Any) -> None:
        """Record a message of the client."""
        for part in message if isinstance(message, list) else [message]:
            if isinstance(part, dict) and isinstance(part.get("id"), str | int) and isinstance(part.get("method"), str):
                self.asked[part["id"]] = part

    def received(self, message: Any) -> Iterator[str]:
        """Yield the violations in a message of the server."""
        for part in message if isinstance(message, list) else [message]:
            if not isinstance(part, dict):
                yield "a message is not an object"
                continue
            self.count += 1
            if "method" in part:
                yield from self._judge_method(part)
            elif "error" in part:
                yield from self._judge_error(part)
            else:
                yield from self._judge_result(part)

    def _judge_method(self, message: dict[str, Any]) -> Iterator[str]:
        definition = definition_of(self.revision, str(message["method"]))
        if definition is not None:
            yield from errors_in(self.revision, definition, message)

    def _judge_error(self, message: dict[str, Any]) -> Iterator[str]:
        if message.get("id", 0) is None:
            return  # JSON-RPC requires null where the id cannot be read
        error = message["error"]
        defined = read_schema(self.revision)["$defs"]
        envelope = "JSONRPCErrorResponse" if "JSONRPCErrorResponse" in defined else "JSONRPCError"
        code = error.get("code") if isinstance(error, dict) else None
        own = ERRORS.get(code) if isinstance(code, int) else None
        yield from errors_in(self.revision, own if own in defined and own is not None else envelope, message)

    def _judge_result(self, message: dict[str, Any]) -> Iterator[str]:
        defined = read_schema(self.revision)["$defs"]
        envelope = "JSONRPCResultResponse" if "JSONRPCResultResponse" in defined else "JSONRPCResponse"
        yield from errors_in(self.revision, envelope, message)
        request = self.asked.get(message["id"]) if isinstance(message.get("id"), str | int) else None
        if request is None or "result" not in message:
            return
        method, result = request["method"], message["result"]
        definition = definition_of(self.revision, method)
        if definition is None:
            return  # of an extension
        name = f"{definition.removesuffix('Request')}Result"
        if isinstance(result, dict) and result.get("resultType") == "input_required":
            name = "InputRequiredResult"
        elif isinstance(result, dict) and method == "tools/call" and "task" in result and "content" not in result:
            name = "CreateTaskResult"
        location = f"{method}: "
        for error in errors_in(self.revision, name if name in defined else "EmptyResult", result):
            yield location + error
