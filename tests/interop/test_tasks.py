"""Tasks with the package of the protocol's maintainers (npm @modelcontextprotocol/ext-tasks), in both eras."""

from __future__ import annotations

import asyncio
import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from carrel import Context, Server
from carrel.errors import InvalidParams
from support.http_server import over_http
from support.parties import node_environment, node_program

pytestmark = pytest.mark.usefixtures("frequent_polls")

CLIENT = Path(__file__).parent / "clients" / "ext_tasks.mjs"
PATIENCE = 120.0


def make_server() -> Server:
    """Return a server whose tools are tasks that end in every way there is."""
    app = Server("workshop")
    gates: dict[str, asyncio.Event] = {}

    @app.tool(task="required")
    async def work(gate: str) -> dict[str, str]:
        if gate:
            await gates.setdefault(gate, asyncio.Event()).wait()
        return {"text": "done"}

    @app.tool()
    async def open(gate: str) -> str:
        gates.setdefault(gate, asyncio.Event()).set()
        return "open"

    @app.tool(task="required")
    async def ask(context: Context) -> str:
        name = await context.elicit("Name?", str, key="question")
        again = await context.elicit("Name, again?", str, key="question")
        city = await context.sample("The capital of France?", 10)
        return f"{name.data} {again.data} {city.text}"

    @app.tool(task="required")
    async def broken() -> str:
        raise ValueError("on purpose")

    @app.tool(task="required")
    async def refuse() -> str:
        raise InvalidParams("Invalid params: never")

    @app.tool(task="required")
    async def endless() -> str:
        await asyncio.Event().wait()
        return "never"

    return app


def tour(mode: str) -> dict[str, Any]:
    """Run the client and return what it saw."""
    with over_http(make_server()) as origin:
        command = [node_program(), str(CLIENT), mode, f"{origin}/mcp"]
        done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, env=node_environment())
    assert done.returncode == 0, done.stderr[-4000:]
    seen: dict[str, Any] = json.loads(done.stdout)
    return seen


OUTCOMES = {
    "work": ["completed", '{"text":"done"}'],
    "ask": ["completed", "Ada Ada Paris"],
    "refuse": ["failed", "Invalid params: never"],
    "endless": ["cancelled", None],
}
ASKED = [["elicitation", "task"], ["elicitation", "task"], ["sampling", "task"]]


def test_the_tasks_package_takes_every_end_of_a_task_of_the_extension() -> None:
    seen = tour("auto")
    assert seen["revision"] == "2026-07-28"
    status, text = seen["outcomes"].pop("broken")
    assert (status, text.partition(" (reference ")[0]) == ("completed", "on purpose")
    assert seen["outcomes"] == OUTCOMES
    assert (seen["asked"], seen["errors"]) == (ASKED, [])
    assert seen["statuses"]["ask"][-1] == "completed"
    assert "input_required" in seen["statuses"]["ask"]
    assert seen["heard"] == ["completed"], "notifications that the package's schema takes"
    notified, fetched = seen["results"]
    assert notified == fetched


def test_the_tasks_package_takes_every_end_of_a_task_of_a_session() -> None:
    seen = tour("legacy")
    assert seen["revision"] == "2025-11-25"
    failed = seen["outcomes"].pop("broken")
    assert failed[0] == "failed"
    assert seen["outcomes"] == OUTCOMES
    assert (seen["asked"], seen["errors"]) == (ASKED, [])
