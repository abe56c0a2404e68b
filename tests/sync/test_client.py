"""The synchronous client: in scripts, notebooks and threads; interrupted, closed, and with handlers that block."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from carrel import Context, Server
from carrel.client.handlers import Form
from carrel.errors import ConfigError, ResourceNotFound, TransportError
from carrel.host.config import ServerConfig
from carrel.sync import Client, Handlers, Host
from carrel.sync import loop as loop_module
from support.servers import SERVERS
from support.servers.agent_tools import make


@dataclass
class Member:
    name: str


PROGRAM = str(SERVERS / "agent_tools.py")


@pytest.fixture
def client() -> Iterator[Client]:
    with Client(make("desk")) as client:
        yield client


def test_everything_is_asked_without_await(client: Client) -> None:
    assert client.server is not None
    assert (client.server.name, client.state.status) == ("desk", "connected")
    assert [resource.uri for resource in client.list_resources()] == ["note://lamp"]
    tools = client.list_tools()
    assert len(tools) == 7
    assert tools[0].name == "add"
    assert tools == list(tools)
    assert client.read_resource("note://lamp").contents[0].text == "Buy a lamp"  # type: ignore[union-attr]
    assert client.call_tool("add", {"a": 1, "b": 2}).text == "3"
    client.ping()
    with pytest.raises(ResourceNotFound):
        client.read_resource("note://none")


async def test_it_works_where_an_event_loop_runs_already() -> None:
    with Client(make("desk")) as client:
        assert client.call_tool("who").text == "desk"


def test_threads_share_a_client_and_their_calls_run_at_the_same_time(client: Client) -> None:
    with ThreadPoolExecutor(2) as pool:
        found = [pool.submit(client.call_tool, "meet", {"number": number}) for number in (1, 2)]
        assert [future.result().text for future in found] == ["met 1", "met 2"]


def test_threads_iterate_over_one_list(client: Client) -> None:
    tools = client.list_tools()
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda _: [tool.name for tool in tools], range(8)))
    assert all(set(names) == {tool.name for tool in tools} for names in found)


def test_handlers_are_plain_functions_that_may_block_and_call_the_client() -> None:
    app = Server("club")

    @app.tool
    async def join(context: Context) -> str:
        answer = await context.elicit("Who?", Member)
        return str(answer.data)

    @app.tool
    def price() -> str:
        return "5"

    asked: list[str] = []

    def fill(form: Form) -> dict[str, Any]:
        asked.append(f"{form.message} {client.call_tool('price').text} {threading.current_thread().name}")
        return {"name": "Ada"}

    with Client(app, handlers=Handlers(elicit_form=fill)) as client:
        assert "Ada" in client.call_tool("join").text
    assert asked == ["Who? 5 carrel-sync-handler"]


def test_a_callback_in_the_event_loop_gets_an_error_and_no_deadlock(client: Client) -> None:
    errors: list[str] = []

    def observe(change: object) -> None:
        try:
            client.ping()
        except ConfigError as error:
            errors.append(str(error))

    client.state.observe(observe)
    client.close()
    assert "cannot wait for it" in errors[0]


def test_a_watch_is_an_iterator_and_closing_it_ends_the_iteration() -> None:
    app = make("desk")
    with Client(app) as client, client.watch("note://lamp", lists=["tools"]) as changes:
        client.call_tool("grow")
        assert next(changes).kind == "tools"
        threading.Thread(target=changes.close).start()
        assert list(changes) == []


def test_a_call_of_a_closed_client_ends_with_an_error() -> None:
    with Client(make("desk")) as client, ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(client.call_tool, "meet", {"number": 1})
        client.ping()
        client.close()
        with pytest.raises(TransportError):
            waiting.result()


def test_a_listing_that_failed_can_be_asked_again(client: Client) -> None:
    client.close()
    listing = client.list_tools()
    for _ in range(2):
        with pytest.raises(ConfigError, match="closed"):
            len(listing)


@pytest.mark.slow
def test_a_host_is_used_without_await() -> None:
    with Host([ServerConfig(name="desk", command=sys.executable, args=(PROGRAM, "desk"))]) as host:
        assert host.servers["desk"].state == "ready"
        changes = host.watch()
        assert [found.item.uri for found in host.list_resources()] == ["note://lamp"]
        assert host.call_tool("desk", "who").text == "desk"
        host.apply([])
        assert next(changes).kind in ("removed", "tools", "state", "resources", "prompts")
    assert loop_module.background().open == set()


SCRIPT = """
import sys
from carrel.sync import Client

client = Client([sys.executable, {program!r}, "desk"])
client.__enter__()
print(client.call_tool("who").text, flush=True)
{rest}
"""


def script(tmp_path: Path, rest: str) -> list[str]:
    """Write a script that has called a tool of a server that is a process; return its command."""
    path = tmp_path / "script.py"
    path.write_text(SCRIPT.format(program=PROGRAM, rest=textwrap.dedent(rest)))
    return [sys.executable, str(path)]


@pytest.mark.slow
def test_what_is_open_is_closed_when_the_interpreter_exits(tmp_path: Path) -> None:
    rest = "print(client.call_tool('pid').text)"
    done = subprocess.run(script(tmp_path, rest), capture_output=True, text=True, timeout=100)
    assert (done.returncode, done.stderr) == (0, "")
    with pytest.raises(ProcessLookupError):
        os.kill(int(done.stdout.split()[1]), 0)


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="Windows sends Ctrl-C to whole groups of processes")
def test_an_interrupt_cancels_the_call_and_the_client_goes_on(tmp_path: Path) -> None:
    rest = """
    import os, signal
    def interrupt(*_):
        os.kill(os.getpid(), signal.SIGINT)
    for _ in range(2):
        try:
            client.call_tool("meet", {"number": 1}, timeout=None, progress=interrupt)
        except KeyboardInterrupt:
            print("interrupted")
    print(client.call_tool("add", {"a": 1, "b": 2}).text)
    """
    done = subprocess.run(script(tmp_path, rest), capture_output=True, text=True, timeout=100)
    assert (done.stdout, done.stderr) == ("desk\ninterrupted\ninterrupted\n3\n", "")
