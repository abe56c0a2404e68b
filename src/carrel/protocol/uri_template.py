"""URI templates (RFC 6570, all four levels): expansion, and matching, which the RFC leaves to its users.

What an expression matches, and which reading is taken when there are several, is written down for users in
docs/uri-templates.md. In short: whatever `UriTemplate.expand` writes, `UriTemplate.match` reads back; characters that
expansion would have escaped are read too; and a value ends at the first place where the rest can still match.

A template in which the next character decides everything is matched by one regular expression that never backtracks.
Any other becomes a graph whose edges are literal texts and runs of a class of characters. For each of its states the
positions in the URI from which the end can be reached are one integer, a bit for a position, so that matching takes
a few arithmetic operations for each edge, whatever the URI.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache
from typing import Literal, NamedTuple, TypeAlias

from carrel.protocol.uri import (
    DIGIT,
    RESERVED,
    SUB_DELIMITERS,
    TOLERATED,
    UNRESERVED,
    UriError,
    percent_decode,
    percent_encode,
)

__all__ = ["UriTemplate", "UriTemplateError", "Value", "Variable", "order"]

MAX_TEMPLATE = 8_192
"""Characters in a template."""
MAX_VARIABLES = 256
"""Variables in a template."""
MAX_URI = 65_536
"""Characters in a URI; a longer one does not match."""
MAX_ITEMS = 1_024
"""Items in a list or mapping, and parameters in a query; a URI with more does not match."""
MAX_PAIRS = 128
"""Pairs in an exploded mapping, in a template with several readings; a URI with more does not match."""

Scalar: TypeAlias = str | int | float | bool
Value: TypeAlias = Scalar | Sequence[str] | Mapping[str, str] | None
Found: TypeAlias = str | list[str] | dict[str, str]


class UriTemplateError(ValueError):
    """The text is not a URI template (the message says what and at which character), or a value cannot be expanded."""


class Variable(NamedTuple):
    """A variable in an expression of a template (RFC 6570, sections 2.3 and 2.4)."""

    name: str
    explode: bool = False
    prefix: int | None = None
    """The greatest number of characters of the value that expansion uses."""
    operator: str = ""
    """One of `+ # . / ; ? &`, or empty."""


class _Operator(NamedTuple):
    """A row of the table in RFC 6570, appendix A."""

    first: str
    separator: str
    named: bool = False
    empty: str = ""
    reserved: bool = False


_OPERATORS = {
    "": _Operator("", ","),
    "+": _Operator("", ",", reserved=True),
    "#": _Operator("#", ",", reserved=True),
    ".": _Operator(".", "."),
    "/": _Operator("/", "/"),
    ";": _Operator(";", ";", named=True),
    "?": _Operator("?", "&", named=True, empty="="),
    "&": _Operator("&", "&", named=True, empty="="),
}


class _Query(NamedTuple):
    """Adjoining `{?...}` and `{&...}` up to the end or the fragment: their parameters come in any order."""

    variables: tuple[Variable, ...]
    places: Mapping[str, int]
    """Where a name, as tokens, is in `variables`."""
    exploded: Sequence[int]


_Expression: TypeAlias = tuple[Variable, ...]
_Part: TypeAlias = str | _Expression
_Atom: TypeAlias = str | _Expression | _Query


class UriTemplate:
    """A URI template (RFC 6570), checked once and used many times.

    Raises:
        UriTemplateError: the template is malformed, or has more than 8,192 characters or 256 variables.
    """

    __slots__ = (
        "_atoms",
        "_fullmatch",
        "_graphs",
        "_lists",
        "_parts",
        "_plain",
        "_slots",
        "literal_length",
        "names",
        "prefix",
        "required",
        "template",
        "variables",
    )

    def __init__(self, template: str) -> None:
        self.template = template
        self._parts = _parse(template)
        expressions = [part for part in self._parts if not isinstance(part, str)]
        self.variables: tuple[Variable, ...] = tuple([variable for part in expressions for variable in part])
        """Every variable in its place; a name may occur more than once."""
        self.names: tuple[str, ...] = tuple(dict.fromkeys([variable.name for variable in self.variables]))
        """The names in order, each once."""
        self.required: frozenset[str] = _required(expressions)
        """The names that every match has. The others are absent from it when they are absent from the URI."""
        first = self._parts[0] if self._parts else ""
        self.prefix: str = first if isinstance(first, str) else ""
        """The literal text before the first expression, percent-encoded."""
        self.literal_length: int = sum([len(part) for part in self._parts if isinstance(part, str)])
        """The number of literal characters, percent-encoded, which decides between overlapping templates."""
        self._atoms = _group(self._parts)
        self._slots = tuple(_slots(self._atoms))
        # These write nothing for an empty list, and nothing for a list of one empty text.
        self._lists = {
            part[0] for part in expressions if len(part) == 1 and part[0].operator in ("", "+") and part[0].explode
        }
        self._plain = len(self.names) == len(self.variables) and all(
            variable.operator in ("", "+") and not variable.explode for variable in self.variables
        )
        self._fullmatch: Callable[[str], re.Match[str] | None] | None = None
        self._graphs: tuple[_Graph, ...] = ()

    def __repr__(self) -> str:
        return f"UriTemplate({self.template!r})"

    def __eq__(self, other: object) -> bool:
        return self.template == other.template if isinstance(other, UriTemplate) else NotImplemented

    def __hash__(self) -> int:
        return hash(self.template)

    @property
    def ambiguous(self) -> bool:
        """Can the expansion of some texts be divided among the variables in another way?"""
        return _Graph(self._atoms, "text").ambiguous

    def expand(self, values: Mapping[str, Value]) -> str:
        """Return the URI for these values; a variable that is missing or `None` is left out (RFC 6570, section 3).

        Numbers are written as Python writes them, booleans as `true` and `false`.

        Raises:
            UriTemplateError: a list or mapping for a variable with a prefix, or text with a lone surrogate.
            TypeError: a value of another type.
        """
        return "".join([part if isinstance(part, str) else _expand(part, values) for part in self._parts])

    def match(self, uri: str) -> dict[str, Found] | None:
        """Return the decoded values of the variables, or `None` when the URI does not match.

        Variables that the URI leaves out are not in the result. The time is linear in the length of the URI.
        """
        fullmatch = self._fullmatch
        if fullmatch is None:
            return self._divide(uri)
        if len(uri) > MAX_URI:
            return None
        found = fullmatch(uri)
        if found is None:
            return None
        if not uri.isascii() and not _is_encodable(uri):
            return None
        if self._plain and "%" not in uri and "," not in uri:
            return dict(zip(self.names, found.groups()))  # noqa: B905 - they are equally long, and this is the hot path
        return self._interpret(found.groups(), percent_decode)

    def _prepare(self) -> None:
        """Choose the way to match. Put off until the first match, since a template that is only listed needs none."""
        lenient = _Graph(self._atoms, "readable")
        if not lenient.ambiguous:
            self._graphs = (lenient,)
            self._fullmatch = _compile(self._atoms)
        else:
            # Among several readings, one that expansion writes comes first: the round trip depends on it.
            self._graphs = (_Graph(self._atoms, "written"), lenient)

    def _divide(self, uri: str) -> dict[str, Found] | None:
        if not self._graphs:
            self._prepare()
            return self.match(uri)
        head, tail = self._graphs[0].head, self._graphs[0].tail
        # What stands for something else below is not part of a URI.
        if len(uri) > MAX_URI or any(character in uri for character in _STAND_INS) or not _is_encodable(uri):
            return None
        try:
            tokens = _tokenize(uri)
        except ValueError:
            return None
        if not tokens.startswith(head) or not tokens.endswith(tail) or len(tokens) < len(head) + len(tail):
            return None
        text = _Text(tokens[len(head) : len(tokens) - len(tail)])
        for graph in self._graphs:
            spans = graph.divide(text)
            if spans is not None:
                return self._interpret([spans.get(slot) for slot in range(len(self._slots))], _untokenize)
        return None

    def _interpret(self, texts: Sequence[str | None], decode: Callable[[str], str]) -> dict[str, Found] | None:
        """Turn the texts found in the slots into values."""
        found: list[tuple[Variable, Found | None]] = []
        try:
            for slot, text in zip(self._slots, texts, strict=True):
                if isinstance(slot, Variable):
                    value = (
                        []
                        if text == "" and slot in self._lists
                        else None
                        if text is None
                        else _read(slot, text, decode)
                    )
                    found.append((slot, value))
                else:
                    values = {} if text is None else _read_query(slot, text, decode)
                    found += [(variable, values.get(variable.name)) for variable in slot.variables]
            if len(self.names) < len(self.variables):
                found = _agree(found)
        except ValueError:
            return None
        return {variable.name: value for variable, value in found if value is not None}


def order(templates: Iterable[UriTemplate]) -> list[UriTemplate]:
    """Sort templates so that the first that matches is the one to use: most literal characters, then as they came.

    A resource with exactly the URI precedes them all; looking it up is up to the caller.
    """
    return sorted(templates, key=lambda template: -template.literal_length)


# Parsing


_NOT_LITERAL = frozenset(map(chr, range(0x21))) | frozenset('"<>\\^`{|}\x7f')
_BAD_ESCAPE = re.compile("%(?![0-9A-Fa-f]{2})")
_BAD_NAME = re.compile(r"[^A-Za-z0-9_.%]|^\.|\.(?=\.|\Z)|%(?![0-9A-Fa-f]{2})|^\Z")


def _parse(template: str) -> tuple[_Part, ...]:
    """Split a template into literal texts, percent-encoded, and expressions (RFC 6570, section 2)."""
    if len(template) > MAX_TEMPLATE:
        raise UriTemplateError(f"a URI template has at most {MAX_TEMPLATE} characters, this one has {len(template)}")
    parts: list[_Part] = []
    position = count = 0
    while position < len(template):
        start = template.find("{", position)
        literal = template[position:] if start < 0 else template[position:start]
        if literal:
            parts.append(_parse_literal(literal, position, template))
        if start < 0:
            break
        end = template.find("}", start)
        if end < 0:
            raise _error("an expression is not closed", start, template)
        expression = _parse_expression(template[start + 1 : end], start + 1, template)
        count += len(expression)
        if count > MAX_VARIABLES:
            raise _error(f"a URI template has at most {MAX_VARIABLES} variables", start, template)
        parts.append(expression)
        position = end + 1
    literals = [part for part in parts if isinstance(part, str)]
    if _tokenize("".join(literals)) != "".join(map(_tokenize, literals)):
        raise UriTemplateError(f"an expression divides the escapes of one character: {template!r}")
    return tuple(parts)


def _parse_literal(literal: str, position: int, template: str) -> str:
    if not _NOT_LITERAL.isdisjoint(literal):
        found = min(literal.index(character) for character in _NOT_LITERAL.intersection(literal))
        raise _error(f"{literal[found]!r} is not allowed outside an expression", position + found, template)
    escape = _BAD_ESCAPE.search(literal)
    if escape:
        raise _error("'%' is not followed by two hexadecimal digits", position + escape.start(), template)
    try:
        return percent_encode(literal, UNRESERVED + RESERVED + "%")
    except UriError as error:
        raise UriTemplateError(f"{error}, in the text from character {position + 1} of a URI template") from None


def _parse_expression(expression: str, position: int, template: str) -> _Expression:
    operator = expression[:1] if expression[:1] in _OPERATORS else ""
    if expression[:1] in ("=", ",", "!", "@", "|"):
        raise _error(f"the operator {expression[0]!r} is reserved", position, template)
    variables = []
    position += len(operator)
    for specification in expression[len(operator) :].split(","):
        name, colon, digits = specification.partition(":")
        explode = not colon and name.endswith("*")
        if explode:
            name = name[:-1]
        fault = _BAD_NAME.search(name)
        if fault:
            what = f"{fault[0]!r} is not allowed in" if fault[0] else "there has to be"
            raise _error(f"{what} the name of a variable", position + fault.start(), template)
        if colon and (not 1 <= len(digits) <= 4 or digits.strip(DIGIT) or digits[0] == "0"):
            raise _error("a prefix is a number from 1 to 9999", position + len(name) + 1, template)
        variables.append(Variable(name, explode, int(digits) if colon else None, operator))
        position += len(specification) + 1
    return tuple(variables)


def _error(what: str, position: int, template: str) -> UriTemplateError:
    shown = template if len(template) <= 80 else template[:77] + "..."
    return UriTemplateError(f"{what}, at character {position + 1} of the URI template {shown!r}")


def _required(expressions: Iterable[_Expression]) -> frozenset[str]:
    """The variables that cannot be absent: without a first character, what is absent is read as empty."""
    certain: list[str] = []
    others: list[str] = []
    for first, *rest in expressions:
        unlimited = first.prefix is None and not any(variable.explode for variable in (first, *rest))
        (certain if first.operator in ("", "+") and (unlimited or not rest) else others).append(first.name)
        others += [variable.name for variable in rest]
    # A name that is also where it may be absent can be absent in both places.
    return frozenset(certain).difference(others)


def _group(parts: Sequence[_Part]) -> tuple[_Atom, ...]:
    """Join the expressions of a query that nothing but a fragment follows."""
    atoms: list[_Atom] = []
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
            places = {_tokenize(variable.name): place for place, variable in enumerate(variables)}
            atoms.append(_Query(variables, places, [place for place in places.values() if variables[place].explode]))
        else:
            atoms.extend(parts[index:end])
        index = end
    return tuple(atoms)


def _operator(part: _Part) -> str | None:
    return None if isinstance(part, str) else part[0].operator


def _slots(atoms: Iterable[_Atom]) -> Iterator[Variable | _Query]:
    """What the texts that matching finds belong to, from left to right."""
    for atom in atoms:
        if isinstance(atom, _Query):
            yield atom
        elif not isinstance(atom, str):
            yield from atom


# Expansion (RFC 6570, section 3)


def _expand(expression: _Expression, values: Mapping[str, Value]) -> str:
    operator = _OPERATORS[expression[0].operator]
    pieces: list[str] = []
    for variable in expression:
        value = values.get(variable.name)
        if value is not None:
            pieces += _pieces(variable, operator, value)
    return operator.first + operator.separator.join(pieces) if pieces else ""


def _pieces(variable: Variable, operator: _Operator, value: Value) -> list[str]:
    def name(key: str, text: str) -> str:
        return key + "=" + text if text else key + operator.empty

    if isinstance(value, str | int | float):
        text = _encode(_text(value)[: variable.prefix], operator)
        return [name(variable.name, text) if operator.named else text]
    if not isinstance(value, Mapping | Sequence) or isinstance(value, bytes | bytearray | memoryview):
        raise TypeError(f"{variable.name}: {type(value).__name__} is not text, a number, a list or a mapping")
    if variable.prefix is not None:
        raise UriTemplateError(f"{variable.name}: only text has a prefix, not a list or a mapping")
    if isinstance(value, Mapping):
        pairs = [(_encode(_text(key), operator), _encode(_text(item), operator)) for key, item in value.items()]
        if variable.explode:
            return [name(key, text) if operator.named else f"{key}={text}" for key, text in pairs]
        items = [text for pair in pairs for text in pair]
    else:
        items = [_encode(_text(item), operator) for item in value]
        if variable.explode:
            return [name(variable.name, text) if operator.named else text for text in items]
    joined = ",".join(items)
    if not items:
        return []
    return [name(variable.name, joined) if operator.named else joined]


def _text(value: object) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return str(value)
    raise TypeError(f"{type(value).__name__} is neither text nor a number")


def _encode(text: str, operator: _Operator) -> str:
    try:
        if not operator.reserved:
            return percent_encode(text)
        # Escapes that are already there stay (section 3.2.3).
        first, *rest = text.split("%")
        safe = UNRESERVED + RESERVED
        escapes = ["%25" + part if _BAD_ESCAPE.match("%" + part[:2]) else "%" + part for part in rest]
        return percent_encode(first, safe) + "".join([percent_encode(part, safe + "%") for part in escapes])
    except UriError as error:
        raise UriTemplateError(str(error)) from None


# Matching: the values in the texts that were found


def _read(variable: Variable, text: str, decode: Callable[[str], str]) -> Found:
    operator = _OPERATORS[variable.operator]
    separator = operator.separator if variable.explode else ","
    if not variable.explode and (operator.reserved or variable.prefix is not None or separator not in text):
        return decode(text)
    if text.count(separator) >= MAX_ITEMS:
        raise ValueError("too many items")
    pieces = text.split(separator)
    if not variable.explode:
        return [decode(piece) for piece in pieces]
    if operator.named:
        return _read_pairs(variable, pieces, decode)
    if "=" in text:
        pairs = _dotted_pairs(text) if separator == "." else [piece.split("=", 1) for piece in pieces]
        if all(len(pair) == 2 for pair in pairs):
            mapping = {decode(key): decode(value) for key, value in pairs}
            if len(mapping) == len(pairs):
                return mapping
    return [decode(piece) for piece in pieces]


def _dotted_pairs(text: str) -> list[list[str]]:
    """Split `a=1.5.b=2` into pairs: between two equals signs, the last dot is the separator."""
    key, *rest = text.split("=")
    pairs = []
    for half in rest[:-1]:
        value, dot, following = half.rpartition(".")
        if not dot:
            return [[text]]
        pairs.append([key, value])
        key = following
    return [*pairs, [key, rest[-1]]]


def _read_pairs(variable: Variable, pieces: Iterable[str], decode: Callable[[str], str]) -> Found:
    """Read what a named operator writes for one exploded variable: a list under its name, or a mapping."""
    pairs = [piece.partition("=") for piece in pieces]
    if _OPERATORS[variable.operator].empty and not all(equals for _, equals, _ in pairs):
        raise ValueError("a parameter without a value")
    name = _tokenize(variable.name)
    if all(_tokenize(key) == name for key, _, _ in pairs):
        return [decode(value) for _, _, value in pairs]
    mapping = {decode(key): decode(value) for key, _, value in pairs}
    if len(mapping) < len(pairs):
        raise ValueError("a parameter that is there twice")
    return mapping


def _read_query(query: _Query, text: str, decode: Callable[[str], str]) -> dict[str, Found]:
    """Read parameters in any order. Those that no variable has the name of belong to the exploded variables."""
    pieces = text[1:].split("&", MAX_ITEMS)
    keys = [_tokenize(piece.partition("=")[0]) for piece in pieces]
    places, exploded = query.places, query.exploded
    named = {places[key] for key in keys if key in places}
    # Of several exploded variables, one whose own name is there is a list and takes nothing else.
    mappings = exploded if len(exploded) == 1 else [place for place in exploded if place not in named]
    shares: dict[int, dict[str, list[str]]] = {}
    latest = 0
    for key, piece in zip(keys, pieces, strict=True):
        if key in places:
            latest = place = places[key]
        else:
            free = [place for place in mappings if key not in shares.get(place, ())]
            if not free:
                raise ValueError("a parameter that is unknown, or there twice")
            place = next((place for place in free if place >= latest), free[0])
        shares.setdefault(place, {}).setdefault(key, []).append(piece)
    if len(pieces) > MAX_ITEMS or (text[0] == "&" and any(query.variables[place].operator == "?" for place in named)):
        raise ValueError("too many parameters, or no question mark before them")
    found: dict[str, Found] = {}
    for place, share in shares.items():
        variable = query.variables[place]
        if variable.explode:
            found[variable.name] = _read_pairs(variable, [piece for group in share.values() for piece in group], decode)
            continue
        [[piece]] = share.values()
        _, equals, value = piece.partition("=")
        if not equals:
            raise ValueError("a parameter without a value")
        found[variable.name] = _read(variable, value, decode)
    return found


def _agree(found: Iterable[tuple[Variable, Found | None]]) -> list[tuple[Variable, Found | None]]:
    """Find one value for each variable that explains what was found in all its places.

    Raises:
        ValueError: there is none.
    """
    names: dict[str, list[tuple[Variable, Found | None]]] = {}
    for variable, value in found:
        names.setdefault(variable.name, []).append((variable, value))
    agreed = []
    for name, places in names.items():
        candidates: dict[type, Found | None] = {}
        # A list of one item is written like the item.
        items = [value[0] for _, value in places if isinstance(value, list) and len(value) == 1]
        for value in [*[value for _, value in places], *items]:
            known = candidates.get(type(value))
            if known is None or value is None or len(known) < len(value):
                candidates[type(value)] = value
        for kind in (dict, list, str, type(None)):
            if kind in candidates and all(_same(variable, candidates[kind], value) for variable, value in places):
                agreed.append((places[0][0], candidates[kind]))
                break
        else:
            raise ValueError(f"{name} has two values")
    return agreed


def _same(variable: Variable, some: Found | None, other: Found | None) -> bool:
    """Are the two values written alike?"""
    try:
        return _expand((variable,), {variable.name: some}) == _expand((variable,), {variable.name: other})
    except UriTemplateError:
        # A list where the variable has a prefix.
        return False


# Matching: one regular expression, where the next character decides


_PATH_CHARACTERS = UNRESERVED + SUB_DELIMITERS + ":@" + TOLERATED + "%"
_READABLE = {
    "+": UNRESERVED + RESERVED + TOLERATED.replace("[", "").replace("]", "") + "%",
    ";": _PATH_CHARACTERS.replace(";", ""),
    "?": (_PATH_CHARACTERS + "/?").replace("&", ""),
}
_READABLE["#"] = _READABLE["+"]
_READABLE["&"] = _READABLE["?"]


def _compile(atoms: Sequence[_Atom]) -> Callable[[str], re.Match[str] | None] | None:
    """Return the regular expression for a template in which the next character decides, unless it needs the graph."""
    tail = atoms[-1] if len(atoms) > 1 and isinstance(atoms[-1], str) else ""
    if "%" in tail:
        return None
    pattern = ""
    for atom in atoms[: len(atoms) - bool(tail)]:
        if isinstance(atom, str):
            pattern += _literal_pattern(atom)
        elif isinstance(atom, _Query):
            openers = "".join(sorted({variable.operator for variable in atom.variables}, reverse=True))
            pattern += f"([{openers}]{_class(_READABLE['&'] + '&')}*+)?+"
        elif not _is_simple(atom):
            return None
        else:
            for variable in atom:
                first, separator, *_ = _OPERATORS[variable.operator]
                characters = _READABLE.get(variable.operator, _PATH_CHARACTERS)
                run = f"({_class(characters + separator if variable.explode else characters)}*+)"
                pattern += f"(?:{re.escape(first)}{run})?+" if first else run
    fullmatch = re.compile(pattern).fullmatch
    if not tail:
        return fullmatch
    return lambda uri: fullmatch(uri, 0, len(uri) - len(tail)) if uri.endswith(tail) else None


def _is_simple(expression: _Expression) -> bool:
    operator = _OPERATORS[expression[0].operator]
    if operator.named or any(variable.prefix is not None for variable in expression):
        return False
    return len(expression) == 1 or operator.first == operator.separator


def _class(characters: str) -> str:
    # By what it is not: characters outside ASCII stand for their escapes, and naming them makes compiling slow.
    others = "".join([chr(octet) for octet in range(128) if chr(octet) not in characters])
    return f"[^{re.escape(others)}]"


def _literal_pattern(literal: str) -> str:
    """Escapes in either case; characters outside ASCII escaped or not."""
    pattern = ""
    for token in _tokenize(literal):
        if token.isascii():
            pattern += re.escape(token)
            continue
        octets = _untokenize(token).encode() if not "\udc80" <= token <= "\udcff" else bytes([ord(token) - 0xDC00])
        digits = "".join([f"%{octet:02x}" for octet in octets])
        escaped = re.sub("[a-f]", lambda digit: f"[{digit[0]}{digit[0].upper()}]", digits)
        pattern += f"(?:{escaped}|{token})" if not "\udc00" <= token <= "\udcff" else escaped
    return pattern


# Matching: a graph, where there are several readings


def _is_encodable(uri: str) -> bool:
    """Is it free of lone surrogates?"""
    try:
        uri.encode()
    except UnicodeEncodeError:
        return False
    return True


def _tokenize(text: str) -> str:
    """Make one character of each escaped character, for `%41` the surrogate U+DC41.

    So an escaped delimiter differs from a delimiter, and a position is never inside a character.

    Raises:
        ValueError: an escape is malformed, or next to a backslash or lone surrogate.
    """
    if "%" not in text:
        return text
    if "\\" in text:
        raise ValueError("a backslash is never part of a URI")
    # Python's own escapes are decoded in C; see `carrel.protocol.uri`. First those that stay, then UTF-8.
    for digit in "01234567":
        text = text.replace("%" + digit, "\\\\udc" + digit)
    octets = text.encode().replace(b"%", b"\\x").decode("unicode_escape").encode("latin-1")
    return octets.decode("utf-8", "surrogateescape").encode("ascii", "backslashreplace").decode("unicode_escape")


def _untokenize(tokens: str) -> str:
    """Return the decoded text.

    Raises:
        ValueError: escaped bytes are not UTF-8.
    """
    if tokens.isascii():
        return tokens
    escaped = tokens.encode("ascii", "backslashreplace")
    for digit in b"01234567":
        escaped = escaped.replace(b"\\udc%c" % digit, b"\\u00%c" % digit)
    decoded = escaped.decode("unicode_escape")
    decoded.encode()
    return decoded


# What a character of a class of characters stands for, besides itself. None of these is ever part of a URI.
_SOUGHT, _ESCAPED_RESERVED, _ESCAPED_UNRESERVED, _ESCAPED = "\x01\x02\x03%"
_STAND_INS = _SOUGHT + _ESCAPED_RESERVED + _ESCAPED_UNRESERVED
_ESCAPES = _ESCAPED + _ESCAPED_RESERVED + _ESCAPED_UNRESERVED
_WRITTEN_QUERY = UNRESERVED + _ESCAPED + _ESCAPED_RESERVED + ",=&"
_READABLE_QUERY = _READABLE["&"] + "&" + _STAND_INS[1:]
_LOOKS_ESCAPED = re.compile("\udc25(?=[0-9A-Fa-f]{2})")
_KINDS = {chr(0xDC00 + ord(character)): _ESCAPED_RESERVED for character in RESERVED}
_KINDS |= {chr(0xDC00 + ord(character)): _ESCAPED_UNRESERVED for character in UNRESERVED}


@cache
def _table(characters: str) -> bytes:
    """Translate the characters of a class to `1` and all others to `0`; see `_reduce`."""
    known = characters.translate({ord("?"): "%", ord("%"): "?"})
    return bytes([ord("1" if chr(octet) in known else "0") for octet in range(256)])


def _reduce(tokens: str) -> bytes:
    """Make one byte of each token: a character that is not escaped, or a kind of escape; `?` and `%` change places."""
    if not tokens.isascii():
        # Reserved expansion takes an escaped percent sign and two digits for an escape of the value's own.
        tokens = _LOOKS_ESCAPED.sub(_ESCAPED_RESERVED, tokens)
        for token, kind in _KINDS.items():
            tokens = tokens.replace(token, kind)
    return tokens.replace("?", "%").encode("ascii", "replace")


class _Text:
    """A URI as one character for each position, and sets of positions in it.

    A set is an integer: bit 0 is the end of the text, bit n is n characters before the end. So the step from the
    end of a character to its start is a shift to the left, and addition carries through a run of characters.
    """

    __slots__ = ("_classes", "_octets", "length", "tokens")

    def __init__(self, tokens: str) -> None:
        self.tokens = tokens
        self.length = len(tokens)
        self._octets = _reduce(tokens)
        self._classes: dict[str, int] = {"": 0}

    def ends_of(self, characters: str) -> int:
        """The positions that a character of this class is in front of."""
        found = self._classes.get(characters)
        if found is None:
            octets, table = self._octets, _table(characters if characters.isascii() else _SOUGHT)
            if not characters.isascii():
                octets = self.tokens.replace(characters, _SOUGHT).encode("ascii", "replace")
            found = self._classes[characters] = int(octets.translate(table) or b"0", 2)
        return found

    def before_text(self, text: str, goal: int) -> int:
        """The positions from which this text leads to the goal."""
        for character in reversed(text):
            goal = (goal & self.ends_of(character)) << 1
        return goal

    def before_run(self, characters: str, limit: int, goal: int) -> int:
        """The positions from which up to `limit` characters of the class, or any number when -1, lead to the goal."""
        run = self.ends_of(characters)
        if not 0 <= limit < self.length:
            return (((goal & run) + run) ^ run) | goal
        reached, length, runs = goal, 1, []
        while length <= limit:
            # Here `run` is where `length` characters end, and up to length - 1 steps are taken.
            reached |= (reached & run) << length
            limit -= length
            runs.append(run)
            run &= run >> length
            length *= 2
        if limit:
            # Fewer steps are left than were taken: a run of that length is two overlapping shorter ones.
            power = limit.bit_length() - 1
            run = runs[power] & (runs[power] >> (limit - (1 << power)))
            reached |= (reached & run) << limit
        return reached

    def before_query(self, query: _Query, goal: int) -> int:
        """The positions from which a query leads to the goal, which is a fragment or the end."""
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

    def _mark_queries(self, query: _Query, start: int, end: int, marks: bytearray) -> None:
        """Mark where a query could begin that reaches the end, going back from parameter to parameter."""
        names = {name: query.variables[place].operator for name, place in query.places.items()}
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
        """The first position of the goal that is not before this one."""
        return self.length + 1 - (goal & ((2 << (self.length - position)) - 1)).bit_length()


_TEXT, _RUN, _ONE, _QUERY = range(4)
_Edge: TypeAlias = tuple[int, str, int, int, int]
"""Kind, text or class of characters, limit of a run, slot or -1, state."""


class _Graph:
    """All readings of URIs as one template: states from the end (0) to the start, edges in order of preference.

    `reading` says which characters a value is made of: "text", those that expansion leaves in a text; "written",
    also the delimiters that expansion puts into lists and mappings; "readable", all that can be understood.
    """

    __slots__ = ("_first", "_loops", "_queries", "_reading", "_states", "ambiguous", "head", "tail")

    def __init__(self, atoms: Sequence[_Atom], reading: Literal["text", "written", "readable"]) -> None:
        head = atoms[0] if atoms and isinstance(atoms[0], str) else ""
        tail = atoms[-1] if len(atoms) > 1 and isinstance(atoms[-1], str) else ""
        self.head, self.tail = _tokenize(head), _tokenize(tail)
        body = atoms[bool(head) : len(atoms) - bool(tail)]
        self.ambiguous = False
        """Is there a place at which the next character does not decide how to go on?"""
        self._reading = reading
        self._states: list[list[_Edge]] = [[]]
        # What can come first after a state: characters, texts, or the end as an empty text.
        self._first: list[set[str]] = [{""}]
        self._loops: dict[int, int] = {}
        self._queries: dict[int, _Query] = {}
        slot = sum([1 for _ in _slots(body)])
        state = 0
        for atom in reversed(body):
            if isinstance(atom, str):
                state = self._add([(_TEXT, _tokenize(atom), 0, -1, state)])
            elif isinstance(atom, _Query):
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

    def _add_expression(self, expression: _Expression, slot: int, after: int) -> int:
        """Add the ways to read an expression of which some variables may be absent."""
        operator = _OPERATORS[expression[0].operator]
        fresh = joined = after
        for place in reversed(range(len(expression))):
            variable = expression[place]
            beyond, alternatives = joined, fresh
            choices = self._items(operator.first, variable, slot + place, beyond)
            # Without a first character an absent variable looks like an empty one, unless a later one can hold more.
            more = variable.prefix is not None or self._reading == "written"
            if operator.first or (more and place < len(expression) - 1):
                skip: _Edge = (_RUN, "", 0, -1, alternatives)
                choices = [skip, *choices] if variable.explode and operator.first else [*choices, skip]
            fresh = self._add(choices)
            if operator.first == operator.separator:
                joined = fresh
            elif place:
                choices = self._items(operator.separator, variable, slot + place, beyond)
                joined = self._add([*choices, (_RUN, "", 0, -1, beyond)])
        return fresh

    def _items(self, prefix: str, variable: Variable, slot: int, target: int) -> list[_Edge]:
        """The edges that read a variable with the first character or separator in front of it."""
        operator = _OPERATORS[variable.operator]
        characters = self._characters(variable)
        if variable.explode:
            return self._exploded_items(prefix, variable, slot, target)
        limit = -1 if variable.prefix is None else variable.prefix
        run: _Edge = (_RUN, characters, limit, slot, target)
        if not operator.named:
            return [self._after(prefix, run)]
        name = prefix + _tokenize(variable.name)
        if operator.empty:
            return [(_TEXT, name + "=", 0, -1, self._add([run]))]
        return [(_TEXT, name, 0, -1, self._add_value(run, -1))]

    def _exploded_items(self, prefix: str, variable: Variable, slot: int, target: int) -> list[_Edge]:
        operator = _OPERATORS[variable.operator]
        characters = self._characters(variable)
        self.ambiguous = self.ambiguous or (self._reading == "text" and operator.separator in characters)
        if self._reading != "written" or operator.reserved:
            delimiters = operator.separator + ("=" if operator.named or self._reading == "readable" else "")
            return [self._after(prefix, (_RUN, _join(characters, delimiters), -1, slot, target))]
        # A list or a mapping, and nothing that is a little of both.
        items: _Edge = (_RUN, characters + operator.separator, -1, slot, target)
        if operator.named:
            items = (_RUN, "", 0, slot, self._add_pairs(variable, slot, target, _tokenize(variable.name)))
        pairs: _Edge = (_RUN, "", 0, slot, self._add_pairs(variable, slot, target))
        return [self._after(prefix, items), self._after(prefix, pairs)]

    def _add_value(self, run: _Edge, equals_slot: int) -> int:
        """Add an equals sign and a value, or nothing, as the operator `;` writes it."""
        kind, characters, limit, slot, target = run
        value = self._add([run])
        if self._reading != "readable":
            # Expansion leaves out the equals sign of an empty value.
            rest = self._add([(kind, characters, limit if limit < 0 else limit - 1, slot, target)])
            value = self._add([(_ONE, characters, 0, slot, rest)])
        return self._add([(_TEXT, "=", 0, equals_slot, value), (_RUN, "", 0, slot, target)])

    def _add_pairs(self, variable: Variable, slot: int, target: int, name: str = "") -> int:
        """Add keys, or one name, and values with separators between them, a loop."""
        operator = _OPERATORS[variable.operator]
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
            return _join(_READABLE.get(variable.operator, _PATH_CHARACTERS), _ESCAPES)
        if _OPERATORS[variable.operator].reserved:
            return UNRESERVED + RESERVED + _ESCAPED
        plain = self._reading == "text" or variable.explode or variable.prefix is not None
        return UNRESERVED + _ESCAPED + _ESCAPED_RESERVED + ("" if plain else ",")

    def divide(self, text: _Text) -> dict[int, str] | None:
        """Return the texts in the preferred reading by slot, without the absent ones; `None` if there is no reading."""
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

    def _before(self, edge: _Edge, sets: Sequence[int], text: _Text) -> int:
        kind, characters, limit, slot, target = edge
        goal = sets[target] if target < len(sets) else 0
        if kind == _RUN:
            return text.before_run(characters, limit, goal) if limit else goal
        if kind == _QUERY:
            run = text.before_run(_WRITTEN_QUERY if self._reading == "written" else _READABLE_QUERY, -1, goal)
            return text.before_query(self._queries[slot], goal) & (run & text.ends_of(characters)) << 1
        return text.before_text(characters, goal) if kind == _TEXT else (goal & text.ends_of(characters)) << 1

    def _walk(self, text: _Text, sets: Sequence[int], reached: Sequence[Sequence[int]]) -> dict[int, str]:
        spans: dict[int, tuple[int, int]] = {}
        state, position = len(sets) - 1, 0
        while state:
            bit = text.length - position
            place = next(place for place, positions in enumerate(reached[state]) if positions >> bit & 1)
            kind, characters, limit, slot, state = self._states[state][place]
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
    """Can what comes first be the same?"""
    if not some.isdisjoint(others):
        return True
    texts = [text for text in some if len(text) > 1], [text for text in others if len(text) > 1]
    if any(text[0] in others for text in texts[0]) or any(text[0] in some for text in texts[1]):
        return True
    return any(text.startswith(other) or other.startswith(text) for text in texts[0] for other in texts[1])
