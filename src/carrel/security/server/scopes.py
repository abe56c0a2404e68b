"""Scope rules: the OAuth scopes that a request requires.

A rule maps a target to scopes; a request requires the scopes of all rules that match it:

    "*"                           every request
    "tools/call"                  a method
    "tools/call delete_*"         a method with a name or URI; * matches any text
    "file:///contracts/*"         any request with a resource URI: read, subscribe, listen, complete

Rules for resources are matched against the resolved URI (``carrel.uri.parse.resolve``), not its spelling. A URI that
cannot be resolved requires the scopes of all of these rules.

https://modelcontextprotocol.io/specification/2026-07-28/basic/authorization#scope-challenge-handling
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, Any, TypeAlias
from urllib.parse import unquote

from carrel.errors import ConfigError
from carrel.protocol.extensions.skills import SKILLS
from carrel.protocol.extensions.tasks import TASKS
from carrel.protocol.methods import READ_RESOURCE
from carrel.protocol.principal import View
from carrel.protocol.revisions import REQUESTS
from carrel.protocol.server import Call
from carrel.uri.parse import UriError, resolve
from carrel.uri.template import UriTemplate, UriTemplateError

if TYPE_CHECKING:
    from carrel.protocol.methods import Verb

__all__ = ["Pattern", "Rules", "ScopeView", "Scopes"]

Rules: TypeAlias = Mapping[str, str | Iterable[str]]

SCOPE = frozenset(map(chr, range(0x21, 0x7F))) - {'"', "\\"}
EVERYTHING = "*"

#: Maximum number of URIs to cache with their required scopes, and maximum length of a cached URI.
REMEMBERED = 4096
MAX_REMEMBERED = 256
METHODS = {**REQUESTS, **SKILLS.requests, **TASKS.requests}
READING = READ_RESOURCE.method


class Pattern:
    """Glob pattern in which * matches any text, including empty text. Matching takes linear time."""

    __slots__ = ("_first", "_last", "_middle", "_stars")

    def __init__(self, text: str) -> None:
        self._first, *remaining = text.split("*")
        self._stars = bool(remaining)
        self._last = remaining.pop() if remaining else ""
        self._middle = [piece for piece in remaining if piece]

    def matches(self, text: str) -> bool:
        """Return whether all of ``text`` matches the pattern."""
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


def fold(text: str) -> str:
    """Return text folded for comparison: percent-decoded, case-folded, Unicode NFC, and backslashes as slashes.

    File systems and handlers differ in which names they treat as equal. A rule that matches too many names only
    requires an unnecessary scope, but a rule that misses a name does not protect it.
    """
    text = unquote(text, errors="replace") if "%" in text else text
    if not text.isascii():
        text = unicodedata.normalize("NFC", unicodedata.normalize("NFD", text).casefold())
    return text.casefold().replace("\\", "/")


def names_of(uri: str) -> frozenset[str] | None:
    """Return the folded forms of a URI that rules are matched against; None if it cannot be resolved.

    They are the URI with and without its query, with and without a trailing slash, and without dot and empty segments.
    """
    try:
        name = resolve(uri)
    except UriError:
        return None
    whole = location = fold(str(name))
    if name.query is not None or name.fragment is not None:
        location = fold(str(name._replace(query=None, fragment=None)))
    scheme, mark, path = location.partition("://" if name.authority is not None else ":")
    short = {location.rstrip("/"), *(scheme + mark + step.rstrip("/") for step in _straightened(path))}
    return frozenset((whole, location, *short, *(text + "/" for text in short)))


def _straightened(path: str) -> Iterator[str]:
    """Yield a path without dot and empty segments: once keeping its first segment, once letting ``..`` remove it."""
    if "//" not in path and "/." not in path and not path.startswith("."):
        return
    for least in (1, 0):
        kept: list[str] = []
        for step in path.split("/"):
            if step == "..":
                if len(kept) > least:
                    kept.pop()
            elif step != "." and (step or not kept):
                kept.append(step)
        yield "/".join(kept)


def pattern_of(rule: str) -> Pattern:
    """Return the pattern of a rule for resources.

    Raises:
        ConfigError: no resource can match the rule, so it would protect nothing.
    """
    head, star, _ = rule.partition("*")
    if star and (":" not in head or head.lower() in ("file:", "file://")):
        return Pattern(fold(rule))  # the star covers the scheme or authority, which cannot be resolved
    try:
        name = resolve(rule)
    except UriError as error:
        raise ConfigError(f"scopes: {rule!r} is not the URI of resources: {error}") from None
    text = fold(str(name))
    path = fold(name.path)
    if "//" in path or any(step in (".", "..") for step in path.split("/")):
        raise ConfigError(f"scopes: {rule!r} has empty or dot segments in its path, which no resource has")
    return Pattern(text)


class ScopeView(View):
    """Rights of a caller with some scopes: access to the resources whose rules require only these scopes.

    Tools and prompts are visible without their required scopes; the response to a request for them is a challenge.
    """

    __slots__ = ("_granted", "_scopes")

    def __init__(self, scopes: Scopes, granted: frozenset[str], guarding: frozenset[str]) -> None:
        self._scopes = scopes
        self._granted = granted
        self.key = " ".join(["view", *sorted(guarding & granted)]) if guarding else ""
        self.hides = not guarding <= granted
        self.everybody = not guarding

    def allows(self, verb: Verb, target: str) -> bool:
        """Return whether a verb is allowed on a resource, tool or prompt."""
        return verb in ("call", "get") or self._scopes.of_resource(target, reading=True) <= self._granted

    def permits(self, method: str) -> bool:
        """Return whether requests of a method are permitted."""
        return self._scopes.required_by(method) <= self._granted

    def differs(self, uri: str) -> bool:
        """Return whether callers with other scopes may get a different response for a resource."""
        return bool(self._scopes.of_resource(uri, reading=True))


class Scopes:
    """Compiled scope rules of a server.

    Raises:
        ConfigError: a rule has an unknown target, or a scope is invalid.
    """

    def __init__(self, rules: Rules, implies: Rules) -> None:
        self.everywhere: frozenset[str] = frozenset()
        """The scopes that every request requires."""
        self._methods: dict[str, frozenset[str]] = {}
        self._named: dict[str, list[tuple[Pattern, frozenset[str]]]] = {}
        self._uris: list[tuple[Pattern, frozenset[str]]] = []
        self._read_uris: list[tuple[Pattern, frozenset[str]]] = []
        self._implied = {scope: read_scopes(held, f"implies[{scope!r}]") for scope, held in implies.items()}
        for target, needed in rules.items():
            scopes = read_scopes(needed, f"scopes[{target!r}]")
            if not scopes:
                raise ConfigError(f"scopes[{target!r}]: no scope is named, so that the rule would protect nothing")
            self._add(target, scopes)
        for scope in self._implied:
            read_scopes([scope], "implies")
        particular = [scopes for rows in (*self._named.values(), self._uris, self._read_uris) for _, scopes in rows]
        self.basic: frozenset[str] = self.everywhere or frozenset().union(*self._methods.values())
        """The scopes that clients should request initially; challenges name further scopes when they are needed."""
        self.known: frozenset[str] = self.everywhere.union(*self._methods.values(), *particular)
        """All scopes that rules require."""
        self._guarding: frozenset[str] = frozenset().union(*(held for _, held in (*self._uris, *self._read_uris)))
        self._remembered = lru_cache(REMEMBERED)(self._scopes_of)

    def _add(self, target: str, scopes: frozenset[str]) -> None:
        method, _, name = target.partition(" ")
        row = METHODS.get(method)
        if target == EVERYTHING:
            self.everywhere = scopes
        elif ":" in method:
            if any(space in target for space in " \t\r\n"):
                raise ConfigError(f"scopes: {target!r} is not a URI: it has spaces in it")
            self._uris.append((pattern_of(target), scopes))
        elif row is None and not _may_be_added(method):
            raise ConfigError(
                f"scopes: {target!r} is neither a method, nor a method and a name, nor a URI{_hint(method)}"
            )
        elif not name:
            self._methods[method] = scopes
        elif method == READING:
            self._read_uris.append((pattern_of(name), scopes))
        elif row is not None and row.name_field is None:
            raise ConfigError(f"scopes: {target!r}: requests of {method} name nothing")
        else:
            self._named.setdefault(method, []).append((Pattern(name), scopes))

    def needed(self, call: Call) -> frozenset[str]:
        """Return the scopes that a call requires, without the scopes that every request requires."""
        method = call.request.method
        needed = self._methods.get(method, frozenset())
        rows = self._named.get(method)
        if rows is not None:
            name = getattr(call.params, call.request.name_field or "", None)
            needed = needed.union(*(scopes for pattern, scopes in rows if name is None or pattern.matches(name)))
        if self._uris or self._read_uris:
            for uri in named_resources(call):
                needed |= self.of_resource(uri, reading=method == READING)
        return needed

    def required_by(self, method: str) -> frozenset[str]:
        """Return the scopes that every request of a method requires."""
        return self.everywhere | self._methods.get(method, frozenset())

    def view(self, granted: frozenset[str]) -> View | None:
        """Return the rights of a caller with these scopes, or None if no rule hides anything."""
        if not (self.everywhere or self._methods or self._guarding):
            return None
        return ScopeView(self, granted, self._guarding)

    def of_resource(self, uri: str, *, reading: bool) -> frozenset[str]:
        """Return the scopes that the rules for resources require, with those for ``resources/read`` if ``reading``."""
        return (self._remembered if len(uri) <= MAX_REMEMBERED else self._scopes_of)(uri, reading)

    def _scopes_of(self, uri: str, reading: bool) -> frozenset[str]:
        names = names_of(uri)
        rows = [*self._uris, *self._read_uris] if reading else self._uris
        fitting = (scopes for pattern, scopes in rows if names is None or any(map(pattern.matches, names)))
        return frozenset().union(*fitting)

    def expand(self, granted: Iterable[str]) -> frozenset[str]:
        """Return the granted scopes and their implied scopes."""
        found: set[str] = set()
        waiting = list(granted)
        while waiting:
            scope = waiting.pop()
            if scope not in found:
                found.add(scope)
                waiting.extend(self._implied.get(scope, ()))
        return frozenset(found)


def _may_be_added(method: str) -> bool:
    """Return whether a method may be one of an extension, and not a misspelt known method."""
    return "/" in method.strip("/") and not _hint(method)


def _hint(method: str) -> str:
    from difflib import get_close_matches

    alike = get_close_matches(method.lower(), METHODS, 1, 0.8)
    return f"; did you mean {alike[0]}?" if alike else ""


def read_scopes(given: str | Iterable[str], where: str) -> frozenset[str]:
    """Return scopes given as a list, or as text separated by spaces.

    Raises:
        ConfigError: a scope is not valid, or is ``offline_access``.
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


def named_resources(call: Call) -> Iterator[str]:
    """Yield the resource URIs in a request: to read, to complete, or to subscribe to."""
    target = call.request.find_target(call.params) if call.request.names_resources else None
    if isinstance(target, str):
        yield target
    elif isinstance(target, list):
        yield from target
    elif isinstance(template := getattr(target, "uri", None), str):
        yield expand_template(template, call.params)


def expand_template(template: str, params: Any) -> str:
    """Return the URI that a completion request covers: its template with the known arguments and the typed folder.

    Text that is not a URI template is returned unchanged; it cannot be resolved.
    """
    context = params.context
    values = {} if context is None or context.arguments is None else dict(context.arguments)
    folder, slash, _ = params.argument.value.rpartition("/")
    try:
        return UriTemplate(template).location({**values, params.argument.name: folder + slash})
    except UriTemplateError:
        return template
