"""Pages of logins at another replica than the one where the login has begun."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager

import httpx2
import pytest
import uvicorn

from carrel import Server
from carrel.gateway import login_pages
from carrel.gateway.browser_pages import CALLBACK, START, BrowserPages, PendingAuthorization
from carrel.state.interfaces import StoreUnavailable
from carrel.state.memory import MemoryState, MemoryTables

pytestmark = pytest.mark.slow

KEY = bytes(32)


class Running(uvicorn.Server):
    """uvicorn in the event loop of the test."""

    @contextlib.contextmanager
    def capture_signals(self):
        yield


class Replica:
    """A server with the pages of a gateway, which shares a store with others."""

    def __init__(self, tables: MemoryTables, origin: str) -> None:
        self.origin = origin
        self.app = Server("gateway", state=MemoryState(tables), state_keys=[KEY])
        self.pages = BrowserPages(origin)
        self.pages.add_routes(self.app)

    def begin(self) -> PendingAuthorization:
        state = f"{self.pages.shared.mark()}random"
        return self.pages.begin("team", None, f"https://team.example/authorize?state={state}")


@asynccontextmanager
async def running(tables: MemoryTables) -> AsyncIterator[Replica]:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        replica = Replica(tables, f"http://127.0.0.1:{listener.getsockname()[1]}")
        server = Running(uvicorn.Config(replica.app.asgi(), log_level="critical", lifespan="on", ws="none"))
        serving = asyncio.create_task(server.serve([listener]))
        while not server.started:
            await asyncio.sleep(0.01)
        try:
            yield replica
        finally:
            server.should_exit = True
            await serving


@pytest.fixture
async def replicas() -> AsyncIterator[tuple[Replica, Replica]]:
    tables = MemoryTables()
    async with AsyncExitStack() as stack:
        yield await stack.enter_async_context(running(tables)), await stack.enter_async_context(running(tables))


async def test_all_pages_of_a_login_may_be_opened_at_another_replica(replicas: tuple[Replica, Replica]) -> None:
    one, other = replicas
    pending = one.begin()
    async with httpx2.AsyncClient(base_url=other.origin) as browser, httpx2.AsyncClient() as stranger:
        shown = await browser.get(START, params={"ticket": pending.ticket})
        assert (shown.status_code, "team.example" in shown.text) == (200, True)
        sent = await browser.post(START, data={"ticket": pending.ticket})
        assert (sent.status_code, sent.headers["location"]) == (303, pending.page)
        back = f"{CALLBACK}?state={pending.state}&code=c"
        assert (await stranger.get(other.origin + back)).status_code == 403, "it lacks the cookie"
        arriving = asyncio.ensure_future(browser.get(back))
        assert (await pending.wait()).endswith(f"{CALLBACK}?state={pending.state}&code=c")
        one.pages.end(pending, None)
        done = await arriving
        assert (done.status_code, "is connected" in done.text) == (200, True)
        assert (await browser.get(back)).status_code == 400, "it counts once"


async def test_a_link_of_a_replica_that_is_gone_or_never_was_is_not_valid(replicas: tuple[Replica, Replica]) -> None:
    one, other = replicas
    one.begin()
    slots = (one.app.endpoint.replica.state.slot, other.app.endpoint.replica.state.slot, 77, 999_999_999)
    async with httpx2.AsyncClient(base_url=other.origin) as browser:
        for ticket in ("", "x", *(f"{slot}-x" for slot in slots), "9" * 50 + "-x"):
            shown = await browser.get(START, params={"ticket": ticket})
            assert (shown.status_code, "Make the request again" in shown.text) == (404, True), ticket


async def test_while_the_store_is_away_the_page_of_another_replica_is_not_available(
    replicas: tuple[Replica, Replica], monkeypatch: pytest.MonkeyPatch
) -> None:
    one, other = replicas
    pending = one.begin()

    async def away(slot: int, letter: object) -> bool:
        raise StoreUnavailable

    async with httpx2.AsyncClient(base_url=other.origin) as browser:
        with monkeypatch.context() as patch:
            patch.setattr(other.app.endpoint.replica.state.mailbox, "put", away)
            assert (await browser.get(START, params={"ticket": pending.ticket})).status_code == 503
        assert (await browser.get(START, params={"ticket": pending.ticket})).status_code == 200


async def test_a_replica_gets_a_limited_number_of_pages_from_others_at_the_same_time(
    replicas: tuple[Replica, Replica], monkeypatch: pytest.MonkeyPatch
) -> None:
    one, other = replicas
    pending = one.begin()
    async with httpx2.AsyncClient(base_url=other.origin) as browser, httpx2.AsyncClient(base_url=one.origin) as nearer:
        with monkeypatch.context() as patch:
            patch.setattr(login_pages, "MAX_ASKED", 0)
            assert (await browser.get(START, params={"ticket": pending.ticket})).status_code == 503
            assert (await nearer.get(START, params={"ticket": pending.ticket})).status_code == 200
        for _ in range(3):
            assert (await browser.get(START, params={"ticket": pending.ticket})).status_code == 200
