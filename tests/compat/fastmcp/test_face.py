"""The face of ``fastmcp`` in this process: what is not mirrored says so, and what has no counterpart on the wire."""

from __future__ import annotations

import logging
from typing import Any

import pytest
from pydantic import TypeAdapter

from carrel import Client as CarrelClient
from carrel import Server
from carrel.client.handlers import Handlers
from carrel.compat.fastmcp import Client, Context, FastMCP, settings
from carrel.compat.fastmcp.client.auth import BearerAuth
from carrel.compat.fastmcp.client.transports import (
    MCPConfigTransport,
    SSETransport,
    StdioTransport,
    StreamableHttpTransport,
    infer_transport,
)
from carrel.compat.fastmcp.exceptions import NotFoundError, ToolError
from carrel.compat.fastmcp.resources import TextResource
from carrel.compat.fastmcp.server.dependencies import get_context, get_http_headers, get_http_request
from carrel.compat.fastmcp.server.lifespan import lifespan
from carrel.compat.fastmcp.server.middleware.error_handling import ErrorHandlingMiddleware, RetryMiddleware
from carrel.compat.fastmcp.server.middleware.logging import LoggingMiddleware, StructuredLoggingMiddleware
from carrel.compat.fastmcp.server.middleware.timing import TimingMiddleware
from carrel.compat.fastmcp.settings import Settings
from carrel.compat.fastmcp.utilities.json_schema import dereference_refs
from carrel.compat.fastmcp.utilities.json_schema_type import json_schema_to_type
from compat.comparison import run_code


@pytest.mark.slow
@pytest.mark.parametrize(
    ("statement", "words"),
    [
        ("from fastmcp.dependencies import CurrentDocket", "use carrel.Server and @app.tool(task=...)"),
        ("import fastmcp.nothing", "run the program without --compat"),
    ],
)
def test_what_is_not_mirrored_says_at_import_what_to_use(statement: str, words: str) -> None:
    done = run_code(f"from carrel.compat import redirect_imports\nredirect_imports()\n{statement}")
    assert words in done.stderr.splitlines()[-1]


def test_arguments_that_never_were_are_refused() -> None:
    with pytest.raises(TypeError, match="unexpected keyword argument 'nmae'"):
        FastMCP(nmae="x")
    with pytest.raises(TypeError, match="requires a URI as the first argument"):
        FastMCP().resource(len)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="Functions with \\*args are not supported as tools"):
        FastMCP().tool(lambda *values: values, name="any")
    with pytest.raises(ValueError, match="must be a subset of the URI path parameters"):
        FastMCP().resource("data://{a}", name="b")(lambda b: b)
    with pytest.raises(ValueError, match="Unknown transport: carrier-pigeon"):
        FastMCP().run("carrier-pigeon")  # type: ignore[arg-type]


async def test_components_are_shown_and_hidden_by_tags_names_and_kinds() -> None:
    mcp = FastMCP("shown", include_tags={"public", "beta"}, exclude_tags={"beta"}, on_duplicate_tools="replace")
    for name, tags in (("one", {"public"}), ("two", {"public", "beta"}), ("three", set())):
        mcp.tool(lambda: "x", name=name, tags=tags)
    mcp.add_resource(TextResource(uri="text://1", text="x", tags={"public"}))  # type: ignore[arg-type]

    async def seen() -> list[str]:
        async with Client(mcp) as client:
            return [each.name for each in [*await client.list_tools(), *await client.list_resources()]]

    assert await seen() == ["one", "text://1"]
    mcp.disable(names={"one"})
    assert await seen() == ["text://1"]
    mcp.enable(components={"tool"}, only=True)
    assert await seen() == ["one", "two", "three"]
    async with Client(mcp) as client:
        with pytest.raises(Exception, match="Resource not found: 'text://1'"):
            await client.read_resource("text://1")
    mcp.remove_tool("one")
    with pytest.raises(NotFoundError, match="Tool 'one' not found"):
        mcp.remove_tool("one")


async def test_imported_servers_are_copied_and_lists_have_pages() -> None:
    child = FastMCP("child")
    child.tool(lambda: "a", name="a")
    child.resource("data://{x}", name="x")(lambda x: x)
    mcp = FastMCP("pages", list_page_size=2)
    await mcp.import_server(child, prefix="c")
    child.tool(lambda: "b", name="b")
    for name in ("d", "e"):
        mcp.tool(lambda: "x", name=name)
    assert list(await mcp.get_tools()) == ["c_a", "d", "e"]
    async with Client(mcp) as client:
        first = await client.list_tools_mcp()
        assert [tool.name for tool in first.tools] == ["c_a", "d"]
        assert len(await client.list_tools()) == 3
        assert (await client.read_resource("data://c/y"))[0].text == "y"  # type: ignore[union-attr]


async def test_lifespans_are_combined_and_entered_once() -> None:
    events: list[str] = []

    @lifespan
    async def one(server: Any) -> Any:
        events.append("in")
        yield {"a": 1}
        events.append("out")

    @lifespan
    async def two(server: Any) -> Any:
        yield {"b": 2}

    mcp = FastMCP("lives", lifespan=one | two)

    @mcp.tool
    def state(ctx: Context) -> dict[str, int]:
        return dict(ctx.lifespan_context)

    async with Client(mcp) as client, Client(mcp) as other:
        assert (await client.call_tool("state")).data == {"a": 1, "b": 2}
        assert (await other.call_tool("state")).data == {"a": 1, "b": 2}
    assert events == ["in", "out"]


async def test_the_middleware_that_comes_with_it_logs_counts_and_repeats(caplog: pytest.LogCaptureFixture) -> None:
    errors = ErrorHandlingMiddleware()
    mcp = FastMCP(
        "logs",
        middleware=[
            TimingMiddleware(),
            LoggingMiddleware(include_payloads=True),
            StructuredLoggingMiddleware(methods=["tools/call"]),
            errors,
            RetryMiddleware(base_delay=0),
        ],
    )
    tries: list[int] = []

    @mcp.tool
    def shaky() -> int:
        tries.append(1)
        if len(tries) < 3:
            raise ConnectionError("gone")
        return len(tries)

    @mcp.tool
    def wrong() -> str:
        raise ToolError("no")

    with caplog.at_level(logging.INFO):
        async with Client(mcp) as client:
            assert (await client.call_tool("shaky")).data == 3
            with pytest.raises(ToolError, match="no"):
                await client.call_tool("wrong")
    assert errors.get_error_stats() == {"ToolError:tools/call": 1}
    assert "Request tools/call completed in" in caplog.text
    assert 'payload={"task":null,"_meta":null,"name":"shaky"' in caplog.text
    assert '"event": "request_success", "method": "tools/call"' in caplog.text


async def test_a_server_is_added_to_a_server_of_carrel_and_answers_the_newest_revision() -> None:
    mcp = FastMCP("inner")

    @mcp.tool
    async def ask(ctx: Context) -> str:
        return f"{ctx.session_id != ''} {get_context() is ctx} {get_http_headers()}"

    app = Server("outer")
    app.add_provider(mcp._mcp_server.application(), namespace="inner")
    async with CarrelClient(app, revision="2026-07-28") as client:
        tool = (await client.list_tools())[0]
        assert (await client.call_tool(tool.name, {})).structured_content == {"result": "True True {}"}


def test_outside_of_a_request_there_is_no_context() -> None:
    with pytest.raises(RuntimeError, match="No active context found"):
        get_context()
    with pytest.raises(RuntimeError, match="No active HTTP request found"):
        get_http_request()
    with pytest.raises(RuntimeError, match="Client is not connected"):
        _ = Client(FastMCP()).session


def test_transports_follow_from_what_a_client_is_given() -> None:
    assert isinstance(infer_transport("https://example.org/mcp"), StreamableHttpTransport)
    assert isinstance(infer_transport("https://example.org/sse"), SSETransport)
    one = infer_transport({"mcpServers": {"one": {"url": "https://example.org/x", "headers": {"A": "b"}}}})
    assert isinstance(one, MCPConfigTransport)
    assert repr(one.transport) == "<StreamableHttpTransport(url='https://example.org/x')>"
    stdio = infer_transport(__file__)
    assert isinstance(stdio, StdioTransport)
    assert stdio.args[:2] == ["-m", "carrel.compat"]
    client: Client[Any] = Client("https://example.org/mcp", auth=BearerAuth("t"))
    assert client.transport.auth.token.get_secret_value() == "t"  # type: ignore[attr-defined]
    with pytest.raises(ValueError, match="Could not infer a valid transport from: nowhere"):
        infer_transport("nowhere")


def test_settings_come_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FASTMCP_PORT", "9000")
    monkeypatch.setenv("FASTMCP_MASK_ERROR_DETAILS", "true")
    assert (Settings().port, Settings().mask_error_details, settings.host) == (9000, True, "127.0.0.1")


def test_schemas_become_types_and_references_are_put_in_place() -> None:
    schema = {
        "type": "object",
        "properties": {"class": {"type": "string"}, "on": {"type": "string", "format": "date"}},
        "required": ["class"],
    }

    found = TypeAdapter(json_schema_to_type(schema)).validate_python({"class": "a", "on": "2026-01-02"})
    assert (found.field_class, found.on.day) == ("a", 2)
    node = {"type": "object", "properties": {"next": {"$ref": "#/$defs/Node"}}}
    assert dereference_refs({"$ref": "#/$defs/Node", "$defs": {"Node": node}})["properties"] == node["properties"]


@pytest.mark.parametrize("revision", ["2025-11-25", "2026-07-28"])
async def test_a_tool_elicits_from_clients_with_and_without_sessions(revision: str) -> None:
    mcp = FastMCP("asks")

    @mcp.tool
    async def ask(ctx: Context) -> str:
        found = await ctx.elicit("Which?", response_type=["a", "b"])
        return f"{found.action} {found.data}"

    async def choose(form: Any) -> dict[str, Any]:
        return {"value": "b"}

    app = mcp._mcp_server.application()
    async with CarrelClient(app, revision=revision, handlers=Handlers(elicit_form=choose)) as client:
        assert (await client.call_tool("ask", {})).structured_content == {"result": "accept b"}
