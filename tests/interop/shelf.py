"""What ``carrel.Client`` does with the shelves in ``servers``: one and the same server, by SDKs that we did not write.

A test class takes the parts that its SDK can be asked for, and names the connections to try: transport, and the
revision to insist on or None.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import subprocess
from collections.abc import AsyncIterator, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from carrel import Client
from carrel.client import handlers
from carrel.client.handlers import ClientCall, Form, Handlers
from carrel.errors import PeerError, RequestTimeout, ResourceNotFound
from carrel.protocol.methods import LIST_RESOURCES
from carrel.transports.client.options import ProcessOptions
from carrel.wire.base import PageParams
from carrel.wire.completion import PromptReference, ResourceTemplateReference
from support.parties import node_modules, node_program, python_program

SERVERS = Path(__file__).parent / "servers"
#: Seconds that anything may take.
PATIENCE = 60.0

in_one_loop = pytest.mark.asyncio(loop_scope="class")


def over(*connections: tuple[str, str | None]) -> Any:
    """Run the tests of a class on each of these connections."""
    names = [transport + (f"-{revision}" if revision else "") for transport, revision in connections]
    return pytest.mark.parametrize("client", connections, ids=names, indirect=True, scope="class")


def program(name: str, *arguments: str) -> tuple[list[str], dict[str, str]]:
    """Return the command of a server in ``servers``, and the variables that it needs."""
    path = next(SERVERS.glob(f"{name}.*"))
    if path.suffix == ".cjs":
        return [node_program(), str(path), *arguments], {"NODE_PATH": str(node_modules())}
    return python_program("1" if name == "python_sdk_1" else "2", str(path), *arguments), {}


@contextlib.contextmanager
def serving(command: Sequence[str], env: dict[str, str]) -> Iterator[str]:
    """Start a server that prints its URL."""
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=env or None) as process:
        assert process.stdout is not None
        try:
            yield process.stdout.readline().strip()
        finally:
            process.kill()


class Seen:
    """What a server has asked and said, and what it is answered."""

    def __init__(self) -> None:
        self.logs: asyncio.Queue[tuple[str, Any]] = asyncio.Queue()

    async def fill(self, form: Form) -> dict[str, Any]:
        assert form.message == "What is your name?"
        return {"name": "Ada"}

    async def sample(self, params: handlers.Sampling) -> str:
        assert params.max_tokens == 10
        return "Something."

    def take_log(self, message: Any) -> None:
        self.logs.put_nowait((message.level, message.data))

    def options(self) -> dict[str, Any]:
        return {
            "handlers": Handlers(
                elicit_form=self.fill, sample=self.sample, roots=["file:///work/books", "file:///work/maps"]
            ),
            "log": self.take_log,
            "timeout": PATIENCE,
        }


@pytest_asyncio.fixture(scope="class", loop_scope="class")
async def client(request: pytest.FixtureRequest) -> AsyncIterator[Client]:
    """A client of the shelf that the test class names, on one of its connections."""
    transport, revision = request.param
    shelf = request.cls
    command, env = program(*shelf.server.split())
    shelf.seen = Seen()
    shelf.revision = revision or shelf.newest
    async with contextlib.AsyncExitStack() as stack:
        if transport == "http":
            url = stack.enter_context(serving([*command, "http"], env))
            client = Client(url, revision=revision, **shelf.seen.options())
        else:
            client = Client(
                [*command, "stdio"], process=ProcessOptions(env=env), revision=revision, **shelf.seen.options()
            )
        yield await stack.enter_async_context(client)


class Shelf:
    """What every shelf has."""

    #: The program in ``servers``, and its arguments.
    server: str
    #: The newest revision that the server speaks.
    newest: str
    #: How many of its resources are on a page.
    page: int = 2
    #: What it says of a resource that is not there.
    missing: type[Exception] | tuple[type[Exception], ...] = ResourceNotFound
    #: The code of the error for a tool that is not there; None if that is a tool that fails.
    unknown: int | None = -32602
    instructions: str | None = "Read quietly."
    #: Set by ``client``.
    revision: str
    seen: Seen

    @in_one_loop
    async def test_the_newest_revision_of_both_is_spoken(self, client: Client) -> None:
        assert client.revision == self.revision
        assert client.server is not None
        assert (client.server.name, client.server.version) == ("shelf", "1.0")
        assert client.instructions == self.instructions
        await client.ping()

    @in_one_loop
    async def test_resources_are_listed_over_all_pages(self, client: Client) -> None:
        resources = await client.list_resources()
        assert [(resource.uri, resource.name) for resource in resources] == [
            ("memo://text", "text"),
            ("memo://blob", "blob"),
            ("memo://count", "count"),
        ]
        assert [resource.mime_type for resource in resources[:2]] == ["text/plain", "application/octet-stream"]
        first = await client.session.request(ClientCall(LIST_RESOURCES, PageParams()))
        assert (len(first.resources), first.next_cursor is None) == (self.page, self.page == len(resources))
        templates = [template.uri_template async for template in client.list_resource_templates()]
        assert templates == ["book://{author}/{title}"]

    @in_one_loop
    async def test_text_bytes_and_templates_are_read(self, client: Client) -> None:
        [text] = (await client.read_resource("memo://text")).contents
        assert (text.uri, text.text, text.mime_type) == ("memo://text", "Plain text: 糖尿病", "text/plain")
        [blob] = (await client.read_resource("memo://blob")).contents
        assert (blob.blob, blob.mime_type) == (b"\x00\x01\xff", "application/octet-stream")
        [book] = (await client.read_resource("book://lem/solaris")).contents
        assert book.text == "solaris by lem"

    @in_one_loop
    async def test_a_resource_that_is_not_there_is_an_error(self, client: Client) -> None:
        with pytest.raises(self.missing):
            await client.read_resource("memo://nowhere")

    @in_one_loop
    async def test_tools_are_called(self, client: Client) -> None:
        tools = {tool.name: tool async for tool in client.list_tools()}
        assert {"echo", "add", "slow", "stopped", "fail", "log"} <= set(tools)
        assert (await client.call_tool("echo", {"text": "日本\n語"})).content[0].text == "日本\n語"
        failed = await client.call_tool("fail")
        assert failed.is_error is True
        assert "The printer is on fire." in failed.content[0].text

    @in_one_loop
    async def test_a_tool_that_is_not_there_is_an_error(self, client: Client) -> None:
        if self.unknown is None:
            assert (await client.call_tool("nothing")).is_error is True
        else:
            with pytest.raises(PeerError) as caught:
                await client.call_tool("nothing")
            assert caught.value.code == self.unknown

    @in_one_loop
    async def test_fifty_calls_at_the_same_time_get_their_own_answers(self, client: Client) -> None:
        results = await asyncio.gather(*(client.call_tool("echo", {"text": str(number)}) for number in range(50)))
        assert [result.content[0].text for result in results] == [str(number) for number in range(50)]

    @in_one_loop
    async def test_progress_is_told(self, client: Client) -> None:
        heard: list[Any] = []
        result = await client.call_tool("slow", {"steps": 3}, progress=lambda *report: heard.append(report))
        assert result.content[0].text == "done"
        assert heard == [(1, 3, "step 1"), (2, 3, "step 2"), (3, 3, "step 3")]

    @in_one_loop
    async def test_a_call_that_is_cancelled_stops_in_the_server(self, client: Client) -> None:
        begun = asyncio.Event()
        call = asyncio.create_task(
            client.call_tool("slow", {"steps": 1, "ends": False}, progress=lambda *_: begun.set())
        )
        await asyncio.wait_for(begun.wait(), PATIENCE)
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        assert (await client.call_tool("stopped")).content[0].text == "stopped"

    @in_one_loop
    async def test_a_call_that_takes_too_long_is_given_up_and_the_conversation_goes_on(self, client: Client) -> None:
        with pytest.raises(RequestTimeout):
            await client.call_tool("slow", {"steps": 0, "ends": False}, timeout=0.1)
        assert (await client.call_tool("echo", {"text": "still here"})).content[0].text == "still here"

    @in_one_loop
    async def test_log_messages_arrive_from_the_level_that_was_asked_for(self, client: Client) -> None:
        seen = self.seen
        await client.set_log_level("info")
        await client.call_tool("log")
        levels = []
        while "error" not in levels:
            levels.append((await asyncio.wait_for(seen.logs.get(), PATIENCE))[0])
        assert levels[-2:] == ["info", "error"]

    @in_one_loop
    async def test_prompts_are_listed_and_filled_in(self, client: Client) -> None:
        [prompt] = await client.list_prompts()
        assert prompt.name == "greet"
        assert [(argument.name, argument.required) for argument in prompt.arguments] == [("name", True)]
        filled = await client.get_prompt("greet", {"name": "Ada"})
        assert [(message.role, message.content.text) for message in filled.messages] == [("user", "Greet Ada.")]


class Completing:
    """Shelves with completion."""

    @in_one_loop
    async def test_arguments_are_completed(self, client: Client) -> None:
        assert (await client.complete(PromptReference(name="greet"), "name", "A")).values == ["Ada", "Alan"]
        book = ResourceTemplateReference(uri="book://{author}/{title}")
        assert (await client.complete(book, "author", "le ")).values == ["le guin"]


class Sampling:
    """Shelves that ask for models and roots."""

    @in_one_loop
    async def test_a_model_is_asked(self, client: Client) -> None:
        assert (await client.call_tool("model")).content[0].text.endswith(": Something.")

    @in_one_loop
    async def test_roots_are_told(self, client: Client) -> None:
        assert (await client.call_tool("folders")).content[0].text == "file:///work/books, file:///work/maps"


class Changing:
    """Shelves with a resource that changes."""

    @in_one_loop
    async def test_changes_are_heard_of(self, client: Client) -> None:
        before = int((await client.read_resource("memo://count")).contents[0].text)
        async with client.watch("memo://count") as changes:
            for number in (1, 2):
                await client.call_tool("touch")
                change = await asyncio.wait_for(anext(changes), PATIENCE)
                assert (change.kind, change.uri) == ("resource", "memo://count")
                assert (await client.read_resource("memo://count")).contents[0].text == str(before + number)


class Newer:
    """Shelves of revisions that have forms and structured results."""

    @in_one_loop
    async def test_the_user_is_asked(self, client: Client) -> None:
        answer = (await client.call_tool("ask")).content[0].text
        action, _, content = answer.partition(": ")
        assert action == "accept"
        assert json.loads(content.replace("'", '"')) == {"name": "Ada"}

    @in_one_loop
    async def test_structured_results_are_returned(self, client: Client) -> None:
        assert (await client.call_tool("add", {"a": 2, "b": 0.5})).structured_content == {"sum": 2.5}


class CompletingInContext(Completing):
    """Shelves that look at the arguments that are already there."""

    @in_one_loop
    async def test_arguments_are_completed_in_context(self, client: Client) -> None:
        book = ResourceTemplateReference(uri="book://{author}/{title}")
        assert (await client.complete(book, "title", "s", {"author": "lem"})).values == ["solaris"]
        assert (await client.complete(book, "title", "s", {"author": "le guin"})).values == []
