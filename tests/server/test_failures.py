"""What goes wrong: told to the client in words that help it, to the log once, and to nobody else."""

from __future__ import annotations

import asyncio
import json
import logging
import re
from typing import Any

import pytest

from carrel import MCPError, Server
from carrel.catalog.provider import Request
from carrel.errors import (
    ConfigError,
    HeaderMismatch,
    InvalidParams,
    MethodNotFound,
    MissingCapability,
    PeerError,
    ProtocolError,
    ResourceError,
    ResourceForbidden,
    ResourceNotFound,
    ResourceTooLarge,
    ToolError,
    TransportError,
    UnsupportedVersion,
)
from carrel.transports import memory
from carrel.transports.memory import MemoryPeer
from carrel.wire.resources import ReadResourceResult
from support.memory_client import ALL, JUNE, LATEST, PLAIN, call, error, listed, read, result
from support.numbered_provider import Numbers

SECRET = "password=hunter2 in /etc/carrel/secret.toml"
UNAVAILABLE = {"uri": "a:b", "reason": "unavailable"}
TOO_LARGE = {"uri": "a:b", "reason": "too large"}


class Weird(Exception):
    def __str__(self) -> str:
        raise RuntimeError(SECRET)


class Broken(Numbers):
    """A provider in which almost everything fails."""

    async def read_resource(self, uri: str, request: Request) -> ReadResourceResult:
        raise OSError(SECRET)

    async def list_resources(self, request: Request) -> Any:
        raise OSError(SECRET)

    async def complete(self, *arguments: Any) -> Any:
        raise OSError(SECRET)


def failing(exception: BaseException, way: str) -> Any:
    def sync(*arguments: Any) -> Any:
        raise exception

    async def immediate(*arguments: Any) -> Any:
        raise exception

    async def waiting(*arguments: Any) -> Any:
        await asyncio.sleep(0)
        raise exception

    return {"sync": sync, "async": immediate, "waiting": waiting}[way]


@pytest.mark.parametrize("revision", ALL)
@pytest.mark.parametrize("way", ["sync", "async", "waiting"])
async def test_an_unknown_exception_is_a_plain_internal_error_and_is_logged_once(
    revision: str, way: str, caplog: pytest.LogCaptureFixture
) -> None:
    app = Server("s")
    run = failing(ValueError(SECRET), way)

    @app.resource("x://{a}")
    async def member(a: str) -> Any:
        return await asyncio.to_thread(run) if way == "sync" else await run()

    @member.complete("a")
    async def complete(prefix: str) -> Any:
        return await asyncio.to_thread(run) if way == "sync" else await run()

    app.resources.add("x://fixed", lambda: run())
    app.prompts.add(lambda: run(), name="p")
    requests: list[tuple[str, dict[str, Any]]] = [
        ("resources/read", {"uri": "x://fixed"}),
        ("resources/read", {"uri": "x://other"}),
        ("prompts/get", {"name": "p"}),
        (
            "completion/complete",
            {"ref": {"type": "ref/resource", "uri": "x://{a}"}, "argument": {"name": "a", "value": ""}},
        ),
    ]
    async with memory.connect(app, revision) as peer:
        for method, params in requests:
            caplog.clear()
            assert await error(peer, method, **params) == PLAIN
            (record,) = [record for record in caplog.records if record.levelno >= logging.WARNING]
            assert record.name == "carrel"
            assert record.exc_info is not None
            assert SECRET in str(record.exc_info[1])
            assert method in record.getMessage()


@pytest.mark.parametrize("revision", [JUNE, LATEST])
async def test_a_provider_that_fails_tells_nothing_of_itself(revision: str, caplog: pytest.LogCaptureFixture) -> None:
    app = Server("s")
    app.add_provider(Broken("b", 3))
    async with memory.connect(app, revision) as peer:
        ref = {"type": "ref/resource", "uri": "b:{number}"}
        assert await error(peer, "resources/read", uri="b:1") == PLAIN
        assert await error(peer, "resources/list") == PLAIN
        assert await error(peer, "completion/complete", ref=ref, argument={"name": "number", "value": ""}) == PLAIN
        assert "result" in await peer.request("resources/templates/list")
    assert len(caplog.records) == 3


@pytest.mark.parametrize(
    "exception",
    [
        *(Weird(), RecursionError(), MemoryError(), StopAsyncIteration(), GeneratorExit("x"), AssertionError(SECRET)),
        *(SystemExit(2), KeyboardInterrupt(), asyncio.CancelledError(), BaseExceptionGroup("g", [SystemExit()])),
    ],
    ids=repr,
)
async def test_odd_exceptions_are_no_exception(exception: BaseException, caplog: pytest.LogCaptureFixture) -> None:
    app = Server("s")

    @app.resource("x://{a}")
    async def member(a: str) -> str:
        await asyncio.sleep(0)
        raise exception

    async with memory.connect(app) as peer:
        assert await error(peer, "resources/read", uri="x://1") == PLAIN
        assert await listed(peer) == []


@pytest.mark.parametrize("exception", [Weird(), ExceptionGroup("g", [Weird()])], ids=["plain", "group"])
async def test_a_tool_whose_error_cannot_even_be_printed_still_answers(
    exception: Exception, caplog: pytest.LogCaptureFixture
) -> None:
    app = Server("s")

    @app.tool()
    async def t() -> str:
        raise exception

    async with memory.connect(app) as peer:
        reply = await peer.request("tools/call", {"name": "t"})
        assert SECRET not in json.dumps(reply)
        assert "result" in reply or reply["error"] == PLAIN


async def test_stop_iteration_from_a_handler_is_an_error_too(caplog: pytest.LogCaptureFixture) -> None:
    app = Server("s")

    def stop() -> str:
        raise StopIteration(SECRET)

    async def stop_async() -> str:
        raise StopIteration(SECRET)

    app.resources.add("x://sync", stop)
    app.resources.add("x://async", stop_async)
    async with memory.connect(app) as peer:
        for uri in ("x://sync", "x://async"):
            reply = await peer.request("resources/read", {"uri": uri}, timeout=60)
            assert reply["error"] == PLAIN


@pytest.mark.parametrize(
    ("raised", "told"),
    [
        (InvalidParams("no", {"why": 1}), {"code": -32602, "message": "no", "data": {"why": 1}}),
        (MethodNotFound("no"), {"code": -32601, "message": "no"}),
        (ProtocolError("no"), {"code": -32600, "message": "no"}),
        (ResourceNotFound("a:b", SECRET), {"code": -32602, "message": "Resource not found", "data": {"uri": "a:b"}}),
        (ResourceForbidden("a:b", SECRET), {"code": -32602, "message": "Resource not found", "data": {"uri": "a:b"}}),
        (ResourceError("a:b", "is asleep"), {"code": -32603, "message": "is asleep", "data": UNAVAILABLE}),
        (
            ResourceTooLarge("a:b", "?tail=9"),
            {"code": -32602, "message": "?tail=9", "data": {"uri": "a:b", "reason": "too large"}},
        ),
        (PeerError(-32001, "from elsewhere", {"s": SECRET}), PLAIN),
        (TransportError(SECRET), PLAIN),
        (ConfigError(SECRET), PLAIN),
        (MCPError(SECRET), PLAIN),
    ],
    ids=repr,
)
async def test_errors_of_the_tree_are_told_as_the_tree_says(raised: MCPError, told: dict[str, Any]) -> None:
    app = Server("s")

    @app.resource("x://{a}")
    async def member(a: str) -> str:
        raise raised

    async with memory.connect(app) as peer:
        assert await error(peer, "resources/read", uri="x://1") == told


async def test_hidden_errors_are_logged_even_if_they_are_mcp_errors(
    caplog: pytest.LogCaptureFixture,
) -> None:
    app = Server("s")

    @app.resource("x://{a}")
    async def member(a: str) -> str:
        raise TransportError("the database went away")

    async with memory.connect(app) as peer:
        assert await error(peer, "resources/read", uri="x://1") == PLAIN
    assert len(caplog.records) == 1


async def test_data_of_an_error_that_is_no_json_does_not_lose_the_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logging.getLogger("carrel"), "propagate", False)  # a report with a surrogate cannot be sent
    app = Server("s")

    @app.resource("x://{a}")
    async def member(a: str) -> str:
        raise InvalidParams("no", {"object": object()} if a == "1" else None) if a != "3" else InvalidParams("\ud800")

    async with memory.connect(app) as peer:
        for uri in ("x://1", "x://2", "x://3"):
            reply = await peer.request("resources/read", {"uri": uri}, timeout=60)
            assert reply["error"]["code"] in (-32602, -32603)


def test_errors_carry_what_they_are_about() -> None:
    assert InvalidParams("no", parameter="cursor").parameter == "cursor"
    assert MissingCapability({"sampling": {}, "roots": {}}).data == {
        "requiredCapabilities": {"sampling": {}, "roots": {}}
    }
    assert "sampling, roots" in str(MissingCapability({"sampling": {}, "roots": {}}))
    assert UnsupportedVersion("x" * 5000, ["y"]).data == {"supported": ["y"], "requested": "x" * 100}
    assert (ResourceNotFound("a:b").uri, str(ResourceNotFound("a:b"))) == ("a:b", "Resource not found: a:b")
    assert (PeerError(-1, "m", 5).code, PeerError(-1, "m", 5).data, str(PeerError(-1, "m"))) == (-1, 5, "m (-1)")
    assert (HeaderMismatch("x").code, HeaderMismatch("x").status) == (-32020, 400)


# What tools raise


@pytest.mark.parametrize("way", ["sync", "async", "waiting"])
@pytest.mark.parametrize("mask", [False, True])
async def test_exceptions_of_tools_are_logged_under_the_reference_in_the_response(
    way: str, mask: bool, caplog: pytest.LogCaptureFixture
) -> None:
    app = Server("s", mask_errors=mask)
    run = failing(ValueError(SECRET), way)

    async def waits() -> Any:
        return await run()

    app.tools.add((lambda: run()) if way == "sync" else waits, name="t")
    async with memory.connect(app) as peer:
        found = await call(peer, "t")
        (block,) = found["content"]
        assert found["isError"] is True
        assert (SECRET in block["text"]) is not mask
        reference = re.search("reference ([0-9a-f]{8})", block["text"])
        assert reference is not None
        assert not mask or block["text"] == f"Internal error, reference {reference[1]}"
        (record,) = caplog.records
        assert record.levelno == logging.ERROR
        assert record.getMessage() == f"tool t failed, reference {reference[1]}"
        assert record.exc_info is not None
        assert SECRET in str(record.exc_info[1])


@pytest.mark.parametrize(
    ("raised", "told"),
    [
        (ToolError("no such city"), "no such city"),
        (ResourceNotFound("a:secret"), None),
        (PeerError(-1, "secret"), None),
        (SystemExit("secret"), None),
        (ExceptionGroup("secret", [ToolError("secret")]), None),
    ],
    ids=repr,
)
async def test_a_mask_lets_only_words_through_that_are_meant_for_the_model(
    raised: BaseException, told: str | None
) -> None:
    app = Server("s", mask_errors=True)

    @app.tool()
    async def t(number: int) -> str:
        raise raised

    async with memory.connect(app) as peer:
        found = (await call(peer, "t", number=1))["content"][0]["text"]
        assert found == told if told else re.fullmatch("Internal error, reference [0-9a-f]{8}", found)
        assert "number" in (await call(peer, "t", number="x"))["content"][0]["text"]


async def test_a_tool_may_be_masked_or_not_whatever_its_server_is() -> None:
    for mask in (False, True):
        app = Server("s", mask_errors=mask)

        @app.tool(mask_errors=not mask)
        async def t() -> str:
            raise ValueError(SECRET)

        async with memory.connect(app) as peer:
            assert (SECRET in (await call(peer, "t"))["content"][0]["text"]) is mask
        assert app.tools.exposes_errors is mask


async def test_words_meant_for_the_model_are_no_error_in_the_log_and_none_of_a_resource(
    caplog: pytest.LogCaptureFixture,
) -> None:
    app = Server("s")

    @app.tool()
    async def t() -> str:
        raise ToolError("no such city")

    @app.resource("x://1")
    async def one() -> str:
        raise ToolError(SECRET)

    async with memory.connect(app) as peer:
        assert (await call(peer, "t"))["content"][0]["text"] == "no such city"
        assert caplog.records == []
        assert await error(peer, "resources/read", uri="x://1") == PLAIN


@pytest.mark.parametrize(
    ("host", "mask", "warned"),
    [
        ("0.0.0.0", False, True),
        ("", False, True),
        ("0.0.0.0", True, False),
        ("127.0.0.1", False, False),
        ("::1", False, False),
        ("localhost", False, False),
    ],
)
def test_listening_beyond_loopback_without_masked_errors_logs_a_warning(
    host: str, mask: bool, warned: bool, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("carrel.transports.server.uvicorn.serve", lambda app, **options: None)
    app = Server("s", mask_errors=mask)
    app.run("http", host=host)
    assert caplog.records == [], "there is no tool"
    app.tools.add(lambda: "", name="t")
    app.run("http", host=host)
    assert ["mask_errors=True" in record.getMessage() for record in caplog.records] == [True] * warned


# Side by side


async def test_two_servers_in_one_process_know_nothing_of_each_other() -> None:
    apps = [Server(name) for name in ("one", "two")]
    for app in apps:
        app.resources.add("x://1", app.name)
        app.tools.add(lambda name=app.name: name, name=f"tool_{app.name}")
    async with memory.connect(apps[0], JUNE) as first, memory.connect(apps[1], JUNE) as second:
        assert [(await read(peer, "x://1"))[0]["text"] for peer in (first, second)] == ["one", "two"]
        assert [tool["name"] for tool in await listed(second, "tools")] == ["tool_two"]
        await result(first, "resources/subscribe", uri="x://1")
        apps[1].resources.changed("x://1")
        apps[1].resources.add("x://2", "")
        assert (await second.notification())["method"] == "notifications/resources/list_changed"
        await listed(first)
        assert first._notifications.empty()


async def test_a_hundred_clients_with_the_same_ids_get_their_own_answers() -> None:
    app = Server("s")
    all_in = asyncio.Event()
    waiting = 0

    @app.tool()
    async def echo(word: str) -> str:
        nonlocal waiting
        waiting += 1
        if waiting == 100:
            all_in.set()
        await all_in.wait()
        return word

    await app.endpoint.start()
    try:
        peers = [MemoryPeer(app, LATEST) for _ in range(100)]
        asked = [
            peer.start("tools/call", {"name": "echo", "arguments": {"word": str(number)}}, id=7)
            for number, peer in enumerate(peers)
        ]
        replies = await asyncio.wait_for(asyncio.gather(*asked), 60)
        assert [reply["result"]["content"][0]["text"] for reply in replies] == [str(number) for number in range(100)]
        for peer in peers:
            await peer.dispatcher.close()
    finally:
        await app.endpoint.stop()


async def test_one_client_that_sends_nonsense_does_not_disturb_another() -> None:
    app = Server("s")
    app.tools.add(lambda: "fine", name="t")
    await app.endpoint.start()
    try:
        good, bad = MemoryPeer(app, LATEST), MemoryPeer(app, LATEST)
        for nonsense in (b"", b"{", b"\xff", b"[" * 100_000, b'{"jsonrpc":"2.0","id":{},"method":5}', b"null"):
            bad.feed(nonsense)
            assert (await call(good, "t"))["content"][0]["text"] == "fine"
        assert (await call(bad, "t"))["content"][0]["text"] == "fine"
        for peer in (good, bad):
            await peer.dispatcher.close()
    finally:
        await app.endpoint.stop()
