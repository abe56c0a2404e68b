"""Shared state whose calls pass bytes, as they do between processes: nothing alive can travel."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, get_type_hints

import msgspec

from carrel.state.interfaces import Bus, EventLog, Locks, Mailbox, Quotas, RecordTable, Sessions, TaskStore, UsedStates
from carrel.state.memory import MemoryState, MemoryTables

PARTS = {
    "sessions": Sessions,
    "events": EventLog,
    "bus": Bus,
    "mailbox": Mailbox,
    "tasks": TaskStore,
    "used": UsedStates,
    "quotas": Quotas,
    "records": RecordTable,
    "locks": Locks,
}


class Encoded:
    """One part of the state: encodes arguments and results with MessagePack, and waits in each call."""

    def __init__(self, part: Any, interface: type) -> None:
        for name, declared in vars(interface).items():
            if not name.startswith("_"):
                setattr(self, name, encoded(getattr(part, name), declared))


def encoded(method: Callable[..., Awaitable[Any]], declared: Any) -> Callable[..., Awaitable[Any]]:
    import carrel.state.interfaces as interfaces

    hints = get_type_hints(declared, vars(interfaces))
    returned = hints.pop("return")
    types = list(hints.values())

    async def call(*arguments: Any) -> Any:
        travelled = [through_bytes(value, kind) for value, kind in zip(arguments, types, strict=True)]
        await asyncio.sleep(0)
        return through_bytes(await method(*travelled), returned)

    return call


def through_bytes(value: Any, kind: Any) -> Any:
    return msgspec.msgpack.decode(msgspec.msgpack.encode(value), type=kind)


class EncodedState(MemoryState):
    """State of a replica that reaches its store through bytes."""

    immediate = False

    def __init__(self, store: MemoryTables, **options: Any) -> None:
        super().__init__(store, **options)
        for name, interface in PARTS.items():
            setattr(self, name, Encoded(getattr(self, name), interface))
