"""Login with Auth0."""

from __future__ import annotations

from typing import Any

from pydantic import AnyHttpUrl

from carrel.compat.fastmcp.server.auth.auth import TokenVerifier
from carrel.compat.fastmcp.server.auth.oidc_proxy import OIDCConfiguration, OIDCProxy
from carrel.compat.fastmcp.server.auth.providers.forwarding import ForwardingProvider
from carrel.compat.fastmcp.server.auth.providers.jwt import JWTVerifier
from carrel.compat.fastmcp.utilities.auth import parse_scopes

__all__ = ["Auth0JWTVerifier", "Auth0MCPProvider", "Auth0Provider"]

#: Default time limit for the request of the OpenID configuration.
TIMEOUT_SECONDS = 10


class Auth0Provider(OIDCProxy):
    """OAuth proxy in front of Auth0."""

    def __init__(self, *, required_scopes: list[str] | None = None, **options: Any) -> None:
        scopes = ["openid"] if required_scopes is None else parse_scopes(required_scopes)
        super().__init__(required_scopes=scopes, **options)


class Auth0JWTVerifier(JWTVerifier):
    """Verifier of access tokens of Auth0, whose permissions are scopes too."""

    def _extract_scopes(self, claims: dict[str, Any]) -> list[str]:
        given = claims.get("permissions") or []
        more = given.split() if isinstance(given, str) else [str(each) for each in given]
        return [*super()._extract_scopes(claims), *more]


class Auth0MCPProvider(ForwardingProvider):
    """Resource server for tokens that Auth0 issues for the URL of this server. Clients register with Auth0."""

    def __init__(
        self,
        *,
        config_url: AnyHttpUrl | str,
        base_url: AnyHttpUrl | str,
        required_scopes: list[str] | None = None,
        token_verifier: TokenVerifier | None = None,
        timeout_seconds: int | None = TIMEOUT_SECONDS,
        **options: Any,
    ) -> None:
        found = OIDCConfiguration.get_oidc_configuration(
            AnyHttpUrl(str(config_url)), strict=None, timeout_seconds=timeout_seconds
        )
        self.issuer = str(found.issuer).rstrip("/")
        self._has_own_verifier = token_verifier is not None
        if token_verifier is None:
            token_verifier = Auth0JWTVerifier(
                jwks_uri=str(found.jwks_uri),
                issuer=str(found.issuer),
                algorithm="RS256",
                required_scopes=parse_scopes(required_scopes),
            )
        super().__init__(
            service="Auth0",
            metadata_url=f"{self.issuer}/.well-known/oauth-authorization-server",
            token_verifier=token_verifier,
            authorization_server=self.issuer,
            base_url=base_url,
            **options,
        )

    def set_mcp_path(self, mcp_path: str | None) -> None:
        """Set the path of the MCP endpoint. Its URL is the audience of tokens, except for a verifier of the program."""
        super().set_mcp_path(mcp_path)
        verifier = self.token_verifier
        if not self._has_own_verifier and isinstance(verifier, JWTVerifier) and self._resource_url is not None:
            verifier.audience = str(self._resource_url)
