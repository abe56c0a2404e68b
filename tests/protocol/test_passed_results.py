"""Results of another server that are passed on: bytes unchanged if the revisions are the same, converted otherwise."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
from msgspec import UNSET, Raw

from carrel.errors import InvalidMessage
from carrel.protocol.passed_results import PassedResult, attached, pass_on, private, with_members
from carrel.protocol.revisions import REVISIONS
from carrel.protocol.unknown import whole
from carrel.wire.tools import CallToolResult
from support.server_connection import LATEST, NOVEMBER, OLDEST, called, connected, request

CONTENT = '"content":[{"type":"text","text":"a"}]'
SERVER_INFO, RELATED = "io.modelcontextprotocol/serverInfo", "io.modelcontextprotocol/related-task"


def result(raw: bytes | str, revision: str = NOVEMBER) -> PassedResult[CallToolResult]:
    data = raw.encode() if isinstance(raw, str) else raw
    return PassedResult(msgspec.json.decode(data, type=CallToolResult), Raw(data), REVISIONS[revision])


def passed(raw: bytes | str, source: str = NOVEMBER, target: str = NOVEMBER) -> bytes:
    """Return what a client of the target revision gets for a result of a server of the source revision."""
    call = called(connected(target), request("tools/call", {"name": "a"}, revision=target))
    return pass_on(call, result(raw, source))


def test_a_result_is_unchanged_if_both_sides_speak_the_same_revision() -> None:
    raw = '{ "structuredContent" : {"a": 1.50}, ' + CONTENT + ', "isError":false, "later": [1, {"b": null}]}'
    assert passed(raw) == raw.encode()


def test_a_result_with_line_ends_becomes_one_line() -> None:
    assert passed("{\n" + CONTENT + ",\r\n" + '"later": "a\\nb"\n}') == ("{" + CONTENT + ',"later":"a\\nb"}').encode()


@pytest.mark.parametrize("key", [SERVER_INFO, RELATED])
def test_keys_of_meta_that_belong_to_one_connection_are_removed(key: str) -> None:
    kept = '{"com.example/a":1}'
    assert json.loads(passed("{" + CONTENT + ',"_meta":{"' + key + '":{},"com.example/a":1}}'))["_meta"] == json.loads(
        kept
    )
    assert passed("{" + CONTENT + ',"_meta":{"' + key + '":{}}}') == ("{" + CONTENT + "}").encode()
    assert passed("{" + CONTENT + ',"_meta":' + kept + "}") == ("{" + CONTENT + ',"_meta":' + kept + "}").encode()


@pytest.mark.parametrize("name", ['"resultType"', '"result\\u0054ype"'])
def test_a_session_gets_no_type_of_result_however_its_name_is_written(name: str) -> None:
    assert passed("{" + CONTENT + "," + name + ':"complete"}') == ("{" + CONTENT + "}").encode()


def test_a_result_with_other_escapes_keeps_its_members() -> None:
    assert json.loads(passed("{" + CONTENT + ',"later":"\\u0001"}')) == json.loads(
        "{" + CONTENT + ',"later":"\\u0001"}'
    )


def test_a_stateless_client_gets_the_name_of_this_server_and_the_other_keys_of_meta() -> None:
    raw = "{" + CONTENT + ',"resultType":"complete","_meta":{"' + SERVER_INFO + '":{"name":"x"},"com.example/a":1}}'
    found = json.loads(passed(raw, LATEST, LATEST))
    assert found["_meta"] == {SERVER_INFO: {"name": "server", "version": "1.0"}, "com.example/a": 1}
    assert found["resultType"] == "complete"


@pytest.mark.parametrize(("source", "target"), [(NOVEMBER, LATEST), (LATEST, NOVEMBER), (NOVEMBER, OLDEST)])
def test_unknown_members_survive_the_conversion_between_revisions(source: str, target: str) -> None:
    raw: dict[str, Any] = {
        "content": [{"type": "text", "text": "a", "tone": "warm"}],
        "later": {"b": 1},
        "_meta": {SERVER_INFO: {"name": "x"}, RELATED: {"taskId": "1"}, "com.example/a": 1},
    }
    if source == LATEST:
        raw["resultType"] = "complete"
    found = json.loads(passed(json.dumps(raw), source, target))
    assert found["content"] == raw["content"]
    assert found["later"] == raw["later"]
    assert ("resultType" in found) == (target == LATEST)
    assert found["_meta"].pop("com.example/a") == 1
    assert found["_meta"].pop(SERVER_INFO, None) == ({"name": "server", "version": "1.0"} if target == LATEST else None)
    assert not found["_meta"]


def test_unknown_members_survive_the_conversion_of_a_result_whose_numbers_become_longer() -> None:
    numbers = ",".join(["1e15"] * 10)
    found = json.loads(passed('{"content":[],"structuredContent":{"a":[' + numbers + ']},"later":1}', NOVEMBER, LATEST))
    assert found["later"] == 1


@pytest.mark.parametrize("target", [NOVEMBER, LATEST])
def test_a_result_that_is_not_utf_8_is_refused(target: str) -> None:
    with pytest.raises(InvalidMessage, match="UTF-8"):
        passed(b"{" + CONTENT.encode() + b',"later":"\xff"}', NOVEMBER, target)


def test_members_that_no_type_checks_are_checked_when_they_are_converted() -> None:
    with pytest.raises(InvalidMessage, match="not valid"):
        passed("{" + CONTENT + ',"later":1e999}', NOVEMBER, LATEST)


def test_a_decoded_result_has_the_members_that_its_type_does_not_know() -> None:
    raw = "{" + CONTENT + ',"later":1,"_meta":{"' + RELATED + '":{"taskId":"1"}}}'
    assert whole(attached(result(raw))) == json.loads("{" + CONTENT + ',"later":1}')
    known = result("{" + CONTENT + "}")
    assert attached(known) is known.value


def test_members_of_an_encoded_result_are_replaced_and_removed() -> None:
    assert with_members(b'{"a":1,"b":[2.50],"c":3}', {"a": 5, "c": UNSET, "d": 6}) == b'{"a":5,"b":[2.50],"d":6}'


@pytest.mark.parametrize("name", ['"cacheScope"', '"cache\\u0053cope"'])
@pytest.mark.parametrize("scope", ['"public"', '"p\\u0075blic"'])
def test_a_public_result_becomes_private_however_it_is_written(name: str, scope: str) -> None:
    assert json.loads(private(("{" + CONTENT + "," + name + ":" + scope + "}").encode()))["cacheScope"] == "private"


@pytest.mark.parametrize("rest", ["", ',"cacheScope":"private"', ',"later":"public"', ',"later":"\\u0001"'])
def test_a_result_that_is_not_public_is_not_changed(rest: str) -> None:
    raw = ("{" + CONTENT + rest + "}").encode()
    assert private(raw) is raw
