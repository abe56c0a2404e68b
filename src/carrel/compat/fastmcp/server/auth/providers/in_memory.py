"""Authorization server in memory, which authorizes every user: for tests."""

from __future__ import annotations

import secrets
import time
from typing import Any

from pydantic import AnyHttpUrl

from carrel.compat.fastmcp.server.auth.auth import AccessToken, OAuthProvider
from carrel.compat.mcp.server.auth.provider import (
    AuthorizationCode,
    AuthorizationParams,
    AuthorizeError,
    RefreshToken,
    TokenError,
    construct_redirect_uri,
)
from carrel.compat.mcp.shared.auth import OAuthClientInformationFull, OAuthToken

__all__ = ["InMemoryOAuthProvider"]

CODE_LIFETIME = 300
ACCESS_LIFETIME = 3600


class InMemoryOAuthProvider(OAuthProvider):
    """Authorization server without a login. Clients, codes and tokens are gone with the process."""

    def __init__(self, base_url: AnyHttpUrl | str | None = None, **options: Any) -> None:
        super().__init__(base_url=base_url or "http://fastmcp.example.com", **options)
        self.clients: dict[str, OAuthClientInformationFull] = {}
        self.auth_codes: dict[str, AuthorizationCode] = {}
        self.access_tokens: dict[str, AccessToken] = {}
        self.refresh_tokens: dict[str, RefreshToken] = {}
        self._access_to_refresh_map: dict[str, str] = {}
        self._refresh_to_access_map: dict[str, str] = {}

    async def get_client(self, client_id: str) -> OAuthClientInformationFull | None:
        """Return a registered client, or None."""
        return self.clients.get(client_id)

    async def register_client(self, client_info: OAuthClientInformationFull) -> None:
        """Store a client.

        Raises:
            ValueError: it has no id, or scopes that are not valid.
        """
        options = self.client_registration_options
        if client_info.scope is not None and options is not None and options.valid_scopes is not None:
            wrong = set(client_info.scope.split()) - set(options.valid_scopes)
            if wrong:
                raise ValueError(f"Requested scopes are not valid: {', '.join(sorted(wrong))}")
        if client_info.client_id is None:
            raise ValueError("client_id is required for client registration")
        self.clients[client_info.client_id] = client_info

    async def authorize(self, client: OAuthClientInformationFull, params: AuthorizationParams) -> str:
        """Return the redirect URI with a code: every user authorizes.

        Raises:
            AuthorizeError: the client is unknown.
        """
        if client.client_id is None or client.client_id not in self.clients:
            raise AuthorizeError("unauthorized_client", f"Client '{client.client_id}' not registered.")
        allowed = set(client.scope.split()) if client.scope else None
        scopes = [each for each in params.scopes or () if allowed is None or each in allowed]
        code = f"test_auth_code_{secrets.token_hex(16)}"
        self.auth_codes[code] = AuthorizationCode(
            code=code,
            client_id=client.client_id,
            redirect_uri=params.redirect_uri,
            redirect_uri_provided_explicitly=params.redirect_uri_provided_explicitly,
            scopes=scopes,
            expires_at=time.time() + CODE_LIFETIME,
            code_challenge=params.code_challenge,
        )
        return construct_redirect_uri(str(params.redirect_uri), code=code, state=params.state)

    async def load_authorization_code(
        self, client: OAuthClientInformationFull, authorization_code: str
    ) -> AuthorizationCode | None:
        """Return a code of the client that has not expired, or None."""
        found = self.auth_codes.get(authorization_code)
        if found is None or found.client_id != client.client_id:
            return None
        if found.expires_at < time.time():
            del self.auth_codes[authorization_code]
            return None
        return found

    async def exchange_authorization_code(
        self, client: OAuthClientInformationFull, authorization_code: AuthorizationCode
    ) -> OAuthToken:
        """Return tokens for a code, once.

        Raises:
            TokenError: the code was exchanged before.
        """
        if self.auth_codes.pop(authorization_code.code, None) is None:
            raise TokenError("invalid_grant", "Authorization code not found or already used.")
        return self._issue(authorization_code.client_id, authorization_code.scopes)

    def _issue(self, client_id: str, scopes: list[str]) -> OAuthToken:
        access, refresh = f"test_access_token_{secrets.token_hex(32)}", f"test_refresh_token_{secrets.token_hex(32)}"
        self.access_tokens[access] = AccessToken(
            token=access, client_id=client_id, scopes=scopes, expires_at=int(time.time()) + ACCESS_LIFETIME
        )
        self.refresh_tokens[refresh] = RefreshToken(token=refresh, client_id=client_id, scopes=scopes)
        self._access_to_refresh_map[access], self._refresh_to_access_map[refresh] = refresh, access
        return OAuthToken(
            access_token=access, expires_in=ACCESS_LIFETIME, refresh_token=refresh, scope=" ".join(scopes)
        )

    async def load_refresh_token(self, client: OAuthClientInformationFull, refresh_token: str) -> RefreshToken | None:
        """Return a refresh token of the client, or None."""
        found = self.refresh_tokens.get(refresh_token)
        if found is None or found.client_id != client.client_id:
            return None
        if found.expires_at is not None and found.expires_at < time.time():
            self._forget(refresh=refresh_token)
            return None
        return found

    async def exchange_refresh_token(
        self, client: OAuthClientInformationFull, refresh_token: RefreshToken, scopes: list[str]
    ) -> OAuthToken:
        """Return new tokens for a refresh token, which ends.

        Raises:
            TokenError: a scope was not granted.
        """
        if not set(scopes).issubset(refresh_token.scopes):
            raise TokenError("invalid_scope", "Requested scopes exceed those authorized by the refresh token.")
        self._forget(refresh=refresh_token.token)
        return self._issue(refresh_token.client_id, scopes)

    async def load_access_token(self, token: str) -> AccessToken | None:
        """Return an access token that has not expired, or None."""
        found = self.access_tokens.get(token)
        if found is not None and found.expires_at is not None and found.expires_at < time.time():
            self._forget(access=token)
            return None
        return found

    async def revoke_token(self, token: Any) -> None:
        """Revoke a token and the token that was issued with it."""
        if isinstance(token, RefreshToken):
            self._forget(refresh=token.token)
        else:
            self._forget(access=token.token)

    def _forget(self, access: str | None = None, refresh: str | None = None) -> None:
        refresh = refresh or self._access_to_refresh_map.get(access or "")
        access = access or self._refresh_to_access_map.get(refresh or "")
        self.access_tokens.pop(access or "", None)
        self.refresh_tokens.pop(refresh or "", None)
        self._access_to_refresh_map.pop(access or "", None)
        self._refresh_to_access_map.pop(refresh or "", None)
