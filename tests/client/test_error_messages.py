"""What people see who use the client for the first time and get something wrong: words that say what to do."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from carrel import Client, Context, Server
from carrel.client.handlers import Handlers
from carrel.errors import AuthorizationError, ConfigError, HTTPStatusError, PeerError, RequestTimeout, TransportError
from carrel.protocol.encoding import encode
from carrel.security import StaticTokens
from carrel.security.server.static_tokens import make_token
from carrel.transports.client.options import HTTPOptions
from carrel.wire.content import ImageContent, TextContent
from carrel.wire.tools import CallToolResult
from support.http_process import free_port
from support.http_server import over_http
from support.servers.demo import LATEST, NOVEMBER, make_shelf

pytestmark = pytest.mark.slow


BOTH = pytest.mark.parametrize("revision", [NOVEMBER, LATEST])
SHOP = "http://127.0.0.1:1/mcp"


def make_curious() -> Server:
    """A server that asks whatever it can."""
    app = Server("curious")

    @app.tool()
    async def form(context: Context) -> str:
        return str(await context.elicit("Who?", str))

    @app.tool()
    async def page(context: Context) -> str:
        return str(await context.elicit_url("Please look", "https://example.org/"))

    @app.tool()
    async def model(context: Context) -> str:
        return str((await context.sample("Hello?", 10)).text)

    return app


# Where a server is


@pytest.mark.parametrize(
    ("target", "options", "words"),
    [
        ("python server.py", {}, r"a command is a list: \['python', 'server.py'\]"),
        (Path("server.py"), {}, r"a command is a list: \['python', 'server.py'\]"),
        (b"http://127.0.0.1/", {}, "not a bytes"),
        (Server, {}, "Server is a class"),
        (["python", 7], {}, "must be text or paths, not 7"),
        ([b"python"], {}, "must be text or paths"),
        (SHOP, {"log_level": "loud"}, "no log level 'loud'; they are debug, info"),
    ],
)
def test_an_invalid_server_or_option_is_an_error_at_once(target: Any, options: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        Client(target, **options)


@pytest.mark.parametrize(("auth", "words"), [("Bearer abc", "without 'Bearer' before it"), (7, "not int")])
def test_an_invalid_token_is_an_error_at_once(auth: Any, words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        HTTPOptions(auth=auth)


async def test_the_scheme_of_a_url_may_be_in_capitals() -> None:
    with over_http(make_shelf()) as origin:
        async with Client(f"{origin.replace('http', 'HTTP')}/mcp") as client:
            await client.ping()


async def test_a_server_that_is_not_there_is_said_to_refuse() -> None:
    url = f"http://127.0.0.1:{free_port()}/mcp"
    with pytest.raises(TransportError) as refused:
        await open_and_close(url)
    assert str(refused.value) == f"{url} cannot be reached: Connection refused"


async def test_a_server_without_tls_is_asked_about() -> None:
    with over_http(make_shelf()) as origin, pytest.raises(TransportError, match="Does it speak http: instead"):
        await open_and_close(f"{origin.replace('http', 'https')}/mcp")


async def test_a_page_that_is_no_server_is_asked_about() -> None:
    class Page(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.send_error(404)

        do_GET = do_POST  # noqa: N815

        def log_message(self, *_: Any) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Page) as site:
        thread = Thread(target=site.serve_forever, args=(0.01,))
        thread.start()
        try:
            with pytest.raises(HTTPStatusError, match=r"answered 404.*Is it the URL of an MCP server\?") as missing:
                await open_and_close(f"http://127.0.0.1:{site.server_port}/mcp")
            assert missing.value.status == 404
        finally:
            site.shutdown()
            thread.join()


async def test_the_wrong_path_of_a_server_is_corrected_by_it() -> None:
    with over_http(make_shelf()) as origin, pytest.raises(PeerError, match="The MCP endpoint is /mcp"):
        await open_and_close(f"{origin}/")


async def test_a_token_that_is_not_accepted_is_not_said_to_be_missing(tmp_path: Path) -> None:
    token, line = make_token("alice")
    (tmp_path / "tokens.txt").write_text(line)
    with over_http(make_shelf(), authorization=StaticTokens(tmp_path / "tokens.txt")) as origin:
        await open_and_close(f"{origin}/mcp", http=HTTPOptions(auth=token))
        with pytest.raises(AuthorizationError, match="did not accept the token that it was sent"):
            await open_and_close(f"{origin}/mcp", http=HTTPOptions(auth=token + "x"))
        with pytest.raises(AuthorizationError, match="requires authorization"):
            await open_and_close(f"{origin}/mcp")


async def test_a_program_that_is_silent_is_shown_with_what_it_wants() -> None:
    asks = "echo 'Ok to proceed? (y)' >&2; cat > /dev/null"
    with pytest.raises(RequestTimeout, match=r"is silent: no answer to initialize(?s:.)*Ok to proceed\? \(y\)"):
        await open_and_close(["sh", "-c", asks], timeout=2, patience=0.1)


@pytest.mark.parametrize(
    ("program", "expected"),
    [
        (
            "echo Listening; cat > /dev/null",
            'does not speak MCP.*"Listening"',
        ),
        (
            "echo Usage: x; exit 2",
            'exit status 2. It sent a line that is no message.*"Usage: x".$',
        ),
        ("echo out; echo err >&2; exit 1", '"out". Its standard error ends with:\nerr$'),
    ],
)
async def test_a_program_that_prints_something_else_than_messages_is_shown_with_it(program: str, expected: str) -> None:
    with pytest.raises(TransportError, match=expected):
        await open_and_close(["sh", "-c", program], timeout=2, patience=0.1)


async def test_a_package_that_is_missing_is_named_with_how_to_get_it(tmp_path: Path) -> None:
    (tmp_path / "aiohttp.py").write_text("raise ModuleNotFoundError(name='aiohttp')")
    script = f"import asyncio, carrel\nasync def run():\n async with carrel.Client({SHOP!r}): pass\nasyncio.run(run())"
    done = subprocess.run(
        [sys.executable, "-c", script],
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert "ConfigError: Connecting to a server over HTTP needs the package aiohttp" in done.stderr
    assert "pip install 'carrel[client]'" in done.stderr


async def open_and_close(target: Any, **options: Any) -> None:
    async with Client(target, **options):
        pass


# Servers in memory


async def test_a_server_in_memory_takes_several_clients_and_runs_until_the_last_has_gone() -> None:
    running: list[str] = []

    @asynccontextmanager
    async def lifespan(_: Server) -> AsyncIterator[None]:
        running.append("began")
        await asyncio.sleep(0)
        yield
        await asyncio.sleep(0)
        running.append("ended")

    app = Server("shared", lifespan=lifespan)
    app.resources.add("memo://1", "one")
    async with AsyncExitStack() as late:
        async with AsyncExitStack() as early:
            clients = [Client(app) for _ in range(3)]
            await asyncio.gather(*(early.enter_async_context(client) for client in clients[:2]))
            await late.enter_async_context(clients[2])
            assert [(await client.read_resource("memo://1")).contents[0].text for client in clients] == ["one"] * 3
        assert (await clients[2].read_resource("memo://1")).contents[0].text == "one"
        assert running == ["began"]
    assert running == ["began", "ended"]
    closing = Client(app)
    await closing.__aenter__()
    leaving = asyncio.create_task(closing.close())
    async with Client(app) as client:
        await leaving
        assert (await client.read_resource("memo://1")).contents[0].text == "one"
    assert running[-2:] == ["began", "ended"]
    assert running.count("began") == running.count("ended")


async def test_a_server_that_cannot_start_in_memory_can_be_tried_again() -> None:
    fails = [True]

    @asynccontextmanager
    async def lifespan(_: Server) -> AsyncIterator[None]:
        if fails:
            raise ConfigError("no database")
        yield

    app = Server("fragile", lifespan=lifespan)
    for _ in range(2):
        with pytest.raises(ConfigError, match="no database"):
            await open_and_close(app)
    fails.clear()
    await open_and_close(app)


async def test_a_server_that_runs_in_another_event_loop_is_not_shared() -> None:
    app = make_shelf()
    async with Client(app) as client:
        with pytest.raises(ConfigError, match="running already"):
            await asyncio.to_thread(asyncio.run, open_and_close(app))
        assert (await client.read_resource("memo://1")).contents[0].text == "memo 1"


# Watching and logging


@BOTH
async def test_a_watch_that_was_not_entered_does_not_wait_for_ever(revision: str) -> None:
    async with Client(make_shelf(), revision=revision) as client:
        with pytest.raises(ConfigError, match=r"async with client\.watch"):
            await asyncio.wait_for(anext(client.watch("memo://1")), 60)


@BOTH
async def test_invalid_arguments_of_a_watch_are_errors_at_once(revision: str) -> None:
    async with Client(make_shelf(), revision=revision) as client:
        uris: Any = ["memo://1"]
        with pytest.raises(ConfigError, match=r"client\.watch\(\*uris\)"):
            client.watch(uris)
        wrong: Any = ["resource"]
        with pytest.raises(ConfigError, match="unknown: resource; they are prompts, resources, tools"):
            client.watch(lists=wrong)


@BOTH
async def test_a_log_level_that_does_not_exist_leaves_the_client_as_it_was(revision: str) -> None:
    async with Client(make_shelf(), revision=revision) as client:
        wrong: Any = "loud"
        with pytest.raises(ConfigError, match="no log level 'loud'"):
            await client.set_log_level(wrong)
        assert (await client.read_resource("memo://1")).contents[0].text == "memo 1"


# Handlers


@pytest.mark.parametrize(("tool", "option"), [("form", "elicit_form"), ("page", "elicit_url"), ("model", "sample")])
@pytest.mark.parametrize("answer", [lambda _: "yes", None])
async def test_a_handler_that_is_none_says_what_it_has_to_be(tool: str, option: str, answer: Any) -> None:
    async def wrong(_: Any) -> Any:
        return 7

    words = f"{option} must be an async function" if answer else f"{option} returned int; it returns"
    async with Client(make_curious(), revision=LATEST, handlers=Handlers(**{option: answer or wrong})) as client:  # type: ignore[arg-type]
        with pytest.raises(ConfigError, match=words):
            await client.call_tool(tool)


@pytest.mark.parametrize(("tool", "option"), [("form", "elicit_form"), ("page", "elicit_url"), ("model", "sample")])
async def test_in_a_session_the_log_says_what_was_wrong_with_a_handler_and_the_server_does_not_learn_it(
    tool: str, option: str, caplog: pytest.LogCaptureFixture
) -> None:
    handler: Any = lambda _: "yes"  # noqa: E731
    async with Client(make_curious(), revision=NOVEMBER, handlers=Handlers(**{option: handler})) as client:  # type: ignore[arg-type]
        result: Any = await client.call_tool(tool)
    assert result.is_error is True
    assert "async" not in result.content[0].text
    assert f"{option} must be an async function" in caplog.text


async def test_a_page_is_agreed_to_by_nothing_but_true() -> None:
    async def show(_: Any) -> Any:
        return "no"

    async with Client(make_curious(), revision=LATEST, handlers=Handlers(elicit_url=show)) as client:
        with pytest.raises(ConfigError, match="True if the user agreed"):
            await client.call_tool("page")


async def test_the_address_of_the_server_is_shown_to_users_without_secrets() -> None:
    shown: list[str] = []

    async def fill_in(form: Any) -> None:
        shown.append(form.server)

    app = make_curious()
    async with Client(app, handlers=Handlers(elicit_form=fill_in)) as client:
        await client.call_tool("form")
    with over_http(app) as origin:
        async with Client(f"{origin}/mcp?key=secret", handlers=Handlers(elicit_form=fill_in)) as client:
            await client.call_tool("form")
    assert shown == ["curious (in memory)", f"curious ({origin}/mcp)"]


def test_the_text_of_a_result_is_there_without_looking_at_each_block() -> None:
    picture = ImageContent(b"", "image/png")
    result = CallToolResult(content=[TextContent("one"), picture, TextContent("two")])
    assert result.text == "one\ntwo"
    assert CallToolResult(content=[picture]).text == ""
    assert b'"one\\ntwo"' not in encode(result)
