"""Folders that cannot be read in full: the log says what is left out, and running out of descriptors is an error."""

import asyncio
import errno
import logging
import os
import resource
import tempfile
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from carrel.errors import ConfigError, ResourceError, ResourceForbidden, ResourceNotFound
from carrel.sources.files.options import FilesOptions
from carrel.sources.files.source import FilesSource
from carrel.sources.folder import snapshot
from carrel.sources.folder.notices import MAX_LOGGED, Notices
from carrel.sources.folder.sandbox import DirectoryHandle, Excluded, OpenDirectory, SandboxRoot
from carrel.sources.folder.selection import MAX_IGNORE_FILE, FileSelection
from carrel.sources.folder.snapshot import PathChanges, Snapshot
from carrel.sources.folder.tree import Tree
from carrel.sources.skills.source import SkillsSource
from carrel.testing import Caller, count_descriptors, running
from carrel.testing.caller import Reports

Share = Callable[..., Awaitable[FilesSource]]
Put = Callable[..., Path]


@pytest.fixture
def warnings(caplog: pytest.LogCaptureFixture) -> Callable[[], list[str]]:
    """Return a function that returns what was logged by sources since it was last called."""
    caplog.set_level(logging.WARNING, "carrel.sources")

    def take() -> list[str]:
        messages = [record.getMessage() for record in caplog.records]
        caplog.clear()
        return messages

    return take


@contextmanager
def no_descriptors() -> Iterator[None]:
    """Leave the process no descriptor that it could open."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (64 + count_descriptors(), hard))
    taken = []
    try:
        while True:
            try:
                taken.append(os.open(os.devnull, os.O_RDONLY))
            except OSError:
                break
        yield
    finally:
        for descriptor in taken:
            os.close(descriptor)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@contextmanager
def failing(monkeypatch: pytest.MonkeyPatch, number: int, *names: str) -> Iterator[None]:
    """Have the file system answer with an error when one of these names is opened or looked up."""

    def fail(method: Callable[..., Any]) -> Callable[..., Any]:
        def call(self: OpenDirectory, name: str, **options: Any) -> Any:
            if name in names:
                raise OSError(number, os.strerror(number), name)
            return method(self, name, **options)

        return call

    with monkeypatch.context() as patch:
        for method in ("stat", "open", "enter"):
            patch.setattr(DirectoryHandle, method, fail(getattr(DirectoryHandle, method)))
        yield


async def test_without_descriptors_no_answer_is_shortened(
    put: Put, folder: Path, share: Share, warnings: Callable[[], list[str]]
) -> None:
    for path in ("a.txt", "sub/b.txt", "sub/deep/c.txt"):
        put(path)
    (folder / "link.txt").symlink_to("a.txt")
    source = await share()
    whole = await Caller(source).resources()
    with no_descriptors():
        for ask in (
            lambda: Caller(source).list_resources(None, 100),
            lambda: Caller(source).list_directory(source.uri, None, 100),
            lambda: Caller(source).read_resource(source.uri),
            lambda: Caller(source).read_resource(f"{source.uri}/a.txt"),
            lambda: Caller(source).complete(f"{source.uri}/{{+path}}", "path", "sub/"),
            lambda: Caller(source).search("txt", 10),
        ):
            with pytest.raises(ResourceError, match="Too many open files") as raised:
                await ask()
            assert not isinstance(raised.value, (ResourceNotFound, ResourceForbidden))
    assert len(warnings()) == 1
    assert await Caller(source).resources() == whole


async def test_without_descriptors_no_skill_is_lost(tmp_path: Path) -> None:
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "SKILL.md").write_text(f"---\nname: {name}\ndescription: Does {name}.\n---\n")
        (tmp_path / name / "notes.md").write_text("notes")
    async with running(SkillsSource(tmp_path)) as source:
        assert isinstance(source, SkillsSource)
        assert len((await Caller(source).list_skills(None, 10)).items) == 2
        with no_descriptors():
            for ask in (
                lambda: Caller(source).list_resources(None, 100),
                lambda: Caller(source).list_skills(None, 100),
                lambda: Caller(source).get_skill("skill://one/SKILL.md"),
                lambda: Caller(source).list_directory("skill://one", None, 100),
                lambda: Caller(source).read_resource("skill://one/SKILL.md"),
                lambda: Caller(source).complete("skill://{+path}", "path", ""),
                lambda: Caller(source).search("one", 10),
            ):
                with pytest.raises(ResourceError, match="Too many open files"):
                    await ask()
        assert len((await Caller(source).list_skills(None, 10)).items) == 2


@pytest.mark.parametrize("number", [errno.EMFILE, errno.ENFILE, errno.ENOMEM])
@pytest.mark.parametrize("name", ["sub", ".gitignore", "link.txt"])
async def test_wherever_descriptors_run_out_it_is_an_error(
    number: int, name: str, put: Put, folder: Path, share: Share, monkeypatch: pytest.MonkeyPatch
) -> None:
    put("sub/b.txt")
    put(".gitignore", "secret\n")
    (folder / "link.txt").symlink_to("sub/b.txt")
    source = await share()
    with failing(monkeypatch, number, name), pytest.raises(ResourceError, match=os.strerror(number)):
        await Caller(source).resources()


@pytest.mark.parametrize("number", [errno.EACCES, errno.EIO, errno.ESTALE, errno.EPERM])
async def test_unreadable_files_are_left_out_of_lists_and_logged_once(
    number: int,
    put: Put,
    folder: Path,
    share: Share,
    monkeypatch: pytest.MonkeyPatch,
    warnings: Callable[[], list[str]],
) -> None:
    for path in ("a.txt", "bad.txt", "sub/b.txt", "bad/c.txt"):
        put(path)
    (folder / "link.txt").symlink_to("bad/c.txt")
    source = await share()
    with failing(monkeypatch, number, "bad.txt", "bad"):
        for _ in range(3):
            assert [found.name for found in await Caller(source).resources()] == ["root", "a.txt", "b.txt"]
            await Caller(source).search("txt", 10)
            await Caller(source).list_directory(source.uri, None, 10)
    said = warnings()
    assert sorted(line.split(" ")[0] for line in said) == sorted(
        f"{folder}/{name}" for name in ("bad.txt", "bad", "link.txt")
    )
    assert all(os.strerror(number) in line for line in said)
    assert len(await Caller(source).resources()) == 6


async def test_missing_and_excluded_files_are_not_logged(
    put: Put, folder: Path, share: Share, warnings: Callable[[], list[str]]
) -> None:
    put("a.txt")
    put("secret.txt")
    for name, target in (("gone", "nowhere"), ("loop", "loop"), ("out", ".."), ("left-out", "secret.txt")):
        (folder / name).symlink_to(target)
    source = await share(exclude=["secret.txt"])
    await Caller(source).resources()
    await Caller(source).search("o", 10)
    for name in ("gone", "loop", "out", "left-out", "secret.txt", "missing"):
        with pytest.raises((ResourceNotFound, ResourceForbidden)):
            await Caller(source).read_resource(f"{source.uri}/{name}")
    assert warnings() == []


def test_warnings_have_an_end(warnings: Callable[[], list[str]]) -> None:
    notices = Notices("/folder")
    for number in range(3 * MAX_LOGGED):
        notices.warn((f"{number}",), "cannot be read")
    said = warnings()
    assert len(said) == MAX_LOGGED + 1
    assert said[-1] == "/folder has more problems, which are not logged"


def test_a_warning_is_one_line_whatever_the_name(warnings: Callable[[], list[str]]) -> None:
    Notices("/folder").warn(("a\nb\x1b[31m",), "cannot be read")
    [said] = warnings()
    assert said.isprintable()


# Ignore files that cannot be followed


@pytest.mark.parametrize(
    "patterns",
    ["\n" * (MAX_IGNORE_FILE + 1), "secret\n" * 10_001, "[ab]c\n" * 1000, "?" * 60_000, "*a*" * 30_000],
)
async def test_a_folder_whose_ignore_file_is_over_the_limit_is_not_shared(
    patterns: str, put: Put, share: Share, warnings: Callable[[], list[str]], folder: Path
) -> None:
    for path in ("a.txt", "sub/secret.txt", "sub/deep/secret.txt"):
        put(path)
    source = await share()
    put("sub/.gitignore", f"{patterns}\nsecret.txt\n")
    for _ in range(2):
        assert [found.name for found in await Caller(source).resources()] == ["root", "a.txt"]
        for path in ("sub", "sub/secret.txt", "sub/deep/secret.txt", "sub/deep"):
            with pytest.raises(ResourceForbidden):
                await Caller(source).read_resource(f"{source.uri}/{path}")
        assert not (await Caller(source).complete(f"{source.uri}/{{+path}}", "path", "sub/")).values
        assert [hit.resource.name for hit in await Caller(source).search("secret", 10)] == []
    [said] = warnings()
    assert said.startswith(f"{folder}/sub is not shared, because .gitignore has ")
    put("sub/.gitignore", "secret.txt\n")
    put("sub/shown.txt")
    assert [found.name for found in await Caller(source).resources()] == ["root", "a.txt", "shown.txt"]


@pytest.mark.parametrize("name", [".gitignore", ".git/info/exclude"])
async def test_a_source_does_not_start_with_an_ignore_file_over_the_limit(name: str, folder: Path, put: Put) -> None:
    put(".git/info/exclude", "")
    put(name, "x\n" * 20_000)
    source = FilesSource(folder)
    with pytest.raises(ConfigError, match=r"cannot be shared: not shared, because .+ too many patterns"):
        await source.start(Reports())
    async with running(FilesSource(folder, FilesOptions(gitignore=False))):
        pass


async def test_patterns_of_all_ignore_files_on_the_way_count_together(
    put: Put, share: Share, warnings: Callable[[], list[str]]
) -> None:
    path = ""
    for level in range(10):
        path += f"{level}/"
        put(f"{path}.gitignore", "".join(f"name{number}\n" for number in range(3000)))
        put(f"{path}a.txt")
    assert [found.uri.count("/") for found in await Caller(await share()).resources()][1:] == [
        warnings_before + (await share()).uri.count("/") for warnings_before in (2, 3, 4)
    ]
    assert any("together with the directories above" in line for line in warnings())


@pytest.mark.parametrize("number", [errno.EACCES, errno.EIO])
async def test_an_ignore_file_that_cannot_be_read_shares_nothing_beside_it(
    number: int, put: Put, share: Share, monkeypatch: pytest.MonkeyPatch, warnings: Callable[[], list[str]]
) -> None:
    put("a.txt")
    put("sub/.gitignore", "secret.txt\n")
    put("sub/secret.txt")
    source = await share()

    def fail(self: OpenDirectory, name: str, *, follow: bool = False) -> int:
        if name == ".gitignore":
            raise OSError(number, os.strerror(number))
        return original(self, name, follow=follow)

    original = DirectoryHandle.open
    monkeypatch.setattr(DirectoryHandle, "open", fail)
    assert [found.name for found in await Caller(source).resources()] == ["root", "a.txt"]
    assert len(warnings()) == 1
    with pytest.raises(ResourceForbidden):
        await Caller(source).read_resource(f"{source.uri}/sub/secret.txt")


def test_an_ignore_file_that_becomes_something_else_while_it_is_opened_leaves_nothing_open(
    folder: Path, put: Put, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(".gitignore", "x\n")
    put("a.txt")
    original = DirectoryHandle.open

    def replace(self: OpenDirectory, name: str, *, follow: bool = False) -> int:
        if name == ".gitignore":
            (folder / name).unlink()
            (folder / name).mkdir()
        return original(self, name, follow=follow)

    tree = Tree(SandboxRoot(str(folder)), FileSelection())
    monkeypatch.setattr(DirectoryHandle, "open", replace)
    before = count_descriptors()
    tree.open(()).close()
    assert count_descriptors() == before


@pytest.mark.parametrize("kind", ["directory", "pipe", "link", "missing"])
@pytest.mark.parametrize("name", ["info/exclude", "commondir"])
async def test_a_git_directory_that_is_made_up_does_no_harm(
    kind: str, name: str, put: Put, folder: Path, share: Share
) -> None:
    put(".git/info/x")
    put("a.txt")
    path = folder / ".git" / name
    if kind == "directory":
        path.mkdir()
    elif kind == "pipe":
        os.mkfifo(path)
    elif kind == "link":
        path.symlink_to("/dev/zero")
    async with asyncio.timeout(60):
        source = await share()
        before = count_descriptors()
        for _ in range(5):
            assert [found.name for found in await Caller(source).resources()] == ["root", "a.txt"]
        assert count_descriptors() == before


# Descriptors


@pytest.mark.parametrize("error", [None, OSError, KeyboardInterrupt, Excluded])
def test_a_walk_closes_what_it_opened_after_any_error(
    error: type[BaseException] | None, folder: Path, put: Put
) -> None:
    put("sub/deep/x.txt")
    (folder / "link").symlink_to("sub")
    (folder / "sub" / "up").symlink_to("../sub/deep")
    questions = 0

    class Guard:
        """Admits everything, and fails or replaces what it is asked about at one question."""

        def __init__(self, at: int) -> None:
            self._left = at

        def enter(self, handle: OpenDirectory, parts: tuple[str, ...]) -> None:
            self.admits("", True)

        def admits(self, name: str, is_directory: bool) -> bool:
            nonlocal questions
            questions += 1
            self._left -= 1
            if self._left == 0:
                if error is not None:
                    raise error
                (folder / "sub").rename(folder / "away")
                (folder / "sub").symlink_to("/")
            return True

        def admits_link(self, name: str) -> bool:
            return self.admits(name, False)

    for handles in (True, False):
        root = SandboxRoot(str(folder), handles=handles)
        for path in ("sub/deep/x.txt", "link/deep/x.txt", "link/up/x.txt", "sub/deep", "", "link/up/../../sub"):
            parts = tuple(path.split("/")) if path else ()
            for at in range(1, 12):
                before = count_descriptors()
                guard = Guard(at)
                try:
                    root.open(parts, lambda guard=guard: guard).close()
                except (OSError, KeyboardInterrupt):
                    pass
                assert count_descriptors() == before, (path, at)
                if (folder / "away").exists():
                    (folder / "sub").unlink()
                    (folder / "away").rename(folder / "sub")
    assert questions


@pytest.mark.skipif(os.name == "nt", reason="there are no users to be")
async def test_an_unreadable_file_leaves_no_descriptor_open() -> None:
    with tempfile.TemporaryDirectory() as name:
        root = Path(name)
        root.chmod(0o755)
        for path in ("locked.txt", "open.txt", "closed/x.txt"):
            (root / path).parent.mkdir(exist_ok=True)
            (root / path).write_text("x")
        (root / "link.txt").symlink_to("closed/x.txt")
        async with running(FilesSource(root)) as source:
            uri = source.uri  # type: ignore[attr-defined]
            await Caller(source).resources()
            (root / "locked.txt").chmod(0)
            (root / "closed").chmod(0)
            effective = os.geteuid()
            try:
                if effective == 0:
                    os.seteuid(65534)
                before = count_descriptors()
                for _ in range(5):
                    await Caller(source).resources()
                    for path in ("locked.txt", "closed/x.txt", "closed", "link.txt"):
                        with pytest.raises(ResourceForbidden):
                            await Caller(source).read_resource(f"{uri}/{path}")
                assert count_descriptors() == before
            finally:
                if effective == 0:
                    os.seteuid(0)
                (root / "closed").chmod(0o755)


# Watching


def test_while_descriptors_run_out_a_watch_takes_nothing_for_removed(
    put: Put, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for path in ("a.txt", "sub/b.txt"):
        put(path)
    monkeypatch.setattr(snapshot, "PAUSES", (0.0,) * 3)
    seen = Snapshot(Tree(SandboxRoot(str(folder)), FileSelection()), lambda: False)
    seen.look((), PathChanges())
    known = {parts: (set(names.directories), set(names.others)) for parts, names in seen.known.items()}
    changes = PathChanges()
    with no_descriptors():
        seen.look((), changes)
        seen.look_at((), ["a.txt", "sub"], changes)
    assert set(changes.values()) <= {"changed"}
    assert {parts: (set(names.directories), set(names.others)) for parts, names in seen.known.items()} == known
    (folder / "a.txt").unlink()
    seen.look((), changes)
    assert changes[("a.txt",)] == "removed"
