"""Completion of prompt arguments and template variables."""

from __future__ import annotations

import asyncio
import enum
import threading
from collections.abc import Iterator
from typing import Any, Literal
from urllib.parse import quote

import pytest

from carrel import Server
from carrel.catalog.name_search import filter_choices
from carrel.errors import ConfigError, InvalidParams
from carrel.server.completion import limited
from carrel.transports import memory
from carrel.wire.completion import Completion
from support.memory_client import ALL, LATEST, OLDEST, PLAIN, complete, error, result
from support.processor_time import loops


class Colour(enum.Enum):
    RED = "red"
    GREEN = "green"


@pytest.mark.parametrize("revision", ALL)
async def test_variables_and_arguments_are_completed_by_functions(revision: str) -> None:
    app = Server("s")

    @app.resource("book://{author}/{title}")
    async def book(author: str, title: str) -> str:
        return ""

    @book.complete("author")
    async def authors(prefix: str, context: dict[str, str]) -> list[str]:
        await asyncio.sleep(0)
        return [name for name in ("Lem", "Le Guin", "Lessing") if name.startswith(prefix)]

    @app.prompt()
    def review(code: str, language: str) -> str:
        return code

    @review.complete("language")
    def languages(prefix: str) -> list[str]:
        return [name for name in ("python", "pytorch", "rust") if name.startswith(prefix)]

    async with memory.connect(app, revision) as peer:
        assert await complete(peer, "book://{author}/{title}", "author", "Le") == {
            "values": ["Lem", "Le Guin", "Lessing"],
            "total": 3,
            "hasMore": False,
        }
        assert (await complete(peer, "book://{author}/{title}", "author", "Lem"))["values"] == ["Lem"]
        assert (await complete(peer, "review", "language", "py"))["values"] == ["python", "pytorch"]
        assert (await complete(peer, "review", "code", "x"))["values"] == []
        assert (await complete(peer, "book://{author}/{title}", "title", "x"))["values"] == []


async def test_the_earlier_arguments_are_the_context() -> None:
    app = Server("s")
    books = {"lem": ["solaris", "fiasco"], "leguin": ["the dispossessed"]}

    @app.resource("book://{author}/{title}")
    async def book(author: str, title: str) -> str:
        return ""

    @book.complete("title")
    async def titles(prefix: str, context: dict[str, str]) -> list[str]:
        return books.get(context.get("author", ""), [])

    async with memory.connect(app) as peer:
        template = "book://{author}/{title}"
        assert (await complete(peer, template, "title", author="lem"))["values"] == ["solaris", "fiasco"]
        assert (await complete(peer, template, "title", author="leguin"))["values"] == ["the dispossessed"]
        assert (await complete(peer, template, "title"))["values"] == []


async def test_parameters_with_few_values_complete_themselves() -> None:
    app = Server("s")

    @app.resource("x://{colour}/{size}/{n}")
    async def member(colour: Colour, size: Literal["small", "large", "extra large"], n: Literal[1, 2]) -> str:
        return ""

    @app.prompt()
    def p(exact: bool, colour: Colour | None = None, free: str = "") -> str:
        return ""

    async with memory.connect(app) as peer:
        template = "x://{colour}/{size}/{n}"
        assert (await complete(peer, template, "colour"))["values"] == ["red", "green"]
        assert (await complete(peer, template, "colour", "GR"))["values"] == ["green"]
        assert (await complete(peer, template, "size", "la"))["values"] == ["large", "extra large"]
        assert (await complete(peer, template, "n"))["values"] == ["1", "2"]
        assert set((await complete(peer, "p", "exact"))["values"]) == {"true", "false"}
        assert (await complete(peer, "p", "colour", "r"))["values"] == ["red", "green"]
        assert (await complete(peer, "p", "free", "r"))["values"] == []


async def test_suggested_values_name_resources_that_can_be_read() -> None:
    app = Server("s")

    @app.resource("x://{value}")
    async def member(value: Literal["a b", "c/d", "é"]) -> str:
        return value

    async with memory.connect(app) as peer:
        for value in (await complete(peer, "x://{value}", "value"))["values"]:
            found = await result(peer, "resources/read", uri=f"x://{quote(value, safe='')}")
            assert found["contents"][0]["text"] == value


@pytest.mark.parametrize("count", [0, 1, 99, 100, 101, 5000])
async def test_at_most_100_values_travel_and_the_rest_is_counted(count: int) -> None:
    app = Server("s")

    @app.prompt()
    def p(a: str) -> str:
        return ""

    @p.complete("a")
    def values(prefix: str) -> list[str]:
        return [str(number) for number in range(count)]

    async with memory.connect(app) as peer:
        found = await complete(peer, "p", "a")
        assert len(found["values"]) == min(count, 100)
        assert (found["total"], found["hasMore"]) == (count, count > 100)


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (None, {"values": [], "total": 0, "hasMore": False}),
        (("a", "b"), {"values": ["a", "b"], "total": 2, "hasMore": False}),
        ([1, Colour.RED.value], {"values": ["1", "red"], "total": 2, "hasMore": False}),
        (Completion(["a"], has_more=True), {"values": ["a"], "hasMore": True}),
        (Completion(["a"], total=7), {"values": ["a"], "total": 7}),
        (Completion(["x"] * 101), {"values": ["x"] * 100, "total": 101, "hasMore": True}),
        (Completion(["x"] * 101, total=9000), {"values": ["x"] * 100, "total": 9000, "hasMore": True}),
        ("lem", {"values": ["lem"], "total": 1, "hasMore": False}),
    ],
)
async def test_a_completer_may_answer_in_many_ways(given: Any, expected: Any) -> None:
    app = Server("s")

    @app.prompt()
    def p(a: str) -> str:
        return ""

    @p.complete("a")
    async def values(prefix: str) -> Any:
        return given

    async with memory.connect(app) as peer:
        assert await complete(peer, "p", "a") == expected


async def test_a_completer_may_be_a_generator_a_method_or_a_lambda() -> None:
    class Shelf:
        def titles(self, prefix: str, context: dict[str, str]) -> list[str]:
            return [f"{prefix}{context['b']}"]

        async def later(self, prefix: str) -> list[str]:
            return [prefix]

    app = Server("s")

    @app.prompt()
    def p(a: str, b: str, c: str, d: str) -> str:
        return ""

    @p.complete("a")
    def generate(prefix: str) -> Iterator[str]:
        yield prefix
        yield "more"

    p.complete("b")(Shelf().titles)
    p.complete("c")(lambda prefix: [prefix])
    p.complete("d")(Shelf().later)
    async with memory.connect(app) as peer:
        assert (await complete(peer, "p", "a", "x"))["values"] == ["x", "more"]
        assert (await complete(peer, "p", "b", "x", b="y"))["values"] == ["xy"]
        assert (await complete(peer, "p", "c", "x"))["values"] == ["x"]
        assert (await complete(peer, "p", "d", "x"))["values"] == ["x"]


async def test_sync_completers_run_off_the_event_loop() -> None:
    app = Server("s")
    loop = threading.get_ident()

    @app.prompt()
    def p(a: str) -> str:
        return ""

    @p.complete("a")
    def values(prefix: str) -> list[str]:
        return [str(threading.get_ident() == loop)]

    async with memory.connect(app) as peer:
        assert (await complete(peer, "p", "a"))["values"] == ["False"]


@pytest.mark.parametrize("revision", [OLDEST, LATEST])
async def test_an_unknown_completion_argument_is_named(revision: str) -> None:
    app = Server("s")

    @app.resource("x://{a}")
    def member(a: Colour) -> str:
        return ""

    @app.prompt()
    def p(a: str) -> str:
        return ""

    app.resources.add("x://fixed", "text")
    argument = {"name": "a", "value": ""}
    async with memory.connect(app, revision) as peer:
        for ref, wanted, named in (
            ({"type": "ref/prompt", "name": "q"}, argument, "q"),
            ({"type": "ref/prompt", "name": "p"}, {"name": "b", "value": ""}, "b"),
            ({"type": "ref/resource", "uri": "y://{a}"}, argument, "y://{a}"),
            ({"type": "ref/resource", "uri": "x://{a}"}, {"name": "b", "value": ""}, "b"),
            ({"type": "ref/resource", "uri": "x" * 100_000}, argument, "xxx"),
        ):
            found = await error(peer, "completion/complete", ref=ref, argument=wanted)
            assert found["code"] == -32602
            assert named in found["message"]
            assert len(found["message"]) < 2000
        fixed = {"type": "ref/resource", "uri": "x://fixed"}
        assert (await result(peer, "completion/complete", ref=fixed, argument=argument))["completion"]["values"] == []


async def test_where_nothing_completes_the_method_is_not_there() -> None:
    app = Server("s")

    @app.prompt()
    def p(a: str) -> str:
        return ""

    async with memory.connect(app) as peer:
        ref = {"type": "ref/prompt", "name": "p"}
        found = await error(peer, "completion/complete", ref=ref, argument={"name": "a", "value": ""})
        assert found["code"] == -32601
        assert "completions" not in (await result(peer, "server/discover"))["capabilities"]

        @p.complete("a")
        def values(prefix: str) -> list[str]:
            return ["x"]

        assert (await complete(peer, "p", "a"))["values"] == ["x"]
        assert (await result(peer, "server/discover"))["capabilities"]["completions"] == {}


async def test_a_completer_that_fails_is_an_internal_error_or_says_what_is_wrong(
    caplog: pytest.LogCaptureFixture,
) -> None:
    app = Server("s")

    @app.prompt()
    def p(a: str, b: str) -> str:
        return ""

    @p.complete("a")
    def broken(prefix: str) -> list[str]:
        raise OSError("the disk of /secret is full")

    @p.complete("b")
    async def picky(prefix: str) -> list[str]:
        raise InvalidParams("not that")

    async with memory.connect(app) as peer:
        ref = {"type": "ref/prompt", "name": "p"}
        found = await error(peer, "completion/complete", ref=ref, argument={"name": "a", "value": ""})
        assert found == PLAIN
        found = await error(peer, "completion/complete", ref=ref, argument={"name": "b", "value": ""})
        assert found == {"code": -32602, "message": "not that"}
    assert len(caplog.records) == 1


def test_a_completer_needs_something_to_complete() -> None:
    app = Server("s")

    @app.resource("x://{a}")
    def member(a: str) -> str:
        return ""

    @app.resource("x://fixed")
    def fixed() -> str:
        return ""

    with pytest.raises(ConfigError, match="'b'"):
        member.complete("b")
    with pytest.raises(ConfigError):
        fixed.complete("a")


def test_suggestions_that_begin_with_the_value_come_first() -> None:
    assert filter_choices(["abc", "cab", "Abd", "x", "straße"], "ab") == ["abc", "Abd", "cab"]
    assert filter_choices(["STRASSE"], "straß") == ["STRASSE"]
    assert filter_choices(["a", "b"], "") == ["a", "b"]
    many = [f"page {number}" for number in range(100_000)]
    assert filter_choices(many, "page") == many
    assert loops(lambda: filter_choices(many, "page")) < 200
    assert limited(iter(["a"])) == Completion(["a"], total=1, has_more=False)
