"""Interfaces of client transports: ``Transport``, ``Receiver`` and ``Credentials``.

The client opens a transport, sends messages through it, and closes it; received messages are passed to a ``Receiver``.
Everything happens in one event loop, and ``send`` and ``receive`` never block.
"""

from __future__ import annotations

from collections.abc import Awaitable, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

from carrel.errors import MCPError
from carrel.protocol.client import OutgoingMessage
from carrel.protocol.revision import Revision
from carrel.wire.base import Id

__all__ = ["STDERR_FOLLOWS", "AuthorizationRejection", "Credentials", "Receiver", "Transport"]

#: Separator between the message of an error and the end of the program's standard error.
STDERR_FOLLOWS = " Its standard error ends with:"


class Receiver(Protocol):
    """Callbacks of a client for messages and errors from its transport."""

    def receive(self, data: bytes, about: Id | None = None) -> float | None:
        """Process one received message or batch. Never raises.

        Returns the seconds for which the transport should pause receiving, because the server sends too much, or None.
        ``about`` is the id of the request on whose stream it arrived; None if it was not on the stream of a request.
        """

    def awaits(self, id: Id) -> bool:
        """Return whether the request ``id`` still waits for its response, which may have been received meanwhile."""

    def fail(self, id: Id, error: MCPError) -> None:
        """Fail the request ``id`` with an error: there will be no response.

        The error is a ``PeerError`` (with its HTTP status) if the body of an HTTP error response is a JSON-RPC error
        with any id.
        """

    def broken(self) -> None:
        """Report that the long-lived stream has broken, or was refused again: the server may be gone."""

    def interrupted(self) -> None:
        """Report that notifications may have been lost: the long-lived stream was interrupted and not resumed."""

    def closed(self, error: MCPError) -> None:
        """Report that the connection was lost for good before the client closed it. Called at most once."""


class Transport(Protocol):
    """Client transport: one connection to one server, opened once and closed once."""

    cancels: bool
    """Whether ``abandon`` cancels a request on the server; if not, a cancellation notification has to be sent."""

    mirrors: bool
    """Whether tool parameters are mirrored in HTTP headers where schemas say so (``OutgoingMessage.headers``)."""

    streams: bool
    """Whether messages of the server that belong to a request arrive on the stream of that request."""

    @property
    def held(self) -> bool:
        """Whether a request waits for credentials, perhaps from a user: request timeouts are suspended meanwhile."""

    async def open(self, receiver: Receiver) -> None:
        """Open the connection, so far as that can be done before the first message.

        Raises:
            TransportError: the server cannot be reached.
            ConfigError: the configuration is wrong.
        """

    def send(self, message: OutgoingMessage) -> Awaitable[None] | None:
        """Queue a message. If an awaitable is returned, await it before sending more (backpressure).

        A request that cannot be sent fails (``Receiver.fail``); nothing is raised.
        """

    def abandon(self, id: Id) -> None:
        """Release the resources of a request whose caller no longer waits for the response."""

    def settle(self, revision: Revision) -> None:
        """Record the revision negotiated in the handshake, after the initialized notification was sent."""

    async def close(self) -> None:
        """Close the connection within seconds. May be called more than once, and before ``open`` has returned."""


class AuthorizationRejection(NamedTuple):
    """401 or 403 response to a request for ``url``.

    ``challenges`` are the values of WWW-Authenticate, ``revision`` is the protocol revision, if known, ``sent`` is the
    return value of ``Credentials.headers`` for the request, if known, ``nonce`` is the value of DPoP-Nonce, if present.
    """

    url: str
    status: int
    challenges: Sequence[str] = ()
    revision: str | None = None
    sent: Mapping[str, str] | None = None
    nonce: str | None = None


class Credentials(Protocol):
    """Credentials provider for HTTP requests. ``carrel.security.client`` has providers for OAuth 2.1."""

    @property
    def principal(self) -> str:
        """Identifier of the principal: responses for one are never served to another from a cache."""

    @property
    def extensions(self) -> Mapping[str, Mapping[str, Any]]:
        """Protocol extensions that a client with these credentials declares, and their settings."""

    async def headers(self, url: str, method: str = "POST") -> Mapping[str, str]:
        """Return the authorization headers for one request to ``url``; empty if there is no token yet.

        They are for that request alone: every other request, and every retry, needs new ones (DPoP proofs).

        Raises:
            AuthorizationError: a token is needed and cannot be obtained.
        """

    async def rejected(self, rejection: AuthorizationRejection) -> bool:
        """Handle a 401 or 403 response, for example by authorizing, and return whether to retry the request.

        Several requests may be rejected at the same time; the user authorizes once.

        Raises:
            AuthorizationError: authorization failed.
        """

    async def close(self) -> None:
        """Close connections and cancel pending authorization."""
