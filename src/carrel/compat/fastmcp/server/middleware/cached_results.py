"""Results as JSON values, for the cache of a server in a store."""

from __future__ import annotations

import base64
import functools
from typing import Any

from pydantic import TypeAdapter

from carrel.compat.fastmcp.prompts.prompt import Message, Prompt, PromptResult
from carrel.compat.fastmcp.resources.resource import Resource, ResourceContent, ResourceResult
from carrel.compat.fastmcp.tools.tool import Tool, ToolResult
from carrel.compat.fastmcp.utilities.components import FastMCPComponent
from carrel.compat.mcp.types import ContentBlock

__all__ = ["decode_result", "encode_result"]

LISTS: dict[str, type[FastMCPComponent]] = {"list_tools": Tool, "list_resources": Resource, "list_prompts": Prompt}


def encode_result(kind: str, result: Any) -> dict[str, Any]:
    """Return the result of a kind of request as JSON values."""
    if kind in LISTS:
        return {"items": [_encode_component(LISTS[kind], each) for each in result]}
    if kind == "read_resource":
        return {"contents": [_encode_content(each) for each in result.contents], "meta": result.meta}
    encoded: dict[str, Any] = result.model_dump(mode="json", by_alias=True)
    return encoded


def decode_result(kind: str, value: dict[str, Any]) -> Any:
    """Return the result of a kind of request from JSON values. The items of lists have no functions."""
    if kind in LISTS:
        return [LISTS[kind].model_validate(each) for each in value["items"]]
    if kind == "read_resource":
        return ResourceResult([_decode_content(**each) for each in value["contents"]], value["meta"])
    if kind == "get_prompt":
        messages = [Message(_blocks().validate_python(each["content"]), each["role"]) for each in value["messages"]]
        return PromptResult(messages, value["description"], value["meta"])
    content = [_blocks().validate_python(each) for each in value["content"]]
    return ToolResult(content, value["structured_content"], value["meta"], value["is_error"])


@functools.cache
def _blocks() -> TypeAdapter[Any]:
    return TypeAdapter(ContentBlock)


def _encode_component(kind: type[FastMCPComponent], component: Any) -> dict[str, Any]:
    """Return the fields that all components of a kind have."""
    kept = {name for name, field in kind.model_fields.items() if not field.exclude}
    encoded: dict[str, Any] = component.model_dump(mode="json", by_alias=True, include=kept)
    return encoded


def _encode_content(content: ResourceContent) -> dict[str, Any]:
    details: dict[str, Any] = {"mime_type": content.mime_type, "meta": content.meta}
    if isinstance(content.content, bytes):
        return {"blob": base64.b64encode(content.content).decode(), **details}
    return {"text": content.content, **details}


def _decode_content(
    mime_type: str | None, meta: dict[str, Any] | None, text: str = "", blob: str | None = None
) -> ResourceContent:
    return ResourceContent(text if blob is None else base64.b64decode(blob), mime_type, meta)
