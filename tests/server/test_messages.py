"""What messages look like, whichever they are."""

from __future__ import annotations

import asyncio
import json
import re
from typing import Any

import pytest

from carrel import Context, Server, errors
from carrel.transports import memory
from support.answering_client import CAPABLE
from support.capabilities import everything
from support.memory_client import ALL, JUNE, LATEST, PLAIN, PREFIX, error, result
from support.stdio_process import running

pytestmark = pytest.mark.requirement


#: https://…/2026-07-28/basic/index#meta
KEY = re.compile(
    r"(?:[A-Za-z](?:[A-Za-z0-9-]*[A-Za-z0-9])?(?:\.[A-Za-z](?:[A-Za-z0-9-]*[A-Za-z0-9])?)*/)?"
    r"(?:[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?)?"
)
DEFINED = {-32700, -32600, -32601, -32602, -32603, -32020, -32021, -32022}
REQUESTS: list[tuple[str, dict[str, Any], str]] = [
    ("server/discover", {}, "complete"),
    ("tools/list", {}, "complete"),
    ("tools/call", {"name": "talk"}, "complete"),
    ("tools/call", {"name": "ask"}, "input_required"),
    ("prompts/list", {}, "complete"),
    ("prompts/get", {"name": "prompt1"}, "complete"),
    ("resources/list", {}, "complete"),
    ("resources/templates/list", {}, "complete"),
    ("resources/read", {"uri": "memo://1"}, "complete"),
    (
        "completion/complete",
        {"ref": {"type": "ref/resource", "uri": "book://{author}"}, "argument": {"name": "author", "value": ""}},
        "complete",
    ),
]


def keys(value: Any) -> set[str]:
    """Return the keys of every ``_meta`` within a message."""
    if isinstance(value, list):
        return {key for item in value for key in keys(item)}
    if not isinstance(value, dict):
        return set()
    return set(value.get("_meta", {})) | {key for inner in value.values() for key in keys(inner)}


def errors_of_the_tree(kind: type = errors.MCPError) -> set[type]:
    return {kind} | {one for inner in kind.__subclasses__() for one in errors_of_the_tree(inner)}


async def test_every_result_of_a_stateless_request_says_its_type() -> None:
    async with memory.connect(everything(), LATEST, **CAPABLE) as peer:
        for method, params, kind in REQUESTS:
            assert (await result(peer, method, **params))["resultType"] == kind, method


async def test_names_that_we_write_into_meta_follow_the_grammar() -> None:
    found: set[str] = set()
    async with memory.connect(everything(), LATEST, **CAPABLE) as peer:
        peer.start("subscriptions/listen", {"notifications": {"toolsListChanged": True}})
        found |= keys(await peer.notification())
        for method, params, _ in REQUESTS:
            found |= keys(await peer.request(method, params))
    assert found == {f"{PREFIX}serverInfo", f"{PREFIX}subscriptionId"}
    assert all(KEY.fullmatch(key) for key in (*found, f"{PREFIX}related-task"))


async def test_a_stateless_client_is_sent_no_requests() -> None:
    async with memory.connect(everything(), LATEST, **CAPABLE) as peer:
        meta = {"progressToken": 1, f"{PREFIX}logLevel": "debug"}
        asked = await result(peer, "tools/call", name="ask")
        assert asked["inputRequests"]
        await result(peer, "tools/call", name="talk", _meta=meta)
        told = [await peer.notification() for _ in range(2)]
        await result(peer, "resources/read", uri="memo://1")
        assert peer._notifications.empty()
    assert not any("id" in message for message in told)


@pytest.mark.parametrize("revision", ALL)
async def test_an_error_has_an_integer_for_a_code_and_words(revision: str) -> None:
    app = everything()

    @app.resource("memo://broken")
    async def broken() -> str:
        raise ValueError("the inside")

    refused: list[tuple[str, dict[str, Any]]] = [
        ("no/such", {}),
        ("tools/call", {"name": "no such"}),
        ("tools/call", {}),
        ("prompts/get", {"name": "no such"}),
        ("resources/read", {"uri": "memo://none"}),
        ("resources/read", {"uri": "memo://broken"}),
        ("resources/list", {"cursor": "none"}),
    ]
    async with memory.connect(app, revision) as peer:
        for method, params in refused:
            reply = await peer.request(method, params)
            assert set(reply) == {"jsonrpc", "id", "error"}
            assert type(reply["error"]["code"]) is int
            assert isinstance(reply["error"]["message"], str)
            assert reply["error"]["message"]


async def test_codes_of_errors_are_those_of_the_specification() -> None:
    codes = {kind.code for kind in errors_of_the_tree() if isinstance(getattr(kind, "code", None), int)}
    assert codes <= DEFINED | {-32042}  # of 2025-11-25 alone, and only where an author requires a page
    async with memory.connect(everything(), LATEST) as peer:
        told = {
            (await error(peer, method, **params))["code"]
            for method, params in (
                ("no/such", {}),
                ("resources/read", {"uri": "memo://none"}),
                ("tools/call", {"name": "ask"}),
                ("resources/list", {"cursor": "none"}),
                ("server/discover", {"_meta": {f"{PREFIX}protocolVersion": "1900-01-01"}}),
            )
        }
    assert told == {-32601, -32602, -32021, -32022}


@pytest.mark.parametrize(
    "meta", [{"traceparent": "none"}, {"traceparent": 5}, {"tracestate": [1], "baggage": {}}, {"traceparent": None}]
)
async def test_trace_context_that_is_none_does_no_harm(meta: dict[str, Any]) -> None:
    async with memory.connect(everything(), LATEST) as peer:
        assert (await result(peer, "tools/call", name="tool1", _meta=meta))["content"][0]["text"] == "done"


@pytest.mark.parametrize("revision", ALL)
async def test_exceptions_are_not_sent_as_log_messages(revision: str) -> None:
    app = Server("s")

    @app.resource("memo://broken")
    async def broken(context: Context) -> str:
        raise ValueError("password=hunter2")

    async with memory.connect(app, revision) as peer:
        params: dict[str, Any] = {"uri": "memo://broken"}
        if revision == LATEST:
            params["_meta"] = {f"{PREFIX}logLevel": "debug"}
        else:
            await result(peer, "logging/setLevel", level="debug")
        reply = await peer.request("resources/read", params)
        assert reply["error"] == PLAIN
        assert peer._notifications.empty()


@pytest.mark.slow
def test_each_line_on_stdio_is_one_message() -> None:
    text = 'lines\nand\r\nmore\u2028\u2029\x85\x0b\x0c\x00"\\'
    with running() as child:
        child.open(JUNE)
        call = {"name": "echo", "arguments": {"text": text}}
        child.send({"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": call})
        line = child.read_line()
        assert line is not None
        assert b"\r" not in line
        assert json.loads(line)["result"]["content"][0]["text"] == text
        assert child.finish() == []


@pytest.mark.parametrize("revision", [JUNE, LATEST])
async def test_every_request_is_answered_whatever_its_handler_does(revision: str) -> None:
    app = everything()

    @app.tool()
    async def give_up() -> str:
        raise asyncio.CancelledError

    async with memory.connect(app, revision) as peer:
        assert (await error(peer, "tools/call", name="give_up"))["code"] == -32603
        assert (await result(peer, "tools/call", name="tool1"))["content"][0]["text"] == "done"
