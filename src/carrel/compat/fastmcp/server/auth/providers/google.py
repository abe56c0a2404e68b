"""Login with Google."""

from __future__ import annotations

import time
from typing import Any

from carrel.compat.fastmcp.http_library import httpx
from carrel.compat.fastmcp.server.auth.auth import AccessToken
from carrel.compat.fastmcp.server.auth.providers.service import ServiceProxy
from carrel.compat.fastmcp.server.auth.providers.userinfo import UserInfoVerifier, pick
from carrel.compat.fastmcp.utilities.auth import parse_scopes

__all__ = ["GOOGLE_SCOPE_ALIASES", "GoogleProvider", "GoogleTokenVerifier"]

#: Full names of scopes, as tokens have them.
GOOGLE_SCOPE_ALIASES = {name: f"https://www.googleapis.com/auth/userinfo.{name}" for name in ("email", "profile")}


def _full(scopes: Any) -> list[str] | None:
    found = parse_scopes(scopes)
    return None if found is None else [GOOGLE_SCOPE_ALIASES.get(each, each) for each in found]


class GoogleTokenVerifier(UserInfoVerifier):
    """Verifier of Google's tokens."""

    def __init__(self, *, required_scopes: list[str] | None = None, **options: Any) -> None:
        super().__init__(required_scopes=_full(required_scopes), **options)

    async def look_up(self, client: httpx.AsyncClient, token: str) -> AccessToken | None:
        """Return the user of a token, and its scopes."""
        response = await client.get("https://oauth2.googleapis.com/tokeninfo", params={"access_token": token})
        about = response.json() if response.status_code == 200 else {}
        if not about.get("aud") or not about.get("sub"):
            return None
        try:
            user = await self.get(client, "https://www.googleapis.com/oauth2/v2/userinfo", token) or {}
        except (httpx.HTTPError, ValueError):
            user = {}
        expires = str(about.get("expires_in") or "")
        return AccessToken(
            token=token,
            client_id=about["sub"],
            scopes=about.get("scope", "").split(),
            expires_at=int(time.time()) + int(expires) if expires.isdecimal() else None,
            claims={
                **pick(about, "sub", "aud"),
                "email": about.get("email") or user.get("email"),
                "email_verified": about.get("email_verified") or user.get("verified_email"),
                **pick(user, "name", "picture", "given_name", "family_name", "locale"),
                "google_user_data": user or None,
            },
        )


class GoogleProvider(ServiceProxy):
    """OAuth proxy in front of Google."""

    def __init__(
        self,
        *,
        client_id: str,
        client_secret: str | None = None,
        base_url: Any,
        required_scopes: list[str] | None = None,
        valid_scopes: list[str] | None = None,
        timeout_seconds: int = 10,
        http_client: httpx.AsyncClient | None = None,
        extra_authorize_params: dict[str, str] | None = None,
        **options: Any,
    ) -> None:
        verifier = GoogleTokenVerifier(
            required_scopes=["openid"] if required_scopes is None else required_scopes,
            timeout_seconds=timeout_seconds,
            http_client=http_client,
        )
        super().__init__(
            "https://accounts.google.com/o/oauth2/v2/auth",
            "https://oauth2.googleapis.com/token",
            verifier,
            client_id=client_id,
            client_secret=client_secret,
            base_url=base_url,
            valid_scopes=_full(valid_scopes),
            extra_authorize_params={"access_type": "offline", "prompt": "consent", **(extra_authorize_params or {})},
            **options,
        )
