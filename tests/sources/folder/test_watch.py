"""Changes of a folder, as the file system tells them."""

import asyncio
import os
import shutil
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from carrel.catalog.provider import Change, Interest
from carrel.errors import ConfigError
from carrel.sources.files.source import FilesSource
from carrel.sources.folder import watch
from carrel.sources.folder.watch import file_system, must_poll
from carrel.testing import Caller

Share = Callable[..., Awaitable[FilesSource]]
Put = Callable[..., Path]

LIMIT = 60  # seconds


@pytest.fixture(autouse=True)
def pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    """Batches that end later: what a test does in one go is one, also if another program runs in between."""
    monkeypatch.setattr(watch, "STEP", 150)
    monkeypatch.setattr(watch, "LONGEST", 1500)
    monkeypatch.setattr(watch, "GRACE", 500)


class Ear:
    """Listens to a source, and returns what it hears until something in particular has happened."""

    def __init__(self, source: FilesSource) -> None:
        self._source = source
        self._batches = source.watch(Interest())
        self.count = 0

    async def __aenter__(self) -> "Ear":
        async with asyncio.timeout(LIMIT):
            assert not await anext(self._batches)
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._batches.aclose()

    async def until(self, kind: str, path: str) -> dict[str, list[str]]:
        """Return what was heard, by path, when this has happened."""
        heard: dict[str, list[str]] = {}
        async with asyncio.timeout(LIMIT):
            while kind not in heard.get(path, ()):
                for change in await anext(self._batches):
                    heard.setdefault(self.path_of(change), []).append(change.kind)
                self.count += 1
        return heard

    def path_of(self, change: Change) -> str:
        return change.uri.removeprefix(self._source.uri).removeprefix("/")


@pytest.fixture
async def listen(share: Share) -> AsyncIterator[Callable[..., Awaitable[Ear]]]:
    """Return a function that shares the folder and listens."""
    ears: list[Ear] = []

    async def listen(path: Path | None = None, **options: Any) -> Ear:
        source = await (share(**options) if path is None else share(path, **options))
        ears.append(await Ear(source).__aenter__())
        return ears[-1]

    yield listen
    for ear in ears:
        await ear.__aexit__()


Listen = Callable[..., Awaitable[Ear]]


async def test_a_file_that_is_created_written_and_removed_is_told_with_its_directory(put: Put, listen: Listen) -> None:
    put("docs/old.txt")
    ear = await listen()
    path = put("docs/new.txt")
    assert await ear.until("created", "docs/new.txt") == {"docs/new.txt": ["created"], "docs": ["changed"]}
    path.write_text("more")
    assert await ear.until("changed", "docs/new.txt") == {"docs/new.txt": ["changed"], "docs": ["changed"]}
    path.unlink()
    assert await ear.until("removed", "docs/new.txt") == {"docs/new.txt": ["removed"], "docs": ["changed"]}


async def test_a_change_is_told_while_others_go_on(put: Put, listen: Listen) -> None:
    ear = await listen()
    told = threading.Event()

    def go_on() -> None:
        number = 0
        while not told.wait(0.01):
            number += 1
            put(f"{number}.txt")

    going = asyncio.get_running_loop().run_in_executor(None, go_on)
    try:
        await ear.until("created", "1.txt")
    finally:
        told.set()
        await going


async def test_a_rename_is_a_removal_and_a_creation(folder: Path, put: Put, listen: Listen) -> None:
    put("a/old.txt")
    put("b/x.txt")
    ear = await listen()
    (folder / "a" / "old.txt").rename(folder / "b" / "new.txt")
    heard = await ear.until("created", "b/new.txt")
    assert heard == {"a/old.txt": ["removed"], "b/new.txt": ["created"], "a": ["changed"], "b": ["changed"]}


@pytest.mark.parametrize("dance", ["rename over", "backup and rename", "remove and write", "backup and write"])
async def test_an_editor_that_saves_has_changed_the_file_and_nothing_else(
    dance: str, folder: Path, put: Put, listen: Listen
) -> None:
    path = put("text.md", "one")
    ear = await listen()
    if dance == "rename over":
        put("text.md.tmp123", "two").rename(path)
    elif dance == "backup and rename":
        temporary = put("4913", "two")
        path.rename(folder / "text.md~")
        temporary.rename(path)
        (folder / "text.md~").unlink()
    elif dance == "remove and write":
        path.unlink()
        path.write_text("two")
    else:
        path.rename(folder / "text.md~")
        path.write_text("two")
        (folder / "text.md~").unlink()
    assert await ear.until("changed", "text.md") == {"text.md": ["changed"], "": ["changed"]}


async def test_directories_that_are_made_are_listened_to_with_what_is_in_them_already(
    folder: Path, put: Put, listen: Listen
) -> None:
    ear = await listen()
    put("a/b/c/deep.txt")
    heard = await ear.until("created", "a/b/c/deep.txt")
    assert heard["a"] == ["created"]
    put("a/b/c/later.txt")
    assert await ear.until("created", "a/b/c/later.txt") == {"a/b/c/later.txt": ["created"], "a/b/c": ["changed"]}
    outside = folder.parent / "outside"
    (outside / "d").mkdir(parents=True)
    (outside / "d" / "moved.txt").touch()
    outside.rename(folder / "moved")
    await ear.until("created", "moved/d/moved.txt")
    put("moved/d/after.txt")
    await ear.until("created", "moved/d/after.txt")


async def test_a_directory_that_goes_takes_everything_with_it(folder: Path, put: Put, listen: Listen) -> None:
    put("a/b/x.txt")
    put("a/y.txt")
    ear = await listen()
    (folder / "a").rename(folder.parent / "elsewhere")
    heard = await ear.until("removed", "a/b/x.txt")
    assert heard == {
        "a": ["removed"],
        "a/b": ["removed"],
        "a/b/x.txt": ["removed"],
        "a/y.txt": ["removed"],
        "": ["changed"],
    }
    # What happens to it elsewhere is nobody's business here.
    (folder.parent / "elsewhere" / "y.txt").write_text("changed")
    put("last.txt")
    assert set(await ear.until("created", "last.txt")) == {"last.txt", ""}


async def test_a_directory_that_is_replaced_by_another_is_listened_to(folder: Path, put: Put, listen: Listen) -> None:
    put("a/old.txt")
    ear = await listen()
    shutil.rmtree(folder / "a")
    put("a/new.txt")
    await ear.until("created", "a/new.txt")
    put("a/newer.txt")
    await ear.until("created", "a/newer.txt")
    (folder / "a" / "newer.txt").write_text("x")
    await ear.until("changed", "a/newer.txt")


async def test_changes_of_excluded_files_are_not_reported(folder: Path, put: Put, listen: Listen) -> None:
    put(".gitignore", "*.log\n/build/\n")
    put("build/out/a.o")
    put(".hidden/x")
    ear = await listen(exclude=["private/"])
    for path in ("build/out/b.o", "build/new/c.o", "a.log", ".hidden/y", ".env", "private/key", ".git/index"):
        put(path)
    (folder / "link").symlink_to("/tmp")
    os.mkfifo(folder / "pipe")
    put("shown.txt")
    assert await ear.until("created", "shown.txt") == {"shown.txt": ["created"], "": ["changed"]}


async def test_an_edited_gitignore_takes_and_gives_back(put: Put, listen: Listen) -> None:
    rules = put(".gitignore", "*.log\n")
    for path in ("a.log", "a.txt", "sub/b.log", "sub/deep/c.txt"):
        put(path)
    ear = await listen()
    rules.write_text("*.txt\n")
    heard = await ear.until("created", "sub/b.log")
    assert heard["a.txt"] == ["removed"]
    assert heard["sub/deep/c.txt"] == ["removed"]
    assert heard["a.log"] == ["created"]
    put("sub/.gitignore", "deep/\n")
    await ear.until("removed", "sub/deep")
    rules.unlink()
    assert (await ear.until("created", "a.txt")).get("sub/deep/c.txt") is None


async def test_a_root_that_is_removed_and_made_again_goes_on_being_watched(
    folder: Path, put: Put, listen: Listen
) -> None:
    put("a/x.txt")
    ear = await listen()
    shutil.rmtree(folder)
    heard = await ear.until("removed", "")
    assert heard["a/x.txt"] == ["removed"]
    folder.mkdir()
    await ear.until("created", "")
    put("b/y.txt")
    await ear.until("created", "b/y.txt")
    folder.rename(folder.with_name("away"))
    await ear.until("removed", "b/y.txt")
    folder.with_name("away").rename(folder)
    await ear.until("created", "b/y.txt")


async def test_a_root_whose_parents_are_removed_as_well_is_found_again(tmp_path: Path, listen: Listen) -> None:
    root = tmp_path / "x" / "y" / "z"
    root.mkdir(parents=True)
    ear = await listen(root)
    shutil.rmtree(tmp_path / "x")
    await ear.until("removed", "")
    root.mkdir(parents=True)
    await ear.until("created", "")
    (root / "a.txt").touch()
    await ear.until("created", "a.txt")


async def test_a_root_that_is_a_link_is_followed_also_where_it_leads_next(tmp_path: Path, listen: Listen) -> None:
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        (tmp_path / name / f"{name}.txt").touch()
    link = tmp_path / "current"
    link.symlink_to("one")
    ear = await listen(link)
    (link / "new.txt").touch()
    await ear.until("created", "new.txt")
    (tmp_path / "next").symlink_to("two")
    (tmp_path / "next").rename(link)
    heard = await ear.until("created", "two.txt")
    assert heard["one.txt"] == ["removed"]
    (tmp_path / "two" / "newer.txt").touch()
    await ear.until("created", "newer.txt")


async def test_links_in_the_folder_are_not_watched_where_they_lead_out(folder: Path, put: Put, listen: Listen) -> None:
    (folder.parent / "outside").mkdir()
    (folder / "link").symlink_to("../outside")
    (folder / "everything").symlink_to("/")
    ear = await listen()
    (folder.parent / "outside" / "noise.txt").touch()
    put("a.txt")
    assert set(await ear.until("created", "a.txt")) == {"a.txt", ""}


async def test_links_that_are_followed_are_watched(folder: Path, listen: Listen) -> None:
    (folder.parent / "outside").mkdir()
    (folder / "link").symlink_to("../outside")
    ear = await listen(follow_symlinks=True)
    (folder.parent / "outside" / "a.txt").touch()
    await ear.until("created", "link/a.txt")


async def test_one_file_is_watched_by_itself(folder: Path, put: Put, listen: Listen) -> None:
    path = put("app.log", "one\n")
    ear = await listen(path)
    put("other.txt")
    with open(path, "a") as file:
        file.write("two\n")
    assert await ear.until("changed", "") == {"": ["changed"]}
    path.unlink()
    await ear.until("removed", "")
    put("app.log.new").rename(path)
    await ear.until("created", "")
    put("app.log.new").rename(path)
    await ear.until("changed", "")


async def test_a_name_that_is_not_utf8_is_told_and_spoils_nothing(folder: Path, put: Put, listen: Listen) -> None:
    put("a.txt")
    ear = await listen()
    put(b"caf\xe9.txt")
    put("a.txt", "changed at the same time")
    heard = await ear.until("created", "caf%E9.txt")
    if "changed" not in heard.get("a.txt", ()):
        await ear.until("changed", "a.txt")
    put("later.txt")
    await ear.until("created", "later.txt")


async def test_thousands_of_files_written_at_once_are_told_in_a_few_batches(
    folder: Path, put: Put, listen: Listen
) -> None:
    ear = await listen()
    (folder / "storm").mkdir()
    heard: set[str] = set()

    def write() -> None:
        for number in range(3000):
            with open(folder / "storm" / f"{number}.txt", "w") as file:
                file.write("x")

    writing = asyncio.get_running_loop().run_in_executor(None, write)
    async with asyncio.timeout(60):
        while len(heard) < 3000:
            batch = await anext(ear._batches)
            ear.count += 1
            heard |= {change.uri for change in batch if change.kind == "created" and change.uri.endswith(".txt")}
    await writing
    # A batch does not grow without end, and the writing itself may be slow.
    assert ear.count < 40
    assert len(heard) == 3000


async def test_a_slow_listener_gets_everything_once_in_the_end(folder: Path, put: Put, listen: Listen) -> None:
    ear = await listen()
    put("first.txt")
    # Nothing is taken while all this happens.
    for number in range(500):
        put("busy.txt", str(number))
        put(f"{number}.txt").unlink()
    put("last.txt")
    heard = await ear.until("created", "last.txt")
    assert heard["busy.txt"][0] == "created"
    assert len(heard["busy.txt"]) < 20
    assert not any(kinds == ["created"] for path, kinds in heard.items() if path[:1].isdigit())


async def test_a_watch_agrees_with_the_list_after_a_storm_of_everything(folder: Path, put: Put, listen: Listen) -> None:
    ear = await listen()
    known = {"": "x"}

    def storm() -> None:
        for number in range(400):
            put(f"d{number % 7}/e{number % 3}/f{number % 50}.txt", str(number))
            if number % 11 == 0:
                shutil.rmtree(folder / f"d{number % 7}")
            if number % 13 == 0 and (folder / "d3").exists() and not (folder / "g").exists():
                (folder / "d3").rename(folder / "g")
            if number % 17 == 0:
                shutil.rmtree(folder / "g", ignore_errors=True)
        put("end.txt")

    storming = asyncio.get_running_loop().run_in_executor(None, storm)
    async with asyncio.timeout(60):
        while "end.txt" not in known:
            for change in await anext(ear._batches):
                if change.kind == "created":
                    known[ear.path_of(change)] = "x"
                elif change.kind == "removed":
                    known.pop(ear.path_of(change), None)
    await storming
    there = {str(path.relative_to(folder)) for path in folder.rglob("*")} | {""}
    there.discard(".")
    assert set(known) == there


async def test_polling_is_possible_where_nothing_else_is(
    put: Put, listen: Listen, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WATCHFILES_FORCE_POLLING", "1")
    put("sub/a.txt")
    ear = await listen()
    path = put("sub/b.txt")
    await ear.until("created", "sub/b.txt")
    path.unlink()
    await ear.until("removed", "sub/b.txt")


def test_polling_is_for_file_systems_without_events(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("WATCHFILES_FORCE_POLLING", raising=False)
    assert not must_poll(str(tmp_path))
    monkeypatch.setenv("WATCHFILES_FORCE_POLLING", "false")
    assert not must_poll(str(tmp_path))
    monkeypatch.setenv("WATCHFILES_FORCE_POLLING", "1")
    assert must_poll(str(tmp_path))
    if sys.platform == "linux":
        assert file_system("/proc/self/status") == "proc"


def test_without_watchfiles_watching_says_what_to_install_and_all_else_works(tmp_path: Path) -> None:
    (tmp_path / "a.txt").touch()
    program = f"""
import asyncio, sys
sys.modules["watchfiles"] = None
from carrel.catalog.provider import Interest, Request
from carrel.errors import ConfigError
from carrel.sources.files.source import FilesSource
async def main():
    source = FilesSource({str(tmp_path)!r})
    await source.start(None)
    try:
        async for batch in source.watch(Interest()):
            raise AssertionError(batch)
    except ConfigError as error:
        assert "pip install 'carrel[files]'" in str(error), error
    else:
        raise AssertionError("no error")
    assert len((await source.list_resources(Request())).items) == 2
    await source.stop()
asyncio.run(main())
"""
    subprocess.run([sys.executable, "-c", program], check=True)


async def test_a_thread_that_watches_does_not_keep_a_program_from_ending(tmp_path: Path) -> None:
    program = f"""
import asyncio, os
from carrel.catalog.provider import Interest
from carrel.sources.files.source import FilesSource
async def main():
    source = FilesSource({str(tmp_path)!r})
    await source.start(None)
    watch = source.watch(Interest())
    await anext(watch)
    globals()["kept"] = watch, source
loop = asyncio.new_event_loop()
loop.run_until_complete(main())
loop.close()
"""
    process = await asyncio.create_subprocess_exec(sys.executable, "-W", "ignore", "-c", program)
    async with asyncio.timeout(LIMIT):
        assert await process.wait() == 0


async def test_a_root_whose_name_is_not_utf8_is_shared_but_cannot_be_watched(tmp_path: Path, share: Share) -> None:
    root = Path(os.fsdecode(os.fsencode(tmp_path) + b"/caf\xe9"))
    root.mkdir()
    (root / "a.txt").touch()
    source = await share(root)
    assert len(await Caller(source).resources()) == 2
    with pytest.raises(ConfigError, match="UTF-8"):
        await anext(source.watch(Interest()))
