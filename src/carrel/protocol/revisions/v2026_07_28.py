"""2026-07-28: stateless; discovery instead of a handshake, one listen request instead of subscriptions and GET streams.

https://modelcontextprotocol.io/specification/2026-07-28/changelog
"""

from collections.abc import Mapping

import msgspec
from msgspec import UNSET

from carrel.errors import INVALID_PARAMS
from carrel.protocol.methods import (
    CANCEL_TASK,
    CANCELLED,
    DISCOVER,
    ELICITATION_COMPLETE,
    FETCH_TASK_RESULT,
    GET_TASK,
    INITIALIZE,
    LIST_TASKS,
    LISTEN,
    PING,
    SET_LEVEL,
    SUBSCRIBE,
    SUBSCRIPTION_ACKNOWLEDGED,
    TASK_STATUS,
    UNSUBSCRIBE,
)
from carrel.protocol.revision import Downgrade, without
from carrel.protocol.revisions import v2025_11_25
from carrel.wire.base import ClientCapabilities
from carrel.wire.client_features import ElicitResult, ListRootsResult
from carrel.wire.completion import CompleteResult
from carrel.wire.lifecycle import DiscoverResult, InitializeResult, ServerCapabilities
from carrel.wire.prompts import GetPromptParams, GetPromptResult, ListPromptsResult
from carrel.wire.resources import (
    ListResourcesResult,
    ListResourceTemplatesResult,
    ReadResourceParams,
    ReadResourceResult,
)
from carrel.wire.tools import CallToolParams, CallToolResult, ListToolsResult, Tool

REMOVED = (
    *(INITIALIZE, PING, SET_LEVEL, SUBSCRIBE, UNSUBSCRIBE),
    *(GET_TASK, FETCH_TASK_RESULT, LIST_TASKS, CANCEL_TASK),
)
REMOVED_EVENTS = (ELICITATION_COMPLETE, TASK_STATUS)
ADDED = (DISCOVER, LISTEN)
PREVIOUS = v2025_11_25.REVISION


def structured_as_object(result: CallToolResult) -> CallToolResult:
    """Downgrade a tool result: structured content had to be an object, and results had no ``resultType``."""
    if result.structured_content is not UNSET and not isinstance(result.structured_content, dict):
        result = msgspec.structs.replace(result, structured_content=UNSET)
    return result if result.result_type is UNSET else msgspec.structs.replace(result, result_type=UNSET)


def output_as_object(tool: Tool) -> Tool:
    """Downgrade a tool: an output schema had to describe an object."""
    if tool.output_schema is not None and tool.output_schema.get("type") != "object":
        return msgspec.structs.replace(tool, output_schema=None)
    return tool


def fewer_capabilities(capabilities: ClientCapabilities) -> ClientCapabilities:
    """Remove the tasks capability, now an extension, and ``listChanged`` of roots, which was dropped."""
    return msgspec.structs.replace(capabilities, tasks=None, roots=None if capabilities.roots is None else {})


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
    requests={row.method: row for row in (*PREVIOUS.requests.values(), *ADDED) if row not in REMOVED},
    client_notifications={CANCELLED.method: CANCELLED},
    events={
        **{name: row for name, row in PREVIOUS.events.items() if row not in REMOVED_EVENTS},
        SUBSCRIPTION_ACKNOWLEDGED.operation: SUBSCRIPTION_ACKNOWLEDGED,
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
