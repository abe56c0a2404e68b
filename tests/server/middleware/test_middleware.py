"""Middleware objects: a hook for each method, on servers and on mounted servers."""

from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any

import pytest

from carrel import Client, Server
from carrel.errors import ConfigError, InvalidParams, PeerError, ToolError
from carrel.protocol.extension import Extension
from carrel.protocol.methods import RequestType
from carrel.transports import memory
from carrel.types import Call, Middleware, Next
from carrel.wire.base import Params, Result
from carrel.wire.content import TextContent
from carrel.wire.resources import ReadResourceResult, Resource
from carrel.wire.tools import CallToolResult, Tool


class Recorder(Middleware):
    """Records what it sees, and changes results."""

    def __init__(self, name: str, seen: list[str]) -> None:
        self.name = name
        self.seen = seen

    async def on_request(self, call: Call, next: Next) -> Any:
        self.seen.append(f"{self.name} {call.method}")
        return await next(call)

    async def on_call_tool(self, call: Call, next: Next[CallToolResult]) -> CallToolResult:
        self.seen.append(f"{self.name} calls {call.params.name}")
        result = await next(call)
        result.content.append(TextContent(self.name))
        return result

    async def on_list_tools(self, call: Call, next: Next) -> Any:
        result = await next(call)
        result.tools = [Tool(name=tool.name, input_schema=tool.input_schema, title="T") for tool in result.tools]
        return result

    async def on_read_resource(self, call: Call, next: Next[ReadResourceResult]) -> ReadResourceResult:
        self.seen.append(f"{self.name} reads {call.params.uri}")
        return await next(call)


def library() -> Server:
    app = Server("library")
    app.resources.add("memo://1", "one")

    @app.tool
    async def add(a: int, b: int) -> str:
        return str(a + b)

    @app.prompt
    async def greet(name: str) -> str:
        return f"Hello {name}"

    @app.resource("book://{title}")
    async def book(title: str) -> str:
        return title

    @book.complete("title")
    async def titles(value: str) -> list[str]:
        return ["Solaris"]

    return app


def texts(result: Any) -> list[str]:
    return [block.text for block in result.content]


async def test_hooks_run_around_the_requests_of_their_method() -> None:
    app, seen = library(), list[str]()
    app.middleware(Recorder("one", seen))
    async with Client(app) as client:
        seen.clear()
        assert texts(await client.call_tool("add", {"a": 1, "b": 2})) == ["3", "one"]
        assert seen == ["one tools/call", "one calls add"]
        assert [tool.title for tool in await client.list_tools()] == ["T"]
        seen.clear()
        await client.get_prompt("greet", {"name": "Ada"})
        assert seen == ["one prompts/get"]


def test_a_hook_with_a_wrong_name_and_a_class_of_middleware_are_errors() -> None:
    with pytest.raises(ConfigError, match="Wrong: there is no hook 'on_call_tools': the hooks are on_call_tool, "):
        type("Wrong", (Middleware,), {"on_call_tools": Recorder.on_call_tool})
    app = Server("app")
    for register in (app.middleware, app.middleware("tools/call")):
        with pytest.raises(ConfigError, match=r"write Recorder\(…\)"):
            register(Recorder)
    assert app.middlewares("tools/call") == []


async def test_a_server_with_middleware_for_a_method_that_does_not_exist_does_not_start() -> None:
    async def through(call: Call, next: Next) -> Any:
        return await next(call)

    app = Server("app")
    app.middleware("tools/call", "skills/list", "tasks/update")(through)  # of extensions that it does not use
    async with memory.connect(app):
        with pytest.raises(
            ConfigError, match="'resource/read': there is no such method; did you mean 'resources/read'"
        ):
            app.middleware("resource/read")(through)
    app = Server("app")
    app.middleware("tools/cal")(through)
    app.middleware("notes/get")(through)
    row = RequestType("notes/get", "get_note", Params, Result)
    app.extend(Extension(name="com.example/notes", requests={row.method: row}), {"get_note": lambda *_: Result()})
    with pytest.raises(
        ConfigError, match="Middleware for 'tools/cal': there is no such method; did you mean 'tools/call'"
    ):
        async with memory.connect(app):
            pass


async def test_the_middleware_of_a_mounted_server_runs_around_its_own_items_with_its_own_names() -> None:
    app, inner, seen = library(), library(), list[str]()
    inner.name = "inner"
    app.middleware(Recorder("outer", seen))
    inner.middleware(Recorder("inner", seen))
    app.add_provider(inner, namespace="ns")
    async with Client(app) as client:
        seen.clear()
        assert texts(await client.call_tool("ns_add", {"a": 1, "b": 2})) == ["3", "inner", "outer"]
        assert seen == ["outer tools/call", "outer calls ns_add", "inner tools/call", "inner calls add"]
        seen.clear()
        assert (await client.read_resource("ns+memo://1")).contents[0].text == "one"
        assert seen[1:] == ["outer reads ns+memo://1", "inner resources/read", "inner reads memo://1"]
        seen.clear()
        assert texts(await client.call_tool("add", {"a": 1, "b": 2})) == ["3", "outer"]
        assert seen == ["outer tools/call", "outer calls add"]
        assert {tool.name for tool in await client.list_tools()} == {"add", "ns_add"}
        await client.get_prompt("ns_greet", {"name": "Ada"})
        assert seen[-1] == "inner prompts/get"
        assert {item.uri for item in await client.list_resources()} == {"memo://1", "ns+memo://1"}
        assert seen[-1] == "inner resources/list"


async def test_middleware_of_a_mounted_server_may_answer_change_parameters_and_raise() -> None:
    app, inner = Server("outer"), library()

    @inner.middleware("tools/call")
    async def change(call: Any, next: Any) -> Any:
        if call.params.arguments is not None and b"13" in bytes(call.params.arguments):
            raise ToolError("unlucky")
        return await next(call)

    @inner.middleware("resources/read")
    async def refuse(call: Any, next: Any) -> Any:
        raise InvalidParams("closed")

    @inner.middleware("resources/list")
    async def more(call: Any, next: Any) -> Any:
        result = await next(call)
        result.resources.append(Resource("memo://2", "two"))
        return result

    app.add_provider(inner)
    async with Client(app) as client:
        assert texts(await client.call_tool("add", {"a": 1, "b": 2})) == ["3"]
        unlucky = await client.call_tool("add", {"a": 1, "b": 13})
        assert (unlucky.is_error, texts(unlucky)) == (True, ["unlucky"])
        with pytest.raises(PeerError, match="closed"):
            await client.read_resource("memo://1")
        assert [item.uri for item in await client.list_resources()] == ["memo://1", "memo://2"]


async def test_a_tool_error_of_a_provider_is_a_result_beside_other_providers_and_in_middleware() -> None:
    from carrel.catalog.provider import Provider

    class Failing(Provider):
        name = "failing"
        tool_names = frozenset({"fail"})

        async def call_tool(self, name: str, arguments: Any, request: Any) -> Any:
            raise ToolError("No.")

        async def list_tools(self, request: Any) -> Any:
            from carrel.catalog.provider import Page

            return Page([Tool(name="fail", input_schema={"type": "object"})])

    for seen in (None, list[bool]()):
        app = library()
        app.add_provider(Failing())
        if seen is not None:

            @app.middleware("tools/call")
            async def look(call: Any, next: Any, seen: list[bool] = seen) -> Any:
                result = await next(call)
                seen.append(result.is_error)
                return result

        async with Client(app) as client:
            result = await client.call_tool("fail", {})
            assert (result.is_error, texts(result)) == (True, ["No."])
            assert seen in (None, [True])


async def test_middleware_runs_around_requests_of_extensions_that_are_added_later() -> None:
    app, seen = library(), list[str]()
    app.middleware(Recorder("one", seen))
    app.skills()
    async with Client(app) as client:
        seen.clear()
        await client.skills.list_skills()
        assert "one skills/list" in seen


async def test_requests_of_an_extension_of_a_mounted_server_run_inside_its_middleware() -> None:
    row = RequestType("notes/get", "get_note", Params, Result)
    app, inner, seen = Server("outer"), Server("inner"), list[str]()
    inner.extend(Extension(name="com.example/notes", requests={row.method: row}), {"get_note": lambda *_: Result()})
    app.middleware(Recorder("outer", seen))
    app.add_provider(inner)
    inner.middleware(Recorder("inner", seen))
    async with memory.connect(app) as peer:
        assert "result" in await peer.request("notes/get")
    assert seen[-2:] == ["outer notes/get", "inner notes/get"]


async def test_requests_for_skills_of_a_mounted_server_run_inside_its_middleware(tmp_path: Path) -> None:
    (tmp_path / "tea").mkdir()
    (tmp_path / "tea" / "SKILL.md").write_text("---\nname: tea\ndescription: Makes tea\n---\nHot water.")
    app, inner, seen = Server("outer"), Server("inner"), list[str]()
    inner.skills(tmp_path)
    inner.middleware(Recorder("inner", seen))
    app.add_provider(inner, namespace="ns")
    async with Client(app) as client:
        (skill,) = await client.skills.list_skills()
        assert (await client.skills.get_skill(skill.uri)).uri == skill.uri
        listed = await client.list_directory(skill.uri.removesuffix("/SKILL.md"))
    assert [each.uri for each in listed] == [skill.uri]
    assert seen[-3:] == ["inner skills/list", "inner skills/get", "inner resources/directory/read"]


async def test_a_function_without_the_two_parameters_is_rejected_with_the_right_form() -> None:
    app = Server("x")

    async def alone(call: Call) -> Any: ...

    with pytest.raises(ConfigError, match=r"^The middleware alone is called with a call and next: write alone\(call, "):
        app.middleware(alone)  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="function of a call and next, or a Middleware object, not a "):
        app.middleware(3)  # type: ignore[call-overload]

    @app.middleware
    async def everything(*arguments: Any) -> Any:
        call, next = arguments
        return await next(call)

    async with Client(app) as client:
        await client.ping()


async def test_middleware_is_not_told_of_a_folder_that_begins_to_watch(tmp_path: Path) -> None:
    """A provider reports an empty batch when it begins to watch: nothing has changed."""
    (tmp_path / "plan.md").write_text("Buy wine.")
    told: list[tuple[list[str], list[str]]] = []

    class Changes(Middleware):
        def on_change(self, uris: Sequence[str], lists: Collection[str]) -> None:
            told.append((list(uris), list(lists)))

    app = library()
    app.middleware(Changes())
    app.add_provider(tmp_path)
    async with Client(app) as client, client.watch(tmp_path.as_uri() + "/plan.md", "memo://1") as changes:
        app.resources.changed("memo://1")
        await anext(changes)
    assert told[-1] == (["memo://1"], [])
    assert ([], []) not in told
