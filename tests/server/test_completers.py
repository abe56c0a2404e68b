"""Completers with a context and dependencies."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Annotated, Any

import pytest

from carrel import Context, Depends, Server
from carrel.errors import ConfigError
from carrel.transports import memory
from support.memory_client import ALL, complete

seen: list[str] = []


async def open_titles() -> AsyncIterator[list[str]]:
    seen.append("open")
    yield ["solaris", "fiasco"]
    seen.append("close")


def revision_of(context: Context) -> str:
    return context.revision


@pytest.mark.parametrize("revision", [revision for revision in ALL if revision >= "2025-06-18"])
async def test_completers_have_a_context_and_dependencies(revision: str) -> None:
    app = Server("books")
    seen.clear()

    @app.resource("book://{author}/{title}")
    def book(author: str, title: str) -> str:
        return title

    @book.complete("title")
    async def titles(value: str, earlier: dict[str, str], found: list[str] = Depends(open_titles)) -> list[str]:
        seen.append("complete")
        return [f"{earlier.get('author')} {title}" for title in found if title.startswith(value)]

    @book.complete("author")
    def authors(value: str, name: Annotated[str, Depends(revision_of)], context: Context) -> Any:
        yield f"{value} {name} {context.revision}"

    template = "book://{author}/{title}"
    async with memory.connect(app, revision) as peer:
        assert (await complete(peer, template, "title", "s", author="lem"))["values"] == ["lem solaris"]
        assert seen == ["open", "complete", "close"]
        assert (await complete(peer, template, "author", "l"))["values"] == [f"l {revision} {revision}"]
        app.dependency_overrides[open_titles] = lambda: ["stars"]
        assert (await complete(peer, template, "title", "s", author="lem"))["values"] == ["lem stars"]


def test_a_completer_takes_what_was_typed() -> None:
    app = Server("books")

    @app.prompt
    def greet(name: str) -> str:
        return name

    with pytest.raises(ConfigError, match="completer nothing: a completer takes the typed text"):

        @greet.complete("name")
        def nothing(found: list[str] = Depends(open_titles)) -> list[str]:
            return found
