"""Sampling, elicitation and roots."""

from typing import Any, Literal, TypeAlias

from pydantic import Field, FileUrl

from carrel.compat.mcp.types.base import Model, Notification, NotificationParams, Request, RequestParams, Result, Role
from carrel.compat.mcp.types.server_features import AudioContent, ContentBlock, ImageContent, TextContent, Tool

IncludeContext = Literal["none", "thisServer", "allServers"]
StopReason = Literal["endTurn", "stopSequence", "maxTokens", "toolUse"] | str
ElicitRequestedSchema: TypeAlias = dict[str, Any]


class ToolUseContent(Model):
    """Use of a tool by a model (sampling)."""

    type: Literal["tool_use"]
    name: str
    id: str
    input: dict[str, Any]
    meta: dict[str, Any] | None = Field(alias="_meta", default=None)


class ToolResultContent(Model):
    """Result of the use of a tool, for a model (sampling)."""

    type: Literal["tool_result"]
    toolUseId: str
    content: list["ContentBlock"] = Field(default=[])
    structuredContent: dict[str, Any] | None = None
    isError: bool | None = None
    meta: dict[str, Any] | None = Field(alias="_meta", default=None)


SamplingMessageContentBlock: TypeAlias = TextContent | ImageContent | AudioContent | ToolUseContent | ToolResultContent
SamplingContent: TypeAlias = TextContent | ImageContent | AudioContent


class SamplingMessage(Model):
    """Message of a sampling conversation."""

    role: Role
    content: SamplingMessageContentBlock | list[SamplingMessageContentBlock]
    meta: dict[str, Any] | None = Field(alias="_meta", default=None)

    @property
    def content_as_list(self) -> list[SamplingMessageContentBlock]:
        """The content as a list."""
        return self.content if isinstance(self.content, list) else [self.content]


class ModelHint(Model):
    """Hint for the choice of a model."""

    name: str | None = None


class ModelPreferences(Model):
    """Preferences for the choice of a model."""

    hints: list[ModelHint] | None = None
    costPriority: float | None = None
    speedPriority: float | None = None
    intelligencePriority: float | None = None


class ToolChoice(Model):
    """Choice between tools and text (sampling)."""

    mode: Literal["auto", "required", "none"] | None = None


class CreateMessageRequestParams(RequestParams):
    """Parameters of sampling/createMessage."""

    messages: list[SamplingMessage]
    modelPreferences: ModelPreferences | None = None
    systemPrompt: str | None = None
    includeContext: IncludeContext | None = None
    temperature: float | None = None
    maxTokens: int
    stopSequences: list[str] | None = None
    metadata: dict[str, Any] | None = None
    tools: list["Tool"] | None = None
    toolChoice: ToolChoice | None = None


class CreateMessageRequest(Request[CreateMessageRequestParams, Literal["sampling/createMessage"]]):
    """Request sampling/createMessage."""

    method: Literal["sampling/createMessage"] = "sampling/createMessage"
    params: CreateMessageRequestParams


class CreateMessageResult(Result):
    """Result of sampling/createMessage."""

    role: Role
    content: SamplingContent
    model: str
    stopReason: StopReason | None = None


class CreateMessageResultWithTools(Result):
    """Result of sampling/createMessage with tools."""

    role: Role
    content: SamplingMessageContentBlock | list[SamplingMessageContentBlock]
    model: str
    stopReason: StopReason | None = None

    @property
    def content_as_list(self) -> list[SamplingMessageContentBlock]:
        """The content as a list."""
        return self.content if isinstance(self.content, list) else [self.content]


class ListRootsRequest(Request[RequestParams | None, Literal["roots/list"]]):
    """Request roots/list."""

    method: Literal["roots/list"] = "roots/list"
    params: RequestParams | None = None


class Root(Model):
    """Root of a client."""

    uri: FileUrl
    name: str | None = None
    meta: dict[str, Any] | None = Field(alias="_meta", default=None)


class ListRootsResult(Result):
    """Result of roots/list."""

    roots: list[Root]


class RootsListChangedNotification(
    Notification[NotificationParams | None, Literal["notifications/roots/list_changed"]]
):
    """Notification notifications/roots/list_changed."""

    method: Literal["notifications/roots/list_changed"] = "notifications/roots/list_changed"
    params: NotificationParams | None = None


class ElicitCompleteNotificationParams(NotificationParams):
    """Parameters of notifications/elicitation/complete."""

    elicitationId: str


class ElicitCompleteNotification(
    Notification[ElicitCompleteNotificationParams, Literal["notifications/elicitation/complete"]]
):
    """Notification notifications/elicitation/complete."""

    method: Literal["notifications/elicitation/complete"] = "notifications/elicitation/complete"
    params: ElicitCompleteNotificationParams


class ElicitRequestFormParams(RequestParams):
    """Parameters of elicitation/create in form mode."""

    mode: Literal["form"] = "form"
    message: str
    requestedSchema: ElicitRequestedSchema


class ElicitRequestURLParams(RequestParams):
    """Parameters of elicitation/create in URL mode."""

    mode: Literal["url"] = "url"
    message: str
    url: str
    elicitationId: str


ElicitRequestParams: TypeAlias = ElicitRequestURLParams | ElicitRequestFormParams


class ElicitRequest(Request[ElicitRequestParams, Literal["elicitation/create"]]):
    """Request elicitation/create."""

    method: Literal["elicitation/create"] = "elicitation/create"
    params: ElicitRequestParams


class ElicitResult(Result):
    """Result of elicitation/create."""

    action: Literal["accept", "decline", "cancel"]
    content: dict[str, str | int | float | bool | list[str] | None] | None = None


class ElicitationRequiredErrorData(Model):
    """Data of the error that URL elicitations are required."""

    elicitations: list[ElicitRequestURLParams]
