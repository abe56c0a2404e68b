"""Verifiers of opaque tokens, which ask the API of the service that issued them."""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any

from carrel.compat.fastmcp.http_library import httpx
from carrel.compat.fastmcp.server.auth.auth import AccessToken, TokenVerifier
from carrel.compat.fastmcp.utilities.auth import parse_scopes
from carrel.compat.fastmcp.utilities.token_cache import TokenCache
from carrel.log import Log

__all__ = ["UserInfoVerifier", "pick"]

log = Log("carrel.compat")


class UserInfoVerifier(TokenVerifier):
    """Base class: ``look_up`` asks the service about a token, and the required scopes are checked here."""

    def __init__(
        self,
        *,
        required_scopes: list[str] | None = None,
        timeout_seconds: int = 10,
        cache_ttl_seconds: int | None = None,
        max_cache_size: int | None = None,
        http_client: httpx.AsyncClient | None = None,
    ) -> None:
        super().__init__(required_scopes=parse_scopes(required_scopes))
        self.timeout_seconds = timeout_seconds
        self._http_client = http_client
        self._cache = TokenCache(ttl_seconds=cache_ttl_seconds, max_size=max_cache_size)

    async def look_up(self, client: httpx.AsyncClient, token: str) -> AccessToken | None:
        """Return the service's response about a token, or None if the token is not valid."""
        raise NotImplementedError

    async def get(self, client: httpx.AsyncClient, url: str, token: str, **options: Any) -> Any:
        """Return the JSON at a URL that the token gives access to; None for an error."""
        headers = {"Authorization": f"Bearer {token}", **options.pop("headers", {})}
        response = await client.get(url, headers=headers, **options)
        return response.json() if response.status_code == 200 else None

    async def verify_token(self, token: str) -> AccessToken | None:
        """Return the access token. None if the service rejects it or does not answer, or a scope is missing."""
        cached, found = self._cache.get(token)
        if cached:
            return found
        own = self._http_client
        try:
            async with httpx.AsyncClient(timeout=self.timeout_seconds) if own is None else nullcontext(own) as client:
                found = await self.look_up(client, token)
        except Exception as error:
            log.debug("a token was not verified: %s", error)
            return None
        if found is None or not set(self.required_scopes).issubset(found.scopes):
            return None
        self._cache.set(token, found)
        return found


def pick(values: dict[str, Any], *names: str) -> dict[str, Any]:
    """Return some members of an object; missing members are None."""
    return {name: values.get(name) for name in names}
