"""Bearer token credentials: an access token obtained outside of OAuth discovery.

https://modelcontextprotocol.io/specification/2026-07-28/basic/authorization#access-token-usage
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from hashlib import sha256
from types import MappingProxyType
from typing import Any
from urllib.parse import urlsplit

from carrel.awaitables import resolved
from carrel.errors import AuthorizationError, ConfigError
from carrel.security.client.challenges import choose_challenge, read_challenges
from carrel.security.client.protected_resource import origin_of
from carrel.transports.addresses import is_loopback
from carrel.transports.client.transport import AuthorizationRejection

__all__ = ["Bearer"]


class Bearer:
    """Existing bearer token, sent to one server only: the origin of the first request.

    ``token`` is the token, or a function that returns one; it may be async, and is called for every request.

    Raises:
        ConfigError: the token has characters that are not allowed in a header.
    """

    extensions: Mapping[str, Mapping[str, Any]] = MappingProxyType({})

    def __init__(self, token: str | Callable[[], str | Awaitable[str]]) -> None:
        self._token = token if callable(token) else check_token(token)
        self._origin: str | None = None
        name = f"{id(self)}" if callable(token) else token
        self.principal = sha256(f"bearer {name}".encode()).hexdigest()[:32]

    def __repr__(self) -> str:
        return "Bearer(…)"

    async def headers(self, url: str, method: str = "POST") -> Mapping[str, str]:
        """Return the Authorization header, or no headers for another origin.

        Raises:
            AuthorizationError: the URL is neither https nor on this machine, so the token could be read in transit.
        """
        parts = urlsplit(url)
        if parts.scheme.lower() != "https" and not is_loopback(parts.hostname or ""):
            raise AuthorizationError(f"{url} is not https: no token is sent there, because it would not be encrypted")
        if self._origin is None:
            self._origin = origin_of(url)
        if origin_of(url) != self._origin:
            return {}
        token = self._token
        if callable(token):
            token = check_token(await resolved(token()))
        return {"authorization": f"Bearer {token}"}

    async def rejected(self, rejection: AuthorizationRejection) -> bool:
        """Handle a 401 or 403 response; the token cannot be renewed, so the request is never retried.

        Raises:
            AuthorizationError: the server does not accept the token, or requires a token with more scopes.
        """
        challenge = choose_challenge(read_challenges(rejection.challenges))
        parameters = {} if challenge is None else challenge.parameters
        url, status = rejection.url, rejection.status
        if status == 401:
            raise AuthorizationError(f"{url} does not accept the token that it was sent: it may have expired")
        if status == 403 and parameters.get("error") == "insufficient_scope":
            raise AuthorizationError(
                f"{url} requires a token with more scopes: {parameters.get('scope', 'it does not say what')}"
            )
        return False

    async def close(self) -> None:
        """No-op: there are no connections to close."""


def check_token(token: str) -> str:
    if not token or not all("!" <= character <= "~" for character in token):
        raise ConfigError("A token must consist of visible ASCII characters")
    return token
