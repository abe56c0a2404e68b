"""Capabilities of a server, which follow from what its providers offer."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from carrel.protocol.revisions import REQUESTS
from carrel.server.dispatch import Requirement
from carrel.server.subscriptions import LISTS
from carrel.wire.lifecycle import ListChanged, ResourcesCapability, ServerCapabilities

if TYPE_CHECKING:
    from carrel.catalog.provider import ListName, Provider
    from carrel.server.local import LocalProvider
    from carrel.server.runtime import Runtime

__all__ = ["Capabilities"]

TASKS_CAPABILITY: dict[str, Any] = {"list": {}, "cancel": {}, "requests": {"tools": {"call": {}}}}


class Capabilities:
    """Capabilities of a server in its present state.

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
        """Return the conditions of operations by name: they are refused where nothing of their kind is there.

        Lists are answered all the same, empty.
        """
        kinds: dict[str | None, Requirement] = {
            "prompts": Requirement("prompts", lambda: self.has_prompts),
            "resources": Requirement("resources", lambda: self.has_resources),
            "tools": Requirement("tools", lambda: self.has_tools),
        }
        needing = (row for row in REQUESTS.values() if row.capability in kinds and row.verb != "list")
        return {row.operation: kinds[row.capability] for row in needing}

    @property
    def has_resources(self) -> bool:
        """Whether resources can be read."""
        offering = self._runtime.catalog.offering("read_resource")
        return self._local.resources.used or self.declares_resources or len(offering) > 1 or self._adds("read_resource")

    @property
    def has_tools(self) -> bool:
        """Whether tools can be called."""
        return self._local.tools.used or len(self._runtime.catalog.offering("call_tool")) > 1 or self._adds("call_tool")

    @property
    def has_prompts(self) -> bool:
        """Whether there are prompts."""
        return (
            self._local.prompts.used
            or len(self._runtime.catalog.offering("get_prompt")) > 1
            or self._adds("get_prompt")
        )

    def _adds(self, method: str) -> bool:
        """Return whether a provider that is started with the server implements a method."""
        return any(provider.offers(method) for provider in self._added)

    def declared(self) -> ServerCapabilities:
        """Return the capabilities of the server, in its present state."""
        runtime = self._runtime
        changes = ListChanged(list_changed=True) if runtime.settings.list_changed else ListChanged()
        resources = ResourcesCapability(
            subscribe=True if runtime.settings.subscribe else None,
            list_changed=True if runtime.settings.list_changed else None,
        )
        return ServerCapabilities(
            logging={},
            completions={} if self._completes() else None,
            prompts=changes if self.has_prompts else None,
            resources=resources if self.has_resources else None,
            tasks=TASKS_CAPABILITY if runtime.has_tasks else None,
            tools=changes if self.has_tools else None,
            extensions=runtime.extensions or None,
        )

    def notified_lists(self) -> list[ListName]:
        """Return the lists with change notifications: those declared in the capabilities."""
        if not self._runtime.settings.list_changed:
            return []
        kinds = (self.has_tools, self.has_prompts, self.has_resources)
        return [name for name, used in zip(LISTS, kinds, strict=True) if used]
