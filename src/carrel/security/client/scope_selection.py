"""OAuth scope selection for authorization requests.

https://modelcontextprotocol.io/specification/2026-07-28/basic/authorization#scope-selection-strategy
"""

from __future__ import annotations

from collections.abc import Collection

__all__ = ["OFFLINE", "OPENID", "select_scopes", "with_offline_access"]

OFFLINE = "offline_access"
OPENID = "openid"


def select_scopes(
    challenged: Collection[str],
    supported: Collection[str] | None,
    *,
    wanted: Collection[str] = (),
    held: Collection[str] = (),
) -> frozenset[str]:
    """Return the scopes to request, or no scopes to leave the choice to the authorization server.

    ``challenged`` are the scopes of the challenge, ``supported`` the scopes of the server's metadata, ``wanted`` the
    user's configured scopes, and ``held`` the scopes of earlier requests, which are kept.
    """
    return frozenset((*(challenged or wanted or supported or ()), *wanted, *held))


def with_offline_access(scopes: frozenset[str], supported: Collection[str]) -> frozenset[str]:
    """Return ``scopes`` with ``offline_access`` (refresh tokens) if the authorization server supports it.

    Empty ``scopes`` stay empty: otherwise ``offline_access`` would be the only scope requested.
    https://modelcontextprotocol.io/specification/2026-07-28/basic/authorization#refresh-tokens
    """
    return scopes | {OFFLINE} if scopes and OFFLINE in supported else scopes
