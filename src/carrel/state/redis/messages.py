"""Messages between replicas in Redis: the bus to all replicas and a mailbox for each, both read on one connection."""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from collections.abc import Callable
from typing import Any

import msgspec

from carrel.log import Log
from carrel.state.interfaces import LeaseExpired, StoreUnavailable
from carrel.state.records import Letter, Notice, NoticeBatch, ReplicaGone
from carrel.state.redis import scripts
from carrel.state.redis.address import PATIENCE, disconnect, explain, send
from carrel.state.redis.connection import RETRY, RedisClient, connect
from carrel.state.redis.sealing import RecordSealer
from carrel.state.redis.tables import Keys

__all__ = ["MessageReader", "RedisBus", "RedisMailbox"]

#: Milliseconds for which Redis holds a read; afterwards the reader checks that the bus and the slot are the same.
BLOCK = 2000
#: Maximum number of messages of one read.
COUNT = 1000
#: Maximum number of notices that are kept in the process for readers that are behind.
MAX_RECENT = 1024
#: Maximum number of letters in a mailbox, about.
MAX_LETTERS = 100_000

_read_notice = msgspec.msgpack.Decoder(Notice).decode
_read_letter = msgspec.msgpack.Decoder(Letter).decode
_write = msgspec.msgpack.encode
log = Log("carrel")


class RedisBus:
    """Bus in Redis: one stream, whose ids are positions. A skipped position means that notices may be lost."""

    def __init__(self, client: RedisClient, keys: Keys, sealer: RecordSealer, size: int) -> None:
        self._client = client
        self._keys = keys
        self._sealer = sealer
        self.size = size
        self.name = ""
        self.last = 0
        """Position up to which the reader of this replica has read."""
        self._start = 0
        """Position after which ``_recent`` has every notice."""
        self._recent: deque[tuple[int, Notice]] = deque()
        self._waiting: list[asyncio.Future[None]] = []
        self._unreadable = False
        """An entry that cannot be read was logged."""
        self.lost = False
        """Whether a notice of this replica may be missing on the bus."""

    async def publish(self, notice: Notice) -> None:
        """Add a notice."""
        sealed = self._sealer.seal(_write(notice), self._keys.bus.encode())
        try:
            await self._client.run(scripts.PUBLISH, [self._keys.counters, self._keys.bus], self.size, sealed)
        except StoreUnavailable:
            self.lost = True
            raise

    async def _skip(self) -> None:
        """Skip a position, so that all replicas notify their clients of everything that they listen to."""
        await self._client.run(scripts.SKIP, [self._keys.counters, self._keys.bus], self.size)
        self.lost = False

    async def position(self) -> int:
        """Return the position after the last notice."""
        return int(await self._client.call("HGET", self._keys.counters, "position") or 0)

    def rename(self, name: str) -> None:
        """Record the name of the bus. If it is another bus than before, notices were lost."""
        self.lost = self.lost or self.name not in ("", name)
        self.name = name

    async def check(self) -> None:
        """Skip a position if the bus has lost notices, or if a notice of this replica may be lost."""
        name, position = await self._client.call("HMGET", self._keys.counters, "name", "position")
        if name is not None:
            self.rename(name.decode())
        if self.lost or (position is not None and int(position) < self.last):
            await self._skip()

    def begin(self, position: int) -> None:
        """Start reading after a position."""
        self.last = self._start = position
        self._recent.clear()

    def add(self, entries: list[Any]) -> list[Notice]:
        """Add entries that were read from the stream, and return their notices."""
        notices = []
        for position, notice in self._decode(entries):
            if position != self.last + 1:
                self._start = position - 1
                self._recent.clear()
            self.last = position
            if notice is not None:
                self._recent.append((position, notice))
                notices.append(notice)
        while len(self._recent) > MAX_RECENT:
            self._start = self._recent.popleft()[0]
        waiting, self._waiting = self._waiting, []
        for future in waiting:
            if not future.done():
                future.set_result(None)
        return notices

    def _decode(self, entries: list[Any]) -> list[tuple[int, Notice | None]]:
        found: list[tuple[int, Notice | None]] = []
        for id, (field, value) in entries:
            notice: Notice | None = None
            if field == b"gone" and value.isdigit():
                notice = ReplicaGone(int(value))
            elif field == b"sealed":
                plain = self._sealer.try_open(value, self._keys.bus.encode())
                notice = None if plain is None else _read_notice(plain)
            if notice is None and field != b"skip" and not self._unreadable:
                self._unreadable = True
                log.warning("entries of %s were not written by replicas with these state_keys: ignored", self._keys.bus)
            found.append((int(id.partition(b"-")[0]), notice))
        return found

    async def read(self, after: int) -> NoticeBatch:
        """Return the notices after a position; wait until there are some."""
        while True:
            if after >= self._start and self.last > after:
                return NoticeBatch(self.last, [notice for notice in self._recent if notice[0] > after])
            if self.last > after:
                arguments = (self._keys.bus, f"({after}-0", "+", "COUNT", COUNT)
                entries = self._decode(await self._client.call("XRANGE", *arguments))
                if not entries:
                    return NoticeBatch(self.last, [], gap=True)
                positions = [position for position, _ in entries]
                gap = positions != list(range(after + 1, after + 1 + len(positions)))
                notices = [(position, notice) for position, notice in entries if notice is not None]
                return NoticeBatch(positions[-1], notices, gap)
            future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._waiting.append(future)
            await future


class RedisMailbox:
    """Mailboxes in Redis: a stream per slot."""

    def __init__(self, client: RedisClient, keys: Keys, sealer: RecordSealer) -> None:
        self._client = client
        self._keys = keys
        self._sealer = sealer
        self.key = ""
        """Key of the mailbox of this replica."""
        self.last = b"0-0"
        """Id of the last letter that was read."""
        self._slot = -1
        self._token = ""
        self._letters: deque[Letter] = deque()
        self._arrived = asyncio.Event()
        self._expired = True

    async def put(self, slot: int, letter: Letter) -> bool:
        """Add a letter; return False if no replica has this slot (any more)."""
        key = f"{self._keys.mailboxes}{slot}"
        sealed = self._sealer.seal(_write(letter), key.encode())
        return bool(await self._client.run(scripts.PUT, [self._keys.leases, key], slot, sealed, MAX_LETTERS))

    def begin(self, slot: int, token: str) -> None:
        """Start reading the letters to a slot, which this replica has with a token."""
        self._slot, self._token = slot, token
        self.key = f"{self._keys.mailboxes}{slot}"
        self.last = b"0-0"
        self._letters.clear()
        self._expired = False

    async def check(self) -> None:
        """Check that Redis has the slot of this replica: after FLUSHALL, it has none."""
        slot = self._slot
        held = await self._client.call("HGET", self._keys.counters, f"slot:{slot}")
        if slot == self._slot and held != self._token.encode():
            self.expire()

    def expire(self) -> None:
        """Record that this replica has no slot any more."""
        self._expired = True
        self._letters.clear()
        self._arrived.set()

    def add(self, entries: list[Any]) -> None:
        """Add entries that were read from the stream, and delete them there."""
        for self.last, (_, sealed) in entries:
            self._letters.append(_read_letter(self._sealer.open(sealed, self.key.encode())))
        self._arrived.set()
        time, _, number = self.last.partition(b"-")
        trimmed = self._client.submit("XTRIM", self.key, "MINID", b"%s-%d" % (time, int(number) + 1))
        trimmed.add_done_callback(
            lambda done: done.exception()
        )  # if it fails, the size and lifetime of the mailbox are limited

    async def take(self) -> list[Letter]:
        """Return and remove the letters to this replica, oldest first; wait until there are some."""
        while not self._letters:
            if self._expired:
                raise LeaseExpired("The lease of the slot was not renewed in time")
            self._arrived.clear()
            await self._arrived.wait()
        letters = list(self._letters)
        self._letters.clear()
        return letters


class MessageReader:
    """Reads the bus and the mailbox of a replica on a connection that waits for messages."""

    def __init__(self, client: RedisClient, bus: RedisBus, mailbox: RedisMailbox, keys: Keys) -> None:
        self._client = client
        self._bus = bus
        self._mailbox = mailbox
        self._keys = keys
        self._task: asyncio.Task[None] | None = None
        self._checked = 0.0
        self.on_notice: Callable[[Notice], None] = lambda notice: None
        """Called with each notice before others read it."""

    def start(self) -> None:
        """Begin to read."""
        self._task = asyncio.create_task(self._run())

    async def stop(self) -> None:
        """Stop reading."""
        if self._task is not None:
            task, self._task = self._task, None
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    async def _run(self) -> None:
        from redis.exceptions import RedisError

        while True:
            connection = None
            try:
                connection = await connect(self._client.address)
                await self._check()
                while True:
                    await self._read(connection)
            except (RedisError, StoreUnavailable, OSError, TimeoutError) as error:
                log.debug("reading from %s failed: %s", self._client.address.shown, explain(error))
                self._client.check()
            except Exception:
                log.exception("reading the messages of other replicas failed")
            finally:
                if connection is not None:
                    await disconnect(connection)
            await asyncio.sleep(RETRY)

    async def _read(self, connection: Any) -> None:
        last = f"{self._bus.last}-0"
        streams = (self._keys.bus, self._mailbox.key, last, self._mailbox.last)
        await send(connection, [("XREAD", "COUNT", COUNT, "BLOCK", BLOCK, "STREAMS", *streams)])
        async with asyncio.timeout(BLOCK / 1000 + PATIENCE):
            found = await connection.read_response()
        if not found or asyncio.get_running_loop().time() - self._checked > BLOCK / 1000:
            await self._check()
        for key, entries in found.items() if isinstance(found, dict) else found or ():
            if key == self._keys.bus.encode():
                for notice in self._bus.add([(id, values[:2]) for id, values in entries]):
                    self.on_notice(notice)
            else:
                self._mailbox.add([(id, values[:2]) for id, values in entries])

    async def _check(self) -> None:
        """Check that the bus is the same and complete, and the slot. If Redis is away, a later check does this."""
        self._checked = asyncio.get_running_loop().time()
        with contextlib.suppress(StoreUnavailable):
            await asyncio.gather(self._bus.check(), self._mailbox.check())
