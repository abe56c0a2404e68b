"""2024-11-05, the first revision. https://modelcontextprotocol.io/specification/2024-11-05"""

from carrel.protocol.revision import NotificationType, Request, Revision
from carrel.wire.base import PageParams
from carrel.wire.completion import CompleteParams, CompleteResult
from carrel.wire.lifecycle import InitializeParams, InitializeResult
from carrel.wire.prompts import GetPromptParams, GetPromptResult, ListPromptsResult
from carrel.wire.resources import (
    ListResourcesResult,
    ListResourceTemplatesResult,
    ReadResourceParams,
    ReadResourceResult,
    SubscribeParams,
)
from carrel.wire.tools import CallToolParams, CallToolResult, ListToolsResult
from carrel.wire.utilities import CancelledParams, SetLevelParams

REQUESTS = (
    Request("initialize", "initialize", InitializeParams, InitializeResult),
    Request("ping", "ping"),
    Request("resources/list", "list_resources", PageParams, ListResourcesResult, cacheable=True),
    Request(
        "resources/templates/list", "list_resource_templates", PageParams, ListResourceTemplatesResult, cacheable=True
    ),
    Request(
        "resources/read", "read_resource", ReadResourceParams, ReadResourceResult, cacheable=True, name_field="uri"
    ),
    Request("resources/subscribe", "subscribe", SubscribeParams),
    Request("resources/unsubscribe", "unsubscribe", SubscribeParams),
    Request("prompts/list", "list_prompts", PageParams, ListPromptsResult, cacheable=True),
    Request("prompts/get", "get_prompt", GetPromptParams, GetPromptResult, name_field="name"),
    Request("tools/list", "list_tools", PageParams, ListToolsResult, cacheable=True),
    Request("tools/call", "call_tool", CallToolParams, CallToolResult, name_field="name"),
    Request("logging/setLevel", "set_level", SetLevelParams),
    Request("completion/complete", "complete", CompleteParams, CompleteResult),
)

ANNOUNCEMENTS = (
    NotificationType("notifications/initialized", "initialized"),
    NotificationType("notifications/cancelled", "cancelled", CancelledParams),
    NotificationType("notifications/progress", "progress"),
    NotificationType("notifications/roots/list_changed", "roots_list_changed"),
)

REVISION = Revision(
    name="2024-11-05",
    requests={row.method: row for row in REQUESTS},
    announcements={row.method: row for row in ANNOUNCEMENTS},
    questions={"list_roots": "roots/list", "sample": "sampling/createMessage"},
    events={
        "cancelled": "notifications/cancelled",
        "message": "notifications/message",
        "progress": "notifications/progress",
        "prompts_list_changed": "notifications/prompts/list_changed",
        "resource_updated": "notifications/resources/updated",
        "resources_list_changed": "notifications/resources/list_changed",
        "tools_list_changed": "notifications/tools/list_changed",
    },
)
