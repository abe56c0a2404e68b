"""Two connected machines: whatever one of them writes, the other one reads, in every revision."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
from msgspec import UNSET, Raw

from carrel.errors import InvalidParams, MethodNotFound, MissingCapability, PeerError, ResourceNotFound
from carrel.protocol import client, server
from carrel.protocol.connection import FailedRequest, Ignored, Response
from carrel.protocol.encoding import encode, encode_event
from carrel.protocol.extensions.tasks import TASKS
from carrel.protocol.methods import CALL_TOOL, COMPLETE, DISCOVER, INITIALIZED, PING, PROGRESS
from carrel.protocol.revisions import REVISIONS, SERVER_REQUESTS
from carrel.wire.base import ClientCapabilities, Implementation, Params, Result
from carrel.wire.client_features import (
    CreateMessageResult,
    ElicitationCompleteParams,
    ElicitResult,
    InputRequest,
    InputRequiredResult,
    ListRootsResult,
    Root,
)
from carrel.wire.completion import (
    CompleteParams,
    CompleteResult,
    Completion,
    CompletionArgument,
    CompletionContext,
    PromptReference,
    ResourceTemplateReference,
)
from carrel.wire.content import AudioContent, EmbeddedResource, ImageContent, ResourceLink, TextContent
from carrel.wire.lifecycle import DiscoverResult, InitializeResult, ListChanged, ServerCapabilities
from carrel.wire.prompts import GetPromptResult, ListPromptsResult, Prompt, PromptArgument, PromptMessage
from carrel.wire.resources import (
    AcknowledgedParams,
    BlobResourceContents,
    ListenResult,
    ListResourcesResult,
    ListResourceTemplatesResult,
    ReadResourceParams,
    ReadResourceResult,
    Resource,
    ResourceTemplate,
    ResourceUpdatedParams,
    SubscriptionFilter,
    TextResourceContents,
)
from carrel.wire.tasks import DetailedTask, ListTasksResult, Task, TaskParams, UpdateTaskParams
from carrel.wire.tools import CallToolParams, CallToolResult, ListToolsResult, TaskMetadata, Tool
from carrel.wire.utilities import SEVERITY, CancelledParams, LoggingMessageParams, ProgressParams
from protocol.test_client import CASES, EVERYTHING, OPERATIONS
from support.client_connection import row_of, sent
from support.server_connection import ALL, HANDSHAKES, LATEST, MARCH, NOVEMBER

DESCRIPTION = server.Description(
    Implementation("server", "1.0", title="The Server"),
    lambda: ServerCapabilities(tools=ListChanged(list_changed=True), logging={}, completions={}),
    instructions="Read.",
)
TASK = Task(task_id="t", status="working", created_at="x", last_updated_at="y", ttl=None)
DETAILED = DetailedTask(task_id="t", status="working", created_at="x", last_updated_at="y", ttl_ms=None)
BLOCKS = [
    TextContent("hi 糖", meta={"k": 1}),
    ImageContent(b"\x00\xff", "image/png"),
    AudioContent(b"RIFF", "audio/wav"),
    ResourceLink("a:b", "b"),
    EmbeddedResource(TextResourceContents("a:b", "x")),
    EmbeddedResource(BlobResourceContents("a:b", b"\x00")),
]
#: What a server answers, by operation.
RESULTS: dict[str, Result] = {
    "ping": Result(),
    "discover": DiscoverResult(supported_versions=[LATEST], capabilities=ServerCapabilities()),
    "list_resources": ListResourcesResult(resources=[Resource("a:b", "b", title="B", size=3)], next_cursor="n"),
    "list_resource_templates": ListResourceTemplatesResult(resource_templates=[ResourceTemplate("a:{b}", "b")]),
    "read_resource": ReadResourceResult(
        contents=[TextResourceContents("a:b", "x", meta={"k": 1}), BlobResourceContents("a:c", b"\x00\x01")]
    ),
    "subscribe": Result(),
    "unsubscribe": Result(),
    "list_prompts": ListPromptsResult(prompts=[Prompt(name="p", arguments=[PromptArgument("a", required=True)])]),
    "get_prompt": GetPromptResult(messages=[PromptMessage("user", block) for block in BLOCKS], description="d"),
    "list_tools": ListToolsResult(tools=[Tool(name="t", input_schema={"type": "object"}, title="T")]),
    "call_tool": CallToolResult(content=BLOCKS, structured_content={"a": [None]}, is_error=False),
    "set_level": Result(),
    "complete": CompleteResult(completion=Completion(["a", "b"], total=2)),
    "listen": ListenResult(),
    "get_task": TASK,
    "fetch_task_result": CallToolResult(content=BLOCKS),
    "list_tasks": ListTasksResult(tasks=[TASK]),
    "cancel_task": TASK,
}


class Pair:
    """A client and a server that have found each other."""

    def __init__(self, revision: str, capabilities: ClientCapabilities = EVERYTHING) -> None:
        self.revision = REVISIONS[revision]
        self.client = client.ClientProtocol(Implementation("client", "1.0", title="The Client"), capabilities)
        self.server = server.ServerProtocol(DESCRIPTION)
        if self.revision.stateless:
            self.client.speak(self.revision)
            return
        call = self.calls(self.client.initialize(self.revision))
        event = self.client.receive(self.server.reply(call, self.server.initialize(call)))
        assert isinstance(event, client.Response)
        assert isinstance(event.result, InitializeResult)
        assert event.result.protocol_version == revision
        self.client.speak(self.revision)
        self.signals(self.client.notify(INITIALIZED), "initialized")

    def calls(self, outgoing: client.OutgoingMessage) -> server.Call:
        event = self.server.receive(outgoing.data)
        assert isinstance(event, server.Call), event
        return event

    def signals(self, outgoing: client.OutgoingMessage | None, operation: str) -> Any:
        assert outgoing is not None
        event = self.server.receive(outgoing.data)
        assert isinstance(event, server.ClientNotification)
        assert event.operation == operation
        return event.params

    def asks(self, operation: str, **options: Any) -> server.Call:
        return self.calls(self.client.request(row_of(operation), OPERATIONS[operation][1], **options))

    def hears(self, data: bytes) -> client.Event:
        event = self.client.receive(data)
        assert not isinstance(event, client.Ignored), event
        return event


@pytest.mark.parametrize(("operation", "revision"), CASES)
def test_a_request_is_the_call_that_was_meant(operation: str, revision: str) -> None:
    pair = Pair(revision)
    call = pair.asks(operation)
    assert (call.request.operation, call.peer.revision) == (operation, pair.revision)
    wanted = encode(OPERATIONS[operation][1])
    read = {key: value for key, value in json.loads(bytes(call.raw)).items() if key != "_meta"}
    assert read == {key: value for key, value in json.loads(wanted).items() if key != "_meta"}
    assert call.progress_token is None


@pytest.mark.parametrize(("operation", "revision"), CASES)
def test_a_result_arrives_as_its_revision_has_it(operation: str, revision: str) -> None:
    pair = Pair(revision)
    call = pair.asks(operation, owner="me")
    event = pair.hears(pair.server.reply(call, RESULTS[operation]))
    assert isinstance(event, client.Response)
    assert (event.id, event.waiting.owner) == (call.id, "me")
    assert encode(event.result) == encode(pair.server.finish(call, RESULTS[operation]))


@pytest.mark.parametrize("revision", ALL)
def test_who_asks_and_what_may_be_asked_arrives(revision: str) -> None:
    peer = Pair(revision).asks("list_tools").peer
    assert peer.client is not None
    assert (peer.client.name, peer.client.version) == ("client", "1.0")
    assert peer.capabilities == REVISIONS[revision].project(EVERYTHING)


@pytest.mark.parametrize("revision", ALL)
def test_the_progress_token_and_other_keys_arrive(revision: str) -> None:
    call = Pair(revision).asks("call_tool", progress=True, meta={"com.example/trace": "x"})
    assert call.progress_token == call.id
    assert call.meta["com.example/trace"] == "x"


def test_the_log_level_arrives() -> None:
    pair = Pair(LATEST)
    pair.client.set_log_level("warning")
    assert pair.asks("list_tools").peer.log_level == SEVERITY["warning"]
    pair.client.set_log_level(None)
    assert pair.asks("list_tools").peer.log_level is None


@pytest.mark.parametrize("revision", ALL)
@pytest.mark.parametrize(
    ("error", "code"),
    [
        (MethodNotFound("no"), -32601),
        (InvalidParams("no", {"a": 1}), -32602),
        (ResourceNotFound("a:b"), None),
        (ValueError("secret"), -32603),
        (MissingCapability({"sampling": {}}), UNSET),
    ],
)
def test_an_error_arrives(revision: str, error: Exception, code: Any) -> None:
    pair = Pair(revision)
    event = pair.hears(pair.server.reject(pair.asks("call_tool"), error).reply)
    assert isinstance(event, client.FailedRequest)
    assert isinstance(event.error, PeerError)
    if code is UNSET:
        code = -32021 if revision == LATEST else -32600
    assert event.error.code == (code or REVISIONS[revision].not_found)
    assert "secret" not in str(event.error)


#: What a server announces, by our names for it.
EVENTS: dict[str, Any] = {
    "cancelled": CancelledParams(request_id=1, reason="r"),
    "message": LoggingMessageParams(level="error", data={"a": [1]}, logger="x"),
    "progress": ProgressParams(progress_token=1, progress=0.5, total=1.5, message="half"),
    "resource_updated": ResourceUpdatedParams(uri="a:b"),
    "resources_list_changed": UNSET,
    "tools_list_changed": UNSET,
    "prompts_list_changed": UNSET,
    "subscription_acknowledged": AcknowledgedParams(notifications=SubscriptionFilter(tools_list_changed=True)),
    "elicitation_complete": ElicitationCompleteParams(elicitation_id="e"),
    "task_status": TASK,
}


@pytest.mark.parametrize("revision", ALL)
def test_every_announcement_of_a_server_arrives(revision: str) -> None:
    pair = Pair(revision)
    assert set(pair.revision.events) <= set(EVENTS)
    for event in pair.revision.events:
        notice = pair.hears(encode_event(pair.revision, event, EVENTS[event]))
        assert isinstance(notice, client.ServerNotification)
        assert notice.event == event
        if EVENTS[event] is not UNSET:
            assert encode(notice.params) == encode(pair.revision.project(EVENTS[event]))


@pytest.mark.parametrize("revision", ALL)
def test_every_announcement_of_a_client_arrives(revision: str) -> None:
    pair = Pair(revision)
    for row in pair.revision.client_notifications.values():
        params = ProgressParams(progress_token=1, progress=0.5) if row is PROGRESS else UNSET
        pair.signals(pair.client.notify(row, params), row.operation)
    call = pair.asks("call_tool")
    cancelled = pair.signals(pair.client.give_up(call.id, "bored"), "cancelled")
    assert (cancelled.request_id, cancelled.reason) == (call.id, "bored")


@pytest.mark.parametrize("revision", HANDSHAKES)
@pytest.mark.parametrize(
    ("method", "params", "result"),
    [
        ("ping", {}, {}),
        ("roots/list", {}, ListRootsResult(roots=[Root(uri="file:///a", name="a")])),
        (
            "sampling/createMessage",
            {"messages": [{"role": "user", "content": {"type": "text", "text": "?"}}], "maxTokens": 5},
            CreateMessageResult(role="assistant", model="m", content=TextContent("!"), stop_reason="endTurn"),
        ),
        (
            "elicitation/create",
            {"message": "?", "requestedSchema": {"type": "object", "properties": {}}},
            ElicitResult(action="accept", content={"a": [1.5]}),
        ),
    ],
)
def test_questions_and_answers_arrive(revision: str, method: str, params: Any, result: Any) -> None:
    pair = Pair(revision)
    row = PING if method == "ping" else SERVER_REQUESTS[method]
    asked = pair.server.ask(row, params, "me")
    event = pair.client.receive(asked)
    assert json.loads(asked)["id"] == pair.server.last_id == 1
    if method not in {"ping", *(row.method for row in pair.revision.server_requests.values())}:
        assert isinstance(event, client.Ignored)
        assert event.reply is not None
        refused = pair.server.receive(event.reply)
        assert isinstance(refused, FailedRequest)
        assert refused.waiting.owner == "me"
        return
    assert isinstance(event, client.IncomingRequest)
    answered = pair.server.receive(pair.client.answer(event, result).data)
    assert isinstance(answered, Response)
    assert (answered.id, answered.waiting.owner, answered.waiting.request) == (1, "me", row)
    assert answered.result == json.loads(encode(result))
    assert pair.server.waiting == {}
    assert isinstance(pair.server.receive(pair.client.answer(event, result).data), Ignored), "there is one answer"
    event = pair.client.receive(pair.server.ask(row, params, "again"))
    assert isinstance(event, client.IncomingRequest)
    refused = pair.server.receive(pair.client.reject(event, PeerError(-1, "no")).data)
    assert isinstance(refused, FailedRequest)
    assert (refused.waiting.owner, str(refused.error)) == ("again", str(PeerError(-1, "no")))


def test_a_round_of_questions_arrives_and_its_answers_come_back() -> None:
    pair = Pair(LATEST)
    asked = {"name": InputRequest(method="elicitation/create", params={"message": "?"})}
    required = InputRequiredResult(result_type="input_required", input_requests=asked, request_state="sealed\u2028")
    for params in (CallToolParams(name="t"), ReadResourceParams(uri="a:b")):
        operation = "call_tool" if isinstance(params, CallToolParams) else "read_resource"
        call = pair.calls(pair.client.request(row_of(operation), params))
        event = pair.hears(pair.server.reply(call, required))
        assert isinstance(event, client.Response)
        assert isinstance(event.result, InputRequiredResult)
        assert event.result.input_requests == asked
        params.request_state = event.result.request_state
        params.input_responses = Raw(encode({"name": ElicitResult(action="decline")}))
        again = pair.calls(pair.client.request(row_of(operation), params))
        assert again.id != call.id
        assert again.params.request_state == "sealed\u2028"
        assert json.loads(bytes(again.params.input_responses)) == {"name": {"action": "decline"}}


def test_tasks_of_the_extension_arrive_both_ways() -> None:
    pair = Pair(LATEST, ClientCapabilities(extensions={TASKS.name: {}}))
    pair.client.extend(TASKS)
    pair.server.description = server.Description(DESCRIPTION.info, DESCRIPTION.capabilities)
    pair.server.description.extend(TASKS)
    started = msgspec.structs.replace(DETAILED, result_type="task")
    event = pair.hears(pair.server.reply(pair.asks("call_tool"), started))
    assert isinstance(event, client.Response)
    assert isinstance(event.result, DetailedTask)
    for operation, params in (
        ("get_task", TaskParams(task_id="t")),
        ("update_task", UpdateTaskParams(task_id="t", input_responses=Raw(b'{"a":1}'))),
        ("cancel_task", TaskParams(task_id="t")),
    ):
        call = pair.calls(pair.client.request(row_of(operation), params))
        assert (call.request.operation, call.params.task_id) == (operation, "t")
        result = DETAILED if operation == "get_task" else Result()
        assert isinstance(pair.hears(pair.server.reply(call, result)), client.Response)
    notice = pair.hears(encode_event(pair.revision, "task", DETAILED, TASKS))
    assert isinstance(notice, client.ServerNotification)
    assert notice.params.task_id == "t"


def test_a_task_of_the_november_revision_is_asked_for() -> None:
    params = CallToolParams(name="t", task=TaskMetadata(ttl=60_000))
    pair = Pair(NOVEMBER)
    assert pair.calls(pair.client.request(CALL_TOOL, params)).params.task == TaskMetadata(ttl=60_000)
    for revision in set(ALL) - {NOVEMBER}:
        pair = Pair(revision)
        assert pair.calls(pair.client.request(CALL_TOOL, params)).params.task is None


def test_a_batch_of_everything_arrives() -> None:
    pair = Pair(MARCH)
    outgoing = [
        pair.client.request(row_of(operation), OPERATIONS[operation][1]) for operation in ("ping", "list_tools")
    ]
    batch = pair.server.receive(b"[" + b",".join(message.data for message in outgoing) + b"]")
    assert isinstance(batch, server.ClientBatch)
    replies = [
        pair.server.reply(call, RESULTS[call.request.operation])
        for call in batch.events
        if isinstance(call, server.Call)
    ]
    events = [*replies, encode_event(pair.revision, "tools_list_changed")]
    heard = pair.client.receive(b"[" + b",".join(events) + b"]")
    assert isinstance(heard, client.ServerBatch)
    assert [type(event) for event in heard.events] == [client.Response, client.Response, client.ServerNotification]


@pytest.mark.parametrize("asked", HANDSHAKES)
@pytest.mark.parametrize("spoken", HANDSHAKES)
def test_a_server_that_speaks_another_revision_offers_that(asked: str, spoken: str) -> None:
    only = server.Description(DESCRIPTION.info, ServerCapabilities, revisions={spoken: REVISIONS[spoken]})
    there, here = server.ServerProtocol(only), client.ClientProtocol(Implementation("c", "1"), EVERYTHING)
    call = there.receive(here.initialize(REVISIONS[asked]).data)
    assert isinstance(call, server.Call)
    event = here.receive(there.reply(call, there.initialize(call)))
    assert isinstance(event, client.Response)
    assert event.result.protocol_version == spoken
    here.speak(REVISIONS[spoken])
    assert isinstance(there.receive(here.request(PING, Params()).data), server.Call)


def test_a_stateless_request_to_a_server_of_sessions_is_told_what_is_spoken() -> None:
    only = server.Description(DESCRIPTION.info, ServerCapabilities, revisions={NOVEMBER: REVISIONS[NOVEMBER]})
    there, here = server.ServerProtocol(only), client.ClientProtocol(Implementation("c", "1"), EVERYTHING)
    here.speak(REVISIONS[LATEST])
    refusal = there.receive(here.request(DISCOVER, Params()).data)
    assert isinstance(refusal, server.ErrorResponse)
    event = here.receive(refusal.reply)
    assert isinstance(event, client.FailedRequest)
    assert isinstance(event.error, PeerError)
    assert (event.error.code, event.error.data["supported"]) == (-32022, [NOVEMBER])


@pytest.mark.parametrize("revision", ALL)
def test_references_for_completion_arrive(revision: str) -> None:
    pair = Pair(revision)
    for reference in (PromptReference("p", title="P"), ResourceTemplateReference(uri="a:{b}")):
        params = CompleteParams(
            ref=reference, argument=CompletionArgument("b", "x"), context=CompletionContext(arguments={"c": "d"})
        )
        call = pair.calls(pair.client.request(COMPLETE, params))
        assert type(call.params.ref) is type(reference)
        assert (call.params.context is None) is ("context" not in sent(pair.client.request(COMPLETE, params))["params"])
