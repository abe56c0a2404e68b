"""Sources learn for which client they are asked."""

import asyncio

import pytest
from carrel.server.source import Page

from carrel import Context, Server
from carrel.server.context import CLIENT
from carrel.transports.memory import MemoryPeer
from carrel.wire.completion import Completion
from carrel.wire.resources import ResourceTemplate, TextResourceContents


class Asked:
    """A source that notes for whom each of its methods is called."""

    name = "asked"

    def __init__(self):
        self.clients = []

    def owns(self, uri):
        return uri.startswith("asked:")

    async def start(self): ...

    async def stop(self): ...

    def templates(self):
        return [ResourceTemplate("asked:{name}", "asked")]

    async def list(self, cursor, limit):
        return await self._note("list", Page([]))

    async def read(self, uri):
        return await self._note("read", [TextResourceContents(uri, "text")])

    async def children(self, uri, cursor, limit):
        return await self._note("children", Page([]))

    async def complete(self, template, variable, prefix, context):
        return await self._note("complete", Completion(values=[], total=0, has_more=False))

    async def search(self, query, limit):
        return await self._note("search", [])

    async def watch(self):
        yield ()
        await asyncio.Event().wait()

    async def _note(self, what, answer):
        await asyncio.sleep(0)
        self.clients.append((what, CLIENT.get()))
        return answer


@pytest.mark.parametrize("revision", ["2025-11-25", "2026-07-28"])
async def test_a_source_learns_for_which_client_it_is_asked(revision):
    app, source = Server("s"), Asked()
    app.share(source)
    app.add_resource_tools()

    @app.tool()
    async def reader(context: Context) -> str:
        [contents] = (await context.read_resource("asked:1")).contents
        return contents.text

    await app.start()
    try:
        requests = [
            ("resources/list", {}),
            ("resources/read", {"uri": "asked:1"}),
            ("tools/call", {"name": "read_resource", "arguments": {"uri": "asked:1"}}),
            ("tools/call", {"name": "reader", "arguments": {}}),
            ("tools/call", {"name": "search_resources", "arguments": {"query": "x"}}),
            (
                "completion/complete",
                {"ref": {"type": "ref/resource", "uri": "asked:{name}"}, "argument": {"name": "name", "value": ""}},
            ),
        ]
        peers = []
        for client in ("one", "two"):
            peer = MemoryPeer(app, revision)
            peer.dispatcher.connection.client = client
            if revision == "2025-11-25":
                who = {"name": "c", "version": "1"}
                params = {"protocolVersion": revision, "capabilities": {}, "clientInfo": who}
                await peer.request("initialize", params)
            peers.append(peer)
        answers = await asyncio.gather(*[peer.request(*request) for request in requests for peer in peers])
        assert all("result" in answer for answer in answers)
        methods = ("list", "read", "read", "read", "search", "complete")
        assert sorted(source.clients) == sorted((method, client) for method in methods for client in ("one", "two"))
        for peer in peers:
            await peer.dispatcher.close()
    finally:
        await app.stop()
