"""Base types of all messages: ids, implementations, icons, annotations, and the reserved keys of ``_meta``.

https://modelcontextprotocol.io/specification/2026-07-28/basic
"""

from __future__ import annotations

from typing import Any, Literal, TypeAlias

import msgspec
from msgspec import UNSET, UnsetType, field

Id: TypeAlias = str | int
Meta: TypeAlias = dict[str, Any]
Role: TypeAlias = Literal["user", "assistant"]
LoggingLevel: TypeAlias = Literal["debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"]


class Wire(msgspec.Struct, rename="camel", omit_defaults=True, kw_only=True):
    """Base class of the JSON objects of the protocol. A field that is UNSET is not on the wire."""


class Icon(Wire):
    """An icon for user interfaces. ``src`` is an https: or data: URI, ``sizes`` are like "48x48" or "any"."""

    src: str
    mime_type: str | UnsetType = UNSET
    sizes: list[str] | UnsetType = UNSET
    theme: Literal["light", "dark"] | UnsetType = UNSET


class Annotations(Wire, kw_only=True):
    """Hints about how to use or display an object.

    ``audience`` is the intended audience, ``priority`` runs from 0 (optional) to 1 (required), ``last_modified`` is
    an ISO 8601 timestamp.
    """

    audience: list[Role] | UnsetType = UNSET
    priority: float | UnsetType = UNSET
    last_modified: str | UnsetType = UNSET


class Implementation(Wire):
    """The name and version of a client or server."""

    name: str
    version: str
    title: str | UnsetType = UNSET
    description: str | UnsetType = UNSET
    website_url: str | UnsetType = UNSET
    icons: list[Icon] | UnsetType = UNSET


class ClientCapabilities(Wire, kw_only=True):
    """Capabilities of a client. Those that it does not declare must not be used."""

    experimental: dict[str, Any] | UnsetType = UNSET
    roots: dict[str, Any] | UnsetType = UNSET
    sampling: dict[str, Any] | UnsetType = UNSET
    elicitation: dict[str, Any] | UnsetType = UNSET
    tasks: dict[str, Any] | UnsetType = UNSET
    extensions: dict[str, Any] | UnsetType = UNSET


class RequestMeta(msgspec.Struct, kw_only=True, omit_defaults=True):
    """Keys of a request's ``_meta`` that the protocol defines; all others stay in the raw parameters."""

    protocol_version: str | UnsetType = field(default=UNSET, name="io.modelcontextprotocol/protocolVersion")
    client_info: Implementation | UnsetType = field(default=UNSET, name="io.modelcontextprotocol/clientInfo")
    capabilities: ClientCapabilities | UnsetType = field(
        default=UNSET, name="io.modelcontextprotocol/clientCapabilities"
    )
    log_level: LoggingLevel | UnsetType = field(default=UNSET, name="io.modelcontextprotocol/logLevel")
    progress_token: Id | UnsetType = field(default=UNSET, name="progressToken")


class Params(Wire, kw_only=True):
    """Base class of request parameters. ``meta`` holds the keys of ``_meta`` that the protocol defines."""

    meta: RequestMeta | UnsetType = field(default=UNSET, name="_meta")


class PageParams(Params, kw_only=True):
    """Parameters of a list request. ``cursor`` is the ``next_cursor`` of the previous page."""

    cursor: str | UnsetType = UNSET


class Result(Wire, kw_only=True):
    """Base class of results. ``result_type`` and, where the operation is cacheable, ``ttl_ms`` and ``cache_scope`` are
    added on encoding, for the revisions that have them."""

    result_type: str | UnsetType = UNSET
    meta: Meta | UnsetType = field(default=UNSET, name="_meta")


class CacheableResult(Result, kw_only=True):
    """A result with a freshness hint: fresh for ``ttl_ms`` milliseconds, shared or not by ``cache_scope``."""

    ttl_ms: int | UnsetType = UNSET
    cache_scope: Literal["public", "private"] | UnsetType = UNSET


class PageResult(CacheableResult, kw_only=True):
    """One page of a list; the last one has no ``next_cursor``."""

    next_cursor: str | UnsetType = UNSET
