"""Login with Discord."""

from __future__ import annotations

import time
from datetime import datetime
from typing import Any

from carrel.compat.fastmcp.http_library import httpx
from carrel.compat.fastmcp.server.auth.auth import AccessToken
from carrel.compat.fastmcp.server.auth.providers.service import ServiceProxy
from carrel.compat.fastmcp.server.auth.providers.userinfo import UserInfoVerifier, pick
from carrel.compat.fastmcp.utilities.auth import parse_scopes

__all__ = ["DiscordProvider", "DiscordTokenVerifier"]


class DiscordTokenVerifier(UserInfoVerifier):
    """Verifier of Discord's tokens for one application."""

    def __init__(self, *, expected_client_id: str, **options: Any) -> None:
        super().__init__(**options)
        self.expected_client_id = expected_client_id

    async def look_up(self, client: httpx.AsyncClient, token: str) -> AccessToken | None:
        """Return the user of a token that was issued for the application."""
        about = await self.get(client, "https://discord.com/api/oauth2/@me", token)
        if about is None or str((about.get("application") or {}).get("id")) != self.expected_client_id:
            return None
        given = about.get("expires")
        expires = int(datetime.fromisoformat(given).timestamp()) if given else None
        if expires is not None and expires <= time.time():
            return None
        user = about.get("user") or {}
        return AccessToken(
            token=token,
            client_id=self.expected_client_id,
            scopes=about.get("scopes", []),
            expires_at=expires,
            claims={
                "sub": user.get("id"),
                **pick(user, "username", "discriminator", "avatar", "email", "verified", "locale"),
                "discord_user": user,
                "discord_token_info": about,
            },
        )


class DiscordProvider(ServiceProxy):
    """OAuth proxy in front of Discord."""

    def __init__(
        self,
        *,
        client_id: str,
        client_secret: str,
        base_url: Any,
        required_scopes: list[str] | None = None,
        timeout_seconds: int = 10,
        http_client: httpx.AsyncClient | None = None,
        **options: Any,
    ) -> None:
        verifier = DiscordTokenVerifier(
            expected_client_id=client_id,
            required_scopes=["identify"] if required_scopes is None else parse_scopes(required_scopes),
            timeout_seconds=timeout_seconds,
            http_client=http_client,
        )
        super().__init__(
            "https://discord.com/oauth2/authorize",
            "https://discord.com/api/oauth2/token",
            verifier,
            client_id=client_id,
            client_secret=client_secret,
            base_url=base_url,
            **options,
        )
