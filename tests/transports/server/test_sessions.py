"""Sessions of the revisions with a handshake.

https://modelcontextprotocol.io/specification/2025-11-25/basic/transports#session-management
"""

from __future__ import annotations

import asyncio
import base64

import pytest

from carrel import Limits
from support.raw_http import modern
from support.stdio_process import call, initialize, note, request, text_of

pytestmark = pytest.mark.asyncio
HANDSHAKES = pytest.mark.parametrize("revision", ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"])


@HANDSHAKES
async def test_an_id_is_given_out_by_initialize_only(site, revision):
    session = await site.open(revision)
    reply = await session.post(request(1, "ping"))
    assert (await reply.json())["result"] == {}
    assert "mcp-session-id" not in reply.headers


async def test_ids_are_visible_ascii_with_128_bits_that_do_not_repeat(site):
    ids = [(await site.open()).id for _ in range(100)]
    assert len(set(ids)) == 100
    for id in ids:
        assert all(0x21 <= ord(character) <= 0x7E for character in id)
        assert len(base64.urlsafe_b64decode(id + "==")) == 16


async def test_an_initialize_that_fails_leaves_no_session(serve):
    site = await serve(limits=Limits(max_sessions=1))
    session = await site.open()
    reply = await site.post(request(1, "initialize", {"protocolVersion": 5}))
    assert "mcp-session-id" not in reply.headers
    assert "error" in await reply.json()
    assert (await session.post(request(2, "ping"))).status == 200


async def test_a_second_initialize_is_refused_and_the_session_lives_on(site):
    session = await site.open()
    reply = await session.post(initialize())
    assert reply.status == 400
    assert "initialized already" in (await reply.json())["error"]["message"]
    assert (await session.post(request(1, "ping"))).status == 200


@pytest.mark.parametrize(
    "message",
    [
        request(1, "ping"),
        request(1, "tools/list"),
        note("notifications/initialized"),
        {"jsonrpc": "2.0", "id": 1, "result": {}},
        [request(1, "ping")],
    ],
    ids=["ping", "list", "notification", "response", "batch"],
)
@pytest.mark.parametrize("version", [None, "2025-03-26", "2025-11-25"])
async def test_requests_of_sessions_are_a_400_without_one(site, message, version):
    reply = await site.post(message, {"MCP-Protocol-Version": version})
    assert reply.status == 400


@pytest.mark.parametrize("method", ["GET", "DELETE"])
async def test_streams_and_ends_need_a_session(site, method):
    reply = await site.request(method, {"Accept": "text/event-stream"})
    assert reply.status == 400
    assert "Mcp-Session-Id" in (await reply.json())["error"]["message"]


@pytest.mark.parametrize("id", ["nonesuch", "", "x" * 10_000, "\xff", "../../etc/passwd"])
async def test_an_unknown_id_is_a_404_on_every_method(site, id):
    headers = {"Mcp-Session-Id": id, "Accept": "text/event-stream"}
    assert (await site.post(request(1, "ping"), headers)).status == 404
    assert (await site.post(initialize(), headers)).status == 404
    assert (await site.request("GET", headers)).status == 404
    assert (await site.request("DELETE", headers)).status == 404


async def test_a_session_that_was_ended_is_a_404_on_every_method(site, shop):
    session = await site.open()
    stream = await session.get()
    asking = asyncio.create_task(session.call("wait"))
    await shop.begun.wait()
    assert (await session.delete()).status == 204
    await shop.cancelled.wait()
    assert await stream.messages() == []
    reply = await asking
    assert reply.status == 503 or await reply.messages() == []
    assert (await session.post(request(1, "ping"))).status == 404
    assert (await session.get()).status == 404
    assert (await session.delete()).status == 404


async def test_an_idle_session_ends(serve, shop):
    site = await serve(limits=Limits(session_ttl=2.0), keep_alive=0.05)
    idle, listening, working = await site.open(), await site.open(), await site.open()
    await idle.subscribe("memo://text")
    stream = await listening.get()
    asking = asyncio.create_task(working.call("wait"))
    while len(shop.app.endpoint.runtime.hub) > 2:  # the idle one listens to changes until it is swept away
        shop.app.resources.changed("memo://text")
        assert (await stream.event()) is not None
    assert (await idle.post(request(1, "ping"))).status == 404
    assert (await listening.post(request(1, "ping"))).status == 200
    shop.go.set()
    assert text_of(await (await asking).result()) == "waited"


async def test_a_session_is_over_when_its_time_is_although_nothing_has_swept_it_away(serve):
    site = await serve(limits=Limits(session_ttl=1.0))
    session = await site.open()
    loop = asyncio.get_running_loop()
    end = loop.time() + 1.1
    over = loop.create_future()
    loop.call_at(end, over.set_result, None)
    await over
    assert (await session.post(request(1, "ping"))).status == 404


async def test_a_session_whose_stream_breaks_has_its_time_again(serve):
    site = await serve(limits=Limits(session_ttl=1.5), keep_alive=0.05)
    session = await site.open()
    stream = await session.get()
    opened = await stream.event()
    for _ in range(40):  # longer than the session would live without it
        await stream.event()
    stream.client.close()
    assert (await session.get(opened.id)).status == 200


@pytest.mark.parametrize("limit", ["max_sessions", "max_sessions_per_client"])
async def test_a_new_session_takes_the_place_of_the_one_of_the_same_client_that_is_idle_longest(serve, limit):
    site = await serve(limits=Limits(**{limit: 3}))
    busy, idle, used = await site.open(), await site.open(), await site.open()
    await busy.get()
    await used.post(request(1, "ping"))
    await site.open()
    assert (await idle.post(request(1, "ping"))).status == 404
    assert (await used.post(request(1, "ping"))).status == 200
    assert (await busy.post(request(1, "ping"))).status == 200


async def test_sessions_of_others_are_never_ended_for_a_new_one(serve):
    site = await serve(limits=Limits(max_sessions=3, max_sessions_per_client=2))
    theirs = [await site.open() for _ in range(2)]
    mine = await site.open(address="127.0.0.2")
    newcomer = await site.connect("127.0.0.3")
    reply = await site.post(initialize(), client=newcomer)
    assert (reply.status, "retry-after" in reply.headers) == (503, True)
    assert (await reply.json())["error"]["message"] == "There are too many sessions: at most 3"
    theirs += [await site.open() for _ in range(5)]
    assert (await mine.post(request(1, "ping"))).status == 200
    assert [(await session.post(request(1, "ping"))).status for session in theirs] == [404] * 5 + [200] * 2
    await theirs[-1].delete()
    assert (await site.post(initialize(), client=await site.connect("127.0.0.3"))).status == 200


@pytest.mark.parametrize(("limit", "status"), [("max_sessions", 503), ("max_sessions_per_client", 429)])
async def test_when_all_sessions_are_busy_there_is_no_room_and_stateless_clients_do_not_mind(serve, limit, status):
    site = await serve(limits=Limits(**{limit: 2}))
    streams = [await (await site.open()).get() for _ in range(2)]
    reply = await site.post(initialize())
    assert reply.status == status
    assert "retry-after" in reply.headers
    assert (await site.call("echo", text="x")).status == 200
    streams[0].client.close()
    await streams[1].event()
    while (await site.post(initialize())).status == status:
        pass  # until the server has noticed


# MCP-Protocol-Version


@HANDSHAKES
async def test_a_version_that_is_not_spoken_is_a_400_and_every_other_one_is_taken(site, revision):
    session = await site.open(revision)
    for version, status in (("1900-01-01", 400), ("nonsense", 400), ("", 400), (None, 200), (revision, 200)):
        assert (await session.post(request(1, "ping"), {"MCP-Protocol-Version": version})).status == status
    assert (await session.get(headers={"MCP-Protocol-Version": "1900-01-01"})).status == 400


async def test_an_initialize_for_a_version_of_the_future_gets_the_newest_one_with_a_handshake(site):
    reply = await site.post(initialize("2099-01-01"))
    assert (await reply.json())["result"]["protocolVersion"] == "2025-11-25"


async def test_a_stateless_request_belongs_to_no_session(site):
    session = await site.open()
    await session.post(call(1, "echo", text="x"))
    reply = await site.ask("tools/list", {"Mcp-Session-Id": session.id})
    assert reply.status == 200
    reply = await site.ask("tools/list", {"Mcp-Session-Id": "nonesuch"})
    assert reply.status == 200
    assert "mcp-session-id" not in reply.headers
    reply = await session.post(modern("tools/list"))
    assert reply.status == 400  # its header speaks of another revision than its body


async def test_sessions_do_not_see_what_others_subscribe_to(site, shop):
    one, other = await site.open(), await site.open()
    await one.subscribe("memo://text")
    await other.subscribe("memo://other")
    streams = [await one.get(), await other.get()]
    shop.app.resources.changed("memo://text")
    shop.app.resources.changed("memo://other")
    assert [(await stream.message())["params"] for stream in streams] == [
        {"uri": "memo://text"},
        {"uri": "memo://other"},
    ]
