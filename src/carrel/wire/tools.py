"""Tools, tool calls and their results.

https://modelcontextprotocol.io/specification/2026-07-28/server/tools
"""

from __future__ import annotations

from typing import Any, Literal

from msgspec import UNSET, Raw, UnsetType, field

from carrel.wire.base import Icon, Meta, PageResult, Params, Result, Wire
from carrel.wire.content import ContentBlock, TextContent


class ToolAnnotations(Wire, kw_only=True):
    """Hints about the behaviour of a tool. Not to be relied on if the server is not trusted."""

    title: str | None = None
    read_only_hint: bool | None = None
    destructive_hint: bool | None = None
    idempotent_hint: bool | None = None
    open_world_hint: bool | None = None


class ToolExecution(Wire, kw_only=True):
    """Execution properties of a tool: whether calls may be tasks (2025-11-25)."""

    task_support: Literal["forbidden", "optional", "required"] | None = None


class Tool(Wire, kw_only=True):
    """A tool in a list. The schemas are JSON Schema, 2020-12 unless ``$schema`` says otherwise."""

    name: str
    title: str | None = None
    description: str | None = None
    input_schema: dict[str, Any]
    output_schema: dict[str, Any] | None = None
    annotations: ToolAnnotations | None = None
    execution: ToolExecution | None = None
    icons: list[Icon] | None = None
    meta: Meta | None = field(default=None, name="_meta")


class ListToolsResult(PageResult, kw_only=True):
    tools: list[Tool]


class TaskMetadata(Wire, kw_only=True):
    """Request of a client of 2025-11-25 that a call becomes a task. ``ttl`` is in milliseconds."""

    ttl: int | None = None


class CallToolParams(Params, kw_only=True):
    name: str
    arguments: Raw | UnsetType = UNSET
    task: TaskMetadata | None = None
    input_responses: Raw | UnsetType = UNSET
    request_state: str | None = None


class CallToolResult(Result, kw_only=True):
    """Result of a tool call: content for the model, and optionally the same as structured data.

    ``is_error``: the tool failed in a way that the model may be able to correct.
    """

    content: list[ContentBlock]
    structured_content: Any = UNSET  # null is a result too: of a tool that returns nothing
    is_error: bool | None = None

    @property
    def text(self) -> str:
        """The text content, joined by line feeds, without images, audio and resources."""
        return "\n".join(block.text for block in self.content if isinstance(block, TextContent))
