"""A server whose functions end in every way that Python knows, except by a result that can be sent.

Run as a program: ``failing.py stdio`` or ``failing.py http``.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

from carrel import Context, Limits, Server
from carrel.protocol.extension import Extension
from carrel.protocol.methods import RequestType, Result
from carrel.wire.base import Params

WAYS = ("immediate", "waiting", "reporting", "thread")


def raises(error: Callable[[], BaseException]) -> Callable[[], Any]:
    def fail() -> Any:
        raise error()

    return fail


def recurse() -> Any:
    return recurse()


def endless() -> Any:
    found: list[Any] = []
    found.append(found)
    return found


def parse() -> Any:
    return argparse.ArgumentParser(prog="tool").parse_args(["--no-such-option"])


OUTCOMES: dict[str, Callable[[], Any]] = {
    "exit": lambda: sys.exit(3),
    "argparse": parse,
    "interrupt": raises(KeyboardInterrupt),
    "cancelled": raises(asyncio.CancelledError),
    "generator-exit": raises(lambda: GeneratorExit("x")),
    "stop-iteration": raises(StopIteration),
    "base": raises(lambda: BaseException("x")),
    "group": raises(lambda: BaseExceptionGroup("x", [SystemExit(1), KeyboardInterrupt(), GeneratorExit()])),
    "recursion": recurse,
    "object": object,
    "surrogate": lambda: "\ud800",
    "endless": endless,
}


def function(way: str, outcome: str) -> Callable[..., Any]:
    """Return a function that ends in a certain way, after a certain time."""
    end = OUTCOMES[outcome]

    async def immediate() -> Any:
        return end()

    async def waiting() -> Any:
        await asyncio.sleep(0)
        return end()

    async def reporting(context: Context) -> Any:
        await context.report_progress(1)
        await asyncio.sleep(0)
        return end()

    def thread() -> Any:
        return end()

    return {"immediate": immediate, "waiting": waiting, "reporting": reporting, "thread": thread}[way]


async def cancels_itself() -> str:
    task = asyncio.current_task()
    assert task is not None
    task.cancel()
    await asyncio.sleep(0)
    return "never"


async def cancels_itself_and_returns() -> str:
    await asyncio.sleep(0)
    task = asyncio.current_task()
    assert task is not None
    task.cancel()
    return "done"


async def has_a_child_that_exits() -> None:
    async def child() -> None:
        await asyncio.sleep(0)
        sys.exit(3)

    async with asyncio.TaskGroup() as group:
        group.create_task(child())


def make(**limits: Any) -> Server:
    """Return the server."""
    app = Server("failing", limits=Limits(**limits))
    operations: dict[str, Any] = {}
    for way in WAYS:
        for outcome in OUTCOMES:
            app.tools.add(function(way, outcome), name=f"{way}/{outcome}", task="optional", structured=False)
            app.resources.add(f"fixed://{way}/{outcome}", function(way, outcome))
            app.prompts.add(function(way, outcome), name=f"{way}/{outcome}")
            operations[f"{way}-{outcome}"] = operation(way, outcome)

    @app.resource("family://{way}/{outcome}")
    async def member(way: str, outcome: str, context: Context) -> Any:
        return await function(way, outcome)(*([context] if way == "reporting" else []))

    @member.complete("way")
    def complete_in_a_thread(prefix: str) -> Any:
        found = OUTCOMES[prefix]()
        return 5 if isinstance(found, list | str) else found

    @member.complete("outcome")
    async def complete(prefix: str) -> Any:
        found = OUTCOMES[prefix]()
        return 5 if isinstance(found, list | str) else found

    app.tools.add(cancels_itself)
    app.tools.add(cancels_itself_and_returns)
    app.tools.add(has_a_child_that_exits)
    app.resources.add("memo://fine", "fine")
    app.extend(
        Extension(
            name="com.example/failing",
            requests={f"failing/{name}": RequestType(f"failing/{name}", name, Params, Result) for name in operations},
            handshake=True,
        ),
        operations,
    )

    @app.tool()
    async def quick() -> str:
        return "quick"

    @app.tool()
    def quick_in_a_thread() -> str:
        return "quick"

    @app.tool()
    def block(seconds: float) -> str:
        released.wait(seconds)
        return "late"

    @app.tool()
    async def forever() -> str:
        await asyncio.Event().wait()
        return "never"

    @app.tool()
    async def hold_up(seconds: float) -> str:
        time.sleep(seconds)
        return "late"

    return app


released = threading.Event()


def operation(way: str, outcome: str) -> Any:
    """Return an operation of an extension, which may return anything to wait for."""

    def answer(call: Any, channel: Any) -> Any:
        if way == "immediate":
            return OUTCOMES[outcome]()
        if way == "waiting":
            return function(way, outcome)()
        future = asyncio.get_running_loop().create_future()
        if way == "thread":
            future.cancel()
        else:
            future.set_exception(ValueError("x"))
        return future

    return answer


def requests() -> Iterator[tuple[str, dict[str, Any]]]:
    """Every request that fails."""
    for outcome in OUTCOMES:
        for way in WAYS:
            yield "tools/call", {"name": f"{way}/{outcome}", "_meta": {"progressToken": f"{way}/{outcome}"}}
            yield "resources/read", {"uri": f"fixed://{way}/{outcome}"}
            if way != "thread":
                yield "resources/read", {"uri": f"family://{way}/{outcome}"}
            yield "prompts/get", {"name": f"{way}/{outcome}"}
            yield f"failing/{way}-{outcome}", {}
        for variable in ("way", "outcome"):
            ref = {"type": "ref/resource", "uri": "family://{way}/{outcome}"}
            yield "completion/complete", {"ref": ref, "argument": {"name": variable, "value": outcome}}
    yield "tools/call", {"name": "cancels_itself"}


def some_requests() -> Iterator[tuple[str, dict[str, Any]]]:
    """Requests that fail: every outcome in every way and by every method, but not in every way by every method."""
    every = list(requests())
    for number, outcome in enumerate(OUTCOMES):
        for other, way in enumerate(WAYS):
            alike = [one for one in every if f"{way}/{outcome}" in str(one) or one[0] == f"failing/{way}-{outcome}"]
            yield alike[(number + other) % len(alike)]
    yield from (one for one in every if one[0] == "completion/complete" or "cancels_itself" in str(one))


def check(method: str, params: dict[str, Any], reply: dict[str, Any]) -> None:
    """Check that a request was answered with an error."""
    if "error" in reply:
        assert reply["error"]["code"] == -32603, (method, params, reply)
    else:
        assert method == "tools/call", (method, params, reply)
        assert reply["result"]["isError"] is True, (method, params, reply)


if __name__ == "__main__":
    limits = ("max_requests_in_flight", "max_waiting_for_threads_per_client")
    app = make(**{name: int(number) for name, number in zip(limits, sys.argv[2:], strict=False)})
    if sys.argv[1] == "stdio":
        app.run()
    else:
        app.run("http", port=0, sse_path="/sse", on_started=lambda url: print(url, file=sys.stderr, flush=True))
