"""The end of the output of a failed test run, which says why tests failed."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

TESTS = """
import pytest

@pytest.mark.parametrize("number", range(50))
def test_skipped(number):
    pytest.skip(f"skipped for reason {number}")

@pytest.fixture
def broken():
    raise ValueError("no fixture")

def test_error(broken):
    pass

def test_failure():
    print("noise" * 10_000)
    assert 1 + 1 == 3, "x" * 10_000
"""


@pytest.mark.parametrize(
    "processes",
    [pytest.param([], id="one process", marks=pytest.mark.exhaustive), pytest.param(["-n", "1"], id="xdist")],
)
def test_reasons_of_failures_are_the_last_lines_of_the_output(tmp_path: Path, processes: list[str]) -> None:
    folder = Path(__file__).parent
    (tmp_path / "test_it.py").write_text(TESTS)
    (tmp_path / "conftest.py").symlink_to(folder / "conftest.py")
    options = ["-c", str(folder.parent / "pyproject.toml"), "--rootdir", str(tmp_path), "-p", "no:cacheprovider"]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *options, "-n", "0", *processes, str(tmp_path)],
        capture_output=True,
        text=True,
        cwd=folder,
        check=False,
        timeout=200,
    )
    *_, end = done.stdout.partition("reasons of failures")
    assert "50 skipped" in end, done.stdout + done.stderr
    assert len(end) < 3000
    assert "test_it.py::test_failure\n" in end
    assert "AssertionError: xxx" in end
    assert "test_it.py::test_error\n" in end
    assert "ValueError: no fixture" in end
    assert "skipped for reason" not in done.stdout
