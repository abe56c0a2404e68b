"""OAuth 2.1 of clients in a browser, with a server on this machine for the redirect."""

from __future__ import annotations

import time
import warnings
import webbrowser
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Any

import anyio
import httpx
from pydantic import AnyHttpUrl

from carrel.compat.fastmcp.client.oauth_callback import OAuthCallbackResult, create_oauth_callback_server
from carrel.compat.fastmcp.utilities.key_value import Collection, MemoryStore
from carrel.compat.mcp.client.auth.context import TokenStorage
from carrel.compat.mcp.client.auth.oauth2 import OAuthClientProvider
from carrel.compat.mcp.shared.auth import OAuthClientInformationFull, OAuthClientMetadata, OAuthToken
from carrel.log import Log

__all__ = ["ClientNotFoundError", "OAuth", "TokenStorageAdapter", "check_if_auth_required"]

log = Log("carrel.compat")

#: Seconds for which tokens are kept: refresh tokens live longer than access tokens.
KEPT = 365 * 24 * 3600
EXPIRY = "mcp-oauth-token-expiry"
LOGIN_PAGE = (200, 302, 303, 307, 308)


class ClientNotFoundError(Exception):
    """The authorization server does not know the client."""


async def check_if_auth_required(mcp_url: str, httpx_kwargs: dict[str, Any] | None = None) -> bool:
    """Return whether a server requires authorization, or cannot be reached."""
    async with httpx.AsyncClient(**(httpx_kwargs or {})) as client:
        try:
            response = await client.get(mcp_url, timeout=5.0)
        except httpx.RequestError:
            return True
    return response.status_code in (401, 403) or "WWW-Authenticate" in response.headers


class TokenStorageAdapter(TokenStorage):
    """Tokens and client of one server in a store of keys and values."""

    def __init__(self, async_key_value: Any, server_url: str) -> None:
        self._server_url = server_url
        self._key_value_store = async_key_value
        self._tokens = Collection(async_key_value, "mcp-oauth-token", OAuthToken)
        self._clients = Collection(async_key_value, "mcp-oauth-client-info", OAuthClientInformationFull)

    async def clear(self) -> None:
        """Forget tokens and client."""
        await self._tokens.delete(f"{self._server_url}/tokens")
        await self._clients.delete(f"{self._server_url}/client_info")
        await self._key_value_store.delete(key=f"{self._server_url}/token_expiry", collection=EXPIRY)

    async def get_tokens(self) -> OAuthToken | None:
        """Return the stored tokens."""
        return await self._tokens.get(f"{self._server_url}/tokens")

    async def set_tokens(self, tokens: OAuthToken) -> None:
        """Store tokens, and when the access token expires."""
        await self._tokens.put(f"{self._server_url}/tokens", tokens, KEPT)
        if tokens.expires_in is not None:
            value = {"expires_at": time.time() + tokens.expires_in}
            await self._key_value_store.put(
                key=f"{self._server_url}/token_expiry", value=value, collection=EXPIRY, ttl=KEPT
            )

    async def get_token_expiry(self) -> float | None:
        """Return when the stored access token expires, in seconds since the epoch."""
        found = await self._key_value_store.get(key=f"{self._server_url}/token_expiry", collection=EXPIRY)
        return None if found is None else float(found["expires_at"])

    async def get_client_info(self) -> OAuthClientInformationFull | None:
        """Return the stored client."""
        return await self._clients.get(f"{self._server_url}/client_info")

    async def set_client_info(self, client_info: OAuthClientInformationFull) -> None:
        """Store a client until its secret expires."""
        expires = client_info.client_secret_expires_at
        ttl = expires - int(time.time()) if expires else None
        await self._clients.put(f"{self._server_url}/client_info", client_info, ttl)


class OAuth(OAuthClientProvider):
    """Credentials of a client that opens a browser for the user, and waits for the redirect.

    Without ``mcp_url``, the client that it is given to sets the URL. With ``client_id`` the client is
    registered already; with ``client_metadata_url`` its metadata document is its id.
    """

    def __init__(
        self,
        mcp_url: str | None = None,
        scopes: str | list[str] | None = None,
        client_name: str = "FastMCP Client",
        token_storage: Any = None,
        additional_client_metadata: dict[str, Any] | None = None,
        callback_port: int | None = None,
        callback_host: str = "localhost",
        callback_timeout: float = 300.0,
        httpx_client_factory: Any = None,
        client_metadata_url: str | None = None,
        client_id: str | None = None,
        client_secret: str | None = None,
    ) -> None:
        self._scopes = scopes
        self._client_name = client_name
        self._token_storage = token_storage
        self._additional_client_metadata = additional_client_metadata
        self._callback_port = callback_port
        self._callback_host = callback_host.strip("[]")
        self._callback_timeout = callback_timeout
        self._client_metadata_url = client_metadata_url
        self._client_id = client_id
        self._client_secret = client_secret
        self._static_client_info: OAuthClientInformationFull | None = None
        self.httpx_client_factory = httpx_client_factory or httpx.AsyncClient
        self._bound = False
        if mcp_url is not None:
            self._bind(mcp_url)

    def _bind(self, mcp_url: str) -> None:
        """Set the URL of the server, once."""
        if self._bound:
            return
        self.mcp_url = mcp_url.rstrip("/")
        self.redirect_port = self._callback_port or _free_port(self._callback_host)
        host = f"[{self._callback_host}]" if ":" in self._callback_host else self._callback_host
        scopes = self._scopes
        metadata = OAuthClientMetadata(
            client_name=self._client_name,
            redirect_uris=[AnyHttpUrl(f"http://{host}:{self.redirect_port}/callback")],
            grant_types=["authorization_code", "refresh_token"],
            response_types=["code"],
            scope=" ".join(scopes) if isinstance(scopes, list) else scopes or "",
            **(self._additional_client_metadata or {}),
        )
        if self._client_id:
            known = metadata.model_dump(exclude_none=True)
            known.setdefault("token_endpoint_auth_method", "client_secret_post" if self._client_secret else "none")
            self._static_client_info = OAuthClientInformationFull(
                client_id=self._client_id, client_secret=self._client_secret, **known
            )
        if self._token_storage is None:
            warnings.warn(
                "Using in-memory token storage: users authorize again when this program restarts", stacklevel=3
            )
        self.token_storage_adapter = TokenStorageAdapter(self._token_storage or MemoryStore(), self.mcp_url)
        super().__init__(
            self.mcp_url,
            metadata,
            self.token_storage_adapter,
            self.redirect_handler,
            self.callback_handler,
            self._callback_timeout,
            self._client_metadata_url,
        )
        self._bound = True

    async def _initialize(self) -> None:
        await super()._initialize()
        if self._static_client_info is not None:
            self.context.client_info = self._static_client_info
            await self.token_storage_adapter.set_client_info(self._static_client_info)
        tokens = self.context.current_tokens
        if tokens and tokens.expires_in:
            self.context.token_expiry_time = await self.token_storage_adapter.get_token_expiry()
            if self.context.token_expiry_time is None:
                self.context.update_token_expiry(tokens)

    async def redirect_handler(self, authorization_url: str) -> None:
        """Open the browser, unless the server does not know the client.

        Raises:
            ClientNotFoundError: the server does not know the client.
            RuntimeError: the server answers with another error.
        """
        async with self.httpx_client_factory() as client:
            status = (await client.get(authorization_url, follow_redirects=False)).status_code
        if status == 400:
            raise ClientNotFoundError("OAuth client not found - cached credentials may be stale")
        if status not in LOGIN_PAGE:
            raise RuntimeError(f"Unexpected authorization response: {status}")
        if not authorization_url.startswith(("https://", "http://")):
            raise RuntimeError("The authorization URL is not http or https")
        log.info("authorize in the browser: %s", authorization_url)
        webbrowser.open(authorization_url)

    async def callback_handler(self) -> tuple[str, str | None]:
        """Wait for the redirect, and return code and state.

        Raises:
            TimeoutError: the user did not authorize in time.
            RuntimeError: authorization failed.
        """
        result, ready = OAuthCallbackResult(), anyio.Event()
        server = create_oauth_callback_server(
            port=self.redirect_port,
            host=self._callback_host,
            server_url=self.mcp_url,
            result_container=result,
            result_ready=ready,
        )
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(server.serve)
            try:
                with anyio.fail_after(self._callback_timeout):
                    await ready.wait()
            except TimeoutError:
                raise TimeoutError(f"OAuth callback timed out after {self._callback_timeout} seconds") from None
            finally:
                server.should_exit = True  # the response of the page is sent before the server ends
        if result.error:
            raise result.error
        return result.code or "", result.state

    async def async_auth_flow(self, request: httpx.Request) -> AsyncGenerator[httpx.Request, httpx.Response]:
        """Yield the requests of the flow; register again if the server has forgotten the client.

        Raises:
            RuntimeError: the URL of the server is unknown.
            ClientNotFoundError: the server does not know the client, which cannot register.
        """
        if not self._bound:
            raise RuntimeError("OAuth provider has no server URL: pass mcp_url to OAuth(), or use Client(auth=...)")
        for last in (False, True):
            response: Any = None
            try:
                async with aclosing(super().async_auth_flow(request)) as flow:
                    while True:
                        response = yield await flow.asend(response)
            except StopAsyncIteration:
                return
            except ClientNotFoundError:
                if self._static_client_info is not None:
                    raise ClientNotFoundError(
                        "OAuth server rejected the static client credentials: check client_id and client_secret"
                    ) from None
                if last:
                    raise
                self._initialized = False
                await self.token_storage_adapter.clear()


def _free_port(host: str) -> int:
    import socket

    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as found:
        found.bind((host, 0))
        port: int = found.getsockname()[1]
        return port
