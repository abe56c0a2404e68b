"""Extensions: methods, settings and notifications that a server adds to the protocol, and who may use them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from carrel import Server
from carrel.errors import ConfigError, InvalidParams
from carrel.protocol.encoding import encode_event
from carrel.protocol.extension import Extension
from carrel.protocol.http import verify
from carrel.protocol.methods import NotificationType, RequestType
from carrel.protocol.revisions import LATEST, LATEST_HANDSHAKE, REVISIONS
from carrel.transports import memory
from carrel.wire.base import Params, Result

NAME = "com.example/notes"


class NoteParams(Params, kw_only=True):
    note_id: str


class NoteResult(Result, kw_only=True):
    text: str


NOTED = NotificationType("notifications/notes", "noted")
GET = RequestType("notes/get", "get_note", NoteParams, Result, name_field="note_id")


def table(**options: Any) -> Extension:
    return Extension(
        name=NAME,
        requests={GET.method: GET},
        events={"noted": NotificationType("notifications/notes", "noted")},
        **options,
    )


def get_note(call: Any, channel: Any) -> Result:
    if call.params.note_id == "none":
        raise InvalidParams("There is no such note", parameter="noteId")
    return NoteResult(text=f"The note {call.params.note_id}")


async def get_note_later(call: Any, channel: Any) -> Result:
    return get_note(call, channel)


def served(answer: Any = get_note, **options: Any) -> Server:
    app = Server("x")
    app.extend(table(**options), {"get_note": answer}, {"deep": True})
    return app


async def ask(peer: memory.MemoryPeer, method: str = "notes/get", **params: Any) -> dict[str, Any]:
    return await peer.request(method, params)


@pytest.mark.parametrize("answer", [get_note, get_note_later])
async def test_a_method_of_an_extension_is_answered_like_any_other(answer: Any) -> None:
    async with memory.connect(served(answer)) as peer:
        result = (await ask(peer, noteId="7"))["result"]
        assert (result["text"], result["resultType"]) == ("The note 7", "complete")
        assert "io.modelcontextprotocol/serverInfo" in result["_meta"]
        assert (await ask(peer, noteId="none"))["error"]["code"] == -32602


async def test_parameters_of_extension_methods_are_checked_before_the_handler() -> None:
    async with memory.connect(served()) as peer:
        assert (await ask(peer))["error"]["message"] == "Invalid params: noteId is missing"
        assert (await ask(peer, noteId=7))["error"]["code"] == -32602


async def test_discovery_tells_its_settings_to_those_who_can_have_extensions() -> None:
    async with memory.connect(served()) as peer:
        result = (await peer.request("server/discover"))["result"]
    assert result["capabilities"]["extensions"] == {NAME: {"deep": True}}
    async with memory.connect(Server("x")) as peer:
        result = (await peer.request("server/discover"))["result"]
    assert "extensions" not in result["capabilities"]


@pytest.mark.parametrize("revision", [name for name, revision in REVISIONS.items() if not revision.stateless])
async def test_older_peers_have_it_only_if_it_says_so(revision: str) -> None:
    async with memory.connect(served(), revision) as peer:
        assert (await ask(peer, noteId="7"))["error"]["code"] == -32601
        assert (await ask(peer))["error"]["code"] == -32601
    async with memory.connect(served(handshake=True), revision) as peer:
        assert (await ask(peer, noteId="7"))["result"] == {"text": "The note 7"}


async def test_a_server_without_it_has_never_heard_of_the_method() -> None:
    async with memory.connect(Server("x")) as peer:
        assert (await ask(peer, noteId="7"))["error"]["code"] == -32601


@pytest.mark.parametrize("params", [{"noteId": "7"}, {}])
async def test_a_client_that_has_to_declare_it_and_does_not_is_told_which_one(params: dict[str, Any]) -> None:
    async with memory.connect(served(mutual=True)) as peer:
        error = (await ask(peer, **params))["error"]
        assert (error["code"], error["data"]) == (-32021, {"requiredCapabilities": {"extensions": {NAME: {}}}})
        assert NAME in error["message"]
        peer.capabilities = {"extensions": {"com.example/other": {}}}
        assert (await ask(peer, **params))["error"]["code"] == -32021


@pytest.mark.parametrize("settings", [{}, {"any": 1}])
async def test_a_client_that_declares_it_is_answered(settings: dict[str, Any]) -> None:
    async with memory.connect(served(mutual=True), extensions={NAME: settings}) as peer:
        assert (await ask(peer, noteId="7"))["result"]["text"] == "The note 7"


async def test_the_settings_of_a_client_for_an_extension_can_be_read() -> None:
    seen = []

    def look(call: Any, channel: Any) -> Result:
        seen.append((call.peer.settings(NAME), call.peer.settings("com.example/other")))
        return Result()

    for capabilities in ({}, {"extensions": {NAME: {"any": 1}}}):
        async with memory.connect(served(look), **capabilities) as peer:
            await ask(peer, noteId="7")
    assert seen == [(None, None), ({"any": 1}, None)]


async def test_the_name_header_is_checked_where_its_table_says_so() -> None:
    app = served()
    body = {
        "noteId": "7",
        "_meta": {
            "io.modelcontextprotocol/protocolVersion": LATEST.name,
            "io.modelcontextprotocol/clientCapabilities": {},
        },
    }
    call: Any = app.endpoint.connect().receive(
        json.dumps({"jsonrpc": "2.0", "id": 1, "method": "notes/get", "params": body}).encode()
    )
    headers = {b"mcp-protocol-version": LATEST.name.encode(), b"mcp-method": b"notes/get", b"mcp-name": b"7"}
    verify(call, headers)
    with pytest.raises(Exception, match="Mcp-Name"):
        verify(call, headers | {b"mcp-name": b"8"})


def test_a_notification_of_an_extension_has_the_name_that_its_table_gives_it() -> None:
    message = json.loads(encode_event(LATEST, "noted", {"noteId": "7"}, table()))
    assert message == {"jsonrpc": "2.0", "method": "notifications/notes", "params": {"noteId": "7"}}


def test_an_extension_needs_an_answer_for_each_of_its_methods() -> None:
    with pytest.raises(ConfigError, match="no handler of notes/get"):
        Server("x").extend(table(), {})


def test_a_method_has_one_owner() -> None:
    app = served()
    other = Extension(
        name="com.example/other", requests={GET.method: RequestType("notes/get", "get_other", NoteParams, Result)}
    )
    with pytest.raises(ConfigError, match=f"{NAME} has it"):
        app.extend(other, {"get_other": get_note})
    own = Extension(
        name="com.example/other", requests={"tools/list": RequestType("tools/list", "get_other", Params, Result)}
    )
    with pytest.raises(ConfigError, match="the protocol itself has it"):
        app.extend(own, {"get_other": get_note})
    taken = Extension(name="com.example/other", requests={"x/y": RequestType("x/y", "list_tools", Params, Result)})
    with pytest.raises(ConfigError, match="list_tools already"):
        app.extend(taken, {"list_tools": get_note})


async def test_an_extension_may_be_given_again_with_other_settings() -> None:
    app = served()
    app.extend(table(), {"get_note": get_note_later}, {"deep": False})
    async with memory.connect(app) as peer:
        result = (await peer.request("server/discover"))["result"]
    assert result["capabilities"]["extensions"] == {NAME: {"deep": False}}


async def test_the_extension_in_the_documentation_works() -> None:
    text = (Path(__file__).parents[2] / "docs" / "server.md").read_text(encoding="utf-8")
    code = text.partition("## Extensions")[2].partition("```python\n")[2].partition("```")[0]
    app = Server("x")
    exec(compile(code, "docs/server.md", "exec"), {"app": app, "notes": {"7": "Buy milk."}, "__name__": __name__})
    async with memory.connect(app) as peer:
        assert (await ask(peer, noteId="7"))["result"]["text"] == "Buy milk."


def test_the_revisions_know_nothing_of_extensions() -> None:
    assert not any("skills/list" in revision.requests for revision in REVISIONS.values())
    assert GET.method not in LATEST_HANDSHAKE.requests
