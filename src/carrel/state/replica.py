"""Replica: passes notices and letters of other replicas to handlers, and writes to the store in the background."""

from __future__ import annotations

import asyncio
import contextlib
import math
from collections import deque
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any, TypeVar

from carrel.errors import ServerUnavailable
from carrel.log import Log
from carrel.state.interfaces import LeaseExpired, Quotas, State, StoreUnavailable
from carrel.state.records import Changed, Gap, Letter, Notice, SlotExpired

if TYPE_CHECKING:
    from carrel.state.connections import MailboxConnections
    from carrel.state.leased_quotas import LeasedQuotas

__all__ = ["Replica"]

#: Seconds after which reading is tried again when the store has failed.
RETRY = 1.0

#: How many times within its lifetime the lease of a slot is renewed.
RENEWALS = 3

#: Number of changes that every replica sees itself which are kept for clients that reconnect.
MAX_SEEN = 1024

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
    """One of the servers that share a store. With a private store, the replica does not read the bus."""

    def __init__(self, state: State) -> None:
        self.state = state
        self.position = 0
        """Position of the bus up to which notices were handled here."""
        self._started = 0
        self._seen: deque[tuple[int, Changed]] = deque()
        """Changes that each replica sees itself, with the position of the bus at that time."""
        self._seen_from = 0
        """Position since which no notice has been lost."""
        self._handlers: dict[type, list[Callable[[Any], None]]] = {}
        self._writes: deque[Coroutine[Any, Any, Any] | asyncio.Future[None]] = deque()
        """Operations in their order, and futures of callers that wait for the earlier ones."""
        self._writing: asyncio.Task[None] | None = None
        self._reading: list[asyncio.Task[None]] = []
        self._letters: asyncio.Task[None] | None = None
        self._slot_expired = asyncio.Event()
        """The slot is known to be lost."""
        self._held_until = math.inf
        """When the lease of the slot expires at the latest, by the clock of the event loop."""
        self._quotas: LeasedQuotas | None = None
        self._connections: MailboxConnections | None = None

    @property
    def shared(self) -> bool:
        """Whether there are other replicas."""
        return self.state.shared

    def on(self, kind: type[T], handler: Callable[[T], None]) -> None:
        """Call a handler with each notice or letter of a kind, and with each ``Gap`` and ``SlotExpired``."""
        self._handlers.setdefault(kind, []).append(handler)

    def off(self, kind: type[T], handler: Callable[[T], None]) -> None:
        """Remove a handler."""
        self._handlers[kind].remove(handler)

    @property
    def quotas(self) -> Quotas:
        """Token buckets that do not wait for the store at each request; see ``carrel.state.leased_quotas``."""
        if self.state.immediate:
            return self.state.quotas
        if self._quotas is None:
            from carrel.state.leased_quotas import LeasedQuotas

            self._quotas = LeasedQuotas(self.state.quotas)
        return self._quotas

    @property
    def connections(self) -> MailboxConnections:
        """Connections with other replicas."""
        if self._connections is None:
            from carrel.state.connections import MailboxConnections

            self._connections = MailboxConnections(self)
        return self._connections

    async def start(self) -> None:
        """Start to read notices and letters, if the store is shared."""
        begun = asyncio.get_running_loop().time()
        await self.state.start()
        self._held_until = begun + self.state.lease
        if self.shared:
            _ = self.connections  # others may open some
            self.position = self._started = await self.state.bus.position()
            self._reading = [asyncio.create_task(self._read_bus())]
            self._read_letters()
            if self.state.lease != math.inf:
                self._reading.append(asyncio.create_task(self._keep_slot()))

    async def stop(self) -> None:
        """Stop reading, after all writes are done."""
        if self._connections is not None:
            await self._connections.stop()
        await self.written()
        quotas, self._quotas = self._quotas, None
        if quotas is not None:
            await quotas.stop()
        reading, self._reading = self._reading, []
        if self._letters is not None:
            reading.append(self._letters)
        for task in reading:
            task.cancel()
        await asyncio.gather(*reading, return_exceptions=True)
        with contextlib.suppress(StoreUnavailable):  # the lease of the slot expires
            await self.state.stop()

    # Slot

    def check_slot(self) -> None:
        """Check that the lease of the slot has not expired, as it does while the process is paused.

        Raises:
            ServerUnavailable: it may have; another slot is being taken.
        """
        if asyncio.get_running_loop().time() >= self._held_until:
            raise ServerUnavailable("This server was cut off from the others: try again")

    async def _keep_slot(self) -> None:
        while True:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self.state.lease / RENEWALS):
                    await self._slot_expired.wait()
            self._slot_expired.clear()
            try:
                await self.renew()
            except StoreUnavailable:
                pass
            except Exception:
                log.exception("renewing the lease of slot %d failed", self.state.slot)

    async def renew(self) -> None:
        """Renew the lease of the slot. If it is lost, drop everything that others take for dead, and take another."""
        loop = asyncio.get_running_loop()
        begun = loop.time()
        try:
            held = await self.state.renew()
        except Exception:
            if loop.time() >= self._held_until:
                self._drop_slot()
            raise
        if not held or self._held_until == -math.inf:
            self._drop_slot()
            begun = loop.time()
            await self.state.take_slot()
            self._read_letters()
            log.warning("this replica lost its slot; it continues in slot %d", self.state.slot)
        self._held_until = begun + self.state.lease

    def _drop_slot(self) -> None:
        if self._held_until != -math.inf:
            self._held_until = -math.inf
            self._pass(SlotExpired(self.state.slot))

    # Reading

    async def _read_bus(self) -> None:
        while True:
            try:
                batch = await self.state.bus.read(self.position)
            except StoreUnavailable:
                await asyncio.sleep(RETRY)
                continue
            except Exception:
                log.exception("reading the notices of other replicas failed")
                await asyncio.sleep(RETRY)
                continue
            if batch.gap:
                self._pass(Gap(self.position))
            for self.position, notice in batch.notices:
                self._pass(notice)
            self.position = batch.position

    def _read_letters(self) -> None:
        """Begin to read the mailbox of the slot."""
        if self._letters is not None:
            self._letters.cancel()
        self._letters = asyncio.create_task(self._read_mailbox())

    async def _read_mailbox(self) -> None:
        while True:
            try:
                letters = await self.state.mailbox.take()
            except LeaseExpired:
                self._drop_slot()
                self._slot_expired.set()
                return  # ``renew`` begins again
            except StoreUnavailable:
                await asyncio.sleep(RETRY)
                continue
            except Exception:
                log.exception("reading the letters of other replicas failed")
                await asyncio.sleep(RETRY)
                continue
            for letter in letters:
                self._pass(letter)

    def _pass(self, message: Notice | Letter | Gap | SlotExpired) -> None:
        for handler in self._handlers.get(type(message), ()):
            try:
                handler(message)
            except Exception:
                log.exception("%s of another replica could not be handled", type(message).__name__)

    # Earlier changes, for clients that reconnect

    async def since(self, position: int, slot: int) -> list[Notice] | None:
        """Return the notices after a position of the bus up to which the replica ``slot`` has sent them to a client.

        Changes that each replica sees itself are among them. Returns None if some are not known any more.

        Raises:
            ServerUnavailable: the store has failed.
        """
        bus, notices, after = self.state.bus, list[Notice](), position
        while True:
            last = await self.ask(bus.position())
            if after > last:
                return None
            while after < last:
                batch = await self.ask(bus.read(after))
                if batch.gap:
                    return None
                notices.extend(notice for _, notice in batch.notices)
                after = batch.position
            if after >= self.position:
                break
        if slot != self.state.slot or position < self._started:
            if self._seen or position < self._started:  # it may have sent fewer of them, or more
                return None
        elif position < self._seen_from:
            return None
        return [*notices, *(changed for at, changed in self._seen if at >= position)]

    def record(self, notice: Notice) -> None:
        """Keep a notice that is handled by each replica without the bus, for clients that reconnect."""
        if not self.shared:
            run_now(self.state.bus.publish(notice))
            self.position = run_now(self.state.bus.position())
        elif isinstance(notice, Changed):
            self._seen.append((self.position, notice))
            if len(self._seen) > MAX_SEEN:
                self._seen_from = self._seen.popleft()[0] + 1

    def run(self, coroutine: Coroutine[Any, Any, T]) -> T | Coroutine[Any, Any, T]:
        """Return the result of a coroutine that waits for the store only, if that never waits; else itself."""
        return run_now(coroutine) if self.state.immediate else coroutine

    async def ask(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Return the result of an operation of the store that a request needs.

        Raises:
            ServerUnavailable: the store has failed, or cannot be reached (status 503); this is logged.
        """
        try:
            return await coroutine
        except StoreUnavailable as error:
            raise unavailable() from error
        except Exception as error:
            log.exception("the store of shared state failed during a request")
            raise unavailable() from error

    # Writing

    def publish(self, notice: Notice) -> None:
        """Tell all replicas, this one too; does nothing without others."""
        if self.shared:
            self.write(self.state.bus.publish(notice))

    def notify(self, slot: int, letter: Letter) -> None:
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
                write = self._writes.popleft()
                if isinstance(write, asyncio.Future):
                    if not write.done():
                        write.set_result(None)
                    continue
                try:
                    await write
                except StoreUnavailable:
                    pass
                except Exception:
                    log.exception("writing to the store of shared state failed")
        finally:
            self._writing = None

    async def written(self) -> None:
        """Wait until all earlier operations are done."""
        if self._writing is not None:
            done = asyncio.get_running_loop().create_future()
            self._writes.append(done)
            await done


def unavailable() -> ServerUnavailable:
    """Return the error for a request that needs the store while it is away, with status 503."""
    error = ServerUnavailable("The state of the server is not available now: try again later")
    error.status = 503
    return error
