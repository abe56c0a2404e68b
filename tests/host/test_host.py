"""Many servers as one: real processes, some of which are silent, dying, empty or noisy."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from carrel import Client, Server
from carrel.client.handlers import Form, Handlers
from carrel.errors import ConfigError, PeerError, TransportError
from carrel.host import Host, HostChange, reconnect
from carrel.host import host as host_module
from carrel.host.config import ServerConfig
from support.forking import forked
from support.http_process import free_port, serving, start, stop
from support.parties import node_modules, node_program, python
from support.servers import SERVERS

PROGRAM = str(SERVERS / "hosted.py")
PATIENCE = 60.0
pytestmark = pytest.mark.slow


def config(kind: str, name: str, *arguments: str, **others: Any) -> ServerConfig:
    """Return the configuration of ``hosted.py`` in a fork."""
    command, *words = forked(sys.executable, PROGRAM, kind, name, *arguments)
    return ServerConfig(name=name, command=command, args=tuple(words), **others)


@pytest.fixture(autouse=True)
def quick_retries(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reconnect, "PAUSES", (0.05, 0.2))
    monkeypatch.setattr(host_module, "PAUSE", 0.02)


def until(host: Host, condition: Callable[[], bool]) -> Awaitable[list[HostChange]]:
    """Wait from now on until a condition holds, which is looked at after each change; return the changes."""
    changes = host.watch()

    async def wait() -> list[HostChange]:
        seen: list[HostChange] = []
        async with asyncio.timeout(PATIENCE):
            while not condition():
                seen.append(await anext(changes))
        return seen

    return wait()


def text_of(result: Any) -> str:
    assert not result.is_error, result.content[0].text
    return str(result.content[0].text)


# Lists of all servers


async def test_entries_of_all_servers_carry_their_server_and_the_same_uri_of_two_is_two_resources() -> None:
    async with Host([config("plain", "b"), config("plain", "a")]) as host:
        assert {name: server.state for name, server in host.servers.items()} == {"b": "ready", "a": "ready"}
        listed = await host.list_resources()
        assert [(one.server, one.item.uri) for one in listed if one.item.name == "same"] == [
            ("a", "note://same"),
            ("b", "note://same"),
        ]
        for name in ("a", "b"):
            contents = (await host.read_resource(name, "note://same")).contents
            assert contents[0].text == f"of {name}"  # type: ignore[union-attr]
        assert [(one.server, one.item.uri_template) for one in await host.list_resource_templates()] == [
            ("a", "page://{title}"),
            ("b", "page://{title}"),
        ]
        assert len(await host.list_tools()) == 6
        assert [one.item.name for one in await host.list_prompts(servers=["a"])] == ["greet"]
        assert text_of(await host.call_tool("b", "whoami")).startswith("b ")
        prompt = await host.get_prompt("a", "greet", {"who": "Lem"})
        assert prompt.messages[0].content.text == "Hello Lem"  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("selection", "expected"),
    [
        ({"servers": ["b"]}, ["b big", "b old", "same"]),
        ({"tags": ["work", "none"]}, ["a big", "a old", "same"]),
        ({"audience": "user", "servers": ["a"]}, ["a big", "same"]),
        ({"min_priority": 0.5}, ["a big", "b big"]),
        ({"mime_type": "TEXT/*", "servers": ["a"]}, ["a big", "same"]),
        ({"uri_prefix": "note://b/"}, ["b big", "b old"]),
        ({"sort": "name"}, ["a big", "a old", "b big", "b old", "same", "same"]),
        ({"sort": "priority", "servers": ["a"]}, ["a big", "a old", "same"]),
        ({"sort": "recency", "servers": ["a"]}, ["a big", "a old", "same"]),
        ({"sort": "size", "servers": ["b"]}, ["b big", "same", "b old"]),
    ],
)
async def test_lists_are_filtered_and_sorted(selection: Any, expected: list[str]) -> None:
    async with Host([config("plain", "a", tags=("work",)), config("plain", "b")]) as host:
        assert [one.item.name for one in await host.list_resources(**selection)] == expected


async def test_a_selection_that_makes_no_sense_is_an_error_with_the_near_name() -> None:
    async with Host([config("plain", "shop")]) as host:
        with pytest.raises(ConfigError, match="there is no server 'shopp'; did you mean 'shop'"):
            await host.list_tools(servers=["shopp"])
        with pytest.raises(ConfigError, match="there is no order 'nam'; did you mean 'name'"):
            await host.list_tools(sort="nam")  # type: ignore[arg-type]
        with pytest.raises(ConfigError, match="servers: a list of names is expected"):
            await host.list_tools(servers="shop")
        with pytest.raises(ConfigError, match="there is no server 'shoq'; did you mean 'shop'"):
            await host.read_resource("shoq", "note://same")
        with pytest.raises(PeerError):
            await host.call_tool("shop", "none")


async def test_resources_are_searched_in_all_servers() -> None:
    async with Host([config("plain", "a"), config("plain", "b")]) as host:
        found = await host.search("big")
        assert [(one.server, one.item.resource.uri) for one in found] == [("a", "note://a/big"), ("b", "note://b/big")]
        assert [one.server for one in await host.search("same", servers=["b"])] == ["b"]


async def test_lists_are_kept_in_memory_and_read_again_when_a_server_announces_a_change() -> None:
    async with Host([config("plain", "a"), config("plain", "b")]) as host:
        first = await host.list_resources()
        assert host.servers["a"]._lists["resource"] is not None
        watching = until(host, lambda: "resource" not in host.servers["a"]._lists)
        await host.call_tool("a", "grow", {"title": "more"})
        assert HostChange("resources", "a") in await watching
        assert len(await host.list_resources()) == len(first) + 1
        assert "resource" in host.servers["b"]._lists


async def test_the_catalog_of_a_host_has_everything_as_one_provider() -> None:
    async with Host([config("plain", "a"), config("plain", "b")]) as host:
        app = Server("all")
        for server in host.servers.values():
            assert host.catalog.get(server.name) is server.provider
        app.add_provider(host.catalog)
        async with Client(app) as client:
            assert len(await client.list_resources()) == 6
            assert text_of(await client.call_tool("whoami")).startswith("a ")


# Servers that fail


async def test_servers_that_fail_spoil_nothing_for_the_others() -> None:
    configs = [
        config("plain", "good"),
        ServerConfig(name="silent", command="sh", args=("-c", "echo I say nothing >&2; exec cat"), start_timeout=1.0),
        config("dying", "dying"),
        config("empty", "empty"),
        config("flooding", "flooding"),
        config("plain", "off", disabled=True),
        ServerConfig(name="missing", command="no-such-program"),
        ServerConfig(name="unset", command="x", env={"A": "${NO_SUCH_VARIABLE}"}),
        ServerConfig(name="nobody", url="http://127.0.0.1:1/mcp", transport="http"),
    ]
    async with Host(configs, start_timeout=PATIENCE) as host:
        servers = host.servers
        assert {name for name, server in servers.items() if server.state == "ready"} == {"good", "empty", "flooding"}
        assert servers["off"].state == "disabled"
        assert servers["empty"].empty
        assert not servers["good"].empty
        assert len(servers["flooding"].stderr) <= 64 * 1024
        assert "it is not ready after 1 seconds" in str(servers["silent"].reason)
        await until(host, lambda: "I say nothing" in str(servers["silent"].reason))
        assert "no database" in str(servers["dying"].reason)
        assert "no database" in servers["dying"].stderr
        assert "'no-such-program' does not exist" in str(servers["missing"].reason)
        assert servers["unset"].reason == "env.A: the environment variable NO_SUCH_VARIABLE is not set"
        assert servers["unset"].retry_in is None
        assert servers["nobody"].state in ("failed", "connecting")
        assert {one.server for one in await host.list_tools()} == {"good", "flooding"}
        with pytest.raises(TransportError, match=r"dying is not available: (?s:.)*no database"):
            await host.call_tool("dying", "whoami")
        with pytest.raises(TransportError, match="off is not available: it is disabled"):
            await host.call_tool("off", "whoami")


async def test_a_failed_server_says_when_it_is_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reconnect, "PAUSES", (1000.0, 1000.0))
    async with Host([config("dying", "dying")]) as host:
        server = host.servers["dying"]
        assert server.state == "failed"
        assert server.retry_in is not None
        assert 100 < server.retry_in <= 1000
        before = server.stderr.count("no database")
        with pytest.raises(TransportError, match="no database"):
            await host.reconnect("dying")
        assert server.stderr.count("no database") > before


async def test_a_server_that_dies_comes_back_by_itself() -> None:
    async with Host([config("plain", "a"), config("plain", "b")]) as host:
        before = text_of(await host.call_tool("a", "whoami"))
        states: list[str] = []
        host.servers["a"].provider.reconnector.observers.append(lambda status: states.append(status.name))  # type: ignore[union-attr]
        back = until(host, lambda: states[-1:] == ["ready"])
        os.kill(int(before.split()[1]), signal.SIGKILL)
        await back
        assert states[0] == "failed"
        after = text_of(await host.call_tool("a", "whoami"))
        assert after != before
        assert {one.server for one in await host.list_tools()} == {"a", "b"}


async def test_a_server_over_http_that_goes_away_comes_back_by_itself() -> None:
    port = free_port()
    async with serving(port):
        url = f"http://127.0.0.1:{port}/mcp"
        configs = [ServerConfig(name="far", url=url, transport="http", timeout=60), config("plain", "near")]
        async with Host(configs) as host:
            server = host.servers["far"]
            assert server.state == "ready"
            count = len(await host.list_resources(servers=["far"]))
            assert count
            await stop(port)
            with pytest.raises(TransportError):
                await host.read_resource("far", "note://same")
            await until(host, lambda: server.state == "failed")
            assert {one.server for one in await host.list_resources()} == {"near"}
            await start(port)
            await until(host, lambda: server.state == "ready")
            assert len(await host.list_resources(servers=["far"])) == count


# Starting


async def test_twenty_servers_start_at_the_same_time(tmp_path: Path) -> None:
    configs = [config("together", f"server{number}", str(tmp_path), "20") for number in range(20)]
    async with Host(configs, start_timeout=200) as host:
        assert {server.state for server in host.servers.values()} == {"ready"}
        assert len(await host.list_tools()) == 60


async def test_a_lazy_host_connects_to_what_is_asked_for() -> None:
    async with Host([config("plain", "a"), config("plain", "b"), config("plain", "c")], lazy=True) as host:
        assert {server.state for server in host.servers.values()} == {"idle"}
        assert text_of(await host.call_tool("b", "whoami")).startswith("b ")
        assert [host.servers[name].state for name in "abc"] == ["idle", "ready", "idle"]
        assert {one.server for one in await host.list_tools(servers=["a"])} == {"a"}
        assert [host.servers[name].state for name in "abc"] == ["ready", "ready", "idle"]
        assert {one.server for one in await host.list_tools()} == {"a", "b", "c"}


async def test_two_servers_of_one_name_are_refused() -> None:
    with pytest.raises(ConfigError, match="several servers of one name: a"):
        Host([config("plain", "a"), config("empty", "a")])


async def test_what_a_server_asks_goes_to_the_handlers_of_the_host() -> None:
    async def answer(form: Form) -> dict[str, Any]:
        return dict.fromkeys(form.fields, "Lem")

    program = """
from carrel import Context, Server
app = Server("asking")
@app.tool
async def ask(context: Context) -> str:
    return (await context.elicit("Who?", {"type": "object", "properties": {"name": {"type": "string"}}})).data["name"]
app.run()
"""
    asking = ServerConfig(name="asking", command=sys.executable, args=("-c", program))
    async with Host([asking], handlers=Handlers(elicit_form=answer)) as host:
        assert text_of(await host.call_tool("asking", "ask")) == "Lem"


# Configuration files


def entry(kind: str, name: str, **others: Any) -> dict[str, Any]:
    return {"command": sys.executable, "args": [PROGRAM, kind, name], **others}


def write(file: Path, servers: Any) -> None:
    text = servers if isinstance(servers, str) else json.dumps({"mcpServers": servers})
    temporary = file.with_suffix(".new")
    temporary.write_text(text)
    temporary.replace(file)


async def test_changes_of_a_configuration_file_apply_and_only_changed_servers_are_connected_to_again(
    tmp_path: Path,
) -> None:
    file = tmp_path / "mcp.json"
    write(file, {"a": entry("plain", "a"), "b": entry("plain", "b"), "c": entry("plain", "c")})
    async with Host(files=[file]) as host:
        before = {name: text_of(await host.call_tool(name, "whoami")) for name in "abc"}
        changed = {"a": entry("plain", "a"), "b": entry("plain", "b", env={"SETTING": "new"}), "d": entry("plain", "d")}
        waiting = asyncio.ensure_future(
            until(
                host, lambda: set(host.servers) == set("abd") and all(s.state == "ready" for s in host.servers.values())
            )
        )
        write(file, changed)
        changes = await waiting
        assert HostChange("removed", "c") in changes
        assert HostChange("added", "d") in changes
        assert text_of(await host.call_tool("a", "whoami")) == before["a"]
        assert text_of(await host.call_tool("b", "whoami")).endswith(" new")
        assert {one.server for one in await host.list_tools()} == set("abd")


async def test_a_file_or_an_entry_that_is_broken_leaves_its_servers_running(tmp_path: Path) -> None:
    file = tmp_path / "mcp.json"
    write(file, {"a": entry("plain", "a"), "b": entry("plain", "b")})
    async with Host(files=[file]) as host:
        before = text_of(await host.call_tool("a", "whoami"))
        broken = until(host, lambda: bool(host.problems))
        write(file, "{")
        await broken
        assert set(host.servers) == {"a", "b"}
        mended = until(host, lambda: [each.entry for each in host.problems] == ["a"])
        write(file, {"a": {"comand": "x"}, "b": entry("plain", "b")})
        await mended
        assert "did you mean 'command'" in str(host.problems[0])
        assert text_of(await host.call_tool("a", "whoami")) == before


# Servers that are not ours


async def test_servers_of_others_are_hosted_side_by_side(tmp_path: Path) -> None:
    (tmp_path / "note.txt").write_text("hello")
    modules = node_modules() / "@modelcontextprotocol"

    def npm(package: str, *arguments: str) -> tuple[str, ...]:
        return (str(modules / package / "dist" / "index.js"), *arguments)

    configs = [
        ServerConfig(name="time", command=python("1"), args=("-m", "mcp_server_time", "--local-timezone", "UTC")),
        ServerConfig(name="git", command=python("1"), args=("-m", "mcp_server_git")),
        ServerConfig(name="files", command=node_program(), args=npm("server-filesystem", str(tmp_path))),
        ServerConfig(name="everything", command=node_program(), args=npm("server-everything", "stdio")),
        config("plain", "carrel"),
    ]
    async with Host(configs, start_timeout=60) as host:
        assert {name: server.reason for name, server in host.servers.items() if server.state != "ready"} == {}
        tools = await host.list_tools()
        assert {one.server for one in tools} == {"time", "git", "files", "everything", "carrel"}
        assert "hello" in text_of(await host.call_tool("files", "read_text_file", {"path": str(tmp_path / "note.txt")}))
        assert "UTC" in text_of(await host.call_tool("time", "get_current_time", {"timezone": "UTC"}))
        assert {one.server for one in await host.list_prompts()} == {"everything", "carrel"}
