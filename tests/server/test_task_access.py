"""Tasks of tools that the access gate denies to the owner of the task later."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from carrel import Server
from carrel.catalog.access import View
from carrel.transports.memory import connect
from support.raw_http import modern, modern_headers, serving
from support.stdio_process import request

pytestmark = pytest.mark.asyncio


class Changing:
    """Gate that denies the calls of some tools, which a test can change."""

    def __init__(self) -> None:
        self.denied: set[str] = set()

    def view(self, principal: Any) -> View:
        denied = self.denied

        class Allowed(View):
            key = ",".join(sorted(denied))

            def allows(self, verb: str, target: str) -> bool:
                return verb != "call" or target not in denied

        return Allowed()


@pytest.mark.slow
async def test_a_task_whose_tool_is_denied_to_its_owner_does_not_exist() -> None:
    gate = Changing()
    app = Server("tasks", gate=gate)
    for name in ("index", "order"):
        app.tools.add(lambda: "done", name=name, task="optional")
    endpoint = app.asgi()
    await endpoint.start()
    async with serving(endpoint) as site:
        session = await site.open()

        async def send(method: str, **params: Any) -> Any:
            return await (await session.post(request(1, method, params))).result()

        ids = {}
        for name in ("index", "order"):
            created = await send("tools/call", name=name, arguments={}, task={})
            ids[name] = created["result"]["task"]["taskId"]
            await send("tasks/result", taskId=ids[name])
        gate.denied.add("index")
        for method in ("tasks/get", "tasks/result", "tasks/cancel"):
            missing = await send(method, taskId="nonesuch")
            assert await send(method, taskId=ids["index"]) == missing
        assert [task["taskId"] for task in (await send("tasks/list"))["result"]["tasks"]] == [ids["order"]]
        assert (await send("tasks/get", taskId=ids["order"]))["result"]["status"] == "completed"
        gate.denied.clear()
        assert (await send("tasks/get", taskId=ids["index"]))["result"]["status"] == "completed"


@pytest.mark.slow
async def test_an_open_listen_stream_carries_no_status_of_a_task_whose_tool_was_denied() -> None:
    gate, goes_on = Changing(), asyncio.Event()
    app = Server("tasks", gate=gate)
    for name in ("index", "order"):
        app.tools.add(goes_on.wait, name=name, task="optional")
    capabilities = {"extensions": {"io.modelcontextprotocol/tasks": {}}}
    meta = {"io.modelcontextprotocol/clientCapabilities": capabilities}
    endpoint = app.asgi()
    await endpoint.start()
    async with serving(endpoint) as site:

        async def send(method: str, **params: Any) -> Any:
            return await site.post(modern(method, **params, _meta=meta), modern_headers(method, **params))

        ids = {}
        for name in ("index", "order"):
            created = await (await send("tools/call", name=name, arguments={})).result()
            ids[name] = created["result"]["taskId"]
        stream = await send("subscriptions/listen", notifications={"taskIds": list(ids.values())})
        assert (await stream.message())["params"]["notifications"]["taskIds"] == list(ids.values())
        gate.denied.add("index")
        goes_on.set()
        notice = await stream.message()
        assert (notice["params"]["taskId"], notice["params"]["status"]) == (ids["order"], "completed")
        app.endpoint.end_streams()
        assert [message.get("method") for message in await stream.messages()] == ["notifications/cancelled", None]


async def test_a_session_gets_no_status_of_a_task_whose_tool_was_denied() -> None:
    gate, goes_on = Changing(), asyncio.Event()
    app = Server("tasks", gate=gate)
    for name in ("index", "order"):
        app.tools.add(goes_on.wait, name=name, task="optional")
    async with connect(app, "2025-11-25") as peer:
        ids = {}
        for name in ("index", "order"):
            created = await peer.request("tools/call", {"name": name, "arguments": {}, "task": {}})
            ids[name] = created["result"]["task"]["taskId"]
        gate.denied.add("index")
        goes_on.set()
        notice = await peer.notification()
        while notice["method"] != "notifications/tasks/status" or notice["params"]["status"] == "working":
            assert notice["params"]["status"] == "working"
            notice = await peer.notification()
        assert notice["params"]["taskId"] == ids["order"]
