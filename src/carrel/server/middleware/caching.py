"""Caching: middleware that keeps results on the server."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Hashable, Iterable, Sequence
from itertools import count
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

import msgspec

from carrel.catalog.access import RenamedView
from carrel.errors import ConfigError
from carrel.protocol.encoding import encode
from carrel.protocol.methods import PROVIDER_REQUESTS
from carrel.server.middleware.middleware import Middleware, Next
from carrel.server.middleware.provider import ProviderCall
from carrel.uri.parse import canonical
from carrel.wire.base import prepared
from carrel.wire.resources import read_contents

if TYPE_CHECKING:
    from carrel.protocol.channel import ConnectedClient
    from carrel.protocol.principal import Principal, View
    from carrel.protocol.server import Call
    from carrel.wire.base import Result

__all__ = ["Caching"]

#: Operations whose results are kept. Results of tools are kept by the tool's name only.
KEPT = frozenset(row.operation for row in PROVIDER_REQUESTS if row.idempotent and row.item is not None)

#: Keys of ``_meta`` that do not affect the results of handlers: progress, logging and traces.
IGNORED_META = frozenset({"progressToken", "io.modelcontextprotocol/logLevel", "traceparent", "tracestate", "baggage"})

#: Claims that differ between the tokens of one caller, and give no rights.
TOKEN_CLAIMS = frozenset({"exp", "iat", "nbf", "jti", "auth_time"})


_decode = msgspec.json.Decoder(dict[str, Any]).decode


class CachedResult(msgspec.Struct, gc=False):
    """Encoded result of a request, the URI of its resource, and the time until which it is fresh."""

    data: bytes
    uri: str | None
    until: float


class Caching(Middleware):
    """Middleware that keeps results for ``ttl`` seconds: of lists, reads and prompts, and of the tools named ``tools``.

    Each authenticated caller with the same scopes and claims, session over HTTP, or other client has its own results;
    requests over HTTP without a session and a principal are not cached. With ``shared``, all callers with the
    same view of a gate share the results: only for servers whose functions and ``when`` do not depend on the caller.

    Requests with different ``_meta`` have separate results, apart from its progress token, log level and trace context,
    and with ``shared`` the information about the client. Results must not depend on the headers of a request.

    A change of a resource or list that the server notifies of drops the results. At most ``max_entries`` results and
    ``max_bytes`` bytes are kept: the least recently used result goes first. Errors, results of failed tools and
    requests that need input or become tasks are not kept.

    Raises:
        ConfigError: ``tools`` is a single string.
    """

    def __init__(
        self,
        ttl: float = 60.0,
        *,
        tools: Iterable[str] = (),
        shared: bool = False,
        max_entries: int = 1000,
        max_bytes: int = 64 * 1024 * 1024,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        if isinstance(tools, str):
            raise ConfigError(f"tools are a list of names: write tools=[{tools!r}]")
        self._ttl = ttl
        self._tools = frozenset(tools)
        self._shared = shared
        self._max_entries = max_entries
        self._max_bytes = max_bytes
        self._clock = clock
        self._entries: dict[Hashable, CachedResult] = {}
        self._clients: WeakKeyDictionary[ConnectedClient, int] = WeakKeyDictionary()
        """Numbers of clients on stdio and in memory."""
        self._numbers = count()
        self._size = 0
        self._changes = 0
        self.hits = 0
        """How many requests were answered from the cache."""

    async def on_request(self, call: Call, next: Next) -> Result:
        """Return the kept result of a request, or handle the request and keep its result."""
        if not self._keeps(call):
            return await next(call)
        key = self._key(call)
        if key is None:
            return await next(call)
        entry = self._entries.pop(key, None)
        if entry is not None:
            if entry.until > self._clock():
                self._entries[key] = entry  # the most recently used one comes last
                self.hits += 1
                found: Result = msgspec.json.decode(
                    entry.data, type=prepared(call.request.result), dec_hook=read_contents
                )
                return found
            self._size -= len(entry.data)
        changes = self._changes
        result = await next(call)
        if changes == self._changes and type(result) is call.request.result and not getattr(result, "is_error", False):
            self._put(key, CachedResult(encode(result), getattr(call.params, "uri", None), self._clock() + self._ttl))
        return result

    def clear(self) -> None:
        """Drop all results."""
        self._entries.clear()
        self._size = 0
        self._changes += 1

    def on_change(self, uris: Sequence[str], lists: Collection[str]) -> None:
        """Drop the results that a change has made stale."""
        self._changes += 1
        if lists:
            self.clear()
        changed = {canonical(uri) for uri in uris}
        for key, entry in list(self._entries.items()):
            if entry.uri is not None and canonical(entry.uri) in changed:
                del self._entries[key]
                self._size -= len(entry.data)

    def _keeps(self, call: Call) -> bool:
        params: Any = call.params
        if getattr(params, "request_state", None) is not None or getattr(params, "task", None) is not None:
            return False
        operation = call.request.operation
        return operation in KEPT or (operation == "call_tool" and params.name in self._tools)

    def _key(self, call: Call) -> Hashable:
        try:
            given = [_decode(each) for each in (call.raw, encode(call.params))]  # transforms may change ``params``
        except msgspec.DecodeError:
            return None  # a number is out of range
        meta = given[0].pop("_meta", None) or {}
        given[1].pop("_meta", None)
        ignored = IGNORED_META | {"io.modelcontextprotocol/clientInfo"} if self._shared else IGNORED_META
        given.append({name: value for name, value in meta.items() if name not in ignored})
        view = call.to_provider.view if isinstance(call, ProviderCall) else call.view
        capabilities = msgspec.json.encode(call.peer.capabilities)
        caller = "all" if self._shared else self._caller_of(call)
        if caller is None:
            return None
        whole = msgspec.json.encode(given, order="sorted")
        return call.method, whole, _key_of(view), caller, capabilities, call.peer.revision.name

    def _caller_of(self, call: Call) -> str | None:
        """Return the key of a caller that can be identified, or None."""
        if call.principal is not None:
            return f"principal {call.principal.id} {_rights_of(call.principal)}"
        if call.client.session_id:
            return f"session {call.client.session_id}"
        if call.raw_headers is not None:
            return None
        return f"client {self._clients.setdefault(call.client, next(self._numbers))}"

    def _put(self, key: Hashable, entry: CachedResult) -> None:
        before = self._entries.pop(key, None)
        if before is not None:
            self._size -= len(before.data)
        self._entries[key] = entry
        self._size += len(entry.data)
        while len(self._entries) > self._max_entries or self._size > self._max_bytes:
            self._size -= len(self._entries.pop(next(iter(self._entries))).data)


def _key_of(view: View | None) -> Hashable:
    """Return the key of a view, with the names between the caller and a mounted server, which may be mounted twice."""
    return (_key_of(view.view), view.names) if isinstance(view, RenamedView) else view and view.key


def _rights_of(principal: Principal) -> str:
    """Return the scopes and claims of a caller: two tokens of one principal may have different rights."""
    claims = {name: value for name, value in principal.claims.items() if name not in TOKEN_CLAIMS}
    return msgspec.json.encode((sorted(principal.scopes), claims), order="sorted", enc_hook=repr).decode()
