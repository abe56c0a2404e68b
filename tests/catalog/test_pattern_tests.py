"""Tests of patterns: the same decisions as by trying everything, in lists too, and no key that takes long."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from carrel.catalog.access import KeptGateView
from carrel.catalog.pattern_tests import test_of as compiled
from carrel.catalog.rules import Matcher, Rule, Rules
from carrel.catalog.segments import ANY, DEEP, Token, Tokens
from carrel.errors import ConfigError
from carrel.uri.parse import SIMPLE
from support.examples import examples

TEXTS = ["a", "b", "ab", "/", "//", "?", "#", "a:/", "a://", "%2F", "%61", "\n", ".", "..", "é", "A"]
PIECES = st.sampled_from([*TEXTS, "/", "*", "*", "/**", "/**/", "**", "{who}"])
PATTERN = st.lists(PIECES, min_size=1, max_size=5).map("".join)
PATTERNS = st.lists(PATTERN, max_size=1) | st.lists(PATTERN, max_size=12)
KEYS = st.lists(st.lists(st.sampled_from([*TEXTS, "*", "**", ""]), max_size=6).map("".join), min_size=1, max_size=12)
VALUES = {"who": ("a", "b/a")}


def rules_of(patterns: Sequence[str], verb: str, *, allow: bool = True) -> list[Rule]:
    """Return rules for the patterns that are valid."""
    found = []
    for pattern in patterns:
        rule = Rule(pattern, frozenset({verb}), allow)  # type: ignore[arg-type]
        try:
            Rules([rule])
        except ConfigError:
            continue
        found.append(rule)
    return found


def tokens_of(rules: Sequence[Rule], verb: str) -> list[Tokens]:
    return [
        tokens
        for pattern in Rules(rules)._patterns.get(verb, [])  # type: ignore[call-overload]
        for tokens in pattern.filled(VALUES)
    ]


def matches(tokens: Tokens, key: str, *, uris: bool) -> bool:
    """Return whether a pattern matches a key, by trying everything."""
    if not uris:
        return fits(units_of(tokens), key)
    if not any(isinstance(token, str) and re.search("[?#]", token) for token in tokens):
        key = re.split("[?#]", key, maxsplit=1)[0]
    pattern: list[Tokens] = []
    segment: list[Token] = []
    for unit in (*units_of(tokens), "/"):
        if unit != "/":
            segment.append(unit)
        elif segment and segment[-1] is DEEP:
            pattern += [(DEEP,)] if len(segment) == 1 else [(*segment[:-1], ANY), (DEEP,)]
            segment = []
        else:
            pattern.append(tuple(segment))
            segment = []
    segments = key.split("/")

    @cache
    def match(at: int, index: int) -> bool:
        if at == len(pattern):
            return index == len(segments)
        more = index < len(segments)
        if pattern[at] == (DEEP,):
            return match(at + 1, index) or (more and match(at, index + 1))
        return more and fits(pattern[at], segments[index]) and match(at + 1, index + 1)

    return match(0, 0)


def likely(pattern: str) -> list[str]:
    """Return keys that match a pattern, or nearly so."""
    texts = [pattern.replace("/**", ""), *(pattern.replace("**", text) for text in ("", "a", "b/a"))]
    ends = ("", "?/b", "#/", "/a")
    return [text.replace("*", "b").replace("{who}", "a") + end for text in texts for end in ends]


def units_of(tokens: Tokens) -> Tokens:
    """Return a pattern with its texts as characters."""
    return tuple(unit for token in tokens for unit in (token if isinstance(token, str) else (token,)))


def fits(pattern: Tokens, text: str) -> bool:
    if not pattern:
        return not text
    if not isinstance(pattern[0], str):
        return any(fits(pattern[1:], text[at:]) for at in range(len(text) + 1))
    return text[:1] == pattern[0] and fits(pattern[1:], text[1:])


@settings(max_examples=examples(100), deadline=None)
@example(["a*"], [], ["a"], True)
@example(["a/**/b"], [], ["a/bb", "a/b?x"], True)
@example(["a/*b", "**/a*"], ["*?*"], ["ab", "a/b#?"], True)
@given(PATTERNS, PATTERNS.map(lambda patterns: patterns[:3]), KEYS, st.booleans())
def test_decisions_are_those_of_trying_everything(
    allowing: list[str], denying: list[str], keys: list[str], uris: bool
) -> None:
    verb = "read" if uris else "call"
    allow, deny = tokens_of(rules_of(allowing, verb), verb), tokens_of(rules_of(denying, verb), verb)
    matcher = Matcher(allow, deny, uris=uris)
    keys = [*keys, *(key for pattern in allowing[:2] for key in likely(pattern))]
    expected = {
        key: any(matches(each, key, uris=uris) for each in allow)
        and not any(matches(each, key, uris=uris) for each in deny)
        for key in keys
    }
    assert {key: matcher.decide(key) for key in keys} == expected
    assert matcher.select(sorted(set(keys))) == sorted(key for key in set(keys) if expected[key])


@given(PATTERNS, PATTERNS, PATTERNS.map(lambda patterns: patterns[:3]), KEYS)
def test_lists_have_what_may_be_read_and_listed_however_it_is_spelled(
    reading: list[str], listing: list[str], denying: list[str], keys: list[str]
) -> None:
    rules = Rules([*rules_of(reading, "read"), *rules_of(listing, "list"), *rules_of(denying, "read", allow=False)])
    view = KeptGateView(rules.view(VALUES))
    every = sorted(set(keys))
    other = {key for key in every if SIMPLE.match(key) is None}
    for verb in ("read", "list"):
        decide, select = view.decider(verb), view.list_selector(verb)
        assert select is not None
        allowed = [key for key in every if view.allows(verb, key)]
        assert [key for key in every if decide(key)] == select(every, other) == allowed
    assert all(view.allows("read", key) for key in every if view.allows("list", key))


@pytest.mark.parametrize("pattern", ["a/*b*b", "a/**/b*/**", "a*/**", "**/a*b", "a/**/b*c", "a/*/b*/*", "a?x=*", "*a*"])
def test_a_hostile_key_takes_no_more_than_linear_time(pattern: str) -> None:
    """A quadratic match of these keys would take minutes."""
    (tokens,) = tokens_of(rules_of([pattern], "read"), "read")
    test = compiled([tokens], uris=True)
    for key in ("a/" + "b" * 200_000 + "!", "a/b" * 60_000 + "!", "a" * 200_000 + "!", "a?x=" + "a/?" * 60_000):
        test(key)
