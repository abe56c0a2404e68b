"""Protocol revision: its methods, notifications, features and downgrades, as data.

The revisions are defined in ``carrel.protocol.revisions``. Each is the previous one plus a delta, which also defines
how a value looked *before* it: encoding for an older peer undoes the deltas of every newer revision, newest first. An
old revision therefore cannot emit newer vocabulary.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from typing import Any, TypeAlias, TypeVar

import msgspec
from msgspec import UNSET

from carrel.protocol.methods import NotificationType, RequestType
from carrel.wire.base import CacheableResult, Result

__all__ = ["Downgrade", "Revision", "Without", "absent_fields", "without"]

T = TypeVar("T", bound=msgspec.Struct)
Downgrade: TypeAlias = Callable[[Any], Any]


class Revision(msgspec.Struct, frozen=True, kw_only=True, eq=False):
    """One revision of the protocol.

    ``requests`` and ``client_notifications`` are the requests and notifications that a client may send, by wire name;
    a method that is not in the table is "method not found". ``events`` are the notifications of a server, by operation
    name.
    """

    name: str
    requests: Mapping[str, RequestType]
    client_notifications: Mapping[str, NotificationType]
    events: Mapping[str, NotificationType]
    server_requests: Mapping[str, RequestType] = {}
    """Requests that a server may send to a client, by operation name. Variants with more features have separate names.
    """
    stateless: bool = False
    """Every request carries version, identity and capabilities in ``_meta``; there is no handshake."""
    batches: bool = False
    """JSON-RPC batches are accepted."""
    anonymous_errors: bool = False
    """An error for a message whose id could not be read has no ``id`` (otherwise it is null, as in JSON-RPC)."""
    resumable: bool = False
    """Streams over HTTP have event ids and can be resumed."""
    version_header: bool = False
    """Requests over HTTP carry the revision in the MCP-Protocol-Version header."""
    primed: bool = False
    """A stream over HTTP begins with an empty event that carries an id."""
    argument_errors_in_results: bool = False
    """Invalid tool arguments are a result with isError, for the model to correct; before, a protocol error."""
    resource_metadata: bool = False
    """Protected resource metadata (RFC 9728) names the authorization server; before, it is the MCP server itself."""
    pkce_advertised: bool = False
    """An authorization server must advertise PKCE support, or clients refuse it."""
    not_found: int = -32002
    """The error code of a resource that does not exist."""
    before: Mapping[type, Downgrade] = {}
    """Downgrades by type: how a value looked before this revision."""
    drops: Mapping[type, Downgrade] = {}
    """Downgrades by type that remove what this revision dropped."""
    projections: Mapping[type, Downgrade | None] = {}
    """Projections by type to this revision (``carrel.protocol.projection.Projections``); None if nothing differs."""

    def followed_by(self, name: str, /, **delta: Any) -> Revision:
        """Return the next revision: this one with the changes in ``delta``."""
        return msgspec.structs.replace(self, name=name, **{"before": {}, **delta})

    def project(self, value: T) -> T:
        """Project ``value`` to this revision; the same object where nothing differs."""
        projection = self.projections[type(value)]
        return value if projection is None else projection(value)

    def complete(
        self, result: Result, request: RequestType, server_meta: dict[str, Any], ttl_ms: int, scope: str
    ) -> Result:
        """Return ``result`` projected, with the fields that every result of this revision has.

        Revisions before 2026-07-28 have no such fields. 2026-07-28 has ``resultType``, the server's identity in
        ``_meta``, and freshness hints if the operation is cacheable.
        https://modelcontextprotocol.io/specification/2026-07-28/basic#result-responses
        """
        projection = self.projections[type(result)]  # as in ``project``, without its function call
        if projection is not None:
            result = projection(result)
        if not self.stateless:
            return result
        result = result.__copy__()  # type: ignore[attr-defined]  # a third of the time of copy.copy
        if result.result_type is UNSET:
            result.result_type = "complete"
        result.meta = server_meta if result.meta is None else {**server_meta, **result.meta}
        if request.cacheable and isinstance(result, CacheableResult):
            if result.ttl_ms is None:
                result.ttl_ms = ttl_ms
            if result.cache_scope is None:
                result.cache_scope = scope  # type: ignore[assignment]
        return result


class Without(msgspec.Struct, frozen=True):
    """Downgrade that removes the fields that a revision added."""

    fields: tuple[str, ...]

    def __call__(self, value: Any) -> Any:
        kind: type[msgspec.Struct] = type(value)
        absent = absent_fields(kind, self.fields)
        for field, default in absent.items():  # no generator: it is on the hot path of results for older peers
            if getattr(value, field) is not default:
                return msgspec.structs.replace(value, **absent)
        return value


@cache
def absent_fields(kind: type[msgspec.Struct], fields: tuple[str, ...]) -> dict[str, Any]:
    """Return the values of ``fields`` that are not on the wire: their defaults, None or UNSET."""
    names, defaults = kind.__struct_fields__, kind.__struct_defaults__
    known = dict(zip(reversed(names), reversed(defaults), strict=False))
    return {field: known[field] for field in fields}


def without(*fields: str) -> Without:
    """Return a downgrade that removes the fields that a revision added."""
    return Without(fields)
