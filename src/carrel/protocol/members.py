"""Detection of duplicate members (keys) in JSON-RPC requests.

Parsers disagree about duplicates: decoders silently keep the last one, while a proxy in front of the server may have
checked the first. Members are counted one by one only where a quick check of a small request cannot rule duplicates
out: its length is that of a request with each member once, and each parameter name occurs in it once.
"""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import Raw

from carrel.errors import InvalidMessage

__all__ = ["FRAME", "NO_PARAMS", "SMALL", "DuplicateId", "names_of", "refuse_duplicates"]

#: Maximum size, in bytes, of requests for which the quick check is faster than counting.
SMALL = 4096
#: Maximum length of a request with each of its four members once, not counting the values of its method, its
#: parameters and a string id: any duplicate makes it longer, unless it is the id.
FRAME = len('{"jsonrpc":"2.0","id":,"method":"","params":}') + len('"params":{},')
#: Length of the optional member ``params``.
NO_PARAMS = len('"params":{},')
#: Maximum number of members where they are counted.
MAX_MEMBERS = 1000


def names_of(params: type[msgspec.Struct]) -> tuple[tuple[bytes, ...], bool]:
    """Return the member names that may occur once in a request with these parameters, as JSON text.

    ``name`` is excluded; whether it is one of them is returned separately, because ``clientInfo`` in ``_meta`` has a
    ``name`` too.
    """
    names = params.__struct_encode_fields__
    return tuple(f'"{name}"'.encode() for name in ("id", *names) if name != "name"), "name" in names


class DuplicateId(InvalidMessage):
    """The message has a duplicate id, so the error response cannot have one."""


class Name(str):
    """Name of a member. A custom type, so that the decoder calls ``dec_hook`` for it."""

    __slots__ = ()


class Counter:
    """Detects duplicate members of JSON objects, one object at a time."""

    __slots__ = ("_decode", "_seen", "_where")

    def __init__(self) -> None:
        self._seen: set[str] = set()
        self._where = ""
        self._decode = msgspec.json.Decoder(dict[Name, Raw], dec_hook=self._note).decode

    def count(self, data: Any, where: str) -> None:
        """Raise if an object has duplicate members. ``where`` locates the object in error messages."""
        self._where = where
        try:
            self._decode(data)
        finally:
            self._seen.clear()

    def _note(self, kind: Any, name: Any) -> Any:
        if name in self._seen:
            problem = DuplicateId if name == "id" and not self._where else InvalidMessage
            raise problem(f"Invalid request: {self._where}{name[:100]!r} is there twice")
        if len(self._seen) == MAX_MEMBERS:
            raise InvalidMessage(f"Invalid request: {self._where}more than {MAX_MEMBERS} members")
        self._seen.add(name)
        return kind(name)


#: Pool of unused counters, because a decoder takes longer to create than to run. Each thread takes its own.
_free: list[Counter] = []


def refuse_duplicates(message: Any, params: Any = None) -> None:
    """Raise if a message, or its parameters, has duplicate members.

    Raises:
        InvalidMessage: there is a duplicate, or there are too many members to count.
    """
    try:
        counter = _free.pop()
    except IndexError:
        counter = Counter()
    try:
        counter.count(message, "")
        if params is not None:
            counter.count(params, "params: ")
    finally:
        _free.append(counter)
