"""Which scopes a request needs.

A rule says what it is for and which scopes that takes; the scopes of all rules that fit are needed together:

    "*"                           every request
    "tools/call"                  a method
    "tools/call delete_*"         a method with a name or URI; * stands for any text
    "file:///contracts/*"         whatever names a resource: to read, subscribe, listen, complete

https://modelcontextprotocol.io/specification/2026-07-28/basic/authorization#scope-challenge-handling
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from typing import Any, TypeAlias
from urllib.parse import unquote

from msgspec import UNSET

from carrel.errors import ConfigError
from carrel.protocol.extensions.skills import SKILLS
from carrel.protocol.extensions.tasks import TASKS
from carrel.protocol.revisions import REQUESTS
from carrel.protocol.server import Call

__all__ = ["Pattern", "Rules", "Scopes", "spellings"]

Rules: TypeAlias = Mapping[str, str | Iterable[str]]

SCOPE = frozenset(map(chr, range(0x21, 0x7F))) - {'"', "\\"}
EVERYTHING = "*"

#: How long URIs may be whose spellings are remembered.
MAX_REMEMBERED = 256
METHODS = {**REQUESTS, **SKILLS.requests, **TASKS.requests}
READING = next(row.method for row in REQUESTS.values() if row.operation == "read_resource")


class Pattern:
    """A text in which * stands for any text, also none. Matching takes time linear in what is matched."""

    __slots__ = ("_first", "_last", "_middle", "_stars")

    def __init__(self, text: str) -> None:
        self._first, *rest = text.split("*")
        self._stars = bool(rest)
        self._last = rest.pop() if rest else ""
        self._middle = [piece for piece in rest if piece]

    def matches(self, text: str) -> bool:
        """Say whether all of ``text`` is of this form."""
        if not self._stars:
            return text == self._first
        if len(text) < len(self._first) + len(self._last):
            return False
        if not (text.startswith(self._first) and text.endswith(self._last)):
            return False
        position, end = len(self._first), len(text) - len(self._last)
        for piece in self._middle:
            position = text.find(piece, position, end)
            if position < 0:
                return False
            position += len(piece)
        return True


def fold(uri: str) -> str:
    """Return a form in which all URIs are the same text that anything could take for the same."""
    text = unicodedata.normalize("NFC", unquote(uri, errors="replace").casefold()).replace("\\", "/")
    return "file:///" + text.removeprefix("file://localhost/") if text.startswith("file://localhost/") else text


def spellings(uri: str) -> frozenset[str]:
    """Return the forms of a URI that rules are held against.

    They are more than a server would take for the same resource: a rule that fits once too often asks for a scope too
    many, one that misses a spelling protects nothing.
    """
    path = fold(uri.partition("#")[0].partition("?")[0])
    scheme, mark, rest = path.partition("://")
    straight = scheme + mark + _straightened(rest)
    return frozenset((fold(uri), path, straight, straight.rstrip("/")))


_spellings_again = lru_cache(1024)(spellings)


def _straightened(path: str) -> str:
    """Take steps out of a path that lead nowhere: dots, and slashes that follow others."""
    kept: list[str] = []
    for step in path.split("/"):
        if step == "..":
            if len(kept) > 1:
                kept.pop()
        elif step != "." and (step or not kept):
            kept.append(step)
    return "/".join(kept) + ("/" if path.endswith("/") else "")


class Scopes:
    """The rules of a server, ready to be asked.

    Raises:
        ConfigError: a rule is for nothing that there is, or a scope is none.
    """

    def __init__(self, rules: Rules, implies: Rules) -> None:
        self.everywhere: frozenset[str] = frozenset()
        """What every request needs."""
        self._methods: dict[str, frozenset[str]] = {}
        self._named: dict[str, list[tuple[Pattern, frozenset[str]]]] = {}
        self._uris: list[tuple[Pattern, frozenset[str]]] = []
        self._read_uris: list[tuple[Pattern, frozenset[str]]] = []
        self._implied = {scope: read_scopes(held, f"implies[{scope!r}]") for scope, held in implies.items()}
        for target, needed in rules.items():
            self._add(target, read_scopes(needed, f"scopes[{target!r}]"))
        for scope in self._implied:
            read_scopes([scope], "implies")
        particular = [scopes for rows in (*self._named.values(), self._uris, self._read_uris) for _, scopes in rows]
        self.basic: frozenset[str] = self.everywhere or frozenset().union(*self._methods.values())
        """What clients do well to ask for at first; the rest they are told of when they need it."""
        self.known: frozenset[str] = self.everywhere.union(*self._methods.values(), *particular)
        """Every scope that some rule asks for."""

    def _add(self, target: str, scopes: frozenset[str]) -> None:
        method, _, name = target.partition(" ")
        row = METHODS.get(method)
        if target == EVERYTHING:
            self.everywhere = scopes
        elif ":" in method:
            if any(space in target for space in " \t\r\n"):
                raise ConfigError(f"scopes: {target!r} is not a URI: it has spaces in it")
            self._uris.append((Pattern(fold(target)), scopes))
        elif row is None and not _may_be_added(method):
            raise ConfigError(
                f"scopes: {target!r} is neither a method, nor a method and a name, nor a URI{_hint(method)}"
            )
        elif not name:
            self._methods[method] = scopes
        elif method == READING:
            self._read_uris.append((Pattern(fold(name)), scopes))
        elif row is not None and row.name_field is None:
            raise ConfigError(f"scopes: {target!r}: requests of {method} name nothing")
        else:
            self._named.setdefault(method, []).append((Pattern(name), scopes))

    def needed(self, call: Call) -> frozenset[str]:
        """Return what a call needs, apart from what every request does."""
        method = call.request.method
        needed = self._methods.get(method, frozenset())
        rows = self._named.get(method)
        if rows is not None:
            name = getattr(call.params, call.request.name_field or "", None)
            needed = needed.union(*(scopes for pattern, scopes in rows if name is None or pattern.matches(name)))
        if self._uris or self._read_uris:
            rows = [*self._uris, *self._read_uris] if method == READING else self._uris
            needed = needed.union(*(self._of_resource(uri, rows) for uri in named_resources(call.params)))
        return needed

    def needed_to_read(self, uri: str) -> frozenset[str]:
        """Return what it takes to read a resource, by whatever way."""
        read = self._of_resource(uri, [*self._uris, *self._read_uris])
        return self.everywhere | self._methods.get(READING, frozenset()) | read

    @staticmethod
    def _of_resource(uri: str, rows: list[tuple[Pattern, frozenset[str]]]) -> frozenset[str]:
        forms = _spellings_again(uri) if len(uri) <= MAX_REMEMBERED else spellings(uri)
        return frozenset().union(*(scopes for pattern, scopes in rows if any(map(pattern.matches, forms))))

    def expand(self, granted: Iterable[str]) -> frozenset[str]:
        """Return the scopes that were granted and all that they imply."""
        found: set[str] = set()
        waiting = list(granted)
        while waiting:
            scope = waiting.pop()
            if scope not in found:
                found.add(scope)
                waiting.extend(self._implied.get(scope, ()))
        return frozenset(found)


def _may_be_added(method: str) -> bool:
    """Say whether an extension may bring a method of that name, and it is not one of ours that is misspelt."""
    return "/" in method.strip("/") and not _hint(method)


def _hint(method: str) -> str:
    from difflib import get_close_matches

    alike = get_close_matches(method.lower(), METHODS, 1, 0.8)
    return f"; did you mean {alike[0]}?" if alike else ""


def read_scopes(given: str | Iterable[str], where: str) -> frozenset[str]:
    """Return the scopes that are given as a list, or as text with spaces in between.

    Raises:
        ConfigError: one of them is none, or none of a resource.
    """
    found = frozenset(given.split() if isinstance(given, str) else given)
    for scope in found:
        if not isinstance(scope, str) or not scope or not SCOPE.issuperset(scope):
            raise ConfigError(f"{where}: {scope!r} is not a scope: visible ASCII without quotes and backslashes")
        if scope == "offline_access":
            raise ConfigError(
                f"{where}: offline_access is between a client and who issues tokens; no resource needs it"
            )
    return found


def named_resources(params: Any) -> Iterator[str]:
    """Yield the URIs in the parameters of a request: of one resource, a template, or those to listen to."""
    uri = getattr(params, "uri", None)
    if isinstance(uri, str):
        yield uri
    template = getattr(getattr(params, "ref", None), "uri", None)
    if isinstance(template, str):
        yield template
        yield typed_so_far(template, params)
    uris = getattr(getattr(params, "notifications", None), "resource_subscriptions", UNSET)
    if isinstance(uris, list):
        yield from uris


def typed_so_far(template: str, params: Any) -> str:
    """Return a template with the values that a request for completion knows of."""
    context = params.context
    values = {} if context is UNSET or context.arguments is UNSET else dict(context.arguments)
    values[params.argument.name] = params.argument.value
    first, *rest = template.split("{")
    pieces = [first]
    for piece in rest:
        expression, brace, literal = piece.partition("}")
        names = [name.rstrip("*").partition(":")[0] for name in expression.lstrip("+#./;?&").split(",")]
        known = "/".join(values[name] for name in names if name in values)
        pieces += (known or f"{{{expression}}}", literal) if brace else ("{", expression)
    return "".join(pieces)
