"""Login of users to a gateway in their browsers, at the authorization server that issues their access tokens.

The page that a user opens to authorize the gateway at an upstream has to know who opens it. The gateway is an OpenID
client of its own authorization server for that: it asks for the scope ``openid``, and takes the subject of the ID
token.

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
from carrel.gateway.visits import digest, failed, one_of
from carrel.security.client import MemoryStore, OAuth
from carrel.security.client.authorization_server import find_server
from carrel.security.client.authorization_target import AuthorizationTarget
from carrel.security.client.tokens import Token
from carrel.security.server.proxy.pages import redirect
from carrel.transports.server.route import HTTPRequest, HTTPResponse

if TYPE_CHECKING:
    from carrel.server.app import Server

__all__ = ["LOGIN", "IssuerLogin"]

LOGIN = "/gateway/login"
#: Seconds for a login, and for which a browser is known after it.
PATIENCE = 600.0
KNOWN = 3600.0
#: How many logins may be under way, and how many browsers are known.
MAX_LOGINS = 10_000


class Attempt:
    """Login that is under way in a browser."""

    def __init__(self, browser: bytes, back: str) -> None:
        self.browser = browser
        self.back = back
        self.page: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self.response: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self.task: asyncio.Task[Token] | None = None


class IssuerLogin:
    """Login at an OpenID provider: that which issues the access tokens for the gateway.

    ``options`` are those of ``OAuth``: ``client_id`` and others, where the gateway has to be registered by hand.
    """

    def __init__(self, public_url: str, issuer: str, **options: Any) -> None:
        self._base = public_url.rstrip("/")
        self._issuer = issuer
        self._secure = urlsplit(public_url).scheme == "https"
        self._options: Mapping[str, Any] = {"store": MemoryStore(), "client_name": "Carrel gateway", **options}
        self._attempts: dict[str, Attempt] = {}
        self._known: dict[bytes, tuple[str, float]] = {}

    def add_routes(self, app: Server) -> None:
        """Add the page to which browsers return."""
        app.route(LOGIN)(self.finish)

    async def identify(self, request: HTTPRequest) -> tuple[str, str] | None:
        """Return the issuer and the subject that is logged in; None if that is none."""
        browser = self._browser_of(request)
        subject, until = self._known.get(digest(browser or ""), ("", 0.0))
        return (self._issuer, subject) if until > asyncio.get_running_loop().time() else None

    async def begin(self, back: str) -> HTTPResponse:
        """Return the response that sends the browser to the login, and then to ``back``."""
        if len(self._attempts) >= MAX_LOGINS:
            return failed(503, "Too many logins are under way. Try again later.")
        browser = secrets.token_urlsafe(32)
        attempt = Attempt(digest(browser), back)
        attempt.task = asyncio.ensure_future(self._log_in(attempt))
        attempt.task.add_done_callback(lambda task: task.cancelled() or task.exception())
        await asyncio.wait((attempt.page, attempt.task), return_when=asyncio.FIRST_COMPLETED)
        if not attempt.page.done():
            return failed(502, "The gateway could not begin the login. Its operator can see why in its log.")
        secure = "; Secure" if self._secure else ""
        cookie = f"{self._cookie_name}={browser}; Path=/; Max-Age={KNOWN:.0f}; HttpOnly; SameSite=Lax{secure}"
        return redirect(attempt.page.result(), [cookie])

    async def finish(self, request: HTTPRequest) -> HTTPResponse:
        """Take the response of the authorization server, once, from the browser that was sent there."""
        state = one_of(request.query, "state") or ""
        attempt, browser = self._attempts.get(state), self._browser_of(request)
        if attempt is None or browser is None or not hmac.compare_digest(attempt.browser, digest(browser)):
            return failed(400, "This login was not begun in this browser, or it took too long. Open the link again.")
        del self._attempts[state]
        attempt.response.set_result(f"{self._base}{LOGIN}?{request.query}")
        assert attempt.task is not None
        try:
            token = await attempt.task
        except AuthorizationError as error:
            return failed(400, str(error))
        now = asyncio.get_running_loop().time()
        self._known = {key: value for key, value in self._known.items() if value[1] > now}
        if len(self._known) < MAX_LOGINS:
            self._known[attempt.browser] = token.subject, now + KNOWN
        return redirect(attempt.back)

    async def _log_in(self, attempt: Attempt) -> Token:
        """Log in by the authorization code grant; the browser takes part by the futures of the attempt."""

        async def authorize(url: str) -> str:
            [state] = parse_qs(urlsplit(url).query)["state"]
            self._attempts[state] = attempt
            attempt.page.set_result(url)
            try:
                async with asyncio.timeout(PATIENCE):
                    return await attempt.response
            except TimeoutError:
                raise AuthorizationError("The login was not completed in time") from None
            finally:
                self._attempts.pop(state, None)

        options: dict[str, Any] = {"issuer": self._issuer, "offline": False, **self._options}
        auth = OAuth(authorize=authorize, redirect_uri=f"{self._base}{LOGIN}", **options)
        try:
            host = urlsplit(self._issuer).hostname or ""
            auth.hosts.add(host)
            server = await find_server(self._issuer, auth.fetcher, auth.hosts, {})
            place = AuthorizationTarget(server, None, None, bound=False, pkce_advertised=False)
            return await auth.grant(place, frozenset({"openid"}))
        finally:
            with suppress(asyncio.CancelledError):
                await auth.close()

    @property
    def _cookie_name(self) -> str:
        return "__Host-carrel-user" if self._secure else "carrel-user"

    def _browser_of(self, request: HTTPRequest) -> str | None:
        pairs = (part.strip(" \t").partition("=") for part in request.headers.get("cookie", "").split(";"))
        return next((value for name, _, value in pairs if name == self._cookie_name and value), None)
