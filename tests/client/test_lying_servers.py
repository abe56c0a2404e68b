"""Servers that answer wrong ids, values of wrong types, in another revision's words, or with another session's id."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from carrel.client import incoming_requests, throttle
from carrel.errors import MCPError, ProtocolError, RequestTimeout, TransportError
from support.scripted_server import Exchange, Partner, as_json, connected, usual_reply
from support.server_connection import LATEST, NOVEMBER

pytestmark = pytest.mark.slow


async def test_answers_with_ids_of_no_request_are_ignored() -> None:
    partner = Partner(NOVEMBER)

    def answers(message: dict[str, Any]) -> dict[str, Any]:
        for id in (f"{message['id']} ", "²", "9" * 5000, -1, 10**30, None, [message["id"]], True, message["id"] + 0.5):
            partner.say({"jsonrpc": "2.0", "id": id, "result": {"content": [{"type": "text", "text": "wrong"}]}})
        return {"content": [{"type": "text", "text": "right"}]}

    partner.answers["tools/call"] = answers
    async with connected(partner) as client:
        for _ in range(3):
            assert (await client.call_tool("x")).content[0].text == "right"  # type: ignore[union-attr]


@pytest.mark.parametrize("written", [str, float])
async def test_a_number_is_the_id_of_a_response_also_as_a_string_or_with_a_fraction_of_zero(
    written: type[str] | type[float],
) -> None:
    partner = Partner(NOVEMBER)
    partner.answers["tools/call"] = lambda message: (
        partner.say({"jsonrpc": "2.0", "id": written(message["id"]), "result": {"content": []}}) and None
    )
    async with connected(partner) as client:
        for _ in range(2):
            assert (await client.call_tool("x")).content == []


async def test_an_answer_with_only_a_wrong_id_is_a_timeout_and_the_connection_goes_on() -> None:
    partner = Partner(NOVEMBER)

    def wrong(message: dict[str, Any]) -> None:
        partner.answer(message["id"] + 1000, {"content": []})

    partner.answers["tools/call"] = wrong
    async with connected(partner) as client:
        with pytest.raises(RequestTimeout):
            await client.call_tool("x", timeout=0.2)
        assert await client.list_tools() == []


@pytest.mark.parametrize(
    "result",
    [{"content": "text"}, {"content": [{"type": "text", "text": 5}]}, {"content": None}, [], "text", {"content": [1]}],
    ids=str,
)
@pytest.mark.parametrize("revision", [NOVEMBER, LATEST])
async def test_a_result_of_a_wrong_type_is_an_error_of_that_request_alone(result: Any, revision: str) -> None:
    partner = Partner(revision)
    partner.answers["tools/call"] = lambda message: (
        partner.say({"jsonrpc": "2.0", "id": message["id"], "result": result}) and None
    )
    async with connected(partner) as client:
        with pytest.raises(ProtocolError):
            await client.call_tool("x")
        assert await client.list_tools() == []


async def test_words_of_another_revision_are_ignored_or_refused() -> None:
    partner = Partner(LATEST)
    async with connected(partner) as client:
        partner.ask("elicitation/create", {"message": "Name?", "requestedSchema": {"type": "object"}}, id="old")
        partner.notify("notifications/elicitation/complete", {"elicitationId": "x"})
        assert await client.list_tools() == []
    assert partner.responses() == [], "requests of servers must not be answered in this revision"
    partner = Partner(NOVEMBER)
    partner.answers["tools/call"] = {"resultType": "input_required", "inputRequests": {}, "requestState": "s"}
    async with connected(partner) as client:
        with pytest.raises(MCPError):
            await client.call_tool("x")
        partner.notify("notifications/subscriptions/acknowledged", {"notifications": {}})
        assert await client.list_tools() == []


async def test_a_session_id_in_a_later_answer_changes_nothing() -> None:
    partner = Partner(NOVEMBER)
    partner.session = "first"

    async def respond(exchange: Exchange) -> Any:
        reply = await usual_reply(partner, exchange)
        if exchange.method == "POST" and exchange.message.get("method") == "tools/list":
            return as_json(
                {"jsonrpc": "2.0", "id": exchange.message["id"], "result": {"tools": []}},
                200,
                **{"Mcp-Session-Id": "second"},
            )
        return reply

    partner.respond = respond
    async with connected(partner, "http") as client:
        for _ in range(3):
            await client.list_tools()
    later = [each for each in partner.exchanges if each.method == "POST" and "tools/list" in each.body.decode()]
    assert [each.headers["mcp-session-id"] for each in later] == ["first"] * 3


async def test_a_flood_on_a_stream_over_http_is_read_with_pauses_and_nothing_is_lost(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(throttle, "BURST", 100)
    monkeypatch.setattr(throttle, "RATE", 2000)
    partner = Partner(NOVEMBER, stream=True)
    seen: list[float] = []

    def flood(message: dict[str, Any]) -> dict[str, Any]:
        token = message["params"]["_meta"]["progressToken"]
        for number in range(1000):
            partner.notify("notifications/progress", {"progressToken": token, "progress": number}, via=message["id"])
        return {"content": [{"type": "text", "text": "done"}]}

    partner.answers["tools/call"] = flood
    loop = asyncio.get_running_loop()
    async with connected(partner, "http") as client:
        begun = loop.time()
        await client.call_tool("x", progress=lambda done, total, text: seen.append(done))
        assert loop.time() - begun >= 900 / 2000 - 0.05
    assert seen == list(range(1000))


async def test_a_server_over_http_that_does_not_take_answers_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(incoming_requests, "MAX_UNSENT_ANSWERS", 20)
    partner = Partner(NOVEMBER, stream=True)

    def ask(message: dict[str, Any]) -> None:
        for number in range(50):
            partner.ask("ping", id=f"p{number}", via=message["id"])

    async def respond(exchange: Exchange) -> Any:
        if exchange.method == "POST" and "method" not in exchange.message:
            await asyncio.Event().wait()  # an answer, which is never taken
        return await usual_reply(partner, exchange)

    partner.answers["tools/call"] = ask
    partner.respond = respond
    async with connected(partner, "http") as client:
        with pytest.raises(TransportError, match=r"more than 20 wait for it \(MAX_UNSENT_ANSWERS\)"):
            await client.call_tool("x")
