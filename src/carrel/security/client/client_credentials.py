"""OAuth client credentials grant, and the JWT bearer grant for workload identity.

https://modelcontextprotocol.io/extensions/auth/oauth-client-credentials
https://www.rfc-editor.org/rfc/rfc6749#section-4.4, https://www.rfc-editor.org/rfc/rfc7523#section-2.1
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from types import MappingProxyType
from typing import Unpack

from carrel.awaitables import resolved
from carrel.errors import AuthorizationError, ConfigError
from carrel.security.client.authorization_server import AuthorizationServer
from carrel.security.client.authorization_target import AuthorizationTarget
from carrel.security.client.client_authentication import ClientIdentity, PrivateKey
from carrel.security.client.credentials import OAuthCredentials, OAuthOptions
from carrel.security.client.tokens import Token, request_token

__all__ = ["JWT_BEARER", "ClientCredentials", "WorkloadIdentity"]

JWT_BEARER = "urn:ietf:params:oauth:grant-type:jwt-bearer"


class RegisteredCredentials(OAuthCredentials):
    """Base class for credentials of pre-registered clients."""

    def __init__(
        self,
        client_id: str | None,
        client_secret: str | None = None,
        *,
        key: PrivateKey | None = None,
        **options: Unpack[OAuthOptions],
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
        """Return the client identity at the server that the client is registered with; None for another server."""
        if self.issuer not in (None, server.issuer):
            return None
        return ClientIdentity(issuer=server.issuer, id=self.client_id or "", secret=self._secret)

    async def redeem(self, target: AuthorizationTarget, scopes: frozenset[str], form: dict[str, str]) -> Token:
        """Request a token with the grant parameters in ``form``.

        Raises:
            AuthorizationError: no token is issued.
        """
        identity = await self.identify(target.server)
        if identity is None:
            raise AuthorizationError(f"This client is not registered with {target.server.issuer}")
        if scopes:
            form["scope"] = " ".join(sorted(scopes))
        token, _ = await request_token(
            self.client_at(target.server, identity),
            form,
            prover=self.binding.for_target(target),
            requested=scopes,
            resource=target.resource,
        )
        return token


class ClientCredentials(RegisteredCredentials):
    """Credentials of an application that acts on its own behalf (client credentials grant).

    Args:
        client_id: its client identifier at the authorization server.
        client_secret: its secret there; or
        key: its private key, which is preferable.

    For the other arguments see ``OAuthOptions``. Name the ``issuer``: the secret is then sent to no other issuer, even
    if the MCP server's metadata names one.

    Raises:
        ConfigError: an argument is invalid, or a required package is not installed.
    """

    kind = "client"
    extensions = MappingProxyType({"io.modelcontextprotocol/oauth-client-credentials": {}})

    def __init__(
        self,
        client_id: str,
        client_secret: str | None = None,
        *,
        key: PrivateKey | None = None,
        **options: Unpack[OAuthOptions],
    ) -> None:
        super().__init__(client_id, client_secret, key=key, **options)
        if client_secret is None and key is None:
            raise ConfigError("ClientCredentials need a client_secret or a key")

    async def grant(self, target: AuthorizationTarget, scopes: frozenset[str]) -> Token:
        """Get a token by the client credentials grant.

        Raises:
            AuthorizationError: no token is issued.
        """
        return await self.redeem(target, scopes, {"grant_type": "client_credentials"})


class WorkloadIdentity(RegisteredCredentials):
    """Credentials of a workload with a signed token of its platform (Kubernetes, a cloud, CI): JWT bearer grant.

    Args:
        assertion: the token of the platform, or a function that returns one for the issuer it is given; it may be
            async, and is called for every grant.
        client_id: the workload's client identifier, if the authorization server requires one.

    For the other arguments see ``OAuthOptions``.

    Raises:
        ConfigError: an argument is invalid, or a required package is not installed.
    """

    kind = "workload"

    def __init__(
        self,
        assertion: str | Callable[[str], str | Awaitable[str]],
        *,
        client_id: str | None = None,
        **options: Unpack[OAuthOptions],
    ) -> None:
        super().__init__(client_id, **options)
        self._assertion = assertion

    async def grant(self, target: AuthorizationTarget, scopes: frozenset[str]) -> Token:
        """Get a token for the platform's assertion.

        Raises:
            AuthorizationError: no token is issued; there is no retry and no fallback to another grant.
        """
        assertion = self._assertion
        if callable(assertion):
            assertion = await resolved(assertion(target.server.issuer))
        return await self.redeem(target, scopes, {"grant_type": JWT_BEARER, "assertion": assertion})
