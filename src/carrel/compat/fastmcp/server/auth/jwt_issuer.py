"""Tokens that the OAuth proxy issues: signed references to tokens of the upstream."""

from __future__ import annotations

import hashlib
import time
from base64 import urlsafe_b64encode
from typing import Any

__all__ = ["JWTIssuer", "derive_jwt_key"]

ITERATIONS = 1_000_000


def derive_jwt_key(
    *, high_entropy_material: str | None = None, low_entropy_material: str | None = None, salt: str
) -> bytes:
    """Return a key of 32 bytes, in base64: of a random secret, or of a password.

    Raises:
        ValueError: not exactly one of the materials is given.
    """
    if (high_entropy_material is None) == (low_entropy_material is None):
        raise ValueError("Either high_entropy_material or low_entropy_material must be provided")
    if low_entropy_material is not None:
        key = hashlib.pbkdf2_hmac("sha256", low_entropy_material.encode(), salt.encode(), ITERATIONS)
        return urlsafe_b64encode(key)
    from cryptography.hazmat.primitives.hashes import SHA256
    from cryptography.hazmat.primitives.kdf.hkdf import HKDF

    derivation = HKDF(algorithm=SHA256(), length=32, salt=salt.encode(), info=b"Fernet")
    return urlsafe_b64encode(derivation.derive((high_entropy_material or "").encode()))


class JWTIssuer:
    """Issuer of access and refresh tokens for one audience, signed with HS256."""

    def __init__(self, issuer: str, audience: str, signing_key: bytes) -> None:
        from joserfc.jwk import OctKey

        self.issuer = issuer
        self.audience = audience
        self._key = OctKey.import_key(signing_key)

    def _issue(
        self, client_id: str, scopes: list[str], jti: str, expires_in: int, upstream_claims: Any, more: dict[str, str]
    ) -> str:
        from joserfc import jwt

        now = int(time.time())
        claims: dict[str, Any] = {
            "iss": self.issuer,
            "aud": self.audience,
            "client_id": client_id,
            "scope": " ".join(scopes),
            "exp": now + expires_in,
            "iat": now,
            "jti": jti,
            **more,
        }
        if upstream_claims:
            claims["upstream_claims"] = upstream_claims
        return jwt.encode({"alg": "HS256", "typ": "JWT"}, claims, self._key, algorithms=["HS256"])

    def issue_access_token(
        self,
        client_id: str,
        scopes: list[str],
        jti: str,
        expires_in: int = 3600,
        upstream_claims: dict[str, Any] | None = None,
    ) -> str:
        """Return an access token. ``expires_in`` is in seconds."""
        return self._issue(client_id, scopes, jti, expires_in, upstream_claims, {})

    def issue_refresh_token(
        self,
        client_id: str,
        scopes: list[str],
        jti: str,
        expires_in: int,
        upstream_claims: dict[str, Any] | None = None,
    ) -> str:
        """Return a refresh token. ``expires_in`` is in seconds."""
        return self._issue(client_id, scopes, jti, expires_in, upstream_claims, {"token_use": "refresh"})

    def verify_token(self, token: str, expected_token_use: str = "access") -> dict[str, Any]:
        """Return the claims of a token.

        Raises:
            JoseError: the signature, the use, the expiry, the issuer or the audience is wrong.
        """
        from joserfc import jwt
        from joserfc.errors import JoseError

        claims: dict[str, Any] = jwt.decode(token, self._key, algorithms=["HS256"]).claims
        use = claims.get("token_use", "access")
        if use != expected_token_use:
            raise JoseError(f"Token type mismatch: expected {expected_token_use}, got {use}")
        expires = claims.get("exp")
        if expires is None or expires < time.time():
            raise JoseError("Token has expired")
        if claims.get("iss") != self.issuer:
            raise JoseError("Invalid token issuer")
        if claims.get("aud") != self.audience:
            raise JoseError("Invalid token audience")
        return claims
