"""Tools for models of synchronous clients and hosts."""

from __future__ import annotations

import asyncio
import sys
import threading
from typing import Any

import pytest

from carrel.agents import ToolUse
from carrel.host.config import ServerConfig
from carrel.sync import Client, Host, tools_of
from support.servers import SERVERS
from support.servers.agent_tools import make

PROGRAM = str(SERVERS / "agent_tools.py")


def message(*uses: tuple[str, Any]) -> dict[str, Any]:
    blocks = [{"type": "tool_use", "id": f"t{n}", "name": name, "input": given} for n, (name, given) in enumerate(uses)]
    return {"role": "assistant", "content": blocks}


def test_calls_of_a_response_are_made_and_approved_by_a_function_that_may_block() -> None:
    asked: list[str] = []

    def approve(use: ToolUse) -> bool:
        asked.append(threading.current_thread().name)
        return client.call_tool("add", use.arguments).text == "3"

    with Client(make("desk")) as client:
        tools = tools_of(client, "anthropic", approve=approve)
        assert tools[0]["name"] == "add"
        (sent,) = tools.run(message(("add", {"a": 1, "b": 2}), ("add", {"a": 2, "b": 2})))
        assert [block.get("is_error", False) for block in sent["content"]] == [False, True]
        assert tools.content(client.read_resource("note://lamp"))[0]["type"] == "document"
    assert asked == ["carrel-sync-handler"] * 2


@pytest.mark.slow
def test_tools_of_frameworks_are_called_in_any_thread_and_any_event_loop() -> None:
    config = ServerConfig(name="desk", command=sys.executable, args=(PROGRAM, "desk"))
    with Host([config]) as host:
        tools = {tool.name: tool for tool in host.tools("langchain", prefix=True)}
        assert tools["desk__add"].invoke({"a": 1, "b": 2}) == "3"
        assert asyncio.run(tools["desk__add"].ainvoke({"a": 2, "b": 2})) == "4"


@pytest.mark.slow
def test_an_agent_of_pydantic_ai_runs_in_an_event_loop_of_its_own() -> None:
    from pydantic_ai import Agent
    from pydantic_ai.models.test import TestModel

    with Client(make("desk")) as client:
        agent = Agent(TestModel(call_tools=["who"]), toolsets=[tools_of(client, "pydantic-ai")])
        assert "desk" in asyncio.run(agent.run("go")).output  # as run_sync does, which leaves its event loop open
