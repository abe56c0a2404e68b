"""Mistakes of authors: each is refused at the earliest moment, in the words that are listed here."""

from __future__ import annotations

import pathlib
from collections.abc import Callable
from typing import Any

import pytest

from carrel import Context, Depends, Image, Server
from carrel.errors import ConfigError
from carrel.server.middleware import Caching
from carrel.transports import memory
from support.memory_client import error, result


def greet(name: str) -> str:
    """Greet somebody."""
    return f"Hello, {name}"


def twice(app: Any) -> None:
    app.tool(greet)
    app.tool(greet)


def prompt_twice(app: Any) -> None:
    app.prompt(greet)
    app.prompt(greet)


def resource_twice(app: Any) -> None:
    app.resources.add("x://1", "")
    app.resources.add("x://1", "")


def template_twice(app: Any) -> None:
    app.resource("x://{name}")(greet)
    app.resource("x://{name}")(greet)


def unannotated(name: str, ctx) -> str:  # type: ignore[no-untyped-def]
    return name


def with_none() -> None: ...


def incomplete(x: int) -> int:
    return x


def depending(y: int = Depends(incomplete)) -> int:
    return y


URI = 'A resource needs a URI: write @app.resource("scheme://path")'
TOOL_NAME = "it has 1 to 128 letters (A-Z, a-z), digits, and any of _ - . /"
MISTAKES: list[tuple[Callable[[Any], Any], str]] = [
    # Decorators
    (lambda app: app.resource(greet), URI),
    (lambda app: app.resource(), URI),
    (lambda app: app.tool(42), "A tool is a function, not 42 (int)"),
    (lambda app: app.prompt(42), "A prompt is a function, not 42 (int)"),
    (lambda app: app.tool(titel="x")(greet), "@app.tool has no option 'titel'; did you mean 'title'?"),
    (
        lambda app: app.prompt(descripton="x")(greet),
        "@app.prompt has no option 'descripton'; did you mean 'description'?",
    ),
    (
        lambda app: app.resource("x://y", mimetype="x"),
        "@app.resource has no option 'mimetype'; did you mean 'mime_type'?",
    ),
    (
        lambda app: app.prompt(greet).complete(greet),
        'greet: name the argument to complete: write @greet.complete("name")',
    ),
    (lambda app: app.prompt(greet).complete("nam"), "greet: there is no 'nam' to complete; there are ['name']"),
    # Names
    (lambda app: app.tool(lambda: 1), "A lambda has no name; give the tool one with name="),
    (lambda app: app.tool("bad name!")(greet), f"'bad name!' is not the name of a tool: {TOOL_NAME}"),
    (lambda app: app.tool("")(greet), f"'' is not the name of a tool: {TOOL_NAME}"),
    (lambda app: app.prompt("a\nb")(greet), "'a\\nb' is not the name of a prompt: it has to be printable text"),
    (twice, "There is a tool greet already"),
    (prompt_twice, "There is a prompt greet already"),
    (resource_twice, "There is a resource x://1 already; use replace to change it"),
    (template_twice, "There is a template x://{name} already"),
    # Functions
    (
        lambda app: app.tool(unannotated),
        "The tool unannotated: Parameter ctx of unannotated is not annotated, and so would be an argument of the "
        "caller's; write ctx: Context (from carrel import Context)",
    ),
    (
        lambda app: app.prompt(with_none),
        "The prompt with_none is annotated to return None; "
        "a prompt returns text, a content block, PromptMessages or a list of these",
    ),
    (
        lambda app: app.resource("x://{title}")(greet),
        "x://{title}: the variables are ['title'], but the function takes ['name']",
    ),
    (
        lambda app: app.tool(unknown_arguments="drop")(greet),
        "The tool greet: unknown_arguments must be 'reject' or 'ignore', not 'drop'",
    ),
    # Values
    (lambda app: app.tools.add(greet, titel="x"), "tools.add() has no option 'titel'; did you mean 'title'?"),
    (lambda app: app.prompts.add(greet, tag="x"), "prompts.add() has no option 'tag'; did you mean 'tags'?"),
    (lambda app: app.resources.add("x://1", "", sise=1), "resources.add() has no option 'sise'; did you mean 'size'?"),
    (lambda app: app.resources.add("x://1", pathlib.Path("/no/such")), "x://1: there is no file /no/such"),
    (
        lambda app: app.resources.add("no uri", ""),
        "'no uri' is not a URI: a URI begins with a scheme and a colon, as in file: or https:",
    ),
    (lambda app: Image(), "Image takes the path of a file, or data=, which are bytes"),
    (
        lambda app: app.add_provider(42),
        "A provider is a Provider, a Server, a path or a URL, not a int; "
        "a client is added as carrel.host.RemoteProvider(client)",
    ),
    (
        lambda app: app.tool(when=True)(with_none),
        "when is a function of the context, not True: write when=lambda context: …",
    ),
    (
        lambda app: app.tool(depending),
        "The tool depending: the parameter x of the dependency incomplete is neither a "
        "Context nor a dependency, and has no default",
    ),
    (lambda app: Caching(tools="forecast"), "tools are a list of names: write tools=['forecast']"),
    # The server, and running it
    (
        lambda app: Server("s", limits={"max_sessions": 1}),  # type: ignore[arg-type]
        "limits are Limits(…) (from carrel import Limits), not {'max_sessions': 1}",
    ),
    (lambda app: setattr(app, "limits", 3), "limits are Limits(…) (from carrel import Limits), not 3"),
    (
        lambda app: Server("s", lifespan=3),  # type: ignore[arg-type]
        "lifespan is a function that returns an async context manager, not 3",
    ),
    (lambda app: Server(""), "A server needs a name"),
    (lambda app: Server("s", instuctions="x"), "Server() has no option 'instuctions'; did you mean 'instructions'?"),  # type: ignore[call-arg]
    (lambda app: Server("s", ttl=-1), "ttl must be 0 or more seconds, not -1"),
    (lambda app: app.run("htp"), "transport must be 'stdio', 'http', 'streamable-http', 'sse', not 'htp'"),
    (lambda app: app.run("http", prot=1), "run() has no option 'prot'; did you mean 'port'?"),
    (lambda app: app.run("stdio", port=1), "stdio takes no options but log_level: port"),
    (
        lambda app: app.run("http", log_level="loud"),
        "log_level must be debug, info, warning, error, critical, not 'loud'",
    ),
]


@pytest.mark.parametrize(("make", "message"), MISTAKES, ids=[message[:60] for _, message in MISTAKES])
def test_a_mistake_is_refused_in_these_words(make: Callable[[Any], Any], message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        make(Server("s"))
    assert str(caught.value) == message


async def test_a_prompt_that_returns_none_says_so_in_the_log(caplog: pytest.LogCaptureFixture) -> None:
    app = Server("s")

    @app.prompt
    def nothing():  # type: ignore[no-untyped-def]
        return None

    async with memory.connect(app) as peer:
        assert (await error(peer, "prompts/get", name="nothing"))["code"] == -32603
    assert "The prompt nothing has returned None; a prompt returns text" in caplog.text


async def test_every_decorator_is_written_with_or_without_parentheses() -> None:
    app = Server("s")
    called: list[str] = []

    @app.tool
    def one() -> str:
        return "1"

    @app.tool()
    def two(context: Context) -> str:
        return "2"

    @app.prompt
    def three() -> str:
        return "3"

    @app.prompt()
    def four() -> str:
        return "4"

    @app.on_startup
    def started() -> None:
        called.append("bare")

    @app.on_startup()
    def started_too() -> None:
        called.append("called")

    @app.middleware()
    async def around(call: Any, next: Any) -> Any:
        called.append("middleware")
        return await next(call)

    async with memory.connect(app) as peer:
        assert [tool["name"] for tool in (await result(peer, "tools/list"))["tools"]] == ["one", "two"]
        assert [each["name"] for each in (await result(peer, "prompts/list"))["prompts"]] == ["four", "three"]
    assert called[:2] == ["bare", "called"]
    assert "middleware" in called


async def test_a_function_can_be_a_tool_and_a_prompt() -> None:
    app = Server("s")

    @app.tool()
    @app.prompt()
    async def both(name: str) -> str:
        """Greet somebody."""
        return f"Hello, {name}"

    async with memory.connect(app) as peer:
        found = await result(peer, "tools/call", name="both", arguments={"name": "Ada"})
        assert found["content"][0]["text"] == "Hello, Ada"
        found = await result(peer, "prompts/get", name="both", arguments={"name": "Ada"})
        assert found["messages"][0]["content"]["text"] == "Hello, Ada"
