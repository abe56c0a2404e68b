"""Results of tools: content blocks, structured content and ``_meta``."""

from __future__ import annotations

import base64
import sys
from collections.abc import Callable
from typing import Any

from pydantic import BaseModel

from carrel.compat.fastmcp.tools.aliases import to_json, to_plain
from carrel.compat.fastmcp.utilities.types import Audio, File, Image
from carrel.compat.mcp.types import (
    AudioContent,
    CallToolResult,
    ContentBlock,
    EmbeddedResource,
    ImageContent,
    ResourceLink,
    TextContent,
)
from carrel.compat.wire import as_block

__all__ = ["BLOCKS", "MEDIA", "WRAPPED", "Serializer", "ToolResult", "blocks_of_mcp2", "content_of", "with_own_blocks"]

BLOCKS = (TextContent, ImageContent, AudioContent, ResourceLink, EmbeddedResource)
MEDIA = (Image, Audio, File)
WRAPPED = "x-fastmcp-wrap-result"
"""Key of output schemas whose structured result is ``{"result": …}``."""

Serializer = Callable[[Any], str]


def blocks_of_mcp2() -> tuple[type[Any], ...]:
    """Return the content blocks of ``mcp`` 2 that the program uses."""
    module = sys.modules.get("carrel.compat.mcp2.types")
    return tuple(vars(module)[kind.__name__] for kind in BLOCKS if kind.__name__ in vars(module)) if module else ()


def with_own_blocks(given: Any) -> Any:
    """Return a value with content blocks of ``mcp`` 1 for the content blocks of ``mcp`` 2, alone or in a list."""
    if isinstance(given, list | tuple):
        return type(given)(map(with_own_blocks, given)) if type(given) in (list, tuple) else given
    return as_block(given, ContentBlock) if isinstance(given, blocks_of_mcp2()) else given


def _block_of(given: Any, serializer: Serializer | None) -> ContentBlock:
    if isinstance(given, BLOCKS):
        return given
    if isinstance(given, Image):
        return given.to_image_content()
    if isinstance(given, Audio):
        return given.to_audio_content()
    if isinstance(given, File):
        return given.to_resource_content()
    if isinstance(given, str):
        return TextContent(type="text", text=given)
    if isinstance(given, bytes):
        return TextContent(type="text", text=_text_of(given))
    text = serializer(given) if serializer is not None else to_json(given)
    return TextContent(type="text", text=text)


def _text_of(data: bytes) -> str:
    """Return bytes as text: UTF-8 or base64."""
    try:
        return data.decode()
    except UnicodeDecodeError:
        return base64.b64encode(data).decode()


def content_of(given: Any, serializer: Serializer | None = None) -> list[ContentBlock]:
    """Convert the return value of a tool to content. A list is one block, unless it has blocks or media in it."""
    if given is None:
        return []
    given = with_own_blocks(given)
    if isinstance(given, list | tuple) and (not given or any(isinstance(each, BLOCKS + MEDIA) for each in given)):
        return [_block_of(each, serializer) for each in given]
    return [_block_of(list(given) if isinstance(given, tuple) else given, serializer)]


class ToolResult(BaseModel):
    """Result of a tool: content, structured content, or both, and ``_meta``.

    Raises:
        ValueError: there is neither, or structured content that is no dict.
    """

    content: list[ContentBlock]
    structured_content: dict[str, Any] | None = None
    meta: dict[str, Any] | None = None
    is_error: bool = False

    def __init__(
        self,
        content: Any = None,
        structured_content: Any = None,
        meta: dict[str, Any] | None = None,
        is_error: bool = False,
    ) -> None:
        if content is None and structured_content is None:
            raise ValueError("Either content or structured_content must be provided")
        structured = None if structured_content is None else to_plain(structured_content)
        if structured is not None and not isinstance(structured, dict):
            raise ValueError(
                f"structured_content must be a dict or None. Got {type(structured).__name__}: {structured!r}. "
                "Tools should wrap non-dict values based on their output_schema."
            )
        blocks = content_of(structured_content if content is None else content)
        super().__init__(content=blocks, structured_content=structured, meta=meta, is_error=is_error)

    def to_mcp_result(self) -> Any:
        """Return the result in the terms of the protocol: content, content and structured content, or a result."""
        if self.meta is not None or self.is_error:
            details: dict[str, Any] = {} if self.meta is None else {"_meta": self.meta}
            return CallToolResult(
                content=self.content, structuredContent=self.structured_content, isError=self.is_error, **details
            )
        return self.content if self.structured_content is None else (self.content, self.structured_content)
