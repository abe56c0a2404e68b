"""Resources as tools, for clients that have only tools."""

from __future__ import annotations

import base64
import json
from typing import Annotated, Any

from carrel.compat.fastmcp.server.dependencies import get_context
from carrel.compat.fastmcp.server.transforms.added_tools import AddedTools
from carrel.compat.fastmcp.tools.tool import Tool
from carrel.compat.mcp.types import ToolAnnotations

__all__ = ["ResourcesAsTools"]


async def list_resources() -> str:
    """List all available resources and resource templates.

    Returns JSON with resource metadata. Static resources have a
    'uri' field, while templates have a 'uri_template' field with
    placeholders like {name}.
    """
    server = get_context().fastmcp
    found: list[dict[str, Any]] = [
        {"uri": str(each.uri), "name": each.name, "description": each.description, "mime_type": each.mime_type}
        for each in await server.list_resources()
    ]
    found += [
        {"uri_template": each.uri_template, "name": each.name, "description": each.description}
        for each in await server.list_resource_templates()
    ]
    return json.dumps(found, indent=2)


async def read_resource(uri: Annotated[str, "The URI of the resource to read"]) -> str:
    """Read a resource by its URI.

    For static resources, provide the exact URI. For templated
    resources, provide the URI with template parameters filled in.

    Returns the resource content as a string. Binary content is
    base64-encoded.
    """
    contents = (await get_context().fastmcp.read_resource(uri)).contents
    texts = [
        each.content if isinstance(each.content, str) else base64.b64encode(each.content).decode() for each in contents
    ]
    if len(texts) == 1:
        return str(texts[0])
    both = zip(texts, contents, strict=True)
    return json.dumps([{"content": text, "mime_type": each.mime_type} for text, each in both])


class ResourcesAsTools(AddedTools):
    """Transform of a server that adds the tools ``list_resources`` and ``read_resource``."""

    def __init__(self, provider: Any) -> None:
        hints = ToolAnnotations(readOnlyHint=True)
        super().__init__(
            provider, [Tool.from_function(each, annotations=hints) for each in (list_resources, read_resource)]
        )
