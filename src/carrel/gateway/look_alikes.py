"""Look-alikes: names of different servers that are easily confused, as their letters look the same.

The skeleton of a name replaces all letters that look the same by one letter: letters of other scripts, compatibility
forms, upper and lower case. Names with the same skeleton look alike, as in https://www.unicode.org/reports/tr39/.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator, Mapping
from functools import lru_cache
from itertools import combinations

import msgspec

__all__ = ["LookAlike", "LookAlikes", "skeleton"]

#: Characters that look like an ASCII character, by the ASCII character.
LIKE = {
    "a": "АаΑαɑ",
    "b": "ВвΒЬьЪЫ",
    "c": "СсϹϲᴄ",
    "d": "ԁԀ",
    "e": "ЕеΕεЁё",
    "f": "Ϝſ",
    "g": "ɡԌցɢ",
    "h": "НһҺΗհ",
    "i": "іІɩıιΙӀ",
    "j": "ЈјϳյͿ",
    "k": "КкΚκ",
    "l": "I1|ӏǀ∣",
    "m": "МмΜϺ",
    "n": "ПпηΝոռ",
    "o": "0ОоΟοσօՕ〇ᴏ",
    "p": "РрΡρ",
    "q": "ԛԚզ",
    "r": "гГᴦ",
    "s": "ЅѕՏꜱ",
    "t": "ТтΤτ",
    "u": "υսᴜЦ",
    "v": "νѵѴᴠ",
    "w": "ԝԜωшШᴡ",
    "x": "ХхΧχ",
    "y": "УуΥγүҮ",
    "z": "Ζζᴢ",
    "3": "ЗзƷ",
    "-": "‐‑‒–—―−",
    "_": "‿",
    "/": "⁄∕",
    ".": "․",
}
_LIKE = str.maketrans({letter: like for like, letters in LIKE.items() for letter in letters})
#: Maximum number of names to store per server and skeleton.
MAX_OF_SERVER = 4


def skeleton(name: str) -> str:
    """Return the skeleton of a name."""
    text = name if name.isascii() else unicodedata.normalize("NFKD", name)
    text = text.translate(_LIKE).casefold().replace("rn", "m").replace("vv", "w").strip()
    if text.isascii():
        return text
    kept = ""
    for letter in text:  # drop marks on Latin letters only: in other scripts, a mark often makes a different letter
        if not (unicodedata.combining(letter) and kept[-1:].isascii()):
            kept += letter
    return kept


_skeleton_of_head = lru_cache(maxsize=1024)(skeleton)


class LookAlike(msgspec.Struct, frozen=True, order=True):
    """A name of ``server`` that looks like ``like``, which is a name of ``other`` or begins with its prefix."""

    name: str
    server: str
    like: str
    other: str


class LookAlikes:
    """Names of one kind, of all servers, by skeleton."""

    def __init__(self) -> None:
        self._names: dict[str, tuple[tuple[str, str], ...]] = {}
        self._heads: dict[str, tuple[tuple[str, str], ...]] = {}
        """Names by the skeleton of the part before the first underscore, where prefixes end."""
        self._shared: dict[str, None] = {}
        """Skeletons that names of several servers have."""

    def add(self, server: str, name: str) -> None:
        """Add a name of a server."""
        bare = skeleton(name)
        names = self._names[bare] = _with(self._names.get(bare, ()), (name, server))
        if len(names) > 1 and any(other != server for _, other in names):
            self._shared[bare] = None
        head, mark, _ = name.partition("_")
        if mark:
            bare = _skeleton_of_head(head)
            self._heads[bare] = _with(self._heads.get(bare, ()), (name, server))

    def remove(self, server: str, name: str) -> None:
        """Remove a name of a server."""
        bare = skeleton(name)
        _remove(self._names, bare, (name, server))
        if len(self._names.get(bare, ())) < 2:
            self._shared.pop(bare, None)
        head, mark, _ = name.partition("_")
        if mark:
            _remove(self._heads, _skeleton_of_head(head), (name, server))

    def find(self, prefixes: Mapping[str, str]) -> Iterator[LookAlike]:
        """Yield the names that look like a name or the prefix of another server; ``prefixes`` is keyed by server."""
        for bare in self._shared:
            for (name, server), (like, other) in combinations(sorted(self._names.get(bare, ()), key=_plain_last), 2):
                if name != like and server != other:
                    yield LookAlike(name, server, like, other)
        for other, prefix in prefixes.items():
            for name, server in self._heads.get(_skeleton_of_head(prefix), ()):
                head, _, rest = name.partition("_")
                if head != prefix and server != other:
                    yield LookAlike(name, server, f"{prefix}_{rest}", other)


def _with(names: tuple[tuple[str, str], ...], name: tuple[str, str]) -> tuple[tuple[str, str], ...]:
    """Return ``names`` plus a name, unless its server has ``MAX_OF_SERVER`` names there already."""
    if name in names or sum(server == name[1] for _, server in names) >= MAX_OF_SERVER:
        return names
    return (*names, name)


def _remove(names: dict[str, tuple[tuple[str, str], ...]], bare: str, name: tuple[str, str]) -> None:
    rest = tuple(each for each in names.get(bare, ()) if each != name)
    if rest:
        names[bare] = rest
    else:
        names.pop(bare, None)


def _plain_last(name: tuple[str, str]) -> tuple[bool, tuple[str, str]]:
    return name[0].isascii(), name
