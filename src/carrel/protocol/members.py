"""Detection of duplicate members (keys) in JSON-RPC requests.

Parsers disagree about duplicates: decoders silently keep the last one, while a proxy in front of the server may have
    checked the first. Members are counted one by one only if neither of two quick checks of a small request rules
    duplicates out. The first check: without a backslash, every quote begins or ends a name or a string, and the number
    of quotes equals the number that each required member needs once. The second check: the request is not longer than a
    request with each member once, and each parameter name occurs in it once.
"""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import Raw

from carrel.errors import InvalidMessage
from carrel.wire.base import Params

__all__ = [
    "FRAME",
    "NAMES",
    "NO_PARAMS",
    "QUOTES",
    "SMALL",
    "DuplicateId",
    "Duplicates",
    "names_of",
    "quotes_of",
]

#: Maximum size, in bytes, of requests for which the quick check is faster than counting.
SMALL = 4096
#: Maximum length of a request with each of its four members once, not counting the values of its method, its
#: parameters and a string id: any duplicate makes it longer, unless it is the id.
FRAME = len('{"jsonrpc":"2.0","id":,"method":"","params":}') + len('"params":1,')
#: Length of the optional member ``params``.
NO_PARAMS = len('"params":{},')
#: Number of quotes where it depends on the values: no text has as many.
UNKNOWN = -(1 << 32)
#: Maximum number of members where they are counted.
MAX_MEMBERS = 1000


def names_of(params: type[msgspec.Struct]) -> tuple[tuple[bytes, ...], bool]:
    """Return the member names that may occur once in a request with these parameters, as JSON text.

    ``name`` is excluded; whether it is one of them is returned separately, because ``clientInfo`` in ``_meta`` has a
    ``name`` too.
    """
    names = params.__struct_encode_fields__
    return tuple(f'"{name}"'.encode() for name in ("id", *names) if name != "name"), "name" in names


def quotes_of(params: type[msgspec.Struct]) -> int:
    """Return the number of quotes in a request with these parameters, a number as id, and no optional member.

    It is negative where required parameters are not all text, because their values may hold any number of quotes.
    """
    count = len('""') * len(("jsonrpc", "2.0", "id", "method", "its value", "params"))
    for field, default in zip(params.__struct_fields__, _defaults(params), strict=True):
        if default is msgspec.NODEFAULT:
            if next(kind.__annotations__[field] for kind in params.__mro__ if field in kind.__annotations__) != "str":
                return UNKNOWN
            count += len('""') * len((field, "its value"))
    return count


def _defaults(kind: type[msgspec.Struct]) -> tuple[Any, ...]:
    """Return the defaults of all fields; ``NODEFAULT`` for the required ones, which have none at the beginning."""
    defaults: tuple[Any, ...] = kind.__struct_defaults__
    return (msgspec.NODEFAULT,) * (len(kind.__struct_fields__) - len(defaults)) + defaults


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
            raise problem(f"Invalid request: {self._where}{name[:100]!r} is duplicated")
        if len(self._seen) == MAX_MEMBERS:
            raise InvalidMessage(f"Invalid request: {self._where}more than {MAX_MEMBERS} members")
        self._seen.add(name)
        return kind(name)


class Duplicates:
    """Check of messages for duplicate members. Thread-safe."""

    __slots__ = ("_unused",)

    def __init__(self) -> None:
        self._unused: list[Counter] = []
        """Pool of counters, because a decoder takes longer to create than to run. Each thread takes its own."""

    def reject(self, message: Any, params: Any = None) -> None:
        """Raise if a message, or its parameters, has duplicate members.

        Raises:
            InvalidMessage: there is a duplicate, or there are too many members to count.
        """
        try:
            counter = self._unused.pop()
        except IndexError:
            counter = Counter()
        try:
            counter.count(message, "")
            if params is not None:
                counter.count(params, "params: ")
        finally:
            self._unused.append(counter)


class _Names(dict[type[Params], tuple[tuple[bytes, ...], bool]]):
    """Member names that may occur once in a request, by the type of its parameters."""

    def __missing__(self, kind: type[Params]) -> tuple[tuple[bytes, ...], bool]:
        names = self[kind] = names_of(kind)
        return names


class _Quotes(dict[type[Params], int]):
    """Numbers of quotes in requests without duplicates, by the type of their parameters."""

    def __missing__(self, kind: type[Params]) -> int:
        count = self[kind] = quotes_of(kind)
        return count


NAMES = _Names()
QUOTES = _Quotes()
