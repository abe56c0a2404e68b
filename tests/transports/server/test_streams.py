"""Streams of events: GET, priming, resuming, polling, keeping alive, readers that stall.

https://modelcontextprotocol.io/specification/2025-11-25/basic/transports#resumability-and-redelivery
"""

from __future__ import annotations

import asyncio
import socket

import pytest

from carrel import Context, Limits
from carrel.transports.server.session import MAX_STREAMS
from carrel.transports.server.streams import MAX_EVENTS
from support.raw_http import BOTH, PATIENCE, head, modern, modern_headers, serving
from support.stdio_process import encode, request, text_of

pytestmark = pytest.mark.asyncio


def numbers(messages):
    return [message["params"]["progress"] for message in messages if message.get("method") == "notifications/progress"]


# GET


async def test_a_get_stream_carries_what_belongs_to_no_request(site, shop):
    session = await site.open()
    await session.subscribe("memo://text")
    stream = await session.get()
    assert (stream.status, stream.headers["content-type"]) == (200, "text/event-stream")
    assert stream.headers["x-accel-buffering"] == "no"
    shop.app.resources.changed("memo://text")
    message = await stream.message()
    assert message == {
        "jsonrpc": "2.0",
        "method": "notifications/resources/updated",
        "params": {"uri": "memo://text"},
    }


async def test_a_get_has_to_accept_events(site):
    session = await site.open()
    for accept in ("application/json", "", None, "text/html"):
        assert (await session.get(headers={"Accept": accept})).status == 406


async def test_messages_wait_for_the_first_stream_once_each(site, shop):
    session = await site.open()
    await session.subscribe("memo://text")
    await session.subscribe("memo://other")
    for _ in range(3):
        shop.app.endpoint.runtime.hub.changed(["memo://text", "memo://other"])
        shop.app.endpoint.runtime.hub._flush()
    stream = await session.get()
    assert [(await stream.message())["params"]["uri"] for _ in range(2)] == ["memo://text", "memo://other"]
    shop.app.resources.changed("memo://text")
    assert (await stream.message())["params"]["uri"] == "memo://text"


async def test_a_message_goes_to_one_stream_only(site, shop):
    session = await site.open()
    await session.subscribe("memo://text")
    old, new = await session.get(), await session.get()
    shop.app.resources.changed("memo://text")
    assert (await new.message())["params"] == {"uri": "memo://text"}
    new.client.close()
    assert (await session.post(request(1, "ping"))).status == 200
    await session.delete()
    assert await old.messages() == []


async def test_answers_do_not_go_to_a_get_stream(site, shop):
    session = await site.open()
    stream = await session.get()
    answer = await session.call("steps", n=1)
    shop.go.set()
    assert numbers(await answer.messages()) == [1, 2]
    await session.delete()
    assert await stream.messages() == []


# Priming and ids


async def test_a_stream_begins_with_an_event_that_can_be_resumed_in_the_revision_that_has_that(site, shop):
    shop.go.set()
    for revision, primed in (("2025-03-26", False), ("2025-06-18", False), ("2025-11-25", True)):
        session = await site.open(revision)
        first = await (await session.call("steps", n=1)).event()
        assert (first.data == "" and bool(first.id)) is primed
        stream = await session.get()
        if primed:
            first = await stream.event()
            assert first.data == ""
            assert first.id


async def test_ids_are_unique_within_a_session_and_say_which_stream_they_are_of(site, shop):
    session = await site.open()
    shop.go.set()
    replies = [await session.call("steps", id=id, n=3) for id in range(5)]
    streams = [[event.id for event in await reply.events()] for reply in replies]
    assert all(len(ids) == 6 for ids in streams)
    assert len({id for ids in streams for id in ids}) == 30
    assert len({ids[0].rpartition("-")[0] for ids in streams}) == 5


@pytest.mark.parametrize("revision", ["2024-11-05", "stateless"])
async def test_streams_of_revisions_that_cannot_resume_have_no_ids(site, shop, revision):
    shop.go.set()
    if revision == "stateless":
        reply = await site.ask("tools/call", name="steps", arguments={"n": 1}, _meta={"progressToken": 1})
    else:
        reply = await (await site.open(revision)).call("steps", n=1)
    assert [event.id for event in await reply.events()] == [None] * 3


# Resuming


@pytest.mark.parametrize("revision", ["2025-03-26", "2025-06-18", "2025-11-25"])
async def test_a_broken_stream_goes_on_and_can_be_fetched(site, shop, revision):
    session = await site.open(revision)
    reply = await session.call("steps", n=5)
    events = [await reply.event() for _ in range(4)]
    await shop.begun.wait()
    reply.client.close()
    resumed = await session.get(events[-1].id)
    shop.go.set()
    rest = await resumed.messages()
    seen = numbers([event.message for event in events if event.data] + rest)
    assert seen == [1, 2, 3, 4, 5, 6]
    assert text_of(rest[-1]) == "done"
    assert not shop.cancelled.is_set()


async def test_a_response_that_came_while_the_client_was_disconnected_can_be_fetched(site, shop):
    session = await site.open()
    reply = await session.call("steps", n=1)
    primed = await reply.event()
    await reply.event()
    reply.client.close()
    shop.go.set()
    await shop.finished.wait()
    for last in (primed.id, primed.id):  # as often as it takes
        resumed = await session.get(last)
        messages = await resumed.messages()
        assert numbers(messages) == [1, 2]
        assert text_of(messages[-1]) == "done"


async def test_only_what_was_on_that_stream_is_sent_again(site, shop):
    session = await site.open()
    await session.subscribe("memo://text")
    standing = await session.get()
    opened = await standing.event()
    one, other = await session.call("steps", id=1, n=2), await session.call("steps", id=2, n=2)
    first = await one.event()
    shop.app.resources.changed("memo://text")
    assert (await standing.message())["params"] == {"uri": "memo://text"}
    shop.go.set()
    assert {message.get("id", 2) for message in await other.messages()} == {2}
    await one.events()
    again = await (await session.get(first.id)).messages()
    assert numbers(again) == [1, 2, 3]
    assert again[-1]["id"] == 1
    standing.client.close()
    resumed = await session.get(opened.id)
    assert (await resumed.message())["params"] == {"uri": "memo://text"}
    shop.app.resources.changed("memo://text")
    assert (await resumed.message())["params"] == {"uri": "memo://text"}


async def test_a_stream_that_is_fetched_while_it_is_sent_loses_nothing_and_repeats_nothing(site, shop):
    @shop.app.tool()
    async def stream(ctx: Context) -> str:
        number = 0
        while not shop.go.is_set():
            number += 1
            await ctx.report_progress(number)
            await asyncio.sleep(0)
        return str(number)

    session = await site.open()
    reply = await session.call("stream")
    last, seen = "", []
    for _ in range(20):
        for _ in range(20):
            event = await reply.event()
            last = event.id
            if event.data:
                seen.append(event.message)
        reply = await session.get(last)  # the connection before is still open, and being sent to
    shop.go.set()
    seen += await reply.messages()
    assert numbers(seen) == list(range(1, int(text_of(seen[-1])) + 1))


async def test_the_connection_before_ends_when_a_client_comes_back_on_another(site, shop):
    session = await site.open()
    reply = await session.call("steps", n=1)
    first = await reply.event()
    await reply.event()
    resumed = await session.get(first.id)
    await resumed.event()
    assert await reply.event() is None
    shop.go.set()
    assert text_of((await resumed.messages())[-1]) == "done"


async def test_ids_that_mean_nothing_open_a_new_stream(site, shop):
    session, other = await site.open(), await site.open()
    await session.subscribe("memo://text")
    foreign = await (await other.get()).event()
    for last in ("", "-", "1", "zzz-1", "1-x", "1-" + "9" * 5000, "1--1", "\xff-1", "0-0", foreign.id):
        stream = await session.get(last)
        assert stream.status == 200
        assert (await stream.event()).data == ""
        shop.app.resources.changed("memo://text")
        message = await stream.message()
        assert message["params"] == {"uri": "memo://text"}
        stream.client.close()


async def test_messages_for_a_disconnected_client_are_bounded(site, shop):
    @shop.app.tool()
    async def talk(ctx: Context) -> str:
        await ctx.report_progress(0)
        await shop.go.wait()
        for number in range(10_000):
            await ctx.info("x" * 1000)
            if number % 1000 == 0:
                await asyncio.sleep(0)
        shop.finished.set()
        return "y" * 3_000_000

    session = await site.open()
    reply = await session.call("talk")
    first = await reply.event()
    await reply.event()
    reply.client.close()
    shop.go.set()
    await shop.finished.wait()
    messages = await (await session.get(first.id)).messages()
    assert len(messages) <= MAX_EVENTS
    assert text_of(messages[-1]) == "y" * 3_000_000  # the answer is there whatever its size


async def test_only_so_many_streams_are_kept_and_those_that_are_over_go_first(site, shop):
    session = await site.open()
    running = await session.call("steps", id="running", n=1)
    first = await running.event()
    over = []

    @shop.app.tool()
    async def quick(ctx: Context) -> str:
        await ctx.report_progress(1)
        return "quick"

    for id in range(MAX_STREAMS + 5):
        reply = await session.call("quick", id=id)
        over.append((await reply.event()).id)
        await reply.events()
    running.client.close()
    shop.go.set()
    assert text_of((await (await session.get(first.id)).messages())[-1]) == "done"
    newest = await (await session.get(over[-1])).messages()
    assert text_of(newest[-1]) == "quick"
    forgotten = await session.get(over[0])
    assert (await forgotten.event()).data == ""  # a new stream


async def test_large_answers_are_not_kept_for_ever(site, shop):
    @shop.app.tool()
    async def large(ctx: Context) -> str:
        await ctx.report_progress(1)
        return "x" * 4_000_000

    session = await site.open()
    for id in range(7):
        await (await session.call("large", id=id)).events()
    (kept,) = sessions_of(shop)
    assert 0 < sum(stream.size for stream in kept._streams.values()) < 20_000_000


@pytest.fixture
def long(shop):
    """A tool whose answer is a stream of 2 MB that can be resumed: 1 MB as text and as structured content."""

    @shop.app.tool()
    async def long(ctx: Context) -> str:
        await ctx.report_progress(1)
        return "x" * 1_000_000


async def test_replayable_events_of_a_client_are_bounded_and_the_oldest_are_dropped_first(serve, shop, long):
    site = await serve(limits=Limits(max_kept_bytes_per_client=9_000_000))
    sessions = [await site.open() for _ in range(12)]
    others = await site.open(address="127.0.0.2")
    theirs = (await others.events_of("long", address="127.0.0.2"))[0].id
    lasts = [(await session.events_of("long"))[0].id for session in sessions]
    assert shop.app.endpoint.budget.used_by("127.0.0.1") <= 9_000_000
    again = [(await session.get(last)) for session, last in zip(sessions, lasts, strict=True)]
    found = [len(text_of((await reply.messages())[-1])) for reply in again[-3:]]
    assert found == [1_000_000] * 3
    assert (await again[0].event()).data == ""  # a new stream
    assert text_of((await (await others.get(theirs)).messages())[-1])


async def test_a_stream_that_is_over_can_be_resumed_for_a_time(serve, shop, long):
    site = await serve(limits=Limits(replay_ttl=1.0), keep_alive=0.05)
    session = await site.open()
    last = (await session.events_of("long"))[0].id
    assert shop.app.endpoint.budget.used > 1_000_000
    listening = await session.get()
    while shop.app.endpoint.budget.used > 100_000:
        await listening.event()
    assert (await (await session.get(last)).event()).data == ""  # a new stream


async def test_nothing_counts_as_kept_when_a_session_has_ended(serve, shop, long):
    site = await serve()
    session = await site.open()
    for _ in range(3):
        await session.events_of("long")
    await session.subscribe("memo://text")
    shop.app.endpoint.runtime.hub.changed(["memo://text"])
    shop.app.endpoint.runtime.hub._flush()
    stream = await session.get()
    await stream.message()
    assert shop.app.endpoint.budget.used > 3_000_000
    await session.delete()
    assert await stream.messages() == []
    assert shop.app.endpoint.budget.used == 0


async def test_an_answer_for_which_there_is_no_room_is_an_error_and_the_next_one_is_answered(serve, shop, long):
    site = await serve(limits=Limits(max_kept_bytes_per_client=500_000))
    reply = await site.call("long", id=7)
    assert (reply.status, reply.headers["retry-after"]) == (429, "5")
    error = await reply.json()
    assert (error["id"], error["error"]["code"]) == (7, -32603)
    assert "max_kept_bytes_per_client" in error["error"]["message"]
    session = await site.open()
    messages = await (await session.call("long", id=8)).messages()
    assert messages[-1]["id"] == 8
    assert "max_kept_bytes_per_client" in messages[-1]["error"]["message"]
    assert text_of(await (await site.call("echo", text="x")).json()) == "x"


async def test_a_stream_whose_reader_is_too_far_behind_is_closed_and_its_work_cancelled(serve, shop):
    @shop.app.tool()
    async def flood(ctx: Context) -> str:
        try:
            while True:
                ctx.info("x" * 100_000)
                await asyncio.sleep(0.001)
        finally:
            shop.cancelled.set()

    site = await serve(limits=Limits(max_kept_bytes_per_client=3_000_000))
    meta = {"io.modelcontextprotocol/logLevel": "info"}
    reply = await site.ask("tools/call", name="flood", arguments={}, _meta=meta)
    await shop.cancelled.wait()
    assert await reply.body()  # what was on its way, and then the end
    assert shop.app.endpoint.budget.used == 0


async def test_a_stream_of_which_nothing_is_taken_for_too_long_is_closed_and_its_work_cancelled(serve, shop):
    @shop.app.tool()
    async def talk(ctx: Context) -> str:
        try:
            while True:
                await ctx.info("x" * 100_000)
        finally:
            shop.cancelled.set()

    site = await serve(limits=Limits(write_timeout=0.3), keep_alive=0.1)
    meta = {"io.modelcontextprotocol/logLevel": "info"}
    await site.ask("tools/call", name="talk", arguments={}, _meta=meta)
    await shop.cancelled.wait()
    while shop.app.endpoint.budget.used:
        await asyncio.sleep(0.01)


async def test_a_session_has_so_many_get_streams_and_a_new_one_closes_the_oldest(serve, shop):
    site = await serve(limits=Limits(max_streams_per_session=2))
    session = await site.open()
    await session.subscribe("memo://text")
    first = await session.get()
    others = [await session.get() for _ in range(2)]
    assert await first.messages() == []
    shop.app.resources.changed("memo://text")
    assert (await others[-1].message())["params"] == {"uri": "memo://text"}


async def test_a_client_has_so_many_listen_requests_and_others_are_refused(serve, shop):
    site = await serve(limits=Limits(max_listeners_per_client=2), keep_alive=0.05)
    listening = [await site.listen("memo://text", id=number) for number in range(2)]
    refused = await (await site.ask("subscriptions/listen", id=3, notifications={})).json()
    assert refused["id"] == 3
    assert "at most 2" in refused["error"]["message"]
    other = await site.connect("127.0.0.2")
    message = modern("subscriptions/listen", 4, notifications={})
    reply = await site.post(message, modern_headers("subscriptions/listen"), client=other)
    assert (await reply.message())["method"] == "notifications/subscriptions/acknowledged"
    listening[0].client.close()
    while len(shop.app.endpoint.runtime.hub) > 2:  # until the server has noticed
        await listening[1].event()
    await site.listen("memo://text")


def sessions_of(shop):
    """Return the sessions that listen to changes."""
    return [entry.channel for entry in shop.app.endpoint.runtime.hub._entries]


# Polling


async def test_a_paused_stream_closes_with_a_time_to_come_back(site, shop):
    session = await site.open()
    reply = await session.call("pause", retry=0.25)
    primed, progress, retry = await reply.events()
    assert primed.data == ""
    assert progress.message["params"]["progress"] == 1
    assert (retry.retry, retry.data) == ("250", None)
    resumed = await session.get(progress.id)
    shop.go.set()
    messages = await resumed.messages()
    assert numbers(messages) == [2]
    assert text_of(messages[-1]) == "after the pause"


async def test_a_client_may_come_back_when_all_is_done(site, shop):
    session = await site.open()
    events = await (await session.call("pause")).events()
    assert events[0].data == ""
    shop.go.set()
    messages = await (await session.get(events[-1].id)).messages()
    assert numbers(messages) == [2]
    assert text_of(messages[-1]) == "after the pause"


@pytest.mark.parametrize("revision", ["2024-11-05", "2025-03-26", "2025-06-18", "stateless"])
async def test_clients_that_do_not_know_pauses_are_not_paused(site, shop, revision):
    if revision == "stateless":
        reply = await site.ask("tools/call", name="pause", arguments={}, _meta={"progressToken": 1})
    else:
        reply = await (await site.open(revision)).call("pause")
    assert (await reply.message())["params"]["progress"] == 1
    shop.go.set()
    messages = await reply.messages()
    assert numbers(messages) == [2]
    assert text_of(messages[-1]) == "after the pause"


# Keeping alive


async def test_silent_streams_get_comments(serve, shop):
    site = await serve(keep_alive=0.02)
    session = await site.open()
    for stream in (await session.get(), await site.listen("memo://text"), await session.call("steps", n=1)):
        while (event := await stream.event()).comment is None:
            pass
        assert event.data is None
        assert (await stream.event()).comment is not None


# Listening


async def test_a_listen_stream_hears_what_it_asked_for_and_no_more(site, shop):
    stream = await site.listen("memo://text", id="l")
    shop.app.resources.changed("memo://other")
    shop.app.resources.changed("memo://text")
    message = await stream.message()
    assert message["params"]["uri"] == "memo://text"
    assert message["params"]["_meta"] == {"io.modelcontextprotocol/subscriptionId": "l"}


async def test_a_closed_listen_stream_is_forgotten(site, shop):
    streams = [await site.listen("memo://text") for _ in range(10)]
    assert len(shop.app.endpoint.runtime.hub) == 10
    for stream in streams[1:]:
        stream.client.close()
    while len(shop.app.endpoint.runtime.hub) > 1:
        await site.call("echo", text="x")
    shop.app.resources.changed("memo://text")
    assert (await streams[0].message())["params"]["uri"] == "memo://text"


async def test_a_shutdown_ends_streams_with_their_results(serve, shop):
    endpoint = shop.app.asgi()
    async with serving(endpoint) as site:
        session = await site.open()
        standing, listening = await session.get(), await site.listen("memo://text", id=7)
        endpoint.end_streams()
        assert (await listening.messages())[-1]["id"] == 7
        assert await standing.messages() == []


# Readers that stall


async def stalled(site, method, headers, body=None):
    """Send a request from a connection whose buffers are small, and never read from it."""
    connection = socket.socket()
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    connection.setblocking(False)
    loop = asyncio.get_running_loop()
    await loop.sock_connect(connection, ("127.0.0.1", site.port))
    await loop.sock_sendall(connection, head(method, "/mcp", site.host, headers, body) + (body or b""))
    return connection


async def test_changes_for_a_stalled_get_stream_take_bounded_memory(site, shop):
    uris = [f"memo://{number}/{'x' * 500}" for number in range(200)]
    for number, uri in enumerate(uris):
        shop.app.resources.add(uri, "text", name=f"memo {number}")
    session = await site.open()
    for uri in uris:
        await session.subscribe(uri)
    connection = await stalled(site, "GET", {**session.headers, "Accept": "text/event-stream"})
    (held,) = sessions_of(shop)
    while not held.listening:
        await site.call("echo", text="x")
    (stream,) = held.listening
    for _ in range(100):
        for uri in uris:
            held.send(b"x" * 500, ("updated", uri))
        await asyncio.sleep(0)
    assert not stream._messages
    assert len(stream._held) <= 200
    assert stream.size <= 2_000_000
    assert (await site.call("echo", text="x")).status == 200
    connection.close()


async def test_a_handler_that_awaits_its_messages_waits_for_a_stalled_reader(site, shop):
    sent = 0

    @shop.app.tool()
    async def talk(ctx: Context) -> str:
        nonlocal sent
        shop.begun.set()
        try:
            for _ in range(100_000):
                await ctx.info("x" * 1000)
                sent += 1
        except asyncio.CancelledError:
            shop.cancelled.set()
            raise
        return "all"

    body = encode(modern("tools/call", name="talk", arguments={}, _meta={"io.modelcontextprotocol/logLevel": "debug"}))
    headers = {"Content-Type": "application/json", "Accept": BOTH, **modern_headers("tools/call", name="talk")}
    connection = await stalled(site, "POST", headers, body)
    await shop.begun.wait()
    before = -1
    while before != sent:  # until it stands still
        before = sent
        for _ in range(20):
            await site.call("echo", text="x")
    assert 0 < sent < 20_000
    connection.close()
    async with asyncio.timeout(PATIENCE):
        await shop.cancelled.wait()
