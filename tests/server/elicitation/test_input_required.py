"""Asking the client from a handler: the same functions for every revision, whichever way its questions travel."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from carrel import Context, Server
from carrel.errors import MissingCapability, PeerError, ProtocolError, URLElicitationRequired
from carrel.transports import memory
from carrel.wire.client_features import (
    CreateMessageResult,
    ModelHint,
    ModelPreferences,
    SamplingMessage,
    ToolChoice,
    ToolResultContent,
    ToolUseContent,
)
from carrel.wire.content import AudioContent, ImageContent, TextContent
from carrel.wire.tools import Tool
from support.answering_client import CAPABLE, ELICIT, ROOTS, SAMPLE, accepted, answering, said
from support.memory_client import ALL, HANDSHAKES, JUNE, LATEST, MARCH, NOVEMBER, OLDEST, PLAIN, call, error, read

WITH_FORMS = (JUNE, NOVEMBER, LATEST)
WITH_PAGES = (NOVEMBER, LATEST)
ROOT = {"uri": "file:///home/ada", "name": "Home"}
ANSWERS = {ELICIT: accepted(value="Ada"), SAMPLE: said("Paris"), ROOTS: {"roots": [ROOT]}}


def asking_app() -> Server:
    """Return a server that asks the same in tools, prompts and resources."""
    app = Server("curious")

    async def name_of(context: Context) -> str:
        answer = await context.elicit("What is your name?")
        return answer.data if answer.accepted else answer.action

    @app.tool()
    async def greet(context: Context) -> str:
        return f"Hello, {await name_of(context)}!"

    @app.prompt()
    async def greeting(context: Context) -> str:
        return f"Greet {await name_of(context)}."

    @app.resource("memo://name")
    async def name(context: Context) -> str:
        return await name_of(context)

    @app.resource("memo://of/{what}")
    async def of(what: str, context: Context) -> str:
        return f"{what} of {await name_of(context)}"

    @app.tool()
    async def capital(context: Context) -> str:
        return (await context.sample("What is the capital of France?", 100)).text

    @app.resource("memo://capital")
    async def capital_of(context: Context) -> str:
        return (await context.sample("What is the capital of France?", 100)).text

    @app.prompt()
    async def folders(context: Context) -> str:
        return ", ".join(f"{root.name} at {root.uri}" for root in await context.list_roots())

    return app


# From tools, prompts and resources


@pytest.mark.parametrize("revision", WITH_FORMS)
async def test_a_tool_asks_the_user(revision: str) -> None:
    async with answering(asking_app(), revision, ANSWERS) as client:
        assert await client.text("greet") == "Hello, Ada!"
    schema = {"type": "object", "properties": {"value": {"type": "string"}}, "required": ["value"]}
    assert client.asked == [(ELICIT, {"message": "What is your name?", "requestedSchema": schema})]


@pytest.mark.parametrize("revision", WITH_FORMS)
async def test_a_prompt_asks_the_user(revision: str) -> None:
    async with answering(asking_app(), revision, ANSWERS) as client:
        reply = await client.request("prompts/get", name="greeting")
    assert reply["result"]["messages"][0]["content"]["text"] == "Greet Ada."


@pytest.mark.parametrize("revision", WITH_FORMS)
@pytest.mark.parametrize(("uri", "text"), [("memo://name", "Ada"), ("memo://of/shelf", "shelf of Ada")])
async def test_a_resource_asks_the_user(revision: str, uri: str, text: str) -> None:
    async with answering(asking_app(), revision, ANSWERS) as client:
        reply = await client.request("resources/read", uri=uri)
    assert reply["result"]["contents"][0]["text"] == text


@pytest.mark.parametrize("revision", ALL)
async def test_the_model_is_asked_in_every_revision(revision: str) -> None:
    async with answering(asking_app(), revision, ANSWERS) as client:
        assert await client.text("capital") == "Paris"
        reply = await client.request("resources/read", uri="memo://capital")
    assert reply["result"]["contents"][0]["text"] == "Paris"
    message = {"role": "user", "content": {"type": "text", "text": "What is the capital of France?"}}
    assert client.asked == [(SAMPLE, {"messages": [message], "maxTokens": 100})] * 2


@pytest.mark.parametrize("revision", ALL)
async def test_the_roots_are_asked_for_in_every_revision(revision: str) -> None:
    async with answering(asking_app(), revision, ANSWERS) as client:
        reply = await client.request("prompts/get", name="folders")
    assert reply["result"]["messages"][0]["content"]["text"] == "Home at file:///home/ada"
    assert client.asked == [(ROOTS, {})]


@pytest.mark.parametrize("revision", ALL)
async def test_roots_that_are_no_file_uris_are_logged_and_left_out(
    revision: str, caplog: pytest.LogCaptureFixture
) -> None:
    odd = ["https://example.com/", "vscode-remote://host/home", "/home/eve", "", "file\x00:///x", "x" * 5000]
    answers = {ROOTS: {"roots": [*({"uri": uri, "name": "odd"} for uri in odd), ROOT]}}
    async with answering(asking_app(), revision, answers) as client:
        reply = await client.request("prompts/get", name="folders")
    assert reply["result"]["messages"][0]["content"]["text"] == "Home at file:///home/ada"
    assert "the client's root https://example.com/ is ignored: a root has to be a file: URI" in caplog.text
    assert len(caplog.text) < 20_000


@pytest.mark.parametrize("revision", WITH_FORMS)
async def test_a_resource_read_by_a_handler_may_ask_too(revision: str) -> None:
    app = asking_app()
    app.add_resource_tools()

    @app.tool()
    async def tell(context: Context) -> str:
        before = await context.elicit("Before?")
        contents = (await context.read_resource("memo://name")).contents
        after = await context.elicit("After?")
        return f"{before.data} {contents[0].text} {after.data}"  # type: ignore[union-attr]

    def answer(method: str, params: dict[str, Any]) -> dict[str, Any]:
        return accepted(value=params["message"])

    async with answering(app, revision, answer) as client:
        assert await client.text("tell") == "Before? What is your name? After?"
        assert "What is your name?" in await client.text("read_resource", uri="memo://name")
    assert len(client.asked) == 4


@pytest.mark.parametrize("revision", WITH_FORMS)
@pytest.mark.parametrize("action", ["decline", "cancel"])
async def test_a_user_may_say_no(revision: str, action: str) -> None:
    async with answering(asking_app(), revision, {ELICIT: {"action": action}}) as client:
        assert await client.text("greet") == f"Hello, {action}!"


# Pages


@pytest.mark.parametrize("revision", WITH_PAGES)
async def test_a_user_is_sent_to_a_page(revision: str) -> None:
    app = Server("shop")
    ids = []

    @app.tool()
    async def pay(context: Context) -> str:
        visit = await context.elicit_url("Please pay.", "https://example.com/pay?order=1")
        ids.append(visit.id)
        return visit.action

    async with answering(app, revision, {ELICIT: {"action": "accept"}}) as client:
        assert await client.text("pay") == "accept"
    ((_, params),) = client.asked
    id = params.pop("elicitationId", None)
    assert params == {"mode": "url", "message": "Please pay.", "url": "https://example.com/pay?order=1"}
    assert (id is None) == (revision == LATEST)
    assert ids == [id]


def account_app(connected: set[str], seen: list[str]) -> Server:
    app = Server("accounts")

    @app.resource("account://balance")
    async def balance(context: Context) -> str:
        if not connected:
            try:
                await context.elicit_url("Please connect.", "https://example.com/connect", required=True)
            except URLElicitationRequired as required:
                seen.append(required.id)
                raise
        return "7"

    @app.tool()
    async def pay(context: Context) -> str:
        await balance(context)
        return "paid"

    return app


async def test_a_page_that_is_required_is_the_error_of_its_revision() -> None:
    connected: set[str] = set()
    seen: list[str] = []
    async with answering(account_app(connected, seen), NOVEMBER, {}) as client:
        for method, params in (("tools/call", {"name": "pay"}), ("resources/read", {"uri": "account://balance"})):
            error = (await client.request(method, **params))["error"]
            assert error["code"] == -32042
            page = {"mode": "url", "message": "Please connect.", "url": "https://example.com/connect"}
            assert error["data"] == {"elicitations": [{**page, "elicitationId": seen[-1]}]}
        assert client.asked == []
        connected.add("ada")
        assert await client.text("pay") == "paid"
    assert len(set(seen)) == 2


async def test_a_required_page_is_asked_for_where_there_is_no_such_error() -> None:
    seen: list[str] = []
    async with answering(account_app(set(), seen), LATEST, {ELICIT: {"action": "accept"}}) as client:
        assert await client.text("pay") == "paid"
    assert [method for method, _ in client.asked] == [ELICIT]
    assert seen == []


async def test_a_client_without_pages_is_not_told_to_visit_one() -> None:
    async with memory.connect(account_app(set(), []), NOVEMBER) as peer:
        reply = await peer.request("resources/read", {"uri": "account://balance"})
    assert reply["error"]["code"] == -32600
    assert "elicitation" in reply["error"]["message"]


async def test_a_client_is_told_when_the_user_is_done_with_the_page() -> None:
    app = Server("shop")
    contexts: list[tuple[Context, str | None]] = []

    @app.tool()
    async def pay(context: Context) -> str:
        visit = await context.elicit_url("Please pay.", "https://example.com/pay")
        contexts.append((context, visit.id))
        return "on the way"

    async with answering(app, NOVEMBER, {ELICIT: {"action": "accept"}}) as client:
        await client.text("pay")
        context, id = contexts[0]
        await context.elicitation_completed(id)  # by then, the call has long been answered
        told = await client.peer.notification()
    assert told["method"] == "notifications/elicitation/complete"
    assert told["params"] == {"elicitationId": id}


@pytest.mark.parametrize(
    "url",
    [
        "javascript:alert(1)",
        "JavaScript:alert(1)//https://example.com",
        "file:///etc/passwd",
        "data:text/html,<script>",
        "http://example.com/",
        "http://localhost.example.com/",
        "http://127.0.0.1.example.com/",
        "http://localhost@example.com/",
        "https://example.com@evil.example/",
        "https://user:secret@example.com/",
        "https:///no-host",
        "https:example.com",
        "https://example.com\\@evil.example/",
        "https://example.com/a b",
        "https://example.com/\njavascript:alert(1)",
        "https://exämple.com/",
        "https://[::1",
        "//example.com/",
        "",
    ],
)
async def test_misleading_or_invalid_urls_are_not_sent_for_elicitation(url: str) -> None:
    app = Server("shop")

    @app.tool()
    async def pay(context: Context) -> str:
        return (await context.elicit_url("Please pay.", url)).action

    for revision in WITH_PAGES:
        async with answering(app, revision, {ELICIT: {"action": "accept"}}) as client:
            assert (await client.call("pay"))["isError"]
        assert not client.asked


@pytest.mark.parametrize("url", ["https://example.com/", "HTTPS://example.com:8443/x?y#z", "http://localhost:8000/pay"])
async def test_a_page_may_be_here_or_at_an_https_url(url: str) -> None:
    app = Server("shop")

    @app.tool()
    async def pay(context: Context) -> str:
        return (await context.elicit_url("Please pay.", url)).action

    async with answering(app, LATEST, {ELICIT: {"action": "accept"}}) as client:
        assert await client.text("pay") == "accept"
    assert client.asked[0][1]["url"] == url


# Models


@pytest.mark.parametrize("revision", ALL)
async def test_a_model_is_asked_with_everything_that_its_revision_has(revision: str) -> None:
    app = Server("curious")

    @app.tool()
    async def ponder(context: Context) -> str:
        found = await context.sample(
            [
                "Look:",
                SamplingMessage("user", ImageContent(b"\x89PNG", "image/png")),
                SamplingMessage("assistant", [TextContent("One."), TextContent("Two.")]),
            ],
            50,
            system_prompt="Be brief.",
            temperature=0.5,
            stop_sequences=["END"],
            metadata={"a": 1},
            include_context="thisServer",
            model_preferences=ModelPreferences(
                hints=[ModelHint(name="small")], cost_priority=1.0, speed_priority=0.5, intelligence_priority=0.0
            ),
        )
        assert isinstance(found, CreateMessageResult)
        return f"{found.role} {found.model} {found.stop_reason} {found.text}"

    async with answering(app, revision, ANSWERS) as client:
        assert await client.text("ponder") == "assistant m endTurn Paris"
    ((_, params),) = client.asked
    answers = [{"type": "text", "text": "One."}, {"type": "text", "text": "Two."}]
    assert params == {
        "messages": [
            {"role": "user", "content": {"type": "text", "text": "Look:"}},
            {"role": "user", "content": {"type": "image", "data": "iVBORw==", "mimeType": "image/png"}},
            *(
                [{"role": "assistant", "content": answers}]
                if revision in WITH_PAGES
                else [{"role": "assistant", "content": answer} for answer in answers]
            ),
        ],
        "maxTokens": 50,
        "systemPrompt": "Be brief.",
        "temperature": 0.5,
        "stopSequences": ["END"],
        "metadata": {"a": 1},
        "includeContext": "thisServer",
        "modelPreferences": {
            "hints": [{"name": "small"}],
            "costPriority": 1.0,
            "speedPriority": 0.5,
            "intelligencePriority": 0.0,
        },
    }


@pytest.mark.parametrize("revision", WITH_PAGES)
async def test_a_model_uses_the_tools_that_it_is_given(revision: str) -> None:
    app = Server("weather")

    @app.tool()
    async def forecast(context: Context) -> str:
        messages = [SamplingMessage("user", TextContent("The weather in Oslo?"))]
        tools = [Tool(name="weather", input_schema={"type": "object"})]
        while True:
            found = await context.sample(messages, 100, tools=tools, tool_choice=ToolChoice(mode="auto"))
            uses = [block for block in found.content if isinstance(block, ToolUseContent)]  # type: ignore[union-attr]
            if found.stop_reason != "toolUse":
                return found.text
            results = [ToolResultContent(use.id, [TextContent(f"{use.input['city']}: rain")]) for use in uses]
            messages += [SamplingMessage("assistant", list(uses)), SamplingMessage("user", list(results))]

    def answer(method: str, params: dict[str, Any]) -> dict[str, Any]:
        if len(params["messages"]) == 1:
            use = {"type": "tool_use", "id": "1", "name": "weather", "input": {"city": "Oslo"}}
            return {"role": "assistant", "content": [use], "model": "m", "stopReason": "toolUse"}
        return {**said(""), "content": [params["messages"][2]["content"][0]["content"][0]]}

    async with answering(app, revision, answer) as client:
        assert await client.text("forecast") == "Oslo: rain"
    first, second = (params for _, params in client.asked)
    assert first["tools"] == [{"name": "weather", "inputSchema": {"type": "object"}}]
    assert first["toolChoice"] == {"mode": "auto"}
    assert second["messages"][2] == {
        "role": "user",
        "content": [{"type": "tool_result", "toolUseId": "1", "content": [{"type": "text", "text": "Oslo: rain"}]}],
    }


# What a client cannot be asked


class Ask:
    """Every kind of question."""

    @staticmethod
    async def form(context: Context) -> Any:
        return await context.elicit("?")

    @staticmethod
    async def several(context: Context) -> Any:
        items = {"type": "array", "items": {"type": "string", "enum": ["a"]}}
        return await context.elicit("?", {"type": "object", "properties": {"x": items}})

    @staticmethod
    async def page(context: Context) -> Any:
        return await context.elicit_url("?", "https://example.com/")

    @staticmethod
    async def model(context: Context) -> Any:
        return await context.sample("?", 1)

    @staticmethod
    async def sound(context: Context) -> Any:
        return await context.sample(SamplingMessage("user", AudioContent(b"RIFF", "audio/wav")), 1)

    @staticmethod
    async def tools(context: Context) -> Any:
        return await context.sample("?", 1, tools=[])

    @staticmethod
    async def results(context: Context) -> Any:
        use, result = ToolUseContent("1", "x", {}), ToolResultContent("1", [])
        return await context.sample([SamplingMessage("assistant", use), SamplingMessage("user", result)], 1)

    @staticmethod
    async def surroundings(context: Context) -> Any:
        return await context.sample("?", 1, include_context="allServers")

    @staticmethod
    async def roots(context: Context) -> Any:
        return await context.list_roots()


FORM, PAGE = {"elicitation": {"form": {}}}, {"elicitation": {"url": {}}}
#: The first revision in which a client can be asked it.
SINCE = {
    "form": JUNE,
    "several": NOVEMBER,
    "page": NOVEMBER,
    "sound": MARCH,
    "tools": NOVEMBER,
    "results": NOVEMBER,
    "model": OLDEST,
    "surroundings": OLDEST,
    "roots": OLDEST,
}


@pytest.mark.parametrize("revision", ALL)
@pytest.mark.parametrize(
    ("kind", "capabilities", "needs"),
    [
        ("form", {}, FORM),
        ("form", {"sampling": {}, "roots": {}}, FORM),
        ("form", {"elicitation": {"url": {}}}, FORM),
        ("several", {"elicitation": {"url": {}}}, FORM),
        ("page", {}, PAGE),
        ("page", {"elicitation": {}}, PAGE),
        ("page", {"elicitation": {"form": {}}}, PAGE),
        ("model", {"elicitation": {}}, {"sampling": {}}),
        ("tools", {"sampling": {}}, {"sampling": {"tools": {}}}),
        ("results", {"sampling": {"context": {}}}, {"sampling": {"tools": {}}}),
        ("roots", {"sampling": {}, "elicitation": {}}, {"roots": {}}),
    ],
)
async def test_a_capability_that_is_not_declared_is_never_used(
    kind: str, capabilities: dict[str, Any], needs: dict[str, Any], revision: str
) -> None:
    app = Server("curious")
    app.tool(name="ask", structured=False)(getattr(Ask, kind))
    app.resource("memo://ask")(getattr(Ask, kind))
    app.prompt("ask")(getattr(Ask, kind))
    async with memory.connect(app, revision, **capabilities) as peer:
        reads = await error(peer, "resources/read", uri="memo://ask")
        prompt = await error(peer, "prompts/get", name="ask")
        assert reads == prompt
        if revision == LATEST:
            assert reads["code"] == -32021
            assert reads["data"] == {"requiredCapabilities": needs}
            assert await error(peer, "tools/call", name="ask") == reads
        else:
            assert f"does not offer {next(iter(needs))}" in reads["message"]
            result = await call(peer, "ask")
            assert result["isError"]
            name = ".".join([*needs, *next(iter(needs.values()))])
            known = revision >= SINCE[kind]
            told = (
                f"The client does not offer {name}"
                if known
                else f"of the revision {revision} does not support this request"
            )
            assert told in result["content"][0]["text"]


@pytest.mark.parametrize("kind", SINCE)
@pytest.mark.parametrize("revision", HANDSHAKES)
async def test_a_client_that_claims_what_its_revision_does_not_have_is_not_asked_it(kind: str, revision: str) -> None:
    app = Server("curious")

    @app.tool()
    async def ask(context: Context) -> str:
        try:
            await getattr(Ask, kind)(context)
        except MissingCapability:
            return "cannot"
        except PeerError:
            return "asked"
        return "?"

    refusal = {"code": -1, "message": "No."}
    async with answering(app, revision, dict.fromkeys((ELICIT, SAMPLE, ROOTS), refusal)) as client:
        assert await client.text("ask") == ("cannot" if revision < SINCE[kind] else "asked")


@pytest.mark.parametrize("revision", [NOVEMBER, LATEST])
async def test_all_that_a_client_lacks_for_questions_side_by_side_is_named(revision: str) -> None:
    app = Server("curious")

    @app.resource("memo://ask")
    async def everything(context: Context) -> str:
        await asyncio.gather(Ask.form(context), Ask.page(context), Ask.tools(context), Ask.roots(context))
        return ""

    @app.resource("memo://alone")
    async def alone(context: Context) -> str:
        try:
            await Ask.form(context)
        except MissingCapability:
            await Ask.roots(context)
        return ""

    async with memory.connect(app, revision, sampling={}) as peer:
        refused = await error(peer, "resources/read", uri="memo://ask")
        separate = await error(peer, "resources/read", uri="memo://alone")
    if revision == LATEST:
        needs = {"elicitation": {"form": {}, "url": {}}, "sampling": {"tools": {}}, "roots": {}}
        assert refused["data"] == {"requiredCapabilities": needs}
        assert separate["data"] == {"requiredCapabilities": {"roots": {}}}
    else:
        for name in ("elicitation", "sampling", "roots"):
            assert name in refused["message"]


async def test_surroundings_are_not_asked_for_where_that_takes_a_capability_of_its_own() -> None:
    app = Server("curious")
    app.tool(name="ask")(Ask.surroundings)
    async with memory.connect(app, LATEST, sampling={"tools": {}}) as peer:
        refused = await error(peer, "tools/call", name="ask")
    assert refused["data"] == {"requiredCapabilities": {"sampling": {"context": {}}}}


@pytest.mark.parametrize("odd", [{"form": None}, {"form": True}, {"other": 1}, {}])
async def test_elicitation_without_modes_means_forms(odd: dict[str, Any]) -> None:
    for revision in WITH_FORMS:
        async with answering(asking_app(), revision, ANSWERS, elicitation=odd) as client:
            assert await client.text("greet") == "Hello, Ada!"


# Several questions


@pytest.mark.parametrize("revision", WITH_FORMS)
async def test_several_questions_travel_together(revision: str) -> None:
    app = Server("curious")

    @app.tool()
    async def ask(context: Context) -> str:
        name, model, roots = await asyncio.gather(
            context.elicit("Name?"), context.sample("Capital?", 5), context.list_roots()
        )
        return f"{name.data}, {model.text}, {roots[0].name}"

    async with answering(app, revision, ANSWERS) as client:
        assert await client.text("ask") == "Ada, Paris, Home"
    assert [method for method, _ in client.asked] == [ELICIT, SAMPLE, ROOTS]
    assert len(client.rounds) == (2 if revision == LATEST else 0)


@pytest.mark.parametrize("revision", WITH_FORMS)
async def test_several_questions_travel_together_in_a_task_group(revision: str) -> None:
    app = Server("curious")

    @app.tool()
    async def ask(context: Context) -> str:
        async with asyncio.TaskGroup() as group:
            name = group.create_task(context.elicit("Name?"))
            inner = group.create_task(nested(context))
        return f"{name.result().data}, {inner.result()}"

    async def nested(context: Context) -> str:
        async with asyncio.TaskGroup() as group:
            model = group.create_task(context.sample("Capital?", 5))
        return model.result().text

    async with answering(app, revision, ANSWERS) as client:
        assert await client.text("ask") == "Ada, Paris"
    assert len(client.rounds) <= 3


@pytest.mark.parametrize("revision", WITH_FORMS)
async def test_questions_follow_each_other_as_often_as_it_takes(revision: str) -> None:
    app = Server("curious")

    @app.tool()
    async def ask(context: Context) -> str:
        return ", ".join([str((await context.elicit(f"{number}?", int)).data) for number in range(5)])

    def answer(method: str, params: dict[str, Any]) -> dict[str, Any]:
        return accepted(value=int(params["message"].rstrip("?")) * 10)

    async with answering(app, revision, answer) as client:
        assert await client.text("ask") == "0, 10, 20, 30, 40"
    assert len(client.asked) == 5


@pytest.mark.parametrize("revision", WITH_FORMS)
async def test_a_handler_cannot_go_on_without_an_answer_by_mistake(revision: str) -> None:
    app = Server("curious")

    @app.tool()
    async def gather(context: Context) -> str:
        found = await asyncio.gather(context.elicit("Name?"), context.sample("Capital?", 5), return_exceptions=True)
        return ", ".join(type(each).__name__ for each in found)

    @app.tool()
    async def swallow(context: Context) -> str:
        try:
            return str((await context.elicit("Name?")).data)
        except BaseException:
            return "no answer"

    async with answering(app, revision, ANSWERS) as client:
        assert await client.text("gather") == "Elicited, CreateMessageResult"
        assert await client.text("swallow") == "Ada"


async def test_one_that_fails_is_an_error_of_the_handler_although_others_only_wait(
    caplog: pytest.LogCaptureFixture,
) -> None:
    app = Server("curious")

    @app.resource("memo://ask")
    async def ask(context: Context) -> str:
        async with asyncio.TaskGroup() as group:
            group.create_task(context.elicit("Name?"))
            group.create_task(fail())
        return "?"

    async def fail() -> None:
        await asyncio.sleep(0)
        raise LookupError("the inside of the server")

    async with memory.connect(app, LATEST, **CAPABLE) as peer:
        assert await error(peer, "resources/read", uri="memo://ask") == PLAIN
    assert "the inside of the server" in caplog.text


@pytest.mark.parametrize("revision", ALL)
async def test_a_handler_whose_group_of_tasks_fails_is_answered(revision: str) -> None:
    app = Server("curious")

    @app.tool()
    async def together() -> str:
        async with asyncio.TaskGroup() as group:
            group.create_task(asyncio.sleep(0))
            group.create_task(fail())
        return "?"

    async def fail() -> None:
        await asyncio.sleep(0)
        raise LookupError("nothing there")

    async with memory.connect(app, revision) as peer:
        assert (await call(peer, "together"))["isError"]


# Answers that do not fit


MISFITS = [
    accepted(value=5),
    accepted(),
    {"action": "accept"},
    {"action": "perhaps"},
    {},
    "Ada",
    None,
    7,
    ["Ada"],
    {"action": "accept", "content": "Ada"},
]


@pytest.mark.parametrize("revision", WITH_FORMS)
@pytest.mark.parametrize("misfit", MISFITS, ids=str)
async def test_an_answer_that_does_not_fit_is_asked_for_again(misfit: Any, revision: str) -> None:
    answers = iter([misfit, misfit, accepted(value="Ada")])
    async with answering(asking_app(), revision, lambda method, params: next(answers)) as client:
        assert await client.text("greet") == "Hello, Ada!"
    assert len(client.asked) == 3


@pytest.mark.parametrize("revision", ALL)
@pytest.mark.parametrize(
    "odd", [{"role": "assistant"}, {**said("x"), "role": "system"}, {**said("x"), "content": {}}, 5, None, []], ids=str
)
async def test_a_malformed_one_of_a_model_is_an_error_and_the_model_is_not_asked_again(odd: Any, revision: str) -> None:
    async with answering(asking_app(), revision, {SAMPLE: odd}) as client:
        reply = await client.request("tools/call", name="capital")
    assert len(client.asked) == 1
    assert ("inputResponses.sample-1" if revision == LATEST else "malformed") in reply["error"]["message"]


@pytest.mark.parametrize("revision", [NOVEMBER, LATEST])
async def test_a_handler_may_go_on_without_a_model_that_answers_malformed(revision: str) -> None:
    app = Server("stubborn")

    @app.tool()
    async def ask(context: Context) -> str:
        try:
            return (await context.sample("?", 5)).text
        except ProtocolError:
            return (await context.elicit("What do you say?", str)).data or ""

    async with answering(app, revision, {SAMPLE: {"role": "assistant"}, ELICIT: accepted(value="I")}) as client:
        assert await client.text("ask") == "I"
    assert [method for method, _ in client.asked] == [SAMPLE, ELICIT]


@pytest.mark.parametrize("revision", [JUNE, NOVEMBER, LATEST])
async def test_malformed_roots_are_an_error_and_not_asked_for_again(revision: str) -> None:
    app = Server("rooted")

    @app.tool()
    async def look(context: Context) -> str:
        return str(len(await context.list_roots()))

    async with answering(app, revision, {ROOTS: {"roots": [{}]}}) as client:
        assert "error" in await client.request("tools/call", name="look")
    assert len(client.asked) == 1


@pytest.mark.parametrize("revision", WITH_FORMS)
async def test_a_client_whose_answers_never_fit_is_asked_three_times(revision: str) -> None:
    async with answering(asking_app(), revision, {ELICIT: accepted(value=5)}) as client:
        reply = await client.request("tools/call", name="greet")
    assert ("inputResponses.elicit-1" if revision == LATEST else "are not valid") in reply["error"]["message"]
    assert len(client.asked) == 3


# Handlers


async def test_a_function_in_a_thread_cannot_ask_but_may_return_what_does() -> None:
    app = Server("curious")

    @app.tool()
    def inside(context: Context) -> str:
        return asyncio.run(context.elicit("Name?")).action

    @app.tool()
    def outside(context: Context) -> Any:
        return context.elicit("Name?")

    for revision in WITH_FORMS:
        async with answering(app, revision, ANSWERS) as client:
            failed = await client.call("inside")
            assert failed["isError"]
            assert "async def" in failed["content"][0]["text"]
            assert not client.asked
            assert not (await client.call("outside")).get("isError")


async def test_a_question_after_the_call_is_refused() -> None:
    app = Server("curious")
    kept: list[Context] = []

    @app.tool()
    async def keep(context: Context) -> str:
        kept.append(context)
        await context.elicit("Name?")
        return "kept"

    for revision in WITH_FORMS:
        async with answering(app, revision, ANSWERS) as client:
            await client.text("keep")
            with pytest.raises(Exception, match="the call has ended"):
                await kept[-1].elicit("More?")


@pytest.mark.parametrize("revision", WITH_FORMS)
async def test_resources_that_never_ask_are_read_as_before(revision: str) -> None:
    app = asking_app()
    app.resources.add("memo://plain", "plain")
    async with memory.connect(app, revision) as peer:
        assert (await read(peer, "memo://plain"))[0]["text"] == "plain"
