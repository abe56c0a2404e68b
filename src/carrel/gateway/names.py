"""Names of a gateway: maps tool names, prompt names and URIs to servers, and to the names that clients see.

A name that only one server has is kept. If several servers have the same name, each gets the prefix of its server:
``SERVER_name`` for tools and prompts, ``SERVER+uri`` for URIs, as in ``Namespace``. A prefixed name is always accepted.

Prefixes contain neither ``_`` nor ``+``, so the prefix of a name ends at the first of these characters. A name that
begins with the prefix of another server is prefixed too.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator
from hashlib import sha256
from typing import Literal, TypeAlias

from carrel.errors import ConfigError
from carrel.gateway.look_alikes import LookAlike, LookAlikes

__all__ = ["NameKind", "Names", "PrefixMode", "prefixes_of"]

NameKind: TypeAlias = Literal["tool", "prompt", "uri", "template"]
PrefixMode: TypeAlias = Literal["auto", "always", "never"]

#: Schemes that the protocol defines: for these, the prefix is the first path segment instead of a part of the scheme.
KEPT_SCHEMES = ("ui", "skill")
#: Maximum length of a prefix in characters: clients allow names of at least 64 characters.
MAX_PREFIX = 24
#: Maximum number of removed names to remember per server and kind, so that another server does not get them.
MAX_GONE = 10_000
_OTHER = re.compile("[^a-z0-9]+")


def prefixes_of(servers: Iterable[str]) -> dict[str, str]:
    """Return the prefix of each server: its name in lower-case letters, digits and hyphens, beginning with a letter.

    If several names have the same prefix, a few characters of a hash are appended. The order of ``servers`` does not
    matter.
    """
    names = sorted(set(servers))
    plain = {name: _plain(name) for name in names}
    found: dict[str, str] = {}
    for name in names:
        short = plain[name]
        twins = [other for other in names if plain[other] == short and other != name]
        if len(short) > MAX_PREFIX or (twins and name != short) or not short:
            tail = sha256(name.encode()).hexdigest()[:6]
            short = f"{short[: MAX_PREFIX - 7].rstrip('-') or 'server'}-{tail}"
        found[name] = short
    return found


def _plain(name: str) -> str:
    plain = _OTHER.sub("-", name.lower()).strip("-")
    return f"s-{plain}" if plain[:1].isdigit() else plain


class Names:
    """Known names of all servers of a gateway, by kind.

    Removed names are remembered as long as their server is configured, so that a name that a client knows never refers
    to another server. ``changed`` is called with a kind when the names that clients see have changed.

    Raises:
        ConfigError: ``mode`` is not valid.
    """

    def __init__(self, mode: PrefixMode = "auto", changed: Callable[[NameKind], None] | None = None) -> None:
        if mode not in ("auto", "always", "never"):
            raise ConfigError(f"prefix is 'auto', 'always' or 'never', not {mode!r}")
        self.mode: PrefixMode = mode
        self.prefixes: dict[str, str] = {}
        """Prefixes by server."""
        self._servers: dict[str, str] = {}
        self._changed = changed or (lambda kind: None)
        self._have: dict[NameKind, dict[str, set[str]]] = {kind: {} for kind in ("tool", "prompt", "uri", "template")}
        self._gone: dict[NameKind, dict[str, dict[str, None]]] = {kind: {} for kind in self._have}
        self._holders: dict[NameKind, dict[str, tuple[str, ...]]] = {kind: {} for kind in self._have}
        self._alike: dict[NameKind, LookAlikes] = {"tool": LookAlikes(), "prompt": LookAlikes()}
        self.found: dict[NameKind, dict[str, tuple[str, str]]] = {kind: {} for kind in self._have}
        """Names that were found since the last change."""

    # What servers have

    def servers(self, names: Collection[str]) -> None:
        """Replace the configured servers. Delete the names of all other servers."""
        if self.prefixes.keys() == set(names):
            return
        for name in self.prefixes.keys() - set(names):
            self.forget(name)
        self._clear_found()
        self.prefixes = prefixes_of(names)
        self._servers = {prefix: name for name, prefix in self.prefixes.items()}

    def forget(self, server: str) -> None:
        """Delete all current and removed names of a server that is no longer configured, or has been replaced."""
        self._clear_found()
        for kind in self._have:
            have = self._have[kind].pop(server, set())
            for name in have | self._gone[kind].pop(server, {}).keys():
                self._drop(kind, server, name)
            for name in have:
                self._unlike(kind, server, name)

    def replace(self, kind: NameKind, server: str, names: Iterable[str]) -> None:
        """Replace the names of a server. Removed names are remembered, so that no other server gets them."""
        for _ in self.replacing(kind, server, names):
            pass

    def note(self, kind: NameKind, server: str, names: Iterable[str], limit: int) -> None:
        """Add names to a server, unless it would then have more than ``limit`` names."""
        for _ in self.noting(kind, server, names, limit):
            pass

    def replacing(self, kind: NameKind, server: str, names: Iterable[str]) -> Iterator[None]:
        """Replace the names of a server, like ``replace``, one name per step of the iterator: there may be many."""
        if server not in self.prefixes:
            return
        new, have = set(names), self._have[kind].setdefault(server, set())
        gone = self._gone[kind].setdefault(server, {})
        shared = False
        for name in new - have:
            if self._have[kind].get(server) is not have:
                return  # the server has been removed meanwhile
            shared = self._take(kind, server, name) or shared
            yield
        for name in have - new:
            if self._have[kind].get(server) is not have:
                return
            have.discard(name)
            gone[name] = None
            self.found[kind].clear()
            self._unlike(kind, server, name)
            yield
        for name in list(gone)[: max(0, len(gone) - MAX_GONE)]:
            if gone.pop(name, "") is None:
                self._drop(kind, server, name)
            yield
        if shared:
            self._changed(kind)

    def noting(self, kind: NameKind, server: str, names: Iterable[str], limit: int) -> Iterator[None]:
        """Add names to a server, like ``note``, one name per step of the iterator."""
        if server not in self.prefixes:
            return
        have = self._have[kind].setdefault(server, set())
        new = {name for name in names if name not in have}
        if len(have) + len(new) > limit:
            return
        shared = False
        for name in new:
            if self._have[kind].get(server) is not have:
                return
            shared = self._take(kind, server, name) or shared
            yield
        if shared:
            self._changed(kind)

    def _take(self, kind: NameKind, server: str, name: str) -> bool:
        """Add a name to a server, and return whether it is new and another server has it too."""
        self.found[kind].clear()
        self._have[kind][server].add(name)
        self._gone[kind].get(server, {}).pop(name, None)
        if kind in self._alike:
            self._alike[kind].add(server, name)
        holders = self._holders[kind].get(name, ())
        if server in holders:
            return False
        self._holders[kind][name] = tuple(sorted((*holders, server)))
        return bool(holders)

    def _clear_found(self) -> None:
        for found in self.found.values():
            found.clear()

    def _drop(self, kind: NameKind, server: str, name: str) -> None:
        self.found[kind].clear()
        rest = tuple(other for other in self._holders[kind].get(name, ()) if other != server)
        if rest:
            self._holders[kind][name] = rest
        else:
            self._holders[kind].pop(name, None)

    def _unlike(self, kind: NameKind, server: str, name: str) -> None:
        if kind in self._alike:
            self._alike[kind].remove(server, name)

    def look_alikes(self) -> Iterator[tuple[NameKind, LookAlike]]:
        """Yield the tools and prompts that look like a tool, prompt or prefix of another server."""
        for kind, names in self._alike.items():
            for found in names.find(self.prefixes):
                yield kind, found

    def has(self, kind: NameKind, server: str, name: str) -> bool:
        """Return whether a server is known to have a name (without a prefix)."""
        return name in self._have[kind].get(server, ())

    def holders(self, kind: NameKind, name: str) -> tuple[str, ...]:
        """Return the servers that have or had a name, sorted."""
        return self._holders[kind].get(name, ())

    def of(self, kind: NameKind, server: str) -> Collection[str]:
        """Return the current names of a server."""
        return self._have[kind].get(server, set())

    # What clients see

    def prefixed(self, kind: NameKind, server: str, name: str) -> str:
        """Return a name with the prefix of its server."""
        prefix = self.prefixes.get(server) or prefixes_of([server])[server]  # the server has just been removed
        if kind in ("tool", "prompt"):
            return f"{prefix}_{name}"
        scheme, mark, rest = name.partition("://")
        if mark and scheme in KEPT_SCHEMES:
            return f"{scheme}://{prefix}/{rest}"
        return f"{prefix}+{name}"

    def read_prefixed(self, kind: NameKind, name: str) -> tuple[str, str] | None:
        """Split a prefixed name into the server and the server's name for it. Return None if it has no known prefix."""
        if kind in ("tool", "prompt"):
            prefix, mark, rest = name.partition("_")
        else:
            prefix, mark, rest = name.partition("+")
            scheme, colon, path = name.partition("://")
            if colon and scheme in KEPT_SCHEMES:
                prefix, mark, rest = path.partition("/")
                rest = f"{scheme}://{rest}"
        server = self._servers.get(prefix)
        return (server, rest) if mark and rest and server is not None else None

    def is_plain(self, kind: NameKind, server: str, name: str) -> bool:
        """Return whether a name needs no prefix: no other server has it, and it does not begin with a prefix."""
        if self.mode == "always" or self.holders(kind, name) not in ((), (server,)):
            return False
        read = None if self.mode == "never" else self.read_prefixed(kind, name)
        return read is None or (read[0] == server and not self.has(kind, server, read[1]))

    def outer(self, kind: NameKind, server: str, name: str) -> str:
        """Return a server's name as clients see it."""
        if self.mode == "never" or self.is_plain(kind, server, name):
            return name
        return self.prefixed(kind, server, name)

    def find(self, kind: NameKind, name: str) -> tuple[str, str] | None:
        """Map a client's name to the server and the server's name, or None if no server or several servers have it.

        A prefixed name is mapped to the server with this prefix, even if the server is not known to have the name.
        """
        found = self.found[kind].get(name)
        if found is not None:
            return found
        holders = self.holders(kind, name)
        if len(holders) == 1 and self.mode != "always":
            server = holders[0]
            if self.has(kind, server, name) and self.is_plain(kind, server, name):
                found = self.found[kind][name] = server, name
                return found
        return None if self.mode == "never" else self.read_prefixed(kind, name)

    def candidates(self, kind: NameKind, name: str) -> list[str]:
        """Return the prefixed names of all servers that have an ambiguous name."""
        return [
            self.prefixed(kind, server, name) for server in self.holders(kind, name) if self.has(kind, server, name)
        ]

    def shared(self) -> Iterator[tuple[NameKind, str, tuple[str, ...]]]:
        """Yield each name that several servers have, with the servers."""
        for kind, names in self._holders.items():
            for name, holders in names.items():
                having = tuple(server for server in holders if self.has(kind, server, name))
                if len(having) > 1:
                    yield kind, name, having
