"""OAuth access tokens, and token requests to the token endpoint.

https://www.rfc-editor.org/rfc/rfc6749#section-5, https://www.rfc-editor.org/rfc/rfc8707
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from carrel.errors import AuthorizationError
from carrel.redaction import RedactedStruct, Secret
from carrel.security.client.challenges import read_scope
from carrel.security.client.client_authentication import RegisteredClient
from carrel.security.client.dpop import Prover
from carrel.security.fetch import FetchedResponse
from carrel.security.id_token import read_id_token
from carrel.security.server.bearer import InvalidToken, Unverifiable

__all__ = ["EXCHANGE", "Token", "TokenRejected", "explain", "request_token"]

#: Maximum number of characters of an authorization server's error text to include in messages.
MAX_WORDS = 300
#: Grant type of a token exchange (RFC 8693).
EXCHANGE = "urn:ietf:params:oauth:grant-type:token-exchange"


class TokenRejected(AuthorizationError):
    """The authorization server rejected a token request. ``error`` is its error code, such as invalid_grant."""

    def __init__(self, message: str, error: str | None) -> None:
        super().__init__(message)
        self.error = error


class Token(msgspec.Struct, frozen=True, kw_only=True):
    """Access token with its issuer, client, resource and scopes.

    ``expires`` and ``issued`` are in seconds since the epoch; ``requested`` are the requested scopes, ``scopes`` the
    granted scopes. ``subject`` identifies the user who authorized it, by a validated ID token.
    """

    access_token: str
    token_type: str = "Bearer"  # noqa: S105
    refresh_token: str | None = None
    issued: float = 0.0
    expires: float | None = None
    requested: frozenset[str] = frozenset()
    scopes: frozenset[str] = frozenset()
    issuer: str
    resource: str | None = None
    client_id: str
    subject: str = ""
    key: dict[str, Any] | None = None
    """The private key that the token is bound to (DPoP), as a JSON Web Key; None for bearer tokens."""

    def __repr__(self) -> str:
        return f"Token(issuer={self.issuer!r}, client_id={self.client_id!r}, scopes={sorted(self.scopes)})"

    def expired(self, now: float) -> bool:
        """Return whether the token has expired or is about to."""
        if self.expires is None:
            return False
        return now >= self.expires - min(30.0, max(0.0, (self.expires - self.issued) / 10))


class Issued(RedactedStruct, frozen=True):
    """Token response, reduced to the fields in use (RFC 6749, section 5.1)."""

    access_token: Secret
    token_type: str = "Bearer"  # noqa: S105
    expires_in: float | str | None = None
    refresh_token: Secret | None = None
    scope: str | None = None
    id_token: Secret | None = None
    issued_token_type: str | None = None


async def request_token(
    client: RegisteredClient,
    form: Mapping[str, str],
    *,
    prover: Prover | None = None,
    requested: frozenset[str] = frozenset(),
    resource: str | None = None,
    nonce: str | None = None,
) -> tuple[Token, Issued]:
    """Request a token from the token endpoint. Client authentication and the resource are added to ``form``.

    ``nonce`` is the nonce of the authorization request, which the ID token needs too.

    Raises:
        TokenRejected: the authorization server rejects the request.
        AuthorizationError: the endpoint cannot be reached, or its response is invalid.
    """
    server, given = client.server, dict(form) if resource is None else {**form, "resource": resource}
    now = client.clock()
    answer = await ask_endpoint(client, given, prover)
    reason = None if answer.status == 200 else error_of(answer)
    if reason == "use_dpop_nonce" and prover is not None and "dpop-nonce" in answer.headers:
        answer = await ask_endpoint(client, given, prover)
        reason = error_of(answer)
    if answer.status >= 500 or answer.status == 429:  # not a verdict on the request itself
        raise AuthorizationError(f"{server.issuer} issues no token at the moment: {explain(answer)}")
    if answer.status != 200:
        raise TokenRejected(f"{server.issuer} issues no token: {explain(answer)}", reason)
    issued = read_issued(answer, server.issuer)
    scopes = requested if issued.scope is None else read_scope(issued.scope)
    bound = issued.token_type.lower() == "dpop"
    exchange = form["grant_type"] == EXCHANGE  # may issue a token that is no access token (RFC 8693, section 2.2.1)
    if issued.token_type.lower() != "bearer" and not exchange and not (bound and prover is not None):
        raise AuthorizationError(f"{server.issuer} issued a token of a type that is not known here")
    token = Token(
        access_token=issued.access_token,
        token_type="DPoP" if bound else "Bearer",
        refresh_token=issued.refresh_token or None,
        issued=now,
        expires=lifetime(issued.expires_in, now),
        requested=requested,
        scopes=scopes,
        issuer=server.issuer,
        resource=resource,
        client_id=client.identity.id,
        subject=subject_of(issued, client, nonce, now),
        key=prover.key.private() if bound and prover is not None else None,
    )
    return token, issued


async def ask_endpoint(client: RegisteredClient, form: Mapping[str, str], prover: Prover | None) -> FetchedResponse:
    """Send an authenticated request to the token endpoint. Record the DPoP nonce of the response."""
    url = client.server.endpoint("token_endpoint")
    headers: dict[str, str] = {}
    fields = dict(form)
    client.authenticate(fields, headers)
    if prover is not None:
        headers["dpop"] = prover.prove("POST", url, client.clock())
    try:
        answer = await client.fetcher.ask("POST", url, form=fields, headers=headers)
    except Unverifiable as error:
        raise AuthorizationError(f"No token can be requested from {client.server.issuer}: {error}") from None
    nonce = answer.headers.get("dpop-nonce")
    if prover is not None and nonce:
        prover.note(url, nonce)
    return answer


def read_issued(answer: FetchedResponse, issuer: str) -> Issued:
    """Return the parsed response of a token endpoint.

    Raises:
        AuthorizationError: the response has no valid token.
    """
    try:
        issued = msgspec.convert({k: v for k, v in answer.read().items() if v is not None}, Issued)
    except (Unverifiable, msgspec.ValidationError):  # it may contain a token: do not show it
        raise AuthorizationError(f"{issuer} did not answer with a token") from None
    if not issued.access_token or not all("!" <= character <= "~" for character in issued.access_token):
        raise AuthorizationError(f"{issuer} issued a token that is not valid in a header")
    return issued


def lifetime(seconds: float | str | None, now: float) -> float | None:
    """Return when a token expires, in seconds since the epoch; None if ``expires_in`` is missing or invalid."""
    try:
        given = float(seconds) if seconds is not None else -1.0
    except ValueError:
        return None
    return now + given if 0 <= given < 1e10 else None


def subject_of(issued: Issued, client: RegisteredClient, nonce: str | None, now: float) -> str:
    """Return the subject of the ID token in a token response; "" if there is no valid ID token.

    Raises:
        AuthorizationError: the ID token is not valid, and was requested with ``nonce``.
    """
    if issued.id_token is None:
        return ""
    try:
        issuer = client.server.issuer
        claims = read_id_token(issued.id_token, issuer=issuer, client_id=client.identity.id, nonce=nonce, now=now)
    except InvalidToken as error:
        if nonce is None:
            return ""
        raise AuthorizationError(f"{issuer} sent an ID token that is not valid: {error}") from None
    return str(claims["sub"])


def error_of(answer: FetchedResponse) -> str | None:
    """Return the error code of an error response (RFC 6749, section 5.2), if any."""
    try:
        error = answer.read().get("error")
    except Unverifiable:
        return None
    return error if isinstance(error, str) else None


def explain(answer: FetchedResponse) -> str:
    """Return the error and its description in one line of printable text."""
    try:
        document = answer.read()
    except Unverifiable:
        document = {}
    words = [document[name] for name in ("error", "error_description") if isinstance(document.get(name), str)]
    return printable(": ".join(words)) or f"status {answer.status}"


def printable(text: str) -> str:
    """Return untrusted text made safe for a message: truncated, and without control characters."""
    return "".join(character if character.isprintable() else " " for character in text[:MAX_WORDS])
