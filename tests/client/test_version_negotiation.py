"""Which revision a client speaks, and how it finds out: over pipes and over HTTP, with servers of both eras."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from carrel.errors import PeerError, ProtocolError, TransportError
from support.scripted_server import Exchange, Partner, Reply, as_json, connected, on_http, silence
from support.server_connection import ALL, HANDSHAKES, JUNE, LATEST, NOVEMBER

pytestmark = [pytest.mark.requirement, pytest.mark.slow]


GREETING = ["initialize", "notifications/initialized"]


def methods(partner: Partner) -> list[Any]:
    return [message.get("method") for message in partner.sent]


@pytest.mark.parametrize("transport", ["stdio", "http"])
@pytest.mark.parametrize("revision", ALL)
async def test_a_server_of_any_revision_is_spoken_to_in_its_own(revision: str, transport: str) -> None:
    partner = Partner(revision)
    async with connected(partner, transport) as client:
        assert client.revision == revision
        assert (await client.call_tool("t")).content
    expected = ["server/discover", *([] if revision == LATEST else GREETING)]
    assert methods(partner)[: len(expected)] == expected


@pytest.mark.parametrize("code", [-32601, -32602, -32600, -32603, -32700, -32000, -32001, -32002, 0, 1, 400, -1])
async def test_any_error_that_is_not_of_the_new_era_means_a_handshake(code: int) -> None:
    partner = Partner(JUNE, {"server/discover": {"error": {"code": code, "message": "What?"}}})
    async with connected(partner) as client:
        assert client.revision == JUNE
    assert methods(partner) == ["server/discover", *GREETING]


async def test_silence_means_a_handshake() -> None:
    partner = Partner(NOVEMBER, {"server/discover": silence})
    async with connected(partner, patience=0.1) as client:
        assert client.revision == NOVEMBER


@pytest.mark.parametrize("transport", ["stdio", "http"])
async def test_an_error_that_lists_what_is_spoken_is_followed_and_is_no_reason_for_a_handshake(transport: str) -> None:
    refusal = {"code": -32022, "message": "no", "data": {"supported": ["2027-01-01"], "requested": LATEST}}
    partner = Partner(LATEST, {"server/discover": {"error": refusal}})
    with pytest.raises(ProtocolError, match="2027-01-01"):
        async with connected(partner, transport):
            pass
    assert methods(partner) == ["server/discover"]


@pytest.mark.parametrize("transport", ["stdio", "http"])
async def test_an_older_revision_in_that_list_is_begun_with_a_handshake(transport: str) -> None:
    refusal = {"code": -32022, "message": "no", "data": {"supported": [NOVEMBER, JUNE], "requested": LATEST}}
    partner = Partner(NOVEMBER, {"server/discover": {"error": refusal}})
    async with connected(partner, transport) as client:
        assert client.revision == NOVEMBER


@pytest.mark.parametrize("code", [-32020, -32021])
async def test_other_errors_of_the_new_era_are_told(code: int) -> None:
    partner = Partner(LATEST, {"server/discover": {"error": {"code": code, "message": "no", "data": {}}}})
    with pytest.raises(PeerError) as caught:
        async with connected(partner):
            pass
    assert caught.value.code == code
    assert "initialize" not in methods(partner)


@pytest.mark.parametrize("status", [400, 404, 405])
@pytest.mark.parametrize("body", [b"", b"Bad Request", b'{"error":"no"}', b'{"jsonrpc":"2.0","id":null}'])
async def test_over_http_a_refusal_without_an_error_of_the_new_era_means_a_handshake(status: int, body: bytes) -> None:
    partner = Partner(JUNE)

    def respond(exchange: Exchange) -> Reply | None:
        if exchange.method == "POST" and exchange.message.get("method") == "server/discover":
            return Reply(status, {"Content-Type": "text/plain"}, body)
        return None

    partner.respond = respond
    async with connected(partner, "http") as client:
        assert client.revision == JUNE


async def test_over_http_an_error_of_the_older_era_with_status_400_means_a_handshake() -> None:
    partner = Partner(JUNE)

    def respond(exchange: Exchange) -> Reply | None:
        if exchange.method == "POST" and exchange.message.get("method") == "server/discover":
            error = {"code": -32000, "message": "Bad Request: Server not initialized"}
            return as_json({"jsonrpc": "2.0", "id": None, "error": error}, 400)
        return None

    partner.respond = respond
    async with connected(partner, "http") as client:
        assert client.revision == JUNE


@pytest.mark.parametrize("transport", ["stdio", "http"])
@pytest.mark.parametrize("revision", ALL)
async def test_a_revision_that_is_insisted_on_is_the_only_one_that_is_asked_for(revision: str, transport: str) -> None:
    partner = Partner(revision)
    async with connected(partner, transport, revision=revision) as client:
        assert client.revision == revision
    assert methods(partner)[0] == ("server/discover" if revision == LATEST else "initialize")
    if revision != LATEST:
        assert partner.sent[0]["params"]["protocolVersion"] == revision


@pytest.mark.parametrize("revision", HANDSHAKES)
async def test_a_handshake_asks_for_a_version_that_is_spoken_and_the_answer_is_kept(revision: str) -> None:
    partner = Partner(revision)
    async with connected(partner) as client:
        await client.call_tool("t")
    (opening,) = partner.sent_of("initialize")
    assert opening["params"]["protocolVersion"] in HANDSHAKES
    assert set(opening["params"]) == {"protocolVersion", "capabilities", "clientInfo"}
    call = partner.sent_of("tools/call")[0]
    assert "_meta" not in call["params"], "nothing of a newer revision"


@pytest.mark.parametrize("transport", ["stdio", "http"])
@pytest.mark.parametrize("version", ["1999-01-01", "2027-01-01", "", LATEST])
async def test_an_unknown_version_ends_the_connection(version: str, transport: str) -> None:
    answer = {"protocolVersion": version, "capabilities": {}, "serverInfo": {"name": "s", "version": "1"}}
    partner = Partner(JUNE, {"initialize": answer})
    with pytest.raises(ProtocolError, match="The server speaks"):
        async with connected(partner, transport):
            pass
    assert "notifications/initialized" not in methods(partner)


@pytest.mark.parametrize("transport", ["stdio", "http"])
async def test_a_server_that_has_another_version_than_the_one_insisted_on_is_left(transport: str) -> None:
    partner = Partner(NOVEMBER)
    with pytest.raises(ProtocolError, match=f"wanted is {JUNE}"):
        async with connected(partner, transport, revision=JUNE):
            pass
    assert methods(partner) == ["initialize"]


@pytest.mark.parametrize("revision", HANDSHAKES)
async def test_nothing_is_sent_between_the_handshake_and_its_answer(revision: str) -> None:
    partner = Partner(revision, {"initialize": silence})
    async with asyncio.TaskGroup() as group:

        async def use() -> None:
            async with connected(partner) as client:
                await client.call_tool("t")

        group.create_task(use())
        opening = await partner.until("initialize")
        assert methods(partner) == ["server/discover", "initialize"]
        server = {"name": "s", "version": "1"}
        partner.answer(
            opening["id"], {"protocolVersion": revision, "capabilities": {"tools": {}}, "serverInfo": server}
        )
        await partner.until("tools/call")
    assert methods(partner) == ["server/discover", *GREETING, "tools/call"]


@pytest.mark.parametrize("transport", ["stdio", "http"])
async def test_a_handshake_that_takes_too_long_is_given_up_without_being_cancelled(transport: str) -> None:
    partner = Partner(JUNE, {"initialize": silence})
    with pytest.raises(TransportError):
        async with connected(partner, transport, timeout=1.0, patience=1.0):
            pass
    assert "notifications/cancelled" not in methods(partner)[methods(partner).index("initialize") :]


async def test_the_era_of_a_server_is_remembered() -> None:
    from carrel.client.client import Client

    partner = Partner(JUNE)
    async with on_http(partner) as url:
        for _ in range(2):
            async with Client(url) as client:
                await client.ping()
    assert methods(partner).count("server/discover") == 1
    assert methods(partner).count("initialize") == 2


@pytest.mark.parametrize("transport", ["stdio", "http"])
async def test_a_revision_that_the_server_gives_up_later_is_negotiated_again(transport: str) -> None:
    refusal = {"code": -32022, "message": "no", "data": {"supported": [NOVEMBER], "requested": LATEST}}
    partner = Partner(LATEST)

    def upgrade_backwards(message: dict[str, Any]) -> Any:
        partner.revision, partner.stateless, partner.answers = NOVEMBER, False, {"server/discover": {"error": refusal}}
        return {"error": refusal}

    partner.answers["tools/call"] = upgrade_backwards
    async with connected(partner, transport) as client:
        assert client.revision == LATEST
        assert (await client.call_tool("t")).content
        assert client.revision == NOVEMBER
