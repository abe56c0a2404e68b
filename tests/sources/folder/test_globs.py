"""Patterns that the author of a server gives: understood, or refused at the start."""

import re
from collections.abc import Awaitable, Callable
from functools import lru_cache
from pathlib import Path

import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from carrel import Server
from carrel.cli import main
from carrel.errors import ConfigError
from carrel.sources.files.options import FilesOptions
from carrel.sources.files.source import FilesSource
from carrel.sources.folder.notices import Notices
from carrel.sources.folder.patterns import CLASSES, read_globs
from carrel.sources.folder.selection import FileSelection
from carrel.sources.folder.work import Work
from carrel.sources.skills.options import SkillsOptions
from carrel.sources.skills.source import SkillsSource
from carrel.testing import Caller

Share = Callable[..., Awaitable[FilesSource]]
Put = Callable[..., Path]

REFUSED = [
    "",
    " ",
    "\t",
    "/",
    "//",
    " /",
    " a",
    "a/ /b",
    "[",
    "a[b.md",
    "a[",
    "[]",
    "[!]",
    "[[:nope:]]",
    "a[b/c]",
    "a\\",
    "[a\\",
    "#draft*",
    "!a.md",
    "!",
    "a//b",
    "a//",
    "//a",
    "./a",
    "../a",
    "a/../b",
    ".",
    "..",
    "docs\\private",
    "*.md\n*.txt",
    "a\r",
    "a\0b",
    7,
    None,
    b"*.md",
]


@pytest.mark.parametrize("glob", REFUSED)
@pytest.mark.parametrize("option", ["include", "exclude"])
def test_a_pattern_that_cannot_be_understood_is_refused_with_its_name_and_option(
    option: str, glob: object, folder: Path
) -> None:
    with pytest.raises(ConfigError, match=f"^{option} {re.escape(repr(glob))} .+"):
        FilesSource(folder, FilesOptions(**{option: ["*.md", glob]}))


@pytest.mark.parametrize("option", ["include", "exclude"])
@pytest.mark.parametrize("globs", ["*.md", "", b"*.md"])
def test_one_text_is_not_taken_for_a_list_of_patterns(option: str, globs: object, folder: Path) -> None:
    with pytest.raises(ConfigError, match=f"{option} is a list of patterns"):
        FilesSource(folder, FilesOptions(**{option: globs}))


@pytest.mark.parametrize("glob", ["[", "", "#draft*", "!x"])
@pytest.mark.parametrize("folders", [0, 1])
def test_skills_refuse_it_too(glob: str, folders: int, folder: Path) -> None:
    with pytest.raises(ConfigError, match="exclude"):
        SkillsSource().add(*[folder] * folders, options=SkillsOptions(exclude=[glob]))
    with pytest.raises(ConfigError, match="exclude"):
        Server("x").skills(folder, exclude=[glob])
    with pytest.raises(ConfigError, match="exclude"):
        Server("x").skills(folder, exclude=glob)


@pytest.mark.parametrize("glob", [glob for glob in REFUSED if isinstance(glob, str) and "\0" not in glob][::4])
@pytest.mark.parametrize("option", ["--include", "--exclude"])
def test_the_command_line_refuses_it_too(
    option: str, glob: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["serve", str(folder), f"{option}={glob}"]) == 2
    said = capsys.readouterr().err
    assert option in said
    assert repr(glob) in said


@pytest.mark.parametrize(
    "glob",
    [
        "*.md",
        "/a",
        "a/",
        "a/**",
        "**/a",
        "[ab]",
        "[!a]",
        "\\#a",
        "\\!a",
        "a\\ ",
        "a ",
        "\\ a",
        "{a,b}",
        "糖*",
        "[[:alpha:]]",
    ],
)
def test_a_pattern_that_can_be_understood_is_taken(glob: str, folder: Path) -> None:
    FilesSource(folder, FilesOptions(include=[glob], exclude=[glob]))


def test_too_many_patterns_are_refused(folder: Path) -> None:
    with pytest.raises(ConfigError, match="exclude has too many patterns"):
        FilesSource(folder, FilesOptions(exclude=[f"name{number}" for number in range(100_000)]))


# An implementation of its own of what a pattern matches: one that goes back and forth, name by name.


def matches_by_definition(glob: str, path: str, is_directory: bool) -> bool:
    glob = glob.rstrip(" ") if not glob.rstrip(" ").endswith("\\") else glob.rstrip(" ") + " "
    if glob.endswith("/"):
        if not is_directory:
            return False
        glob = glob[:-1]
    names, wanted = path.split("/"), glob.removeprefix("/").split("/")
    if "/" not in glob:
        return name_matches(wanted[0], names[-1])

    @lru_cache
    def fits(at: int, name: int) -> bool:
        if at == len(wanted):
            return name == len(names)
        if len(wanted[at]) > 1 and set(wanted[at]) == {"*"}:
            if at == len(wanted) - 1:
                return name < len(names)
            return fits(at + 1, name) or (name < len(names) and fits(at, name + 1))
        return name < len(names) and name_matches(wanted[at], names[name]) and fits(at + 1, name + 1)

    return fits(0, 0)


def name_matches(glob: str, name: str) -> bool:
    if not glob:
        return not name
    if glob[0] == "*":
        return any(name_matches(glob[1:], name[begin:]) for begin in range(len(name) + 1))
    if not name:
        return False
    if glob[0] == "?":
        return name_matches(glob[1:], name[1:])
    if glob[0] == "\\":
        return name[0] == glob[1] and name_matches(glob[2:], name[1:])
    if glob[0] == "[":
        members, rest = members_of(glob[1:])
        return members(name[0]) and name_matches(rest, name[1:])
    return name[0] == glob[0] and name_matches(glob[1:], name[1:])


def members_of(text: str) -> tuple[Callable[[str], bool], str]:
    negated = text[0] in "!^"
    text = text[negated:]
    tests: list[Callable[[str], bool]] = []
    first = True
    while first or text[0] != "]":
        first = False
        if text.startswith("[:") and ":]" in text:
            name, text = text[2:].split(":]", 1)
            tests.append(lambda character, name=name: re.match(f"[{CLASSES[name]}]", character) is not None)
            continue
        low, text = (text[1], text[2:]) if text[0] == "\\" else (text[0], text[1:])
        high = low
        if text[0] == "-" and text[1:2] not in ("]", ""):
            high, text = (text[2], text[3:]) if text[1] == "\\" else (text[1], text[2:])
        tests.append(lambda character, low=low, high=high: low == character or low <= character <= high)
    return (lambda character: any(test(character) for test in tests) != negated), text[1:]


PATHS = st.lists(st.text("ab.-!#[]* ^", min_size=1, max_size=5), min_size=1, max_size=4).map("/".join)
GLOBS = st.text("ab*?[]!/\\-^ .#:", min_size=1, max_size=10) | st.text(max_size=8)


@given(GLOBS, PATHS, st.booleans())
@example("a[!a-b]", "ac", False)
@example("**/a/**", "a/b", False)
def test_any_text_is_refused_or_matches_what_its_definition_says(glob: str, path: str, is_directory: bool) -> None:
    try:
        patterns = read_globs("include", [glob])
    except ConfigError:
        return
    assert bool(patterns.decide(path, is_directory)) is matches_by_definition(glob, path, is_directory)


@given(GLOBS)
def test_no_text_shares_everything_but_asterisks(glob: str) -> None:
    try:
        selection = FileSelection(include=[glob])
    except ConfigError:
        return
    assume(not set(glob.strip()) <= set("*/"))
    passage = selection.passage(Work(), Notices("/"))
    assert selection.include
    names = ("a", "b", "ab", "zz", "Q-7.x", "#", "[", "a b", "0", "!!", "~" * 9)
    assert not all(passage.admits(name, False) for name in names) or set(glob) <= set("*?/ ")


@given(GLOBS)
def test_no_text_leaves_out_nothing_of_what_it_matches(glob: str) -> None:
    try:
        selection = FileSelection(exclude=[glob])
    except ConfigError:
        return
    passage = selection.passage(Work(), Notices("/"))
    for name in ("a", "b", "ab", "zz", "Q-7.x", "#", "[", "a b", "0", "!!"):
        assert passage.admits(name, False) is not matches_by_definition(glob, name, False)


async def test_an_ignore_file_keeps_the_lines_that_can_be_understood(put: Put, share: Share) -> None:
    put(".gitignore", "[\n\n#x\na[b.md\n\\\n/\nsecret.txt\n")
    put("secret.txt")
    put("a.txt")
    assert [resource.name for resource in (await Caller(await share()).resources())[1:]] == ["a.txt"]
