"""Access rules: what they allow, the intervals they compile to, and that both agree with a plain matcher."""

from __future__ import annotations

import re
from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from carrel.catalog.rules import READING, Rule, Rules
from carrel.errors import ConfigError
from support.examples import examples

READ = frozenset({"read"})
CALL = frozenset({"call"})


def matches(pattern: str, key: str, *, uris: bool) -> bool:
    """Return whether a key matches a pattern, by a regular expression that is built from it, token by token."""
    if not uris:
        return re.fullmatch(".*".join(map(re.escape, re.split(r"\*+", pattern))), key, re.DOTALL) is not None
    while "**/**" in pattern:
        pattern = pattern.replace("**/**", "**")
    if not set(pattern) & {"?", "#"}:
        key = re.split("[?#]", key)[0]
    tail = r"(?:/.*)?" if pattern.endswith("/**") else ".*" if pattern.endswith("**") else ""
    if pattern == "**":
        return True
    head = pattern.removesuffix("/**" if pattern.endswith("/**") else "**" if tail else "")
    regex = "".join(
        {"**/": "(?:.*/)?", "*": "[^/]*"}.get(part, re.escape(part)) for part in re.split(r"(\*\*/|\*)", head)
    )
    return re.fullmatch(regex + tail, key, re.DOTALL) is not None


SEGMENTS = st.sampled_from(["", "a", "b", "ab", "*", "**", "a*", "*b", "a*b", "*a*", "a?b", "b#", "\U0010ffff"])
PATTERNS = st.builds("/".join, st.lists(SEGMENTS, max_size=4)) | st.builds(
    "{}{}**".format,
    st.builds("".join, st.lists(st.sampled_from(["a/", "b/", "*/"]), max_size=2)),
    st.sampled_from("ab"),
)
KEYS = st.text("ab/?#*\U0010ffff", max_size=7)


@settings(max_examples=examples(62), deadline=None)
@given(st.lists(st.tuples(PATTERNS, st.booleans()), max_size=6), st.lists(KEYS, max_size=20))
@pytest.mark.parametrize("uris", [True, False])
def test_compiled_rules_agree_with_a_plain_matcher(uris: bool, rows: list[tuple[str, bool]], keys: list[str]) -> None:
    verb = "read" if uris else "call"
    if uris:  # their normal form is ASCII
        rows = [(pattern.replace("\U0010ffff", "%F4"), allow) for pattern, allow in rows]
        keys = [key.replace("\U0010ffff", "%F4") for key in keys]
    rules = Rules([Rule(pattern, READ if uris else CALL, allow) for pattern, allow in rows])
    view = rules.view()
    intervals = view.intervals(verb)
    for key in [*keys, *(pattern.replace("**", "a/b").replace("*", "b") for pattern, _ in rows)]:
        fitting = [allow for pattern, allow in rows if matches(pattern, key, uris=uris)]
        expected = bool(fitting) and all(fitting)
        assert view.allows(verb, key) == expected, key
        assert not expected or key in intervals
        found = view.explain(verb, key)
        assert (found is None) == (not fitting)
        assert found is None or found.allow == expected
        assert not expected or all(intervals.overlaps(key[:size]) for size in range(len(key) + 1))


@settings(max_examples=examples(37), deadline=None)
@given(st.lists(st.tuples(PATTERNS, st.booleans()), max_size=6))
def test_keys_between_intervals_are_denied(rows: list[tuple[str, bool]]) -> None:
    rules = Rules([Rule(pattern, READ, allow) for pattern, allow in rows])
    view = rules.view()
    bounds = view.intervals("read").bounds
    assert list(bounds) == sorted(set(bounds))
    for key in ("".join(letters) for size in range(4) for letters in product("ab/?", repeat=size)):
        if key not in view.intervals("read"):
            assert not view.allows("read", key)


@pytest.mark.parametrize(
    ("pattern", "allowed", "denied"),
    [
        ("notes://a", "notes://a notes://a?lines=1 notes://a#top", "notes://ab notes://a/ notes://A"),
        ("notes://a/**", "notes://a notes://a?x notes://a/b/c notes://a/", "notes://ab notes://"),
        ("notes://a**", "notes://a notes://ab/c", "notes://b"),
        ("notes://*/x", "notes://a/x notes:///x notes://a/x?y", "notes://a/b/x notes://a/x/"),
        ("notes://a/**/x", "notes://a/x notes://a/b/c/x", "notes://a/b notes://x"),
        ("notes://a/d-*-*.txt", "notes://a/d-1-2.txt notes://a/d--.txt", "notes://a/d-1.txt notes://a/d-1/-.txt"),
        ("notes://ab*ba", "notes://abba notes://ab-ba", "notes://aba notes://ab/ba"),
        ("notes://a?all", "notes://a?all", "notes://a notes://a?all#top"),
        ("**", "notes://a x", ""),
    ],
)
def test_patterns_of_uris_match(pattern: str, allowed: str, denied: str) -> None:
    view = Rules([Rule(pattern, READ)]).view()
    assert all(view.allows("read", uri) for uri in allowed.split())
    assert not any(view.allows("read", uri) for uri in denied.split())


@pytest.mark.parametrize(
    ("pattern", "uri"),
    [
        ("Notes://Team.A/X", "notes://team.a/X"),
        ("notes://{team}.B/**", "notes://red.b/1"),
        ("notes://a/ä/%c3%b6/%41", "notes://a/%C3%A4/%C3%B6/A"),
    ],
)
def test_patterns_are_compared_in_the_normal_form_of_uris(pattern: str, uri: str) -> None:
    rules = Rules([Rule("**", READ), Rule(pattern, READ, allow=False)])
    assert not rules.view({"team": "Red"}).allows("read", uri)


def test_a_star_in_a_name_stands_for_any_text() -> None:
    view = Rules([Rule("get_*", CALL), Rule("*_all", CALL, allow=False)]).view()
    assert [view.allows("call", name) for name in ("get_x", "get_a/b", "get_all", "list")] == [True, True, False, False]
    assert not view.allows("get", "get_x")


def test_values_are_taken_literally_and_several_of_them_each() -> None:
    rules = Rules([Rule("notes://{team}/**", READ), Rule("{team}_*", CALL)])
    view = rules.view({"team": ["blue", "a/*"]})
    assert view.allows("read", "notes://blue/1")
    assert view.allows("read", "notes://a%2F%2A/1")
    assert view.allows("read", "notes://a%2F*/1")
    assert not view.allows("read", "notes://a/x/1")
    assert view.allows("call", "a/*_x")
    assert not view.allows("call", "a/b_x")


@pytest.mark.parametrize("values", [{}, {"team": ""}, {"team": []}])
def test_without_a_value_rules_allow_nothing_and_deny_everything(values: dict[str, str]) -> None:
    assert not Rules([Rule("notes://{team}**", READ)]).view(values).allows("read", "notes://a")
    rules = [Rule("**", READ), Rule("notes://{team}/secret", READ, allow=False)]
    assert not Rules(rules).view(values).allows("read", "notes://a/secret")
    assert Rules(rules).view(values).allows("read", "notes://a/open")


def test_callers_with_the_same_values_share_a_view() -> None:
    rules = Rules([Rule("notes://{team}/**", READ)])
    assert rules.view({"team": ["a", "b"], "name": "x"}) is rules.view({"name": "y", "team": ["b", "a"]})
    assert rules.view({"team": "a"}).key != rules.view({"team": "b"}).key
    assert not rules.view({"team": "a"}).everybody
    assert Rules([Rule("**", READ)]).view({"team": "a"}).everybody


def test_what_may_not_be_read_is_in_no_interval_of_lists() -> None:
    rules = [Rule("notes://**", frozenset({"list"})), Rule("notes://a/**", READ)]
    intervals = Rules(rules).view().intervals("list")
    assert "notes://a/1" in intervals
    assert "notes://b/1" not in intervals
    assert Rules([Rule("**", READING)]).view().hides is False


def test_rules_that_make_no_sense_are_refused() -> None:
    with pytest.raises(ConfigError, match="whole segments"):
        Rules([Rule("notes://a**b", READ)])
    with pytest.raises(ConfigError, match="not for both"):
        Rules([Rule("**", READ | CALL)])


def test_two_wildcards_of_whole_segments_stand_for_none_too():
    view = Rules([Rule("notes://**", READING), Rule("notes://a/**/**", READING, allow=False)]).view()
    assert [view.allows("read", uri) for uri in ("notes://a", "notes://a/b", "notes://ab")] == [False, False, True]
