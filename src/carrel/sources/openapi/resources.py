"""Resources of an API: its description and documentation, and the responses of its GET operations."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from carrel.errors import InvalidParams, ResourceError, ResourceNotFound, ResourceTooLarge
from carrel.media_types import DIRECTORY
from carrel.sources.content.directory import directory_contents
from carrel.sources.content.text import decode as detect
from carrel.sources.content.text import describe_encoding
from carrel.sources.documents.query import QUERIES
from carrel.sources.openapi.api import API, next_link
from carrel.sources.openapi.document import ApiDocuments
from carrel.sources.openapi.operations import ApiOperation
from carrel.sources.openapi.parameters import ApiParameter, read_value, text_of, variable_of
from carrel.sources.openapi.routes import read_query, template_of
from carrel.sources.openapi.schemas import Bundler, body_of
from carrel.sources.openapi.transport import ApiResponse
from carrel.transports.client.response_text import decode, is_textual, read_type
from carrel.uri.parse import UriError, percent_decode, percent_encode
from carrel.wire.base import Annotations
from carrel.wire.resources import (
    BlobResourceContents,
    Resource,
    ResourceContents,
    ResourceTemplate,
    TextResourceContents,
)

__all__ = ["ApiResources", "contents_of", "describe_operation", "overview"]

MARKDOWN, SCHEMA = "text/markdown", "application/schema+json"
NEXT = "carrel/next"
#: Maximum length of a description that is returned whole, in characters.
MAX_DESCRIPTION = 4 * 1024 * 1024


class ApiResources:
    """Resources of an API below a URI, ``openapi://NAME``. They are listed in the order of their URIs."""

    def __init__(self, api: API, uri: str) -> None:
        self._api = api
        self.uri = uri
        self._live = f"{uri}/api"
        info = api.documents.root.get("info")
        title = str(info.get("title") or uri) if isinstance(info, dict) else uri
        first = Annotations(priority=1.0)
        self._operations = {f"{uri}/operations/{escaped(one.id)}": one for one in api.operations.values()}
        self._schemas = {f"{uri}/schemas/{escaped(name)}": name for name in api.schemas}
        top = [
            Resource(
                f"{uri}/description", "description", title=f"{title}: OpenAPI description", mime_type="application/json"
            ),
            Resource(f"{uri}/operations", "operations", title=f"{title}: operations", mime_type=DIRECTORY),
            Resource(f"{uri}/overview", "overview", title=f"{title}: overview", mime_type=MARKDOWN, annotations=first),
            Resource(f"{uri}/schemas", "schemas", title=f"{title}: schemas", mime_type=DIRECTORY),
        ]
        operations = [
            Resource(
                location,
                one.id,
                title=one.title,
                description=f"{one.method.upper()} {one.path}",
                mime_type=MARKDOWN,
            )
            for location, one in self._operations.items()
        ]
        schemas = [Resource(location, name, mime_type=SCHEMA) for location, name in self._schemas.items()]
        self._directories = {
            uri: top,
            f"{uri}/operations": in_order(operations),
            f"{uri}/schemas": in_order(schemas),
        }
        root = Resource(uri, title, mime_type=DIRECTORY)
        templates = {template_of(self._live, one): one for one in api.readable.values()}
        self._by_template = {template: one for template, one in templates.items() if "{" in template}
        # Without variables, it is a single resource; without the required credentials, it is not offered.
        fixed = [
            Resource(location, one.id, title=one.title, description=f"GET {one.path}")
            for location, one in templates.items()
            if location not in self._by_template and api.credentials.suffice(one)
        ]
        self.listed: Sequence[Resource] = in_order([root, *top, *fixed, *operations, *schemas])
        self._guides = {
            f"{uri}/operations/{{operation}}": list(api.operations),
            f"{uri}/schemas/{{schema}}": list(api.schemas),
        }
        guides = [
            ResourceTemplate(
                f"{uri}/operations/{{operation}}", "operation", description="Documentation of an operation"
            ),
            ResourceTemplate(f"{uri}/schemas/{{schema}}", "schema", description="A schema of the API"),
        ]
        self.templates: Sequence[ResourceTemplate] = [
            *guides,
            *(describe_template(template, one) for template, one in self._by_template.items()),
        ]

    def directory(self, uri: str) -> Sequence[Resource]:
        """Return the entries of a directory.

        Raises:
            ResourceNotFound: there is no such directory.
        """
        if uri not in self._directories:
            raise ResourceNotFound(uri)
        return self._directories[uri]

    def is_live(self, uri: str) -> bool:
        """Return whether a URI is of a response of the API, rather than of its description."""
        return uri.startswith(f"{self._live}/")

    def suggest(self, template: str, variable: str) -> list[str]:
        """Return the values that are known for a variable of a template."""
        if template in self._guides:
            return self._guides[template]
        for parameter in self._by_template[template].parameters:
            if parameter.location in ("path", "query") and variable in (parameter.name, variable_of(parameter.name)):
                kind = parameter.items if parameter.kind == "array" else parameter.kind
                return [text_of(one) for one in parameter.choices] or (["true", "false"] if kind == "boolean" else [])
        return []

    def may_be_document(self, uri: str) -> bool:
        """Return whether ``page`` and ``view`` in the query of a URI request the text of a response.

        False if they are parameters of the operation itself, or if the URI has other parameters.
        """
        path, _, query = uri.removeprefix(self._live).partition("?")
        if not self.is_live(uri) or (query and query.partition("=")[0] not in QUERIES):
            return False
        try:
            found = self._api.routes.find(path)
        except InvalidParams:
            return False
        return found is not None and not any(one.name in QUERIES for one in found[0].located("query"))

    async def read(self, uri: str) -> ResourceContents:
        """Return the contents of a resource.

        Raises:
            ResourceNotFound: the resource does not exist.
            InvalidParams: a parameter is missing, or not of its type.
        """
        api = self._api
        if self.is_live(uri):
            return await self._read_live(uri)
        if uri in self._operations:
            operation = self._operations[uri]
            template = template_of(self._live, operation) if operation.id in api.readable else None
            return TextResourceContents(uri, describe_operation(api.documents, operation, template), mime_type=MARKDOWN)
        if uri in self._schemas:
            bundler = Bundler(api.documents, request=False)
            schema = bundler.copy(api.schemas[self._schemas[uri]], api.documents.location)
            if isinstance(schema, dict) and bundler.definitions:
                schema = {**schema, "$defs": bundler.definitions}
            text = msgspec.json.format(msgspec.json.encode(schema)).decode()
            return TextResourceContents(uri, text, mime_type=SCHEMA)
        if uri == f"{self.uri}/description":
            text = msgspec.json.encode(api.documents.root).decode()
            if len(text) > MAX_DESCRIPTION:
                raise ResourceTooLarge(
                    uri,
                    f"The description has {len(text):,} characters, and the limit is {MAX_DESCRIPTION:,}; "
                    f"read {self.uri}/overview, or one of {self.uri}/operations",
                )
            return TextResourceContents(uri, text, mime_type="application/json")
        if uri == f"{self.uri}/overview":
            text = overview(api.documents.root, list(api.operations.values()))
            return TextResourceContents(uri, text, mime_type=MARKDOWN)
        if uri in self._directories:
            return directory_contents(uri, self._directories[uri])
        raise ResourceNotFound(uri)

    async def _read_live(self, uri: str) -> ResourceContents:
        if "#" in uri:
            raise InvalidParams("Invalid params: uri: the resource of an API has no fragment", parameter="uri")
        path, _, query = uri.removeprefix(self._live).partition("?")
        try:
            percent_decode(path)
        except UriError as error:
            raise InvalidParams(f"Invalid params: uri: {error}", parameter="uri") from None
        found = self._api.routes.find(path)
        if found is None:
            raise ResourceNotFound(uri)
        operation, texts = found
        values = {
            ("path", parameter.name): read_value(parameter, [texts[parameter.name]])
            for parameter in operation.located("path")
            if parameter.name in texts
        }
        try:
            url, response = await self._api.request(operation, {**values, **read_query(operation, query)})
        except ResourceError as error:
            error.uri = uri  # hide the URI of the API, which may be on an internal network
            raise
        self._api.check(uri, response)
        meta = {}
        after = next_link(response, url)
        if after is not None and self._api.includes(after) and self._api.credentials.hide(after) == after:
            meta[NEXT] = self._live + after.removeprefix(self._api.base)
        return contents_of(uri, response, meta)


def contents_of(uri: str, response: ApiResponse, meta: dict[str, Any] | None = None) -> ResourceContents:
    """Return the body of a response as text or as bytes, by its media type."""
    kind, charset = read_type(response.headers.get("content-type", ""))
    text = decode(response.body, charset) if is_textual(kind) else None
    if text is None and is_textual(kind) and (found := detect(response.body)) is not None:
        text, meta = found.text, (meta or {}) | describe_encoding(found.encoding)
    if text is None or (kind == "" and "\0" in text):
        return BlobResourceContents(uri, response.body, mime_type=kind or None, meta=meta or None)
    return TextResourceContents(uri, text, mime_type=kind or None, meta=meta or None)


def describe_template(template: str, operation: ApiOperation) -> ResourceTemplate:
    required = [one.name for one in operation.located("query") if one.required]
    note = f" Required: {', '.join(required)}." if required else ""
    words = " ".join(operation.description.split())[:500]
    return ResourceTemplate(
        template, operation.id, title=operation.title, description=f"GET {operation.path}.{note} {words}".strip()
    )


def in_order(resources: list[Resource]) -> list[Resource]:
    return sorted(resources, key=lambda one: one.uri)


def escaped(name: str) -> str:
    return percent_encode(name.encode("utf-8", "replace").decode())


MAX_EXAMPLE = 4000


def overview(document: dict[str, Any], operations: list[ApiOperation]) -> str:
    """Return an overview of an API: its title and description, and its operations by tag."""
    info = document.get("info")
    info = info if isinstance(info, dict) else {}
    lines = [f"# {info.get('title', 'API')}", "", f"Version {info.get('version', '')}", ""]
    if isinstance(info.get("description"), str):
        lines += [info["description"].strip(), ""]
    groups: dict[str, list[ApiOperation]] = {}
    for operation in operations:
        groups.setdefault(operation.tags[0] if operation.tags else "", []).append(operation)
    for tag, some in groups.items():
        lines += [f"## {tag or 'Operations'}", ""]
        lines += [f"- `{one.method.upper()} {one.path}` {one.title} ({one.id})" for one in some]
        lines.append("")
    return "\n".join(lines)


def describe_operation(documents: ApiDocuments, operation: ApiOperation, uri: str | None) -> str:
    """Return the documentation of an operation. ``uri`` is the template of its resources, if it has any."""
    lines = [f"# {operation.title}", "", f"`{operation.method.upper()} {operation.path}` ({operation.id})", ""]
    if operation.deprecated:
        lines += ["**Deprecated.**", ""]
    if operation.description:
        lines += [operation.description, ""]
    if uri is not None:
        lines += [f"Resource template: `{uri}`", ""]
    if operation.parameters:
        lines += ["## Parameters", "", "| name | in | type | required | |", "| --- | --- | --- | --- | --- |"]
        lines += [parameter_row(parameter) for parameter in operation.parameters]
        lines.append("")
    body = body_of(documents, operation)
    if body is not None:
        kind, media, required, base = body
        lines += ["## Request body", "", f"`{kind}`{', required' if required else ''}", ""]
        lines += schema_lines(documents, media.get("schema"), base)
    lines += ["## Responses", ""]
    responses = operation.raw.get("responses")
    for status, given in responses.items() if isinstance(responses, dict) else ():
        response, base = documents.resolve(given, operation.location)
        response = response if isinstance(response, dict) else {}
        lines.append(f"- **{status}** {' '.join(str(response.get('description', '')).split())}")
        content = response.get("content")
        for kind, media in content.items() if isinstance(content, dict) else ():
            schema = media.get("schema") if isinstance(media, dict) else None
            lines.append(f"  - `{kind}` {shown_schema(documents, schema, base)}")
    names = sorted({name for requirement in operation.security for name in requirement})
    if names:
        lines += ["", f"Credentials: {', '.join(names)} (sent by the server)"]
    return "\n".join(lines).rstrip() + "\n"


def parameter_row(parameter: ApiParameter) -> str:
    kind = f"array of {parameter.items}" if parameter.kind == "array" else parameter.kind
    choices = ", ".join(f"`{text_of(choice)}`" for choice in parameter.choices[:30])
    words = " ".join(parameter.description.split()).replace("|", "\\|")
    shown = f"{words} One of {choices}." if choices else words
    return f"| `{parameter.name}` | {parameter.location} | {kind} | {'yes' if parameter.required else ''} | {shown} |"


def shown_schema(documents: ApiDocuments, schema: Any, base: str) -> str:
    """Return the name of a schema, or its type."""
    if not isinstance(schema, dict):
        return ""
    if isinstance(schema.get("$ref"), str):
        return str(schema["$ref"]).rpartition("/")[2]
    if schema.get("type") == "array":
        return f"array of {shown_schema(documents, schema.get('items'), base)}"
    return str(schema.get("type", ""))


def schema_lines(documents: ApiDocuments, schema: Any, base: str) -> list[str]:
    found, where = documents.resolve(schema, base)
    properties = found.get("properties") if isinstance(found, dict) else None
    if not isinstance(properties, dict):
        text = msgspec.json.format(msgspec.json.encode(found)).decode()
        return ["```json", text[:MAX_EXAMPLE], "```", ""]
    required = found.get("required")
    required = required if isinstance(required, list) else []
    lines = ["| property | type | required | |", "| --- | --- | --- | --- |"]
    for name, given in properties.items():
        one, location = documents.resolve(given, where)
        one = one if isinstance(one, dict) else {}
        words = " ".join(str(one.get("description", "")).split()).replace("|", "\\|")
        kind = shown_schema(documents, given, location)
        lines.append(f"| `{name}` | {kind} | {'yes' if name in required else ''} | {words} |")
    return [*lines, ""]
