"""Enterprise-managed authorization: token exchange (RFC 8693) for an identity assertion grant (ID-JAG).

https://modelcontextprotocol.io/extensions/auth/enterprise-managed-authorization
https://datatracker.ietf.org/doc/draft-ietf-oauth-identity-assertion-authz-grant/
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from types import MappingProxyType
from typing import Unpack
from urllib.parse import urlsplit

from carrel.awaitables import resolved
from carrel.errors import AuthorizationError, ConfigError
from carrel.security.client.authorization_server import AuthorizationServer, find_server
from carrel.security.client.authorization_target import AuthorizationTarget
from carrel.security.client.client_authentication import ClientIdentity, PrivateKey, RegisteredClient
from carrel.security.client.client_credentials import JWT_BEARER, RegisteredCredentials
from carrel.security.client.credentials import OAuthOptions
from carrel.security.client.tokens import EXCHANGE, Token, request_token
from carrel.security.fetch import check_url

__all__ = ["EnterpriseAuthorization"]

ID_JAG = "urn:ietf:params:oauth:token-type:id-jag"
ID_TOKEN = "urn:ietf:params:oauth:token-type:id_token"  # noqa: S105


class EnterpriseAuthorization(RegisteredCredentials):
    """Credentials of a user who has logged in with the identity provider of their company.

    The identity provider issues a grant for the MCP server (ID-JAG), which is exchanged for a token without the user.

    Args:
        identity: the ID token of the user, or a function that returns one for every grant; it may be async.
        idp_issuer: the identity provider; ``idp_token_endpoint`` is its token endpoint, if it has no metadata.
        idp_client_id, idp_client_secret: client credentials at the identity provider.
        client_id, client_secret: client credentials at the authorization server of the MCP server; ``key`` is the
            private key, if the client has a key instead of a secret.
        subject_token_type: the token type URN of ``identity``, if it is not an ID token.

    For the other arguments see ``OAuthOptions``.

    Raises:
        ConfigError: an argument is invalid, or a required package is not installed.
    """

    kind = "enterprise"
    extensions = MappingProxyType({"io.modelcontextprotocol/enterprise-managed-authorization": {}})

    def __init__(
        self,
        identity: str | Callable[[], str | Awaitable[str]],
        *,
        idp_issuer: str | None = None,
        idp_token_endpoint: str | None = None,
        idp_client_id: str,
        idp_client_secret: str | None = None,
        client_id: str,
        client_secret: str | None = None,
        key: PrivateKey | None = None,
        subject_token_type: str = ID_TOKEN,
        **options: Unpack[OAuthOptions],
    ) -> None:
        super().__init__(client_id, client_secret, key=key, **options)
        if idp_issuer is None and idp_token_endpoint is None:
            raise ConfigError("EnterpriseAuthorization needs an idp_issuer or an idp_token_endpoint")
        for name, url in (("idp_issuer", idp_issuer), ("idp_token_endpoint", idp_token_endpoint)):
            if url is not None:
                self.hosts.add((urlsplit(check_url(url, name)).hostname or "").lower())
        self._identity = identity
        self._provider = idp_issuer or idp_token_endpoint or ""
        self._endpoint = idp_token_endpoint
        self._idp_client_id = idp_client_id
        self._idp_client_secret = idp_client_secret
        self._subject_token_type = subject_token_type

    async def grant(self, target: AuthorizationTarget, scopes: frozenset[str]) -> Token:
        """Get a token for the user by way of the identity provider.

        Raises:
            AuthorizationError: no token is issued.
        """
        return await self.redeem(
            target, scopes, {"grant_type": JWT_BEARER, "assertion": await self._exchange(target, scopes)}
        )

    async def _exchange(self, target: AuthorizationTarget, scopes: frozenset[str]) -> str:
        """Return the identity provider's grant for one server (ID-JAG), by token exchange.

        https://www.rfc-editor.org/rfc/rfc8693
        """
        if target.resource is None:
            raise AuthorizationError(
                "The server has no metadata with its resource URL, which the identity provider needs"
            )
        subject = self._identity
        if callable(subject):
            subject = await resolved(subject())
        provider = await self._find_provider()
        form = {
            "grant_type": EXCHANGE,
            "requested_token_type": ID_JAG,
            "audience": target.server.issuer,
            "subject_token": subject,
            "subject_token_type": self._subject_token_type,
            **({"scope": " ".join(sorted(scopes))} if scopes else {}),
        }
        identity = ClientIdentity(issuer=provider.issuer, id=self._idp_client_id, secret=self._idp_client_secret)
        client = RegisteredClient(provider, identity, self.fetcher, self.clock)
        token, issued = await request_token(client, form, resource=target.resource)
        if issued.issued_token_type not in (None, ID_JAG):
            raise AuthorizationError(f"{provider.issuer} issued something else than a grant for {target.resource}")
        return token.access_token

    async def _find_provider(self) -> AuthorizationServer:
        if self._endpoint is not None:
            return AuthorizationServer(issuer=self._provider, token_endpoint=self._endpoint)
        return await find_server(self._provider, self.fetcher)
