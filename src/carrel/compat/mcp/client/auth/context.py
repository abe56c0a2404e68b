"""State of the authorization of a client at one server."""

from __future__ import annotations

import secrets
import time
from base64 import b64encode, urlsafe_b64encode
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Protocol
from urllib.parse import quote

import anyio
from pydantic import BaseModel, Field

from carrel.compat.mcp.client.auth.utils import origin_of
from carrel.compat.mcp.shared.auth import (
    AuthorizationCodeResult,
    OAuthClientInformationFull,
    OAuthClientMetadata,
    OAuthMetadata,
    OAuthToken,
    ProtectedResourceMetadata,
)
from carrel.compat.mcp.shared.auth_utils import (
    calculate_token_expiry,
    check_resource_allowed,
    resource_url_from_server_url,
)
from carrel.compat.mcp.shared.version import SUPPORTED_PROTOCOL_VERSIONS

__all__ = ["CallbackHandler", "OAuthContext", "PKCEParameters", "RedirectHandler", "TokenStorage"]

RedirectHandler = Callable[[str], Awaitable[None]]
CallbackHandler = Callable[[], Awaitable[tuple[str, str | None] | AuthorizationCodeResult]]

#: First revision whose clients name the resource in requests (RFC 8707).
RESOURCE_SINCE = SUPPORTED_PROTOCOL_VERSIONS[2]


class PKCEParameters(BaseModel):
    """Code verifier and its S256 challenge (RFC 7636)."""

    code_verifier: str = Field(..., min_length=43, max_length=128)
    code_challenge: str = Field(..., min_length=43, max_length=128)

    @classmethod
    def generate(cls) -> PKCEParameters:
        """Return new parameters."""
        verifier = secrets.token_urlsafe(96)
        challenge = urlsafe_b64encode(sha256(verifier.encode()).digest()).rstrip(b"=").decode()
        return cls(code_verifier=verifier, code_challenge=challenge)


class TokenStorage(Protocol):
    """Storage of a program for tokens and the registered client."""

    async def get_tokens(self) -> OAuthToken | None:
        """Return the stored tokens."""
        ...

    async def set_tokens(self, tokens: OAuthToken) -> None:
        """Store tokens."""
        ...

    async def get_client_info(self) -> OAuthClientInformationFull | None:
        """Return the stored client."""
        ...

    async def set_client_info(self, client_info: OAuthClientInformationFull) -> None:
        """Store a client."""
        ...


@dataclass
class OAuthContext:
    """State of the authorization at one server: configuration, metadata, client and tokens."""

    server_url: str
    client_metadata: OAuthClientMetadata
    storage: TokenStorage
    redirect_handler: RedirectHandler | None
    callback_handler: CallbackHandler | None
    timeout: float = 300.0
    client_metadata_url: str | None = None
    protected_resource_metadata: ProtectedResourceMetadata | None = None
    oauth_metadata: OAuthMetadata | None = None
    auth_server_url: str | None = None
    protocol_version: str | None = None
    client_info: OAuthClientInformationFull | None = None
    current_tokens: OAuthToken | None = None
    token_expiry_time: float | None = None
    lock: anyio.Lock = field(default_factory=anyio.Lock)

    def get_authorization_base_url(self, server_url: str) -> str:
        """Return the origin of a URL."""
        return origin_of(server_url)

    def update_token_expiry(self, token: OAuthToken) -> None:
        """Record when a token expires."""
        self.token_expiry_time = calculate_token_expiry(token.expires_in)

    def is_token_valid(self) -> bool:
        """Return whether there is an access token that has not expired."""
        tokens, expiry = self.current_tokens, self.token_expiry_time
        return bool(tokens and tokens.access_token and (not expiry or time.time() <= expiry))

    def can_refresh_token(self) -> bool:
        """Return whether there is a refresh token."""
        return bool(self.current_tokens and self.current_tokens.refresh_token and self.client_info)

    def clear_tokens(self) -> None:
        """Forget the tokens."""
        self.current_tokens = self.token_expiry_time = None

    def get_resource_url(self) -> str:
        """Return the resource indicator: from resource metadata that cover the server, or the server's URL."""
        own = resource_url_from_server_url(self.server_url)
        metadata = self.protected_resource_metadata
        named = str(metadata.resource) if metadata is not None and metadata.resource else None
        return named if named is not None and check_resource_allowed(own, named) else own

    def should_include_resource_param(self, protocol_version: str | None = None) -> bool:
        """Return whether requests name the resource: with resource metadata, or since revision 2025-06-18."""
        if self.protected_resource_metadata is not None:
            return True
        return bool(protocol_version) and str(protocol_version) >= RESOURCE_SINCE

    def prepare_token_auth(
        self, data: dict[str, str], headers: dict[str, str] | None = None
    ) -> tuple[dict[str, str], dict[str, str]]:
        """Return the form and the headers of a token request with the authentication of the client."""
        headers = {} if headers is None else headers
        client = self.client_info
        if client is None or not client.client_secret:
            return data, headers
        if client.token_endpoint_auth_method == "client_secret_basic" and client.client_id:
            pair = f"{quote(client.client_id, safe='')}:{quote(client.client_secret, safe='')}"
            headers["Authorization"] = f"Basic {b64encode(pair.encode()).decode()}"
            return {name: value for name, value in data.items() if name != "client_secret"}, headers
        if client.token_endpoint_auth_method == "client_secret_post":
            data["client_secret"] = client.client_secret
        return data, headers
