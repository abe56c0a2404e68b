"""Large answers are read in one go, and mean what they mean when they are read step by step."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from carrel.protocol import client
from carrel.protocol.client import ClientProtocol, Event, FailedRequest, Ignored, Response
from carrel.protocol.methods import CALL_TOOL, LIST_RESOURCES, READ_RESOURCE
from carrel.protocol.results import begins_response, id_of_response
from carrel.protocol.revisions import REVISIONS
from carrel.wire.base import ClientCapabilities, Implementation, PageParams
from carrel.wire.resources import ReadResourceParams
from carrel.wire.tools import CallToolParams
from support.examples import examples

NOVEMBER, LATEST = "2025-11-25", "2026-07-28"
NEVER = 1 << 60
LONG = "x" * (client.LARGE + 1)

RESOURCES = {"resources": [{"uri": f"memo://{number}", "name": f"memo {number}"} for number in range(100)]}
TEXT = {"contents": [{"uri": "memo://1", "text": LONG}]}
BLOB = {"contents": [{"uri": "memo://1", "blob": "AAAA" * client.LARGE, "text": "no"}]}
TOOL = {"content": [{"type": "text", "text": LONG}], "structuredContent": {"id": 1, "deep": [{"id": 2}]}}
QUESTION = {"resultType": "input_required", "requestState": LONG}
ERROR = {"code": -32602, "message": LONG}


def asking(revision: str) -> ClientProtocol:
    """A connection that waits for a list (1), a resource (2) and a tool (3)."""
    connection = ClientProtocol(Implementation("c", "1"), ClientCapabilities())
    connection.speak(REVISIONS[revision])
    assert connection.request(LIST_RESOURCES, PageParams()).id == 1
    assert connection.request(READ_RESOURCE, ReadResourceParams(uri="memo://1")).id == 2
    assert connection.request(CALL_TOOL, CallToolParams(name="t")).id == 3
    return connection


def shown(event: Event) -> Any:
    """An event as something that can be compared."""
    match event:
        case Response():
            return "reply", event.id, type(event.id), type(event.result), msgspec.to_builtins(event.result)
        case FailedRequest():
            return "failure", event.id, type(event.error), str(event.error)
        case Ignored():
            return "stray", event.reason, event.reply
        case _:
            return type(event), str(event)


def both(data: bytes, revision: str, patch: pytest.MonkeyPatch) -> Any:
    """What a message means; it is the same in one go and step by step."""
    meanings = []
    for size in (0, NEVER):
        patch.setattr(client, "LARGE", size)
        connection = asking(revision)
        meanings.append((shown(connection.receive(data)), sorted(connection.waiting)))
    assert meanings[0] == meanings[1]
    return meanings[0][0]


def message(**parts: Any) -> bytes:
    return json.dumps(parts).encode()


@pytest.mark.parametrize("revision", [NOVEMBER, LATEST])
@pytest.mark.parametrize(
    ("data", "kind"),
    [
        (message(jsonrpc="2.0", id=1, result=RESOURCES), "reply"),
        (message(jsonrpc="2.0", id=2, result=TEXT), "reply"),
        (message(jsonrpc="2.0", id=2, result=BLOB), "reply"),
        (message(jsonrpc="2.0", id=3, result=TOOL), "reply"),
        (message(id=1, jsonrpc="2.0", result=RESOURCES), "reply"),
        (message(result=RESOURCES, jsonrpc="2.0", id=1), "reply"),
        (message(result=TOOL, id=3, jsonrpc="2.0"), "reply"),
        (b" \n" + message(jsonrpc="2.0", id=1, result={**RESOURCES, "resultType": "complete"}), "reply"),
        (message(jsonrpc="2.0", id=1, result=TEXT), "failure"),
        (message(jsonrpc="2.0", id=1, result={"resources": [{"uri": 7}]}), "failure"),
        (message(jsonrpc="2.0", id=2, result={"contents": [{"uri": "memo://1", "blob": "no base64!"}]}), "failure"),
        (message(jsonrpc="2.0", id=1, error=ERROR), "failure"),
        (message(jsonrpc="2.0", id=1, result=RESOURCES, error=ERROR), "failure"),
        (message(jsonrpc="2.0", id=1), "failure"),
        (message(jsonrpc="1.0", id=1, result=RESOURCES), "stray"),
        (message(id=1, result=RESOURCES), "stray"),
        (message(jsonrpc="2.0", id=9, result=RESOURCES), "stray"),
        (message(jsonrpc="2.0", id="1", result=RESOURCES), "reply"),
        (message(jsonrpc="2.0", id=True, result=RESOURCES), "stray"),
        (message(jsonrpc="2.0", id=1.0, result=RESOURCES), "reply"),
        (message(jsonrpc="2.0", id=None, result=RESOURCES), "stray"),
        (b'{"jsonrpc":"2.0","id":1,"id":9,"result":' + json.dumps(RESOURCES).encode() + b"}", "stray"),
        (b'{"jsonrpc":"2.0","id":1,"id":true,"result":' + json.dumps(RESOURCES).encode() + b"}", "stray"),
        (b'{"jsonrpc":"2.0","id":9,"result":' + json.dumps(RESOURCES).encode() + b',"id":1}', "reply"),
        (b'{"jsonrpc":"2.0","id":2,"id":1,"result":' + json.dumps(RESOURCES).encode() + b"}", "reply"),
        (b'{"jsonrpc":"2.0","id":1,"result":' + json.dumps(RESOURCES).encode(), "stray"),
        (message(jsonrpc="2.0", id=1, result=RESOURCES) + b"x", "stray"),
        (message(jsonrpc="2.0", id=1, result={"resources": [], "nextCursor": "\ud800"}), "stray"),
        (message(jsonrpc="2.0", id=2, result=TEXT).replace(b"xx", b"\xff\xff", 1), "failure"),
    ],
)
def test_a_large_answer_means_the_same_in_one_go(
    data: bytes, kind: str, revision: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert both(data, revision, monkeypatch)[0] == kind


def test_a_large_question_is_no_answer_in_a_stateless_revision(monkeypatch: pytest.MonkeyPatch) -> None:
    data = message(jsonrpc="2.0", id=3, result=QUESTION)
    assert both(data, LATEST, monkeypatch)[3].__name__ == "InputRequiredResult"
    assert both(data, NOVEMBER, monkeypatch)[0] == "failure"
    data = message(jsonrpc="2.0", id=3, result={**TOOL, **QUESTION})
    assert both(data, LATEST, monkeypatch)[3].__name__ == "InputRequiredResult"
    assert both(data, NOVEMBER, monkeypatch)[3].__name__ == "CallToolResult"
    data = message(jsonrpc="2.0", id=1, result={**RESOURCES, "resultType": "of tomorrow"})
    assert both(data, LATEST, monkeypatch)[0] == "failure"


def test_a_large_request_of_the_server_with_the_id_of_a_request_of_ours_is_no_answer(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for data in (
        message(jsonrpc="2.0", id=1, method="ping", params={"x": LONG}),
        message(jsonrpc="2.0", id=1, method="ping", result=RESOURCES),
    ):
        assert both(data, NOVEMBER, monkeypatch)[0] != "reply"


PARTS = st.fixed_dictionaries(
    {},
    optional={
        "jsonrpc": st.sampled_from(["2.0", "2.0", "2.0", "1.0", 2]),
        "id": st.sampled_from([1, 2, 3, 3, 4, "1", True, None, 1.5]),
        "result": st.sampled_from([RESOURCES, TEXT, BLOB, TOOL, QUESTION, {}, None, 7]),
        "error": st.sampled_from([ERROR, None]),
        "method": st.sampled_from(["ping", "roots/list", 7]),
        "params": st.just({"id": 1}),
        "other": st.just({"id": 1}),
    },
)


@settings(deadline=None, max_examples=examples(75))
@given(PARTS, st.randoms(use_true_random=False), st.sampled_from([NOVEMBER, LATEST]), st.integers(-5, 5))
def test_whatever_a_server_sends_means_the_same_in_one_go(
    parts: dict[str, Any], random: Any, revision: str, cut: int
) -> None:
    keys = list(parts)
    random.shuffle(keys)
    data = message(**{key: parts[key] for key in keys})
    with pytest.MonkeyPatch.context() as patch:
        both(data[:cut] if cut < 0 else data, revision, patch)


# Responses of which only the beginning and the end were kept


@pytest.mark.parametrize(
    "message",
    [
        b'{"jsonrpc":"2.0","id":7,"result":{"a":"%s"}}',
        b'{"id": 7, "jsonrpc": "2.0", "result": {"a":"%s"}}',
        b' { "jsonrpc" : "2.0" , "id" : 7 , "error" : {"message":"%s"}}',
        b'{"result":{"a":"%s"},"jsonrpc":"2.0","id":7}',
        b'{"jsonrpc":"2.0","result":{"a":"%s"},"id":7}\r',
    ],
)
def test_the_id_of_a_response_is_found_first_or_last(message: bytes) -> None:
    whole = message % (b"x" * 1000)
    assert begins_response(whole[:200])
    assert id_of_response(whole[:200], whole[-200:]) == 7


@pytest.mark.parametrize(
    "message",
    [
        b'{"jsonrpc":"2.0","id":7,"params":{"a":"%s"},"method":"ping"}',  # a request of the server
        b'{"jsonrpc":"2.0","method":"ping","params":{"a":"%s"},"id":7}',
        b'{"params":{"a":"%s"},"result":{},"id":7}',
    ],
)
def test_a_request_has_no_id_of_a_response(message: bytes) -> None:
    whole = message % (b"x" * 1000)
    assert not begins_response(whole[:200])
    assert id_of_response(whole[:200], whole[-200:]) is None


def test_contents_do_not_look_like_the_id() -> None:
    head = b'{"jsonrpc":"2.0","result":{"contents":{"a":"' + b"x" * 100 + b'","id":7}'
    assert id_of_response(head, b'","id":8}}') is None
