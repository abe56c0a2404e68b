"""What a revision of the protocol is: data and a few functions, chosen once and carried along.

The revisions themselves are in ``carrel.protocol.revisions``. Each is written as the one before it plus a delta, and
the delta also says how a value looked *before* it, so that talking to an older peer means undoing the deltas of every
newer revision, newest first. An encoder of an old revision therefore cannot write newer vocabulary.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from copy import copy
from typing import Any, TypeAlias, TypeVar

import msgspec
from msgspec import UNSET

from carrel.wire.base import CacheableResult, Params, Result

__all__ = ["Downgrade", "NotificationType", "Request", "Revision", "Without", "without"]

T = TypeVar("T", bound=msgspec.Struct)
Downgrade: TypeAlias = Callable[[Any], Any]


class Request(msgspec.Struct, frozen=True):
    """A method, one row of the table: its name on the wire, our name for it, its parameters, its result."""

    method: str
    operation: str
    params: type[Params] = Params
    result: type[Result] = Result
    cacheable: bool = False
    name_field: str | None = None
    """The parameter that the Mcp-Name header repeats (2026-07-28, Streamable HTTP)."""


class NotificationType(msgspec.Struct, frozen=True):
    """A notification: its name on the wire, what we call it, and its parameters if a client may send it."""

    method: str
    operation: str
    params: type[Params] = Params


class Revision(msgspec.Struct, frozen=True, kw_only=True, eq=False):
    """One revision of the protocol.

    ``requests`` and ``announcements`` are what a client may send, by wire name; a method that is not in the table *is*
    "method not found". ``events`` are the wire names of what a server may announce, by our names.
    """

    name: str
    requests: Mapping[str, Request]
    announcements: Mapping[str, NotificationType]
    events: Mapping[str, str]
    questions: Mapping[str, str] = {}
    """What a server may ask of a client: wire names by our names."""
    stateless: bool = False
    """Every request carries version, identity and capabilities in ``_meta``; there is no handshake."""
    batches: bool = False
    """JSON-RPC batches are accepted."""
    anonymous_errors: bool = False
    """An error for a message whose id could not be read has no ``id`` (otherwise it is null, as in JSON-RPC)."""
    resumable: bool = False
    """Streams over HTTP have event ids and can be resumed."""
    version_header: bool = False
    """Requests over HTTP say the revision in the MCP-Protocol-Version header."""
    primed: bool = False
    """A stream over HTTP begins with an empty event that carries an id."""
    argument_errors_in_results: bool = False
    """Wrong arguments of a tool are a result with isError, for the model to mend; before, an error of the protocol."""
    resource_metadata: bool = False
    """A protected server says in metadata of its own who issues tokens for it; before, it issues them itself."""
    pkce_advertised: bool = False
    """An authorization server has to say that it takes PKCE, or clients refuse it."""
    not_found: int = -32002
    """The error code of a resource that does not exist."""
    before: Mapping[type, Downgrade] = {}
    """How a value of a type looked before this revision."""
    drops: Mapping[type, Downgrade] = {}
    """What this revision took away again from values of a type."""
    projections: Mapping[type, Downgrade] = {}
    """How a value of a type looks in this revision, where that differs from the newest (see ``revisions``)."""

    def followed_by(self, name: str, /, **delta: Any) -> Revision:
        """Return the next revision: this one, with what ``delta`` says changed."""
        return msgspec.structs.replace(self, name=name, **{"before": {}, **delta})

    def project(self, value: T) -> T:
        """Return ``value`` as this revision has it; the same object where nothing differs."""
        projection = self.projections.get(type(value))
        return value if projection is None else projection(value)

    def complete(
        self, result: Result, request: Request, server_meta: dict[str, Any], ttl_ms: int, scope: str
    ) -> Result:
        """Return ``result`` with the fields that every result of this revision has.

        Before 2026-07-28 there are none. In it: ``resultType``, the server's identity in ``_meta``, and freshness
        hints where the operation is cacheable.
        https://modelcontextprotocol.io/specification/2026-07-28/basic#result-responses
        """
        result = self.project(result)
        if not self.stateless:
            return result
        result = copy(result)
        if result.result_type is UNSET:
            result.result_type = "complete"
        result.meta = server_meta if result.meta is UNSET else {**server_meta, **result.meta}
        if request.cacheable and isinstance(result, CacheableResult):
            if result.ttl_ms is UNSET:
                result.ttl_ms = ttl_ms
            if result.cache_scope is UNSET:
                result.cache_scope = scope  # type: ignore[assignment]
        return result


class Without(msgspec.Struct, frozen=True):
    """A downgrade that takes away the fields that a revision brought."""

    fields: tuple[str, ...]

    def __call__(self, value: Any) -> Any:
        for field in self.fields:
            if getattr(value, field) is not UNSET:
                return msgspec.structs.replace(value, **dict.fromkeys(self.fields, UNSET))
        return value


def without(*fields: str) -> Without:
    """Return a downgrade that takes away the fields that a revision brought."""
    return Without(fields)
