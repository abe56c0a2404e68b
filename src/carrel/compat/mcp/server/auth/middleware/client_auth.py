"""Authentication of OAuth clients at the token and revocation endpoints (RFC 6749, section 2.3)."""

from __future__ import annotations

import hmac
import time
from base64 import b64decode
from typing import Any
from urllib.parse import unquote

from starlette.requests import Request

from carrel.compat.mcp.server.auth.form import read_form
from carrel.compat.mcp.server.auth.provider import OAuthAuthorizationServerProvider
from carrel.compat.mcp.shared.auth import OAuthClientInformationFull

__all__ = ["AuthenticationError", "ClientAuthenticator"]


class AuthenticationError(Exception):
    """The client did not authenticate."""

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message


class ClientAuthenticator:
    """Authenticator of clients by the method that they registered with."""

    def __init__(self, provider: OAuthAuthorizationServerProvider[Any, Any, Any]) -> None:
        self.provider = provider

    async def authenticate_request(self, request: Request) -> OAuthClientInformationFull:
        """Return the client of a request.

        Raises:
            AuthenticationError: the client is unknown, or its secret is missing, wrong or expired.
        """
        form = await read_form(request)
        client_id = form.get("client_id")
        if not client_id:
            raise AuthenticationError("Missing client_id")
        client = await self.provider.get_client(client_id)
        if client is None:
            raise AuthenticationError("Invalid client_id")
        method = client.token_endpoint_auth_method
        secret: str | None = None
        if method == "client_secret_basic":
            secret = _basic_secret(request.headers.get("Authorization", ""), client_id)
        elif method == "client_secret_post":
            secret = form.get("client_secret")
        elif method != "none":
            raise AuthenticationError(f"Unsupported auth method: {method}")
        if client.client_secret:
            if not secret:
                raise AuthenticationError("Client secret is required")
            if not hmac.compare_digest(client.client_secret.encode(), secret.encode()):
                raise AuthenticationError("Invalid client_secret")
            if client.client_secret_expires_at and client.client_secret_expires_at < int(time.time()):
                raise AuthenticationError("Client secret has expired")
        return client


def _basic_secret(header: str, client_id: str) -> str:
    """Return the secret in an Authorization header.

    Raises:
        AuthenticationError: the header is not valid, or for another client.
    """
    scheme, _, encoded = header.partition(" ")
    if scheme != "Basic":
        raise AuthenticationError("Missing or invalid Basic authentication in Authorization header")
    try:
        name, found, secret = b64decode(encoded).decode().partition(":")
    except ValueError:
        found = ""
    if not found:
        raise AuthenticationError("Invalid Basic authentication header")
    if unquote(name) != client_id:
        raise AuthenticationError("Client ID mismatch in Basic auth")
    return unquote(secret)
