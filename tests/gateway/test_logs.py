"""Log messages of servers over stdio, which do not say which call they are about: to the client, if it is known."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from carrel import Server
from carrel.gateway.isolation import IsolatedProvider
from carrel.host import relayed
from carrel.transports.memory import MemoryPeer, connect
from support.scripted_server import LATEST, Partner, on_stdio

SESSION = "2025-11-25"
LEVEL = {"io.modelcontextprotocol/logLevel": "info"}


@asynccontextmanager
async def gateway(partner: Partner, isolation: Any) -> AsyncIterator[Server[Any]]:
    """Give a gateway to a program, whose calls end when the test says so."""
    app: Server[Any] = Server("gateway")
    async with on_stdio(partner) as command:
        app.add_provider(IsolatedProvider(command, name="far", isolation=isolation))
        await app.endpoint.start()
        try:
            yield app
        finally:
            await app.endpoint.stop()


def holding() -> tuple[Partner, asyncio.Event]:
    """Return a partner whose calls last until the event."""
    release = asyncio.Event()

    async def call(_: dict[str, Any]) -> dict[str, Any]:
        await release.wait()
        return {"content": []}

    tools = {"tools": [{"name": "work", "inputSchema": {"type": "object"}}]}
    return Partner(SESSION, {"tools/list": tools, "tools/call": call}), release


async def start(peer: MemoryPeer, *, listening: bool = True) -> asyncio.Future[dict[str, Any]]:
    """Start a call of a client that wants log messages, or none."""
    meta = {"_meta": LEVEL} if listening and peer.revision == LATEST else {}
    if listening and peer.revision == SESSION:
        await peer.request("logging/setLevel", {"level": "info"})
    return peer.start("tools/call", {"name": "work", **meta})


def say(partner: Partner, text: str) -> None:
    partner.notify("notifications/message", {"level": "warning", "data": text})


@pytest.mark.parametrize("second", [True, False], ids=["both", "one"])
@pytest.mark.parametrize("near", [SESSION, LATEST])
@pytest.mark.parametrize("isolation", ["client", "shared"])
async def test_with_several_calls_of_one_client_it_gets_them(isolation: str, near: str, second: bool) -> None:
    partner, release = holding()
    async with gateway(partner, isolation) as app, connect(app, near) as peer:
        calls = [await start(peer), await start(peer, listening=second)]
        await partner.until("tools/call", 2)
        say(partner, "hot")
        heard = await peer.notification()
        release.set()
        await asyncio.gather(*calls)
    assert heard["params"] == {"level": "warning", "data": "hot"}


async def test_in_sessions_of_their_own_each_client_gets_its_own() -> None:
    partner, release = holding()
    async with gateway(partner, "client") as app, connect(app, SESSION) as one, connect(app, SESSION) as two:
        calls = [await start(one), await start(one), await start(two)]
        await partner.until("tools/call", 3)
        say(partner, "hot")  # in the session that was opened last
        heard = await two.notification()
        release.set()
        await asyncio.gather(*calls)
        assert one._notifications.empty()
    assert heard["params"]["data"] == "hot"


async def test_while_no_call_is_in_flight_the_client_of_the_session_gets_the_levels_that_it_wants() -> None:
    partner, release = holding()
    release.set()
    async with gateway(partner, "client") as app:
        async with connect(app, SESSION) as one, connect(app, SESSION) as two, connect(app, LATEST) as stateless:
            for peer in (two, stateless, one):  # each session is a program of its own; that of ``one`` is the last
                await (await start(peer))
            partner.notify("notifications/message", {"level": "debug", "data": "not wanted"})
            partner.notify("notifications/message", {"level": "warning", "data": "idle", "logger": "disk"})
            heard = await one.notification()
            assert two._notifications.empty()
            assert stateless._notifications.empty()
        say(partner, "too late")
    assert heard["params"] == {"level": "warning", "data": "idle", "logger": "disk"}


class SetsEvent:
    """Logger that sets an event."""

    def __init__(self, event: asyncio.Event) -> None:
        self._event = event

    def debug(self, *_: object) -> None:
        self._event.set()


@pytest.mark.parametrize(("isolation", "near"), [("shared", SESSION), ("principal", SESSION), ("client", LATEST)])
async def test_without_a_session_of_one_client_messages_of_no_call_go_to_the_log_of_the_gateway(
    isolation: str, near: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    partner, release = holding()
    release.set()
    logged = asyncio.Event()
    monkeypatch.setattr(relayed, "log", SetsEvent(logged))
    async with gateway(partner, isolation) as app, connect(app, near) as peer, asyncio.timeout(60):
        await (await start(peer))
        say(partner, "idle")
        await logged.wait()
        release.clear()
        call = await start(peer)
        await partner.until("tools/call", 2)
        say(partner, "hot")
        heard = await peer.notification()
        release.set()
        await call
    assert heard["params"]["data"] == "hot"


async def test_with_calls_of_several_clients_in_one_session_nobody_gets_them() -> None:
    partner, release = holding()
    async with gateway(partner, "shared") as app, connect(app, SESSION) as one, connect(app, SESSION) as two:
        calls = [await start(one), await start(two, listening=False)]
        await partner.until("tools/call", 2)
        say(partner, "whose?")
        release.set()
        await asyncio.gather(*calls)
        release.clear()
        alone = await start(one)
        await partner.until("tools/call", 3)
        say(partner, "after")
        heard = await one.notification()
        release.set()
        await alone
        assert two._notifications.empty()
    assert heard["params"]["data"] == "after"
