"""The client's side of one connection, message by message: what it writes, and what it makes of what it reads.

No event loop, no transport: calls in, bytes out; bytes in, events out.
"""

from __future__ import annotations

import json
import tracemalloc
from typing import Any

import msgspec
import pytest
from msgspec import UNSET, Raw

from carrel.errors import InvalidMessage, InvalidParams, MethodNotFound, PeerError, ResourceNotFound
from carrel.protocol.client import (
    MAX_BATCH,
    ClientProtocol,
    FailedRequest,
    Ignored,
    IncomingRequest,
    Response,
    ServerBatch,
    ServerNotification,
)
from carrel.protocol.extension import Extension
from carrel.protocol.extensions.skills import LIST_SKILLS, SKILLS
from carrel.protocol.extensions.tasks import TASKS
from carrel.protocol.methods import (
    CALL_TOOL,
    COMPLETE,
    DISCOVER,
    GET_TASK,
    INITIALIZED,
    LIST_TOOLS,
    PING,
    NotificationType,
    RequestType,
)
from carrel.protocol.revisions import REVISIONS
from carrel.wire.base import ClientCapabilities, Implementation, PageParams, Params, Result
from carrel.wire.client_features import (
    CreateMessageParams,
    CreateMessageResult,
    ElicitParams,
    ElicitResult,
    InputRequiredResult,
    ListRootsResult,
    Root,
)
from carrel.wire.completion import (
    CompleteParams,
    CompleteResult,
    CompletionArgument,
    CompletionContext,
    PromptReference,
    ResourceTemplateReference,
)
from carrel.wire.content import AudioContent, EmbeddedResource, ImageContent, ResourceLink, TextContent
from carrel.wire.lifecycle import DiscoverResult, InitializeResult
from carrel.wire.prompts import GetPromptParams, GetPromptResult, ListPromptsResult
from carrel.wire.resources import (
    BlobResourceContents,
    ListenParams,
    ListenResult,
    ListResourcesResult,
    ListResourceTemplatesResult,
    ReadResourceParams,
    ReadResourceResult,
    SubscribeParams,
    SubscriptionFilter,
    TextResourceContents,
)
from carrel.wire.tasks import CreateTaskResult, DetailedTask, ListTasksParams, ListTasksResult, Task, TaskParams
from carrel.wire.tools import CallToolParams, CallToolResult, ListToolsResult, TaskMetadata
from carrel.wire.utilities import SetLevelParams
from support.client_connection import (
    answer,
    failed,
    heard,
    notice_of,
    notify,
    question,
    replied,
    row_of,
    sent,
    speaking,
    strayed,
)
from support.server_connection import ALL, HANDSHAKES, JUNE, LATEST, MARCH, NOVEMBER, OLDEST, PREFIX, pack, request

DEEP = b"[" * 100_000 + b"]" * 100_000
EVERYTHING = ClientCapabilities(
    experimental={"x": {}},
    roots={"listChanged": True},
    sampling={"tools": {}, "context": {}},
    elicitation={"form": {}, "url": {}},
    tasks={"list": {}},
    extensions={"com.example/x": {}},
)
TASK = {"taskId": "t", "status": "working", "createdAt": "x", "lastUpdatedAt": "x", "ttl": None}
DETAILED = {"taskId": "t", "status": "working", "createdAt": "x", "lastUpdatedAt": "x", "ttlMs": None}
TEXT = {"type": "text", "text": "hi"}

#: Each operation: its method, parameters, how they stand on the wire, a result and its type, and who has it.
OPERATIONS: dict[str, tuple[str, Params, dict[str, Any], dict[str, Any], type[Result], tuple[str, ...]]] = {
    "ping": ("ping", Params(), {}, {}, Result, HANDSHAKES),
    "discover": (
        *("server/discover", Params(), {}),
        *({"supportedVersions": [LATEST], "capabilities": {}}, DiscoverResult, (LATEST,)),
    ),
    "list_resources": (
        *("resources/list", PageParams(cursor="abc"), {"cursor": "abc"}),
        *({"resources": [{"uri": "a:b", "name": "b"}], "nextCursor": "d"}, ListResourcesResult, ALL),
    ),
    "list_resource_templates": (
        *("resources/templates/list", PageParams(), {}),
        *({"resourceTemplates": [{"uriTemplate": "a:{b}", "name": "b"}]}, ListResourceTemplatesResult, ALL),
    ),
    "read_resource": (
        *("resources/read", ReadResourceParams(uri="a:b"), {"uri": "a:b"}),
        *({"contents": [{"uri": "a:b", "text": "x"}, {"uri": "a:c", "blob": "eA=="}]}, ReadResourceResult, ALL),
    ),
    "subscribe": (*("resources/subscribe", SubscribeParams(uri="a:b"), {"uri": "a:b"}, {}, Result, HANDSHAKES),),
    "unsubscribe": (*("resources/unsubscribe", SubscribeParams(uri="a:b"), {"uri": "a:b"}, {}, Result, HANDSHAKES),),
    "list_prompts": (*("prompts/list", PageParams(), {}, {"prompts": [{"name": "p"}]}, ListPromptsResult, ALL),),
    "get_prompt": (
        *("prompts/get", GetPromptParams(name="p", arguments={"a": "b"}), {"name": "p", "arguments": {"a": "b"}}),
        *({"messages": [{"role": "user", "content": TEXT}], "description": "d"}, GetPromptResult, ALL),
    ),
    "list_tools": (
        *("tools/list", PageParams(), {}),
        *({"tools": [{"name": "t", "inputSchema": {"type": "object"}}]}, ListToolsResult, ALL),
    ),
    "call_tool": (
        *("tools/call", CallToolParams(name="t", arguments=Raw(b'{"a":1}')), {"name": "t", "arguments": {"a": 1}}),
        *({"content": [TEXT], "isError": True}, CallToolResult, ALL),
    ),
    "set_level": (*("logging/setLevel", SetLevelParams(level="error"), {"level": "error"}, {}, Result, HANDSHAKES),),
    "complete": (
        "completion/complete",
        CompleteParams(ref=ResourceTemplateReference(uri="a:{b}"), argument=CompletionArgument("b", "x")),
        {"ref": {"type": "ref/resource", "uri": "a:{b}"}, "argument": {"name": "b", "value": "x"}},
        *({"completion": {"values": ["xy"], "total": 1, "hasMore": False}}, CompleteResult, ALL),
    ),
    "listen": (
        "subscriptions/listen",
        ListenParams(notifications=SubscriptionFilter(tools_list_changed=True, resource_subscriptions=["a:b"])),
        {"notifications": {"toolsListChanged": True, "resourceSubscriptions": ["a:b"]}},
        *({}, ListenResult, (LATEST,)),
    ),
    "get_task": ("tasks/get", TaskParams(task_id="t"), {"taskId": "t"}, TASK, Task, (NOVEMBER,)),
    "fetch_task_result": (
        *("tasks/result", TaskParams(task_id="t"), {"taskId": "t"}, {"content": [TEXT]}, CallToolResult, (NOVEMBER,)),
    ),
    "list_tasks": (
        *("tasks/list", ListTasksParams(cursor="c"), {"cursor": "c"}, {"tasks": [TASK]}, ListTasksResult, (NOVEMBER,)),
    ),
    "cancel_task": ("tasks/cancel", TaskParams(task_id="t"), {"taskId": "t"}, TASK, Task, (NOVEMBER,)),
}
CASES = [(operation, revision) for operation, row in OPERATIONS.items() for revision in row[5]]
NOWHERE = [(operation, revision) for operation, row in OPERATIONS.items() for revision in ALL if revision not in row[5]]
ASKING = ("call_tool", "get_prompt", "read_resource")


def params_of(operation: str) -> Params:
    return OPERATIONS[operation][1]


# Calls in, bytes out


def test_the_table_of_these_tests_has_every_operation_of_every_revision() -> None:
    for name, revision in REVISIONS.items():
        listed = {operation for operation, row in OPERATIONS.items() if name in row[5]}
        assert {row.operation for row in revision.requests.values()} - {"initialize"} == listed


@pytest.mark.parametrize(("operation", "revision"), CASES)
def test_a_request_is_json_rpc_and_says_what_was_wanted(operation: str, revision: str) -> None:
    method, params, expected, *_ = OPERATIONS[operation]
    outgoing = speaking(revision).request(row_of(operation), params)
    message = sent(outgoing)
    if revision == LATEST:
        assert set(message["params"].pop("_meta")) == {
            f"{PREFIX}protocolVersion",
            f"{PREFIX}clientInfo",
            f"{PREFIX}clientCapabilities",
        }
    assert message == {"jsonrpc": "2.0", "id": outgoing.id, "method": method, "params": expected}
    assert (outgoing.method, outgoing.revision) == (method, REVISIONS[revision])
    assert outgoing.endless is (operation == "listen")


@pytest.mark.parametrize(("operation", "revision"), NOWHERE)
def test_what_the_revision_does_not_have_is_not_sent(operation: str, revision: str) -> None:
    connection = speaking(revision)
    assert not connection.knows(row_of(operation))
    with pytest.raises(MethodNotFound, match=f"speaks {revision}, which has no {operation.replace('_', ' ')}"):
        connection.request(row_of(operation), params_of(operation))
    assert connection.waiting == {}


def test_nothing_is_asked_before_a_revision_is_agreed_on() -> None:
    with pytest.raises(MethodNotFound, match="no revision yet"):
        speaking(None).request(PING, Params())
    with pytest.raises(MethodNotFound):
        speaking(None).notify(INITIALIZED)


@pytest.mark.parametrize("revision", ALL)
@pytest.mark.parametrize(
    ("operation", "name"), [("call_tool", "t"), ("get_prompt", "p"), ("read_resource", "a:b"), ("list_tools", None)]
)
def test_the_name_for_the_header_is_that_of_the_parameters(revision: str, operation: str, name: str | None) -> None:
    assert speaking(revision).request(row_of(operation), params_of(operation)).name == name


@pytest.mark.parametrize("revision", ALL)
def test_newer_parameters_are_left_out(revision: str) -> None:
    connection = speaking(revision)
    call = CallToolParams(name="t", task=TaskMetadata(ttl=5), input_responses=Raw(b"{}"), request_state="s")
    expected = {"name"} | ({"task"} if revision == NOVEMBER else set())
    if revision == LATEST:
        expected |= {"inputResponses", "requestState", "_meta"}
    assert set(sent(connection.request(CALL_TOOL, call))["params"]) == expected
    complete = CompleteParams(
        ref=PromptReference("p", title="P"),
        argument=CompletionArgument("a", ""),
        context=CompletionContext(arguments={"b": "c"}),
    )
    params = sent(connection.request(COMPLETE, complete))["params"]
    assert ("context" in params, "title" in params["ref"]) == (revision >= JUNE, revision >= JUNE)
    assert call.request_state == "s", "what was passed in stays as it was"


@pytest.mark.parametrize("revision", HANDSHAKES)
def test_a_request_within_a_session_has_no_metadata_of_its_own(revision: str) -> None:
    assert sent(speaking(revision).request(LIST_TOOLS, PageParams()))["params"] == {}


def test_a_stateless_request_says_who_asks_and_what_may_be_asked_back() -> None:
    connection = speaking(LATEST, EVERYTHING)
    meta = sent(connection.request(LIST_TOOLS, PageParams()))["params"]["_meta"]
    assert meta == {
        f"{PREFIX}protocolVersion": LATEST,
        f"{PREFIX}clientInfo": {"name": "client", "version": "1.0"},
        f"{PREFIX}clientCapabilities": {
            "experimental": {"x": {}},
            "roots": {},
            "sampling": {"tools": {}, "context": {}},
            "elicitation": {"form": {}, "url": {}},
            "extensions": {"com.example/x": {}},
        },
    }


def test_the_log_level_rides_on_every_stateless_request_until_it_is_taken_back() -> None:
    connection = speaking(LATEST)
    connection.set_log_level("debug")
    for progress in (False, True):
        meta = sent(connection.request(LIST_TOOLS, PageParams(), progress=progress))["params"]["_meta"]
        assert meta[f"{PREFIX}logLevel"] == "debug"
    connection.set_log_level(None)
    assert f"{PREFIX}logLevel" not in sent(connection.request(LIST_TOOLS, PageParams()))["params"]["_meta"]
    session = speaking(JUNE)
    session.set_log_level("debug")
    assert sent(session.request(LIST_TOOLS, PageParams()))["params"] == {}


def test_a_log_level_that_was_set_before_the_revision_was_known_counts() -> None:
    connection = speaking(None)
    connection.set_log_level("error")
    connection.speak(REVISIONS[LATEST])
    assert sent(connection.request(DISCOVER, Params()))["params"]["_meta"][f"{PREFIX}logLevel"] == "error"


@pytest.mark.parametrize("revision", ALL)
def test_the_progress_token_is_the_id_and_other_keys_stand_beside_it(revision: str) -> None:
    connection = speaking(revision)
    outgoing = connection.request(CALL_TOOL, params_of("call_tool"), progress=True, meta={"com.example/k": [1]})
    meta = sent(outgoing)["params"]["_meta"]
    assert (meta["progressToken"], meta["com.example/k"]) == (outgoing.id, [1])
    assert (f"{PREFIX}protocolVersion" in meta) is (revision == LATEST)
    again = sent(connection.request(CALL_TOOL, params_of("call_tool")))["params"]
    assert "com.example/k" not in again.get("_meta", {})


def test_further_keys_do_not_change_the_version_the_capabilities_or_the_token() -> None:
    meta = {f"{PREFIX}protocolVersion": "1999", f"{PREFIX}clientCapabilities": 5, "progressToken": "mine", "own": 1}
    outgoing = speaking(LATEST).request(CALL_TOOL, params_of("call_tool"), progress=True, meta=meta)
    found = sent(outgoing)["params"]["_meta"]
    assert found[f"{PREFIX}protocolVersion"] == LATEST
    assert found[f"{PREFIX}clientCapabilities"] == {}
    assert (found["progressToken"], found["own"]) == (outgoing.id, 1)
    louder = {f"{PREFIX}logLevel": "debug"}
    found = sent(speaking(LATEST).request(CALL_TOOL, params_of("call_tool"), meta=louder))["params"]["_meta"]
    assert found[f"{PREFIX}logLevel"] == "debug"


@pytest.mark.parametrize("revision", ALL)
def test_no_id_is_used_twice(revision: str) -> None:
    connection = speaking(revision)
    ids = [connection.request(LIST_TOOLS, PageParams()).id for _ in range(100)]
    for id in ids[:50]:
        answer(connection, id, {"tools": []})
    ids += [connection.request(LIST_TOOLS, PageParams()).id for _ in range(100)]
    assert len(set(ids)) == 200
    assert all(type(id) is int for id in ids)


def test_ids_go_on_when_the_revision_changes() -> None:
    connection = speaking(LATEST)
    probe = connection.request(DISCOVER, Params())
    handshake = connection.initialize(REVISIONS[NOVEMBER])
    connection.speak(REVISIONS[NOVEMBER])
    assert len({probe.id, handshake.id, connection.request(PING, Params()).id}) == 3


# The handshake


@pytest.mark.parametrize("revision", HANDSHAKES)
def test_a_handshake_says_who_asks_in_the_words_of_its_revision(revision: str) -> None:
    connection = ClientProtocol(Implementation("client", "1.0", title="The Client", description="d"), EVERYTHING)
    outgoing = connection.initialize(REVISIONS[revision], "owner")
    message = sent(outgoing)
    assert (message["id"], message["method"]) == (outgoing.id, "initialize")
    assert outgoing.revision is None, "nothing is agreed on yet"
    params = message["params"]
    assert set(params) == {"protocolVersion", "capabilities", "clientInfo"}
    assert params["protocolVersion"] == revision
    title = {"title"} if revision >= JUNE else set()
    assert set(params["clientInfo"]) == {"name", "version"} | title | (
        {"description"} if revision >= NOVEMBER else set()
    )
    capabilities = params["capabilities"]
    assert capabilities["roots"] == {"listChanged": True}
    assert capabilities["sampling"] == ({"tools": {}, "context": {}} if revision == NOVEMBER else {})
    assert capabilities.get("elicitation") == {JUNE: {}, NOVEMBER: {"form": {}, "url": {}}}.get(revision)
    assert ("tasks" in capabilities) is (revision == NOVEMBER)


def test_a_handshake_declares_no_extension_that_only_stateless_servers_know() -> None:
    capabilities = ClientCapabilities(extensions={TASKS.name: {}, "com.example/x": {"a": 1}})
    connection = speaking(None, capabilities)
    connection.extend(TASKS)
    declared = sent(connection.initialize(REVISIONS[NOVEMBER]))["params"]["capabilities"]
    assert declared == {"extensions": {"com.example/x": {"a": 1}}}
    connection.speak(REVISIONS[LATEST])
    meta = sent(connection.request(DISCOVER, Params()))["params"]["_meta"]
    assert set(meta[f"{PREFIX}clientCapabilities"]["extensions"]) == {TASKS.name, "com.example/x"}


@pytest.mark.parametrize("asked", HANDSHAKES)
@pytest.mark.parametrize("offered", [*HANDSHAKES, "1999-01-01"])
def test_the_answer_to_a_handshake_is_read_whatever_version_it_names(asked: str, offered: str) -> None:
    connection = speaking(None)
    id = connection.initialize(REVISIONS[asked], "owner").id
    event = answer(
        connection,
        id,
        {
            "protocolVersion": offered,
            "capabilities": {"tools": {"listChanged": True}, "resources": {"subscribe": True}, "magic": {}},
            "serverInfo": {"name": "s", "version": "1", "mood": "good"},
            "instructions": "Read.",
        },
    )
    assert isinstance(event, Response)
    assert event.waiting.owner == "owner"
    assert isinstance(event.result, InitializeResult)
    assert event.result.protocol_version == offered
    assert event.result.capabilities.resources is not None


def test_a_handshake_is_never_cancelled() -> None:
    connection = speaking(None)
    outgoing = connection.initialize(REVISIONS[NOVEMBER])
    assert outgoing.id is not None
    assert connection.give_up(outgoing.id, "slow") is None
    assert connection.waiting == {}
    connection = speaking(LATEST)
    outgoing = connection.initialize(REVISIONS[NOVEMBER])
    assert outgoing.id is not None
    assert connection.give_up(outgoing.id, "slow") is None


@pytest.mark.parametrize("asked_before", [None, LATEST])
def test_a_ping_during_the_handshake_is_a_question(asked_before: str | None) -> None:
    connection = speaking(asked_before)
    connection.initialize(REVISIONS[NOVEMBER])
    asked = question(connection, request("ping", id="p"))
    assert sent(connection.answer(asked, {})) == {"jsonrpc": "2.0", "id": "p", "result": {}}


# Notifications out


@pytest.mark.parametrize("revision", ALL)
@pytest.mark.parametrize(
    ("operation", "method", "revisions"),
    [
        ("initialized", "notifications/initialized", HANDSHAKES),
        ("roots_list_changed", "notifications/roots/list_changed", HANDSHAKES),
        ("cancelled", "notifications/cancelled", ALL),
    ],
)
def test_a_notification_is_written_where_its_revision_has_it(
    revision: str, operation: str, method: str, revisions: tuple[str, ...]
) -> None:
    connection = speaking(revision)
    if revision not in revisions:
        with pytest.raises(MethodNotFound):
            connection.notify(notice_of(operation))
        return
    outgoing = connection.notify(notice_of(operation))
    assert sent(outgoing) == {"jsonrpc": "2.0", "method": method}
    assert (outgoing.id, outgoing.method) == (None, method)


@pytest.mark.parametrize("revision", ALL)
@pytest.mark.parametrize("operation", ["ping", "call_tool", "message", "tools_list_changed", "", "nothing"])
def test_what_is_no_notification_of_a_client_is_not_announced(revision: str, operation: str) -> None:
    with pytest.raises(MethodNotFound):
        speaking(revision).notify(notice_of(operation))


@pytest.mark.parametrize("revision", ALL)
def test_giving_up_tells_the_server_once_and_what_comes_later_is_a_stray(revision: str) -> None:
    connection = speaking(revision)
    id = connection.request(CALL_TOOL, params_of("call_tool")).id
    assert id is not None
    assert sent(connection.give_up(id, "bored")) == {
        "jsonrpc": "2.0",
        "method": "notifications/cancelled",
        "params": {"requestId": id, "reason": "bored"},
    }
    assert connection.give_up(id, "bored") is None
    assert connection.give_up("never", "bored") is None
    late = strayed(connection, {"jsonrpc": "2.0", "id": id, "result": {"content": []}})
    assert late.reply is None
    assert str(id) in late.reason


def test_a_request_that_was_answered_is_not_cancelled() -> None:
    connection = speaking(JUNE)
    id = connection.request(PING, Params()).id
    assert id is not None
    assert isinstance(answer(connection, id, {}), Response)
    assert connection.give_up(id, "late") is None


# Answers in


@pytest.mark.parametrize(("operation", "revision"), CASES)
def test_every_result_is_read_into_its_type(operation: str, revision: str) -> None:
    _, params, _, result, kind, _ = OPERATIONS[operation]
    connection = speaking(revision)
    outgoing = connection.request(row_of(operation), params, "owner")
    event = answer(connection, outgoing.id, result)
    assert isinstance(event, Response)
    assert (event.waiting.owner, event.id, event.waiting.request.operation) == ("owner", outgoing.id, operation)
    assert type(event.result) is kind
    assert connection.waiting == {}


@pytest.mark.parametrize(("operation", "revision"), CASES)
def test_unknown_fields_are_ignored(operation: str, revision: str) -> None:
    def with_more(value: Any) -> Any:
        if isinstance(value, dict) and value != {"type": "object"}:  # a schema is kept as it is
            return {**{key: with_more(item) for key, item in value.items()}, "future": [{"deep": None}], "": 1.5}
        return [with_more(item) for item in value] if isinstance(value, list) else value

    _, params, _, result, kind, _ = OPERATIONS[operation]
    plain = replied(speaking(revision), operation, params, result)
    assert replied(speaking(revision), operation, params, with_more(result)) == plain
    assert type(plain) is kind


@pytest.mark.parametrize("revision", ALL)
def test_contents_are_text_or_bytes(revision: str) -> None:
    contents = [
        {"uri": "a:1", "text": "x", "mimeType": "text/plain", "_meta": {"k": 1}},
        {"uri": "a:2", "blob": "AAEC", "mimeType": "image/png"},
        {"uri": "a:3", "text": "both", "blob": "eA=="},
    ]
    result = replied(speaking(revision), "read_resource", params_of("read_resource"), {"contents": contents})
    assert result.contents == [
        TextResourceContents("a:1", "x", mime_type="text/plain", meta={"k": 1}),
        BlobResourceContents("a:2", b"\x00\x01\x02", mime_type="image/png"),
        BlobResourceContents("a:3", b"x"),
    ]


BLOCKS: list[tuple[dict[str, Any], Any]] = [
    (TEXT, TextContent("hi")),
    ({"type": "image", "data": "eA==", "mimeType": "image/png"}, ImageContent(b"x", "image/png")),
    ({"type": "audio", "data": "eA==", "mimeType": "audio/wav"}, AudioContent(b"x", "audio/wav")),
    ({"type": "resource_link", "uri": "a:b", "name": "b"}, ResourceLink("a:b", "b")),
    (
        {"type": "resource", "resource": {"uri": "a:b", "text": "x"}},
        EmbeddedResource(TextResourceContents("a:b", "x")),
    ),
    (
        {"type": "resource", "resource": {"uri": "a:b", "blob": "eA=="}},
        EmbeddedResource(BlobResourceContents("a:b", b"x")),
    ),
]


@pytest.mark.parametrize("revision", ALL)
@pytest.mark.parametrize(("block", "expected"), BLOCKS)
def test_blocks_are_read_in_tool_results_and_in_prompts(revision: str, block: dict[str, Any], expected: Any) -> None:
    called = replied(speaking(revision), "call_tool", params_of("call_tool"), {"content": [block]})
    assert called.content == [expected]
    messages = {"messages": [{"role": "assistant", "content": block}]}
    assert replied(speaking(revision), "get_prompt", params_of("get_prompt"), messages).messages[0].content == expected


@pytest.mark.parametrize("value", [None, 0, "", [], {"a": 1}, [1.5]])
def test_structured_content_may_be_any_json(value: Any) -> None:
    result = replied(speaking(LATEST), "call_tool", params_of("call_tool"), {"content": [], "structuredContent": value})
    assert result.structured_content == value


def test_the_hints_of_a_cacheable_result_are_read() -> None:
    hints = {"tools": [], "ttlMs": 300_000, "cacheScope": "public", "resultType": "complete"}
    result = replied(speaking(LATEST), "list_tools", PageParams(), hints)
    assert (result.ttl_ms, result.cache_scope) == (300_000, "public")
    absent = replied(speaking(LATEST), "list_tools", PageParams(), {"tools": [], "ttlMs": -5})
    assert (absent.ttl_ms, absent.cache_scope) == (-5, None)


def test_a_request_may_ask_for_another_result_than_the_usual_one() -> None:
    connection = speaking(NOVEMBER)
    call = CallToolParams(name="t", task=TaskMetadata(ttl=1000))
    outgoing = connection.request(CALL_TOOL, call, result=CreateTaskResult)
    event = answer(connection, outgoing.id, {"task": TASK})
    assert isinstance(event, Response)
    assert isinstance(event.result, CreateTaskResult)
    assert event.result.task.task_id == "t"


@pytest.mark.parametrize(
    ("operation", "result"),
    [
        ("list_tools", {}),
        ("list_tools", {"tools": {}}),
        ("list_tools", {"tools": [{"name": "t"}]}),
        ("list_tools", {"tools": [], "nextCursor": 5}),
        ("list_tools", []),
        ("list_tools", None),
        ("list_tools", "x"),
        ("read_resource", {"contents": [{"text": "no uri"}]}),
        ("read_resource", {"contents": [{"uri": "a:b"}]}),
        ("read_resource", {"contents": [5]}),
        ("read_resource", {"contents": [{"uri": "a:b", "blob": "not base 64!"}]}),
        ("call_tool", {"content": [{"type": "hologram"}]}),
        ("call_tool", {"content": [{"text": "no type"}]}),
        ("call_tool", {"content": [{"type": "resource", "resource": {"uri": 5, "text": "x"}}]}),
        ("call_tool", {"content": "hi"}),
        ("get_prompt", {"messages": [{"role": "king", "content": TEXT}]}),
        ("complete", {"completion": {"values": [1]}}),
        ("complete", {}),
    ],
)
@pytest.mark.parametrize("revision", ALL)
def test_a_result_that_is_wrong_is_a_failure_that_says_where(revision: str, operation: str, result: Any) -> None:
    error = failed(speaking(revision), operation, params_of(operation), result=result)
    assert isinstance(error, InvalidMessage)
    assert str(error).startswith(f"The answer to {OPERATIONS[operation][0]} is wrong: ")


@pytest.mark.parametrize("revision", ALL)
def test_an_answer_with_neither_result_nor_error_is_a_failure(revision: str) -> None:
    error = failed(speaking(revision), "list_tools", PageParams())
    assert isinstance(error, InvalidMessage)
    assert str(error) == "The response to tools/list has neither a result nor an error"


# The type of a result


@pytest.mark.parametrize(("operation", "revision"), [case for case in CASES if case[1] == LATEST])
@pytest.mark.parametrize("kind", [UNSET, "complete"])
def test_a_result_without_a_type_is_complete(operation: str, revision: str, kind: Any) -> None:
    _, params, _, result, expected, _ = OPERATIONS[operation]
    typed = result if kind is UNSET else {**result, "resultType": kind}
    assert type(replied(speaking(LATEST), operation, params, typed)) is expected


@pytest.mark.parametrize(("operation", "revision"), [case for case in CASES if case[1] == LATEST])
@pytest.mark.parametrize("kind", ["partial", "", "Complete", "task", "x" * 10_000])
def test_a_result_of_a_type_that_is_not_known_is_an_error(operation: str, revision: str, kind: str) -> None:
    _, params, _, result, *_ = OPERATIONS[operation]
    for each in (result, {}):
        error = failed(speaking(LATEST), operation, params, result={**each, **DETAILED, "resultType": kind})
        assert isinstance(error, InvalidMessage)
        assert kind[:60] in str(error)
        assert len(str(error)) < 300


@pytest.mark.parametrize("kind", [5, None, True, ["complete"], {}])
def test_a_type_that_is_not_text_is_an_error(kind: Any) -> None:
    error = failed(speaking(LATEST), "list_tools", PageParams(), result={"tools": [], "resultType": kind})
    assert isinstance(error, InvalidMessage)


@pytest.mark.parametrize("revision", HANDSHAKES)
def test_the_type_of_a_result_means_nothing_within_a_session(revision: str) -> None:
    result = {"tools": [], "resultType": "input_required"}
    assert type(replied(speaking(revision), "list_tools", PageParams(), result)) is ListToolsResult


@pytest.mark.parametrize("operation", [operation for operation, revision in CASES if revision == LATEST])
def test_input_may_be_required_for_calls_prompts_and_reading_only(operation: str) -> None:
    result = {
        "resultType": "input_required",
        "inputRequests": {"name": {"method": "elicitation/create", "params": {"message": "?"}}},
        "requestState": "opaque \u7cd6",
    }
    params = params_of(operation)
    if operation not in ASKING:
        assert isinstance(failed(speaking(LATEST), operation, params, result=result), InvalidMessage)
        return
    required = replied(speaking(LATEST), operation, params, result)
    assert isinstance(required, InputRequiredResult)
    assert required.request_state == "opaque \u7cd6"
    assert required.input_requests is not None
    assert required.input_requests["name"].method == "elicitation/create"


@pytest.mark.parametrize(
    "result",
    [
        {"inputRequests": []},
        {"inputRequests": {"a": {}}},
        {"inputRequests": {"a": {"method": 5}}},
        {"inputRequests": {"a": "elicit"}},
        {"requestState": 5},
        {"requestState": {}},
    ],
)
def test_required_input_that_cannot_be_read_is_an_error(result: Any) -> None:
    error = failed(
        speaking(LATEST), "call_tool", params_of("call_tool"), result={**result, "resultType": "input_required"}
    )
    assert isinstance(error, InvalidMessage)


def test_a_call_becomes_a_task_only_where_tasks_are_spoken() -> None:
    result = {**DETAILED, "resultType": "task"}
    assert isinstance(failed(speaking(LATEST), "call_tool", params_of("call_tool"), result=result), InvalidMessage)
    connection = speaking(LATEST)
    connection.extend(TASKS)
    assert isinstance(replied(connection, "call_tool", params_of("call_tool"), result), DetailedTask)
    for operation in ("read_resource", "get_prompt", "list_tools"):
        assert isinstance(failed(connection, operation, params_of(operation), result=result), InvalidMessage)


# Errors in


@pytest.mark.parametrize("revision", ALL)
@pytest.mark.parametrize("code", [-32700, -32603, -32602, -32002, -32020, -32042, 0, 7, 2**40])
def test_an_error_is_told_as_it_came(revision: str, code: int) -> None:
    for data in (UNSET, None, {"supported": ["x"]}, [1], "words", 0):
        told = {"code": code, "message": "No.", "future": 1} | ({} if data is UNSET else {"data": data})
        error = failed(speaking(revision), "call_tool", params_of("call_tool"), error=told)
        assert isinstance(error, PeerError)
        assert (error.code, error.message, error.data) == (code, "No.", None if data is UNSET else data)
        assert error.status is None, data


@pytest.mark.parametrize(
    "told",
    [
        *(None, "no", 5, [], {}, {"code": -1}, {"message": "no"}, {"code": "-1", "message": "no"}),
        *({"code": 1.5, "message": "no"}, {"code": True, "message": "no"}, {"code": -1, "message": None}),
        {"code": None, "message": "no"},
    ],
)
def test_an_error_that_cannot_be_read_is_still_a_failure(told: Any) -> None:
    error = failed(speaking(JUNE), "ping", Params(), error=told)
    assert isinstance(error, InvalidMessage)
    assert "cannot be read" in str(error)


def test_of_an_answer_with_both_a_result_and_an_error_the_error_counts() -> None:
    error = failed(speaking(JUNE), "ping", Params(), result={}, error={"code": 1, "message": "no"})
    assert isinstance(error, PeerError)


@pytest.mark.parametrize("revision", ALL)
@pytest.mark.parametrize("members", [{}, {"id": None}])
def test_an_error_without_an_id_fails_no_request_and_keeps_its_message(revision: str, members: Any) -> None:
    connection = speaking(revision)
    connection.request(LIST_TOOLS, PageParams())
    error = {"error": {"code": -32700, "message": "Parse error, dear"}}
    stray = strayed(connection, {"jsonrpc": "2.0", **members, **error})
    assert "Parse error, dear" in stray.reason
    assert stray.reply is None
    assert len(connection.waiting) == 1


# Ids in


@pytest.mark.parametrize(
    "id", [True, "1.0", " 1", None, [], [1], {}, {"id": 1}, 2, -1, 0, 1.5, 2**64, 10**300, UNSET, "x" * 10_000]
)
@pytest.mark.parametrize("members", [{"result": {}}, {"error": {"code": 1, "message": "no"}}, {}])
def test_another_id_answers_no_request(id: Any, members: Any) -> None:
    connection = speaking(JUNE)
    assert connection.request(PING, Params()).id == 1
    stray = strayed(connection, {"jsonrpc": "2.0", **({} if id is UNSET else {"id": id}), **members})
    assert stray.reply is None
    assert len(stray.reason) < 500
    assert list(connection.waiting) == [1]
    assert isinstance(answer(connection, 1, {}), Response)


@pytest.mark.parametrize("id", [1, 1.0, "1"])
def test_a_number_answers_a_request_also_as_a_string_or_with_a_fraction_of_zero(id: Any) -> None:
    connection = speaking(JUNE)
    assert connection.request(PING, Params()).id == 1
    assert isinstance(answer(connection, id, {}), Response)


def test_an_answer_counts_once() -> None:
    connection = speaking(JUNE)
    id = connection.request(PING, Params()).id
    assert isinstance(answer(connection, id, {}), Response)
    assert isinstance(answer(connection, id, {}), Ignored)


def test_answers_may_come_in_any_order() -> None:
    connection = speaking(LATEST)
    ids = [connection.request(LIST_TOOLS, PageParams(), number).id for number in range(50)]
    for number in reversed(range(50)):
        event = answer(connection, ids[number], {"tools": []})
        assert isinstance(event, Response)
        assert event.waiting.owner == number


def test_a_question_with_an_id_of_ours_is_a_question_all_the_same() -> None:
    connection = speaking(JUNE)
    id = connection.request(LIST_TOOLS, PageParams()).id
    assert question(connection, request("ping", id=id)).id == id
    assert isinstance(answer(connection, id, {"tools": []}), Response)


# Notifications in

NOTICES: list[tuple[str, str, Any, tuple[str, ...]]] = [
    ("notifications/cancelled", "cancelled", {"requestId": 1, "reason": "r"}, ALL),
    ("notifications/message", "message", {"level": "info", "data": {"a": 1}, "logger": "x"}, ALL),
    ("notifications/progress", "progress", {"progressToken": 1, "progress": 0.5, "total": 2, "message": "m"}, ALL),
    ("notifications/resources/updated", "resource_updated", {"uri": "a:b"}, ALL),
    ("notifications/resources/list_changed", "resources_list_changed", {}, ALL),
    ("notifications/tools/list_changed", "tools_list_changed", {}, ALL),
    ("notifications/prompts/list_changed", "prompts_list_changed", {}, ALL),
    ("notifications/elicitation/complete", "elicitation_complete", {"elicitationId": "e"}, (NOVEMBER,)),
    ("notifications/tasks/status", "task_status", TASK, (NOVEMBER,)),
    ("notifications/subscriptions/acknowledged", "subscription_acknowledged", {"notifications": {}}, (LATEST,)),
]


def test_the_table_of_these_tests_has_every_notification() -> None:
    for name, revision in REVISIONS.items():
        assert {row.method for row in revision.events.values()} == {row[0] for row in NOTICES if name in row[3]}


@pytest.mark.parametrize("revision", ALL)
@pytest.mark.parametrize(("method", "event", "params", "revisions"), NOTICES)
def test_a_notification_is_a_notice_where_its_revision_has_it(
    revision: str, method: str, event: str, params: Any, revisions: tuple[str, ...]
) -> None:
    connection = speaking(revision)
    for more in ({}, {"future": 1}):
        message = notify(method, {**params, **more})
        if revision in revisions:
            notice = heard(connection, message)
            assert (notice.event, notice.subscription) == (event, None)
        else:
            stray = strayed(connection, message)
            assert method in stray.reason
            assert stray.reply is None


@pytest.mark.parametrize("revision", ALL)
@pytest.mark.parametrize("id", [1, "s", 0, ""])
def test_a_notice_says_which_subscription_it_belongs_to(revision: str, id: Any) -> None:
    params = {"uri": "a:b", "_meta": {f"{PREFIX}subscriptionId": id, "other": 1}}
    assert heard(speaking(revision), notify("notifications/resources/updated", params)).subscription == id
    params = {"_meta": {f"{PREFIX}subscriptionId": id}}
    assert heard(speaking(revision), notify("notifications/tools/list_changed", params)).subscription == id


@pytest.mark.parametrize("id", [None, True, 1.5, [], {"a": 1}, [[1]]])
def test_what_is_no_id_is_no_subscription(id: Any) -> None:
    params = {"uri": "a:b", "_meta": {f"{PREFIX}subscriptionId": id}}
    assert heard(speaking(LATEST), notify("notifications/resources/updated", params)).subscription is None


def test_a_notification_may_go_without_parameters() -> None:
    assert heard(speaking(JUNE), notify("notifications/tools/list_changed")).event == "tools_list_changed"


@pytest.mark.parametrize(
    ("method", "params"),
    [
        ("notifications/progress", {"progress": 1}),
        ("notifications/progress", {"progressToken": None, "progress": 1}),
        ("notifications/progress", {"progressToken": 1, "progress": "half"}),
        ("notifications/message", {"level": "loud", "data": 1}),
        ("notifications/message", {"level": "info"}),
        ("notifications/resources/updated", {}),
        ("notifications/resources/updated", {"uri": 5}),
        ("notifications/resources/updated", []),
        ("notifications/resources/updated", None),
        ("notifications/resources/updated", {"uri": "a:b", "_meta": []}),
        ("notifications/cancelled", {"requestId": []}),
        ("notifications/tools/list_changed", "x"),
    ],
)
@pytest.mark.parametrize("revision", ALL)
def test_a_notification_that_is_wrong_is_a_stray_and_never_answered(revision: str, method: str, params: Any) -> None:
    message = {"jsonrpc": "2.0", "method": method, "params": params}
    stray = strayed(speaking(revision), message)
    assert stray.reply is None
    assert method in stray.reason


@pytest.mark.parametrize("revision", [*ALL, None])
@pytest.mark.parametrize("method", ["notifications/initialized", "notifications/made/up", "tools/list", "", "x" * 9999])
def test_a_notification_that_no_server_sends_is_a_stray(revision: str | None, method: str) -> None:
    stray = strayed(speaking(revision), notify(method, {}))
    assert stray.reply is None
    assert len(stray.reason) < 200


# Questions in

QUESTIONS: dict[str, tuple[str, dict[str, Any], type, tuple[str, ...]]] = {
    "roots/list": ("list_roots", {}, object, HANDSHAKES),
    "sampling/createMessage": (
        *("sample", {"messages": [{"role": "user", "content": TEXT}], "maxTokens": 5}),
        *(CreateMessageParams, HANDSHAKES),
    ),
    "elicitation/create": (
        *("elicit", {"message": "?", "requestedSchema": {"type": "object", "properties": {}}}),
        *(ElicitParams, (JUNE, NOVEMBER)),
    ),
    "ping": ("ping", {}, object, HANDSHAKES),
}


@pytest.mark.parametrize("revision", ALL)
@pytest.mark.parametrize("method", QUESTIONS)
@pytest.mark.parametrize("id", ["q", 0, -5, 2**53])
def test_a_question_is_one_where_its_revision_has_it(revision: str, method: str, id: Any) -> None:
    operation, params, kind, revisions = QUESTIONS[method]
    connection = speaking(revision)
    message = {"jsonrpc": "2.0", "id": id, "method": method, "params": {**params, "future": 1}}
    if revision in revisions:
        asked = question(connection, message)
        assert (asked.id, asked.operation) == (id, operation)
        assert isinstance(asked.params, kind)
    elif revision == LATEST:
        assert strayed(connection, message).reply is None, "servers of this revision must not ask, and are not answered"
    else:
        refusal = strayed(connection, message).reply
        assert refusal is not None
        assert json.loads(refusal)["id"] == id
        assert json.loads(refusal)["error"]["code"] == -32601


@pytest.mark.parametrize("revision", HANDSHAKES)
def test_a_question_may_go_without_parameters(revision: str) -> None:
    assert question(speaking(revision), request("roots/list", id="r")).operation == "list_roots"


@pytest.mark.parametrize("block", [block for block, _ in BLOCKS[:3]])
def test_messages_for_a_model_are_read_in_all_their_forms(block: dict[str, Any]) -> None:
    inner = {"uri": "a:b", "blob": "eA=="}
    messages = [
        {"role": "user", "content": block},
        {"role": "assistant", "content": [{"type": "tool_use", "id": "1", "name": "t", "input": {}}]},
        {
            "role": "user",
            "content": [
                {"type": "tool_result", "toolUseId": "1", "content": [TEXT, {"type": "resource", "resource": inner}]}
            ],
        },
    ]
    params = {
        "messages": messages,
        "maxTokens": 100,
        "tools": [{"name": "t", "inputSchema": {"type": "object"}}],
        "toolChoice": {"mode": "required"},
        "modelPreferences": {"hints": [{"name": "c"}], "costPriority": 0},
        "includeContext": "none",
    }
    asked = question(speaking(NOVEMBER), request("sampling/createMessage", params, "s"))
    results = asked.params.messages[2].content[0]
    assert results.content[1] == EmbeddedResource(BlobResourceContents("a:b", b"x"))


@pytest.mark.parametrize("revision", HANDSHAKES)
@pytest.mark.parametrize("method", ["tools/list", "initialize", "no/such", "", "tasks/get", "Ping", "x" * 9999])
def test_an_unknown_request_of_a_server_is_not_found(revision: str, method: str) -> None:
    stray = strayed(speaking(revision), request(method, {}, "q"))
    assert stray.reply is not None
    error = json.loads(stray.reply)["error"]
    assert error["code"] == -32601
    assert len(stray.reply) < 400


@pytest.mark.parametrize(
    ("method", "params"),
    [
        ("sampling/createMessage", {}),
        ("sampling/createMessage", {"messages": [], "maxTokens": "many"}),
        ("sampling/createMessage", {"messages": [{"role": "user", "content": {"type": "x" * 9999}}], "maxTokens": 1}),
        ("elicitation/create", {"requestedSchema": {}}),
        ("elicitation/create", {"message": "?", "mode": "telepathy"}),
        ("elicitation/create", []),
        ("roots/list", 5),
    ],
)
def test_a_question_with_wrong_parameters_is_refused(method: str, params: Any) -> None:
    stray = strayed(speaking(NOVEMBER), {"jsonrpc": "2.0", "id": "q", "method": method, "params": params})
    assert stray.reply is not None
    reply = json.loads(stray.reply)
    assert (reply["id"], reply["error"]["code"]) == ("q", -32602)
    assert len(stray.reply) < 400, "an error does not repeat what came"


@pytest.mark.parametrize("revision", [*ALL, None])
@pytest.mark.parametrize("id", [None, True, 1.5, [], {}])
def test_a_question_without_a_proper_id_cannot_be_answered(revision: str | None, id: Any) -> None:
    assert strayed(speaking(revision), request("ping", {}, id)).reply is None


@pytest.mark.parametrize("method", [method for method in QUESTIONS if method != "ping"])
def test_before_a_revision_is_agreed_on_only_pings_are_questions(method: str) -> None:
    assert question(speaking(None), request("ping", id=1)).operation == "ping"
    refusal = strayed(speaking(None), request(method, QUESTIONS[method][1], 1)).reply
    assert refusal is not None
    assert json.loads(refusal)["error"]["code"] == -32601


@pytest.mark.parametrize("revision", HANDSHAKES)
def test_an_answer_has_the_id_of_its_question_and_the_fields_of_its_revision(revision: str) -> None:
    connection = speaking(revision)
    asked = question(connection, request("roots/list", id="q"))
    result = ListRootsResult(roots=[Root(uri="file:///a", name="a", meta={"k": 1})])
    outgoing = connection.answer(asked, result)
    root = {"uri": "file:///a", "name": "a"} | ({"_meta": {"k": 1}} if revision >= JUNE else {})
    assert sent(outgoing) == {"jsonrpc": "2.0", "id": "q", "result": {"roots": [root]}}
    assert (outgoing.id, outgoing.method) == (None, "")
    sampled = CreateMessageResult(role="assistant", model="m", content=[TextContent("a"), TextContent("b")])
    content = sent(connection.answer(asked, sampled))["result"]["content"]
    assert isinstance(content, list) is (revision == NOVEMBER)
    assert sent(connection.answer(asked, ElicitResult(action="decline")))["result"] == {"action": "decline"}


def test_the_answer_to_a_question_of_a_task_says_so_too() -> None:
    connection = speaking(NOVEMBER)
    related = {"io.modelcontextprotocol/related-task": {"taskId": "t"}}
    asked = question(connection, request("roots/list", {"_meta": {**related, "other": 1}}, "q"))
    assert sent(connection.answer(asked, ListRootsResult(roots=[])))["result"] == {"roots": [], "_meta": related}
    own = ListRootsResult(roots=[], meta={"mine": 1})
    assert sent(connection.answer(asked, own))["result"]["_meta"] == {"mine": 1, **related}
    assert own.meta == {"mine": 1}


@pytest.mark.parametrize(
    ("error", "code", "message"),
    [
        (PeerError(-1, "The user said no"), -1, "The user said no"),
        (MethodNotFound("No sampling here"), -32601, "No sampling here"),
        (InvalidParams("Invalid params: url"), -32602, "Invalid params: url"),
        (ValueError("secret"), -32603, "Internal error"),
        (ResourceNotFound("file:///secret"), -32603, "Internal error"),
        (RecursionError(), -32603, "Internal error"),
    ],
)
def test_a_refusal_says_what_may_be_said(error: Exception, code: int, message: str) -> None:
    connection = speaking(JUNE)
    asked = question(connection, request("roots/list", id=7))
    assert sent(connection.reject(asked, error)) == {
        "jsonrpc": "2.0",
        "id": 7,
        "error": {"code": code, "message": message},
    }
    told = sent(connection.reject(asked, PeerError(-1, "no", {"a": 1})))
    assert told["error"]["data"] == {"a": 1}


# Batches


def test_a_batch_is_read_message_by_message() -> None:
    connection = speaking(MARCH)
    id = connection.request(LIST_TOOLS, PageParams()).id
    other = connection.request(PING, Params()).id
    batch = connection.receive(
        pack(
            [
                {"jsonrpc": "2.0", "id": id, "result": {"tools": []}},
                {"jsonrpc": "2.0", "id": other, "error": {"code": 1, "message": "no"}},
                notify("notifications/tools/list_changed"),
                request("ping", id="p"),
                5,
                None,
                "x",
                [request("ping", id="q")],
                [],
                {},
                {"jsonrpc": "2.0", "id": id, "result": {"tools": []}},
            ]
        )
    )
    assert isinstance(batch, ServerBatch)
    kinds = [Response, FailedRequest, ServerNotification, IncomingRequest, *[Ignored] * 7]
    assert [type(event) for event in batch.events] == kinds


@pytest.mark.parametrize("data", [b"[]", b" \n[ ] ", b"[1]", b"[" + b"1," * (MAX_BATCH - 1) + b"1]"])
def test_a_batch_may_be_short_or_full_and_have_space_around_it(data: bytes) -> None:
    assert isinstance(speaking(MARCH).receive(data), ServerBatch)


@pytest.mark.parametrize("revision", [None, OLDEST, JUNE, NOVEMBER, LATEST])
def test_revisions_without_batches_have_none(revision: str | None) -> None:
    connection = speaking(revision)
    stray = strayed(connection, [notify("notifications/tools/list_changed")])
    assert stray.reply is None


@pytest.mark.parametrize("data", [b"[", b"[1,", b"[}", b'[{"jsonrpc":"2.0"', DEEP])
def test_half_a_batch_is_a_stray(data: bytes) -> None:
    assert isinstance(speaking(MARCH).receive(data), Ignored)


def test_a_batch_of_too_many_messages_is_one_stray_and_takes_no_memory_to_keep() -> None:
    connection = speaking(MARCH)
    data = b"[" + b"1," * 199_999 + b"1]"
    tracemalloc.start()
    try:
        assert isinstance(connection.receive(data), Ignored)
        assert tracemalloc.get_traced_memory()[0] < 1_000_000
    finally:
        tracemalloc.stop()


# Bytes


GARBAGE = [
    *(b"", b" ", b"\n", b"{", b"hello", b"null", b"true", b"3", b'"x"', b"{}", b'{"id":1}', b"\xff\xfe", b"\x00"),
    b'{"jsonrpc":"2.0"',
    b'{"jsonrpc":"2.0","id":1,"result":{}} {}',
    b'{"jsonrpc":"2.0","id":1,"result":{},}',
    b'{"jsonrpc":"1.0","id":1,"result":{"tools":[]}}',
    b'{"jsonrpc":2.0,"id":1,"result":{"tools":[]}}',
    b'{"id":1,"result":{"tools":[]}}',
    b'{"jsonrpc":"2.0","ID":1,"result":{"tools":[]}}',
    b'{"jsonrpc":"2.0","id":01,"result":{"tools":[]}}',
    b'{"jsonrpc":"2.0","id":NaN,"result":{"tools":[]}}',
    b'\xef\xbb\xbf{"jsonrpc":"2.0","id":1,"result":{"tools":[]}}',
    '{"jsonrpc":"2.0","id":1,"result":{"tools":[]}}'.encode("utf-16"),
    b'{"jsonrpc":"2.0","id":1,"method":5,"result":{"tools":[]}}',
    b'{"jsonrpc":"2.0","id":' + b"9" * 5_000 + b',"result":{}}',
    b'{"jsonrpc":"2.0","id":' + b"[" * 900 + b"]" * 900 + b',"result":{}}',
    b'{"jsonrpc":"2.0","id":' + DEEP + b',"result":{}}',
    b'{"jsonrpc":"2.0","id":1e400,"result":{}}',
    b'{"a":' * 100_000,
    DEEP,
]


@pytest.mark.parametrize("revision", [*ALL, None])
@pytest.mark.parametrize("data", GARBAGE)
def test_what_is_no_message_is_a_stray_and_nothing_is_lost(revision: str | None, data: bytes) -> None:
    connection = speaking(revision)
    if revision is not None:
        connection.request(LIST_TOOLS, PageParams())
    for _ in range(2):
        event = connection.receive(data)
        assert isinstance(event, Ignored | ServerBatch)
        if isinstance(event, Ignored):
            assert event.reply is None
            assert 0 < len(event.reason) < 500
    if revision is not None:
        assert isinstance(answer(connection, 1, {"tools": []}), Response)


@pytest.mark.parametrize("revision", ALL)
@pytest.mark.parametrize(
    "result",
    [
        DEEP,
        b'{"tools":%b}' % DEEP,
        b'{"tools":[],"x":%b}' % DEEP,
        b'{"tools":[{"name":"t","inputSchema":%b}]}' % (b'{"a":' * 99_999 + b"1" + b"}" * 99_999),
        b'{"tools":[],"_meta":{"x":%b}}' % DEEP,
        b'{"tools":[],"nextCursor":"\xff"}',
        b'{"tools":[],"nextCursor":"\\ud800"}',
        b'{"tools":[{"name":"t","inputSchema":{"\xff":1}}]}',
        b'{"tools":[],"_meta":{"x":%b}}' % (b"9" * 1_000_000),
        b'{"tools":[],"_meta":{"x":1e999999}}',
        b'{"tools":[],"ttlMs":%b}' % (b"9" * 5_000),
        b'{"resultType":"\xff","tools":[]}',
        b'{"resultType":"\xff"}',
        b'{"resultType":"input_required","inputRequests":%b}' % DEEP,
    ],
)
def test_a_result_that_attacks_the_decoder_ends_its_request_and_no_other(revision: str, result: bytes) -> None:
    connection = speaking(revision)
    connection.request(LIST_TOOLS, PageParams())
    connection.request(LIST_TOOLS, PageParams())
    event = connection.receive(b'{"jsonrpc":"2.0","id":1,"result":%b}' % result)
    if isinstance(event, Ignored):  # the whole message could not be read
        assert set(connection.waiting) == {1, 2}
    else:
        assert isinstance(event, FailedRequest | Response)
        assert set(connection.waiting) == {2}
    assert isinstance(answer(connection, 2, {"tools": []}), Response)


@pytest.mark.parametrize(
    ("message", "kind"),
    [
        (b'{"jsonrpc":"2.0","id":1,"error":{"code":1,"message":"\xff"}}', FailedRequest),
        (b'{"jsonrpc":"2.0","id":1,"error":{"code":1,"message":"x","data":%b}}' % DEEP, (FailedRequest, Ignored)),
        (b'{"jsonrpc":"2.0","id":"\xff","error":{"code":1,"message":"x"}}', Ignored),
        (b'{"jsonrpc":"2.0","method":"\xff"}', Ignored),
        (b'{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":"\xff"}}', Ignored),
        (b'{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":%b}}' % DEEP, Ignored),
        (b'{"jsonrpc":"2.0","id":"q","method":"roots/list","params":{"_meta":{"a":"\xff"}}}', Ignored),
        (b'{"jsonrpc":"2.0","id":"q","method":"elicitation/create","params":{"message":%b}}' % DEEP, Ignored),
    ],
)
def test_text_that_is_not_utf_8_and_nesting_without_end_do_no_harm(message: bytes, kind: Any) -> None:
    connection = speaking(JUNE)
    connection.request(PING, Params())
    assert isinstance(connection.receive(message), kind)
    assert isinstance(question(connection, request("ping", id="p")), IncomingRequest)


def test_of_duplicate_keys_the_last_one_counts() -> None:
    connection = speaking(JUNE)
    connection.request(LIST_TOOLS, PageParams(), "first")
    connection.request(LIST_TOOLS, PageParams(), "second")
    event = connection.receive(
        b'{"jsonrpc":"2.0","id":1,"id":2,"result":5,"result":{"tools":[{"name":"t","inputSchema":{}}],"tools":[]}}'
    )
    assert isinstance(event, Response)
    assert event.result.tools == []
    assert event.waiting.owner == "second"


def test_any_buffer_of_bytes_is_read() -> None:
    for kind in (bytes, bytearray, memoryview):
        connection = speaking(MARCH)
        connection.request(LIST_TOOLS, PageParams())
        assert isinstance(connection.receive(kind(b"[1]")), ServerBatch)
        assert isinstance(connection.receive(kind(b'{"jsonrpc":"2.0","id":1,"result":{"tools":[]}}')), Response)


# Extensions


def test_an_extension_adds_its_operations_and_notifications_to_stateless_revisions() -> None:
    before, after = speaking(None), speaking(LATEST)
    for connection in (before, after):
        connection.extend(TASKS)
        connection.extend(SKILLS)
    before.speak(REVISIONS[LATEST])
    for connection in (before, after):
        outgoing = connection.request(GET_TASK, TaskParams(task_id="t"))
        assert (outgoing.method, outgoing.name) == ("tasks/get", "t")
        assert isinstance(answer(connection, outgoing.id, DETAILED), Response)
        assert heard(connection, notify("notifications/tasks", DETAILED)).event == "task"
        assert connection.knows(LIST_SKILLS)
    session = speaking(JUNE)
    session.extend(TASKS)
    assert not session.knows(GET_TASK)
    strayed(session, notify("notifications/tasks", DETAILED))


def test_an_extension_with_a_handshake_is_for_sessions_too() -> None:
    search = RequestType("com.example/search", "search", Params, Result)
    extension = Extension(
        name="com.example/search",
        requests={search.method: search},
        events={"found": NotificationType("notifications/com.example/found", "found")},
        handshake=True,
    )
    for revision in ALL:
        connection = speaking(revision)
        connection.extend(extension)
        assert connection.request(search, Params()).method == "com.example/search"
        assert heard(connection, notify("notifications/com.example/found", {"x": 1})).event == "found"


def test_a_revision_that_is_spoken_later_leaves_nothing_of_the_one_before() -> None:
    connection = speaking(LATEST)
    connection.set_log_level("debug")
    connection.speak(REVISIONS[JUNE])
    assert not connection.knows(DISCOVER)
    assert sent(connection.request(PING, Params()))["params"] == {}
    strayed(connection, notify("notifications/subscriptions/acknowledged", {"notifications": {}}))
    assert question(connection, request("ping", id=1)).operation == "ping"


@pytest.mark.parametrize("revision", [NOVEMBER, LATEST])
def test_null_for_what_is_not_there_is_read_as_that(revision: str) -> None:
    connection = ClientProtocol(Implementation("c", "1"), ClientCapabilities())
    connection.speak(REVISIONS[revision])
    id = connection.request(LIST_TOOLS, PageParams()).id
    nulls = {"title": None, "annotations": None, "_meta": {"a": None}}
    tool = {"name": "t", "inputSchema": {"default": None}, **nulls}
    result = {"tools": [tool], "nextCursor": None}
    event = connection.receive(msgspec.json.encode({"jsonrpc": "2.0", "id": id, "result": result}))
    assert isinstance(event, Response)
    assert event.result.next_cursor is None
    (read,) = event.result.tools
    assert (read.title, read.annotations, read.meta, read.input_schema) == (
        None,
        None,
        {"a": None},
        {"default": None},
    )


@pytest.mark.parametrize(("given", "kind"), [("text", TextResourceContents), ("blob", BlobResourceContents)])
def test_contents_may_have_null_for_what_they_are_not(given: str, kind: type) -> None:
    contents = {"uri": "a:b", "text": None, "blob": None, "mimeType": None, given: "eA=="}
    result = replied(speaking(NOVEMBER), "read_resource", params_of("read_resource"), {"contents": [contents]})
    (read,) = result.contents
    assert (type(read), read.mime_type) == (kind, None)


def test_null_where_there_has_to_be_something_is_wrong() -> None:
    connection = ClientProtocol(Implementation("c", "1"), ClientCapabilities())
    connection.speak(REVISIONS[LATEST])
    id = connection.request(LIST_TOOLS, PageParams()).id
    event = connection.receive(msgspec.json.encode({"jsonrpc": "2.0", "id": id, "result": {"tools": None}}))
    assert isinstance(event, FailedRequest)


def test_what_is_described_is_cancelled_once_something_is_agreed_on() -> None:
    connection = ClientProtocol(Implementation("c", "1"), ClientCapabilities())
    connection.speak(REVISIONS[LATEST])
    first, second = (connection.request(DISCOVER, Params()).id for _ in range(2))
    assert connection.give_up(first, "") is None
    connection.settle()
    assert connection.give_up(second, "") is not None
