"""OAuth authorization request with PKCE, ``state`` and ``nonce``, and validation of the authorization response.

https://modelcontextprotocol.io/specification/2026-07-28/basic/authorization#authorization-flow-steps
https://www.rfc-editor.org/rfc/rfc7636, https://www.rfc-editor.org/rfc/rfc9207
"""

from __future__ import annotations

import hmac
import secrets
from base64 import urlsafe_b64encode
from hashlib import sha256
from typing import NamedTuple
from urllib.parse import parse_qs, urlencode, urlsplit

from carrel.errors import AuthorizationError
from carrel.security.client.authorization_server import AuthorizationServer
from carrel.security.client.scope_selection import OFFLINE, OPENID
from carrel.security.client.tokens import printable

__all__ = ["AuthorizationRequest", "prepare_request", "read_response"]


class AuthorizationRequest(NamedTuple):
    """An authorization request URL and the state that is needed to validate its response."""

    url: str
    state: str
    verifier: str
    issuer: str
    redirect_uri: str
    nonce: str | None
    """Nonce for the ID token; None if none is requested."""


def prepare_request(
    server: AuthorizationServer,
    client_id: str,
    redirect_uri: str,
    scopes: frozenset[str],
    resource: str | None,
    *,
    state_prefix: str = "",
) -> AuthorizationRequest:
    """Return an authorization code request with a new ``state``, a new PKCE code verifier, and a nonce for an ID token.

    ``state`` begins with ``state_prefix``.

    Raises:
        AuthorizationError: the server has no authorization endpoint.
    """
    endpoint = server.endpoint("authorization_endpoint")
    state, verifier = state_prefix + secrets.token_urlsafe(32), secrets.token_urlsafe(64)
    challenge = urlsafe_b64encode(sha256(verifier.encode()).digest()).rstrip(b"=").decode()
    query = {
        "response_type": "code",
        "client_id": client_id,
        "redirect_uri": redirect_uri,
        "state": state,
        "code_challenge": challenge,
        "code_challenge_method": "S256",
    }
    if scopes:
        query["scope"] = " ".join(sorted(scopes))
    nonce = secrets.token_urlsafe(32) if OPENID in scopes else None
    if nonce is not None:
        query["nonce"] = nonce
    if OFFLINE in scopes:
        query["prompt"] = "consent"  # https://openid.net/specs/openid-connect-core-1_0.html#OfflineAccess
    if resource is not None:
        query["resource"] = resource
    mark = "&" if "?" in endpoint else "?"
    url = f"{endpoint}{mark}{urlencode(query)}"
    return AuthorizationRequest(url, state, verifier, server.issuer, redirect_uri, nonce)


def read_response(request: AuthorizationRequest, server: AuthorizationServer, url: str) -> str:
    """Return the authorization code of a response, given the URL that the browser was redirected to.

    https://modelcontextprotocol.io/specification/2026-07-28/basic/authorization#authorization-response-validation

    Raises:
        AuthorizationError: the response belongs to another request, is from another issuer, or is an error response.
    """
    try:
        given = parse_qs(urlsplit(url).query, keep_blank_values=True, max_num_fields=50)
    except ValueError:
        raise AuthorizationError("The redirect URL of the browser is not valid") from None
    several = sorted(name for name, values in given.items() if len(values) > 1)
    if several:
        raise AuthorizationError(f"The redirect URL of the browser repeats {', '.join(several)[:200]}")
    answer = {name: values[0] for name, values in given.items()}
    if not hmac.compare_digest(answer.get("state", "").encode(), request.state.encode()):
        raise AuthorizationError(
            "The redirect of the browser belongs to another request (its state differs). Try again"
        )
    issuer = answer.get("iss")
    if issuer is None and server.authorization_response_iss_parameter_supported:
        raise AuthorizationError(f"The authorization response does not name its issuer, {request.issuer}")
    if issuer is not None and issuer != request.issuer:  # the rest of the response is not trusted or shown
        raise AuthorizationError(f"The authorization response is not from {request.issuer}, but from another server")
    if "error" in answer:
        words = printable(": ".join(filter(None, (answer["error"], answer.get("error_description")))))
        raise AuthorizationError(f"{request.issuer} did not authorize this application: {words}")
    code = answer.get("code")
    if not code:
        raise AuthorizationError(f"The authorization response of {request.issuer} has no code")
    return code
