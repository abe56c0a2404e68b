"""State of servers of FastMCP: buckets of users and of ids, a store that the program gives, and arguments of calls."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from carrel.compat.fastmcp import Client, Context, FastMCP
from carrel.compat.fastmcp.dependencies import CallArgument, CycleError, Depends
from carrel.compat.fastmcp.exceptions import ToolError
from carrel.compat.fastmcp.server import dependencies
from carrel.compat.fastmcp.server.auth import StaticTokenVerifier
from carrel.compat.fastmcp.server.dependencies import resolve_dependencies
from carrel.compat.fastmcp.server.sessions import (
    SESSION_ID_DESCRIPTION,
    SessionId,
    SessionProvider,
    UserSession,
    get_session,
)
from carrel.compat.fastmcp.utilities.key_value import MemoryStore
from carrel.compat.fastmcp.utilities.tests import run_server_async


def shop(**options: Any) -> FastMCP[Any]:
    """Return a server that remembers what its users buy."""
    mcp: FastMCP[Any] = FastMCP("shop", providers=[SessionProvider()], **options)

    @mcp.tool
    async def buy(item: str, session_id: SessionId) -> list[str]:
        """Buy.

        Args:
            item: What to buy.
            session_id: Cart.
        """
        session = await get_session(session_id)
        await session.set("cart", [*await session.get("cart", []), item])
        found: list[str] = await session.get("cart")
        return found

    @mcp.tool
    async def like(item: str, session: UserSession) -> list[str]:
        await session.set("liked", [*await session.get("liked", []), item])
        found: list[str] = await session.get("liked")
        return found

    return mcp


async def test_a_session_keeps_state_until_it_ends_and_only_ids_that_were_created_work() -> None:
    assert dependencies.get_session is get_session
    async with Client(shop()) as client:
        first, second = [(await client.call_tool("create_session")).data for _ in range(2)]
        await client.call_tool("buy", {"item": "pear", "session_id": first})
        assert (await client.call_tool("buy", {"item": "fig", "session_id": first})).data == ["pear", "fig"]
        assert (await client.call_tool("buy", {"item": "nut", "session_id": second})).data == ["nut"]
        with pytest.raises(ToolError, match="Invalid or unknown session"):
            await client.call_tool("buy", {"item": "pear", "session_id": "made-up"})
        await client.call_tool("end_session", {"session_id": first})
        with pytest.raises(ToolError, match="Invalid or unknown session"):
            await client.call_tool("buy", {"item": "pear", "session_id": first})
        with pytest.raises(ToolError, match="UserSession requires an authenticated user"):
            await client.call_tool("like", {"item": "pear"})
        schemas = {each.name: each.inputSchema["properties"] for each in await client.list_tools()}
    assert list(schemas["like"]) == ["item"]
    assert schemas["buy"]["session_id"]["description"] == f"Cart.\n\n{SESSION_ID_DESCRIPTION}"
    assert schemas["end_session"]["session_id"]["description"] == SESSION_ID_DESCRIPTION


@pytest.mark.slow
async def test_no_user_reaches_the_state_of_another_user() -> None:
    tokens = {name: {"client_id": name, "scopes": []} for name in ("ada", "bob")}
    async with (
        run_server_async(shop(auth=StaticTokenVerifier(tokens))) as url,
        Client(url, auth="ada") as ada,
        Client(url, auth="bob") as bob,
    ):
        assert (await ada.call_tool("like", {"item": "fig"})).data == ["fig"]
        assert (await bob.call_tool("like", {"item": "nut"})).data == ["nut"]
        own = (await ada.call_tool("create_session")).data
        assert (await ada.call_tool("buy", {"item": "fig", "session_id": own})).data == ["fig"]
        with pytest.raises(ToolError, match="Invalid or unknown session"):
            await bob.call_tool("buy", {"item": "nut", "session_id": own})


async def test_a_store_of_the_program_keeps_sessions_and_the_state_of_contexts() -> None:
    store = MemoryStore()
    mcp = shop(session_state_store=store)

    @mcp.tool
    async def count(context: Context) -> int:
        number = (await context.get_state("count") or 0) + 1
        await context.set_state("count", number)
        return int(number)

    @mcp.tool
    async def forget(context: Context) -> None:
        await context.delete_state("count")

    async with Client(mcp) as client:
        own = (await client.call_tool("create_session")).data
        assert [(await client.call_tool("count")).data for _ in range(2)] == [1, 2]
        await client.call_tool("forget")
        assert (await client.call_tool("count")).data == 1
    async with Client(shop(session_state_store=store)) as client:
        assert (await client.call_tool("buy", {"item": "fig", "session_id": own})).data == ["fig"]


async def test_state_that_json_has_no_form_of_is_kept_for_the_request_alone() -> None:
    mcp: FastMCP[Any] = FastMCP("state")

    @mcp.tool
    async def keep(context: Context) -> bool:
        await context.set_state("it", context, serializable=False)
        kept = await context.get_state("it") is context
        await context.set_state("it", 1)
        return kept and await context.get_state("it") == 1

    @mcp.tool
    async def refuse(context: Context) -> None:
        await context.set_state("it", context)

    async with Client(mcp) as client:
        assert (await client.call_tool("keep")).data is True
        with pytest.raises(ToolError, match="serializable=False"):
            await client.call_tool("refuse")


async def test_dependencies_take_arguments_of_the_call_values_of_others_and_bindings() -> None:
    opened: list[str] = []

    def account(user: str, plan: str = Depends(lambda: "free")) -> str:
        opened.append(user)
        return f"{user}:{plan}"

    def audit(owner: str = CallArgument(), tenant: str = CallArgument("tenant", optional=True)) -> str:
        return f"{owner}/{tenant}"

    mcp: FastMCP[Any] = FastMCP("bindings")

    @mcp.tool
    def show(
        name: str,
        log: str = Depends(audit),
        owner: str = Depends(account, user=CallArgument("name"), plan="pro"),
    ) -> list[str]:
        return [name, owner, log]

    async with Client(mcp) as client:
        assert (await client.call_tool("show", {"name": "ada"})).data == ["ada", "ada:pro", "ada:pro/None"]
    assert opened == ["ada"]

    def left(right: str = CallArgument()) -> str:
        return right

    def right(left: str = CallArgument()) -> str:
        return left

    def both(left: str = Depends(left), right: str = Depends(right)) -> None:
        """Depend on each other."""

    with pytest.raises(CycleError, match="left -> right -> left"):
        async with resolve_dependencies(both, {}):
            pytest.fail("a circle has no values")


async def test_what_generators_yield_is_a_list_while_their_dependencies_are_open() -> None:
    mcp: FastMCP[Any] = FastMCP("generators")

    @asynccontextmanager
    async def opened() -> AsyncIterator[list[str]]:
        values = ["a", "b"]
        yield values
        values.clear()

    opening = Depends(opened)

    @mcp.tool
    async def asynchronous(values: list[str] = opening) -> AsyncIterator[str]:
        for each in values:
            yield each

    @mcp.tool
    def plain(values: list[str] = opening) -> Any:
        yield from values

    async with Client(mcp) as client:
        for name in ("asynchronous", "plain"):
            assert (await client.call_tool(name)).content[0].text == '["a","b"]'
