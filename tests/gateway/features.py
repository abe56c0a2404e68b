"""Features of the protocol, each with a probe: whether a client has it, alone with a server or through a gateway.

The server is that of the golden conversations: all of its applications in one.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any, Unpack
from unittest.mock import patch

from carrel import Client, Context, Server
from carrel.client.extensions import ClientExtension
from carrel.client.handlers import Handlers
from carrel.client.options import ClientOptions
from carrel.errors import MCPError, PeerError, ProtocolError, ResourceNotFound, URLElicitationRequired
from carrel.gateway import Gateway
from carrel.gateway.grants import Grants
from carrel.host.config import ServerConfig
from carrel.host.hosted_server import HostedServer
from carrel.host.relayed import relaying
from carrel.protocol.extensions.ui import UI
from carrel.wire.client_features import CreateMessageResult, ElicitResult, Root, ToolUseContent
from carrel.wire.completion import PromptReference, ResourceTemplateReference
from carrel.wire.content import AudioContent, ResourceLink, TextContent
from golden import app as golden_app
from golden import asking, pages, skills, tasks

__all__ = ["PROBES", "Probe", "behind", "directly", "far_server", "gateway_to", "probed"]

#: Seconds that a probe may take.
PATIENCE = 60.0
HTML = "text/html;profile=mcp-app"


def far_server() -> Server:
    """Return the server that has every feature."""
    app = Server("far", page_size=7, ttl=60, scope="public")
    for module in (golden_app, asking, pages, skills, tasks):
        app.add_provider(module.build()).provider.name = module.__name__
    cancelled, logged_in = asyncio.Event(), asyncio.Event()

    @app.tool(structured=False)
    async def patient(context: Context) -> str:
        """Wait until it is cancelled."""
        await context.report_progress(1)
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            cancelled.set()
            raise
        return ""

    @app.tool(structured=False)
    async def was_cancelled() -> bool:
        """Tell whether the call of patient was cancelled."""
        await asyncio.wait_for(cancelled.wait(), 60)
        return True

    @app.tool(structured=False)
    async def whisper(context: Context) -> str:
        """Write a log message that few want."""
        context.log("debug", {"whispered": [1, None]}, "far")
        return "said"

    @app.tool(structured=False)
    async def fails() -> str:
        """End with an error that only this server has."""
        error = ProtocolError("A code of its own", {"why": [1, {"two": None}]})
        error.code = -31999
        raise error

    @app.tool(structured=False)
    async def login(context: Context) -> str:
        """Need a page to be visited first."""
        if not logged_in.is_set():
            logged_in.set()
            try:
                return (await context.elicit_url("Log in", "https://example.com/login", required=True)).action
            except URLElicitationRequired as needed:
                asyncio.get_running_loop().call_later(0.01, context.elicitation_completed, needed.id)
                raise
        return "accept"

    @app.tool(structured=False)
    async def meta(context: Context) -> str:
        """Return a key of the request's _meta."""
        return str(context.meta.get("com.example/trace"))

    @app.tool(structured=False, task="optional")
    async def step(context: Context) -> None:
        """Report progress."""
        await context.report_progress(1)
        await context.report_progress(2)

    @app.tool(structured=False)
    async def large() -> str:
        """Return a text of a megabyte."""
        return "x" * 1_000_000

    return app


async def fill_in(form: Any) -> ElicitResult:
    values = {"name": "Ada", "value": True, "username": "octocat", "letters": ["a"]}
    return ElicitResult(action="accept", content={name: values[name] for name in form.fields if name in values})


async def visit(page: Any) -> bool:
    return page.url.startswith("https://example.com/")


async def answer(sampling: Any) -> CreateMessageResult:
    if sampling.tools and len(sampling.messages) == 1:
        use = ToolUseContent(id="1", name="weather", input={"city": "Oslo"})
        return CreateMessageResult(role="assistant", content=use, model="m", stop_reason="toolUse")
    text = "rain" if sampling.tools else "Paris"
    return CreateMessageResult(role="assistant", content=TextContent(text), model="m", stop_reason="endTurn")


HANDLERS = Handlers(
    elicit_form=fill_in,
    elicit_url=visit,
    sample=answer,
    sample_tools=True,
    roots=[Root(uri="file:///here", name="here")],
)


@asynccontextmanager
async def directly(revision: str) -> AsyncIterator[Client]:
    """Give a client of the server, both of one revision."""
    async with Client(far_server(), **options(revision)) as client:
        yield client


@asynccontextmanager
async def gateway_to(far: Server[Any], revision: str, **app: Any) -> AsyncIterator[Server[Any]]:
    """Give the app of a gateway as ``carrel gateway`` makes it for a server with a URL, in this process."""

    async def new_client(hosted: HostedServer, **given: Unpack[ClientOptions]) -> Client:
        return Client(far, **{**relaying(given), "revision": revision, "http": None})

    config = ServerConfig(name="far", url="http://127.0.0.1:1/mcp", transport="http")
    with patch.object(HostedServer, "new_client", new_client):
        async with Gateway([config], grants=Grants, app=app) as gateway:
            yield gateway.app


@asynccontextmanager
async def behind(far: str, near: str) -> AsyncIterator[Client]:
    """Give a client of one revision of a gateway to the server, which speaks another."""
    async with gateway_to(far_server(), far, page_size=5) as app, Client(app, **options(near)) as client:
        yield client


def options(revision: str) -> dict[str, Any]:
    return {
        "revision": revision,
        "handlers": HANDLERS,
        "log": LOGGED.append,
        "log_level": "debug",
        "extensions": [ClientExtension(UI, settings={"mimeTypes": [HTML]})],
    }


LOGGED: list[Any] = []


async def text_of(client: Client, tool: str, arguments: Mapping[str, Any] | None = None, **options: Any) -> str:
    result = await client.call_tool(tool, arguments, **options)
    return "" if result.is_error else result.text


async def tool_of(client: Client, name: str) -> Any:
    return {tool.name: tool for tool in await client.list_tools()}[name]


# Probes: each returns whether the feature works


async def resources(client: Client) -> bool:
    listed = {each.uri for each in await client.list_resources()}
    texts = [part async for part in parts(client, "memo://both")]
    return {"memo://plain", "memo://blob", "memo://name"} <= listed and texts == ["one", b"\x02"]


async def parts(client: Client, uri: str) -> AsyncIterator[str | bytes]:
    for part in (await client.read_resource(uri)).contents:
        yield part.text if hasattr(part, "text") else part.blob


async def templates(client: Client) -> bool:
    listed = [each.uri_template for each in await client.list_resource_templates()]
    return "book://{author}/{title}" in listed and [part async for part in parts(client, "book://lem/solaris")] == [
        "solaris by lem"
    ]


async def prompts(client: Client) -> bool:
    listed = [each.name for each in await client.list_prompts()]
    got = await client.get_prompt("review", {"code": "x"})
    return "greeting" in listed and got.messages[0].content.text == "Review this python: x"


async def completion(client: Client) -> bool:
    reference = ResourceTemplateReference("book://{author}/{title}")
    prompt = await client.complete(PromptReference("review"), "language", "r")
    return (await client.complete(reference, "author", "le")).values == ["lem", "le guin"] and prompt.values == ["rust"]


async def context(client: Client) -> bool:
    reference = ResourceTemplateReference("book://{author}/{title}")
    return (await client.complete(reference, "title", "s", {"author": "lem"})).values == ["solaris"]


async def progress(client: Client) -> bool:
    seen: list[Any] = []
    await client.call_tool("count", {"upto": 3}, progress=lambda *report: seen.append(report[:2]))
    return seen == [(1, 3), (2, 3), (3, 3)]


async def task_progress(client: Client) -> bool:
    seen: list[Any] = []
    await client.call_tool("step", progress=lambda *report: seen.append(report[0]))
    return seen == [1, 2]


async def progress_messages(client: Client) -> bool:
    seen: list[Any] = []
    await client.call_tool("count", {"upto": 1}, progress=lambda *report: seen.append(report[2]))
    return seen == ["1 of 1"]


async def logging(client: Client) -> bool:
    LOGGED.clear()
    await client.call_tool("whisper")
    return [(each.level, each.data, each.logger) for each in LOGGED] == [("debug", {"whispered": [1, None]}, "far")]


async def cancellation(client: Client) -> bool:
    begun = asyncio.Event()
    calling = asyncio.ensure_future(client.call_tool("patient", progress=lambda *_: begun.set()))
    await begun.wait()
    calling.cancel()
    await asyncio.gather(calling, return_exceptions=True)
    return await text_of(client, "was_cancelled") == "true"


async def subscriptions(client: Client) -> bool:
    async with client.watch("memo://watched") as changes:
        touching = asyncio.ensure_future(touch(client))
        try:
            change = await anext(changes)
        finally:
            touching.cancel()
    return change.uri == "memo://watched"


async def touch(client: Client) -> None:
    while True:
        await client.call_tool("touch", {"uri": "memo://watched"})
        await asyncio.sleep(0.02)


async def list_changes(client: Client) -> bool:
    async with client.watch(lists=["prompts"]) as changes:
        await client.call_tool("change", {"list": "prompts"})
        return (await anext(changes)).kind == "prompts"


async def errors(client: Client) -> bool:
    try:
        await client.call_tool("fails")
    except PeerError as error:
        return (error.code, error.message, error.data) == (-31999, "A code of its own", {"why": [1, {"two": None}]})
    return False


async def not_found(client: Client) -> bool:
    try:
        await client.read_resource("memo://nothing")
    except ResourceNotFound as error:
        return error.uri == "memo://nothing"
    return False


async def structured(client: Client) -> bool:
    result = await client.call_tool("weather", {"city": "Oslo"})
    listed = await tool_of(client, "weather")
    return result.structured_content == {"city": "Oslo", "celsius": 21} and listed.output_schema["required"] == [
        "celsius"
    ]


async def structured_lists(client: Client) -> bool:
    return bool((await client.call_tool("tally")).structured_content == [3, 1, 2])


async def tool_annotations(client: Client) -> bool:
    hints = (await tool_of(client, "weather")).annotations
    return hints is not None and hints.read_only_hint is True and hints.open_world_hint is False


async def titles(client: Client) -> bool:
    return bool((await tool_of(client, "weather")).title == "Weather")


async def icons(client: Client) -> bool:
    found = (await tool_of(client, "weather")).icons
    return found is not None and found[0].theme == "dark"


async def entry_meta(client: Client) -> bool:
    listed = {each.uri: each for each in await client.list_resources()}
    both = await client.read_resource("memo://both")
    return listed["memo://rich"].meta == both.contents[0].meta == {"example.com/shelf": 7}


async def request_meta(client: Client) -> bool:
    return await text_of(client, "meta", meta={"com.example/trace": "abc"}) == "abc"


async def annotations(client: Client) -> bool:
    listed = {each.uri: each for each in await client.list_resources()}
    hints = listed["memo://rich"].annotations
    return hints is not None and hints.audience == ["user", "assistant"] and hints.priority == 0.5


async def audio(client: Client) -> bool:
    content = (await client.call_tool("blocks")).content
    return any(isinstance(block, AudioContent) and block.data == b"RIFF" for block in content)


async def links(client: Client) -> bool:
    content = (await client.call_tool("blocks")).content
    return any(isinstance(block, ResourceLink) and block.uri == "memo://rich" for block in content)


async def roots(client: Client) -> bool:
    return await text_of(client, "look") == "here at file:///here"


async def sampling(client: Client) -> bool:
    return await text_of(client, "explain") == "Paris"


async def sampling_with_tools(client: Client) -> bool:
    return await text_of(client, "forecast") == "rain"


async def forms(client: Client) -> bool:
    prompt = await client.get_prompt("greeting")
    read = [part async for part in parts(client, "memo://name")]
    called = await text_of(client, "greet")
    return (called, read, prompt.messages[0].content.text) == ("Hello, Ada.", ["Ada"], "Greet Ada.")


async def choices(client: Client) -> bool:
    return "'letters': ['a']" in await text_of(client, "choose")


async def rounds(client: Client) -> bool:
    together = await text_of(client, "survey")
    return (together, await text_of(client, "book")) == ("Ada, Paris, 1 roots", "Table 7 for Ada: True")


async def url_pages(client: Client) -> bool:
    return await text_of(client, "pay") == "Paid: accept."


async def url_required(client: Client) -> bool:
    return await text_of(client, "login") == "accept"


async def call_as_task(client: Client) -> bool:
    task = await client.tasks.start_tool("confirm", handlers=HANDLERS)
    result = await task.result()
    try:
        await (await client.tasks.start_tool("refuse")).result()
    except PeerError as error:
        return task.id is not None and result.text == "accept True" and error.code == -32602
    return False


async def apps(client: Client) -> bool:
    listed = {tool.name: tool for tool in await client.list_tools()}
    ui = (listed["time"].meta or {}).get("ui", {})
    page = [part async for part in parts(client, str(ui.get("resourceUri")))]
    told = (await client.call_tool("time")).text
    return "wind" in listed and page == ["<!doctype html><title>Clock</title>"] and "on the page" in told


async def agent_skills(client: Client) -> bool:
    listed = await client.skills.list_skills()
    return len(listed) > 1 and (await client.skills.get_skill(listed[0].uri)).uri == listed[0].uri


async def directories(client: Client) -> bool:
    skill = (await client.skills.list_skills())[0]
    inside = await client.list_directory(skill.uri.rpartition("/")[0])
    return skill.uri in [resource.uri for resource in inside]


async def cache_hints(client: Client) -> bool:
    result = await client.read_resource("memo://rich")
    return (result.ttl_ms, result.cache_scope) == (60_000, "public")


async def large_results(client: Client) -> bool:
    return len(await text_of(client, "large")) == 1_000_000


Probe = Callable[[Client], Awaitable[bool]]
PROBES: Mapping[str, Probe] = {
    "resources": resources,
    "templates": templates,
    "prompts": prompts,
    "completion": completion,
    "completion with context": context,
    "progress": progress,
    "progress messages": progress_messages,
    "progress of tools with tasks": task_progress,
    "logging": logging,
    "cancellation": cancellation,
    "subscriptions": subscriptions,
    "changes of lists": list_changes,
    "errors": errors,
    "not found": not_found,
    "large results": large_results,
    "annotations": annotations,
    "tool annotations": tool_annotations,
    "titles": titles,
    "`_meta` of requests": request_meta,
    "`_meta` of entries": entry_meta,
    "icons": icons,
    "audio": audio,
    "resource links": links,
    "structured content": structured,
    "structured lists": structured_lists,
    "roots": roots,
    "sampling": sampling,
    "sampling with tools": sampling_with_tools,
    "forms": forms,
    "multiple choice": choices,
    "several server requests at once": rounds,
    "URL elicitation": url_pages,
    "errors that require URL elicitation": url_required,
    "tasks": call_as_task,
    "apps": apps,
    "skills": agent_skills,
    "directories": directories,
    "cache hints": cache_hints,
}


async def probed(client: Client, only: set[str] | None = None) -> set[str]:
    """Return the features that a client has."""
    found = set()
    for name, probe in PROBES.items():
        if only is None or name in only:
            try:
                async with asyncio.timeout(PATIENCE):
                    if await probe(client):
                        found.add(name)
            except (MCPError, LookupError, TimeoutError, AttributeError):
                continue
    return found
