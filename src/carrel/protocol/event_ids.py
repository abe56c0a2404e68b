"""Event ids of resumable SSE streams: encoding and decoding (Last-Event-ID).

| stream of | event id | resumed from |
| --- | --- | --- |
| a response to a POST | ``slot.stream-number`` | the log of the stream, after an event number |
| a GET | ``slot.gstream.bus-position`` | the bus that all replicas share, after a position |

``slot`` is the number of the replica that writes the stream, ``stream`` the hexadecimal number of the stream there.

https://modelcontextprotocol.io/specification/2025-11-25/basic/transports#resumability-and-redelivery
"""

from __future__ import annotations

import msgspec

from carrel.protocol.connection import MAX_SLOT

__all__ = ["EventId", "decode_event_id", "encode_event_id", "name_stream", "slot_of_stream"]

#: First letter of the names of GET streams, after the slot.
STANDING = "g"

#: Maximum digits of a slot, and of the number of an event.
SLOT_DIGITS = 7
NUMBER_DIGITS = 17


class EventId(msgspec.Struct, frozen=True, gc=False):
    """Event id: the name of its stream, its number or position, and the bus if the stream is one of a GET."""

    stream: str
    number: int
    bus: str = ""

    @property
    def slot(self) -> int:
        """The replica that writes the stream."""
        return int(self.stream.partition(".")[0])


def name_stream(slot: int, number: int, *, standing: bool = False) -> str:
    """Return the name of stream ``number`` of a replica; ``standing`` streams belong to GET requests."""
    return f"{slot}.{STANDING if standing else ''}{number:x}"


def encode_event_id(stream: str, number: int, bus: str = "") -> str:
    """Return the id of an event."""
    return f"{stream}.{bus}-{number}" if bus else f"{stream}-{number}"


def decode_event_id(text: str) -> EventId | None:
    """Decode an event id. Return None if no server has created it."""
    head, _, number = text.rpartition("-")
    slot, _, remaining = head.partition(".")
    name, dot, bus = remaining.partition(".")
    if not name or not _is_number(number, NUMBER_DIGITS) or slot_of_stream(head) is None:
        return None
    if bool(bus) != name.startswith(STANDING) or (dot and not bus):
        return None
    return EventId(f"{slot}.{name}", int(number), bus)


def slot_of_stream(stream: str) -> int | None:
    """Return the slot in the name of a stream. Return None if no server has created the name."""
    slot, dot, _ = stream.partition(".")
    if not dot or not _is_number(slot, SLOT_DIGITS) or int(slot) > MAX_SLOT:
        return None
    return int(slot)


def _is_number(text: str, digits: int) -> bool:
    return text.isascii() and text.isdigit() and len(text) <= digits
