"""Dependencies of handlers: made for each call, hidden from clients, closed at its end."""

from __future__ import annotations

import asyncio
import logging
import sys
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Annotated, Any

import pytest

from carrel import Client, Context, Depends, Server
from carrel.errors import ConfigError


class Database:
    """Connection that notes what is done with it."""

    def __init__(self) -> None:
        self.notes: list[str] = []


EVENTS: list[str] = []


@pytest.fixture(autouse=True)
def no_events() -> None:
    EVENTS.clear()


def plain() -> str:
    assert threading.current_thread() is not threading.main_thread()
    return "plain"


async def waiting() -> str:
    await asyncio.sleep(0)
    return "waiting"


def generator() -> Iterator[str]:
    EVENTS.append("open")
    try:
        yield "generator"
    finally:
        EVENTS.append("close")


async def async_generator() -> AsyncIterator[str]:
    EVENTS.append("open")
    try:
        yield "async generator"
    finally:
        EVENTS.append("close")


@contextmanager
def manager() -> Iterator[str]:
    EVENTS.append("open")
    yield "manager"
    EVENTS.append("close")


@asynccontextmanager
async def async_manager() -> AsyncIterator[str]:
    EVENTS.append("open")
    yield "async manager"
    EVENTS.append("close")


class Connection:
    """Class that is a context manager: the call has made it, so the call closes it."""

    def __enter__(self) -> str:
        EVENTS.append("open")
        return "class"

    def __exit__(self, *error: object) -> None:
        EVENTS.append("close")


async def text(app: Server, name: str, **arguments: Any) -> str:
    async with Client(app) as client:
        result = await client.call_tool(name, arguments)
        return result.content[0].text  # type: ignore[union-attr]


KINDS = {
    "plain": plain,
    "waiting": waiting,
    "generator": generator,
    "async generator": async_generator,
    "manager": manager,
    "async manager": async_manager,
    "class": Connection,
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("sync", [True, False])
async def test_a_dependency_is_made_for_a_call_and_closed_after_it(kind: str, sync: bool) -> None:
    app = Server("s")
    make = KINDS[kind]

    def in_thread(x: int, value: str = Depends(make)) -> str:
        EVENTS.append("call")
        return f"{value} {x}"

    async def in_loop(x: int, value: str = Depends(make)) -> str:
        EVENTS.append("call")
        return f"{value} {x}"

    app.tools.add(in_thread if sync else in_loop, name="t")
    assert await text(app, "t", x=5) == f"{kind} 5"
    expected = ["call"] if kind in ("plain", "waiting") else ["open", "call", "close"]
    assert expected == EVENTS


async def test_clients_neither_see_a_dependency_nor_can_give_it() -> None:
    app = Server("s")

    @app.tool
    async def search(query: str, db: Annotated[Database, Depends(Database)], other: Any = Depends(waiting)) -> str:
        """Search.

        Args:
            query: words
        """
        return f"{type(db).__name__} {other} {query}"

    async with Client(app) as client:
        (tool,) = await client.list_tools()
        assert list(tool.input_schema["properties"]) == ["query"]
        assert tool.input_schema["required"] == ["query"]
        assert (await client.call_tool("search", {"query": "x"})).content[0].text == "Database waiting x"
        refused = await client.call_tool("search", {"query": "x", "db": 1})
        assert refused.is_error
        assert "db" in refused.content[0].text


async def test_a_call_shares_one_value_and_each_call_has_its_own() -> None:
    app = Server("s")
    made: list[Database] = []

    async def open_db() -> Database:
        made.append(Database())
        return made[-1]

    async def user(db: Database = Depends(open_db)) -> Database:
        return db

    @app.tool
    async def same(
        first: Database = Depends(open_db),
        second: Database = Depends(user),
        third: Database = Depends(open_db, use_cache=False),
    ) -> str:
        return f"{first is second} {first is third}"

    assert await text(app, "same") == "True False"
    assert len(made) == 2
    await text(app, "same")
    assert len(made) == 4


async def test_dependencies_get_the_context_and_are_closed_in_reverse_order() -> None:
    app = Server("s")

    async def outer(context: Context) -> AsyncIterator[str]:
        EVENTS.append(f"open outer {context.request_id is not None}")
        yield "outer"
        EVENTS.append("close outer")

    def inner(value: str = Depends(outer)) -> Iterator[str]:
        EVENTS.append("open inner")
        yield f"{value} inner"
        EVENTS.append("close inner")

    @app.tool
    async def nested(context: Context, value: str = Depends(inner)) -> str:
        return f"{value} {context.revision}"

    assert (await text(app, "nested")).startswith("outer inner 20")
    assert EVENTS == ["open outer True", "open inner", "close inner", "close outer"]


async def test_dependencies_are_closed_when_the_handler_fails_and_see_its_error() -> None:
    app = Server("s")

    async def transaction() -> AsyncIterator[None]:
        try:
            yield
            EVENTS.append("commit")
        except ValueError as error:
            EVENTS.append(f"rollback {error}")

    @app.tool
    async def fail(_: None = Depends(transaction)) -> str:
        raise ValueError("no")

    assert "no" in await text(app, "fail"), "the error is that of the call, even where a dependency swallows it"
    assert EVENTS == ["rollback no"]


async def test_dependencies_are_closed_when_the_call_is_cancelled() -> None:
    app = Server("s")
    begun, closed = asyncio.Event(), asyncio.Event()

    async def resource() -> AsyncIterator[int]:
        try:
            yield 1
        finally:
            closed.set()

    @app.tool
    async def wait(_: int = Depends(resource)) -> None:
        begun.set()
        await asyncio.Event().wait()

    async with Client(app) as client:
        calling = asyncio.ensure_future(client.call_tool("wait", {}))
        await begun.wait()
        calling.cancel()
        await asyncio.wait_for(closed.wait(), 60)
        await asyncio.gather(calling, return_exceptions=True)


async def test_an_error_of_a_dependency_is_one_of_the_call_and_the_log_names_it(caplog: Any) -> None:
    app = Server("s")

    def broken() -> None:
        raise OSError("no database")

    @app.tool
    async def use(_: None = Depends(broken)) -> str:
        return ""

    with caplog.at_level(logging.ERROR, "carrel"):
        assert "no database" in await text(app, "use")
    notes = getattr(caplog.records[0].exc_info[1], "__notes__", [])
    assert len(notes) == 1
    assert "broken of tool use" in notes[0]


async def test_resources_templates_and_prompts_have_dependencies() -> None:
    app = Server("s")

    @app.resource("x://static")
    async def static(value: str = Depends(waiting)) -> str:
        return value

    @app.resource("x://{name}/there")
    def template(name: str, value: str = Depends(generator)) -> str:
        return f"{value} {name}"

    @app.prompt
    async def prompt(topic: str, value: str = Depends(waiting)) -> str:
        return f"{value} {topic}"

    async with Client(app) as client:
        assert (await client.read_resource("x://static")).contents[0].text == "waiting"
        assert (await client.read_resource("x://a/there")).contents[0].text == "generator a"
        assert [argument.name for argument in (await client.list_prompts())[0].arguments or []] == ["topic"]
        found = await client.get_prompt("prompt", {"topic": "cats"})
        assert found.messages[0].content.text == "waiting cats"
    assert EVENTS == ["open", "close"]


async def test_overrides_stand_in_for_dependencies() -> None:
    app = Server("s")

    @app.tool
    async def use(value: str = Depends(generator)) -> str:
        return value

    app.dependency_overrides[generator] = lambda: "fake"
    assert await text(app, "use") == "fake"
    app.dependency_overrides.clear()
    assert await text(app, "use") == "generator"


def test_mistakes_are_refused_at_registration() -> None:
    app = Server("s")

    def wants(what: str) -> str:
        return what

    async def takes(value: str = Depends(wants)) -> None: ...

    with pytest.raises(ConfigError, match=r"parameter what of the dependency .*wants is neither a Context nor"):
        app.tools.add(takes)
    with pytest.raises(ConfigError, match="without calling it"):
        Depends("db")  # type: ignore[arg-type]


def test_handlers_without_dependencies_have_no_plan() -> None:
    app = Server("s")

    @app.tool
    async def simple(x: int) -> int:
        return x

    entry = app.tools.entries.get("simple")
    assert entry is not None
    assert entry.function.immediate
    assert entry.function._plan is None
    assert sys.modules["carrel"].Depends is Depends
