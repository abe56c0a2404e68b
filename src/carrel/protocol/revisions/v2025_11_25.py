"""2025-11-25: icons, streams that a server may close and a client may poll, tasks (experimental).

https://modelcontextprotocol.io/specification/2025-11-25/changelog
"""

from typing import Any

import msgspec

from carrel.protocol.methods import (
    CANCEL_TASK,
    ELICIT,
    ELICITATION_COMPLETE,
    FETCH_TASK_RESULT,
    GET_TASK,
    LIST_TASKS,
    SAMPLE,
    TASK_STATUS,
)
from carrel.protocol.revision import without
from carrel.protocol.revisions import v2025_06_18
from carrel.wire.base import ClientCapabilities, Implementation
from carrel.wire.client_features import (
    CreateMessageParams,
    CreateMessageResult,
    ElicitParams,
    SamplingMessage,
    ToolUseContent,
)
from carrel.wire.content import ResourceLink, TextContent
from carrel.wire.lifecycle import ServerCapabilities
from carrel.wire.prompts import Prompt
from carrel.wire.resources import Resource, ResourceTemplate
from carrel.wire.tools import CallToolParams, Tool

PREVIOUS = v2025_06_18.REVISION
TASKS = (GET_TASK, FETCH_TASK_RESULT, LIST_TASKS, CANCEL_TASK)
EVENTS = (ELICITATION_COMPLETE, TASK_STATUS)


def one_block_each(params: CreateMessageParams) -> CreateMessageParams:
    """Downgrade a sampling request: one content block per message, and no tools."""
    messages = [
        SamplingMessage(message.role, block)
        for message in params.messages
        for block in (message.content if isinstance(message.content, list) else [message.content])
    ]
    return msgspec.structs.replace(params, messages=messages, tools=None, tool_choice=None)


def one_block(result: CreateMessageResult) -> CreateMessageResult:
    """Downgrade a sampling result to one block without tool use: all its text, or else the first image or audio."""
    if not isinstance(result.content, list | ToolUseContent):
        return result
    blocks = result.content if isinstance(result.content, list) else []
    others = [block for block in blocks if not isinstance(block, TextContent | ToolUseContent)]
    return msgspec.structs.replace(
        result, content=others[0] if others and not result.text else TextContent(result.text)
    )


def plain_capabilities(capabilities: ClientCapabilities) -> ClientCapabilities:
    """Downgrade client capabilities: form elicitation only, no sampling sub-capabilities, no tasks."""
    forms = capabilities.elicitation is not None and (
        not capabilities.elicitation or "form" in capabilities.elicitation
    )
    return msgspec.structs.replace(
        capabilities,
        elicitation={} if forms else None,
        sampling=None if capabilities.sampling is None else {},
        tasks=None,
    )


def plain_form(params: ElicitParams) -> ElicitParams:
    """Downgrade an elicitation form: plain enums or ``enumNames``, and defaults for booleans only."""
    if params.requested_schema is None:
        return params
    schema = {key: value for key, value in params.requested_schema.items() if key != "$schema"}
    schema["properties"] = {name: plain_field(field) for name, field in schema["properties"].items()}
    return ElicitParams(meta=params.meta, message=params.message, requested_schema=schema)


def plain_field(field: dict[str, Any]) -> dict[str, Any]:
    plain = {key: value for key, value in field.items() if key != "default" or field.get("type") == "boolean"}
    if "oneOf" in plain:
        choices = plain.pop("oneOf")
        plain["enum"] = [choice["const"] for choice in choices]
        plain["enumNames"] = [choice.get("title", choice["const"]) for choice in choices]
    return plain


REVISION = PREVIOUS.followed_by(
    "2025-11-25",
    requests={**PREVIOUS.requests, **{row.method: row for row in TASKS}},
    events={**PREVIOUS.events, **{row.operation: row for row in EVENTS}},
    server_requests={
        **PREVIOUS.server_requests,
        "elicit_page": ELICIT,
        "elicit_several": ELICIT,
        "sample_with_tools": SAMPLE,
    },
    primed=True,
    pkce_advertised=True,
    anonymous_errors=True,
    argument_errors_in_results=True,
    before={
        CallToolParams: without("task"),
        ClientCapabilities: plain_capabilities,
        CreateMessageParams: one_block_each,
        CreateMessageResult: one_block,
        ElicitParams: plain_form,
        Implementation: without("description", "icons", "website_url"),
        Resource: without("icons"),
        ResourceLink: without("icons"),
        ResourceTemplate: without("icons"),
        ServerCapabilities: without("tasks"),
        Tool: without("icons", "execution"),
        Prompt: without("icons"),
    },
)
