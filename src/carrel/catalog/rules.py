"""Access rules: patterns of URIs and names that allow or deny, compiled to the view of a caller.

    rules = Rules([
        Rule("notes://{claim.team}/**", READING),
        Rule("notes://*/draft-*", READING, allow=False),
        Rule("search_*", frozenset({"call"})),
    ])
    view = rules.view({"claim.team": "blue"})
    view.allows("read", "notes://blue/1")           # True
    view.explain("read", "notes://blue/draft-1")    # the second rule

A rule that denies overrides all rules that allow. A target that no rule allows is denied. In patterns,

- ``*`` stands for any text inside one segment of a URI (between slashes), or any text of a name;
- ``**`` stands for any number of whole segments, including zero: ``notes://a/**`` also matches ``notes://a``. At the
  end it may follow a part of a segment: ``notes://a**`` matches every URI that begins with ``notes://a``;
- ``{name}`` stands for a value of the caller, literally; if the caller has several values, for each of them. If the
  caller has no value, a rule that allows does not apply, and a rule that denies applies to every value;
- a pattern of URIs without a query and fragment holds for URIs with any query and fragment.

Rules compile to sorted intervals of keys, each of which is denied, allowed, or left to tests of segments: one bisection
decides about most keys, and lists are cut by the same intervals.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import groupby, product
from math import prod
from operator import itemgetter
from typing import TypeAlias, get_args

import msgspec

from carrel.catalog.access import NAME_VERBS
from carrel.catalog.pattern_tests import MAX_PATTERNS, KeyTest, test_of
from carrel.catalog.segments import ANY, DEEP, Token, Tokens, covered
from carrel.errors import ConfigError
from carrel.protocol.methods import Verb
from carrel.protocol.principal import View
from carrel.uri.intervals import Intervals, Span
from carrel.uri.parse import SUB_DELIMITERS, UNRESERVED, percent_encode

__all__ = ["READING", "Matcher", "Rule", "RuleView", "Rules", "Values"]

Values: TypeAlias = Mapping[str, str | Sequence[str]]
"""Values of a caller, by the names in braces."""

#: Verbs to list, search, read and subscribe to resources.
READING: frozenset[Verb] = frozenset(get_args(Verb)) - NAME_VERBS
#: How many views of a set of rules are kept compiled.
KEPT_VIEWS = 256
#: Combinations of values up to which a pattern is filled with them.
MAX_FILLED = 10_000
#: Characters that a segment of a URI may have as they are.
SEGMENT = UNRESERVED + SUB_DELIMITERS + ":@"

#: Characters of a pattern that stay as they are.
PRINTABLE = "".join(map(chr, range(0x21, 0x7F)))

_ESCAPE = re.compile("%([0-9A-Fa-f]{2})")
_TOKEN = re.compile(r"\*\*|\*|\{[^{}]*\}")


class Rule(msgspec.Struct, frozen=True):
    """Access rule: a pattern of URIs, or of names, the verbs it is for, and whether it allows or denies."""

    pattern: str
    verbs: frozenset[Verb]
    allow: bool = True


class _Variable(str):
    """Name in braces of a pattern."""

    __slots__ = ()


class _Pattern:
    """Parsed pattern of a rule.

    Raises:
        ConfigError: ``**`` is neither a segment nor at the end.
    """

    __slots__ = ("_tokens", "_uris", "names", "rule")

    def __init__(self, rule: Rule, *, uris: bool) -> None:
        self.rule = rule
        self._uris = uris
        self._tokens = list(self._parse(rule.pattern))
        self.names = tuple(dict.fromkeys(token for token in self._tokens if isinstance(token, _Variable)))
        """The names of the values in it."""

    def _parse(self, text: str) -> Iterator[Token]:
        at = 0
        for found in _TOKEN.finditer(text):
            if found.start() > at:
                yield self._text(text[at : found.start()])
            at, mark = found.end(), found.group()
            if mark[0] == "{":
                yield _Variable(mark[1:-1])
            elif mark == "*" or not self._uris:
                yield ANY
            elif at < len(text) and (text[at] != "/" or text[found.start() - 1 : found.start()] not in ("", "/")):
                raise ConfigError(f"{text!r}: ** stands for whole segments, or is at the end")
            else:
                yield DEEP
        if at < len(text):
            yield self._text(text[at:])

    def filled(self, values: Values) -> Iterator[Tokens]:
        """Yield the pattern with each combination of values in it."""
        choices: list[list[Token]] = []
        for name in self.names:
            given = values.get(name, ())
            held = [given] if isinstance(given, str) else given
            texts: list[Token] = [text for value in held if value for text in self._texts(value)]
            choices.append(texts or ([] if self.rule.allow else [ANY]))
        if prod(map(len, choices)) > MAX_FILLED:  # fail closed
            if self.rule.allow:
                return
            choices = [[ANY] for _ in choices]
        for chosen in product(*choices):
            known = dict(zip(self.names, chosen, strict=True))
            tokens: list[Token] = []
            for token in self._tokens:
                found = known[token] if isinstance(token, _Variable) else token
                last = tokens[-1] if tokens else None
                if isinstance(found, str) and isinstance(last, str):
                    tokens[-1] = last + found
                else:
                    tokens.append(found)
            yield _in_lower_case(tokens) if self._uris else tuple(tokens)

    def _text(self, text: str) -> str:
        """Return a part of the pattern in the normal form of URIs."""
        if not self._uris:
            return text
        return _ESCAPE.sub(_normal_escape, percent_encode(text, PRINTABLE))

    def _texts(self, value: str) -> Iterable[str]:
        """Return the spellings of a value: in a URI, as templates write it, and with every character of a segment."""
        return {percent_encode(value), percent_encode(value, SEGMENT)} if self._uris else (value,)


def _normal_escape(escape: re.Match[str]) -> str:
    character = chr(int(escape.group(1), 16))
    return character if character in UNRESERVED else escape.group().upper()


def _in_lower_case(tokens: list[Token]) -> Tokens:
    """Return a pattern with its scheme and host in lower case, as they are in the normal form of URIs."""
    found = list(tokens)
    ahead = ""
    for index, token in enumerate(tokens):
        if isinstance(token, str):
            scheme, mark, rest = ("", "", token) if ahead else token.partition("://")
            if not mark and not ahead:
                break
            ahead = "host"
            host, slash, path = rest.partition("/")
            found[index] = (
                scheme.lower()
                + mark
                + (host if "@" in host else _ESCAPE.sub(_normal_escape, host.lower()))
                + slash
                + path
            )
            if slash:
                break
        elif not ahead:
            break
    return tuple(found)


class Matcher:
    """Compiled patterns of one verb: decides about keys, and says in which intervals allowed ones are."""

    __slots__ = ("_bounds", "_decisions", "allows_all", "decide", "intervals")

    def __init__(self, allowing: Iterable[Tokens], denying: Iterable[Tokens], *, uris: bool) -> None:
        decisions: list[bool | KeyTest] = [False]
        bounds: list[str] = []
        for bound, decision in _decisions(list(allowing), list(denying), uris):
            if decision is not decisions[-1]:
                bounds.append(bound)
                decisions.append(decision)
        edges = [bound for n, bound in enumerate(bounds) if (decisions[n] is False) != (decisions[n + 1] is False)]
        self.intervals = Intervals(edges)
        """Intervals in which all allowed keys are."""
        self.allows_all = self.intervals.whole and decisions == [False, True]
        """Whether every key is allowed."""
        self._bounds = bounds
        self._decisions = decisions

        def decide(key: str) -> bool:
            found = decisions[bisect_right(bounds, key)]
            return found if found is True or found is False else found(key)

        self.decide = decide
        """Function that returns whether a key is allowed."""

    def select(self, keys: Sequence[str]) -> list[str]:
        """Return the allowed keys of a sorted list. Keys in an interval that is wholly allowed are not tested."""
        bounds, decisions, count = self._bounds, self._decisions, len(keys)
        allowed: list[str] = []
        start = 0
        while start < count:
            index = bisect_right(bounds, keys[start])
            end = bisect_left(keys, bounds[index], start) if index < len(bounds) else count
            found = decisions[index]
            if found is True:
                allowed += keys[start:end]
            elif found is not False:
                allowed += filter(found, keys[start:end])
            start = end
        return allowed


def _decisions(
    allowing: Sequence[Tokens], denying: Sequence[Tokens], uris: bool
) -> Iterator[tuple[str, bool | KeyTest]]:
    """Yield each bound from which on another decision holds: allowed, denied, or a test of the patterns there."""
    certain: tuple[list[Span], list[Span]] = ([], [])
    tested: list[tuple[Intervals, int, Tokens]] = []
    for effect, patterns in enumerate((allowing, denying)):
        for tokens in patterns:
            spans, complete = covered(tokens, uris=uris)
            if complete:
                certain[effect].extend(spans)
            else:
                tested.append((Intervals.of(spans), effect, tokens))
    sets = [*map(Intervals.of, certain), *(each[0] for each in tested)]
    events = sorted((bound, number) for number, keys in enumerate(sets) for bound in keys.bounds)
    inside = [False, False]
    there: tuple[dict[int, None], dict[int, None]] = ({}, {})
    every = [tuple(number for number, each in enumerate(tested) if each[1] == effect) for effect in (0, 1)]
    known: dict[object, KeyTest] = {}

    def test(effect: int) -> KeyTest | None:
        """Return the test of the patterns with an effect that are possible here, or of all if they are many."""
        active = there[effect]
        if not active:
            return None
        numbers = tuple(active) if len(active) <= MAX_PATTERNS else every[effect]
        key = (effect, numbers)
        if key not in known:
            known[key] = test_of([tested[n][2] for n in numbers], uris=uris)
        return known[key]

    for bound, changed in groupby(events, itemgetter(0)):
        for _, number in changed:
            if number < 2:
                inside[number] = not inside[number]
                continue
            numbers = there[tested[number - 2][1]]
            if number - 2 in numbers:
                del numbers[number - 2]
            else:
                numbers[number - 2] = None
        if inside[1] or not (inside[0] or there[0]):
            yield bound, False
            continue
        allows, denies = None if inside[0] else test(0), test(1)
        if allows is None and denies is None:
            yield bound, True
            continue
        key = (allows, denies)
        if key not in known:
            known[key] = _both(allows, denies)
        yield bound, known[key]


def _both(allows: KeyTest | None, denies: KeyTest | None) -> KeyTest:
    """Return a test of keys that match patterns that allow, if there are some, and no patterns that deny."""
    if denies is None:
        assert allows is not None
        return allows
    if allows is None:
        return lambda key: not denies(key)
    return lambda key: allows(key) and not denies(key)


class RuleView(View):
    """View of a caller by access rules, compiled for each verb on first use."""

    __slots__ = ("_denying", "_matchers", "_patterns", "_values", "everybody", "hides", "key")
    constant = True
    final = True

    def __init__(self, patterns: Mapping[Verb, Sequence[_Pattern]], values: Values, key: str, everybody: bool) -> None:
        self._patterns = patterns
        self._values = values
        self._matchers: dict[str, tuple[Matcher, Intervals]] = {}
        self._denying: dict[str, Matcher] = {}
        self.key = key
        self.everybody = everybody
        self.hides = not (self._compiled("read")[0].allows_all and self._compiled("list")[0].allows_all)

    def _compiled(self, verb: Verb) -> tuple[Matcher, Intervals]:
        found = self._matchers.get(verb)
        if found is None:
            found = self._matchers[verb] = self._compile(verb)
        return found

    def _compile(self, verb: Verb) -> tuple[Matcher, Intervals]:
        patterns, uris = self._patterns.get(verb, ()), verb not in NAME_VERBS
        reading = self._compiled("read") if uris and verb != "read" else None
        if reading is not None and patterns == self._patterns.get("read", ()):
            return reading
        allowing = [tokens for each in patterns if each.rule.allow for tokens in each.filled(self._values)]
        denying = [tokens for each in patterns if not each.rule.allow for tokens in each.filled(self._values)]
        matcher = Matcher(allowing, denying, uris=uris)
        return matcher, matcher.intervals if reading is None else matcher.intervals & reading[1]

    def allows(self, verb: Verb, target: str) -> bool:
        """Return whether a verb is allowed on a resource, tool or prompt."""
        return (self._matchers.get(verb) or self._compiled(verb))[0].decide(target)

    def decider(self, verb: Verb) -> Callable[[str], bool]:
        """Return a function that returns whether a verb is allowed on a target, for many targets."""
        return self._compiled(verb)[0].decide

    def selector(self, verb: Verb) -> Callable[[Sequence[str]], list[str]]:
        """Return a function that returns the allowed keys of a sorted list."""
        return self._compiled(verb)[0].select

    def intervals(self, verb: Verb) -> Intervals:
        """Return intervals in which all keys are that the caller may use and, of resources, read."""
        return self._compiled(verb)[1]

    def reaches(self, verb: Verb, location: str, head: str) -> bool:
        """Return whether a template can name a resource on which a verb is allowed."""
        return self.intervals(verb).overlaps(head)

    def implies_read(self, verb: Verb) -> bool:
        """Return whether every resource on which a verb is allowed may be read: the rules of both are the same."""
        return self._compiled(verb)[0] is self._compiled("read")[0]

    def differs(self, uri: str) -> bool:
        """Return whether callers with other views may get another answer about a resource."""
        return not self.everybody

    def denies(self, verb: Verb, target: str) -> bool:
        """Return whether a rule denies a verb on a target."""
        matcher = self._denying.get(verb)
        if matcher is None:
            patterns = (each for each in self._patterns.get(verb, ()) if not each.rule.allow)
            denying = [tokens for each in patterns for tokens in each.filled(self._values)]
            matcher = self._denying[verb] = Matcher(denying, (), uris=verb not in NAME_VERBS)
        return matcher.decide(target)

    def explain(self, verb: Verb, target: str) -> Rule | None:
        """Return the deciding rule: a rule that denies, else a rule that allows, else None."""
        uris = verb not in NAME_VERBS
        for pattern in sorted(self._patterns.get(verb, ()), key=lambda each: each.rule.allow):
            if Matcher(pattern.filled(self._values), (), uris=uris).decide(target):
                return pattern.rule
        return None


class Rules:
    """Access rules, and the views of callers by their values. Callers with the same values share a view.

    Args:
        rules: the rules.
        key: beginning of the keys of the views, if several ``Rules`` are used beside each other.
        everybody: whether these are the rules of all callers.

    Raises:
        ConfigError: a pattern is invalid, or a rule has verbs for URIs and for names.
    """

    def __init__(self, rules: Iterable[Rule], *, key: str = "", everybody: bool = True) -> None:
        self._key = key
        self._everybody = everybody
        self._patterns: dict[Verb, list[_Pattern]] = {}
        for rule in rules:
            if rule.verbs & NAME_VERBS and rule.verbs - NAME_VERBS:
                raise ConfigError(f"{rule.pattern!r}: a rule is either for URIs or for names, not for both")
            pattern = _Pattern(rule, uris=not rule.verbs & NAME_VERBS)
            for verb in rule.verbs:
                self._patterns.setdefault(verb, []).append(pattern)
        patterns = [pattern for each in self._patterns.values() for pattern in each]
        self.names = tuple(sorted({name for pattern in patterns for name in pattern.names}))
        """Names of the values that the patterns have in them."""
        self._view = lru_cache(KEPT_VIEWS)(self._compile)

    def view(self, values: Values | None = None) -> RuleView:
        """Return the view of a caller with some values."""
        given = values or {}
        held = [given.get(name, ()) for name in self.names]
        return self._view(tuple((value,) if isinstance(value, str) else tuple(sorted(value)) for value in held))

    def _compile(self, held: tuple[tuple[str, ...], ...]) -> RuleView:
        key = self._key + msgspec.json.encode(held).decode()
        everybody = self._everybody and not self.names
        return RuleView(self._patterns, dict(zip(self.names, held, strict=True)), key, everybody)
