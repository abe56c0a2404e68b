"""Routes of the authorization server, and of the protected resource metadata."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any
from urllib.parse import urlsplit

from pydantic import AnyHttpUrl
from starlette.middleware.cors import CORSMiddleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route, request_response

from carrel.compat.mcp.server.auth.handlers.authorize import AuthorizationHandler
from carrel.compat.mcp.server.auth.handlers.metadata import MetadataHandler, ProtectedResourceMetadataHandler
from carrel.compat.mcp.server.auth.handlers.register import RegistrationHandler
from carrel.compat.mcp.server.auth.handlers.revoke import RevocationHandler
from carrel.compat.mcp.server.auth.handlers.token import TokenHandler
from carrel.compat.mcp.server.auth.middleware.client_auth import ClientAuthenticator
from carrel.compat.mcp.server.auth.provider import OAuthAuthorizationServerProvider
from carrel.compat.mcp.server.auth.settings import ClientRegistrationOptions, RevocationOptions
from carrel.compat.mcp.server.transport_security import DEFAULT_MAX_REQUEST_BODY_SIZE, RequestBodyLimitMiddleware
from carrel.compat.mcp.shared.auth import (
    DEFAULT_GRANT_TYPES,
    JWT_BEARER_GRANT_TYPE,
    OAuthMetadata,
    ProtectedResourceMetadata,
)
from carrel.transports.addresses import is_loopback

__all__ = [
    "AUTHORIZATION_PATH",
    "REGISTRATION_PATH",
    "REVOCATION_PATH",
    "TOKEN_PATH",
    "build_metadata",
    "build_resource_metadata_url",
    "cors_middleware",
    "create_auth_routes",
    "create_protected_resource_routes",
    "post_route",
    "validate_issuer_url",
]

AUTHORIZATION_PATH = "/authorize"
TOKEN_PATH = "/token"
REGISTRATION_PATH = "/register"
REVOCATION_PATH = "/revoke"
METADATA_PATH = "/.well-known/oauth-authorization-server"
RESOURCE_METADATA_PATH = "/.well-known/oauth-protected-resource"
#: Profile of identity assertions.
ID_JAG_GRANT_PROFILE = "urn:ietf:params:oauth:grant-profile:id-jag"
CLIENT_AUTHENTICATION = ["client_secret_post", "client_secret_basic"]

Endpoint = Callable[[Request], Response | Awaitable[Response]]


def validate_issuer_url(url: AnyHttpUrl) -> None:
    """Check the URL of an issuer (RFC 8414, section 2). Over http, only this machine is accepted.

    Raises:
        ValueError: the URL is not acceptable.
    """
    if url.scheme != "https" and not is_loopback((url.host or "").strip("[]")):
        raise ValueError("Issuer URL must be HTTPS")
    if url.fragment:
        raise ValueError("Issuer URL must not have a fragment")
    if url.query:
        raise ValueError("Issuer URL must not have a query string")


def cors_middleware(handler: Endpoint, allow_methods: list[str]) -> Any:
    """Return an endpoint that web pages of any origin may call."""
    return _with_cors(request_response(handler), allow_methods)


def _with_cors(app: Any, allow_methods: list[str]) -> Any:
    return CORSMiddleware(app, allow_origins=["*"], allow_methods=allow_methods, allow_headers=["mcp-protocol-version"])


def _limited(handler: Endpoint) -> Any:
    return RequestBodyLimitMiddleware(request_response(handler), DEFAULT_MAX_REQUEST_BODY_SIZE)


def post_route(path: str, handler: Endpoint) -> Route:
    """Return the route of an endpoint for scripts of any origin, with a limit of the size of bodies."""
    methods = ["POST", "OPTIONS"]
    return Route(path, _with_cors(_limited(handler), methods), methods=methods)


def _document_route(path: str, handler: Endpoint) -> Route:
    methods = ["GET", "OPTIONS"]
    return Route(path, cors_middleware(handler, methods), methods=methods)


def create_auth_routes(
    provider: OAuthAuthorizationServerProvider[Any, Any, Any],
    issuer_url: AnyHttpUrl,
    service_documentation_url: AnyHttpUrl | None = None,
    client_registration_options: ClientRegistrationOptions | None = None,
    revocation_options: RevocationOptions | None = None,
    identity_assertion_enabled: bool = False,
) -> list[Route]:
    """Return the routes of an authorization server.

    The authorization endpoint is for browsers of users, not for scripts of web pages: it has no CORS headers.

    Raises:
        ValueError: the URL of the issuer is not acceptable.
    """
    validate_issuer_url(issuer_url)
    registration = client_registration_options or ClientRegistrationOptions()
    revocation = revocation_options or RevocationOptions()
    metadata = build_metadata(
        issuer_url, service_documentation_url, registration, revocation, identity_assertion_enabled
    )
    authenticator = ClientAuthenticator(provider)
    routes = [
        _document_route(METADATA_PATH, MetadataHandler(metadata).handle),
        Route(AUTHORIZATION_PATH, _limited(AuthorizationHandler(provider).handle), methods=["GET", "POST"]),
        post_route(TOKEN_PATH, TokenHandler(provider, authenticator, identity_assertion_enabled).handle),
    ]
    if registration.enabled:
        routes.append(post_route(REGISTRATION_PATH, RegistrationHandler(provider, registration).handle))
    if revocation.enabled:
        routes.append(post_route(REVOCATION_PATH, RevocationHandler(provider, authenticator).handle))
    return routes


def build_metadata(
    issuer_url: AnyHttpUrl,
    service_documentation_url: AnyHttpUrl | None,
    client_registration_options: ClientRegistrationOptions,
    revocation_options: RevocationOptions,
    supports_identity_assertion: bool = False,
) -> OAuthMetadata:
    """Return the metadata of an authorization server (RFC 8414)."""
    base = str(issuer_url).rstrip("/")
    metadata = OAuthMetadata(
        issuer=issuer_url,
        authorization_endpoint=AnyHttpUrl(base + AUTHORIZATION_PATH),
        token_endpoint=AnyHttpUrl(base + TOKEN_PATH),
        scopes_supported=client_registration_options.valid_scopes,
        grant_types_supported=[*DEFAULT_GRANT_TYPES, *([JWT_BEARER_GRANT_TYPE] if supports_identity_assertion else [])],
        authorization_grant_profiles_supported=[ID_JAG_GRANT_PROFILE] if supports_identity_assertion else None,
        token_endpoint_auth_methods_supported=CLIENT_AUTHENTICATION,
        service_documentation=service_documentation_url,
        code_challenge_methods_supported=["S256"],
    )
    if client_registration_options.enabled:
        metadata.registration_endpoint = AnyHttpUrl(base + REGISTRATION_PATH)
    if revocation_options.enabled:
        metadata.revocation_endpoint = AnyHttpUrl(base + REVOCATION_PATH)
        metadata.revocation_endpoint_auth_methods_supported = CLIENT_AUTHENTICATION
    return metadata


def build_resource_metadata_url(resource_server_url: AnyHttpUrl) -> AnyHttpUrl:
    """Return the URL of the metadata of a resource server (RFC 9728, section 3.1)."""
    parts = urlsplit(str(resource_server_url))
    path = "" if parts.path == "/" else parts.path
    return AnyHttpUrl(f"{parts.scheme}://{parts.netloc}{RESOURCE_METADATA_PATH}{path}")


def create_protected_resource_routes(
    resource_url: AnyHttpUrl,
    authorization_servers: list[AnyHttpUrl],
    scopes_supported: list[str] | None = None,
    resource_name: str | None = None,
    resource_documentation: AnyHttpUrl | None = None,
) -> list[Route]:
    """Return the route of the metadata of a resource server (RFC 9728)."""
    metadata = ProtectedResourceMetadata(
        resource=resource_url,
        authorization_servers=authorization_servers,
        scopes_supported=scopes_supported,
        resource_name=resource_name,
        resource_documentation=resource_documentation,
    )
    path = urlsplit(str(build_resource_metadata_url(resource_url))).path
    return [_document_route(path, ProtectedResourceMetadataHandler(metadata).handle)]
