"""Login through the OAuth proxy: authorization request, user consent, and the response of the upstream.

A login in progress is stored only in an encrypted cookie in the browser: the server stores a login only after the
upstream has accepted the user. The cookie binds the login to the browser, so that a response to a login in another
browser is rejected (CSRF, state fixation).

https://modelcontextprotocol.io/specification/2026-07-28/basic/authorization/security-considerations#confused-deputy-problem
https://www.rfc-editor.org/rfc/rfc9700
"""

from __future__ import annotations

import re
import secrets
from base64 import urlsafe_b64encode
from collections.abc import Callable, Iterable, Mapping
from hashlib import sha256
from typing import Any
from urllib.parse import parse_qsl, urlencode, urlsplit

import msgspec

from carrel.awaitables import MaybeAwaitable, resolved
from carrel.errors import ServerUnavailable
from carrel.log import Log
from carrel.security.server.bearer import Unverifiable
from carrel.security.server.metadata import canonical
from carrel.security.server.proxy.clients import Clients, OAuthClient, OAuthError, redirect_host
from carrel.security.server.proxy.grants import ProxyContext, ProxyGrants
from carrel.security.server.proxy.pages import consent_page, error_page, redirect
from carrel.security.server.proxy.upstream import UpstreamRejected
from carrel.transports.server.route import HTTPRequest, HTTPResponse

__all__ = ["Admission", "Login", "User", "read_form"]

log = Log("carrel.security")

#: Seconds that a user has for the consent page, and again for the login at the upstream.
LOGIN_TTL = 600.0

#: Maximum length of a client's state, and of a cookie, in characters.
MAX_STATE = 1024
MAX_COOKIE = 3900

CHALLENGE = re.compile(r"[A-Za-z0-9_-]{43}")
BROWSER = re.compile(r"[A-Za-z0-9_-]{43}")


class User(msgspec.Struct, frozen=True, kw_only=True):
    """User who logs in, as passed to ``admit``. ``token`` is the upstream's access token."""

    subject: str
    claims: Mapping[str, Any]
    scopes: frozenset[str]
    """The scopes that the client requests."""
    client_name: str
    token: str

    def __repr__(self) -> str:
        return f"User({self.subject!r})"


Admission = Callable[[User], MaybeAwaitable[bool | Iterable[str]]]


class VerifiedRequest(msgspec.Struct, kw_only=True):
    """Authorization request of a client whose client id and redirect URI have been checked."""

    client: str
    client_name: str
    redirect_uri: str
    state: str | None
    challenge: str
    scopes: list[str]
    expires: float


class PendingLogin(msgspec.Struct, kw_only=True):
    """Login in progress at the upstream."""

    request: VerifiedRequest
    verifier: str
    nonce: str
    expires: float


class Login:
    """Endpoints for browsers: ``authorize``, ``consent`` and ``callback``.

    ``admit`` decides who may log in.
    """

    def __init__(self, context: ProxyContext, clients: Clients, grants: ProxyGrants, admit: Admission | None) -> None:
        self._issuer, self._resource, self._scopes, self._sealer, self._upstream, self._clock = context
        self._clients = clients
        self._grants = grants
        self._admit = admit
        self._secure = context.issuer.startswith("https:")

    # Authorization request

    async def authorize(self, request: HTTPRequest) -> HTTPResponse:
        """Check an authorization request, and show the consent page. Show errors on a page, without an automatic
        redirect.
        """
        try:
            given = read_form(request.query)
            client = await self._clients.find(given.get("client_id", ""))
            redirect_uri = given.get("redirect_uri", "")
            if not client.accepts(redirect_uri):
                raise OAuthError("invalid_request", "The redirect URI is not one that the application has registered")
        except OAuthError as error:
            return error_page(503 if error.status == 503 else 400, str(error))
        try:
            pending = self._read_request(given, client, redirect_uri)
        except OAuthError as error:
            back = self._response_url(
                redirect_uri, given.get("state"), {"error": error.error, "error_description": str(error)}
            )
            return error_page(400, str(error), back)
        browser = self._browser_of(request) or secrets.token_urlsafe(32)
        host = redirect_host(redirect_uri)
        facts = {"Application": client.name, **({} if client.home is None else {"Published by": client.home})}
        facts |= {"You are sent back to": host, "Server": self._resource}
        if pending.scopes:
            facts["Permissions"] = " ".join(pending.scopes)
        return consent_page(
            facts,
            self._sealer.seal(f"consent {browser}", pending),
            self._upstream.upstream.name,
            self._cookie("browser", browser, 3600),
            local=urlsplit(redirect_uri).scheme == "http",
        )

    def _read_request(self, given: Mapping[str, str], client: OAuthClient, redirect_uri: str) -> VerifiedRequest:
        if given.get("response_type") != "code":
            raise OAuthError("unsupported_response_type", "response_type must be code")
        challenge = given.get("code_challenge", "")
        if given.get("code_challenge_method") != "S256" or CHALLENGE.fullmatch(challenge) is None:
            raise OAuthError("invalid_request", "PKCE is required: code_challenge, and code_challenge_method=S256")
        if canonical(given.get("resource", self._resource)) != self._resource:
            raise OAuthError("invalid_target", f"resource must be {self._resource}")
        state = given.get("state")
        if state is not None and len(state) > MAX_STATE:
            raise OAuthError("invalid_request", f"state has more than {MAX_STATE} characters")
        wanted = frozenset(given.get("scope", "").split()) & self._scopes.known
        return VerifiedRequest(
            client=client.key,
            client_name=client.name,
            redirect_uri=redirect_uri,
            state=state,
            challenge=challenge,
            scopes=sorted(wanted or self._scopes.basic),
            expires=self._clock() + LOGIN_TTL,
        )

    # Consent

    async def consent(self, request: HTTPRequest) -> HTTPResponse:
        """Handle the user's decision, and redirect the browser to the upstream."""
        try:
            form = read_form(request.body.decode("utf-8", "replace"))
        except OAuthError as error:
            return error_page(400, str(error))
        browser = self._browser_of(request)
        asked = (
            None
            if browser is None
            else self._sealer.open(f"consent {browser}", form.get("request", ""), VerifiedRequest)
        )
        if asked is None or asked.expires <= self._clock():
            return error_page(400, "This page was not made for this browser, or it is too old. Start the login again.")
        if form.get("decision") != "allow":
            return self._reject(asked, "access_denied", "The user did not allow it")
        state, verifier, nonce = secrets.token_urlsafe(32), secrets.token_urlsafe(48), secrets.token_urlsafe(16)
        pending = PendingLogin(request=asked, verifier=verifier, nonce=nonce, expires=self._clock() + LOGIN_TTL)
        sealed = self._sealer.seal(f"login {state}", pending)
        if len(sealed) > MAX_COOKIE:
            return self._reject(asked, "invalid_request", "The request is too long")
        challenge = urlsafe_b64encode(sha256(verifier.encode()).digest()).rstrip(b"=").decode()
        try:
            url = await self._upstream.authorization_url(state, challenge, nonce)
        except Unverifiable as error:
            log.error("logins are not possible: %s", error)
            return error_page(503, f"{self._upstream.upstream.name} cannot be reached at the moment. Try again later.")
        return redirect(url, [self._cookie(_login_name(state), sealed, LOGIN_TTL)])

    # Response of the upstream

    async def callback(self, request: HTTPRequest) -> HTTPResponse:
        """Handle the response of the upstream, and redirect the browser back to the client with a code."""
        try:
            given = read_form(request.query)
        except OAuthError as error:
            return error_page(400, str(error))
        state = given.get("state", "")
        name = _login_name(state)
        pending = self._sealer.open(f"login {state}", self._cookies_of(request).get(self._name(name), ""), PendingLogin)
        if pending is None or pending.expires <= self._clock():
            return error_page(400, "This login was not begun in this browser, or it took too long. Start it again.")
        used = self._cookie(name, "", 0)
        asked, service = pending.request, self._upstream.upstream.name
        try:
            await self._upstream.check_issuer(given.get("iss"))
            code = given.get("code")
            if "error" in given or not code:
                return self._reject(asked, "access_denied", f"{service} did not allow it", used)
            tokens, user = await self._upstream.redeem(code, pending.verifier, pending.nonce)
        except UpstreamRejected as error:
            log.warning("a login was refused: %s", error)
            return self._reject(asked, "access_denied", f"{service} did not accept the login", used)
        except Unverifiable as error:
            log.error("logins are not possible: %s", error)
            return self._reject(asked, "server_error", f"{service} gave no valid response", used)
        scopes = await self._admitted(
            User(
                subject=user.subject,
                claims=user.claims,
                scopes=frozenset(asked.scopes),
                client_name=asked.client_name,
                token=tokens.access,
            )
        )
        if scopes is None:
            return self._reject(asked, "access_denied", "This account has no access to this server", used)
        try:
            grant = await self._grants.begin(user, tokens, asked.client, scopes, self._resource)
        except ServerUnavailable as error:
            log.error("logins are not possible: %s", error)
            return self._reject(asked, "temporarily_unavailable", "There are too many logins: try again later", used)
        answer = await self._grants.code(grant, asked.redirect_uri, asked.challenge)
        return redirect(self._response_url(asked.redirect_uri, asked.state, {"code": answer}), [used])

    async def _admitted(self, user: User) -> frozenset[str] | None:
        """Return the scopes to grant to a user, or None if the user may not log in.

        If ``admit`` returns scopes, and the client requests no scope among them, the login is rejected.
        """
        if self._admit is None:
            return user.scopes
        try:
            decided: bool | Iterable[str] = await resolved(self._admit(user))
            if isinstance(decided, bool):
                return user.scopes if decided else None
            return user.scopes & frozenset([decided] if isinstance(decided, str) else decided or ()) or None
        except Exception:
            log.exception("admit failed, so a user may not log in")
            return None

    # Responses

    def _reject(self, asked: VerifiedRequest, error: str, description: str, *cookies: str) -> HTTPResponse:
        fields = {"error": error, "error_description": description}
        return redirect(self._response_url(asked.redirect_uri, asked.state, fields), cookies)

    def _response_url(self, redirect_uri: str, state: str | None, fields: Mapping[str, str]) -> str:
        """Return the authorization response, including the issuer (RFC 9207)."""
        given = {**fields, **({} if state is None else {"state": state}), "iss": self._issuer}
        return f"{redirect_uri}{'&' if '?' in redirect_uri else '?'}{urlencode(given)}"

    # Cookies

    def _name(self, name: str) -> str:
        """Return the name of a cookie. With the prefix __Host-, no other host and no insecure page can set it."""
        return f"__Host-carrel-{name}" if self._secure else f"carrel-{name}"

    def _cookie(self, name: str, value: str, seconds: float) -> str:
        secure = "; Secure" if self._secure else ""
        return f"{self._name(name)}={value}; Path=/; Max-Age={seconds:.0f}; HttpOnly; SameSite=Lax{secure}"

    def _cookies_of(self, request: HTTPRequest) -> dict[str, str]:
        """Return cookies by name. Cookies of other applications on the same host may have any format.

        Only spaces and tabs are stripped: a name with another blank before it has no prefix for the browser.
        """
        pairs = (part.strip(" \t").partition("=") for part in request.headers.get("cookie", "").split(";"))
        return {name: value for name, _, value in pairs}

    def _browser_of(self, request: HTTPRequest) -> str | None:
        found = self._cookies_of(request).get(self._name("browser"), "")
        return found if BROWSER.fullmatch(found) else None


def _login_name(state: str) -> str:
    return f"login-{sha256(state.encode()).hexdigest()[:16]}"


def read_form(text: str) -> dict[str, str]:
    """Return the parameters of a query or form.

    Raises:
        OAuthError: the text is malformed, or a parameter is repeated.
    """
    try:
        pairs = parse_qsl(text, keep_blank_values=True, max_num_fields=50, errors="strict")
    except ValueError:
        raise OAuthError("invalid_request", "The parameters are not understood") from None
    given = dict(pairs)
    if len(given) != len(pairs):
        raise OAuthError("invalid_request", "A parameter is repeated")
    return given
