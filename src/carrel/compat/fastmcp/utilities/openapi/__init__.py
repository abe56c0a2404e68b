"""Routes: the operations of an API that is described in OpenAPI 3, as programs see and choose them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from carrel.compat.fastmcp.borrowed import installed_folders
from carrel.compat.fastmcp.tools.result import WRAPPED
from carrel.compat.fastmcp.utilities.json_schema import compress_schema
from carrel.compat.lazy import lazily
from carrel.errors import ConfigError
from carrel.sources.openapi.api import encode_body, headers_of
from carrel.sources.openapi.document import ApiDocuments
from carrel.sources.openapi.operations import ApiOperation, check_version, read_operations
from carrel.sources.openapi.parameters import ApiParameter
from carrel.sources.openapi.routes import build_url
from carrel.sources.openapi.schemas import Bundler, body_of, body_schema

#: Modules of names that are loaded from the installed package.
NAMES = {
    "JsonSchema": "models",
    "ParameterLocation": "models",
    "RequestBodyInfo": "models",
    "ResponseInfo": "models",
    "clean_schema_for_display": "schemas",
    "convert_openapi_schema_to_json_schema": "json_schema_converter",
    "convert_schema_definitions": "json_schema_converter",
    "extract_output_schema_from_responses": "schemas",
    "format_array_parameter": "formatters",
    "format_deep_object_parameter": "formatters",
    "format_description_with_responses": "formatters",
    "format_json_for_description": "formatters",
    "generate_example_from_schema": "formatters",
}

__all__ = ["HTTPRoute", "HttpMethod", "ParameterInfo", "Prepared", "parse_openapi_to_http_routes"]

__path__ += installed_folders("utilities.openapi")

if not TYPE_CHECKING:
    __getattr__ = lazily(__name__, NAMES)

HttpMethod: TypeAlias = Literal["GET", "POST", "PUT", "DELETE", "PATCH", "OPTIONS", "HEAD", "TRACE"]
BODY = "body"
SUCCESS = ("200", "201", "202", "203", "206")


@dataclass
class ParameterInfo:
    """Parameter of a route."""

    name: str
    location: str
    required: bool
    schema_: dict[str, Any]
    description: str | None


@dataclass
class Prepared:
    """Request to the API: its method, the path with the query, headers and body."""

    method: str
    path: str
    headers: dict[str, str]
    content: bytes | None


@dataclass
class HTTPRoute:
    """Operation of an API."""

    path: str
    method: str
    operation_id: str | None
    summary: str | None
    description: str | None
    tags: list[str]
    parameters: list[ParameterInfo]
    extensions: dict[str, Any]
    operation: ApiOperation = field(repr=False)
    documents: ApiDocuments = field(repr=False)

    @property
    def request_body(self) -> Any:
        """Request body as it is described, or None."""
        return self.operation.raw.get("requestBody")

    @property
    def responses(self) -> dict[str, Any]:
        """Responses as they are described."""
        found = self.operation.raw.get("responses")
        return found if isinstance(found, dict) else {}

    @cached_property
    def arguments(self) -> dict[str, tuple[str, str]]:
        """Location and name of each argument: a parameter, a property of the body, or the body."""
        properties = self._body_properties
        found: dict[str, tuple[str, str]] = {}
        for parameter in self.operation.parameters:
            name = parameter.name
            if name in found or name in (properties or ()):
                name = f"{name}__{parameter.location}"
            found[name] = parameter.location, parameter.name
        if properties is None:
            found.update({BODY: (BODY, "")} if body_of(self.documents, self.operation) is not None else {})
        else:
            found.update({name: (BODY, name) for name in properties})
        return found

    @cached_property
    def _body(self) -> tuple[dict[str, Any], dict[str, Any]] | None:
        """Schema of the body, resolved, and the definitions that it refers to."""
        described = body_of(self.documents, self.operation)
        if described is None:
            return None
        bundler = Bundler(self.documents)
        kind, media, _, location = described
        schema = body_schema(bundler, self.documents, kind, media.get("schema", {}), location)
        definitions = bundler.definitions
        while isinstance(schema, dict) and isinstance(schema.get("$ref"), str):
            schema = definitions[schema["$ref"].rpartition("/")[2]]
        return (schema if isinstance(schema, dict) else {}), definitions

    @property
    def _body_properties(self) -> dict[str, Any] | None:
        """Properties of the body; None if the body is no object with known properties."""
        found = None if self._body is None else self._body[0].get("properties")
        return found if isinstance(found, dict) else None

    @cached_property
    def flat_param_schema(self) -> dict[str, Any]:
        """Schema of the arguments."""
        bundler = Bundler(self.documents)
        known: dict[tuple[str, str], ApiParameter] = {
            (each.location, each.name): each for each in self.operation.parameters
        }
        schema, definitions = self._body or ({}, {})
        described = body_of(self.documents, self.operation)
        needed = set(schema.get("required", ())) if described is not None and described[2] else set()
        fields: dict[str, Any] = {}
        required: list[str] = []
        for argument, (location, name) in self.arguments.items():
            if location != BODY:
                fields[argument] = self._parameter_schema(bundler, known[location, name])
                must = known[location, name].required
            elif name:
                fields[argument] = schema["properties"][name]
                must = name in needed
            else:
                fields[argument] = schema
                must = described is not None and described[2]
            required += [argument] if must else []
        found: dict[str, Any] = {"type": "object", "properties": fields, "required": required}
        found["$defs"] = {**definitions, **bundler.definitions}
        return compress_schema(found)

    def _parameter_schema(self, bundler: Bundler, parameter: ApiParameter) -> Any:
        schema = bundler.copy(parameter.schema, self.operation.location)
        told = {"description": parameter.description} if parameter.description else {}
        return {**schema, **told} if isinstance(schema, dict) else told

    @cached_property
    def output_schema(self) -> dict[str, Any] | None:
        """Schema of the structured result; None if the response is not described as JSON."""
        statuses = [
            each for each in (*SUCCESS, *self.responses) if str(each).startswith("2") and each in self.responses
        ]
        if not statuses:
            return None
        response, location = self.documents.resolve(self.responses[statuses[0]], self.operation.location)
        content = response.get("content") if isinstance(response, dict) else None
        media = next((each for kind, each in (content or {}).items() if "json" in kind), None)
        if not isinstance(media, dict) or not isinstance(media.get("schema"), dict):
            return None
        bundler = Bundler(self.documents, request=False)
        schema = bundler.copy(media["schema"], location)
        resolved, _ = self.documents.resolve(media["schema"], location)
        if resolved.get("type") != "object" and "properties" not in resolved:
            schema = {"type": "object", "properties": {"result": schema}, "required": ["result"], WRAPPED: True}
        elif "$ref" in schema:
            schema = dict(bundler.definitions[schema["$ref"].rpartition("/")[2]])
        return compress_schema({**schema, "$defs": bundler.definitions})

    @property
    def mime_type(self) -> str:
        """Media type of the response; JSON without a description."""
        for status in (*SUCCESS, *self.responses):
            response, _ = self.documents.resolve(self.responses.get(status), self.operation.location)
            content = response.get("content") if isinstance(response, dict) else None
            if content:
                return str(next((kind for kind in content if "json" in kind), next(iter(content))))
        return "application/json"

    def prepare(self, arguments: Mapping[str, Any]) -> Prepared:
        """Return the request for arguments.

        Raises:
            InvalidParams: an argument is missing or cannot be sent.
        """
        values: dict[tuple[str, str], Any] = {}
        body: Any = None
        for argument, (location, name) in self.arguments.items():
            value = arguments.get(argument)
            if location != BODY:
                if value is not None:
                    values[location, name] = value
            elif argument in arguments:
                body = {**(body or {}), name: value} if name else value
        headers = headers_of(self.operation, values)
        content = None
        described = body_of(self.documents, self.operation)
        if described is not None and body is not None:
            content, headers["Content-Type"] = encode_body(self.documents, described, body)
        return Prepared(self.method, build_url("", self.operation, values), headers, content)


def parse_openapi_to_http_routes(openapi_dict: dict[str, Any]) -> list[HTTPRoute]:
    """Return the operations of a description.

    Raises:
        ValueError: the description is not valid.
    """
    try:
        check_version(openapi_dict, "the description")
    except ConfigError as error:
        raise ValueError(f"Invalid OpenAPI schema: {error}") from None
    documents = ApiDocuments(openapi_dict, "")
    return [_route(documents, each) for each in read_operations(documents)]


def _route(documents: ApiDocuments, operation: ApiOperation) -> HTTPRoute:
    raw = operation.raw
    return HTTPRoute(
        operation.path,
        operation.method.upper(),
        raw.get("operationId"),
        raw.get("summary"),
        operation.description or None,
        list(operation.tags),
        [
            ParameterInfo(each.name, each.location, each.required, each.schema, each.description or None)
            for each in operation.parameters
        ],
        {key: value for key, value in raw.items() if key.startswith("x-")},
        operation,
        documents,
    )
