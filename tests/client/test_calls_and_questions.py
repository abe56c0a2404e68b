"""Handlers learn which call of the client caused a question, and a call may have handlers of its own."""

from __future__ import annotations

import asyncio
import sys
from typing import Any

import pytest

from carrel import Client, Context, Server
from carrel.client.handlers import Form, Handlers, RootsRequest, Sampling
from support.http_server import over_http
from support.servers.demo import LATEST, NOVEMBER

SCRIPT = """
from carrel import Context, Server

app = Server("asker")


@app.tool()
async def ask(context: Context) -> str:
    return str((await context.elicit("Who?", str)).data)


app.run()
"""


def make_asker() -> Server:
    app = Server("asker")

    @app.tool()
    async def ask(number: int, context: Context) -> str:
        return str((await context.elicit(f"Who is {number}?", str)).data)

    @app.tool()
    async def think(context: Context) -> str:
        return (await context.sample("Hello?", 100)).text

    @app.tool()
    async def where(context: Context) -> str:
        return " ".join(root.uri for root in await context.list_roots())

    return app


async def fill_in(form: Form) -> dict[str, Any]:
    """Answer with what is known of the call."""
    assert form.call is not None
    return {"value": f"{form.call.operation} {form.call.user_data}"}


@pytest.mark.slow
@pytest.mark.parametrize("revision", [NOVEMBER, LATEST])
async def test_over_http_each_question_is_told_with_its_call_however_many_are_in_flight(revision: str) -> None:
    asked: list[tuple[str, object]] = []
    all_asked = asyncio.Event()

    async def note(form: Form) -> dict[str, Any]:
        assert form.call is not None
        asked.append((form.message, form.call.user_data))
        if len(asked) == 5:
            all_asked.set()
        await all_asked.wait()
        return {"value": str(form.call.user_data)}

    with over_http(make_asker()) as origin:
        async with Client(f"{origin}/mcp", revision=revision, handlers=Handlers(elicit_form=note)) as client:
            calls = [client.call_tool("ask", {"number": number}, user_data=number) for number in range(5)]
            results = await asyncio.wait_for(asyncio.gather(*calls), 60)
    assert sorted(asked, key=str) == [(f"Who is {number}?", number) for number in range(5)]
    assert [result.text for result in results] == ["0", "1", "2", "3", "4"]


@pytest.mark.slow
async def test_on_stdio_in_a_session_the_only_call_in_flight_is_the_one_that_asks() -> None:
    command = [sys.executable, "-c", SCRIPT]
    async with Client(command, revision=NOVEMBER, handlers=Handlers(elicit_form=fill_in)) as client:
        assert (await client.call_tool("ask", user_data="mine")).text == "call_tool mine"


@pytest.mark.slow
async def test_on_stdio_in_a_session_several_calls_in_flight_are_all_that_is_known() -> None:
    known: list[tuple[object, list[object]]] = []
    both = asyncio.Event()

    async def note(form: Form) -> dict[str, Any]:
        known.append((form.call, sorted(str(call.user_data) for call in form.calls)))
        if len(known) == 2:
            both.set()
        await both.wait()
        return {"value": "somebody"}

    command = [sys.executable, "-c", SCRIPT]
    async with Client(command, revision=NOVEMBER, handlers=Handlers(elicit_form=note)) as client:
        await asyncio.wait_for(
            asyncio.gather(client.call_tool("ask", user_data="a"), client.call_tool("ask", user_data="b")), 60
        )
    assert known == [(None, ["a", "b"])] * 2


@pytest.mark.parametrize("revision", [NOVEMBER, LATEST])
async def test_handlers_of_a_call_replace_those_of_the_client_for_that_call_only(revision: str) -> None:
    async def by_client(form: Form) -> dict[str, Any]:
        return {"value": "by the client"}

    async def by_call(form: Form) -> dict[str, Any]:
        return {"value": f"by the call of {form.server.partition(' ')[0]}"}

    async with Client(make_asker(), revision=revision, handlers=Handlers(elicit_form=by_client)) as client:
        own = await client.call_tool("ask", {"number": 1}, handlers=Handlers(elicit_form=by_call))
        other = await client.call_tool("ask", {"number": 2})
    assert (own.text, other.text) == ("by the call of asker", "by the client")


@pytest.mark.parametrize("revision", [NOVEMBER, LATEST])
async def test_models_and_roots_are_told_which_call_asks_too(revision: str) -> None:
    async def say(request: Sampling) -> str:
        assert request.call is not None
        assert (request.max_tokens, request.system_prompt, request.tools) == (100, None, None)
        return str(request.call.user_data)

    def find(request: RootsRequest) -> list[str]:
        assert request.call is not None
        return [f"file:///{request.call.user_data}"]

    async with Client(make_asker(), revision=revision, handlers=Handlers(sample=say, roots=find)) as client:
        assert (await client.call_tool("think", user_data="me")).text == "me"
        assert (await client.call_tool("where", user_data="home")).text == "file:///home"
