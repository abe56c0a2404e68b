"""Two replicas of a server, each on a port of its own, and a client whose requests reach either of them."""

from __future__ import annotations

import asyncio
import json
import logging
from contextlib import AsyncExitStack

import pytest
import pytest_asyncio

from carrel import Context, Limits, Server
from carrel.state.memory import MemoryState, MemoryTables
from support.encoded_state import EncodedState
from support.raw_http import Session, serving
from support.stdio_process import initialize, note, request, text_of

pytestmark = pytest.mark.asyncio

TIMEOUT = 200.0
KEY = bytes(32)


class Replica:
    """One replica: its server, its site, and what its handlers wait for."""

    def __init__(self, state, **limits):
        self.go, self.begun, self.cancelled = asyncio.Event(), asyncio.Event(), asyncio.Event()
        self.app = app = Server("replicated", state=state, state_keys=(KEY,), limits=Limits(session_ttl=60.0, **limits))
        app.resources.add("memo://1", "text")
        app.resources.add("memo://2", "text")

        @app.tool()
        async def steps(n: int, context: Context) -> str:
            try:
                for number in range(1, n + 1):
                    await context.report_progress(number)
                self.begun.set()
                await self.go.wait()
                await context.report_progress(n + 1)
            except asyncio.CancelledError:
                self.cancelled.set()
                raise
            return "done"

        @app.tool()
        async def greet(context: Context) -> str:
            answer = await context.elicit("Who?", str)
            return f"Hello {answer.data}"

        @app.tool
        async def count(context: Context) -> str:
            if context.session is None:
                return "none"
            number = await context.session.get("number", 0) + 1
            await context.session.set("number", number)
            return str(number)

        @app.tool(task="optional")
        async def index() -> str:
            self.begun.set()
            try:
                await self.go.wait()
            except asyncio.CancelledError:
                self.cancelled.set()
                raise
            return "indexed"

        @app.tool(task="optional")
        async def order(context: Context) -> str:
            answer = await context.elicit("For whom?", str)
            return f"for {answer.data}"

        @app.tool()
        async def talk(context: Context) -> str:
            sent = context.debug("a detail")
            await sent
            return "said"


@pytest.fixture(params=[MemoryState, EncodedState])
def store(request):
    """How a replica joins the store of the test."""
    shared = MemoryTables()
    return lambda: request.param(shared)


@pytest.fixture
def limits():
    return {}


@pytest_asyncio.fixture
async def replicas(store, limits):
    async with asyncio.timeout(TIMEOUT), AsyncExitStack() as stack:
        pair = [Replica(store(), **limits), Replica(store(), **limits)]
        for replica in pair:
            endpoint = replica.endpoint = replica.app.asgi()
            await endpoint.start()
            replica.site = await stack.enter_async_context(serving(endpoint))
        yield pair


async def begin(replica, capabilities=None):
    """Shake hands with one replica."""
    message = initialize("2025-11-25")
    message["params"]["capabilities"] = capabilities or {}
    reply = await replica.site.post(message)
    session = Session(replica.site, reply.headers["mcp-session-id"], "2025-11-25")
    assert (await session.post(note("notifications/initialized"))).status == 202
    return session


def on(replica, session):
    """The same session, whose requests reach another replica."""
    return Session(replica.site, session.id, "2025-11-25")


async def test_a_session_begun_on_one_replica_is_continued_and_ended_on_the_other(replicas):
    one, other = replicas
    session = await begin(one)
    there = on(other, session)
    reply = await there.post(request(1, "resources/read", {"uri": "memo://1"}))
    assert (await reply.json())["result"]["contents"][0]["text"] == "text"
    stream = await session.get()
    assert (await stream.event()).data == ""
    assert (await there.delete()).status == 204
    assert await stream.messages() == []
    assert (await session.post(request(2, "ping"))).status == 404
    assert (await there.post(request(2, "ping"))).status == 404


async def test_a_value_that_a_handler_keeps_in_a_session_is_there_on_the_other_replica(replicas):
    one, other = replicas
    session, second = await begin(one), await begin(one)
    for number, replica in enumerate((one, other, other, one), 1):
        assert text_of(await (await on(replica, session).call("count")).result()) == str(number)
    assert text_of(await (await on(other, second).call("count")).result()) == "1"


async def test_a_log_level_set_on_one_replica_holds_on_the_other(replicas):
    one, other = replicas
    session = await begin(one)
    there = on(other, session)
    said = await (await there.call("talk")).result()
    assert text_of(said) == "said"
    await (await session.post(request(1, "logging/setLevel", {"level": "debug"}))).json()
    messages = await (await there.call("talk")).messages()
    assert [message["params"]["data"] for message in messages[:-1]] == ["a detail"]


async def test_a_stream_is_replayed_by_the_other_replica_and_goes_on_there(replicas):
    one, other = replicas
    session = await begin(one)
    reply = await session.call("steps", n=3)
    events = [await reply.event() for _ in range(3)]  # the priming event, and two of three
    assert events[-1].id == f"{one.app.endpoint.replica.state.slot}.{events[-1].id.partition('.')[2]}"
    await one.begun.wait()
    reply.client.close()
    resumed = await on(other, session).get(events[-1].id)
    assert (await resumed.message())["params"]["progress"] == 3
    one.go.set()
    assert (await resumed.message())["params"]["progress"] == 4
    assert text_of(await resumed.message()) == "done"
    assert await resumed.event() is None
    again = await (await on(other, session).get(events[0].id)).messages()
    assert [message["params"]["progress"] for message in again[:-1]] == [1, 2, 3, 4]
    assert text_of(again[-1]) == "done"


async def test_a_stream_without_messages_yet_goes_on_on_the_other_replica(replicas):
    one, other = replicas
    session = await begin(one)
    reply = await session.call("steps", n=0)
    first = await reply.event()
    await one.begun.wait()
    reply.client.close()
    resumed = await on(other, session).get(first.id)
    one.go.set()
    assert (await resumed.message())["params"]["progress"] == 1
    assert text_of(await resumed.message()) == "done"
    assert await resumed.event() is None


async def test_no_replay_crosses_sessions(replicas):
    one, other = replicas
    session, foreign = await begin(one), await begin(other)
    await foreign.subscribe("memo://1")
    one.go.set()
    reply = await session.call("steps", n=1)
    first = await reply.event()
    await reply.messages()
    for replica in replicas:
        stream = await on(replica, foreign).get(first.id)
        assert (await stream.event()).data == "", "a new stream, which begins with its own first event"
        replica.app.resources.changed("memo://1")
        assert (await stream.message())["method"] == "notifications/resources/updated", "there was nothing to replay"
        stream.client.close()


async def test_a_question_is_answered_through_the_other_replica(replicas):
    one, other = replicas
    session = await begin(one, {"elicitation": {"form": {}}})
    there = on(other, await begin(other, {"elicitation": {"form": {}}}))
    for asked, answered, holder in ((session, other, one), (there, one, other)):
        reply = await asked.call("greet")
        question = await reply.message()
        assert question["method"] == "elicitation/create"
        assert question["id"] >> 32 == holder.app.endpoint.replica.state.slot
        assert question["id"] < 1 << 53
        name = next(iter(question["params"]["requestedSchema"]["properties"]))
        result = {"action": "accept", "content": {name: "Ann"}}
        answer = {"jsonrpc": "2.0", "id": question["id"], "result": result}
        assert (await on(answered, asked).post(answer)).status == 202
        assert text_of(await reply.message()) == "Hello Ann"


async def test_a_request_is_cancelled_through_the_other_replica(replicas):
    one, other = replicas
    session = await begin(one)
    reply = await session.call("steps", id=7, n=1)
    await one.begun.wait()
    cancelled = note("notifications/cancelled", requestId=7)
    assert (await on(other, session).post(cancelled)).status == 202
    await one.cancelled.wait()
    assert reply.status == 200


async def test_a_subscription_made_on_one_replica_is_heard_on_the_other_whichever_sees_the_change(replicas):
    one, other = replicas
    session = await begin(one)
    there = on(other, session)
    stream = await there.get()
    assert (await stream.event()).data == ""
    await session.subscribe("memo://1")
    for replica in replicas:
        replica.app.resources.changed("memo://1")
        replica.app.resources.changed("memo://2")
        assert (await stream.message())["params"] == {"uri": "memo://1"}


async def test_the_start_of_a_replica_notifies_no_client_of_the_others(replicas, store, tmp_path):
    session = await begin(replicas[0])
    await session.subscribe("memo://1")
    stream = await session.get()
    assert (await stream.event()).data == ""
    started = Replica(store())
    started.app.add_provider(str(tmp_path))
    endpoint = started.app.asgi()
    async with serving(endpoint):
        await endpoint.start()
        started.app.resources.changed("memo://1")
        assert (await stream.message())["params"] == {"uri": "memo://1"}


ALL_OF_IT = [
    "notifications/resources/list_changed",
    "notifications/resources/updated",
    "notifications/tools/list_changed",
]


async def test_a_listening_client_that_moves_to_the_other_replica_is_sent_what_it_missed(replicas):
    one, other = replicas
    session = await begin(one)
    there = on(other, session)
    await session.subscribe("memo://1")
    stream = await session.get()
    first = await stream.event()
    one.app.resources.changed("memo://1")
    last = await stream.event()
    assert json.loads(last.data)["params"] == {"uri": "memo://1"}
    moved = await there.get(first.id)
    assert await stream.message() is None, "the stream before is closed"
    assert (await moved.message())["params"] == {"uri": "memo://1"}
    moved.client.close()
    one.app.resources.changed("memo://2")
    one.app.tools.add(lambda: "", name="new")
    again = await there.get(last.id)
    assert (await again.message())["method"] == "notifications/tools/list_changed"
    other.app.resources.changed("memo://1")
    assert (await again.message())["params"] == {"uri": "memo://1"}


async def test_a_client_that_moves_is_told_of_all_if_replicas_see_changes_themselves(replicas):
    one, other = replicas
    session = await begin(one)
    await session.subscribe("memo://1")
    stream = await session.get()
    await stream.event()
    for replica in replicas:
        replica.app.endpoint.runtime.notify(["memo://2"], seen="everywhere")
    one.app.resources.changed("memo://1")
    last = await stream.event()
    assert json.loads(last.data)["params"] == {"uri": "memo://1"}
    moved = await on(other, session).get(last.id)
    assert sorted([(await moved.message())["method"] for _ in range(3)]) == ALL_OF_IT
    moved.client.close()


async def test_a_change_that_replicas_see_themselves_is_not_lost_when_a_client_reconnects(replicas):
    one, _ = replicas
    session = await begin(one)
    await session.subscribe("memo://1")
    stream = await session.get()
    first = await stream.event()
    stream.client.close()
    one.app.endpoint.runtime.notify(["memo://1", "memo://2"], seen="everywhere")
    again = await session.get(first.id)
    assert (await again.message())["params"] == {"uri": "memo://1"}
    one.app.tools.add(lambda: "", name="new")
    assert (await again.message())["method"] == "notifications/tools/list_changed"


async def test_a_question_on_a_get_stream_is_asked_again_on_the_other_replica_and_only_there(replicas):
    one, other = replicas
    session = await begin(one, {"elicitation": {"form": {}}})
    there = on(other, session)
    stream = await session.get()
    first = await stream.event()
    call = request(1, "tools/call", {"name": "order", "arguments": {}, "task": {}})
    await (await session.post(call)).result()
    told = [await stream.event(), await stream.event()]
    (question,) = [message for each in told if "id" in (message := json.loads(each.data))]
    assert question["method"] == "elicitation/create"
    for last, repeated in ((told[-1].id, []), (first.id, [question])):
        moved = await there.get(last)
        other.app.resources.changed("memo://1")
        other.app.tools.add(lambda: "", name="new", replace=True)
        heard = []
        while not heard or heard[-1]["method"] != "notifications/tools/list_changed":
            heard.append(await moved.message())
        assert [message for message in heard if "id" in message] == repeated
        moved.client.close()
    (name,) = question["params"]["requestedSchema"]["properties"]
    answer = {"jsonrpc": "2.0", "id": question["id"], "result": {"action": "accept", "content": {name: "Ann"}}}
    assert (await there.post(answer)).status == 202


async def test_a_stateless_request_touches_no_store(replicas, monkeypatch):
    one, _ = replicas
    for part in ("sessions", "events", "bus", "mailbox", "tasks", "used", "quotas"):
        monkeypatch.setattr(one.app.endpoint.replica.state, part, None)
    reply = await one.site.ask("resources/read", uri="memo://1")
    assert (await reply.json())["result"]["contents"][0]["text"] == "text"
    listening = await one.site.ask("tools/list")
    assert listening.status == 200
    monkeypatch.undo()


async def test_a_client_that_resumes_a_stream_of_a_replica_that_has_gone_is_not_left_waiting(store):
    one, other = Replica(store()), Replica(store())
    async with asyncio.timeout(TIMEOUT), AsyncExitStack() as stack:
        endpoint = other.app.asgi()
        await endpoint.start()
        other.site = await stack.enter_async_context(serving(endpoint))
        async with AsyncExitStack() as leaving:
            endpoint = one.app.asgi()
            await endpoint.start()
            one.site = await leaving.enter_async_context(serving(endpoint))
            session = await begin(one)
            reply = await session.call("steps", n=2)
            first = await reply.event()
            await one.begun.wait()
        resumed = await on(other, session).get(first.id)
        assert [message["params"]["progress"] for message in await resumed.messages()] == [1, 2]
        assert (await on(other, session).post(request(1, "ping"))).status == 200


# Tasks

CAPABILITIES = {"elicitation": {"form": {}}, "extensions": {"io.modelcontextprotocol/tasks": {}}}
DECLARED = {"io.modelcontextprotocol/clientCapabilities": CAPABILITIES}


async def ask(replica, method, **params):
    """Send a stateless request of a client that knows tasks, and return the response."""
    headers = {"Mcp-Name": params["taskId"]} if "taskId" in params else {}
    reply = await replica.site.ask(method, headers, **params, _meta=DECLARED)
    return await reply.result()


async def until(replica, id, status):
    """Ask a replica for a task until it has a status."""
    while True:
        task = (await ask(replica, "tasks/get", taskId=id))["result"]
        if task["status"] == status:
            return task


async def test_a_task_created_on_one_replica_is_fetched_on_the_other(replicas):
    one, other = replicas
    created = (await ask(one, "tools/call", name="index", arguments={}))["result"]
    assert created["resultType"] == "task"
    there = (await ask(other, "tasks/get", taskId=created["taskId"]))["result"]
    assert there["status"] == "working"
    one.go.set()
    done = await until(other, created["taskId"], "completed")
    assert done["result"]["content"][0]["text"] == "indexed"
    assert done == (await ask(one, "tasks/get", taskId=created["taskId"]))["result"]


async def test_a_task_is_cancelled_through_the_other_replica(replicas):
    one, other = replicas
    id = (await ask(one, "tools/call", name="index", arguments={}))["result"]["taskId"]
    await one.begun.wait()
    assert "error" not in await ask(other, "tasks/cancel", taskId=id)
    await one.cancelled.wait()
    for replica in replicas:
        assert (await ask(replica, "tasks/get", taskId=id))["result"]["status"] == "cancelled"


async def test_a_question_of_a_task_is_answered_through_the_other_replica(replicas):
    one, other = replicas
    id = (await ask(one, "tools/call", name="order", arguments={}))["result"]["taskId"]
    waiting = await until(other, id, "input_required")
    ((key, question),) = waiting["inputRequests"].items()
    (name,) = question["params"]["requestedSchema"]["properties"]
    answers = {key: {"action": "accept", "content": {name: "Ann"}}}
    assert "error" not in await ask(other, "tasks/update", taskId=id, inputResponses=answers)
    done = await until(other, id, "completed")
    assert done["result"]["content"][0]["text"] == "for Ann"


async def test_a_task_is_listened_to_on_the_other_replica(replicas):
    one, other = replicas
    id = (await ask(one, "tools/call", name="index", arguments={}))["result"]["taskId"]
    wanted = {"taskIds": [id]}
    stream = await other.site.ask("subscriptions/listen", notifications=wanted, _meta=DECLARED)
    assert (await stream.message())["params"]["notifications"] == wanted
    one.go.set()
    changed = await stream.message()
    assert changed["method"] == "notifications/tasks"
    assert changed["params"]["status"] == "completed"
    assert changed["params"]["result"]["content"][0]["text"] == "indexed"


async def test_tasks_of_a_session_are_listed_and_waited_for_on_the_other_replica(replicas):
    one, other = replicas
    session, foreign = await begin(one), await begin(other)
    there = on(other, session)
    call = request(1, "tools/call", {"name": "index", "arguments": {}, "task": {}})
    id = (await (await session.post(call)).result())["result"]["task"]["taskId"]
    listed = (await (await there.post(request(2, "tasks/list"))).result())["result"]["tasks"]
    assert [task["taskId"] for task in listed] == [id]
    assert (await (await foreign.post(request(2, "tasks/list"))).result())["result"]["tasks"] == []
    assert "error" in await (await foreign.post(request(3, "tasks/get", {"taskId": id}))).result()
    waiting = asyncio.create_task(there.post(request(4, "tasks/result", {"taskId": id})))
    await one.begun.wait()
    one.go.set()
    result = await (await waiting).result()
    assert text_of(result) == "indexed"
    assert result["result"]["_meta"]["io.modelcontextprotocol/related-task"] == {"taskId": id}


async def test_questions_of_a_task_reach_the_client_that_waits_on_the_other_replica(replicas):
    one, other = replicas
    session = await begin(one, {"elicitation": {"form": {}}})
    there = on(other, session)
    call = request(1, "tools/call", {"name": "order", "arguments": {}, "task": {}})
    id = (await (await session.post(call)).result())["result"]["task"]["taskId"]
    waiting = await there.post(request(2, "tasks/result", {"taskId": id}))
    question = await waiting.message()
    assert question["method"] == "elicitation/create"
    (name,) = question["params"]["requestedSchema"]["properties"]
    answer = {"action": "accept", "content": {name: "Ann"}}
    assert (await there.post({"jsonrpc": "2.0", "id": question["id"], "result": answer})).status == 202
    assert text_of(await waiting.message()) == "for Ann"


async def test_the_status_of_a_task_reaches_the_stream_of_its_session_on_the_other_replica(replicas):
    one, other = replicas
    session = await begin(one)
    stream = await on(other, session).get()
    assert (await stream.event()).data == ""
    call = request(1, "tools/call", {"name": "index", "arguments": {}, "task": {}})
    id = (await (await session.post(call)).result())["result"]["task"]["taskId"]
    one.go.set()
    told = await stream.message()
    assert told["method"] == "notifications/tasks/status"
    assert (told["params"]["taskId"], told["params"]["status"]) == (id, "completed")


async def test_a_task_whose_replica_has_gone_has_an_end(replicas, store):
    one, other = replicas
    session = await begin(one)
    call = request(1, "tools/call", {"name": "index", "arguments": {}, "task": {}})
    id = (await (await session.post(call)).result())["result"]["task"]["taskId"]
    await one.begun.wait()
    state = one.app.endpoint.replica.state
    state._tables.boxes.pop(state.slot)  # as if its process had been killed
    reply = await (await on(other, session).post(request(2, "tasks/result", {"taskId": id}))).result()
    assert "has stopped" in reply["error"]["message"]
    task = await (await on(other, session).post(request(3, "tasks/get", {"taskId": id}))).result()
    assert task["result"]["status"] == "failed"


# Request states


async def test_a_question_of_a_stateless_call_is_answered_once_on_all_replicas(replicas):
    one, other = replicas
    first = (await ask(one, "tools/call", name="greet", arguments={}))["result"]
    ((key, question),) = first["inputRequests"].items()
    (name,) = question["params"]["requestedSchema"]["properties"]
    again = {
        "name": "greet",
        "arguments": {},
        "requestState": first["requestState"],
        "inputResponses": {key: {"action": "accept", "content": {name: "Ann"}}},
    }
    assert text_of(await ask(other, "tools/call", **again)) == "Hello Ann"
    for replica in replicas:
        refused = await ask(replica, "tools/call", **again)
        assert "used already" in refused["error"]["message"]


async def test_a_replica_that_stops_tells_clients_when_to_reconnect(replicas):
    one, other = replicas
    session = await begin(one)
    await session.subscribe("memo://1")
    standing = await session.get()
    opened = await standing.event()
    one.endpoint.end_streams()
    events = await standing.events()
    assert [(event.retry, event.data) for event in events] == [("200", None)]
    other.app.resources.changed("memo://1")
    moved = await on(other, session).get(opened.id)
    assert (await moved.message())["params"] == {"uri": "memo://1"}


# Failures of the store


class BrokenStore:
    """Part of a store whose operations fail."""

    def __getattr__(self, name):
        async def fail(*_):
            raise ConnectionError("the store does not answer")

        return fail


async def test_a_failure_of_the_store_is_an_error_in_json_and_logged_once(replicas, caplog):
    one, other = replicas
    session = await begin(one)
    for replica in replicas:
        replica.app.endpoint.replica.state.sessions.touch = BrokenStore().touch
        replica.app.endpoint.replica.state.sessions.create = BrokenStore().create
    for attempt in (
        session.post(request(1, "resources/read", {"uri": "memo://1"})),
        on(other, session).post(request(2, "ping")),
        session.delete(),
        other.site.post(initialize("2025-11-25")),
    ):
        caplog.clear()
        reply = await attempt
        assert reply.status == 503
        assert "retry-after" in reply.headers
        assert (await reply.json())["error"]["code"] == -32603
        logged = [record.levelname for record in caplog.records if record.levelno > logging.INFO]
        assert logged == ["ERROR"]


async def test_an_answer_that_cannot_be_passed_on_is_refused_and_may_be_sent_again(replicas, monkeypatch):
    one, other = replicas
    session = await begin(one, {"elicitation": {"form": {}}})
    reply = await session.call("greet")
    question = await reply.message()
    (name,) = question["params"]["requestedSchema"]["properties"]
    answer = {
        "jsonrpc": "2.0",
        "id": question["id"],
        "result": {"action": "accept", "content": {name: "Ann"}},
    }
    with monkeypatch.context() as patched:
        patched.setattr(other.app.endpoint.replica.state.mailbox, "put", BrokenStore().put)
        refused = await on(other, session).post(answer)
        assert refused.status == 503
        assert "retry-after" in refused.headers
    assert (await on(other, session).post(answer)).status == 202
    assert text_of(await reply.message()) == "Hello Ann"


async def test_a_call_is_answered_after_the_changes_that_it_has_made_are_stored():
    replica = Replica(EncodedState(MemoryTables()))

    @replica.app.tool
    async def change() -> str:
        await asyncio.sleep(0)
        replica.app.resources.changed("memo://1")
        return "changed"

    bus, stored = replica.app.endpoint.replica.state.bus, asyncio.Event()
    publish = bus.publish

    async def publish_later(notice):
        await stored.wait()
        await publish(notice)

    bus.publish = publish_later
    endpoint = replica.app.asgi()
    await endpoint.start()
    async with asyncio.timeout(TIMEOUT), serving(endpoint) as site:
        calling = asyncio.ensure_future(site.call("change"))
        while not replica.app.endpoint.replica._writes and replica.app.endpoint.replica._writing is None:
            await asyncio.sleep(0)
        done, _ = await asyncio.wait((calling,), timeout=0.1)
        assert not done, "the replica may be killed now"
        stored.set()
        assert text_of(await (await calling).result()) == "changed"


async def test_a_stream_whose_replay_cannot_be_read_is_refused_and_can_be_resumed_later(replicas, monkeypatch):
    one, other = replicas
    session = await begin(one)
    await session.subscribe("memo://1")
    call = await session.call("steps", n=2)
    begun = await call.event()
    await one.begun.wait()
    standing = await session.get()
    listening = await standing.event()
    for stream in (call, standing):
        stream.client.close()
    one.app.resources.changed("memo://1")
    for replica in replicas:
        state = replica.app.endpoint.replica.state
        with monkeypatch.context() as broken:
            broken.setattr(state.events, "read", BrokenStore().read)
            broken.setattr(state.bus, "position", BrokenStore().position)
            for last in (begun.id, listening.id):
                refused = await on(replica, session).get(last)
                assert refused.status == 503
                assert "retry-after" in refused.headers
                assert "not available" in (await refused.json())["error"]["message"]
    live = {replica: replica.app.endpoint.runtime.hub.sessions for replica in replicas}
    for entries in live.values():
        for entry in entries.values():
            assert not entry.channel.listening, "no stream is left that gets what the client cannot"
            assert not entry.channel._resumed
    resumed = await on(other, session).get(listening.id)
    assert (await resumed.message())["params"] == {"uri": "memo://1"}
    again = await on(other, session).get(begun.id)
    assert [(await again.message())["params"]["progress"] for _ in range(2)] == [1, 2]
    one.go.set()
    assert (await again.message())["params"]["progress"] == 3
    assert text_of(await again.message()) == "done"


async def test_a_stream_that_cannot_be_followed_is_refused(replicas, monkeypatch):
    one, other = replicas
    session = await begin(one)
    call = await session.call("steps", n=1)
    begun = await call.event()
    await one.begun.wait()
    call.client.close()
    there = on(other, session)
    with monkeypatch.context() as broken:
        broken.setattr(other.app.endpoint.replica.state.mailbox, "put", BrokenStore().put)
        assert (await there.get(begun.id)).status == 503
    (entry,) = other.app.endpoint.runtime.hub.sessions.values()
    assert not entry.channel._resumed
    resumed = await there.get(begun.id)
    assert (await resumed.message())["params"]["progress"] == 1
    with monkeypatch.context() as broken:
        broken.setattr(other.app.endpoint.replica.state.events, "read", BrokenStore().read)
        one.go.set()
        assert await resumed.messages() == [], "its connection is closed, so that the client resumes it again"
    assert text_of((await (await there.get(begun.id)).messages())[-1]) == "done"


# Limits


@pytest.mark.parametrize("limits", [{"max_sessions_per_client": 3}])
async def test_sessions_of_a_client_are_limited_over_all_replicas(replicas):
    one, other = replicas
    sessions = [await begin(one), await begin(other), await begin(one)]
    for replica in replicas:
        refused = await replica.site.post(initialize())
        assert refused.status == 429
        assert 0 < int(refused.headers["retry-after"]) <= 20
    for session in sessions:
        for replica in replicas:
            assert (await on(replica, session).post(request(1, "ping"))).status == 200


@pytest.mark.parametrize("limits", [{"max_sessions": 2}])
async def test_a_session_that_makes_room_on_one_replica_goes_on_with_its_next_request(replicas):
    one, _ = replicas
    sessions = [await begin(one) for _ in range(4)]
    for _ in range(2):
        for session in sessions:
            assert (await session.post(request(1, "ping"))).status == 200


# Gaps


async def test_a_replica_that_missed_notices_tells_its_listeners_that_all_may_have_changed():
    here = Replica(MemoryState(MemoryTables(notices=4)))
    async with AsyncExitStack() as stack:
        endpoint = here.app.asgi()
        await endpoint.start()
        here.site = await stack.enter_async_context(serving(endpoint))
        session = await begin(here)
        await session.subscribe("memo://1")
        stream = await session.get()
        assert (await stream.event()).data == ""
        for _ in range(10):  # in one turn, so that none is read before it is dropped
            here.app.resources.changed("memo://1")
            here.app.tools.add(lambda: "", name="new", replace=True)
        assert sorted([(await stream.message())["method"] for _ in range(3)]) == ALL_OF_IT
