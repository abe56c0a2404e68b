"""Spelling of names on servers that ignore case: there, ``SECRET/a.txt`` is ``secret/a.txt``.

Access rules are by path: a caller that may not read ``secret/`` could read it as ``SECRET/``. So a name is only valid
as the server lists it. Listing the folder for every read would be slow, so the first request is for the name with the
case of its letters swapped, and in another Unicode normalization. Most servers are case-sensitive, and have no such
file.

    read docs/a.md;  request DOCS/A.MD:  it does not exist, so the spelling is correct
    read DOCS/A.MD;  request docs/a.md:  it exists as well, so the folder is listed, and contains only  docs/a.md

Servers that ignore case may accept more names for the same file: ``a.md.`` and ``A~1.MD`` on Windows.
"""

from __future__ import annotations

import re
import time
from collections.abc import Awaitable, Callable, Collection, Iterable
from typing import Literal, TypeAlias
from unicodedata import normalize

from carrel.sources.stores.store import ObjectNotFound, StoreEntry

__all__ = ["Spelling"]

FRESH = 60.0  # seconds for which a name is known; the server may rename it
MAX_KNOWN = 10_000
FORMS: tuple[Literal["NFC", "NFD"], ...] = ("NFC", "NFD")
LEFT_OUT = re.compile(r"[~:]|[ .]/?$")  # in names that Windows takes for others

Exists: TypeAlias = Callable[[str], Awaitable[bool]]
Entries: TypeAlias = Callable[[str], Awaitable[Collection[StoreEntry]]]


class Spelling:
    """Check of keys that the server knows. ``start`` is where the names begin that are to be checked."""

    def __init__(self, start: int) -> None:
        self._start = start
        self._known: dict[str, float] = {}

    def learn(self, keys: Iterable[str]) -> None:
        """Remember keys that are spelled as the server does."""
        until = time.monotonic() + FRESH
        for key in keys:
            if len(self._known) >= MAX_KNOWN:
                self._known.clear()
            self._known[key] = until

    async def check(self, key: str, exists: Exists, entries: Entries) -> None:
        """Check a key. ``exists`` returns whether another key exists, ``entries`` the entries of a directory.

        Raises:
            ObjectNotFound: the spelling of the key differs from the server's list.
        """
        start = self._start
        while start < len(key):
            end = key.find("/", start) + 1 or len(key)
            one = key[:end]
            if self._known.get(one, 0.0) < time.monotonic():
                alone = await is_alone(key[:start], key[start:end], exists)
                if not alone and all(entry.key != one for entry in await entries(key[:start])):
                    raise ObjectNotFound("the server spells it differently")
                self.learn([one])
            start = end


async def is_alone(above: str, name: str, exists: Exists) -> bool:
    """Return whether a name that is there is not there as well in another spelling: case, or Unicode normalization."""
    swapped = name.encode().swapcase().decode()  # ASCII, whose case is ignored by all that ignore case
    if swapped == name and (name.lower() != name.upper() or LEFT_OUT.search(name)):
        return False
    for other in {swapped, *(normalize(form, name) for form in FORMS)} - {name}:
        if await exists(above + other):
            return False
    return True
