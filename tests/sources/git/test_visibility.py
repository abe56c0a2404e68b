"""Repositories with hidden paths: no document names a hidden path, or has anything of its contents."""

import json
from collections.abc import AsyncIterator, Callable

import pytest

from carrel.catalog.provider import Request
from carrel.errors import MCPError, ResourceNotFound
from carrel.sources.git import diff
from carrel.sources.git.options import GitOptions
from carrel.sources.git.source import GitSource
from carrel.testing import Caller, running
from support.git import Repository

SECRET = ("secret", "hidden")
"""Texts that only hidden paths and their contents have."""


def is_visible(uri: str) -> bool:
    return not any(word in uri for word in SECRET)


@pytest.fixture
async def seen(repository: Repository) -> AsyncIterator[Callable[..., Caller]]:
    """Return a function that returns a caller who sees only some URIs of the repository."""
    source = GitSource(f"git:{repository.path}", GitOptions(max_size=20_000))
    async with running(source):
        yield lambda visible=is_visible: Caller(source, visible)


@pytest.fixture
def commits(repository: Repository) -> list[str]:
    """Fill the repository, and return the ids of the commits."""
    repository.put("docs/a.md", "word one\n")
    repository.put("docs/secret.md", "word secret contents\n")
    first = repository.commit("First")
    repository.put("docs/secret.md", "word plain text\n")
    second = repository.commit("Second")
    repository.put("docs/a.md", "word two\n")
    repository.run("mv", "docs/secret.md", "docs/moved.md")
    repository.put("hidden/b.md", "word hidden\n")
    third = repository.commit("Third")
    repository.run("branch", "hidden-branch", first)
    repository.run("tag", "secret-tag", second)
    return [first, second, third]


async def text(caller: Caller, path: str) -> str:
    [part] = await caller.read_resource(f"git://shop/{path}")
    return part.text


ALL = [
    *("branches", "tags", "tree/HEAD", "tree/HEAD~1/docs", "branch/main", "log/HEAD", "log/HEAD?path=docs"),
    *(
        "commit/HEAD",
        "commit/HEAD~1",
        "commit/HEAD~2",
        "diff/HEAD~1",
        "diff/HEAD~2",
        "diff/HEAD~2..HEAD~1",
        "diff/HEAD",
    ),
    *("grep/HEAD?query=word", "grep/HEAD~1?query=word", "grep/HEAD~1?query=word&path=docs", "blame/HEAD/docs/a.md"),
    *("diff/HEAD~1?path=docs", "diff/HEAD~2...HEAD?path=hidden", "file/HEAD/docs/a.md"),
]


async def test_no_document_has_anything_of_a_hidden_path(seen: Callable[..., Caller], commits: list[str]) -> None:
    caller = seen()
    for path in ALL:
        found = await text(caller, path)
        assert not any(word in found for word in SECRET), path


async def test_what_is_visible_is_all_there(seen: Callable[..., Caller], commits: list[str]) -> None:
    caller = seen()
    assert "-word one\n+word two\n" in await text(caller, "diff/HEAD")
    assert "+word one\n" in await text(caller, "diff/HEAD~2")
    assert await text(caller, "diff/HEAD~1") == ""
    assert "1 file changed\nA docs/a.md\n" in await text(caller, "commit/HEAD~2")
    assert await text(caller, "grep/HEAD~1?query=word") == "docs/a.md:1: word one\n"
    assert [one.name for one in await caller.directory("git://shop/tree/HEAD~1/docs")] == ["a.md"]
    assert [json.loads(await text(caller, "branches"))[0]["name"], await text(caller, "tags")] == ["main", "[\n]\n"]


async def test_a_log_of_a_path_has_the_commits_that_changed_something_visible_there(
    seen: Callable[..., Caller], commits: list[str], repository: Repository
) -> None:
    async def log(path: str, caller: Caller) -> list[str]:
        return [one["subject"] for one in json.loads(await text(caller, f"log/main?path={path}"))["commits"]]

    every = seen(lambda uri: True)
    assert await log("docs", seen()) == ["Third", "First"]
    assert await log("docs/secret.md", seen()) == await log("hidden", seen()) == await log("missing", seen()) == []
    assert await log("docs", every) == ["Third", "Second", "First"]
    # A merge is in the log once, and a log goes on after a commit.
    repository.run("checkout", "-q", "-b", "topic", commits[0])
    repository.commit("Topic", **{"docs/a.md": "word three\n"})
    repository.run("checkout", "-q", "main")
    repository.run("merge", "-q", "-s", "ours", "--no-edit", "topic")
    repository.put("docs/a.md", "word four\n")
    repository.run("add", "-A")
    repository.run("commit", "-q", "--amend", "-m", "Merge")
    assert await log("docs", seen()) == ["Merge", "Topic", "Third", "First"]
    assert await log(f"docs&after={commits[2]}", seen()) == ["First"]
    with pytest.raises(MCPError, match="not in this log"):
        await log(f"docs&after={commits[1]}", seen())


async def test_a_file_that_comes_from_a_hidden_file_is_new(seen: Callable[..., Caller], commits: list[str]) -> None:
    found = await text(seen(), "diff/HEAD?path=docs/moved.md")
    assert "new file mode" in found
    assert "+word plain text\n" in found


async def test_a_visible_file_in_place_of_a_folder_shows_nothing_of_the_folder(
    seen: Callable[..., Caller], repository: Repository
) -> None:
    repository.put("x/hidden", "word hidden\n")
    repository.put("y", "one\n")
    repository.commit("A folder")
    (repository.path / "x" / "hidden").unlink()
    (repository.path / "x").rmdir()
    repository.commit("A file", x="word\n", y="two\n")
    found = await text(seen(), "diff/HEAD")
    assert "+two\n" in found
    assert "hidden" not in found


async def test_a_diff_of_more_files_than_a_command_takes_is_whole(
    seen: Callable[..., Caller], repository: Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(diff, "MAX_PATHS", 20)
    for number in range(9):
        repository.put(f"file-{number}", f"{number}\n")
    repository.commit("Files", secret="hidden\n")
    found = await text(seen(), "diff/HEAD")
    assert [f"+{number}\n" in found for number in range(9)] == [True] * 9
    assert "hidden" not in found


async def test_a_diff_that_is_too_large_advises_visible_files(
    seen: Callable[..., Caller], repository: Repository
) -> None:
    repository.commit("Large", secret="x\n" * 20_000, visible="y\n" * 20_000)
    with pytest.raises(MCPError) as caught:
        await text(seen(), "diff/HEAD")
    assert "path=visible" in str(caught.value)
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize(
    "path",
    [
        "file/HEAD~1/docs/secret.md",
        "file/HEAD~1/docs/secret.md/",
        "blame/HEAD~1/docs/secret.md",
        "tree/HEAD/hidden",
        "tree/HEAD/hidden/",
        "tree/HEAD/missing",
    ],
)
async def test_a_hidden_path_does_not_exist_in_any_spelling(
    path: str, seen: Callable[..., Caller], commits: list[str]
) -> None:
    # The visible URIs are those that lists show, without a slash at the end.
    exact = {f"git://shop/{kind}/HEAD~1/docs/secret.md" for kind in ("file", "blame")} | {"git://shop/tree/HEAD/hidden"}
    caller = seen(lambda uri: uri not in exact)
    with pytest.raises(ResourceNotFound):
        await text(caller, path)
    with pytest.raises(ResourceNotFound):
        await caller.directory(f"git://shop/{path}")
    assert await caller.shows(f"git://shop/{path}") == ("missing" in path)


async def test_completion_and_search_name_nothing_hidden(seen: Callable[..., Caller], commits: list[str]) -> None:
    caller, template = seen(), "git://shop/file/{ref}/{+path}"
    for variable, value in (("path", "docs/"), ("path", ""), ("ref", "")):
        values = (await caller.complete(template, variable, value, {"ref": "HEAD~1"})).values
        assert values
        assert not any(word in one for word in SECRET for one in values)
    values = (await caller.complete("git://shop/log/{ref}{?path,limit,after}", "path", "", {"ref": "HEAD"})).values
    assert values == ["docs/"]
    hits = await caller.search("word", 5)
    assert [hit.resource.uri for hit in hits] == [
        "git://shop/file/HEAD/docs/a.md",
        "git://shop/file/HEAD/docs/moved.md",
    ]
    page = await caller.provider.list_resources(Request(visible=is_visible))
    assert not any("hidden" in one.uri or "secret" in one.uri for one in page.items)
