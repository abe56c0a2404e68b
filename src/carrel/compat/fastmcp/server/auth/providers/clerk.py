"""Login with Clerk."""

from __future__ import annotations

from typing import Any

from carrel.compat.fastmcp.http_library import httpx
from carrel.compat.fastmcp.server.auth.auth import AccessToken
from carrel.compat.fastmcp.server.auth.providers.service import ServiceProxy
from carrel.compat.fastmcp.server.auth.providers.userinfo import UserInfoVerifier, pick
from carrel.compat.fastmcp.utilities.auth import parse_scopes

__all__ = ["ClerkProvider", "ClerkTokenVerifier"]


class ClerkTokenVerifier(UserInfoVerifier):
    """Verifier of the tokens of a Clerk domain, issued for one application if ``client_id`` is given."""

    def __init__(
        self, *, domain: str, client_id: str | None = None, client_secret: str | None = None, **options: Any
    ) -> None:
        super().__init__(**options)
        self.domain = domain
        self._client_id = client_id
        self._client_secret = client_secret

    async def look_up(self, client: httpx.AsyncClient, token: str) -> AccessToken | None:
        """Return the user of a token that is active."""
        form = {"token": token}
        options: dict[str, Any] = {}
        if self._client_id and self._client_secret:
            options["auth"] = (self._client_id, self._client_secret)
        elif self._client_id:
            form["client_id"] = self._client_id
        response = await client.post(f"https://{self.domain}/oauth/token_info", data=form, **options)
        about = response.json() if response.status_code == 200 else {}
        audience = about.get("aud") or about.get("client_id")
        if about.get("active") is not True or (self._client_id and audience != self._client_id):
            return None
        try:
            user = await self.get(client, f"https://{self.domain}/oauth/userinfo", token) or {}
        except (httpx.HTTPError, ValueError):
            user = {}
        subject, expires = about.get("sub") or user.get("sub"), about.get("exp")
        if not subject:
            return None
        return AccessToken(
            token=token,
            client_id=audience or subject,
            scopes=(about.get("scope") or "").split(),
            expires_at=int(expires) if isinstance(expires, int | float) else None,
            claims={
                "sub": subject,
                "aud": audience,
                **pick(user, "email", "email_verified", "name", "picture", "given_name", "family_name"),
                **pick(user, "preferred_username"),
                "clerk_user_data": user or None,
            },
        )


class ClerkProvider(ServiceProxy):
    """OAuth proxy in front of a Clerk domain."""

    def __init__(
        self,
        *,
        domain: str,
        client_id: str,
        client_secret: str | None = None,
        base_url: Any,
        required_scopes: list[str] | None = None,
        valid_scopes: list[str] | None = None,
        timeout_seconds: int = 10,
        http_client: httpx.AsyncClient | None = None,
        **options: Any,
    ) -> None:
        domain = domain.removeprefix("https://").removeprefix("http://").rstrip("/")
        scopes = ["openid", "email", "profile"] if required_scopes is None else parse_scopes(required_scopes)
        verifier = ClerkTokenVerifier(
            domain=domain,
            client_id=client_id,
            client_secret=client_secret,
            required_scopes=scopes,
            timeout_seconds=timeout_seconds,
            http_client=http_client,
        )
        super().__init__(
            f"https://{domain}/oauth/authorize",
            f"https://{domain}/oauth/token",
            verifier,
            client_id=client_id,
            client_secret=client_secret,
            base_url=base_url,
            valid_scopes=parse_scopes(valid_scopes),
            **options,
        )
