"""Lifecycle: the initialize handshake of the older revisions, discovery in 2026-07-28, and server capabilities.

https://modelcontextprotocol.io/specification/2025-11-25/basic/lifecycle
https://modelcontextprotocol.io/specification/2026-07-28/server/discover
"""

from __future__ import annotations

from typing import Any

from carrel.wire.base import CacheableResult, ClientCapabilities, Implementation, Params, Result, Wire


class ListChanged(Wire, kw_only=True):
    """The capability of a list: whether the server sends list_changed notifications."""

    list_changed: bool | None = None


class ResourcesCapability(Wire, kw_only=True):
    subscribe: bool | None = None
    list_changed: bool | None = None


class ServerCapabilities(Wire, kw_only=True):
    """Capabilities of a server."""

    experimental: dict[str, Any] | None = None
    logging: dict[str, Any] | None = None
    completions: dict[str, Any] | None = None
    prompts: ListChanged | None = None
    resources: ResourcesCapability | None = None
    tasks: dict[str, Any] | None = None
    tools: ListChanged | None = None
    extensions: dict[str, Any] | None = None


class InitializeParams(Params, kw_only=True):
    protocol_version: str
    capabilities: ClientCapabilities
    client_info: Implementation


class InitializeResult(Result, kw_only=True):
    protocol_version: str
    capabilities: ServerCapabilities
    server_info: Implementation
    instructions: str | None = None


class DiscoverResult(CacheableResult, kw_only=True):
    supported_versions: list[str]
    capabilities: ServerCapabilities
    instructions: str | None = None
