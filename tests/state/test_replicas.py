"""Two replicas of a server, each on a port of its own, and a client whose requests reach either of them."""

from __future__ import annotations

import asyncio
import logging
from contextlib import AsyncExitStack

import pytest
import pytest_asyncio

from carrel import Context, Limits, Server
from carrel.state.memory import MemoryState, MemoryStore
from support.raw_http import Session, serving
from support.stdio_process import initialize, note, request, text_of

from .encoded import EncodedState

pytestmark = [pytest.mark.asyncio, pytest.mark.timeout(20)]

TIMEOUT = 20.0
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
    shared = MemoryStore()
    return lambda: request.param(shared)


@pytest.fixture
def limits():
    return {}


@pytest_asyncio.fixture
async def replicas(store, limits):
    async with asyncio.timeout(TIMEOUT), AsyncExitStack() as stack:
        pair = [Replica(store(), **limits), Replica(store(), **limits)]
        for replica in pair:
            endpoint = replica.app.asgi()
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
    assert events[-1].id == f"{one.app.replica.state.slot}.{events[-1].id.partition('.')[2]}"
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
        assert question["id"] >> 32 == holder.app.replica.state.slot
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


async def test_a_listening_client_that_moves_to_the_other_replica_is_told_that_all_may_have_changed(replicas):
    one, other = replicas
    session = await begin(one)
    await session.subscribe("memo://1")
    stream = await session.get()
    first = await stream.event()
    one.app.resources.changed("memo://1")
    assert (await stream.message())["params"] == {"uri": "memo://1"}
    moved = await on(other, session).get(first.id)
    assert await stream.message() is None, "the stream before is closed"
    methods = [(await moved.message())["method"] for _ in range(4)]
    assert methods[0] == "notifications/resources/updated", "the replay"
    assert sorted(methods[1:]) == [
        "notifications/resources/list_changed",
        "notifications/resources/updated",
        "notifications/tools/list_changed",
    ]


async def test_a_stateless_request_touches_no_store(replicas, monkeypatch):
    one, _ = replicas
    for part in ("sessions", "events", "bus", "mailbox", "tasks", "used", "quotas"):
        monkeypatch.setattr(one.app.replica.state, part, None)
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
    one.app.replica.state._store.boxes.pop(one.app.replica.state.slot)  # as if its process had been killed
    reply = await (await on(other, session).post(request(2, "tasks/result", {"taskId": id}))).result()
    assert "has stopped" in reply["error"]["message"]
    task = await (await on(other, session).post(request(3, "tasks/get", {"taskId": id}))).result()
    assert task["result"]["status"] == "failed"


# Request states


async def test_a_question_of_a_stateless_call_is_answered_once_wherever(replicas):
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
        replica.app.replica.state.sessions.touch = BrokenStore().touch
        replica.app.replica.state.sessions.create = BrokenStore().create
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
    here = Replica(MemoryState(MemoryStore(notices=4)))
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
        heard = {(await stream.message())["method"] for _ in range(3)}
        assert heard == {
            "notifications/resources/list_changed",
            "notifications/resources/updated",
            "notifications/tools/list_changed",
        }
