"""Hot reload: clients connect to a permanent front server, and the server behind it is replaced.

The server in the file is a provider of the front server. When the file changes, it is imported again, the new server is
started and added, and the old server is removed. Handshakes, sessions and subscriptions are kept, and clients are
notified that the lists and their resources have changed. If the file cannot be loaded or the server does not start, the
old server stays.
"""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from carrel.catalog.access import UNRESTRICTED
from carrel.cli.server.load import load, program_authorization, ready
from carrel.cli.server.message_log import LoggedConnection, MessageLog
from carrel.cli.target import ServerLocation
from carrel.errors import ConfigError
from carrel.server.app import Server
from carrel.server.middleware.composition import bind, functions_of
from carrel.server.mount import Mounted

if TYPE_CHECKING:
    from carrel.protocol.channel import ConnectedClient
    from carrel.protocol.principal import AuthenticatedCaller, HTTPErrorResponse, Principal, View
    from carrel.protocol.server import Call, ClientBatch, ServerProtocol
    from carrel.transports.server.authorizer import Authorizer
    from carrel.transports.server.http_request import Headers
    from carrel.transports.server.route import Route
    from carrel.wire.base import Result

__all__ = ["Reloading"]


class CurrentGate:
    """Gate that delegates to the gate of the current server. Without one, it hides nothing."""

    def __init__(self) -> None:
        self.gate: Any = None

    def view(self, principal: Principal | None) -> View:
        """Return the view of a caller."""
        view: View = UNRESTRICTED if self.gate is None else self.gate.view(principal)
        return view


class CurrentAuthorizer:
    """Authorizer that delegates to the authorizer of the current server. Implements ``authorizer.Authorizer``."""

    def __init__(self, authorizer: Authorizer) -> None:
        self.authorizer = authorizer

    def document(self, scope: dict[str, Any], path: str) -> bytes | HTTPErrorResponse | None:
        """Return the metadata document of the current server."""
        return self.authorizer.document(scope, path)

    def routes(self, path: str) -> Sequence[Route]:
        """Return the routes of the server at the start."""
        return self.authorizer.routes(path)

    async def identify(
        self, scope: dict[str, Any], headers: Headers, path: str
    ) -> AuthenticatedCaller | HTTPErrorResponse | None:
        """Authenticate a request as the current server does."""
        return await self.authorizer.identify(scope, headers, path)

    def permit(self, caller: AuthenticatedCaller, event: Call | ClientBatch) -> HTTPErrorResponse | None:
        """Authorize a call as the current server does."""
        return self.authorizer.permit(caller, event)

    async def stop(self) -> None:
        """Close the connections of the current server's authorizer."""
        await self.authorizer.stop()


class Reloading:
    """Front server, and the server of a file or module behind it, which ``reload`` replaces.

    ``front`` is served. A changed name, version or instructions apply to new sessions. Options of ``Server`` such as
    limits keep the values of the first load.
    """

    def __init__(self, location: ServerLocation, log: MessageLog) -> None:
        self._location = location
        self._before = frozenset(sys.modules)
        self._gate = CurrentGate()
        self._authorizer: CurrentAuthorizer | None = None
        self._follows_authorization = False
        self._number = 0
        self._mounted: Mounted | None = None
        self._app: Server[Any] | None = None
        self.log = log

    async def open(self, loaded: Server[Any] | Awaitable[Any]) -> Server[Any]:
        """Create the front server for a loaded server."""
        app = await ready(loaded)
        self.front = Server[Any](
            app.name,
            page_size=app.endpoint.runtime.settings.page_size,
            limits=app.limits,
            mask_errors=app.endpoint.runtime.settings.mask_errors,
            gate=self._gate if app.gate is not None else None,
        )
        endpoint = self.front.endpoint
        endpoint.answer = self.log.watch(endpoint.answer)
        restore = endpoint.restore

        def restore_logged(
            connection: ServerProtocol, client: ConnectedClient, subscriptions: Mapping[str, str]
        ) -> None:
            self.log.follow(client)
            restore(connection, client, subscriptions)

        endpoint.restore = restore_logged  # type: ignore[method-assign]
        endpoint.connect = partial(LoggedConnection, endpoint, self.log)  # type: ignore[method-assign]
        self.front.middleware(self._run_middleware)
        self._mounted = self._mount(app)
        self.front.add_provider(self._mounted)
        self._take(app)
        return self.front

    async def reload(self) -> None:
        """Import the code again and replace the server.

        Raises:
            ConfigError: the code cannot be loaded, or the new server does not start. The old server stays.
        """
        kept = {name: module for name, module in sys.modules.items() if self._is_authors(name, module)}
        for name in kept:
            del sys.modules[name]
        importlib.invalidate_caches()  # for new files
        try:
            app = await ready(load(self._location))
            authorizer = self._authorizer_of(app)
            mounted = self._mount(app)
            await self.front.add_provider(mounted)
        except BaseException as error:
            for name in [name for name, module in sys.modules.items() if self._is_authors(name, module)]:
                del sys.modules[name]
            sys.modules.update(kept)
            if isinstance(error, ConfigError) or not isinstance(error, Exception):
                raise
            raise ConfigError(f"the new server does not start: {type(error).__name__}: {error}") from error
        old, self._mounted = self._mounted, mounted
        self._take(app)
        if self._authorizer is not None and authorizer is not None:
            replaced, self._authorizer.authorizer = self._authorizer.authorizer, authorizer
            await replaced.stop()
        if old is not None:
            await self.front.remove_provider(old)
        self.front.endpoint.runtime.hub.resync_all()

    def authorization(self) -> Authorizer | None:
        """Return the authorization that a program for ``mcp`` or ``fastmcp`` has for its server; None without any.

        It follows the program, but for its routes, which are the routes of the first load.
        """
        self._follows_authorization = True
        found = None if self._app is None else program_authorization(self._app)
        self._authorizer = None if found is None else CurrentAuthorizer(found)
        return self._authorizer

    def folders(self) -> set[str]:
        """Return the folders to watch: the folders of the server's code."""
        files = [module.__file__ for name, module in list(sys.modules.items()) if self._is_authors(name, module)]
        found = {str(Path(file).parent) for file in files if file}
        return found | ({str(Path(self._location.file).parent)} if self._location.file else set())

    def _authorizer_of(self, app: Server[Any]) -> Authorizer | None:
        """Return the authorization of a new server, if authorization follows the program.

        Raises:
            ConfigError: one of the new server and the server at the start has authorization.
        """
        if not self._follows_authorization:
            return None
        found = program_authorization(app)
        if (found is None) != (self._authorizer is None):
            now, before = ("no", "some") if found is None else ("some", "none")
            raise ConfigError(
                f"the server has {now} authorization now, and had {before} at the start: start carrel dev again"
            )
        return found

    def _mount(self, app: Server[Any]) -> Mounted:
        if app.gate is not None and self.front.gate is None:
            raise ConfigError("the server has a gate now, and had none at the start: start carrel dev again")
        gate, app.gate = app.gate, None  # the front server checks it
        mounted = Mounted(app, self.front, middleware=False)
        app.gate = gate
        self._number += 1
        mounted.name = f"{self._number:08}"  # the old server sorts first, and handles requests until it is removed
        return mounted

    def _take(self, app: Server[Any]) -> None:
        self._app, self._gate.gate = app, app.gate
        self.front.name = app.name
        description, given = self.front.endpoint.description, app.endpoint.description
        description.info, description.instructions = given.info, given.instructions
        description.ttl_ms, description.scope = given.ttl_ms, given.scope
        description.__post_init__()

    async def _run_middleware(self, call: Call, next: Callable[[Call], Awaitable[Result]]) -> Result:
        """Run the middleware of the current server, also around requests that no provider answers."""
        step = next
        for middleware in reversed(self._app.middlewares(call.method) if self._app is not None else []):
            for function in reversed(functions_of(middleware, call.request.operation)):
                step = bind(function, step)
        return await step(call)

    def _is_authors(self, name: str, module: ModuleType) -> bool:
        """Return whether a module was imported for the server, from the user's folder."""
        file = getattr(module, "__file__", None)
        if name in self._before or not isinstance(file, str) or "site-packages" in file:
            return False
        root = str(Path(self._location.file).parent) if self._location.file else os.getcwd()  # noqa: PTH109
        return file.startswith(root + os.sep)


def names(locations: Iterable[str]) -> str:
    """Format the names of changed files for a message."""
    return ", ".join(sorted({Path(location).name for location in locations}))
