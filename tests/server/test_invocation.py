"""Calling a user's function: at once, on the event loop, or in a thread."""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import Coroutine
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from carrel import Context, Limits, Server
from carrel.protocol.server import Call
from carrel.server import invocation
from carrel.server.invocation import Function, run_now
from carrel.transports import memory
from carrel.transports.memory import MemoryPeer
from support.memory_client import LATEST, NOVEMBER, PREFIX, result


async def word(text: str) -> str:
    return text


async def fail() -> None:
    raise ValueError("no")


async def pause() -> str:
    await asyncio.sleep(0)
    return "late"


def call_of(app: Server) -> tuple[Call, MemoryPeer]:
    peer = MemoryPeer(app, LATEST)
    meta = f'{{"{PREFIX}protocolVersion":"{LATEST}","{PREFIX}clientCapabilities":{{}},"progressToken":1}}'
    call = peer.dispatcher.connection.receive(
        f'{{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{{"_meta":{meta}}}}}'.encode()
    )
    assert isinstance(call, Call)
    call.client = peer.dispatcher.client
    return call, peer


def test_a_coroutine_that_never_waits_is_run_to_its_end() -> None:
    assert run_now(word("x")) == "x"
    with pytest.raises(ValueError, match="no"):
        run_now(fail())


async def test_a_coroutine_that_waits_is_not_left_hanging() -> None:
    waiting = pause()
    with pytest.raises(RuntimeError, match="waited"):
        run_now(waiting)
    with pytest.raises(RuntimeError, match="cannot reuse"):
        waiting.send(None)


async def test_a_plain_function_runs_in_a_thread_with_its_arguments() -> None:
    def where(*arguments: Any, **named: Any) -> Any:
        return threading.get_ident(), arguments, named

    app = Server("s")
    call, _ = call_of(app)
    ident, arguments, named = await app.endpoint.runtime.run_in_thread(call, where, 1, two=2)
    await app.endpoint.stop()
    assert ident != threading.get_ident()
    assert (arguments, named) == ((1,), {"two": 2})


async def test_stop_iteration_does_not_leave_its_caller_waiting() -> None:
    app = Server("s")
    call, _ = call_of(app)
    with pytest.raises(RuntimeError, match="StopIteration"):
        await asyncio.wait_for(app.endpoint.runtime.run_in_thread(call, partial(next, iter(()))), 60)
    await app.endpoint.stop()


@pytest.mark.parametrize(
    ("function", "immediate"),
    [(word, True), (pause, False), (lambda text: text, False), (partial(word, text="x"), True)],
)
def test_only_what_cannot_wait_is_immediate(function: Any, immediate: bool) -> None:
    assert Function(Server("s").endpoint.runtime, function).immediate is immediate


async def test_a_plain_function_may_return_something_to_wait_for() -> None:
    app = Server("s")

    def make() -> Coroutine[Any, Any, str]:
        return pause()

    call, peer = call_of(app)
    assert await Function(app.endpoint.runtime, make).invoke({}, call, peer) == "late"


@pytest.mark.parametrize("kind", ["immediate", "waiting", "thread", "failing"])
async def test_a_context_ends_with_its_function(kind: str) -> None:
    app = Server("s")
    kept: list[Context] = []

    async def immediate(context: Context) -> None:
        kept.append(context)

    async def waiting(context: Context) -> None:
        kept.append(context)
        await asyncio.sleep(0)
        assert not context._over

    def thread(context: Context) -> None:
        kept.append(context)
        assert not context._over

    async def failing(context: Context) -> None:
        kept.append(context)
        raise ValueError

    kinds = {"immediate": immediate, "waiting": waiting, "thread": thread, "failing": failing}
    function = Function(app.endpoint.runtime, kinds[kind])
    call, peer = call_of(app)
    try:
        value = function.invoke({}, call, peer)
        if not function.immediate:
            await value
    except ValueError:
        assert kind == "failing"
    assert kept[0]._over


# What holds others up


@pytest.mark.parametrize("kind", ["immediate", "waiting", "with a context", "waiting with a context"])
async def test_a_function_that_holds_up_the_event_loop_is_named_in_the_log_once(
    kind: str, caplog: pytest.LogCaptureFixture
) -> None:
    app = Server("s", limits=Limits(slow_handler_seconds=0.01))

    async def immediate() -> None:
        time.sleep(0.02)

    async def waiting() -> None:
        await asyncio.sleep(0)
        time.sleep(0.02)

    async def with_context(context: Context) -> None:
        time.sleep(0.02)

    async def waiting_with_context(context: Context) -> None:
        await asyncio.sleep(0)
        time.sleep(0.02)

    functions = {
        "immediate": immediate,
        "waiting": waiting,
        "with a context": with_context,
        "waiting with a context": waiting_with_context,
    }
    app.tools.add(functions[kind], name="slow")
    async with memory.connect(app) as peer:
        for _ in range(3):
            await result(peer, "tools/call", name="slow")
    (record,) = caplog.records
    assert record.levelno == logging.WARNING
    assert record.getMessage().startswith("tool slow held up the event loop for ")


async def test_a_function_that_only_waits_or_runs_in_a_thread_is_not_named(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = 0.0
    monkeypatch.setattr(invocation, "monotonic", lambda: now)
    app = Server("s", limits=Limits(slow_handler_seconds=10))
    begun, go, thread_begun, thread_goes = asyncio.Event(), asyncio.Event(), threading.Event(), threading.Event()

    async def waits() -> str:
        begun.set()
        await go.wait()
        return "waited"

    def runs() -> str:
        thread_begun.set()
        assert thread_goes.wait(60)
        return "ran"

    app.resources.add("x://waits", waits)
    app.resources.add("x://thread", runs)
    async with memory.connect(app) as peer:
        reads = [peer.start("resources/read", {"uri": uri}) for uri in ("x://waits", "x://thread")]
        await asyncio.wait_for(begun.wait(), 60)
        assert await asyncio.to_thread(thread_begun.wait, 60)
        now = 1000.0
        go.set()
        thread_goes.set()
        assert all("result" in reply for reply in await asyncio.wait_for(asyncio.gather(*reads), 60))
    assert caplog.records == []


async def test_exceptions_thrown_into_a_measured_function_arrive_there() -> None:
    app = Server("s")
    begun, seen = asyncio.Event(), list[BaseException]()

    @app.tool()
    async def t() -> str:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0):
                await asyncio.Event().wait()
        begun.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError as error:
            seen.append(error)
            raise
        return "never"

    async with memory.connect(app) as peer:
        peer.start("tools/call", {"name": "t"}, id=1)
        await asyncio.wait_for(begun.wait(), 60)
    assert len(seen) == 1


# Threads


async def test_a_call_that_is_cancelled_while_it_waits_for_a_thread_is_never_begun() -> None:
    app = Server("s", limits=Limits(max_threads=1, max_waiting_for_threads_per_client=1))
    go, runs = threading.Event(), list[int]()

    @app.tool()
    def work(number: int) -> str:
        runs.append(number)
        assert go.wait(60)
        return "done"

    async with memory.connect(app, NOVEMBER) as peer:
        first = peer.start("tools/call", {"name": "work", "arguments": {"number": 1}}, id=1)
        peer.start("tools/call", {"name": "work", "arguments": {"number": 2}}, id=2)
        await asyncio.sleep(0)
        refused = await peer.start("tools/call", {"name": "work", "arguments": {"number": 3}}, id=3)
        assert refused["error"]["code"] == -32603
        assert "At most 1 requests of one client wait for a thread" in refused["error"]["message"]
        peer.notify("notifications/cancelled", {"requestId": 2})
        for _ in range(3):
            await asyncio.sleep(0)  # until it has heard of that
        last = peer.start("tools/call", {"name": "work", "arguments": {"number": 4}}, id=2)
        await asyncio.sleep(0)
        go.set()
        assert "result" in await asyncio.wait_for(first, 60)
        assert "result" in await asyncio.wait_for(last, 60)
    assert runs == [1, 4]


async def test_a_function_in_a_thread_can_see_that_its_call_was_cancelled() -> None:
    app = Server("s")
    begun, seen = asyncio.Event(), threading.Event()
    loop = asyncio.get_running_loop()

    @app.tool()
    def work(context: Context) -> None:
        assert not context.cancelled
        loop.call_soon_threadsafe(begun.set)
        while not context.cancelled:
            time.sleep(0.001)
        seen.set()

    async with memory.connect(app, NOVEMBER) as peer:
        peer.start("tools/call", {"name": "work"}, id=1)
        await asyncio.wait_for(begun.wait(), 60)
        peer.notify("notifications/cancelled", {"requestId": 1})
        assert await asyncio.to_thread(seen.wait, 60)


async def test_files_and_completers_use_the_threads_of_the_server_too(tmp_path: Path) -> None:
    app = Server("s")
    (tmp_path / "a.txt").write_text("text")
    app.resources.add("x://file", tmp_path / "a.txt")
    names: list[str] = []

    @app.resource("x://{a}")
    def member(a: str) -> str:
        names.append(threading.current_thread().name)
        return a

    @member.complete("a")
    def complete(prefix: str) -> list[str]:
        names.append(threading.current_thread().name)
        return [prefix]

    async with memory.connect(app) as peer:
        assert (await result(peer, "resources/read", uri="x://file"))["contents"][0]["text"] == "text"
        assert app.endpoint.runtime.threads.alive == 1
        await result(peer, "resources/read", uri="x://1")
        ref = {"type": "ref/resource", "uri": "x://{a}"}
        await result(peer, "completion/complete", ref=ref, argument={"name": "a", "value": "v"})
    assert names == ["carrel-handler"] * 2
