"""Lifecycle: the initialize handshake of the older revisions, discovery in 2026-07-28, and server capabilities.

https://modelcontextprotocol.io/specification/2025-11-25/basic/lifecycle
https://modelcontextprotocol.io/specification/2026-07-28/server/discover
"""

from __future__ import annotations

from typing import Any

from msgspec import UNSET, UnsetType

from carrel.wire.base import CacheableResult, ClientCapabilities, Implementation, Params, Result, Wire


class ListChanged(Wire, kw_only=True):
    """The capability of a list: whether the server sends list_changed notifications."""

    list_changed: bool | UnsetType = UNSET


class ResourcesCapability(Wire, kw_only=True):
    subscribe: bool | UnsetType = UNSET
    list_changed: bool | UnsetType = UNSET


class ServerCapabilities(Wire, kw_only=True):
    """Capabilities of a server."""

    experimental: dict[str, Any] | UnsetType = UNSET
    logging: dict[str, Any] | UnsetType = UNSET
    completions: dict[str, Any] | UnsetType = UNSET
    prompts: ListChanged | UnsetType = UNSET
    resources: ResourcesCapability | UnsetType = UNSET
    tasks: dict[str, Any] | UnsetType = UNSET
    tools: ListChanged | UnsetType = UNSET
    extensions: dict[str, Any] | UnsetType = UNSET


class InitializeParams(Params, kw_only=True):
    protocol_version: str
    capabilities: ClientCapabilities
    client_info: Implementation


class InitializeResult(Result, kw_only=True):
    protocol_version: str
    capabilities: ServerCapabilities
    server_info: Implementation
    instructions: str | UnsetType = UNSET


class DiscoverResult(CacheableResult, kw_only=True):
    supported_versions: list[str]
    capabilities: ServerCapabilities
    instructions: str | UnsetType = UNSET
