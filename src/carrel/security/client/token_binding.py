"""Binding of access tokens to a key (DPoP): the prover of one client.

https://www.rfc-editor.org/rfc/rfc9449
"""

from __future__ import annotations

from carrel.errors import AuthorizationError
from carrel.security.client.authorization_target import AuthorizationTarget
from carrel.security.client.challenges import Challenge
from carrel.security.client.dpop import ALGORITHM, Prover, nonce_of
from carrel.security.client.tokens import Token
from carrel.transports.client.transport import AuthorizationRejection

__all__ = ["TokenBinding"]


class TokenBinding:
    """Prover for the tokens of one client.

    ``required`` is whether tokens must be bound to a key; None leaves it to the server.
    """

    def __init__(self, required: bool | None) -> None:
        self._required = required
        self.prover: Prover | None = None

    def for_token(self, token: Token) -> Prover | None:
        """Return the prover with the key of a token; None if the token is a plain bearer token."""
        if token.key is None:
            return None
        if self.prover is None or self.prover.key.private() != token.key:
            self.prover = Prover(token.key)
        return self.prover

    def for_target(self, target: AuthorizationTarget) -> Prover | None:
        """Return the prover that new tokens are bound to; None if they are plain bearer tokens.

        Raises:
            AuthorizationError: binding is required, and the authorization server does not support it.
        """
        if not (target.bound if self._required is None else self._required):
            return None
        if ALGORITHM not in (target.server.dpop_signing_alg_values_supported or ()):
            raise AuthorizationError(f"{target.server.issuer} binds no tokens to keys with {ALGORITHM} (DPoP)")
        if self.prover is None:
            self.prover = Prover()
        return self.prover

    def check(self, token: Token) -> None:
        """Check that a new token is bound to a key, if that is required.

        Raises:
            AuthorizationError: the token is a plain bearer token.
        """
        if self._required and token.key is None:
            raise AuthorizationError(f"{token.issuer} issued a token that is not bound to a key (DPoP)")

    def takes_nonce(self, token: Token | None, rejection: AuthorizationRejection, challenge: Challenge | None) -> bool:
        """Record a DPoP nonce; return whether the request was rejected only because its proof lacked the nonce."""
        prover = None if token is None else self.for_token(token)
        if prover is None or rejection.nonce is None:
            return False
        prover.note(rejection.url, rejection.nonce)
        proof = (rejection.sent or {}).get("dpop")
        asked = challenge is not None and challenge.parameters.get("error") == "use_dpop_nonce"
        return asked and (proof is None or nonce_of(proof) != rejection.nonce)
