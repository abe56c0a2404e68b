"""Login with WorkOS: as an OAuth proxy, or with AuthKit, which clients register with themselves."""

from __future__ import annotations

from typing import Any

from pydantic import AnyHttpUrl

from carrel.compat.fastmcp.http_library import httpx
from carrel.compat.fastmcp.server.auth.auth import AccessToken, TokenVerifier
from carrel.compat.fastmcp.server.auth.providers.forwarding import ForwardingProvider
from carrel.compat.fastmcp.server.auth.providers.jwt import JWTVerifier
from carrel.compat.fastmcp.server.auth.providers.service import ServiceProxy
from carrel.compat.fastmcp.server.auth.providers.userinfo import UserInfoVerifier, pick
from carrel.compat.fastmcp.utilities.auth import parse_scopes
from carrel.compat.mcp.server.auth.routes import METADATA_PATH

__all__ = ["AuthKitProvider", "WorkOSProvider", "WorkOSTokenVerifier"]


class WorkOSTokenVerifier(UserInfoVerifier):
    """Verifier of the tokens of a WorkOS domain."""

    def __init__(self, *, authkit_domain: str, **options: Any) -> None:
        super().__init__(**options)
        self.authkit_domain = authkit_domain.rstrip("/")

    async def look_up(self, client: httpx.AsyncClient, token: str) -> AccessToken | None:
        """Return the user of a token, and its scopes."""
        user = await self.get(client, f"{self.authkit_domain}/oauth2/userinfo", token)
        if user is None:
            return None
        return AccessToken(
            token=token,
            client_id=str(user.get("sub", "unknown")),
            scopes=parse_scopes(user.get("scope") or user.get("scopes")) or [],
            claims=pick(user, "sub", "email", "email_verified", "name", "given_name", "family_name"),
        )


class WorkOSProvider(ServiceProxy):
    """OAuth proxy in front of WorkOS."""

    def __init__(
        self,
        *,
        client_id: str,
        client_secret: str,
        authkit_domain: str,
        base_url: Any,
        required_scopes: list[str] | None = None,
        valid_scopes: list[str] | None = None,
        timeout_seconds: int = 10,
        http_client: httpx.AsyncClient | None = None,
        **options: Any,
    ) -> None:
        domain = authkit_domain.rstrip("/")
        domain = domain if domain.startswith(("http://", "https://")) else f"https://{domain}"
        verifier = WorkOSTokenVerifier(
            authkit_domain=domain,
            required_scopes=parse_scopes(required_scopes) or [],
            timeout_seconds=timeout_seconds,
            http_client=http_client,
        )
        super().__init__(
            f"{domain}/oauth2/authorize",
            f"{domain}/oauth2/token",
            verifier,
            client_id=client_id,
            client_secret=client_secret,
            base_url=base_url,
            valid_scopes=parse_scopes(valid_scopes),
            **options,
        )


class AuthKitProvider(ForwardingProvider):
    """Resource server for tokens of AuthKit, whose audience is the URL of this server."""

    def __init__(
        self,
        *,
        authkit_domain: AnyHttpUrl | str,
        base_url: AnyHttpUrl | str,
        required_scopes: list[str] | None = None,
        token_verifier: TokenVerifier | None = None,
        **options: Any,
    ) -> None:
        self.authkit_domain = str(authkit_domain).rstrip("/")
        self._auto_bind_audience = token_verifier is None
        super().__init__(
            service="AuthKit",
            metadata_url=f"{self.authkit_domain}{METADATA_PATH}",
            token_verifier=token_verifier
            or JWTVerifier(
                jwks_uri=f"{self.authkit_domain}/oauth2/jwks",
                issuer=self.authkit_domain,
                algorithm="RS256",
                required_scopes=parse_scopes(required_scopes),
            ),
            authorization_server=self.authkit_domain,
            base_url=str(base_url).rstrip("/"),
            **options,
        )

    def set_mcp_path(self, mcp_path: str | None) -> None:
        """Set the path of the MCP endpoint, whose URL is the audience of tokens."""
        super().set_mcp_path(mcp_path)
        if self._auto_bind_audience and self._resource_url is not None and isinstance(self.token_verifier, JWTVerifier):
            self.token_verifier.audience = str(self._resource_url)
