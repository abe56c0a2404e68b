"""What a client needs of a transport, and what a transport needs of a client.

The client opens a transport, sends messages through it, and closes it; what comes back is handed to a ``Receiver``.
Everything happens in one event loop, and nothing that is called ``send`` or ``receive`` waits.
"""

from __future__ import annotations

from collections.abc import Awaitable, Mapping, Sequence
from typing import Any, Protocol

from carrel.errors import MCPError
from carrel.protocol.client import OutgoingMessage
from carrel.protocol.revision import Revision
from carrel.wire.base import Id

__all__ = ["Credentials", "Receiver", "Transport"]


class Receiver(Protocol):
    """Takes what comes from a server."""

    def receive(self, data: bytes) -> None:
        """Take one message, or one batch of them. Never raises."""

    def fail(self, id: Id, error: MCPError) -> None:
        """Take note that there will be no answer to the request ``id`` but this error.

        That is a ``PeerError`` (with its HTTP status) where an error of the protocol came with a status that is not a
        success, whatever id it had.
        """

    def interrupted(self) -> None:
        """Take note that messages which belong to no request may have been missed: their stream was away."""

    def closed(self, error: MCPError) -> None:
        """Take note that the connection is gone, for good, before anybody closed it. Called at most once."""


class Transport(Protocol):
    """A way to one server, for one conversation. It is opened once and closed once."""

    cancels: bool
    """Giving up on a request with ``abandon`` tells the server; where it does not, a message has to."""

    mirrors: bool
    """Parameters of tools are repeated outside of the message, where their schemas say so (``Outgoing.headers``)."""

    @property
    def held(self) -> bool:
        """A request waits for somebody to say who asks, a user perhaps: the time for answers does not run meanwhile."""

    async def open(self, receiver: Receiver) -> None:
        """Connect, so far as that can be done before there is anything to say.

        Raises:
            TransportError: there is nobody.
            ConfigError: the set-up is wrong.
        """

    def send(self, message: OutgoingMessage) -> Awaitable[None] | None:
        """Send a message soon. What is returned, if anything, is to be awaited before more is sent: it is full.

        A request that cannot be sent fails (``Receiver.fail``); nothing is raised.
        """

    def abandon(self, id: Id) -> None:
        """Let go of what belongs to a request that nobody waits for any more."""

    def settle(self, revision: Revision) -> None:
        """Take note of the revision that a handshake has agreed on, once the server was told that it is complete."""

    async def close(self) -> None:
        """Let go of everything, within seconds. May be called more than once, and before ``open`` has ended."""


class Credentials(Protocol):
    """Who asks, for servers that want to know. ``carrel.security.client`` has those of OAuth 2.1."""

    @property
    def principal(self) -> str:
        """What tells one who asks from another: what a server answered to one is not shown to another."""

    @property
    def extensions(self) -> Mapping[str, Mapping[str, Any]]:
        """The extensions of the protocol that a client with such credentials declares, and their settings."""

    async def headers(self, url: str, method: str = "POST") -> Mapping[str, str]:
        """Return the headers that one request to ``url`` takes; none if there are none yet.

        They are for that request alone: another takes others, and so does the same one when it is sent again.

        Raises:
            AuthorizationError: there should be some, and they cannot be had.
        """

    async def refused(
        self,
        url: str,
        status: int,
        challenges: Sequence[str],
        revision: str | None,
        *,
        sent: Mapping[str, str] | None = None,
        nonce: str | None = None,
    ) -> bool:
        """Do what a refusal (401 or 403) asks for, and say whether the request is worth another try.

        ``challenges`` are the values of WWW-Authenticate, ``revision`` is the one that is spoken, if that is known,
        ``sent`` is what ``headers`` gave to the request, ``nonce`` is the value of DPoP-Nonce, if there is one.
        Several requests may be refused at the same time; the user is asked once.

        Raises:
            AuthorizationError: it cannot be done.
        """

    async def close(self) -> None:
        """Let go of connections and of whatever is under way."""
