"""Authentication of clients by signed assertions (``private_key_jwt``), with the keys in the document of the client.

https://www.rfc-editor.org/rfc/rfc7523#section-3
"""

from __future__ import annotations

import hmac
import time
from collections.abc import Sequence
from typing import Any

from starlette.requests import Request

from carrel.compat.fastmcp.server.auth.cimd import CIMDDocument
from carrel.compat.fastmcp.server.auth.providers.jwt import ALGORITHMS, JWTVerifier
from carrel.compat.fastmcp.utilities.auth import decode_jwt_header
from carrel.compat.mcp.server.auth.form import read_form
from carrel.compat.mcp.server.auth.middleware.client_auth import AuthenticationError, ClientAuthenticator
from carrel.compat.mcp.shared.auth import OAuthClientInformationFull

__all__ = ["ASSERTION_TYPE", "PRIVATE_KEY_JWT", "AssertionAuthenticator", "AssertionValidator"]

PRIVATE_KEY_JWT = "private_key_jwt"
ASSERTION_TYPE = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"
#: Seconds: how long an assertion may be valid, and how much the clock of a client may differ.
MAX_LIFETIME = 300
CLOCK_SKEW = 30
#: How many used assertions and verifiers are kept.
MAX_USED = 10_000
MAX_VERIFIERS = 100


class DocumentedKeys(JWTVerifier):
    """Verifier with the keys in the document of a client, or at the URL that it names."""

    def __init__(self, document: CIMDDocument, client_id: str, audiences: list[str], algorithm: str) -> None:
        uri = str(document.jwks_uri or client_id)
        super().__init__(jwks_uri=uri, issuer=client_id, audience=audiences, algorithm=algorithm, ssrf_safe=True)
        self._inline = None if document.jwks_uri else document.jwks

    async def _fetch_jwks(self) -> dict[str, Any]:
        return await super()._fetch_jwks() if self._inline is None else self._inline


class AssertionValidator:
    """Validator of assertions, each of which is accepted once. ``audiences`` are URLs that name this server."""

    def __init__(self, audiences: Sequence[str]) -> None:
        self._audiences = list(audiences)
        self._used: dict[tuple[str, str], float] = {}
        self._verifiers: dict[tuple[str, str], tuple[CIMDDocument, DocumentedKeys]] = {}

    async def validate(self, assertion: str, client_id: str, document: CIMDDocument) -> None:
        """Check that a client has signed an assertion for this server.

        Raises:
            ValueError: the assertion is not valid, has expired, lives too long, or was used before.
        """
        verifier = self._verifier(assertion, client_id, document)
        found = await verifier.load_access_token(assertion)
        if found is None:
            raise ValueError("Invalid JWT assertion")
        now, claims = time.time(), found.claims
        expires, issued, id = (claims.get(name) for name in ("exp", "iat", "jti"))
        issued = now if issued is None else issued
        if not isinstance(expires, int | float) or not isinstance(issued, int | float):
            raise ValueError("Assertion must include exp claim")
        if not issued <= now + CLOCK_SKEW:  # true for NaN too
            raise ValueError("Assertion iat is in the future")
        if not expires - issued <= MAX_LIFETIME:
            raise ValueError(f"Assertion lifetime too long (max {MAX_LIFETIME}s)")
        if not hmac.compare_digest(str(claims.get("sub")).encode(), client_id.encode()):
            raise ValueError(f"Assertion sub claim must be {client_id}")
        if not isinstance(id, str) or not id:
            raise ValueError("Assertion must include jti claim")
        self._use((client_id, id), expires, now)

    def _verifier(self, assertion: str, client_id: str, document: CIMDDocument) -> DocumentedKeys:
        try:
            algorithm = decode_jwt_header(assertion).get("alg")
        except (ValueError, AttributeError) as error:
            raise ValueError(f"Invalid JWT assertion: {error}") from error
        if algorithm not in ALGORITHMS or algorithm.startswith("HS"):
            raise ValueError(f"Unsupported assertion algorithm: {algorithm!r}")
        if not document.jwks_uri and not document.jwks:
            raise ValueError("CIMD document must have jwks_uri or jwks for private_key_jwt")
        known = self._verifiers.get((client_id, algorithm))
        if known is not None and known[0] == document:
            return known[1]
        if len(self._verifiers) >= MAX_VERIFIERS:
            self._verifiers.pop(next(iter(self._verifiers)))
        verifier = DocumentedKeys(document, client_id, self._audiences, algorithm)
        self._verifiers[client_id, algorithm] = document, verifier
        return verifier

    def _use(self, key: tuple[str, str], expires: float, now: float) -> None:
        """Remember an assertion until it has expired.

        Raises:
            ValueError: it was used before, or there are too many.
        """
        if self._used.get(key, 0.0) > now:
            raise ValueError("Assertion replay detected: the jti was used before")
        if len(self._used) >= MAX_USED:
            self._used = {each: until for each, until in self._used.items() if until > now}
            if len(self._used) >= MAX_USED:
                raise ValueError("Server overloaded, please retry")
        self._used[key] = expires


class AssertionAuthenticator(ClientAuthenticator):
    """Authenticator of clients, also by assertions. ``audiences`` are URLs that name this server."""

    def __init__(self, provider: Any, audiences: Sequence[str]) -> None:
        super().__init__(provider)
        self._validator = AssertionValidator(audiences)

    async def authenticate_request(self, request: Request) -> OAuthClientInformationFull:
        """Return the client of a request.

        Raises:
            AuthenticationError: the client is unknown, or its credentials are missing, wrong or expired.
        """
        form = await read_form(request)
        client_id = form.get("client_id")
        client = await self.provider.get_client(client_id) if client_id else None
        document = getattr(client, "cimd_document", None)
        if client is None or document is None or client.token_endpoint_auth_method != PRIVATE_KEY_JWT:
            return await super().authenticate_request(request)
        if form.get("client_assertion_type") != ASSERTION_TYPE:
            raise AuthenticationError(f"Invalid client_assertion_type: expected {ASSERTION_TYPE}")
        assertion = form.get("client_assertion")
        if not assertion:
            raise AuthenticationError("Missing client_assertion")
        try:
            await self._validator.validate(assertion, str(client_id), document)
        except ValueError as error:
            raise AuthenticationError(f"Invalid client assertion: {error}") from None
        return client
