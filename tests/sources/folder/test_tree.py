"""Listing a folder: order, pages, cursors, and what a page costs."""

import os
import sys
from binascii import b2a_base64
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from carrel.catalog.paging import _checksum
from carrel.errors import InvalidCursor, ResourceNotFound
from carrel.sources.files.source import FilesSource
from carrel.sources.folder.position import START, TreePosition, position_of
from carrel.sources.folder.sandbox import SandboxRoot
from carrel.sources.folder.selection import FileSelection
from carrel.sources.folder.tree import Tree
from carrel.sources.folder.work import PAGE, Work
from carrel.testing import Caller, belongs, running
from carrel.uri.parse import file_uri

Share = Callable[..., Awaitable[FilesSource]]
Put = Callable[..., Path]


async def test_the_folder_comes_first_then_files_before_directories(put: Put, share: Share) -> None:
    for path in ("b.txt", "a/z.txt", "a/a/x.txt", "c/y.txt", "B.txt", "a.txt", "a-b/x.txt", "ab.txt"):
        put(path)
    source = await share(title="My folder")
    found = await Caller(source).resources(3)
    assert found[0].uri == source.uri
    assert found[0].name == "My folder"
    assert found[0].mime_type == "inode/directory"
    assert [resource.uri.removeprefix(source.uri) for resource in found[1:]] == [
        "/B.txt",
        "/a.txt",
        "/ab.txt",
        "/b.txt",
        "/a/z.txt",
        "/a/a/x.txt",
        "/a-b/x.txt",
        "/c/y.txt",
    ]


async def test_children_are_directories_first(put: Put, share: Share) -> None:
    for path in ("b.txt", "z/x.txt", "a.txt", "a/x.txt", "empty/.hidden"):
        put(path)
    source = await share()
    page = await Caller(source).list_directory(source.uri, None, 10)
    assert [(child.name, child.mime_type) for child in page.items] == [
        ("a", "inode/directory"),
        ("empty", "inode/directory"),
        ("z", "inode/directory"),
        ("a.txt", "text/plain"),
        ("b.txt", "text/plain"),
    ]
    assert page.next_cursor is None


async def test_a_listed_file_has_its_size_type_and_time(put: Put, share: Share) -> None:
    path = put("main.rs", "fn main() {}\n")
    os.utime(path, (1736694058, 1736694058))
    source = await share()
    found = (await Caller(source).resources())[1]
    assert found.name == "main.rs"
    assert found.mime_type == "text/x-rust"
    assert found.size == 13
    assert found.annotations.last_modified == "2025-01-12T15:00:58Z"


@pytest.mark.parametrize("seconds", [-5_000_000_000, 0, 4_000_000_000])
async def test_any_time_a_file_can_have_is_a_time(seconds: int, put: Put, share: Share) -> None:
    os.utime(put("old.txt"), (seconds, seconds))
    source = await share()
    found = (await Caller(source).resources())[1]
    assert found.annotations.last_modified.endswith("Z")


async def test_one_file_can_be_shared_by_itself(folder: Path, put: Put, share: Share) -> None:
    put(".gitignore", "*\n")
    path = put(".hidden.log", "one\ntwo\n")
    put("other.txt")
    source = await share(path)
    [only] = await Caller(source).resources()
    assert (only.uri, only.name, only.size) == (source.uri, ".hidden.log", 8)
    assert (await Caller(source).read_resource(source.uri))[0].text == "one\ntwo\n"
    assert (await Caller(source).read_resource(f"{source.uri}?tail=1"))[0].text == "two\n"
    assert [template.uri_template for template in (await Caller(source).templates())] == [
        f"{source.uri}{{?lines}}",
        f"{source.uri}{{?tail}}",
        f"{source.uri}{{?bytes}}",
    ]
    with pytest.raises(ResourceNotFound):
        await Caller(source).read_resource(f"{source.uri}/x")
    assert not belongs(source, source.uri.replace(".hidden.log", "other.txt"))
    assert [hit.resource.uri for hit in await Caller(source).search("hidden", 5)] == [source.uri]
    assert len(await Caller(source).search("other", 5)) == 0
    with pytest.raises(InvalidCursor):
        await Caller(source).list_resources("x", 5)


def tree_of(folder: Path) -> Tree:
    return Tree(SandboxRoot(str(folder)), FileSelection())


def walk(tree: Tree, limit: int, work: float = PAGE, after: TreePosition | None = START) -> list[str]:
    paths = []
    while after is not None:
        before = after
        entries, after = tree.page(after, limit, Work(work))
        assert after != before, "a page gets nowhere"
        paths += ["/".join(entry.parts) for entry in entries]
    return paths


@given(
    st.sets(st.lists(st.sampled_from("abc"), min_size=1, max_size=4).map(tuple), max_size=25),
    st.lists(st.tuples(st.booleans(), st.lists(st.sampled_from("abc"), min_size=1, max_size=4).map(tuple)), max_size=8),
    st.integers(1, 4),
    st.integers(20, 500),
)
def test_changes_during_a_listing_neither_skip_nor_repeat_other_entries(
    tmp_path_factory: pytest.TempPathFactory, files: set[tuple[str, ...]], events: list[object], limit: int, work: int
) -> None:
    folder = tmp_path_factory.mktemp("tree")

    def create(parts: tuple[str, ...]) -> None:
        path = folder.joinpath(*(f"{part}.d" for part in parts[:-1]), parts[-1])
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()

    def remove(parts: tuple[str, ...]) -> None:
        path = folder.joinpath(*(f"{part}.d" for part in parts[:-1]), parts[-1])
        path.unlink(missing_ok=True)
        for parent in path.parents:
            if parent == folder or not parent.is_dir() or any(parent.iterdir()):
                break
            parent.rmdir()

    for parts in files:
        create(parts)
    tree = tree_of(folder)
    stable = set(walk(tree, 1000))
    seen: list[str] = []
    after: TreePosition | None = START
    waiting = list(events)
    while after is not None:
        entries, after = tree.page(after, limit, Work(work))
        seen += ["/".join(entry.parts) for entry in entries]
        if waiting:
            is_created, parts = waiting.pop()
            (create if is_created else remove)(parts)
            stable -= {"/".join((*(f"{part}.d" for part in parts[:-1]), parts[-1]))}
    assert len(seen) == len(set(seen))
    assert [path for path in seen if path in stable] == [path for path in walk(tree, 1000) if path in stable]
    assert stable <= set(seen)


def test_a_page_does_a_bounded_amount_of_work_and_the_pages_after_it_go_on(folder: Path, put: Put) -> None:
    for number in range(60):
        put(f"empty{number:02}/.hidden")
    for number in range(40):
        put(f"full/{number:02}.o")
    put(".gitignore", "*.o\n")
    put("last/x.txt")
    tree = tree_of(folder)
    entries, after = tree.page(START, 10, Work(100))
    assert entries == []
    assert after is not None
    assert walk(tree, 10, work=100) == ["last/x.txt"]


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder of 1,000 files in 50 directories, with 1,500 more in one."""
    folder = tmp_path_factory.mktemp("large")
    for number in range(50):
        directory = folder / f"directory {number:03}"
        directory.mkdir()
        for inner in range(20):
            (directory / f"file {inner:03}.txt").touch()
    (folder / "flat").mkdir()
    for number in range(1500):
        (folder / "flat" / f"{number:04}.md").touch()
    return folder


class Calls:
    """Counts the calls of functions of ``os`` on this thread."""

    def __init__(self) -> None:
        self.counts: dict[str, int] = {}

    def __enter__(self) -> "Calls":
        sys.setprofile(self._note)
        return self

    def __exit__(self, *_: object) -> None:
        sys.setprofile(None)

    def _note(self, frame: object, event: str, function: object) -> None:
        if event == "c_call":
            name = getattr(function, "__name__", "")
            self.counts[name] = self.counts.get(name, 0) + 1


def test_a_page_costs_the_same_wherever_it_is(large: Path) -> None:
    tree = tree_of(large)
    after: TreePosition | None = START
    costs = []
    total = 0
    while after is not None:
        with Calls() as calls:
            entries, after = tree.page(after, 100)
        total += len(entries)
        costs.append(sum(calls.counts.get(name, 0) for name in ("stat", "open", "scandir", "fstat")))
    assert total == 2500
    assert len(costs) == 25
    # A page of 100 asks for the state of 100 files, and of the directories that it passes.
    assert max(costs) < 170
    assert max(costs[10:]) <= max(costs[:5])


def test_a_directory_is_read_again_only_if_it_has_changed(large: Path) -> None:
    tree = tree_of(large)
    walk(tree, 100)
    with Calls() as calls:
        assert len(walk(tree, 100)) == 2500
    assert calls.counts.get("scandir", 0) == 0
    (large / "flat" / "new.md").touch()
    assert len(walk(tree, 100)) == 2501
    (large / "flat" / "new.md").unlink()
    assert len(walk(tree, 100)) == 2500
    tree.forget()


def test_a_directory_that_changes_twice_within_a_tick_is_not_mistaken(folder: Path, put: Put) -> None:
    tree = tree_of(folder)
    for number in range(100):
        put(f"{number}.txt")
        assert len(walk(tree, 1000)) == number + 1


@given(st.lists(st.text(st.characters(exclude_characters="/\0", exclude_categories=["Cs"]), min_size=1), max_size=5))
def test_a_cursor_leads_back_to_its_position_and_only_in_its_own_list(parts: list[str]) -> None:
    for kind in ("file", "directory", "end") if parts else ("directory",):
        position = TreePosition(kind, tuple(parts))
        cursor = position.cursor("one list")
        assert position_of(cursor, "one list") == position
        assert set(cursor) <= set("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_")
        with pytest.raises(InvalidCursor):
            position_of(cursor, "another")


@given(st.text(max_size=60) | st.binary(max_size=40).map(lambda data: data.hex()))
def test_text_that_is_no_cursor_is_refused(text: str) -> None:
    with pytest.raises(InvalidCursor):
        position_of(text, "a list")


@given(
    st.sampled_from("fdex"),
    st.lists(st.sampled_from(["", ".", "..", "a", "b.txt", ".git", "\0", "a\0b", "\udce9", "x" * 300]), max_size=4),
)
async def test_a_cursor_that_was_made_up_is_refused_or_does_no_harm(
    tmp_path_factory: pytest.TempPathFactory, kind: str, parts: list[str]
) -> None:
    folder = tmp_path_factory.mktemp("root")
    (folder / "a" / "a").mkdir(parents=True)
    (folder / "a" / "b.txt").touch()
    (folder / "b.txt").touch()
    text = "/".join((kind, *parts)).encode("utf-8", "surrogateescape")
    async with running(FilesSource(folder)) as source:
        shared = {resource.uri for resource in await Caller(source).resources()}
        for listing, ask in (
            (f"files {folder}", Caller(source).list_resources),
            (f"entries {file_uri(folder)}", partial(Caller(source).list_directory, file_uri(folder))),
        ):
            cursor = b2a_base64(_checksum(text, listing) + text, newline=False).decode().rstrip("=")
            try:
                page = await ask(cursor.replace("+", "-").replace("/", "_"), 10)
            except InvalidCursor:
                continue
            assert {resource.uri for resource in page.items if resource.name != "a"} <= shared


def test_a_cursor_of_a_name_that_is_not_utf8_works() -> None:
    position = TreePosition("file", (os.fsdecode(b"caf\xe9"), "x"))
    assert position_of(position.cursor("l"), "l") == position
