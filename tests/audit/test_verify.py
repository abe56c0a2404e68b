"""Verification of a log: every change of its lines is found."""

from __future__ import annotations

from pathlib import Path

import pytest

from carrel.audit import verify_files
from carrel.audit.chain import Chain
from carrel.audit.verify import files_of
from carrel.errors import ConfigError


def write(path: Path, lines: list[bytes]) -> str:
    path.write_bytes(b"".join(line + b"\n" for line in lines))
    return str(path)


def chained(count: int, key: bytes = b"") -> list[bytes]:
    chain = Chain(key)
    return [chain.add(b'{"entry":%d}' % number) for number in range(1, count + 1)]


def test_a_complete_log_has_no_problems(tmp_path: Path) -> None:
    found = verify_files([write(tmp_path / "a", chained(5))])
    assert (found.lines, found.problems, found.first, found.number) == (5, [], 1, 5)
    assert found.digest in chained(5)[-1].decode()


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (
            lambda lines: [*lines[:2], lines[2].replace(b'"entry":3', b'"entry":4'), *lines[3:]],
            "a:3: line 3 was changed",
        ),
        (lambda lines: [*lines[:2], *lines[3:]], "a:3: line 4 follows line 2: 1 lines before it are missing"),
        (lambda lines: [lines[0], lines[2], lines[1], *lines[3:]], "a:2: line 3 follows line 1"),
        (lambda lines: [*lines[:2], lines[1], *lines[2:]], "a:3: line 2 follows line 2: the line is repeated or moved"),
        (lambda lines: [*lines[:2], b'{"entry":0}', *lines[2:]], "a:3: the line has no hash"),
        (lambda lines: [*lines[:2], b"", *lines[2:]], "a:3: the line has no hash"),
        (lambda lines: [lines[0].replace(b'"entry":1', b'"entry":9'), *lines[1:]], "a:1: line 1 was changed"),
        (lambda lines: [*lines[:4], chained(5, b"other")[4]], "a:5: line 5 was changed"),
    ],
)
def test_a_changed_missing_repeated_moved_or_added_line_is_found(tmp_path: Path, change, problem: str) -> None:
    path = write(tmp_path / "a", change(chained(5)))
    assert any(problem in each for each in verify_files([path]).problems), verify_files([path]).problems


def test_who_does_not_have_the_key_cannot_make_the_hashes(tmp_path: Path) -> None:
    path = write(tmp_path / "a", chained(5))
    assert len(verify_files([path], b"key").problems) == 5
    assert verify_files([write(tmp_path / "a", chained(5, b"key"))], b"key").problems == []


def test_rotated_files_come_oldest_first_and_may_begin_late(tmp_path: Path) -> None:
    lines = chained(6)
    write(tmp_path / "a.2", lines[2:3])
    write(tmp_path / "a.1", lines[3:4])
    write(tmp_path / "a", lines[4:])
    files = files_of(str(tmp_path / "a"))
    assert [Path(file).name for file in files] == ["a.2", "a.1", "a"]
    found = verify_files(files)
    assert (found.problems, found.first, found.lines) == ([], 3, 4)


def test_a_missing_file_between_others_is_a_problem(tmp_path: Path) -> None:
    lines = chained(6)
    write(tmp_path / "a.3", lines[:2])
    write(tmp_path / "a.1", lines[3:4])
    write(tmp_path / "a", lines[4:])
    (tmp_path / "a.old").write_bytes(b"another file")
    files = files_of(str(tmp_path / "a"))
    assert [Path(file).name for file in files] == ["a.3", "a.1", "a"]
    assert len(verify_files(files).problems) == 1
    assert "a.1:1: line 4 follows line 2: 1 lines before it are missing" in verify_files(files).problems[0]


def test_a_log_that_does_not_exist_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="there is no file"):
        files_of(str(tmp_path / "a"))
    with pytest.raises(ConfigError, match="cannot be read"):
        verify_files([str(tmp_path)])
