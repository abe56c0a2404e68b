"""What a server may ask of a client: elicitation, sampling, roots.

https://modelcontextprotocol.io/specification/2026-07-28/client/elicitation
https://modelcontextprotocol.io/specification/2026-07-28/client/sampling
https://modelcontextprotocol.io/specification/2026-07-28/client/roots
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, TypeAlias

from msgspec import UNSET, UnsetType, field

from carrel.wire.base import Meta, Result, Role, Wire
from carrel.wire.content import AudioContent, ContentBlock, ImageContent, TextContent
from carrel.wire.tools import Tool


class ElicitParams(Wire, kw_only=True):
    """Parameters of elicitation/create: a form (``requested_schema``) or a page to visit (``mode`` "url")."""

    meta: Meta | UnsetType = field(default=UNSET, name="_meta")
    mode: Literal["form", "url"] | UnsetType = UNSET
    message: str
    requested_schema: dict[str, Any] | UnsetType = UNSET
    url: str | UnsetType = UNSET
    elicitation_id: str | UnsetType = UNSET


class ElicitResult(Wire, kw_only=True):
    """What the user did: accept (with ``content``, for a form), decline, or cancel."""

    action: Literal["accept", "decline", "cancel"]
    content: dict[str, Any] | UnsetType = UNSET
    meta: Meta | UnsetType = field(default=UNSET, name="_meta")


class ToolUseContent(Wire, tag_field="type", tag="tool_use"):
    """The model wants a tool called."""

    id: str
    name: str
    input: dict[str, Any]
    meta: Meta | UnsetType = field(default=UNSET, name="_meta")


class ToolResultContent(Wire, tag_field="type", tag="tool_result"):
    """What a tool gave back, for the model."""

    tool_use_id: str
    content: list[ContentBlock]
    structured_content: Any = UNSET
    is_error: bool | UnsetType = UNSET
    meta: Meta | UnsetType = field(default=UNSET, name="_meta")


SamplingContent: TypeAlias = TextContent | ImageContent | AudioContent | ToolUseContent | ToolResultContent


class SamplingMessage(Wire):
    """One message of a conversation with a model."""

    role: Role
    content: SamplingContent | list[SamplingContent]
    meta: Meta | UnsetType = field(default=UNSET, name="_meta")


def blocks_of(message: SamplingMessage) -> list[SamplingContent]:
    """Return the content of a message as a list."""
    return message.content if isinstance(message.content, list) else [message.content]


def find_imbalance(messages: Sequence[SamplingMessage]) -> Literal["mixed", "missing", "open"] | None:
    """Say what is wrong with the uses and results of tools in a conversation; None if nothing is.

    "mixed": results stand beside other content; "missing": a use is not followed by its result, or a result comes by
    itself; "open": the last message uses tools.

    https://modelcontextprotocol.io/specification/2026-07-28/client/sampling#tool-use-and-result-balance
    """
    wanted: set[str] = set()
    for message in messages:
        blocks = blocks_of(message)
        results = {block.tool_use_id for block in blocks if isinstance(block, ToolResultContent)}
        if results and not all(isinstance(block, ToolResultContent) for block in blocks):
            return "mixed"
        if results != wanted:
            return "missing"
        wanted = {block.id for block in blocks if isinstance(block, ToolUseContent)}
    return "open" if wanted else None


class ModelHint(Wire, kw_only=True):
    name: str | UnsetType = UNSET


class ModelPreferences(Wire, kw_only=True):
    """What matters when a model is chosen; the priorities run from 0 to 1."""

    hints: list[ModelHint] | UnsetType = UNSET
    cost_priority: float | UnsetType = UNSET
    speed_priority: float | UnsetType = UNSET
    intelligence_priority: float | UnsetType = UNSET


class ToolChoice(Wire, kw_only=True):
    mode: Literal["auto", "required", "none"] | UnsetType = UNSET


class CreateMessageParams(Wire, kw_only=True):
    """Parameters of sampling/createMessage."""

    meta: Meta | UnsetType = field(default=UNSET, name="_meta")
    messages: list[SamplingMessage]
    model_preferences: ModelPreferences | UnsetType = UNSET
    system_prompt: str | UnsetType = UNSET
    include_context: Literal["none", "thisServer", "allServers"] | UnsetType = UNSET
    temperature: float | UnsetType = UNSET
    max_tokens: int
    stop_sequences: list[str] | UnsetType = UNSET
    metadata: dict[str, Any] | UnsetType = UNSET
    tools: list[Tool] | UnsetType = UNSET
    tool_choice: ToolChoice | UnsetType = UNSET


SampledContent: TypeAlias = TextContent | ImageContent | AudioContent | ToolUseContent


class CreateMessageResult(Wire, kw_only=True):
    """What the model said. ``stop_reason`` is such as "endTurn", "maxTokens" or "toolUse"."""

    role: Role
    content: SampledContent | list[SampledContent]
    model: str
    stop_reason: str | UnsetType = UNSET
    meta: Meta | UnsetType = field(default=UNSET, name="_meta")

    @property
    def text(self) -> str:
        """The text of the answer, without pictures, sound and tool uses."""
        blocks = self.content if isinstance(self.content, list) else [self.content]
        return "".join(block.text for block in blocks if isinstance(block, TextContent))


class Root(Wire, kw_only=True):
    """A directory or file that the client lets servers work on."""

    uri: str
    name: str | UnsetType = UNSET
    meta: Meta | UnsetType = field(default=UNSET, name="_meta")


class ListRootsParams(Wire, kw_only=True):
    """Parameters of roots/list: none but the metadata."""

    meta: Meta | UnsetType = field(default=UNSET, name="_meta")


class ListRootsResult(Wire, kw_only=True):
    roots: list[Root]
    meta: Meta | UnsetType = field(default=UNSET, name="_meta")


class InputRequest(Wire, kw_only=True):
    """A question within an ``InputRequiredResult``."""

    method: str
    params: Any = UNSET


class InputRequiredResult(Result, kw_only=True):
    """More is needed before the request can be answered (2026-07-28).

    https://modelcontextprotocol.io/specification/2026-07-28/basic/patterns/mrtr
    """

    input_requests: dict[str, InputRequest] | UnsetType = UNSET
    request_state: str | UnsetType = UNSET


class ElicitationCompleteParams(Wire, kw_only=True):
    """Parameters of notifications/elicitation/complete (2025-11-25)."""

    elicitation_id: str
