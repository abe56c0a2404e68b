"""Authorization code grant with PKCE for clients of servers that require OAuth 2.1.

https://modelcontextprotocol.io/specification/2025-11-25/basic/authorization
"""

from __future__ import annotations

import secrets
from collections.abc import AsyncGenerator, Sequence
from typing import Any
from urllib.parse import urlencode, urljoin

import httpx
from pydantic import AnyHttpUrl, ValidationError

from carrel.compat.mcp.client.auth import utils
from carrel.compat.mcp.client.auth.context import (
    CallbackHandler,
    OAuthContext,
    PKCEParameters,
    RedirectHandler,
    TokenStorage,
)
from carrel.compat.mcp.client.auth.exceptions import OAuthFlowError, OAuthTokenError
from carrel.compat.mcp.shared._httpx_utils import RedirectAwareAuth, redirect_note
from carrel.compat.mcp.shared.auth import (
    AuthorizationCodeResult,
    OAuthClientInformationFull,
    OAuthClientMetadata,
    OAuthMetadata,
    OAuthToken,
    ProtectedResourceMetadata,
)
from carrel.compat.mcp.shared.auth_utils import check_resource_allowed, resource_url_from_server_url
from carrel.log import Log

__all__ = ["OAuthClientProvider", "OAuthContext", "PKCEParameters", "TokenStorage"]

log = Log("carrel.compat")

FORM = {"Content-Type": "application/x-www-form-urlencoded"}


class OAuthClientProvider(RedirectAwareAuth):
    """Credentials of ``httpx`` that authorize a client when a server requires it.

    A 401 response starts discovery, registration and authorization by the user; a 403 response with
    ``insufficient_scope`` starts authorization for more scopes. ``redirect_handler`` opens the URL for the user, and
    ``callback_handler`` returns the code and the state of the redirect.

    Raises:
        ValueError: ``client_metadata_url`` is not https, or has no path.
    """

    requires_response_body = True

    def __init__(
        self,
        server_url: str,
        client_metadata: OAuthClientMetadata,
        storage: TokenStorage,
        redirect_handler: RedirectHandler | None = None,
        callback_handler: CallbackHandler | None = None,
        timeout: float = 300.0,
        client_metadata_url: str | None = None,
    ) -> None:
        if client_metadata_url is not None and not utils.is_valid_client_metadata_url(client_metadata_url):
            raise ValueError(
                f"client_metadata_url must be a valid HTTPS URL with a non-root pathname, got: {client_metadata_url}"
            )
        self.context = OAuthContext(
            server_url, client_metadata, storage, redirect_handler, callback_handler, timeout, client_metadata_url
        )
        self._initialized = False

    async def _initialize(self) -> None:
        """Load the stored tokens and the stored client."""
        self.context.current_tokens = await self.context.storage.get_tokens()
        self.context.client_info = await self.context.storage.get_client_info()
        self._initialized = True

    # The flow

    async def _auth_flow(self, request: httpx.Request) -> AsyncGenerator[httpx.Request, httpx.Response]:
        context = self.context
        async with context.lock:
            if not self._initialized:
                await self._initialize()
            context.protocol_version = request.headers.get(utils.VERSION_HEADER)
            if not context.is_token_valid() and context.can_refresh_token():
                response = yield await self._refresh_token()
                if not await self._handle_refresh_response(response):
                    self._initialized = False
            if context.is_token_valid():
                self._add_auth_header(request)
            response = yield request
            status = response.status_code
            more = status == 403 and utils.extract_field_from_www_auth(response, "error") == "insufficient_scope"
            if status != 401 and not more:
                return
            if status == 401 or context.oauth_metadata is None:
                failed = 0
                for url in self._resource_metadata_urls(response):
                    found = yield utils.create_oauth_metadata_request(url)
                    if await self._take_resource_metadata(found):
                        break
                    failed = found.status_code if is_failure(found.status_code) else failed
                else:
                    if failed:
                        raise OAuthFlowError(f"Protected resource metadata request failed: HTTP {failed}")
                for url in self._server_metadata_urls():
                    if await self._take_server_metadata((yield utils.create_oauth_metadata_request(url))):
                        break
            context.client_metadata.scope = self._wanted_scope(response)
            if not context.client_info:
                registration = await self._own_client()
                if registration is not None:
                    await self._registered(await utils.handle_registration_response((yield registration)))
            await self._handle_token_response((yield await self._perform_authorization()))
            self._add_auth_header(request)
            yield request

    # Discovery

    def _resource_metadata_urls(self, response: httpx.Response) -> list[str]:
        challenge = utils.extract_resource_metadata_from_www_auth(response)
        return utils.build_protected_resource_metadata_discovery_urls(challenge, self.context.server_url)

    async def _take_resource_metadata(self, response: httpx.Response) -> bool:
        """Record resource metadata, and return whether the response has them.

        Raises:
            OAuthFlowError: the metadata are of another resource.
        """
        found = await utils.handle_protected_resource_response(response)
        if found is None:
            return False
        await self._validate_resource_match(found)
        self.context.protected_resource_metadata = found
        servers = [str(server) for server in found.authorization_servers]
        self.context.auth_server_url = self._select_authorization_server(servers)
        return True

    def _server_metadata_urls(self) -> list[str]:
        """Return the URLs for authorization server metadata. Credentials of another issuer are dropped before."""
        context, client = self.context, self.context.client_info
        if client and not utils.credentials_match_issuer(client, self._expected_issuer(), context.client_metadata_url):
            context.client_info = context.oauth_metadata = None
            context.clear_tokens()
        return utils.build_oauth_authorization_server_metadata_discovery_urls(
            context.auth_server_url, context.server_url
        )

    async def _take_server_metadata(self, response: httpx.Response) -> bool:
        """Record authorization server metadata, and return whether discovery is over.

        Raises:
            OAuthFlowError: the metadata are of another issuer.
        """
        proceed, found = await utils.handle_auth_metadata_response(response)
        if found is not None:
            utils.validate_metadata_issuer(found, self._expected_issuer())
            self.context.oauth_metadata = found
        return found is not None or not proceed

    def _wanted_scope(self, response: httpx.Response) -> str | None:
        """Return the scopes to request after a challenge."""
        return utils.get_client_metadata_scopes(
            utils.extract_scope_from_www_auth(response),
            self.context.protected_resource_metadata,
            self.context.oauth_metadata,
            self.context.client_metadata.grant_types,
        )

    def _select_authorization_server(self, advertised: Sequence[str]) -> str:
        """Return the authorization server to use: the first."""
        return advertised[0]

    def _expected_issuer(self) -> str:
        """Return the issuer of the authorization server: of the resource metadata, or the server's own origin."""
        return self.context.auth_server_url or str(AnyHttpUrl(utils.origin_of(self.context.server_url)))

    async def _validate_resource_match(self, prm: ProtectedResourceMetadata) -> None:
        """Check that resource metadata are of this server (RFC 8707).

        Raises:
            OAuthFlowError: they are of another resource.
        """
        own = resource_url_from_server_url(self.context.server_url)
        named = str(prm.resource) if prm.resource else None
        if named and not check_resource_allowed(requested_resource=own, configured_resource=named):
            raise OAuthFlowError(f"Protected resource {named} does not match expected {own}")

    async def _handle_protected_resource_response(self, response: httpx.Response) -> bool:
        """Record resource metadata, and return whether the response has them.

        Raises:
            OAuthFlowError: the server failed.
        """
        if response.status_code not in (200, 404):
            raise OAuthFlowError(f"Protected Resource Metadata request failed: {response.status_code}")
        found = await utils.handle_protected_resource_response(response)
        if found is None:
            return False
        self.context.protected_resource_metadata = found
        self.context.auth_server_url = str(found.authorization_servers[0])
        return True

    async def _handle_oauth_metadata_response(self, response: httpx.Response) -> None:
        self.context.oauth_metadata = OAuthMetadata.model_validate_json(await response.aread())

    # Registration

    async def _own_client(self) -> httpx.Request | None:
        """Return the request that registers the client; None if the URL of its metadata document is its id."""
        context = self.context
        metadata, url = context.oauth_metadata, context.client_metadata_url
        if url is None or not utils.should_use_client_metadata_url(metadata, url):
            origin = utils.origin_of(context.server_url)
            return utils.create_client_registration_request(metadata, context.client_metadata, origin)
        client = utils.create_client_info_from_metadata_url(url, context.client_metadata.redirect_uris)
        client.issuer = self._expected_issuer()
        context.client_info = client
        await context.storage.set_client_info(client)
        return None

    async def _registered(self, client: OAuthClientInformationFull) -> None:
        """Record a registered client, with its issuer if the registration was at the issuer."""
        context, issuer = self.context, self._expected_issuer()
        metadata, origin = context.oauth_metadata, utils.origin_of(context.server_url)
        if metadata is not None and (metadata.registration_endpoint or utils.origin_of(issuer) == origin):
            client.issuer = issuer
        context.client_info = client
        await context.storage.set_client_info(client)

    # Authorization

    async def _perform_authorization(self) -> httpx.Request:
        """Let the user authorize the client, and return the request for tokens."""
        code, verifier = await self._perform_authorization_code_grant()
        return await self._exchange_token_authorization_code(code, verifier)

    async def _perform_authorization_code_grant(self) -> tuple[str, str]:
        """Let the user authorize the client, and return the code and the code verifier.

        Raises:
            OAuthFlowError: a handler is missing, or the response does not belong to the request.
        """
        context = self.context
        uris, client = context.client_metadata.redirect_uris, context.client_info
        for what, there in (
            ("redirect URIs", uris),
            ("redirect handler", context.redirect_handler),
            ("callback handler", context.callback_handler),
        ):
            if not there:
                raise OAuthFlowError(f"No {what} provided for authorization code grant")
        if client is None or uris is None or context.redirect_handler is None or context.callback_handler is None:
            raise OAuthFlowError("No client info available for authorization")
        pkce, state = PKCEParameters.generate(), secrets.token_urlsafe(32)
        query = {
            "response_type": "code",
            "client_id": client.client_id,
            "redirect_uri": str(uris[0]),
            "state": state,
            "code_challenge": pkce.code_challenge,
            "code_challenge_method": "S256",
        }
        if context.should_include_resource_param(context.protocol_version):
            query["resource"] = context.get_resource_url()
        if context.client_metadata.scope:
            query["scope"] = context.client_metadata.scope
        endpoint = self._endpoint("authorization_endpoint", "/authorize")
        await context.redirect_handler(f"{endpoint}{'&' if '?' in endpoint else '?'}{urlencode(query)}")
        code, returned = self._read_callback(await context.callback_handler())
        if returned is None or not secrets.compare_digest(returned.encode(), state.encode()):
            raise OAuthFlowError(f"State parameter mismatch: {returned} != {state}")
        if not code:
            raise OAuthFlowError("No authorization code received")
        return code, pkce.code_verifier

    def _read_callback(self, given: tuple[str, str | None] | AuthorizationCodeResult) -> tuple[str, str | None]:
        """Return code and state of the redirect, after checking its issuer (RFC 9207).

        Raises:
            OAuthFlowError: the redirect is of another authorization server.
        """
        if not isinstance(given, AuthorizationCodeResult):
            return given
        utils.validate_authorization_response_iss(given.iss, self.context.oauth_metadata)
        return given.code, given.state

    def _endpoint(self, name: str, path: str) -> str:
        """Return an endpoint of the authorization server; without metadata, a path at the server's own origin."""
        found = getattr(self.context.oauth_metadata, name, None)
        return str(found) if found else urljoin(utils.origin_of(self.context.server_url), path)

    def _get_token_endpoint(self) -> str:
        return self._endpoint("token_endpoint", "/token")

    def _token_request(self, data: dict[str, Any]) -> httpx.Request:
        """Return a token request with the resource and the authentication of the client."""
        context = self.context
        if context.should_include_resource_param(context.protocol_version):
            data["resource"] = context.get_resource_url()
        form, headers = context.prepare_token_auth(data, dict(FORM))
        return httpx.Request("POST", self._get_token_endpoint(), data=form, headers=headers)

    async def _exchange_token_authorization_code(
        self, auth_code: str, code_verifier: str, *, token_data: dict[str, Any] | None = None
    ) -> httpx.Request:
        """Return the request for tokens of an authorization code.

        Raises:
            OAuthFlowError: there is no client, or it has no redirect URI.
        """
        uris, client = self.context.client_metadata.redirect_uris, self.context.client_info
        if uris is None:
            raise OAuthFlowError("No redirect URIs provided for authorization code grant")
        if not client:
            raise OAuthFlowError("Missing client info")
        return self._token_request(
            {
                **(token_data or {}),
                "grant_type": "authorization_code",
                "code": auth_code,
                "redirect_uri": str(uris[0]),
                "client_id": client.client_id,
                "code_verifier": code_verifier,
            }
        )

    async def _handle_token_response(self, response: httpx.Response) -> None:
        """Record the tokens of a response.

        Raises:
            OAuthTokenError: the request failed, or the response is not understood.
        """
        if response.status_code != 200:
            said = (await response.aread()).decode(errors="replace")
            raise OAuthTokenError(f"Token exchange failed ({response.status_code}){redirect_note(response)}: {said}")
        await self._store(await utils.handle_token_response_scopes(response))

    async def _store(self, tokens: OAuthToken) -> None:
        self.context.current_tokens = tokens
        self.context.update_token_expiry(tokens)
        await self.context.storage.set_tokens(tokens)

    async def _refresh_token(self) -> httpx.Request:
        """Return the request for tokens of a refresh token.

        Raises:
            OAuthTokenError: there is no refresh token, or no client.
        """
        tokens, client = self.context.current_tokens, self.context.client_info
        if not tokens or not tokens.refresh_token:
            raise OAuthTokenError("No refresh token available")
        if not client or not client.client_id:
            raise OAuthTokenError("No client info available")
        return self._token_request(
            {"grant_type": "refresh_token", "refresh_token": tokens.refresh_token, "client_id": client.client_id}
        )

    async def _handle_refresh_response(self, response: httpx.Response) -> bool:
        """Record the tokens of a response, and return whether there are any."""
        if response.status_code == 200:
            try:
                await self._store(OAuthToken.model_validate_json(await response.aread()))
            except ValidationError:
                log.warning("the response to a refresh request is not understood")
            else:
                return True
        else:
            log.warning("a token was not refreshed: %d%s", response.status_code, redirect_note(response))
        self.context.clear_tokens()
        return False

    def _add_auth_header(self, request: httpx.Request) -> None:
        """Add the access token to a request."""
        tokens = self.context.current_tokens
        if tokens and tokens.access_token:
            request.headers["Authorization"] = f"Bearer {tokens.access_token}"


def is_failure(status: int) -> bool:
    """Return whether a server could not answer, which says nothing about whether it has metadata."""
    return status >= 500 or status == 429
