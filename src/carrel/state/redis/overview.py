"""Overview of a store in Redis for operators: its replicas, how many records of each kind it has, and their size."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator, Sequence
from typing import Any

import msgspec

from carrel.state.records import SessionEnded, SessionRecord
from carrel.state.redis.address import read_address
from carrel.state.redis.connection import RedisClient
from carrel.state.redis.messages import RedisBus
from carrel.state.redis.sealing import RecordSealer
from carrel.state.redis.state import NOTICES
from carrel.state.redis.tables import Keys, RedisSessions

__all__ = ["KINDS", "RedisOverview", "SessionSummary", "StoreSummary"]

#: Kinds of records by the names of their keys.
KINDS = ("session", "stream", "task", "exchange", "record", "bucket", "mailbox", "lock")
#: Keys that Redis looks at for one command, and commands of one pipeline.
BATCH = 1000
#: Characters of the id of a session that are shown: random ones, but not enough to use the session.
SHOWN = 12

_read_session = msgspec.msgpack.Decoder(SessionRecord).decode


class Amount(msgspec.Struct, gc=False):
    """Number of records, and their size in bytes of the memory of Redis."""

    records: int = 0
    bytes: int = 0


class StoreSummary(msgspec.Struct, frozen=True):
    """Content of a store. ``replicas`` are the remaining seconds of each lease by slot, ``notices`` the bus."""

    server: str
    replicas: dict[int, float]
    notices: Amount
    kinds: dict[str, Amount]


class SessionSummary(msgspec.Struct, frozen=True, omit_defaults=True):
    """Session: who opened it, with which program, its subscriptions, and how many seconds it is kept from now on.

    ``id`` is the start of its id; None for a session of an earlier version, whose id is not in the store.
    """

    id: str | None
    owner: str | None
    client: str
    revision: str
    subscriptions: int
    seconds: float


class RedisOverview:
    """Reader of a store that is not a replica: it takes no slot. Use it as an asynchronous context manager.

    Raises:
        ConfigError: the URL or a key is not valid, a package is missing, or Redis cannot be reached.
    """

    def __init__(self, url: str, keys: Sequence[bytes], *, prefix: str = "carrel") -> None:
        self._keys = Keys(prefix)
        self._client = RedisClient(read_address(url, self._keys.counters))
        self._sealer = RecordSealer(keys)

    @property
    def shown(self) -> str:
        """The URL without the password."""
        return self._client.address.shown

    async def __aenter__(self) -> RedisOverview:
        await self._client.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._client.stop()

    async def summary(self) -> StoreSummary:
        """Return the current content of the store.

        Raises:
            StoreUnavailable: Redis cannot be reached, or the user lacks a right.
        """
        call, keys = self._client.call, self._keys
        information = await call("INFO", "server")
        seconds, microseconds = await call("TIME")
        now = int(seconds) * 1_000_000 + int(microseconds)
        leases = await call("ZRANGE", keys.leases, 0, -1, "WITHSCORES")
        left = {int(slot): (float(expiry) - now) / 1e6 for slot, expiry in zip(leases[::2], leases[1::2], strict=True)}
        kinds = {kind: Amount() for kind in KINDS}
        names = [name async for name in self._names("*")]
        for name, size in zip(names, await self._sizes(names), strict=True):
            kind = kinds.get(name.removeprefix(keys.start).partition(":")[0])
            if kind is not None:
                kind.records += 1
                kind.bytes += size
        notices = Amount(int(await call("XLEN", keys.bus)), sum(await self._sizes([keys.bus])))
        replicas = {slot: seconds for slot, seconds in left.items() if seconds > 0}
        return StoreSummary(server_of(information.decode()), replicas, notices, kinds)

    async def sessions(self) -> list[SessionSummary]:
        """Return the sessions. Sessions that the keys do not decrypt are left out.

        Raises:
            StoreUnavailable: Redis cannot be reached, or the user lacks a right.
        """
        found = []
        submit = self._client.submit
        names = [name async for name in self._names("session:*")]
        for part in batches(names):
            replies = [
                (submit("HMGET", name, "record", "id"), submit("HKEYS", name), submit("PTTL", name)) for name in part
            ]
            for name, reply in zip(part, replies, strict=True):
                (sealed, sealed_id), fields, left = await asyncio.gather(*reply)
                plain = self._opened(name, sealed)
                if plain is not None:
                    record = _read_session(plain)
                    id = self._opened(name, sealed_id)
                    client = "" if record.info is None else f"{record.info.name} {record.info.version}"
                    uris = sum(field.startswith(b"uri:") for field in fields)
                    found.append(
                        SessionSummary(
                            None if id is None else id.decode()[:SHOWN],
                            record.owner,
                            client,
                            record.revision,
                            uris,
                            max(left, 0) / 1000,
                        )
                    )
        return found

    def _opened(self, name: str, sealed: bytes | None) -> bytes | None:
        """Return a decrypted field of a key; None if it is missing, or no key decrypts it."""
        return None if sealed is None else self._sealer.try_open(sealed, name.encode())

    async def ids(self, start: str) -> list[str]:
        """Return the ids of the sessions whose ids begin so.

        Raises:
            StoreUnavailable: Redis cannot be reached, or the user lacks a right.
        """
        names = [name async for name in self._names("session:*")]
        found = []
        for part in batches(names):
            replies = [self._client.submit("HGET", name, "id") for name in part]
            opened = map(self._opened, part, await asyncio.gather(*replies))
            found += [id.decode() for id in opened if id is not None and id.startswith(start.encode())]
        return found

    async def end_session(self, id: str) -> bool:
        """End a session on all replicas; return False if there is no such session.

        Raises:
            StoreUnavailable: Redis cannot be reached.
        """
        if not await RedisSessions(self._client, self._keys, self._sealer).end(id):
            return False
        await RedisBus(self._client, self._keys, self._sealer, NOTICES).publish(SessionEnded(id))
        return True

    async def _names(self, pattern: str) -> AsyncIterator[str]:
        cursor: Any = 0
        seen: set[str] = set()
        while True:
            matching = "MATCH", escaped(self._keys.start) + pattern, "COUNT", BATCH
            cursor, names = await self._client.call("SCAN", cursor, *matching)
            for name in names:
                if (text := name.decode()) not in seen:
                    seen.add(text)
                    yield text
            if not int(cursor):
                return

    async def _sizes(self, names: Sequence[str]) -> list[int]:
        """Return the memory of each key in bytes; 0 for keys that are gone."""
        sizes: list[int] = []
        for part in batches(names):
            replies = [self._client.submit("MEMORY", "USAGE", name) for name in part]
            sizes += [int(size or 0) for size in await asyncio.gather(*replies)]
        return sizes


def batches(names: Sequence[str]) -> Iterator[Sequence[str]]:
    """Yield parts of a list that fit into one pipeline."""
    for start in range(0, len(names), BATCH):
        yield names[start : start + BATCH]


def server_of(information: str) -> str:
    """Return name and version of a server from its ``INFO``."""
    fields = dict(line.strip().split(":", 1) for line in information.splitlines() if ":" in line)
    valkey = fields.get("valkey_version")
    return f"Redis {fields.get('redis_version', '')}" if valkey is None else f"Valkey {valkey}"


def escaped(text: str) -> str:
    """Return a text as a pattern of Redis that matches the text only."""
    return "".join(f"\\{letter}" if letter in "*?[]^\\" else letter for letter in text)
