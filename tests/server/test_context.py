"""The context of a call: who asks, how it is going, and being told to stop."""

from __future__ import annotations

import asyncio
import logging
import threading
from pathlib import Path
from typing import Any, get_args

import pytest

from carrel import Context, Implementation, Limits, Server
from carrel.errors import ServerUnavailable
from carrel.protocol.server import Call
from carrel.security import StaticTokens
from carrel.security.server.static_tokens import make_token
from carrel.server.middleware import Next
from carrel.transports import memory
from carrel.transports.memory import MemoryPeer
from carrel.wire.base import LoggingLevel, Result
from support.http_requests import ask, initialize, request
from support.http_server import over_http
from support.memory_client import ALL, HANDSHAKES, JUNE, LATEST, MARCH, NOVEMBER, OLDEST, PREFIX, call, result

LEVELS = get_args(LoggingLevel)


def notes(peer: MemoryPeer) -> list[dict[str, Any]]:
    """Take what has arrived by now."""
    found = []
    while not peer._notifications.empty():
        found.append(peer._notifications.get_nowait())
    return found


# Who asks


@pytest.mark.parametrize("revision", ALL)
@pytest.mark.parametrize("kind", ["tool", "prompt", "resource", "template"])
@pytest.mark.parametrize("way", ["sync", "async", "waiting"])
async def test_every_kind_of_handler_may_know_who_asks(revision: str, kind: str, way: str) -> None:
    app = Server("s")
    seen: list[dict[str, Any]] = []

    def look(context: Context) -> str:
        seen.append(
            {
                "id": context.request_id,
                "revision": context.revision,
                "client": context.client,
                "roots": context.capabilities.roots,
                "meta": context.meta["com.example/trace"],
                "state": context.state,
            }
        )
        return "ok"

    def sync(context: Context) -> str:
        return look(context)

    async def immediate(context: Context) -> str:
        return look(context)

    async def waiting(context: Context) -> str:
        await asyncio.sleep(0)
        return look(context)

    async def member(a: str, context: Context) -> str:
        return look(context)

    handler = {"sync": sync, "async": immediate, "waiting": waiting}[way]
    app.tools.add(handler, name="t")
    app.prompts.add(handler, name="p")
    app.resources.add("x://1", handler)
    app.resource("y://{a}")(member)
    method, params = {
        "tool": ("tools/call", {"name": "t"}),
        "prompt": ("prompts/get", {"name": "p"}),
        "resource": ("resources/read", {"uri": "x://1"}),
        "template": ("resources/read", {"uri": "y://1"}),
    }[kind]
    async with memory.connect(app, revision, roots={"listChanged": True}) as peer:
        reply = await peer.start(method, {**params, "_meta": {"com.example/trace": [1]}}, id="my id")
        assert "result" in reply
    assert seen == [
        {
            "id": "my id",
            "revision": revision,
            "client": Implementation("memory", "0"),
            "roots": {"listChanged": True},
            "meta": [1],
            "state": None,
        }
    ]


async def test_a_client_without_client_info_is_none_in_the_context() -> None:
    app = Server("s")

    @app.tool()
    async def who(context: Context) -> str:
        return f"{context.client} {context.meta == {}} {context.capabilities.sampling!r}"

    async with memory.connect(app) as peer:
        peer._waiting[1] = answer = asyncio.get_running_loop().create_future()
        meta = f'{{"{PREFIX}protocolVersion":"{LATEST}","{PREFIX}clientCapabilities":{{}}}}'
        peer.feed(f'{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{{"name":"who","_meta":{meta}}}}}'.encode())
        assert (await answer)["result"]["content"][0]["text"] == "None False None"


async def test_the_context_may_be_optional_and_have_any_name() -> None:
    app = Server("s")

    @app.tool()
    async def one(whatever: Context | None = None) -> str:
        return str(whatever is not None)

    async with memory.connect(app) as peer:
        assert (await call(peer, "one"))["content"][0]["text"] == "True"
    assert await one() == "False"


# Progress


@pytest.mark.parametrize("revision", ALL)
@pytest.mark.parametrize("token", ["t", "", 0, 7])
async def test_progress_goes_to_those_who_asked_and_before_the_result(revision: str, token: Any) -> None:
    app = Server("s")

    @app.tool()
    async def work(context: Context) -> str:
        await context.report_progress(1, 4, "begun")
        context.report_progress(2.5)
        await context.report_progress(4, total=4)
        return "done"

    async with memory.connect(app, revision) as peer:
        await call(peer, "work")
        assert notes(peer) == []
        reply = await peer.request("tools/call", {"name": "work", "_meta": {"progressToken": token}})
        assert reply["result"]["content"][0]["text"] == "done"
        found = notes(peer)
        assert {note["method"] for note in found} == {"notifications/progress"}
        first = {"progressToken": token, "progress": 1, "total": 4, "message": "begun"}
        if revision == OLDEST:
            del first["message"]
        assert [note["params"] for note in found] == [
            first,
            {"progressToken": token, "progress": 2.5},
            {"progressToken": token, "progress": 4, "total": 4},
        ]


async def test_progress_only_ever_grows_and_is_a_number() -> None:
    app = Server("s")

    @app.tool()
    async def work(context: Context) -> None:
        for progress in (-1, 0, 0, -5, 0.5, 0.5, float("nan"), float("inf"), 1, 0.7, 2):
            context.report_progress(progress, total=float("inf") if progress == 2 else None)

    async with memory.connect(app) as peer:
        await result(peer, "tools/call", name="work", _meta={"progressToken": 1})
        assert [note["params"] for note in notes(peer)] == [
            {"progressToken": 1, "progress": number} for number in (-1, 0, 0.5, 1, 2)
        ]


async def test_progress_and_log_messages_from_threads_arrive_in_order_and_before_the_result() -> None:
    app = Server("s")

    @app.tool()
    def work(context: Context) -> str:
        for number in range(1, 21):
            context.report_progress(number)
            context.info(number)
        return "done"

    async with memory.connect(app, JUNE) as peer:
        await result(peer, "tools/call", name="work", _meta={"progressToken": 1})
        found = notes(peer)
        numbers = [note["params"].get("progress") or note["params"].get("data") for note in found]
        assert numbers == [number for number in range(1, 21) for _ in range(2)]


async def test_when_a_call_is_over_there_is_no_more_progress() -> None:
    app = Server("s")
    kept: list[Context] = []

    @app.tool()
    async def work(context: Context) -> str:
        kept.append(context)
        context.report_progress(1)
        return "done"

    @app.tool()
    async def later(context: Context) -> str:
        kept.append(context)
        await asyncio.sleep(0)
        return "done"

    @app.tool()
    async def fail(context: Context) -> str:
        kept.append(context)
        raise ValueError

    for revision in (JUNE, LATEST):
        async with memory.connect(app, revision) as peer:
            for name in ("work", "later", "fail"):
                await result(peer, "tools/call", name=name, _meta={"progressToken": name})
                notes(peer)
                kept[-1].report_progress(2)
                await asyncio.to_thread(kept[-1].report_progress, 3)
                await asyncio.sleep(0)
                assert notes(peer) == []


# Log messages


@pytest.mark.parametrize("threshold", LEVELS)
@pytest.mark.parametrize("revision", ALL)
async def test_log_messages_come_from_the_level_on_that_the_client_wants(revision: str, threshold: str) -> None:
    app = Server("s")

    @app.tool()
    async def talk(context: Context) -> None:
        for level in LEVELS:
            await context.log(level, {"at": level}, logger="tests")
            getattr(context, level)(level)

    async with memory.connect(app, revision) as peer:
        params: dict[str, Any] = {"name": "talk"}
        if revision == LATEST:
            params["_meta"] = {f"{PREFIX}logLevel": threshold}
        else:
            assert await result(peer, "logging/setLevel", level=threshold) == {}
        await result(peer, "tools/call", **params)
        wanted = LEVELS[LEVELS.index(threshold) :]
        expected = []
        for level in wanted:
            expected.append({"level": level, "logger": "tests", "data": {"at": level}})
            expected.append({"level": level, "data": level})
        found = notes(peer)
        assert {note["method"] for note in found} == {"notifications/message"}
        assert [note["params"] for note in found] == expected


async def test_a_stateless_request_that_names_no_level_hears_nothing() -> None:
    app = Server("s")

    @app.tool()
    async def talk(context: Context) -> None:
        context.emergency("fire")

    async with memory.connect(app) as peer:
        await result(peer, "tools/call", name="talk", _meta={f"{PREFIX}logLevel": "debug"})
        assert len(notes(peer)) == 1
        await call(peer, "talk")
        assert notes(peer) == []


@pytest.mark.parametrize("revision", HANDSHAKES)
async def test_a_session_keeps_its_level_and_another_has_its_own(revision: str) -> None:
    app = Server("s")

    @app.tool()
    async def talk(context: Context) -> None:
        context.debug("d")
        context.error("e")

    async with memory.connect(app, revision) as peer:
        other = MemoryPeer(app, LATEST)
        await result(peer, "logging/setLevel", level="error")
        await call(peer, "talk")
        await call(peer, "talk")
        assert [note["params"]["data"] for note in notes(peer)] == ["e", "e"]
        await result(other, "tools/call", name="talk", _meta={f"{PREFIX}logLevel": "debug"})
        assert [note["params"]["data"] for note in notes(other)] == ["d", "e"]
        assert notes(peer) == []
        await other.dispatcher.close()


async def test_there_are_eight_levels_and_no_others() -> None:
    app = Server("s")

    @app.tool()
    async def talk(context: Context) -> None:
        context.log("loud", "x")  # type: ignore[arg-type]

    async with memory.connect(app, MARCH) as peer:
        assert "'loud' is not a log level" in (await call(peer, "talk"))["content"][0]["text"]


@pytest.mark.parametrize("kind", ["prompt", "resource", "template"])
async def test_not_only_tools_may_talk(kind: str) -> None:
    app = Server("s")

    @app.prompt()
    def p(context: Context) -> str:
        context.report_progress(1)
        context.info("from p")
        return "x"

    @app.resource("x://1")
    async def fixed(context: Context) -> str:
        context.report_progress(1)
        context.info("from x")
        return "x"

    @app.resource("y://{a}")
    async def member(a: str, context: Context) -> str:
        context.report_progress(1)
        context.info("from y")
        return "x"

    method, params = {
        "prompt": ("prompts/get", {"name": "p"}),
        "resource": ("resources/read", {"uri": "x://1"}),
        "template": ("resources/read", {"uri": "y://1"}),
    }[kind]
    async with memory.connect(app, NOVEMBER) as peer:
        await result(peer, method, **params, _meta={"progressToken": 1})
        assert [note["method"] for note in notes(peer)] == ["notifications/progress", "notifications/message"]


# Cancellation


@pytest.mark.parametrize("revision", ALL)
@pytest.mark.parametrize("kind", ["tool", "prompt", "resource", "template"])
async def test_a_cancelled_request_stops_its_handler_and_is_not_answered(revision: str, kind: str) -> None:
    app = Server("s")
    begun, ended = asyncio.Event(), asyncio.Event()

    async def forever(context: Context) -> str:
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()
        return "never"

    async def member(a: str, context: Context) -> str:
        return await forever(context)

    app.tools.add(forever, name="t")
    app.prompts.add(forever, name="p")
    app.resources.add("x://1", forever)
    app.resource("y://{a}")(member)
    method, params = {
        "tool": ("tools/call", {"name": "t"}),
        "prompt": ("prompts/get", {"name": "p"}),
        "resource": ("resources/read", {"uri": "x://1"}),
        "template": ("resources/read", {"uri": "y://1"}),
    }[kind]
    async with memory.connect(app, revision) as peer:
        answer = peer.start(method, params, id="slow")
        await asyncio.wait_for(begun.wait(), 60)
        peer.notify("notifications/cancelled", {"requestId": "slow", "reason": "changed my mind"})
        await asyncio.wait_for(ended.wait(), 60)
        await result(peer, "tools/list")
        assert not answer.done()
        again = peer.start("tools/list", {}, id="slow")  # the id is free again
        assert "result" in await again


async def test_cancelling_what_is_not_there_or_over_does_nothing() -> None:
    app = Server("s")
    app.tools.add(lambda: "x", name="t")
    async with memory.connect(app, JUNE) as peer:
        await call(peer, "t")
        for params in (
            {"requestId": 1},
            {"requestId": "none"},
            {"requestId": 1.5},
            {"requestId": None},
            {},
            {"requestId": []},
        ):
            peer.notify("notifications/cancelled", params)
        assert (await call(peer, "t"))["content"][0]["text"] == "x"
        assert notes(peer) == []


async def test_an_id_of_another_type_or_of_another_client_cancels_nothing() -> None:
    app = Server("s")
    begun, go = asyncio.Event(), asyncio.Event()

    @app.tool()
    async def slow() -> str:
        begun.set()
        await go.wait()
        return "done"

    async with memory.connect(app, JUNE) as peer:
        other = MemoryPeer(app, LATEST)
        answer = peer.start("tools/call", {"name": "slow"}, id=7)
        await asyncio.wait_for(begun.wait(), 60)
        peer.notify("notifications/cancelled", {"requestId": "7"})
        other.notify("notifications/cancelled", {"requestId": 7})
        await result(peer, "tools/list")
        go.set()
        assert (await answer)["result"]["content"][0]["text"] == "done"
        await other.dispatcher.close()


async def test_a_handler_may_clean_up_when_it_is_cancelled_but_says_nothing_more() -> None:
    app = Server("s")
    begun, ended = asyncio.Event(), asyncio.Event()

    @app.tool()
    async def tidy(context: Context) -> str:
        begun.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            await asyncio.sleep(0)
            context.report_progress(99)
            ended.set()
            raise
        return "never"

    async with memory.connect(app, JUNE) as peer:
        answer = peer.start("tools/call", {"name": "tidy", "_meta": {"progressToken": 1}}, id="x")
        await asyncio.wait_for(begun.wait(), 60)
        peer.notify("notifications/cancelled", {"requestId": "x"})
        await asyncio.wait_for(ended.wait(), 60)
        await result(peer, "tools/list")
        assert not answer.done()


async def test_a_handler_that_will_not_be_cancelled_is_not_answered_either() -> None:
    app = Server("s")
    begun, ended = asyncio.Event(), asyncio.Event()

    @app.tool()
    async def stubborn() -> str:
        begun.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            pass
        ended.set()
        return "here I am"

    async with memory.connect(app, JUNE) as peer:
        answer = peer.start("tools/call", {"name": "stubborn"}, id="x")
        await asyncio.wait_for(begun.wait(), 60)
        peer.notify("notifications/cancelled", {"requestId": "x"})
        await asyncio.wait_for(ended.wait(), 60)
        await result(peer, "tools/list")
        await asyncio.sleep(0)
        assert not answer.done()


async def test_a_sync_handler_cannot_be_stopped_but_its_caller_is_free_and_hears_nothing_more() -> None:
    app = Server("s")
    loop = asyncio.get_running_loop()
    begun, go, ended = asyncio.Event(), threading.Event(), asyncio.Event()
    cancelled = asyncio.Event()

    @app.middleware("tools/call")
    async def note_end(call: Any, next: Any) -> Any:
        try:
            return await next(call)
        finally:
            cancelled.set()

    @app.tool()
    def slow(context: Context) -> str:
        loop.call_soon_threadsafe(begun.set)
        assert go.wait(60)
        context.report_progress(5)
        context.info("still here")
        loop.call_soon_threadsafe(ended.set)
        return "late"

    async with memory.connect(app, JUNE) as peer:
        answer = peer.start("tools/call", {"name": "slow", "_meta": {"progressToken": 1}}, id="x")
        await asyncio.wait_for(begun.wait(), 60)
        peer.notify("notifications/cancelled", {"requestId": "x"})
        await asyncio.wait_for(cancelled.wait(), 60)
        go.set()
        await asyncio.wait_for(ended.wait(), 60)
        await result(peer, "tools/list")
        assert notes(peer) == []
        assert not answer.done()


async def test_a_batch_of_which_one_is_cancelled_has_no_answer_for_that_one() -> None:
    app = Server("s")
    begun, go = asyncio.Event(), asyncio.Event()

    @app.tool()
    async def slow() -> str:
        begun.set()
        await go.wait()
        return "done"

    async with memory.connect(app, MARCH) as peer:
        message = '{"jsonrpc":"2.0","id":"%s","method":"tools/call","params":{"name":"slow"}}'
        for id in ("a", "b"):
            peer._waiting[id] = asyncio.get_running_loop().create_future()
        first, second = peer._waiting["a"], peer._waiting["b"]
        peer.feed(f"[{message % 'a'},{message % 'b'}]".encode())
        await asyncio.wait_for(begun.wait(), 60)
        peer.notify("notifications/cancelled", {"requestId": "a"})
        await result(peer, "tools/list")
        go.set()
        assert (await asyncio.wait_for(second, 60))["result"]["content"][0]["text"] == "done"
        assert not first.done()


async def test_when_the_connection_ends_what_is_in_work_is_stopped() -> None:
    app = Server("s")
    begun, ended = asyncio.Event(), asyncio.Event()

    @app.tool()
    async def forever() -> str:
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()
        return "never"

    async with memory.connect(app) as peer:
        peer.start("tools/call", {"name": "forever"})
        await asyncio.wait_for(begun.wait(), 60)
    assert ended.is_set()


async def test_a_client_with_too_many_requests_at_a_time_is_told(caplog: pytest.LogCaptureFixture) -> None:
    app = Server("s", limits=Limits(max_requests_in_flight=20))
    go = asyncio.Event()

    @app.tool()
    async def slow() -> str:
        await go.wait()
        return "done"

    async with memory.connect(app, JUNE) as peer:
        waiting = [peer.start("tools/call", {"name": "slow"}) for _ in range(20)]
        refused = await peer.start("tools/call", {"name": "slow"})
        assert "Too many requests" in refused["error"]["message"]
        assert (await peer.request("ping"))["result"] == {}
        go.set()
        assert all("result" in reply for reply in await asyncio.gather(*waiting))
    assert [record for record in caplog.records if record.levelno >= logging.WARNING] == []


@pytest.mark.slow
@pytest.mark.parametrize("revision", ["2025-03-26", "2025-06-18", "2025-11-25", "2026-07-28"])
def test_handlers_see_the_headers_of_their_request_without_credentials(revision: str, tmp_path: Path) -> None:
    app = Server("headers")

    @app.tool
    async def told(context: Context) -> str:
        await asyncio.sleep(0)
        return f"{context.headers.get('X-Team', '')} {'Authorization' in context.headers}"

    @app.middleware
    async def late(call: Call, next: Next) -> Result:
        await asyncio.sleep(0)
        return await next(call)

    token, line = make_token("alice", [])
    (tmp_path / "tokens").write_text(f"{line}\n")
    with over_http(app, authorization=StaticTokens(tmp_path / "tokens")) as origin:
        url, team = f"{origin}/mcp", {"x-team": "blue"}
        if revision == "2026-07-28":
            answers = [ask(url, "tools/call", token, team, name="told").result]
        else:
            headers = {**team, "mcp-session-id": initialize(url, token, revision)}
            body = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "told"}}
            answers = [request(url, body, headers, token).result]
            if revision == "2025-03-26":
                answers += [reply["result"] for reply in request(url, [body, {**body, "id": 2}], headers, token).body]
    assert {answer["content"][0]["text"] for answer in answers} == {"blue False"}


def counting() -> Server:
    app = Server("counting")

    @app.tool
    async def count(context: Context) -> str:
        if context.session is None:
            return "none"
        number = await context.session.get("number", 0) + 1
        await context.session.set("number", number)
        return f"{number} {context.session.id}"

    return app


@pytest.mark.parametrize("revision", ALL)
async def test_a_session_keeps_values_of_handlers_until_it_is_closed(revision: str) -> None:
    app = counting()
    async with memory.connect(app, revision) as peer:
        answers = [(await call(peer, "count"))["content"][0]["text"] for _ in range(2)]
        assert answers == (["none", "none"] if revision == LATEST else ["1 ", "2 "])
    assert app.endpoint.runtime.sessions == {}


@pytest.mark.slow
def test_sessions_over_http_have_ids_and_values_of_their_own() -> None:
    body = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "count"}}
    app = counting()
    with over_http(app) as origin:
        url = f"{origin}/mcp"
        ids = [initialize(url) for _ in range(2)]
        for number in (1, 2):
            for id in ids:
                answer = request(url, body, {"mcp-session-id": id}).result
                assert answer["content"][0]["text"] == f"{number} {id}"
        request(url, None, {"mcp-session-id": ids[0]}, method="DELETE")
        assert [session.id for session in app.endpoint.runtime.sessions.values()] == ids[1:]


async def test_a_session_keeps_json_up_to_its_limit_and_counts_it_for_its_client() -> None:
    app = Server("kept", limits=Limits(max_session_state_bytes=100, max_kept_bytes_per_client=30_000))
    found: list[Any] = []

    @app.tool
    async def work(context: Context) -> None:
        session = context.session
        assert session is not None
        before = app.endpoint.budget.used
        await session.set("a", {"é": [1, None, 2.5]})
        found.append(await session.get("a"))
        await session.set("a", "x" * 90)
        for value in ("x" * 98, object()):
            with pytest.raises((ValueError, TypeError)) as failed:
                await session.set("a", value)
            found.append(str(failed.value))
        found.append(len(await session.get("a")))
        assert app.endpoint.budget.used > before
        await session.delete("a")
        await session.delete("a")
        found.append(await session.get("a"))
        assert app.endpoint.budget.used == before
        await session.set("a", 1)

    async with memory.connect(app, JUNE) as peer:
        await call(peer, "work")
    assert found[0] == {"é": [1, None, 2.5]}
    assert found[1] == "'a' (100 bytes) exceeds the limit of the session: its values may have 100 bytes " + (
        "(max_session_state_bytes)"
    )
    assert found[3:] == [90, None]
    assert app.endpoint.budget.used == 0


async def test_what_a_session_keeps_is_part_of_what_is_kept_for_its_client() -> None:
    app = Server("kept", limits=Limits(max_session_state_bytes=100_000, max_kept_bytes_per_client=30_000))

    @app.tool
    async def work(context: Context) -> None:
        assert context.session is not None
        with pytest.raises(ServerUnavailable, match="max_kept_bytes_per_client"):
            await context.session.set("a", "x" * 50_000)
        assert await context.session.get("a") is None

    async with memory.connect(app, JUNE) as peer:
        assert not (await call(peer, "work")).get("isError")


async def test_a_resource_that_a_tool_reads_knows_that_the_tool_call_was_cancelled() -> None:
    app = Server("s")
    begun: asyncio.Event = asyncio.Event()
    seen: asyncio.Queue[bool] = asyncio.Queue()

    @app.resource("x://1")
    async def inner(context: Context) -> str:
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            seen.put_nowait(context.cancelled)
        return "never"

    @app.tool()
    async def outer(context: Context) -> str:
        return str(await context.read_resource("x://1"))

    async with memory.connect(app, JUNE) as peer:
        peer.start("tools/call", {"name": "outer"}, id="slow")
        await asyncio.wait_for(begun.wait(), 60)
        peer.notify("notifications/cancelled", {"requestId": "slow"})
        assert await asyncio.wait_for(seen.get(), 60)
