"""Static detection of regular expressions with catastrophic backtracking (ReDoS) in Python's ``re``.

``re`` tries one way to match after the other. A pattern that can read the same text in several ways, and then fail,
takes quadratic time or worse: ``^(a+)+$`` doubles it with every letter. A pattern is read as an automaton whose states
are its letters and classes of letters (Glushkov's), and the automaton is searched for two ways around a loop with the
same text (exponential), and for two loops that share a text and follow each other (polynomial).

An engine with linear time, such as RE2, does not answer the question: it accepts ``^((a+)+b)?`` at once, and pydantic
and msgspec then search with ``re``, for seconds.

    Weber, Seidl: On the degree of ambiguity of finite automata, Theoretical Computer Science 88 (1991)
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from functools import cache
from re import _constants as ops  # type: ignore[attr-defined]
from re import _parser as parser  # type: ignore[attr-defined]
from typing import Any, TypeAlias

__all__ = ["hazard"]

#: How many states an automaton may have with all of its repetitions; if it has more, they are read as endless.
MAX_STATES = 120
#: Up to how many optional repetitions are counted; more of them are read as endless.
FEW = 2
#: Length of text, in characters, up to which quadratic time is harmless, and up to which any time is.
SHORT = 256
VERY_SHORT = 16

#: Letters of all kinds, beside those at which the classes of a pattern begin and end.
SAMPLES = frozenset("aZ5_ -\n\t\u00e9\u0663\u2003\u20ac\U0001f600")
REPEATS = (ops.MAX_REPEAT, ops.MIN_REPEAT, ops.POSSESSIVE_REPEAT)
STARTS = (ops.AT_BEGINNING, ops.AT_BEGINNING_STRING)

Edges: TypeAlias = Mapping[int, Iterable[int]]


class Unanalysable(Exception):
    """The pattern cannot be analysed: lookaround, a backreference, or too many states."""


@cache
def hazard(pattern: str | re.Pattern[str], max_length: int | None = None) -> str | None:
    """Return why a pattern is unsafe for untrusted text; None if the time it takes grows no faster than the text.

    ``max_length`` is the maximum length of the text, in characters.
    """
    flags = 0 if isinstance(pattern, str) else pattern.flags
    try:
        tree = parser.parse(pattern if isinstance(pattern, str) else pattern.pattern, flags & ~re.DEBUG)
        automaton = Automaton(tree, flags | tree.state.flags)
        looked_at = tree.getwidth()[1] if automaton.anchored else ops.MAXREPEAT
        if looked_at > VERY_SHORT and automaton.exponential():
            return "the time that it takes can double with every letter"
        if min(looked_at, max_length or looked_at) > SHORT and automaton.polynomial():
            return f"the time that it takes can grow with the square of the text, unless max_length is {SHORT} at most"
    except (Unanalysable, RecursionError) as error:
        return str(error) or "it is nested too deeply"
    return None


class Fragment:
    """Part of an automaton: its first and last states; one that is reached in several ways is there twice.

    ``empty`` is in how many ways it can match nothing: 0, 1, or 2 for more. ``open`` is whether there is no assertion
    at its end: no ``$``, no ``\\b``.
    """

    __slots__ = ("empty", "first", "last", "open")

    def __init__(self, first: list[int], last: list[int], empty: int, *, open: bool = True) -> None:
        self.first = first
        self.last = last
        self.empty = empty
        self.open = open


def times(ways: int, states: list[int]) -> list[int]:
    """Return states once for every way to get to them, at most twice each."""
    return [] if ways == 0 else states if ways == 1 else list(dict.fromkeys(states)) * 2


class Automaton:
    """Glushkov automaton of a pattern: its states, their successors, and those reached in more than one way."""

    def __init__(self, tree: Any, flags: int) -> None:
        self.flags = flags
        self.tests: list[list[tuple[Any, Any]]] = []
        self.follow: dict[int, set[int]] = {}
        self.doubled: set[tuple[int, int]] = set()
        self.counts = sum(map(count, tree)) <= MAX_STATES
        self.anchored = len(tree) > 0 and self.starts(tree)
        whole = self.sequence(tree)
        if not self.anchored:  # a search begins at every letter
            anywhere = self.state([(ops.ANY_ALL, None)])
            self.join([anywhere], [anywhere, *whole.first])
        self.letters = self.sample()
        done = set(whole.last) if whole.open else set()
        if whole.open and whole.empty:
            done = set(self.follow)  # it matches at once, without input
        self.follow = {state: next - done for state, next in self.follow.items() if state not in done}

    def starts(self, tree: Any) -> bool:
        """Return whether the pattern can only match at the start of the text."""
        op, argument = tree[0]
        if op is ops.AT:
            return argument in STARTS and not self.flags & re.MULTILINE
        if op is ops.SUBPATTERN:
            inner = argument[3]
            return len(inner) > 0 and not argument[1] & re.MULTILINE and self.starts(inner)
        return op is ops.BRANCH and all(len(branch) and self.starts(branch) for branch in argument[1])

    def state(self, tests: list[tuple[Any, Any]]) -> int:
        if len(self.tests) > MAX_STATES:
            raise Unanalysable("it is too long to be analysed")
        self.tests.append(tests)
        self.follow[len(self.tests) - 1] = set()
        return len(self.tests) - 1

    def join(self, before: Iterable[int], after: Iterable[int]) -> None:
        for one in before:
            for other in after:
                if other in self.follow[one]:
                    self.doubled.add((one, other))
                self.follow[one].add(other)

    def sequence(self, items: Iterable[tuple[Any, Any]]) -> Fragment:
        whole = Fragment([], [], 1)
        for op, argument in items:
            part = self.part(op, argument)
            self.join(whole.last, part.first)
            whole.first += times(whole.empty, part.first)
            whole.last = part.last + times(part.empty, whole.last)
            whole.open = part.open and (whole.open or not part.empty)
            whole.empty = min(2, whole.empty * part.empty)
        return whole

    def part(self, op: Any, argument: Any) -> Fragment:
        """Return the fragment of one item of a pattern.

        Raises: Unreadable: it has a lookaround or a backreference.
        """
        if op in (ops.LITERAL, ops.NOT_LITERAL, ops.ANY, ops.IN):
            state = self.state(argument if op is ops.IN else [(op, argument)])
            return Fragment([state], [state], 0)
        if op is ops.AT:
            return Fragment([], [], 1, open=False)
        if op is ops.BRANCH:
            return self.choice(argument[1])
        if op is ops.SUBPATTERN:
            self.flags |= argument[1] & re.IGNORECASE
            return self.sequence(argument[3])
        if op is ops.ATOMIC_GROUP:
            return self.sequence(argument)
        if op in REPEATS:
            return self.repeat(*argument)
        raise Unanalysable("it has a backreference" if op is ops.GROUPREF else "it has a lookaround or a backreference")

    def choice(self, branches: Iterable[Any]) -> Fragment:
        whole = Fragment([], [], 0)
        for branch in branches:
            part = self.sequence(branch)
            whole.first += part.first
            whole.last += part.last
            whole.empty = min(2, whole.empty + part.empty)
            whole.open = whole.open and part.open
        return whole

    def repeat(self, least: int, most: int, body: Any) -> Fragment:
        copies = max(least, 1) if most is ops.MAXREPEAT else most
        exact = self.counts and least in (most, copies) and body.getwidth()[0] > 0
        copies = min(copies, MAX_STATES if exact else FEW)
        whole, before = Fragment([], [], 1), list[int]()
        for index in range(copies):
            part = self.sequence(body)
            self.join(before, part.first)
            whole.first += times(whole.empty, part.first)
            before = part.last + times(part.empty, before)
            whole.last = part.last + times(1 if index >= least else part.empty, whole.last)
            whole.empty = min(2, whole.empty * part.empty)
            whole.open = whole.open and part.open
        whole.empty = min(2, whole.empty + (least == 0 and copies > 0))
        if copies and (most is ops.MAXREPEAT or copies < most):  # the last copy stands for all that follow
            self.join(times(1 + part.empty, part.last), part.first)
        return whole

    def sample(self) -> list[frozenset[str]]:
        """Return for each state the letters that it takes, of a sample that tells the states apart."""
        letters = set(SAMPLES)
        for op, argument in (test for tests in self.tests for test in tests):
            if op in (ops.LITERAL, ops.NOT_LITERAL):
                letters.add(chr(argument))
            elif op is ops.RANGE:
                letters |= {chr(argument[0]), chr(argument[1]), chr(min(argument[1] + 1, 0x10FFFF))}
        if self.flags & re.IGNORECASE:
            letters |= {other for letter in letters for other in (letter.lower(), letter.upper()) if len(other) == 1}
        return [frozenset(letter for letter in letters if self.takes(tests, letter)) for tests in self.tests]

    def takes(self, tests: list[tuple[Any, Any]], letter: str) -> bool:
        """Return whether a state takes a letter."""
        forms = {letter, letter.lower(), letter.upper()} if self.flags & re.IGNORECASE else {letter}
        negated = tests[0][0] is ops.NEGATE
        return negated != any(takes(op, argument, form) for op, argument in tests for form in forms)

    # Ambiguity

    def exponential(self) -> bool:
        """Return whether some text can be read in several ways around a loop: exponential time."""
        loops = components(self.follow)
        if any(one in loops and loops.get(other) == loops[one] for one, other in self.doubled):
            return True
        pairs: dict[tuple[int, int], list[tuple[int, int]]] = {}
        waiting = [(state, state) for state in self.follow if state in loops]
        while waiting:
            pair = waiting.pop()
            if pair in pairs:
                continue
            pairs[pair] = [
                (one, other)
                for one in self.follow[pair[0]]
                for other in self.follow[pair[1]]
                if one in loops and other in loops and self.letters[one] & self.letters[other]
            ]
            waiting += pairs[pair]
        found = components(pairs)
        both = {found[pair] for pair in found if pair[0] == pair[1]}
        return any(pair[0] != pair[1] and found[pair] in both for pair in found)

    def polynomial(self) -> bool:
        """Return whether one text leads around one loop, another, and from the one to the other: polynomial time."""
        loops = components(self.follow)
        return any(
            self.leads(one, other, loops)
            for one in loops
            for other in loops
            if one != other and self.letters[one] & self.letters[other]
        )

    def leads(self, one: int, other: int, loops: Mapping[int, int]) -> bool:
        start, goal = (one, one, other), (one, other, other)
        seen = {start}
        waiting = [start]
        while waiting:
            left, middle, right = waiting.pop()
            for first in self.follow[left]:
                if loops.get(first) != loops[one]:
                    continue
                for third in self.follow[right]:
                    common = self.letters[first] & self.letters[third]
                    if loops.get(third) != loops[other] or not common:
                        continue
                    for second in self.follow[middle]:
                        if common & self.letters[second]:
                            state = (first, second, third)
                            if state == goal:
                                return True
                            if state not in seen:
                                seen.add(state)
                                waiting.append(state)
        return False


def takes(op: Any, argument: Any, letter: str) -> bool:
    """Return whether a letter passes one test of a class."""
    if op is ops.LITERAL:
        return bool(ord(letter) == argument)
    if op is ops.NOT_LITERAL:
        return bool(ord(letter) != argument)
    if op is ops.RANGE:
        return bool(argument[0] <= ord(letter) <= argument[1])
    if op is ops.CATEGORY:
        name = str(argument).rpartition("_")[2]
        word = letter == "_" or letter.isalnum()
        inside = {"DIGIT": letter.isdigit(), "SPACE": letter.isspace(), "WORD": word}[name]
        return inside != ("NOT" in str(argument))
    return op in (ops.ANY, ops.ANY_ALL)


def count(item: tuple[Any, Any]) -> int:
    """Return how many states an item of a pattern takes with all of its counted repetitions."""
    op, argument = item
    if op in REPEATS:
        least, most, body = argument
        return int(max(1, least if most is ops.MAXREPEAT else most)) * sum(map(count, body))
    if op is ops.SUBPATTERN:
        return sum(map(count, argument[3]))
    if op is ops.ATOMIC_GROUP:
        return sum(map(count, argument))
    if op is ops.BRANCH:
        return sum(count(part) for branch in argument[1] for part in branch)
    return 1


def components(edges: Mapping[Any, Iterable[Any]]) -> dict[Any, int]:
    """Return the strongly connected components of a graph: one number per loop; nodes in no loop have none."""
    numbers: dict[Any, int] = {}
    lowest: dict[Any, int] = {}
    found: dict[Any, int] = {}
    path: list[Any] = []
    for root in edges:
        if root in numbers:
            continue
        numbers[root] = lowest[root] = len(numbers)
        path.append(root)
        stack = [(root, iter(edges[root]))]
        while stack:
            node, successors = stack[-1]
            for next in successors:
                if next not in numbers:
                    numbers[next] = lowest[next] = len(numbers)
                    path.append(next)
                    stack.append((next, iter(edges[next])))
                    break
                if next not in found:
                    lowest[node] = min(lowest[node], numbers[next])
            else:
                stack.pop()
                if stack:
                    lowest[stack[-1][0]] = min(lowest[stack[-1][0]], lowest[node])
                if lowest[node] == numbers[node]:
                    members = path[path.index(node) :]
                    del path[len(path) - len(members) :]
                    found.update((member, numbers[node]) for member in members)
                    if len(members) == 1 and node not in edges[node]:
                        found[node] = -1
    return {node: number for node, number in found.items() if number >= 0}
