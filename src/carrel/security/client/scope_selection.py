"""Which scopes are asked for.

https://modelcontextprotocol.io/specification/2026-07-28/basic/authorization#scope-selection-strategy
"""

from __future__ import annotations

from collections.abc import Collection

__all__ = ["OFFLINE", "select_scopes", "with_offline_access"]

OFFLINE = "offline_access"


def select_scopes(
    challenged: Collection[str],
    supported: Collection[str] | None,
    *,
    wanted: Collection[str] = (),
    held: Collection[str] = (),
) -> frozenset[str]:
    """Return the scopes to ask for; none if the authorization server is to choose.

    ``challenged`` are those of the challenge, ``supported`` those of the server's metadata, ``wanted`` those that the
    user has named, ``held`` those that were asked for before, which are not to be lost.
    """
    return frozenset((*(challenged or wanted or supported or ()), *wanted, *held))


def with_offline_access(scopes: frozenset[str], supported: Collection[str]) -> frozenset[str]:
    """Return ``scopes`` with the one that brings refresh tokens, if the authorization server has that.

    Where no scope is asked for, none is added: the server would take that one for all that is wanted.
    https://modelcontextprotocol.io/specification/2026-07-28/basic/authorization#refresh-tokens
    """
    return scopes | {OFFLINE} if scopes and OFFLINE in supported else scopes
