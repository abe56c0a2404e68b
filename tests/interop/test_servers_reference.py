"""``carrel.Client`` with the servers of the reference collection: what they are for, done once."""

from __future__ import annotations

import asyncio
import contextlib
import datetime
import http.server
import json
import os
import socket
import subprocess
import threading
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from carrel import Client
from carrel.client.handlers import Form, Handlers, URLElicitation
from carrel.errors import PeerError
from carrel.transports.client.options import ProcessOptions
from carrel.wire.completion import PromptReference, ResourceTemplateReference
from carrel.wire.content import ImageContent, ResourceLink, TextContent
from support.parties import node_modules, node_program, python_program

PATIENCE = 60.0
REVISION = "2025-11-25"
in_one_loop = pytest.mark.asyncio(loop_scope="module")


def npm(package: str, *arguments: str) -> list[str]:
    script = node_modules() / "@modelcontextprotocol" / package / "dist" / "index.js"
    return [node_program(), str(script), *arguments]


def pypi(module: str, *arguments: str) -> list[str]:
    return python_program("1", "-m", module, *arguments)


def text_of(result: Any) -> str:
    assert not result.is_error, result.content[0].text
    return str(result.content[0].text)


# Everything


@contextlib.contextmanager
def everything_over_http() -> Iterator[str]:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    command = npm("server-everything", "streamableHttp")
    env = {**os.environ, "PORT": str(port)}
    with subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True, env=env) as process:
        assert process.stderr is not None
        while "listening" not in (line := process.stderr.readline()):
            assert line, "the server has ended"
        threading.Thread(target=process.stderr.read, daemon=True).start()  # so that it can go on talking
        try:
            yield f"http://127.0.0.1:{port}/mcp"
        finally:
            process.kill()


async def fill(form: Form) -> dict[str, Any]:
    return {"interpretation": "historical"} if "interpretation" in form.fields else {"name": "Ada", "integer": 7}


async def visit(page: URLElicitation) -> bool:
    return page.url == "https://example.org/form"


async def sample(params: Any) -> str:
    return f"You said: {params.messages[0].content.text}"


@pytest_asyncio.fixture(scope="module", loop_scope="module", params=["stdio", "http"])
async def everything(request: pytest.FixtureRequest) -> AsyncIterator[Client]:
    async with contextlib.AsyncExitStack() as stack:
        http = request.param == "http"
        target: Any = stack.enter_context(everything_over_http()) if http else npm("server-everything")
        handlers = Handlers(elicit_form=fill, elicit_url=visit, sample=sample, roots=["file:///work/books"])
        yield await stack.enter_async_context(Client(target, timeout=PATIENCE, handlers=handlers))


@in_one_loop
async def test_everything_is_listed_and_read(everything: Client) -> None:
    assert everything.revision == REVISION
    assert everything.server is not None
    assert everything.server.name == "mcp-servers/everything"
    assert "Everything" in (everything.instructions or "")
    resources = [resource async for resource in everything.list_resources()]
    assert len(resources) == 7
    for resource in resources:
        [contents] = (await everything.read_resource(resource.uri)).contents
        assert len(contents.text) > 100
    templates = [template.uri_template async for template in everything.list_resource_templates()]
    assert templates == ["demo://resource/dynamic/text/{resourceId}", "demo://resource/dynamic/blob/{resourceId}"]
    [text] = (await everything.read_resource("demo://resource/dynamic/text/3")).contents
    assert text.text.startswith("Resource 3: This is a plaintext resource")
    [blob] = (await everything.read_resource("demo://resource/dynamic/blob/4")).contents
    assert blob.blob.startswith(b"Resource 4: This is a base64 blob")
    with pytest.raises(PeerError):
        await everything.read_resource("demo://resource/static/nothing")


@in_one_loop
async def test_everything_calls_tools(everything: Client) -> None:
    assert text_of(await everything.call_tool("echo", {"message": "日本"})) == "Echo: 日本"
    assert text_of(await everything.call_tool("get-sum", {"a": 1, "b": 2})) == "The sum of 1 and 2 is 3."
    weather = await everything.call_tool("get-structured-content", {"location": "Chicago"})
    assert set(weather.structured_content) == {"temperature", "conditions", "humidity"}
    kinds = [type(block) for block in (await everything.call_tool("get-tiny-image")).content]
    assert kinds == [TextContent, ImageContent, TextContent]
    links = (await everything.call_tool("get-resource-links", {"count": 2})).content[1:]
    assert [type(link) for link in links] == [ResourceLink] * 2
    assert all([(await everything.read_resource(link.uri)).contents for link in links])
    compressed = await everything.call_tool("gzip-file-as-resource", {"data": "data:text/plain,hello", "name": "a.gz"})
    [packed] = (await everything.read_resource(compressed.content[0].uri)).contents
    assert packed.blob.startswith(b"\x1f\x8b")


@in_one_loop
async def test_everything_reports_progress(everything: Client) -> None:
    heard: list[Any] = []
    arguments = {"duration": 0.1, "steps": 4}
    await everything.call_tool("trigger-long-running-operation", arguments, progress=lambda *each: heard.append(each))
    assert [report[:2] for report in heard] == [(1, 4), (2, 4), (3, 4), (4, 4)]


@in_one_loop
async def test_everything_asks(everything: Client) -> None:
    filled = await everything.call_tool("trigger-elicitation-request")
    assert "accept" in json.dumps([block.text for block in filled.content])
    assert any("Ada" in block.text for block in filled.content)
    sampled = await everything.call_tool("trigger-sampling-request", {"prompt": "hello", "maxTokens": 5})
    assert "You said: Resource trigger-sampling-request context: hello" in text_of(sampled)
    assert "file:///work/books" in text_of(await everything.call_tool("get-roots-list"))


@in_one_loop
async def test_everything_shows_a_page(everything: Client) -> None:
    visited = await everything.call_tool("trigger-url-elicitation", {"url": "https://example.org/form"})
    assert "accept" in json.dumps([block.text for block in visited.content])


@in_one_loop
async def test_everything_has_prompts_that_are_completed(everything: Client) -> None:
    prompts = [prompt.name async for prompt in everything.list_prompts()]
    assert prompts == ["simple-prompt", "args-prompt", "completable-prompt", "resource-prompt"]
    team = PromptReference(name="completable-prompt")
    assert (await everything.complete(team, "department", "S")).values == ["Sales", "Support"]
    assert (await everything.complete(team, "name", "", {"department": "Sales"})).values == ["David", "Eve", "Frank"]
    dynamic = ResourceTemplateReference(uri="demo://resource/dynamic/text/{resourceId}")
    assert (await everything.complete(dynamic, "resourceId", "1")).values == ["1"]
    prompt = await everything.get_prompt("completable-prompt", {"department": "Sales", "name": "Eve"})
    assert prompt.messages[0].content.text == "Please promote Eve to the head of the Sales team."


@in_one_loop
async def test_everything_tells_of_changes(everything: Client) -> None:
    uri = "demo://resource/dynamic/text/1"
    async with everything.watch(uri) as changes:
        await everything.call_tool("toggle-subscriber-updates")
        change = await asyncio.wait_for(anext(changes), PATIENCE)
        assert (change.kind, change.uri) == ("resource", uri)
        await everything.call_tool("toggle-subscriber-updates")


async def test_everything_does_research_as_a_task_and_asks_on_the_way() -> None:
    async with Client(npm("server-everything"), handlers=Handlers(elicit_form=fill), timeout=PATIENCE) as client:
        research = await client.call_tool("simulate-research-query", {"topic": "Mercury", "ambiguous": True})
        assert text_of(research).startswith("# Research Report: Mercury (historical)")


# Servers for one thing


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = (tmp_path / "folder").resolve()
    folder.mkdir()
    (folder / "note.txt").write_text("Buy bread. 糖尿病\n")
    return folder


async def test_the_filesystem_server_works_on_the_roots_and_on_nothing_else(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "secret.txt").write_text("no")
    async with Client(npm("server-filesystem", str(tmp_path)), handlers=Handlers(roots=[folder])) as client:
        assert client.revision == REVISION
        while str(folder) not in (allowed := text_of(await client.call_tool("list_allowed_directories"))):
            pass  # it asks for the roots when it has time
        assert allowed.split("\n")[1:] == [str(folder)]
        read = await client.call_tool("read_text_file", {"path": str(folder / "note.txt")})
        assert text_of(read) == "Buy bread. 糖尿病\n"
        refused = await client.call_tool("read_text_file", {"path": str(tmp_path / "secret.txt")})
        assert refused.is_error is True
        await client.call_tool("write_file", {"path": str(folder / "new.txt"), "content": "é"})
        other = tmp_path / "other"
        other.mkdir()
        await client.change_roots([other])
        while str(other) not in text_of(await client.call_tool("list_allowed_directories")):
            pass
        assert (await client.call_tool("read_text_file", {"path": str(folder / "note.txt")})).is_error is True
    assert (folder / "new.txt").read_text() == "é"


async def test_the_memory_server_tells_of_what_it_learns(tmp_path: Path) -> None:
    env = {"MEMORY_FILE_PATH": str(tmp_path / "memory.json")}
    async with Client(npm("server-memory"), process=ProcessOptions(env=env)) as client:
        [graph] = await client.list_resources()
        async with client.watch(graph.uri) as changes:
            entity = {"name": "Ada", "entityType": "person", "observations": ["wrote a program"]}
            made = await client.call_tool("create_entities", {"entities": [entity]})
            assert made.structured_content == {"entities": [entity]}
            assert (await asyncio.wait_for(anext(changes), PATIENCE)).uri == graph.uri
        assert "wrote a program" in (await client.read_resource(graph.uri)).contents[0].text
    async with Client(npm("server-memory"), process=ProcessOptions(env=env)) as client:
        found = await client.call_tool("search_nodes", {"query": "program"})
        assert found.structured_content["entities"] == [entity]


async def test_the_git_server_commits(folder: Path) -> None:
    for arguments in (["init", "-q"], ["config", "user.name", "Ada"], ["config", "user.email", "ada@example.org"]):
        subprocess.run(["git", *arguments], cwd=folder, check=True)
    async with Client(pypi("mcp_server_git", "--repository", str(folder))) as client:
        assert client.revision == REVISION
        path = {"repo_path": str(folder)}
        assert "note.txt" in text_of(await client.call_tool("git_status", path))
        await client.call_tool("git_add", {**path, "files": ["note.txt"]})
        text_of(await client.call_tool("git_commit", {**path, "message": "A note"}))
        assert "A note" in text_of(await client.call_tool("git_log", path))
        failed = await client.call_tool("git_show", {**path, "revision": "nowhere"})
        assert failed.is_error is True


async def test_the_time_server_converts() -> None:
    async with Client(pypi("mcp_server_time", "--local-timezone", "Europe/Oslo")) as client:
        arguments = {"source_timezone": "Asia/Tokyo", "time": "12:00", "target_timezone": "Asia/Kolkata"}
        converted = json.loads(text_of(await client.call_tool("convert_time", arguments)))
        assert datetime.datetime.fromisoformat(converted["target"]["datetime"]).hour == 8
        assert (await client.call_tool("get_current_time", {"timezone": "Nowhere"})).is_error is True


class Site(http.server.BaseHTTPRequestHandler):
    """Has one page."""

    def do_GET(self) -> None:
        found = self.path == "/page"
        self.send_response(200 if found else 404)
        self.send_header("Content-Type", "text/plain")
        self.end_headers()
        self.wfile.write(b"Some words." if found else b"")

    def log_message(self, *arguments: Any) -> None:
        pass


async def test_the_fetch_server_fetches() -> None:
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Site) as site:
        threading.Thread(target=site.serve_forever, daemon=True).start()
        url = f"http://127.0.0.1:{site.server_port}"
        async with Client(pypi("mcp_server_fetch", "--allow-private-ips")) as client:
            assert "Some words." in text_of(await client.call_tool("fetch", {"url": f"{url}/page"}))
            missing = await client.call_tool("fetch", {"url": f"{url}/nothing"})
            assert missing.is_error is True
            prompt = await client.get_prompt("fetch", {"url": f"{url}/page"})
            assert "Some words." in prompt.messages[0].content.text
        site.shutdown()
