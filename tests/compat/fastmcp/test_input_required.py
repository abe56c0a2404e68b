"""Functions of programs for FastMCP 4 that return an ``InputRequiredResult``: clients of all revisions answer it."""

from __future__ import annotations

import json
from typing import Any

import pytest

from carrel.compat.fastmcp import Client, Context, FastMCP
from carrel.compat.fastmcp.client.elicitation import ElicitResult
from carrel.compat.fastmcp.exceptions import ToolError
from carrel.compat.fastmcp.server.transforms import PromptsAsTools, ResourcesAsTools
from carrel.compat.mcp2 import types


def ask(state: str) -> types.InputRequiredResult:
    """Return a question for a name."""
    schema = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}
    params = types.ElicitRequestFormParams(message=f"{state}, who?", requested_schema=schema)
    return types.InputRequiredResult(input_requests={"who": types.ElicitRequest(params=params)}, request_state=state)


def server() -> FastMCP[Any]:
    """Return a server whose tool, prompt and resource ask twice."""
    mcp: FastMCP[Any] = FastMCP("asking")

    def greeting(context: Context, word: str) -> str | types.InputRequiredResult:
        if context.input_responses is None:
            return ask(word)
        answer, state = context.input_responses["who"], context.request_state
        assert isinstance(answer, types.ElicitResult)
        if answer.action != "accept":
            return f"{state}: {answer.action}"
        said = f"{state} {(answer.content or {})['name']}"
        return ask(said) if state == word else said

    @mcp.tool
    def greet(word: str, context: Context) -> str | types.InputRequiredResult:
        return greeting(context, word)

    @mcp.resource("greeting://{word}")
    def read(word: str, context: Context) -> str | types.InputRequiredResult:
        return greeting(context, word)

    @mcp.prompt
    def say(word: str, context: Context) -> str | types.InputRequiredResult:
        return greeting(context, word)

    @mcp.tool
    def insist() -> types.InputRequiredResult:
        return types.InputRequiredResult(request_state="again")

    mcp.add_transform(ResourcesAsTools(mcp))
    mcp.add_transform(PromptsAsTools(mcp))
    return mcp


@pytest.mark.parametrize("mode", ["handshake", "2026-07-28"])
async def test_tools_resources_and_prompts_ask_until_they_have_what_they_need(mode: str) -> None:
    asked: list[str] = []

    async def answer(message: str, response_type: Any, params: Any, context: Any) -> ElicitResult[Any]:
        asked.append(message)
        return ElicitResult(action="accept", content={"name": f"Ada{len(asked)}"})

    options = {} if mode == "handshake" else {"mode": mode}
    async with Client(server(), elicitation_handler=answer, **options) as client:
        result = await client.call_tool("greet", {"word": "Hi"})
        assert (result.data, result.structured_content) == ("Hi Ada1 Ada2", {"result": "Hi Ada1 Ada2"})
        assert (await client.read_resource("greeting://Hi"))[0].text == "Hi Ada3 Ada4"
        assert (await client.get_prompt("say", {"word": "Hi"})).messages[0].content.text == "Hi Ada5 Ada6"
        as_tool = await client.call_tool("read_resource", {"uri": "greeting://Hi"})
        assert as_tool.data == "Hi Ada7 Ada8"
        prompt = await client.call_tool("get_prompt", {"name": "say", "arguments": {"word": "Hi"}})
        assert json.loads(prompt.data)["messages"][0]["content"] == "Hi Ada9 Ada10"
        schema = next(each for each in await client.list_tools() if each.name == "greet").outputSchema
        assert schema["properties"] == {"result": {"type": "string"}}
    assert asked[:2] == ["Hi, who?", "Hi Ada1, who?"]


async def test_a_declined_question_is_an_answer_and_endless_questions_end() -> None:
    async def decline(*_: Any) -> ElicitResult[Any]:
        return ElicitResult(action="decline")

    async with Client(server(), elicitation_handler=decline) as client:
        assert (await client.call_tool("greet", {"word": "Hi"})).data == "Hi: decline"
        with pytest.raises(ToolError, match="'insist' requires input more than 16 times"):
            await client.call_tool("insist")
    async with Client(server()) as client:
        with pytest.raises(ToolError, match="elicitation"):
            await client.call_tool("greet", {"word": "Hi"})
