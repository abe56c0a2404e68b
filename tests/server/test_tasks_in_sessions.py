"""Tasks of 2025-11-25.

https://modelcontextprotocol.io/specification/2025-11-25/basic/utilities/tasks
"""

from __future__ import annotations

import asyncio
import itertools
import re
from datetime import datetime
from pathlib import Path
from typing import Any

import msgspec
import pytest

from carrel import Context, Server
from carrel.security import StaticTokens
from carrel.security.server.static_tokens import make_token
from carrel.transports import memory
from carrel.transports.memory import MemoryPeer
from support.capabilities import declared
from support.http_requests import initialize, request
from support.http_server import over_http
from support.memory_client import JUNE, LATEST, MARCH, NOVEMBER, OLDEST, error, result

pytestmark = pytest.mark.requirement


RELATED = "io.modelcontextprotocol/related-task"
STATUS = "notifications/tasks/status"
MOVES = {
    "working": {"input_required", "completed", "failed", "cancelled"},
    "input_required": {"working", "completed", "failed", "cancelled"},
}


class Workshop:
    """A server whose tools can be tasks, and what they wait for."""

    def __init__(self, **options: Any) -> None:
        self.app = app = Server("workshop", **options)
        self.go = asyncio.Event()
        self.begun = asyncio.Event()
        self.ended = asyncio.Event()
        self.kept: list[Context] = []

        @app.tool(task="optional")
        async def work(context: Context) -> str:
            self.kept.append(context)
            await context.report_progress(1)
            await context.info("at work")
            self.begun.set()
            await self.go.wait()
            await context.report_progress(2)
            return "done"

        @app.tool(task="optional")
        async def stubborn() -> str:
            self.begun.set()
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                pass
            self.ended.set()
            return "done all the same"

        @app.tool(task="optional")
        async def confirm(context: Context) -> str:
            return (await context.elicit("Sure?", bool)).action

        @app.tool(task="optional")
        def quick(text: str) -> dict[str, str]:
            return {"text": text}

        @app.tool()
        async def plain() -> str:
            return "plain"


async def begin(peer: MemoryPeer, name: str, **more: Any) -> dict[str, Any]:
    """Call a tool as a task, and return the task."""
    task: dict[str, Any] = (await result(peer, "tools/call", name=name, task={}, **more))["task"]
    return task


async def told(peer: MemoryPeer) -> list[dict[str, Any]]:
    """Return what the server has said by now; what is still on its way has a turn to arrive."""
    await result(peer, "ping")
    found = []
    while not peer._notifications.empty():
        found.append(await peer.notification())
    return found


async def test_tasks_are_declared_where_a_tool_can_be_one() -> None:
    app = Workshop().app
    await app.endpoint.start()
    found = (await declared(app, NOVEMBER))["capabilities"]["tasks"]
    assert found == {"list": {}, "cancel": {}, "requests": {"tools": {"call": {}}}}
    for revision in (OLDEST, MARCH, JUNE, LATEST):
        assert "tasks" not in (await declared(app, revision))["capabilities"]
    await app.endpoint.stop()


async def test_a_task_whose_call_is_cancelled_before_it_is_announced_is_cancelled(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    app = Workshop().app
    # The announcement waits until the task is stored, as where the store is another process.
    monkeypatch.setattr(type(app.endpoint.replica.state), "immediate", False)
    async with memory.connect(app, NOVEMBER) as peer:
        params = {"name": "work", "arguments": {}, "task": {}}
        peer.feed(msgspec.json.encode({"jsonrpc": "2.0", "id": "one", "method": "tools/call", "params": params}))
        peer.notify("notifications/cancelled", {"requestId": "one"})
        async with asyncio.timeout(60):
            while "working" in [task["status"] for task in (await result(peer, "tasks/list"))["tasks"]]:
                await asyncio.sleep(0.01)


async def test_a_wish_for_a_task_is_ignored_where_there_are_none() -> None:
    app = Server("s")
    app.tools.add(lambda: "plain", name="plain")
    app.prompts.add(lambda: "words", name="words")
    app.resources.add("memo://1", "text")
    wish = {"task": {"ttl": 1000}}
    async with memory.connect(app, NOVEMBER) as peer:
        assert (await result(peer, "tools/call", name="plain", **wish))["content"][0]["text"] == "plain"
        assert (await result(peer, "prompts/get", name="words", **wish))["messages"]
        assert (await result(peer, "resources/read", uri="memo://1", **wish))["contents"][0]["text"] == "text"


async def test_ids_of_tasks_are_ours_and_differ_and_cannot_be_guessed() -> None:
    async with memory.connect(Workshop().app, NOVEMBER) as peer:
        ids = []
        for _ in range(50):
            found = await result(
                peer, "tools/call", name="quick", arguments={"text": "x"}, task={"taskId": "mine", "ttl": 1000}
            )
            ids.append(found["task"]["taskId"])
    assert len(set(ids)) == 50
    assert "mine" not in ids
    assert all(isinstance(id, str) and len(id) * 4 >= 128 for id in ids)
    assert len({id[:8] for id in ids}) == 50, "they count"


async def test_every_answer_about_a_task_says_when_it_was_and_how_long_it_is_kept() -> None:
    shop = Workshop()
    async with memory.connect(shop.app, NOVEMBER) as peer:
        task = await begin(peer, "work")
        assert task["status"] == "working"
        id = task["taskId"]
        answers = [
            task,
            await result(peer, "tasks/get", taskId=id),
            (await result(peer, "tasks/list"))["tasks"][0],
            await result(peer, "tasks/cancel", taskId=id),
        ]
        answers += [note["params"] for note in await told(peer) if note["method"] == STATUS]
    assert len(answers) == 6, "one more is the progress that the tool reports"
    for answer in answers:
        made, changed = (datetime.fromisoformat(answer[key]) for key in ("createdAt", "lastUpdatedAt"))
        assert made.tzinfo is not None
        assert changed >= made
        assert answer["createdAt"] == task["createdAt"]
        assert answer["ttl"] == task["ttl"]
        assert type(answer["ttl"]) is int


async def test_a_client_is_told_how_long_a_task_is_really_kept() -> None:
    async with memory.connect(Workshop().app, NOVEMBER) as peer:
        asked = 10**12
        id = (await result(peer, "tools/call", name="work", task={"ttl": asked}))["task"]["taskId"]
        assert 0 < (await result(peer, "tasks/get", taskId=id))["ttl"] < asked


async def test_states_of_a_task_follow_each_other_as_they_may() -> None:
    shop = Workshop()
    async with memory.connect(shop.app, NOVEMBER, elicitation={}) as peer:
        await begin(peer, "confirm")
        states = ["working"]
        while states[-1] not in ("completed", "failed", "cancelled"):
            note = await peer.notification()
            if note["method"] == STATUS:
                states.append(note["params"]["status"])
            elif note["method"] == "elicitation/create":
                peer.feed(msgspec.json.encode({"jsonrpc": "2.0", "id": note["id"], "result": {"action": "decline"}}))
    assert states[-1] == "completed"
    assert "input_required" in states
    assert all(after in MOVES[before] for before, after in itertools.pairwise(states))


async def test_progress_of_a_task_keeps_its_token_and_ends_with_the_task() -> None:
    shop = Workshop()
    async with memory.connect(shop.app, NOVEMBER) as peer:
        id = (await begin(peer, "work", _meta={"progressToken": "mine"}))["taskId"]
        await asyncio.wait_for(shop.begun.wait(), 60)
        shop.go.set()
        await result(peer, "tasks/result", taskId=id)
        found = [note["params"] for note in await told(peer) if note["method"] == "notifications/progress"]
        assert [(params["progressToken"], params["progress"]) for params in found] == [("mine", 1), ("mine", 2)]
        await shop.kept[0].report_progress(3)
        assert await told(peer) == []


async def test_a_task_that_was_cancelled_makes_no_more_progress() -> None:
    app = Server("s")
    begun, ended = asyncio.Event(), asyncio.Event()

    @app.tool(task="optional")
    async def tidy(context: Context) -> str:
        begun.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            context.report_progress(5)
            ended.set()
            raise
        return "never"

    async with memory.connect(app, NOVEMBER) as peer:
        id = (await begin(peer, "tidy", _meta={"progressToken": 1}))["taskId"]
        await asyncio.wait_for(begun.wait(), 60)
        await result(peer, "tasks/cancel", taskId=id)
        await asyncio.wait_for(ended.wait(), 60)
        assert [note["method"] for note in await told(peer)] == [STATUS]


async def test_messages_of_a_task_name_it() -> None:
    shop = Workshop()
    async with memory.connect(shop.app, NOVEMBER, elicitation={}) as peer:
        await result(peer, "logging/setLevel", level="debug")
        id = (await begin(peer, "work", _meta={"progressToken": 1}))["taskId"]
        await asyncio.wait_for(shop.begun.wait(), 60)
        shop.go.set()
        assert (await result(peer, "tasks/result", taskId=id))["_meta"][RELATED] == {"taskId": id}
        found = [note for note in await told(peer) if note["method"] != STATUS]
        methods = {note["method"] for note in found}
        assert methods == {"notifications/progress", "notifications/message"}
        assert [
            note["method"] for note in found if note["params"].get("_meta", {}).get(RELATED) != {"taskId": id}
        ] == []


async def test_the_parameter_names_the_task_whatever_meta_says() -> None:
    shop = Workshop()
    async with memory.connect(shop.app, NOVEMBER) as peer:
        one, two = (await begin(peer, "work"))["taskId"], (await begin(peer, "work"))["taskId"]
        meta = {RELATED: {"taskId": two}}
        assert (await result(peer, "tasks/get", taskId=one, _meta=meta))["taskId"] == one
        assert (await result(peer, "tasks/cancel", taskId=one, _meta=meta))["taskId"] == one
        reply = await peer.request("tasks/result", {"taskId": one, "_meta": meta})
        assert two not in str(reply)
        assert (await result(peer, "tasks/get", taskId=two))["status"] == "working"


async def test_tasks_are_listed_page_by_page_and_all_of_them() -> None:
    shop = Workshop(page_size=2)
    async with memory.connect(shop.app, NOVEMBER) as peer:
        ids = [(await begin(peer, "work"))["taskId"] for _ in range(5)]
        found, cursor = [], {}
        sizes = []
        while True:
            page = await result(peer, "tasks/list", **cursor)
            found += [task["taskId"] for task in page["tasks"]]
            sizes.append(len(page["tasks"]))
            if "nextCursor" not in page:
                break
            cursor = {"cursor": page["nextCursor"]}
        assert sorted(found) == sorted(ids)
        assert sizes == [2, 2, 1]
        for id in found:
            await result(peer, "tasks/get", taskId=id)


async def test_all_tasks_that_can_be_fetched_are_listed() -> None:
    app = Workshop().app
    async with memory.connect(app, NOVEMBER) as peer:
        id = (await begin(peer, "work"))["taskId"]
        other = MemoryPeer(app, NOVEMBER)
        client = {"name": "other", "version": "1"}
        await result(other, "initialize", protocolVersion=NOVEMBER, capabilities={}, clientInfo=client)
        found = await other.request("tasks/get", {"taskId": id})
        tasks = (await result(other, "tasks/list"))["tasks"]
        await other.dispatcher.close()
        assert ("result" in found) == (id in [task["taskId"] for task in tasks])


async def test_the_result_of_a_task_is_that_of_the_call() -> None:
    async with memory.connect(Workshop().app, NOVEMBER) as peer:
        arguments = {"text": "same"}
        usual = await result(peer, "tools/call", name="quick", arguments=arguments)
        id = (await begin(peer, "quick", arguments=arguments))["taskId"]
        found = await result(peer, "tasks/result", taskId=id)
        assert found.pop("_meta") == {RELATED: {"taskId": id}}
        assert found == usual
        wrong = await peer.request("tools/call", {"name": "quick", "arguments": {"text": 5}})
        later = await peer.request("tools/call", {"name": "quick", "arguments": {"text": 5}, "task": {}})
        if "task" in later.get("result", {}):
            later = await peer.request("tasks/result", {"taskId": later["result"]["task"]["taskId"]})
            later["result"].pop("_meta")
        assert later.get("result") == wrong.get("result")
        assert later.get("error") == wrong.get("error")


async def test_the_result_of_a_cancelled_task_is_an_error() -> None:
    async with memory.connect(Workshop().app, NOVEMBER) as peer:
        id = (await begin(peer, "work"))["taskId"]
        waiting = peer.start("tasks/result", {"taskId": id})
        await result(peer, "tasks/cancel", taskId=id)
        first = await asyncio.wait_for(waiting, 60)
        assert first["error"]["code"] == (await error(peer, "tasks/result", taskId=id))["code"] == -32602


async def test_a_finished_task_keeps_its_status() -> None:
    shop = Workshop()
    async with memory.connect(shop.app, NOVEMBER) as peer:
        id = (await begin(peer, "quick", arguments={"text": "x"}))["taskId"]
        await result(peer, "tasks/result", taskId=id)
        before = await result(peer, "tasks/get", taskId=id)
        assert before["status"] == "completed"
        assert (await error(peer, "tasks/cancel", taskId=id))["code"] == -32602
        assert await result(peer, "tasks/get", taskId=id) == before


async def test_a_cancelled_task_stays_cancelled_while_its_function_runs() -> None:
    shop = Workshop()
    async with memory.connect(shop.app, NOVEMBER) as peer:
        id = (await begin(peer, "stubborn"))["taskId"]
        await asyncio.wait_for(shop.begun.wait(), 60)
        assert (await result(peer, "tasks/cancel", taskId=id))["status"] == "cancelled"
        await asyncio.wait_for(shop.ended.wait(), 60)
        assert (await result(peer, "tasks/get", taskId=id))["status"] == "cancelled"
        states = [note["params"]["status"] for note in await told(peer) if note["method"] == STATUS]
        assert states == ["cancelled"]


@pytest.mark.parametrize("id", ["none", "", "../x", 5, None])
async def test_a_task_or_a_cursor_that_is_not_there_is_an_invalid_parameter(id: Any) -> None:
    async with memory.connect(Workshop().app, NOVEMBER) as peer:
        for method in ("tasks/get", "tasks/result", "tasks/cancel"):
            assert (await error(peer, method, taskId=id))["code"] == -32602
        if id is not None:
            assert (await error(peer, "tasks/list", cursor=id))["code"] == -32602


class Site:
    """Clients of a server over HTTP, with tokens and sessions."""

    def __init__(self, origin: str, token: str | None = None) -> None:
        self.url, self.token = f"{origin}/mcp", token
        self.session = {"mcp-session-id": initialize(self.url, token), "mcp-protocol-version": NOVEMBER}

    def ask(self, method: str, **params: Any) -> dict[str, Any]:
        reply = request(
            self.url, {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}, self.session, self.token
        )
        assert reply.status == 200, reply
        body: dict[str, Any] = reply.body
        return body


@pytest.mark.slow
def test_tasks_over_http_are_requests_as_any_other() -> None:
    with over_http(Workshop().app) as origin:
        site = Site(origin)
        task = site.ask("tools/call", name="quick", arguments={"text": "x"}, task={})["result"]["task"]
        id = task["taskId"]
        assert site.ask("tasks/result", taskId=id)["result"]["structuredContent"] == {"text": "x"}
        assert site.ask("tasks/get", taskId=id)["result"]["status"] == "completed"
        assert re.fullmatch(r"[!-~]+", id)
        unknown = {"mcp-session-id": "none", "mcp-protocol-version": NOVEMBER}
        get = {"jsonrpc": "2.0", "id": 1, "method": "tasks/get", "params": {"taskId": id}}
        assert request(site.url, get, unknown).status == 404


@pytest.mark.slow
def test_a_task_of_another_client_is_not_found(tmp_path: Path) -> None:
    (alice, one), (bob, two) = make_token("alice", ["mcp"]), make_token("bob", ["mcp"])
    (tmp_path / "tokens").write_text(f"{one}\n{two}\n")
    guard = StaticTokens(tmp_path / "tokens", scopes={"*": "mcp"})
    with over_http(Workshop().app, authorization=guard) as origin:
        mine, again, theirs = Site(origin, alice), Site(origin, alice), Site(origin, bob)
        id = mine.ask("tools/call", name="work", task={})["result"]["task"]["taskId"]
        nothing = theirs.ask("tasks/get", taskId="none")["error"]
        for method in ("tasks/get", "tasks/result", "tasks/cancel"):
            assert theirs.ask(method, taskId=id)["error"] == nothing
        assert theirs.ask("tasks/list")["result"]["tasks"] == []
        assert [task["taskId"] for task in again.ask("tasks/list")["result"]["tasks"]] == [id]
        assert again.ask("tasks/get", taskId=id)["result"]["status"] == "working"
        assert again.ask("tasks/cancel", taskId=id)["result"]["status"] == "cancelled"
