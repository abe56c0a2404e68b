"""Resources, prompts, tools, completion, and the content of their results."""

from typing import Any, Literal, TypeAlias

from pydantic import Field

from carrel.compat.mcp.types.base import (
    Annotations,
    BaseMetadata,
    Icon,
    Model,
    Notification,
    NotificationParams,
    PaginatedRequest,
    PaginatedResult,
    Request,
    RequestParams,
    Result,
    Role,
    Uri,
)

TaskExecutionMode = Literal["forbidden", "optional", "required"]


class ListResourcesRequest(PaginatedRequest[Literal["resources/list"]]):
    """Request resources/list."""

    method: Literal["resources/list"] = "resources/list"


class Resource(BaseMetadata):
    """Resource in a list."""

    uri: Uri
    description: str | None = None
    mimeType: str | None = None
    size: int | None = None
    icons: list[Icon] | None = None
    annotations: Annotations | None = None
    meta: dict[str, Any] | None = Field(alias="_meta", default=None)


class ResourceTemplate(BaseMetadata):
    """Resource template in a list."""

    uriTemplate: str
    description: str | None = None
    mimeType: str | None = None
    icons: list[Icon] | None = None
    annotations: Annotations | None = None
    meta: dict[str, Any] | None = Field(alias="_meta", default=None)


class ListResourcesResult(PaginatedResult):
    """Result of resources/list."""

    resources: list[Resource]


class ListResourceTemplatesRequest(PaginatedRequest[Literal["resources/templates/list"]]):
    """Request resources/templates/list."""

    method: Literal["resources/templates/list"] = "resources/templates/list"


class ListResourceTemplatesResult(PaginatedResult):
    """Result of resources/templates/list."""

    resourceTemplates: list[ResourceTemplate]


class ReadResourceRequestParams(RequestParams):
    """Parameters of resources/read."""

    uri: Uri


class ReadResourceRequest(Request[ReadResourceRequestParams, Literal["resources/read"]]):
    """Request resources/read."""

    method: Literal["resources/read"] = "resources/read"
    params: ReadResourceRequestParams


class ResourceContents(Model):
    """Contents of a resource."""

    uri: Uri
    mimeType: str | None = None
    meta: dict[str, Any] | None = Field(alias="_meta", default=None)


class TextResourceContents(ResourceContents):
    """Text contents of a resource."""

    text: str


class BlobResourceContents(ResourceContents):
    """Binary contents of a resource, in base64."""

    blob: str


class ReadResourceResult(Result):
    """Result of resources/read."""

    contents: list[TextResourceContents | BlobResourceContents]


class ResourceListChangedNotification(
    Notification[NotificationParams | None, Literal["notifications/resources/list_changed"]]
):
    """Notification notifications/resources/list_changed."""

    method: Literal["notifications/resources/list_changed"] = "notifications/resources/list_changed"
    params: NotificationParams | None = None


class SubscribeRequestParams(RequestParams):
    """Parameters of resources/subscribe."""

    uri: Uri


class SubscribeRequest(Request[SubscribeRequestParams, Literal["resources/subscribe"]]):
    """Request resources/subscribe."""

    method: Literal["resources/subscribe"] = "resources/subscribe"
    params: SubscribeRequestParams


class UnsubscribeRequestParams(RequestParams):
    """Parameters of resources/unsubscribe."""

    uri: Uri


class UnsubscribeRequest(Request[UnsubscribeRequestParams, Literal["resources/unsubscribe"]]):
    """Request resources/unsubscribe."""

    method: Literal["resources/unsubscribe"] = "resources/unsubscribe"
    params: UnsubscribeRequestParams


class ResourceUpdatedNotificationParams(NotificationParams):
    """Parameters of notifications/resources/updated."""

    uri: Uri


class ResourceUpdatedNotification(
    Notification[ResourceUpdatedNotificationParams, Literal["notifications/resources/updated"]]
):
    """Notification notifications/resources/updated."""

    method: Literal["notifications/resources/updated"] = "notifications/resources/updated"
    params: ResourceUpdatedNotificationParams


class ListPromptsRequest(PaginatedRequest[Literal["prompts/list"]]):
    """Request prompts/list."""

    method: Literal["prompts/list"] = "prompts/list"


class PromptArgument(Model):
    """Argument of a prompt."""

    name: str
    description: str | None = None
    required: bool | None = None


class Prompt(BaseMetadata):
    """Prompt in a list."""

    description: str | None = None
    arguments: list[PromptArgument] | None = None
    icons: list[Icon] | None = None
    meta: dict[str, Any] | None = Field(alias="_meta", default=None)


class ListPromptsResult(PaginatedResult):
    """Result of prompts/list."""

    prompts: list[Prompt]


class GetPromptRequestParams(RequestParams):
    """Parameters of prompts/get."""

    name: str
    arguments: dict[str, str] | None = None


class GetPromptRequest(Request[GetPromptRequestParams, Literal["prompts/get"]]):
    """Request prompts/get."""

    method: Literal["prompts/get"] = "prompts/get"
    params: GetPromptRequestParams


class TextContent(Model):
    """Text content."""

    type: Literal["text"]
    text: str
    annotations: Annotations | None = None
    meta: dict[str, Any] | None = Field(alias="_meta", default=None)


class ImageContent(Model):
    """Image content, in base64."""

    type: Literal["image"]
    data: str
    mimeType: str
    annotations: Annotations | None = None
    meta: dict[str, Any] | None = Field(alias="_meta", default=None)


class AudioContent(Model):
    """Audio content, in base64."""

    type: Literal["audio"]
    data: str
    mimeType: str
    annotations: Annotations | None = None
    meta: dict[str, Any] | None = Field(alias="_meta", default=None)


class EmbeddedResource(Model):
    """Contents of a resource in a message."""

    type: Literal["resource"]
    resource: TextResourceContents | BlobResourceContents
    annotations: Annotations | None = None
    meta: dict[str, Any] | None = Field(alias="_meta", default=None)


class ResourceLink(Resource):
    """Link to a resource."""

    type: Literal["resource_link"]


ContentBlock = TextContent | ImageContent | AudioContent | ResourceLink | EmbeddedResource
Content: TypeAlias = ContentBlock


class PromptMessage(Model):
    """Message of a prompt."""

    role: Role
    content: ContentBlock


class GetPromptResult(Result):
    """Result of prompts/get."""

    description: str | None = None
    messages: list[PromptMessage]


class PromptListChangedNotification(
    Notification[NotificationParams | None, Literal["notifications/prompts/list_changed"]]
):
    """Notification notifications/prompts/list_changed."""

    method: Literal["notifications/prompts/list_changed"] = "notifications/prompts/list_changed"
    params: NotificationParams | None = None


class ListToolsRequest(PaginatedRequest[Literal["tools/list"]]):
    """Request tools/list."""

    method: Literal["tools/list"] = "tools/list"


class ToolAnnotations(Model):
    """Hints about the behaviour of a tool."""

    title: str | None = None
    readOnlyHint: bool | None = None
    destructiveHint: bool | None = None
    idempotentHint: bool | None = None
    openWorldHint: bool | None = None


class ToolExecution(Model):
    """Execution properties of a tool."""

    taskSupport: TaskExecutionMode | None = None


class Tool(BaseMetadata):
    """Tool in a list."""

    description: str | None = None
    inputSchema: dict[str, Any]
    outputSchema: dict[str, Any] | None = None
    icons: list[Icon] | None = None
    annotations: ToolAnnotations | None = None
    meta: dict[str, Any] | None = Field(alias="_meta", default=None)
    execution: ToolExecution | None = None


class ListToolsResult(PaginatedResult):
    """Result of tools/list."""

    tools: list[Tool]


class CallToolRequestParams(RequestParams):
    """Parameters of tools/call."""

    name: str
    arguments: dict[str, Any] | None = None


class CallToolRequest(Request[CallToolRequestParams, Literal["tools/call"]]):
    """Request tools/call."""

    method: Literal["tools/call"] = "tools/call"
    params: CallToolRequestParams


class CallToolResult(Result):
    """Result of tools/call."""

    content: list[ContentBlock]
    structuredContent: dict[str, Any] | None = None
    isError: bool = False


class ToolListChangedNotification(Notification[NotificationParams | None, Literal["notifications/tools/list_changed"]]):
    """Notification notifications/tools/list_changed."""

    method: Literal["notifications/tools/list_changed"] = "notifications/tools/list_changed"
    params: NotificationParams | None = None


class ResourceTemplateReference(Model):
    """Reference to a resource template."""

    type: Literal["ref/resource"]
    uri: str


class ResourceReference(ResourceTemplateReference):
    """Older name of ``ResourceTemplateReference``."""


class PromptReference(Model):
    """Reference to a prompt."""

    type: Literal["ref/prompt"]
    name: str


class CompletionArgument(Model):
    """Argument to complete."""

    name: str
    value: str


class CompletionContext(Model):
    """Arguments that have a value already."""

    arguments: dict[str, str] | None = None


class CompleteRequestParams(RequestParams):
    """Parameters of completion/complete."""

    ref: ResourceTemplateReference | PromptReference
    argument: CompletionArgument
    context: CompletionContext | None = None


class CompleteRequest(Request[CompleteRequestParams, Literal["completion/complete"]]):
    """Request completion/complete."""

    method: Literal["completion/complete"] = "completion/complete"
    params: CompleteRequestParams


class Completion(Model):
    """Completion suggestions."""

    values: list[str]
    total: int | None = None
    hasMore: bool | None = None


class CompleteResult(Result):
    """Result of completion/complete."""

    completion: Completion
