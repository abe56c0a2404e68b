"""Credentials of the commands: the token of ``carrel login``, looked up only when a server requires authorization."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from carrel.errors import AuthorizationError

if TYPE_CHECKING:
    from carrel.security.client.authorization_code import OAuth
    from carrel.transports.client.transport import AuthorizationRejection

__all__ = ["StoredLogin", "stored_login"]


def stored_login(headers: Iterable[str]) -> StoredLogin | None:
    """Return the credentials for a server with these headers; None if they have an Authorization header."""
    return None if any(name.lower() == "authorization" for name in headers) else StoredLogin()


class StoredLogin:
    """Credentials that never prompt the user. Without a valid token, the error explains how to log in."""

    extensions: Mapping[str, Mapping[str, object]] = {}

    def __init__(self) -> None:
        self._stored: OAuth | None = None

    @property
    def principal(self) -> str:
        """Identifier of the user. Empty until a token is required."""
        return "" if self._stored is None else self._stored.principal

    async def headers(self, url: str, method: str = "POST") -> Mapping[str, str]:
        """Return the headers with the token. Empty until the server requires a token."""
        return {} if self._stored is None else await self._stored.headers(url, method)

    async def rejected(self, rejection: AuthorizationRejection) -> bool:
        """Handle a 401 or 403 response with the stored token, refreshing it if possible without the user.

        Raises:
            AuthorizationError: there is no token, or the user's consent is required.
            ConfigError: the packages for authorization are not installed.
        """
        if rejection.status not in (401, 403):
            return False
        url = rejection.url
        hint = f"carrel login {url}"
        if self._stored is None:
            from carrel.security.client.authorization_code import OAuth

            async def reject(page: str) -> str:
                raise AuthorizationError(f"{url} requires another login: {hint}")

            self._stored = OAuth(authorize=reject)
            if await self._stored.headers(url):
                return True
            header = "--header 'Authorization: Bearer …'"
            if not await self._stored.can_log_in(rejection):
                raise AuthorizationError(
                    f"{url} requires authorization, and names no authorization server: ask for a token, "
                    f"and use {header}"
                )
            raise AuthorizationError(f"{url} requires authorization: {hint}, or {header}")
        return await self._stored.rejected(rejection)

    async def close(self) -> None:
        """Close connections."""
        if self._stored is not None:
            await self._stored.close()
