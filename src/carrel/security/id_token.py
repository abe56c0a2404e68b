"""ID tokens of OpenID providers: validation of their claims.

https://openid.net/specs/openid-connect-core-1_0.html#IDTokenValidation
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from carrel.security.server.bearer import InvalidToken
from carrel.security.server.jwt import read_jwt

__all__ = ["check_audience", "read_id_token"]

#: Tolerance for differences between clocks, in seconds.
LEEWAY = 10.0


def read_id_token(text: str, *, issuer: str, client_id: str, nonce: str | None, now: float) -> Mapping[str, Any]:
    """Return the validated claims of an ID token that the issuer's token endpoint has sent in a response.

    The signature is not verified: the connection to the token endpoint authenticates the issuer. Without ``nonce``, the
    authorization request had none. ``now`` is in seconds since the epoch.

    Raises:
        InvalidToken: a claim is missing, or is not for this issuer, client, login and time.
    """
    header, claims = read_jwt(text)
    if header.get("alg") in (None, "none"):
        raise InvalidToken("it is not signed")
    if claims.get("iss") != issuer:
        raise InvalidToken("it is of another issuer")
    check_audience(claims, client_id)
    if now >= read_time(claims, "exp") + LEEWAY:
        raise InvalidToken("it has expired")
    read_time(claims, "iat")
    subject = claims.get("sub")
    if not isinstance(subject, str) or not subject:
        raise InvalidToken("it does not say who the user is")
    if nonce is not None and claims.get("nonce") != nonce:
        raise InvalidToken("it is of another login")
    return claims


def read_time(claims: Mapping[str, Any], name: str) -> float:
    """Return a required claim that is a time, in seconds since the epoch.

    Raises:
        InvalidToken: the claim is missing, or is not a time.
    """
    value = claims.get(name)
    if isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) < 1e12:
        raise InvalidToken(f"its claim {name} is not a time")
    return float(value)


def check_audience(claims: Mapping[str, Any], client_id: str) -> None:
    """Check that an ID token was issued for a client (``aud``, ``azp``).

    Raises:
        InvalidToken: the ID token was issued for another client.
    """
    audience = claims.get("aud")
    audiences = [audience] if isinstance(audience, str) else audience
    party = claims.get("azp", client_id if isinstance(audience, str) or audience == [client_id] else None)
    if not isinstance(audiences, list) or client_id not in audiences or party != client_id:
        raise InvalidToken("it is for another client")
