"""Budgets that can be counted: what an import loads, and how long the way of one request is.

Times are in ``benchmarks/``; these numbers are the same on every machine.
"""

from __future__ import annotations

import asyncio
import gc
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
from carrel.catalog.access import UNRESTRICTED, Gate
from carrel.protocol.principal import Principal, View
from carrel.transports.memory import MemoryPeer

SOURCE = str(Path(carrel.__file__).parent)
REVISIONS = ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25", "2026-07-28")

#: What a stdio server does not need, and so does not load: HTTP stacks, authorization, web, schemas, watchers.
UNWANTED = {
    *("uvicorn", "httptools", "uvloop", "http", "h11", "httpx", "httpx2", "starlette", "fastapi", "anyio"),
    *("jsonschema_rs", "pydantic", "pydantic_core", "watchfiles", "pathspec", "puremagic", "cryptography"),
    *("email", "html", "xml", "sqlite3", "ctypes", "multiprocessing", "unittest", "json", "hashlib", "secrets"),
    *("pathlib", "urllib", "ipaddress"),
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
    assert len(loaded) <= 219, f"{len(loaded)} modules (212 when this was written)"
    assert len([name for name in loaded if name.startswith("carrel")]) <= 91


def test_importing_the_library_compiles_no_projection() -> None:
    from_import = "import carrel.server.app; from carrel.protocol.revisions import REVISIONS"
    script = f"{from_import}; print(*[len(revision.projections) for revision in REVISIONS.values()])"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout.split() == ["0"] * len(REVISIONS)


ANSWER = """
import sys
from carrel import Server
app = Server("s")
app.tool("add")(lambda a, b: a + b)
app.on_shutdown(lambda: print(*sys.modules, file=sys.stderr))
app.run()
"""


def test_answering_initialize_on_stdio_loads_no_store_of_sessions() -> None:
    client = {"name": "c", "version": "1"}
    params = {"protocolVersion": REVISIONS[-2], "capabilities": {}, "clientInfo": client}
    request = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params})
    command = [sys.executable, "-c", ANSWER]
    done = subprocess.run(command, input=request + "\n", capture_output=True, text=True, check=True, timeout=60)
    assert json.loads(done.stdout)["result"]["serverInfo"]["name"] == "s"
    unwanted = UNWANTED - {"carrel.transports"}
    loaded = set(done.stderr.split())
    assert {name for name in loaded if name in unwanted or name.partition(".")[0] in unwanted} == set()


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


# Programs for mcp

PROGRAMS = {
    "mcp 1": ("from mcp.server.fastmcp import FastMCP", "FastMCP"),
    "mcp 2": ("from mcp.server import MCPServer", "MCPServer"),
}
PROGRAM = """
import sys
{imported}
mcp = {name}("s")
@mcp.tool()
def add(a: int, b: int) -> int:
    return a + b
mcp.run()
models, waiting = set(), [sys.modules["pydantic"].BaseModel]
while waiting:
    found = waiting.pop().__subclasses__()
    models.update(f"{{each.__module__}}.{{each.__name__.replace(' ', '')}}" for each in found)
    waiting += found
print(*sys.modules, file=sys.stderr)
print(*models, file=sys.stderr)
"""
#: What a program for ``mcp`` on stdio does not need before it has answered ``initialize`` and ``tools/list``.
UNWANTED_MODULES = {"uvicorn", "starlette", "httpx", "jsonschema_rs", "cryptography", "carrel.compat.fastmcp"}
UNWANTED_MODELS = {"ServerResult", "ClientRequest", "CreateMessageRequest", "ElicitRequest"}


@pytest.mark.slow
@pytest.mark.parametrize("program", PROGRAMS)
def test_a_program_for_mcp_lists_its_tools_with_few_modules_and_models(program: str, tmp_path: Path) -> None:
    imported, name = PROGRAMS[program]
    file = tmp_path / "program.py"
    file.write_text(PROGRAM.format(imported=imported, name=name))
    given = {"protocolVersion": REVISIONS[-2], "capabilities": {}, "clientInfo": {"name": "c", "version": "1"}}
    process = subprocess.Popen(
        [sys.executable, "-m", "carrel", "run", "--compat", str(file)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    for number, (method, params) in enumerate((("initialize", given), ("tools/list", {}))):
        request = {"jsonrpc": "2.0", "id": number, "method": method, "params": params}
        process.stdin.write(json.dumps(request) + "\n")
        process.stdin.flush()
        assert "result" in json.loads(process.stdout.readline())
    modules, models = (set(line.split()) for line in process.communicate(timeout=60)[1].splitlines()[-2:])
    assert UNWANTED_MODULES & modules == set()
    assert UNWANTED_MODELS & {model.rpartition(".")[2] for model in models if model.startswith("carrel")} == set()
    assert len(modules) <= {"mcp 1": 560, "mcp 2": 545}[program], f"{len(modules)} modules"
    assert len(models) <= {"mcp 1": 97, "mcp 2": 67}[program], f"{len(models)} models"


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


def library(gate: Gate | None = None) -> Server:
    app = Server("s", gate=gate)
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


async def way_of(app: Server, revision: str, method: str, params: dict[str, Any]) -> Way:
    """Send a request through ``Connection.receive`` and ``Server.answer``, and watch."""
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
            call: Any = connection.receive(data)
            call.client = peer.dispatcher.client
            return app.endpoint.answer(call, peer)

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
    gc.disable()  # what it would finalize is not of this request
    sys.setprofile(way)
    try:
        return function()
    finally:
        sys.setprofile(before)
        gc.enable()


@pytest.mark.parametrize("revision", REVISIONS)
@pytest.mark.parametrize(
    ("method", "params", "frames", "codecs"),
    [
        ("resources/read", {"uri": "memo://1"}, 11, {"decode": 2, "encode": 1}),
        ("resources/read", {"uri": "book://lem/solaris"}, 17, {"decode": 2, "encode": 1}),
        (
            "tools/call",
            {"name": "add", "arguments": {"a": 1, "b": 2}},
            16,
            {"decode": 3, "encode": 1, "asdict": 1, "replace": 1},
        ),
        (
            "tools/call",
            {"name": "words", "arguments": {"word": "x"}},
            16,
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
    way = await way_of(library(), revision, method, params)
    assert len(way.frames) <= frames, way.frames
    for name, count in way.codecs.items():
        assert count <= codecs.get(name, 0), way.codecs


class Open:
    """Gate that hides nothing."""

    def view(self, principal: Principal | None) -> View:
        return UNRESTRICTED


def with_folder(folder: Path) -> Server:
    (folder / "a.txt").write_text("a")
    app = library()
    app.add_provider(folder)
    return app


def with_mount(folder: Path) -> Server:
    other = Server("other")

    @other.tool
    async def another() -> str:
        return ""

    app = library()
    app.add_provider(other)
    return app


def mounted(folder: Path) -> Server:
    app = Server("outer")
    app.add_provider(library())
    return app


def with_gate(folder: Path) -> Server:
    return library(gate=Open())


def with_middleware_of_another_method(folder: Path) -> Server:
    app = library()

    @app.middleware("prompts/get")
    async def unused(call: Any, next: Any) -> Any:
        return await next(call)

    return app


def with_all_of_these(folder: Path) -> Server:
    (folder / "a.txt").write_text("a")
    app = with_gate(folder)
    app.add_provider(folder)
    app.add_provider(Server("other"))

    @app.middleware("prompts/get")
    async def unused(call: Any, next: Any) -> Any:
        return await next(call)

    return app


#: Functions that are called for a tool, a resource and a template; without anything added: 15, 10 and 16.
CALLS = [("tools/call", {"name": "add", "arguments": {"a": 1, "b": 2}})]
CALLS += [("resources/read", {"uri": uri}) for uri in ("memo://1", "book://lem/solaris")]
ADDITIONS = [
    (with_folder, (15, 10, 16)),
    (with_mount, (15, 10, 18)),  # the mounted server is asked whether the URI is one of its own
    (with_gate, (19, 17, 23)),
    (with_middleware_of_another_method, (15, 10, 16)),
    (with_all_of_these, (19, 17, 25)),
]


@pytest.mark.parametrize("request_of", range(3))
@pytest.mark.parametrize(("make", "frames"), ADDITIONS)
async def test_a_local_request_costs_no_task_and_few_calls_beside_a_provider_a_mount_a_gate_or_middleware(
    make: Callable[[Path], Server], frames: tuple[int, ...], request_of: int, tmp_path: Path
) -> None:
    way = await way_of(make(tmp_path), "2025-11-25", *CALLS[request_of])
    assert len(way.frames) <= frames[request_of], way.frames


async def test_a_tool_of_a_mounted_server_costs_no_task_and_nine_calls_more(tmp_path: Path) -> None:
    way = await way_of(mounted(tmp_path), "2025-11-25", *CALLS[0])
    assert len(way.frames) <= 24, way.frames


async def test_middleware_costs_seven_calls_of_which_one_is_its_own_and_no_task() -> None:
    app = library()

    @app.middleware
    async def through(call: Any, next: Any) -> Any:
        return await next(call)

    await app.endpoint.start()
    peer = MemoryPeer(app, "2025-11-25")
    client = {"name": "c", "version": "1"}
    initialize = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": client}
    await peer.request("initialize", initialize)
    method, params = CALLS[0]
    data = json.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}).encode()
    connection = peer.dispatcher.connection

    def once() -> Any:
        call: Any = connection.receive(data)
        call.client = peer.dispatcher.client
        coroutine: Any = app.endpoint.answer(call, peer)
        try:
            coroutine.send(None)
        except StopIteration as end:
            return end.value
        raise AssertionError("it waited for something")

    once()
    once()
    way = Way()
    assert b'"result"' in watched(way, once)
    assert len(way.frames) <= 21, way.frames  # of which the middleware itself is in this file, and not counted
    await peer.dispatcher.close()
    await app.endpoint.stop()
