"""Verifiers of JSON Web Tokens, and of tokens in a table."""

from __future__ import annotations

import json
import time
from collections.abc import Collection
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any, TypedDict

from pydantic import AnyHttpUrl, SecretStr

from carrel.compat.fastmcp.http_library import httpx
from carrel.compat.fastmcp.server.auth.auth import AccessToken, TokenVerifier
from carrel.compat.fastmcp.server.auth.jwks import KeySet
from carrel.compat.fastmcp.utilities.auth import decode_jwt_header, parse_scopes
from carrel.compat.fastmcp.utilities.logging import get_logger

__all__ = ["JWKData", "JWKSData", "JWTVerifier", "RSAKeyPair", "StaticTokenVerifier"]

#: Types of keys by the first letters of algorithms.
KINDS = {"HS": "oct", "RS": "RSA", "PS": "RSA", "ES": "EC"}
ALGORITHMS = frozenset(f"{kind}{size}" for kind in KINDS for size in (256, 384, 512))
PEM = tuple(f"-----BEGIN {kind}-----" for kind in ("PUBLIC KEY", "RSA PUBLIC KEY", "EC PUBLIC KEY", "CERTIFICATE"))


class JWKData(TypedDict, total=False):
    """JSON Web Key."""

    kty: str
    kid: str
    use: str
    alg: str
    n: str
    e: str
    x5c: list[str]
    x5t: str


class JWKSData(TypedDict):
    """JSON Web Key Set."""

    keys: list[JWKData]


@dataclass(frozen=True, kw_only=True, repr=False)
class RSAKeyPair:
    """RSA keys as PEM, for tests."""

    private_key: SecretStr
    public_key: str

    @classmethod
    def generate(cls) -> RSAKeyPair:
        """Return new keys."""
        from joserfc.jwk import RSAKey

        key = RSAKey.generate_key(2048, private=True)
        return cls(
            private_key=SecretStr(key.as_pem(private=True).decode()), public_key=key.as_pem(private=False).decode()
        )

    def create_token(
        self,
        subject: str = "fastmcp-user",
        issuer: str = "https://fastmcp.example.com",
        audience: str | list[str] | None = None,
        scopes: list[str] | None = None,
        expires_in_seconds: int = 3600,
        additional_claims: dict[str, Any] | None = None,
        kid: str | None = None,
    ) -> str:
        """Return a signed token."""
        from joserfc import jwt
        from joserfc.jwk import import_key

        now = int(time.time())
        claims: dict[str, Any] = {"sub": subject, "iss": issuer, "iat": now, "exp": now + expires_in_seconds}
        if audience:
            claims["aud"] = audience
        if scopes:
            claims["scope"] = " ".join(scopes)
        header = {"alg": "RS256", **({"kid": kid} if kid else {})}
        key = import_key(self.private_key.get_secret_value(), "RSA")
        return jwt.encode(header, {**claims, **(additional_claims or {})}, key, algorithms=["RS256"])


class JWTVerifier(TokenVerifier):
    """Verifier of JWTs with one algorithm: with a public key or a secret, or with the keys of an issuer.

    ``ssrf_safe`` fetches the keys from public addresses over https only.

    Raises:
        ValueError: not exactly one source of keys is given, or the options do not fit together.
    """

    def __init__(
        self,
        *,
        public_key: str | bytes | None = None,
        jwks_uri: str | None = None,
        issuer: str | list[str] | None = None,
        audience: str | list[str] | None = None,
        algorithm: str | None = None,
        required_scopes: list[str] | None = None,
        base_url: AnyHttpUrl | str | None = None,
        ssrf_safe: bool = False,
        http_client: httpx.AsyncClient | None = None,
        jwks_refresh_interval: float = 30.0,
    ) -> None:
        if not public_key and not jwks_uri:
            raise ValueError("Either public_key or jwks_uri must be provided")
        if public_key and jwks_uri:
            raise ValueError("Provide either public_key or jwks_uri, not both")
        if jwks_uri and ssrf_safe and http_client is not None:
            raise ValueError("http_client cannot be used with ssrf_safe=True")
        algorithm = algorithm or "RS256"
        if algorithm not in ALGORITHMS:
            raise ValueError(f"Unsupported algorithm: {algorithm}.")
        if algorithm.startswith("HS"):
            text = public_key.decode(errors="replace") if isinstance(public_key, bytes) else public_key
            if text is None:
                raise ValueError("Symmetric HS* algorithms cannot be used with jwks_uri: give the secret as public_key")
            if any(mark in text for mark in PEM):
                raise ValueError("Symmetric HS* algorithms require a shared secret, not a public key.")
        super().__init__(base_url, parse_scopes(required_scopes))
        self.algorithm = algorithm
        self.issuer = issuer
        self.audience = audience
        self.public_key = public_key
        self.jwks_uri = jwks_uri
        self.ssrf_safe = ssrf_safe
        self._http_client = http_client
        self.logger = get_logger(__name__)
        self._keys = KeySet(lambda: self._fetch_jwks(), jwks_refresh_interval)

    async def _get_verification_key(self, token: str) -> str | bytes:
        """Return the key for a token.

        Raises:
            ValueError: the token is no JWT, or its key cannot be found.
        """
        if self.public_key:
            return self.public_key
        try:
            id = decode_jwt_header(token).get("kid")
        except (ValueError, AttributeError) as error:
            raise ValueError(f"Failed to extract key ID from token: {error}") from error
        return await self._get_jwks_key(id)

    async def _get_jwks_key(self, kid: str | None) -> str:
        """Return a key of the issuer.

        Raises:
            ValueError: it cannot be found.
        """
        return await self._keys.get(kid)

    async def _fetch_jwks(self) -> dict[str, Any]:
        if self.ssrf_safe:
            from carrel.compat.fastmcp.server.auth.ssrf import ssrf_safe_fetch

            content = await ssrf_safe_fetch(str(self.jwks_uri), max_size=65536)
            document: dict[str, Any] = json.loads(content)
            return document
        own = self._http_client
        async with httpx.AsyncClient(timeout=10.0) if own is None else nullcontext(own) as client:
            response = await client.get(str(self.jwks_uri))
            response.raise_for_status()
            found: dict[str, Any] = response.json()
        return found

    def _extract_scopes(self, claims: dict[str, Any]) -> list[str]:
        """Return the scopes of a token: ``scope``, or ``scp``."""
        value = claims.get("scope", claims.get("scp"))
        if isinstance(value, str):
            return value.split()
        return value if isinstance(value, list) else []

    async def load_access_token(self, token: str) -> AccessToken | None:
        """Return the access token, or None if the signature, the expiry or a claim is wrong."""
        from joserfc.errors import JoseError

        try:
            claims = self._claims(token, await self._get_verification_key(token))
            client = str(claims.get("client_id") or claims.get("azp") or claims.get("sub") or "unknown")
            expires = claims.get("exp")
            if expires is not None and expires < time.time():
                self.logger.info("a token of the client %s has expired", client)
                return None
            scopes = self._extract_scopes(claims)
            if not self._is_acceptable(client, claims, scopes):
                return None
            return AccessToken(
                token=token,
                client_id=client,
                scopes=scopes,
                expires_at=None if expires is None else int(expires),
                claims=claims,
            )
        except (JoseError, ValueError, TypeError, KeyError, AttributeError) as error:
            self.logger.debug("a token is not valid: %s", error)
            return None

    def _claims(self, token: str, key: str | bytes) -> dict[str, Any]:
        """Return the claims of a token after verifying its signature.

        Raises:
            ValueError: the header has extensions that have to be understood.
        """
        from joserfc import jwt
        from joserfc.jwk import import_key
        from joserfc.jws import JWSRegistry

        if "crit" in decode_jwt_header(token):
            raise ValueError("unsupported critical header")
        signing: Any = import_key(key, KINDS[self.algorithm[:2]])  # type: ignore[call-overload]
        registry = JWSRegistry(algorithms=[self.algorithm], strict_check_header=False)
        return jwt.decode(token, signing, algorithms=[self.algorithm], registry=registry).claims

    def _is_acceptable(self, client: str, claims: dict[str, Any], scopes: Collection[str]) -> bool:
        """Return whether issuer, audience and scopes are the expected ones."""
        audience = claims.get("aud")
        checks = {
            "issuer": not self.issuer or claims.get("iss") in _list(self.issuer),
            "audience": not self.audience or not set(_list(audience)).isdisjoint(_list(self.audience)),
            "scopes": set(self.required_scopes).issubset(scopes),
        }
        wrong = [name for name, fits in checks.items() if not fits]
        if wrong:
            got = {"issuer": claims.get("iss"), "audience": audience, "scopes": sorted(scopes)}
            self.logger.warning(
                "Bearer token rejected for client %s: %s mismatch (got %r)", client, wrong[0], got[wrong[0]]
            )
        return not wrong

    async def verify_token(self, token: str) -> AccessToken | None:
        """Return the access token, or None if it is not valid."""
        return await self.load_access_token(token)


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


class StaticTokenVerifier(TokenVerifier):
    """Verifier of the tokens in a table: token to ``client_id``, ``scopes`` and ``expires_at``."""

    def __init__(self, tokens: dict[str, dict[str, Any]], required_scopes: list[str] | None = None) -> None:
        super().__init__(required_scopes=required_scopes)
        self.tokens = tokens

    async def verify_token(self, token: str) -> AccessToken | None:
        """Return the access token, or None if it is not in the table, has expired or lacks a scope."""
        found = self.tokens.get(token)
        if not found:
            return None
        expires, scopes = found.get("expires_at"), found.get("scopes", [])
        if (expires is not None and expires < time.time()) or not set(self.required_scopes).issubset(scopes):
            return None
        return AccessToken(token=token, client_id=found["client_id"], scopes=scopes, expires_at=expires, claims=found)
