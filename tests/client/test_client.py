"""What a client can ask, in every revision and over every transport."""

from __future__ import annotations

import asyncio
import ssl
import sys
from pathlib import Path
from typing import Any

import pytest

from carrel import Client, Server
from carrel.client.handlers import ClientCall
from carrel.errors import (
    ConfigError,
    InvalidMessage,
    MethodNotFound,
    PeerError,
    ProtocolError,
    RequestTimeout,
    ResourceError,
    ResourceMismatch,
    ResourceNotFound,
    ResourceTooLarge,
    TransportError,
)
from carrel.protocol.methods import LIST_RESOURCES
from carrel.transports.client.options import HTTPOptions, ProcessOptions
from carrel.wire.base import PageParams
from carrel.wire.completion import PromptReference, ResourceTemplateReference
from carrel.wire.tools import Tool
from support.clock import pass_time
from support.servers.demo import ALL, LATEST, MARCH, NOVEMBER, OLDEST, WAYS, make_shelf, reach, served, until

#: Every transport in the newest revision with and without a handshake; every other revision in memory.
MATRIX = [
    *((way, revision) for way in WAYS for revision in (NOVEMBER, LATEST)),
    *(("memory", name) for name in ALL[:3]),
]


@pytest.mark.parametrize(("way", "revision"), MATRIX)
async def test_everything_that_a_server_has_can_be_asked(way: str, revision: str) -> None:
    async with reach(way, revision) as client:
        assert client.revision == revision
        assert client.session.stateless == (revision == LATEST)
        assert client.server is not None
        assert (client.server.name, client.server.version) == ("shelf", "1.2")
        assert client.instructions == "Read quietly."
        uris = [resource.uri async for resource in client.list_resources()]
        assert uris == sorted([*(f"memo://{number}" for number in range(20)), "memo://picture"])
        assert [template.uri_template async for template in client.list_resource_templates()] == [
            "book://{author}/{title}"
        ]
        assert (await client.read_resource("book://lem/solaris")).contents[0].text == "solaris by lem"
        assert (await client.read_resource("memo://picture")).contents[0].blob == b"\x89PNG\x00"
        assert "add" in [tool.name async for tool in client.list_tools()]
        assert (await client.call_tool("add", {"a": 1, "b": 2})).content[0].text == "3"
        assert (await client.call_tool("fail")).is_error is True
        assert [prompt.name async for prompt in client.list_prompts()] == ["review"]
        prompt = await client.get_prompt("review", {"code": "x = 1"})
        assert prompt.messages[0].content.text == "Review this python: x = 1"
        await client.ping()


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("revision", [NOVEMBER, LATEST])
async def test_progress_is_heard_in_order(way: str, revision: str) -> None:
    heard: list[tuple[float, float | None, str | None]] = []
    async with reach(way, revision) as client:
        result = await client.call_tool("count", {"steps": 3}, progress=lambda *told: heard.append(told))
    assert result.content[0].text == "3 steps"
    assert heard == [(1, 3, "step 1"), (2, 3, "step 2"), (3, 3, "step 3")]


async def test_a_progress_callback_may_wait_and_may_fail(caplog: pytest.LogCaptureFixture) -> None:
    heard = asyncio.Event()

    async def wait(*told: Any) -> None:
        await asyncio.sleep(0)
        heard.set()

    def fail(*told: Any) -> None:
        raise ValueError("on purpose")

    async with reach("memory") as client:
        await client.call_tool("count", {"steps": 1}, progress=wait)
        await asyncio.wait_for(heard.wait(), 60)
        assert (await client.call_tool("count", {"steps": 1}, progress=fail)).content[0].text == "1 steps"
    assert "a progress callback failed" in caplog.text


@pytest.mark.parametrize("revision", ALL)
async def test_completions_know_what_is_there_already(revision: str) -> None:
    book = ResourceTemplateReference(uri="book://{author}/{title}")
    async with reach("memory", revision) as client:
        assert (await client.complete(book, "author", "le")).values == ["lem", "leguin"]
        with_context = await client.complete(book, "title", "", {"author": "lem"})
        assert with_context.values == (["solaris"] if revision not in (OLDEST, MARCH) else [])
        template = await anext(aiter(client.list_resource_templates()))
        assert (await client.complete(template, "author", "b")).values == ["butler"]


@pytest.mark.parametrize("revision", ALL)
async def test_missing_resources_prompts_and_completions_are_errors(revision: str) -> None:
    async with reach("memory", revision) as client:
        with pytest.raises(ResourceNotFound) as missing:
            await client.read_resource("memo://none")
        assert missing.value.uri == "memo://none"
        with pytest.raises(PeerError):
            await client.get_prompt("none")
        with pytest.raises(PeerError):
            await client.complete(PromptReference(name="none"), "code")


@pytest.mark.parametrize("revision", ALL)
async def test_every_other_error_about_a_resource_keeps_the_message_of_the_server(
    revision: str, tmp_path: Path
) -> None:
    app = Server("s")
    (tmp_path / "large.log").write_bytes(b"line\n" * 3_000_000)
    app.add_provider(str(tmp_path))
    large = (tmp_path / "large.log").as_uri()
    raised = {
        "x://large": ResourceTooLarge("x://large", "Over 10 MiB; read x://large?tail=200"),
        "x://asleep": ResourceError("x://asleep", "It is asleep"),
        "x://other": ResourceMismatch("x://other", "The size differs", "size"),
    }

    @app.resource("x://{name}")
    def failing(name: str) -> str:
        raise raised[f"x://{name}"]

    async with Client(app, revision=revision) as client:
        messages = {uri: error.message for uri, error in raised.items()} | {large: "tail=", f"{large}?tail=x": "tail"}
        messages |= {"no uri": "uri", f"x://{'a' * 100_000}": "characters"}
        for uri, message in messages.items():
            with pytest.raises(PeerError) as refused:
                await client.read_resource(uri)
            assert message in str(refused.value)
            assert refused.value.code == (-32603 if uri == "x://asleep" else -32602)


@pytest.mark.parametrize("revision", [NOVEMBER, LATEST])
@pytest.mark.parametrize("code", [-32602, -32002])
async def test_not_found_keeps_the_message_of_the_server(revision: str, code: int) -> None:
    app = Server("s")
    app.resources.add("x://1", "one")

    @app.middleware
    async def other_server(call: Any, proceed: Any) -> Any:
        if call.method == "resources/read":
            error = ProtocolError(f"Unknown resource: {call.params.uri}", {"uri": call.params.uri})
            error.code = code
            raise error
        return await proceed(call)

    async with Client(app, revision=revision) as client:
        with pytest.raises(ResourceNotFound) as missing:
            await client.read_resource("x://none")
        assert (missing.value.uri, str(missing.value)) == ("x://none", "Unknown resource: x://none")


async def test_a_server_without_something_lists_nothing_of_it_and_is_not_asked_for_it() -> None:
    async with Client(Server("bare")) as client:
        assert await client.list_tools() == []
        assert await client.list_prompts() == []
        with pytest.raises(MethodNotFound, match="does not offer prompts"):
            await client.get_prompt("any")


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("revision", [NOVEMBER, LATEST])
async def test_a_cancelled_call_is_cancelled_at_the_server(way: str, revision: str) -> None:
    if way == "stdio":
        async with reach(way, revision) as client:
            calls = [asyncio.create_task(client.call_tool("hang")) for _ in range(50)]
            await client.call_tool("add", {"a": 1, "b": 1})
            for call in calls:
                call.cancel()
            await asyncio.gather(*calls, return_exceptions=True)
            assert all(call.cancelled() for call in calls)
            assert not (await client.session.connect()).connection.waiting
            assert (await client.call_tool("add", {"a": 1, "b": 1})).content[0].text == "2"
        return
    app = make_shelf()
    async with served(way, app, revision) as client:
        call = asyncio.create_task(client.call_tool("hang"))
        await until(app.began)
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        await until(app.cancelled)
        assert not (await client.session.connect()).connection.waiting


@pytest.mark.parametrize("way", ["memory", "http"])
@pytest.mark.parametrize("revision", [NOVEMBER, LATEST])
async def test_a_call_that_takes_too_long_is_given_up_on_both_sides(way: str, revision: str) -> None:
    app = make_shelf()
    async with served(way, app, revision) as client:
        call = asyncio.create_task(client.call_tool("hang", timeout=40))
        await until(app.began)
        pass_time(20)  # not nearly all of the time: some has passed by itself
        await asyncio.sleep(0)
        assert not call.done()
        pass_time(20)
        with pytest.raises(RequestTimeout, match="tools/call within 40 seconds"):
            await call
        await until(app.cancelled)


async def test_progress_keeps_a_call_alive() -> None:
    async with reach("memory") as client:
        steps = {"steps": 4, "pause": 0.01}
        assert (await client.call_tool("count", steps, timeout=40, progress=lambda *_: pass_time(30))).content


@pytest.mark.slow
async def test_a_thousand_calls_at_a_time_get_their_own_answers() -> None:
    async with reach("stdio") as client:
        results = await asyncio.gather(*(client.call_tool("add", {"a": number, "b": 1}) for number in range(1000)))
    assert [result.content[0].text for result in results] == [str(number + 1) for number in range(1000)]


async def test_calls_that_wait_fail_when_the_client_is_closed() -> None:
    app = make_shelf()
    async with Client(app) as client:
        call = asyncio.create_task(client.call_tool("hang"))
        await app.began.wait()  # type: ignore[attr-defined]
    with pytest.raises(TransportError, match="closed"):
        await call
    with pytest.raises(ConfigError, match="async with"):
        await client.read_resource("memo://1")


async def test_a_client_that_is_not_open_says_how_it_is_used() -> None:
    client = Client(make_shelf())
    with pytest.raises(ConfigError, match="async with"):
        await client.read_resource("memo://1")
    with pytest.raises(ConfigError, match="async with"):
        _ = client.revision
    await client.close()


async def test_a_client_can_be_opened_again() -> None:
    client = Client(make_shelf())
    for _ in range(2):
        async with client:
            assert (await client.read_resource("memo://1")).contents[0].text == "memo 1"


@pytest.mark.parametrize("revision", [NOVEMBER, LATEST])
async def test_log_messages_come_from_the_level_that_was_asked_for(revision: str) -> None:
    heard: list[tuple[str, Any]] = []
    async with reach(
        "memory", revision, log=lambda told: heard.append((told.level, told.data)), log_level="warning"
    ) as client:
        await client.call_tool("say", {"level": "info"})
        await client.call_tool("say", {"level": "error"})
        await client.set_log_level("debug")
        await client.call_tool("say", {"level": "debug"})
    assert heard == [("error", "said at error"), ("debug", "said at debug")]


async def test_without_a_receiver_no_log_messages_are_asked_for() -> None:
    async with reach("memory") as client:
        assert b"logLevel" not in bytes((await client.session.connect()).connection._meta)


@pytest.mark.parametrize("revision", ALL)
async def test_only_the_wanted_revision_is_spoken(revision: str) -> None:
    async with reach("memory", revision) as client:
        assert client.revision == revision


async def test_a_server_that_does_not_speak_the_wanted_revision_is_left() -> None:
    app = make_shelf()
    app.endpoint.description.revisions = {NOVEMBER: app.endpoint.description.revisions[NOVEMBER]}
    for wanted in (LATEST, OLDEST):
        with pytest.raises((ProtocolError, PeerError)):
            async with Client(app, revision=wanted):
                pass
    async with Client(app) as client:
        assert client.revision == NOVEMBER


@pytest.mark.parametrize(
    ("target", "options"),
    [
        ("server.py", {}),
        ([], {}),
        (7, {}),
        ("http://127.0.0.1:1/mcp", {"process": ProcessOptions(cwd=".")}),
        (["python"], {"http": HTTPOptions(headers={"a": "b"})}),
        (Server("x"), {"http": HTTPOptions(auth="token")}),
        (Server("x"), {"revision": "1999-01-01"}),
    ],
)
def test_wrong_options_are_refused_at_once(target: Any, options: dict[str, Any]) -> None:
    with pytest.raises(ConfigError):
        Client(target, **options)


@pytest.mark.parametrize(
    "options",
    [
        {"auth": "token", "headers": {"authorization": "x"}},
        {"auth": "Bearer token"},
        {"auth": 7},
        {"connections": 0},
        {"connect_timeout": -1.0},
        {"tls": ssl.create_default_context(), "ca_file": "ca.pem"},
    ],
)
def test_http_options_that_make_no_sense_are_refused(options: dict[str, Any]) -> None:
    with pytest.raises(ConfigError):
        HTTPOptions(**options)


async def test_a_list_without_an_end_is_not_followed_for_ever() -> None:
    app = make_shelf()
    async with Client(app) as client:
        first = await client.session.request(ClientCall(LIST_RESOURCES, PageParams()))

        async def again(*_: Any, **__: Any) -> Any:
            return first

        client.session.request = again  # type: ignore[method-assign]
        with pytest.raises(InvalidMessage, match="no end"):
            _ = await client.list_resources()


async def test_a_result_that_is_not_what_the_tool_promised_is_an_error() -> None:
    app = Server("liar")

    @app.tool()
    def number() -> dict[str, int]:
        return {"result": 1}

    async with Client(app) as client:
        assert [tool.name async for tool in client.list_tools()] == ["number"]
        assert (await client.call_tool("number")).structured_content == {"result": 1}
        schema = {"type": "object", "properties": {"result": {"type": "string"}}, "required": ["result"]}
        client._tools.known.take([Tool(name="number", input_schema={}, output_schema=schema)], mirrored=False)
        with pytest.raises(InvalidMessage, match="output schema"):
            await client.call_tool("number")


async def test_further_keys_of_meta_travel_with_a_call() -> None:
    async with Client(make_shelf()) as client:
        link = await client.session.connect()
        sent: list[bytes] = []
        send = link.transport.send

        def watch(message: Any) -> Any:
            sent.append(message.data)
            return send(message)

        link.transport.send = watch  # type: ignore[method-assign]
        await client.call_tool("add", {"a": 1, "b": 1}, meta={"traceparent": "00-abc"})
        assert b'"traceparent":"00-abc"' in sent[0]
        assert b"io.modelcontextprotocol/protocolVersion" in sent[0]


@pytest.mark.slow
async def test_a_call_that_cannot_even_be_sent_ends_with_its_time() -> None:
    script = (
        "import json, sys, time\n"
        "for line in sys.stdin:\n"
        "    message = json.loads(line)\n"
        "    result = {'supportedVersions': ['2026-07-28'], 'capabilities': {'tools': {}}}\n"
        "    print(json.dumps({'jsonrpc': '2.0', 'id': message['id'], 'result': result}), flush=True)\n"
        "    time.sleep(3600)\n"
    )
    async with Client([sys.executable, "-c", script], patience=60) as client:
        calls = [client.call_tool("big", {"text": "x" * 1_000_000}, timeout=2) for _ in range(8)]
        outcomes = await asyncio.gather(*calls, return_exceptions=True)
        assert {type(outcome) for outcome in outcomes} == {RequestTimeout}
