"""Authorization by access tokens: JWTs verified locally with the issuer's public keys, or a custom verifier.

https://www.rfc-editor.org/rfc/rfc9068, https://www.rfc-editor.org/rfc/rfc8725
"""

from __future__ import annotations

from binascii import Error, a2b_base64
from collections.abc import Iterable, Mapping, MutableMapping
from typing import Any, Unpack

from carrel.errors import ConfigError
from carrel.protocol.principal import Principal
from carrel.security.fetch import check_url
from carrel.security.server.bearer import InvalidToken
from carrel.security.server.keys import ALGORITHMS, IssuerKeys
from carrel.security.server.resource_server import ResourceServer, ResourceServerOptions, read_object
from carrel.security.server.verifier import TokenVerifier, Verifier

__all__ = ["Authorization", "read_jwt"]

TYPES = frozenset(("at+jwt", "application/at+jwt", "jwt"))
NOT_A_JWT = "The access token is not a JWT"


class Authorization(ResourceServer):
    """Authorization by JWT access tokens that one of the issuers issued for this server, or by a custom verifier.

    Args:
        issuer: the URL of the authorization server, exactly as in the ``iss`` claim, or several URLs. Its keys are
            discovered through its metadata when the first token arrives. With ``verify``, it is optional, and only
            tells clients where to get a token.
        verify: verifies tokens instead of the keys. It is called with the token, and returns a Principal or claims, or
            None for an invalid token. A function that is not asynchronous is called in a thread.
        jwks_uri: the URL of the key set, if the issuer has no metadata (one issuer only).
        algorithms: the accepted signature algorithms.
        keys_ttl: seconds after which keys are fetched again.
        keys_pause: seconds between two fetches for unknown keys, on average.

    Raises:
        ConfigError: an argument is invalid, or a required package is not installed.
    """

    def __init__(
        self,
        issuer: str | Iterable[str] = (),
        *,
        verify: Verifier | None = None,
        jwks_uri: str | None = None,
        algorithms: Iterable[str] = tuple(ALGORITHMS),
        keys_ttl: float = 3600.0,
        keys_pause: float = 5.0,
        **options: Unpack[ResourceServerOptions],
    ) -> None:
        issuers = [issuer] if isinstance(issuer, str) else list(issuer)
        if not issuers and verify is None:
            raise ConfigError("Authorization needs an issuer, or verify=…")
        super().__init__(issuers, **options)
        self._verifier = None if verify is None else TokenVerifier(verify)
        if verify is not None:
            if jwks_uri is not None:
                raise ConfigError("jwks_uri and verify exclude each other: a verifier needs no keys")
            return
        self._algorithms = frozenset([algorithms] if isinstance(algorithms, str) else algorithms)
        unknown = sorted(self._algorithms - set(ALGORITHMS))
        if unknown or not self._algorithms:
            raise ConfigError(f"algorithms: {', '.join(unknown) or 'none'}; there are {', '.join(ALGORITHMS)}")
        if keys_ttl <= 0 or keys_pause <= 0:
            raise ConfigError("keys_ttl and keys_pause must be more than 0 seconds")
        if jwks_uri is not None:
            check_url(jwks_uri, "jwks_uri")
            if len(self.issuers) > 1:
                raise ConfigError("jwks_uri is for one issuer; several are found by their metadata")
        self._registry = _registry()
        self._keys = {
            one: IssuerKeys(
                one, jwks_uri, lambda: self.monotonic(), self.remembered.clear, ttl=keys_ttl, pause=keys_pause
            )
            for one in self.issuers
        }

    async def verify(self, token: str) -> Principal:
        """Return the principal of a token.

        Raises:
            InvalidToken: the token's header, signature, issuer or lifetime is not valid.
            Unverifiable: the issuer's keys cannot be fetched.
        """
        known = self.remembered.get(token, self.clock())
        if known is not None:
            return known
        if self._verifier is not None:
            return await self._verify_by_own(self._verifier, token)
        header, claims = read_jwt(token)
        algorithm, kind, id = header.get("alg"), header.get("typ", "JWT"), header.get("kid")
        if not isinstance(algorithm, str) or algorithm not in self._algorithms:
            raise InvalidToken("The access token is signed with an algorithm that is not accepted here")
        if not isinstance(kind, str) or kind.lower() not in TYPES:
            raise InvalidToken("The token is not an access token")
        if "crit" in header or "b64" in header or not isinstance(id, str | None):
            raise InvalidToken("The header of the access token is not valid")
        keys = self.keys_of(claims.get("iss"))
        if keys is None:
            raise InvalidToken("The access token is of an issuer that is not accepted here")
        if claims.get("exp") is None:
            raise InvalidToken("The access token has no expiry")
        principal = self.principal(claims)
        candidates = await keys.find(id, algorithm)
        if not candidates:
            raise InvalidToken("The access token is signed with a key that its issuer does not have")
        if not any(self._fits(token, one.key) for one in candidates):
            raise InvalidToken("The signature of the access token is not valid")
        self.remembered.put(token, principal)
        return principal

    def keys_of(self, issuer: object) -> IssuerKeys | None:
        """Return the keys for the tokens of an issuer, or None if the issuer is not accepted."""
        return self._keys.get(issuer) if isinstance(issuer, str) else None

    async def _verify_by_own(self, verifier: TokenVerifier, token: str) -> Principal:
        found = await verifier.verify(token)
        principal = self.complete(found) if isinstance(found, Principal) else self.principal(found)
        self.remembered.put(token, principal)
        return principal

    def check_audience(self, principal: Principal, scope: MutableMapping[str, Any], path: str) -> None:
        """Check that a token was issued for this server. A custom verifier that returns no audience must check this.

        Raises:
            InvalidToken: the token was issued for another server.
        """
        if self._verifier is None or principal.audience:
            super().check_audience(principal, scope, path)

    def _fits(self, token: str, key: Any) -> bool:
        from joserfc.errors import JoseError
        from joserfc.jws import deserialize_compact

        try:
            deserialize_compact(token, key, registry=self._registry)
        except (JoseError, ValueError, TypeError, RecursionError):
            return False
        return True


def _registry() -> Any:
    """Return the joserfc registry for signature verification, without joserfc's restriction of algorithms."""
    from joserfc.jws import JWSRegistry

    class Registry(JWSRegistry):
        """Registry with all of ``ALGORITHMS``, unknown headers (RFC 7515, section 4), and both names of EdDSA."""

        max_header_length = 16 * 1024

        def get_alg(self, name: str) -> Any:
            return self.algorithms[name]

    return Registry(strict_check_header=False)


def read_jwt(token: str) -> tuple[Mapping[str, Any], Mapping[str, Any]]:
    """Return the header and the claims of a JWT, without verification.

    Raises:
        InvalidToken: the token does not have the form of a signed JWT.
    """
    pieces = token.split(".")
    if len(pieces) != 3:
        raise InvalidToken(NOT_A_JWT)
    return read_object(_decode(pieces[0])), read_object(_decode(pieces[1]))


def _decode(piece: str) -> bytes:
    if not set("+/=").isdisjoint(piece):
        raise InvalidToken(NOT_A_JWT)
    text = piece.replace("-", "+").replace("_", "/")
    try:
        return a2b_base64(text + "=" * (-len(text) % 4), strict_mode=True)
    except (Error, ValueError):
        raise InvalidToken(NOT_A_JWT) from None
