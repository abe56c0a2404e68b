"""Tools of a host and of a client for vendors, run with responses as dictionaries."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import AsyncIterator
from typing import Any

import pytest

from carrel import Client, Server
from carrel.agents import ToolUse, content_of, tools_of
from carrel.agents import formats as formats_module
from carrel.errors import ConfigError
from carrel.host import Host
from carrel.host.config import ServerConfig
from support.servers import SERVERS
from support.servers.agent_tools import make

PROGRAM = str(SERVERS / "agent_tools.py")
PATIENCE = 60


def anthropic_message(*uses: tuple[str, Any]) -> dict[str, Any]:
    blocks = [{"type": "tool_use", "id": f"t{n}", "name": name, "input": given} for n, (name, given) in enumerate(uses)]
    return {"role": "assistant", "content": [{"type": "text", "text": "Let me see."}, *blocks]}


def results_of(messages: list[dict[str, Any]]) -> list[Any]:
    """Return the text of each result in messages to Anthropic, and whether it is an error."""
    (message,) = messages
    return [(block["content"][0]["text"], block.get("is_error", False)) for block in message["content"]]


@pytest.fixture
async def client() -> AsyncIterator[Client]:
    async with Client(make("desk")) as client:
        yield client


async def test_calls_of_one_response_run_at_the_same_time_and_come_back_in_order(client: Client) -> None:
    tools = await tools_of(client, "anthropic")
    async with asyncio.timeout(PATIENCE):
        messages = await tools.run(anthropic_message(("meet", {"number": 1}), ("meet", {"number": 2})))
    assert messages[0]["role"] == "user"
    assert [block["tool_use_id"] for block in messages[0]["content"]] == ["t0", "t1"]
    assert results_of(messages) == [("met 1", False), ("met 2", False)]


async def test_each_error_is_a_tool_error_for_the_model(client: Client) -> None:
    tools = await tools_of(client, "anthropic")
    messages = await tools.run(
        anthropic_message(
            ("add", {"a": 1, "b": 2}), ("refuse", {"config": "chair"}), ("ad", {}), ("add", {"a": "x"}), ("add", "?")
        )
    )
    done, refused, unknown, invalid, wrong = results_of(messages)
    assert done == ("3", False)
    assert refused == ("No chair here; try a lamp.", True)
    assert unknown[1]
    assert "add" in unknown[0]
    assert invalid[1]
    assert wrong == ("The arguments of add must be a JSON object", True)


async def test_a_response_without_calls_has_no_results(client: Client) -> None:
    tools = await tools_of(client, "anthropic")
    assert await tools.run(anthropic_message()) == []
    assert await tools.run({"role": "assistant", "content": "plain text"}) == []


async def test_calls_of_other_tools_are_left_to_the_caller(client: Client) -> None:
    tools = await tools_of(client, "anthropic")
    assert await tools.run(anthropic_message(("mine", {})), ignore=["mine"]) == []


async def test_calls_are_made_only_if_they_are_approved_one_question_at_a_time(client: Client) -> None:
    asked: list[ToolUse] = []
    waiting = 0

    async def approve(use: ToolUse) -> bool | str:
        nonlocal waiting
        assert waiting == 0
        waiting += 1
        asked.append(use)
        await asyncio.sleep(0)
        waiting -= 1
        return True if use.name == "add" else "Not today." if use.name == "who" else False

    tools = await tools_of(client, "anthropic", approve=approve)
    messages = await tools.run(anthropic_message(("add", {"a": 1, "b": 1}), ("who", {}), ("grow", {})))
    assert results_of(messages) == [
        ("2", False),
        ("Not today.", True),
        ("The user did not allow the call of grow", True),
    ]
    assert [(use.name, use.id) for use in asked] == [("add", "t0"), ("who", "t1"), ("grow", "t2")]
    assert asked[0].tool.description == "Add two numbers."


async def test_what_approve_raises_is_raised_and_no_other_call_goes_on(client: Client) -> None:
    def approve(use: ToolUse) -> bool:
        if use.arguments["number"] == 2:
            raise KeyError("broken")
        return True

    tools = await tools_of(client, "anthropic", approve=approve)
    with pytest.raises(KeyError, match="broken"):
        await tools.run(anthropic_message(("meet", {"number": 1}), ("meet", {"number": 2})))


async def test_the_list_follows_that_of_the_server() -> None:
    async with Client(make("desk"), revision="2025-11-25") as client:
        tools = await tools_of(client, "anthropic")
        assert "grown" not in [tool["name"] for tool in tools]
        await tools.run(anthropic_message(("grow", {})))
        async with asyncio.timeout(PATIENCE):
            while "grown" not in [tool["name"] for tool in tools]:  # until the notification is there
                await client.ping()
                await tools.refresh()
        assert results_of(await tools.run(anthropic_message(("grown", {})))) == [("new", False)]


async def test_arguments_get_the_names_of_the_server_back() -> None:
    app = Server("odd")

    @app.tool(input_schema={"type": "object", "properties": {"$top": {"type": "integer"}}, "required": ["$top"]})
    def query(**arguments: Any) -> str:
        return json.dumps(arguments)

    async with Client(app) as client:
        tools = await tools_of(client, "anthropic")
        (declared,) = tools
        (name,) = declared["input_schema"]["properties"]
        assert results_of(await tools.run(anthropic_message(("query", {name: 5})))) == [('{"$top": 5}', False)]


async def test_openai_responses(client: Client) -> None:
    tools = await tools_of(client, "openai")
    assert next(tool for tool in tools if tool["name"] == "add")["parameters"]["required"] == ["a", "b"]
    output = [
        {"type": "reasoning", "id": "r"},
        {"type": "function_call", "call_id": "c1", "name": "add", "arguments": '{"a": 1, "b": 2}'},
        {"type": "function_call", "call_id": "c2", "name": "add", "arguments": '{"a": 1'},
        {"type": "function_call", "call_id": "c3", "name": "picture", "arguments": ""},
    ]
    done, broken, picture = await tools.run({"output": output})
    assert done == {"type": "function_call_output", "call_id": "c1", "output": "3"}
    assert broken["output"] == "Error: The arguments of add must be a JSON object"
    assert [part["type"] for part in picture["output"]] == ["input_text", "input_image"]


async def test_openai_chat_completions(client: Client) -> None:
    tools = await tools_of(client, "openai-chat")
    assert tools[0]["function"]["name"] == "add"
    calls = [
        {"id": "c1", "type": "function", "function": {"name": "add", "arguments": '{"a": 1, "b": 2}'}},
        {"id": "c2", "type": "function", "function": {"name": "who", "arguments": ""}},
        {"id": "c3", "type": "custom", "custom": {"name": "x", "input": ""}},
    ]
    response = {"choices": [{"message": {"role": "assistant", "tool_calls": calls}}]}
    assert await tools.run(response) == [
        {"role": "tool", "tool_call_id": "c1", "content": "3"},
        {"role": "tool", "tool_call_id": "c2", "content": "desk"},
    ]


async def test_gemini(client: Client) -> None:
    tools = await tools_of(client, "gemini")
    (declared,) = tools
    assert {"name": "who", "description": "Return the name of the server."} in declared["functionDeclarations"]
    parts = [
        {"functionCall": {"name": "add", "args": {"a": 1, "b": 2}}},
        {"functionCall": {"id": "x", "name": "who"}},
        {"text": "hm"},
    ]
    (content,) = await tools.run({"candidates": [{"content": {"role": "model", "parts": parts}}]})
    assert content["parts"] == [
        {"functionResponse": {"name": "add", "response": {"output": "3"}}},
        {"functionResponse": {"id": "x", "name": "who", "response": {"output": "desk"}}},
    ]


async def test_contents_of_a_resource_are_content_of_a_message(client: Client) -> None:
    read = await client.read_resource("note://lamp")
    (block,) = content_of(read, "anthropic")
    assert (block["type"], block["title"]) == ("document", "note://lamp")
    tools = await tools_of(client, "openai")
    assert tools.content(read) == [{"type": "input_text", "text": "Resource note://lamp:\nBuy a lamp"}]


async def test_a_format_that_there_is_not_is_named(client: Client) -> None:
    with pytest.raises(ConfigError, match=r"no format 'antropic' of tools.*anthropic"):
        await tools_of(client, "antropic")  # type: ignore[call-overload]


@pytest.mark.parametrize(
    ("format", "package", "module"),
    [
        ("langchain", "langchain-core", "langchain_core.tools"),
        ("llamaindex", "llama-index-core", "llama_index.core.tools"),
        ("pydantic-ai", "pydantic-ai-slim", "pydantic_ai"),
    ],
)
async def test_a_package_that_is_missing_is_named(
    client: Client, format: Any, package: str, module: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = f"carrel.agents.{format.replace('-', '_')}"
    monkeypatch.delitem(sys.modules, own, raising=False)
    monkeypatch.delattr("carrel.agents." + own.rpartition(".")[2], raising=False)
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(ConfigError, match=f"pip install {package}"):
        await tools_of(client, format)
    assert formats_module.PACKAGES[format] == package


@pytest.mark.slow
async def test_tools_of_a_host_go_to_their_servers_with_unique_names() -> None:
    configs = [
        ServerConfig(name=name, command=sys.executable, args=(PROGRAM, name), tags=(f"tag-{name}",))
        for name in ("desk", "shop")
    ]
    async with Host(configs) as host:
        tools = await host.tools("anthropic")
        names = [tool["name"] for tool in tools]
        assert {"desk__who", "shop__who"} <= set(names)
        messages = await tools.run(anthropic_message(("desk__who", {}), ("shop__who", {}), ("shop__picture", {})))
        first, second, third = messages[0]["content"]
        assert [block["content"][0]["text"] for block in (first, second)] == ["desk", "shop"]
        assert [block["type"] for block in third["content"]] == ["text", "image"]
        assert [tool["name"] for tool in await host.tools("openai", tags=["tag-desk"])][:2] == ["add", "grow"]
        one = await host.tools("gemini", servers=["shop"], prefix=True)
        assert one[0]["functionDeclarations"][0]["name"] == "shop__add"
        with pytest.raises(ConfigError, match="desk"):
            await host.tools("anthropic", servers=["dsk"])
        await tools.run(anthropic_message(("desk__grow", {})))
        async with asyncio.timeout(PATIENCE):
            changes = host.watch()
            while "grown" not in [tool["name"] for tool in tools]:
                if not await tools.refresh():
                    await anext(changes)
