"""Web pages where users authorize a gateway at its upstreams: start, consent, callback.

A pending authorization belongs to one principal and one upstream. The principal must be logged in to the browser that
starts it, and the authorization server must redirect the same browser back. Otherwise, a user could trick another
person into authorizing an account for them, or authorize their own account for another person.

https://modelcontextprotocol.io/specification/2025-11-25/client/elicitation#phishing
https://modelcontextprotocol.io/specification/2026-07-28/basic/security_best_practices#confused-deputy-problem
"""

from __future__ import annotations

import asyncio
import hmac
import secrets
from collections.abc import Awaitable, Callable
from hashlib import sha256
from html import escape
from typing import TYPE_CHECKING, Protocol
from urllib.parse import parse_qs, urlsplit

from carrel.errors import AuthorizationError, ConfigError
from carrel.gateway.login_pages import LoginPages, failed
from carrel.log import Log
from carrel.security.server.proxy.pages import page, redirect
from carrel.transports.addresses import is_loopback
from carrel.transports.server.route import HTTPRequest, HTTPResponse

if TYPE_CHECKING:
    from carrel.protocol.principal import Principal
    from carrel.server.app import Server

__all__ = ["CALLBACK", "START", "BrowserLogin", "BrowserPages", "Identify", "PendingAuthorization"]

log = Log("carrel.gateway")

START = "/gateway/authorize"
CALLBACK = "/gateway/callback"
COOKIE = "authorization"
#: Maximum number of pending authorizations, in total and per user.
MAX_PENDING = 10_000
MAX_PENDING_PER_USER = 100
#: Seconds that the callback page waits for the outcome.
OUTCOME = 15.0

#: Returns the subject of the user who is logged in to the gateway in the browser, or None.
Identify = Callable[[HTTPRequest], Awaitable[str | None]]


class BrowserLogin(Protocol):
    """Browser login of gateway users, which identifies the user of a browser."""

    def add_routes(self, app: Server) -> None:
        """Add its pages to the server of the gateway."""

    async def identify(self, request: HTTPRequest) -> tuple[str, str] | None:
        """Return the logged-in user's issuer and subject, or None."""

    async def begin(self, back: str, user: str) -> HTTPResponse:
        """Return a response that redirects the browser to the login, and then to ``back``.

        ``user`` identifies the caller who has to log in. The number of logins in progress is limited per user.
        """


class PendingAuthorization:
    """Authorization in progress of one principal at one upstream."""

    def __init__(self, upstream: str, principal: Principal | None, page: str, state: str, patience: float) -> None:
        self.upstream = upstream
        self.principal = principal
        self.user = None if principal is None else principal.user
        self.page = page
        """Authorization page of the upstream's authorization server."""
        self.state = state
        self.callback_id = callback_id(one_of(urlsplit(page).query, "redirect_uri") or "")
        self.ticket = secrets.token_urlsafe(32)
        self.browser: bytes | None = None
        """Hash of the cookie of the browser that started the authorization."""
        self.patience = patience
        self.response: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self.outcome: asyncio.Future[str | None] = asyncio.get_running_loop().create_future()
        """None after success, otherwise an error message."""
        self.expires = 0.0
        self.extend()

    def extend(self) -> None:
        """Restart the timeout, as the user has just been asked to log in."""
        self.expires = asyncio.get_running_loop().time() + self.patience

    async def wait(self) -> str:
        """Wait for the callback, and return the URL to which the browser was redirected.

        Raises:
            AuthorizationError: the authorization timed out.
        """
        loop = asyncio.get_running_loop()
        while not self.response.done():
            left = self.expires - loop.time()
            if left <= 0:
                raise AuthorizationError(f"The login at {self.upstream} was not completed in time. Try again")
            await asyncio.wait((self.response,), timeout=left)
        return self.response.result()


class BrowserPages:
    """Pages of pending authorizations, and their routes on the server of a gateway.

    Args:
        public_url: URL of the gateway for browsers, without the path of an endpoint.
        login: identifies the user of a browser; required if callers are authenticated.
        patience: timeout of an authorization in seconds.

    Raises:
        ConfigError: ``public_url`` is neither https nor on this machine.
    """

    def __init__(
        self, public_url: str, *, login: BrowserLogin | Identify | None = None, patience: float = 600.0
    ) -> None:
        parts = urlsplit(public_url)
        self._local = is_loopback(parts.hostname or "")
        if not parts.hostname or parts.query or parts.fragment or parts.scheme not in ("https", "http"):
            raise ConfigError(f"public_url: {public_url!r} is not the URL of a server")
        if parts.scheme == "http" and not self._local:
            raise ConfigError(f"public_url: {public_url!r} must be https, as tokens depend on it")
        self._base = public_url.rstrip("/")
        self._secure = parts.scheme == "https"
        self._login = login
        self._patience = patience
        self.shared = LoginPages()
        """The pages that any replica serves."""
        self._by_ticket: dict[str, PendingAuthorization] = {}
        self._by_state: dict[str, PendingAuthorization] = {}

    def __len__(self) -> int:
        return len(self._by_ticket)

    @property
    def redirect_uri(self) -> str:
        """Redirect URI of the gateway as an OAuth client."""
        return f"{self._base}{CALLBACK}"

    def redirect_uri_of(self, issuer: str) -> str:
        """Return a redirect URI for one authorization server, whose responses do not name their issuer."""
        return f"{self.redirect_uri}/{sha256(issuer.encode()).hexdigest()[:32]}"

    def start_url(self, pending: PendingAuthorization) -> str:
        """Return the URL for the user to open."""
        return f"{self._base}{START}?ticket={pending.ticket}"

    def add_routes(self, app: Server) -> None:
        """Add the pages to the gateway's server. Call this before the server starts."""
        self.shared.add(app, START, self.start, ticket_of, methods=("GET", "POST"))
        self.shared.add(app, CALLBACK, self.callback, state_of)
        self.shared.add(app, f"{CALLBACK}/*", self.callback, state_of)
        if self._login is not None and not callable(self._login):
            self._login.add_routes(app)

    def check(self, principal: Principal | None) -> None:
        """Check that the gateway can identify the user of a browser.

        Raises:
            AuthorizationError: the gateway cannot identify the user.
        """
        if principal is None and not self._local:
            raise AuthorizationError(
                "The gateway does not know its callers apart, and others can reach it: it needs authorization= before "
                "the grant of a user may be used"
            )
        if principal is not None and self._login is None:
            raise AuthorizationError(
                "The gateway cannot find out whose browser opens a page: it needs a login for browsers (see "
                "docs/gateway-sessions.md)"
            )

    def begin(self, upstream: str, principal: Principal | None, page: str) -> PendingAuthorization:
        """Start an authorization. ``page`` is the URL of the upstream's authorization page.

        Raises:
            AuthorizationError: the gateway cannot identify the user of a browser, or there are too many authorizations.
        """
        self.check(principal)
        user = None if principal is None else principal.user
        own = sum(pending.user == user for pending in self._by_ticket.values())
        if own >= MAX_PENDING_PER_USER or len(self._by_ticket) >= MAX_PENDING:
            raise AuthorizationError("Too many logins are under way. Try again later")
        [state] = parse_qs(urlsplit(page).query)["state"]
        pending = PendingAuthorization(upstream, principal, page, state, self._patience)
        pending.ticket = self.shared.mark() + pending.ticket
        self._by_ticket[pending.ticket] = self._by_state[state] = pending
        return pending

    def end(self, pending: PendingAuthorization, outcome: str | None) -> None:
        """End an authorization; ``outcome`` is an error message, or None after success."""
        self._by_ticket.pop(pending.ticket, None)
        self._by_state.pop(pending.state, None)
        if not pending.outcome.done():
            pending.outcome.set_result(outcome)

    # Pages

    async def start(self, request: HTTPRequest) -> HTTPResponse:
        """Show the consent page. When the user agrees, send the browser to the authorization server."""
        pending = self._by_ticket.get(ticket_of(request))
        if pending is None or pending.response.done():
            return failed(404, "This link is not valid any more. Make the request again to get a new one.")
        if pending.principal is not None:
            found = await self._who(request)
            if not found:
                if self._login is None or callable(self._login):
                    return failed(401, "Log in to the gateway in this browser, then open the link again.")
                return await self._login.begin(self.start_url(pending), pending.principal.user)
            if found not in (pending.principal.subject, (pending.principal.issuer, pending.principal.subject)):
                log.warning("a login at %s was opened in the browser of another user", pending.upstream)
                return failed(403, "This link is for another user. If another person sent it to you, do not use it.")
        if request.method != "POST":
            return self._consent(pending)
        if not self._is_own(request):
            return failed(403, "This form was sent from another page. Open the link again.")
        browser = self._cookie_of(request) or secrets.token_urlsafe(32)
        if pending.browser is not None and not hmac.compare_digest(pending.browser, digest(browser)):
            return failed(403, "This login was begun in another browser. Make the request again to get a new link.")
        pending.browser = digest(browser)
        return redirect(pending.page, [self._cookie(browser)])

    async def callback(self, request: HTTPRequest) -> HTTPResponse:
        """Handle the redirect from the authorization server, once, in the browser that started the authorization."""
        pending = self._by_state.get(state_of(request))
        if pending is None:
            return failed(400, "No login is under way for this response. It may have been used already.")
        browser = self._cookie_of(request)
        if pending.browser is None or browser is None or not hmac.compare_digest(pending.browser, digest(browser)):
            log.warning("a response of a login at %s came from another browser", pending.upstream)
            return failed(403, "This login was not begun in this browser.")
        if callback_id(request.path) != pending.callback_id:
            log.warning("a response of another authorization server was sent for a login at %s", pending.upstream)
            return failed(400, "This response is of another server than the one that you were asked to log in at.")
        del self._by_state[pending.state]
        pending.response.set_result(f"{self.redirect_uri}?{request.query}")
        await asyncio.wait((pending.outcome,), timeout=OUTCOME)
        wrong = pending.outcome.result() if pending.outcome.done() else None
        if wrong is not None:
            return failed(400, wrong)
        words = f"{escape(pending.upstream)} is connected. You can close this window and go back to the application."
        return page(200, "Connected", f"<p>{words}</p>")

    async def _who(self, request: HTTPRequest) -> str | tuple[str, str] | None:
        if self._login is None:
            return None
        return await (self._login(request) if callable(self._login) else self._login.identify(request))

    def _consent(self, pending: PendingAuthorization) -> HTTPResponse:
        host = urlsplit(pending.page).hostname or ""
        who = "" if pending.principal is None else f" as {escape(pending.principal.subject)}"
        body = (
            f"<p>You asked this gateway{who} to use <b>{escape(pending.upstream)}</b> for you. To allow that, log in "
            f"at <b>{escape(host)}</b>, with the account that it may use.</p>"
            '<p class="warning">Go on only if you have just made a request that needs this. If another person sent you '
            "this link, close the window.</p>"
            f'<form method="post" action="{START.rpartition("/")[2]}"><input type="hidden" name="ticket" '
            f'value="{escape(pending.ticket)}"><button>Go on to {escape(host)}</button></form>'
        )
        return page(200, f"Connect {pending.upstream}?", body)

    # Cookies

    def _is_own(self, request: HTTPRequest) -> bool:
        """Return whether a form was sent from a page of the gateway."""
        origin = request.headers.get("origin")
        parts = urlsplit(self._base)
        return origin is None or origin == f"{parts.scheme}://{parts.netloc}"

    @property
    def _cookie_name(self) -> str:
        return f"__Host-carrel-{COOKIE}" if self._secure else f"carrel-{COOKIE}"

    def _cookie(self, value: str) -> str:
        secure = "; Secure" if self._secure else ""
        return f"{self._cookie_name}={value}; Path=/; Max-Age={self._patience:.0f}; HttpOnly; SameSite=Lax{secure}"

    def _cookie_of(self, request: HTTPRequest) -> str | None:
        pairs = (part.strip(" \t").partition("=") for part in request.headers.get("cookie", "").split(";"))
        return next((value for name, _, value in pairs if name == self._cookie_name and value), None)


def callback_id(path: str) -> str:
    """Return the part of a redirect URI that identifies the authorization server."""
    return urlsplit(path).path.partition(CALLBACK)[2]


def digest(browser: str) -> bytes:
    """Return the hash of a cookie."""
    return sha256(browser.encode()).digest()


def ticket_of(request: HTTPRequest) -> str:
    """Return the ticket in a request for a page."""
    given = request.query if request.method != "POST" else request.body.decode("ascii", "replace")
    return one_of(given, "ticket") or ""


def state_of(request: HTTPRequest) -> str:
    """Return the ``state`` in an authorization response."""
    return one_of(request.query, "state") or ""


def one_of(query: str, name: str) -> str | None:
    """Return a query parameter, or None if it does not occur exactly once."""
    try:
        values = parse_qs(query, max_num_fields=50).get(name, [])
    except ValueError:
        return None
    return values[0] if len(values) == 1 else None
