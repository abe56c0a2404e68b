"""A method that only its row, its structs, its provider and its client know: through a server and a gateway."""

from __future__ import annotations

import pytest

from carrel import Client, Server
from carrel.catalog.provider import Page, Provider
from carrel.catalog.transforms.namespace import Namespace
from carrel.errors import PeerError
from carrel.wire.tools import CallToolResult, ExplainToolResult, Tool

from .conftest import MakeGateway


class Explained(Provider):
    name = "explained"
    tool_names = ("add",)

    def list_tools(self, request):
        return Page([Tool(name="add", input_schema={"type": "object"})])

    def call_tool(self, name, arguments, request):
        return CallToolResult(content=[])

    async def explain_tool(self, name, language, request):
        return ExplainToolResult(text=f"{name} in {language}")


def server() -> Server:
    app = Server("explaining")
    app.add_provider(Explained())
    app.add_provider(Namespace(Explained(), "x"))
    return app


async def test_a_new_method_reaches_the_provider_of_its_tool():
    async with Client(server()) as client:
        assert (await client.explain_tool("add", "en")).text == "add in en"
        assert (await client.explain_tool("x_add", "de")).text == "add in de"
        with pytest.raises(PeerError, match="unknown tool: gone"):
            await client.explain_tool("gone", "en")


async def test_a_new_method_passes_a_gateway(gateway_of: MakeGateway):
    async with gateway_of({"one": server()}) as gateway, Client(gateway.app) as client:
        assert (await client.explain_tool("x_add", "fr")).text == "add in fr"
