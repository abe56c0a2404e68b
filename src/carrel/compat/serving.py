"""Base of the low-level servers of all mirrors: a server begins to serve, as a server of Carrel."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, ClassVar, NamedTuple

from carrel.compat.streams import ServerStream, serve_streams, session_message
from carrel.server.app import Server

__all__ = ["DEFAULT_PATH", "GRACE", "Guarded", "ServedServer", "guarded", "receive_nothing"]

DEFAULT_PATH = "/mcp"
#: Seconds that open requests have to end when a server over HTTP is stopped.
GRACE = 2


class Guarded(NamedTuple):
    """Authorization that a program gives to an endpoint: a wrapper for the endpoint, and routes beside it."""

    wrap: Callable[[Any], Any]
    """Return the ASGI application that only authorized requests pass, around one."""
    routes: Sequence[Any]
    """Routes of Starlette, such as the metadata of the resource, and an authorization server."""


def guarded(middleware: Sequence[Any], guard: Callable[[Any], Any], routes: Sequence[Any]) -> Guarded:
    """Return the authorization of an endpoint with middleware of Starlette around its guard."""

    def wrap(endpoint: Any) -> Any:
        app = guard(endpoint)
        for each in reversed(middleware):
            app = each.cls(app, *each.args, **each.kwargs)
        return app

    return Guarded(wrap, routes)


async def receive_nothing() -> dict[str, Any]:
    """Receive the body of a request without one, as an ASGI application does."""
    return {"type": "http.request", "body": b"", "more_body": False}


class ServedServer(ABC):
    """Low-level server of a mirror."""

    has_served: ClassVar[bool] = False
    """Whether any server of this process has served."""

    on_begin: ClassVar[Callable[[ServedServer, Any], None] | None] = None
    """Called when a server begins to serve. An exception that it raises ends the serving."""

    guard: Callable[[str], Guarded | None] | None = None
    """Returns the authorization that the program has for the endpoint at a path; None if everyone may use it."""

    served: bool
    """Whether a transport was set up for it."""

    def wrap(self, message: bytes) -> Any:
        """Return a message for streams of messages from its encoding."""
        return session_message(message)

    @abstractmethod
    def application(self, options: Any = None, *, raise_exceptions: bool = False) -> Server[Any]:
        """Return a server of Carrel that answers with the handlers of this one. ``options`` are its declaration."""

    def stdio_options(self) -> Any:
        """Return how the server declares itself on stdio; None if that is as on other transports."""
        return None

    def has_own_authorization(self) -> bool:
        """Return whether the program has an authorization for the server."""
        return self.guard is not None and self.guard(DEFAULT_PATH) is not None

    def begin(self, options: Any = None) -> None:
        """Call ``on_begin``, if it is set."""
        if ServedServer.on_begin is not None:
            ServedServer.on_begin(self, options)

    def mark_served(self) -> None:
        """Remember that the server, and some server of this process, has served."""
        self.served = ServedServer.has_served = True

    async def serve(self, options: Any, read_stream: Any, write_stream: Any, *, raise_exceptions: bool) -> None:
        """Serve the client at the other end of the streams, until it is gone."""
        self.begin(options)
        app = self.application(options, raise_exceptions=raise_exceptions)
        if isinstance(read_stream, ServerStream):
            await read_stream.serve(app)
        else:
            await serve_streams(app, read_stream, write_stream, self.wrap)
