"""Mounting: provider for another ``Server`` in the catalog of this server."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Collection, Container
from typing import TYPE_CHECKING, Any, Protocol

from carrel.catalog.provider import Change, Events, Interest, Request
from carrel.catalog.transforms.transform import Transform
from carrel.errors import ConfigError
from carrel.protocol.extension import Extension
from carrel.protocol.extensions.skills import SKILLS
from carrel.protocol.extensions.tasks import TASKS

if TYPE_CHECKING:
    from collections.abc import Mapping

    from msgspec import Raw

    from carrel.awaitables import MaybeAwaitable
    from carrel.catalog.access import Gate
    from carrel.server.endpoint import ServerEndpoint
    from carrel.server.runtime import Listener, Operation
    from carrel.wire.base import Result
    from carrel.wire.resources import ReadResourceResult

__all__ = ["Mounted"]


class Mountable(Protocol):
    """Server that can be added to another one, or have another one added to it."""

    name: str
    gate: Gate | None
    endpoint: ServerEndpoint

    def skills(self) -> None:
        """Declare the skills extension."""

    def extend(
        self, extension: Extension, operations: Mapping[str, Operation], settings: dict[str, Any] | None
    ) -> None:
        """Register a protocol extension."""


class Mounted(Transform):
    """Provider for a mounted server, started and stopped with the outer server.

    The mounted server's handlers keep their state and lifespan. Tasks, request states, subscriptions and dispatch
    belong to the outer server. The middleware of the mounted server runs inside the middleware of the outer one, around
    the requests for items of the mounted server, unless ``middleware`` is False.

    Raises:
        ConfigError: both servers have extensions with the same operations, or the mounted one has a gate.
    """

    exact: Container[str] = ()
    tool_names: Container[str] | None = None

    def __init__(self, server: Mountable, outer: Mountable, *, middleware: bool = True) -> None:
        if server.gate is not None:
            raise ConfigError(f"{server.name} has a gate, which would be ignored: give it to {outer.name}")
        endpoint = self._server = server.endpoint
        super().__init__(endpoint.catalog)
        self.name = server.name
        self.exact, self.tool_names = endpoint.catalog.exact, endpoint.catalog.tool_names
        self._outer = outer
        self._runs_middleware = middleware
        self._stopped = asyncio.Event()
        self._publish: Listener = lambda changes, lists, recipients: None
        endpoint.runtime.join(outer.endpoint.runtime, self._declare)
        extended = {extension.name: extension for extension in endpoint.description.extended.values()}
        without_methods = {name: Extension(name=name) for name in endpoint.runtime.extensions if name not in extended}
        for extension in (extended | without_methods).values():
            self._declare(extension)

    def _declare(self, extension: Extension) -> None:
        """Declare an extension of the mounted server for the outer one, unless that has it."""
        runtime, outer = self._server.runtime, self._outer.endpoint.runtime
        if extension is TASKS:
            _ = outer.tasks
        elif extension.name in outer.extensions:
            return
        elif extension is SKILLS:
            self._outer.skills()
        else:
            rows, inside = extension.requests.values(), self._runs_middleware
            handlers = {row.operation: self._server.handler(row, middleware=inside) for row in rows}
            self._outer.extend(extension, handlers, runtime.extensions[extension.name])

    # Names and URIs are the same on both sides: the most frequent requests pass through without a copy.

    def read_resource(self, uri: str, request: Request) -> MaybeAwaitable[ReadResourceResult | bytes]:
        """Return the contents of a resource."""
        return self.provider.read_resource(uri, request)

    def call_tool(self, name: str, arguments: Raw, request: Request) -> MaybeAwaitable[Result | bytes]:
        """Call a tool."""
        return self.provider.call_tool(name, arguments, request)

    async def start(self, events: Events) -> None:
        """Start the server."""

        self._stopped.clear()
        await self._server.start()
        if self._runs_middleware:
            self.provider = self._server.inside_middleware()
        self._publish = events.publish
        self._server.runtime.listeners.append(self._publish)

    async def stop(self) -> None:
        """Stop the server."""
        self._stopped.set()
        if self._publish in self._server.runtime.listeners:
            self._server.runtime.listeners.remove(self._publish)
        await self._server.stop()

    async def watch(self, interest: Interest) -> AsyncIterator[Collection[Change]]:
        """Yield an empty batch once the server's providers listen, and pass the subscribed URIs to them.

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
                ended = asyncio.ensure_future(interest.wait())
                try:
                    await asyncio.wait((ended, stopped), return_when=asyncio.FIRST_COMPLETED)
                finally:
                    await _cancelled(ended)
                watches.notify()
        finally:
            watches.outer = None
            await _cancelled(stopped)


async def _cancelled(task: asyncio.Future[Any]) -> None:
    """Cancel a task, and wait until it has ended."""
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
