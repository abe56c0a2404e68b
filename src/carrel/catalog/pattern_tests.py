"""Tests whether a key matches one of some patterns, each with the cheapest way that the patterns allow.

One pattern with one wildcard is a test of its beginning and end, a few patterns are a regular expression, and the
others are a trie. Every test takes a time that is linear in the key.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from carrel.catalog.segments import ANY, DEEP, Segments, Token, Tokens, Wildcard

__all__ = ["MAX_PATTERNS", "KeyTest", "test_of"]

KeyTest = Callable[[str], bool]

#: Patterns up to which a test is a regular expression.
MAX_PATTERNS = 8

_AFTER_PATH = re.compile("[?#]")
#: Regular expressions of wildcards: in the path of a URI, and in a text that is matched as a whole.
_IN_PATH = {ANY: "[^/?#]*", DEEP: "[^?#]*"}
_IN_WHOLE = {ANY: "[^/]*", DEEP: ".*"}


def test_of(patterns: Sequence[Tokens], *, uris: bool) -> KeyTest:
    """Return a function that returns whether a key matches one of the patterns. It is compiled at its first call."""
    compiled: KeyTest | None = None

    def test(key: str) -> bool:
        nonlocal compiled
        if compiled is None:
            compiled = _compile(patterns, uris)
        return compiled(key)

    return test


def _compile(patterns: Sequence[Tokens], uris: bool) -> KeyTest:
    if len(patterns) == 1:
        found = _one_wildcard(patterns[0], uris)
        if found is not None:
            return found
    if len(patterns) <= MAX_PATTERNS:
        texts = [_regex(tokens, uris) for tokens in patterns]
        if None not in texts:
            match = re.compile("|".join(map(str, texts)), re.DOTALL).match
            return lambda key: match(key) is not None
    trie = Segments(uris=uris)
    for tokens in patterns:
        trie.add(tokens)
    return trie.match


def _is_whole(tokens: Tokens) -> bool:
    """Return whether a URI is matched with its query and fragment."""
    return any(isinstance(token, str) and _AFTER_PATH.search(token) for token in tokens)


def _one_wildcard(tokens: Tokens, uris: bool) -> KeyTest | None:
    """Return a test of a pattern with a text before its only wildcard and perhaps one after it, or None."""
    head, wildcard, tail = (*tokens, "")[:3] if len(tokens) in (2, 3) else ("", "", "")
    if not isinstance(head, str) or not isinstance(tail, str) or isinstance(wildcard, str) or _is_whole(tokens):
        return None
    if uris and wildcard is DEEP and not (head.endswith("/") and tail.startswith("/")):
        return None
    before, length = len(head), len(head) + len(tail) - (uris and wildcard is DEEP)

    def test(key: str) -> bool:
        if uris and ("?" in key or "#" in key):
            key = _AFTER_PATH.split(key, 1)[0]
        if len(key) < length or not key.startswith(head) or not key.endswith(tail):
            return False
        return not uris or wildcard is DEEP or "/" not in key[before : len(key) - len(tail)]

    return test


def _regex(tokens: Tokens, uris: bool) -> str | None:
    """Return a regular expression of a pattern, or None if matching it could take more than linear time."""
    if not uris:
        return None if tokens.count(ANY) > 1 else "".join(_text(token, {ANY: ".*"}) for token in tokens) + r"\Z"
    whole = _is_whole(tokens)
    wildcards = _IN_WHOLE if whole else _IN_PATH
    found = ""
    stars = deep = 0
    for index, token in enumerate(tokens):
        if token is DEEP:
            deep += 1
            rest = tokens[index + 1] if index + 1 < len(tokens) else None
            if found.endswith("/"):
                found = f"{found[:-1]}(?:/{wildcards[DEEP]})?"
            elif rest is not None:  # at the beginning: the slash after it is there if a segment is
                return None
            else:
                found += wildcards[DEEP]
            continue
        if isinstance(token, str):
            stars = 0 if "/" in token else stars
        else:
            stars += 1
        if stars > 1:
            return None
        found += _text(token, wildcards)
    return None if deep > 1 else found + (r"\Z" if whole else r"(?:[?#].*)?\Z")


def _text(token: Token, wildcards: dict[Wildcard, str]) -> str:
    return re.escape(token) if isinstance(token, str) else wildcards[token]
