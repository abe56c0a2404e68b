"""``RemoteProvider`` with servers of other SDKs: our clients see them through a server of ours."""

import contextlib

import pytest

from carrel import Client, Server
from carrel.client.handlers import Handlers
from carrel.errors import MCPError
from carrel.host.remote import RemoteProvider
from carrel.transports.client.options import ProcessOptions
from carrel.wire.completion import PromptReference
from interop.shelf import PATIENCE, program, serving

SESSION, NEWEST = "2025-11-25", "2026-07-28"
SERVERS = ("fastmcp_4", "python_sdk_1", "python_sdk_2", "typescript_sdk_1", "typescript_sdk_2")


@contextlib.asynccontextmanager
async def through(server, transport, revision):
    """Give a client of a server of ours, behind which a server of another SDK is."""
    command, env = program(server)
    asked = []

    async def fill(form):
        asked.append(form.message)
        return {"name": "Ada"}

    async def sample(sampling):
        return "Something."

    handlers = Handlers(elicit_form=fill, sample=sample, roots=["file:///work/books"])
    with contextlib.ExitStack() as stack:
        if transport == "http":
            remote = RemoteProvider(stack.enter_context(serving([*command, "http"], env)), name="shelf")
        else:
            remote = RemoteProvider([*command, "stdio"], name="shelf", process=ProcessOptions(env=env))
        app = Server("gateway", page_size=2)
        app.add_provider(remote)
        async with Client(app, revision=revision, handlers=handlers, timeout=PATIENCE) as client:
            client.asked = asked
            yield client


#: Every pair of server, transport and revision; without make exhaustive, each server once.
PAIRWISE = [
    pytest.param(
        *(server, transport, (SESSION, NEWEST)[(row + column) % 2]),
        marks=[] if column == row // 2 % 2 else pytest.mark.exhaustive,
    )
    for row, server in enumerate(SERVERS)
    for column, transport in enumerate(("stdio", "http"))
]


@pytest.mark.parametrize(("server", "transport", "revision"), PAIRWISE)
async def test_a_server_of_another_sdk_is_seen_through_ours(server, transport, revision):
    async with through(server, transport, revision) as client:
        resources = [resource.uri for resource in await client.list_resources()]
        assert {"memo://text", "memo://blob", "memo://count"} <= set(resources)
        [template] = [each.uri_template for each in await client.list_resource_templates()]
        assert template == "book://{author}/{title}"
        assert (await client.read_resource("memo://text")).contents[0].text == "Plain text: 糖尿病"
        assert (await client.read_resource("memo://blob")).contents[0].blob == b"\x00\x01\xff"
        assert (await client.read_resource("book://lem/solaris")).contents[0].text == "solaris by lem"
        with pytest.raises(MCPError):
            await client.read_resource("memo://nothing")
        tools = [tool.name for tool in await client.list_tools()]
        assert {"echo", "add", "slow"} <= set(tools)
        assert (await client.call_tool("echo", {"text": "hello"})).content[0].text == "hello"
        assert (await client.call_tool("add", {"a": 1, "b": 2})).structured_content == {"sum": 3}
        seen = []
        await client.call_tool("slow", {"steps": 3}, progress=lambda *report: seen.append(report[0]))
        assert seen == [1, 2, 3]
        for prompt in await client.list_prompts():
            assert PromptReference(prompt.name)
