"""``carrel gateway``: real files, real processes, on stdio and over HTTP."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import itertools
import json
import os
import re
import shlex
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from carrel import Client
from carrel.cli import main
from carrel.errors import AuthorizationError, PeerError
from carrel.gateway import Gateway
from carrel.transports.client.options import HTTPOptions, ProcessOptions
from carrel.wire.tools import Tool
from support.carrel_process import COMMAND, command
from support.processor_time import fastest
from support.scripted_server import Partner, on_http
from support.servers import SERVERS
from support.servers.hostile import crowd
from support.snippets import snippets

PROGRAM = str(SERVERS / "hosted.py")
PATIENCE = 60.0
pytestmark = pytest.mark.slow


def write(file: Path, *servers: str, **others: list[str]) -> str:
    """Write a configuration file with plain servers, and others with their arguments; return its path."""
    entries = {name: ["plain", name] for name in servers} | others
    config = {name: {"command": sys.executable, "args": [PROGRAM, *args]} for name, args in entries.items()}
    file.write_text(json.dumps({"mcpServers": config}))
    return str(file)


def on_stdio(*arguments: str, **options: Any) -> Client:
    return Client(command("gateway", *arguments), **options)


@contextlib.asynccontextmanager
async def over_http(*arguments: str) -> AsyncIterator[list[str]]:
    """Run ``carrel gateway … --http 0``, and yield the URLs that it prints."""
    process = await asyncio.create_subprocess_exec(
        *command("gateway", *arguments, "--http", "0"), stderr=asyncio.subprocess.PIPE
    )
    assert process.stderr is not None
    urls: list[str] = []
    try:
        async with asyncio.timeout(PATIENCE):
            while len(urls) < 1 + ("--sse" in arguments):
                line = (await process.stderr.readline()).decode()
                assert line, "the gateway has ended"
                urls += re.findall(r"http://\S+", line)
        yield urls
    finally:
        if process.returncode is None:
            process.terminate()
        await process.communicate()


async def names(client: Client) -> list[str]:
    return sorted(tool.name for tool in await client.list_tools())


async def test_the_servers_of_several_files_are_one_server_and_changes_of_a_file_apply(tmp_path: Path) -> None:
    one = write(tmp_path / "one.json", "a", empty=["empty", "empty"])
    other = write(tmp_path / "other.json", "b")
    lines: list[str] = []
    process = ProcessOptions(stderr=lines.append)
    async with on_stdio(one, other, process=process) as client, asyncio.timeout(PATIENCE):
        assert await names(client) == [f"{server}_{tool}" for server in "ab" for tool in ("die", "grow", "whoami")]
        assert (await client.call_tool("b_whoami")).text.startswith("b ")
        assert any(re.fullmatch(r"empty +empty +2026-07-28 +0 +0 +0 +it offers nothing", line) for line in lines)
        async with client.watch(lists=["tools"]) as changes:
            write(tmp_path / "other.json")
            while await names(client) != ["die", "grow", "whoami"]:
                await anext(changes)
        assert (await client.call_tool("whoami")).text.startswith("a ")
        assert (await client.call_tool("a_whoami")).text.startswith("a ")


async def test_a_program_that_dies_under_a_call_is_named_and_is_back_without_a_restart(tmp_path: Path) -> None:
    file = write(tmp_path / "mcp.json", "a", "b")
    async with on_stdio(file) as client, asyncio.timeout(PATIENCE):
        before = (await client.call_tool("a_whoami")).text
        async with client.watch(lists=["tools"]) as changes:
            with pytest.raises(PeerError, match="a is not available") as refused:
                await client.call_tool("a_die")
            assert PROGRAM not in str(refused.value)
            assert (await client.call_tool("b_whoami")).text.startswith("b ")
            after = None
            while after is None:
                try:
                    after = (await client.call_tool("a_whoami")).text
                except PeerError:
                    await anext(changes)
        assert after != before


async def test_over_http_with_a_token_for_new_and_old_applications(tmp_path: Path) -> None:
    file = write(tmp_path / "mcp.json", "a")
    tokens = tmp_path / "tokens.txt"
    token = "carrel_of_lem"
    tokens.write_text(f"sha256:{hashlib.sha256(token.encode()).hexdigest()} lem\n")
    async with over_http(file, "--sse", "--tokens", str(tokens)) as (url, old):
        with pytest.raises(AuthorizationError):
            async with Client(url):
                pass
        for address in (url, old):
            async with Client(address, http=HTTPOptions(auth=token)) as client:
                assert await names(client) == ["die", "grow", "whoami"]


async def test_the_code_of_the_page_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    write(tmp_path / "servers.json", "a")
    code, _ = snippets("docs/gateway.md", "python")
    names: dict[str, Any] = {}
    text = code.code.replace("asyncio.run(main())", "").replace("port=8000", "port=0")
    exec(compile(text, "gateway.md", "exec"), names)
    entered: asyncio.Future[Gateway] = asyncio.get_running_loop().create_future()

    class Entered(Gateway):
        def __init__(self, file: str, **options: Any) -> None:
            super().__init__(file, enter_timeout=PATIENCE, **options)

        async def __aenter__(self) -> Gateway:
            gateway = await super().__aenter__()
            entered.set_result(gateway)
            return gateway

    names["Gateway"] = Entered
    running = asyncio.ensure_future(names["main"]())
    async with asyncio.timeout(PATIENCE):
        gateway = await entered
        async with Client(gateway.app) as client:
            assert (await client.call_tool("whoami")).text.startswith("a ")
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["nowhere.json"], "carrel: there is no file nowhere.json\n"),
        ([], "carrel: no servers given: name a configuration file, or a carrel.toml (see carrel gateway --help)\n"),
        (["mcp.json", "--tokens", "x"], "carrel: these options need --http: --tokens\n"),
        (["mcp.json", "--only", "c"], "carrel: there is no server 'c'\n"),
        (["mcp.json", "--only", "lots"], "carrel: there is no server 'lots'; did you mean 'lost'?\n"),
        (["none.json"], "there are no servers in these files; carrel import copies the servers of your applications\n"),
        (
            ["typing.json"],
            "typing.json:1: server 'a': a command or a url is missing; there is 'comand'; did you mean 'command'?\n",
        ),
        (["broken.json"], "broken.json: line 1, column 2: Expecting property name enclosed in double quotes\n"),
        (["mcp.json", "--prefix", "some"], "argument --prefix: invalid choice: 'some'"),
    ],
)
def test_wrong_use_is_one_line_that_says_what_to_do(
    arguments: list[str],
    message: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    write(tmp_path / "mcp.json", lost=["dying", "lost"])
    write(tmp_path / "none.json")
    (tmp_path / "typing.json").write_text('{"mcpServers": {"a": {"comand": "x"}}}')
    (tmp_path / "broken.json").write_text("{")
    assert main(["gateway", *arguments]) == 2
    error = capfd.readouterr().err
    assert message in error
    assert error.count("\n") == 1


async def test_a_gateway_to_the_file_that_starts_it_does_not_start_itself(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    file = tmp_path / "mcp.json"
    write(file, "a")
    config = json.loads(file.read_text())
    config["mcpServers"]["all"] = {"command": "carrel", "args": ["gateway", str(file)]}
    file.write_text(json.dumps(config))
    async with Gateway(files=[file]) as gateway:
        assert list(gateway.host.servers) == ["a"]
    assert "all is left out: it is a gateway to the same file" in caplog.text


def test_an_application_can_start_a_gateway(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = write(tmp_path / "servers.json", "a")
    config = tmp_path / "claude.json"
    assert main(["install", "claude-desktop", "--gateway", file, "--config", str(config), "--yes"]) == 0
    entry = json.loads(config.read_text())["mcpServers"]["gateway"]
    assert entry["args"][-2:] == ["gateway", file]
    assert main(["install", "claude-desktop", "--gateway", "--config", str(config), "--remove", "--yes"]) == 0
    assert json.loads(config.read_text())["mcpServers"] == {}
    assert main(["install", "claude-desktop", "--gateway", "--config", str(config), "--yes"]) == 2
    assert "nothing to install" in capsys.readouterr().err


def spent(pid: int) -> float:
    """Return the processor time of a process so far, in seconds."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


@pytest.mark.exhaustive
@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="the processor time of a process is read from /proc")
async def test_a_crowd_of_tools_that_change_all_the_time_costs_what_it_costs_to_decode_them(tmp_path: Path) -> None:
    file = tmp_path / "mcp.json"
    config = json.loads(Path(write(file, "a")).read_text())
    config["mcpServers"]["crowd"] = {"command": sys.executable, "args": [str(SERVERS / "hostile.py"), "crowd"]}
    file.write_text(json.dumps(config))
    tools = json.dumps(crowd(1))
    decoding = fastest(lambda: msgspec.json.decode(tools, type=list[Tool]), 3)
    times: list[float] = []
    # A fork has another process than its command. A client of this revision does not list the tools before a call.
    client = Client([*COMMAND, "gateway", str(file), "--log-level", "error"], revision="2025-06-18")
    async with asyncio.timeout(4 * PATIENCE), client:
        gateway = client.session.connection.transport.pid  # type: ignore[union-attr]
        async with client.watch(lists=["tools"]) as changes:
            while len(times) < 3:
                await anext(changes)
                times.append(spent(gateway))
                assert (await client.call_tool("whoami")).text.startswith("a ")
    assert min(after - before for before, after in itertools.pairwise(times)) < 25 * decoding


@pytest.mark.parametrize("near", ["2025-11-25", "2026-07-28"])
async def test_a_server_that_could_not_start_is_named_in_errors_without_a_traceback(near: str, tmp_path: Path) -> None:
    file = tmp_path / "mcp.json"
    servers = {"dead": {"command": "/nosuch/prog"}, "down": {"url": "http://127.0.0.1:9/mcp"}}
    file.write_text(json.dumps({"mcpServers": servers}))
    lines: list[str] = []
    async with on_stdio(str(file), revision=near, process=ProcessOptions(stderr=lines.append)) as client:
        await client.set_log_level("debug")
        for name in servers:
            requests = (client.call_tool(f"{name}_x"), client.get_prompt(f"{name}_x"))
            for request in (*requests, client.read_resource(f"{name}+note://x")):
                with pytest.raises(PeerError, match=f"{name} is not available"):
                    await request
    assert not any("Traceback" in line for line in lines)


async def test_pages_of_a_server_whose_url_is_not_safe_do_not_reach_the_client(tmp_path: Path) -> None:
    page = {"mode": "url", "message": "Log in", "elicitationId": "e"}
    safe = {**page, "url": "https://example.org/login"}
    unsafe = [{**page, "url": "javascript:alert(1)"}, {**page, "url": "http://ann:x@example.org/"}, page, "x"]
    pages = {"some": [*unsafe, safe], "none": unsafe}

    def refuse(message: dict[str, Any]) -> dict[str, Any]:
        data = {"elicitations": pages[message["params"]["name"]]}
        return {"error": {"code": -32042, "message": "first", "data": data}}

    tools = [{"name": name, "inputSchema": {"type": "object"}} for name in pages]
    partner = Partner("2025-11-25", {"tools/list": {"tools": tools}, "tools/call": refuse})
    async with on_http(partner) as url:
        file = tmp_path / "mcp.json"
        file.write_text(json.dumps({"mcpServers": {"far": {"url": url}}}))
        async with on_stdio(str(file), revision="2025-11-25") as client:
            with pytest.raises(PeerError) as some:
                await client.call_tool("some")
            with pytest.raises(PeerError) as none:
                await client.call_tool("none")
    assert (some.value.code, some.value.data) == (-32042, {"elicitations": [safe]})
    assert (none.value.code, none.value.message, none.value.data) == (-32603, "first", None)


@pytest.mark.parametrize("verb", ["call", "prompt"])
def test_commands_accept_names_that_the_gateway_does_not_list(
    verb: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    name, argument = {"call": ("grow", "title=x"), "prompt": ("greet", "who=Ada")}[verb]
    alone = shlex.join(command("gateway", str(write(tmp_path / "one.json", "a"))))
    both = shlex.join(command("gateway", str(write(tmp_path / "two.json", "a", "b"))))
    assert main([verb, alone, f"a_{name}", argument, "--quiet"]) == 0
    capfd.readouterr()
    assert main([verb, both, name, argument, "--quiet"]) == 1
    assert f"{name} is not unique here; say which one: a_{name}, b_{name}" in capfd.readouterr().err
    assert main([verb, both, f"a_{name}s", argument, "--quiet"]) == 2
    assert f"did you mean 'a_{name}'?" in capfd.readouterr().err


def test_numbers_for_a_tool_that_is_not_listed_are_sent_as_numbers() -> None:
    from carrel.cli.client.call import read_untyped, split_pair

    given = [split_pair(pair) for pair in ("times=3", "fast=true", "name=Ada", 'zip:="3"', "text=[1]")]
    assert read_untyped(given) == {"times": 3, "fast": True, "name": "Ada", "zip": "3", "text": "[1]"}


async def test_an_entry_that_cannot_be_used_is_shown_as_failed_with_the_reason(tmp_path: Path) -> None:
    program = {"command": sys.executable, "args": [PROGRAM, "plain", "good"]}
    file = tmp_path / "mcp.json"
    file.write_text(json.dumps({"mcpServers": {"good": program, "old": {**program, "revision": "2024-11-06"}}}))
    lines: list[str] = []
    async with on_stdio(str(file), process=ProcessOptions(stderr=lines.append)) as client:
        status = json.loads((await client.read_resource("carrel://gateway/servers")).contents[0].text)
    good, old = status["servers"]
    reason = r"there is no revision '2024-11-06'; they are 2026-07-28, 2025-11-25, .*"
    assert good["state"] == "ready"
    assert old.keys() == good.keys()
    assert (old["name"], old["state"]) == ("old", "failed")
    assert re.fullmatch(reason, old["reason"])
    assert any(re.fullmatch(rf"old +failed +- +- +- +- +{reason}", line) for line in lines)
