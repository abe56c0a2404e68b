"""Results of ``search_tools``: descriptions of tools, up to a maximum size in characters."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
from msgspec import to_builtins

from carrel.gateway.tool_index import ToolMatch
from carrel.wire.content import TextContent
from carrel.wire.tools import CallToolResult, Tool

__all__ = ["MAX_RESULT", "found_tools", "listed_names"]

#: Maximum number of characters of a result, of one schema, and of one description.
MAX_RESULT, MAX_SCHEMA, MAX_DESCRIPTION = 24_000, 4_000, 1_000
#: Keywords to keep for each argument if a schema is shortened.
KEPT = ("type", "enum", "const", "format", "default")
#: Maximum number of characters of a shortened argument schema, and of its description.
MAX_KEPT, MAX_ABOUT = 200, 100


def found_tools(found: Sequence[ToolMatch], total: int, limit: int, characters: int) -> CallToolResult:
    """Return the best search results, with their input schemas; ``total`` is the number of indexed tools."""
    tools: list[dict[str, Any]] = []
    room = characters
    for at, each in enumerate(found[:limit]):
        whole = at == 0 and each.named
        described = _described(each.tool, room if whole else min(MAX_SCHEMA, room), whole=whole)
        size = len(msgspec.json.encode(described))
        if size > room:
            described = {"name": each.tool.name, "note": "there is no room for more here: search for this name alone"}
            size = len(msgspec.json.encode(described))
        if size > room:
            break
        room -= size
        tools.append(described)
    result: dict[str, Any] = {"tools": tools, "total": len(found)}
    if not found:
        result["note"] = (
            f"none of {total} tools is described so; other words may help, or no query, which lists all names"
        )
    elif len(tools) < len(found):
        result["note"] = f"the best {len(tools)} of {len(found)}; other words, or a higher limit, return others"
    return _result(result)


def listed_names(tools: Sequence[Tool], characters: int) -> CallToolResult:
    """Return the names of all tools, each with the first line of its description if all of these fit."""
    described = [{"name": tool.name, "description": _first_line(tool)} for tool in tools]
    if len(msgspec.json.encode(described)) > characters:
        described = [{"name": tool.name} for tool in tools]
    result: dict[str, Any] = {"tools": [], "total": len(tools)}
    for each in described:
        characters -= len(msgspec.json.encode(each)) + 1
        if characters < 0:
            result["note"] = f"the first {len(result['tools'])} of {len(tools)}; a query finds the others"
            break
        result["tools"].append(each)
    return _result(result)


def _result(result: dict[str, Any]) -> CallToolResult:
    return CallToolResult(content=[TextContent(msgspec.json.encode(result).decode())], structured_content=result)


def _first_line(tool: Tool) -> str:
    lines = (tool.description or tool.title or "").strip().splitlines()
    return _truncate(lines[0] if lines else "", MAX_ABOUT)


def _described(tool: Tool, room: int, *, whole: bool) -> dict[str, Any]:
    described: dict[str, Any] = {"name": tool.name}
    if tool.title:
        described["title"] = _truncate(tool.title, MAX_ABOUT)
    description = (tool.description or "").strip()
    if description:
        described["description"] = description if whole else _truncate(description, MAX_DESCRIPTION)
    described["inputSchema"] = tool.input_schema
    if len(msgspec.json.encode(tool.input_schema)) > room:
        described["inputSchema"] = _shortened(tool.input_schema, room)
        described["note"] = "the input schema is shortened" + (
            "" if whole else ": search for this name to see all of it"
        )
    if tool.annotations is not None:
        described["annotations"] = to_builtins(tool.annotations)
    return described


def _shortened(schema: dict[str, Any], room: int) -> dict[str, Any]:
    """Return a schema with the names and types of as many arguments as fit, required arguments first."""
    properties, required = schema.get("properties"), schema.get("required")
    fields = properties if isinstance(properties, dict) else {}
    needed = [name for name in required if isinstance(name, str)] if isinstance(required, list) else []
    short: dict[str, Any] = {"type": "object", "properties": {}, "required": needed}
    for name in sorted(fields, key=lambda name: name not in needed):
        field = fields[name] if isinstance(fields[name], dict) else {}
        kept = {key: field[key] for key in KEPT if key in field}
        if len(msgspec.json.encode(kept)) > MAX_KEPT:
            kept = {"type": field["type"]} if isinstance(field.get("type"), str) else {}
        if isinstance(field.get("description"), str):
            kept["description"] = _truncate(field["description"], MAX_ABOUT)
        short["properties"][name] = kept
        if len(msgspec.json.encode(short)) > room:
            short["properties"].pop(name)
            break
    return short


def _truncate(text: str, longest: int) -> str:
    return text if len(text) <= longest else text[: longest - 1] + "…"
