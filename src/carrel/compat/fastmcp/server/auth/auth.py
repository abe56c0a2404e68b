"""Authorization of servers: providers that verify tokens, and the routes that clients need to get them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from urllib.parse import urlsplit

from pydantic import AnyHttpUrl, Field
from starlette.middleware import Middleware
from starlette.middleware.authentication import AuthenticationMiddleware
from starlette.routing import Route

from carrel.compat.fastmcp.server.auth.token_handler import TokenHandler
from carrel.compat.mcp.server.auth import provider as mcp_provider
from carrel.compat.mcp.server.auth.middleware.auth_context import AuthContextMiddleware
from carrel.compat.mcp.server.auth.middleware.bearer_auth import BearerAuthBackend
from carrel.compat.mcp.server.auth.middleware.client_auth import ClientAuthenticator
from carrel.compat.mcp.server.auth.provider import AuthorizationCode, RefreshToken
from carrel.compat.mcp.server.auth.routes import (
    METADATA_PATH,
    TOKEN_PATH,
    create_auth_routes,
    create_protected_resource_routes,
    post_route,
)
from carrel.compat.mcp.server.auth.settings import ClientRegistrationOptions, RevocationOptions
from carrel.log import Log

__all__ = [
    "AccessToken",
    "AuthProvider",
    "AuthorizationCode",
    "MultiAuth",
    "OAuthProvider",
    "RefreshToken",
    "RemoteAuthProvider",
    "TokenHandler",
    "TokenVerifier",
]

log = Log("carrel.compat")

OPENID_PATH = "/.well-known/openid-configuration"


class AccessToken(mcp_provider.AccessToken):
    """Verified access token with all claims."""

    claims: dict[str, Any] = Field(default_factory=dict)


def url_of(value: AnyHttpUrl | str | None) -> Any:
    """Return a URL as one."""
    return AnyHttpUrl(value) if isinstance(value, str) else value


class AuthProvider(mcp_provider.TokenVerifier):
    """Base class: verifies tokens, and may have routes.

    ``base_url`` is the URL of this server for clients; ``resource_base_url`` the URL of the protected resource, if it
    is another.
    """

    def __init__(
        self,
        base_url: AnyHttpUrl | str | None = None,
        required_scopes: list[str] | None = None,
        resource_base_url: AnyHttpUrl | str | None = None,
    ) -> None:
        self.base_url = url_of(base_url)
        self.resource_base_url = url_of(resource_base_url)
        self.required_scopes = required_scopes or []
        self._mcp_path: str | None = None
        self._resource_url: AnyHttpUrl | None = None

    @property
    def challenge_scopes(self) -> list[str]:
        """Scopes that responses to requests without a valid token tell clients to request."""
        return self.get_challenge_scopes()

    def get_challenge_scopes(self, required_scopes: list[str] | None = None) -> list[str]:
        """Return the scopes that clients should request to get the required scopes (default: of the provider)."""
        return self.required_scopes if required_scopes is None else required_scopes

    async def verify_token(self, token: str) -> AccessToken | None:
        """Return the access token, or None if it is not valid."""
        raise NotImplementedError("Subclasses must implement verify_token")

    def set_mcp_path(self, mcp_path: str | None) -> None:
        """Set the path of the MCP endpoint."""
        self._mcp_path = mcp_path
        self._resource_url = self._get_resource_url(mcp_path)

    def get_routes(self, mcp_path: str | None = None) -> list[Route]:
        """Return the routes beside the MCP endpoint, whose path is ``mcp_path``."""
        return []

    def get_well_known_routes(self, mcp_path: str | None = None) -> list[Route]:
        """Return the routes of metadata documents, which belong at the root of a host."""
        routes = self.get_routes(mcp_path)
        return [each for each in routes if isinstance(each, Route) and each.path.startswith("/.well-known/")]

    def get_middleware(self) -> list[Middleware]:
        """Return the middleware that authenticates requests."""
        return [
            Middleware(AuthenticationMiddleware, backend=BearerAuthBackend(self)),
            Middleware(AuthContextMiddleware),
        ]

    def _get_resource_url(self, path: str | None = None) -> AnyHttpUrl | None:
        base: AnyHttpUrl | None = self.resource_base_url or self.base_url
        if base is None or not path:
            return base
        return AnyHttpUrl(f"{str(base).rstrip('/')}/{path.lstrip('/')}")


class TokenVerifier(AuthProvider):
    """Base class of verifiers of tokens that others issue."""

    @property
    def scopes_supported(self) -> list[str]:
        """Scopes that clients should request: the required scopes."""
        return self.required_scopes or []


class RemoteAuthProvider(AuthProvider):
    """Resource server: a verifier, and metadata that name the authorization servers (RFC 9728)."""

    def __init__(
        self,
        token_verifier: TokenVerifier,
        authorization_servers: list[AnyHttpUrl],
        base_url: AnyHttpUrl | str,
        scopes_supported: list[str] | None = None,
        resource_base_url: AnyHttpUrl | str | None = None,
        resource_name: str | None = None,
        resource_documentation: AnyHttpUrl | None = None,
        challenge_scopes: list[str] | None = None,
    ) -> None:
        super().__init__(base_url, token_verifier.required_scopes, resource_base_url)
        self.token_verifier = token_verifier
        self.authorization_servers = authorization_servers
        self._scopes_supported = scopes_supported
        self._challenge_scopes = challenge_scopes
        self.resource_name = resource_name
        self.resource_documentation = resource_documentation

    @property
    def scopes_supported(self) -> list[str]:
        """Scopes in the metadata."""
        return self.token_verifier.scopes_supported if self._scopes_supported is None else self._scopes_supported

    def get_challenge_scopes(self, required_scopes: list[str] | None = None) -> list[str]:
        """Return ``challenge_scopes`` for the required scopes of the provider, or else the scopes of the verifier."""
        if self._challenge_scopes is not None and required_scopes in (None, self.required_scopes):
            return self._challenge_scopes
        if isinstance(self.token_verifier, AuthProvider):
            return self.token_verifier.get_challenge_scopes(required_scopes)
        return super().get_challenge_scopes(required_scopes)

    async def verify_token(self, token: str) -> AccessToken | None:
        """Return the access token, or None if the verifier rejects it."""
        return await self.token_verifier.verify_token(token)

    def get_routes(self, mcp_path: str | None = None) -> list[Route]:
        """Return the route of the metadata."""
        self.set_mcp_path(mcp_path)
        if self._resource_url is None:
            return []
        return create_protected_resource_routes(
            self._resource_url,
            self.authorization_servers,
            self.scopes_supported,
            self.resource_name,
            self.resource_documentation,
        )


class MultiAuth(AuthProvider):
    """Several sources of tokens: a provider with routes, and verifiers, of which the first that accepts a token counts.

    Raises:
        ValueError: there is no source.
    """

    def __init__(
        self,
        *,
        server: AuthProvider | None = None,
        verifiers: dict[str, TokenVerifier] | list[TokenVerifier] | TokenVerifier | None = None,
        base_url: AnyHttpUrl | str | None = None,
        resource_base_url: AnyHttpUrl | str | None = None,
        required_scopes: list[str] | None = None,
    ) -> None:
        if isinstance(verifiers, dict):
            verifiers = list(verifiers.values())
        given = [verifiers] if isinstance(verifiers, TokenVerifier) else list(verifiers or ())
        if server is None and not given:
            raise ValueError("MultiAuth requires at least a server or one verifier")
        self._required_scopes_override = required_scopes
        if required_scopes is None and server is not None:
            required_scopes = server.required_scopes
        super().__init__(
            base_url or (None if server is None else server.base_url),
            required_scopes,
            resource_base_url or (None if server is None else server.resource_base_url),
        )
        if server is not None and resource_base_url is not None:
            server.resource_base_url = self.resource_base_url
        self.server = server
        self.verifiers = given
        self._sources: list[AuthProvider] = [*([] if server is None else [server]), *given]

    @property
    def scopes_supported(self) -> list[str]:
        """Scopes of the server, or the required scopes if there is no server."""
        return list(getattr(self.server, "scopes_supported", self.required_scopes))

    def get_challenge_scopes(self, required_scopes: list[str] | None = None) -> list[str]:
        """Return the scopes that clients should request, as the server or the only verifier says."""
        wanted = self._required_scopes_override if required_scopes is None else required_scopes
        chosen = self._sources[0] if self.server is not None or len(self._sources) == 1 else None
        if chosen is not None:
            return chosen.get_challenge_scopes(wanted)
        return self.required_scopes if wanted is None else wanted

    async def verify_token(self, token: str) -> AccessToken | None:
        """Return the access token of the first source that accepts it. A source that fails does not accept it."""
        for source in self._sources:
            try:
                found = await source.verify_token(token)
            except Exception as error:
                log.warning("%s did not verify a token: %s", type(source).__name__, error)
                continue
            if found is not None:
                return found
        return None

    def set_mcp_path(self, mcp_path: str | None) -> None:
        """Set the path of the MCP endpoint, also for the sources."""
        super().set_mcp_path(mcp_path)
        for source in self._sources:
            source.set_mcp_path(mcp_path)

    def get_routes(self, mcp_path: str | None = None) -> list[Route]:
        """Return the routes of the server."""
        return [] if self.server is None else self.server.get_routes(mcp_path)

    def get_well_known_routes(self, mcp_path: str | None = None) -> list[Route]:
        """Return the routes of metadata documents of the server."""
        return [] if self.server is None else self.server.get_well_known_routes(mcp_path)


class OAuthProvider(AuthProvider, mcp_provider.OAuthAuthorizationServerProvider[Any, Any, Any]):
    """Base class of authorization servers, whose subclasses store clients, codes and tokens."""

    def __init__(
        self,
        *,
        base_url: AnyHttpUrl | str,
        resource_base_url: AnyHttpUrl | str | None = None,
        issuer_url: AnyHttpUrl | str | None = None,
        service_documentation_url: AnyHttpUrl | str | None = None,
        client_registration_options: ClientRegistrationOptions | None = None,
        revocation_options: RevocationOptions | None = None,
        required_scopes: list[str] | None = None,
    ) -> None:
        super().__init__(base_url, required_scopes, resource_base_url)
        self.issuer_url = self.base_url if issuer_url is None else url_of(issuer_url)
        self.service_documentation_url = url_of(service_documentation_url)
        self.client_registration_options = client_registration_options
        self.revocation_options = revocation_options

    async def verify_token(self, token: str) -> AccessToken | None:
        """Return the access token, or None if this server did not issue it."""
        found: AccessToken | None = await self.load_access_token(token)
        return found

    def _client_authenticator(self) -> ClientAuthenticator:
        return ClientAuthenticator(self)

    def get_routes(self, mcp_path: str | None = None) -> list[Route]:
        """Return the routes of the authorization server and of the metadata of the resource."""
        self.set_mcp_path(mcp_path)
        routes = [
            self._token_route() if route.path == TOKEN_PATH else route
            for route in create_auth_routes(
                self,
                self.base_url,
                self.service_documentation_url,
                self.client_registration_options,
                self.revocation_options,
            )
        ]
        if self._resource_url is not None:
            options = self.client_registration_options
            scopes = (options and options.valid_scopes) or self.required_scopes
            routes += create_protected_resource_routes(self._resource_url, [self.issuer_url], scopes)
        return routes

    def _token_route(self) -> Route:
        return post_route(TOKEN_PATH, TokenHandler(self, self._client_authenticator()).handle)

    def get_well_known_routes(self, mcp_path: str | None = None) -> list[Route]:
        """Return the routes of metadata documents, with the path of the issuer after the name (RFC 8414)."""
        path = urlsplit(str(self.issuer_url)).path.rstrip("/")
        names = [METADATA_PATH + path, *([OPENID_PATH + path] if path else []), OPENID_PATH]
        return [
            also
            for route in super().get_well_known_routes(mcp_path)
            for also in (_copies(route, names) if route.path == METADATA_PATH else [route])
        ]


def _copies(route: Route, paths: Sequence[str]) -> list[Route]:
    return [Route(path, route.endpoint, methods=list(route.methods or ())) for path in paths]
