"""What a client writes in each revision, judged by what other people published about the protocol."""

from __future__ import annotations

import json
from typing import Any

import pytest
from mcp_types import methods
from msgspec import Raw

from carrel.protocol.client import IncomingRequest
from carrel.protocol.encoding import encode
from carrel.protocol.methods import INITIALIZED, LIST_TOOLS, ROOTS_LIST_CHANGED
from carrel.protocol.revisions import REVISIONS
from carrel.wire.base import ClientCapabilities, Icon, Implementation, Params
from carrel.wire.client_features import (
    CreateMessageResult,
    ElicitResult,
    ListRootsResult,
    Root,
    ToolUseContent,
)
from carrel.wire.completion import (
    CompleteParams,
    CompletionArgument,
    CompletionContext,
    PromptReference,
)
from carrel.wire.content import AudioContent, TextContent
from carrel.wire.prompts import GetPromptParams
from carrel.wire.resources import ReadResourceParams
from carrel.wire.tools import CallToolParams, TaskMetadata
from interop.oracle import Witness, definition_of, definitions
from protocol.test_client import CASES, EVERYTHING, OPERATIONS
from support.client_connection import row_of, speaking
from support.server_connection import ALL, HANDSHAKES, JUNE, LATEST, NOVEMBER

#: Requests of a client whose messages the models do not know.
UNKNOWN = {"tasks/get", "tasks/list", "tasks/result", "tasks/cancel"}
ROUND = {"input_responses": Raw(encode({"q": ElicitResult(action="accept", content={"a": 1})})), "request_state": "s"}
#: Parameters with everything in them, where there is more than the usual.
FULL: dict[str, Params] = {
    "call_tool": CallToolParams(name="t", arguments=Raw(b'{"a":[1]}'), task=TaskMetadata(ttl=5), **ROUND),
    "get_prompt": GetPromptParams(name="p", arguments={"a": "b"}, **ROUND),
    "read_resource": ReadResourceParams(uri="file:///a", **ROUND),
    "complete": CompleteParams(
        ref=PromptReference("p", title="P"),
        argument=CompletionArgument("a", "x"),
        context=CompletionContext(arguments={"b": "c"}),
    ),
}
TEXT = TextContent("x", meta={"k": 1})
ANSWERS: dict[str, list[Any]] = {
    "roots/list": [ListRootsResult(roots=[Root(uri="file:///a", name="a", meta={"k": 1})], meta={"k": 1})],
    "sampling/createMessage": [
        CreateMessageResult(role="assistant", model="m", content=content, stop_reason="endTurn")
        for content in (TEXT, AudioContent(b"x", "audio/wav"), [TEXT, ToolUseContent("1", "t", {})])
    ],
    "elicitation/create": [
        ElicitResult(action="accept", content={"a": "b", "c": 1, "d": True}),
        ElicitResult(action="decline"),
        ElicitResult(action="cancel", meta={"k": 1}),
    ],
}


def judge(revision: str, model: Any, definition: str | None, message: Any, part: Any) -> None:
    witness = Witness(revision)
    if model is not None:
        witness.judge_by_model(model, part, message)
    witness.judge_by_schema(definition, part, message)
    assert not witness.complaints, "\n".join(witness.complaints)


@pytest.mark.parametrize(("operation", "revision"), CASES)
def test_a_request_with_everything_is_as_others_know_it(operation: str, revision: str) -> None:
    connection = speaking(revision, EVERYTHING)
    connection.info = Implementation(
        "c", "1", title="C", description="d", website_url="https://a", icons=[Icon(src="x")]
    )
    connection.set_log_level("debug")
    connection.speak(REVISIONS[revision])
    outgoing = connection.request(row_of(operation), FULL.get(operation, OPERATIONS[operation][1]), progress=True)
    message = json.loads(outgoing.data)
    model = methods.CLIENT_REQUESTS.get((outgoing.method, revision))
    assert model is not None or outgoing.method in UNKNOWN
    judge(revision, model, definition_of(revision, outgoing.method), message, message)


@pytest.mark.parametrize("revision", HANDSHAKES)
def test_a_handshake_is_as_others_know_it(revision: str) -> None:
    capabilities = ClientCapabilities(
        experimental={"x": {}}, roots={"listChanged": True}, sampling={"tools": {}}, elicitation={"form": {}, "url": {}}
    )
    connection = speaking(None, capabilities)
    connection.info = Implementation(
        "c", "1", title="C", description="d", website_url="https://a", icons=[Icon(src="x")]
    )
    message = json.loads(connection.initialize(REVISIONS[revision]).data)
    model = methods.CLIENT_REQUESTS["initialize", revision]
    judge(revision, model, definition_of(revision, "initialize"), message, message)


@pytest.mark.parametrize("revision", ALL)
def test_a_notification_is_as_others_know_it(revision: str) -> None:
    connection = speaking(revision)
    id = connection.request(LIST_TOOLS, Params()).id
    assert id is not None
    outgoing = [connection.give_up(id, "bored")]
    outgoing += [connection.notify(name) for name in (INITIALIZED, ROOTS_LIST_CHANGED) if revision != LATEST]
    for each in outgoing:
        assert each is not None
        message = json.loads(each.data)
        model = methods.CLIENT_NOTIFICATIONS[each.method, revision]
        judge(revision, model, definition_of(revision, each.method), message, message)


@pytest.mark.parametrize("revision", ALL)
@pytest.mark.parametrize("method", ANSWERS)
def test_an_answer_is_as_others_know_it(revision: str, method: str) -> None:
    if method == "elicitation/create" and revision < JUNE:
        assert (method, revision) not in methods.SERVER_REQUESTS
        return
    definition = {"roots/list": "ListRootsResult", "sampling/createMessage": "CreateMessageResult"}.get(
        method, "ElicitResult"
    )
    for result in ANSWERS[method]:
        if revision == LATEST:
            answer = json.loads(encode(REVISIONS[revision].project(result)))
            model = None
        else:
            answer = json.loads(speaking(revision).answer(IncomingRequest("q", "", None), result).data)["result"]
            model = methods.CLIENT_RESULTS[method, revision]
        judge(revision, model, definition if definition in definitions(revision) else None, answer, answer)


@pytest.mark.parametrize(
    ("revision", "method", "change"),
    [
        (JUNE, "tools/call", {"arguments": 5}),
        (NOVEMBER, "tools/call", {"name": 5}),
        (LATEST, "tools/call", {"_meta": {}}),
        (LATEST, "resources/read", {"inputResponses": 5}),
    ],
)
def test_the_oracles_complain_of_what_is_wrong(revision: str, method: str, change: dict[str, Any]) -> None:
    operation = "call_tool" if method == "tools/call" else "read_resource"
    message = json.loads(speaking(revision).request(row_of(operation), OPERATIONS[operation][1]).data)
    message["params"] |= change
    with pytest.raises(AssertionError):
        judge(revision, methods.CLIENT_REQUESTS[method, revision], definition_of(revision, method), message, message)
