"""Bit-parallel automaton for matching ambiguous URI templates (RFC 6570), in which the next character does not decide.

Its edges are literal texts and runs of a character class. For each state, the set of positions in the URI from which
the end can be reached is one integer, a bit per position, so that matching takes a few arithmetic operations per edge,
for every URI.

An example: `x:{name}.{ext}` and the URI `x:a.b.c`. The dot may be in both values, so that it does not decide where
`name` ends. Without the literal text at the start, which is compared first, the text is `a.b.c`, and the automaton is

    state 3 --run of a value: name--> state 2 --"."--> state 1 --run of a value: ext--> state 0, the end

From the end to the start, each state gets the set of positions from which the end can be reached. Bit 0 is the end of
the text, bit 5 its start:

    state 0   000001    nothing is left
    state 1   111111    `ext` can be any rest, an empty one too
    state 2   010100    in front of a dot: `.b.c` and `.c`
    state 3   111100    where a dot follows; with bit 5 set, the whole text matches

Then the path is walked from the start: in state 3 at bit 5, `name` ends at the first position that state 2 has, which
is bit 4. So `name` is `a`, the dot leads to bit 3, and `ext` is the rest, `b.c`. No choice is ever taken back.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from typing import Literal, TypeAlias

from carrel.uri.expression import MAX_ITEMS, MAX_PAIRS, OPERATORS, Atom, Expression, Query, Variable
from carrel.uri.parse import RESERVED, SUB_DELIMITERS, TOLERATED, UNRESERVED
from carrel.uri.tokens import tokenize

__all__ = ["PATH_CHARACTERS", "READABLE", "STAND_INS", "Graph", "LiteralText", "slots"]

# Characters accepted in a value, by operator; all other operators accept the characters of a path.
PATH_CHARACTERS = UNRESERVED + SUB_DELIMITERS + ":@" + TOLERATED + "%"
READABLE = {
    "+": UNRESERVED + RESERVED + TOLERATED.replace("[", "").replace("]", "") + "%",
    ";": PATH_CHARACTERS.replace(";", ""),
    "?": (PATH_CHARACTERS + "/?").replace("&", ""),
}
READABLE["#"] = READABLE["+"]
READABLE["&"] = READABLE["?"]

# Placeholders within a character class. None of these is ever part of a URI.
_SOUGHT, _ESCAPED_RESERVED, _ESCAPED_UNRESERVED, _ESCAPED = "\x01\x02\x03%"
STAND_INS = _SOUGHT + _ESCAPED_RESERVED + _ESCAPED_UNRESERVED
_ESCAPES = _ESCAPED + _ESCAPED_RESERVED + _ESCAPED_UNRESERVED
_WRITTEN_QUERY = UNRESERVED + _ESCAPED + _ESCAPED_RESERVED + ",=&"
_READABLE_QUERY = READABLE["&"] + "&" + STAND_INS[1:]
_LOOKS_ESCAPED = re.compile("\udc25(?=[0-9A-Fa-f]{2})")
_KINDS = {chr(0xDC00 + ord(character)): _ESCAPED_RESERVED for character in RESERVED}
_KINDS |= {chr(0xDC00 + ord(character)): _ESCAPED_UNRESERVED for character in UNRESERVED}


def slots(atoms: Iterable[Atom]) -> Iterator[Variable | Query]:
    """Yield the slots of a template, the variables and queries that matching finds texts for, from left to right."""
    for atom in atoms:
        if isinstance(atom, Query):
            yield atom
        elif not isinstance(atom, str):
            yield from atom


@cache
def _table(characters: str) -> bytes:
    """Return the table that translates characters of a class to `1` and all others to `0`; see `_reduce`."""
    known = characters.translate({ord("?"): "%", ord("%"): "?"})
    return bytes([ord("1" if chr(octet) in known else "0") for octet in range(256)])


def _reduce(tokens: str) -> bytes:
    """Reduce each token to one byte: an unescaped character, or a kind of escape; `?` and `%` are swapped."""
    if not tokens.isascii():
        # Reserved expansion would treat an escaped percent sign and two digits as an escape in the value.
        tokens = _LOOKS_ESCAPED.sub(_ESCAPED_RESERVED, tokens)
        for token, kind in _KINDS.items():
            tokens = tokens.replace(token, kind)
    return tokens.replace("?", "%").encode("ascii", "replace")


class LiteralText:
    """A tokenized URI, and operations on sets of positions in it.

    A set is an integer: bit 0 is the end of the text, bit n is n characters before the end. The step from the end of a
    character to its start is a left shift, and addition carries through a run of characters.
    """

    __slots__ = ("_classes", "_octets", "length", "tokens")

    def __init__(self, tokens: str) -> None:
        self.tokens = tokens
        self.length = len(tokens)
        self._octets = _reduce(tokens)
        self._classes: dict[str, int] = {"": 0}

    def ends_of(self, characters: str) -> int:
        """Return the positions at the end of a character of this class."""
        found = self._classes.get(characters)
        if found is None:
            octets, table = self._octets, _table(characters if characters.isascii() else _SOUGHT)
            if not characters.isascii():
                octets = self.tokens.replace(characters, _SOUGHT).encode("ascii", "replace")
            found = self._classes[characters] = int(octets.translate(table) or b"0", 2)
        return found

    def before_text(self, text: str, goal: int) -> int:
        """Return the positions from which this text leads to the goal."""
        for character in reversed(text):
            goal = (goal & self.ends_of(character)) << 1
        return goal

    def before_run(self, characters: str, limit: int, goal: int) -> int:
        """Return the positions from which up to `limit` characters of the class (-1: any number) lead to the goal."""
        run = self.ends_of(characters)
        if not 0 <= limit < self.length:
            return (((goal & run) + run) ^ run) | goal
        reached, length, runs = goal, 1, []
        while length <= limit:
            # Invariant: `run` is where `length` characters end, and up to length - 1 steps are taken.
            reached |= (reached & run) << length
            limit -= length
            runs.append(run)
            run &= run >> length
            length *= 2
        if limit:
            # Fewer steps remain than were taken: a run of that length is two overlapping shorter ones.
            power = limit.bit_length() - 1
            run = runs[power] & (runs[power] >> (limit - (1 << power)))
            reached |= (reached & run) << limit
        return reached

    def before_query(self, query: Query, goal: int) -> int:
        """Return the positions from which a query leads to the goal, which is a fragment or the end."""
        marks = bytearray(b"0" * (self.length + 1))
        end = self.length
        for _ in range(MAX_ITEMS):
            start = self.tokens.rfind("#", 0, end)
            if goal >> (self.length - end) & 1:
                self._mark_queries(query, start + 1, end, marks)
            if start < 0:
                break
            end = start
        return int(marks, 2)

    def _mark_queries(self, query: Query, start: int, end: int, marks: bytearray) -> None:
        """Mark the positions where a query up to `end` can begin, scanning backwards by parameter."""
        names = {name: query.variables[index].operator for name, index in query.indexes.items()}
        anything = bool(query.exploded)
        questions = "?" in names.values()
        seen: set[str] = set()
        opened = False
        for _ in range(MAX_ITEMS):
            separator = self.tokens.rfind("&", start, end)
            begin = start if separator < 0 else separator + 1
            if questions:
                region = self.tokens[begin:end]
                for name in names.keys() - seen:
                    region = region.replace(f"?{name}=", _SOUGHT + name + "=")
                if anything:
                    region = region[: max(0, region.rfind("="))].replace("?", _SOUGHT)
                marks[begin : begin + len(region)] = region.encode("ascii", "replace").translate(_table(_SOUGHT))
            key, equals, _ = self.tokens[begin:end].partition("=")
            if separator < 0 or not equals or (key in seen and not anything) or (key not in names and not anything):
                return
            seen.add(key)
            opened = opened or names.get(key) == "?"
            if not opened:
                marks[separator] = ord("1")
            end = separator

    def nearest(self, goal: int, position: int) -> int:
        """Return the first position of the goal at or after this one."""
        return self.length + 1 - (goal & ((2 << (self.length - position)) - 1)).bit_length()


_TEXT, _RUN, _ONE, _QUERY = range(4)
_Edge: TypeAlias = tuple[int, str, int, int, int]
"""Kind, text or character class, limit of a run, slot or -1, target state."""


class Graph:
    """Matching automaton of one template: states from the end (0) to the start, edges in order of preference.

    `reading` selects the characters of a value: "text", the characters that expansion writes for a string; "written",
    also the delimiters that expansion puts into lists and mappings; "readable", all characters that matching accepts.
    """

    __slots__ = ("_first", "_loops", "_queries", "_reading", "_states", "ambiguous", "head", "tail")

    def __init__(self, atoms: Sequence[Atom], reading: Literal["text", "written", "readable"]) -> None:
        head = atoms[0] if atoms and isinstance(atoms[0], str) else ""
        tail = atoms[-1] if len(atoms) > 1 and isinstance(atoms[-1], str) else ""
        self.head, self.tail = tokenize(head), tokenize(tail)
        body = atoms[bool(head) : len(atoms) - bool(tail)]
        self.ambiguous = False
        """Whether the next character does not decide at some position."""
        self._reading = reading
        self._states: list[list[_Edge]] = [[]]
        # First set of each state: characters, texts, or the end as an empty text.
        self._first: list[set[str]] = [{""}]
        self._loops: dict[int, int] = {}
        self._queries: dict[int, Query] = {}
        slot = sum([1 for _ in slots(body)])
        state = 0
        for atom in reversed(body):
            if isinstance(atom, str):
                state = self._add([(_TEXT, tokenize(atom), 0, -1, state)])
            elif isinstance(atom, Query):
                slot -= 1
                self._queries[slot] = atom
                openers = "".join({variable.operator for variable in atom.variables})
                state = self._add([(_QUERY, openers, 0, slot, state), (_RUN, "", 0, -1, state)])
            else:
                slot -= len(atom)
                state = self._add_expression(atom, slot, state)

    def _add(self, edges: list[_Edge]) -> int:
        first: set[str] = set()
        for kind, characters, limit, _, target in edges:
            beyond = self._first[target] if kind == _RUN else set()
            own = set(characters)
            if kind == _TEXT:
                own = {characters if characters[0].isascii() else _KINDS.get(characters[0], _ESCAPED)}
            if kind == _RUN and limit == 0:
                own = set()
            self.ambiguous = self.ambiguous or _overlap(own, beyond) or _overlap(own | beyond, first)
            first |= own | beyond
        self._states.append(edges)
        self._first.append(first)
        return len(self._states) - 1

    def _add_expression(self, expression: Expression, slot: int, after: int) -> int:
        """Add the states of an expression, any variables of which may be absent."""
        operator = OPERATORS[expression[0].operator]
        fresh = joined = after
        for index in reversed(range(len(expression))):
            variable = expression[index]
            beyond, alternatives = joined, fresh
            choices = self._items(operator.first, variable, slot + index, beyond)
            # Without a first character, an absent variable equals an empty one, unless a later one can hold more.
            more = variable.prefix is not None or self._reading == "written"
            if operator.first or (more and index < len(expression) - 1):
                skip: _Edge = (_RUN, "", 0, -1, alternatives)
                choices = [skip, *choices] if variable.explode and operator.first else [*choices, skip]
            fresh = self._add(choices)
            if operator.first == operator.separator:
                joined = fresh
            elif index:
                choices = self._items(operator.separator, variable, slot + index, beyond)
                joined = self._add([*choices, (_RUN, "", 0, -1, beyond)])
        return fresh

    def _items(self, prefix: str, variable: Variable, slot: int, target: int) -> list[_Edge]:
        """Return the edges of a variable, preceded by the operator's first character or separator."""
        operator = OPERATORS[variable.operator]
        characters = self._characters(variable)
        if variable.explode:
            return self._exploded_items(prefix, variable, slot, target)
        limit = -1 if variable.prefix is None else variable.prefix
        run: _Edge = (_RUN, characters, limit, slot, target)
        if not operator.named:
            return [self._after(prefix, run)]
        name = prefix + tokenize(variable.name)
        if operator.empty:
            return [(_TEXT, name + "=", 0, -1, self._add([run]))]
        return [(_TEXT, name, 0, -1, self._add_value(run, -1))]

    def _exploded_items(self, prefix: str, variable: Variable, slot: int, target: int) -> list[_Edge]:
        operator = OPERATORS[variable.operator]
        characters = self._characters(variable)
        self.ambiguous = self.ambiguous or (self._reading == "text" and operator.separator in characters)
        if self._reading != "written" or operator.reserved:
            delimiters = operator.separator + ("=" if operator.named or self._reading == "readable" else "")
            return [self._after(prefix, (_RUN, _join(characters, delimiters), -1, slot, target))]
        # Either a list or a mapping, not a mix of both.
        items: _Edge = (_RUN, characters + operator.separator, -1, slot, target)
        if operator.named:
            items = (_RUN, "", 0, slot, self._add_pairs(variable, slot, target, tokenize(variable.name)))
        pairs: _Edge = (_RUN, "", 0, slot, self._add_pairs(variable, slot, target))
        return [self._after(prefix, items), self._after(prefix, pairs)]

    def _add_value(self, run: _Edge, equals_slot: int) -> int:
        """Add the states of an equals sign and a value, or of nothing, as in the operator `;`."""
        kind, characters, limit, slot, target = run
        value = self._add([run])
        if self._reading != "readable":
            # Expansion omits the equals sign of an empty value.
            rest = self._add([(kind, characters, limit if limit < 0 else limit - 1, slot, target)])
            value = self._add([(_ONE, characters, 0, slot, rest)])
        return self._add([(_TEXT, "=", 0, equals_slot, value), (_RUN, "", 0, slot, target)])

    def _add_pairs(self, variable: Variable, slot: int, target: int, name: str = "") -> int:
        """Add the loop of an exploded variable: separated pairs of a key, or of one name, and a value."""
        operator = OPERATORS[variable.operator]
        characters = self._characters(variable)
        end = self._add([(_RUN, "", 0, slot, target)])
        run: _Edge = (_RUN, characters, -1, slot, end)
        if operator.named and not operator.empty:
            value = self._add_value(run, slot)
        else:
            value = self._add([(_TEXT, "=", 0, slot, self._add([run]))])
        key = self._add([(_TEXT, name, 0, slot, value) if name else (_RUN, characters, -1, slot, value)])
        self._states[end].append((_TEXT, operator.separator, 0, slot, key))
        self._loops[key] = end
        return key

    def _after(self, prefix: str, edge: _Edge) -> _Edge:
        return (_TEXT, prefix, 0, -1, self._add([edge])) if prefix else edge

    def _characters(self, variable: Variable) -> str:
        if self._reading == "readable":
            return _join(READABLE.get(variable.operator, PATH_CHARACTERS), _ESCAPES)
        if OPERATORS[variable.operator].reserved:
            return UNRESERVED + RESERVED + _ESCAPED
        plain = self._reading == "text" or variable.explode or variable.prefix is not None
        return UNRESERVED + _ESCAPED + _ESCAPED_RESERVED + ("" if plain else ",")

    def divide(self, text: LiteralText) -> dict[int, str] | None:
        """Match a text; return the texts by slot in the preferred reading, without absent ones. `None`: no match."""
        sets = [1]
        reached: list[list[int]] = [[]]
        state, rounds = 1, 0
        while state < len(self._states):
            edges = [self._before(edge, sets, text) for edge in self._states[state]]
            union = 0
            for positions in edges:
                union |= positions
            if state < len(sets):
                grown = union != sets[state]
                sets[state], reached[state] = union, edges
            else:
                grown = True
                sets.append(union)
                reached.append(edges)
            if grown and state in self._loops and rounds < MAX_PAIRS:
                state = self._loops[state]
                rounds += 1
            else:
                rounds = rounds if state not in self._loops else 0
                state += 1
        if not sets[-1] >> text.length & 1:
            return None
        return self._walk(text, sets, reached)

    def _before(self, edge: _Edge, sets: Sequence[int], text: LiteralText) -> int:
        kind, characters, limit, slot, target = edge
        goal = sets[target] if target < len(sets) else 0
        if kind == _RUN:
            return text.before_run(characters, limit, goal) if limit else goal
        if kind == _QUERY:
            run = text.before_run(_WRITTEN_QUERY if self._reading == "written" else _READABLE_QUERY, -1, goal)
            return text.before_query(self._queries[slot], goal) & (run & text.ends_of(characters)) << 1
        return text.before_text(characters, goal) if kind == _TEXT else (goal & text.ends_of(characters)) << 1

    def _walk(self, text: LiteralText, sets: Sequence[int], reached: Sequence[Sequence[int]]) -> dict[int, str]:
        spans: dict[int, tuple[int, int]] = {}
        state, position = len(sets) - 1, 0
        while state:
            bit = text.length - position
            index = next(index for index, positions in enumerate(reached[state]) if positions >> bit & 1)
            kind, characters, limit, slot, state = self._states[state][index]
            end = position
            if kind == _TEXT:
                end += len(characters)
            elif kind == _ONE:
                end += 1
            elif kind == _RUN and limit:
                end = text.nearest(sets[state], position)
            elif kind == _QUERY:
                end = text.tokens.find("#", position)
                end = end if end >= 0 else text.length
            if slot >= 0:
                spans[slot] = (spans.get(slot, (position, end))[0], end)
            position = end
        return {slot: text.tokens[start:end] for slot, (start, end) in spans.items()}


def _join(characters: str, more: str) -> str:
    return characters + more.translate({ord(character): None for character in characters})


def _overlap(some: set[str], others: set[str]) -> bool:
    """Return whether two first sets overlap."""
    if not some.isdisjoint(others):
        return True
    texts = [text for text in some if len(text) > 1], [text for text in others if len(text) > 1]
    if any(text[0] in others for text in texts[0]) or any(text[0] in some for text in texts[1]):
        return True
    return any(text.startswith(other) or other.startswith(text) for text in texts[0] for other in texts[1])
