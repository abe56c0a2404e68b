"""Client extensions: declared settings, additional methods, and hooks in the lifecycle of a session.

    class GreetParams(Params, kw_only=True):
        name: str

    class GreetResult(Result, kw_only=True):
        greeting: str

    GREET = RequestType("example/greet", "greet", GreetParams, GreetResult)

    class Greetings(ClientExtension):
        protocol = Extension(name="com.example/greetings", requests={GREET.method: GREET})

        async def greet(self, name: str) -> GreetResult:
            return await self.session.request(ClientCall(GREET, GreetParams(name=name)))

    greetings = Greetings()
    async with Client(url, extensions=[greetings]):
        result = await greetings.greet("Ada")

https://modelcontextprotocol.io/specification/2026-07-28/basic/versioning#extension-negotiation
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from carrel.errors import ConfigError
from carrel.protocol.client import ServerNotification
from carrel.protocol.extension import Extension

if TYPE_CHECKING:
    from carrel.client.requests import Requests

__all__ = ["ClientExtension"]


class ClientExtension:
    """Extension of one client. Use it directly for a declaration, or derive a class that adds methods.

    The methods ``connected``, ``notified`` and ``missed`` are called by the client; they must not block.

    Args:
        protocol: the identifier, or the ``Extension`` with the methods and notifications; defaults to the class
            attribute.
        settings: declared in the client's capabilities; defaults to the class attribute. None: nothing is declared.

    Raises:
        ConfigError: the identifier is invalid or missing.
    """

    protocol: Extension
    settings: Mapping[str, Any] | None = {}

    def __init__(
        self,
        protocol: Extension | str | None = None,
        settings: Mapping[str, Any] | None = None,
        *,
        declare: bool = True,
    ) -> None:
        own = (
            Extension(name=protocol, handshake=True)
            if isinstance(protocol, str)
            else protocol or getattr(self, "protocol", None)
        )
        if own is None:
            raise ConfigError(f"{type(self).__name__} has no protocol: give the identifier of the extension")
        self.protocol = own
        self.settings = (self.settings if settings is None else settings) if declare else None
        self._session: Requests | None = None

    @property
    def session(self) -> Requests:
        """The session of the client that has this extension, to send requests.

        Raises:
            ConfigError: no client has it yet.
        """
        if self._session is None:
            raise ConfigError(f"The extension {self.name} belongs to no client yet: Client(…, extensions=[…])")
        return self._session

    @property
    def name(self) -> str:
        """The identifier of the extension."""
        return self.protocol.name

    @property
    def server_settings(self) -> Mapping[str, Any] | None:
        """The settings that the server declares for this extension; None if it does not declare it."""
        return self.session.server_extensions.get(self.name)

    def attach(self, session: Requests) -> None:
        """Record the session of the client. Called once, when the client is made.

        Raises:
            ConfigError: another client has this extension already.
        """
        if self._session is not None:
            raise ConfigError(f"The extension {self.name} belongs to another client: create one object per client")
        self._session = session

    def connected(self) -> None:
        """Reset the state of the server: the connection is new, perhaps to another server."""

    def notified(self, notification: ServerNotification) -> None:
        """Handle a notification of the server, the extension's own or another."""

    def missed(self) -> None:
        """Drop cached state that notifications invalidate, as some may have been missed."""
