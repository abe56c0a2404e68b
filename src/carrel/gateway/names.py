"""Names of a gateway: which server has which tools, prompts and URIs, and what clients see them as.

A name that one server alone has is kept. One that several have gets the prefix of its server, for all of them:
``SERVER_name`` for tools and prompts, ``SERVER+uri`` for URIs, as of ``Namespace``. A prefixed name is always accepted.

Prefixes hold neither ``_`` nor ``+``, so a prefixed name ends its prefix at the first of these. A name that begins with
the prefix of another server gets one itself.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator
from hashlib import sha256
from typing import Literal, TypeAlias

from carrel.errors import ConfigError

__all__ = ["NameKind", "Names", "PrefixMode", "prefixes_of"]

NameKind: TypeAlias = Literal["tool", "prompt", "uri", "template"]
PrefixMode: TypeAlias = Literal["auto", "always", "never"]

#: Schemes whose meaning belongs to the protocol: a prefix is their first segment, not part of the scheme.
KEPT_SCHEMES = ("ui", "skill")
#: How long a prefix may be, in characters: clients allow names of 64 and more.
MAX_PREFIX = 24
#: How many names that a server does not have any more are kept from going over to another server, of each kind.
MAX_GONE = 10_000
_OTHER = re.compile("[^a-z0-9]+")


def prefixes_of(servers: Iterable[str]) -> dict[str, str]:
    """Return the prefix of each server: its name in lower-case letters, digits and hyphens, after a letter.

    Names that are the same in this spelling get a few characters of their hash. No order plays a part in it.
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
    """Names of all servers of a gateway, by kind, as far as they are known.

    What a server no longer has is remembered while it is configured: its name does not become that of another server
    under a client. ``changed`` is called with a kind when names of that kind are seen differently from before.

    Raises:
        ConfigError: there is no such mode.
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

    # What servers have

    def servers(self, names: Collection[str]) -> None:
        """Replace the servers that are configured. What is known of others is forgotten."""
        if self.prefixes.keys() == set(names):
            return
        for name in self.prefixes.keys() - set(names):
            self.forget(name)
        self.prefixes = prefixes_of(names)
        self._servers = {prefix: name for name, prefix in self.prefixes.items()}

    def forget(self, server: str) -> None:
        """Forget what a server has, and had: it is not configured any more, or is another one."""
        for kind in self._have:
            for name in self._have[kind].pop(server, set()) | (self._gone[kind].pop(server, {})).keys():
                self._drop(kind, server, name)

    def replace(self, kind: NameKind, server: str, names: Iterable[str]) -> None:
        """Replace the names that a server has. One that it does not have any more is not given to another server."""
        if server not in self.prefixes:
            return
        new, old = set(names), self._have[kind].get(server, set())
        gone = self._gone[kind].setdefault(server, {})
        self._have[kind][server] = new
        for name in old - new:
            gone[name] = None
        for name in new - old:
            gone.pop(name, None)
        while len(gone) > MAX_GONE:
            first = next(iter(gone))
            del gone[first]
            self._drop(kind, server, first)
        self._hold(kind, server, new - old)

    def note(self, kind: NameKind, server: str, names: Iterable[str], limit: int) -> None:
        """Add names that a server has turned out to have, up to ``limit`` of them in all."""
        if server not in self.prefixes:
            return
        have = self._have[kind].setdefault(server, set())
        new = {name for name in names if name not in have}
        if new and len(have) + len(new) <= limit:
            have |= new
            for name in new:
                self._gone[kind].get(server, {}).pop(name, None)
            self._hold(kind, server, new)

    def _hold(self, kind: NameKind, server: str, names: Iterable[str]) -> None:
        holders, shared = self._holders[kind], False
        for name in names:
            before = holders.get(name, ())
            if server not in before:
                holders[name] = tuple(sorted((*before, server)))
                shared = shared or bool(before)
        if shared:
            self._changed(kind)

    def _drop(self, kind: NameKind, server: str, name: str) -> None:
        rest = tuple(other for other in self._holders[kind].get(name, ()) if other != server)
        if rest:
            self._holders[kind][name] = rest
        else:
            self._holders[kind].pop(name, None)

    def has(self, kind: NameKind, server: str, name: str) -> bool:
        """Return whether a server has a name of its own, as far as that is known."""
        return name in self._have[kind].get(server, ())

    def holders(self, kind: NameKind, name: str) -> tuple[str, ...]:
        """Return the servers that have a name, or had it before, in the order of their names."""
        return self._holders[kind].get(name, ())

    def of(self, kind: NameKind, server: str) -> Collection[str]:
        """Return the names that a server has."""
        return self._have[kind].get(server, set())

    # What clients see

    def prefixed(self, kind: NameKind, server: str, name: str) -> str:
        """Return a name with the prefix of its server."""
        prefix = self.prefixes.get(server) or prefixes_of([server])[server]  # one that has just been removed
        if kind in ("tool", "prompt"):
            return f"{prefix}_{name}"
        scheme, mark, rest = name.partition("://")
        if mark and scheme in KEPT_SCHEMES:
            return f"{scheme}://{prefix}/{rest}"
        return f"{prefix}+{name}"

    def read_prefixed(self, kind: NameKind, name: str) -> tuple[str, str] | None:
        """Return the server and its own name of a name that reads as a prefixed one; None if it does not."""
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
        """Return whether a name of a server is kept: no other server has it, and it reads as the name of none."""
        if self.mode == "always" or self.holders(kind, name) not in ((), (server,)):
            return False
        read = None if self.mode == "never" else self.read_prefixed(kind, name)
        return read is None or (read[0] == server and not self.has(kind, server, read[1]))

    def outer(self, kind: NameKind, server: str, name: str) -> str:
        """Return a name of a server as clients see it."""
        if self.mode == "never" or self.is_plain(kind, server, name):
            return name
        return self.prefixed(kind, server, name)

    def find(self, kind: NameKind, name: str) -> tuple[str, str] | None:
        """Return the server and its own name of a client's name; None if no server is known to have it, or several are.

        A prefixed name is that of its server also where the server is not known to have it.
        """
        holders = self.holders(kind, name)
        if len(holders) == 1 and self.mode != "always":
            server = holders[0]
            if self.has(kind, server, name) and self.is_plain(kind, server, name):
                return server, name
        return None if self.mode == "never" else self.read_prefixed(kind, name)

    def candidates(self, kind: NameKind, name: str) -> list[str]:
        """Return the names as clients see them of all that a client's name could mean."""
        return [
            self.prefixed(kind, server, name) for server in self.holders(kind, name) if self.has(kind, server, name)
        ]

    def shared(self) -> Iterator[tuple[NameKind, str, tuple[str, ...]]]:
        """Yield all names that several servers have, with these."""
        for kind, names in self._holders.items():
            for name, holders in names.items():
                having = tuple(server for server in holders if self.has(kind, server, name))
                if len(having) > 1:
                    yield kind, name, having
