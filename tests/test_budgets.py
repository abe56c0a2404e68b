"""Budgets that can be counted: what an import loads, and how long the way of one request is.

Times are in ``benchmarks/``; these numbers are the same on every machine.
"""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from types import FrameType
from typing import Any

import msgspec
import pytest

import carrel
from carrel import Server
from carrel.transports.memory import MemoryPeer

SOURCE = str(Path(carrel.__file__).parent)
REVISIONS = ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25", "2026-07-28")

#: What a stdio server does not need, and so does not load: HTTP stacks, authorization, web, schemas, watchers.
UNWANTED = {
    *("uvicorn", "httptools", "uvloop", "http", "h11", "httpx", "httpx2", "starlette", "fastapi", "anyio"),
    *("jsonschema_rs", "pydantic", "pydantic_core", "watchfiles", "pathspec", "puremagic", "cryptography"),
    *("email", "html", "xml", "sqlite3", "ctypes", "multiprocessing", "unittest", "json", "hashlib", "secrets"),
    *("argparse", "importlib.metadata", "carrel.cli", "carrel.sources", "carrel.client", "carrel.host"),
    *(
        "carrel.security",
        "carrel.state",
        "carrel.transports",
        "carrel.catalog.resources_as_tools",
        "carrel.server.schema.schema",
    ),
    *(
        "carrel.server.schema.docstring",
        "carrel.server.schema.text_values",
        "carrel.server.schema.type_hints",
        "carrel.protocol.json_schema",
    ),
}
IMPORT = "import sys; before = set(sys.modules); import {what}; print(*sorted(set(sys.modules) - before))"


def loaded_by(what: str) -> set[str]:
    """The modules that an import loads in a fresh interpreter."""
    command = [sys.executable, "-c", IMPORT.format(what=what)]
    return set(subprocess.run(command, capture_output=True, text=True, check=True, timeout=60).stdout.split())


def test_importing_the_library_loads_what_a_stdio_server_needs_and_little_else() -> None:
    loaded = loaded_by("carrel.server.app")
    assert {name for name in loaded if name in UNWANTED or name.partition(".")[0] in UNWANTED} == set()
    assert len(loaded) <= 226, f"{len(loaded)} modules (219 when this was written)"
    assert len([name for name in loaded if name.startswith("carrel")]) <= 91


def test_the_budgets_name_modules_that_exist() -> None:
    assert [name for name in UNWANTED if name.startswith("carrel") and find_spec(name) is None] == []


def test_serving_on_stdio_loads_no_http_and_no_schemas() -> None:
    loaded = loaded_by("carrel.server.app, carrel.transports.server.stdio")
    unwanted = UNWANTED - {"carrel.transports"}
    assert {name for name in loaded if name in unwanted or name.partition(".")[0] in unwanted} == set()
    assert "carrel.transports.server.http" not in loaded


@pytest.mark.parametrize("what", ["carrel.wire.resources", "carrel.protocol.server", "carrel.protocol.http"])
def test_the_protocol_loads_no_event_loop(what: str) -> None:
    loaded = loaded_by("carrel.server.app")  # a server has one; the protocol beneath it must not need it
    assert "asyncio" in loaded
    script = (
        "import sys, types; package = types.ModuleType('carrel'); package.__path__ = [sys.argv[1]]; "
        f"sys.modules['carrel'] = package; import {what}; print(*sys.modules)"
    )
    command = [sys.executable, "-c", script, SOURCE]
    loaded = set(subprocess.run(command, capture_output=True, text=True, check=True, timeout=60).stdout.split())
    assert what in loaded
    assert not {"asyncio", "selectors", "threading", "carrel.server", "carrel.transports"} & loaded


# The way of one request


class Way:
    """What happened between the bytes in and the bytes out."""

    def __init__(self) -> None:
        self.frames: list[str] = []
        self.codecs: Counter[str] = Counter()

    def __call__(self, frame: FrameType, event: str, function: Any) -> None:
        if event == "call":
            if frame.f_code.co_filename.startswith(SOURCE):
                self.frames.append(f"{frame.f_code.co_filename[len(SOURCE) + 1 :]}:{frame.f_code.co_name}")
        elif event == "c_call":
            owner = getattr(function, "__self__", None)
            if isinstance(owner, msgspec.json.Decoder):
                self.codecs["decode"] += 1
            elif isinstance(owner, msgspec.json.Encoder):
                self.codecs["encode"] += 1
            elif (getattr(function, "__module__", None) or "").startswith("msgspec"):
                self.codecs[function.__name__] += 1


def library() -> Server:
    app = Server("s")
    app.resources.add("memo://1", "text")

    @app.resource("book://{author}/{title}")
    async def book(author: str, title: str) -> str:
        return author

    @app.tool()
    async def add(a: int, b: int) -> int:
        return a + b

    @app.tool()
    async def words(word: str) -> str:
        return word

    return app


async def way_of(revision: str, method: str, params: dict[str, Any]) -> Way:
    """Send a request through ``Connection.receive`` and ``Server.answer``, and watch."""
    app = library()
    await app.endpoint.start()
    try:
        peer = MemoryPeer(app, revision)
        connection = peer.dispatcher.connection
        if revision != REVISIONS[-1]:
            client = {"name": "c", "version": "1"}
            await peer.request("initialize", {"protocolVersion": revision, "capabilities": {}, "clientInfo": client})
        else:
            meta = {"protocolVersion": revision, "clientCapabilities": {}}
            params = {**params, "_meta": {f"io.modelcontextprotocol/{key}": value for key, value in meta.items()}}
        data = json.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}).encode()

        def once() -> Any:
            return app.endpoint.answer(connection.receive(data), peer)  # type: ignore[arg-type]

        for _ in range(2):  # what is made when it is first used has been made
            once()
        tasks, way = len(asyncio.all_tasks()), Way()
        reply = watched(way, once)
        assert isinstance(reply, bytes), "it was answered at once"
        assert "result" in json.loads(reply)
        assert len(asyncio.all_tasks()) == tasks
        await peer.dispatcher.close()
    finally:
        await app.endpoint.stop()
    return way


def watched(way: Way, function: Callable[[], Any]) -> Any:
    before = sys.getprofile()
    sys.setprofile(way)
    try:
        return function()
    finally:
        sys.setprofile(before)


@pytest.mark.parametrize("revision", REVISIONS)
@pytest.mark.parametrize(
    ("method", "params", "frames", "codecs"),
    [
        ("resources/read", {"uri": "memo://1"}, 15, {"decode": 2, "encode": 1}),
        ("resources/read", {"uri": "book://lem/solaris"}, 19, {"decode": 2, "encode": 1}),
        (
            "tools/call",
            {"name": "add", "arguments": {"a": 1, "b": 2}},
            20,
            {"decode": 3, "encode": 1, "json_encode": 1, "asdict": 1, "replace": 1},
        ),
        (
            "tools/call",
            {"name": "words", "arguments": {"word": "x"}},
            19,
            # The two oldest revisions have no structured content, and leave it out.
            {"decode": 3, "encode": 1, "asdict": 1, "replace": 1},
        ),
        ("resources/list", {}, 8, {"decode": 2, "encode": 1}),
        ("tools/list", {}, 8, {"decode": 2, "encode": 1}),
    ],
)
async def test_the_way_of_a_request_is_short_and_makes_no_task(
    revision: str, method: str, params: dict[str, Any], frames: int, codecs: dict[str, int]
) -> None:
    way = await way_of(revision, method, params)
    assert len(way.frames) <= frames, way.frames
    for name, count in way.codecs.items():
        assert count <= codecs.get(name, 0), way.codecs
