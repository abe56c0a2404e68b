"""Client features that servers may request: elicitation, sampling, roots; and input requests (MRTR).

https://modelcontextprotocol.io/specification/2026-07-28/client/elicitation
https://modelcontextprotocol.io/specification/2026-07-28/client/sampling
https://modelcontextprotocol.io/specification/2026-07-28/client/roots
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, TypeAlias, TypedDict

from msgspec import UNSET, field

from carrel.wire.base import Meta, Result, Role, Wire
from carrel.wire.content import AudioContent, ContentBlock, ImageContent, TextContent
from carrel.wire.tools import Tool


class ElicitParams(Wire, kw_only=True):
    """Parameters of elicitation/create: a form (``requested_schema``) or a URL to visit (``mode`` "url")."""

    meta: Meta | None = field(default=None, name="_meta")
    mode: Literal["form", "url"] | None = None
    message: str
    requested_schema: dict[str, Any] | None = None
    url: str | None = None
    elicitation_id: str | None = None


class ElicitResult(Wire, kw_only=True):
    """Result of an elicitation: accept (with ``content``, for a form), decline, or cancel."""

    action: Literal["accept", "decline", "cancel"]
    content: dict[str, Any] | None = None
    meta: Meta | None = field(default=None, name="_meta")


class ToolUseContent(Wire, tag_field="type", tag="tool_use"):
    """A tool call by the model (sampling)."""

    id: str
    name: str
    input: dict[str, Any]
    meta: Meta | None = field(default=None, name="_meta")


class ToolResultContent(Wire, tag_field="type", tag="tool_result"):
    """The result of a tool call, for the model (sampling)."""

    tool_use_id: str
    content: list[ContentBlock]
    structured_content: Any = UNSET  # null is a result too: of a tool that returns nothing
    is_error: bool | None = None
    meta: Meta | None = field(default=None, name="_meta")


SamplingContent: TypeAlias = TextContent | ImageContent | AudioContent | ToolUseContent | ToolResultContent


class SamplingMessage(Wire):
    """One message of a sampling conversation."""

    role: Role
    content: SamplingContent | list[SamplingContent]
    meta: Meta | None = field(default=None, name="_meta")


def blocks_of(message: SamplingMessage) -> list[SamplingContent]:
    """Return the content of a message as a list."""
    return message.content if isinstance(message.content, list) else [message.content]


def find_imbalance(messages: Sequence[SamplingMessage]) -> Literal["mixed", "missing", "open"] | None:
    """Return how tool uses and tool results of a conversation are unbalanced; None if they are balanced.

    "mixed": results are mixed with other content; "missing": a use is not followed by its result, or a result has no
    use; "open": the last message uses tools.

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
    name: str | None = None


class ModelPreferences(Wire, kw_only=True):
    """Preferences for the choice of a model; the priorities run from 0 to 1."""

    hints: list[ModelHint] | None = None
    cost_priority: float | None = None
    speed_priority: float | None = None
    intelligence_priority: float | None = None


class ToolChoice(Wire, kw_only=True):
    mode: Literal["auto", "required", "none"] | None = None


class CreateMessageParams(Wire, kw_only=True):
    """Parameters of sampling/createMessage."""

    meta: Meta | None = field(default=None, name="_meta")
    messages: list[SamplingMessage]
    model_preferences: ModelPreferences | None = None
    system_prompt: str | None = None
    include_context: Literal["none", "thisServer", "allServers"] | None = None
    temperature: float | None = None
    max_tokens: int
    stop_sequences: list[str] | None = None
    metadata: dict[str, Any] | None = None
    tools: list[Tool] | None = None
    tool_choice: ToolChoice | None = None


class SamplingDetails(TypedDict, total=False):
    """Fields of ``CreateMessageParams`` that may be left out, by keyword."""

    model_preferences: ModelPreferences | None
    system_prompt: str | None
    include_context: Literal["none", "thisServer", "allServers"] | None
    temperature: float | None
    stop_sequences: list[str] | None
    metadata: dict[str, Any] | None
    tools: list[Tool] | None
    tool_choice: ToolChoice | None


SampledContent: TypeAlias = TextContent | ImageContent | AudioContent | ToolUseContent


class CreateMessageResult(Wire, kw_only=True):
    """Result of sampling/createMessage. ``stop_reason`` is for example "endTurn", "maxTokens" or "toolUse"."""

    role: Role
    content: SampledContent | list[SampledContent]
    model: str
    stop_reason: str | None = None
    meta: Meta | None = field(default=None, name="_meta")

    @property
    def text(self) -> str:
        """The text of the message, without images, audio and tool uses."""
        blocks = self.content if isinstance(self.content, list) else [self.content]
        return "".join(block.text for block in blocks if isinstance(block, TextContent))


class Root(Wire, kw_only=True):
    """A root: a directory or file that the client exposes to servers."""

    uri: str
    name: str | None = None
    meta: Meta | None = field(default=None, name="_meta")


class ListRootsParams(Wire, kw_only=True):
    """Parameters of roots/list: only ``_meta``."""

    meta: Meta | None = field(default=None, name="_meta")


ServerRequestParams: TypeAlias = ElicitParams | CreateMessageParams | ListRootsParams
"""Parameters of a request of a server to its client."""


class ListRootsResult(Wire, kw_only=True):
    roots: list[Root]
    meta: Meta | None = field(default=None, name="_meta")


class InputRequest(Wire, kw_only=True):
    """A server request within an ``InputRequiredResult``."""

    method: str
    params: Any = None


class InputRequiredResult(Result, kw_only=True):
    """Intermediate result: the client has to answer input requests and retry (2026-07-28).

    https://modelcontextprotocol.io/specification/2026-07-28/basic/patterns/mrtr
    """

    input_requests: dict[str, InputRequest] | None = None
    request_state: str | None = None


class ElicitationCompleteParams(Wire, kw_only=True):
    """Parameters of notifications/elicitation/complete (2025-11-25)."""

    elicitation_id: str
