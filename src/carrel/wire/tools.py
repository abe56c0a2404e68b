"""Tools.

https://modelcontextprotocol.io/specification/2026-07-28/server/tools
"""

from __future__ import annotations

from typing import Any, Literal

from msgspec import UNSET, Raw, UnsetType, field

from carrel.wire.base import Icon, Meta, PageResult, Params, Result, Wire
from carrel.wire.content import ContentBlock, TextContent


class ToolAnnotations(Wire, kw_only=True):
    """Hints about what a tool does. They are hints: nobody should rely on those of a server they do not trust."""

    title: str | UnsetType = UNSET
    read_only_hint: bool | UnsetType = UNSET
    destructive_hint: bool | UnsetType = UNSET
    idempotent_hint: bool | UnsetType = UNSET
    open_world_hint: bool | UnsetType = UNSET


class ToolExecution(Wire, kw_only=True):
    """How a tool may be called (2025-11-25)."""

    task_support: Literal["forbidden", "optional", "required"] | UnsetType = UNSET


class Tool(Wire, kw_only=True):
    """A tool as it is listed. The schemas are JSON Schema, 2020-12 unless ``$schema`` says otherwise."""

    name: str
    title: str | UnsetType = UNSET
    description: str | UnsetType = UNSET
    input_schema: dict[str, Any]
    output_schema: dict[str, Any] | UnsetType = UNSET
    annotations: ToolAnnotations | UnsetType = UNSET
    execution: ToolExecution | UnsetType = UNSET
    icons: list[Icon] | UnsetType = UNSET
    meta: Meta | UnsetType = field(default=UNSET, name="_meta")


class ListToolsResult(PageResult, kw_only=True):
    tools: list[Tool]


class TaskRequest(Wire, kw_only=True):
    """The wish of a client of 2025-11-25 that a call becomes a task. ``ttl`` is in milliseconds."""

    ttl: int | UnsetType = UNSET


class CallToolParams(Params, kw_only=True):
    name: str
    arguments: Raw | UnsetType = UNSET
    task: TaskRequest | UnsetType = UNSET
    input_responses: Raw | UnsetType = UNSET
    request_state: str | UnsetType = UNSET


class CallToolResult(Result, kw_only=True):
    """What a tool gave back: content for the model, and optionally the same as structured data.

    ``is_error`` says that the tool failed in a way the model may be able to mend.
    """

    content: list[ContentBlock]
    structured_content: Any = UNSET
    is_error: bool | UnsetType = UNSET

    @property
    def text(self) -> str:
        """The texts of the content, joined by line ends, without pictures, sound and resources."""
        return "\n".join(block.text for block in self.content if isinstance(block, TextContent))
