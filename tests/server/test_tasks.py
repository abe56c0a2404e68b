"""Tasks: those that clients of 2025-11-25 ask for, and those of the extension for stateless clients."""

import asyncio
import re
from typing import Any

import msgspec
import pytest

from carrel import Context, Server
from carrel.errors import InvalidParams
from carrel.protocol.extensions.tasks import TASKS
from carrel.transports import memory
from carrel.transports.memory import MemoryPeer

NOVEMBER = "2025-11-25"
RELATED = "io.modelcontextprotocol/related-task"
CAPABLE = {"extensions": {TASKS.name: {}}, "elicitation": {}}


def server() -> Server:
    app = Server("tasks")
    gates: dict[str, asyncio.Event] = {}
    app.state = gates

    @app.tool(task="optional")
    async def work(context: Context, gate: str = "") -> str:
        await context.report_progress(1, 2, "half way")
        if gate:
            try:
                await gates.setdefault(gate, asyncio.Event()).wait()
            except asyncio.CancelledError:
                gates.setdefault(gate + " cancelled", asyncio.Event()).set()
                raise
        return "done"

    @app.tool(task="optional")
    def in_a_thread() -> str:
        return "from a thread"

    @app.tool(task="optional")
    async def confirm(context: Context) -> str:
        answer = await context.elicit("Sure?", bool)
        return f"{answer.action} {answer.data}"

    @app.tool(task="required")
    async def must(fail: str = "") -> str:
        if fail == "tool":
            raise ValueError("boom")
        if fail == "protocol":
            raise InvalidParams("Invalid params: no", {"why": "so"})
        return "done"

    @app.tool(task="optional", detaches=True)
    async def later(context: Context) -> str:
        first = await context.elicit("Name?", str)
        await context.detach()
        second = await context.elicit("Again?", str)
        return f"{first.data} {second.data}"

    @app.tool()
    async def plain() -> str:
        return "plain"

    return app


async def settle(peer: MemoryPeer, id: str, *statuses: str) -> dict[str, Any]:
    """Wait until a task has one of these states, and return it."""
    async with asyncio.timeout(60):
        while True:
            task: dict[str, Any] = (await peer.request("tasks/get", {"taskId": id}))["result"]
            if task["status"] in statuses:
                return task
            await asyncio.sleep(0)


async def begin(peer: MemoryPeer, name: str, **arguments: Any) -> str:
    """Call a tool that becomes a task, and return the task's id."""
    params: dict[str, Any] = {"name": name, "arguments": arguments}
    if peer.revision == NOVEMBER:
        result = (await peer.request("tools/call", {**params, "task": {"ttl": 60_000}}))["result"]
        task = result["task"]
    else:
        task = (await peer.request("tools/call", params))["result"]
        assert task["resultType"] == "task"
    await asyncio.sleep(0)  # the work begins once the task is announced
    assert task["status"] == "working"
    id: str = task["taskId"]
    return id


# The extension


async def test_a_task_tells_its_state_and_in_the_end_its_result() -> None:
    app = server()
    async with memory.connect(app, **CAPABLE) as peer:
        id = await begin(peer, "work", gate="a")
        working = await settle(peer, id, "working")
        assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", working["createdAt"])
        assert working["ttlMs"] > 0
        assert working["pollIntervalMs"] > 0
        assert len(id) >= 32
        app.state["a"].set()
        done = await settle(peer, id, "completed")
        assert done["result"]["content"] == [{"type": "text", "text": "done"}]
        assert done["resultType"] == "complete"


async def test_a_listener_hears_of_every_state_and_of_no_other_task() -> None:
    app = server()
    async with memory.connect(app, **CAPABLE) as peer:
        id = await begin(peer, "confirm")
        peer.start("subscriptions/listen", {"notifications": {"taskIds": [id, "unknown"]}}, id="listen")
        acknowledged = await peer.notification()
        assert acknowledged["params"]["notifications"] == {"taskIds": [id]}
        await settle(peer, id, "input_required")
        await begin(peer, "work")
        await peer.request("tasks/update", {"taskId": id, "inputResponses": {"elicit-1": {"action": "decline"}}})
        seen = []
        while not seen or seen[-1]["status"] != "completed":
            note = await peer.notification()
            assert note["method"] == "notifications/tasks"
            assert note["params"]["_meta"] == {"io.modelcontextprotocol/subscriptionId": "listen"}
            assert note["params"]["taskId"] == id
            seen.append(note["params"])
        assert seen[-1]["result"]["content"][0]["text"] == "decline None"


async def test_questions_of_a_task_wait_for_tasks_update_and_only_what_was_asked_is_taken() -> None:
    app = server()
    async with memory.connect(app, **CAPABLE) as peer:
        id = await begin(peer, "confirm")
        asked = await settle(peer, id, "input_required")
        assert list(asked["inputRequests"]) == ["elicit-1"]
        assert asked["inputRequests"]["elicit-1"]["method"] == "elicitation/create"
        answers = {"nobody-asked": {"action": "accept"}}
        assert "result" in await peer.request("tasks/update", {"taskId": id, "inputResponses": answers})
        wrong = {"elicit-1": {"action": "accept", "content": {"value": "perhaps"}}}
        refused = await peer.request("tasks/update", {"taskId": id, "inputResponses": wrong})
        assert refused["error"]["code"] == -32602
        right = {"elicit-1": {"action": "accept", "content": {"value": True}}}
        await peer.request("tasks/update", {"taskId": id, "inputResponses": right})
        done = await settle(peer, id, "completed")
        assert done["result"]["content"][0]["text"] == "accept True"


async def test_the_result_of_a_task_is_what_the_call_would_have_been_answered_with() -> None:
    app = server()
    async with memory.connect(app, **CAPABLE) as peer:
        id = await begin(peer, "work", gate="d")
        peer.start("subscriptions/listen", {"notifications": {"taskIds": [id]}}, id="listen")
        await peer.notification()
        app.state.setdefault("d", asyncio.Event()).set()
        notified = (await peer.notification())["params"]
        while notified["status"] == "working":  # what it says of its progress
            notified = (await peer.notification())["params"]
        done = await settle(peer, id, "completed")
    async with memory.connect(app) as peer:
        answered = (await peer.request("tools/call", {"name": "work"}))["result"]
    assert answered["resultType"] == "complete"
    assert done["result"] == notified["result"] == answered


@pytest.mark.parametrize("key", [None, "question"])
async def test_a_key_names_one_question_for_the_life_of_a_task(key: str | None) -> None:
    app = Server("insistent")

    @app.tool(task="required")
    async def insist(context: Context) -> str:
        said = [(await context.elicit(f"{number}?", str, key=key)).action for number in range(3)]
        return " ".join([*said, (await context.elicit("Last?", str, key="elicit-1")).action])

    async with memory.connect(app, **CAPABLE) as peer, asyncio.timeout(60):  # a key used again is never answered
        id = await begin(peer, "insist")
        keys: list[str] = []
        while (task := await settle(peer, id, "input_required", "completed"))["status"] != "completed":
            await asyncio.sleep(0)  # requests in memory may be answered without a turn of the event loop
            for asked in [key for key in task["inputRequests"] if key not in keys]:
                keys.append(asked)
                await peer.request("tasks/update", {"taskId": id, "inputResponses": {asked: {"action": "decline"}}})
        assert len(keys) == 4
        assert task["result"]["content"][0]["text"] == "decline decline decline decline"


async def test_a_malformed_answer_of_a_model_is_an_error_of_the_task_and_not_asked_for_again() -> None:
    app = Server("curious")

    @app.tool(task="required")
    async def ask(context: Context) -> str:
        sure, said = await asyncio.gather(context.elicit("Sure?", bool), context.sample("?", 5))
        return f"{sure.action} {said.text}"

    async with memory.connect(app, **CAPABLE, sampling={}) as peer:
        id = await begin(peer, "ask")
        while len((await settle(peer, id, "input_required"))["inputRequests"]) < 2:
            pass
        answers = {"sample-1": {"role": "assistant"}, "elicit-1": {"action": "decline"}}
        refused = await peer.request("tasks/update", {"taskId": id, "inputResponses": answers})
        assert (refused["error"]["code"], "sample-1" in refused["error"]["message"]) == (-32602, True)
        failed = await settle(peer, id, "failed")
        assert "inputResponses.sample-1" in failed["error"]["message"]


async def test_a_question_of_a_task_fails_after_three_answers_that_do_not_fit() -> None:
    app = server()
    async with memory.connect(app, **CAPABLE) as peer:
        id = await begin(peer, "confirm")
        (key,) = (await settle(peer, id, "input_required"))["inputRequests"]
        answers = {key: {"action": "accept", "content": {"value": []}}}
        for _ in range(3):
            assert (await settle(peer, id, "input_required"))["inputRequests"].keys() == {key}
            refused = await peer.request("tasks/update", {"taskId": id, "inputResponses": answers})
            assert refused["error"]["code"] == -32602
        assert f"inputResponses.{key}" in (await settle(peer, id, "failed"))["error"]["message"]


async def test_a_tool_may_ask_before_it_becomes_a_task() -> None:
    app = server()
    async with memory.connect(app, **CAPABLE) as peer:
        first = (await peer.request("tools/call", {"name": "later"}))["result"]
        assert first["resultType"] == "input_required"
        answers = {"elicit-1": {"action": "accept", "content": {"value": "Ann"}}}
        task = (await peer.request("tools/call", {"name": "later", "inputResponses": answers}))["result"]
        assert task["resultType"] == "task"
        asked = await settle(peer, task["taskId"], "input_required")
        (key,) = asked["inputRequests"]
        assert key != "elicit-1"
        again = {key: {"action": "accept", "content": {"value": "Lee"}}}
        await peer.request("tasks/update", {"taskId": task["taskId"], "inputResponses": again})
        done = await settle(peer, task["taskId"], "completed")
        assert done["result"]["content"][0]["text"] == "Ann Lee"


async def test_cancelling_really_stops_the_work() -> None:
    app = server()
    async with memory.connect(app, **CAPABLE) as peer:
        id = await begin(peer, "work", gate="b")
        await settle(peer, id, "working")
        assert "result" in await peer.request("tasks/cancel", {"taskId": id})
        assert (await settle(peer, id, "cancelled"))["status"] == "cancelled"
        await asyncio.wait_for(app.state.setdefault("b cancelled", asyncio.Event()).wait(), 60)
        assert "result" in await peer.request("tasks/cancel", {"taskId": id})


async def test_a_failed_tool_completes_and_a_protocol_error_fails() -> None:
    async with memory.connect(server(), **CAPABLE) as peer:
        done = await settle(peer, await begin(peer, "must", fail="tool"), "completed")
        assert done["result"]["isError"] is True
        assert done["result"]["content"][0]["text"].startswith("boom (reference ")
        failed = await settle(peer, await begin(peer, "must", fail="protocol"), "failed")
        assert failed["error"] == {"code": -32602, "message": "Invalid params: no", "data": {"why": "so"}}


@pytest.mark.parametrize("method", ["tasks/get", "tasks/update", "tasks/cancel"])
async def test_without_the_extension_there_are_no_tasks(method: str) -> None:
    async with memory.connect(server()) as peer:
        usual = await peer.request("tools/call", {"name": "work"})
        assert usual["result"]["resultType"] == "complete"
        missing = {"requiredCapabilities": {"extensions": {TASKS.name: {}}}}
        refused = await peer.request("tools/call", {"name": "must"})
        assert (refused["error"]["code"], refused["error"]["data"]) == (-32021, missing)
        refused = await peer.request(method, {"taskId": "x", "inputResponses": {}})
        assert (refused["error"]["code"], refused["error"]["data"]) == (-32021, missing)
        refused = await peer.request("subscriptions/listen", {"notifications": {"taskIds": ["x"]}})
        assert refused["error"]["code"] == -32021


async def test_a_task_that_is_not_there_is_an_invalid_parameter() -> None:
    async with memory.connect(server(), **CAPABLE) as peer:
        for method in ("tasks/get", "tasks/update", "tasks/cancel"):
            refused = await peer.request(method, {"taskId": "nope", "inputResponses": {}})
            assert refused["error"]["code"] == -32602


async def test_a_task_outlives_the_connection_that_began_it() -> None:
    app = server()
    async with memory.connect(app, **CAPABLE) as peer:
        id = await begin(peer, "work", gate="c")
        other = MemoryPeer(app, peer.revision)
        other.capabilities = CAPABLE
        await peer.dispatcher.close()
        app.state["c"].set()
        assert (await settle(other, id, "completed"))["result"]["content"][0]["text"] == "done"
        await other.dispatcher.close()


# 2025-11-25


async def test_a_client_of_2025_asks_for_a_task_and_fetches_its_result() -> None:
    app = server()
    async with memory.connect(app, NOVEMBER) as peer:
        id = await begin(peer, "work", gate="d")
        fetching = peer.start("tasks/result", {"taskId": id})
        assert (await settle(peer, id, "working"))["ttl"] == 60_000
        assert not fetching.done()
        app.state["d"].set()
        result = (await fetching)["result"]
        assert result == {
            "_meta": {RELATED: {"taskId": id}},
            "content": [{"type": "text", "text": "done"}],
            "structuredContent": {"result": "done"},
        }
        again = (await peer.request("tasks/result", {"taskId": id}))["result"]
        assert again == result
        listed = (await peer.request("tasks/list"))["result"]["tasks"]
        assert [(task["taskId"], task["status"]) for task in listed] == [(id, "completed")]


async def test_progress_and_questions_of_a_task_say_which_task_they_belong_to() -> None:
    async with memory.connect(server(), NOVEMBER, elicitation={}) as peer:
        params = {"name": "work", "task": {}, "_meta": {"progressToken": "p"}}
        id = (await peer.request("tools/call", params))["result"]["task"]["taskId"]
        progress = await peer.notification()
        assert progress["method"] == "notifications/progress"
        assert progress["params"]["_meta"] == {RELATED: {"taskId": id}}
        assert (await peer.notification())["params"]["status"] == "completed"
        id = await begin(peer, "confirm")
        assert (await peer.notification())["params"]["status"] == "input_required"
        question = await peer.notification()
        assert question["params"]["_meta"] == {RELATED: {"taskId": id}}
        answer = {"jsonrpc": "2.0", "id": question["id"], "result": {"action": "accept", "content": {"value": False}}}
        peer.feed(msgspec.json.encode(answer))
        result = (await peer.request("tasks/result", {"taskId": id}))["result"]
        assert result["content"][0]["text"] == "accept False"


async def test_a_tool_says_whether_it_can_be_a_task_and_is_held_to_it() -> None:
    async with memory.connect(server(), NOVEMBER) as peer:
        tools = (await peer.request("tools/list"))["result"]["tools"]
        support = {tool["name"]: tool.get("execution", {}).get("taskSupport") for tool in tools}
        assert support["work"] == "optional"
        assert support["must"] == "required"
        assert support["plain"] is None
        refused = await peer.request("tools/call", {"name": "plain", "task": {}})
        assert refused["error"]["code"] == -32601
        refused = await peer.request("tools/call", {"name": "must"})
        assert refused["error"]["code"] == -32601


async def test_a_finished_task_cannot_be_cancelled_and_a_cancelled_one_stays_so() -> None:
    app = server()
    async with memory.connect(app, NOVEMBER) as peer:
        id = await begin(peer, "work", gate="e")
        cancelled = (await peer.request("tasks/cancel", {"taskId": id}))["result"]
        assert cancelled["status"] == "cancelled"
        refused = await peer.request("tasks/cancel", {"taskId": id})
        assert refused["error"]["code"] == -32602
        assert (await settle(peer, id, "cancelled"))["status"] == "cancelled"


async def test_a_tool_error_is_a_failed_task_with_a_result_and_a_protocol_error_is_one_with_an_error() -> None:
    async with memory.connect(server(), NOVEMBER) as peer:
        id = await begin(peer, "must", fail="tool")
        failed_task = await settle(peer, id, "failed")
        failure = (await peer.request("tasks/result", {"taskId": id}))["result"]
        assert (failed_task["status"], failure["isError"]) == ("failed", True)
        assert failed_task["statusMessage"] == failure["content"][0]["text"] != ""
        id = await begin(peer, "must", fail="protocol")
        await settle(peer, id, "failed")
        failed = await peer.request("tasks/result", {"taskId": id})
        assert failed["error"] == {"code": -32602, "message": "Invalid params: no", "data": {"why": "so"}}


async def test_a_function_in_a_thread_can_be_a_task() -> None:
    async with memory.connect(server(), NOVEMBER) as peer:
        id = await begin(peer, "in_a_thread")
        result = (await peer.request("tasks/result", {"taskId": id}))["result"]
        assert result["content"][0]["text"] == "from a thread"


async def test_a_task_is_forgotten_when_its_time_is_over() -> None:
    async with memory.connect(server(), NOVEMBER) as peer:
        params = {"name": "work", "arguments": {"gate": "f"}, "task": {"ttl": 1}}
        id = (await peer.request("tools/call", params))["result"]["task"]["taskId"]
        async with asyncio.timeout(60):
            while "result" in await peer.request("tasks/get", {"taskId": id}):
                await asyncio.sleep(0.001)
        refused = await peer.request("tools/call", {**params, "task": {"ttl": -1}})
        assert refused["error"]["code"] == -32602


@pytest.mark.parametrize("revision", ["2024-11-05", "2025-03-26", "2025-06-18"])
async def test_older_clients_call_the_same_tools_as_usual(revision: str) -> None:
    async with memory.connect(server(), revision) as peer:
        usual = await peer.request("tools/call", {"name": "must", "task": {}})
        assert usual["result"]["content"] == [{"type": "text", "text": "done"}]
        assert (await peer.request("tasks/get", {"taskId": "x"}))["error"]["code"] == -32601


async def test_a_server_without_such_tools_has_no_tasks_at_all() -> None:
    app = Server("none")

    @app.tool()
    async def plain() -> str:
        return "plain"

    for revision in (NOVEMBER, "2026-07-28"):
        async with memory.connect(app, revision, **CAPABLE) as peer:
            assert (await peer.request("tasks/get", {"taskId": "x"}))["error"]["code"] == -32601
            usual = await peer.request("tools/call", {"name": "plain", "task": {}})
            assert usual["result"]["content"][0]["text"] == "plain"
    assert app.capabilities().tasks is None
