"""2025-11-25: icons, streams that a server may end and a client may poll, tasks (experimental).

https://modelcontextprotocol.io/specification/2025-11-25/changelog
"""

from typing import Any

import msgspec
from msgspec import UNSET

from carrel.protocol.revision import Request, without
from carrel.protocol.revisions import v2025_06_18
from carrel.wire.asking import CreateMessageParams, ElicitParams, SamplingMessage
from carrel.wire.base import Implementation
from carrel.wire.content import ResourceLink
from carrel.wire.lifecycle import ServerCapabilities
from carrel.wire.prompts import Prompt
from carrel.wire.resources import Resource, ResourceTemplate
from carrel.wire.tasks import ListTasksParams, TaskParams
from carrel.wire.tools import Tool

PREVIOUS = v2025_06_18.REVISION
TASKS = (
    Request("tasks/get", "get_task", TaskParams),
    Request("tasks/result", "fetch_task_result", TaskParams),
    Request("tasks/list", "list_tasks", ListTasksParams),
    Request("tasks/cancel", "cancel_task", TaskParams),
)


def one_block_each(params: CreateMessageParams) -> CreateMessageParams:
    """A message held one block, and models were not given tools."""
    messages = [
        SamplingMessage(message.role, block)
        for message in params.messages
        for block in (message.content if isinstance(message.content, list) else [message.content])
    ]
    return msgspec.structs.replace(params, messages=messages, tools=UNSET, tool_choice=UNSET)


def plain_form(params: ElicitParams) -> ElicitParams:
    """Choices were plain or had ``enumNames``, and only yes-or-no fields had defaults."""
    if params.requested_schema is UNSET:
        return params
    schema = {key: value for key, value in params.requested_schema.items() if key != "$schema"}
    schema["properties"] = {name: plain_field(field) for name, field in schema["properties"].items()}
    return ElicitParams(message=params.message, requested_schema=schema)


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
    events={
        **PREVIOUS.events,
        "elicitation_complete": "notifications/elicitation/complete",
        "task_status": "notifications/tasks/status",
    },
    questions={
        **PREVIOUS.questions,
        "elicit_page": "elicitation/create",
        "elicit_several": "elicitation/create",
        "sample_with_tools": "sampling/createMessage",
    },
    primed=True,
    anonymous_errors=True,
    argument_errors_in_results=True,
    before={
        CreateMessageParams: one_block_each,
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
