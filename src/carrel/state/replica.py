"""Replica: passes notices and letters of other replicas to handlers, and writes to the store in the background."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from carrel.errors import ServerUnavailable
from carrel.log import Log
from carrel.state.interfaces import State
from carrel.state.records import Gap, Letter, Notice

__all__ = ["Replica"]

#: Seconds after which reading is tried again when the store has failed.
RETRY = 1.0

T = TypeVar("T")
log = Log("carrel")


def run_now(coroutine: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine that never waits, and return its result."""
    try:
        coroutine.send(None)
    except StopIteration as end:
        return end.value  # type: ignore[no-any-return]
    coroutine.close()
    raise RuntimeError("a method of a store that is immediate has waited")


class Replica:
    """One server among those that share a store. With a store of its own, it neither reads nor publishes."""

    def __init__(self, state: State) -> None:
        self.state = state
        self._handlers: dict[type, list[Callable[[Any], None]]] = {}
        self._writes: deque[Coroutine[Any, Any, Any]] = deque()
        self._writing: asyncio.Task[None] | None = None
        self._reading: list[asyncio.Task[None]] = []

    @property
    def shared(self) -> bool:
        """Whether there are other replicas."""
        return self.state.shared

    def on(self, kind: type[T], handler: Callable[[T], None]) -> None:
        """Call a handler with each notice or letter of a kind, and with ``Gap`` when notices were lost."""
        self._handlers.setdefault(kind, []).append(handler)

    def off(self, kind: type[T], handler: Callable[[T], None]) -> None:
        """Remove a handler."""
        self._handlers[kind].remove(handler)

    async def start(self) -> None:
        """Start to read notices and letters, if the store is shared."""
        await self.state.start()
        if self.shared:
            position = await self.state.bus.position()
            self._reading = [asyncio.create_task(self._read_bus(position)), asyncio.create_task(self._read_mailbox())]

    async def stop(self) -> None:
        """Stop reading, after all writes are done."""
        await self.written()
        reading, self._reading = self._reading, []
        for task in reading:
            task.cancel()
        await asyncio.gather(*reading, return_exceptions=True)
        await self.state.stop()

    # Reading

    async def _read_bus(self, position: int) -> None:
        while True:
            try:
                batch = await self.state.bus.read(position)
            except Exception:
                log.exception("reading the notices of other replicas failed")
                await asyncio.sleep(RETRY)
                continue
            position = batch.position
            if batch.gap:
                self._pass(Gap())
            for notice in batch.notices:
                self._pass(notice)

    async def _read_mailbox(self) -> None:
        while True:
            try:
                letters = await self.state.mailbox.take()
            except Exception:
                log.exception("reading the letters of other replicas failed")
                await asyncio.sleep(RETRY)
                continue
            for letter in letters:
                self._pass(letter)

    def _pass(self, message: Notice | Letter | Gap) -> None:
        for handler in self._handlers.get(type(message), ()):
            try:
                handler(message)
            except Exception:
                log.exception("%s of another replica could not be handled", type(message).__name__)

    def run(self, coroutine: Coroutine[Any, Any, T]) -> T | Coroutine[Any, Any, T]:
        """Return the result of a coroutine that waits for the store only, if that never waits; else itself."""
        return run_now(coroutine) if self.state.immediate else coroutine

    async def ask(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Return the result of an operation of the store that a request needs.

        Raises:
            ServerUnavailable: the store has failed, which is logged.
        """
        try:
            return await coroutine
        except Exception as error:
            log.exception("the store of shared state failed during a request")
            raise ServerUnavailable("The state of the server is not available now: try again later") from error

    # Writing

    def publish(self, notice: Notice) -> None:
        """Tell all replicas, this one too; does nothing without others."""
        if self.shared:
            self.write(self.state.bus.publish(notice))

    def tell(self, slot: int, letter: Letter) -> None:
        """Tell one other replica."""
        self.write(self.state.mailbox.put(slot, letter))

    def write(self, coroutine: Coroutine[Any, Any, Any]) -> None:
        """Run an operation of the store after all earlier ones, at once if the store never waits."""
        if self.state.immediate:
            run_now(coroutine)
            return
        self._writes.append(coroutine)
        if self._writing is None:
            self._writing = asyncio.create_task(self._write())

    async def _write(self) -> None:
        try:
            while self._writes:
                coroutine = self._writes.popleft()
                try:
                    await coroutine
                except Exception:
                    log.exception("writing to the store of shared state failed")
        finally:
            self._writing = None

    async def written(self) -> None:
        """Wait until all earlier operations are done."""
        if self._writing is not None:
            await asyncio.wait((self._writing,))
