"""Messages between replicas about a parked call: results, errors, server requests and responses stay as they are."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from carrel.errors import (
    InvalidParams,
    LoginRequired,
    MCPError,
    MissingCapability,
    PeerError,
    ResourceNotFound,
    TransportError,
)
from carrel.host.call_messages import (
    Failure,
    PassOn,
    Success,
    error_of,
    failure_of,
    outcome_of,
    params_of,
    read_message,
    response_of,
    result_of,
    write_message,
    write_struct,
)
from carrel.host.relay import CallLost, InvalidClientResponse
from carrel.protocol import unknown
from carrel.protocol.passed_results import PassedResult, attached
from carrel.protocol.results import reader
from carrel.protocol.revisions import LATEST, LATEST_HANDSHAKE
from carrel.wire.client_features import CreateMessageParams, ElicitParams, ElicitResult, ListRootsParams
from carrel.wire.content import TextContent
from carrel.wire.resources import ReadResourceResult
from carrel.wire.tools import CallToolResult


def through(message: Any) -> Any:
    return read_message(write_message(message))


@pytest.mark.parametrize(
    ("kind", "raw", "plain"),
    [
        (CallToolResult, b'{"content":[{"type":"text","text":"a"}],"un\\u006bnown":[1]}', True),
        (CallToolResult, b'{"content":[{"type":"text","text":"a"},{"type":"smell","of":"tea"}]}', False),
        (ReadResourceResult, b'{"contents":[{"uri":"a://b","text":"c","x":{}},{"uri":"a://b","blob":"AA=="}]}', True),
    ],
)
def test_a_result_is_the_same_at_the_other_replica(kind: Any, raw: bytes, plain: bool) -> None:
    for revision in (LATEST, LATEST_HANDSHAKE):
        known = unknown.without_foreign_blocks(msgspec.Raw(raw)) if not plain else None
        value = reader(kind)(raw if known is None else known[0])
        given = PassedResult(value, msgspec.Raw(raw), revision, None if known is None else known[1])
        message = through(outcome_of(given, None))
        assert (message.value is None) == plain
        found = result_of(message, kind)
        assert unknown.whole(attached(found)) == unknown.whole(attached(given))
        assert (bytes(found.raw), found.revision, found.foreign) == (raw, revision, given.foreign)


def test_a_result_without_its_json_and_no_result() -> None:
    given = CallToolResult(content=[TextContent("a")])
    assert result_of(through(outcome_of(given, None)), CallToolResult) == given
    assert result_of(through(outcome_of(None, None)), None) is None


def test_a_failure_for_lack_of_a_capability_is_that_error() -> None:
    missing, failed = MissingCapability({"roots": {}}), CallToolResult(content=[], is_error=True)
    assert isinstance(outcome_of(failed, missing), Failure)
    assert isinstance(outcome_of(failed, None), Success)
    assert isinstance(outcome_of(CallToolResult(content=[]), missing), Success)


@pytest.mark.parametrize(
    "error",
    [
        PeerError(-32099, "no", {"a": [1]}),
        InvalidParams("wrong", {"b": 1}),
        InvalidClientResponse("wrong", None),
        MissingCapability({"elicitation": {"form": {}}}),
        LoginRequired("log in", "https://example.org/"),
        LoginRequired("log in"),
        CallLost("gone"),
        ResourceNotFound("a://b", "no such thing"),
    ],
)
def test_an_error_is_the_same_at_the_other_replica(error: MCPError) -> None:
    found = error_of(through(failure_of(error)))
    assert (type(found), str(found), vars(found)) == (type(error), str(error), vars(error))


def test_an_error_of_the_connection_is_one_at_the_other_replica() -> None:
    for error in (TransportError("closed"), TimeoutError(), RuntimeError("bug")):
        assert type(error_of(through(failure_of(error)))) is TransportError


@pytest.mark.parametrize(
    ("kind", "given"),
    [
        (ElicitParams, {"message": "Who?", "requestedSchema": {"type": "object", "x": 1}, "y": 2}),
        (
            CreateMessageParams,
            {"messages": [{"role": "user", "content": {"type": "text", "text": "?"}}], "maxTokens": 1},
        ),
        (ListRootsParams, {"unknown": True}),
    ],
)
def test_the_parameters_of_a_server_request_keep_members_that_are_not_known(kind: Any, given: Any) -> None:
    params = unknown.kept(msgspec.convert(given, kind), given)
    message = through(PassOn(1, kind.__name__, write_struct(params), "key"))
    assert unknown.whole(params_of(message)) == given


def test_the_response_of_a_client_keeps_members_that_are_not_known() -> None:
    given = {"action": "accept", "content": {"n": 2**70}, "unknown": None}
    response = unknown.kept(msgspec.convert(given, ElicitResult), given)
    assert unknown.whole(response_of(ElicitParams(message="?"), write_struct(response))) == given
