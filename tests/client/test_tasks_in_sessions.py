"""Tasks of 2025-11-25: when a call becomes one, how it is followed, and how it is ended."""

from __future__ import annotations

import asyncio
import contextlib
from typing import Any

import pytest

from carrel.client.handlers import Handlers
from carrel.errors import MCPError
from support.scripted_server import CAPABILITIES, Partner, connected, in_turn, silence
from support.server_connection import JUNE, NOVEMBER

pytestmark = [pytest.mark.requirement, pytest.mark.slow]


RELATED = "io.modelcontextprotocol/related-task"
TASKS = {**CAPABILITIES, "tasks": {"list": {}, "cancel": {}, "requests": {"tools": {"call": {}}}}}
WORKING = {
    "taskId": "the-task",
    "status": "working",
    "createdAt": "2025-11-25T10:00:00Z",
    "lastUpdatedAt": "2025-11-25T10:00:00Z",
    "ttl": 60000,
    "pollInterval": 50,
}
DONE = {"content": [{"type": "text", "text": "done"}], "_meta": {RELATED: {"taskId": "the-task"}}}


def tool(support: str | None) -> dict[str, Any]:
    execution = {} if support is None else {"execution": {"taskSupport": support}}
    return {"tools": [{"name": "t", "inputSchema": {"type": "object"}, **execution}]}


def with_tasks(support: str | None, capabilities: Any = TASKS, revision: str = NOVEMBER, **answers: Any) -> Partner:
    def call(message: dict[str, Any]) -> dict[str, Any]:
        return {"task": WORKING} if "task" in message["params"] else DONE

    usual = {"tools/list": tool(support), "tools/call": call, "tasks/result": DONE, "tasks/get": WORKING}
    return Partner(revision, {**usual, **answers}, capabilities=capabilities)


def wished(partner: Partner) -> list[bool]:
    return ["task" in message["params"] for message in partner.sent_of("tools/call")]


@pytest.mark.parametrize("listed", [False, True])
@pytest.mark.parametrize(
    ("support", "as_task", "plainly"),
    [(None, False, False), ("forbidden", False, False), ("optional", True, False), ("required", True, True)],
)
async def test_a_call_is_a_task_as_the_tool_says(
    support: str | None, as_task: bool, plainly: bool, listed: bool
) -> None:
    partner = with_tasks(support)
    async with connected(partner) as client:
        if listed:
            _ = await client.list_tools()
        assert (await (await client.tasks.start_tool("t")).result()).content
        assert (await client.call_tool("t")).content
    assert wished(partner) == [as_task, plainly]


@pytest.mark.parametrize(
    "capabilities", [CAPABILITIES, {**TASKS, "tasks": {}}, {**TASKS, "tasks": {"requests": {"tools": {}}}}]
)
async def test_a_server_that_does_not_declare_tasks_of_tools_is_asked_for_none(capabilities: Any) -> None:
    partner = with_tasks("required", capabilities)
    async with connected(partner) as client:
        _ = await client.list_tools()
        assert (await (await client.tasks.start_tool("t")).result()).content
        assert (await client.call_tool("t")).content
    assert wished(partner) == [False, False]


async def test_other_revisions_have_no_tasks() -> None:
    partner = with_tasks("required", revision=JUNE)
    async with connected(partner) as client:
        _ = await client.list_tools()
        assert (await client.call_tool("t")).content
    assert wished(partner) == [False]
    assert not [message for message in partner.sent if message.get("method", "").startswith("tasks/")]


async def test_a_task_is_followed_without_notifications() -> None:
    states = in_turn(WORKING, {**WORKING, "status": "completed"})
    partner = with_tasks("optional", **{"tasks/get": states})
    async with connected(partner) as client:
        task = await client.tasks.start_tool("t")
        async with asyncio.timeout(60):
            seen = [status async for status in task]
        assert seen == ["working", "completed"]
        assert (await task.result()).content
    for message in partner.sent_of("tasks/get") + partner.sent_of("tasks/result"):
        assert message["params"] == {"taskId": "the-task"}


async def test_a_task_is_cancelled_as_a_task() -> None:
    cancelled = {**WORKING, "status": "cancelled"}
    partner = with_tasks("required", **{"tasks/result": silence, "tasks/cancel": cancelled})
    async with connected(partner) as client:
        _ = await client.list_tools()
        call = asyncio.create_task(client.call_tool("t"))
        await partner.until("tasks/result")
        call.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await call
        message = await partner.until("tasks/cancel")
        assert message["params"] == {"taskId": "the-task"}
        called = partner.sent_of("tools/call")[0]["id"]
        assert called not in [each["params"]["requestId"] for each in partner.sent_of("notifications/cancelled")]
        task = await client.tasks.start_tool("t")
        await task.cancel()
        assert task.status == "cancelled"


async def test_a_task_whose_start_is_cancelled_is_cancelled_once_it_is_announced() -> None:
    partner = with_tasks("required", **{"tools/call": silence, "tasks/cancel": {**WORKING, "status": "cancelled"}})
    async with connected(partner) as client:
        call = asyncio.create_task(client.tasks.start_tool("t"))
        called = (await partner.until("tools/call"))["id"]
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        await client.ping()
        partner.answer(called, {"task": WORKING})
        assert (await partner.until("tasks/cancel"))["params"] == {"taskId": "the-task"}
    assert called not in [each["params"]["requestId"] for each in partner.sent_of("notifications/cancelled")]


async def test_the_answer_to_a_question_of_a_task_says_whose_it_is() -> None:
    async def fill_in(_: Any) -> dict[str, Any]:
        return {}

    partner = with_tasks("optional")
    async with connected(partner, handlers=Handlers(elicit_form=fill_in, roots=[])) as client:
        await client.ping()
        related = {"_meta": {RELATED: {"taskId": "the-task"}}}
        form = {"message": "?", "requestedSchema": {"type": "object", "properties": {}}, **related}
        for number, (method, params) in enumerate((("elicitation/create", form), ("roots/list", related)), start=1):
            partner.ask(method, params, number)
            message = await partner.until(None, number)
            assert message["result"]["_meta"] == {RELATED: {"taskId": "the-task"}}


async def test_tasks_are_not_declared_for_questions_and_a_wish_for_one_is_ignored() -> None:
    partner = with_tasks("optional")
    async with connected(partner, handlers=Handlers(sample=lambda _: asyncio.sleep(0, "Paris"))) as client:
        await client.ping()
        assert "tasks" not in partner.sent_of("initialize")[0]["params"]["capabilities"]
        text = {"role": "user", "content": {"type": "text", "text": "?"}}
        partner.ask("sampling/createMessage", {"messages": [text], "maxTokens": 1, "task": {"ttl": 5}})
        assert (await partner.until(None))["result"]["content"]["text"] == "Paris"
        for number, method in enumerate(("tasks/get", "tasks/list", "tasks/result", "tasks/cancel"), start=2):
            partner.ask(method, {"taskId": "x"}, number)
            assert (await partner.until(None, number))["error"]["code"] == -32601


async def test_an_error_of_the_call_is_that_of_the_task() -> None:
    partner = with_tasks("required", **{"tasks/result": {"error": {"code": -32602, "message": "no such city"}}})
    async with connected(partner) as client:
        _ = await client.list_tools()
        with pytest.raises(MCPError, match="no such city"):
            await client.call_tool("t")
