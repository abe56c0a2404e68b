"""Shared folders that are arranged to exhaust the server: links, ignore files, patterns, depth."""

import os
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from types import FrameType

import pytest

from carrel.sources.folder.position import START, TreePosition
from carrel.sources.folder.sandbox import MOST, SandboxRoot
from carrel.sources.folder.selection import FileSelection
from carrel.sources.folder.tree import Tree
from carrel.sources.folder.work import PAGE, Work
from support.carrel_process import carrel
from support.measured_server import Server, under_attack

COMPILED = 400 * 250.0  # microseconds for the patterns of one folder
SYSTEM = ("stat", "open", "readlink", "scandir", "fstat", "fullmatch", "compile")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    path = tmp_path / "root"
    path.mkdir()
    (path / "a.txt").write_text("small")
    return path


def list_all(server: Server, seconds: float = 10.0) -> list[str]:
    """Return the names of all resources, and fail if one page of them takes the server long."""
    names: list[str] = []
    cursor: dict[str, str] = {}
    while True:
        started = server.cpu()
        result = server.ask("resources/list", **cursor)["result"]
        assert server.cpu() - started < seconds
        names += [entry["name"] for entry in result["resources"]]
        if "nextCursor" not in result:
            return names
        cursor = {"cursor": result["nextCursor"]}


# Links


def test_links_in_a_shared_folder_leave_no_descriptor_open(folder: Path) -> None:
    (folder / "sub").mkdir()
    for number in range(20):
        (folder / f"link {number}").symlink_to("sub/../a.txt")
        (folder / "sub" / f"loop {number}").symlink_to(f"loop {number}")
    (folder / "out").symlink_to("/etc")
    uri = f"file://{folder}"
    with under_attack("serve", str(folder), "--limit", "max_requests_in_flight=100") as server:
        assert len(list_all(server)) == 22
        server.ask("resources/read", uri=f"{uri}/link%201")
        before = server.descriptors()
        for _ in range(2):
            assert len(list_all(server)) == 22
            for path in ("link%201", "sub/loop%201", "out/passwd", "missing", "sub"):
                server.ask("resources/read", uri=f"{uri}/{path}")
        assert server.descriptors() <= before + 3


def farm(folder: Path, links: int = 1000) -> None:
    """Make 1,000 links that lead through 38 others down 100 levels: more than one search may follow."""
    names = ["d"] * 100
    (folder / Path(*names)).mkdir(parents=True)
    (folder / Path(*names) / "f.txt").write_text("deep")
    for number in range(38):
        (folder / f"chain{number}").symlink_to(f"chain{number + 1}")
    (folder / "chain38").symlink_to("/".join([*names, "f.txt"]))
    for number in range(links):
        (folder / f"link{number}").symlink_to("chain0")


def small_farm(folder: Path) -> None:
    farm(folder, 100)


def deep_farm(folder: Path) -> None:
    """Make 300 links that lead down 100 levels, and from there through 30 others."""
    names = ["d"] * 100
    deep = folder / Path(*names)
    deep.mkdir(parents=True)
    (deep / "f.txt").write_text("deep")
    for number in range(30):
        (deep / f"chain{number}").symlink_to(f"chain{number + 1}")
    (deep / "chain30").symlink_to("f.txt")
    for number in range(300):
        (folder / f"link{number}").symlink_to("/".join([*names, "chain0"]))


# Ignore files


def test_a_hostile_ignore_file_costs_no_memory_and_shares_nothing_beside_it(folder: Path) -> None:
    (folder / "sub").mkdir()
    (folder / "sub" / ".gitignore").write_text("".join(f"[a]*{number}?\n" for number in range(140_000)) + "secret\n")
    (folder / "sub" / "secret").write_text("secret")
    with under_attack("serve", str(folder)) as server, server.honest_reads(f"file://{folder}/a.txt") as reads:
        before = server.rss()
        for _ in range(5):
            assert list_all(server) == ["root", "a.txt"]
            assert "error" in server.ask("resources/read", uri=f"file://{folder}/sub/secret")
        assert server.rss() < before + 20
        assert server.log().count("sub is not shared, because .gitignore has more than 131,072 bytes") == 1
        while len(reads.seconds) < 5:
            assert not reads.problems
    reads.check()


def many_ignore_files(folder: Path) -> None:
    """Make 40 folders that each have the most expressions there may be."""
    for number in range(40):
        sub = folder / f"{number}"
        sub.mkdir()
        (sub / ".gitignore").write_text("".join(f"[a]?{number}x{other}*b\n" for other in range(350)))
        for other in range(5):
            (sub / f"{other}.txt").touch()


def long_ignore_files(folder: Path) -> None:
    """Make 10 folders that each have the most patterns there may be."""
    for number in range(10):
        sub = folder / f"{number}"
        sub.mkdir()
        (sub / ".gitignore").write_text("".join(f"{number}x{other}*b\n" for other in range(9000)))
        for other in range(40):
            (sub / f"{other}.txt").touch()


def deep_ignore_files(folder: Path) -> None:
    """Make 100 levels with an ignore file in each."""
    for level in range(100):
        (folder / ".gitignore").write_text("".join(f"{level}x{other}*b\n" for other in range(90)))
        folder = folder / "d"
        folder.mkdir()
        for other in range(5):
            (folder / f"{other}.txt").touch()


def hostile_patterns(pattern: str) -> Callable[[Path], None]:
    """Return what makes folders with long names, and patterns that nearly match them."""

    def make(folder: Path) -> None:
        (folder / ".gitignore").write_text("".join(f"{pattern}{number}\n" for number in range(60)))
        for _ in range(8):
            folder = folder / ("a" * 250)
            folder.mkdir()
            for number in range(5):
                (folder / f"{'a' * 240}{number}.txt").touch()

    return make


def left_out(folder: Path) -> None:
    """Make 12,000 files that are all left out: more than one page may look at."""
    (folder / ".gitignore").write_text("*.log\n")
    for number in range(12_000):
        os.close(os.open(folder / f"{number}.log", os.O_CREAT))


def deep_and_wide(folder: Path) -> None:
    """Make 800 folders 120 levels down."""
    deep = folder / Path(*["d"] * 120)
    deep.mkdir(parents=True)
    for number in range(800):
        (deep / f"{number}").mkdir()


def fan(folder: Path) -> None:
    """Make a folder outside in which every path forks, again and again."""
    outside = folder.parent / "outside"
    outside.mkdir()
    for number in range(30):
        (outside / f"{number}").mkdir()
        (outside / f"{number}" / "f.txt").touch()
        if number:
            for name in "xy":
                (outside / f"{number - 1}" / name).symlink_to(outside / f"{number}")
    (folder / "in").symlink_to(outside / "0")


class Steps:
    """Counts the calls of the operating system and of regular expressions on this thread."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()

    def __enter__(self) -> "Steps":
        sys.setprofile(self._note)
        return self

    def __exit__(self, *_: object) -> None:
        sys.setprofile(None)

    def _note(self, frame: FrameType, event: str, function: object) -> None:
        if event == "c_call":
            self.counts[getattr(function, "__name__", "")] += 1

    @property
    def total(self) -> int:
        return sum(self.counts[name] for name in SYSTEM)


@pytest.mark.parametrize(
    "make",
    [
        farm,
        deep_farm,
        many_ignore_files,
        long_ignore_files,
        deep_ignore_files,
        hostile_patterns("?*" * 40),
        pytest.param(hostile_patterns("*a" * 60 + "b"), marks=pytest.mark.exhaustive),
        hostile_patterns("**/a*" * 20 + "/b"),
        pytest.param(hostile_patterns("*" + "?" * 150), marks=pytest.mark.exhaustive),
        left_out,
        deep_and_wide,
        fan,
    ],
    ids=lambda make: make.__name__,
)
def test_no_page_takes_more_than_its_work_and_each_gets_somewhere(make: Callable[[Path], None], folder: Path) -> None:
    make(folder)
    tree = Tree(SandboxRoot(str(folder), follow_links=make is fan), FileSelection())
    after: TreePosition | None = START
    found: list[tuple[str, ...]] = []
    for _ in range(2):
        work = Work(PAGE)
        before = after
        with Steps() as steps:
            entries, after = tree.page(after or START, 100, work)
        assert after != before, "a page gets nowhere"
        # The last step of a page may be one more path, with patterns that are used for the first time.
        assert work.spent < PAGE * 1.1 + 2 * MOST + COMPILED
        assert steps.total < 12_000, steps.counts
        found += [entry.parts for entry in entries]
        if after is None:
            break
    assert len(set(found)) == len(found)
    assert ("a.txt",) in found


@pytest.mark.parametrize("make", [small_farm, hostile_patterns("?*" * 40), fan])
def test_requests_about_hostile_folders_delay_no_others(make: Callable[[Path], None], folder: Path) -> None:
    make(folder)
    options = ["--follow-symlinks"] if make is fan else []
    uri = f"file://{folder}"
    with under_attack("serve", str(folder), *options) as server:
        with server.honest_reads(f"{uri}/a.txt") as reads:
            if make is small_farm:
                assert {"a.txt", "f.txt"} <= set(list_all(server))
            for method, parameters in (
                ("resources/read", {"uri": uri}),
                ("resources/read", {"uri": f"{uri}/link1"}),
                ("resources/read", {"uri": f"{uri}/{'d/' * 100}f.txt"}),
                ("resources/directory/read", {"uri": uri}),
                ("tools/call", {"name": "search_resources", "arguments": {"query": "link"}}),
                (
                    "completion/complete",
                    {
                        "ref": {"type": "ref/resource", "uri": f"{uri}/{{+path}}"},
                        "argument": {"name": "path", "value": "l"},
                    },
                ),
            ):
                started = server.cpu()
                answer = server.ask(method, **parameters)
                assert server.cpu() - started < 30
                assert answer.get("error", {}).get("code") != -32603, answer
            while len(reads.seconds) < 5:
                assert not reads.problems
        reads.check()


# Patterns of the author


@pytest.mark.parametrize("option", ["--include", "--exclude"])
@pytest.mark.parametrize("glob", ["[", "a[b.md", "", "#draft*", "!x", " "])
def test_a_server_does_not_start_with_a_pattern_that_shares_everything(folder: Path, option: str, glob: str) -> None:
    ended = carrel("serve", str(folder), option, glob, text=True)
    assert ended.returncode == 2
    assert ended.stdout == ""
    assert option in ended.stderr
    assert repr(glob) in ended.stderr
