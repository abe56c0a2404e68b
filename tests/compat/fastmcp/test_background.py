"""Tasks of programs for FastMCP 3: Carrel runs them, for clients of 2025-11-25."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from carrel import Client
from carrel.client.handlers import Handlers
from carrel.compat import generation
from carrel.compat.fastmcp import Context, FastMCP
from carrel.compat.fastmcp.server.background import TASKS_CAPABILITY, declares_tasks
from carrel.compat.fastmcp.utilities.tasks import TaskConfig
from carrel.errors import PeerError
from carrel.transports.server.dispatcher import Dispatcher
from compat.fastmcp.comparison import on_carrel
from support.stdio_process import initialize, note, request

DEFINED = """
from fastmcp import FastMCP
from fastmcp.server.tasks import TaskConfig

mcp = FastMCP("defined")


@mcp.tool(task=TaskConfig(mode="required"))
async def slow() -> str:
    return "done"
"""


@pytest.fixture(autouse=True)
def version_3(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(generation, "installed_fastmcp", lambda: "3.4.11")


class Sent(list[Any]):
    """Channel that keeps the messages that are sent on it."""

    def send(self, message: bytes, key: Any = None) -> None:
        self.append(json.loads(message))


class Session:
    """Session with a server, whose messages are JSON."""

    def __init__(self, mcp: FastMCP) -> None:
        self.sent = Sent()
        self.app = mcp._mcp_server.application().endpoint
        self.dispatcher = Dispatcher(self.app, self.sent)  # type: ignore[arg-type]

    async def __aenter__(self) -> Session:
        await self.app.start()
        await self.ask("initialize", **initialize()["params"])
        self.dispatcher.receive(json.dumps(note("notifications/initialized")).encode())
        return self

    async def __aexit__(self, *error: object) -> None:
        await self.dispatcher.close()
        await self.app.stop()

    async def ask(self, method: str, **params: Any) -> dict[str, Any]:
        """Return the response to a request."""
        id = f"{method} {len(self.sent)}"
        data = self.dispatcher.receive(json.dumps(request(id, method, params)).encode())
        if data is not None:
            self.sent.append(json.loads(data))
        async with asyncio.timeout(60):
            while not (found := [each for each in self.sent if each.get("id") == id]):
                await asyncio.sleep(0)
        return found[0]


async def run_as_task(session: Session, method: str, **params: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return a task, and its result."""
    created = await session.ask(method, task={"ttl": 60_000}, **params)
    task = created["result"]["task"]
    ended = await session.ask("tasks/result", taskId=task["taskId"])
    assert ended["result"].pop("_meta")["io.modelcontextprotocol/related-task"] == {"taskId": task["taskId"]}
    return task, ended["result"]


async def test_calls_prompts_and_reads_run_as_tasks() -> None:
    mcp = FastMCP("tasks")

    @mcp.tool(task=True)
    async def add(a: int, b: int) -> int:
        return a + b

    @mcp.prompt(task=True)
    async def greet(name: str) -> str:
        return f"Hello, {name}"

    @mcp.resource("data://{name}", task=True)
    async def data(name: str) -> str:
        return name

    async with Session(mcp) as session:
        task, result = await run_as_task(session, "tools/call", name="add", arguments={"a": 1, "b": 2})
        assert (task["status"], task["ttl"]) == ("working", 60_000)
        assert result["structuredContent"] == {"result": 3}
        _, result = await run_as_task(session, "prompts/get", name="greet", arguments={"name": "Ada"})
        assert result["messages"][0]["content"]["text"] == "Hello, Ada"
        _, result = await run_as_task(session, "resources/read", uri="data://x")
        assert result["contents"][0]["text"] == "x"
        listed = await session.ask("tasks/list")
        assert {each["status"] for each in listed["result"]["tasks"]} == {"completed"}
        assert len(listed["result"]["tasks"]) == 3


async def test_a_task_that_is_cancelled_ends_its_function() -> None:
    mcp = FastMCP("tasks")
    begun, ended = asyncio.Event(), asyncio.Event()

    @mcp.tool(task=True)
    async def wait() -> str:
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()
        return "never"

    async with Session(mcp) as session:
        task = (await session.ask("tools/call", task={}, name="wait", arguments={}))["result"]["task"]
        await asyncio.wait_for(begun.wait(), 60)
        cancelled = await session.ask("tasks/cancel", taskId=task["taskId"])
        assert cancelled["result"]["status"] == "cancelled"
        await asyncio.wait_for(ended.wait(), 60)


async def test_the_mode_of_a_tool_is_enforced_in_the_words_of_fastmcp() -> None:
    mcp = FastMCP("tasks")

    @mcp.tool(task=TaskConfig(mode="required"))
    async def slow() -> str:
        return "slow"

    @mcp.tool
    async def fast() -> str:
        return "fast"

    async with Session(mcp) as session:
        texts = []
        for name, params in (("slow", {}), ("fast", {"task": {}}), ("none", {"task": {}})):
            found = await session.ask("tools/call", name=name, arguments={}, **params)
            assert found["result"]["isError"]
            texts.append(found["result"]["content"][0]["text"])
        assert texts == [
            "Error calling tool 'slow': FunctionTool 'tool:slow@' requires task-augmented execution",
            "Error calling tool 'fast': FunctionTool 'tool:fast@' does not support task-augmented execution",
            "Unknown tool: 'none'",
        ]


async def test_a_task_asks_the_user() -> None:
    mcp = FastMCP("tasks")

    @mcp.tool(task=TaskConfig(mode="required"))
    async def ask(ctx: Context) -> str:
        return str((await ctx.elicit("Which?", str)).data)  # type: ignore[union-attr]

    async def fill_in(*_: Any) -> dict[str, Any]:
        return {"value": "red"}

    app = mcp._mcp_server.application()
    async with Client(app, revision="2025-11-25", handlers=Handlers(elicit_form=fill_in)) as client:
        assert client.capabilities is not None
        assert client.capabilities.tasks == TASKS_CAPABILITY
        assert (await client.call_tool("ask", {})).structured_content == {"result": "red"}


async def test_clients_of_2026_07_28_are_answered_at_once() -> None:
    mcp = FastMCP("tasks")

    @mcp.tool(task=True)
    async def slow() -> str:
        return "slow"

    async with Client(mcp._mcp_server.application(), revision="2026-07-28") as client:
        assert (await client.call_tool("slow", {})).structured_content == {"result": "slow"}
        with pytest.raises(PeerError, match="not found"):
            await client.tasks.get_task("none")


def test_a_server_without_tasks_declares_none() -> None:
    mcp = FastMCP("plain")
    mcp.tool(lambda: "x", name="x")
    assert not declares_tasks(mcp)


@pytest.mark.slow
async def test_a_defined_server_declares_itself_as_on_stdio(tmp_path: Path) -> None:
    file = tmp_path / "defined.py"
    file.write_text(DEFINED)
    async with Client(on_carrel([str(file)]), revision="2025-11-25") as client:
        assert client.capabilities is not None
        assert client.capabilities.tasks == TASKS_CAPABILITY
        assert client.capabilities.prompts is not None
        assert not client.capabilities.prompts.list_changed
        assert client.capabilities.tools is not None
        assert client.capabilities.tools.list_changed
        assert (await client.call_tool("slow", {})).structured_content == {"result": "done"}
