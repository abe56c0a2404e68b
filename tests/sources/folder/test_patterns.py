"""The patterns of .gitignore, one by one. What git says about each was asked of git itself."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from carrel.sources.folder.patterns import read_lines
from support.processor_time import loops


@pytest.mark.parametrize(
    ("pattern", "matched", "not_matched"),
    [
        ("a", ["a", "x/a", "a/"], ["ab", "a/x"]),
        ("/a", ["a"], ["x/a"]),
        ("a/", ["a/", "x/a/"], ["a", "x/a"]),
        ("a/b", ["a/b", "a/b/"], ["x/a/b", "b"]),
        ("*", ["a", "x/a", ".a"], []),
        ("*.c", ["x.c", "y/x.c", ".c"], ["x.cc", "c"]),
        ("a*b*c", ["abc", "aXbYc", "abbcc", "acbc"], ["acb", "ab", "abcd"]),
        ("a**b", ["ab", "aXb"], ["a"]),
        ("a/**b", ["a/b", "a/xb"], ["a/x/b"]),
        ("?", ["a", "糖", "x/a"], ["ab"]),
        ("a?b", ["aXb"], ["ab", "a/b"]),
        ("/a*b", ["ab", "axb"], ["a/b"]),
        ("**/a", ["a", "x/a", "x/y/a"], ["xa"]),
        ("a/**", ["a/x", "a/x/y", "a/x/"], ["a", "a/"]),
        ("/**", ["a", "x/y"], []),
        ("**/", ["a/", "x/y/"], ["a"]),
        ("a/**/b", ["a/b", "a/x/b", "a/x/y/b"], ["a/xb", "b", "x/a/b"]),
        ("a/**/b/**/c", ["a/b/c", "a/b/b/c", "a/x/b/y/c", "a/b/c/b/c"], ["a/c", "a/b"]),
        ("**/a/**", ["a/x", "x/a/y/z"], ["a"]),
        ("a/*/b", ["a/x/b"], ["a/b", "a/x/y/b"]),
        ("[ab]", ["a", "b"], ["c", "ab"]),
        ("[!ab]", ["c"], ["a", "b"]),
        ("[^ab]", ["c"], ["a", "b"]),
        ("[a-c]x", ["bx"], ["dx"]),
        ("[c-a]", ["c"], ["b", "a"]),
        ("[]a]", ["]", "a"], ["b"]),
        ("[!]a]", ["b"], ["]", "a"]),
        ("[a-]", ["a", "-"], ["b"]),
        ("[\\]]", ["]"], ["\\"]),
        ("[[:alpha:]_]", ["x", "_"], ["1"]),
        ("[![:digit:]]", ["x"], ["1"]),
        ("a[!x]b", ["ayb"], ["a/b", "axb"]),
        ("\\*", ["*"], ["a"]),
        ("\\!a", ["!a"], ["a"]),
        ("\\#a", ["#a"], ["a"]),
        ("a ", ["a"], ["a "]),
        ("a\\ ", ["a "], ["a"]),
        ("a\\  ", ["a "], ["a"]),
        (" a", [" a"], ["a"]),
        ("a\r", ["a"], ["a\r"]),
        ("new\nline", [], ["new", "line"]),
        ("a.b", ["a.b"], ["aXb"]),
        ("(a|b)+", ["(a|b)+"], ["a", "b"]),
    ],
)
def test_a_pattern_matches_what_it_matches_in_git(pattern: str, matched: list[str], not_matched: list[str]) -> None:
    patterns = read_lines(pattern.split("\n"))
    for path in matched:
        assert patterns.decide(path.rstrip("/"), path.endswith("/")) is True, path
    for path in not_matched:
        if "\n" not in pattern:
            assert patterns.decide(path.rstrip("/"), path.endswith("/")) is None, path


@pytest.mark.parametrize("line", ["", " ", "#", "# a", "/", "!", "[", "[a", "[!", "a\\", "[[:nope:]]", "[a-"])
def test_a_line_that_is_no_pattern_says_nothing(line: str) -> None:
    patterns = read_lines([line])
    assert not any(patterns.decide(path, False) for path in ("a", "#", "# a", "[", "[a", "!", "x/a"))


def test_the_last_pattern_that_matches_decides() -> None:
    patterns = read_lines(["*.log", "!keep.log", "/x/keep.log"])
    assert patterns.decide("a.log", False) is True
    assert patterns.decide("keep.log", False) is False
    assert patterns.decide("x/keep.log", False) is True
    assert patterns.decide("a.txt", False) is None


def test_a_file_is_covered_by_a_pattern_for_a_directory_above_it() -> None:
    assert read_lines(["docs/"]).cover("docs/deep/a.txt")
    assert read_lines(["docs/**"]).cover("docs/deep/a.txt")
    assert read_lines(["*.md"]).cover("docs/a.md")
    assert not read_lines(["docs/"]).cover("docs")
    assert not read_lines(["*.md", "!a.md"]).cover("docs/a.md")


@pytest.mark.parametrize(
    "pattern",
    ["*a" * 30 + "b", "**/a*" * 20 + "/b", "a/**/" * 20 + "b", "*" * 500 + "b", "?*" * 50 + "b", "[!b]*" * 40 + "c"],
)
def test_a_hostile_pattern_takes_no_time(pattern: str) -> None:
    patterns = read_lines([pattern])

    def decide() -> None:
        for path in ("a" * 255, "/".join(["a" * 50] * 80), "/".join("a" * 128), "a/" * 2000 + "x"):
            patterns.decide(path, False)

    assert loops(decide) < 200


@given(st.text("ab*?[]!/\\-^ .#:", max_size=12), st.text("ab/.", min_size=1, max_size=12))
def test_any_line_is_a_pattern_or_none_but_never_an_error(line: str, path: str) -> None:
    assert read_lines([line]).decide(path, False) in (True, False, None)
