"""OAuth proxy: the server is the authorization server of its MCP clients, and one client of an upstream.

    app.run("http", authorization=OAuthProxy.github(id, secret, resource="https://mcp.example.org/mcp", admit=…))

MCP clients register dynamically, get tokens for this server only, and never see the upstream's tokens.

https://modelcontextprotocol.io/specification/2026-07-28/basic/authorization
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Sequence
from os import PathLike
from typing import Unpack
from urllib.parse import urlsplit

from carrel.errors import AuthorizationError, ConfigError
from carrel.protocol.principal import Principal
from carrel.security.server.bearer import Clock, InvalidToken, Unverifiable
from carrel.security.server.proxy import providers
from carrel.security.server.proxy.clients import Clients
from carrel.security.server.proxy.endpoints import Endpoints
from carrel.security.server.proxy.grants import ProxyContext, ProxyGrants
from carrel.security.server.proxy.login import Admission, Login
from carrel.security.server.proxy.sealing import Sealer
from carrel.security.server.proxy.stores import ProxyFileStore, ProxyMemoryStore, ProxyStore
from carrel.security.server.proxy.upstream import Upstream, UpstreamClient, UpstreamRejected
from carrel.security.server.resource_server import ResourceServer, ResourceServerOptions
from carrel.transports.server.route import HTTPRequest, HTTPResponse, Route, make_route

__all__ = ["OAuthProxy"]

#: Seconds for which a verified token is not verified again; a token may stay valid for this time after its grant ended.
REMEMBER = 10.0

#: Maximum size of a request body, in bytes.
MAX_BODY = 16 * 1024

METADATA = "/.well-known/oauth-authorization-server"
OPENID = "/.well-known/openid-configuration"


class ProxyOptions(ResourceServerOptions, total=False):
    """Options of the OAuth proxy.

    Args:
        resource: the URL that clients use; required.
        issuer: the URL of the proxy as an authorization server; by default the origin of ``resource``.
        admit: decides who may log in: called with a ``User``, it returns whether the user may log in, or the scopes to
            grant. Required if anyone can have an account at the upstream.
        keys: keys of 32 bytes; the first key encrypts, every key decrypts. By default, a key for this process only.
        store: store for the encrypted logins: in memory, in a directory (its path), or a custom store.
        access_ttl: lifetime of an access token in seconds.
        refresh_ttl: seconds after which an unused login ends.
        redirect_schemes: URI schemes of applications to allow in redirect URIs, such as "cursor".
        client_documents: accept Client ID Metadata Documents.
    """

    issuer: str | None
    admit: Admission | None
    keys: Sequence[bytes]
    store: ProxyStore | str | PathLike[str] | None
    access_ttl: float
    refresh_ttl: float
    redirect_schemes: Iterable[str]
    client_documents: bool


class OAuthProxy(ResourceServer):
    """Authorization by an upstream authorization server without dynamic client registration.

    ``upstream`` has the authorization server and this server's registration there, with ``{issuer}/callback`` as the
    redirect URI. ``OAuthProxy.github(…)``, ``google``, ``entra``, ``auth0`` and ``keycloak`` create it. For the other
    arguments see ``ProxyOptions``.

    Raises:
        ConfigError: an argument is missing or invalid, or a required package is not installed.
    """

    def __init__(
        self,
        upstream: Upstream,
        *,
        issuer: str | None = None,
        admit: Admission | None = None,
        keys: Sequence[bytes] = (),
        store: ProxyStore | str | PathLike[str] | None = None,
        access_ttl: float = 3600.0,
        refresh_ttl: float = 30 * 24 * 3600.0,
        redirect_schemes: Iterable[str] = (),
        client_documents: bool = True,
        **options: Unpack[ResourceServerOptions],
    ) -> None:
        resource = options.get("resource")
        if resource is None:
            raise ConfigError("OAuthProxy needs resource='https://…', the URL that clients use")
        if options.get("audience") is not None:
            raise ConfigError("OAuthProxy has no audience: its tokens are for its resource")
        parts = urlsplit(resource)
        self.issuer = (issuer or f"{parts.scheme}://{parts.netloc}").rstrip("/")
        options.setdefault("remember", REMEMBER)
        super().__init__([self.issuer], **options)
        if admit is None and upstream.everybody:
            raise ConfigError(
                f"Anyone can have an account at {upstream.name}: say who may log in, with admit=… "
                "(admit=lambda user: True for everybody)"
            )
        if store is not None and not keys:
            raise ConfigError("OAuthProxy with a store needs keys: its contents could not be decrypted after a restart")
        if not 60 <= access_ttl <= 24 * 3600 or refresh_ttl < access_ttl:
            raise ConfigError("access_ttl must be 60 seconds to a day, and refresh_ttl at least as long")
        clock: Clock = lambda: self.clock()  # noqa: E731 - the clock may be replaced
        self._upstream = UpstreamClient(upstream, f"{self.issuer}/callback", clock)
        context = ProxyContext(self.issuer, self.resource or "", self.scopes, Sealer(keys), self._upstream, clock)
        self.clients = Clients(context.sealer, redirect_schemes, documents=client_documents)
        self._grants = ProxyGrants(
            context, _open_store(store), self.remembered.clear, access_ttl=access_ttl, refresh_ttl=refresh_ttl
        )
        self._login = Login(context, self.clients, self._grants, admit)
        self._endpoints = Endpoints(context, self.clients, self._grants)

    @classmethod
    def github(
        cls,
        client_id: str,
        client_secret: str,
        *,
        upstream_scopes: Iterable[str] = providers.GITHUB_SCOPES,
        url: str = providers.GITHUB,
        api: str = providers.GITHUB_API,
        **options: Unpack[ProxyOptions],
    ) -> OAuthProxy:
        """Log in with GitHub, or with ``url`` and ``api`` at a GitHub Enterprise Server (its API is at /api/v3)."""
        return cls(providers.github(client_id, client_secret, scopes=upstream_scopes, url=url, api=api), **options)

    @classmethod
    def google(
        cls,
        client_id: str,
        client_secret: str,
        *,
        upstream_scopes: Iterable[str] = providers.GOOGLE_SCOPES,
        **options: Unpack[ProxyOptions],
    ) -> OAuthProxy:
        """Log in with Google."""
        return cls(providers.google(client_id, client_secret, scopes=upstream_scopes), **options)

    @classmethod
    def entra(
        cls,
        client_id: str,
        client_secret: str,
        *,
        tenant: str,
        upstream_scopes: Iterable[str] = providers.ENTRA_SCOPES,
        authority: str = providers.ENTRA,
        **options: Unpack[ProxyOptions],
    ) -> OAuthProxy:
        """Log in with Microsoft Entra ID: ``tenant`` is a tenant id, or "organizations", "consumers" or "common"."""
        found = providers.entra(client_id, client_secret, tenant=tenant, scopes=upstream_scopes, authority=authority)
        return cls(found, **options)

    @classmethod
    def auth0(
        cls,
        client_id: str,
        client_secret: str,
        *,
        domain: str,
        upstream_scopes: Iterable[str] = providers.AUTH0_SCOPES,
        upstream_audience: str | None = None,
        **options: Unpack[ProxyOptions],
    ) -> OAuthProxy:
        """Log in with Auth0; ``upstream_audience`` is the API for which upstream tokens are issued."""
        found = providers.auth0(
            client_id, client_secret, domain=domain, scopes=upstream_scopes, audience=upstream_audience
        )
        return cls(found, **options)

    @classmethod
    def keycloak(
        cls,
        client_id: str,
        client_secret: str,
        *,
        realm_url: str,
        upstream_scopes: Iterable[str] = providers.KEYCLOAK_SCOPES,
        **options: Unpack[ProxyOptions],
    ) -> OAuthProxy:
        """Log in with Keycloak; ``realm_url`` is the URL of the realm, such as
        https://keycloak.example.org/realms/main.
        """
        return cls(providers.keycloak(client_id, client_secret, realm_url=realm_url, scopes=upstream_scopes), **options)

    async def stop(self) -> None:
        """Close the connections to the upstream."""
        await self._upstream.close()
        await self.clients.close()

    async def verify(self, token: str) -> Principal:
        """Return the principal of a token.

        Raises:
            InvalidToken: the proxy did not issue the token, the token has expired, or its login has ended.
        """
        known = self.remembered.get(token, self.clock())
        if known is not None:
            return known
        access = self._grants.read_access(token)
        grant = None if access is None else await self._grants.load(access.grant)
        if access is None or grant is None:
            raise InvalidToken("The access token is not valid (any more)")
        principal = self.principal(
            {
                **grant.claims,
                "iss": self.issuer,
                "sub": grant.subject,
                "aud": grant.resource,
                "client_id": grant.client,
                "scope": " ".join(grant.scopes),
                "exp": access.expires,
                "jti": grant.id,
            }
        )
        self.remembered.put(token, principal)
        return principal

    async def upstream_token(self, principal: Principal | None) -> str:
        """Return the upstream's access token of a caller, to call its API on their behalf.

        The token is renewed if it has expired. It grants all rights of its scopes: never return it, log it, or send it
        to any server except the upstream.

        Raises:
            AuthorizationError: the login has ended, or the upstream no longer accepts it.
        """
        grant = None
        if principal is not None and principal.issuer == self.issuer and principal.token_id is not None:
            grant = await self._grants.load(principal.token_id)
        if grant is None:
            raise AuthorizationError("The login of this caller has ended")
        try:
            return (await self._grants.renew(grant)).access
        except (UpstreamRejected, Unverifiable) as error:
            raise AuthorizationError(f"There is no token of this caller: {error}") from None

    def routes(self, path: str) -> Sequence[Route]:
        """Return the routes of the authorization server; ``path`` is the path of the MCP endpoint."""
        outside = urlsplit(self.issuer).path
        mounted = urlsplit(self.resource or "").path.removesuffix(path.rstrip("/"))
        inside = outside.removeprefix(mounted)
        documents = {METADATA + outside, inside + METADATA}
        if outside:  # mounted in another application, which does not forward /.well-known
            documents.add(inside + OPENID)
        handlers: list[tuple[str, str, Callable[[HTTPRequest], Awaitable[HTTPResponse]]]] = [
            *(("GET", path, self._endpoints.metadata) for path in sorted(documents)),
            ("GET", f"{inside}/authorize", self._login.authorize),
            ("POST", f"{inside}/consent", self._login.consent),
            ("GET", f"{inside}/callback", self._login.callback),
            ("POST", f"{inside}/register", self._endpoints.register),
            ("POST", f"{inside}/token", self._endpoints.token),
            ("POST", f"{inside}/revoke", self._endpoints.revoke),
        ]
        return [make_route(path, handler, methods=method, max_body=MAX_BODY) for method, path, handler in handlers]


def _open_store(store: ProxyStore | str | PathLike[str] | None) -> ProxyStore:
    if store is None:
        return ProxyMemoryStore()
    return ProxyFileStore(store) if isinstance(store, str | PathLike) else store
