"""Base types of all messages: ids, implementations, icons, annotations, and the reserved keys of ``_meta``.

https://modelcontextprotocol.io/specification/2026-07-28/basic
"""

from __future__ import annotations

from _thread import allocate_lock
from collections.abc import Callable, Mapping
from typing import Any, ClassVar, Literal, TypeAlias, TypeVar

import msgspec
from msgspec import UNSET, UnsetType, field

Id: TypeAlias = str | int
Meta: TypeAlias = dict[str, Any]
T = TypeVar("T")

#: Key of the tags of an entry in its ``_meta``.
TAGS = "carrel/tags"
Role: TypeAlias = Literal["user", "assistant"]
LoggingLevel: TypeAlias = Literal["debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"]


class Wire(msgspec.Struct, rename="camel", omit_defaults=True, kw_only=True):
    """Base class of the JSON objects of the protocol. A field is not on the wire if it has its default.

    The default of an optional member is None, and null is decoded as None. The default is UNSET only if null differs
    from absent, and for ``Raw``, which has no union with None in msgspec.
    """


class Icon(Wire):
    """An icon for user interfaces. ``src`` is an https: or data: URI, ``sizes`` are like "48x48" or "any"."""

    src: str
    mime_type: str | None = None
    sizes: list[str] | None = None
    theme: Literal["light", "dark"] | None = None


class Annotations(Wire, kw_only=True):
    """Hints about how to use or display an object.

    ``audience`` is the intended audience, ``priority`` runs from 0 (optional) to 1 (required), ``last_modified`` is
    an ISO 8601 timestamp.
    """

    audience: list[Role] | None = None
    priority: float | None = None
    last_modified: str | None = None


class Implementation(Wire):
    """The name and version of a client or server."""

    name: str
    version: str
    title: str | None = None
    description: str | None = None
    website_url: str | None = None
    icons: list[Icon] | None = None


class ClientCapabilities(Wire, kw_only=True):
    """Capabilities of a client. Those that it does not declare must not be used."""

    experimental: dict[str, Any] | None = None
    roots: dict[str, Any] | None = None
    sampling: dict[str, Any] | None = None
    elicitation: dict[str, Any] | None = None
    tasks: dict[str, Any] | None = None
    extensions: dict[str, Any] | None = None


class RequestMeta(msgspec.Struct, kw_only=True, omit_defaults=True):
    """Keys of a request's ``_meta`` that the protocol defines; all others stay in the raw parameters."""

    protocol_version: str | None = field(default=None, name="io.modelcontextprotocol/protocolVersion")
    client_info: Implementation | None = field(default=None, name="io.modelcontextprotocol/clientInfo")
    capabilities: ClientCapabilities | None = field(default=None, name="io.modelcontextprotocol/clientCapabilities")
    log_level: LoggingLevel | None = field(default=None, name="io.modelcontextprotocol/logLevel")
    progress_token: Id | None = field(default=None, name="progressToken")


class Params(Wire, kw_only=True):
    """Base class of request parameters. ``meta`` holds the keys of ``_meta`` that the protocol defines."""

    meta: RequestMeta | None = field(default=None, name="_meta")


class PageParams(Params, kw_only=True):
    """Parameters of a list request. ``cursor`` is the ``next_cursor`` of the previous page."""

    cursor: str | None = None


class Result(Wire, kw_only=True):
    """Base class of results. ``result_type`` and, where the operation is cacheable, ``ttl_ms`` and ``cache_scope`` are
    added on encoding, for the revisions that have them."""

    other_types: ClassVar[Mapping[str, type[Wire]]] = {}
    """Results that an extension adds for the request, by their ``resultType``."""
    result_type: str | UnsetType = UNSET  # null is no type, and refused; a result without a type is complete
    meta: Meta | None = field(default=None, name="_meta")


class CacheableResult(Result, kw_only=True):
    """A result with a freshness hint: fresh for ``ttl_ms`` milliseconds, shared or not by ``cache_scope``."""

    ttl_ms: int | None = None
    cache_scope: Literal["public", "private"] | None = None


class PageResult(CacheableResult, kw_only=True):
    """One page of a list; the last one has no ``next_cursor``."""

    next_cursor: str | None = None


_making = allocate_lock()


def make_decoder(kind: Any, **options: Any) -> Callable[[Any], Any]:
    """Return the decoder of a type.

    One is made at a time: msgspec takes a struct for known before its fields are, and a decoder that another thread
    makes of it at that moment ends the process.
    """
    with _making:
        return msgspec.json.Decoder(kind, **options).decode


_prepared: set[Any] = set()


def prepared(kind: type[T]) -> type[T]:
    """Return a type that holds structs, ready for ``msgspec.convert`` and ``decode``, which look into it likewise."""
    if kind not in _prepared:
        make_decoder(kind)
        _prepared.add(kind)
    return kind
