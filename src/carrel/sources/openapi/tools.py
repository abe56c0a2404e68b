"""Operations as tools: which are offered, their schemas and hints, and calls with validated arguments."""

from __future__ import annotations

from typing import Any

import msgspec

from carrel.errors import ConfigError, InvalidParams, MCPError, ToolError
from carrel.log import Log
from carrel.protocol.json_schema import Validator
from carrel.protocol.json_values import InvalidArguments
from carrel.sources.openapi.api import API, encode_body
from carrel.sources.openapi.document import ApiDocuments
from carrel.sources.openapi.operations import ApiOperation, kind_of, settle
from carrel.sources.openapi.options import OpenAPIOptions
from carrel.sources.openapi.resources import contents_of
from carrel.sources.openapi.schemas import BODY, Bundler, arguments_schema, body_of, property_of
from carrel.wire.content import EmbeddedResource, TextContent
from carrel.wire.resources import TextResourceContents
from carrel.wire.tools import CallToolResult, Tool, ToolAnnotations

__all__ = ["ApiTools", "hints"]

log = Log("carrel.sources")

MAX_DESCRIPTION = 2000
#: Values of all kinds in an output schema; further values are unrestricted.
MAX_VALUES = 1000
WORDS = ("title", "description", "$ref")
TYPES = frozenset({"object", "array", "string", "number", "integer", "boolean", "null"})


class ApiTools:
    """Tools of an API: none, unless options name them."""

    def __init__(self, api: API, options: OpenAPIOptions, uri: str) -> None:
        self._api = api
        self._uri = uri
        self._validators: dict[str, Validator | None] = {}
        self._results: dict[str, Validator | None] = {}
        self.offered = [one for one in api.operations.values() if is_offered(one, options)]
        self._names = {one.tool for one in self.offered}
        for pattern in options.operations:
            if not any(one.matches(pattern) for one in self.offered):
                raise ConfigError(f"the API has no operation {pattern!r}, which the option operations names")

    def describe(self, operation: ApiOperation) -> Tool:
        """Return the tool of an operation."""
        text = "\n\n".join(part for part in (operation.title, operation.description) if part)
        return Tool(
            name=operation.tool,
            title=operation.title,
            description=f"{text[:MAX_DESCRIPTION]}\n\n{operation.method.upper()} {operation.path}",
            input_schema=arguments_schema(self._api.documents, operation),
            output_schema=None if (result := self._result_validator(operation)) is None else result.schema,
            annotations=hints(operation),
        )

    async def call(self, name: str, arguments: msgspec.Raw) -> CallToolResult:
        """Call a tool.

        Raises:
            InvalidParams: there is no such tool, or its arguments must be an object.
            ToolError: the arguments are not valid, or the API answers with an error.
        """
        if name not in self._names:
            raise InvalidParams(f"Invalid params: unknown tool: {name[:200]}", parameter="name")
        operation = self._api.tools[name]
        try:
            given = msgspec.json.decode(arguments, type=dict[str, Any]) if bytes(arguments) else {}
        except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
            raise InvalidParams("Invalid params: arguments must be an object", parameter="arguments") from None
        self._validate(operation, given, arguments)
        values = {
            (parameter.location, parameter.name): given[argument]
            for argument, parameter in property_of(operation).items()
            if given.get(argument) is not None
        }
        body, kind = None, None
        described = body_of(self._api.documents, operation)
        try:
            if described is not None and BODY in given:
                body, kind = encode_body(self._api.documents, described, given[BODY])
            _, response = await self._api.request(operation, values, body, kind)
        except InvalidParams as error:
            raise ToolError(error.message) from None
        except MCPError as error:
            raise ToolError(self._api.credentials.hide(str(error))) from None
        if not 200 <= response.status < 300:
            raise ToolError(f"The API responds with status {response.status}{self._api.excerpt(response)}")
        return self._result(operation, response)

    def _validate(self, operation: ApiOperation, given: dict[str, Any], text: msgspec.Raw) -> None:
        if operation.tool not in self._validators:
            try:
                self._validators[operation.tool] = Validator(
                    arguments_schema(self._api.documents, operation), foreign=True
                )
                self._validators[operation.tool].check()  # type: ignore[union-attr]
            except ConfigError as error:
                log.warning("arguments of %s are not checked, its schema is wrong: %s", operation.id, error)
                self._validators[operation.tool] = None
        validator = self._validators[operation.tool]
        if validator is None:
            return
        try:
            validator.validate(given, text)
        except InvalidArguments as error:
            raise ToolError(str(error)) from None

    def _result(self, operation: ApiOperation, response: Any) -> CallToolResult:
        if not response.body:
            return CallToolResult(content=[TextContent(f"{response.status}: done, there is no content")])
        contents = contents_of(f"{self._uri}/operations/{operation.tool}/result", response)
        if not isinstance(contents, TextResourceContents):
            return CallToolResult(content=[EmbeddedResource(contents)])
        text = self._api.credentials.hide(contents.text)
        result = CallToolResult(content=[TextContent(text)])
        value = None
        if "json" in (contents.mime_type or ""):
            try:
                value = msgspec.json.decode(text)
            except (msgspec.DecodeError, RecursionError):
                pass
        if isinstance(value, dict):
            result.structured_content = value
        validator = self._result_validator(operation)
        if validator is not None:
            try:
                validator.validate(value)
            except InvalidArguments as error:
                # A client rejects a result that does not fit, and would not see the response.
                return CallToolResult(
                    content=[TextContent(f"The response is not as described: {error}"), TextContent(text)],
                    is_error=True,
                )
        return result

    def _result_validator(self, operation: ApiOperation) -> Validator | None:
        """Return the validator of an operation's results, with their schema, or None if it has no output schema."""
        if operation.tool not in self._results:
            schema = result_schema(self._api.documents, operation)
            try:
                found = None if schema is None else Validator(schema, "result", foreign=True)
            except ConfigError as error:
                log.warning("results of %s have no schema, it is wrong: %s", operation.id, error)
                found = None
            self._results[operation.tool] = found
        return self._results[operation.tool]


def is_offered(operation: ApiOperation, options: OpenAPIOptions) -> bool:
    """Return whether an operation is a tool."""
    if any(operation.matches(pattern) for pattern in options.operations):
        return True
    if operation.method == "get":
        return options.read_tools
    return options.write and not operation.reads


def hints(operation: ApiOperation) -> ToolAnnotations:
    """Return the tool annotations implied by the HTTP method of an operation (RFC 9110, section 9.2)."""
    method = operation.method
    return ToolAnnotations(
        read_only_hint=operation.reads,
        destructive_hint=None if operation.reads else method in ("put", "patch", "delete"),
        idempotent_hint=operation.reads or method in ("put", "delete"),
        open_world_hint=True,
    )


def result_schema(documents: ApiDocuments, operation: ApiOperation) -> dict[str, Any] | None:
    """Return a lenient schema of the response of a GET operation; None if the response is not always a JSON object.

    Descriptions are seldom exact: values are null unexpectedly, members are missing, enumerations grow. A client
    rejects a result that does not match its schema, so the schema contains types and names, and no constraints:

        {"type": "object", "required": ["id"], "properties": {"id": {"type": "integer", "minimum": 1}}}
        ->  {"type": "object", "properties": {"id": {"type": ["integer", "null"]}}}
    """
    responses = operation.raw.get("responses")
    if operation.method != "get" or not isinstance(responses, dict):
        return None
    successes = [given for status, given in responses.items() if str(status)[:1] == "2"]
    if len(successes) != 1:
        return None
    response, base = documents.resolve(successes[0], operation.location)
    content = response.get("content") if isinstance(response, dict) else None
    if not isinstance(content, dict) or len(content) != 1:
        return None
    [(kind, media)] = content.items()
    schema = media.get("schema") if isinstance(media, dict) else None
    settled, _ = settle(documents, schema, base)
    if "json" not in str(kind).lower() or not settled or kind_of(settled) != "object":
        return None
    bundler = Bundler(documents, request=False, most=MAX_VALUES)
    found = lenient(bundler.copy(schema, base))
    found["type"] = "object"
    if bundler.definitions:
        found["$defs"] = {name: lenient(one) for name, one in bundler.definitions.items()}
    return found


def lenient(schema: Any) -> dict[str, Any]:
    """Return a schema with nullable types and names, and without other constraints."""
    if not isinstance(schema, dict):
        return {}
    found: dict[str, Any] = {word: schema[word] for word in WORDS if isinstance(schema.get(word), str)}
    kinds = schema.get("type")
    named = [kind for kind in (kinds if isinstance(kinds, list) else [kinds]) if kind in TYPES]
    if named:
        found["type"] = list(dict.fromkeys([*named, "null"]))
    properties = schema.get("properties")
    if isinstance(properties, dict):
        found["properties"] = {name: lenient(one) for name, one in properties.items()}
    for word in ("items", "additionalProperties"):
        if isinstance(schema.get(word), dict):
            found[word] = lenient(schema[word])
    parts = schema.get("allOf")
    if isinstance(parts, list):
        found["allOf"] = [lenient(part) for part in parts]
    for word in ("anyOf", "oneOf"):
        parts = schema.get(word)
        if isinstance(parts, list) and parts:
            found["anyOf"] = [lenient(part) for part in parts] + [{"type": "null"}]
    return found
