"""Unions of all requests, notifications and results, by side."""

from typing import TypeAlias

from pydantic import RootModel

from carrel.compat.mcp.types.base import (
    EmptyResult,
)
from carrel.compat.mcp.types.client_features import (
    CreateMessageRequest,
    CreateMessageResult,
    CreateMessageResultWithTools,
    ElicitCompleteNotification,
    ElicitRequest,
    ElicitResult,
    ListRootsRequest,
    ListRootsResult,
    RootsListChangedNotification,
)
from carrel.compat.mcp.types.lifecycle import (
    CancelledNotification,
    InitializedNotification,
    InitializeRequest,
    InitializeResult,
    LoggingMessageNotification,
    PingRequest,
    ProgressNotification,
    SetLevelRequest,
)
from carrel.compat.mcp.types.server_features import (
    CallToolRequest,
    CallToolResult,
    CompleteRequest,
    CompleteResult,
    GetPromptRequest,
    GetPromptResult,
    ListPromptsRequest,
    ListPromptsResult,
    ListResourcesRequest,
    ListResourcesResult,
    ListResourceTemplatesRequest,
    ListResourceTemplatesResult,
    ListToolsRequest,
    ListToolsResult,
    PromptListChangedNotification,
    ReadResourceRequest,
    ReadResourceResult,
    ResourceListChangedNotification,
    ResourceUpdatedNotification,
    SubscribeRequest,
    ToolListChangedNotification,
    UnsubscribeRequest,
)
from carrel.compat.mcp.types.tasks import (
    CancelTaskRequest,
    CancelTaskResult,
    CreateTaskResult,
    GetTaskPayloadRequest,
    GetTaskPayloadResult,
    GetTaskRequest,
    GetTaskResult,
    ListTasksRequest,
    ListTasksResult,
    TaskStatusNotification,
)

ClientRequestType: TypeAlias = (
    PingRequest
    | InitializeRequest
    | CompleteRequest
    | SetLevelRequest
    | GetPromptRequest
    | ListPromptsRequest
    | ListResourcesRequest
    | ListResourceTemplatesRequest
    | ReadResourceRequest
    | SubscribeRequest
    | UnsubscribeRequest
    | CallToolRequest
    | ListToolsRequest
    | GetTaskRequest
    | GetTaskPayloadRequest
    | ListTasksRequest
    | CancelTaskRequest
)


class ClientRequest(RootModel[ClientRequestType]):
    """Any request of a client."""


ClientNotificationType: TypeAlias = (
    CancelledNotification
    | ProgressNotification
    | InitializedNotification
    | RootsListChangedNotification
    | TaskStatusNotification
)


class ClientNotification(RootModel[ClientNotificationType]):
    """Any notification of a client."""


ClientResultType: TypeAlias = (
    EmptyResult
    | CreateMessageResult
    | CreateMessageResultWithTools
    | ListRootsResult
    | ElicitResult
    | GetTaskResult
    | GetTaskPayloadResult
    | ListTasksResult
    | CancelTaskResult
    | CreateTaskResult
)


class ClientResult(RootModel[ClientResultType]):
    """Any result of a client."""


ServerRequestType: TypeAlias = (
    PingRequest
    | CreateMessageRequest
    | ListRootsRequest
    | ElicitRequest
    | GetTaskRequest
    | GetTaskPayloadRequest
    | ListTasksRequest
    | CancelTaskRequest
)


class ServerRequest(RootModel[ServerRequestType]):
    """Any request of a server."""


ServerNotificationType: TypeAlias = (
    CancelledNotification
    | ProgressNotification
    | LoggingMessageNotification
    | ResourceUpdatedNotification
    | ResourceListChangedNotification
    | ToolListChangedNotification
    | PromptListChangedNotification
    | ElicitCompleteNotification
    | TaskStatusNotification
)


class ServerNotification(RootModel[ServerNotificationType]):
    """Any notification of a server."""


ServerResultType: TypeAlias = (
    EmptyResult
    | InitializeResult
    | CompleteResult
    | GetPromptResult
    | ListPromptsResult
    | ListResourcesResult
    | ListResourceTemplatesResult
    | ReadResourceResult
    | CallToolResult
    | ListToolsResult
    | GetTaskResult
    | GetTaskPayloadResult
    | ListTasksResult
    | CancelTaskResult
    | CreateTaskResult
)


class ServerResult(RootModel[ServerResultType]):
    """Any result of a server."""
