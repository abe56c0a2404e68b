"""Calls of a remote store: their methods, their types, and the frames in which they are sent.

A request is a frame with the id of the call, the number of the method, and its arguments. A response is a frame with
the same id, a status, and the result. Arguments and results are MessagePack.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Any, NamedTuple, get_type_hints

import msgspec

from carrel.state import interfaces

__all__ = ["FAILED", "LEASE_EXPIRED", "METHODS", "NUMBERS", "OK", "PARTS", "Frame", "FrameReader", "Joined", "frame"]

#: Parts of a state, and their interfaces.
PARTS: dict[str, type] = {
    "sessions": interfaces.Sessions,
    "events": interfaces.EventLog,
    "bus": interfaces.Bus,
    "mailbox": interfaces.Mailbox,
    "tasks": interfaces.TaskStore,
    "used": interfaces.UsedStates,
    "quotas": interfaces.Quotas,
    "records": interfaces.RecordTable,
    "locks": interfaces.Locks,
}

#: Status of a response.
OK, LEASE_EXPIRED, FAILED = range(3)

#: Length of the rest of the frame, id of the call, and number of the method or status.
HEAD = struct.Struct(">IIB")
#: Bytes of the head that the length includes.
INCLUDED = HEAD.size - 4


class Joined(msgspec.Struct, array_like=True, frozen=True):
    """Slot of a replica that has joined, its lease in seconds, and the name of the bus."""

    slot: int
    lease: float
    bus_name: str


class RemoteMethod(NamedTuple):
    """Method of a part of the state (of the state itself if ``part`` is empty)."""

    part: str
    name: str
    arguments: msgspec.msgpack.Decoder[tuple[Any, ...]]
    result: msgspec.msgpack.Decoder[Any]
    waits: bool
    """Whether the store in memory waits in this method."""


class Frame(NamedTuple):
    """A request or response."""

    id: int
    kind: int
    """Number of the method, or status."""
    body: bytes


def methods() -> Iterator[RemoteMethod]:
    """Yield all methods, in the same order in each process."""
    for part, interface in PARTS.items():
        for name in vars(interface):
            if not name.startswith("_"):
                hints = get_type_hints(getattr(interface, name), vars(interfaces))
                yield method(part, name, hints.pop("return"), tuple(hints.values()))
    yield method("", "start", Joined)
    yield method("", "take_slot", Joined)
    yield method("", "renew", bool)
    yield method("", "has_replica", bool, (int,))
    yield method("", "stop", type(None))


def method(part: str, name: str, result: Any, arguments: tuple[Any, ...] = ()) -> RemoteMethod:
    """Return a method with the types of its result and arguments."""
    waits = (part, name) in (("bus", "read"), ("mailbox", "take"))
    given: Any = tuple.__class_getitem__(arguments)
    return RemoteMethod(part, name, msgspec.msgpack.Decoder(given), msgspec.msgpack.Decoder(result), waits)


METHODS = list(methods())
#: Numbers of the methods, by part and name.
NUMBERS = {(each.part, each.name): number for number, each in enumerate(METHODS)}


def frame(id: int, kind: int, value: Any) -> bytes:
    """Encode a request or response."""
    body = msgspec.msgpack.encode(value)
    return HEAD.pack(INCLUDED + len(body), id, kind) + body


class FrameReader:
    """Splits received bytes into frames."""

    def __init__(self) -> None:
        self._received = bytearray()

    def feed(self, data: bytes) -> list[Frame]:
        """Add received bytes, and return the frames that are complete."""
        received = self._received
        received += data
        frames, start = [], 0
        while len(received) - start >= HEAD.size:
            length, id, kind = HEAD.unpack_from(received, start)
            end = start + 4 + length
            if len(received) < end:
                break
            frames.append(Frame(id, kind, bytes(received[start + HEAD.size : end])))
            start = end
        del received[:start]
        return frames
