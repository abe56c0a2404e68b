"""Requests of the OAuth proxy to the token endpoint of the upstream."""

from __future__ import annotations

from base64 import b64encode
from typing import Any
from urllib.parse import quote_plus

from carrel.compat.fastmcp.http_library import httpx

__all__ = ["AsyncOAuth2Client"]


class AsyncOAuth2Client:
    """Client of the upstream. It authenticates with its secret, in a header or in the form."""

    def __init__(
        self,
        client_id: str,
        client_secret: str | None = None,
        token_endpoint_auth_method: str | None = None,
        timeout: float = 30.0,
    ) -> None:
        self.client_id = client_id
        self.client_secret = client_secret
        self._method = token_endpoint_auth_method or ("client_secret_basic" if client_secret else "none")
        self._http = httpx.AsyncClient(timeout=timeout)

    async def fetch_token(self, url: str, code: str, redirect_uri: str, **more: Any) -> dict[str, Any]:
        """Return the tokens for an authorization code.

        Raises:
            RuntimeError: the upstream refuses the request.
        """
        form = {"grant_type": "authorization_code", "code": code, "redirect_uri": redirect_uri, **more}
        return await self._ask(url, form)

    async def refresh_token(
        self, url: str, refresh_token: str, scope: str | None = None, **more: Any
    ) -> dict[str, Any]:
        """Return the tokens for a refresh token.

        Raises:
            RuntimeError: the upstream refuses the request.
        """
        form = {"grant_type": "refresh_token", "refresh_token": refresh_token, "scope": scope, **more}
        return await self._ask(url, {name: value for name, value in form.items() if value is not None})

    async def revoke_token(self, url: str, token: str) -> None:
        """Revoke a token."""
        form, headers = self._authenticated({"token": token})
        (await self._http.post(url, data=form, headers=headers)).raise_for_status()

    def _authenticated(self, form: dict[str, Any]) -> tuple[dict[str, Any], dict[str, str]]:
        headers = {"Accept": "application/json"}
        if self.client_secret and self._method == "client_secret_basic":
            pair = f"{quote_plus(self.client_id)}:{quote_plus(self.client_secret)}"
            headers["Authorization"] = f"Basic {b64encode(pair.encode()).decode()}"
            return form, headers
        secret = {"client_secret": self.client_secret} if self.client_secret else {}
        return {**form, "client_id": self.client_id, **secret}, headers

    async def _ask(self, url: str, given: dict[str, Any]) -> dict[str, Any]:
        form, headers = self._authenticated(given)
        response = await self._http.post(url, data=form, headers=headers)
        try:
            found = response.json()
        except ValueError:
            found = None
        if not isinstance(found, dict) or "access_token" not in found or response.status_code >= 400:
            error = found.get("error") if isinstance(found, dict) else None
            raise RuntimeError(f"the upstream answered {response.status_code} {str(error or '')[:100]}".rstrip())
        return found

    async def aclose(self) -> None:
        """Close the connections."""
        await self._http.aclose()
