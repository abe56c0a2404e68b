"""Which files are shared: .gitignore, include and exclude, hidden names."""

import subprocess
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from carrel.sources.files.source import FilesSource
from carrel.testing import Caller

Share = Callable[..., Awaitable[FilesSource]]
Put = Callable[..., Path]


async def names(source: FilesSource) -> list[str]:
    return [resource.uri.removeprefix(f"{source.uri}/") for resource in (await Caller(source).resources())[1:]]


@pytest.mark.parametrize(
    ("patterns", "left_out", "shared"),
    [
        ("*.log", ["a.log", "x/a.log"], ["a.txt", "log"]),
        ("/a.log", ["a.log"], ["x/a.log"]),
        ("build/", ["build/x", "x/build/y"], ["x/y/build.txt"]),
        ("x/y", ["x/y/z.txt"], ["y/z.txt", "a/x/y/z.txt"]),
        ("**/y", ["y/z.txt", "a/x/y/z.txt"], ["z.txt"]),
        ("x/**", ["x/a", "x/y/z"], ["y/x"]),
        ("x/**/z", ["x/z", "x/y/z", "x/y/y/z"], ["z", "y/z"]),
        ("*\n!*.md", ["a.txt", "x/y.md"], ["a.md"]),
        ("*\n!*/\n!*.md", ["a.txt", "x/a.txt"], ["a.md", "x/y.md", "x/y/z.md"]),
        ("/*\n!/src", ["a", "x/y"], ["src/a", "src/x/a"]),
        ("x/*\n!x/keep", ["x/a", "x/b/c"], ["x/keep", "y/a"]),
        ("x\n!x/keep", ["x/keep"], ["y"]),  # what is in a directory that is left out cannot be brought back
        ("# a comment\n\\#x\n\n  \n", ["#x"], ["a comment", "# a comment"]),
        ("a[bc]?d", ["abxd", "acyd"], ["aexd", "abd"]),
        ("trailing \nwindows\r\n", ["trailing", "windows"], ["trailing x"]),
        ("[\n!\nx\\", [], ["a", "x"]),  # patterns that are none
        ("\ufeffbom", ["bom"], []),
        ("caf\udce9*", [], ["cafe"]),
    ],
)
async def test_a_gitignore_leaves_out_what_git_leaves_out(
    patterns: str, left_out: list[str], shared: list[str], put: Put, share: Share
) -> None:
    put(".gitignore", patterns.encode("utf-8", "surrogateescape"))
    for path in left_out + shared:
        put(path)
    assert await names(await share()) == sorted_as_listed(
        [path.replace(" ", "%20").replace("#", "%23") for path in shared]
    )


def sorted_as_listed(paths: list[str]) -> list[str]:
    """Sort paths with the files of a directory before its directories."""
    return sorted(
        paths, key=lambda path: [(index < path.count("/"), part) for index, part in enumerate(path.split("/"))]
    )


async def test_the_deepest_gitignore_has_the_last_word(put: Put, share: Share) -> None:
    put(".gitignore", "*.log\n/only-here\n")
    put("sub/.gitignore", "!kept.log\n/local\n")
    for path in ("a.log", "kept.log", "only-here", "sub/a.log", "sub/kept.log", "sub/local", "sub/deep/local"):
        put(path)
    put("sub/only-here")
    assert await names(await share()) == ["sub/kept.log", "sub/only-here", "sub/deep/local"]


async def test_git_info_exclude_counts_too(put: Put, share: Share) -> None:
    put(".git/info/exclude", "private/\n*.tmp\n")
    put(".gitignore", "!wanted.tmp\n")
    for path in ("private/x", "a.tmp", "wanted.tmp", "b"):
        put(path)
    assert await names(await share()) == ["b", "wanted.tmp"]


async def test_a_folder_in_a_repository_is_under_the_rules_of_the_repository(
    folder: Path, put: Put, share: Share
) -> None:
    put(".git/info/exclude", "*.tmp\n")
    put(".gitignore", "*.key\n/docs/drafts/\n/build/\n")
    put("docs/.gitignore", "local.md\n")
    for path in ("docs/a.md", "docs/a.tmp", "docs/a.key", "docs/drafts/x.md", "docs/local.md", "docs/build/x.md"):
        put(path)
    put("build/out.md")
    assert await names(await share(folder / "docs")) == ["a.md", "build/x.md"]
    # What is named by itself is wanted, whatever is said about it elsewhere.
    assert await names(await share(folder / "build")) == ["out.md"]


async def test_a_worktree_finds_the_exclude_file_of_its_repository(tmp_path: Path, put: Put, share: Share) -> None:
    main = tmp_path / "main" / ".git"
    (main / "info").mkdir(parents=True)
    (main / "info" / "exclude").write_text("*.tmp\n")
    (main / "worktrees" / "one").mkdir(parents=True)
    (main / "worktrees" / "one" / "commondir").write_text("../..\n")
    put(".git", f"gitdir: {main}/worktrees/one\n")
    put("a.tmp")
    put("a.txt")
    assert await names(await share()) == ["a.txt"]


async def test_gitignore_can_be_turned_off(put: Put, share: Share) -> None:
    put(".gitignore", "*.log\n")
    put("a.log")
    assert await names(await share(gitignore=False)) == ["a.log"]


async def test_a_gitignore_that_is_a_link_is_not_followed(folder: Path, put: Put, share: Share) -> None:
    put("patterns", "*.log\n")
    put("a.log")
    (folder / ".gitignore").symlink_to("patterns")
    assert await names(await share()) == ["a.log", "patterns"]


async def test_an_edited_gitignore_takes_effect_at_once(put: Put, share: Share) -> None:
    path = put(".gitignore", "*.log\n")
    for name in ("a.log", "b.txt"):
        put(name)
    source = await share()
    assert await names(source) == ["b.txt"]
    path.write_text("*.txt\n")
    assert await names(source) == ["a.log"]
    path.unlink()
    assert await names(source) == ["a.log", "b.txt"]


@pytest.mark.parametrize(
    ("options", "shared"),
    [
        ({"include": ["*.md"]}, ["README.md", "docs/a.md", "docs/deep/b.md"]),
        ({"include": ["docs/**"]}, ["docs/a.md", "docs/c.txt", "docs/deep/b.md"]),
        ({"include": ["docs/"]}, ["docs/a.md", "docs/c.txt", "docs/deep/b.md"]),
        ({"include": ["*.md", "*.py"]}, ["README.md", "docs/a.md", "docs/deep/b.md", "src/x.py"]),
        ({"include": ["/*.md"]}, ["README.md"]),
        ({"exclude": ["docs"]}, ["README.md", "src/x.py"]),
        ({"exclude": ["*.md", "deep/"]}, ["docs/c.txt", "src/x.py"]),
        ({"include": ["*.md"], "exclude": ["docs/deep"]}, ["README.md", "docs/a.md"]),
        (
            {"hidden": True},
            [".env", ".github/w.yml", "README.md", "docs/a.md", "docs/c.txt", "docs/deep/b.md", "src/x.py"],
        ),
    ],
)
async def test_include_and_exclude_take_patterns_of_gitignore(
    options: dict[str, object], shared: list[str], put: Put, share: Share
) -> None:
    for path in (".env", ".github/w.yml", "README.md", "docs/a.md", "docs/c.txt", "docs/deep/b.md", "src/x.py"):
        put(path)
    assert sorted(await names(await share(**options))) == shared


async def test_exclude_cannot_be_overruled(put: Put, share: Share) -> None:
    put(".gitignore", "!secret.txt\n")
    put("secret.txt")
    assert await names(await share(exclude=["secret.txt"], include=["secret.txt"])) == []


def test_a_source_loads_nothing_that_it_does_not_need(tmp_path: Path) -> None:
    (tmp_path / "a.txt").touch()
    (tmp_path / ".gitignore").write_text("*.log\n")
    program = f"""
import asyncio, sys
from carrel.catalog.provider import Request
from carrel.sources.files.source import FilesSource
loaded = set(sys.modules)
async def main():
    source = FilesSource({str(tmp_path)!r})
    await source.start(None)
    await source.list_resources(Request())
    await source.read_resource(source.uri + "/a.txt", Request())
    await source.stop()
asyncio.run(main())
unwanted = {{"watchfiles", "puremagic", "mimetypes", "hashlib"}}
unwanted |= {{"carrel.sources.folder.watch", "carrel.sources.files.search"}}
assert not unwanted & set(sys.modules)
assert len(set(sys.modules) - loaded) < 10, set(sys.modules) - loaded
"""
    subprocess.run([sys.executable, "-c", program], check=True)
