"""A server whose users log in at a provider without registration, and an OAuth client of the barest kind."""

from __future__ import annotations

import base64
import hashlib
import secrets
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple
from urllib.parse import parse_qs, urlencode, urlsplit

import httpx2

from carrel import Context, Server
from carrel.security import OAuthProxy
from support.http_server import over_http
from support.login_provider import Browser, LoginProvider, login_provider, proxy_of

__all__ = ["CALLBACK", "BareClient", "Site", "site"]

CALLBACK = "http://127.0.0.1:7/callback"


class Site(NamedTuple):
    """A server behind a proxy, and its provider."""

    origin: str
    proxy: OAuthProxy
    provider: LoginProvider

    @property
    def url(self) -> str:
        return f"{self.origin}/mcp"

    def browser(self) -> Browser:
        """Return a browser without cookies."""
        return Browser(self.origin, self.provider.origin)

    def pass_time(self, seconds: float) -> None:
        """Have the clock of the proxy run ahead."""
        self.proxy.clock = lambda: time.time() + seconds
        self.proxy.remembered.clear()


def build(proxies: list[OAuthProxy]) -> Server:
    """Return a server that says who calls it."""
    app = Server("team")

    @app.tool
    async def whoami(context: Context) -> dict[str, Any]:
        caller = context.principal
        assert caller is not None
        return {
            "subject": caller.subject,
            "scopes": sorted(caller.scopes),
            "claims": dict(caller.claims),
            "issuer": caller.issuer,
            "seen": repr((caller, context._call.headers)),
        }

    @app.tool
    async def upstream(context: Context) -> str:
        assert context.principal is not None
        return await proxies[0].upstream_token(context.principal)

    return app


@contextmanager
def site(style: str, provider: LoginProvider | None = None, port: int | None = 0, **options: Any) -> Iterator[Site]:
    """Run a server whose users log in at a provider of a style."""
    if provider is None:
        with login_provider(style) as found, site(style, found, port, **options) as place:
            yield place
        return
    listener = socket.create_server(("127.0.0.1", port or 0))
    origin = f"http://127.0.0.1:{listener.getsockname()[1]}"
    proxy = proxy_of(style, provider, resource=f"{origin}/mcp", **options)
    with over_http(build([proxy]), listener, authorization=proxy):
        yield Site(origin, proxy, provider)


class BareClient:
    """OAuth client that does what a test wants, also what none should."""

    def __init__(self, place: Site, redirect_uri: str = CALLBACK, **metadata: Any) -> None:
        self.place = place
        self.redirect_uri = redirect_uri
        document = {"client_name": "bare", "redirect_uris": [redirect_uri], **metadata}
        answer = httpx2.post(f"{place.origin}/register", json=document)
        assert answer.status_code == 201, answer.text
        self.id: str = answer.json()["client_id"]
        self.verifier = secrets.token_urlsafe(48)
        self.state = secrets.token_urlsafe(8)

    def url(self, **changes: str | None) -> str:
        """Return the authorization request; None leaves a parameter out."""
        digest = hashlib.sha256(self.verifier.encode()).digest()
        query = {
            "client_id": self.id,
            "response_type": "code",
            "redirect_uri": self.redirect_uri,
            "state": self.state,
            "resource": self.place.url,
            "code_challenge": base64.urlsafe_b64encode(digest).rstrip(b"=").decode(),
            "code_challenge_method": "S256",
            **changes,
        }
        given = {name: value for name, value in query.items() if value is not None}
        return f"{self.place.origin}/authorize?{urlencode(given)}"

    def log_in(self, login: str = "alice", decision: str = "allow", **changes: str | None) -> dict[str, str]:
        """Return the authorization response for a user with a new browser."""
        with self.place.browser() as browser:
            back = browser.login(self.url(**changes), login, decision)
        assert back.startswith(self.redirect_uri.partition(":7")[0]), back
        return {name: values[0] for name, values in parse_qs(urlsplit(back).query).items()}

    def ask(self, **form: str | None) -> httpx2.Response:
        """Send a request to the token endpoint; None leaves a parameter out."""
        given = {"client_id": self.id, "resource": self.place.url, **form}
        return httpx2.post(
            f"{self.place.origin}/token", data={name: value for name, value in given.items() if value is not None}
        )

    def redeem(self, code: str, **changes: str | None) -> httpx2.Response:
        """Exchange a code."""
        form = {"code": code, "code_verifier": self.verifier, "redirect_uri": self.redirect_uri, **changes}
        return self.ask(grant_type="authorization_code", **form)

    def refresh(self, token: str, **changes: str | None) -> httpx2.Response:
        """Exchange a refresh token."""
        return self.ask(grant_type="refresh_token", refresh_token=token, **changes)

    def tokens(self, login: str = "alice") -> dict[str, Any]:
        """Return the tokens of a user who logs in."""
        answer = self.redeem(self.log_in(login)["code"])
        assert answer.status_code == 200, answer.text
        return dict(answer.json())
