"""Arguments and results of tools on a server of the official Python SDK 1.x, printed as JSON: run by its interpreter.

``ARGUMENTS`` and ``RESULTS`` are types as source text, with what a client sends and with what a tool returns.
"""

from __future__ import annotations

import asyncio
import dataclasses
import json
import typing
from typing import Any, Literal, Optional, TypedDict, Union


@dataclasses.dataclass
class Point:
    x: int


class Typed(TypedDict):
    x: int


NAMES: dict[str, Any] = {
    "Point": Point,
    "Typed": Typed,
    "Any": Any,
    "Literal": Literal,
    "Optional": Optional,
    "Union": Union,
    "typing": typing,
}

ARGUMENTS: list[tuple[str, Any]] = [
    *(("int", sent) for sent in ("5", "-5", "5.0", 5.0, "abc", "", None)),
    *(("float", sent) for sent in ("5", "5.5", "1e3", "x")),
    *(("bool", sent) for sent in ("true", "True", "false", "1", "0", 1, 0, "maybe")),
    *(("str", sent) for sent in ("5", "true", '{"a": 1}', "[1]", "null", 5, None)),
    *(("Optional[int]", sent) for sent in ("5", "null", None, "x")),
    *(("list[int]", sent) for sent in ("[1, 2]", ["1", 2], '["1"]', "1", "[1", {"a": 1})),
    *(("list[str]", sent) for sent in ('["a"]', "a", '"a"')),
    *(("Optional[list[int]]", sent) for sent in ("[1]", "null", None)),
    *(("dict[str, float]", sent) for sent in ('{"a": 1}', {"a": "1.5"}, "[1]")),
    *(("Point", sent) for sent in ('{"x": 3}', '{"x": "3"}', {"x": "3"}, "3")),
    *(("Optional[Point]", sent) for sent in ('{"x": 3}', None)),
    *(("Union[int, str]", sent) for sent in ("5", 5)),
    *(("Union[int, float]", sent) for sent in ("5", "5.5")),
    ("tuple[int, str]", '[1, "a"]'),
    ("set[int]", "[1, 1]"),
]

RESULTS: list[tuple[str, Any]] = [
    *(("int", 5), ("str", "a"), ("float", 1.5), ("bool", True), ("list[str]", ["a", "b"]), ("list[int]", [1, 2])),
    *(("dict[str, int]", {"x": 1}), ("Typed", {"x": 1}), ("Point", Point(1)), ("list[Point]", [Point(1)])),
    *(("Optional[int]", 3), ("Optional[int]", None), ("Union[int, str]", "a"), ("Literal['a']", "a")),
    *(("tuple[int, str]", (1, "a")), ("Any", 5), ("list", [1])),
]


def taking(kind: str) -> Any:
    """Return a function that tells what it was given for an argument of a type."""

    def tell(value: Any) -> str:
        return repr(value)

    tell.__annotations__ = {"value": eval(kind, NAMES), "return": str}
    return tell


def giving(kind: str, value: Any) -> Any:
    """Return a function that returns a value, annotated with a type."""

    def give() -> Any:
        return value

    give.__annotations__ = {"return": eval(kind, NAMES)}
    return give


async def main() -> None:
    """Print what the official SDK makes of everything."""
    from mcp.server.fastmcp import FastMCP

    found: dict[str, list[Any]] = {"arguments": [], "results": []}
    for kind, sent in ARGUMENTS:
        app = FastMCP("s")
        app.add_tool(taking(kind), name="t")
        try:
            found["arguments"].append((await app.call_tool("t", {"value": sent}))[0][0].text)
        except Exception:
            found["arguments"].append(None)
    for kind, value in RESULTS:
        app = FastMCP("s")
        app.add_tool(giving(kind, value), name="t")
        given = await app.call_tool("t", {})
        found["results"].append(given[1] if isinstance(given, tuple) else None)
    print(json.dumps(found))


if __name__ == "__main__":
    asyncio.run(main())
