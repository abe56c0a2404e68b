"""Logins of browsers to a gateway at the issuer of its access tokens, which may send anything."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator
from typing import Any

import httpx2
import pytest
import uvicorn

from carrel import Server
from carrel.errors import AuthorizationError
from carrel.gateway import browser_login, browser_pages
from carrel.gateway.browser_login import IssuerLogin
from carrel.gateway.browser_pages import BrowserPages, PendingAuthorization
from carrel.protocol.principal import Principal
from support.authorization_server import Authority
from support.authorization_server import running as authority_running

pytestmark = pytest.mark.slow


class Running(uvicorn.Server):
    """uvicorn in the event loop of the test."""

    @contextlib.contextmanager
    def capture_signals(self):
        yield


class Place:
    """A server with the pages of a gateway, and the issuer of its access tokens."""

    def __init__(self, origin: str, authority: Authority) -> None:
        self.authority = authority
        self.login = IssuerLogin(origin, authority.url)
        self.pages = BrowserPages(origin, login=self.login)

    def pending(self, user: str, client: str = "app", state: str = "s") -> PendingAuthorization:
        """Begin an authorization of a user, whose access token the issuer has issued."""
        caller = Principal(subject=user, issuer=self.authority.url, client=client)
        return self.pages.begin("team", caller, f"https://team.example/authorize?state={state}")

    async def log_in(
        self, browser: httpx2.AsyncClient, pending: PendingAuthorization, user: str = "alice"
    ) -> httpx2.Response:
        """Open the page of an authorization, log in at the issuer, and return the page that is shown in the end."""
        sent = await browser.get(self.pages.start_url(pending))
        if sent.status_code != 303:
            return sent
        if self.authority.identity is not None:
            self.authority.identity = {"sub": user, **self.authority.identity}
        return await browser.get(await self.authority.browse(sent.headers["location"]), follow_redirects=True)


@pytest.fixture
async def place() -> AsyncIterator[Place]:
    async with authority_running() as authority:
        authority.identity = {}
        with socket.create_server(("127.0.0.1", 0)) as listener:
            one = Place(f"http://127.0.0.1:{listener.getsockname()[1]}", authority)
            app = Server("gateway")
            one.pages.add_routes(app)
            server = Running(uvicorn.Config(app.asgi(), log_level="critical", lifespan="on", ws="none"))
            serving = asyncio.create_task(server.serve([listener]))
            try:
                yield one
            finally:
                server.should_exit = True
                await serving


async def test_the_subject_of_the_id_token_is_the_user(place: Place) -> None:
    async with httpx2.AsyncClient() as browser:
        shown = await place.log_in(browser, place.pending("alice"))
    assert (shown.status_code, "as alice" in shown.text) == (200, True)


@pytest.mark.parametrize(
    "changes",
    [
        {"aud": "another"},
        {"azp": "another"},
        {"iss": "https://evil.example"},
        {"exp": 1},
        {"nonce": "another"},
        {"nonce": None},
        {"sub": None},
        None,
    ],
)
async def test_an_id_token_that_is_not_for_this_login_names_no_user(place: Place, changes: Any) -> None:
    place.authority.identity = changes
    pending = place.pending("alice")
    async with httpx2.AsyncClient() as browser:
        refused = await place.log_in(browser, pending)
        assert (refused.status_code, "ID token" in refused.text) == (400, True)
        again = await browser.get(place.pages.start_url(pending))
    assert again.status_code == 303  # to the login


async def test_the_oldest_browser_of_a_user_is_forgotten_and_those_of_others_are_not(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(browser_login, "MAX_LOGINS_PER_USER", 2)
    alices, bobs = place.pending("alice"), place.pending("bob", state="t")
    async with contextlib.AsyncExitStack() as stack:
        bob, *browsers = [await stack.enter_async_context(httpx2.AsyncClient()) for _ in range(4)]
        assert (await place.log_in(bob, bobs, "bob")).status_code == 200
        for browser in browsers:
            place.authority.identity = {}
            assert (await place.log_in(browser, alices)).status_code == 200
        assert (await bob.get(place.pages.start_url(bobs))).status_code == 200
        known = [(await browser.get(place.pages.start_url(alices))).status_code for browser in browsers]
        assert known == [303, 200, 200]


async def test_another_browser_of_a_user_below_the_limit_logs_no_browser_out(place: Place) -> None:
    pending = place.pending("alice")
    async with contextlib.AsyncExitStack() as stack:
        browsers = [await stack.enter_async_context(httpx2.AsyncClient()) for _ in range(4)]
        for browser in browsers:
            place.authority.identity = {}
            assert (await place.log_in(browser, pending)).status_code == 200
        known = [(await browser.get(place.pages.start_url(pending))).status_code for browser in browsers]
    assert known == [200] * 4


async def test_a_login_ends_in_an_error_if_no_more_browsers_can_be_known(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(browser_login, "MAX_LOGINS", 1)
    async with httpx2.AsyncClient() as alice, httpx2.AsyncClient() as bob:
        assert (await place.log_in(alice, place.pending("alice"))).status_code == 200
        place.authority.identity = {}
        assert (await place.log_in(bob, place.pending("bob", state="t"), "bob")).status_code == 503


async def test_a_user_has_a_share_of_the_pending_authorizations_whatever_clients_act_for_the_user(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(browser_pages, "MAX_PENDING_PER_USER", 2)
    one, _ = place.pending("alice", "one", "a"), place.pending("alice", "two", "b")
    with pytest.raises(AuthorizationError, match="Too many logins"):
        place.pending("alice", "three", "c")
    place.pending("bob", "one", "d")
    place.pages.end(one, None)
    place.pending("alice", "three", "c")


async def test_a_response_at_the_redirect_uri_of_another_server_is_refused(place: Place) -> None:
    own, other = (place.pages.redirect_uri_of(f"https://{name}.example") for name in ("team", "other"))
    page = f"https://team.example/authorize?state=s&redirect_uri={own}"
    pending = place.pages.begin("team", None, page)
    async with httpx2.AsyncClient() as browser:
        sent = await browser.post(place.pages.start_url(pending).partition("?")[0], data={"ticket": pending.ticket})
        assert sent.status_code == 303
        for uri in (other, place.pages.redirect_uri):
            assert (await browser.get(f"{uri}?code=stolen&state=s")).status_code == 400
            assert not pending.response.done()
        place.pages.end(pending, None)
        place.pages._by_state["s"] = pending
        assert (await browser.get(f"{own}?code=c&state=s")).status_code == 200
    assert "code=c" in pending.response.result()
