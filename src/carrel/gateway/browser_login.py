"""Browser login of gateway users, at the authorization server that issues their access tokens.

The gateway must identify the user who opens a page to authorize it at an upstream. For this, it acts as an OpenID
client: it requests the scope ``openid`` from its authorization server, and reads the subject from the ID token.

https://openid.net/specs/openid-connect-core-1_0.html#CodeFlowAuth
"""

from __future__ import annotations

import asyncio
import hmac
import secrets
from collections.abc import Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs, urlsplit

from carrel.errors import AuthorizationError
from carrel.gateway.browser_pages import digest, state_of
from carrel.gateway.login_pages import LoginPages, failed
from carrel.log import Log
from carrel.security.client import MemoryStore, OAuth
from carrel.security.client.authorization_server import find_server
from carrel.security.client.authorization_target import AuthorizationTarget
from carrel.security.client.tokens import Token
from carrel.security.server.proxy.pages import redirect
from carrel.transports.server.route import HTTPRequest, HTTPResponse

if TYPE_CHECKING:
    from carrel.server.app import Server

__all__ = ["LOGIN", "IssuerLogin"]

log = Log("carrel.gateway")

LOGIN = "/gateway/login"
#: Seconds to complete a login, and seconds for which the browser stays logged in.
PATIENCE = 600.0
KNOWN = 3600.0
#: Maximum number of logins in progress, and of logged-in browsers: in total, and per user.
MAX_LOGINS = 10_000
MAX_LOGINS_PER_USER = 5


class Attempt:
    """Login in progress in a browser, for a caller of the gateway."""

    def __init__(self, user: str, browser: bytes, back: str) -> None:
        self.user = user
        self.browser = browser
        self.back = back
        self.page: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self.response: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self.task: asyncio.Task[Token] | None = None


class IssuerLogin:
    """Login at the OpenID provider that issues the access tokens for the gateway.

    ``options`` are passed to ``OAuth``, such as ``client_id`` if the gateway has to be registered by hand.
    """

    def __init__(self, public_url: str, issuer: str, **options: Any) -> None:
        self._base = public_url.rstrip("/")
        self._issuer = issuer
        self._secure = urlsplit(public_url).scheme == "https"
        self._options: Mapping[str, Any] = {"store": MemoryStore(), "client_name": "Carrel gateway", **options}
        self._registering = asyncio.Lock()
        self._shared = LoginPages()
        self._attempts: list[Attempt] = []
        self._by_state: dict[str, Attempt] = {}
        self._known: dict[bytes, tuple[str, float]] = {}

    def add_routes(self, app: Server) -> None:
        """Add the page to which browsers return."""
        self._shared.add(app, LOGIN, self.finish, state_of)

    async def identify(self, request: HTTPRequest) -> tuple[str, str] | None:
        """Return the logged-in user's issuer and subject, or None."""
        browser = self._browser_of(request)
        subject, until = self._known.get(digest(browser or ""), ("", 0.0))
        return (self._issuer, subject) if until > asyncio.get_running_loop().time() else None

    async def begin(self, back: str, user: str) -> HTTPResponse:
        """Return a response that redirects the browser to the login, and then to ``back``.

        If the caller ``user`` has too many logins in progress, cancel the oldest.
        """
        own = [attempt for attempt in self._attempts if attempt.user == user]
        for attempt in own[: max(0, len(own) - MAX_LOGINS_PER_USER + 1)]:
            self._give_up(attempt)
        if len(self._attempts) >= MAX_LOGINS:
            return failed(503, "Too many logins are under way. Try again later.")
        browser = secrets.token_urlsafe(32)
        attempt = Attempt(user, digest(browser), back)
        self._attempts.append(attempt)
        attempt.task = asyncio.ensure_future(self._log_in(attempt))
        attempt.task.add_done_callback(lambda task: self._ended(attempt, task))
        await asyncio.wait((attempt.page, attempt.task), return_when=asyncio.FIRST_COMPLETED)
        if attempt.task.cancelled():
            return failed(409, "Other logins of yours have begun since. Open the link again.")
        if not attempt.page.done():
            return failed(502, "The gateway could not begin the login. Its operator can see why in its log.")
        secure = "; Secure" if self._secure else ""
        cookie = f"{self._cookie_name}={browser}; Path=/; Max-Age={KNOWN:.0f}; HttpOnly; SameSite=Lax{secure}"
        return redirect(attempt.page.result(), [cookie])

    def _give_up(self, attempt: Attempt) -> None:
        assert attempt.task is not None
        self._attempts.remove(attempt)
        attempt.task.cancel()

    def _ended(self, attempt: Attempt, task: asyncio.Task[Token]) -> None:
        if attempt in self._attempts:
            self._attempts.remove(attempt)
        error = None if task.cancelled() else task.exception()
        if error is not None and not attempt.page.done():
            log.error("a login to the gateway at %s cannot begin: %s", self._issuer, error)

    async def finish(self, request: HTTPRequest) -> HTTPResponse:
        """Handle the redirect from the authorization server, once, in the browser that started the login."""
        state = state_of(request)
        attempt, browser = self._by_state.get(state), self._browser_of(request) or ""
        if (
            attempt is None
            or attempt not in self._attempts
            or attempt.response.done()
            or not hmac.compare_digest(attempt.browser, digest(browser))
        ):
            return failed(400, "This login was not begun in this browser, or it took too long. Open the link again.")
        del self._by_state[state]
        self._attempts.remove(attempt)
        attempt.response.set_result(f"{self._base}{LOGIN}?{request.query}")
        assert attempt.task is not None
        try:
            token = await attempt.task
        except AuthorizationError as error:
            return failed(400, str(error))
        if not self._remember(attempt.browser, token.subject):
            return failed(503, "Too many browsers are logged in. Try again later.")
        return redirect(attempt.back)

    def _remember(self, browser: bytes, subject: str) -> bool:
        """Store the user of a browser. Return False if too many browsers of other users are stored."""
        now = asyncio.get_running_loop().time()
        self._known = {key: value for key, value in self._known.items() if value[1] > now}
        own = [key for key, value in self._known.items() if value[0] == subject]
        for oldest in own[: max(0, len(own) - MAX_LOGINS_PER_USER + 1)]:
            del self._known[oldest]
        if len(self._known) >= MAX_LOGINS:
            return False
        self._known[browser] = subject, now + KNOWN
        return True

    async def _log_in(self, attempt: Attempt) -> Token:
        """Log in with the authorization code grant; the futures of the attempt connect it to the browser.

        Raises:
            AuthorizationError: the login fails, or its response does not identify the user.
        """

        async def authorize(url: str) -> str:
            [state] = parse_qs(urlsplit(url).query)["state"]
            self._by_state[state] = attempt
            attempt.page.set_result(url)
            try:
                async with asyncio.timeout(PATIENCE):
                    return await attempt.response
            except TimeoutError:
                raise AuthorizationError("The login was not completed in time") from None
            finally:
                self._by_state.pop(state, None)

        options: dict[str, Any] = {"issuer": self._issuer, "offline": False, **self._options}
        auth = OAuth(authorize=authorize, redirect_uri=f"{self._base}{LOGIN}", **options)
        auth.registering = self._registering
        auth.state_prefix = self._shared.mark
        try:
            host = urlsplit(self._issuer).hostname or ""
            auth.hosts.add(host)
            server = await find_server(self._issuer, auth.fetcher)
            target = AuthorizationTarget(server, None, None, bound=False, pkce_advertised=False)
            token = await auth.grant(target, frozenset({"openid"}))
            if not token.subject:
                raise AuthorizationError(f"{self._issuer} has sent no ID token, so it is not known who you are")
            return token
        finally:
            with suppress(asyncio.CancelledError):
                await auth.close()

    @property
    def _cookie_name(self) -> str:
        return "__Host-carrel-user" if self._secure else "carrel-user"

    def _browser_of(self, request: HTTPRequest) -> str | None:
        pairs = (part.strip(" \t").partition("=") for part in request.headers.get("cookie", "").split(";"))
        return next((value for name, _, value in pairs if name == self._cookie_name and value), None)
