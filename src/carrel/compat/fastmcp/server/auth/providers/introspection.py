"""Verifier of opaque tokens, which asks the authorization server (RFC 7662)."""

from __future__ import annotations

import time
from base64 import b64encode
from contextlib import nullcontext
from typing import Any, Literal, get_args

from pydantic import AnyHttpUrl, SecretStr

from carrel.compat.fastmcp.http_library import httpx
from carrel.compat.fastmcp.server.auth.auth import AccessToken, TokenVerifier
from carrel.compat.fastmcp.utilities.auth import parse_scopes
from carrel.compat.fastmcp.utilities.logging import get_logger
from carrel.compat.fastmcp.utilities.token_cache import TokenCache

__all__ = ["IntrospectionTokenVerifier"]

ClientAuthMethod = Literal["client_secret_basic", "client_secret_post"]


class IntrospectionTokenVerifier(TokenVerifier):
    """Verifier that introspects each token; with ``cache_ttl_seconds``, results are kept for this time.

    Raises:
        ValueError: there is no such method of authentication, or an audience is no text.
    """

    def __init__(
        self,
        *,
        introspection_url: str,
        client_id: str,
        client_secret: str | SecretStr,
        client_auth_method: ClientAuthMethod = "client_secret_basic",
        timeout_seconds: int = 10,
        required_scopes: list[str] | None = None,
        base_url: AnyHttpUrl | str | None = None,
        cache_ttl_seconds: int | None = None,
        max_cache_size: int | None = None,
        http_client: httpx.AsyncClient | None = None,
        audience: str | list[str] | None = None,
    ) -> None:
        methods = get_args(ClientAuthMethod)
        if client_auth_method not in methods:
            raise ValueError(f"Invalid client_auth_method: {client_auth_method!r}. Must be one of {methods}.")
        audiences = [audience] if isinstance(audience, str) else audience
        if audiences is not None and not (audiences and all(isinstance(each, str) and each for each in audiences)):
            raise ValueError("audience must contain nonempty strings")
        super().__init__(base_url, parse_scopes(required_scopes))
        self.audience = audience
        self.introspection_url = introspection_url
        self.client_id = client_id
        self.client_secret = client_secret.get_secret_value() if isinstance(client_secret, SecretStr) else client_secret
        self.client_auth_method: ClientAuthMethod = client_auth_method
        self.timeout_seconds = timeout_seconds
        self._http_client = http_client
        self.logger = get_logger(__name__)
        self._cache = TokenCache(ttl_seconds=cache_ttl_seconds, max_size=max_cache_size)

    def _create_basic_auth_header(self) -> str:
        return "Basic " + b64encode(f"{self.client_id}:{self.client_secret}".encode()).decode()

    def _extract_scopes(self, introspection_response: dict[str, Any]) -> list[str]:
        value = introspection_response.get("scope")
        if isinstance(value, str):
            return value.split()
        return [str(each) for each in value if each] if isinstance(value, list) else []

    async def verify_token(self, token: str) -> AccessToken | None:
        """Return the access token, or None if it is not active, has expired, lacks a scope, or cannot be verified."""
        cached, found = self._cache.get(token)
        if cached:
            return found
        try:
            found = self._read(token, await self._introspect(token))
        except Exception as error:
            self.logger.debug("a token was not introspected: %s", error)
            return None
        if found is not None:
            self._cache.set(token, found)
        return found

    async def _introspect(self, token: str) -> dict[str, Any]:
        form = {"token": token, "token_type_hint": "access_token"}
        headers = {"Accept": "application/json", "Content-Type": "application/x-www-form-urlencoded"}
        if self.client_auth_method == "client_secret_basic":
            headers["Authorization"] = self._create_basic_auth_header()
        else:
            form |= {"client_id": self.client_id, "client_secret": self.client_secret}
        own = self._http_client
        async with httpx.AsyncClient(timeout=self.timeout_seconds) if own is None else nullcontext(own) as client:
            response = await client.post(self.introspection_url, data=form, headers=headers)
        if response.status_code != 200:
            raise ValueError(f"HTTP {response.status_code}")
        answer: dict[str, Any] = response.json()
        return answer

    def _is_for_us(self, found: Any) -> bool:
        """Return whether the audiences of a token include an expected one, if there are any."""
        if self.audience is None:
            return True
        given = [found] if isinstance(found, str) else found
        if not isinstance(given, list) or not given or not all(isinstance(each, str) and each for each in given):
            return False
        return not set(given).isdisjoint([self.audience] if isinstance(self.audience, str) else self.audience)

    def _read(self, token: str, answer: dict[str, Any]) -> AccessToken | None:
        expires = answer.get("exp")
        scopes = self._extract_scopes(answer)
        if answer.get("active") is not True or (expires and expires < time.time()):
            return None
        if not set(self.required_scopes).issubset(scopes) or not self._is_for_us(answer.get("aud")):
            return None
        return AccessToken(
            token=token,
            client_id=str(answer.get("client_id") or answer.get("sub", "unknown")),
            scopes=scopes,
            expires_at=None if expires is None else int(expires),
            claims=answer,
        )
