"""Finding files by their names: completion and search."""

from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from carrel.errors import InvalidParams
from carrel.sources.files.source import FilesSource
from carrel.testing import Caller

Share = Callable[..., Awaitable[FilesSource]]
Put = Callable[..., Path]


async def complete(source: FilesSource, typed: str) -> list[str]:
    return list((await Caller(source).complete(f"{source.uri}/{{+path}}", "path", typed)).values)


async def test_completion_drills_down_one_directory_at_a_time(put: Put, share: Share) -> None:
    for path in ("README.md", "src/main.rs", "src/lib/deep.rs", "src/.hidden", "docs/a.md", "build/x.o", ".gitignore"):
        put(path, "build/\n")
    source = await share()
    assert await complete(source, "") == ["docs/", "src/", "README.md"]
    assert await complete(source, "s") == ["src/", "docs/"]
    assert await complete(source, "src") == ["src/"]
    assert await complete(source, "src/") == ["src/lib/", "src/main.rs"]
    assert await complete(source, "src/lib/") == ["src/lib/deep.rs"]
    assert await complete(source, "/src/m") == ["src/main.rs"]
    for nothing in ("x", "src/x", "README.md/", "nope/", "src//", "./", "../", "build/", "src/.h", "\0", "src/\0/"):
        assert await complete(source, nothing) == []


async def test_completion_ignores_case_and_prefers_beginnings(put: Put, share: Share) -> None:
    for path in ("Maintainers.md", "domain.py", "main.py", "SRC/Main.rs"):
        put(path)
    source = await share()
    assert await complete(source, "MAIN") == ["Maintainers.md", "main.py", "domain.py"]
    assert await complete(source, "src/main") == ["SRC/Main.rs"]


async def test_completion_suggests_no_more_than_a_hundred_and_says_how_many_there_are(put: Put, share: Share) -> None:
    for number in range(250):
        put(f"{number:03}.txt")
    source = await share()
    found = await Caller(source).complete(f"{source.uri}/{{+path}}", "path", "")
    assert (len(found.values), found.total, found.has_more) == (100, 250, True)
    found = await Caller(source).complete(f"{source.uri}/{{+path}}", "path", "24")
    assert (len(found.values), found.total, found.has_more) == (13, 13, False)


async def test_completion_escapes_what_would_end_a_path(put: Put, share: Share) -> None:
    for path in ("what?/a#b.txt", "50%25.txt", "100%.txt"):
        put(path)
    source = await share()
    assert await complete(source, "") == ["what%3F/", "100%.txt", "50%2525.txt"]
    for typed in ("what?/", "what%3F/", "WHAT?/a#", "what%3f/a%23"):
        assert await complete(source, typed) == ["what%3F/a%23b.txt"]


async def test_windows_are_suggested_too(put: Put, share: Share) -> None:
    put("a.log", "line\n" * 500)
    source = await share()
    templates = {
        one.uri_template: one.uri_template.rpartition("?")[2].rstrip("}") for one in await Caller(source).templates()
    }
    windows = {template: variable for template, variable in templates.items() if variable in ("lines", "tail", "bytes")}
    assert len(windows) == 3
    for template, variable in windows.items():
        found = await Caller(source).complete(template, variable, "", {"path": "a.log"})
        assert found.values
        for value in found.values:
            assert await Caller(source).read_resource(f"{source.uri}/a.log?{variable}={value}")
    for template, variable in ((f"{source.uri}/{{+path}}", "nope"), ("file:///{+path}", "path")):
        with pytest.raises(InvalidParams):
            await Caller(source).complete(template, variable, "")


async def search(source: FilesSource, query: str, limit: int = 10) -> list[str]:
    return [hit.resource.uri.removeprefix(f"{source.uri}/") for hit in await Caller(source).search(query, limit)]


async def test_search_ranks_the_name_before_the_path(put: Put, share: Share) -> None:
    for path in (
        "main/notes.txt",
        "src/main.rs",
        "src/domain.rs",
        "main.txt.bak",
        "docs/the-main-thing.md",
        "main"[:3],
    ):
        put(path)
    source = await share()
    found = await search(source, "main")
    assert found[0] == "main"
    assert found[1] == "src/main.rs"
    assert set(found) == {
        "main",
        "main/notes.txt",
        "src/main.rs",
        "src/domain.rs",
        "main.txt.bak",
        "docs/the-main-thing.md",
    }
    assert found[-1] == "main/notes.txt"
    assert found.index("docs/the-main-thing.md") < found.index("src/domain.rs")


async def test_search_wants_all_words_wherever_they_are_in_the_path(put: Put, share: Share) -> None:
    for path in ("docs/Diabetes Guide.md", "docs/guide.md", "diabetes/other.md", "知识/糖尿病 指南.txt"):
        put(path)
    source = await share()
    assert await search(source, "guide DIABETES") == ["docs/Diabetes%20Guide.md"]
    assert await search(source, "docs guide") == ["docs/guide.md", "docs/Diabetes%20Guide.md"]
    assert len(await search(source, "糖尿病")) == 1
    assert len(await search(source, "知识 指南")) == 1


async def test_search_finds_only_what_is_shared(put: Put, share: Share) -> None:
    for path in (".secret/key.txt", "build/key.txt", "key.txt"):
        put(path)
    put(".gitignore", "build/\n")
    source = await share()
    assert await search(source, "key") == ["key.txt"]


async def test_search_returns_the_best_of_many(put: Put, share: Share) -> None:
    for number in range(1200):
        put(f"{number % 30}/report {number}.txt")
    put("report")
    source = await share()
    for limit in (0, 1, 5, 1000):
        found = await search(source, "report", limit)
        assert len(found) == limit
        assert not found or found[0] == "report"
