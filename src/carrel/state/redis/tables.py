"""Tables of the store in Redis: sessions, events of streams, tasks, used request states, other records and quotas."""

from __future__ import annotations

import base64
import math
import os
from collections import OrderedDict
from typing import Any

import msgspec

from carrel.state.interfaces import StoreUnavailable
from carrel.state.records import Replay, SessionRecord, TaskRecord
from carrel.state.redis import scripts
from carrel.state.redis.connection import RedisClient
from carrel.state.redis.sealing import OVERHEAD, RecordSealer, digest

__all__ = [
    "Keys",
    "RedisEvents",
    "RedisQuotas",
    "RedisRecords",
    "RedisSessions",
    "RedisTasks",
    "RedisUsedStates",
    "milliseconds",
]

#: Maximum number of session records that are kept in this process for use while Redis is away.
MAX_KNOWN = 20_000

_read_session = msgspec.msgpack.Decoder(SessionRecord).decode
_read_task = msgspec.msgpack.Decoder(TaskRecord).decode
_read_pair = msgspec.msgpack.Decoder(tuple[str, str]).decode
_write = msgspec.msgpack.encode


class Keys:
    """Names of the keys of one store. They have one hash tag, so that a cluster keeps them together."""

    def __init__(self, prefix: str) -> None:
        self.start = f"{{{prefix}}}:"
        self.counters = self.start + "counters"
        self.bus = self.start + "bus"
        self.leases = self.start + "leases"
        self.mailboxes = self.start + "mailbox:"

    def session(self, id: str) -> str:
        return f"{self.start}session:{digest(id.encode())}"

    def stream(self, session: str, stream: str) -> str:
        return f"{self.start}stream:{digest(session.encode(), stream.encode())}"

    def task(self, id: str) -> str:
        return self.task_named(digest(id.encode()))

    def task_named(self, name: str) -> str:
        return f"{self.start}task:{name}"

    def owner(self, owner: str) -> str:
        return f"{self.start}owner:{digest(owner.encode())}"

    def exchange(self, id: bytes) -> str:
        return f"{self.start}exchange:{digest(id)}"

    def record(self, key: str) -> str:
        return f"{self.start}record:{digest(key.encode())}"

    def lock(self, name: str) -> str:
        return f"{self.start}lock:{digest(name.encode())}"

    def bucket(self, name: str) -> str:
        return f"{self.start}bucket:{digest(name.encode())}"


def milliseconds(seconds: float) -> int:
    return max(1, math.ceil(seconds * 1000))


class RedisSessions:
    """Sessions in Redis: a hash per session, with its record, its subscriptions and its values.

    The id of a session is sealed: it proves its owner, so a made-up id is refused without asking Redis.
    """

    def __init__(self, client: RedisClient, keys: Keys, sealer: RecordSealer) -> None:
        self._client = client
        self._keys = keys
        self._sealer = sealer
        self._known: OrderedDict[str, tuple[bytes, SessionRecord]] = OrderedDict()
        """Records by id, each with its sealed text, most recently used last."""

    async def create(self, record: SessionRecord, ttl: float) -> str:
        """Store a new session, and return its id."""
        sealed = self._sealer.seal(os.urandom(8) + digest_of_owner(record.owner), b"session id")
        id = base64.b32hexencode(sealed).decode().rstrip("=").lower()
        key = self._keys.session(id)
        sealed = self._sealer.seal(_write(record), key.encode())
        fields = "record", sealed, "id", self._sealer.seal(id.encode(), key.encode())  # the id is for ``carrel state``
        await self._client.run(scripts.CREATE, [key], milliseconds(ttl), *fields)
        self._remember(id, sealed, record)
        return id

    def _is_owner(self, id: str, owner: str | None) -> bool:
        try:
            sealed = base64.b32hexdecode(id.upper() + "=" * (-len(id) % 8))
        except ValueError:
            return False
        opened = self._sealer.try_open(sealed, b"session id")
        return opened is not None and opened[8:] == digest_of_owner(owner)

    def _remember(self, id: str, sealed: bytes, record: SessionRecord) -> None:
        self._known[id] = sealed, record
        self._known.move_to_end(id)
        if len(self._known) > MAX_KNOWN:
            self._known.popitem(last=False)

    async def touch(self, id: str, owner: str | None, ttl: float) -> SessionRecord | None:
        """Return a session and renew its lifetime; None if it has ended, or is of another owner.

        While Redis is away, this returns the record that was read last.
        """
        known = self._known.get(id)
        if known is None:
            if not self._is_owner(id, owner):
                return None
        elif known[1].owner != owner:
            return None
        key = self._keys.session(id)
        try:
            reading, renewing = (
                self._client.submit("HGET", key, "record"),
                self._client.submit("PEXPIRE", key, milliseconds(ttl)),
            )
            sealed = await reading
            await renewing
        except StoreUnavailable:
            if known is None:
                raise
            return known[1]
        if sealed is None:
            self._known.pop(id, None)
            return None
        if known is not None and known[0] == sealed:
            self._known.move_to_end(id)
            return known[1]
        record = _read_session(self._sealer.open(sealed, key.encode()))
        self._remember(id, sealed, record)
        return record

    async def update(self, id: str, record: SessionRecord) -> bool:
        """Replace the record of a session; return False if it has ended."""
        key = self._keys.session(id)
        sealed = self._sealer.seal(_write(record), key.encode())
        return bool(await self._client.run(scripts.SET_IF_EXISTS, [key], "record", sealed))

    async def end(self, id: str) -> bool:
        """End a session; return False if it had ended already."""
        self._known.pop(id, None)
        return bool(await self._client.call("DEL", self._keys.session(id)))

    async def subscribe(self, id: str, uri: str, spelled: str) -> None:
        """Add a subscription to a session."""
        key, field = self._keys.session(id), f"uri:{digest(uri.encode())}"
        sealed = self._sealer.seal(_write((uri, spelled)), f"{key} {field}".encode())
        await self._client.run(scripts.SET_IF_EXISTS, [key], field, sealed)

    async def unsubscribe(self, id: str, uri: str) -> None:
        """Remove a subscription from a session, if it is there."""
        await self._client.call("HDEL", self._keys.session(id), f"uri:{digest(uri.encode())}")

    async def subscriptions(self, id: str) -> dict[str, str]:
        """Return the subscriptions of a session: the client's spelling of each URI, by URI."""
        key = self._keys.session(id)
        found = await self._client.run(scripts.FIELDS, [key], "uri:")
        pairs = zip(found[::2], found[1::2], strict=True)
        return dict(_read_pair(self._sealer.open(sealed, f"{key} ".encode() + field)) for field, sealed in pairs)

    async def put_value(self, id: str, key: str, value: bytes, most: int) -> bool:
        """Store a value in a session; return False if its keys and values would have more than ``most`` bytes."""
        own, field = self._keys.session(id), f"value:{digest(key.encode())}"
        sealed = self._sealer.seal(key.encode() + value, f"{own} {field}".encode())
        return bool(await self._client.run(scripts.PUT_VALUE, [own], field, sealed, most, OVERHEAD, "value:"))

    async def get_value(self, id: str, key: str) -> bytes | None:
        """Return a value of a session, or None if the value is not set or the session has ended."""
        own, field = self._keys.session(id), f"value:{digest(key.encode())}"
        sealed = await self._client.call("HGET", own, field)
        if sealed is None:
            return None
        return self._sealer.open(sealed, f"{own} {field}".encode())[len(key.encode()) :]

    async def delete_value(self, id: str, key: str) -> None:
        """Remove a value from a session, if it is there."""
        await self._client.call("HDEL", self._keys.session(id), f"value:{digest(key.encode())}")


def digest_of_owner(owner: str | None) -> bytes:
    return bytes.fromhex(digest(b"" if owner is None else b"owner", (owner or "").encode()))


class RedisEvents:
    """Event log in Redis: a list per stream, whose items are a number and a sealed event."""

    def __init__(self, client: RedisClient, keys: Keys, sealer: RecordSealer) -> None:
        self._client = client
        self._keys = keys
        self._sealer = sealer

    async def append(self, session: str, stream: str, number: int, event: bytes, oldest: int, ttl: float) -> None:
        """Append a numbered event, delete events with numbers below ``oldest``, and renew the lifetime."""
        key, start = self._keys.stream(session, stream), b"%d:" % number
        item = start + self._sealer.seal(event, key.encode() + start)
        await self._client.run(scripts.APPEND, [key], milliseconds(ttl), oldest, item)

    async def finish(self, session: str, stream: str) -> None:
        """Record that no event will follow."""
        await self._client.call("RPUSHX", self._keys.stream(session, stream), b"")

    async def read(self, session: str, stream: str, after: int) -> Replay | None:
        """Return the events with numbers above ``after``; None if there is no such stream in this session."""
        key = self._keys.stream(session, stream)
        exists, *items = await self._client.run(scripts.EVENTS, [key], after)
        if not exists:
            return None
        events = []
        for item in reversed(items):
            if item:
                number, _, sealed = item.partition(b":")
                events.append((int(number), self._sealer.open(sealed, key.encode() + number + b":")))
        return Replay(events, b"" in items)

    async def drop(self, session: str, stream: str) -> None:
        """Remove a stream, if it is there."""
        await self._client.call("DEL", self._keys.stream(session, stream))


class RedisTasks:
    """Records of tasks in Redis: a hash per task, and a sorted set of tasks per owner."""

    def __init__(self, client: RedisClient, keys: Keys, sealer: RecordSealer) -> None:
        self._client = client
        self._keys = keys
        self._sealer = sealer

    def _seal(self, key: str, record: TaskRecord) -> bytes:
        return self._sealer.seal(_write(record), key.encode())

    def _open(self, key: str, sealed: bytes) -> TaskRecord:
        return _read_task(self._sealer.open(sealed, key.encode()))

    async def create(self, record: TaskRecord) -> None:
        """Store a new task."""
        key = self._keys.task(record.id)
        keys = [key, self._keys.owner(record.owner), self._keys.counters]
        name = digest(record.id.encode()) if record.owner else ""
        await self._client.run(scripts.CREATE_TASK, keys, max(1, record.ttl_ms), self._seal(key, record), name)

    async def get(self, id: str) -> TaskRecord | None:
        """Return a task; None if it is not there (any more)."""
        key = self._keys.task(id)
        sealed = await self._client.call("HGET", key, "record")
        return None if sealed is None else self._open(key, sealed)

    async def save(self, record: TaskRecord) -> bool:
        """Replace the record of a task; return False if it is over or not there."""
        key = self._keys.task(record.id)
        return bool(await self._client.run(scripts.SAVE_TASK, [key], self._seal(key, record), int(record.over)))

    async def remove(self, id: str) -> None:
        """Remove a task, if it is there."""
        await self._client.run(scripts.REMOVE_TASK, [self._keys.task(id)], digest(id.encode()))

    async def list(self, owner: str, after: int, limit: int) -> list[tuple[int, TaskRecord]]:
        """Return tasks of an owner, oldest first, each with its position."""
        own = self._keys.owner(owner)
        page: list[tuple[int, TaskRecord]] = []
        while len(page) < limit:
            wanted = limit - len(page)
            found: list[Any] = await self._client.call(
                "ZRANGEBYSCORE", own, f"({after}", "+inf", "WITHSCORES", "LIMIT", 0, wanted
            )
            names, positions = found[::2], [int(float(score)) for score in found[1::2]]
            keys = [self._keys.task_named(name.decode()) for name in names]
            replies = [self._client.submit("HGET", key, "record") for key in keys]
            for name, key, position, reply in zip(names, keys, positions, replies, strict=True):
                sealed = await reply
                record = None if sealed is None else self._open(key, sealed)
                if record is None or record.owner != owner:  # Redis does not prove that the task is the owner's
                    await self._client.call("ZREM", own, name)
                else:
                    page.append((position, record))
            if len(names) < wanted:
                break
            after = positions[-1]
        return page


class RedisUsedStates:
    """Used request states in Redis: a hash per exchange with its last step, its answers, and whether more was asked."""

    def __init__(self, client: RedisClient, keys: Keys) -> None:
        self._client = client
        self._keys = keys

    async def use(self, exchange: bytes, step: int, answers: bytes, ttl: float) -> bool:
        """Take a step with the digest of its answers; return False if it, or another one in its place, was taken."""
        key, answered = self._keys.exchange(exchange), digest(exchange, answers)
        return bool(await self._client.run(scripts.USE, [key], step, answered, milliseconds(ttl)))

    async def asked(self, exchange: bytes, ttl: float) -> None:
        """Record that the handler of the last step has asked for more input."""
        await self._client.run(scripts.ASKED, [self._keys.exchange(exchange)], milliseconds(ttl))


class RedisRecords:
    """Records in Redis, by key."""

    def __init__(self, client: RedisClient, keys: Keys, sealer: RecordSealer) -> None:
        self._client = client
        self._keys = keys
        self._sealer = sealer

    async def get(self, key: str) -> bytes | None:
        """Return a record; None if it is not there (any more)."""
        return self._open(key, await self._client.call("GET", self._keys.record(key)))

    def _open(self, key: str, sealed: bytes | None) -> bytes | None:
        return None if sealed is None else self._sealer.open(sealed, self._keys.record(key).encode())

    async def put(self, key: str, value: bytes, ttl: float) -> None:
        """Store a record for ``ttl`` seconds."""
        own = self._keys.record(key)
        await self._client.call("SET", own, self._sealer.seal(value, own.encode()), "PX", milliseconds(ttl))

    async def take(self, key: str) -> bytes | None:
        """Return a record and remove it: only one of several concurrent callers gets it."""
        return self._open(key, await self._client.call("GETDEL", self._keys.record(key)))

    async def delete(self, key: str) -> None:
        """Remove a record, if it is there."""
        await self._client.call("DEL", self._keys.record(key))


class RedisQuotas:
    """Token buckets in Redis: a hash per bucket that is not full."""

    def __init__(self, client: RedisClient, keys: Keys) -> None:
        self._client = client
        self._keys = keys

    async def take(self, name: str, amount: float, capacity: float, seconds: float) -> float:
        """Take tokens from a bucket; return 0, or the seconds after which they will be there."""
        if amount > capacity:
            return math.inf
        return float(await self._client.run(scripts.TAKE, [self._keys.bucket(name)], amount, capacity, seconds))
