"""Audience of a change: the callers who may see the changed item, or the one caller that it is for."""

from __future__ import annotations

from collections.abc import Callable, Collection
from functools import partial
from typing import TYPE_CHECKING

import msgspec

from carrel.catalog.access import find_view
from carrel.catalog.view_filter import shows_any
from carrel.log import Log

if TYPE_CHECKING:
    from carrel.catalog.access import Gate
    from carrel.catalog.provider import ListName
    from carrel.protocol.channel import ConnectedClient
    from carrel.protocol.principal import Principal, View

__all__ = ["Audience", "SameCaller"]

log = Log("carrel")


class Audience:
    """Callers that may be notified of one change. The gate is called once per principal, and each view is checked once.

    ``shows`` returns whether a view shows the changed item. If it is None, all callers are notified.
    """

    __slots__ = ("_by_principal", "_by_view", "_gate", "_shows")

    def __init__(self, gate: Gate | None, shows: Callable[[View], bool] | None) -> None:
        self._gate = gate
        self._shows = shows
        self._by_principal: dict[Principal | None, bool] = {}
        self._by_view: dict[str, bool] = {}

    @classmethod
    def of_task(cls, gate: Gate | None, tool: str) -> Audience:
        """Return the audience of a change of a task of a tool."""
        return cls(gate, lambda view: view.allows("call", tool))

    @classmethod
    def of_resource(cls, gate: Gate | None, uri: str, entries: Collection[str] | None = None) -> Audience:
        """Return the audience of a change of a resource; ``entries`` are the changed entries of a directory."""

        def shows(view: View) -> bool:
            return view.allows("subscribe", uri) and (
                entries is None or any(view.allows("list", entry) for entry in entries)
            )

        return cls(gate, shows)

    @classmethod
    def of_list(cls, gate: Gate | None, name: ListName, keys: Collection[str] | None) -> Audience:
        """Return the audience of a change of a list, by the URIs or names that it is about; None: they are unknown."""
        return cls(gate, None if keys is None else partial(shows_any, name=name, keys=keys))

    def has(self, principal: Principal | None) -> bool:
        """Return whether a caller may be notified. Not if the gate fails."""
        if self._shows is None or (self._gate is None and (principal is None or principal.view is None)):
            return True
        known = self._by_principal.get(principal)
        if known is None:
            try:
                known = self._find(find_view(self._gate, principal), self._shows)
            except Exception:
                log.exception("the gate has failed: a client is not notified of a change")
                known = False
            self._by_principal[principal] = known
        return known

    def _find(self, view: View | None, shows: Callable[[View], bool]) -> bool:
        if view is None:
            return True
        known = self._by_view.get(view.key)
        if known is None:
            known = self._by_view[view.key] = shows(view)
        return known


class SameCaller(msgspec.Struct, frozen=True):
    """Clients of one caller: one client, and all clients with the same principal id."""

    client: ConnectedClient
    principal: str | None

    def include(self, client: ConnectedClient) -> bool:
        """Return whether a client is one of them."""
        principal = client.principal
        return client is self.client or (principal is not None and principal.id == self.principal)
