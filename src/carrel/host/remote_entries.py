"""EntryReader: decodes list entries of a remote server one by one, so that an invalid entry does not break the list."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any, TypeVar, cast, get_args

import msgspec
from msgspec import Raw

from carrel.host.processor_limiter import ProcessorLimiter
from carrel.host.shown_names import with_shown_names
from carrel.log import Log
from carrel.printable import printable
from carrel.protocol import unknown
from carrel.protocol.methods import ITEM_KEYS, ItemKind
from carrel.protocol.methods import RequestType as Row
from carrel.protocol.results import reader
from carrel.wire.base import PageResult

__all__ = ["EntryReader", "ListFormat", "entries_of", "list_format_of"]

log = Log("carrel.host")

T = TypeVar("T")

#: Maximum size of an entry in bytes, and maximum nesting depth of its JSON.
MAX_ENTRY = 1024 * 1024
MAX_DEPTH = 100
#: Maximum number of different errors to log per server.
MAX_LOGGED = 20


#: Matches strings and brackets in JSON.
_tokens = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"|[][{}]').finditer


class InvalidEntry(ValueError):
    """An entry is too large or too deeply nested."""


class ListFormat(msgspec.Struct, frozen=True):
    """Types for decoding a list. ``page`` is the type of its pages, whose entries are raw JSON."""

    field: str
    entry: Any
    page: type[PageResult]
    key: Callable[[Raw], Any]
    """Returns the key of an entry, by decoding only the field with its name or URI."""


@cache
def list_format_of(row: Row) -> ListFormat:
    """Return the types for decoding the list of a request."""
    field = next(each for each in msgspec.structs.fields(row.result) if each.name == row.result_field)
    entry: Any = get_args(field.type)[0]
    key = ITEM_KEYS[cast("ItemKind", row.item)]
    options: dict[str, Any] = {"kw_only": True, "rename": "camel", "namespace": {"__module__": __name__}}
    page: Any = msgspec.defstruct("Entries", [(field.name, list[Raw])], bases=(PageResult,), **options)
    keyed = msgspec.defstruct("Keyed", [(key, str)], rename="camel")
    read = reader(keyed)
    return ListFormat(field.name, entry, page, lambda raw: getattr(read(raw), key))


def entries_of(list_format: ListFormat, page: PageResult) -> Sequence[Raw]:
    """Return the raw entries of a page."""
    entries: list[Raw] = getattr(page, list_format.field)
    return entries


class EntryReader:
    """Decoder for the list entries of one remote server, shared by all of its sessions.

    ``name`` is the server's name in the log. Each kind of error is logged once.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self.limiter = ProcessorLimiter()
        self._logged: set[str] = set()

    async def read(
        self, list_format: ListFormat, entries: Sequence[Raw], change: Callable[[Any], Any] | None, *, whole: bool
    ) -> list[Any]:
        """Decode the entries of a list, and return the valid entries.

        ``change`` converts an entry to the entry to return. ``whole``: preserve unknown members.
        """

        def read(raw: Raw) -> Any:
            try:
                entry = _decoded(list_format, raw, whole=whole)
                return entry if change is None else change(entry)
            except Exception as error:  # an invalid entry must not break the list
                self.leave_out(list_format.field, error)
                return None

        found = await self.limiter.each(entries, read, len)
        return [entry for entry in found if entry is not None]

    def leave_out(self, kind: str, error: Exception) -> None:
        """Log that an entry is left out of a list, once per kind of error."""
        fault = f"{kind} {type(error).__name__} {str(error).partition(':')[0]}"
        if fault in self._logged or len(self._logged) >= MAX_LOGGED:
            return
        self._logged.add(fault)
        shown = f"{type(error).__name__}: {error}" if not isinstance(error, ValueError) else str(error)
        log.warning("%s: an entry of its %s is left out: %s", self.name, kind.replace("_", " "), printable(shown))


def _decoded(list_format: ListFormat, raw: Raw, *, whole: bool) -> Any:
    """Decode an entry.

    Raises:
        ValueError: the entry is not valid, or too large, or has a name that cannot be shown.
    """
    data = memoryview(raw)
    if len(data) > MAX_ENTRY:
        raise InvalidEntry(f"an entry has {len(data)} bytes, the limit is {MAX_ENTRY}")
    check_depth(bytes(data))
    entry = with_shown_names(reader(list_format.entry)(raw))
    if whole and hasattr(entry, "meta"):
        found = unknown.find_raw(entry, raw)
        if found is not None:
            entry = unknown.attach(entry, found)
    return entry


def check_depth(data: bytes) -> None:
    """Check the nesting depth of valid JSON.

    Raises:
        InvalidEntry: there are more than ``MAX_DEPTH`` levels, for which recursive functions might fail.
    """
    if data.count(b"{") + data.count(b"[") <= MAX_DEPTH:
        return
    depth = 0
    for found in _tokens(data):
        token = found[0]
        if token in b"{[":
            depth += 1
            if depth > MAX_DEPTH:
                raise InvalidEntry(f"an entry has more than {MAX_DEPTH} levels")
        elif token in b"}]":
            depth -= 1
