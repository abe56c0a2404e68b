"""Prompts: their arguments, their messages, and what is refused."""

from __future__ import annotations

import asyncio
import base64
import enum
from collections.abc import Callable
from typing import Annotated, Any, Literal

import pytest

from carrel import Context, Icon, Server
from carrel.errors import ConfigError, InvalidParams
from carrel.server.prompts import messages_of
from carrel.transports import memory
from carrel.wire.content import AudioContent, EmbeddedResource, ImageContent, ResourceLink, TextContent
from carrel.wire.prompts import GetPromptResult, PromptMessage
from carrel.wire.resources import BlobResourceContents, Resource, TextResourceContents
from support.memory_client import ALL, JUNE, LATEST, MARCH, NOVEMBER, OLDEST, PLAIN, error, listed, result


def user(text: str) -> dict[str, Any]:
    return {"role": "user", "content": {"type": "text", "text": text}}


class Tone(enum.Enum):
    KIND = "kind"
    STERN = "stern"


@pytest.mark.parametrize("revision", ALL)
async def test_a_prompt_is_listed_with_everything_its_revision_has(revision: str) -> None:
    app = Server("s")

    @app.prompt(title="Code review", icons=[Icon("https://example.com/a.png")], meta={"k": 1})
    def review(code: Annotated[str, "What to look at"], language: str = "python") -> str:
        """Review code."""
        return code

    @app.prompt(name="bare", description="No arguments")
    def other() -> str:
        return "x"

    expected: dict[str, Any] = {
        "name": "review",
        "title": "Code review",
        "description": "Review code.",
        "arguments": [
            {"name": "code", "description": "What to look at", "required": True},
            {"name": "language", "required": False},
        ],
        "icons": [{"src": "https://example.com/a.png"}],
        "_meta": {"k": 1},
    }
    if revision in (OLDEST, MARCH, JUNE):
        del expected["icons"]
    if revision in (OLDEST, MARCH):
        del expected["title"], expected["_meta"]
    async with memory.connect(app, revision) as peer:
        assert await listed(peer, "prompts") == [{"name": "bare", "description": "No arguments"}, expected]
        found = await result(peer, "prompts/get", name="review", arguments={"code": "x = 1"})
        assert found["description"] == "Review code."
        assert found["messages"] == [user("x = 1")]


BLOCKS: list[tuple[Any, dict[str, Any]]] = [
    ("text", {"type": "text", "text": "text"}),
    (TextContent("t", meta={"k": 1}), {"type": "text", "text": "t", "_meta": {"k": 1}}),
    (ImageContent(b"\x89", "image/png"), {"type": "image", "data": "iQ==", "mimeType": "image/png"}),
    (AudioContent(b"R", "audio/wav"), {"type": "audio", "data": "Ug==", "mimeType": "audio/wav"}),
    (ResourceLink("a:b", "b"), {"type": "resource_link", "uri": "a:b", "name": "b"}),
    (Resource("a:b", "b"), {"type": "resource_link", "uri": "a:b", "name": "b"}),
    (EmbeddedResource(TextResourceContents("a:b", "t")), {"type": "resource", "resource": {"uri": "a:b", "text": "t"}}),
    (BlobResourceContents("a:b", b"b"), {"type": "resource", "resource": {"uri": "a:b", "blob": "Yg=="}}),
    ({"some": "data"}, {"type": "text", "text": '{"some":"data"}'}),
    (5, {"type": "text", "text": "5"}),
]


@pytest.mark.parametrize(("value", "block"), BLOCKS)
async def test_every_type_of_content_becomes_a_message(value: Any, block: dict[str, Any]) -> None:
    app = Server("s")
    app.prompts.add(lambda: value, name="one")
    app.prompts.add(lambda: [value, {"role": "assistant", "content": value}], name="two")
    async with memory.connect(app) as peer:
        assert (await result(peer, "prompts/get", name="one"))["messages"] == [{"role": "user", "content": block}]
        assert (await result(peer, "prompts/get", name="two"))["messages"] == [
            {"role": "user", "content": block},
            {"role": "assistant", "content": block},
        ]


@pytest.mark.parametrize("way", ["sync", "async", "waiting"])
async def test_a_conversation_may_be_written_in_many_ways(way: str) -> None:
    value: Any = [
        "first",
        PromptMessage("assistant", TextContent("second")),
        {"role": "user", "content": "third"},
        ["fourth", ("fifth",)],
    ]
    app = Server("s")

    def sync() -> Any:
        return value

    async def immediate() -> Any:
        return value

    async def waiting() -> Any:
        await asyncio.sleep(0)
        return value

    app.prompts.add({"sync": sync, "async": immediate, "waiting": waiting}[way], name="p")
    async with memory.connect(app) as peer:
        found = (await result(peer, "prompts/get", name="p"))["messages"]
        assert [(message["role"], message["content"]["text"]) for message in found] == [
            ("user", "first"),
            ("assistant", "second"),
            ("user", "third"),
            ("user", "fourth"),
            ("user", "fifth"),
        ]


async def test_a_whole_result_is_taken_as_it_is() -> None:
    app = Server("s")
    app.prompts.add(
        lambda: GetPromptResult(description="own", messages=[], meta={"k": 1}), name="p", description="listed"
    )
    async with memory.connect(app) as peer:
        found = await result(peer, "prompts/get", name="p")
        assert (found["description"], found["messages"], found["_meta"]["k"]) == ("own", [], 1)


async def test_older_clients_get_what_they_know_instead() -> None:
    app = Server("s")
    app.prompts.add(lambda: [AudioContent(b"R", "audio/wav"), ResourceLink("a:b", "b")], name="p")
    async with memory.connect(app, OLDEST) as peer:
        audio, link = [message["content"] for message in (await result(peer, "prompts/get", name="p"))["messages"]]
        assert base64.b64decode(audio["resource"]["blob"]) == b"R"
        assert link["type"] == "text"


async def test_arguments_have_the_types_of_the_parameters() -> None:
    app = Server("s")
    seen: list[Any] = []

    @app.prompt()
    async def p(
        text: str, count: int = 1, exact: bool = False, tone: Tone = Tone.KIND, size: Literal["s", "l"] = "s"
    ) -> str:
        seen.append((text, count, exact, tone, size))
        return "ok"

    async with memory.connect(app) as peer:
        await result(peer, "prompts/get", name="p", arguments={"text": "5"})
        given = {"text": "x", "count": "3", "exact": "true", "tone": "stern", "size": "l"}
        await result(peer, "prompts/get", name="p", arguments=given)
        assert seen == [("5", 1, False, Tone.KIND, "s"), ("x", 3, True, Tone.STERN, "l")]
        for name, bad in {"count": "many", "exact": "perhaps", "tone": "loud", "size": "xl"}.items():
            found = await error(peer, "prompts/get", name="p", arguments={"text": "x", name: bad})
            assert found["code"] == -32602
            assert name in found["message"]
    assert len(seen) == 2


@pytest.mark.parametrize("revision", ALL)
async def test_missing_or_unknown_prompt_arguments_are_named(revision: str) -> None:
    app = Server("s")

    @app.prompt()
    def p(needed: str, other: str = "") -> str:
        return needed

    async with memory.connect(app, revision) as peer:
        for params, named in (
            ({"name": "q"}, "q"),
            ({"name": ""}, "unknown prompt"),
            ({"name": "p"}, "needed"),
            ({"name": "p", "arguments": {}}, "needed"),
            ({"name": "p", "arguments": {"needed": "x", "more": "y"}}, "more"),
            ({"name": "p", "arguments": {"needed": 5}}, "arguments"),
            ({"name": "p", "arguments": {"needed": "x", "z" * 100_000: "y"}}, "zzz"),
        ):
            found = await error(peer, "prompts/get", **params)
            assert found["code"] == -32602
            assert named in found["message"]
            assert len(found["message"]) < 500


async def test_arguments_of_any_name_are_welcome_where_the_function_says_so() -> None:
    app = Server("s")

    @app.prompt()
    def p(first: str, **rest: str) -> str:
        return f"{first} {rest}"

    async with memory.connect(app) as peer:
        found = await result(peer, "prompts/get", name="p", arguments={"first": "1", "x": "2"})
        assert found["messages"] == [user("1 {'x': '2'}")]


@pytest.mark.parametrize(
    "make",
    [
        lambda: object(),
        lambda: [object()],
        lambda: {"role": "system", "content": "obey"},
        lambda: {"role": 5, "content": "x"},
        lambda: PromptMessage("robot", TextContent("x")),  # type: ignore[arg-type]
        lambda: "\ud800",
        lambda: 1 / 0,
    ],
)
async def test_an_invalid_prompt_message_is_an_internal_error(
    make: Callable[[], Any], caplog: pytest.LogCaptureFixture
) -> None:
    app = Server("s")
    app.prompts.add(make, name="p")
    async with memory.connect(app) as peer:
        assert await error(peer, "prompts/get", name="p") == PLAIN
    assert len(caplog.records) == 1


async def test_a_prompt_may_refuse_with_an_error_of_the_protocol() -> None:
    app = Server("s")

    @app.prompt()
    async def p(word: str) -> str:
        raise InvalidParams("not that word")

    async with memory.connect(app) as peer:
        found = await error(peer, "prompts/get", name="p", arguments={"word": "x"})
        assert found == {"code": -32602, "message": "not that word"}


async def test_prompts_come_and_go_while_the_server_runs() -> None:
    app = Server("s", page_size=1)
    app.prompts.add(lambda: "1", name="a")
    async with memory.connect(app) as peer:
        app.prompts.add(lambda: "2", name="b")
        app.prompts.add(lambda: "one", name="a", title="New", replace=True)
        assert [(prompt["name"], prompt.get("title")) for prompt in await listed(peer, "prompts")] == [
            ("a", "New"),
            ("b", None),
        ]
        app.prompts.remove("a")
        assert [prompt["name"] for prompt in await listed(peer, "prompts")] == ["b"]
        assert (await error(peer, "prompts/get", name="a"))["code"] == -32602
        with pytest.raises(KeyError):
            app.prompts.remove("a")


def test_a_name_is_taken_once_and_the_decorator_needs_no_parentheses() -> None:
    app = Server("s")
    app.prompts.add(lambda: "", name="x")
    with pytest.raises(ConfigError, match="already"):
        app.prompts.add(lambda: "", name="x")

    @app.prompt
    def bare() -> str:
        return "text"

    assert bare() == "text"
    with pytest.raises(ConfigError, match="already"):
        app.prompt(bare)


async def test_a_prompt_may_know_who_asks_and_can_still_be_called() -> None:
    app = Server("s")

    @app.prompt()
    async def p(word: str, context: Context | None = None) -> str:
        """Say it."""
        return f"{word} {context.revision if context else ''}"

    async with memory.connect(app, NOVEMBER) as peer:
        (prompt,) = await listed(peer, "prompts")
        assert [argument["name"] for argument in prompt["arguments"]] == ["word"]
        found = await result(peer, "prompts/get", name="p", arguments={"word": "hi"})
        assert found["messages"] == [user(f"hi {NOVEMBER}")]
    assert await p("hi") == "hi "
    assert p.__doc__ == "Say it."


def test_messages_of_keeps_messages_as_they_are() -> None:
    message = PromptMessage("assistant", TextContent("x"))
    assert messages_of(message) == [message]
    assert messages_of([]) == []
    assert LATEST
