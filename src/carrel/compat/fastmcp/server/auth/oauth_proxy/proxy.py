"""OAuth proxy: authorization server for MCP clients, which logs users in at an upstream that it is registered with."""

from __future__ import annotations

import secrets
import time
from base64 import urlsafe_b64encode
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from hashlib import sha256
from typing import Any
from urllib.parse import urlencode, urlsplit, urlunsplit

from pydantic import AnyHttpUrl, AnyUrl, SecretStr
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from carrel.compat.fastmcp.server.auth.auth import OAuthProvider, TokenVerifier
from carrel.compat.fastmcp.server.auth.cimd import CIMDFetcher, CIMDFetchError, CIMDValidationError
from carrel.compat.fastmcp.server.auth.client_assertion import PRIVATE_KEY_JWT, AssertionAuthenticator
from carrel.compat.fastmcp.server.auth.jwt_issuer import JWTIssuer, derive_jwt_key
from carrel.compat.fastmcp.server.auth.oauth_proxy.consent import TRANSACTION_LIFETIME, Consent, ConsentMode
from carrel.compat.fastmcp.server.auth.oauth_proxy.cookies import SignedCookies
from carrel.compat.fastmcp.server.auth.oauth_proxy.models import (
    DEFAULT_AUTH_CODE_EXPIRY_SECONDS,
    DEFAULT_REFRESH_TOKEN_EXPIRY_SECONDS,
    HTTP_TIMEOUT_SECONDS,
    ClientCode,
    JTIMapping,
    OAuthTransaction,
    ProxyDCRClient,
    RefreshTokenMetadata,
    UpstreamTokenSet,
    check_redirect_uris,
)
from carrel.compat.fastmcp.server.auth.oauth_proxy.tokens import Tokens
from carrel.compat.fastmcp.server.auth.oauth_proxy.ui import create_error_html, secure_page
from carrel.compat.fastmcp.server.auth.oauth_proxy.upstream import AsyncOAuth2Client
from carrel.compat.fastmcp.utilities.key_value import Collection, MemoryStore
from carrel.compat.mcp.server.auth.handlers.metadata import MetadataHandler
from carrel.compat.mcp.server.auth.middleware.client_auth import ClientAuthenticator
from carrel.compat.mcp.server.auth.provider import (
    AuthorizationCode,
    AuthorizationParams,
    AuthorizeError,
)
from carrel.compat.mcp.server.auth.routes import METADATA_PATH, TOKEN_PATH, build_metadata, cors_middleware
from carrel.compat.mcp.server.auth.settings import ClientRegistrationOptions, RevocationOptions
from carrel.compat.mcp.shared.auth import OAuthClientInformationFull
from carrel.log import Log

__all__ = ["OAuthProxy"]

log = Log("carrel.compat")

SALT = "fastmcp-jwt-signing-key"


class OAuthProxy(Consent, Tokens, OAuthProvider):
    """Authorization server whose users log in at an upstream. Clients get tokens of the proxy only.

    ``base_url`` plus ``redirect_path`` is the redirect URI that is registered at the upstream. Users consent to each
    application, unless ``require_authorization_consent`` says otherwise. Without ``client_storage``, logins end with
    the process.

    Raises:
        ValueError: there is neither a client secret nor a signing key.
    """

    def __init__(
        self,
        *,
        upstream_authorization_endpoint: str,
        upstream_token_endpoint: str,
        upstream_client_id: str,
        upstream_client_secret: str | None = None,
        upstream_revocation_endpoint: str | None = None,
        token_verifier: TokenVerifier,
        base_url: AnyHttpUrl | str,
        resource_base_url: AnyHttpUrl | str | None = None,
        redirect_path: str | None = None,
        issuer_url: AnyHttpUrl | str | None = None,
        service_documentation_url: AnyHttpUrl | str | None = None,
        allowed_client_redirect_uris: list[str] | None = None,
        valid_scopes: list[str] | None = None,
        forward_pkce: bool = True,
        forward_resource: bool = True,
        token_endpoint_auth_method: str | None = None,
        extra_authorize_params: dict[str, str] | None = None,
        extra_token_params: dict[str, str] | None = None,
        client_storage: Any = None,
        jwt_signing_key: str | bytes | None = None,
        require_authorization_consent: ConsentMode = True,
        consent_csp_policy: str | None = None,
        fallback_access_token_expiry_seconds: int | None = None,
        fallback_refresh_token_expiry_seconds: int | None = None,
        fastmcp_access_token_expiry_seconds: int | None = None,
        token_expiry_threshold_seconds: int = 0,
        enable_cimd: bool = True,
    ) -> None:
        scopes = list(valid_scopes or token_verifier.required_scopes)
        Tokens.__init__(self)
        OAuthProvider.__init__(
            self,
            base_url=base_url,
            resource_base_url=resource_base_url,
            issuer_url=issuer_url,
            service_documentation_url=service_documentation_url,
            client_registration_options=ClientRegistrationOptions(
                enabled=True, valid_scopes=scopes, default_scopes=list(scopes)
            ),
            revocation_options=RevocationOptions(enabled=True) if upstream_revocation_endpoint else None,
            required_scopes=token_verifier.required_scopes,
        )
        self._upstream_authorization_endpoint = upstream_authorization_endpoint
        self._upstream_token_endpoint = upstream_token_endpoint
        self._upstream_client_id = upstream_client_id
        self._upstream_client_secret = None if upstream_client_secret is None else SecretStr(upstream_client_secret)
        self._upstream_revocation_endpoint = upstream_revocation_endpoint
        self._default_scope_str = " ".join(scopes)
        self._redirect_path = "/" + (redirect_path or "/auth/callback").lstrip("/")
        self._allowed_client_redirect_uris = allowed_client_redirect_uris
        self._forward_pkce = forward_pkce
        self._forward_resource = forward_resource
        self._token_endpoint_auth_method = token_endpoint_auth_method
        self._require_authorization_consent = require_authorization_consent
        self._consent_csp_policy = consent_csp_policy
        self._extra_authorize_params = extra_authorize_params or {}
        self._extra_token_params = extra_token_params or {}
        self._fallback_access_token_expiry_seconds = fallback_access_token_expiry_seconds
        self._fallback_refresh_token_expiry_seconds = (
            fallback_refresh_token_expiry_seconds or DEFAULT_REFRESH_TOKEN_EXPIRY_SECONDS
        )
        self._fastmcp_access_token_expiry_seconds = fastmcp_access_token_expiry_seconds
        self._token_expiry_threshold_seconds = token_expiry_threshold_seconds
        self._token_validator = token_verifier
        self._jwt_signing_key = _signing_key(jwt_signing_key, upstream_client_secret)
        self._jwt_issuer: JWTIssuer | None = None
        self._cimd_fetcher = CIMDFetcher() if enable_cimd else None
        self._is_https = str(self.base_url).startswith("https://")
        self._cookies = SignedCookies(sha256(b"cookies " + self._jwt_signing_key).digest(), secure=self._is_https)
        if not require_authorization_consent:
            log.warning("users are not asked for consent: any application can use their login (confused deputy)")
        self._open_stores(MemoryStore() if client_storage is None else client_storage)

    def _open_stores(self, storage: Any) -> None:
        self._client_storage = storage
        self._client_store = Collection(storage, "mcp-oauth-proxy-clients", ProxyDCRClient)
        self._transaction_store = Collection(storage, "mcp-oauth-transactions", OAuthTransaction)
        self._code_store = Collection(storage, "mcp-authorization-codes", ClientCode)
        self._upstream_token_store = Collection(storage, "mcp-upstream-tokens", UpstreamTokenSet)
        self._jti_mapping_store = Collection(storage, "mcp-jti-mappings", JTIMapping)
        self._refresh_token_store = Collection(storage, "mcp-refresh-tokens", RefreshTokenMetadata)

    def update_default_scopes(self, scopes: list[str]) -> None:
        """Set the scopes of clients that ask for none, and of the metadata."""
        self._default_scope_str = " ".join(scopes)
        if self.client_registration_options is not None:
            self.client_registration_options.default_scopes = list(scopes)
            self.client_registration_options.valid_scopes = list(scopes)

    def set_mcp_path(self, mcp_path: str | None) -> None:
        """Set the path of the MCP endpoint, which is the audience of tokens."""
        super().set_mcp_path(mcp_path)
        self._jwt_issuer = JWTIssuer(str(self.base_url), str(self._resource_url), self._jwt_signing_key)

    @property
    def jwt_issuer(self) -> JWTIssuer:
        """Issuer of the tokens.

        Raises:
            RuntimeError: the path of the endpoint is not known yet.
        """
        if self._jwt_issuer is None:
            raise RuntimeError("JWT issuer not initialized. Ensure get_routes() is called before token operations.")
        return self._jwt_issuer

    def _create_upstream_oauth_client(self) -> AsyncOAuth2Client:
        secret = self._upstream_client_secret
        return AsyncOAuth2Client(
            client_id=self._upstream_client_id,
            client_secret=None if secret is None else secret.get_secret_value(),
            token_endpoint_auth_method=self._token_endpoint_auth_method,
            timeout=HTTP_TIMEOUT_SECONDS,
        )

    @asynccontextmanager
    async def _upstream_oauth_client(self) -> AsyncIterator[AsyncOAuth2Client]:
        client = self._create_upstream_oauth_client()
        try:
            yield client
        finally:
            await client.aclose()

    # Clients

    async def get_client(self, client_id: str) -> OAuthClientInformationFull | None:
        """Return a client: registered, documented at the URL that is its id, or the upstream's own."""
        found = await self._client_store.get(client_id)
        if found is not None:
            if self._allowed_client_redirect_uris is not None:
                found.allowed_redirect_uri_patterns = self._allowed_client_redirect_uris
            return found
        if self._cimd_fetcher is not None and self._cimd_fetcher.is_cimd_client_id(client_id):
            return await self._documented(client_id, self._cimd_fetcher)
        if client_id != self._upstream_client_id:
            return None
        # an application that was configured by hand with the id of this server at the upstream
        return ProxyDCRClient(
            client_id=client_id,
            redirect_uris=[AnyUrl("http://localhost")],
            scope=self._default_scope_str,
            token_endpoint_auth_method="none",
            allowed_redirect_uri_patterns=self._allowed_client_redirect_uris,
            allow_unregistered_redirect_uris=True,
        )

    async def _documented(self, url: str, fetcher: CIMDFetcher) -> ProxyDCRClient | None:
        try:
            document = await fetcher.fetch(url)
        except (CIMDFetchError, CIMDValidationError) as error:
            log.warning("the document of the client %s cannot be used: %s", url, error)
            return None
        return ProxyDCRClient(
            client_id=url,
            redirect_uris=None,
            scope=document.scope or self._default_scope_str,
            token_endpoint_auth_method=document.token_endpoint_auth_method,
            client_name=document.client_name,
            allowed_redirect_uri_patterns=self._allowed_client_redirect_uris,
            cimd_document=document,
            cimd_fetched_at=time.time(),
        )

    def _client_authenticator(self) -> ClientAuthenticator:
        if self._cimd_fetcher is None:
            return super()._client_authenticator()
        return AssertionAuthenticator(self, [f"{str(self.base_url).rstrip('/')}{TOKEN_PATH}", str(self.issuer_url)])

    async def register_client(self, client_info: OAuthClientInformationFull) -> None:
        """Store a client. It has no secret, as PKCE protects its codes.

        Raises:
            ValueError: the client has no id.
            RegistrationError: a redirect URI is not allowed.
        """
        if client_info.client_id is None:
            raise ValueError("client_id is required for client registration")
        check_redirect_uris(client_info, self._allowed_client_redirect_uris)
        client = ProxyDCRClient(
            client_id=client_info.client_id,
            redirect_uris=client_info.redirect_uris or [AnyUrl("http://localhost")],
            grant_types=client_info.grant_types or ["authorization_code", "refresh_token"],
            scope=client_info.scope or self._default_scope_str,
            token_endpoint_auth_method="none",
            allowed_redirect_uri_patterns=self._allowed_client_redirect_uris,
            client_name=client_info.client_name,
            application_type=client_info.application_type,
        )
        await self._client_store.put(client_info.client_id, client)

    # Authorization

    async def authorize(self, client: OAuthClientInformationFull, params: AuthorizationParams) -> str:
        """Begin a login, and return the URL of the consent page, or of the upstream.

        Raises:
            AuthorizeError: the client wants tokens for another resource.
        """
        if params.resource and not self._is_own_resource(params.resource):
            raise AuthorizeError("invalid_target", "Resource does not match this server")
        transaction = OAuthTransaction(
            txn_id=secrets.token_urlsafe(32),
            client_id=client.client_id or "",
            client_redirect_uri=str(params.redirect_uri),
            client_state=params.state or "",
            code_challenge=params.code_challenge,
            code_challenge_method="S256",
            scopes=params.scopes or [],
            created_at=time.time(),
            resource=params.resource,
            proxy_code_verifier=secrets.token_urlsafe(48) if self._forward_pkce and params.code_challenge else None,
        )
        await self._transaction_store.put(transaction.txn_id, transaction, TRANSACTION_LIFETIME)
        if self._asks_for_consent():
            return f"{str(self.base_url).rstrip('/')}/consent?txn_id={transaction.txn_id}"
        return self._build_upstream_authorize_url(transaction.txn_id, transaction.model_dump())

    def _is_own_resource(self, resource: str) -> bool:
        """Return whether a resource is this server. Queries count only if the URL of the server has one."""
        own = "" if self._resource_url is None else str(self._resource_url)
        if not own or _server_url_has_query(own):
            return not own or resource.rstrip("/") == own.rstrip("/")
        return _normalize_resource_url(resource) == _normalize_resource_url(own)

    def _build_upstream_authorize_url(self, txn_id: str, transaction: dict[str, Any]) -> str:
        query = {
            "response_type": "code",
            "client_id": self._upstream_client_id,
            "redirect_uri": f"{str(self.base_url).rstrip('/')}{self._redirect_path}",
            "state": txn_id,
        }
        scopes = transaction.get("scopes") or self.required_scopes
        if scopes:
            query["scope"] = " ".join(scopes)
        verifier = transaction.get("proxy_code_verifier")
        if verifier:
            challenge = urlsafe_b64encode(sha256(verifier.encode()).digest()).rstrip(b"=").decode()
            query |= {"code_challenge": challenge, "code_challenge_method": "S256"}
        if self._forward_resource and transaction.get("resource"):
            query["resource"] = transaction["resource"]
        endpoint = self._upstream_authorization_endpoint
        return f"{endpoint}{'&' if '?' in endpoint else '?'}{urlencode({**query, **self._extra_authorize_params})}"

    async def _handle_idp_callback(self, request: Request) -> Response:
        """Exchange the upstream's code, and return to the application with a code of the proxy."""
        given = request.query_params
        code, error, txn_id = given.get("code"), given.get("error"), given.get("state")
        transaction = await self._transaction_store.get(txn_id) if txn_id else None
        if transaction is None:
            message = "Invalid or expired authorization transaction. Please try authenticating again."
            return _error_page(400, message, {"Error Code": error} if error else {})
        if self._asks_for_consent() and not self._is_bound(request, transaction):
            return _error_page(403, "Authorization session mismatch. Please try authenticating again.", {})
        if error:
            more = {"error_description": given["error_description"]} if "error_description" in given else {}
            return self._return(transaction, error=error, **more)
        if not code:
            return _error_page(400, "Missing authorization code from the identity provider.", {})
        try:
            tokens = await self._exchange(transaction, code)
        except Exception as failure:
            log.error("the upstream did not exchange a code: %s", failure)
            return _error_page(500, f"Token exchange with identity provider failed: {failure}", {})
        if not await self._transaction_store.delete(transaction.txn_id):
            return _error_page(400, "Invalid or expired authorization transaction.", {})
        own = ClientCode(
            code=secrets.token_urlsafe(32),
            client_id=transaction.client_id,
            redirect_uri=transaction.client_redirect_uri,
            code_challenge=transaction.code_challenge,
            code_challenge_method=transaction.code_challenge_method,
            scopes=transaction.scopes,
            idp_tokens=tokens,
            expires_at=time.time() + DEFAULT_AUTH_CODE_EXPIRY_SECONDS,
            created_at=time.time(),
        )
        await self._code_store.put(own.code, own, DEFAULT_AUTH_CODE_EXPIRY_SECONDS)
        response = self._return(transaction, code=own.code)
        self._bind_browser(request, response, transaction.txn_id, None)
        return response

    async def _exchange(self, transaction: OAuthTransaction, code: str) -> dict[str, Any]:
        more: dict[str, Any] = {}
        if transaction.proxy_code_verifier:
            more["code_verifier"] = transaction.proxy_code_verifier
        scopes = self._prepare_scopes_for_token_exchange(transaction.scopes)
        if scopes:
            more["scope"] = " ".join(scopes)
        async with self._upstream_oauth_client() as upstream:
            return await upstream.fetch_token(
                url=self._upstream_token_endpoint,
                code=code,
                redirect_uri=f"{str(self.base_url).rstrip('/')}{self._redirect_path}",
                **more,
                **self._extra_token_params,
            )

    async def load_authorization_code(
        self, client: OAuthClientInformationFull, authorization_code: str
    ) -> AuthorizationCode | None:
        """Return a code of a client, or None."""
        found = await self._code_store.get(authorization_code)
        if found is None or found.client_id != client.client_id or time.time() > found.expires_at:
            return None
        return AuthorizationCode(
            code=authorization_code,
            client_id=found.client_id,
            redirect_uri=AnyUrl(found.redirect_uri),
            redirect_uri_provided_explicitly=True,
            scopes=found.scopes,
            expires_at=found.expires_at,
            code_challenge=found.code_challenge or "",
        )

    async def _revoke_upstream(self, found: UpstreamTokenSet) -> None:
        if self._upstream_revocation_endpoint is None:
            return
        try:
            async with self._upstream_oauth_client() as upstream:
                await upstream.revoke_token(
                    self._upstream_revocation_endpoint, found.refresh_token or found.access_token
                )
        except Exception as error:
            log.warning("a token was not revoked at the upstream: %s", error)

    # Routes

    def get_routes(self, mcp_path: str | None = None) -> list[Route]:
        """Return the routes of the authorization server, the consent page and the redirect of the upstream."""
        routes = super().get_routes(mcp_path)
        if self._cimd_fetcher is not None or self.response_issuer is not None:
            routes = [self._metadata_route() if route.path == METADATA_PATH else route for route in routes]
        return [
            *routes,
            Route(self._redirect_path, self._handle_idp_callback, methods=["GET"]),
            Route("/consent", self._handle_consent, methods=["GET", "POST"]),
        ]

    def _metadata_route(self) -> Route:
        metadata = build_metadata(
            self.base_url,
            self.service_documentation_url,
            self.client_registration_options or ClientRegistrationOptions(),
            self.revocation_options or RevocationOptions(),
        )
        if self._cimd_fetcher is not None:
            metadata.client_id_metadata_document_supported = True
        keys = () if self._cimd_fetcher is None else (PRIVATE_KEY_JWT,)
        known = metadata.token_endpoint_auth_methods_supported or ()
        before = self.response_issuer is None  # a program for FastMCP 3
        metadata.token_endpoint_auth_methods_supported = [*known, *keys, "none"] if before else ["none", *keys]
        if self.response_issuer is not None:
            metadata.issuer = self.issuer_url
            metadata.authorization_response_iss_parameter_supported = True
        methods = ["GET", "OPTIONS"]
        return Route(METADATA_PATH, cors_middleware(MetadataHandler(metadata).handle, methods), methods=methods)


def _signing_key(given: str | bytes | None, secret: str | None) -> bytes:
    """Return the key of tokens.

    Raises:
        ValueError: there is neither a key nor a client secret.
    """
    if isinstance(given, bytes):
        return given
    if given is not None:
        return derive_jwt_key(low_entropy_material=given, salt=SALT)
    if secret is None:
        raise ValueError("jwt_signing_key is required when upstream_client_secret is not provided.")
    return derive_jwt_key(high_entropy_material=secret, salt=SALT)


def _normalize_resource_url(url: str) -> str:
    return urlunsplit(urlsplit(url)._replace(query="", fragment="")).rstrip("/")


def _server_url_has_query(url: str) -> bool:
    return bool(urlsplit(url).query)


def _error_page(status: int, message: str, details: dict[str, Any]) -> Response:
    return secure_page(create_error_html("OAuth Error", message, details), status)
