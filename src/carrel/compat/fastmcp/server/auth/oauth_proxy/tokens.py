"""Tokens of the OAuth proxy: issued for codes and refresh tokens, exchanged for tokens of the upstream on use."""

from __future__ import annotations

import secrets
import time
from contextlib import asynccontextmanager
from typing import Any

import anyio

from carrel.compat.fastmcp.server.auth.auth import AccessToken, TokenVerifier
from carrel.compat.fastmcp.server.auth.jwt_issuer import JWTIssuer
from carrel.compat.fastmcp.server.auth.oauth_proxy.models import (
    DEFAULT_ACCESS_TOKEN_EXPIRY_NO_REFRESH_SECONDS,
    DEFAULT_ACCESS_TOKEN_EXPIRY_SECONDS,
    ClientCode,
    JTIMapping,
    RefreshTokenMetadata,
    UpstreamTokenSet,
    _hash_token,
)
from carrel.compat.fastmcp.utilities.auth import parse_scopes
from carrel.compat.fastmcp.utilities.key_value import Collection
from carrel.compat.mcp.server.auth.provider import AuthorizationCode, RefreshToken, TokenError
from carrel.compat.mcp.shared.auth import OAuthClientInformationFull, OAuthToken
from carrel.log import Log

__all__ = ["Tokens"]

log = Log("carrel.compat")

MAX_LOCKS = 1000


class Tokens:
    """Tokens of the proxy. Each stands for tokens of the upstream; no token of the upstream leaves the proxy."""

    _code_store: Collection[ClientCode]
    _jti_mapping_store: Collection[JTIMapping]
    _refresh_token_store: Collection[RefreshTokenMetadata]
    _upstream_token_store: Collection[UpstreamTokenSet]
    _token_validator: TokenVerifier
    _upstream_token_endpoint: str
    _extra_token_params: dict[str, str]
    _fallback_access_token_expiry_seconds: int | None
    _fallback_refresh_token_expiry_seconds: int
    _fastmcp_access_token_expiry_seconds: int | None
    _token_expiry_threshold_seconds: int

    def __init__(self) -> None:
        self._locks: dict[str, anyio.Lock] = {}

    @property
    def jwt_issuer(self) -> JWTIssuer:
        """Issuer of the tokens."""
        raise NotImplementedError

    def _upstream_oauth_client(self) -> Any:
        """Return the client of the upstream, as an asynchronous context manager."""
        raise NotImplementedError

    # What subclasses change

    def _prepare_scopes_for_token_exchange(self, scopes: list[str]) -> list[str]:
        """Return the scopes to send with an authorization code."""
        return scopes

    def _translate_scopes_from_idp(self, scopes: list[str]) -> list[str]:
        """Return the scopes for clients of the scopes that the upstream granted."""
        return scopes

    def _prepare_scopes_for_upstream_refresh(self, scopes: list[str]) -> list[str]:
        """Return the scopes to send with a refresh token of the upstream."""
        return scopes

    async def _extract_upstream_claims(self, idp_tokens: dict[str, Any]) -> dict[str, Any] | None:
        """Return claims of the upstream to put into tokens of the proxy, or None."""
        return None

    def _get_verification_token(self, upstream_token_set: UpstreamTokenSet) -> str | None:
        """Return the token that the verifier verifies."""
        return upstream_token_set.access_token

    def _uses_alternate_verification(self) -> bool:
        """Return whether the verifier verifies another token than the access token."""
        return False

    # Issuing

    async def exchange_authorization_code(
        self, client: OAuthClientInformationFull, authorization_code: AuthorizationCode
    ) -> OAuthToken:
        """Return tokens of the proxy for a code, once.

        Raises:
            TokenError: the code was exchanged before.
        """
        code = await self._code_store.get(authorization_code.code)
        if code is None or not await self._code_store.delete(authorization_code.code):
            raise TokenError("invalid_grant", "Authorization code not found")
        given, now = code.idp_tokens, time.time()
        scopes = self._granted(given, list(authorization_code.scopes))
        lifetime = self._lifetime(given, refreshable=bool(given.get("refresh_token")))
        found = UpstreamTokenSet(
            upstream_token_id=secrets.token_urlsafe(32),
            access_token=given["access_token"],
            refresh_token=given.get("refresh_token") or None,
            refresh_token_expires_at=None,
            expires_at=now + lifetime,
            token_type=given.get("token_type", "Bearer"),
            scope=" ".join(scopes),
            client_id=client.client_id or "",
            created_at=now,
            raw_token_data=given,
        )
        self._extend(found, given)
        return await self._issue(client, found, scopes, lifetime)

    async def exchange_refresh_token(
        self, client: OAuthClientInformationFull, refresh_token: RefreshToken, scopes: list[str]
    ) -> OAuthToken:
        """Refresh the upstream's tokens, and exchange a refresh token of the proxy for new tokens.

        Raises:
            TokenError: the refresh token was used before, or the upstream refuses its own.
        """
        from joserfc.errors import JoseError

        try:
            jti = self.jwt_issuer.verify_token(refresh_token.token, expected_token_use="refresh")["jti"]
        except (JoseError, KeyError, ValueError) as error:
            raise TokenError("invalid_grant", "Invalid refresh token") from error
        found = await self._behind(jti)
        if found is None:
            raise TokenError("invalid_grant", "Refresh token mapping not found")
        if not found.refresh_token:
            raise TokenError("invalid_grant", "Refresh not supported for this token")
        try:
            given = await self._refresh(found, scopes)
        except Exception as error:
            log.warning("the upstream did not refresh a token: %s", error)
            raise TokenError("invalid_grant", f"Upstream refresh failed: {error}") from error
        if not await self._jti_mapping_store.delete(jti):
            raise TokenError("invalid_grant", "Refresh token mapping not found")
        await self._refresh_token_store.delete(_hash_token(refresh_token.token))
        return await self._issue(client, found, found.scope.split(), self._lifetime(given, refreshable=True))

    async def _refresh(self, found: UpstreamTokenSet, scopes: list[str]) -> dict[str, Any]:
        """Refresh tokens of the upstream, and return its response."""
        wanted = self._prepare_scopes_for_upstream_refresh(scopes)
        async with self._upstream_oauth_client() as upstream:
            given: dict[str, Any] = await upstream.refresh_token(
                url=self._upstream_token_endpoint,
                refresh_token=found.refresh_token,
                scope=" ".join(wanted) or None,
                **self._extra_token_params,
            )
        found.access_token = given["access_token"]
        found.expires_at = time.time() + self._lifetime(given, refreshable=True)
        found.scope = " ".join(self._granted(given, scopes))
        self._extend(found, given)
        found.raw_token_data = {**found.raw_token_data, **given}
        return given

    def _granted(self, given: dict[str, Any], asked: list[str]) -> list[str]:
        scopes = (parse_scopes(given["scope"]) or []) if "scope" in given else asked
        return self._translate_scopes_from_idp(scopes)

    def _lifetime(self, given: dict[str, Any], *, refreshable: bool) -> int:
        """Return the lifetime of an access token of the upstream in seconds."""
        if given.get("expires_in") is not None:
            return int(given["expires_in"])
        fallback = self._fallback_access_token_expiry_seconds
        return (
            fallback
            if fallback is not None
            else (
                DEFAULT_ACCESS_TOKEN_EXPIRY_SECONDS if refreshable else DEFAULT_ACCESS_TOKEN_EXPIRY_NO_REFRESH_SECONDS
            )
        )

    def _extend(self, found: UpstreamTokenSet, given: dict[str, Any]) -> None:
        """Take the refresh token of a response, and when it expires."""
        if not given.get("refresh_token"):
            return
        found.refresh_token = given["refresh_token"]
        lifetime = int(given.get("refresh_expires_in") or 0)
        if lifetime or found.refresh_token_expires_at is None:
            found.refresh_token_expires_at = time.time() + (lifetime or self._fallback_refresh_token_expiry_seconds)

    async def _save(self, found: UpstreamTokenSet, at_least: int = 0) -> None:
        """Store tokens of the upstream until the last token that stands for them expires."""
        until = max(found.expires_at, found.refresh_token_expires_at or 0.0)
        ttl = max(int(until - time.time()), at_least, self._fastmcp_access_token_expiry_seconds or 0, 1)
        await self._upstream_token_store.put(found.upstream_token_id, found, ttl)

    async def _issue(
        self, client: OAuthClientInformationFull, found: UpstreamTokenSet, scopes: list[str], lifetime: int
    ) -> OAuthToken:
        """Store tokens of the upstream, and return tokens of the proxy that stand for them."""
        if client.client_id is None:
            raise TokenError("invalid_client", "Client ID is required")
        own = self._fastmcp_access_token_expiry_seconds
        expires_in = lifetime if own is None else own if found.refresh_token else min(own, lifetime)
        await self._save(found, expires_in)
        claims = await self._extract_upstream_claims(found.raw_token_data)
        now, refresh, jti = time.time(), None, secrets.token_urlsafe(32)
        access = self.jwt_issuer.issue_access_token(client.client_id, scopes, jti, expires_in, claims)
        mapping = JTIMapping(jti=jti, upstream_token_id=found.upstream_token_id, created_at=now)
        await self._jti_mapping_store.put(jti, mapping, max(expires_in, 1))
        if found.refresh_token:
            ttl = max(int((found.refresh_token_expires_at or now) - now), 1)
            jti = secrets.token_urlsafe(32)
            refresh = self.jwt_issuer.issue_refresh_token(client.client_id, scopes, jti, ttl, claims)
            await self._jti_mapping_store.put(jti, mapping.model_copy(update={"jti": jti}), ttl)
            kept = RefreshTokenMetadata(
                client_id=client.client_id, scopes=scopes, expires_at=int(now) + ttl, created_at=now
            )
            await self._refresh_token_store.put(_hash_token(refresh), kept, ttl)
        return OAuthToken(access_token=access, expires_in=expires_in, refresh_token=refresh, scope=" ".join(scopes))

    # Use

    async def _behind(self, jti: str) -> UpstreamTokenSet | None:
        """Return the tokens of the upstream that a token of the proxy stands for."""
        mapping = await self._jti_mapping_store.get(jti)
        return None if mapping is None else await self._upstream_token_store.get(mapping.upstream_token_id)

    async def load_refresh_token(self, client: OAuthClientInformationFull, refresh_token: str) -> RefreshToken | None:
        """Return a refresh token of a client, or None."""
        found = await self._refresh_token_store.get(_hash_token(refresh_token))
        if found is None or found.client_id != client.client_id:
            return None
        return RefreshToken(
            token=refresh_token, client_id=found.client_id, scopes=found.scopes, expires_at=found.expires_at
        )

    async def load_access_token(self, token: str) -> AccessToken | None:
        """Verify the upstream's token behind a token of the proxy; return the access token, or None."""
        from joserfc.errors import JoseError

        try:
            claims = self.jwt_issuer.verify_token(token)
            found = await self._behind(claims["jti"])
        except (JoseError, KeyError, ValueError):
            return None
        if found is None:
            return None
        try:
            validated = await self._verified(found)
        except Exception as error:
            log.warning("the token of the upstream was not verified: %s", error)
            return None
        if validated is None:
            return None
        changes: dict[str, Any] = {}
        if self._uses_alternate_verification():
            scopes = found.scope.split() or validated.scopes
            changes = {"token": found.access_token, "scopes": scopes, "expires_at": int(found.expires_at)}
        if claims.get("upstream_claims"):
            changes["claims"] = {**(validated.claims or {}), "upstream_claims": claims["upstream_claims"]}
        return validated.model_copy(update=changes)

    async def _verified(self, found: UpstreamTokenSet) -> AccessToken | None:
        """Verify a token of the upstream, and refresh it if it has expired, one caller at a time."""
        validated = await self._verify(found)
        threshold = self._token_expiry_threshold_seconds
        if not found.refresh_token or found.expires_at > time.time() + threshold or (validated and threshold <= 0):
            return validated
        async with self._alone(found.upstream_token_id):
            found_now = await self._upstream_token_store.get(found.upstream_token_id) or found
            if found_now.expires_at <= time.time() + threshold:
                try:
                    await self._refresh(found_now, found_now.scope.split())
                    await self._save(found_now)
                except Exception as error:
                    log.warning("the upstream did not refresh a token: %s", error)
                    found_now = await self._upstream_token_store.get(found.upstream_token_id) or found
            found.__dict__.update(found_now.__dict__)
        return await self._verify(found)

    async def _verify(self, found: UpstreamTokenSet) -> AccessToken | None:
        token = self._get_verification_token(found)
        return None if token is None else await self._token_validator.verify_token(token)

    @asynccontextmanager
    async def _alone(self, id: str) -> Any:
        """Wait for other callers who refresh the same token."""
        if id not in self._locks and len(self._locks) >= MAX_LOCKS:
            self._locks.pop(next(iter(self._locks)))
        async with self._locks.setdefault(id, anyio.Lock()):
            yield

    async def revoke_token(self, token: Any) -> None:
        """End the login of a refresh token: its tokens, and the upstream's behind them."""
        from joserfc.errors import JoseError

        if not isinstance(token, RefreshToken):
            return
        await self._refresh_token_store.delete(_hash_token(token.token))
        try:
            jti = self.jwt_issuer.verify_token(token.token, expected_token_use="refresh")["jti"]
        except (JoseError, KeyError, ValueError):
            return
        found = await self._behind(jti)
        await self._jti_mapping_store.delete(jti)
        if found is not None:
            await self._upstream_token_store.delete(found.upstream_token_id)
            await self._revoke_upstream(found)

    async def _revoke_upstream(self, found: UpstreamTokenSet) -> None:
        """Revoke tokens at the upstream."""
