"""Members of a request that are there twice, which parsers read in different ways: the first, the last, or neither.

JSON allows them, decoders keep the last without a word, and what stands in front of a server may have looked at the
first. Members are counted one by one, but only where a look at a small request has not shown that none can be there
twice: it is as long as one with each member once, and each name of a parameter is in it once.
"""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import Raw

from carrel.errors import InvalidMessage

__all__ = ["FRAME", "NO_PARAMS", "SMALL", "DuplicateId", "names_of", "refuse_duplicates"]

#: Up to how many bytes a look is faster than counting.
SMALL = 4096
#: How long a request is at most that has each of its four members once, not counting the values of its method, its
#: parameters and an id in text: a second one of them makes it longer, unless it is the id.
FRAME = len('{"jsonrpc":"2.0","id":,"method":"","params":}') + len('"params":{},')
#: How long the member is that may be missing.
NO_PARAMS = len('"params":{},')
#: How many members there may be where they are counted.
MAX_MEMBERS = 1000


def names_of(params: type[msgspec.Struct]) -> tuple[tuple[bytes, ...], bool]:
    """Return the names that a request with these parameters has once at most, as they are written in JSON.

    ``name`` is apart, and only whether it is one of them: clients have one, too, and say so in ``_meta``.
    """
    names = params.__struct_encode_fields__
    return tuple(f'"{name}"'.encode() for name in ("id", *names) if name != "name"), "name" in names


class DuplicateId(InvalidMessage):
    """The id of a message is there twice, so that there is none to answer with."""


class Name(str):
    """The name of a member. A type of its own, because the decoder calls back for nothing else."""

    __slots__ = ()


class Counter:
    """Counts the members of objects, one object at a time."""

    __slots__ = ("_decode", "_seen", "_where")

    def __init__(self) -> None:
        self._seen: set[str] = set()
        self._where = ""
        self._decode = msgspec.json.Decoder(dict[Name, Raw], dec_hook=self._note).decode

    def count(self, data: Any, where: str) -> None:
        """Refuse an object in which a member is there twice. ``where`` says in messages where it is."""
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


#: Counters that are not in use: a decoder takes longer to make than to run. Each thread takes one of its own.
_free: list[Counter] = []


def refuse_duplicates(message: Any, params: Any = None) -> None:
    """Refuse a message in which a member is there twice, or one of its parameters.

    Raises:
        InvalidMessage: it is; or there are too many members to count.
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
