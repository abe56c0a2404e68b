"""Agents of LangChain, LlamaIndex and Pydantic AI with scripted models, and tools of a server that is a process."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator, Sequence
from typing import Any

import pytest

from carrel import Client
from carrel.agents import ToolUse, content_of, tools_of
from carrel.errors import ConfigError
from carrel.host import Host
from carrel.host.config import ServerConfig
from carrel.wire.tools import CallToolResult
from support.servers import SERVERS
from support.servers.agent_tools import PNG

pytestmark = pytest.mark.slow  # the frameworks take seconds to load
PROGRAM = str(SERVERS / "agent_tools.py")


@pytest.fixture
async def host() -> AsyncIterator[Host]:
    async with Host([ServerConfig(name="desk", command=sys.executable, args=(PROGRAM, "desk"))]) as host:
        yield host


async def test_langchain(host: Host) -> None:
    from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
    from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
    from langchain_core.utils.function_calling import convert_to_openai_tool

    def use(number: int, name: str, **given: Any) -> dict[str, Any]:
        return {"id": f"c{number}", "name": name, "args": given, "type": "tool_call"}

    calls = [use(1, "add", a=1, b=2), use(2, "refuse", config="chair", run_manager="x"), use(3, "picture")]
    model = GenericFakeChatModel(messages=iter([AIMessage("", tool_calls=calls), AIMessage("done")]))
    tools = {tool.name: tool for tool in await host.tools("langchain")}
    assert convert_to_openai_tool(tools["add"])["function"]["parameters"]["required"] == ["a", "b"]
    messages: list[Any] = [HumanMessage("go")]
    messages.append(await model.ainvoke(messages))
    messages += await asyncio.gather(*(tools[call["name"]].ainvoke(call) for call in messages[-1].tool_calls))
    messages.append(await model.ainvoke(messages))
    added, refused, picture = messages[2:5]
    assert isinstance(added, ToolMessage)
    assert (added.content, added.status, added.tool_call_id) == ("3", "success", "c1")
    assert isinstance(added.artifact, CallToolResult)
    assert (refused.content, refused.status) == ("No chair here; try a lamp.", "error")
    assert [block["type"] for block in picture.content] == ["text", "image"]
    assert messages[-1].content == "done"


async def test_langchain_from_a_thread(host: Host) -> None:
    tools = {tool.name: tool for tool in await host.tools("langchain")}
    assert await asyncio.to_thread(tools["add"].invoke, {"a": 2, "b": 3}) == "5"
    with pytest.raises(ConfigError, match="ainvoke"):
        tools["add"].invoke({"a": 2, "b": 3})


@pytest.mark.filterwarnings("ignore::pydantic.warnings.PydanticDeprecationWarning")  # of the framework itself
async def test_llamaindex(host: Host) -> None:
    from llama_index.core.agent.workflow import FunctionAgent
    from llama_index.core.base.llms.types import ChatMessage, ImageBlock, MessageRole, ToolCallBlock
    from llama_index.core.llms.mock import MockFunctionCallingLLM

    seen: list[ChatMessage] = []

    def answer(messages: Sequence[ChatMessage], **options: Any) -> ChatMessage:
        seen[:] = messages
        if any(message.role == MessageRole.TOOL for message in messages):
            return ChatMessage(role="assistant", content="done")
        blocks = [
            ToolCallBlock(tool_call_id="c1", tool_name="add", tool_kwargs={"a": 1, "b": 2}),
            ToolCallBlock(tool_call_id="c2", tool_name="refuse", tool_kwargs={"config": "chair"}),
            ToolCallBlock(tool_call_id="c3", tool_name="picture", tool_kwargs={}),
        ]
        return ChatMessage(role="assistant", blocks=blocks)

    tools = await host.tools("llamaindex")
    by_name = {tool.metadata.name: tool for tool in tools}
    parameters = by_name["add"].metadata.to_openai_tool()["function"]["parameters"]
    assert parameters["required"] == ["a", "b"]
    agent = FunctionAgent(tools=tools, llm=MockFunctionCallingLLM(response_generator=answer), streaming=False)
    assert str(await agent.run("go")) == "done"
    results = [message for message in seen if message.role == MessageRole.TOOL]
    assert {message.content for message in results} == {"3", "No chair here; try a lamp.", "a lamp"}
    picture = await by_name["picture"].acall()
    assert isinstance(picture.blocks[1], ImageBlock)
    refused = await by_name["refuse"].acall(config="chair", run_manager="x")
    assert (refused.is_error, refused.content) == (True, "No chair here; try a lamp.")
    output = await asyncio.to_thread(by_name["add"], a=2, b=3)
    assert output.content == "5"


async def test_pydantic_ai_with_a_list_that_grows(host: Host) -> None:
    from pydantic_ai import Agent
    from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart, ToolCallPart, ToolReturnPart
    from pydantic_ai.models.function import AgentInfo, FunctionModel

    lists: list[set[str]] = []
    changes = host.watch()

    async def answer(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        lists.append({tool.name for tool in info.function_tools})
        match len(lists):
            case 1:
                return ModelResponse(
                    parts=[
                        ToolCallPart("add", {"a": 1, "b": 2}),
                        ToolCallPart("refuse", {"config": "chair"}),
                        ToolCallPart("picture", {}),
                        ToolCallPart("grow", {}),
                    ]
                )
            case 2:
                async with asyncio.timeout(60):
                    while (await anext(changes)).kind != "tools":
                        pass
                return ModelResponse(parts=[ToolCallPart("who", {})])
        return ModelResponse(parts=[TextPart("done")])

    agent = Agent(FunctionModel(answer), toolsets=[await host.tools("pydantic-ai")])
    run = await agent.run("go")
    assert run.output == "done"
    assert "grown" not in lists[0]
    assert "grown" in lists[2]
    returned = {
        part.tool_name: part
        for message in run.all_messages()
        for part in message.parts
        if isinstance(part, ToolReturnPart)
    }
    assert returned["add"].content == "3"
    assert returned["refuse"].content == "No chair here; try a lamp."
    assert returned["refuse"].outcome == "failed"
    text, picture = returned["picture"].content
    assert (text, picture.data) == ("a lamp", PNG)


async def test_calls_of_a_framework_are_approved_too() -> None:
    def approve(use: ToolUse) -> bool:
        return use.arguments == {"a": 1, "b": 2}

    async with Client([sys.executable, PROGRAM, "desk"]) as client:
        tools = {tool.name: tool for tool in await tools_of(client, "langchain", approve=approve)}
        assert await tools["add"].ainvoke({"a": 1, "b": 2}) == "3"
        assert await tools["add"].ainvoke({"a": 2, "b": 2}) == "The user did not allow the call of add"
        read = await client.read_resource("note://lamp")
    assert content_of(read, "langchain") == [{"type": "text", "text": "Resource note://lamp:\nBuy a lamp"}]
    assert content_of(read, "pydantic-ai") == ["Resource note://lamp:\nBuy a lamp"]
    assert content_of(read, "llamaindex")[0].text == "Resource note://lamp:\nBuy a lamp"
