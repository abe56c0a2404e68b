"""Interface for sending requests through a client session, for extensions, tasks and skills."""

from __future__ import annotations

from collections.abc import Coroutine, Mapping
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from carrel.client.handlers import ClientCall
from carrel.protocol.methods import RequestType
from carrel.protocol.revision import Revision
from carrel.wire.base import Result
from carrel.wire.client_features import InputRequest
from carrel.wire.lifecycle import ServerCapabilities

if TYPE_CHECKING:
    from carrel.client.connection import ClientConnection

__all__ = ["Requests"]

R = TypeVar("R", bound=Result)


class Requests(Protocol):
    """Interface for sending requests through a client session."""

    timeout: float | None
    connection: ClientConnection | None

    @property
    def server_name(self) -> str:
        """The host's name for the server: its URL or its command."""

    @property
    def revision(self) -> Revision:
        """The negotiated revision."""

    @property
    def capabilities(self) -> ServerCapabilities:
        """The server's capabilities."""

    @property
    def stateless(self) -> bool:
        """Whether the revision has no sessions."""

    @property
    def server_extensions(self) -> Mapping[str, Any]:
        """The settings of the extensions that the server declares, by identifier."""

    async def request(self, call: ClientCall[R]) -> R:
        """Send a request and return its result. See ``carrel.client.session.Session.request``."""

    def knows(self, request: RequestType) -> bool:
        """Return whether the negotiated revision, or an extension, has a request."""

    def send_later(self, call: ClientCall[Any]) -> None:
        """Send a request in the background; its result is dropped, and its failure only logged."""

    def spawn(self, work: Coroutine[Any, Any, Any]) -> bool:
        """Run a coroutine in the background until the connection is closed; return whether there is a connection."""

    async def answer_input(self, requests: Mapping[str, InputRequest], call: ClientCall[Any]) -> dict[str, Any]:
        """Handle the input requests that a call caused, and return the responses by key."""
