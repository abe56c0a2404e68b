"""Gate of a gateway: it decides about names and URIs as they are listed, however a client spells them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from carrel.catalog.access import UNRESTRICTED, Gate, RenamedView
from carrel.protocol.principal import View

if TYPE_CHECKING:
    from carrel.gateway.catalog import GatewayCatalog
    from carrel.protocol.methods import Verb
    from carrel.protocol.principal import Principal
    from carrel.uri.intervals import Intervals

__all__ = ["ListedNamesGate"]


class ListedNames:
    """Mapping of accepted spellings of names and URIs to the spelling in lists."""

    def __init__(self, catalog: GatewayCatalog) -> None:
        self._catalog = catalog

    def uri_out(self, uri: str) -> str:
        """Return a URI as it is listed."""
        found = self._catalog.find_target("read", uri)
        return uri if found is None else found.listed

    def name_out(self, kind: Literal["tool", "prompt"], name: str) -> str:
        """Return the name of a tool or prompt as it is listed."""
        found = self._catalog.find_target("call" if kind == "tool" else "get", name)
        return name if found is None else found.listed

    def intervals_in(self, verb: Verb, intervals: Intervals) -> Intervals:
        """Return the intervals."""
        return intervals


class ListedNamesGate(Gate):
    """Gate that asks another gate about listed names."""

    def __init__(self, gate: Gate, catalog: GatewayCatalog) -> None:
        self._gate = gate
        self._names = ListedNames(catalog)

    def view(self, principal: Principal | None) -> View:
        """Return the view of a caller."""
        view = self._gate.view(principal)
        return view if view is UNRESTRICTED or not isinstance(view, View) else RenamedView(view, self._names)
