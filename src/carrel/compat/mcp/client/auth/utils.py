"""Discovery, registration and token responses: requests to build, and responses to read."""

from __future__ import annotations

import re
from collections.abc import Sequence
from urllib.parse import urljoin, urlsplit

import httpx
from pydantic import AnyUrl, ValidationError
from pydantic_core import from_json

from carrel.compat.mcp.client.auth.exceptions import OAuthFlowError, OAuthRegistrationError, OAuthTokenError
from carrel.compat.mcp.shared._httpx_utils import redirect_note
from carrel.compat.mcp.shared.auth import (
    OAuthClientInformationFull,
    OAuthClientMetadata,
    OAuthMetadata,
    OAuthToken,
    ProtectedResourceMetadata,
)
from carrel.compat.mcp.types.base import LATEST_PROTOCOL_VERSION

__all__ = [
    "build_oauth_authorization_server_metadata_discovery_urls",
    "build_protected_resource_metadata_discovery_urls",
    "create_client_info_from_metadata_url",
    "create_client_registration_request",
    "create_oauth_metadata_request",
    "credentials_match_issuer",
    "extract_field_from_www_auth",
    "extract_resource_metadata_from_www_auth",
    "extract_scope_from_www_auth",
    "get_client_metadata_scopes",
    "handle_auth_metadata_response",
    "handle_protected_resource_response",
    "handle_registration_response",
    "handle_token_response_scopes",
    "is_valid_client_metadata_url",
    "issuers_match",
    "origin_of",
    "should_use_client_metadata_url",
    "union_scopes",
    "validate_authorization_response_iss",
    "validate_metadata_issuer",
]

RESOURCE = "/.well-known/oauth-protected-resource"
SERVER = "/.well-known/oauth-authorization-server"
OFFLINE = "offline_access"
OPENID = "/.well-known/openid-configuration"
VERSION_HEADER = "mcp-protocol-version"


def origin_of(url: str) -> str:
    """Return the scheme and the host of a URL."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc}"


def extract_field_from_www_auth(response: httpx.Response, field_name: str) -> str | None:
    """Return a parameter of the WWW-Authenticate header, quoted or not; None without it."""
    header = response.headers.get("WWW-Authenticate")
    found = header and re.search(rf'(?<![\w-]){re.escape(field_name)}=(?:"([^"]+)"|([^\s,"]+))', header)
    return (found[1] or found[2]) if found else None


def extract_scope_from_www_auth(response: httpx.Response) -> str | None:
    """Return the scopes that a challenge names (RFC 6750, section 3)."""
    return extract_field_from_www_auth(response, "scope")


def extract_resource_metadata_from_www_auth(response: httpx.Response) -> str | None:
    """Return the URL of the resource metadata that a challenge names (RFC 9728, section 5.1)."""
    if not response or response.status_code not in (401, 403):
        return None
    return extract_field_from_www_auth(response, "resource_metadata")


def build_protected_resource_metadata_discovery_urls(www_auth_url: str | None, server_url: str) -> list[str]:
    """Return the URLs to try for resource metadata: of the challenge, with the path of the server, without it."""
    origin, path = origin_of(server_url), urlsplit(server_url).path
    urls = [www_auth_url] if www_auth_url else []
    if path not in ("", "/"):
        urls.append(f"{origin}{RESOURCE}{path}")
    return [*urls, f"{origin}{RESOURCE}"]


def build_oauth_authorization_server_metadata_discovery_urls(auth_server_url: str | None, server_url: str) -> list[str]:
    """Return the URLs to try for authorization server metadata.

    Without an authorization server, the server's own origin has the metadata, as in revision 2025-03-26.
    """
    if not auth_server_url:
        return [f"{origin_of(server_url)}{SERVER}"]
    origin, path = origin_of(auth_server_url), urlsplit(auth_server_url).path.rstrip("/")
    if not path:
        return [f"{origin}{SERVER}", f"{origin}{OPENID}"]
    return [f"{origin}{SERVER}{path}", f"{origin}{OPENID}{path}", f"{origin}{path}{OPENID}"]


def get_client_metadata_scopes(
    www_authenticate_scope: str | None,
    protected_resource_metadata: ProtectedResourceMetadata | None,
    authorization_server_metadata: OAuthMetadata | None = None,
    client_grant_types: Sequence[str] | None = None,
) -> str | None:
    """Return the scopes to request: of the challenge, the resource or the authorization server, in this order.

    A client that uses refresh tokens (``client_grant_types``) also requests ``offline_access`` where it is supported.
    """
    scopes = None if www_authenticate_scope is None else www_authenticate_scope.split()
    for metadata in (protected_resource_metadata, authorization_server_metadata):
        if scopes is None and metadata is not None:
            scopes = metadata.scopes_supported
    if scopes is None:
        return None
    known = (authorization_server_metadata and authorization_server_metadata.scopes_supported) or ()
    offline = OFFLINE in known and "refresh_token" in (client_grant_types or ()) and OFFLINE not in scopes
    return " ".join([*scopes, OFFLINE] if offline else scopes)


async def handle_protected_resource_response(response: httpx.Response) -> ProtectedResourceMetadata | None:
    """Return the resource metadata in a response, or None to try the next URL."""
    if response.status_code != 200:
        return None
    try:
        return ProtectedResourceMetadata.model_validate_json(await response.aread())
    except ValidationError:
        return None


async def handle_auth_metadata_response(response: httpx.Response) -> tuple[bool, OAuthMetadata | None]:
    """Return whether to continue, and the authorization server metadata in a response, or None."""
    if 300 <= response.status_code < 500:
        return True, None
    if response.status_code != 200:
        return False, None
    try:
        return True, OAuthMetadata.model_validate_json(await response.aread())
    except ValidationError:
        return True, None


def issuers_match(a: str, b: str) -> bool:
    """Return whether two issuers are equal, where an origin with and without a final slash is the same."""
    if a == b:
        return True
    shorter, longer = sorted((a, b), key=len)
    return longer == f"{shorter}/" and shorter == origin_of(shorter)


def validate_metadata_issuer(oauth_metadata: OAuthMetadata, expected_issuer: str) -> None:
    """Check that metadata are of the issuer for which they were fetched (RFC 8414, section 3.3).

    Raises:
        OAuthFlowError: they are of another issuer.
    """
    if not issuers_match(str(oauth_metadata.issuer), expected_issuer):
        raise OAuthFlowError(
            f"Authorization server metadata issuer mismatch: {oauth_metadata.issuer} != {expected_issuer}"
        )


def validate_authorization_response_iss(iss: str | None, oauth_metadata: OAuthMetadata | None) -> None:
    """Check the issuer that the redirect names (RFC 9207).

    Raises:
        OAuthFlowError: it is another authorization server, or is missing where the server announces it.
    """
    if iss is not None:
        if oauth_metadata is None or not issuers_match(iss, str(oauth_metadata.issuer)):
            raise OAuthFlowError(f"Authorization response iss mismatch: {iss}")
    elif oauth_metadata is not None and oauth_metadata.authorization_response_iss_parameter_supported:
        raise OAuthFlowError("Authorization response missing iss parameter advertised by the authorization server")


def union_scopes(previous_scope: str | None, new_scope: str | None) -> str | None:
    """Return two texts of scopes as one, without duplicates."""
    if not previous_scope or not new_scope:
        return previous_scope or new_scope
    return " ".join(dict.fromkeys([*previous_scope.split(), *new_scope.split()]))


def credentials_match_issuer(
    client_info: OAuthClientInformationFull, issuer: str, client_metadata_url: str | None
) -> bool:
    """Return whether stored client credentials may be sent to an issuer.

    The URL of a client metadata document works at every issuer. Credentials without a recorded issuer are kept.
    """
    if client_metadata_url is not None and client_info.client_id == client_metadata_url:
        return True
    return client_info.issuer is None or issuers_match(client_info.issuer, issuer)


def create_oauth_metadata_request(url: str) -> httpx.Request:
    """Return a request for a metadata document."""
    return httpx.Request("GET", url, headers={VERSION_HEADER: LATEST_PROTOCOL_VERSION})


def create_client_registration_request(
    auth_server_metadata: OAuthMetadata | None, client_metadata: OAuthClientMetadata, auth_base_url: str
) -> httpx.Request:
    """Return a registration request, to ``/register`` without metadata."""
    endpoint = None if auth_server_metadata is None else auth_server_metadata.registration_endpoint
    url = urljoin(auth_base_url, "/register") if endpoint is None else str(endpoint)
    return httpx.Request("POST", url, json=client_metadata.model_dump(by_alias=True, mode="json", exclude_none=True))


async def handle_registration_response(response: httpx.Response) -> OAuthClientInformationFull:
    """Return the registered client. ``issuer`` is ours to record: a member of this name is ignored.

    Raises:
        OAuthRegistrationError: the registration failed, or the response is not understood.
    """
    content = await response.aread()
    if response.status_code not in (200, 201):
        raise OAuthRegistrationError(
            f"Registration failed: {response.status_code}{redirect_note(response)} {response.text}"
        )
    try:
        body = from_json(content)
        if isinstance(body, dict):
            body.pop("issuer", None)
        return OAuthClientInformationFull.model_validate(body)
    except ValueError as error:
        raise OAuthRegistrationError(f"Invalid registration response: {error}") from error


def is_valid_client_metadata_url(url: str | None) -> bool:
    """Return whether a URL can be a client id: https, with a path."""
    if not url:
        return False
    try:
        parts = urlsplit(url)
    except ValueError:
        return False
    return parts.scheme == "https" and parts.path not in ("", "/")


def should_use_client_metadata_url(oauth_metadata: OAuthMetadata | None, client_metadata_url: str | None) -> bool:
    """Return whether the URL of a client metadata document is the client id, instead of a registration."""
    if not client_metadata_url or oauth_metadata is None:
        return False
    return oauth_metadata.client_id_metadata_document_supported is True


def create_client_info_from_metadata_url(
    client_metadata_url: str, redirect_uris: list[AnyUrl] | None = None
) -> OAuthClientInformationFull:
    """Return the client whose id is the URL of its metadata document. It has no secret."""
    return OAuthClientInformationFull(
        client_id=client_metadata_url, token_endpoint_auth_method="none", redirect_uris=redirect_uris
    )


async def handle_token_response_scopes(response: httpx.Response) -> OAuthToken:
    """Return the tokens in a successful response.

    Raises:
        OAuthTokenError: the response is not understood.
    """
    try:
        return OAuthToken.model_validate_json(await response.aread())
    except ValidationError as error:
        raise OAuthTokenError(f"Invalid token response: {error}") from error
