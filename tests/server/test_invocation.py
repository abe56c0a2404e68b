"""Calling a user's function: at once, on the event loop, or in a thread."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine
from functools import partial
from typing import Any

import pytest

from carrel import Context, Server
from carrel.protocol.server import Call
from carrel.server.invocation import Function, run_in_thread, run_now
from carrel.transports.memory import MemoryPeer
from server.asking import LATEST, PREFIX


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
    call = peer.dialogue.connection.receive(
        f'{{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{{"_meta":{meta}}}}}'.encode()
    )
    assert isinstance(call, Call)
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

    ident, arguments, named = await run_in_thread(where, 1, two=2)
    assert ident != threading.get_ident()
    assert (arguments, named) == ((1,), {"two": 2})


async def test_stop_iteration_does_not_leave_its_caller_waiting() -> None:
    with pytest.raises(RuntimeError, match="StopIteration"):
        await asyncio.wait_for(run_in_thread(partial(next, iter(()))), 5)


@pytest.mark.parametrize(
    ("function", "immediate"),
    [(word, True), (pause, False), (lambda text: text, False), (partial(word, text="x"), True)],
)
def test_only_what_cannot_wait_is_immediate(function: Any, immediate: bool) -> None:
    assert Function(Server("s"), function).immediate is immediate


async def test_a_plain_function_may_return_something_to_wait_for() -> None:
    app = Server("s")

    def make() -> Coroutine[Any, Any, str]:
        return pause()

    call, peer = call_of(app)
    assert await Function(app, make).invoke({}, call, peer) == "late"


@pytest.mark.parametrize("kind", ["immediate", "waiting", "thread", "failing"])
async def test_a_context_ends_with_its_function(kind: str) -> None:
    app = Server("s")
    kept: list[Context] = []

    async def immediate(context: Context) -> None:
        kept.append(context)

    async def waiting(context: Context) -> None:
        kept.append(context)
        await asyncio.sleep(0)
        assert not context.over

    def thread(context: Context) -> None:
        kept.append(context)
        assert not context.over

    async def failing(context: Context) -> None:
        kept.append(context)
        raise ValueError

    function = Function(app, {"immediate": immediate, "waiting": waiting, "thread": thread, "failing": failing}[kind])
    call, peer = call_of(app)
    try:
        value = function.invoke({}, call, peer)
        if not function.immediate:
            await value
    except ValueError:
        assert kind == "failing"
    assert kept[0].over
