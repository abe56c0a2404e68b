"""Tool calls that go on after their answer, in both forms that tasks have had."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
import pytest

from carrel import Client, Context, Server
from carrel.client.handlers import ClientCall, Form, Handlers
from carrel.client.tasks import LONGEST, SHORTEST
from carrel.errors import MethodNotFound, PeerError, TaskCancelled, TransportError
from support.servers.demo import JUNE, LATEST, NOVEMBER, served, until

pytestmark = pytest.mark.usefixtures("frequent_polls")

EVERYWHERE = pytest.mark.parametrize(
    ("way", "revision"), [(way, revision) for way in ("memory", "http") for revision in (NOVEMBER, LATEST)]
)


class Name(msgspec.Struct):
    """A form with one field."""

    name: str


def make_worker() -> Server:
    """A server whose tools take a while."""
    app = Server("worker")
    app.began = asyncio.Event()  # type: ignore[attr-defined]
    app.cancelled = asyncio.Event()  # type: ignore[attr-defined]

    @app.tool(task="required")
    async def slow(text: str) -> str:
        await asyncio.sleep(0.1)
        return f"slowly: {text}"

    @app.tool(task="required")
    async def broken() -> str:
        await asyncio.sleep(0.01)
        raise ValueError("on purpose")

    @app.tool(task="required")
    async def curious(context: Context) -> str:
        answer = await context.elicit("Who is there?", Name)
        return f"hello {answer.data.name}"

    @app.tool(task="required")
    async def endless() -> str:
        app.began.set()  # type: ignore[attr-defined]
        try:
            await asyncio.sleep(3600)
        except asyncio.CancelledError:
            app.cancelled.set()  # type: ignore[attr-defined]
            raise
        return "never"

    @app.tool()
    def quick() -> str:
        return "quick"

    return app


@EVERYWHERE
async def test_a_call_that_becomes_a_task_is_waited_for(way: str, revision: str) -> None:
    async with served(way, make_worker(), revision) as client:
        assert "slow" in [tool.name for tool in await client.list_tools()]
        assert (await client.call_tool("slow", {"text": "yes"})).content[0].text == "slowly: yes"
        assert (await client.call_tool("broken")).is_error is True


@pytest.mark.parametrize(
    ("told", "seconds"),
    [(500, 0.5), (0, SHORTEST), (-(10**400), SHORTEST), (10**6, LONGEST), (10**400, LONGEST)],
    ids=["usual", "none", "negative", "long", "endless"],
)
@pytest.mark.parametrize("revision", [NOVEMBER, LATEST])
async def test_a_task_is_asked_for_as_often_as_the_server_wants_within_bounds(
    revision: str, told: int, seconds: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("carrel.server.tasks.formats.POLL_INTERVAL", told)
    async with Client(make_worker(), revision=revision) as client:
        task = await client.tasks.start_tool("slow", {"text": "yes"})
        assert task.interval == seconds
        await task.cancel()


@pytest.mark.parametrize("task", ["optional", "required"])
@EVERYWHERE
async def test_a_tool_that_may_be_a_task_reports_its_progress(way: str, revision: str, task: Any) -> None:
    app, seen = Server("worker"), list[tuple[float, float | None, str | None]]()

    @app.tool(task=task, structured=False)
    async def count(context: Context) -> str:
        for number in range(1, 61):
            await context.report_progress(number, 60, f"step {number}")
        return "counted"

    async with served(way, app, revision) as client:
        result = await client.call_tool("count", progress=lambda *report: seen.append(report))
        assert result.text == "counted"
    assert seen == ([(number, 60, f"step {number}") for number in range(1, 61)] if task == "optional" else [])


async def test_older_revisions_call_such_tools_as_usual() -> None:
    async with Client(make_worker(), revision=JUNE) as client:
        assert (await client.call_tool("slow", {"text": "yes"})).content[0].text == "slowly: yes"
        task = await client.tasks.start_tool("slow", {"text": "yes"})
        assert (task.id, task.status) == (None, "completed")
        assert (await task.result()).content[0].text == "slowly: yes"


@EVERYWHERE
async def test_a_task_can_be_followed(way: str, revision: str) -> None:
    async with served(way, make_worker(), revision) as client:
        task = await client.tasks.start_tool("slow", {"text": "yes"}, ttl=60)
        assert task.id
        assert [status async for status in task] == ["working", "completed"]
        assert (await task.result()).content[0].text == "slowly: yes"


@EVERYWHERE
async def test_a_task_may_ask(way: str, revision: str) -> None:
    async def fill_in(form: Form) -> dict[str, str]:
        return {"name": "Ada"}

    async with served(way, make_worker(), revision, handlers=Handlers(elicit_form=fill_in)) as client:
        task = await client.tasks.start_tool("curious")
        assert (await task.result()).content[0].text == "hello Ada"


@pytest.mark.parametrize("revision", [NOVEMBER, LATEST])
async def test_a_task_can_be_cancelled(revision: str) -> None:
    app = make_worker()
    async with Client(app, revision=revision) as client:
        task = await client.tasks.start_tool("endless")
        await until(app.began)
        await task.cancel()
        await until(app.cancelled)
        with pytest.raises((TaskCancelled, PeerError)):
            await task.result()


@pytest.mark.parametrize("revision", [NOVEMBER, LATEST])
async def test_cancelling_the_wait_for_a_task_cancels_the_task(revision: str) -> None:
    app = make_worker()
    async with Client(app, revision=revision) as client:
        _ = await client.list_tools()
        call = asyncio.create_task(client.call_tool("endless"))
        await until(app.began)
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        await until(app.cancelled)


@pytest.mark.parametrize("revision", [NOVEMBER, LATEST])
async def test_a_task_is_found_again_by_its_id(revision: str) -> None:
    app = make_worker()
    async with Client(app, revision=revision) as client:
        started = await client.tasks.start_tool("slow", {"text": "later"})
        assert started.id is not None
        again = await client.tasks.get_task(started.id)
        assert (await again.result()).content[0].text == "slowly: later"
        with pytest.raises(PeerError):
            await client.tasks.get_task("nobody's")


async def test_tasks_are_listed_where_that_can_be() -> None:
    async with Client(make_worker(), revision=NOVEMBER) as client:
        started = [await client.tasks.start_tool("slow", {"text": str(number)}) for number in range(3)]
        assert {task.id async for task in client.tasks.list_tasks()} == {task.id for task in started}
    async with Client(make_worker(), revision=LATEST) as client:
        with pytest.raises(MethodNotFound, match="list tasks"):
            _ = await client.tasks.list_tasks()


@pytest.mark.parametrize("revision", [NOVEMBER, LATEST])
async def test_a_tool_that_is_no_task_is_answered_at_once(revision: str) -> None:
    async with Client(make_worker(), revision=revision) as client:
        _ = await client.list_tools()
        task = await client.tasks.start_tool("quick")
        assert task.id is None
        assert await task.refresh() == "completed"
        await task.cancel()
        assert (await task.result()).content[0].text == "quick"


async def test_a_question_is_asked_once_although_the_state_is_asked_for_by_several() -> None:
    asked, go = [], asyncio.Event()

    async def fill_in(form: Form) -> dict[str, str]:
        asked.append(form.message)
        await go.wait()
        return {"name": "Ada"}

    async with Client(make_worker(), revision=LATEST, handlers=Handlers(elicit_form=fill_in)) as client:
        task = await client.tasks.start_tool("curious")
        again = await client.tasks.get_task(task.id or "")
        refreshed = [asyncio.create_task(each.refresh()) for each in (task, again, task)]
        while not asked:
            await asyncio.sleep(0)
        go.set()
        await asyncio.gather(*refreshed)
        assert (await task.result()).text == (await again.result()).text == "hello Ada"
        assert client.tasks._answers == {}, "what has ended needs no memory"
    assert asked == ["Who is there?"]


async def test_an_answer_that_was_lost_on_the_way_is_sent_again_and_not_asked_for_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked = []

    async def fill_in(form: Form) -> dict[str, str]:
        asked.append(form.message)
        return {"name": "Ada"}

    async with Client(make_worker(), revision=LATEST, handlers=Handlers(elicit_form=fill_in)) as client:
        task = await client.tasks.start_tool("curious")
        request = client.session.request

        async def lose(call: ClientCall[Any]) -> Any:
            if call.operation == "update_task":
                raise TransportError("the connection is lost")
            return await request(call)

        with monkeypatch.context() as broken:
            broken.setattr(client.session, "request", lose)
            with pytest.raises(TransportError):
                await task.result()
        assert (await task.result()).text == "hello Ada"
    assert asked == ["Who is there?"]


@EVERYWHERE
async def test_progress_before_a_question_is_the_status_message_and_the_question_stays(way: str, revision: str) -> None:
    app = Server("worker")
    release = asyncio.Event()

    @app.tool(task="required")
    async def bake(context: Context) -> str:
        await context.report_progress(1, 2, "in the oven")
        await release.wait()
        await context.report_progress(2, 2, "out of it")
        answer = await context.elicit("For whom?", Name)
        return f"for {answer.data.name}"

    async def answer(form: Form) -> dict[str, str]:
        return {"name": "Ada"}

    async with served(way, app, revision, handlers=Handlers(elicit_form=answer)) as client:
        task = await client.tasks.start_tool("bake")
        while task.message != "in the oven":
            await task.poll()
            await asyncio.sleep(0)  # a poll in memory does not
        release.set()
        assert (await task.result()).content[0].text == "for Ada"
