"""Documentation of an operation as Markdown: parameters, request body, responses, security."""

from __future__ import annotations

from typing import Any

import msgspec

from carrel.sources.openapi.document import ApiDocuments
from carrel.sources.openapi.operations import ApiOperation
from carrel.sources.openapi.parameters import ApiParameter, text_of
from carrel.sources.openapi.schemas import body_of

__all__ = ["describe_operation", "overview"]

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
