"""Clients of a server as their requests declare them: in ``_meta`` or with ``initialize``."""

from __future__ import annotations

from collections.abc import Mapping

from carrel.errors import HeaderMismatch, InvalidParams, UnsupportedVersion
from carrel.protocol.connection import Peer
from carrel.protocol.methods import PING
from carrel.protocol.revision import Revision
from carrel.wire.base import Params, RequestMeta
from carrel.wire.lifecycle import InitializeParams
from carrel.wire.utilities import SEVERITY

__all__ = ["new_peer", "stateless_peer"]


def stateless_peer(meta: RequestMeta, version_header: str | None, revisions: Mapping[str, Revision]) -> Peer:
    """Return the peer that a stateless request declares in its ``_meta``.

    ``version_header`` is the MCP-Protocol-Version header; ``revisions`` are the server's revisions.

    https://modelcontextprotocol.io/specification/2026-07-28/basic#meta

    Raises:
        HeaderMismatch: header and body differ.
        UnsupportedVersion: the server does not speak the revision.
        InvalidParams: the client capabilities are missing.
    """
    name = meta.protocol_version
    assert name is not None
    if version_header is not None and version_header != name:
        raise HeaderMismatch(
            f"Header mismatch: MCP-Protocol-Version header value {version_header[:200]!r} "
            f"does not match body value {name[:200]!r}"
        )
    revision = revisions.get(name)
    if revision is None:
        raise UnsupportedVersion(name, list(revisions))
    if not revision.stateless:  # list only stateless ones, or the client retries with another handshake revision
        supported = [other.name for other in revisions.values() if other.stateless]
        message = f"Unsupported protocol version: {name} begins with initialize, and is in no _meta"
        raise UnsupportedVersion(name, supported, message)
    if meta.capabilities is None:
        raise _malformed("io.modelcontextprotocol/clientCapabilities")
    return Peer(
        revision,
        meta.client_info,
        meta.capabilities,
        None if meta.log_level is None else SEVERITY[meta.log_level],
    )


def new_peer(method: str, params: Params, revisions: Mapping[str, Revision]) -> Peer:
    """Return the peer that ``initialize`` declares; before it, only ping is accepted.

    https://modelcontextprotocol.io/specification/2025-11-25/basic/lifecycle#version-negotiation

    Raises:
        InvalidParams: the request is not ``initialize``.
        UnsupportedVersion: the server speaks no revision with a handshake.
    """
    handshakes = [revision for revision in revisions.values() if not revision.stateless]
    if not isinstance(params, InitializeParams):
        if handshakes and method == PING.method:
            return Peer(handshakes[0])
        raise _malformed("io.modelcontextprotocol/protocolVersion", "; clients with a session initialize it first")
    if not handshakes:
        raise UnsupportedVersion(params.protocol_version, list(revisions))
    revision = revisions.get(params.protocol_version)
    if revision is None or revision.stateless:
        revision = handshakes[0]
    return Peer(revision, params.client_info, params.capabilities, SEVERITY["info"])


def _malformed(key: str, hint: str = "") -> InvalidParams:
    error = InvalidParams(f"Invalid params: _meta lacks {key}{hint}", parameter="_meta")
    error.status = 400
    return error
