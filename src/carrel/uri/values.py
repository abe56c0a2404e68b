"""Decoding of URI template variables: values from the texts that matching found for them."""

from collections.abc import Callable, Iterable

from carrel.uri.expression import (
    MAX_ITEMS,
    OPERATORS,
    Found,
    Query,
    UriTemplateError,
    Variable,
    expand,
)
from carrel.uri.tokens import tokenize

__all__ = ["agree", "read", "read_query"]


def read(variable: Variable, text: str, decode: Callable[[str], str]) -> Found:
    """Decode the value of a variable: a string, a list or a mapping.

    Raises:
        ValueError: no value expands to this text, or it has too many items.
    """
    operator = OPERATORS[variable.operator]
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
    """Decode an exploded variable of a named operator: a list under its name, or a mapping."""
    pairs = [piece.partition("=") for piece in pieces]
    if OPERATORS[variable.operator].empty and not all(equals for _, equals, _ in pairs):
        raise ValueError("a parameter without a value")
    name = tokenize(variable.name)
    if all(tokenize(key) == name for key, _, _ in pairs):
        return [decode(value) for _, _, value in pairs]
    mapping = {decode(key): decode(value) for key, _, value in pairs}
    if len(mapping) < len(pairs):
        raise ValueError("a parameter that is repeated")
    return mapping


def read_query(query: Query, text: str, decode: Callable[[str], str]) -> dict[str, Found]:
    """Decode query parameters in any order. Those without a variable of their name go to the exploded variables."""
    pieces = text[1:].split("&", MAX_ITEMS)
    keys = [tokenize(piece.partition("=")[0]) for piece in pieces]
    indexes, exploded = query.indexes, query.exploded
    named = {indexes[key] for key in keys if key in indexes}
    # Of several exploded variables, one whose own name occurs is a list and takes no other parameters.
    mappings = exploded if len(exploded) == 1 else [index for index in exploded if index not in named]
    shares: dict[int, dict[str, list[str]]] = {}
    latest = 0
    for key, piece in zip(keys, pieces, strict=True):
        if key in indexes:
            latest = index = indexes[key]
        else:
            free = [index for index in mappings if key not in shares.get(index, ())]
            if not free:
                raise ValueError("a parameter that is unknown or repeated")
            index = next((index for index in free if index >= latest), free[0])
        shares.setdefault(index, {}).setdefault(key, []).append(piece)
    if len(pieces) > MAX_ITEMS or (text[0] == "&" and any(query.variables[index].operator == "?" for index in named)):
        raise ValueError("too many parameters, or no question mark before them")
    found: dict[str, Found] = {}
    for index, share in shares.items():
        variable = query.variables[index]
        if variable.explode:
            found[variable.name] = _read_pairs(variable, [piece for group in share.values() for piece in group], decode)
            continue
        [[piece]] = share.values()
        _, equals, value = piece.partition("=")
        if not equals:
            raise ValueError("a parameter without a value")
        found[variable.name] = read(variable, value, decode)
    return found


def agree(found: Iterable[tuple[Variable, Found | None]]) -> list[tuple[Variable, Found | None]]:
    """Return one value per variable that is consistent with all its occurrences.

    Raises:
        ValueError: the occurrences of a variable contradict each other.
    """
    names: dict[str, list[tuple[Variable, Found | None]]] = {}
    for variable, value in found:
        names.setdefault(variable.name, []).append((variable, value))
    agreed = []
    for name, occurrences in names.items():
        candidates: dict[type, Found | None] = {}
        # A list of one item expands like the item.
        items = [value[0] for _, value in occurrences if isinstance(value, list) and len(value) == 1]
        for value in [*[value for _, value in occurrences], *items]:
            known = candidates.get(type(value))
            if known is None or value is None or len(known) < len(value):
                candidates[type(value)] = value
        for kind in (dict, list, str, type(None)):
            if kind in candidates and all(_same(variable, candidates[kind], value) for variable, value in occurrences):
                agreed.append((occurrences[0][0], candidates[kind]))
                break
        else:
            raise ValueError(f"{name} has two values")
    return agreed


def _same(variable: Variable, some: Found | None, other: Found | None) -> bool:
    """Return whether two values expand to the same text."""
    try:
        return expand((variable,), {variable.name: some}) == expand((variable,), {variable.name: other})
    except UriTemplateError:
        # A list where the variable has a prefix.
        return False
