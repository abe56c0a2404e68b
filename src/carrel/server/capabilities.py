"""Capabilities of a server, which follow from what its providers offer."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from carrel.protocol.methods import LIST_CAPABILITIES, LIST_KINDS, PROVIDER_REQUESTS, ListCapability
from carrel.protocol.revisions import REQUESTS
from carrel.server.dispatch import Requirement
from carrel.wire.lifecycle import ListChanged, ResourcesCapability, ServerCapabilities

if TYPE_CHECKING:
    from carrel.catalog.provider import ListName, Provider
    from carrel.server.local import LocalProvider
    from carrel.server.runtime import Runtime

__all__ = ["Capabilities"]

#: Methods of providers that use one item, by capability.
METHODS = {row.capability: row.provider_method for row in PROVIDER_REQUESTS if row.item and row.verb != "list"}
TASKS_CAPABILITY: dict[str, Any] = {"list": {}, "cancel": {}, "requests": {"tools": {"call": {}}}}


class Capabilities:
    """Current capabilities of a server.

    ``added`` are the providers that start with the server; ``completes`` returns whether anything can be completed.
    """

    def __init__(
        self, runtime: Runtime, local: LocalProvider, added: Sequence[Provider], completes: Callable[[], bool]
    ) -> None:
        self._runtime = runtime
        self._local = local
        self._added = added
        self._completes = completes
        self.declares_resources = False
        """Whether resources are declared even if none exist."""

    def requirements(self) -> dict[str, Requirement]:
        """Return the conditions of operations by name: without an item of its kind, an operation is rejected.

        Lists are answered anyway, empty.
        """
        kinds: dict[str | None, Requirement] = {kind: Requirement(kind, partial(self.has, kind)) for kind in LIST_KINDS}
        needing = (row for row in REQUESTS.values() if row.capability in kinds and row.verb != "list")
        return {row.operation: kinds[row.capability] for row in needing}

    def has(self, kind: ListCapability) -> bool:
        """Return whether a provider, which may start with the server, has tools, prompts or resources."""
        method = METHODS[kind]
        return (
            getattr(self._local, kind).used
            or (kind == "resources" and self.declares_resources)
            or len(self._runtime.catalog.offering(method)) > 1
            or any(provider.offers(method) for provider in self._added)
        )

    def declared(self) -> ServerCapabilities:
        """Return the current capabilities of the server."""
        runtime = self._runtime
        changes = ListChanged(list_changed=True) if runtime.settings.list_changed else ListChanged()
        resources = ResourcesCapability(
            subscribe=True if runtime.settings.subscribe else None,
            list_changed=True if runtime.settings.list_changed else None,
        )
        return ServerCapabilities(
            logging={},
            completions={} if self._completes() else None,
            prompts=changes if self.has("prompts") else None,
            resources=resources if self.has("resources") else None,
            tasks=TASKS_CAPABILITY if runtime.has_tasks else None,
            tools=changes if self.has("tools") else None,
            extensions=runtime.extensions or None,
        )

    def notified_lists(self) -> list[ListName]:
        """Return the lists with change notifications: those declared in the capabilities."""
        if not self._runtime.settings.list_changed:
            return []
        return [name for name, kind in LIST_CAPABILITIES.items() if self.has(kind)]
