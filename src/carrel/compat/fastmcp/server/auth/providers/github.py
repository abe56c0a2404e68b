"""Login with GitHub."""

from __future__ import annotations

from typing import Any

from carrel.compat.fastmcp.http_library import httpx
from carrel.compat.fastmcp.server.auth.auth import AccessToken
from carrel.compat.fastmcp.server.auth.providers.service import ServiceProxy
from carrel.compat.fastmcp.server.auth.providers.userinfo import UserInfoVerifier, pick
from carrel.compat.fastmcp.utilities.auth import parse_scopes

__all__ = ["GitHubProvider", "GitHubTokenVerifier"]

ACCEPT = {"Accept": "application/vnd.github.v3+json"}


class GitHubTokenVerifier(UserInfoVerifier):
    """Verifier of GitHub's tokens, whose scopes are in a header of its API."""

    async def look_up(self, client: httpx.AsyncClient, token: str) -> AccessToken | None:
        """Return the user of a token, and its scopes."""
        user = await self.get(client, "https://api.github.com/user", token, headers=ACCEPT)
        if user is None:
            return None
        headers = {"Authorization": f"Bearer {token}", **ACCEPT}
        response = await client.get("https://api.github.com/user/repos", headers=headers)
        response.raise_for_status()
        scopes = [each.strip() for each in response.headers.get("x-oauth-scopes", "").split(",") if each.strip()]
        claims = {"sub": str(user["id"]), **pick(user, "login", "name", "email", "avatar_url")}
        return AccessToken(
            token=token,
            client_id=str(user["id"]),
            scopes=scopes or ["user"],
            claims={**claims, "github_user_data": user},
        )


class GitHubProvider(ServiceProxy):
    """OAuth proxy in front of GitHub."""

    def __init__(
        self,
        *,
        client_id: str,
        client_secret: str,
        base_url: Any,
        required_scopes: list[str] | None = None,
        timeout_seconds: int = 10,
        cache_ttl_seconds: int | None = None,
        max_cache_size: int | None = None,
        http_client: httpx.AsyncClient | None = None,
        **options: Any,
    ) -> None:
        verifier = GitHubTokenVerifier(
            required_scopes=["user"] if required_scopes is None else parse_scopes(required_scopes),
            timeout_seconds=timeout_seconds,
            cache_ttl_seconds=cache_ttl_seconds,
            max_cache_size=max_cache_size,
            http_client=http_client,
        )
        super().__init__(
            "https://github.com/login/oauth/authorize",
            "https://github.com/login/oauth/access_token",
            verifier,
            client_id=client_id,
            client_secret=client_secret,
            base_url=base_url,
            **options,
        )
