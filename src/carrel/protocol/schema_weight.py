"""Cost of validating with a JSON Schema: how many subschemas one value is compared with.

References and alternatives multiply: a schema of fifty lines can make validation practically endless. The weight is an
upper bound for one path through a value, from its root to the innermost part.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Mapping
from typing import Any, TypeAlias
from urllib.parse import unquote, urljoin

from carrel.errors import ConfigError

__all__ = ["MAX_WEIGHT", "Index", "Weigher"]

Measurement: TypeAlias = Generator[tuple[Any, int], int, int]

#: Maximum number of subschemas that one value, with the values inside it, is compared with.
MAX_WEIGHT = 100_000
#: Maximum number of steps for weighing a schema against values of a given depth.
MAX_STEPS = 20_000
#: Weight of a metaschema, which is not inspected.
DIALECT_WEIGHT = 100
#: Weight of each object or array in an ``enum``; other values are looked up.
ENUM_WEIGHT = 50

#: Keywords with subschemas for the value itself: one, or several.
SAME_ONE = ("not", "if", "then", "else")
SAME_SEVERAL = ("allOf", "anyOf", "oneOf", "dependentSchemas", "dependencies")
#: Keywords with subschemas for the values inside it: one for some of them, several for some, or for all.
INNER_ONE = (
    *("additionalProperties", "unevaluatedProperties", "propertyNames"),
    *("items", "additionalItems", "contains", "unevaluatedItems"),
)
INNER_EACH = ("properties", "prefixItems", "items")
INNER_SEVERAL = ("patternProperties",)


class Index:
    """Index of a JSON Schema: targets of references, and the base URI of each subschema."""

    def __init__(self, root: dict[str, Any]) -> None:
        self._documents: dict[str, dict[str, Any]] = {"": root}
        self._anchors: dict[str, dict[str, Any]] = {}
        self._dynamic: dict[str, list[dict[str, Any]]] = {}
        self._bases: dict[int, str] = {}

    def add(self, node: dict[str, Any], base: str) -> None:
        """Add a subschema. ``base`` is the base URI of its references, its own ``$id`` included."""
        self._bases[id(node)] = base
        document, _, anchor = base.partition("#")
        if isinstance(node.get("$id"), str):
            if anchor:
                self._anchors[base] = node
            else:
                self._documents[document] = node
        for key in ("$anchor", "$dynamicAnchor"):
            if isinstance(node.get(key), str):
                self._anchors[f"{document}#{node[key]}"] = node
        if isinstance(node.get("$dynamicAnchor"), str):
            self._dynamic.setdefault(node["$dynamicAnchor"], []).append(node)

    def targets(self, node: Mapping[str, Any]) -> Iterator[Any]:
        """Yield the targets of the references of a subschema; None for those outside of the schema."""
        base = self._bases.get(id(node), "")
        for key in ("$ref", "$recursiveRef", "$dynamicRef"):
            if isinstance(node.get(key), str):
                document, _, fragment = urljoin(base, node[key]).partition("#")
                yield self._find(document, fragment)
                if key == "$dynamicRef":
                    yield from self._dynamic.get(fragment, ())

    def _find(self, document: str, fragment: str) -> Any:
        root: Any = self._documents.get(document)
        if fragment and not fragment.startswith("/"):
            return self._anchors.get(f"{document}#{fragment}")
        for part in unquote(fragment).split("/")[1:]:
            name = part.replace("~1", "/").replace("~0", "~")
            if isinstance(root, dict):
                root = root.get(name)
            elif isinstance(root, list) and name.isdigit() and int(name) < len(root):
                root = root[int(name)]
            else:
                return None
        return root


class Weigher:
    """Counts the subschemas that one value is compared with in the worst case.

    The validator compares a value only once with a recursive subschema, so that one counts once; but to collect errors
    it visits all of them again. With ``levels``, the depth of a value, subschemas count as often as they can recur in a
    value that deep.
    """

    def __init__(self, index: Index, levels: int | None = None) -> None:
        self._index = index
        self._levels = levels
        self._weights: dict[tuple[int, int | None], int] = {}
        self._trail: dict[int, int] = {}

    def weigh(self, schema: Any) -> int:
        """Return the weight of a schema. Iterative, because chains of references may be long.

        Raises:
            ConfigError: the weight exceeds the maximum, or references form an endless loop.
        """
        open: list[Measurement] = []
        asked: tuple[Any, int] = (schema, 0)
        while True:
            weight = self._known(*asked)
            if weight is None:
                open.append(self._measure(*asked))
            while open:
                try:
                    asked = next(open[-1]) if weight is None else open[-1].send(weight)
                    break
                except StopIteration as end:
                    open.pop()
                    weight = end.value
            else:
                assert weight is not None
                return weight

    def _known(self, node: Any, descents: int) -> int | None:
        """Return the weight of a subschema if it is known without measuring, else None."""
        if not isinstance(node, dict):
            return 1
        if self._levels is not None and descents > self._levels:
            return 0
        if id(node) in self._trail:
            if self._trail[id(node)] == descents:
                raise ConfigError("The JSON Schema refers to itself without end")
            if self._levels is None:
                return 1
        return self._weights.get((id(node), 0 if self._levels is None else descents))

    def _measure(self, node: dict[str, Any], descents: int) -> Measurement:
        """Measure a subschema: yield its own subschemas, receive their weights, and return the sum."""
        before = self._trail.get(id(node))
        self._trail[id(node)] = descents
        total = 1 + own_weight(node)
        for target in self._index.targets(node):
            total += DIALECT_WEIGHT if target is None else (yield target, descents)
        for part in same(node):
            total += yield part, descents
        for key in INNER_EACH:
            if key != "items" or isinstance(node.get(key), list):
                heaviest = 0
                for part in parts(node.get(key)):
                    heaviest = max(heaviest, (yield part, descents + 1))
                total += heaviest
        for part in inner(node):
            total += yield part, descents + 1
        if before is None:
            del self._trail[id(node)]
        else:
            self._trail[id(node)] = before
        if total > MAX_WEIGHT or (self._levels is not None and len(self._weights) > MAX_STEPS):
            raise ConfigError(f"The JSON Schema compares one value with more than {MAX_WEIGHT} subschemas")
        self._weights[id(node), 0 if self._levels is None else descents] = total
        return total


def same(node: Mapping[str, Any]) -> Iterator[Any]:
    """Yield the subschemas that apply to the same value."""
    yield from (node[key] for key in SAME_ONE if key in node)
    yield from (part for key in SAME_SEVERAL for part in parts(node.get(key)))


def inner(node: Mapping[str, Any]) -> Iterator[Any]:
    """Yield the subschemas that may all apply to one of the values inside."""
    yield from (node[key] for key in INNER_ONE if isinstance(node.get(key), dict))
    yield from (part for key in INNER_SEVERAL for part in parts(node.get(key)))


def own_weight(node: Mapping[str, Any]) -> int:
    """Return the weight of a subschema's own comparisons: property names, and ``enum`` values that are not scalars."""
    weight = 0
    for key in ("properties", "required"):
        weight += len(node[key]) // 8 if isinstance(node.get(key), dict | list) else 0
    if isinstance(node.get("enum"), list):
        weight += ENUM_WEIGHT * sum(isinstance(value, dict | list) for value in node["enum"])
    return weight


def parts(value: Any) -> Iterator[Any]:
    """Yield the subschemas in the value of a keyword."""
    if isinstance(value, list):
        yield from value
    elif isinstance(value, dict):
        yield from (part for part in value.values() if isinstance(part, dict))
