"""One connection, message by message: what it accepts, what it refuses, and in which words.

No event loop, no transport: bytes in, events out.
"""

from __future__ import annotations

import json
import tracemalloc
from typing import Any

import msgspec
import pytest
from msgspec import UNSET

from carrel.errors import (
    HeaderMismatch,
    InvalidCursor,
    InvalidParams,
    MethodNotFound,
    MissingCapability,
    PeerError,
    ResourceForbidden,
    ResourceNotFound,
    ResourceTooLarge,
)
from carrel.protocol.connection import MAX_BATCH, FailedRequest, Ignored, Peer, Response
from carrel.protocol.description import Description
from carrel.protocol.encoding import encode, encode_error, encode_event
from carrel.protocol.methods import LIST_ROOTS
from carrel.protocol.revisions import LATEST as NEWEST
from carrel.protocol.revisions import REVISIONS
from carrel.protocol.server import Call, ClientBatch, ClientNotification, ErrorResponse, ServerProtocol
from carrel.wire.base import Implementation, Result
from carrel.wire.lifecycle import ServerCapabilities
from carrel.wire.resources import ReadResourceResult, TextResourceContents
from carrel.wire.tools import ListToolsResult
from carrel.wire.utilities import SEVERITY, ProgressParams
from support.server_connection import (
    ALL,
    CLIENT,
    DESCRIPTION,
    HANDSHAKES,
    JUNE,
    LATEST,
    MARCH,
    META,
    NOVEMBER,
    OLDEST,
    PREFIX,
    called,
    connected,
    error_of,
    initialize,
    pack,
    refused,
    request,
)

DEEP = b"[" * 100_000 + b"]" * 100_000

#: Parameters with which every method is accepted, and what the operation is called.
VALID: dict[str, tuple[str, dict[str, Any]]] = {
    "initialize": ("initialize", {"protocolVersion": NOVEMBER, "capabilities": {}, "clientInfo": CLIENT}),
    "ping": ("ping", {}),
    "server/discover": ("discover", {}),
    "resources/list": ("list_resources", {"cursor": "abc"}),
    "resources/templates/list": ("list_resource_templates", {}),
    "resources/read": ("read_resource", {"uri": "memo://1"}),
    "resources/subscribe": ("subscribe", {"uri": "memo://1"}),
    "resources/unsubscribe": ("unsubscribe", {"uri": "memo://1"}),
    "prompts/list": ("list_prompts", {}),
    "prompts/get": ("get_prompt", {"name": "greet", "arguments": {"who": "you"}}),
    "tools/list": ("list_tools", {"cursor": ""}),
    "tools/call": ("call_tool", {"name": "add", "arguments": {"a": 1}}),
    "logging/setLevel": ("set_level", {"level": "warning"}),
    "completion/complete": (
        "complete",
        {"ref": {"type": "ref/prompt", "name": "greet"}, "argument": {"name": "who", "value": "y"}},
    ),
    "subscriptions/listen": ("listen", {"notifications": {"toolsListChanged": True}}),
}
NOT_IN = {
    **{method: {LATEST} for method in ("initialize", "ping", "logging/setLevel")},
    **{method: {LATEST} for method in ("resources/subscribe", "resources/unsubscribe")},
    **{method: set(HANDSHAKES) for method in ("server/discover", "subscriptions/listen")},
}


# Requests


@pytest.mark.parametrize("revision", ALL)
@pytest.mark.parametrize("method", VALID)
def test_a_request_is_a_call_where_its_revision_has_the_method(revision: str, method: str) -> None:
    operation, params = VALID[method]
    connection = connected(revision)
    event = connection.receive(pack(request(method, params, "id-1", revision)))
    if revision in NOT_IN.get(method, ()):
        assert isinstance(event, ErrorResponse)
        assert json.loads(event.reply)["error"]["code"] == -32601
        return
    assert isinstance(event, Call)
    assert (event.id, event.request.operation, event.request.method) == ("id-1", operation, method)
    assert event.peer.revision.name == revision


@pytest.mark.parametrize("revision", ALL)
@pytest.mark.parametrize("method", ["nothing/here", "", "Ping", "PING", " ping", "ping ", "rpc.discover", "糖" * 500])
def test_a_method_that_no_table_has_is_not_found(revision: str, method: str) -> None:
    reply = refused(connected(revision), request(method, {}, 7, revision))
    assert (reply["id"], reply["error"]["code"]) == (7, -32601)
    assert method[:200] in reply["error"]["message"]
    assert len(reply["error"]["message"]) < 300


@pytest.mark.parametrize("revision", ALL)
def test_the_name_of_a_notification_is_no_method_of_requests(revision: str) -> None:
    assert error_of(connected(revision), request("notifications/cancelled", {}, 1, revision))["code"] == -32601


@pytest.mark.parametrize("revision", ALL)
@pytest.mark.parametrize(
    "id", [0, 1, -1, 2**53, 2**63 - 1, -(2**63), 2**64 - 1, "", "0", "a\tb", "糖尿病", "x" * 10_000]
)
def test_an_id_comes_back_as_it_came(revision: str, id: Any) -> None:
    connection = connected(revision)
    call = called(connection, request("tools/list", {}, id, revision))
    reply = json.loads(connection.reply(call, ListToolsResult(tools=[])))
    assert reply["id"] == id
    assert type(reply["id"]) is type(id)
    assert json.loads(connection.reject(call, ValueError()).reply)["id"] == id


@pytest.mark.parametrize("id", [10**30, -(10**30), 10**300])
def test_an_id_beyond_64_bits_comes_back_or_is_refused(id: int) -> None:
    connection = connected(JUNE)
    event = connection.receive(pack(request("ping", id=id)))
    if isinstance(event, Call):
        assert json.loads(connection.reply(event, Result()))["id"] == id
    else:
        assert isinstance(event, ErrorResponse)


@pytest.mark.parametrize("digits", [4_301, 1_000_000])
def test_an_integer_of_a_million_digits_does_no_harm(digits: int) -> None:
    connection = connected(JUNE)
    number = b"9" * digits
    for message in (
        b'{"jsonrpc":"2.0","method":"ping","id":%b}',
        b'{"jsonrpc":"2.0","method":"ping","id":1,"params":{"_meta":{"progressToken":%b}}}',
        b'{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":%b}}',
    ):
        assert isinstance(connection.receive(message % number), ErrorResponse | ClientNotification)


@pytest.mark.parametrize("revision", [*HANDSHAKES, None])
@pytest.mark.parametrize("id", [None, 1.5, 1.0, True, False, [], {}, [1], {"id": 1}])
def test_an_id_that_is_neither_text_nor_an_integer_is_refused(revision: str | None, id: Any) -> None:
    reply = refused(connected(revision), request("tools/list", {}, id, revision))
    assert reply["error"]["code"] == -32600
    assert "id" in reply["error"]["message"]


@pytest.mark.parametrize(
    ("revision", "expected"), [(OLDEST, None), (MARCH, None), (JUNE, None), (NOVEMBER, UNSET), (None, UNSET)]
)
@pytest.mark.parametrize(
    "message", [b"{", b"[", b"null", b"3", b'"ping"', b"", request("ping", id=None), {}, {"jsonrpc": "2.0"}]
)
def test_an_error_without_a_readable_id_has_null_or_none_as_its_revision_wants(
    revision: str | None, expected: Any, message: Any
) -> None:
    reply = refused(connected(revision), message)
    assert reply.get("id", UNSET) is expected
    assert reply["jsonrpc"] == "2.0"


@pytest.mark.parametrize("revision", ALL)
@pytest.mark.parametrize("version", ["1.0", "2", "", "2.0 ", 2.0, 2, None, [], UNSET])
def test_jsonrpc_has_to_be_2_0(revision: str, version: Any) -> None:
    message = request("tools/list", {}, 5, revision) | {"jsonrpc": version}
    if version is UNSET:
        del message["jsonrpc"]
    reply = refused(connected(revision), message)
    assert (reply["id"], reply["error"]["code"]) == (5, -32600)
    assert "jsonrpc" in reply["error"]["message"]


@pytest.mark.parametrize("revision", ALL)
@pytest.mark.parametrize("method", [5, None, True, [], {}, 1.5])
def test_a_method_is_text(revision: str, method: Any) -> None:
    reply = refused(connected(revision), request(method, {}, 5, revision))
    assert (reply["id"], reply["error"]["code"]) == (5, -32600)
    assert "method" in reply["error"]["message"]


@pytest.mark.parametrize("revision", HANDSHAKES)
@pytest.mark.parametrize("params", [[], [1], None, "x", 3, True])
def test_parameters_are_an_object(revision: str, params: Any) -> None:
    message = {"jsonrpc": "2.0", "id": 5, "method": "tools/list", "params": params}
    reply = refused(connected(revision), message)
    assert (reply["id"], reply["error"]["code"]) == (5, -32602)
    assert "params" in reply["error"]["message"]


@pytest.mark.parametrize("key", ["JSONRPC", "Jsonrpc", "jsonRpc"])
def test_keys_are_compared_with_their_case(key: str) -> None:
    assert error_of(connected(JUNE), {key: "2.0", "id": 1, "method": "ping"})["code"] == -32600


def test_a_request_whose_id_is_written_in_capitals_is_a_notification() -> None:
    assert isinstance(connected(JUNE).receive(b'{"jsonrpc":"2.0","ID":1,"method":"ping"}'), ClientNotification)
    assert error_of(connected(JUNE), b'{"jsonrpc":"2.0","id":1,"METHOD":"ping"}')["code"] == -32600


PADDING = ["", "x" * 10_000]


@pytest.mark.parametrize("padding", PADDING, ids=["small", "large"])
@pytest.mark.parametrize("separators", [(",", ":"), (", ", ": "), (" ,\n", " : ")], ids=["compact", "usual", "wide"])
@pytest.mark.parametrize("name", ["jsonrpc", "id", "method", "params", "p\\u0061rams", "extra"])
@pytest.mark.parametrize("first", [True, False])
def test_a_member_that_is_there_twice_is_refused(
    padding: str, separators: tuple[str, str], name: str, first: bool
) -> None:
    comma, colon = separators
    plain = name.replace("\\u0061", "a")
    members = {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {"x": padding, "_meta": META}, "extra": 1}
    other = {"jsonrpc": "", "id": 7, "method": "", "params": {}, "extra": 2}[plain]
    pairs = [f'"{key}"{colon}{json.dumps(value, separators=separators)}' for key, value in members.items()]
    pairs.insert(0 if first else len(pairs), f'"{name}"{colon}{json.dumps(other)}')
    valid = "{" + comma.join(pairs[1:] if first else pairs[:-1]) + "}"
    assert isinstance(ServerProtocol(DESCRIPTION).receive(valid.encode()), Call)
    refusal = ServerProtocol(DESCRIPTION).receive(("{" + comma.join(pairs) + "}").encode())
    assert isinstance(refusal, ErrorResponse)
    reply = json.loads(refusal.reply)
    if plain in ("jsonrpc", "method") and not first:
        assert reply["error"]["code"] in (-32600, -32601)  # the second value is none that is accepted
        return
    assert reply["error"] == {"code": -32600, "message": f"Invalid request: {plain!r} is duplicated"}
    assert reply.get("id") == (None if plain == "id" else 1)
    assert refusal.status == 400


@pytest.mark.parametrize("padding", PADDING, ids=["small", "large"])
@pytest.mark.parametrize(
    ("method", "name", "members"),
    [
        ("resources/read", "uri", '"uri":"memo://1"'),
        ("resources/read", "uri", '"\\u0075ri":"memo://1"'),
        ("tools/call", "name", '"name":"a"'),
        ("tools/call", "arguments", '"arguments":{}'),
        ("prompts/get", "name", '"name":"a"'),
        ("tools/list", "cursor", '"cursor":"a"'),
        ("tools/call", "_meta", '"_meta":{}'),
    ],
)
def test_a_parameter_that_is_there_twice_is_refused(padding: str, method: str, name: str, members: str) -> None:
    params = VALID[method][1] | {"_meta": META, "padding": padding}
    if method == "tools/list":
        params["cursor"] = "x"
    if name == "arguments":
        params["arguments"] = {"name": "not that one"}
    text = json.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": params})
    assert isinstance(ServerProtocol(DESCRIPTION).receive(text.encode()), Call)
    doubled = text.replace('"params": {', f'"params": {{{members}, ')
    for data in (doubled.encode(), memoryview(doubled.encode())):
        refusal = ServerProtocol(DESCRIPTION).receive(data)
        assert isinstance(refusal, ErrorResponse)
        reply = json.loads(refusal.reply)
        assert reply["error"] == {"code": -32600, "message": f"Invalid request: params: {name!r} is duplicated"}
        assert reply["id"] == 1


@pytest.mark.parametrize(
    "text",
    [
        '{"jsonrpc":"2.0","id":1,"method":"resources/read","params":{"uri":"memo://1"}}',
        '{"jsonrpc":"2.0","id":"a","method":"resources/read","params":{"uri":"memo://1"}}',
        '{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"t","arguments":{"name":"x","id":"y"}}}',
        '{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{}}',
        '{"jsonrpc":"2.0","id":1,"method":"tools/list"}',
    ],
)
def test_a_short_request_of_a_session_has_each_member_once(text: str) -> None:
    assert isinstance(connected(JUNE).receive(text.encode()), Call)
    message = json.loads(text)
    for members, place in ((message, "{"), (message.get("params", {}), '"params":{')):
        for name, value in members.items():
            for other in (value, 1, "", {}, "{'x':'y'}", 'a"b'):
                doubled = text.replace(place, f'{place}"{name}":{json.dumps(other)},', 1)
                assert isinstance(connected(JUNE).receive(doubled.encode()), ErrorResponse), doubled


def test_names_that_come_back_further_inside_are_not_there_twice() -> None:
    inner = {"name": "a", "arguments": {"id": 1, "method": 2}, "params": {"uri": "x"}, "_meta": {}, "jsonrpc": "1"}
    params = {"name": "t", "arguments": {**inner, "more": [inner, inner]}}
    assert called(connected(JUNE), request("tools/call", params)).params.name == "t"
    client = {f"{PREFIX}clientInfo": {"name": "name", "version": "id"}}
    call = called(connected(), request("tools/call", {"name": "name", "_meta": client}, revision=LATEST))
    assert call.params.name == "name"


def test_notifications_and_answers_have_each_member_once() -> None:
    for text in (
        b'{"jsonrpc":"2.0","method":"notifications/cancelled","method":"notifications/initialized"}',
        b'{"jsonrpc":"2.0","id":1,"id":2,"result":{}}',
        b'{"jsonrpc":"2.0","id":1,"result":{},"result":{"a":1}}',
    ):
        assert error_of(connected(JUNE), text)["code"] == -32600


def test_members_are_counted_up_to_a_limit() -> None:
    members = {f"x{number}": number for number in range(2_000)}
    assert "more than 1000 members" in error_of(connected(JUNE), request("ping") | members)["message"]


def test_members_that_json_rpc_does_not_know_are_ignored() -> None:
    assert called(connected(JUNE), request("ping") | {"extra": {"deep": [1]}, "": 0}).id == 1


# Parameters


@pytest.mark.parametrize("revision", ALL)
@pytest.mark.parametrize(
    ("method", "params", "named"),
    [
        ("resources/read", {}, "uri"),
        ("resources/read", {"uri": 5}, "uri"),
        ("resources/read", {"uri": None}, "uri"),
        ("resources/read", {"Uri": "a:b"}, "uri"),
        ("tools/call", {}, "name"),
        ("tools/call", {"name": ["x"]}, "name"),
        ("prompts/get", {"name": "x", "arguments": {"a": 1}}, "arguments"),
        ("prompts/get", {"name": "x", "arguments": []}, "arguments"),
        ("resources/list", {"cursor": 5}, "cursor"),
        ("completion/complete", {"argument": {"name": "a", "value": "b"}}, "ref"),
        ("completion/complete", {"ref": {"type": "ref/tool"}, "argument": {"name": "a", "value": "b"}}, "ref"),
        ("completion/complete", {"ref": {"type": "ref/prompt", "name": "p"}}, "argument"),
        (
            "completion/complete",
            {"ref": {"type": "ref/prompt", "name": "p"}, "argument": {"name": "a"}},
            "argument.value",
        ),
        (
            "completion/complete",
            {"ref": {"type": "ref/resource"}, "argument": {"name": "a", "value": "b"}},
            "ref.uri",
        ),
        ("tools/list", {"_meta": {"progressToken": 1.5}}, "_meta.progressToken"),
        ("tools/list", {"_meta": {"progressToken": True}}, "_meta.progressToken"),
    ],
)
def test_a_wrong_parameter_is_named(revision: str, method: str, params: Any, named: str) -> None:
    reply = refused(connected(revision), request(method, params, "x", revision))
    assert (reply["id"], reply["error"]["code"]) == ("x", -32602)
    assert reply["error"]["message"].startswith(f"Invalid params: {named}")


@pytest.mark.parametrize(
    ("method", "params", "named"),
    [
        ("logging/setLevel", {}, "level"),
        ("logging/setLevel", {"level": "loud"}, "level"),
        ("logging/setLevel", {"level": "ERROR"}, "level"),
        ("resources/subscribe", {}, "uri"),
        ("resources/unsubscribe", {"uri": 1}, "uri"),
    ],
)
@pytest.mark.parametrize("revision", HANDSHAKES)
def test_a_wrong_parameter_of_the_older_methods_is_named(revision: str, method: str, params: Any, named: str) -> None:
    error = error_of(connected(revision), request(method, params))
    assert error["code"] == -32602
    assert error["message"].startswith(f"Invalid params: {named}")


@pytest.mark.parametrize(
    ("params", "named"),
    [
        ({}, "notifications"),
        ({"notifications": True}, "notifications"),
        ({"notifications": {"toolsListChanged": 1}}, "notifications.toolsListChanged"),
        ({"notifications": {"resourceSubscriptions": "a:b"}}, "notifications.resourceSubscriptions"),
        ({"notifications": {"resourceSubscriptions": ["a:b", 5]}}, "notifications.resourceSubscriptions"),
    ],
)
def test_a_wrong_filter_of_a_listener_is_named(params: Any, named: str) -> None:
    error = error_of(connected(), request("subscriptions/listen", params, revision=LATEST))
    assert error["code"] == -32602
    assert error["message"].startswith(f"Invalid params: {named}")


@pytest.mark.parametrize("revision", ALL)
def test_a_method_that_the_revision_lacks_is_not_found_even_with_wrong_parameters(revision: str) -> None:
    method = "resources/subscribe" if revision == LATEST else "subscriptions/listen"
    assert error_of(connected(revision), request(method, {"uri": 5}, 1, revision))["code"] == -32601


def test_unknown_parameters_are_kept_as_they_came() -> None:
    call = called(connected(JUNE), request("tools/call", {"name": "x", "future": [1], "_meta": {"a/b": {"c": 1}}}))
    assert json.loads(bytes(call.raw))["future"] == [1]
    assert call.meta == {"a/b": {"c": 1}}
    assert called(connected(JUNE), request("ping")).meta == {}


@pytest.mark.parametrize("token", ["t", "", 0, 2**60])
def test_the_progress_token_is_there_if_the_client_gave_one(token: Any) -> None:
    assert called(connected(JUNE), request("ping", {"_meta": {"progressToken": token}})).progress_token == token
    assert called(connected(JUNE), request("ping", {"_meta": {}})).progress_token is None
    assert called(connected(JUNE), request("ping")).progress_token is None


# Bytes


@pytest.mark.parametrize("revision", [*HANDSHAKES, None])
@pytest.mark.parametrize(
    "data",
    [
        b"",
        b" ",
        b"\n",
        b"{",
        b'{"jsonrpc":"2.0"',
        b"hello",
        b"{'jsonrpc':'2.0'}",
        b'{"jsonrpc":"2.0","id":1,"method":"ping"} {}',
        b'{"jsonrpc":"2.0","id":1,"method":"ping",}',
        b'{"jsonrpc":"2.0","id":NaN,"method":"ping"}',
        b'{"jsonrpc":"2.0","id":01,"method":"ping"}',
        b'{"jsonrpc":"2.0","id":1,"method":"ping","params":{"a":tru}}',
        b'{"jsonrpc":"2.0","id":1,"method":"ping","params":{"a":"\x01"}}',
        b'{"jsonrpc":"2.0","id":1,"method":"ping"}\x00',
        b'\xef\xbb\xbf{"jsonrpc":"2.0","id":1,"method":"ping"}',
        '{"jsonrpc":"2.0","id":1,"method":"ping"}'.encode("utf-16"),
        b"\xff\xfe\xfd",
    ],
)
def test_what_is_not_json_is_a_parse_error(revision: str | None, data: bytes) -> None:
    assert error_of(connected(revision), data)["code"] == -32700


#: Not UTF-8, or not text.
NOT_TEXT = [b"\xff", b"\xc3", b"\xed\xa0\x80", b"\xf5\x80\x80\x80", b"\xc0\xaf", rb"\ud800", rb"\udc00"]


@pytest.mark.parametrize("revision", [*HANDSHAKES, None])
@pytest.mark.parametrize(
    "message",
    [
        b'{"jsonrpc":"%b","id":1,"method":"ping"}',
        b'{"jsonrpc":"2.0","id":"%b","method":"ping"}',
        b'{"jsonrpc":"2.0","id":"%b","method":5}',
        b'{"jsonrpc":"2.0","id":1,"method":"%b"}',
        b'{"jsonrpc":"2.0","id":1,"method":"ping","extra":"%b"}',
        b'{"jsonrpc":"2.0","id":1,"method":"ping","%b":1}',
        b'{"jsonrpc":"2.0","id":1,"method":"ping","params":{"a":"%b"}}',
        b'{"jsonrpc":"2.0","id":1,"method":"ping","params":{"%b":1}}',
        b'{"jsonrpc":"2.0","id":1,"method":"resources/read","params":{"uri":"%b"}}',
        b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"x","arguments":{"a":"%b"}}}',
        b'{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"%b"}}',
        b'{"jsonrpc":"2.0","id":1,"result":{"a":"%b"}}',
        b'[{"jsonrpc":"2.0","id":1,"method":"ping","params":{"a":"%b"}}]',
    ],
)
def test_text_that_is_not_utf_8_or_not_text_at_all_is_a_parse_error(revision: str | None, message: bytes) -> None:
    for bad in NOT_TEXT:
        assert error_of(connected(revision), message % bad)["code"] == -32700, bad


def test_surrogate_pairs_are_the_character_they_stand_for() -> None:
    assert called(connected(JUNE), rb'{"jsonrpc":"2.0","id":"\ud83c\udf70","method":"ping"}').id == "🍰"


@pytest.mark.parametrize("revision", [*HANDSHAKES, None])
@pytest.mark.parametrize(
    "message",
    [
        b"%b",
        b"[" * 100_000,
        b'{"a":' * 100_000,
        b'{"jsonrpc":"2.0","id":%b,"method":"ping"}',
        b'{"jsonrpc":"2.0","id":1,"method":%b}',
        b'{"jsonrpc":"2.0","id":1,"method":"ping","params":%b}',
        b'{"jsonrpc":"2.0","id":1,"method":"ping","params":{"_meta":{"x":%b}}}',
        b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"x","arguments":%b}}',
        b'{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":%b}}',
        b'{"jsonrpc":"2.0","id":1,"result":%b}',
        b'[{"jsonrpc":"2.0","id":1,"method":"ping","params":%b}]',
    ],
)
def test_nesting_100_000_deep_is_refused_and_the_connection_lives(revision: str | None, message: bytes) -> None:
    connection = connected(revision)
    data = message % DEEP if b"%b" in message else message
    error = error_of(connection, data)
    assert error["code"] in (-32700, -32600)
    assert called(connection, request("ping")).id == 1


@pytest.mark.parametrize(
    "data", [b"null", b"true", b"3", b"1.5", b'"x"', b"{}", b'{"id":1}', b'{"jsonrpc":"2.0","id":1}']
)
def test_json_that_is_no_message_is_an_invalid_request(data: bytes) -> None:
    assert error_of(connected(JUNE), data)["code"] == -32600


def test_any_buffer_of_bytes_is_read() -> None:
    data = pack(request("ping", {"a": "糖"}))
    for kind in (bytes, bytearray, memoryview):
        assert isinstance(connected(JUNE).receive(kind(data)), Call)
        assert isinstance(
            connected(JUNE).receive(kind(b'{"jsonrpc":"2.0","id":"\xff","method":"ping"}')), ErrorResponse
        )


# Notifications and responses


@pytest.mark.parametrize("revision", [*ALL, None])
@pytest.mark.parametrize(
    ("method", "params", "operation"),
    [
        ("notifications/initialized", {}, "initialized"),
        ("notifications/cancelled", {"requestId": 1, "reason": "bored"}, "cancelled"),
        ("notifications/cancelled", {"requestId": "x"}, "cancelled"),
        ("notifications/cancelled", {}, "cancelled"),
        ("notifications/progress", {"progressToken": 1, "progress": 2}, "progress"),
        ("notifications/roots/list_changed", {}, "roots_list_changed"),
        ("notifications/cancelled", {"requestId": 1.5}, "unknown"),
        ("notifications/cancelled", {"requestId": None}, "cancelled"),
        ("notifications/cancelled", [], "unknown"),
        ("notifications/made/up", {}, "unknown"),
        ("tools/call", {"name": "x"}, "unknown"),
        ("initialize", {}, "unknown"),
        ("", {}, "unknown"),
    ],
)
def test_a_notification_is_a_signal_and_never_answered(
    revision: str | None, method: str, params: Any, operation: str
) -> None:
    event = connected(revision).receive(pack({"jsonrpc": "2.0", "method": method, "params": params}))
    assert isinstance(event, ClientNotification)
    assert event.operation == operation


def test_a_notification_may_go_without_parameters() -> None:
    event = connected(JUNE).receive(b'{"jsonrpc":"2.0","method":"notifications/initialized"}')
    assert isinstance(event, ClientNotification)


@pytest.mark.parametrize("result", [{}, None, 5, [1], {"a": {"b": 1.5}}])
def test_a_response_is_matched_to_its_request(result: Any) -> None:
    connection = connected(JUNE)
    id = json.loads(connection.ask(LIST_ROOTS, {}, "owner"))["id"]
    event = connection.receive(pack({"jsonrpc": "2.0", "id": id, "result": result}))
    assert isinstance(event, Response)
    assert (event.id, event.result, event.waiting.owner) == (id, result, "owner")


def test_an_error_response_is_matched_to_its_request() -> None:
    connection = connected(JUNE)
    id = json.loads(connection.ask(LIST_ROOTS, {}, "owner"))["id"]
    event = connection.receive(pack({"jsonrpc": "2.0", "id": id, "error": {"code": 1, "message": "no", "data": [1]}}))
    assert isinstance(event, FailedRequest)
    assert isinstance(event.error, PeerError)
    assert (event.id, event.error.code, event.error.message, event.error.data) == (id, 1, "no", [1])


@pytest.mark.parametrize("id", [0, 2, "1", -1, 2**53])
@pytest.mark.parametrize("message", [{"result": {}}, {"error": {"code": 1, "message": "no"}}])
def test_a_response_to_no_request_is_ignored_and_handed_on_as_it_came(message: Any, id: Any) -> None:
    connection = connected(JUNE)
    connection.ask(LIST_ROOTS, {}, "owner")
    event = connection.receive(pack({"jsonrpc": "2.0", "id": id, **message}))
    assert isinstance(event, Ignored)
    assert event.response is not None
    assert event.response.id == id
    (name,) = message
    assert json.loads(bytes(getattr(event.response, name))) == message[name]
    assert list(connection.waiting) == [1]


@pytest.mark.parametrize(
    "message",
    [
        {"id": 1},
        {"id": 1, "result": {}, "error": {"code": 1, "message": "x"}},
        {"result": {}},
        {"id": None, "result": {}},
        {"id": None, "error": {"code": -32700, "message": "x"}},
        {"error": {"code": -32700, "message": "x"}},
    ],
)
def test_half_a_response_is_an_invalid_request(message: Any) -> None:
    assert error_of(connected(JUNE), {"jsonrpc": "2.0", **message})["code"] == -32600


# Batches


def test_a_batch_is_read_message_by_message() -> None:
    connection = connected(MARCH)
    messages = [
        request("ping", id="a"),
        {"jsonrpc": "2.0", "method": "notifications/initialized"},
        request("nothing", id="b"),
        {"jsonrpc": "2.0", "id": 9, "result": {}},
        5,
        request("ping", id=None),
        [request("ping", id="c")],
        [],
    ]
    batch = connection.receive(pack(messages))
    assert isinstance(batch, ClientBatch)
    kinds = [
        Call,
        ClientNotification,
        ErrorResponse,
        Ignored,
        ErrorResponse,
        ErrorResponse,
        ErrorResponse,
        ErrorResponse,
    ]
    assert [type(event) for event in batch.events] == kinds
    codes = [json.loads(event.reply)["error"]["code"] for event in batch.events if isinstance(event, ErrorResponse)]
    assert codes == [-32601, -32600, -32600, -32600, -32600]


def test_white_space_in_a_batch_changes_nothing() -> None:
    batch = connected(MARCH).receive(b' \n[ \t[ ] ,\n {"jsonrpc":"2.0","id":1,"method":"ping"} ]\n')
    assert isinstance(batch, ClientBatch)
    assert [type(event) for event in batch.events] == [ErrorResponse, Call]


@pytest.mark.parametrize("count", [0, MAX_BATCH + 1])
def test_a_batch_holds_at_least_one_message_and_not_too_many(count: int) -> None:
    error = error_of(connected(MARCH), [request("ping", id=number) for number in range(count)])
    assert (error["code"], str(MAX_BATCH) in error["message"]) == (-32600, True)


def test_a_batch_may_hold_as_many_messages_as_allowed() -> None:
    batch = connected(MARCH).receive(pack([request("ping", id=number) for number in range(MAX_BATCH)]))
    assert isinstance(batch, ClientBatch)
    assert all(isinstance(event, Call) for event in batch.events)


@pytest.mark.parametrize("revision", [None, OLDEST, JUNE, NOVEMBER])
@pytest.mark.parametrize("messages", [[], [request("ping")], [request("tools/list", revision=LATEST)]])
def test_revisions_without_batches_refuse_them(revision: str | None, messages: Any) -> None:
    assert error_of(connected(revision), messages)["code"] == -32600


@pytest.mark.parametrize("data", [b"[", b"[1,", b"[}", b'[{"jsonrpc":"2.0","id":1,"method":"ping"}'])
def test_half_a_batch_is_a_parse_error(data: bytes) -> None:
    assert error_of(connected(MARCH), data)["code"] == -32700


def test_of_two_requests_with_one_id_in_a_batch_the_second_is_refused() -> None:
    batch = connected(MARCH).receive(
        pack([request("ping", id=1), request("tools/list", {}, 1), request("ping", id="1")])
    )
    assert isinstance(batch, ClientBatch)
    assert [type(event) for event in batch.events] == [Call, ErrorResponse, Call]


def test_a_stateless_request_is_not_part_of_a_batch() -> None:
    batch = connected(MARCH).receive(pack([request("tools/list", {}, 1, LATEST), request("ping", id=2)]))
    assert isinstance(batch, ClientBatch)
    assert [type(event) for event in batch.events] == [ErrorResponse, Call]


@pytest.mark.parametrize("revision", [MARCH, JUNE, None])
@pytest.mark.parametrize("item", [b"1", b"[]", b"{}", b'""'])
def test_a_batch_of_a_million_messages_takes_no_memory_to_refuse(revision: str | None, item: bytes) -> None:
    connection = connected(revision)
    data = b"[" + (item + b",") * 999_999 + item + b"]"
    connection.receive(b"[]")  # what is made when the first batch comes has been made
    tracemalloc.start()
    try:
        assert error_of(connection, data)["code"] == -32600
        assert tracemalloc.get_traced_memory()[1] < 3 * len(data) + 1_000_000
    finally:
        tracemalloc.stop()


# Ids in use


@pytest.mark.parametrize("revision", ALL)
def test_an_id_that_is_still_in_use_is_refused_until_it_is_free(revision: str) -> None:
    connection = connected(revision)
    connection.begin(1)
    message = request("tools/list", {}, 1, revision)
    assert error_of(connection, message)["code"] == -32600
    assert called(connection, request("tools/list", {}, "1", revision)).id == "1"
    connection.end(1)
    assert called(connection, message).id == 1


# The handshake


@pytest.mark.parametrize("revision", HANDSHAKES)
def test_a_handshake_opens_the_revision_that_was_asked_for(revision: str) -> None:
    connection = connected()
    call = called(connection, initialize(revision))
    reply = json.loads(connection.reply(call, connection.initialize(call)))
    assert reply["result"]["protocolVersion"] == revision
    assert reply["result"]["serverInfo"] == {"name": "server", "version": "1.0"}
    assert reply["result"]["capabilities"] == {}
    assert connection.peer is not None
    assert connection.peer.revision.name == revision
    assert connection.peer.client == Implementation("tester", "1")


@pytest.mark.parametrize(
    "version", ["1900-01-01", "2099-12-31", "", "latest", "2026-07-28", "2025-06-18 ", "x" * 5_000]
)
def test_a_version_that_no_handshake_has_is_answered_with_the_newest_that_one_has(version: str) -> None:
    connection = connected()
    call = called(connection, initialize(version))
    reply = json.loads(connection.reply(call, connection.initialize(call)))
    assert reply["result"]["protocolVersion"] == NOVEMBER


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"protocolVersion": UNSET}, "protocolVersion"),
        ({"protocolVersion": 20250618}, "protocolVersion"),
        ({"capabilities": UNSET}, "capabilities"),
        ({"capabilities": []}, "capabilities"),
        ({"capabilities": {"roots": True}}, "capabilities.roots"),
        ({"clientInfo": UNSET}, "clientInfo"),
        ({"clientInfo": {"name": "x"}}, "clientInfo.version"),
        ({"clientInfo": {"name": 1, "version": "1"}}, "clientInfo.name"),
    ],
)
def test_a_handshake_with_wrong_parameters_names_them(change: dict[str, Any], named: str) -> None:
    message = initialize(JUNE)
    for key, value in change.items():
        message["params"][key] = value
        if value is UNSET:
            del message["params"][key]
    connection = connected()
    error = error_of(connection, message)
    assert error["code"] == -32602
    assert error["message"].startswith(f"Invalid params: {named}")
    assert connection.peer is None


@pytest.mark.parametrize("revision", HANDSHAKES)
def test_a_second_handshake_is_refused_and_changes_nothing(revision: str) -> None:
    connection = connected(revision)
    peer = connection.peer
    call = called(connection, initialize(MARCH, id=2))
    with pytest.raises(Exception, match="initialized already") as caught:
        connection.initialize(call)
    refusal = connection.reject(call, caught.value)
    assert json.loads(refusal.reply)["error"]["code"] == -32600
    assert connection.peer is peer


def test_before_the_handshake_only_a_ping_is_answered() -> None:
    connection = connected()
    assert called(connection, request("ping")).request.operation == "ping"
    assert connection.peer is None
    for method, (_, params) in VALID.items():
        if method not in ("ping", "initialize"):
            reply = refused(connection, request(method, params))
            assert reply["error"]["code"] in (-32600, -32601, -32602)


def test_capabilities_are_read_and_unknown_ones_ignored() -> None:
    connection = connected()
    message = initialize(JUNE)
    message["params"]["capabilities"] = {"sampling": {}, "roots": {"listChanged": True}, "telepathy": True}
    call = called(connection, message)
    assert call.peer.capabilities is not None
    assert call.peer.capabilities.sampling == {}
    assert call.peer.capabilities.elicitation is None


# Without a handshake


def stateless(**meta: Any) -> dict[str, Any]:
    """A discover request whose ``_meta`` has these keys instead; UNSET takes one away."""
    keys = META | {PREFIX + key if key != "progressToken" else key: value for key, value in meta.items()}
    return {
        "jsonrpc": "2.0",
        "id": 1,
        "method": "server/discover",
        "params": {"_meta": {key: value for key, value in keys.items() if value is not UNSET}},
    }


def test_a_stateless_request_brings_its_peer() -> None:
    message = stateless(clientInfo=CLIENT, logLevel="error", clientCapabilities={"sampling": {}})
    peer = called(connected(), message).peer
    assert peer.revision is NEWEST
    assert peer.client == Implementation("tester", "1")
    assert peer.log_level == SEVERITY["error"]
    assert peer.capabilities is not None
    assert peer.capabilities.sampling == {}


def test_who_the_client_is_may_stay_unsaid_and_silence_is_the_default() -> None:
    peer = called(connected(), stateless()).peer
    assert (peer.client, peer.log_level) == (None, None)


@pytest.mark.parametrize("version", ["1900-01-01", "2027-01-01", "", "x" * 5_000])
def test_a_version_that_is_not_spoken_statelessly_is_unsupported(version: str) -> None:
    event = connected().receive(pack(stateless(protocolVersion=version)))
    assert isinstance(event, ErrorResponse)
    error = json.loads(event.reply)["error"]
    assert error["code"] == -32022
    assert error["data"] == {"supported": list(reversed(ALL)), "requested": version[:100]}
    assert event.status == 400


@pytest.mark.parametrize("version", HANDSHAKES)
def test_a_version_that_wants_a_handshake_is_not_among_those_to_try_instead(version: str) -> None:
    event = connected().receive(pack(stateless(protocolVersion=version)))
    assert isinstance(event, ErrorResponse)
    error = json.loads(event.reply)["error"]
    assert (error["code"], event.status) == (-32022, 400)
    assert error["data"] == {"supported": [LATEST], "requested": version}
    assert "initialize" in error["message"]


@pytest.mark.parametrize(
    ("method", "params"),
    [
        ("tools/list", {"cursor": None}),
        ("tools/list", {"_meta": {"progressToken": None}}),
        ("tools/list", {"cursor": None, "_meta": {"progressToken": None, "com.example/x": None}}),
        ("tools/call", {"name": "t", "requestState": None}),
        ("prompts/get", {"name": "t", "arguments": None}),
        ("completion/complete", {**VALID["completion/complete"][1], "context": None}),
        ("completion/complete", {**VALID["completion/complete"][1], "context": {"arguments": None}}),
    ],
)
def test_null_for_an_optional_parameter_is_none_at_all(method: str, params: dict[str, Any]) -> None:
    call = called(connected(), request(method, params, revision=LATEST))
    assert getattr(call.params, "cursor", None) is None
    assert getattr(call.params, "arguments", None) in (None, UNSET)
    assert call.progress_token is None
    assert call.meta[f"{PREFIX}protocolVersion"] == LATEST
    assert called(connected(JUNE), request("ping", {"_meta": None})).meta == {}


def test_null_for_a_required_parameter_is_wrong() -> None:
    error = error_of(connected(JUNE), request("resources/read", {"uri": None}))
    assert (error["code"], "uri" in error["message"]) == (-32602, True)


@pytest.mark.parametrize(
    ("meta", "named"),
    [
        ({"protocolVersion": UNSET}, "protocolVersion"),
        ({"protocolVersion": 5}, "protocolVersion"),
        ({"protocolVersion": None}, "protocolVersion"),
        ({"clientCapabilities": UNSET}, "clientCapabilities"),
        ({"clientCapabilities": True}, "clientCapabilities"),
        ({"clientInfo": "me"}, "clientInfo"),
        ({"clientInfo": {"name": "me"}}, "clientInfo"),
        ({"logLevel": "loud"}, "logLevel"),
        ({"logLevel": 3}, "logLevel"),
    ],
)
def test_meta_that_lacks_or_garbles_what_is_required_is_refused(meta: dict[str, Any], named: str) -> None:
    event = connected().receive(pack(stateless(**meta)))
    assert isinstance(event, ErrorResponse)
    error = json.loads(event.reply)["error"]
    assert error["code"] == -32602
    assert named in error["message"]
    assert event.status == 400


def test_a_request_without_any_meta_is_told_what_is_missing() -> None:
    event = connected().receive(pack(request("tools/list", {})))
    assert isinstance(event, ErrorResponse)
    error = json.loads(event.reply)["error"]
    assert error["code"] == -32602
    assert "io.modelcontextprotocol/protocolVersion" in error["message"]
    assert event.status == 400


def test_both_eras_live_on_one_connection() -> None:
    connection = connected(OLDEST)
    modern = called(connection, request("tools/list", {}, 2, LATEST))
    old = called(connection, request("tools/list", {}, 3))
    assert (modern.peer.revision.name, old.peer.revision.name) == (LATEST, OLDEST)
    assert "resultType" in json.loads(connection.reply(modern, ListToolsResult(tools=[])))["result"]
    assert json.loads(connection.reply(old, ListToolsResult(tools=[])))["result"] == {"tools": []}


def test_a_stateless_request_does_not_stand_in_for_the_handshake() -> None:
    connection = connected()
    called(connection, request("tools/list", {}, 1, LATEST))
    assert connection.peer is None
    assert error_of(connection, request("tools/list", {}))["code"] == -32602
    call = called(connection, initialize(MARCH))
    connection.initialize(call)
    assert called(connection, request("tools/list", {})).peer.revision.name == MARCH


def test_a_handshake_with_the_meta_of_a_stateless_request_is_not_found() -> None:
    message = initialize(JUNE)
    message["params"]["_meta"] = META
    connection = connected()
    assert error_of(connection, message)["code"] == -32601
    assert connection.peer is None


def test_a_level_of_one_request_is_not_that_of_the_next() -> None:
    connection = connected(JUNE)
    loud = request("tools/list", {"_meta": {f"{PREFIX}logLevel": "debug"}}, 1, LATEST)
    assert called(connection, loud).peer.log_level == 0
    assert called(connection, request("tools/list", {}, 2, LATEST)).peer.log_level is None
    assert called(connection, request("tools/list", {}, 3)).peer.log_level == SEVERITY["info"]


def test_the_version_in_the_headers_has_to_be_the_one_in_the_body() -> None:
    connection = connected()
    connection.version_header = NOVEMBER
    event = connection.receive(pack(stateless()))
    assert isinstance(event, ErrorResponse)
    assert json.loads(event.reply)["error"]["code"] == -32020
    assert event.status == 400


def test_a_server_may_speak_fewer_revisions() -> None:
    only_new = Description(DESCRIPTION.info, ServerCapabilities, revisions={LATEST: REVISIONS[LATEST]})
    error = error_of(ServerProtocol(only_new), initialize(JUNE))
    assert error["code"] == -32022
    assert error["data"] == {"supported": [LATEST], "requested": JUNE}
    only_old = Description(DESCRIPTION.info, ServerCapabilities, revisions={JUNE: REVISIONS[JUNE]})
    assert error_of(ServerProtocol(only_old), stateless())["data"]["supported"] == [JUNE]
    assert called(ServerProtocol(only_old), initialize(NOVEMBER)).peer.revision.name == JUNE


# Errors


def refuse(revision: str, error: BaseException) -> tuple[dict[str, Any], int]:
    connection = connected(revision)
    refusal = connection.reject(called(connection, request("tools/list", {}, 1, revision)), error)
    reply = json.loads(refusal.reply)
    assert (reply["jsonrpc"], reply["id"]) == ("2.0", 1)
    return reply["error"], refusal.status


@pytest.mark.parametrize("revision", ALL)
@pytest.mark.parametrize("kind", [ResourceNotFound, ResourceForbidden])
def test_a_resource_that_is_not_there_or_not_for_you_is_not_found(revision: str, kind: type) -> None:
    error, _ = refuse(revision, kind("file:///secret", "because of the rule on line 7"))
    code = -32602 if revision == LATEST else -32002
    assert error == {"code": code, "message": "Resource not found", "data": {"uri": "file:///secret"}}


@pytest.mark.parametrize("revision", ALL)
def test_a_resource_that_is_too_large_says_so_and_names_itself(revision: str) -> None:
    error, _ = refuse(revision, ResourceTooLarge("file:///big", "11 MiB; ask for ?bytes=0-65535"))
    data = {"uri": "file:///big", "reason": "too large"}
    assert error == {"code": -32602, "message": "11 MiB; ask for ?bytes=0-65535", "data": data}


@pytest.mark.parametrize("revision", ALL)
@pytest.mark.parametrize(
    "error", [ValueError("secret /etc/passwd"), KeyError("k"), OSError(2, "no", "/home/me"), RecursionError()]
)
def test_an_error_of_ours_says_nothing_about_us(revision: str, error: BaseException) -> None:
    assert refuse(revision, error) == ({"code": -32603, "message": "Internal error"}, 200)


@pytest.mark.parametrize(
    ("error", "code", "data", "status"),
    [
        (MethodNotFound("no"), -32601, None, 404),
        (InvalidParams("no"), -32602, None, 200),
        (InvalidParams("no", {"uri": "x"}), -32602, {"uri": "x"}, 200),
        (InvalidCursor(), -32602, None, 200),
        (HeaderMismatch("no"), -32020, None, 400),
        (MissingCapability({"sampling": {}}), -32021, {"requiredCapabilities": {"sampling": {}}}, 400),
    ],
)
def test_errors_of_a_stateless_request_have_their_data_and_their_status(
    error: Any, code: int, data: Any, status: int
) -> None:
    told, given = refuse(LATEST, error)
    assert (told["code"], told.get("data"), given) == (code, data, status)


@pytest.mark.parametrize("revision", HANDSHAKES)
@pytest.mark.parametrize("error", [MethodNotFound("no"), InvalidParams("no"), MissingCapability({"roots": {}})])
def test_errors_within_a_session_are_carried_by_status_200(revision: str, error: Any) -> None:
    assert refuse(revision, error)[1] == 200


def test_a_method_not_found_is_status_404_for_stateless_requests_only() -> None:
    for revision, status in ((LATEST, 404), (JUNE, 200)):
        event = connected(revision).receive(pack(request("no/such", {}, 1, revision)))
        assert isinstance(event, ErrorResponse)
        assert event.status == status


@pytest.mark.parametrize("revision", [*HANDSHAKES, None])
@pytest.mark.parametrize("data", [b"{", b"null", b'{"jsonrpc":"1.0","id":1,"method":"ping"}'])
def test_what_is_no_message_is_status_400_everywhere(revision: str | None, data: bytes) -> None:
    event = connected(revision).receive(data)
    assert isinstance(event, ErrorResponse)
    assert event.status == 400


# Results and events on their way out


def test_a_result_that_is_encoded_already_is_put_into_the_envelope() -> None:
    connection = connected(JUNE)
    for id in (1, "q\"'", "糖"):
        call = called(connection, request("tools/list", {}, id))
        assert json.loads(connection.reply(call, b'{"tools":[]}')) == {
            "jsonrpc": "2.0",
            "id": id,
            "result": {"tools": []},
        }


@pytest.mark.parametrize("revision", ALL)
def test_a_reply_has_exactly_the_members_of_json_rpc(revision: str) -> None:
    connection = connected(revision)
    call = called(connection, request("resources/read", {"uri": "a:b"}, 1, revision))
    result = ReadResourceResult(contents=[TextResourceContents("a:b", "text", meta={"k": 1})])
    reply = json.loads(connection.reply(call, result))
    assert set(reply) == {"jsonrpc", "id", "result"}
    has_meta = revision in (JUNE, NOVEMBER, LATEST)
    assert ("_meta" in reply["result"]["contents"][0]) is has_meta
    expected = {"contents", "resultType", "ttlMs", "cacheScope", "_meta"} if revision == LATEST else {"contents"}
    assert set(reply["result"]) == expected


def test_the_server_names_itself_in_every_stateless_result() -> None:
    connection = connected()
    call = called(connection, request("tools/list", {}, 1, LATEST))
    meta = json.loads(connection.reply(call, ListToolsResult(tools=[])))["result"]["_meta"]
    assert meta == {f"{PREFIX}serverInfo": {"name": "server", "version": "1.0"}}


def test_an_event_is_encoded_as_its_revision_has_it() -> None:
    params = ProgressParams(progress_token="t", progress=1, total=2, message="half")
    old = json.loads(encode_event(REVISIONS[OLDEST], "progress", params))
    new = json.loads(encode_event(REVISIONS[LATEST], "progress", params))
    assert old["params"] == {"progressToken": "t", "progress": 1.0, "total": 2.0}
    assert new["params"] == {"progressToken": "t", "progress": 1.0, "total": 2.0, "message": "half"}
    assert new["method"] == "notifications/progress"
    assert json.loads(encode_event(REVISIONS[OLDEST], "tools_list_changed")) == {
        "jsonrpc": "2.0",
        "method": "notifications/tools/list_changed",
    }
    with pytest.raises(KeyError):
        encode_event(REVISIONS[OLDEST], "subscription_acknowledged")


def test_an_error_is_encoded_with_data_only_if_there_is_some() -> None:
    assert json.loads(encode_error("x", -1, "m")) == {
        "jsonrpc": "2.0",
        "id": "x",
        "error": {"code": -1, "message": "m"},
    }
    assert json.loads(encode_error(None, -1, "m", [1]))["error"]["data"] == [1]
    assert json.loads(encode_error(None, -1, "m"))["id"] is None
    assert "id" not in json.loads(encode_error(UNSET, -1, "m"))


def test_the_encoder_knows_models_and_refuses_what_has_no_json() -> None:
    class Model:
        def model_dump(self, *, mode: str, by_alias: bool) -> dict[str, Any]:
            return {"mode": mode, "alias": by_alias}

    assert json.loads(encode(Model())) == {"mode": "json", "alias": True}
    with pytest.raises(TypeError, match="object cannot be turned into JSON"):
        encode(object())


def test_a_peer_is_what_it_says() -> None:
    assert Peer(NEWEST) == Peer(NEWEST, None, None, None)
    assert msgspec.structs.replace(Peer(NEWEST), log_level=3).log_level == 3
