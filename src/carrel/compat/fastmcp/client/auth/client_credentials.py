"""Client credentials grant with the arguments of FastMCP: the URL may come from the client."""

from __future__ import annotations

import hashlib
import json
from collections.abc import AsyncGenerator
from typing import Any

import httpx

from carrel.compat.fastmcp.client.auth.oauth import TokenStorageAdapter
from carrel.compat.fastmcp.utilities.key_value import MemoryStore
from carrel.compat.mcp.client.auth.extensions import client_credentials
from carrel.compat.mcp.client.auth.extensions.client_credentials import SignedJWTParameters, static_assertion_provider

__all__ = [
    "ClientCredentialsOAuthProvider",
    "PrivateKeyJWTOAuthProvider",
    "SignedJWTParameters",
    "static_assertion_provider",
]

FORBIDDEN = 403


class LateBound(client_credentials.CredentialsProvider):
    """Credentials that get their URL when they are made, or from the client that they are given to."""

    def __init__(
        self,
        mcp_url: str | None = None,
        *,
        client_id: str,
        scopes: str | list[str] | None = None,
        issuer: str | None = None,
        token_storage: Any = None,
        **options: Any,
    ) -> None:
        scope = " ".join(scopes) if isinstance(scopes, list) else scopes
        self._options: dict[str, Any] = {"client_id": client_id, "scope": scope, "issuer": issuer, **options}
        self._token_storage = MemoryStore() if token_storage is None else token_storage
        self._needs_more = False  # the server asks for scopes that the token lacks
        self._bound = False
        if mcp_url is not None:
            self._bind(mcp_url)

    def _bind(self, mcp_url: str) -> None:
        """Set the URL of the server, once. Each client, its scopes and its issuer have separate tokens."""
        if self._bound:
            return
        url = mcp_url.rstrip("/")
        owner = json.dumps([self._options[name] for name in ("client_id", "scope", "issuer")])
        storage = TokenStorageAdapter(self._token_storage, f"{url}/{hashlib.sha256(owner.encode()).hexdigest()}")
        super().__init__(url, storage, **self._options)
        self._bound = True

    async def async_auth_flow(self, request: httpx.Request) -> AsyncGenerator[httpx.Request, httpx.Response]:
        """Yield the requests of the flow.

        Raises:
            RuntimeError: there is no URL.
        """
        if not self._bound:
            raise RuntimeError(
                f"{type(self).__name__} has no server URL: pass mcp_url, or give it to a Client with a URL"
            )
        flow = super().async_auth_flow(request)
        try:
            asked = await anext(flow)
            while True:
                response = yield asked
                self._needs_more = response.status_code == FORBIDDEN
                asked = await flow.asend(response)
        except StopAsyncIteration:
            return
        finally:
            await flow.aclose()

    async def _perform_authorization(self) -> httpx.Request:
        if self._options["scope"] is not None and not self._needs_more:
            self.context.client_metadata.scope = self._options["scope"]
        return await super()._perform_authorization()


class ClientCredentialsOAuthProvider(LateBound, client_credentials.ClientCredentialsOAuthProvider):
    """Credentials of a client with a secret: ``client_secret``, ``token_endpoint_auth_method``."""


class PrivateKeyJWTOAuthProvider(LateBound, client_credentials.PrivateKeyJWTOAuthProvider):
    """Credentials of a client with a signed assertion, which ``assertion_provider`` returns for an issuer."""
