"""Verifier of tokens by a function, for development."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable
from typing import Any

from carrel.compat.fastmcp.server.auth.auth import AccessToken, TokenVerifier
from carrel.log import Log

__all__ = ["DebugTokenVerifier"]

log = Log("carrel.compat")


class DebugTokenVerifier(TokenVerifier):
    """Verifier that accepts the tokens that ``validate`` accepts; by default, all tokens but empty ones."""

    def __init__(
        self,
        validate: Callable[[str], bool] | Callable[[str], Awaitable[bool]] = lambda token: True,
        client_id: str = "debug-client",
        scopes: list[str] | None = None,
        required_scopes: list[str] | None = None,
    ) -> None:
        super().__init__(required_scopes=required_scopes)
        self.validate = validate
        self.client_id = client_id
        self.scopes = scopes or []

    async def verify_token(self, token: str) -> AccessToken | None:
        """Return the access token, or None if the function rejects it or fails."""
        if not token.strip():
            return None
        try:
            found: Any = self.validate(token)
            if inspect.isawaitable(found):
                found = await found
        except Exception as error:
            log.warning("the function that validates tokens failed: %s", error)
            return None
        if not found:
            return None
        return AccessToken(token=token, client_id=self.client_id, scopes=self.scopes, claims={"token": token})
