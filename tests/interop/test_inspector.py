"""The Inspector's command line against the golden application, in each era it knows, on stdio and over HTTP."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from golden.app import build
from interop.test_clients import PATIENCE, SEEN, URIS, target
from support.http_server import over_http
from support.parties import node_environment, node_modules, node_program

#: What the Inspector is told to speak. "auto" finds that this server is modern; one method on each transport shows it.
ERAS = [pytest.param("legacy", marks=pytest.mark.exhaustive), "modern"]


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with over_http(build()) as origin:
        yield f"{origin}/mcp"


def inspect(whom: list[str], era: str, *arguments: str) -> Any:
    """Run one method and return its result, or the error it ended with."""
    program = node_modules() / "@modelcontextprotocol/inspector/clients/launcher/build/index.js"
    command = [node_program(), str(program), "--cli", *whom, "--protocol-era", era, "--format", "json", "--quiet"]
    command += ["--connect-timeout", "0", *arguments]  # PATIENCE is the limit
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, env=node_environment())
    if done.returncode == 0:
        return json.loads(done.stdout)["result"]
    return json.loads(done.stderr)["error"]


def read_each(pairs: Sequence[tuple[list[str], str]]) -> list[dict[str, Any]]:
    """Read resources, given as a server and a URI each; two at a time, because the Inspector takes long to start."""

    def read(pair: tuple[list[str], str]) -> dict[str, Any]:
        whom, uri = pair
        result = inspect(whom, "auto", "--method", "resources/read", "--uri", uri)
        assert "contents" in result, (uri, result)
        return dict(result["contents"][0])

    with ThreadPoolExecutor(2) as pool:
        return list(pool.map(read, pairs))


@pytest.mark.parametrize(
    ("era", "transport"), [pytest.param("legacy", "stdio", marks=pytest.mark.exhaustive), ("auto", "stdio")]
)
def test_the_inspector_reads_a_resource(era: str, transport: str, url: str) -> None:
    result = inspect(target(transport, url), era, "--method", "resources/read", "--uri", "book://lem/solaris")
    assert result["contents"] == [{"uri": "book://lem/solaris", "mimeType": "text/plain", "text": "solaris by lem"}]


@pytest.mark.parametrize(
    ("era", "transport"),
    [pytest.param("legacy", "http"), pytest.param("modern", "stdio", marks=pytest.mark.exhaustive)],
)
def test_the_inspector_calls_a_tool(era: str, transport: str, url: str) -> None:
    call = ("--method", "tools/call", "--tool-name", "weather", "--tool-arg", "city=Oslo")
    assert inspect(target(transport, url), era, *call)["structuredContent"] == SEEN["structured"]


@pytest.mark.parametrize("era", ERAS)
def test_the_inspector_lists_all_pages(era: str, url: str) -> None:
    resources = inspect(target("http", url), era, "--method", "resources/list")["resources"]
    assert [resource["uri"] for resource in resources] == URIS


@pytest.mark.parametrize(
    ("method", "key", "name", "expected"),
    [
        # Tools are listed through a gateway as well, and prompts are found by their names.
        pytest.param("tools/list", "tools", "name", SEEN["tools"], marks=pytest.mark.exhaustive),
        ("resources/templates/list", "resourceTemplates", "uriTemplate", SEEN["templates"]),
        pytest.param("prompts/list", "prompts", "name", SEEN["prompts"], marks=pytest.mark.exhaustive),
    ],
)
def test_the_inspector_lists_everything(method: str, key: str, name: str, expected: list[str], url: str) -> None:
    listed = inspect(target("http", url), "auto", "--method", method)[key]
    assert [entry[name] for entry in listed] == expected


@pytest.mark.parametrize("era", ERAS)
def test_the_inspector_gets_a_prompt(era: str, url: str) -> None:
    get = ("--method", "prompts/get", "--prompt-name", "review", "--prompt-args", "code=pass", "language=rust")
    messages = inspect(target("http", url), era, *get)["messages"]
    assert messages == [{"role": "user", "content": {"type": "text", "text": "Review this rust: pass"}}]


@pytest.mark.parametrize("era", ERAS)
def test_the_inspector_is_told_of_what_does_not_exist(era: str, url: str) -> None:
    error = inspect(target("http", url), era, "--method", "resources/read", "--uri", "memo://nowhere")
    assert error["message"] == "Resource not found"
