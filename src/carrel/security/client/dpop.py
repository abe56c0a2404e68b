"""DPoP proofs, which bind an access token to a key so that a stolen token cannot be used.

https://www.rfc-editor.org/rfc/rfc9449
"""

from __future__ import annotations

import secrets
from base64 import urlsafe_b64encode
from collections.abc import Mapping
from hashlib import sha256
from typing import Any

from carrel.security.client.client_authentication import PrivateKey
from carrel.security.client.protected_resource import origin_of
from carrel.security.server.bearer import InvalidToken
from carrel.security.server.jwt import read_jwt

__all__ = ["ALGORITHM", "Prover", "nonce_of"]

ALGORITHM = "ES256"


class Prover:
    """DPoP key pair, and the nonces that servers have supplied for its proofs.

    ``key`` is a stored JSON Web Key; by default, a new key is generated.
    """

    def __init__(self, key: Mapping[str, Any] | None = None) -> None:
        if key is None:
            from joserfc.jwk import ECKey

            key = ECKey.generate_key("P-256").as_dict(private=True)
        self.key = PrivateKey(dict(key), ALGORITHM)
        self._nonces: dict[str, str] = {}

    def note(self, url: str, nonce: str) -> None:
        """Record the nonce that a server supplied for subsequent proofs."""
        self._nonces[origin_of(url)] = nonce

    def prove(self, method: str, url: str, now: float, access_token: str | None = None) -> str:
        """Return the DPoP proof for one request and its access token. ``now`` is in seconds since the epoch."""
        claims: dict[str, Any] = {
            "jti": secrets.token_urlsafe(16),
            "htm": method,
            "htu": url.partition("?")[0].partition("#")[0],
            "iat": int(now),
        }
        if access_token is not None:
            digest = sha256(access_token.encode("ascii")).digest()
            claims["ath"] = urlsafe_b64encode(digest).rstrip(b"=").decode()
        nonce = self._nonces.get(origin_of(url))
        if nonce is not None:
            claims["nonce"] = nonce
        return self.key.sign(claims, typ="dpop+jwt", jwk=self.key.public())


def nonce_of(proof: str) -> str | None:
    """Return the nonce in a proof that this client created, or None."""
    try:
        nonce = read_jwt(proof)[1].get("nonce")
    except InvalidToken:
        return None
    return nonce if isinstance(nonce, str) else None
