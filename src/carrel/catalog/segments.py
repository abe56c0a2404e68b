"""Segment tests: patterns with ``*`` and ``**`` inside, as a trie that a key is matched against in one pass.

For every set of patterns, the time is linear in the key for each visited node of the trie.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from enum import Enum
from typing import Final, Literal, TypeAlias

from carrel.uri.intervals import Span, exactly, prefixed

__all__ = ["ANY", "DEEP", "Segments", "Tokens", "Wildcard", "covered"]


class Wildcard(Enum):
    """Wildcard of a pattern: any text inside a segment, or any number of segments."""

    ANY = "*"
    DEEP = "**"


ANY: Final = Wildcard.ANY
DEEP: Final = Wildcard.DEEP
Token: TypeAlias = str | Wildcard
Tokens: TypeAlias = tuple[Token, ...]
"""Pattern: literal texts and wildcards."""
Segment: TypeAlias = tuple[str, ...] | Literal[Wildcard.DEEP]
"""Segment of a pattern: the literal texts between the ``*`` in it, or ``**``."""

#: States of a match from which on duplicates among them are removed.
MANY = 8
#: Texts of patterns up to which a key is searched for them before it is split into segments.
MAX_TEXTS = 4

_AFTER_PATH = re.compile("[?#]")


def covered(tokens: Tokens, *, uris: bool) -> tuple[list[Span], bool]:
    """Return intervals of all keys that match a pattern, and whether all keys in them do."""
    if not tokens:
        tokens = ("",)
    head = tokens[0]
    if isinstance(head, Wildcard):
        return [prefixed("")], len(tokens) == 1 and (head is DEEP or not uris)
    if len(tokens) == 1:
        return _intervals(head, uris), True
    complete = len(tokens) == 2 and not (uris and tokens[1] is ANY)
    if uris and tokens[1] is DEEP and head.endswith("/"):  # ** may be no segment at all
        return [*_intervals(head[:-1], uris), prefixed(head)], complete
    return [prefixed(head)], complete


def _intervals(key: str, uris: bool) -> list[Span]:
    """Return the interval of a key and, for a URI, the intervals of the URI with queries and fragments."""
    if not uris or _AFTER_PATH.search(key):
        return [exactly(key)]
    return [exactly(key), prefixed(key + "#"), prefixed(key + "?")]


class _Node:
    """Node of the trie: the possible continuations after its segments. ``loops``: any segment leads back to it."""

    __slots__ = ("any", "children", "deep", "ends", "globs", "loops", "wild")

    def __init__(self, *, loops: bool = False) -> None:
        self.children: dict[str, _Node] = {}
        self.globs: dict[tuple[str, ...], _Node] = {}
        self.any: _Node | None = None
        self.deep: _Node | None = None
        self.ends = False
        self.loops = loops
        self.wild = False
        """Whether patterns of segments follow, besides texts."""

    def next(self, segment: Segment) -> _Node:
        """Return the child node of a segment; create it if missing."""
        if segment is DEEP:
            if self.loops:
                return self
            self.deep = self.deep or _Node(loops=True)
            return self.deep
        self.wild = self.wild or len(segment) > 1
        if segment == ("", ""):
            self.any = self.any or _Node()
            return self.any
        if len(segment) == 1:
            return self.children.setdefault(segment[0], _Node())
        return self.globs.setdefault(segment, _Node())


class Segments:
    """Set of patterns. Those of ``uris`` have segments between slashes; a name is one segment."""

    __slots__ = ("_paths", "_texts", "_uris", "_wholes")

    def __init__(self, *, uris: bool) -> None:
        self._uris = uris
        self._texts: tuple[str, ...] | None = ()
        """Texts of which each matching key has at least one; None if there would be too many."""
        self._paths: _Node | None = None
        """Patterns without a query and fragment, which URIs are matched against without theirs."""
        self._wholes: _Node | None = None

    def add(self, tokens: Tokens) -> None:
        """Add a pattern."""
        whole = not self._uris or any(isinstance(token, str) and _AFTER_PATH.search(token) for token in tokens)
        root = self._wholes if whole else self._paths
        if root is None:
            root = _Node()
            if whole:
                self._wholes = root
            else:
                self._paths = root
        for segment in _segments(tokens, self._uris):
            root = root.next(segment)
        root.ends = True
        text = _rare_text(tokens)
        if self._texts is not None and text not in self._texts:
            self._texts = (*self._texts, text) if text and len(self._texts) < MAX_TEXTS else None

    def match(self, key: str) -> bool:
        """Return whether a key matches one of the patterns."""
        if self._texts is not None:
            for text in self._texts:
                if text in key:
                    break
            else:
                return False
        if self._paths is not None:
            path = key
            if "?" in key or "#" in key:
                path = _AFTER_PATH.split(key, 1)[0]
            if _walk(self._paths, path.split("/")):
                return True
        return self._wholes is not None and _walk(self._wholes, key.split("/") if self._uris else [key])


def _rare_text(tokens: Tokens) -> str:
    """Return a text that is in all keys that match a pattern, from behind its first wildcard if possible.

    ``**`` may be no segment, with one slash in place of two, so slashes at the ends of a text do not count.
    """
    texts = [token.strip("/") for token in tokens if isinstance(token, str)]
    first = isinstance(tokens[0], str) if tokens else False
    return max(texts[first:], key=len, default="") or max(texts, key=len, default="")


def _segments(tokens: Tokens, uris: bool) -> Iterator[Segment]:
    """Yield the segments of a pattern."""
    segments: list[list[Token]] = [[]]
    for token in tokens:
        if isinstance(token, str) and uris:
            first, *more = token.split("/")
            segments[-1].append(first)
            segments += [[text] for text in more]
        else:
            segments[-1].append(token)
    for segment in segments:
        parts = [part for part in segment if part]
        if parts == [DEEP]:
            yield DEEP
        elif parts and parts[-1] is DEEP:  # a part of a segment before it: any rest of that one, and any others
            yield _pieces([*parts[:-1], ANY])
            yield DEEP
        else:
            yield _pieces(parts)


def _pieces(parts: list[Token]) -> tuple[str, ...]:
    pieces = [""]
    for part in parts:
        if isinstance(part, str):
            pieces[-1] += part
        else:
            pieces.append("")
    return (pieces[0], *filter(None, pieces[1:-1]), pieces[-1]) if len(pieces) > 1 else (pieces[0],)


def _walk(root: _Node, segments: list[str]) -> bool:
    """Return whether a path through the trie by these segments ends where a pattern does."""
    node = root
    for index, segment in enumerate(segments):  # while only one continuation exists
        if node.deep is not None:
            return _walk_all([node, node.deep], segments[index:])
        following = node.children.get(segment)
        if node.wild:
            if following is not None or len(node.globs) > (node.any is None):
                return _walk_all([node], segments[index:])
            following = node.any
            if following is None:
                ((pieces, following),) = node.globs.items()
                if not _fits(pieces, segment):
                    return False
        if following is None:
            return False
        node = following
    return node.ends or (node.deep is not None and node.deep.ends)


def _walk_all(states: list[_Node], segments: list[str]) -> bool:
    """Return whether a path from one of the nodes by these segments ends where a pattern does."""
    for segment in segments:
        after: list[_Node] = []
        for node in states:
            if node.loops:
                if node.ends:
                    return True
                after.append(node)
            following = node.children.get(segment)
            if following is not None:
                after.append(following)
                if following.deep is not None:
                    after.append(following.deep)
            if node.wild:
                _follow(node, segment, after)
        if not after:
            return False
        # Two paths lead to a node only through one that loops.
        states = after if len(after) < MANY else list(dict.fromkeys(after))
    return any(node.ends for node in states)


def _follow(node: _Node, segment: str, after: list[_Node]) -> None:
    """Add the nodes that follow by patterns of segments."""
    found = [following for pieces, following in node.globs.items() if _fits(pieces, segment)]
    if node.any is not None:
        found.append(node.any)
    for following in found:
        after.append(following)
        if following.deep is not None:
            after.append(following.deep)


def _fits(pieces: tuple[str, ...], text: str) -> bool:
    """Return whether a text is made of pieces, in order, with any texts between them."""
    first, last = pieces[0], pieces[-1]
    if len(text) < len(first) + len(last) or not (text.startswith(first) and text.endswith(last)):
        return False
    if len(pieces) == 2:
        return True
    at, end = len(first), len(text) - len(last)
    for piece in pieces[1:-1]:
        at = text.find(piece, at, end)
        if at < 0:
            return False
        at += len(piece)
    return True
