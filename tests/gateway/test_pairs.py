"""Questions, tasks and pages between a client and a server of different eras, through a gateway."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from types import SimpleNamespace
from typing import Annotated, Any

import msgspec
import pytest

from carrel import Client, Context, Server
from carrel.awaitables import resolved
from carrel.catalog.provider import Request
from carrel.errors import HeaderMismatch, PeerError, TaskCancelled
from carrel.host.remote import RemoteProvider
from carrel.protocol.revisions import LATEST as NEWEST
from carrel.transports.memory import MemoryPeer, connect
from gateway.features import HANDLERS, gateway_to, text_of
from golden import pages

pytestmark = pytest.mark.usefixtures("frequent_polls")

SESSION, LATEST = "2025-11-25", "2026-07-28"
ERAS = [(far, near) for far in (SESSION, LATEST) for near in (SESSION, LATEST)]
TASKS = "io.modelcontextprotocol/tasks"
EVERYTHING = {"elicitation": {"form": {}, "url": {}}, "sampling": {}, "roots": {}, "extensions": {TASKS: {}}}
FORM = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}
ANSWERS = {"action": "accept", "content": {"name": "Ada"}}


class Far(Server[Any]):
    """Server whose tools ask, and take their time."""

    def __init__(self) -> None:
        super().__init__("far")
        self.begun, self.cancelled = asyncio.Event(), asyncio.Event()
        self.runs = 0
        self.tool(structured=False)(self.greet)
        self.tool(structured=False)(self.both)
        self.tool(structured=False, task="optional")(self.work)
        self.tool(structured=False, task="required")(self.long)
        self.tool(structured=False, task="optional", detaches=True)(self.later)

    async def greet(self, context: Context) -> str:
        self.runs += 1
        return str((await context.elicit("Who?", FORM, key="who")).data["name"])

    async def both(self, context: Context) -> str:
        one, two = await asyncio.gather(
            context.elicit("First?", FORM, key="first"), context.elicit("Second?", FORM, key="second")
        )
        return f"{one.data['name']} {two.data['name']}"

    async def work(self, context: Context) -> str:
        await context.report_progress(1, 2, "half")
        self.begun.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            self.cancelled.set()
            raise
        return ""

    async def long(self) -> str:
        return "done"

    async def later(self, context: Context) -> str:
        name = (await context.elicit("Who?", FORM, key="who")).data["name"]
        await context.detach()
        return f"later {name}"


@asynccontextmanager
async def between(far: Server[Any], revision: str, near: str) -> AsyncIterator[MemoryPeer]:
    async with gateway_to(far, revision) as gateway, connect(gateway, revision=near) as peer:
        peer.capabilities = EVERYTHING
        yield peer


async def call(peer: MemoryPeer, name: str, **more: Any) -> dict[str, Any]:
    return await peer.request("tools/call", {"name": name, **more})


async def test_questions_of_a_stateless_server_keep_their_keys_and_come_together() -> None:
    async with between(Far(), LATEST, LATEST) as peer:
        asked = (await call(peer, "both"))["result"]
        assert asked["inputRequests"].keys() == {"first", "second"}
        some = await call(peer, "both", requestState=asked["requestState"], inputResponses={"second": ANSWERS})
        assert some["result"]["inputRequests"].keys() == {"first"}
        rest = await call(peer, "both", requestState=some["result"]["requestState"], inputResponses={"first": ANSWERS})
        assert rest["result"]["content"][0]["text"] == "Ada Ada"


async def test_calls_that_clients_have_left_do_not_keep_others_from_being_asked() -> None:
    app = Far()
    gateway: Server[Any] = Server("gateway")
    provider = RemoteProvider(app, name="far", revision=SESSION)
    provider.reserve()  # stateless clients over HTTP are taken for one
    gateway.add_provider(provider)
    async with connect(gateway, revision=LATEST) as one, connect(gateway, revision=LATEST) as two:
        one.capabilities = two.capabilities = EVERYTHING
        left = (await call(one, "greet"))["result"]
        asked = (await call(two, "greet"))["result"]
        key = next(iter(asked["inputRequests"]))
        answered = await call(two, "greet", requestState=asked["requestState"], inputResponses={key: ANSWERS})
        assert answered["result"]["content"][0]["text"] == "Ada"
        key = next(iter(left["inputRequests"]))
        back = await call(one, "greet", requestState=left["requestState"], inputResponses={key: ANSWERS})
        assert back["result"]["content"][0]["text"] == "Ada"  # its call was made again
    assert app.runs == 3


@pytest.mark.parametrize(("far", "near"), ERAS)
async def test_a_task_that_is_cancelled_is_cancelled_on_the_server(far: str, near: str) -> None:
    app = Far()
    async with (
        gateway_to(app, far) as gateway,
        Client(gateway, revision=near, handlers=HANDLERS) as client,
        asyncio.timeout(60),
    ):
        task = await client.tasks.start_tool("work")
        assert task.id is not None
        await app.begun.wait()
        await task.cancel()
        await app.cancelled.wait()
        with pytest.raises((TaskCancelled, PeerError)):
            await task.result()


@pytest.mark.parametrize(("far", "near"), ERAS)
async def test_a_call_becomes_a_task_while_a_changed_list_of_tools_is_read(far: str, near: str) -> None:
    app = Far()
    reading, may_read = asyncio.Event(), asyncio.Event()
    may_read.set()

    @app.middleware("tools/list")
    async def wait(call: Any, next: Any) -> Any:
        reading.set()
        await may_read.wait()
        return await next(call)

    async with between(app, far, near) as peer, asyncio.timeout(60):
        await peer.request("tools/list")
        may_read.clear()
        reading.clear()
        app.tools.remove("greet")
        await reading.wait()
        called = (await call(peer, "long", **({} if near == LATEST else {"task": {}}))).get("result", {})
        may_read.set()
    assert called.get("resultType") == "task" if near == LATEST else "task" in called


async def test_headers_that_repeat_arguments_are_verified_while_a_changed_list_of_tools_is_read() -> None:
    app, reading, may_read = Far(), asyncio.Event(), asyncio.Event()
    may_read.set()

    @app.tool
    async def find(tenant: Annotated[str, msgspec.Meta(extra_json_schema={"x-mcp-header": "Tenant"})]) -> str:
        return tenant

    @app.middleware("tools/list")
    async def wait(call: Any, next: Any) -> Any:
        reading.set()
        await may_read.wait()
        return await next(call)

    gateway: Server[Any] = Server("gateway")
    provider = RemoteProvider(app, name="far", revision=LATEST)
    gateway.add_provider(provider)
    call: Any = SimpleNamespace(raw_headers={b"mcp-param-tenant": b"other"}, peer=SimpleNamespace(revision=NEWEST))
    async with connect(gateway, revision=LATEST), asyncio.timeout(60):
        may_read.clear()
        reading.clear()
        app.tools.remove("greet")
        await reading.wait()
        with pytest.raises(HeaderMismatch):
            await resolved(provider.run_tool("find", msgspec.Raw(b'{"tenant":"own"}'), Request(call=call)))
        may_read.set()


async def test_the_result_of_a_task_does_not_wait_for_a_poll(monkeypatch: pytest.MonkeyPatch) -> None:
    hour = 3600.0
    monkeypatch.setattr("carrel.server.tasks.formats.POLL_INTERVAL", int(hour * 1000))
    monkeypatch.setattr("carrel.client.tasks.LONGEST", hour)
    async with gateway_to(Far(), LATEST) as gateway, Client(gateway, revision=SESSION) as client, asyncio.timeout(60):
        task = await client.tasks.start_tool("long")
        assert task.id is not None
        assert (await task.result()).text == "done"


@pytest.mark.parametrize("near", ["2024-11-05", "2025-03-26", "2025-06-18"])
@pytest.mark.parametrize("far", [SESSION, LATEST])
async def test_clients_without_tasks_wait_for_those_of_the_server(far: str, near: str) -> None:
    async with gateway_to(Far(), far) as gateway, Client(gateway, revision=near) as client:
        assert await text_of(client, "long") == "done"


@pytest.mark.parametrize("far", [SESSION, LATEST])
async def test_a_stateless_client_without_tasks_is_refused_a_tool_that_is_one(far: str) -> None:
    async with between(Far(), far, LATEST) as peer:
        peer.capabilities = {}
        error = (await call(peer, "long"))["error"]
    assert (error["code"], error["data"]) == (-32021, {"requiredCapabilities": {"extensions": {TASKS: {}}}})


async def test_a_call_becomes_a_task_when_that_of_the_server_does() -> None:
    async with between(Far(), LATEST, LATEST) as peer:
        asked = (await call(peer, "later"))["result"]
        assert asked["resultType"] == "input_required"
        task = (await call(peer, "later", requestState=asked["requestState"], inputResponses={"who": ANSWERS}))[
            "result"
        ]
        assert task["resultType"] == "task"
        async with asyncio.timeout(60):
            while task["status"] != "completed":
                await asyncio.sleep(0.02)
                task = (await peer.request("tasks/get", {"taskId": task["taskId"]}))["result"]
        assert task["result"]["content"][0]["text"] == "later Ada"


@pytest.mark.parametrize(("far", "near"), ERAS)
async def test_the_questions_of_a_task_go_to_its_client(far: str, near: str) -> None:
    app = Far()

    @app.tool(structured=False, task="optional")
    async def confirm(context: Context) -> str:
        return str((await context.elicit("Who?", FORM, key="who")).data["name"])

    async with (
        gateway_to(app, far) as gateway,
        Client(gateway, revision=near, handlers=HANDLERS) as client,
        asyncio.timeout(60),
    ):
        tasks = await asyncio.gather(*(client.tasks.start_tool("confirm", handlers=HANDLERS) for _ in range(3)))
        results = await asyncio.gather(*(task.result() for task in tasks))
    assert [result.text for result in results] == ["Ada"] * 3


@pytest.mark.parametrize(("far", "near"), ERAS)
async def test_clients_that_show_no_pages_see_no_tools_for_pages_alone(far: str, near: str) -> None:
    async with gateway_to(pages.build(), far) as gateway, Client(gateway, revision=near) as client:
        listed = {tool.name: tool.meta for tool in await client.list_tools()}
    assert listed == {"time": None}


async def test_a_client_that_cannot_be_asked_gets_the_error_of_its_era() -> None:
    for far in (SESSION, LATEST):
        async with between(Far(), far, LATEST) as peer:
            peer.capabilities = {}
            error = (await call(peer, "greet"))["error"]
            assert (error["code"], error["data"]["requiredCapabilities"]) == (-32021, {"elicitation": {"form": {}}})
        async with between(Far(), far, SESSION) as peer:
            result = (await call(peer, "greet"))["result"]
            assert result["isError"] is True
            assert "elicitation" in result["content"][0]["text"]
