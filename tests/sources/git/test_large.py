"""A repository of 10,000 commits and 1,000 refs: little is read for a page, whatever there is."""

import json
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from carrel.sources.git.process import ObjectPipe
from carrel.testing import Caller
from support.git import Repository
from support.parties import ready

pytestmark = pytest.mark.slow

COMMITS = 10_000
RECIPE = b"10,000 commits, each thousandth of which changes a file; a branch or a tag for every tenth"


def make(home: Path) -> None:
    """Make the repository by ``git fast-import``."""
    parts = []
    for number in range(COMMITS):
        message = b"Commit number %d\n" % number
        parts.append(b"commit refs/heads/main\ncommitter A <a@example.com> %d +0000\n" % (1_500_000_000 + number))
        parts.append(b"data %d\n%s" % (len(message), message))
        if number % 1000 == 0:
            parts.append(b"M 100644 inline src/a.txt\ndata %d\n%s\n" % (len(message), message))
    repository = Repository(home / "history", "--bare")
    repository.run("fast-import", "--quiet", input=b"".join(parts))
    ids = repository.run("rev-list", "--reverse", "main").split()
    refs = [f"{ids[n]} refs/{'tags' if n % 20 else 'heads'}/number-{n:05}\n" for n in range(0, COMMITS, 10)]
    (home / "history" / "packed-refs").write_text("".join(refs))


@pytest.fixture(scope="module")
def history() -> Path:
    """Return a repository with a long history, made once."""
    return ready("git-history", RECIPE, make) / "history"


async def test_pages_and_files_of_a_long_history_take_little_reading(
    history: Path, share: Callable[..., Awaitable[Caller]], monkeypatch: pytest.MonkeyPatch
) -> None:
    caller = await share(history)
    read: list[str] = []
    ask = ObjectPipe.ask
    monkeypatch.setattr(ObjectPipe, "ask", lambda self, *ids: (read.extend(ids), ask(self, *ids))[1])
    [part] = await caller.read_resource("git://history/log/main")
    page = json.loads(part.text)
    assert [commit["subject"] for commit in page["commits"][:2]] == ["Commit number 9999", "Commit number 9998"]
    assert len(page["commits"]) == 50
    assert len(read) <= 60
    read.clear()
    [part] = await caller.read_resource("git://history/file/number-05000/src/a.txt")
    assert part.text == "Commit number 5000\n"
    assert len(read) <= 6
    read.clear()
    branches = await caller.list_directory("git://history/branches", None, 100)
    assert (len(branches.items), branches.items[1].name) == (100, "number-00000")
    assert len(read) <= 300
    read.clear()
    [part] = await caller.read_resource("git://history/file/main~5000/src/a.txt")
    assert part.text == "Commit number 4000\n"
    [part] = await caller.read_resource("git://history/log/main?path=src&limit=3")
    assert json.loads(part.text)["commits"][0]["subject"] == "Commit number 9000"
    assert len(read) <= 20
    assert [len(page) for page in [await caller.directory("git://history/tags", 100)]] == [500]
    suggested = await caller.complete("git://history/tag/{name}", "name", "number-0003")
    assert suggested.values == ["number-00030"]
