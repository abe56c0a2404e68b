"""Files of a git repository are in the index, though its list has them not; a commit brings the index up to date."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from carrel import Server, sources
from carrel.catalog.paging import all_of
from carrel.catalog.provider import Provider, Request
from carrel.sources.git.reader import GitReader
from search.indexed import names, searching
from support.git import Repository


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    made = Repository(tmp_path / "shop")
    for name, text in (("src/deep/whale.py", "import sea\n\n\ndef breach():\n    pass\n"), ("a.md", "# Lamps\n")):
        path = made.path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    (made.path / "link").symlink_to("a.md")
    made.run("add", ".")
    made.run("commit", "-q", "-m", "First")
    return made


def server(repository: Repository) -> tuple[Server, Provider]:
    app, provider = Server("s"), sources.open(f"git:{repository.path}")
    app.add_provider(provider)
    return app, provider


async def test_files_at_head_are_found_and_their_list_has_pages(repository: Repository, tmp_path: Path) -> None:
    app, provider = server(repository)
    async with searching(app, tmp_path / "cache") as (index, _):
        hit = (await index.search("breach", mime_type="text/*")).hits[0]
        assert hit.resource.uri == "git://shop/file/HEAD/src/deep/whale.py"
        assert (hit.resource.size, hit.line) == (36, 4)
        assert hit.link is not None
        assert hit.link.startswith(f"{hit.resource.uri}?lines=")
        whole = [one.uri async for one in all_of(provider.list_searchable)]
        listed = [one.uri async for one in all_of(provider.list_resources)]
        files = [f"git://shop/file/HEAD/{path}" for path in ("a.md", "link", "src/deep/whale.py")]
        assert whole == [*listed, *files]
        paged, cursor = [], None
        for _ in whole:
            page = await provider.list_searchable(Request(cursor=cursor, limit=1))  # type: ignore[misc]
            paged += [one.uri for one in page.items]
            cursor = page.next_cursor
        assert (paged, cursor) == (whole, None)


@pytest.mark.parametrize("listed", [2000, 0])
async def test_a_commit_brings_the_index_up_to_date(
    repository: Repository, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, listed: int
) -> None:
    monkeypatch.setattr("carrel.search.indexer.LISTED", listed)
    app, _ = server(repository)
    async with searching(app, tmp_path / "cache") as (index, _):
        await app.endpoint.watches.wait_for_list()
        repository.run("mv", "a.md", "b.md")
        (repository.path / "src" / "deep" / "whale.py").write_text("def dive(): pass\n")
        repository.run("add", ".")
        repository.run("commit", "-q", "-m", "Second")
        async with asyncio.timeout(60):
            while names(await index.search("dive")) != ["whale.py"]:
                await asyncio.sleep(0.02)
            await index.settled()
        assert names(await index.search("lamps")) == ["b.md"]
        assert names(await index.search("breach")) == []


async def test_files_that_are_the_same_are_not_read_again(
    repository: Repository, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[str] = []
    before = GitReader.read_resource

    def counted(reader: GitReader, uri: str) -> object:
        read.append(uri)
        return before(reader, uri)

    monkeypatch.setattr(GitReader, "read_resource", counted)
    for expected in (2, 0):
        read.clear()
        async with searching(server(repository)[0], tmp_path / "cache", key="shop") as (index, _):
            assert sum(uri.endswith((".md", ".py")) for uri in read) == expected
            assert names(await index.search("lamps")) == ["a.md"]
