"""Servers of a gateway with the sessions and credentials that their configuration asks for."""

import asyncio
import os
import sys
from contextlib import AsyncExitStack

import pytest

from carrel import Client, Context, Server
from carrel.gateway.gateway import Gateway
from carrel.gateway.sessions import SessionLimits
from carrel.host.config.server_config import ServerConfig
from carrel.security import StaticTokens
from carrel.security.client import Bearer
from carrel.security.server.static_tokens import make_token
from carrel.transports.client.options import HTTPOptions
from support.http_server import over_http

pytestmark = pytest.mark.slow

SESSION, NEWEST = "2025-11-25", "2026-07-28"
SCRIPT = """
import os
from carrel import Server
app = Server("counter")
calls = []

@app.tool
def count() -> str:
    calls.append(1)
    return f"{os.getpid()} {len(calls)} {os.environ.get('WHO')}"

app.run()
"""


async def text(client, tool):
    return (await client.call_tool(tool, {})).content[0].text


def counter(tmp_path, **options):
    """Return the configuration of a program that counts."""
    script = tmp_path / "counter.py"
    script.write_text(SCRIPT)
    env = {"PYTHONPATH": os.pathsep.join(sys.path)}
    return ServerConfig(name="counter", command=sys.executable, args=(str(script),), env=env, **options)


def runs(pid):
    """Return whether a process runs."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


async def test_processes_are_by_client_capped_and_gone_with_the_gateway(tmp_path):
    limits = SessionLimits(max_sessions=2)
    pids = set()
    async with Gateway([counter(tmp_path, isolation="client")], sessions=limits) as gateway, AsyncExitStack() as stack:
        for revision in (SESSION, NEWEST, SESSION):
            client = await stack.enter_async_context(Client(gateway.app, revision=revision))
            first, again = await text(client, "count"), await text(client, "count")
            assert (first.split()[1], again.split()[1]) == ("1", "2")
            pids.add(int(first.split()[0]))
        assert len(pids) == 3
        [isolated] = gateway._isolated.values()
        await isolated.sessions.ended()
        assert len(isolated.sessions) == 2
    assert not any(map(runs, pids))


async def test_a_server_that_is_removed_leaves_no_process(tmp_path):
    config = counter(tmp_path, isolation="client")
    async with Gateway([config]) as gateway, AsyncExitStack() as stack:
        pids = set()
        for _ in range(2):
            client = await stack.enter_async_context(Client(gateway.app, revision=SESSION))
            pids.add(int((await text(client, "count")).split()[0]))
        await gateway.host.apply([])
        assert len(pids) == 2
        assert not any(map(runs, pids))


async def test_a_shared_program_is_one_for_all_clients(tmp_path):
    async with Gateway([counter(tmp_path, isolation="shared")]) as gateway, AsyncExitStack() as stack:
        said = []
        for revision in (SESSION, NEWEST):
            client = await stack.enter_async_context(Client(gateway.app, revision=revision))
            said.append((await text(client, "count")).split())
        assert said[0][0] == said[1][0]
        assert [one[1] for one in said] == ["1", "2"]


def test_each_principal_has_its_own_credentials_and_no_token_of_the_gateway_goes_further(tmp_path):
    seen = []
    far = Server("far")

    @far.tool
    async def whoami(context: Context) -> str:
        seen.append(repr(dict(context._call.raw_headers)))
        return context.principal.subject

    mine = {name: make_token(name) for name in ("ann", "ben")}
    theirs = {name: make_token(f"{name}-there") for name in mine}
    for name, tokens in (("mine", mine), ("theirs", theirs)):
        (tmp_path / name).write_text("\n".join(line for _, line in tokens.values()))

    def credentials_of(principal, server):
        if principal is None:
            return None
        return {"WHO": principal.subject} if server.name == "counter" else theirs[principal.subject][0]

    async def talk(url):
        configs = [ServerConfig(name="far", url=url, transport="http"), counter(tmp_path, isolation="shared")]
        async with Gateway(configs, credentials_of=credentials_of) as gateway, AsyncExitStack() as stack:
            address = asyncio.get_running_loop().create_future()
            serving = asyncio.ensure_future(
                gateway.app.run_async(
                    "http", port=0, authorization=StaticTokens(tmp_path / "mine"), on_started=address.set_result
                )
            )
            url = await address
            said = {}
            for name, (token, _) in mine.items():
                client = await stack.enter_async_context(Client(url, http=HTTPOptions(auth=Bearer(token))))
                names = {tool.name for tool in await client.list_tools()}
                assert names == {"whoami", "count"}
                said[name] = await text(client, "whoami"), (await text(client, "count")).split()[2]
            await stack.aclose()
            serving.cancel()
            await asyncio.gather(serving, return_exceptions=True)
            return said

    with over_http(far, authorization=StaticTokens(tmp_path / "theirs")) as origin:
        said = asyncio.run(talk(f"{origin}/mcp"))
    assert said == {"ann": ("ann-there", "ann"), "ben": ("ben-there", "ben")}
    assert len(seen) == 2
    for token, _ in mine.values():
        assert token not in "".join(seen)
