"""Background event loop: one thread that runs everything asynchronous of all synchronous clients of the process.

It starts with the first client, and ends with the interpreter, after the clients that are still open were closed.
Plain functions that are handlers run in separate threads, so they never block the loop.
"""

from __future__ import annotations

import asyncio
import atexit
import os
import sys
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterator
from concurrent.futures import CancelledError, Future
from contextvars import copy_context
from functools import wraps
from typing import Any, Concatenate, ParamSpec, Protocol, TypeVar

from carrel.errors import ConfigError, TransportError

__all__ = ["Closing", "background", "call_in_thread", "iterate", "run", "run_later", "waiting"]

P = ParamSpec("P")
T = TypeVar("T")
#: Seconds that closing may take when the interpreter exits.
PATIENCE = 5.0
#: Seconds between looks for Ctrl-C where waiting for a lock cannot be interrupted; None where it can.
POLL = 0.2 if sys.platform == "win32" else None


class Closing(Protocol):
    """Client or host that is closed when the interpreter exits."""

    async def close(self) -> None:
        """Close the connections."""


class Background:
    """Event loop in a thread, with its open clients."""

    def __init__(self) -> None:
        self.loop = asyncio.new_event_loop()
        self.open: set[Closing] = set()
        self._thread = threading.Thread(target=self._run, name="carrel-sync", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        asyncio.set_event_loop(self.loop)
        self.loop.run_forever()

    @property
    def here(self) -> bool:
        """Whether the current thread is the loop's thread."""
        return threading.get_ident() == self._thread.ident

    def end(self) -> None:
        """Close the open clients, cancel all tasks, and end the thread."""

        async def close() -> None:
            await asyncio.gather(*(one.close() for one in list(self.open)), return_exceptions=True)
            rest = asyncio.all_tasks() - {asyncio.current_task()}
            for task in rest:
                task.cancel()
            await asyncio.gather(*rest, return_exceptions=True)

        try:
            asyncio.run_coroutine_threadsafe(close(), self.loop).result(PATIENCE)
        except (TimeoutError, CancelledError):
            pass
        self.loop.call_soon_threadsafe(self.loop.stop)
        self._thread.join(PATIENCE)
        if not self._thread.is_alive():
            self.loop.close()


_lock = threading.Lock()
_background: Background | None = None
_ended = False


def background() -> Background:
    """Return the background event loop, which is started if it does not run yet.

    Raises:
        TransportError: the interpreter is exiting.
    """
    global _background
    with _lock:
        if _ended:
            raise TransportError("the interpreter is exiting", delivered=False)
        if _background is None:
            _background = Background()
            atexit.register(_end)
        return _background


def _end() -> None:
    global _background, _ended
    with _lock:
        ending, _background, _ended = _background, None, True
    if ending is not None:
        ending.end()


def _forget() -> None:
    """Forget the loop in a process that was forked: its thread is not there."""
    global _background, _lock
    _background, _lock = None, threading.Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)


def run(work: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine in the background, and wait for it. Ctrl-C, or another exception in this thread, cancels it.

    Raises:
        ConfigError: this is the thread of the event loop, which would wait for itself.
        TransportError: the interpreter is exiting.
    """
    try:
        there = background()
    except TransportError:
        work.close()
        raise
    if there.here:
        work.close()
        raise ConfigError("a callback in the event loop cannot wait for it; use a plain function as a handler instead")
    if there.loop.is_closed():
        work.close()
        raise TransportError("the interpreter is exiting", delivered=False)
    future: Future[T] | None = None
    try:
        future = asyncio.run_coroutine_threadsafe(work, there.loop)
        return _wait(future)
    except CancelledError:
        raise TransportError("the client was closed during the call") from None
    except BaseException:
        if future is not None:
            future.cancel()
        raise


def _wait(future: Future[T]) -> T:
    while True:
        try:
            return future.result(POLL)
        except TimeoutError:
            if future.done():
                raise


def run_later(work: Coroutine[Any, Any, object]) -> None:
    """Run a coroutine in the background without waiting for it."""
    there = _background
    if there is None or there.loop.is_closed():
        work.close()
    else:
        asyncio.run_coroutine_threadsafe(work, there.loop)


def iterate(make: Callable[[], AsyncIterator[T]]) -> Iterator[T]:
    """Iterate over an asynchronous iterator, one item at a time, on demand."""
    source: AsyncIterator[T] | None = None
    end = object()

    async def step() -> Any:
        nonlocal source
        if source is None:
            source = make()
        return await anext(source, end)

    try:
        while (item := run(step())) is not end:
            yield item
    finally:
        close = getattr(source, "aclose", None)
        if close is not None:
            run_later(close())


async def call_in_thread(function: Callable[..., T], *arguments: Any) -> T:
    """Call a function in a new thread. It is a daemon: one that waits for the user does not hold up the exit."""
    loop = asyncio.get_running_loop()
    future: asyncio.Future[T] = loop.create_future()
    context = copy_context()

    def settle(value: Any, error: BaseException | None) -> None:
        if future.done():
            return
        if error is None:
            future.set_result(value)
        else:
            future.set_exception(error)

    def work() -> None:
        value, failure = None, None
        try:
            value = context.run(function, *arguments)
        except StopIteration as error:  # which a future refuses
            failure = RuntimeError(f"the handler raised {error!r}")
        except BaseException as error:
            failure = error  # type: ignore[assignment]
        try:
            loop.call_soon_threadsafe(settle, value, failure)
        except RuntimeError:  # the loop is closed
            pass

    threading.Thread(target=work, name="carrel-sync-handler", daemon=True).start()
    return await future


async def awaited(value: Awaitable[T] | T) -> T:
    """Return a value, awaited if it is awaitable."""
    return await value if isinstance(value, Awaitable) else value


def waiting(
    inside: str, method: Callable[Concatenate[Any, P], Coroutine[Any, Any, T]]
) -> Callable[Concatenate[Any, P], T]:
    """Return a method that waits for a method of the asynchronous object in an attribute, with its signature."""

    @wraps(method)
    def wait(self: Any, /, *arguments: P.args, **options: P.kwargs) -> T:
        work: Coroutine[Any, Any, T] = getattr(getattr(self, inside), method.__name__)(*arguments, **options)
        return run(work)

    return wait
