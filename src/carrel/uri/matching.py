"""URI template matching: by a regular expression, or by a graph where a template is ambiguous (RFC 6570).

A deterministic template, where the next character decides, is matched by one regular expression that never
backtracks, any other by `carrel.uri.graph`. Only `carrel.uri.template` uses this, from its first match on.
"""

import re
from collections.abc import Callable, Sequence

from carrel.uri.expression import MAX_URI, OPERATORS, Atom, Expression, Found, Part, Query, Variable
from carrel.uri.graph import PATH_CHARACTERS, READABLE, STAND_INS, Graph, LiteralText, slots
from carrel.uri.tokens import is_encodable, tokenize, untokenize
from carrel.uri.values import agree, read, read_query

__all__ = ["Matching", "group"]

#: Characters of values that have to be decoded, for a character class.
ENCODED = r"%,\x80-\U0010ffff"


class Matching:
    """Matcher of one URI template."""

    __slots__ = ("_graphs", "_lists", "_repeats", "_slots", "fullmatch", "plain")

    def __init__(self, parts: Sequence[Part]) -> None:
        expressions = [part for part in parts if not isinstance(part, str)]
        names = [variable.name for part in expressions for variable in part]
        self._repeats = len(set(names)) < len(names)
        # These expand to nothing for an empty list, and for a list of one empty string.
        self._lists = {
            part[0] for part in expressions if len(part) == 1 and part[0].operator in ("", "+") and part[0].explode
        }
        atoms = group(parts)
        self._slots = tuple(slots(atoms))
        self._graphs: tuple[Graph, ...]
        self.fullmatch: Callable[[str], re.Match[str] | None] | None = None
        """Returns the texts of the slots of a deterministic template; if None, use `divide`."""
        self.plain: Callable[[str], re.Match[str] | None] | None = None
        """As ``fullmatch``, for URIs without escapes and lists only: its named groups are the values."""
        lenient = Graph(atoms, "readable")
        if not lenient.ambiguous:
            self._graphs = (lenient,)
            self.fullmatch = _compile(atoms)
            if self.fullmatch is not None and not self._repeats and _is_plain(parts):
                self.plain = _compile(atoms, plain=True)
        else:
            # Readings that expansion writes come first: the round trip depends on it.
            self._graphs = (Graph(atoms, "written"), lenient)

    def divide(self, uri: str) -> dict[str, Found] | None:
        """Match a URI by the graph; return the decoded values, or `None` if it does not match."""
        head, tail = self._graphs[0].head, self._graphs[0].tail
        # Placeholder characters are never part of a URI.
        if len(uri) > MAX_URI or any(character in uri for character in STAND_INS) or not is_encodable(uri):
            return None
        try:
            tokens = tokenize(uri)
        except ValueError:
            return None
        if not tokens.startswith(head) or not tokens.endswith(tail) or len(tokens) < len(head) + len(tail):
            return None
        text = LiteralText(tokens[len(head) : len(tokens) - len(tail)])
        for graph in self._graphs:
            spans = graph.divide(text)
            if spans is not None:
                return self.interpret([spans.get(slot) for slot in range(len(self._slots))], untokenize)
        return None

    def interpret(self, texts: Sequence[str | None], decode: Callable[[str], str]) -> dict[str, Found] | None:
        """Convert the texts of the slots to the values of the variables, or return `None` if they have no values."""
        found: list[tuple[Variable, Found | None]] = []
        try:
            for slot, text in zip(self._slots, texts, strict=True):
                if isinstance(slot, Variable):
                    value = (
                        [] if text == "" and slot in self._lists else None if text is None else read(slot, text, decode)
                    )
                    found.append((slot, value))
                else:
                    values = {} if text is None else read_query(slot, text, decode)
                    found += [(variable, values.get(variable.name)) for variable in slot.variables]
            if self._repeats:
                found = agree(found)
        except ValueError:
            return None
        return {variable.name: value for variable, value in found if value is not None}


def group(parts: Sequence[Part]) -> tuple[Atom, ...]:
    """Join adjacent query expressions that are followed by nothing but a fragment."""
    atoms: list[Atom] = []
    index = 0
    while index < len(parts):
        end = index + 1
        while end < len(parts) and _operator(parts[index]) in ("?", "&") and _operator(parts[end]) == "&":
            end += 1
        rest = parts[end:]
        variables = tuple([variable for part in parts[index:end] if not isinstance(part, str) for variable in part])
        if (
            _operator(parts[index]) in ("?", "&")
            and (not rest or rest[0][:1] == "#" or (len(rest) == 1 and _operator(rest[0]) == "#"))
            and len({variable.name for variable in variables}) == len(variables)
        ):
            indexes = {tokenize(variable.name): index for index, variable in enumerate(variables)}
            atoms.append(Query(variables, indexes, [index for index in indexes.values() if variables[index].explode]))
        else:
            atoms.extend(parts[index:end])
        index = end
    return tuple(atoms)


def _operator(part: Part) -> str | None:
    return None if isinstance(part, str) else part[0].operator


def _is_plain(parts: Sequence[Part]) -> bool:
    """Return whether the text that matches a variable is its value, as long as it has no escapes and no commas."""
    return all(
        "%" not in part and "," not in part
        if isinstance(part, str)
        else all(item.operator in ("", "+") and not item.explode and item.name.isidentifier() for item in part)
        for part in parts
    )


def _compile(atoms: Sequence[Atom], *, plain: bool = False) -> Callable[[str], re.Match[str] | None] | None:
    """Return the matcher of a deterministic template by regular expression; None if it needs the graph.

    With ``plain``, values have no percent sign, no comma, and nothing outside ASCII, and groups have names.
    """
    tail = atoms[-1] if len(atoms) > 1 and isinstance(atoms[-1], str) else ""
    if "%" in tail:
        return None
    pattern = ""
    for atom in atoms[: len(atoms) - bool(tail)]:
        if isinstance(atom, str):
            pattern += _literal_pattern(atom)
        elif isinstance(atom, Query):
            openers = "".join(sorted({variable.operator for variable in atom.variables}, reverse=True))
            pattern += f"([{openers}]{_class(READABLE['&'] + '&')}*+)?+"
        elif not _is_simple(atom):
            return None
        else:
            for variable in atom:
                first, separator, *_ = OPERATORS[variable.operator]
                characters = READABLE.get(variable.operator, PATH_CHARACTERS)
                if plain:
                    run = f"(?P<{variable.name}>{_class(characters, ENCODED)}*+)"
                else:
                    run = f"({_class(characters + separator if variable.explode else characters)}*+)"
                pattern += f"(?:{re.escape(first)}{run})?+" if first else run
    fullmatch = re.compile(pattern).fullmatch
    if not tail:
        return fullmatch
    return lambda uri: fullmatch(uri, 0, len(uri) - len(tail)) if uri.endswith(tail) else None


def _is_simple(expression: Expression) -> bool:
    operator = OPERATORS[expression[0].operator]
    if operator.named or any(variable.prefix is not None for variable in expression):
        return False
    return len(expression) == 1 or operator.first == operator.separator


def _class(characters: str, without: str = "") -> str:
    # Negated: characters outside ASCII represent their escapes, and listing them makes compiling slow.
    others = "".join([chr(octet) for octet in range(128) if chr(octet) not in characters])
    return f"[^{re.escape(others)}{without}]"


def _literal_pattern(literal: str) -> str:
    """Return the pattern of a literal: escapes in either case; characters outside ASCII escaped or not."""
    pattern = ""
    for token in tokenize(literal):
        if token.isascii():
            pattern += re.escape(token)
            continue
        octets = untokenize(token).encode() if not "\udc80" <= token <= "\udcff" else bytes([ord(token) - 0xDC00])
        digits = "".join([f"%{octet:02x}" for octet in octets])
        escaped = re.sub("[a-f]", lambda digit: f"[{digit[0]}{digit[0].upper()}]", digits)
        pattern += f"(?:{escaped}|{token})" if not "\udc00" <= token <= "\udcff" else escaped
    return pattern
