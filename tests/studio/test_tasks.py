"""Tasks: calls that continue on their server, in both forms that tasks have had."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any, TypedDict

import pytest

from carrel import Context, Server
from support.servers.demo import JUNE, LATEST, NOVEMBER
from support.studio_page import Page, app_server, opened

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("frequent_polls")]


class Name(TypedDict):
    """Form."""

    name: str


def make_worker() -> Server:
    app = Server("worker")

    @app.tool(task="optional")
    async def endless(context: Context) -> str:
        await context.report_progress(1, 3, "one of three\x1b[2J")
        await asyncio.Event().wait()
        return "never"

    @app.tool(task="required")
    async def greet(context: Context) -> str:
        answer = await context.elicit("Who is there?", Name)
        return f"hello {answer.data['name']}"

    @app.tool(task="required")
    async def broken() -> str:
        await asyncio.sleep(0.01)
        raise ValueError("on purpose")

    @app.tool
    def quick() -> str:
        return "quick"

    return app


@pytest.fixture(params=[NOVEMBER, LATEST])
async def page(request: pytest.FixtureRequest) -> AsyncIterator[Page]:
    async with opened(app_server(make_worker()), revision=request.param) as page:
        await page.ready("worker")
        await page.listen()
        yield page


async def start(page: Page, name: str, **arguments: Any) -> dict[str, Any]:
    status, view = await page.ask("POST", "/tasks", {"server": "worker", "name": name, "arguments": arguments})
    assert status == 200, view
    assert isinstance(view, dict)
    return view


async def reached(page: Page, id: str, **members: Any) -> dict[str, Any]:
    """Return the state of a task with these members, once an event has told it."""
    event = await page.event(
        lambda event: (
            event["type"] == "task"
            and event["task"]["id"] == id
            and all(event["task"][name] == value for name, value in members.items())
        )
    )
    task: dict[str, Any] = event["task"]
    return task


async def test_a_task_tells_its_status_and_is_cancelled(page: Page) -> None:
    task = await start(page, "endless")
    assert (task["server"], task["tool"], task["status"]) == ("worker", "endless", "working")
    told = await reached(page, task["id"], message="one of three\\x1b[2J")
    assert (await page.get("/state"))["tasks"] == [told]
    assert (await page.ask("GET", f"/tasks/{task['id']}/result"))[0] == 404
    assert (await page.ask("DELETE", f"/tasks/{task['id']}"))[0] in (200, 204)
    ended = await reached(page, task["id"], status="cancelled")
    assert ended["error"] is None
    # an ended task is forgotten
    await page.ask("DELETE", f"/tasks/{task['id']}")
    await page.event(lambda event: event["type"] == "taskGone" and event["id"] == task["id"])
    assert (await page.get("/state"))["tasks"] == []
    assert (await page.ask("DELETE", f"/tasks/{task['id']}"))[0] == 404


async def test_the_question_of_a_task_is_answered_and_its_result_fetched(page: Page) -> None:
    task = await start(page, "greet")
    question = (await page.event(lambda event: event["type"] == "question"))["question"]
    assert (question["server"], question["message"]) == ("worker", "Who is there?")
    await reached(page, task["id"], status="input_required")
    await page.post(f"/questions/{question['id']}", {"action": "accept", "content": {"name": "Ada"}})
    await reached(page, task["id"], status="completed")
    assert (await page.get(f"/tasks/{task['id']}/result"))["content"][0]["text"] == "hello Ada"


async def test_a_tool_that_fails_has_a_result_that_says_so(page: Page) -> None:
    task = await start(page, "broken")
    await page.event(lambda event: event["type"] == "task" and event["task"]["status"] in ("completed", "failed"))
    assert (await page.get(f"/tasks/{task['id']}/result"))["isError"] is True


async def test_a_call_that_is_no_task_is_completed_at_once(page: Page) -> None:
    task = await start(page, "quick")
    assert task["status"] == "completed"
    assert (await page.get(f"/tasks/{task['id']}/result"))["content"][0]["text"] == "quick"


async def test_a_tool_that_does_not_exist_starts_no_task(page: Page) -> None:
    assert (await page.ask("POST", "/tasks", {"server": "worker", "name": "none"}))[0] == 502
    assert (await page.ask("POST", "/tasks", {"server": "none", "name": "none"}))[0] == 404
    assert (await page.get("/state"))["tasks"] == []


@pytest.mark.parametrize(("revision", "decides"), [(JUNE, False), (NOVEMBER, False), (LATEST, True)])
async def test_the_page_knows_whether_a_server_decides_what_becomes_a_task(revision: str, decides: bool) -> None:
    async with opened(app_server(make_worker()), revision=revision) as page:
        assert (await page.ready("worker"))["worker"]["tasks"] is decides
