"""OAuth of a client without a browser, for tests of programs."""

from __future__ import annotations

from typing import Any
from urllib.parse import parse_qsl, urlsplit

import httpx

from carrel.compat.fastmcp.client.auth.oauth import OAuth

__all__ = ["HeadlessOAuth"]


class HeadlessOAuth(OAuth):
    """Credentials that request the authorization URL themselves, and read the redirect."""

    def __init__(self, mcp_url: str, **options: Any) -> None:
        self._stored_response: httpx.Response | None = None
        super().__init__(mcp_url, **options)

    async def redirect_handler(self, authorization_url: str) -> None:
        """Request the authorization URL."""
        async with httpx.AsyncClient() as client:
            self._stored_response = await client.get(authorization_url, follow_redirects=False)

    async def callback_handler(self) -> tuple[str, str | None]:
        """Return code and state of the redirect.

        Raises:
            RuntimeError: there was no redirect, or it has an error.
        """
        response = self._stored_response
        if response is None:
            raise RuntimeError("redirect_handler must be called first.")
        if response.status_code != 302:
            raise RuntimeError(f"Authorization failed: {response.status_code}")
        given = dict(parse_qsl(urlsplit(response.headers["location"]).query, keep_blank_values=True))
        if "error" in given:
            raise RuntimeError(f"OAuth authorization failed: {given['error']} - {given.get('error_description')}")
        return given["code"], given.get("state")
