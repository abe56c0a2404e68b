"""Streams of GET requests: event ids that are positions of the bus, and what a client that resumes is sent."""

from __future__ import annotations

import asyncio
import json
from types import SimpleNamespace

import pytest

from carrel.protocol.channel import ConnectedClient
from carrel.protocol.event_ids import EventId, decode_event_id
from carrel.transports.server.standing_stream import StandingEvents, StandingStream

pytestmark = pytest.mark.asyncio


async def told(stream, number):
    """The next messages, each as its URI or method, sorted."""
    messages = [await stream.message() for _ in range(number)]
    return sorted(message.get("params", {}).get("uri", message["method"]) for message in messages)


ALL_OF_IT = ["memo://text", "notifications/resources/list_changed", "notifications/tools/list_changed"]


@pytest.fixture
def session(site):
    async def open(revision="2025-11-25"):
        opened = await site.open(revision)
        await opened.subscribe("memo://text")
        return opened

    return open


def application(slot):
    """What ids are made of: the slot of a replica, and a position of its bus."""
    state = SimpleNamespace(slot=slot, bus_name="abc")
    return SimpleNamespace(replica=SimpleNamespace(state=state), position=lambda: 7)


async def cut(stream, shop):
    """Close the connection of a stream, and wait until the server knows."""
    stream.client.close()
    sessions = shop.app.endpoint.runtime.hub.sessions
    while any(entry.channel.listening for entry in sessions.values()):
        await asyncio.sleep(0)


async def test_a_client_that_resumes_is_sent_what_changed_since_of_what_it_subscribed_to(session, shop):
    session = await session()
    stream = await session.get()
    shop.app.resources.changed("memo://text")
    await stream.event()
    last = await stream.event()
    assert json.loads(last.data)["params"] == {"uri": "memo://text"}
    await cut(stream, shop)
    shop.app.resources.changed("memo://other")
    resumed = await session.get(last.id)
    opened = await resumed.event()
    assert opened.data == "", "nothing was missed"
    await cut(resumed, shop)
    shop.app.resources.changed("memo://text")
    shop.app.tools.add(lambda: "", name="new")
    for _ in range(2):
        resumed = await session.get(opened.id)
        assert await told(resumed, 2) == ["memo://text", "notifications/tools/list_changed"]
        await cut(resumed, shop)


@pytest.mark.parametrize("revision", ["2025-03-26", "2025-11-25"])
async def test_a_client_that_got_a_part_of_many_changes_is_sent_the_others(session, shop, revision):
    session = await session(revision)
    for number in range(5):
        shop.app.resources.add(f"memo://{number}", "text")
        await session.subscribe(f"memo://{number}")
    stream = await session.get()
    shop.app.resources.changed("memo://text")
    event = await stream.event()
    begin = event if event.data else await stream.event()
    while json.loads(begin.data).get("params") != {"uri": "memo://text"}:
        begin = await stream.event()
    for number in range(5):
        shop.app.resources.changed(f"memo://{number}")
    events = [await stream.event() for _ in range(5)]
    await cut(stream, shop)
    assert events[-1].id, "all were sent before it"
    last = begin.id
    for number, event in enumerate(events):
        last = event.id or last
        resumed = await session.get(last)
        shop.app.resources.changed("memo://text")
        heard = []
        while "memo://text" not in heard:
            heard += await told(resumed, 1)
        assert set(heard) >= {f"memo://{later}" for later in range(number + 1, 5)}
        await cut(resumed, shop)


@pytest.mark.parametrize("change", ["gap", "bus", "future"])
async def test_a_client_that_comes_too_late_is_told_that_all_may_have_changed(session, shop, change):
    session = await session()
    stream = await session.get()
    last = (await stream.event()).id
    await cut(stream, shop)
    bus = shop.app.endpoint.replica.state.bus
    if change == "gap":
        bus._size = 3
        for _ in range(5):
            shop.app.resources.changed("memo://text")
    elif change == "bus":
        last = last.replace(bus.name, "0badcafe")
    else:
        last = last.rpartition("-")[0] + "-99999"
    resumed = await session.get(last)
    assert await told(resumed, 3) == ALL_OF_IT


async def test_large_messages_do_not_stay_on_the_bus(session, shop):
    session = await session()
    stream = await session.get()
    await stream.event()
    (entry,) = [each for each in shop.app.endpoint.runtime.hub.sessions.values() if each.channel.listening]
    bus = shop.app.endpoint.replica.state.bus
    for number in range(200):
        entry.channel.send(b'{"number":%d,"text":"%b"}' % (number, b"x" * 60_000))
        await entry.channel.drain()
        assert (await stream.message())["number"] == number
    assert bus._bytes <= 4 * 1024 * 1024
    position = await bus.position()
    entry.channel.send(b'{"text":"%b"}' % (b"x" * 100_000))
    assert await bus.position() == position


async def test_ids_are_read_as_they_are_written():
    app = application(3)
    events = StandingEvents(app)
    assert events.id(events.name(255)) == "3.gff.abc-7"
    assert decode_event_id("3.gff.abc-7") == EventId("3.gff", 7, "abc")


async def test_only_the_last_event_of_several_has_an_id():
    app = application(0)
    stream = StandingStream(ConnectedClient(), "0.g1", StandingEvents(app), primed=True, resumed=4)
    assert await stream.opening() == b"id: 0.g1.abc-7\ndata: \n\n"
    stream.send(b"1")
    stream.send(b"2", "key")
    assert await stream.opening() == b"id: 0.g1.abc-4\ndata: \n\n", "nothing was sent yet"
    assert stream.take() == b"data: 1\n\nid: 0.g1.abc-7\ndata: 2\n\n"
    assert await stream.opening() == b"id: 0.g1.abc-7\ndata: \n\n"
