"""State of a replica whose store is Redis or Valkey."""

from __future__ import annotations

import secrets
import time
from collections.abc import Sequence

from carrel.errors import ConfigError
from carrel.protocol.connection import MAX_SLOT
from carrel.state.interfaces import Bus, EventLog, Locks, Mailbox, Quotas, RecordTable, Sessions, TaskStore, UsedStates
from carrel.state.records import LockHolder, Notice, ReplicaGone
from carrel.state.redis import scripts
from carrel.state.redis.address import read_address
from carrel.state.redis.connection import RedisClient
from carrel.state.redis.messages import MessageReader, RedisBus, RedisMailbox
from carrel.state.redis.sealing import RecordSealer
from carrel.state.redis.tables import (
    Keys,
    RedisEvents,
    RedisQuotas,
    RedisRecords,
    RedisSessions,
    RedisTasks,
    RedisUsedStates,
    milliseconds,
)

__all__ = ["LEASE", "NOTICES", "RedisState"]

#: Seconds after which a replica that does not renew its lease counts as stopped.
LEASE = 15.0
#: Approximate number of notices that the bus keeps.
NOTICES = 4096


class RedisState:
    """State of a replica in Redis (6.2 or later) or Valkey.

    ``url`` is a ``redis://``, ``rediss://``, ``unix://``, ``redis+sentinel://`` or ``redis+cluster://`` URL.
    ``keys`` encrypt everything that is stored; all replicas need the same ones (32 bytes each; the first one encrypts,
    all of them decrypt). Stores with different prefixes are independent. ``lease`` is in seconds. Replicas that give
    the same ``machine`` see the same files.

    Raises:
        ConfigError: the URL or a key is not valid, or the extra ``redis`` is not installed.
    """

    shared = True
    immediate = False
    on_one_machine = False

    def __init__(
        self,
        url: str,
        keys: Sequence[bytes],
        *,
        prefix: str = "carrel",
        lease: float = LEASE,
        notices: int = NOTICES,
        machine: str = "",
    ) -> None:
        if not prefix or set(prefix) & set("{}") or lease <= 0:
            raise ConfigError("The prefix of a state in Redis is a text without braces, and its lease is positive")
        self.lease = lease
        self.machine = machine
        self.slot = -1
        self._token = secrets.token_hex(8)
        """Value that only this replica knows: it tells the slot of this replica from one of the same number."""
        self._clock = time.time() - time.monotonic()
        """Seconds by which the clock of Redis is ahead of ``time.monotonic``."""
        self._keys = names = Keys(prefix)
        self._client = client = RedisClient(read_address(url, names.counters))
        self._sealer = sealer = RecordSealer(keys)
        self.sessions: Sessions = RedisSessions(client, names, sealer)
        self.events: EventLog = RedisEvents(client, names, sealer)
        self.tasks: TaskStore = RedisTasks(client, names, sealer)
        self.used: UsedStates = RedisUsedStates(client, names)
        self.quotas: Quotas = RedisQuotas(client, names)
        self.records: RecordTable = RedisRecords(client, names, sealer)
        self._bus = RedisBus(client, names, sealer, notices)
        self._mailbox = RedisMailbox(client, names, sealer)
        self.bus: Bus = self._bus
        self.mailbox: Mailbox = self._mailbox
        self.locks: Locks = RedisLocks(self, client, names)
        self._reader = MessageReader(client, self._bus, self._mailbox, names)
        self._reader.on_notice = self._on_notice

    @property
    def bus_name(self) -> str:
        """Name of the bus; a new bus begins after FLUSHALL."""
        return self._bus.name

    @property
    def _replicas(self) -> list[str]:
        return [self._keys.counters, self._keys.bus, self._keys.leases]

    async def start(self) -> None:
        """Connect, and take a slot.

        Raises:
            ConfigError: Redis cannot be reached, or the other replicas have other keys.
        """
        await self._client.start()
        try:
            self._bus.begin(await self._join())
        except BaseException:
            await self._client.stop()
            raise
        self._reader.start()

    async def _join(self) -> int:
        """Take a slot, and return the position of the bus."""
        own = self._sealer.seal(b"", self._keys.counters.encode())
        first, name = secrets.randbelow(MAX_SLOT), secrets.token_hex(4)
        arguments = self._microseconds, MAX_SLOT, first, name, own, self._token
        slot, name, position, sealed, now = await self._client.run(scripts.JOIN, self._replicas, *arguments)
        self._set_clock(now)
        if self._sealer.try_open(sealed, self._keys.counters.encode()) is None:
            self.slot = slot
            await self._leave()
            raise ConfigError(
                f"The replicas at {self._client.address.shown} have other state_keys: all of them need the same ones"
            )
        if not self._sealer.is_current(sealed):  # so that the older key can be removed later
            await self._client.call("HSET", self._keys.counters, "sealed", own)
        self.slot = slot
        self._bus.rename(name.decode())
        self._mailbox.begin(slot, self._token)
        return int(position)

    @property
    def _microseconds(self) -> int:
        return int(self.lease * 1_000_000)

    async def stop(self) -> None:
        """Give the slot back, and disconnect."""
        await self._reader.stop()
        try:
            await self._leave()
        finally:
            await self._client.stop()

    async def _leave(self) -> None:
        arguments = self.slot, self._keys.mailboxes, self._bus.size, self._token
        await self._client.run(scripts.LEAVE, self._replicas, *arguments)

    async def renew(self) -> bool:
        """Renew the lease of the slot; return False if it is lost."""
        arguments = self._microseconds, self.slot, self._keys.mailboxes, self._bus.size, self._token
        now = await self._client.run(scripts.RENEW, self._replicas, *arguments)
        if not now:
            self._mailbox.expire()
            return False
        self._set_clock(now)
        return True

    def _set_clock(self, microseconds: bytes) -> None:
        self._clock = int(microseconds) / 1e6 - time.monotonic()

    def now(self) -> float:
        """Return the time by the clock of Redis, in seconds since 1970."""
        return self._clock + time.monotonic()

    def _on_notice(self, notice: Notice) -> None:
        if isinstance(notice, ReplicaGone) and notice.slot == self.slot:
            self._mailbox.expire()

    async def take_slot(self) -> None:
        """Take another slot, after the lease of the slot was lost."""
        await self._reader.stop()
        await self._join()
        self._reader.start()

    async def has_replica(self, slot: int) -> bool:
        """Return whether a running replica has this slot."""
        return bool(await self._client.run(scripts.HAS_REPLICA, [self._keys.leases], slot))


class RedisLocks:
    """Locks in Redis: the slot of the holder, and a number that grows."""

    def __init__(self, state: RedisState, client: RedisClient, keys: Keys) -> None:
        self._state = state
        self._client = client
        self._keys = keys

    async def acquire(self, name: str, ttl: float) -> LockHolder:
        """Take a lock for ``ttl`` seconds, or hold it for so long from now on; return its holder."""
        keys = [self._keys.counters, self._keys.leases, self._keys.lock(name)]
        holder = await self._client.run(scripts.ACQUIRE, keys, self._state.slot, milliseconds(ttl))
        return LockHolder(*map(int, holder.split()))

    async def release(self, name: str) -> None:
        """Release a lock, if this replica holds it."""
        await self._client.run(scripts.RELEASE, [self._keys.lock(name)], self._state.slot)
