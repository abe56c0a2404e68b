"""How a client opens its session: with a handshake, or in a revision that has none."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any, TypeAlias

from carrel.client.negotiation import ServerFacts, negotiate
from carrel.compat.mcp.client.session import ClientSession
from carrel.compat.mcp.types import InitializeResult
from carrel.protocol.revisions import REVISIONS

__all__ = ["opening_of"]

#: Seconds to wait for the declaration of a server before the handshake is tried.
PATIENCE = 10.0
LOG_LEVEL = "debug"

Opening: TypeAlias = Callable[[Any], Awaitable[InitializeResult]]


def opening_of(mode: str | None) -> Opening:
    """Return how a session is opened: "legacy" or None, "auto", or the name of a revision without a handshake.

    Raises:
        ValueError: there is no such mode.
    """
    stateless = [name for name, revision in REVISIONS.items() if revision.stateless]
    if mode in (None, "legacy"):
        return lambda session: session.initialize()
    if mode != "auto" and mode not in stateless:
        hint = f" ({mode!r} is a handshake-era version; use mode='legacy')" if mode in REVISIONS else ""
        raise ValueError(f"mode must be 'legacy', 'auto', or one of {stateless}; got {mode!r}{hint}")
    return partial(_negotiated, mode=mode)


async def _negotiated(session: ClientSession, mode: str) -> InitializeResult:
    async def open_revision(connection: Any, _: Any, timeout: float) -> ServerFacts:
        facts = await negotiate(connection, REVISIONS.get(mode), timeout=timeout, patience=min(timeout, PATIENCE))
        if facts.revision.stateless:
            connection.transport.settle(facts.revision)
            connection.connection.set_log_level(LOG_LEVEL)
        return facts

    return await session.open_with(open_revision)
