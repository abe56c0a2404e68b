"""Tools of providers: what a provider raises, and what the model is told."""

import msgspec
import pytest

from carrel import Client, Server
from carrel.errors import ToolError
from carrel.sources import Page, Provider, Request
from carrel.types import CallToolResult, TextContent, Tool


class Scales(Provider):
    name = "scales"
    tool_names = ("weigh", "weigh_later")

    def list_tools(self, request: Request) -> Page[Tool]:
        return Page([Tool(name=name, input_schema={"type": "object"}) for name in self.tool_names])

    def call_tool(self, name: str, arguments: msgspec.Raw, request: Request):
        if name == "weigh":
            return self.weigh(arguments)
        return self.weigh_later(arguments)

    def weigh(self, arguments: msgspec.Raw) -> CallToolResult:
        if b"stone" in bytes(arguments):
            raise ToolError("stones are too heavy")
        return CallToolResult(content=[TextContent("1 g")])

    async def weigh_later(self, arguments: msgspec.Raw) -> CallToolResult:
        return self.weigh(arguments)


@pytest.mark.parametrize("tool", ["weigh", "weigh_later"])
async def test_a_tool_error_of_a_provider_is_a_result_for_the_model(tool: str) -> None:
    app = Server("shop")
    app.add_provider(Scales())
    async with Client(app) as client:
        assert (await client.call_tool(tool, {"what": "feather"})).text == "1 g"
        refused = await client.call_tool(tool, {"what": "stone"})
    assert (refused.is_error, refused.text) == (True, "stones are too heavy")
