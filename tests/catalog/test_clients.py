"""Providers learn for which client they are asked."""

import asyncio

import pytest

from carrel import Context, Server
from carrel.catalog.provider import Page, Provider
from carrel.transports.memory import MemoryPeer
from carrel.wire.completion import Completion
from carrel.wire.resources import ReadResourceResult, ResourceTemplate, TextResourceContents


class Asked(Provider):
    """A provider that notes for which client each of its methods is called."""

    name = "asked"
    prefixes = ("asked:",)

    def __init__(self):
        self.clients = []

    async def list_templates(self, request):
        return Page([ResourceTemplate("asked:{name}", "asked")])

    async def list_resources(self, request):
        return await self._note("list", request, Page([]))

    async def read_resource(self, uri, request):
        result = ReadResourceResult(contents=[TextResourceContents(uri, "text")])
        return await self._note("read", request, result)

    async def complete(self, reference, argument, value, context, request):
        return await self._note("complete", request, Completion(values=[], total=0, has_more=False))

    async def search(self, query, request):
        return await self._note("search", request, Page([]))

    async def watch(self, interest):
        yield ()
        await asyncio.Event().wait()

    async def _note(self, what, request, answer):
        await asyncio.sleep(0)
        self.clients.append((what, request.client))
        return answer


@pytest.mark.parametrize("revision", ["2025-11-25", "2026-07-28"])
async def test_a_provider_learns_for_which_client_it_is_asked(revision):
    app, source = Server("s"), Asked()
    app.add_provider(source)
    app.add_resource_tools()

    @app.tool()
    async def reader(context: Context) -> str:
        [contents] = (await context.read_resource("asked:1")).contents
        return contents.text

    await app.endpoint.start()
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
            peer.dispatcher.client.key = client
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
        await app.endpoint.stop()
