"""Completion by a client: the reference is an object of a list, or text."""

from __future__ import annotations

import pytest

from carrel import Client, Server
from carrel.types import PromptReference, ResourceTemplateReference

TEMPLATE = "book://{author}/{title}"


def library() -> Server:
    app = Server("library")

    @app.resource(TEMPLATE)
    async def book(author: str, title: str) -> str:
        return title

    @book.complete("author")
    async def authors(prefix: str, context: dict[str, str]) -> list[str]:
        return [name for name in ("lem", "le guin") if name.startswith(prefix)]

    @app.prompt
    def praise(author: str) -> str:
        return author

    praise.complete("author")(authors)
    return app


@pytest.mark.parametrize(
    "reference", [TEMPLATE, "praise", ResourceTemplateReference(TEMPLATE), PromptReference("praise")]
)
async def test_a_reference_may_be_text(reference: str | PromptReference | ResourceTemplateReference) -> None:
    async with Client(library()) as client:
        assert (await client.complete(reference, "author", "le ")).values == ["le guin"]


async def test_a_reference_may_be_an_entry_of_a_list() -> None:
    async with Client(library()) as client:
        for entry in (*await client.list_resource_templates(), *await client.list_prompts()):
            assert (await client.complete(entry, "author", "le")).values == ["lem", "le guin"]
