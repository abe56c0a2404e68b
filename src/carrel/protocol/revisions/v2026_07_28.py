"""2026-07-28: stateless; discovery instead of a handshake, one listen request instead of subscriptions and GET streams.

https://modelcontextprotocol.io/specification/2026-07-28/changelog
"""

from collections.abc import Mapping

import msgspec
from msgspec import UNSET

from carrel.errors import INVALID_PARAMS
from carrel.protocol.revision import Downgrade, Request, without
from carrel.protocol.revisions import v2025_11_25
from carrel.wire.base import ClientCapabilities
from carrel.wire.client_features import ElicitResult, ListRootsResult
from carrel.wire.completion import CompleteResult
from carrel.wire.lifecycle import DiscoverResult, InitializeResult, ServerCapabilities
from carrel.wire.prompts import GetPromptParams, GetPromptResult, ListPromptsResult
from carrel.wire.resources import (
    ListenParams,
    ListenResult,
    ListResourcesResult,
    ListResourceTemplatesResult,
    ReadResourceParams,
    ReadResourceResult,
)
from carrel.wire.tools import CallToolParams, CallToolResult, ListToolsResult, Tool

REMOVED = {
    *("initialize", "ping", "logging/setLevel", "resources/subscribe", "resources/unsubscribe"),
    *("tasks/get", "tasks/result", "tasks/list", "tasks/cancel"),
}
REMOVED_EVENTS = {"elicitation_complete", "task_status"}
ADDED = (
    Request("server/discover", "discover", result=DiscoverResult, cacheable=True),
    Request("subscriptions/listen", "listen", ListenParams, ListenResult),
)
PREVIOUS = v2025_11_25.REVISION


def structured_as_object(result: CallToolResult) -> CallToolResult:
    """Downgrade a tool result: structured content had to be an object, and results had no ``resultType``."""
    if result.structured_content is not UNSET and not isinstance(result.structured_content, dict):
        result = msgspec.structs.replace(result, structured_content=UNSET)
    return untyped(result)  # type: ignore[no-any-return]


def output_as_object(tool: Tool) -> Tool:
    """Downgrade a tool: an output schema had to describe an object."""
    if tool.output_schema is not UNSET and tool.output_schema.get("type") != "object":
        return msgspec.structs.replace(tool, output_schema=UNSET)
    return tool


def fewer_capabilities(capabilities: ClientCapabilities) -> ClientCapabilities:
    """Remove the tasks capability, now an extension, and ``listChanged`` of roots, which was dropped."""
    return msgspec.structs.replace(capabilities, tasks=UNSET, roots=UNSET if capabilities.roots is UNSET else {})


uninformed = without("input_responses", "request_state")
untyped = without("result_type")
uncached = without("result_type", "ttl_ms", "cache_scope")

BEFORE: Mapping[type, Downgrade] = {
    CallToolParams: uninformed,
    CallToolResult: structured_as_object,
    CompleteResult: untyped,
    DiscoverResult: uncached,
    GetPromptParams: uninformed,
    GetPromptResult: untyped,
    InitializeResult: untyped,
    ListPromptsResult: uncached,
    ListResourcesResult: uncached,
    ListResourceTemplatesResult: uncached,
    ListToolsResult: uncached,
    ReadResourceParams: uninformed,
    ReadResourceResult: uncached,
    ServerCapabilities: without("extensions"),
    Tool: output_as_object,
}

REVISION = PREVIOUS.followed_by(
    "2026-07-28",
    stateless=True,
    resumable=False,
    primed=False,
    not_found=INVALID_PARAMS,
    requests={row.method: row for row in (*PREVIOUS.requests.values(), *ADDED) if row.method not in REMOVED},
    announcements={"notifications/cancelled": PREVIOUS.announcements["notifications/cancelled"]},
    events={
        **{name: event for name, event in PREVIOUS.events.items() if name not in REMOVED_EVENTS},
        "subscription_acknowledged": "notifications/subscriptions/acknowledged",
    },
    before=BEFORE,
    drops={
        CallToolParams: without("task"),
        ClientCapabilities: fewer_capabilities,
        ElicitResult: without("meta"),
        ListRootsResult: without("meta"),
        ServerCapabilities: without("tasks"),
        Tool: without("execution"),
    },
)
