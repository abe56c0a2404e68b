"""Asking over HTTP: a question travels on the stream of the call that needs its answer, and the answer in a POST.

https://modelcontextprotocol.io/specification/2025-11-25/basic/transports#sending-messages-to-the-server
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from carrel import Context, Server
from support.answering_client import CAPABLE, ELICIT, SAMPLE, accepted, said
from support.memory_client import HANDSHAKES, LATEST, MARCH, NOVEMBER, OLDEST
from support.raw_http import Reply, Session, Site, modern_headers, serving
from support.stdio_process import cancelled, initialize, note, request, text_of

pytestmark = pytest.mark.slow


CANCELLED = "notifications/cancelled"


class Quiz:
    """A server that asks, and notes how that ended."""

    def __init__(self, **options: Any) -> None:
        self.app = Server("quiz", **options)
        self.ends: asyncio.Queue[Any] = asyncio.Queue()

        @self.app.tool()
        async def capital(context: Context, country: str = "France") -> str:
            await context.report_progress(1)
            try:
                found = (await context.sample(f"The capital of {country}?", 5)).text
            except BaseException as error:
                self.ends.put_nowait(type(error))
                raise
            return found

        @self.app.tool()
        async def name(context: Context) -> str:
            return str((await context.elicit("Name?")).data)


@asynccontextmanager
async def serving_quiz(quiz: Quiz | None = None, **options: Any) -> AsyncIterator[Site]:
    async with serving((quiz or Quiz()).app.asgi(**options)) as site:
        yield site


async def open_session(site: Site, revision: str = NOVEMBER, **capabilities: Any) -> Session:
    message = initialize(revision)
    message["params"]["capabilities"] = capabilities or CAPABLE
    reply = await site.post(message)
    assert reply.status == 200
    await reply.body()
    session = Session(site, reply.headers["mcp-session-id"], revision)
    assert (await session.post(note("notifications/initialized"))).status == 202
    return session


async def question_of(reply: Reply) -> dict[str, Any]:
    """Return the next question on a stream."""
    while "id" not in (message := await reply.message()):
        pass
    question: dict[str, Any] = message
    return question


async def answer(session: Session, id: Any, result: Any) -> Reply:
    return await session.post({"jsonrpc": "2.0", "id": id, "result": result})


@pytest.mark.parametrize("revision", HANDSHAKES)
async def test_question_and_result_are_on_the_stream_of_the_call(revision: str) -> None:
    async with serving_quiz() as site:
        session = await open_session(site, revision)
        standing = await session.get()
        call = await session.call("capital", id="mine")
        assert call.headers["content-type"] == "text/event-stream"
        question = await question_of(call)
        assert question["method"] == SAMPLE
        taken = await answer(session, question["id"], said("Paris"))
        assert (taken.status, await taken.body()) == (202, b"")
        assert text_of(await call.message()) == "Paris"
        assert await call.message() is None
        assert (await session.delete()).status == 204
        assert await standing.messages() == []


async def test_questions_of_two_calls_are_on_two_streams() -> None:
    async with serving_quiz() as site:
        session = await open_session(site)
        calls = {country: await session.call("capital", id=country, country=country) for country in ("France", "Peru")}
        questions = {country: await question_of(call) for country, call in calls.items()}
        for country, question in questions.items():
            assert country in question["params"]["messages"][0]["content"]["text"]
        for country in ("Peru", "France"):
            await answer(session, questions[country]["id"], said(f"The one of {country}"))
        for country, call in calls.items():
            reply = await call.message()
            assert (reply["id"], text_of(reply)) == (country, f"The one of {country}")


@pytest.mark.parametrize("revision", HANDSHAKES)
async def test_a_client_that_accepts_no_events_cannot_be_asked(revision: str) -> None:
    async with serving_quiz() as site:
        session = await open_session(site, revision)
        reply = await session.call("capital", headers={"Accept": "application/json"})
        assert (reply.status, reply.headers["content-type"]) == (400, "application/json")
        assert "text/event-stream" in (await reply.json())["error"]["message"]
        assert (await session.post(request(2, "ping"))).status == 200


async def test_a_client_that_accepts_only_events_can_be_asked() -> None:
    async with serving_quiz() as site:
        session = await open_session(site)
        call = await session.call("capital", headers={"Accept": "text/event-stream"})
        await answer(session, (await question_of(call))["id"], said("Paris"))
        assert text_of(await call.message()) == "Paris"


async def test_an_answer_counts_in_its_own_session_only() -> None:
    quiz = Quiz()
    async with serving_quiz(quiz) as site:
        mine, other = await open_session(site), await open_session(site)
        call = await mine.call("capital")
        question = await question_of(call)
        response = {"jsonrpc": "2.0", "id": question["id"], "result": said("London")}
        assert (await other.post(response)).status == 202
        assert (await site.post(response)).status == 400
        assert (await site.post(response, {"Mcp-Session-Id": "nonesuch"})).status == 404
        assert (await site.post(response, {"MCP-Protocol-Version": LATEST})).status == 202
        assert quiz.ends.empty()
        await answer(mine, question["id"], said("Paris"))
        assert text_of(await call.message()) == "Paris"


async def test_answers_reach_who_asked_although_100_clients_use_the_same_ids() -> None:
    async with serving_quiz() as site:
        sessions = [await open_session(site) for _ in range(100)]
        calls = [await session.call("capital", country=str(number)) for number, session in enumerate(sessions)]
        questions = [await question_of(call) for call in calls]
        assert {question["id"] for question in questions} == {1}
        for number, session in reversed(list(enumerate(sessions))):
            assert (await answer(session, 1, said(f"city {number}"))).status == 202
        assert [text_of(await call.message()) for call in calls] == [f"city {number}" for number in range(100)]


async def test_a_client_that_lost_its_connection_answers_and_comes_back_for_the_result() -> None:
    async with serving_quiz() as site:
        session = await open_session(site)
        call = await session.call("capital")
        events = [await call.event(), await call.event(), await call.event()]
        assert events[-1].message["method"] == SAMPLE
        call.client.close()
        await answer(session, events[-1].message["id"], said("Paris"))
        resumed = await session.get(events[-1].id)
        assert text_of(await resumed.message()) == "Paris"


async def test_a_question_that_got_lost_is_there_again() -> None:
    async with serving_quiz() as site:
        session = await open_session(site)
        call = await session.call("capital")
        events = [await call.event(), await call.event()]  # the priming event and the progress
        call.client.close()
        resumed = await session.get(events[-1].id)
        question = await question_of(resumed)
        await answer(session, question["id"], said("Paris"))
        assert text_of(await resumed.message()) == "Paris"


async def test_a_client_that_cannot_come_back_ends_the_wait_when_it_goes_away() -> None:
    quiz = Quiz()
    async with serving_quiz(quiz) as site:
        session = await open_session(site, OLDEST)
        call = await session.call("capital")
        await question_of(call)
        call.client.close()
        assert await quiz.ends.get() is asyncio.CancelledError


async def test_the_end_of_a_session_ends_the_wait() -> None:
    quiz = Quiz()
    async with serving_quiz(quiz) as site:
        session = await open_session(site)
        call = await session.call("capital")
        await question_of(call)
        assert (await session.delete()).status == 204
        await asyncio.wait_for(quiz.ends.get(), 60)
        await call.messages()


async def test_a_call_that_is_cancelled_takes_its_question_back_on_its_stream() -> None:
    quiz = Quiz()
    async with serving_quiz(quiz) as site:
        session = await open_session(site)
        call = await session.call("capital", id="mine")
        question = await question_of(call)
        assert (await session.post(cancelled("mine"))).status == 202
        told = await call.message()
        assert (told["method"], told["params"]["requestId"]) == (CANCELLED, question["id"])
        assert await call.message() is None
        assert (await answer(session, question["id"], said("late"))).status == 202


async def test_a_client_that_never_answers_does_not_keep_its_session_busy() -> None:
    async with serving_quiz(Quiz(state_ttl=0.05)) as site:
        session = await open_session(site)
        call = await session.call("capital")
        question = await question_of(call)
        told = await call.message()
        assert (told["method"], told["params"]["requestId"]) == (CANCELLED, question["id"])
        result = (await call.message())["result"]
        assert result["isError"]
        assert "did not answer" in result["content"][0]["text"]


async def test_a_call_in_a_batch_may_ask_on_the_stream_of_the_batch() -> None:
    async with serving_quiz() as site:
        session = await open_session(site, MARCH)
        batch = await session.post([request(1, "tools/call", {"name": "capital"}), request(2, "ping")])
        question = await question_of(batch)
        response = {"jsonrpc": "2.0", "id": question["id"], "result": said("Paris")}
        taken = await session.post([response])
        assert taken.status == 202
        replies = {reply["id"]: reply for reply in await batch.message()}
        assert text_of(replies[1]) == "Paris"


# Tasks


async def start_task(session: Session) -> str:
    params = {"name": "register", "arguments": {}, "task": {}}
    reply = await session.post(request("start", "tools/call", params))
    id: str = (await reply.result())["result"]["task"]["taskId"]
    return id


async def status_of(session: Session, task: str) -> str:
    status: str = (await (await session.post(request("poll", "tasks/get", {"taskId": task}))).result())["result"][
        "status"
    ]
    return status


def registering_quiz() -> Quiz:
    quiz = Quiz()

    @quiz.app.tool(task="required")
    async def register(context: Context) -> str:
        return str((await context.elicit("Name?")).data)

    return quiz


async def test_a_task_asks_on_the_stream_of_the_request_for_its_result() -> None:
    async with serving_quiz(registering_quiz()) as site:
        session = await open_session(site)
        task = await start_task(session)
        while await status_of(session, task) != "input_required":
            pass
        fetching = await session.post(request("fetch", "tasks/result", {"taskId": task}))
        question = await question_of(fetching)
        assert question["params"]["_meta"] == {"io.modelcontextprotocol/related-task": {"taskId": task}}
        await answer(session, question["id"], accepted(value="Ada"))
        reply = await fetching.message()
        assert (reply["id"], text_of(reply)) == ("fetch", "Ada")


async def test_a_task_does_not_ask_on_a_response_without_events() -> None:
    async with serving_quiz(registering_quiz()) as site:
        session = await open_session(site)
        task = await start_task(session)
        muted = asyncio.create_task(
            session.post(request("json", "tasks/result", {"taskId": task}), {"Accept": "application/json"})
        )
        while await status_of(session, task) != "input_required":
            pass
        fetching = await session.post(request("fetch", "tasks/result", {"taskId": task}))
        await answer(session, (await question_of(fetching))["id"], accepted(value="Ada"))
        assert text_of(await fetching.message()) == "Ada"
        assert text_of(await (await muted).json()) == "Ada"


async def test_a_task_asks_at_once_on_a_stream_that_is_open() -> None:
    async with serving_quiz(registering_quiz()) as site:
        session = await open_session(site)
        standing = await session.get()
        task = await start_task(session)
        question = await question_of(standing)
        fetching = asyncio.create_task(session.post(request("fetch", "tasks/result", {"taskId": task})))
        await answer(session, question["id"], accepted(value="Ada"))
        assert text_of(await (await fetching).result()) == "Ada"


# Without a session


async def ask(site: Site, tool: str, headers: Any = (), declared: Any = CAPABLE, **params: Any) -> Reply:
    meta = {
        "io.modelcontextprotocol/protocolVersion": LATEST,
        "io.modelcontextprotocol/clientCapabilities": declared,
    }
    body = {"name": tool, "arguments": {}, **params, "_meta": meta}
    return await site.post(request(1, "tools/call", body), {**modern_headers("tools/call", name=tool), **dict(headers)})


async def test_a_stateless_client_is_asked_in_the_result() -> None:
    async with serving_quiz() as site:
        for accept in ("application/json", "application/json, text/event-stream"):
            reply = await ask(site, "name", {"Accept": accept})
            asked = (await reply.json())["result"]
            assert (reply.status, asked["resultType"]) == (200, "input_required")
            given = {key: accepted(value="Ada") for key in asked["inputRequests"]}
            reply = await ask(site, "name", inputResponses=given, requestState=asked["requestState"])
            assert text_of(await reply.json()) == "Ada"


async def test_a_capability_that_a_stateless_client_did_not_declare_is_a_400() -> None:
    async with serving_quiz() as site:
        reply = await ask(site, "name", declared={"elicitation": {"url": {}}, "sampling": {}})
        assert reply.status == 400
        refused = (await reply.json())["error"]
        assert refused["code"] == -32021
        assert refused["data"] == {"requiredCapabilities": {"elicitation": {"form": {}}}}


async def test_a_capability_that_a_client_with_a_session_did_not_declare_is_said_in_the_result() -> None:
    async with serving_quiz() as site:
        session = await open_session(site, sampling={})
        reply = await session.call("name")
        assert reply.status == 200
        assert "elicitation" in text_of(await reply.json())


@pytest.mark.parametrize("state", ["", "AAAA", "tampered"])
async def test_a_state_that_is_not_ours_is_refused(state: str) -> None:
    async with serving_quiz() as site:
        reply = await ask(site, "name", requestState=state)
        assert (await reply.json())["error"]["code"] == -32602


async def test_form_questions_are_asked_over_http_too() -> None:
    async with serving_quiz() as site:
        session = await open_session(site)
        call = await session.call("name")
        question = await question_of(call)
        assert question["method"] == ELICIT
        await answer(session, question["id"], accepted(value="Ada"))
        assert text_of(await call.message()) == "Ada"
