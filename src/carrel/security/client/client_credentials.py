"""Acting for nobody but oneself: client credentials, and the identity of a workload.

https://modelcontextprotocol.io/extensions/auth/oauth-client-credentials
https://www.rfc-editor.org/rfc/rfc6749#section-4.4, https://www.rfc-editor.org/rfc/rfc7523#section-2.1
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable
from types import MappingProxyType
from typing import Unpack

from carrel.errors import AuthorizationError, ConfigError
from carrel.security.client.authorization_server import AuthorizationServer
from carrel.security.client.authorization_target import AuthorizationTarget
from carrel.security.client.client_authentication import ClientIdentity, PrivateKey
from carrel.security.client.credentials import OAuthCredentials, Options
from carrel.security.client.tokens import Token, request_token

__all__ = ["JWT_BEARER", "ClientCredentials", "WorkloadIdentity"]

JWT_BEARER = "urn:ietf:params:oauth:grant-type:jwt-bearer"


class Registered(OAuthCredentials):
    """What clients have in common that were registered by hand."""

    def __init__(
        self,
        client_id: str | None,
        client_secret: str | None = None,
        *,
        key: PrivateKey | None = None,
        **options: Unpack[Options],
    ) -> None:
        super().__init__(**options)
        if client_id == "":
            raise ConfigError("client_id must not be empty")
        if client_secret is not None and key is not None:
            raise ConfigError("client_secret and key: one of them is enough")
        self.client_id = client_id
        self.signing_key = key
        self._secret = client_secret

    def known_as(self) -> str | None:
        """Return the client identifier."""
        return self.client_id

    async def identify(self, server: AuthorizationServer) -> ClientIdentity | None:
        """Return what this client is known by to the one server that it is registered with."""
        if self.issuer not in (None, server.issuer):
            return None
        return ClientIdentity(issuer=server.issuer, id=self.client_id or "", secret=self._secret)

    async def redeem(self, place: AuthorizationTarget, scopes: frozenset[str], form: dict[str, str]) -> Token:
        """Ask for a token with what ``form`` holds.

        Raises:
            AuthorizationError: there is none to be had.
        """
        identity = await self.identify(place.server)
        if identity is None:
            raise AuthorizationError(f"This client is not registered with {place.server.issuer}")
        if scopes:
            form["scope"] = " ".join(sorted(scopes))
        token, _ = await request_token(
            place.server,
            identity,
            form,
            self.fetcher,
            self.clock,
            key=self.signing_key,
            prover=self.prover(place),
            requested=scopes,
            resource=place.resource,
        )
        return token


class ClientCredentials(Registered):
    """Credentials of an application that acts for itself.

    Args:
        client_id: what it is known by to the authorization server.
        client_secret: its secret there; or
        key: its private key, which is better.

    The other arguments are those of ``Options``. Name the ``issuer``: the secret goes to no other then, whatever the
    server says.

    Raises:
        ConfigError: an argument makes no sense, or the packages for it are not installed.
    """

    kind = "client"
    extensions = MappingProxyType({"io.modelcontextprotocol/oauth-client-credentials": {}})

    def __init__(
        self,
        client_id: str,
        client_secret: str | None = None,
        *,
        key: PrivateKey | None = None,
        **options: Unpack[Options],
    ) -> None:
        super().__init__(client_id, client_secret, key=key, **options)
        if client_secret is None and key is None:
            raise ConfigError("ClientCredentials need a client_secret or a key")

    async def grant(self, place: AuthorizationTarget, scopes: frozenset[str]) -> Token:
        """Get a token for the application itself.

        Raises:
            AuthorizationError: there is none to be had.
        """
        return await self.redeem(place, scopes, {"grant_type": "client_credentials"})


class WorkloadIdentity(Registered):
    """Credentials of a program that its platform vouches for, with a signed token of its own (Kubernetes, a cloud, CI).

    Args:
        assertion: the token of the platform, or a function that returns one for the issuer it is given; it may be
            async, and is asked every time.
        client_id: what the program is known by to the authorization server, if it has to be.

    The other arguments are those of ``Options``.

    Raises:
        ConfigError: an argument makes no sense, or the packages for it are not installed.
    """

    kind = "workload"

    def __init__(
        self,
        assertion: str | Callable[[str], str | Awaitable[str]],
        *,
        client_id: str | None = None,
        **options: Unpack[Options],
    ) -> None:
        super().__init__(client_id, **options)
        self._assertion = assertion

    async def grant(self, place: AuthorizationTarget, scopes: frozenset[str]) -> Token:
        """Get a token for what the platform says.

        Raises:
            AuthorizationError: there is none to be had; it is not tried again, nor in another way.
        """
        assertion = self._assertion
        if callable(assertion):
            given = assertion(place.server.issuer)
            assertion = await given if inspect.isawaitable(given) else given
        return await self.redeem(place, scopes, {"grant_type": JWT_BEARER, "assertion": assertion})
