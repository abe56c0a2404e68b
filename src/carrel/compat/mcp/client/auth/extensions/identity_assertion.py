"""Credentials for an identity assertion: a JWT of the identity provider of an enterprise (RFC 7523)."""

from __future__ import annotations

import time
from base64 import b64encode
from collections.abc import AsyncGenerator, Awaitable, Callable
from typing import Literal
from urllib.parse import quote

import anyio
import httpx

from carrel.compat.mcp.client.auth import utils
from carrel.compat.mcp.client.auth.context import TokenStorage
from carrel.compat.mcp.client.auth.exceptions import OAuthFlowError, OAuthTokenError
from carrel.compat.mcp.shared._httpx_utils import RedirectAwareAuth, redirect_note
from carrel.compat.mcp.shared.auth import JWT_BEARER_GRANT_TYPE, OAuthToken
from carrel.compat.mcp.shared.auth_utils import calculate_token_expiry, resource_url_from_server_url

__all__ = ["IdentityAssertionOAuthProvider"]

PORTS = {"http": 80, "https": 443}


class IdentityAssertionOAuthProvider(RedirectAwareAuth):
    """Credentials that a configured authorization server issues for assertions of ``assertion_provider``.

    ``assertion_provider`` gets the issuer and the resource of the server. The server itself does not choose the
    authorization server: neither secret nor assertion are sent elsewhere.

    Raises:
        ValueError: there is no secret, or no issuer.
    """

    requires_response_body = True

    def __init__(
        self,
        server_url: str,
        storage: TokenStorage,
        client_id: str,
        client_secret: str,
        issuer: str,
        assertion_provider: Callable[[str, str], Awaitable[str]],
        scope: str | None = None,
        token_endpoint_auth_method: Literal["client_secret_basic", "client_secret_post"] = "client_secret_post",
    ) -> None:
        if not client_secret:
            raise ValueError("client_secret is required: this provider supports confidential clients only")
        if not issuer:
            raise ValueError("issuer is required: the authorization server is configuration, not discovery")
        self._resource = resource_url_from_server_url(server_url)
        self._storage = storage
        self._client = client_id, client_secret
        self._issuer = issuer
        self._provide = assertion_provider
        self._scope = scope
        self._basic = token_endpoint_auth_method == "client_secret_basic"
        self._endpoint: str | None = None
        self._tokens: OAuthToken | None = None
        self._expiry: float | None = None
        self._lock = anyio.Lock()
        self._loaded = False

    async def _auth_flow(self, request: httpx.Request) -> AsyncGenerator[httpx.Request, httpx.Response]:
        async with self._lock:
            if not self._loaded:
                self._loaded = True
                self._keep(await self._storage.get_tokens())
            if self._tokens is not None and (self._expiry is None or time.time() <= self._expiry):
                _authorize(request, self._tokens)
            response = yield request
            if response.status_code == 401:
                scope = self._scope
            elif response.status_code == 403 and (
                utils.extract_field_from_www_auth(response, "error") == "insufficient_scope"
            ):
                scope = utils.union_scopes(self._scope, utils.extract_scope_from_www_auth(response))
            else:
                return
            urls = utils.build_oauth_authorization_server_metadata_discovery_urls(self._issuer, self._issuer)
            while self._endpoint is None and urls:
                if not await self._discover((yield utils.create_oauth_metadata_request(urls.pop(0)))):
                    break
            if self._endpoint is None:
                raise OAuthFlowError(f"No authorization server metadata at configured issuer {self._issuer}")
            answer = yield self._token_request(scope, await self._provide(self._issuer, self._resource))
            if answer.status_code != 200:
                body = (await answer.aread()).decode(errors="replace")
                raise OAuthTokenError(f"Token exchange failed ({answer.status_code}){redirect_note(answer)}: {body}")
            tokens = await utils.handle_token_response_scopes(answer)
            tokens.scope = scope if tokens.scope is None else tokens.scope
            self._keep(tokens)
            await self._storage.set_tokens(tokens)
            _authorize(request, tokens)
            yield request

    def _keep(self, tokens: OAuthToken | None) -> None:
        self._tokens = tokens
        self._expiry = None if tokens is None else calculate_token_expiry(tokens.expires_in)

    async def _discover(self, response: httpx.Response) -> bool:
        """Take the token endpoint from metadata of the issuer, and return whether to try the next URL.

        Raises:
            OAuthFlowError: the metadata are of another issuer, or the endpoint has another origin.
        """
        further, metadata = await utils.handle_auth_metadata_response(response)
        if metadata is None:
            return further
        utils.validate_metadata_issuer(metadata, self._issuer)
        endpoint = str(metadata.token_endpoint)
        if _origin(endpoint) != _origin(self._issuer):
            raise OAuthFlowError(f"Token endpoint {endpoint} is not on the configured issuer origin {self._issuer}")
        self._endpoint = endpoint
        return False

    def _token_request(self, scope: str | None, assertion: str) -> httpx.Request:
        id, secret = self._client
        data = {
            "grant_type": JWT_BEARER_GRANT_TYPE,
            "assertion": assertion,
            "client_id": id,
            "resource": self._resource,
            **({"scope": scope} if scope else {}),
        }
        headers = {}
        if self._basic:
            pair = f"{quote(id, safe='')}:{quote(secret, safe='')}"
            headers["Authorization"] = f"Basic {b64encode(pair.encode()).decode()}"
        else:
            data["client_secret"] = secret
        assert self._endpoint is not None
        return httpx.Request("POST", self._endpoint, data=data, headers=headers)


def _authorize(request: httpx.Request, tokens: OAuthToken) -> None:
    request.headers["Authorization"] = f"Bearer {tokens.access_token}"


def _origin(url: str) -> tuple[str, str, int | None]:
    parts = httpx.URL(url)
    return parts.scheme, parts.host, parts.port or PORTS.get(parts.scheme)
