"""Extensions of servers and clients of FastMCP 4: settings, methods, results and wrappers of tool calls."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any, Literal

import pytest

from carrel.compat import generation
from carrel.compat.fastmcp import Client, Context, FastMCP
from carrel.compat.fastmcp.client import extension_hooks
from carrel.compat.fastmcp.server.extensions import (
    MethodBinding,
    ServerExtension,
    ToolCallContinuation,
    read_client_extension_settings,
)
from carrel.compat.mcp2 import types
from carrel.compat.mcp2.client.extension import (
    ClaimContext,
    ClientExtension,
    ResultClaim,
    UnexpectedClaimedResult,
    advertise,
)
from carrel.compat.mcp2.server.context import ServerRequestContext
from carrel.compat.mcp2.shared.exceptions import MCPError
from carrel.compat.mcp2.types.base import CLIENT_CAPABILITIES_META_KEY, Request, RequestParams, Result
from carrel.compat.mcp2.types.jsonrpc import METHOD_NOT_FOUND
from carrel.protocol.revisions import LATEST

NAME = "com.example/counter"


class Params(RequestParams):
    step: int = 1


class CountRequest(Request[Params, Literal["counter/count"]]):
    method: Literal["counter/count"] = "counter/count"
    params: Params


class Counted(Result):
    count: int
    server: str


class Counter(ServerExtension):
    """Counts the tool calls."""

    identifier = NAME
    auto_register = True

    def __init__(self, *names: str) -> None:
        self.count = 0
        self.steps = list(names)

    def settings(self) -> dict[str, Any]:
        return {"from": 0}

    def methods(self) -> Sequence[MethodBinding]:
        return [MethodBinding("counter/count", Params, self._count, frozenset([LATEST.name]))]

    async def _count(self, ctx: ServerRequestContext[Any, Any], params: Params) -> Counted:
        assert ctx.protocol_version == LATEST.name
        return Counted(count=self.count * params.step, server=self.server.name)

    @asynccontextmanager
    async def lifespan(self) -> AsyncIterator[None]:
        self.steps.append("begin")
        yield
        self.steps.append("end")

    async def intercept_tool_call(self, params: Any, context: Context, call_next: ToolCallContinuation) -> Any:
        assert isinstance(params, types.CallToolRequestParams)
        self.count += 1
        if params.name == "hidden":
            return types.CallToolResult(content=[types.TextContent(text="not today")], is_error=True)
        return await call_next()


@pytest.fixture
def mcp(monkeypatch: pytest.MonkeyPatch) -> FastMCP:
    monkeypatch.setattr(generation, "_running", 2)
    server = FastMCP("counted")

    @server.tool
    def add(a: int, b: int) -> int:
        return a + b

    @server.tool
    def hidden() -> None:
        raise AssertionError("the tool was called")

    @server.tool
    def declared(ctx: Context) -> list[Any]:
        return [ctx.client_supports_extension(NAME), ctx.request_context.protocol_version]

    return server


async def test_an_extension_declares_settings_has_methods_and_wraps_tool_calls(mcp: FastMCP) -> None:
    counter = Counter()
    mcp.add_extension(counter)
    async with Client(mcp, mode=LATEST.name) as client:
        capabilities = client.server_capabilities
        assert capabilities is not None
        assert counter.steps == ["begin"]
        assert (await client.call_tool("add", {"a": 1, "b": 2})).data == 3
        refused = await client.call_tool_mcp("hidden")
        assert (refused.isError, refused.content[0].text) == (True, "not today")
        request: Any = CountRequest(params=Params(step=10))
        found = await client.session.send_request(request, Counted)
        assert (found.count, found.server) == (20, "counted")
    assert counter.steps == ["begin", "end"]


async def test_the_settings_are_in_the_answer_to_server_discover(mcp: FastMCP) -> None:
    mcp.add_extension(Counter())
    async with Client(mcp, mode="auto") as client:
        found = client.server_capabilities
        assert found is not None
        assert found.extensions[NAME] == {"from": 0}


async def test_a_method_of_other_revisions_does_not_exist(mcp: FastMCP) -> None:
    mcp.add_extension(Counter())
    async with Client(mcp, mode="legacy") as client:
        request: Any = CountRequest(params=Params())
        with pytest.raises(MCPError) as caught:
            await client.session.send_request(request, Counted)
        assert caught.value.code == METHOD_NOT_FOUND


async def test_a_server_has_the_extensions_of_servers_that_are_mounted_on_it(mcp: FastMCP) -> None:
    counter = Counter("child")
    mcp.add_extension(counter)
    root = FastMCP("root")
    root.mount(mcp, "shop")
    assert list(root._extensions) == [NAME]
    async with Client(root, mode="auto") as client:
        await client.call_tool("shop_add", {"a": 1, "b": 2})
        request: Any = CountRequest(params=Params())
        assert (await client.session.send_request(request, Counted)).server == "root"
    assert counter.steps == ["child"]


async def test_a_tool_asks_which_extensions_the_client_has(mcp: FastMCP) -> None:
    meta = {CLIENT_CAPABILITIES_META_KEY: {"extensions": {NAME: {"limit": 5}}}}
    async with Client(mcp, mode="auto") as client:
        assert (await client.call_tool("declared")).data == [False, LATEST.name]
    context = ServerRequestContext(
        session=None,  # type: ignore[arg-type]
        lifespan_context={},
        protocol_version=LATEST.name,
        method="counter/count",
        params={"_meta": meta},
    )
    assert read_client_extension_settings(context, NAME) == {"limit": 5}
    assert Counter().client_settings(context) == {"limit": 5}
    assert read_client_extension_settings(context, "com.example/other") is None


async def test_extensions_that_do_not_fit_are_refused(mcp: FastMCP) -> None:
    counter = Counter()
    with pytest.raises(RuntimeError, match="not bound"):
        _ = counter.server
    mcp.add_extension(counter)
    with pytest.raises(ValueError, match="already registered"):
        mcp.add_extension(Counter())
    with pytest.raises(ValueError, match="another server"):
        FastMCP("other").add_extension(counter)
    FastMCP("other").add_extension(counter.clone())
    with pytest.raises(TypeError, match="vendor-prefix/name"):
        type("Nameless", (ServerExtension,), {"identifier": "nameless"})

    class Other(Counter):
        identifier = "com.example/other"

    with pytest.raises(ValueError, match="counter/count"):
        mcp.add_extension(Other())
    async with Client(mcp):
        with pytest.raises(RuntimeError, match="already started"):
            mcp.add_extension(type("Late", (ServerExtension,), {"identifier": "com.example/late"})())


class Receipt(Result):
    result_type: Literal["com.example/receipt"]
    number: int


async def _deliver(receipt: Receipt, context: ClaimContext) -> types.CallToolResult:
    text = f"{context.tool_name} {receipt.number} within {context.read_timeout_seconds} s"
    return types.CallToolResult(content=[types.TextContent(text=text)])


class Orders(ServerExtension):
    """Answers calls of tools with receipts, if the client takes them."""

    identifier = NAME

    async def intercept_tool_call(self, params: Any, context: Context, call_next: ToolCallContinuation) -> Any:
        if context.client_supports_extension(NAME):
            return Receipt(result_type="com.example/receipt", number=7)
        return await call_next()


class Ordering(ClientExtension):
    identifier = NAME

    def claims(self) -> Sequence[ResultClaim[Any]]:
        return (ResultClaim(result_type="com.example/receipt", model=Receipt, resolve=_deliver),)


async def test_a_client_makes_an_ordinary_result_of_one_that_its_extension_adds(mcp: FastMCP) -> None:
    mcp.add_extension(Orders())
    async with Client(mcp, mode=LATEST.name, extensions=[Ordering()], timeout=9) as client:
        result = await client.call_tool("add", {"a": 1, "b": 2})
        assert result.content[0].text == "add 7 within 9.0 s"
        with pytest.raises(UnexpectedClaimedResult):
            await client.session.call_tool("add", {"a": 1, "b": 2})
    async with Client(mcp, mode=LATEST.name) as client:
        assert (await client.call_tool("add", {"a": 1, "b": 2})).data == 3


async def test_a_package_adds_an_extension_to_every_client(mcp: FastMCP, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(extension_hooks, "_factories", [])
    for _ in range(2):
        extension_hooks.register_internal_client_extension_factory(_advertised)
    async with Client(mcp, mode="auto") as client:
        assert (await client.call_tool("declared")).data == [True, LATEST.name]
    with pytest.raises(ValueError, match="given twice"):
        Client(mcp, extensions=[Ordering(), Ordering()])


def _advertised(elicitation_callback: Any) -> ClientExtension:
    return advertise(NAME, {"limit": 5})
