"""Server as a provider: what another ``Server`` offers, in the catalog of this one."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Collection, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from carrel.catalog.provider import Change, Events, Interest, ListName
from carrel.catalog.transforms import Transform
from carrel.errors import ConfigError
from carrel.protocol.extensions.skills import SKILLS
from carrel.protocol.extensions.tasks import TASKS

if TYPE_CHECKING:
    from collections.abc import Mapping

    from carrel.catalog.access import Gate
    from carrel.catalog.catalog import Catalog
    from carrel.protocol.extension import Extension
    from carrel.protocol.server import Description
    from carrel.server.runtime import Operation, Runtime
    from carrel.server.watching import Watches

__all__ = ["Mounted"]


class Mountable(Protocol):
    """Server that can be added to another one, or have another one added to it."""

    name: str
    description: Description
    runtime: Runtime
    catalog: Catalog
    gate: Gate | None
    watches: Watches

    async def start(self) -> None:
        """Start the server."""

    async def stop(self) -> None:
        """Stop the server."""

    def skills(self) -> None:
        """Declare the skills extension."""

    def extend(
        self, extension: Extension, operations: Mapping[str, Operation], settings: dict[str, Any] | None
    ) -> None:
        """Register a protocol extension."""


class Mounted(Transform):
    """Provider of all that a server offers, started and stopped with the server that it is added to.

    Its handlers have their own state and lifespan. Tasks, request states and subscriptions are those of the outer
    server, and so is its dispatch: the middleware of the mounted server does not run.

    Raises:
        ConfigError: both servers have extensions with the same operations, or the mounted one has a gate.
    """

    def __init__(self, server: Mountable, outer: Mountable) -> None:
        if server.gate is not None:
            raise ConfigError(f"{server.name} has a gate, which would not be asked: give it to {outer.name}")
        super().__init__(server.catalog)
        self.name = server.name
        self._server = server
        self._stopped = asyncio.Event()
        server.runtime.join(outer.runtime)
        for extension in {one.name: one for one in server.description.extended.values()}.values():
            if extension is SKILLS:
                outer.skills()
            elif extension is TASKS:
                _ = outer.runtime.tasks
            elif extension.name not in outer.runtime.extensions:
                handlers = {
                    row.operation: server.runtime.operations[row.operation] for row in extension.requests.values()
                }
                outer.extend(extension, handlers, server.runtime.extensions[extension.name])
        for name, settings in server.runtime.extensions.items():
            outer.runtime.extensions.setdefault(name, settings)  # those without methods

    async def start(self, events: Events) -> None:
        """Start the server."""

        def publish(changes: Sequence[Change], lists: Sequence[ListName]) -> None:
            events.publish(changes, lists)

        self._stopped.clear()
        await self._server.start()
        self._server.runtime.listeners.append(publish)

    async def stop(self) -> None:
        """Stop the server."""
        self._stopped.set()
        self._server.runtime.listeners.clear()
        await self._server.stop()

    async def watch(self, interest: Interest) -> AsyncIterator[Collection[Change]]:
        """Yield an empty batch once the providers of the server listen, and tell them what has subscribers.

        The server reports the changes themselves as events.
        """
        watches = self._server.watches
        watches.outer = interest
        watches.notify()
        stopped = asyncio.ensure_future(self._stopped.wait())
        try:
            await watches.wait(list(watches.forming))
            yield ()
            while not self._stopped.is_set():
                told = asyncio.ensure_future(interest.wait())
                try:
                    await asyncio.wait((told, stopped), return_when=asyncio.FIRST_COMPLETED)
                finally:
                    await _cancelled(told)
                watches.notify()
        finally:
            watches.outer = None
            await _cancelled(stopped)


async def _cancelled(task: asyncio.Future[Any]) -> None:
    """Cancel a task, and wait until it has ended."""
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
