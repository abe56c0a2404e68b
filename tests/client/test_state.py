"""State of a client's connection: read, awaited, iterated over and observed."""

from __future__ import annotations

import asyncio
import os
import signal
from typing import Any

import pytest

from carrel import Client
from carrel.client.state import StateChange
from carrel.errors import TransportError
from support.servers.demo import make_shelf, reach


async def test_a_client_is_new_then_connecting_then_connected_then_closed() -> None:
    client = Client(make_shelf())
    seen: list[str] = []
    client.state.observe(lambda change: seen.append(change.status))
    assert client.state.status == "new"
    async with client:
        assert client.state.status == "connected"
    assert seen == ["connecting", "connected", "closed"]


@pytest.mark.slow
async def test_a_server_that_cannot_be_reached_is_the_reason_of_the_state() -> None:
    client = Client("http://127.0.0.1:1/mcp")
    seen: list[StateChange] = []
    client.state.observe(seen.append)
    with pytest.raises(TransportError) as raised:
        await client.__aenter__()
    assert [change.status for change in seen] == ["connecting", "disconnected", "closed"]
    assert seen[1].reason is raised.value


@pytest.mark.slow
async def test_a_lost_connection_is_told_with_its_reason_and_made_again_with_the_next_request() -> None:
    async with reach("stdio") as client:
        seen: list[StateChange] = []

        async def follow() -> None:
            seen.extend([change async for change in client.state.changes()])

        following = asyncio.create_task(follow())
        transport: Any = (await client.session.connect()).transport
        os.killpg(transport.pid, signal.SIGKILL)
        async with asyncio.timeout(60):
            lost = await client.state.wait_for("disconnected")
        assert isinstance(lost.reason, TransportError)
        assert "ended" in str(lost.reason)
        await client.read_resource("memo://1")
        assert client.state.status == "connected"
        assert client.state.reason is None
    await asyncio.wait_for(following, 60)
    statuses = [change.status for change in seen]
    assert statuses == ["connected", "disconnected", "reconnecting", "connected", "closed"]


async def test_waiting_for_what_will_not_come_ends_with_the_client() -> None:
    client = Client(make_shelf())
    async with client:
        waiting = asyncio.create_task(client.state.wait_for("reconnecting"))
        await asyncio.sleep(0)
    with pytest.raises(TransportError):
        await waiting


async def test_an_observer_that_fails_stops_nothing_and_one_that_was_stopped_hears_no_more(
    caplog: pytest.LogCaptureFixture,
) -> None:
    client = Client(make_shelf())
    heard: list[str] = []
    client.state.observe(lambda change: 1 // 0)
    stop = client.state.observe(lambda change: heard.append(change.status))
    async with client:
        stop()
    assert heard == ["connecting", "connected"]
    assert "an observer of the client's state failed" in caplog.text
