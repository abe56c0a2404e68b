"""Application interface of server transports, implemented by the endpoint of a ``carrel.Server``."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Protocol

from carrel.awaitables import MaybeAwaitable
from carrel.limits import Budget, Limits
from carrel.protocol.channel import Channel
from carrel.protocol.server import Call, ErrorResponse, Reply, ServerProtocol

if TYPE_CHECKING:
    from carrel.protocol.channel import ConnectedClient
    from carrel.protocol.observer import RejectedRequest
    from carrel.state.records import Changed
    from carrel.state.replica import Replica
    from carrel.transports.server.route import Route

__all__ = ["Application", "HasEndpoint"]


class Application(Protocol):
    """Server application: answers calls, and has a lifespan of ``start`` and ``stop``."""

    @property
    def budget(self) -> Budget:
        """Budget of the memory that is kept for clients."""

    @property
    def limits(self) -> Limits:
        """Limits on messages, buffers, connections and requests of clients."""

    @property
    def routes(self) -> Sequence[Route]:
        """HTTP routes that are served beside the MCP endpoint."""

    @property
    def unprotected(self) -> Iterable[str]:
        """Names of servers with an authorization of their program, which the transport does not know."""

    @property
    def replica(self) -> Replica:
        """Access to the state that the application shares with its replicas."""

    async def start(self) -> None:
        """Start the application. Called once before the first call."""

    async def stop(self) -> None:
        """Stop the application and release its resources. Called once after the last call."""

    def connect(self) -> ServerProtocol:
        """Return a new connection."""

    def disconnect(self, connection: ServerProtocol, client: ConnectedClient) -> None:
        """Remove a connection and its subscriptions."""

    def restore(self, connection: ServerProtocol, client: ConnectedClient, subscriptions: Mapping[str, str]) -> None:
        """Open the subscription of a session that another replica has begun, with its URIs as the client spells them.

        Raises:
            ServerUnavailable: there is no room for it.
        """

    def position(self) -> int:
        """Return the position of the bus up to which all changes were sent to the clients of this replica."""

    def catch_up(self, connection: ServerProtocol, changes: Sequence[Changed] | None) -> None:
        """Notify a client of earlier changes to its subscriptions. With None, notify of all subscriptions."""

    def take_subscription(self, connection: ServerProtocol, uri: str, spelled: str | None) -> None:
        """Subscribe a session to a resource, or (None) unsubscribe it, as it has asked another replica to do."""

    def answer(self, call: Call, channel: Channel) -> MaybeAwaitable[Reply]:
        """Answer a call: return the response at once, or a coroutine or future of it.

        Exceptions of handlers become error responses, except CancelledError and GeneratorExit: these are raised by the
        coroutine, as they may also come from outside, and the caller knows which it was.
        """

    def reject(self, call: Call, error: BaseException) -> ErrorResponse:
        """Return the error response to a call, and log the error if the response hides its details."""

    def refuse(self, call: Call, error: BaseException) -> ErrorResponse:
        """Return the error response to a call that is not answered, because of a limit or of its HTTP headers."""

    def rejected(self, response: ErrorResponse) -> None:
        """Report the error response to a request of an unknown method or with invalid parameters to observers."""

    @property
    def gauges(self) -> dict[str, Callable[[], float]]:
        """Numbers for metrics by name, to which transports add theirs: connections, sessions, streams."""

    @property
    def http_rejected(self) -> Callable[[RejectedRequest], None] | None:
        """Function to call with an HTTP request that was refused, if there are observers."""

    async def finish_tasks(self, seconds: float) -> None:
        """Wait for running tasks for at most so many seconds, if replicas share the state, and have their results."""

    def end_streams(self) -> None:
        """End all listen streams (subscriptions) gracefully."""


class HasEndpoint(Protocol):
    """Server that transports are given: a ``carrel.Server``, of which they use the endpoint alone."""

    @property
    def endpoint(self) -> Application:
        """The interface of the server for transports."""
