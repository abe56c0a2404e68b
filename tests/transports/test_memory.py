"""A client and a server in one process, with nothing between them but messages."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager

import pytest

from carrel import Context, Server
from carrel.errors import ConfigError, TransportError
from carrel.transports import memory
from support.stdio_process import text_of

REVISIONS = ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25", "2026-07-28"]
EVERY_REVISION = pytest.mark.parametrize("revision", REVISIONS)
HANDSHAKES = pytest.mark.parametrize("revision", REVISIONS[:-1])


@EVERY_REVISION
async def test_a_client_of_any_revision_can_read(shop, revision):
    async with memory.connect(shop.app, revision) as peer:
        reply = await peer.request("resources/read", {"uri": "memo://text"})
        assert reply["id"] == 1 or revision != "2026-07-28"
        assert reply["result"]["contents"][0]["text"] == "text"
        assert ("resultType" in reply["result"]) is (revision == "2026-07-28")


async def test_the_newest_revision_is_spoken_unless_another_one_is_wanted(shop):
    async with memory.connect(shop.app) as peer:
        assert peer.revision == REVISIONS[-1]
        assert (await peer.request("server/discover"))["result"]["supportedVersions"] == REVISIONS[::-1]


async def test_a_revision_that_does_not_exist_is_refused_before_anything_starts(shop):
    with pytest.raises(ConfigError, match="no revision '1900-01-01'"):
        async with memory.connect(shop.app, "1900-01-01"):
            pass
    async with memory.connect(shop.app) as peer:
        assert "result" in await peer.request("resources/list")


async def test_the_server_starts_and_stops_with_the_connection():
    log = []

    @asynccontextmanager
    async def lifespan(_):
        log.append("started")
        yield
        log.append("stopped")

    app = Server("memory", lifespan=lifespan)
    for _ in range(2):
        async with memory.connect(app):
            assert log == ["started"]
            async with memory.connect(app):
                pass
            assert log == ["started"]
        assert log == ["started", "stopped"]
        log.clear()


async def test_errors_come_back_as_they_are_on_the_wire(shop):
    async with memory.connect(shop.app) as peer:
        reply = await peer.request("resources/read", {"uri": "memo://none"})
        assert reply["error"]["data"] == {"uri": "memo://none"}
        assert (await peer.request("nonesuch"))["error"]["code"] == -32601


@EVERY_REVISION
async def test_messages_on_the_way_come_in_order_before_the_answer(shop, revision):
    shop.go.set()
    async with memory.connect(shop.app, revision) as peer:
        params = {"name": "steps", "arguments": {"n": 100}, "_meta": {"progressToken": "p"}}
        assert text_of(await peer.request("tools/call", params)) == "done"
        notes = [await peer.notification(timeout=60) for _ in range(101)]
        assert [note["params"]["progress"] for note in notes] == list(range(1, 102))
        with pytest.raises(TransportError, match="no notification within 0"):
            await peer.notification(timeout=0)


@HANDSHAKES
async def test_changes_reach_those_who_subscribed(shop, revision):
    async with memory.connect(shop.app, revision) as peer:
        await peer.request("resources/subscribe", {"uri": "memo://text"})
        shop.app.resources.changed("memo://other")
        shop.app.resources.changed("memo://text")
        assert (await peer.notification())["params"] == {"uri": "memo://text"}


async def test_requests_overlap_and_each_gets_its_own_answer(shop):
    async with memory.connect(shop.app) as peer:
        waiting = [peer.start("tools/call", {"name": "wait"}) for _ in range(50)]
        assert text_of(await peer.request("tools/call", {"name": "echo", "arguments": {"text": "first"}})) == "first"
        shop.go.set()
        replies = await asyncio.gather(*waiting)
        assert [reply["id"] for reply in replies] == list(range(1, 51))
        assert {text_of(reply) for reply in replies} == {"waited"}


async def test_an_answer_that_does_not_come_is_an_error(shop):
    async with memory.connect(shop.app) as peer:
        with pytest.raises(TransportError, match=r"no answer to tools/call within 0\.01 seconds"):
            await peer.request("tools/call", {"name": "wait"}, timeout=0.01)
        shop.go.set()
        assert text_of(await peer.request("tools/call", {"name": "wait"})) == "waited"


async def test_a_request_can_be_cancelled(shop):
    async with memory.connect(shop.app, "2025-11-25") as peer:
        waiting = peer.start("tools/call", {"name": "wait"}, id="w")
        await shop.begun.wait()
        peer.notify("notifications/cancelled", {"requestId": "w"})
        await shop.cancelled.wait()
        assert (await peer.request("ping"))["result"] == {}
        assert not waiting.done()


@pytest.mark.parametrize("begun", [True, False])
async def test_requests_in_flight_are_cancelled_when_the_client_disconnects(shop, begun):
    async with memory.connect(shop.app) as peer:
        waiting = peer.start("tools/call", {"name": "wait"})
        if begun:
            await shop.begun.wait()
    assert shop.cancelled.is_set()
    assert shop.running == 0
    with pytest.raises(TransportError, match="closed"):
        await waiting


async def test_a_listener_that_leaves_is_forgotten(shop):
    for revision in ("2025-11-25", "2026-07-28"):
        async with memory.connect(shop.app, revision) as peer:
            if revision == "2026-07-28":
                peer.start("subscriptions/listen", {"notifications": {"resourceSubscriptions": ["memo://text"]}})
                await peer.notification()
            assert len(shop.app.endpoint.runtime.hub) == 1
        assert len(shop.app.endpoint.runtime.hub) == 0


async def test_anything_can_be_fed_and_batches_come_back_as_their_messages(shop):
    async with memory.connect(shop.app, "2025-03-26") as peer:
        for garbage in (b"", b"{", b"\xff", b"[]", b"null", b'{"jsonrpc":"2.0","id":9,"result":{}}'):
            peer.feed(garbage)
        waiting = asyncio.get_running_loop().create_future()
        peer._waiting["b"] = waiting
        peer.feed(b'[{"jsonrpc":"2.0","id":"b","method":"ping"},{"jsonrpc":"2.0","method":"notifications/x"}]')
        assert await waiting == {"jsonrpc": "2.0", "id": "b", "result": {}}


async def test_a_handler_that_talks_without_end_leaves_others_their_turn(shop):
    @shop.app.tool()
    async def talk(ctx: Context) -> str:
        number = 0
        while True:
            number += 1
            await ctx.report_progress(number)

    async with memory.connect(shop.app) as peer:
        peer.start("tools/call", {"name": "talk", "_meta": {"progressToken": 1}})
        await peer.notification()
        assert text_of(await peer.request("tools/call", {"name": "echo", "arguments": {"text": "x"}})) == "x"


async def test_capabilities_are_those_that_were_declared(shop):
    @shop.app.tool()
    async def seen(ctx: Context) -> str:
        return str(ctx.capabilities.sampling)

    for revision in REVISIONS:
        async with memory.connect(shop.app, revision, sampling={}) as peer:
            assert text_of(await peer.request("tools/call", {"name": "seen"})) == "{}"
