"""What servers ask of a client, in both eras, and what it answers."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

import msgspec
import pytest

from carrel import Client, Context, Server
from carrel.client.answers import may_be_shown
from carrel.client.handlers import Form, Handlers, Origin, URLElicitation
from carrel.errors import ConfigError, PeerError
from carrel.wire.client_features import (
    CreateMessageParams,
    CreateMessageResult,
    ElicitResult,
    Root,
    ToolUseContent,
)
from carrel.wire.content import TextContent
from carrel.wire.tools import Tool
from support.clock import pass_time
from support.servers.demo import JUNE, LATEST, NOVEMBER, OLDEST, served


class Visit(msgspec.Struct):
    """A form with something of every kind."""

    name: str
    days: int = 3
    quiet: bool = True
    room: Literal["small", "large"] = "small"


def make_asker() -> Server:
    """A server that asks."""
    app = Server("asker")

    @app.tool()
    async def visit(context: Context) -> str:
        answer = await context.elicit("Who comes?", Visit)
        return f"{answer.action}: {answer.data}"

    @app.tool()
    async def page(context: Context, url: str = "https://example.org/pay?id=1") -> str:
        answer = await context.elicit_url("Please pay", url)
        return str(answer.action if hasattr(answer, "action") else answer)

    @app.tool()
    async def think(context: Context) -> str:
        answer = await context.sample("What is the capital of France?", max_tokens=100)
        return f"{answer.model}: {answer.text}"

    @app.tool()
    async def use_tools(context: Context) -> str:
        tool = Tool(name="weather", input_schema={"type": "object"})
        answer = await context.sample("Weather?", max_tokens=10, tools=[tool])
        content = answer.content if isinstance(answer.content, list) else [answer.content]
        return ",".join(type(block).__name__ for block in content)

    @app.tool()
    async def where(context: Context) -> str:
        return " ".join(root.uri for root in await context.list_roots())

    @app.tool()
    async def everything(context: Context) -> str:
        name = await context.elicit("Name?", str, key="name")
        answer = await context.sample("Hello?", max_tokens=5, key="model")
        roots = await context.list_roots(key="roots")
        return f"{name.data} {answer.text} {len(roots)}"

    return app


BOTH = pytest.mark.parametrize("revision", [NOVEMBER, LATEST])
EVERYWHERE = pytest.mark.parametrize(
    ("way", "revision"), [(w, r) for w in ("memory", "http") for r in (NOVEMBER, LATEST)]
)


async def ask(
    way: str,
    revision: str,
    tool: str,
    arguments: Mapping[str, Any] | None = None,
    timeout: float = 60.0,
    **options: Any,
) -> str:
    """Call a tool of a server that asks, and return the text of its result."""
    async with served(way, make_asker(), revision, timeout=timeout, handlers=Handlers(**options)) as client:
        result = await client.call_tool(tool, arguments)
        return str(result.content[0].text)


@EVERYWHERE
async def test_a_form_is_filled_in_and_what_is_left_out_is_as_the_server_suggests(way: str, revision: str) -> None:
    seen: list[Form] = []

    async def fill_in(form: Form) -> dict[str, Any]:
        seen.append(form)
        return {"name": "Ada", "room": "large"}

    told = await ask(way, revision, "visit", elicit_form=fill_in)
    assert told == "accept: Visit(name='Ada', days=3, quiet=True, room='large')"
    (form,) = seen
    assert form.message == "Who comes?"
    assert form.server.startswith("asker (")
    assert set(form.fields) == {"name", "days", "quiet", "room"}
    assert form.defaults == {"days": 3, "quiet": True, "room": "small"}


@BOTH
@pytest.mark.parametrize(
    ("answer", "told"),
    [(None, "decline"), (ElicitResult(action="cancel"), "cancel"), (ElicitResult(action="decline"), "decline")],
)
async def test_a_form_may_be_declined_and_cancelled(revision: str, answer: Any, told: str) -> None:
    async def decline(form: Form) -> Any:
        return answer

    assert (await ask("memory", revision, "visit", elicit_form=decline)).startswith(told)


@BOTH
async def test_answers_that_do_not_match_the_form_are_not_sent(revision: str, caplog: pytest.LogCaptureFixture) -> None:
    async def fill_in(form: Form) -> dict[str, Any]:
        return {"name": 7}

    async with Client(make_asker(), revision=revision, handlers=Handlers(elicit_form=fill_in)) as client:
        if client.session.stateless:
            with pytest.raises(ConfigError, match="does not match the form"):
                await client.call_tool("visit")
        else:
            assert (await client.call_tool("visit")).is_error
            assert "does not match the form" in caplog.text


@BOTH
async def test_a_page_is_shown_and_never_opened(revision: str) -> None:
    seen: list[URLElicitation] = []

    async def agree(page: URLElicitation) -> bool:
        seen.append(page)
        return True

    assert "accept" in await ask("memory", revision, "page", elicit_url=agree)
    assert (seen[0].url, seen[0].host, seen[0].suspicious) == ("https://example.org/pay?id=1", "example.org", False)


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("https://example.org/a?b=c", True),
        ("http://localhost:8000/", True),
        ("http://127.0.0.1/", True),
        ("http://[::1]:80/", True),
        ("http://example.org/", False),
        ("javascript:alert(1)", False),
        ("file:///etc/passwd", False),
        ("data:text/html,x", False),
        ("vbscript:x", False),
        ("https://user:secret@example.org/", False),
        ("https://example.org\\@evil.example/", False),
        ("https:///nowhere", False),
        ("https://exa mple.org/", False),
        ("https://[::1/", False),
        ("https://example.org:port/", False),
        ("smb://example.org/share", False),
        ("https://example.org/\x00", False),
        ("$(calc)", False),
        *(
            (f"https://example.org/{control}", False)
            for control in "\u202e\u2066\u061c\u200b\u200d\ufeff\u2028\x1b\x9b"
        ),
        ("https://exam\u200bple.org/", False),
        ("https://example.org\u202e/", False),
        ("https://exam%E2%80%8Bple.org/", False),
        (f"https://{'ä' * 300}.org/", False),
        ("https://example.org/" + "x" * 10_000, False),
        ("https://bücher.example/", True),
    ],
    ids=ascii,
)
async def test_only_pages_of_safe_addresses_are_shown(url: str, shown: bool) -> None:
    assert may_be_shown(url) == shown


async def test_a_host_that_may_look_like_another_is_marked() -> None:
    for url, host, suspicious in (
        ("https://xn--pple-43d.com/", "xn--pple-43d.com", True),
        ("https://XN--pple-43d.com/", "xn--pple-43d.com", True),
        ("https://аpple.com/", "xn--pple-43d.com", True),
        ("https://exa\uff4dple.com/", "example.com", True),
        ("https://example.com\u3002evil.example/", "example.com.evil.example", True),
        ("https://a.org/\u05d0/gro.elpmaxe", "a.org", True),
        ("https://2130706433/", "2130706433", True),
        ("https://0x7f.1/", "0x7f.1", True),
        ("https://127.1/", "127.1", True),
        ("https://127.0.0.0x1/", "127.0.0.0x1", True),
        ("https://192.0.2.7/", "192.0.2.7", False),
        ("https://[2001:db8::1]/", "2001:db8::1", False),
        ("https://a.org/%E2%80%AE", "a.org", False),
        ("https://a.org/", "a.org", False),
    ):
        page = URLElicitation(Origin(""), "", url, asyncio.Event())
        assert (page.host, page.suspicious) == (host, suspicious)


@EVERYWHERE
async def test_a_model_is_asked(way: str, revision: str) -> None:
    asked: list[CreateMessageParams] = []

    async def sample(params: CreateMessageParams) -> str:
        asked.append(params)
        return "Paris"

    assert await ask(way, revision, "think", sample=sample) == "unknown: Paris"
    assert asked[0].max_tokens == 100


@BOTH
async def test_a_model_may_use_tools_if_it_can(revision: str) -> None:
    async def sample(params: CreateMessageParams) -> CreateMessageResult:
        assert params.tools[0].name == "weather"
        use = ToolUseContent(id="1", name="weather", input={})
        return CreateMessageResult(
            role="assistant", content=[TextContent("Let me see"), use], model="m", stop_reason="toolUse"
        )

    assert await ask("memory", revision, "use_tools", sample=sample, sample_tools=True) == "TextContent,ToolUseContent"


@pytest.mark.parametrize("revision", [OLDEST, JUNE, NOVEMBER, LATEST])
async def test_roots_are_paths_uris_or_a_function(revision: str, tmp_path: Path) -> None:
    root = Root(uri="file:///data", name="data")
    uris = f"{tmp_path.as_uri()} file:///data"
    assert await ask("memory", revision, "where", roots=[tmp_path, root]) == uris

    async def find(_: object) -> list[Any]:
        return [str(tmp_path), "file:///data"]

    assert await ask("memory", revision, "where", roots=find) == uris


@pytest.mark.parametrize(
    "root",
    [
        "https://example.org/",
        "https:example.org",
        "mailto:ada@example.org",
        "file://host/x",
        "FILE:///x/../y",
        "file:/x",
    ],
)
def test_a_root_that_is_no_file_is_refused_at_once(root: str) -> None:
    for given in (root, Root(uri=root)):
        with pytest.raises(ConfigError, match="A root is a path or a"):
            Client(make_asker(), handlers=Handlers(roots=[given]))


def test_roots_are_several() -> None:
    with pytest.raises(ConfigError, match="roots must be a list"):
        Client(make_asker(), handlers=Handlers(roots="file:///data"))


@BOTH
async def test_roots_that_change_are_announced_where_that_is_wanted(revision: str, tmp_path: Path) -> None:
    async with Client(make_asker(), revision=revision, handlers=Handlers(roots=[])) as client:
        assert (await client.call_tool("where")).content[0].text == ""
        await client.change_roots([tmp_path])
        assert (await client.call_tool("where")).content[0].text == tmp_path.as_uri()
    async with Client(make_asker(), revision=revision) as client:
        with pytest.raises(ConfigError, match="without roots"):
            await client.change_roots([tmp_path])


@EVERYWHERE
async def test_several_rounds_of_questions_end_in_one_result(way: str, revision: str) -> None:
    async def fill_in(form: Form) -> dict[str, Any]:
        (field,) = form.fields
        return {field: "Ada"}

    async def sample(params: CreateMessageParams) -> str:
        return "hello"

    told = await ask(way, revision, "everything", elicit_form=fill_in, sample=sample, roots=["."])
    assert told == "Ada hello 1"


@pytest.mark.parametrize("revision", [OLDEST, JUNE, NOVEMBER, LATEST])
@pytest.mark.parametrize("tool", ["visit", "page", "think", "where"])
async def test_requests_without_a_handler_are_refused(tool: str, revision: str) -> None:
    async with Client(make_asker(), revision=revision) as client:
        try:
            result = await client.call_tool(tool)
        except PeerError:
            return
        assert result.is_error is True


async def test_a_form_handler_declares_forms_and_a_page_handler_pages() -> None:
    async def nothing(_: Any) -> None:
        return None

    for options, declared in (
        ({}, {}),
        ({"elicit_form": nothing}, {"elicitation": {"form": {}}}),
        ({"elicit_url": nothing}, {"elicitation": {"url": {}}}),
        ({"sample": nothing}, {"sampling": {}}),
        ({"sample": nothing, "sample_tools": True}, {"sampling": {"tools": {}}}),
        ({"roots": []}, {"roots": {"listChanged": True}}),
    ):
        client: Any = Client(make_asker(), handlers=Handlers(**options))  # type: ignore[arg-type]
        told = msgspec.to_builtins(client.session._capabilities)
        assert told.pop("extensions") == {"io.modelcontextprotocol/tasks": {}}
        assert told == declared


@BOTH
async def test_the_time_limit_does_not_run_while_a_user_is_asked(revision: str) -> None:
    async def think(form: Form) -> dict[str, Any]:
        pass_time(50)
        await asyncio.sleep(0.01)
        return {"name": "Ada"}

    assert (await ask("memory", revision, "visit", elicit_form=think, timeout=40)).startswith("accept")


@pytest.mark.parametrize("revision", [NOVEMBER, LATEST])
@pytest.mark.parametrize(
    "wrong",
    [
        {"role": "system", "content": TextContent("x"), "model": "m"},
        {"role": "assistant", "content": "x", "model": "m"},
        {"role": "assistant", "content": TextContent("x"), "model": None},
        {"role": "assistant", "content": TextContent("x"), "model": "m", "stop_reason": object()},
    ],
    ids=["role", "content", "model", "reason"],
)
async def test_sampling_results_are_checked_before_they_are_sent(
    wrong: dict[str, Any], revision: str, caplog: pytest.LogCaptureFixture
) -> None:
    app = Server("curious")
    calls = []

    @app.tool()
    async def ask(context: Context) -> str:
        return (await context.sample("?", 5)).text

    async def sample(params: CreateMessageParams) -> CreateMessageResult:
        calls.append(params)
        return CreateMessageResult(**wrong)

    async with Client(app, revision=revision, handlers=Handlers(sample=sample)) as client:
        if revision == LATEST:
            with pytest.raises(ConfigError, match="sample returned a CreateMessageResult that the protocol does not"):
                await client.call_tool("ask")
        else:
            assert (await client.call_tool("ask")).is_error
            assert "sample returned a CreateMessageResult that the protocol does not allow" in caplog.text
    assert len(calls) == 1
