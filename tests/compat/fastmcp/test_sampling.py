"""``ctx.sample``: the client's model or the server's own (``sampling_handler=``), with tools and types of results."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import BaseModel

from carrel.compat.fastmcp import Client, Context, FastMCP
from carrel.compat.fastmcp.exceptions import ToolError
from carrel.compat.fastmcp.server.sampling import SamplingTool
from carrel.compat.fastmcp.tools import FunctionTool
from carrel.compat.mcp.types import (
    CreateMessageResultWithTools,
    SamplingCapability,
    SamplingToolsCapability,
    ToolUseContent,
)


async def own(messages: Any, params: Any, context: Any) -> str:
    return f"own: {messages[0].content.text}, {params.systemPrompt}, {params.maxTokens}"


def clients(messages: Any, params: Any, context: Any) -> str:
    return f"client's: {messages[0].content.text}"


async def asked(handler: Any, behavior: Any, *, has_model: bool) -> str:
    """Return what a tool gets that asks for a message."""
    server = FastMCP("sampling", sampling_handler=handler, sampling_handler_behavior=behavior)

    @server.tool
    async def ask(ctx: Context) -> str:
        return str((await ctx.sample("Hello", system_prompt="Be short.", max_tokens=7)).text)

    async with Client(server, sampling_handler=clients if has_model else None) as client:
        return str((await client.call_tool("ask")).data)


@pytest.mark.parametrize(
    ("handler", "behavior", "has_model", "expected"),
    [
        (own, None, False, "own: Hello, Be short., 7"),
        (own, "fallback", True, "client's: Hello"),
        (own, "always", True, "own: Hello, Be short., 7"),
        (lambda *_: "sync", "always", False, "sync"),
        (None, None, True, "client's: Hello"),
    ],
)
async def test_the_model_of_the_server_answers_clients_without_one_or_all(
    handler: Any, behavior: Any, has_model: bool, expected: str
) -> None:
    assert await asked(handler, behavior, has_model=has_model) == expected


@pytest.mark.parametrize(
    ("handler", "behavior", "complaint"),
    [(None, "always", "no handler configured"), (own, "other", "Invalid sampling_handler_behavior: 'other'")],
)
async def test_a_behavior_that_cannot_be_is_an_error_of_the_call(handler: Any, behavior: Any, complaint: str) -> None:
    with pytest.raises(ToolError, match=complaint):
        await asked(handler, behavior, has_model=True)


def calls_of(*calls: tuple[str, dict[str, Any]]) -> CreateMessageResultWithTools:
    """Return a message of a model that calls tools."""
    blocks = [
        ToolUseContent(type="tool_use", id=str(number), name=name, input=given)
        for number, (name, given) in enumerate(calls)
    ]
    return CreateMessageResultWithTools(role="assistant", model="m", stopReason="toolUse", content=blocks)


class Model:
    """Model with prepared answers. ``requests`` are the parameters that it was asked with."""

    def __init__(self, *answers: Any) -> None:
        self.requests: list[Any] = []
        self._answers = list(answers)

    async def __call__(self, messages: Any, params: Any, context: Any) -> Any:
        self.requests.append(params)
        return self._answers.pop(0)

    def results(self, number: int) -> list[tuple[str, bool | None]]:
        """Return the results of tools in the last message of a request."""
        content = self.requests[number].messages[-1].content
        return [(each.content[0].text, each.isError) for each in content]


TOOLS = SamplingCapability(tools=SamplingToolsCapability())


async def sampled(model: Model, capabilities: Any = TOOLS, server: Model | None = None, **options: Any) -> Any:
    """Return what ``ctx.sample`` returns to a tool whose client has a model."""
    mcp = FastMCP("sampling", sampling_handler=server)
    found = []

    @mcp.tool
    async def ask(ctx: Context) -> str:
        found.append(await ctx.sample("Hello", **options))
        return "asked"

    async with Client(mcp, sampling_handler=model, sampling_capabilities=capabilities) as client:
        await client.call_tool("ask")
    return found[0]


def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


async def broken() -> str:
    raise RuntimeError("no file")


async def refused() -> str:
    raise ToolError("not today")


@pytest.mark.parametrize("concurrency", [None, 0, 2])
async def test_tools_that_the_model_calls_run_on_the_server_until_the_model_answers(concurrency: int | None) -> None:
    mcp_tool = FunctionTool.from_function(lambda x: f"<{x}>", name="quote")
    calls = [("add", {"a": 1, "b": 2}), ("quote", {"x": "y"}), ("broken", {}), ("refused", {}), ("none", {})]
    model = Model(calls_of(*calls), "3")
    tools = [add, mcp_tool, SamplingTool.from_function(broken), refused]
    result = await sampled(model, tools=tools, tool_concurrency=concurrency)
    assert (result.text, result.result) == ("3", "3")
    assert [message.role for message in result.history] == ["user", "assistant", "user", "assistant"]
    assert model.results(1) == [
        ("3", None),
        ("<y>", None),
        ("Error executing tool 'broken': no file", True),
        ("not today", True),
        ("Error: Unknown tool 'none'", True),
    ]
    offered = model.requests[0].tools
    assert [tool.name for tool in offered] == ["add", "quote", "broken", "refused"]
    assert offered[0].description == "Add two numbers."
    assert offered[0].inputSchema["required"] == ["a", "b"]


async def test_errors_of_tools_may_be_masked() -> None:
    model = Model(calls_of(("broken", {})), "sorry")
    await sampled(model, tools=[broken], mask_error_details=True)
    assert model.results(1) == [("Error executing tool 'broken'", True)]


class City(BaseModel):
    name: str
    people: int


@pytest.mark.parametrize(
    ("kind", "given", "value"),
    [(City, {"name": "Rome", "people": 3}, City(name="Rome", people=3)), (list[int], {"value": [1, 2]}, [1, 2])],
)
async def test_a_result_of_a_type_is_validated_and_asked_for_again(kind: Any, given: Any, value: Any) -> None:
    answers = [calls_of(("add", {"a": 1, "b": 1})), "a text", calls_of(("final_response", {"name": 1}))]
    model = Model(*answers, calls_of(("final_response", given)))
    result = await sampled(model, tools=[add], result_type=kind)
    assert result.result == value
    assert [params.toolChoice.mode for params in model.requests] == ["required"] * 4
    assert model.results(1) == [("2", None)]
    assert "final_response" in model.requests[2].messages[-1].content.text
    assert model.results(3)[0][0].startswith("Validation error")


@pytest.mark.parametrize(
    ("answer", "complaint"),
    [("a text", "Expected structured output"), (calls_of(("final_response", {})), "validation failed")],
)
async def test_a_model_that_returns_no_valid_result_is_an_error(answer: Any, complaint: str) -> None:
    with pytest.raises(ToolError, match=complaint):
        await sampled(Model(*[answer] * 4), result_type=City)


async def test_a_client_without_tools_is_not_asked_and_the_model_of_the_server_is() -> None:
    with pytest.raises(ToolError, match=r"must advertise the sampling\.tools capability"):
        await sampled(Model(), SamplingCapability(), tools=[add])
    own_model = Model(calls_of(("add", {"a": 1, "b": 2})), "3")
    assert (await sampled(Model(), SamplingCapability(), own_model, tools=[add])).text == "3"


async def test_a_step_is_one_message_whose_tools_may_be_left_to_the_program() -> None:
    mcp = FastMCP("sampling")
    steps: list[Any] = []

    @mcp.tool
    async def ask(ctx: Context) -> str:
        steps.append(await ctx.sample_step("Hello", tools=[add], tool_choice="auto"))
        steps.append(await ctx.sample_step("Hello", tools=[add], tool_choice="auto", execute_tools=False))
        return "asked"

    model = Model(*[calls_of(("add", {"a": 1, "b": 2}))] * 2)
    async with Client(mcp, sampling_handler=model, sampling_capabilities=TOOLS) as client:
        await client.call_tool("ask")
    assert [step.is_tool_use for step in steps] == [True, True]
    assert [len(step.history) for step in steps] == [3, 2]
    assert steps[0].text is None
    assert steps[0].tool_calls[0].input == {"a": 1, "b": 2}


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ({"tools": [1]}, "Expected SamplingTool"),
        ({"tools": [add], "tool_concurrency": -1}, "tool_concurrency must be"),
        ({"tools": [add], "tool_choice": "all"}, "Invalid tool_choice"),
    ],
)
async def test_options_that_cannot_be_are_errors(options: Any, complaint: str) -> None:
    with pytest.raises(ToolError, match=complaint):
        await sampled(Model(), **options)
