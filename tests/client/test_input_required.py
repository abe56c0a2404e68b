"""Requests that are answered with questions: what comes back to the server, and what does not."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from carrel.client.client import Client
from carrel.client.handlers import Handlers
from carrel.errors import InvalidMessage, ProtocolError
from carrel.wire.client_features import CreateMessageParams
from support.scripted_server import Partner, connected, in_turn, required

pytestmark = [pytest.mark.requirement, pytest.mark.slow]


ASK = {"method": "elicitation/create", "params": {"message": "Name?", "requestedSchema": {"type": "object"}}}
ROOTS = {"method": "roots/list"}
SAMPLE = {
    "method": "sampling/createMessage",
    "params": {"messages": [{"role": "user", "content": {"type": "text", "text": "?"}}], "maxTokens": 7},
}
#: States that a client may be tempted to do something with.
STATES = [
    "",
    " ",
    "opaque",
    '{"a": 1}',
    "eyJhbGciOiJub25lIn0.e30.",
    "\u2028\u0000\U0001f370 caf\u00e9",
    "x" * 100_000,
]
DONE: dict[str, Any] = {
    "tools/call": {"content": []},
    "prompts/get": {"messages": []},
    "resources/read": {"contents": []},
}


async def use(client: Client, method: str) -> Any:
    if method == "tools/call":
        return await client.call_tool("t", {"a": 1})
    if method == "prompts/get":
        return await client.get_prompt("p", {"a": "b"})
    return (await client.read_resource("a:b")).contents


async def fill_in(form: Any) -> dict[str, Any]:
    return {"name": "Ada"}


async def sample(params: CreateMessageParams) -> str:
    return "Paris"


OFFERS: dict[str, Any] = {"handlers": Handlers(elicit_form=fill_in, sample=sample, roots=["/srv"])}


@pytest.mark.parametrize("transport", ["stdio", "http"])
@pytest.mark.parametrize("method", DONE)
async def test_questions_are_answered_before_the_request_is_made_again(method: str, transport: str) -> None:
    questions = {"name": ASK, "capital": SAMPLE, "where": ROOTS}
    partner = Partner(answers={method: in_turn(required(questions, "s"), DONE[method])})
    async with connected(partner, transport, **OFFERS) as client:
        await use(client, method)
    first, second = (message["params"] for message in partner.sent_of(method))
    assert "inputResponses" not in first
    assert second.pop("inputResponses") == {
        "name": {"action": "accept", "content": {"name": "Ada"}},
        "capital": {
            "role": "assistant",
            "content": {"type": "text", "text": "Paris"},
            "model": "unknown",
            "stopReason": "endTurn",
        },
        "where": {"roots": [{"uri": "file:///srv", "name": "srv"}]},
    }
    assert second.pop("requestState") == "s"
    assert second == first, "everything else is as it was"


@pytest.mark.parametrize("state", STATES)
@pytest.mark.parametrize("transport", ["stdio", "http"])
async def test_the_state_of_the_server_comes_back_exactly(state: str, transport: str) -> None:
    partner = Partner(answers={"tools/call": in_turn(required({"r": ROOTS}, state), {"content": []})})
    async with connected(partner, transport, **OFFERS) as client:
        await client.call_tool("t")
    assert partner.sent_of("tools/call")[1]["params"]["requestState"] == state


async def test_a_state_alone_is_brought_back_without_answers() -> None:
    partner = Partner(answers={"tools/call": in_turn(required(state="later"), {"content": []})})
    async with connected(partner) as client:
        await client.call_tool("t")
    again = partner.sent_of("tools/call")[1]["params"]
    assert again["requestState"] == "later"
    assert "inputResponses" not in again


async def test_where_there_is_no_state_none_is_sent_and_an_older_one_is_not_kept() -> None:
    rounds = in_turn(required({"a": ROOTS}), required({"b": ROOTS}, "two"), required({"c": ROOTS}), {"content": []})
    partner = Partner(answers={"tools/call": rounds})
    async with connected(partner, **OFFERS) as client:
        await client.call_tool("t")
    sent = [message["params"] for message in partner.sent_of("tools/call")]
    assert [params.get("requestState") for params in sent] == [None, None, "two", None]
    assert ["requestState" in params for params in sent] == [False, False, True, False]
    assert [list(params.get("inputResponses", ())) for params in sent] == [[], ["a"], ["b"], ["c"]]


@pytest.mark.parametrize("transport", ["stdio", "http"])
async def test_each_round_is_a_request_of_its_own(transport: str) -> None:
    partner = Partner(
        answers={"tools/call": in_turn(required(state="1"), required(state="2"), required(state="3"), {"content": []})}
    )
    async with connected(partner, transport) as client:
        await client.call_tool("t", progress=lambda *_: None)
    sent = partner.sent_of("tools/call")
    assert len({message["id"] for message in sent}) == 4
    assert len({message["params"]["_meta"]["progressToken"] for message in sent}) == 4
    for message in sent:
        assert message["params"]["_meta"]["io.modelcontextprotocol/protocolVersion"] == partner.revision


@pytest.mark.parametrize("transport", ["stdio", "http"])
async def test_a_round_concerns_its_own_request_only(transport: str) -> None:
    asked = asyncio.Event()
    other_was_answered = asyncio.Event()

    def answer(message: dict[str, Any]) -> dict[str, Any]:
        params = message["params"]
        if params["name"] == "asks" and "requestState" not in params:
            asked.set()
            return required({"name": ASK}, "mine")
        return {"content": []}

    async def wait(form: Any) -> dict[str, Any]:
        await other_was_answered.wait()
        return {}

    partner = Partner(answers={"tools/call": answer})
    async with (
        connected(partner, transport, handlers=Handlers(elicit_form=wait)) as client,
        asyncio.TaskGroup() as group,
    ):
        group.create_task(client.call_tool("asks"))
        await asked.wait()
        await client.call_tool("other")
        await client.read_resource("a:b")
        other_was_answered.set()
    others = [message for message in partner.sent if message.get("params", {}).get("name") != "asks"]
    assert not any({"requestState", "inputResponses"} & set(message.get("params", ())) for message in others)
    assert partner.sent_of("tools/call")[-1]["params"]["requestState"] == "mine"


@pytest.mark.parametrize(
    "result",
    [
        required(),
        required({"name": ASK}),
        required({"name": ROOTS}),
        required({"x": {"method": "tools/list"}}),
        required({"x": {"method": "elicitation/create", "params": {}}}),
        required({"x": {"method": "elicitation/create", "params": {"mode": "telepathy", "message": "?"}}}),
    ],
)
async def test_undeclared_or_invalid_input_requests_end_the_request(result: dict[str, Any]) -> None:
    partner = Partner(answers={"tools/call": result})
    async with connected(partner, handlers=Handlers(sample=sample)) as client:
        with pytest.raises(ProtocolError):
            await client.call_tool("t")
        assert (await client.read_resource("a:b")).contents[0].uri == "a:b"
    assert len(partner.sent_of("tools/call")) == 1, "it is not made again without the answers"


async def test_rounds_without_end_have_an_end() -> None:
    partner = Partner(answers={"tools/call": required({"r": ROOTS}, "again")})
    async with connected(partner, handlers=Handlers(roots=[])) as client:
        with pytest.raises(ProtocolError, match="times, which is the limit"):
            await client.call_tool("t")
    assert len(partner.sent_of("tools/call")) < 50


@pytest.mark.parametrize("transport", ["stdio", "http"])
async def test_input_is_required_of_no_other_request(transport: str) -> None:
    partner = Partner(answers={"tools/list": required({"r": ROOTS}, "s")})
    async with connected(partner, transport, handlers=Handlers(roots=[])) as client:
        with pytest.raises(InvalidMessage):
            _ = await client.list_tools()
    assert len(partner.sent_of("tools/list")) == 1
