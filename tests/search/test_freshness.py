"""The index stays as the resources are: changes, restarts, damage, and two processes."""

from __future__ import annotations

import asyncio
import os
import stat
import sys
from pathlib import Path

import pytest

from carrel import Server, sources
from carrel.catalog.provider import Change, Page, Provider, Request
from carrel.search import store as stores
from carrel.search.index import SearchIndex
from carrel.search.indexer import READS, Progress
from carrel.search.options import SearchOptions
from carrel.transports import memory
from carrel.wire.base import Annotations
from carrel.wire.resources import ReadResourceResult, Resource, TextResourceContents
from search.indexed import names, searching, write
from support.memory_client import error, listed


class Counting(Provider):
    """Provider that counts what is read of it."""

    name = "counting"
    prefixes = ("count://",)

    def __init__(self, stamped: bool = True) -> None:
        self.texts = {
            f"count://{number}": (f"whale {number}", f"2020-01-0{number + 1}T00:00:00Z") for number in range(5)
        }
        self.stamped = stamped
        self.reads: list[str] = []

    def list_resources(self, request: Request) -> Page[Resource]:
        def described(uri: str) -> Resource:
            text, modified = self.texts[uri]
            annotations = Annotations(last_modified=modified) if self.stamped else None
            return Resource(uri, uri[-1], size=len(text), annotations=annotations)

        return Page([described(uri) for uri in sorted(self.texts)] if request.cursor is None else [])

    def read_resource(self, uri: str, request: Request) -> ReadResourceResult:
        self.reads.append(uri)
        return ReadResourceResult(contents=[TextResourceContents(uri, self.texts[uri][0])])


def counted(provider: Counting) -> Server:
    app = Server("counted")
    app.add_provider(provider)
    return app


def cache_of(tmp_path: Path) -> Path:
    """Return the folder of the only index in the cache."""
    (folder,) = (tmp_path / "cache").iterdir()
    return folder


async def found(index: SearchIndex, query: str) -> list[str]:
    await index.settled()
    return sorted(names(await index.search(query, limit=100)))


async def finds(index: SearchIndex, query: str, names: list[str]) -> None:
    """Wait until the index finds these; changes made in one go may become known one after the other."""
    async with asyncio.timeout(60):
        while await found(index, query) != names:
            await asyncio.sleep(0.02)


async def changed(index: SearchIndex) -> None:
    """Wait until a change is known of and indexed."""
    await index._wake.wait()
    await index.settled()


async def test_files_that_are_created_changed_and_removed(tmp_path: Path) -> None:
    folder = write(tmp_path / "shared", one_md="lamp", two_md="whale")
    app = Server("s")
    app.add_provider(str(folder))
    async with searching(app, tmp_path / "cache") as (index, _):
        await app.endpoint.watches.wait_for_list()
        write(folder, three_md="a whale")
        await changed(index)
        await finds(index, "whale", ["three.md", "two.md"])
        write(folder, one_md="whale, too", two_md="lamp")
        await changed(index)
        await finds(index, "whale", ["one.md", "three.md"])
        (folder / "three.md").unlink()
        await changed(index)
        await finds(index, "whale", ["one.md"])


async def test_progress_is_told_until_everything_is_indexed_and_not_of_later_changes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("carrel.search.indexer.REPORT", -1.0)  # after each batch
    provider = Counting()
    app = counted(provider)
    told: list[Progress] = []
    index = app.add_search(SearchOptions(folder=str(tmp_path / "cache")), progress=told.append)
    async with memory.connect(app):
        await index.ready()
        first = [(progress.resources, progress.done) for progress in told]
        assert {done for _, done in first[:-1]} == {False}
        assert first[-1] == (5, True)
        for change in ({"count://1"}, None):
            provider.texts["count://1"] = (f"lamp {change}", f"2020-02-01T00:00:0{len(provider.reads)}Z")
            index.on_changes([], {"resources_list_changed": change})
            assert await found(index, f"lamp {change}") == ["1"]
    assert len(told) == len(first)


async def test_resources_that_are_listed_again_while_others_are_indexed_count_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("carrel.search.background.SLOW", 0.01)
    lists, reading, go_on = 0, asyncio.Event(), asyncio.Event()

    class Fast(Counting):
        def list_resources(self, request: Request) -> Page[Resource]:
            nonlocal lists
            lists += request.cursor is None
            return super().list_resources(request)

    class Slow(Counting):
        name = "slow"

        async def read_resource(self, uri: str, request: Request) -> ReadResourceResult:  # type: ignore[override]
            reading.set()
            await go_on.wait()
            return super().read_resource(uri, request)

    app = counted(Fast())
    app.add_provider(Slow())
    told: list[Progress] = []
    index = app.add_search(SearchOptions(folder=str(tmp_path / "cache")), progress=told.append)
    async with memory.connect(app), asyncio.timeout(60):
        await reading.wait()
        while not lists:
            await asyncio.sleep(0.01)
        index.on_changes((), {"resources_list_changed": None})
        while lists < 2:
            await asyncio.sleep(0.01)
        go_on.set()
        await index.ready()
    assert (told[-1].resources, told[-1].done) == (10, True)


async def test_files_of_a_large_source_that_are_touched_binary_or_moved(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("carrel.search.indexer.LISTED", 0)
    folder = write(tmp_path / "shared", same_md="whale")
    (folder / "photo.png").write_bytes(b"\x89PNG\r\n\x1a\n\0")
    app = Server("s")
    app.add_provider(str(folder))
    async with searching(app, tmp_path / "cache") as (index, _):
        await app.endpoint.watches.wait_for_list()
        write(folder, same_md="whale")
        await changed(index)
        await finds(index, "whale", ["same.md"])
        (folder / "photo.png").rename(folder / "picture.png")
        await changed(index)
        await finds(index, "picture", ["picture.png"])
        await finds(index, "photo", [])
        (folder / "inner").mkdir()
        (folder / "same.md").rename(folder / "inner" / "moved.md")
        await changed(index)
        await finds(index, "whale", ["moved.md"])


async def test_changes_in_a_source_too_large_to_be_listed_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("carrel.search.indexer.LISTED", 1)
    await test_files_that_are_created_changed_and_removed(tmp_path)


async def test_resources_that_are_added_replaced_and_removed_in_python(tmp_path: Path) -> None:
    app = Server("s")
    app.resources.add("x://one", "lamp")
    async with searching(app, tmp_path / "cache") as (index, _):
        app.resources.add("x://two", "whale", title="The second")
        await changed(index)
        await finds(index, "second", ["two"])
        app.resources.replace("x://one", "whale")
        await changed(index)
        await finds(index, "whale", ["one", "two"])
        app.resources.remove("x://two")
        await changed(index)
        await finds(index, "whale", ["one"])


async def test_a_provider_that_is_added_and_removed_later(tmp_path: Path) -> None:
    app = Server("s")
    async with searching(app, tmp_path / "cache") as (index, _):
        provider = Counting()
        await app.add_provider(provider)
        await changed(index)
        await finds(index, "whale", ["0", "1", "2", "3", "4"])
        await app.remove_provider(provider)
        assert names(await index.search("whale")) == []


class Hanging(Counting):
    """Provider whose resources cannot be read until it is released."""

    name = "hanging"
    prefixes = ("hang://",)

    def __init__(self) -> None:
        super().__init__()
        self.texts = {"hang://1": ("whale", "2020-01-01T00:00:00Z")}
        self.asked, self.released = asyncio.Event(), asyncio.Event()

    async def read_resource(self, uri: str, request: Request) -> ReadResourceResult:
        if not self.released.is_set():
            self.asked.set()
        await self.released.wait()
        return super().read_resource(uri, request)


async def test_a_provider_that_hangs_does_not_delay_the_others(tmp_path: Path) -> None:
    app, hanging = Server("slow"), Hanging()
    app.add_provider(hanging)
    app.add_provider(Counting())
    index = app.add_search(SearchOptions(folder=str(tmp_path / "cache")))
    async with memory.connect(app):
        while not (found := await index.search("whale")).hits:
            await asyncio.sleep(0.05)
        assert not found.complete
        assert {hit.source for hit in found.hits} == {"counting"}
        hanging.released.set()
        await index.ready()
        assert {hit.source for hit in (await index.search("whale")).hits} == {"counting", "hanging"}


@pytest.mark.parametrize("first", [True, False])
async def test_changes_of_others_are_indexed_while_a_provider_hangs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, first: bool
) -> None:
    """It hangs from the start, or when one of its resources has changed."""
    monkeypatch.setattr("carrel.search.background.SLOW", 0.05)
    app, hanging, counting = Server("slow"), Hanging(), Counting()
    if not first:
        hanging.released.set()
    app.add_provider(hanging)
    app.add_provider(counting)
    index = app.add_search(SearchOptions(folder=str(tmp_path / "cache")))
    async with memory.connect(app):
        if not first:
            await index.ready()
            hanging.released.clear()
            hanging.texts["hang://1"] = ("lamp", "2021-01-01T00:00:00Z")
            index.on_changes([Change("changed", "hang://1"), Change("changed", "hang://2")], {})
        await hanging.asked.wait()
        for word, changes in {"oil": [Change("changed", "count://1")], "harpoon": []}.items():
            counting.texts["count://1"] = (word, f"2021-01-01T00:00:0{len(word)}Z")
            index.on_changes(changes, {} if changes else {"resources_list_changed": None})
            async with asyncio.timeout(60):
                while names(await index.search(word)) != ["1"]:
                    await asyncio.sleep(0.02)
        assert not index._settled.is_set()
        hanging.texts["hang://1"] = ("anchor", "2022-01-01T00:00:00Z")
        index.on_changes([Change("changed", "hang://1")], {})
        hanging.released.set()
        await index.ready()
        await finds(index, "anchor", ["1"])
        await finds(index, "lamp", [])


async def test_after_a_restart_only_what_has_changed_is_read(tmp_path: Path) -> None:
    provider = Counting()
    async with searching(counted(provider), tmp_path / "cache") as (index, _):
        assert len(await found(index, "whale")) == 5
    provider.reads.clear()
    provider.texts["count://2"] = ("lamp", "2021-01-01T00:00:00Z")
    provider.texts["count://7"] = ("whale", "2021-01-01T00:00:00Z")
    del provider.texts["count://4"]
    async with searching(counted(provider), tmp_path / "cache") as (index, _):
        assert sorted(provider.reads) == ["count://2", "count://7"]
        assert await found(index, "whale") == ["0", "1", "3", "7"]
        assert await found(index, "lamp") == ["2"]


async def test_without_stamps_everything_is_read_and_only_what_differs_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    provider = Counting(stamped=False)
    async with searching(counted(provider), tmp_path / "cache"):
        pass
    provider.reads.clear()
    provider.texts["count://2"] = ("lamp", "")
    written: list[str] = []
    write_all = stores.IndexStore.write

    def spied(self: stores.IndexStore, put: object, removed: object = ()) -> None:
        written.extend(each[0].uri for each in put)  # type: ignore[attr-defined]
        write_all(self, put, removed)  # type: ignore[arg-type]

    monkeypatch.setattr(stores.IndexStore, "write", spied)
    async with searching(counted(provider), tmp_path / "cache") as (index, _):
        assert len(provider.reads) == 5
        assert written == ["count://2"]
        assert await found(index, "lamp") == ["2"]


async def test_what_was_read_right_after_a_change_is_read_again(tmp_path: Path) -> None:
    folder = write(tmp_path / "shared", one_md="lamp")
    for text in ("lamp", "oils"):  # of the same size, within the same second
        (folder / "one.md").write_text(text)
        os.utime(folder / "one.md")
        app = Server("s")
        app.add_provider(str(folder))
        async with searching(app, tmp_path / "cache") as (index, _):
            assert await found(index, text) == ["one.md"]


def cut_terms(folder: Path) -> None:
    victim = max((folder / "terms").glob("*.term"), key=lambda path: path.stat().st_size)
    victim.write_bytes(victim.read_bytes()[:-20])


def flip_postings(folder: Path) -> None:
    victim = max((folder / "terms").glob("*.fast"), key=lambda path: path.stat().st_size)
    data = bytearray(victim.read_bytes())
    data[3] ^= 0xFF
    victim.write_bytes(data)


def remove_terms(folder: Path) -> None:
    for path in (folder / "terms").iterdir():
        path.unlink()


def garble_meta(folder: Path) -> None:
    (folder / "terms" / "meta.json").write_text("{")


def garble_manifest(folder: Path) -> None:
    (folder / "manifest.sqlite").write_bytes(b"not a database at all" * 1000)


def remove_manifest(folder: Path) -> None:
    (folder / "manifest.sqlite").unlink()


@pytest.mark.parametrize(
    "damage", [cut_terms, flip_postings, remove_terms, garble_meta, garble_manifest, remove_manifest]
)
async def test_a_damaged_index_is_made_anew(tmp_path: Path, damage: object) -> None:
    provider = Counting()
    async with searching(counted(provider), tmp_path / "cache"):
        pass
    provider.reads.clear()
    damage(cache_of(tmp_path))  # type: ignore[operator]
    async with searching(counted(provider), tmp_path / "cache") as (index, _):
        assert len(await found(index, "whale")) == 5
        assert len(provider.reads) == 5


async def test_files_of_a_segment_that_was_not_committed_damage_no_index(tmp_path: Path) -> None:
    provider = Counting()
    async with searching(counted(provider), tmp_path / "cache"):
        pass
    provider.reads.clear()
    cut = cache_of(tmp_path) / "terms" / f"{'0' * 32}.fieldnorm"  # the process was killed while it wrote the file
    cut.write_bytes(b"0")
    async with searching(counted(provider), tmp_path / "cache") as (index, _):
        assert len(await found(index, "whale")) == 5
        assert provider.reads == []


async def test_an_index_of_another_version_is_made_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    provider = Counting()
    async with searching(counted(provider), tmp_path / "cache"):
        pass
    monkeypatch.setattr(stores, "FORMAT", "0")
    provider.reads.clear()
    async with searching(counted(provider), tmp_path / "cache") as (index, _):
        assert len(provider.reads) == 5
        assert len(await found(index, "whale")) == 5


async def test_what_was_not_committed_when_the_process_died_is_indexed_again(tmp_path: Path) -> None:
    provider = Counting()
    async with searching(counted(provider), tmp_path / "cache") as (index, _):
        provider.texts["count://8"] = ("whale", "2021-01-01T00:00:00Z")
        index.on_changes((), {"resources_list_changed": None})
        await index.settled()
        assert index._store is not None
        index._store.manifest._database.execute("ROLLBACK")  # the terms are written, the manifest's next change is not
        index._store.manifest._database.execute("BEGIN")
        index._store.manifest._database.execute("DELETE FROM resources WHERE resource LIKE '%count://8%'")
        index._store.manifest.commit()
    async with searching(counted(provider), tmp_path / "cache") as (index, _):
        assert len(await found(index, "whale")) == 6


async def test_two_processes_share_an_index_of_which_one_changes_it(tmp_path: Path) -> None:
    first, second = Counting(), Counting()
    async with (
        searching(counted(first), tmp_path / "cache") as (writer, _),
        searching(counted(second), tmp_path / "cache") as (reader, _),
    ):
        assert (writer.writes, reader.writes) == (True, False)
        assert len(await found(reader, "whale")) == 5
        first.texts["count://9"] = second.texts["count://9"] = ("whale", "2021-01-01T00:00:00Z")
        writer.on_changes((), {"resources_list_changed": None})
        assert len(await found(writer, "whale")) == 6
        assert len(await found(reader, "whale")) == 6
        del second.texts["count://9"]  # what this process does not share it does not find
        second.read_resource = _missing(second)  # type: ignore[method-assign]
        assert len(await found(reader, "whale")) == 5


def _missing(provider: Counting):  # type: ignore[no-untyped-def]
    from carrel.errors import ResourceNotFound

    def read(uri: str, request: Request) -> ReadResourceResult:
        if uri not in provider.texts:
            raise ResourceNotFound(uri)
        return Counting.read_resource(provider, uri, request)

    return read


class Slow(Counting):
    """Provider whose resources can be read from a moment on."""

    def __init__(self) -> None:
        super().__init__()
        self.asked, self.go = asyncio.Event(), asyncio.Event()

    async def read_resource(self, uri: str, request: Request) -> ReadResourceResult:  # type: ignore[override]
        self.asked.set()
        await self.go.wait()
        return super().read_resource(uri, request)


async def test_the_second_process_is_complete_when_the_first_one_is(tmp_path: Path) -> None:
    slow = Slow()
    app, other = counted(slow), counted(Counting())
    options = SearchOptions(folder=str(tmp_path / "cache"))
    writer, reader = app.add_search(options), other.add_search(options)
    async with memory.connect(app):
        await slow.asked.wait()
        async with memory.connect(other):
            for _ in range(3):  # it opens the index, and asks whether it is complete
                await reader._run(lambda: None)
            assert reader._store is not None
            assert (reader.writes, reader.complete) == (False, False)
            assert not (await reader.search("whale")).complete
            slow.go.set()
            await writer.ready()
            reader._wake.set()
            await reader.ready()
            found = await reader.search("whale")
            assert (len(found.hits), found.complete) == (5, True)


async def test_the_second_process_follows_when_the_first_makes_the_index_anew(tmp_path: Path) -> None:
    async with (
        searching(counted(Counting()), tmp_path / "cache") as (writer, _),
        searching(counted(Counting()), tmp_path / "cache") as (reader, _),
    ):
        assert writer._store is not None
        await writer._run(writer._store.rebuild, "for a test")
        writer.on_changes((), {"resources_list_changed": None})
        await writer.settled()
        assert not (await reader.search("whale")).complete
        await reader.ready()
        assert len(await found(reader, "whale")) == 5


async def test_few_resources_are_in_memory_at_a_time_where_their_sizes_are_not_known(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A batch is read while the one before is written, and each has only a few of such resources."""
    app = Server("s")
    held = most = 0

    def made() -> str:
        nonlocal held, most
        held += 1
        most = max(most, held)
        return "whale"

    write_all = stores.IndexStore.write

    def written(self: stores.IndexStore, put: object, removed: object = ()) -> None:
        nonlocal held
        write_all(self, put, removed)  # type: ignore[arg-type]
        held -= len(put)  # type: ignore[arg-type]

    monkeypatch.setattr(stores.IndexStore, "write", written)
    for number in range(100):
        app.resources.add(f"x://{number}", made)
    async with searching(app, tmp_path / "cache") as (index, _):
        assert len(await found(index, "whale")) == 100
        assert held == 0
        assert most <= 2 * READS


async def test_an_index_in_a_shared_folder_is_neither_shared_nor_indexed(tmp_path: Path) -> None:
    folder = write(tmp_path / "shared", one_md="whale")
    app = Server("s")
    app.add_provider(sources.open(str(folder), hidden=True, gitignore=False))
    async with searching(app, folder / "cache") as (index, peer):
        assert list(folder.glob("cache/*/manifest.sqlite"))
        assert [each["name"] for each in await listed(peer, "resources")] == ["shared", "one.md"]
        for name in ("manifest.sqlite", "terms/meta.json", ""):
            path = next(folder.glob("cache/*")) / name
            assert "code" in await error(peer, "resources/read", uri=path.as_uri())
        index.on_changes((), {"resources_list_changed": None})
        assert await found(index, "whale") == ["one.md"]
        assert await found(index, "manifest") == []


async def test_the_second_process_takes_over_when_the_first_ends(tmp_path: Path) -> None:
    provider = Counting()
    app, other = counted(provider), counted(provider)
    async with searching(app, tmp_path / "cache"):
        # The same key, as the interval is not part of what is shared.
        reader = other.add_search(SearchOptions(folder=str(tmp_path / "cache")), key=None)
        async with memory.connect(other):
            await reader.ready()
            assert not reader.writes
            await app.endpoint.stop()
            reader._wake.set()
            while not reader.writes:
                reader._settled.clear()
                await reader.settled()
            assert len(await found(reader, "whale")) == 5
            await app.endpoint.start()


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no such modes")
async def test_only_the_user_may_read_the_index(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        async with searching(counted(Counting()), tmp_path / "cache"):
            folder = cache_of(tmp_path)
            modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in [folder, *folder.rglob("*")]}
            open_to_others = {name: oct(mode) for name, mode in modes.items() if mode & 0o077}
            assert open_to_others == {}
    finally:
        os.umask(before)
