"""Limits on requests as users start them: ``serve``, ``run`` and ``gateway``, on stdio and over HTTP."""

from __future__ import annotations

import asyncio
import os
import sys
import time
from pathlib import Path

import httpx
import pytest

from carrel import Client
from carrel.cli import main
from carrel.errors import HTTPStatusError, MCPError
from carrel.transports.client.options import HTTPOptions, ProcessOptions
from support.carrel_process import command, serving

SERVER = """
from carrel import Server

app = Server("shop")


@app.tool
def search_books() -> str:
    return "found"


@app.tool
def count_books() -> int:
    return 1
"""
LIMIT = """
[[limits.rules]]
requests = "2/hour"
tools = "search_*"
"""
PROGRAMS = {
    "serve": '[[sources]]\npath = "notes"\n[limits]\nrequests = "3/hour"\n',
    "run": '[app]\nfile = "server.py"\n' + LIMIT,
    "gateway": f'[servers.shop]\ncommand = "{sys.executable}"\nargs = ["-m", "carrel", "run", "server.py"]\n' + LIMIT,
}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes" / "a.md").write_text("text")
    (tmp_path / "server.py").write_text(SERVER)
    return tmp_path


def is_refusal(error: MCPError) -> bool:
    return "Too many requests: at most" in str(error) and error.data["retryAfterMs"] > 0  # type: ignore[attr-defined]


async def calls_until_refused(client: Client, most: int, tool: str = "search_books") -> tuple[int, MCPError | None]:
    """Return how many calls were answered, and the error of the first refused one."""
    for count in range(most):
        try:
            await client.call_tool(tool)
        except MCPError as error:
            return count, error
    return most, None


@pytest.mark.parametrize("program", ["run", "gateway"])
async def test_calls_of_a_tool_are_limited_on_stdio(folder: Path, program: str) -> None:
    Path("carrel.toml").write_text(PROGRAMS[program])
    async with Client(command(program, "--config", "carrel.toml")) as client:
        count, error = await calls_until_refused(client, 5)
        assert count == 2
        assert error is not None
        assert is_refusal(error)
        for _ in range(4):  # other tools are not limited
            assert not (await client.call_tool("count_books")).is_error


async def test_the_requests_of_serve_are_limited_on_stdio(folder: Path) -> None:
    Path("carrel.toml").write_text(PROGRAMS["serve"])
    lines: list[str] = []
    async with Client(
        command("serve", "--config", "carrel.toml"), process=ProcessOptions(stderr=lines.append)
    ) as client:
        _, error = await calls_until_refused(client, 4, "list_resources")
        assert error is not None
        assert is_refusal(error)
    assert any("carrel.toml:4: 1 request refused: at most 3 requests per hour" in line for line in lines)


async def test_requests_of_unknown_methods_count_as_requests(folder: Path) -> None:
    Path("carrel.toml").write_text(PROGRAMS["serve"])
    begun = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "c", "version": "1"}}
    headers = {"accept": "application/json, text/event-stream", "mcp-protocol-version": "2025-11-25"}
    with serving("serve", "--config", "carrel.toml", cwd=str(folder)) as (url, _):
        body = {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": begun}
        session = {"mcp-session-id": httpx.post(url, json=body, headers=headers).headers["mcp-session-id"], **headers}

        def ask(method: str) -> str:
            return httpx.post(url, json={"jsonrpc": "2.0", "id": 1, "method": method}, headers=session).text

        assert all("Method not found" in ask("no/such") for _ in range(4))
        assert "Too many requests: at most 3 requests per hour" in ask("tools/list")


def test_a_stateless_request_beyond_a_limit_is_answered_with_429_and_retry_after(folder: Path) -> None:
    Path("carrel.toml").write_text(PROGRAMS["run"].replace("2/hour", "2/minute"))
    message = {
        "jsonrpc": "2.0",
        "id": 1,
        "method": "tools/call",
        "params": {
            "name": "search_books",
            "arguments": {},
            "_meta": {
                "io.modelcontextprotocol/protocolVersion": "2026-07-28",
                "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "1"},
                "io.modelcontextprotocol/clientCapabilities": {},
            },
        },
    }
    headers = {
        "Accept": "application/json, text/event-stream",
        "MCP-Protocol-Version": "2026-07-28",
        "Mcp-Method": "tools/call",
        "Mcp-Name": "search_books",
    }
    with serving("run", "--config", "carrel.toml", cwd=str(folder)) as (url, _):
        answers = [httpx.post(url, json=message, headers=headers) for _ in range(3)]
    assert [answer.status_code for answer in answers] == [200, 200, 429]
    error = answers[2].json()["error"]
    assert error["code"] == -32603
    assert 0 < error["data"]["retryAfterMs"] <= 30_000
    assert answers[2].headers["Retry-After"] == str(-(-error["data"]["retryAfterMs"] // 1000))


async def test_callers_with_different_tokens_have_limits_of_their_own_by_role(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    clients = []
    for name in ("ann", "bob"):
        assert main(["token", "add", name, "--file", "tokens.txt"]) == 0
        clients.append(HTTPOptions(headers={"Authorization": f"Bearer {capsys.readouterr().out.strip()}"}))
    access = """
[auth]
tokens = "tokens.txt"
[access.roles]
ann = { token = "ann" }
[[access.rules]]
role = "*"
allow = "all"
"""
    Path("carrel.toml").write_text(PROGRAMS["run"].replace("tools =", 'role = "ann"\ntools =') + access)
    with serving("run", "--config", "carrel.toml", cwd=str(folder)) as (url, _):
        async with Client(url, http=clients[0]) as ann, Client(url, http=clients[1]) as bob:
            count, error = await calls_until_refused(ann, 4)
            assert count == 2
            assert isinstance(error, HTTPStatusError) or (error is not None and is_refusal(error))
            assert await calls_until_refused(bob, 4) == (4, None)


async def test_a_rate_is_accurate_and_a_client_that_floods_takes_nothing_from_another(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    tokens = []
    for name in ("ann", "bob"):
        assert main(["token", "add", name, "--file", "tokens.txt"]) == 0
        tokens.append(capsys.readouterr().out.strip())
    Path("carrel.toml").write_text(
        '[[sources]]\npath = "notes"\n[auth]\ntokens = "tokens.txt"\n[limits]\nrequests = "300/minute"\nburst = 20\n'
    )
    meta = {
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "1"},
        "io.modelcontextprotocol/clientCapabilities": {},
    }
    message = {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {"_meta": meta}}

    async def flood(url: str, token: str, tasks: int) -> tuple[int, float, float]:
        """Return how many requests were answered, and the least and the most that the rate allows in that time.

        At a refusal, everything has been used up. The server has counted a request after it was sent, and before its
        answer was there.
        """
        headers = {
            "Accept": "application/json, text/event-stream",
            "MCP-Protocol-Version": "2026-07-28",
            "Mcp-Method": "tools/list",
            "Authorization": f"Bearer {token}",
        }
        answered: list[tuple[float, float]] = []
        refused: list[float] = []
        end = time.monotonic() + seconds

        async def ask(http: httpx.AsyncClient) -> None:
            while (sent := time.monotonic()) < end or not refused:
                status = (await http.post(url, json=message, headers=headers)).status_code
                assert status in (200, 429)
                if status == 200:
                    answered.append((sent, time.monotonic()))
                else:
                    refused.append(sent)
                await asyncio.sleep(0.01)

        async with httpx.AsyncClient() as http:
            await asyncio.gather(*(ask(http) for _ in range(tasks)))
        first_sent, first, last = min(answered)[0], answered[0][1], answered[-1][1]
        return len(answered), 0.95 * (20 + 5 * (max(refused) - first)) - 1, 1.05 * (20 + 5 * (last - first_sent)) + 1

    seconds = 60.0 if "CARREL_EXHAUSTIVE" in os.environ else 5.0
    with serving("serve", "--config", "carrel.toml", cwd=str(folder)) as (url, _):
        results = await asyncio.gather(flood(url, tokens[0], 12), flood(url, tokens[1], 4))
    for count, least, most in results:
        assert least <= count <= most


async def test_a_changed_limit_holds_and_an_error_changes_nothing(folder: Path) -> None:
    Path("carrel.toml").write_text(PROGRAMS["run"].replace("2/hour", "1/hour"))
    read_again, failed = asyncio.Event(), asyncio.Event()

    def stderr(line: str) -> None:
        if "the limits have been read again" in line:
            read_again.set()
        if "the limits are not changed" in line:
            failed.set()

    program = command("run", "--config", "carrel.toml")
    async with Client(program, process=ProcessOptions(stderr=stderr)) as client:
        assert (await calls_until_refused(client, 4))[0] == 1
        Path("carrel.toml").write_text(PROGRAMS["run"].replace("2/hour", "3/hour"))
        await read_again.wait()
        assert (await calls_until_refused(client, 5))[0] == 3
        Path("carrel.toml").write_text(PROGRAMS["run"].replace("2/hour", "often"))
        await failed.wait()
        assert (await calls_until_refused(client, 5))[0] == 0


def test_an_invalid_limit_refuses_to_start(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Path("carrel.toml").write_text(PROGRAMS["run"].replace("2/hour", "often"))
    assert main(["run", "--config", "carrel.toml"]) == 2
    assert "carrel.toml:5: requests: 'often' is not a number in a second" in capsys.readouterr().err
