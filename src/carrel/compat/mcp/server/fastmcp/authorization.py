"""Authorization of a server with decorators: middleware, routes, and the protection of its endpoints."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from carrel.compat.mcp.server.auth.provider import (
    OAuthAuthorizationServerProvider,
    ProviderTokenVerifier,
    TokenVerifier,
)
from carrel.compat.mcp.server.auth.settings import AuthSettings
from carrel.compat.serving import Guarded, guarded

if TYPE_CHECKING:
    from starlette.middleware import Middleware
    from starlette.routing import Route

__all__ = ["Protection", "check_authorization"]


def check_authorization(settings: AuthSettings | None, provider: Any, verifier: Any) -> None:
    """Check that settings come with either an authorization server or a token verifier.

    Raises:
        ValueError: one of them is missing, or both are given.
    """
    if settings is None:
        if provider or verifier:
            raise ValueError("Cannot specify auth_server_provider or token_verifier without auth settings")
    elif provider and verifier:
        raise ValueError("Cannot specify both auth_server_provider and token_verifier")
    elif not provider and not verifier:
        raise ValueError("Must specify either auth_server_provider or token_verifier when auth is enabled")


@dataclass
class Protection:
    """Authorization of the endpoints of a server. Without ``settings``, everything is open."""

    settings: AuthSettings | None
    provider: OAuthAuthorizationServerProvider[Any, Any, Any] | None
    verifier: TokenVerifier | None

    def middleware(self) -> list[Middleware]:
        """Return the middleware that authenticates requests."""
        if self.settings is None:
            return []
        from starlette.middleware import Middleware
        from starlette.middleware.authentication import AuthenticationMiddleware

        from carrel.compat.mcp.server.auth.middleware.auth_context import AuthContextMiddleware
        from carrel.compat.mcp.server.auth.middleware.bearer_auth import BearerAuthBackend

        verifier = self.verifier
        if verifier is None:
            assert self.provider is not None
            verifier = ProviderTokenVerifier(self.provider)
        resource = self.settings.resource_server_url if self.settings.validate_token_resource else None
        backend = BearerAuthBackend(verifier, resource_server_url=resource)
        return [Middleware(AuthenticationMiddleware, backend=backend), Middleware(AuthContextMiddleware)]

    def guard(self, endpoint: Any) -> Any:
        """Return an endpoint that only requests with a valid token reach."""
        settings = self.settings
        if settings is None:
            return endpoint
        from carrel.compat.mcp.server.auth.middleware.bearer_auth import RequireAuthMiddleware
        from carrel.compat.mcp.server.auth.routes import build_resource_metadata_url

        url = settings.resource_server_url
        metadata = None if url is None else build_resource_metadata_url(url)
        return RequireAuthMiddleware(endpoint, settings.required_scopes or [], metadata)

    def guarded(self) -> Guarded | None:
        """Return the authorization for commands that serve the server in place of the program; None without any."""
        return None if self.settings is None else guarded(self.middleware(), self.guard, self.routes())

    def routes(self) -> list[Route]:
        """Return the routes of the authorization server, and of the metadata of this server."""
        settings = self.settings
        if settings is None:
            return []
        from carrel.compat.mcp.server.auth.routes import create_auth_routes, create_protected_resource_routes

        routes: list[Route] = []
        if self.provider is not None:
            routes += create_auth_routes(
                self.provider,
                settings.issuer_url,
                settings.service_documentation_url,
                settings.client_registration_options,
                settings.revocation_options,
                settings.identity_assertion_enabled,
            )
        if settings.resource_server_url is not None:
            routes += create_protected_resource_routes(
                settings.resource_server_url, [settings.issuer_url], settings.required_scopes
            )
        return routes
