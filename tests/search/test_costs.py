"""Counted costs of a query, which are the same on every machine."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from carrel import Server
from carrel.catalog.provider import Page, Provider, Request
from carrel.errors import ResourceNotFound
from carrel.search import indexer
from carrel.search.store import IndexStore
from carrel.sources.files.source import FilesSource
from carrel.wire.resources import ReadResourceResult, Resource, TextResourceContents
from search.indexed import names, searching, write
from support.memory_client import result

#: Files that all match, and the words of each, which are about 250 tokens.
FILES, WORDS = 60, "The green tea of this garden is dried in the shade, and poured at seventy degrees.\n" * 12


class Counting(FilesSource):
    """Files, with the URIs that are read of them."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.reads: list[str] = []

    async def read_resource(self, uri: str, request: Request) -> ReadResourceResult:
        self.reads.append(uri)
        return await super().read_resource(uri, request)


@asynccontextmanager
async def shelf(tmp_path: Path) -> AsyncIterator[tuple[Counting, Any]]:
    """Run a server with a search over many files, and yield its source and a function that calls the tool."""
    folder = write(tmp_path / "shelf", **{f"tea{number}_md": f"# Tea {number}\n\n{WORDS}" for number in range(FILES)})
    files, app = Counting(folder), Server("shelf")
    app.add_provider(files)
    async with searching(app, tmp_path / "cache") as (_, peer):

        async def search(**arguments: object) -> dict[str, Any]:
            files.reads.clear()
            return await result(peer, "tools/call", name="search", arguments=arguments)

        yield files, search


async def test_no_more_is_read_than_the_hits_and_the_page_show(tmp_path: Path) -> None:
    async with shelf(tmp_path) as (files, search):
        found = await search(query="green tea")
        assert len(found["structuredContent"]["hits"]) == len(files.reads) == 10
        found = await search(query="green tea", limit=3, budget=500)
        assert len(found["structuredContent"]["hits"]) == len(files.reads) == 3
        await search(query="green tea", limit=3, budget=8000)
        assert 25 <= len(files.reads) <= 40


class Vanishing(Provider):
    """Provider whose resources can vanish although its list has them."""

    name = "vanishing"
    prefixes = ("memo://",)
    guards = True

    def __init__(self) -> None:
        self.gone: set[str] = set()

    def list_resources(self, request: Request) -> Page[Resource]:
        return Page([Resource(f"memo://{number}", f"{number}.md", size=1) for number in range(FILES)])

    def read_resource(self, uri: str, request: Request) -> ReadResourceResult:
        if uri in self.gone:
            raise ResourceNotFound(uri)
        number = int(uri.removeprefix("memo://"))
        text = "tea " * (FILES - number) + "pot " * number
        return ReadResourceResult(contents=[TextResourceContents(uri, text)])

    def shows(self, uri: str, request: Request) -> bool:
        return uri not in self.gone


async def test_hits_that_can_be_read_are_found_behind_many_that_cannot(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    looked_up: list[int] = []
    entries = IndexStore.entries

    def counted(store: IndexStore, numbers: Sequence[int]) -> Any:
        looked_up.extend(numbers)
        return entries(store, numbers)

    provider, app = Vanishing(), Server("shelf")
    app.add_provider(provider)
    async with searching(app, tmp_path / "cache") as (index, _):
        monkeypatch.setattr(IndexStore, "entries", counted)
        assert names(await index.search("tea", limit=3)) == ["0.md", "1.md", "2.md"]
        assert len(looked_up) < FILES  # resources that cannot be among the first are not looked up
        provider.gone = {f"memo://{number}" for number in range(55)}
        assert names(await index.search("tea", limit=3)) == ["55.md", "56.md", "57.md"]


async def test_commits_become_rarer_while_many_resources_are_indexed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seconds = [0.0]
    commits: list[float] = []
    write_store, commit = IndexStore.write, IndexStore.commit

    def written(store: IndexStore, *arguments: Any) -> None:
        seconds[0] += 5.0
        write_store(store, *arguments)

    def committed(store: IndexStore) -> None:
        commits.append(seconds[0])
        commit(store)

    monkeypatch.setattr(indexer, "monotonic", lambda: seconds[0])
    monkeypatch.setattr(indexer, "BATCH", 1)
    monkeypatch.setattr(IndexStore, "write", written)
    monkeypatch.setattr(IndexStore, "commit", committed)
    app = Server("shelf")
    app.add_provider(Vanishing())
    async with searching(app, tmp_path / "cache"):
        assert seconds[0] >= FILES * 5.0
    assert commits[0] <= 20.0
    assert 6 <= len(commits) <= 10
