"""Login with Hugging Face."""

from __future__ import annotations

from typing import Any

from carrel.compat.fastmcp.http_library import httpx
from carrel.compat.fastmcp.server.auth.auth import AccessToken
from carrel.compat.fastmcp.server.auth.providers.service import ServiceProxy
from carrel.compat.fastmcp.server.auth.providers.userinfo import UserInfoVerifier, pick
from carrel.compat.fastmcp.utilities.auth import parse_scopes

__all__ = ["DEFAULT_HUGGINGFACE_SCOPES", "HuggingFaceProvider", "HuggingFaceTokenVerifier"]

DEFAULT_HUGGINGFACE_SCOPES = ["openid", "profile"]


class HuggingFaceTokenVerifier(UserInfoVerifier):
    """Verifier of the tokens of Hugging Face."""

    async def look_up(self, client: httpx.AsyncClient, token: str) -> AccessToken | None:
        """Return the user of a token, and its scopes."""
        user = await self.get(client, "https://huggingface.co/oauth/userinfo", token)
        if not user or not user.get("sub"):
            return None
        scopes = _scopes(user)
        account = None
        if not scopes or not set(self.required_scopes).issubset(scopes):
            account = await self.get(client, "https://huggingface.co/api/whoami-v2", token)
            scopes = list(dict.fromkeys([*scopes, *_scopes(account or {})]))
        name = user.get("preferred_username") or user.get("nickname") or user.get("name")
        return AccessToken(
            token=token,
            client_id=str(user["sub"]),
            scopes=scopes or list(DEFAULT_HUGGINGFACE_SCOPES),
            claims={
                "sub": str(user["sub"]),
                **pick(user, "name", "email", "email_verified", "profile", "picture", "organizations"),
                "preferred_username": name,
                "huggingface_userinfo": user,
                "huggingface_whoami": account,
            },
        )


def _scopes(values: dict[str, Any]) -> list[str]:
    return parse_scopes(values.get("scope") or values.get("scopes")) or []


class HuggingFaceProvider(ServiceProxy):
    """OAuth proxy in front of Hugging Face."""

    def __init__(
        self,
        *,
        client_id: str,
        client_secret: str | None = None,
        base_url: Any,
        required_scopes: list[str] | None = None,
        timeout_seconds: int = 10,
        http_client: httpx.AsyncClient | None = None,
        **options: Any,
    ) -> None:
        verifier = HuggingFaceTokenVerifier(
            required_scopes=list(DEFAULT_HUGGINGFACE_SCOPES)
            if required_scopes is None
            else parse_scopes(required_scopes),
            timeout_seconds=timeout_seconds,
            http_client=http_client,
        )
        super().__init__(
            "https://huggingface.co/oauth/authorize",
            "https://huggingface.co/oauth/token",
            verifier,
            client_id=client_id,
            client_secret=client_secret,
            base_url=base_url,
            **options,
        )
