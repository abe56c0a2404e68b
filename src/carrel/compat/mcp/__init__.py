"""Mirror of the package ``mcp`` 1.x. Names are imported on first use."""

from typing import TYPE_CHECKING

from carrel.compat.lazy import lazily

TYPES = (
    "CallToolRequest",
    "ClientCapabilities",
    "ClientNotification",
    "ClientRequest",
    "ClientResult",
    "CompleteRequest",
    "CreateMessageRequest",
    "CreateMessageResult",
    "CreateMessageResultWithTools",
    "ErrorData",
    "GetPromptRequest",
    "GetPromptResult",
    "Implementation",
    "IncludeContext",
    "InitializeRequest",
    "InitializeResult",
    "InitializedNotification",
    "JSONRPCError",
    "JSONRPCRequest",
    "JSONRPCResponse",
    "ListPromptsRequest",
    "ListPromptsResult",
    "ListResourcesRequest",
    "ListResourcesResult",
    "ListToolsResult",
    "LoggingLevel",
    "LoggingMessageNotification",
    "Notification",
    "PingRequest",
    "ProgressNotification",
    "PromptsCapability",
    "ReadResourceRequest",
    "ReadResourceResult",
    "Resource",
    "ResourceUpdatedNotification",
    "ResourcesCapability",
    "RootsCapability",
    "SamplingCapability",
    "SamplingContent",
    "SamplingContextCapability",
    "SamplingMessage",
    "SamplingMessageContentBlock",
    "SamplingToolsCapability",
    "ServerCapabilities",
    "ServerNotification",
    "ServerRequest",
    "ServerResult",
    "SetLevelRequest",
    "StopReason",
    "SubscribeRequest",
    "Tool",
    "ToolChoice",
    "ToolResultContent",
    "ToolUseContent",
    "ToolsCapability",
    "UnsubscribeRequest",
)
NAMES = {
    "ClientSession": "client.session",
    "ClientSessionGroup": "client.session_group",
    "StdioServerParameters": "client.stdio",
    "stdio_client": "client.stdio",
    "ServerSession": "server.session",
    "stdio_server": "server.stdio",
    "McpError": "shared.exceptions",
    "UrlElicitationRequiredError": "shared.exceptions",
    **dict.fromkeys(TYPES, "types"),
    **{module: module for module in ("client", "server", "shared", "types")},
}

__all__ = sorted(NAMES)

if TYPE_CHECKING:
    from carrel.compat.mcp import types as types
else:
    __getattr__ = lazily(__name__, NAMES)
