"""Operations and questions: calls with progress and cancellation, forms, pages, sampling, completion, and events."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from io import BytesIO
from typing import Any, TypedDict

import pytest

from carrel import Context, Server
from carrel.studio.events import KEPT, PageEvents
from carrel.wire.client_features import blocks_of
from carrel.wire.content import TextContent
from chat.scripted_model import ScriptedModel
from support.studio_page import Page, app_server, opened


class Name(TypedDict):
    """Form."""

    name: str


pytestmark = pytest.mark.slow


@pytest.fixture
async def page() -> AsyncIterator[Page]:
    app = Server("tools")
    waits = asyncio.Event()

    @app.tool
    def add(a: int, b: int) -> int:
        return a + b

    @app.tool
    async def slow(context: Context) -> str:
        await context.report_progress(1, 3, "one of three")
        await waits.wait()
        return "done"

    @app.tool
    def end() -> str:
        waits.set()
        return "ended"

    @app.tool
    async def ask(context: Context) -> str:
        answer = await context.elicit("Your name?", Name)
        return f"{answer.action} {answer.data}"

    @app.tool
    async def visit(context: Context) -> str:
        answer = await context.elicit_url("Log in", "https://login.example/start?x=1")
        return str(answer.action)

    @app.tool
    async def think(context: Context) -> str:
        answer = await context.sample("What is tea?", max_tokens=10)
        return answer.text

    @app.prompt
    def greet(who: str) -> str:
        return f"Greet {who}"

    @app.resource("page://{title}")
    def book(title: str) -> str:
        return title

    @book.complete("title")
    def titles(value: str) -> list[str]:
        return [title for title in ("solaris", "eden") if title.startswith(value)]

    async with opened(app_server(app)) as page:
        await page.ready("tools")
        await page.listen()
        yield page


def call(name: str, **arguments: Any) -> dict[str, Any]:
    return {"kind": "call", "server": "tools", "name": name, "arguments": arguments}


async def test_a_fast_call_is_done_at_once(page: Page) -> None:
    status, view = await page.ask("POST", "/operations", call("add", a=1, b=2))
    assert (status, view["state"]) == (201, "done")
    assert view["result"]["structuredContent"] == {"result": 3}
    status, view = await page.ask("POST", "/operations", call("add", a="x"))
    assert (view["state"], view["result"]["isError"]) == ("done", True)
    prompt = {"kind": "get", "server": "tools", "name": "greet", "arguments": {"who": "Ada"}}
    view = await page.post("/operations", prompt)
    assert view["result"]["messages"][0]["content"]["text"] == "Greet Ada"
    view = await page.post("/operations", {"kind": "read", "server": "tools", "uri": "page://solaris"})
    assert view["result"]["contents"][0]["text"] == "solaris"
    status, problem = await page.ask("POST", "/operations", {"kind": "call", "server": "tools"})
    assert (status, problem["title"]) == (400, "Bad Request")


async def test_a_failed_call_has_a_problem(page: Page) -> None:
    status, view = await page.ask("POST", "/operations", call("none"))
    assert (status, view["state"]) == (201, "failed")
    assert view["error"]["detail"].startswith("Invalid params")


async def test_a_slow_call_reports_its_progress_and_result_on_the_stream(page: Page) -> None:
    status, view = await page.ask("POST", "/operations", call("slow"))
    assert (status, view["state"]) == (202, "running")
    id = view["id"]
    while (await page.get(f"/operations/{id}"))["progress"] is None:
        await asyncio.sleep(0.02)
    assert (await page.get(f"/operations/{id}"))["progress"] == {"progress": 1, "total": 3, "message": "one of three"}
    await page.post("/operations", call("end"))
    event = await page.event(lambda event: event["type"] == "operation" and event["operation"]["state"] == "done")
    assert event["operation"]["result"] is None  # it may be long: the page fetches it
    view = await page.get(f"/operations/{id}")
    assert (view["state"], view["result"]["content"][0]["text"]) == ("done", "done")


async def test_an_operation_is_cancelled(page: Page) -> None:
    _, view = await page.ask("POST", "/operations", call("slow"))
    assert (await page.ask("DELETE", f"/operations/{view['id']}"))[0] == 204
    event = await page.event(lambda event: event["type"] == "operation" and event["operation"]["state"] != "running")
    assert event["operation"]["state"] == "cancelled"


async def test_a_form_is_asked_checked_and_answered(page: Page) -> None:
    _, view = await page.ask("POST", "/operations", call("ask"))
    question = (await page.event(lambda event: event["type"] == "question"))["question"]
    assert (question["kind"], question["message"]) == ("form", "Your name?")
    assert question["server"] == "tools"
    assert question["schema"]["properties"]["name"]["type"] == "string"
    assert (await page.get("/state"))["questions"] == [question]
    path = f"/questions/{question['id']}"
    status, problem = await page.ask("POST", path, {"action": "accept", "content": {"name": 3}})
    assert (status, "does not match the form" in problem["detail"]) == (422, True)
    assert (await page.ask("POST", path, {"action": "accept", "content": {"name": "Ada"}}))[0] == 204
    await page.event(lambda event: event["type"] == "questionClosed" and event["id"] == question["id"])
    _, result = await page.outcome(view["id"])
    assert "accept" in result["content"][0]["text"]
    assert "Ada" in result["content"][0]["text"]
    assert (await page.ask("POST", path, {"action": "decline"}))[0] == 404


async def test_a_page_to_visit_is_shown_with_its_host(page: Page) -> None:
    _, view = await page.ask("POST", "/operations", call("visit"))
    question = (await page.event(lambda event: event["type"] == "question"))["question"]
    assert (question["kind"], question["host"]) == ("url", "login.example")
    assert question["url"] == "https://login.example/start?x=1"
    await page.post(f"/questions/{question['id']}", {"action": "decline"})
    _, result = await page.outcome(view["id"])
    assert result["content"][0]["text"] == "decline"


async def test_sampling_is_shown_and_refused_without_a_model(page: Page) -> None:
    _, view = await page.ask("POST", "/operations", call("think"))
    question = (await page.event(lambda event: event["type"] == "question"))["question"]
    assert question["sampling"] == {
        "messages": [{"role": "user", "text": "What is tea?", "others": []}],
        "systemPrompt": None,
        "maxTokens": 10,
        "tools": [],
        "model": None,
        "answer": None,
        "calls": [],
    }
    status, problem = await page.ask("POST", f"/questions/{question['id']}", {"action": "accept"})
    assert (status, "--model" in problem["detail"]) == (409, True)
    await page.post(f"/questions/{question['id']}", {"action": "decline"})
    _, result = await page.outcome(view["id"])
    assert "rejected" in str(result)


async def test_a_question_of_a_cancelled_call_is_closed(page: Page) -> None:
    _, view = await page.ask("POST", "/operations", call("ask"))
    question = (await page.event(lambda event: event["type"] == "question"))["question"]
    await page.ask("DELETE", f"/operations/{view['id']}")
    await page.event(lambda event: event["type"] == "questionClosed" and event["id"] == question["id"])
    assert (await page.get("/state"))["questions"] == []


async def test_arguments_are_completed(page: Page) -> None:
    wanted = {"server": "tools", "template": "page://{title}", "argument": "title", "value": "s", "context": {}}
    assert await page.post("/complete", wanted) == {"values": ["solaris"], "total": 1, "hasMore": False}
    assert (await page.ask("POST", "/complete", {"server": "tools", "argument": "title"}))[0] == 400


async def test_bodies_are_checked(page: Page) -> None:
    assert (await page.ask("POST", "/operations", {"kind": "other", "server": "tools"}))[0] == 400
    assert (await page.ask("POST", "/operations", {**call("add"), "more": 1}))[0] == 400
    async with page.session.post(f"{page.origin}/api/interest", headers=page.headers, data=b"{}") as response:
        assert response.status == 415
    json = {**page.headers, "Content-Type": "application/json"}
    async with page.session.post(f"{page.origin}/api/interest", headers=json, data=b"{") as response:
        assert response.status == 400
    async with page.session.post(
        f"{page.origin}/api/interest", headers=json, data=BytesIO(bytes(5_000_000))
    ) as response:
        assert response.status == 413


async def frames(events: PageEvents, since: int) -> list[bytes]:
    """The first frames of a stream after its greeting, until it has nothing more to say."""
    stream = events.stream(since)
    assert await anext(stream) == b": ready\n\n"
    found = [await anext(stream)]
    events.end()
    return found + [frame async for frame in stream]


async def test_events_about_the_same_are_merged() -> None:
    events = PageEvents()
    for kind in ("tool", "prompt") * 500:
        events.put(type="list", server="s", kind=kind)
    assert await frames(events, 0) == [
        b'data: {"seq":999,"type":"list","server":"s","kind":"tool"}\n\n'
        b'data: {"seq":1000,"type":"list","server":"s","kind":"prompt"}\n\n'
    ]


async def test_a_gap_in_the_events_is_a_reset() -> None:
    for since in (0, KEPT + 100):
        events = PageEvents()
        for _ in range(KEPT + 1):
            events.put(type="list", server="s", kind="tool")
        assert await frames(events, since) == [b'data: {"seq":1001,"type":"reset"}\n\n']


async def test_a_model_answers_sampling_once_the_user_has_accepted() -> None:
    app = Server("thinker")

    @app.tool
    async def think(context: Context) -> str:
        return (await context.sample("What is tea?", max_tokens=10)).text

    model = ScriptedModel("A drink.")
    async with opened(app_server(app), model=model) as page:
        await page.ready("thinker")
        await page.listen()
        assert (await page.get("/state"))["model"] == "test:model"
        _, view = await page.ask(
            "POST", "/operations", {"kind": "call", "server": "thinker", "name": "think", "arguments": {}}
        )
        request = (await page.event(lambda event: event["type"] == "question"))["question"]
        assert model.requests == []
        edit = {"texts": ["What is green tea?"], "systemPrompt": "Be brief.", "maxTokens": 5}
        for wrong in ({**edit, "texts": []}, {**edit, "maxTokens": 0}):
            status, _ = await page.ask("POST", f"/questions/{request['id']}", {"action": "accept", "sampling": wrong})
            assert status in (400, 422)
        await page.post(f"/questions/{request['id']}", {"action": "accept", "sampling": edit})
        answer = (await page.event(lambda event: event.get("question", request)["id"] != request["id"]))["question"]
        assert answer["sampling"]["answer"] == "A drink."
        await page.post(f"/questions/{answer['id']}", {"action": "accept", "sampling": {"answer": "A green drink."}})
        _, result = await page.outcome(view["id"])
        assert result["content"][0]["text"] == "A green drink."
        (sent,) = model.requests
        assert blocks_of(sent.messages[0]) == [TextContent("What is green tea?")]
        assert (sent.system_prompt, sent.max_tokens) == ("Be brief.", 5)


async def test_an_answer_of_the_model_can_be_refused_before_it_is_sent() -> None:
    app = Server("tools")

    @app.tool
    async def think(context: Context) -> str:
        return (await context.sample("What is tea?", max_tokens=10)).text

    async with opened(app_server(app), model=ScriptedModel("A secret.")) as page:
        await page.ready("tools")
        await page.listen()
        _, view = await page.ask("POST", "/operations", call("think"))
        request = (await page.event(lambda event: event["type"] == "question"))["question"]
        await page.post(f"/questions/{request['id']}", {"action": "accept"})
        answer = (await page.event(lambda event: event.get("question", request)["id"] != request["id"]))["question"]
        await page.post(f"/questions/{answer['id']}", {"action": "decline"})
        _, result = await page.outcome(view["id"])
        assert "rejected" in str(result)
        assert "secret" not in str(result)
