"""Suggestions for misspelled names and paths."""

from __future__ import annotations

from pathlib import Path

from carrel.near_names import near, near_path, near_uri


def test_a_name_that_is_near_is_suggested_and_else_all_names_are_listed() -> None:
    assert near("titel", ["author", "title"]) == "; did you mean 'title'?"
    assert near("x", ["author", "title"]) == "; there is author, title"
    assert near("x", ["author", "title"], "; see the manual") == "; see the manual"
    assert near("x", []) == "; there are no names to choose from"


def test_names_of_servers_cannot_control_the_terminal() -> None:
    assert "\x1b" not in near("x", ["\x1b[31mred"])
    assert "\x1b" not in near("red", ["\x1bred"])


def test_a_path_that_is_near_is_suggested(tmp_path: Path) -> None:
    (tmp_path / "documents").mkdir()
    assert near_path(str(tmp_path / "docments")) == f" (did you mean {tmp_path / 'documents'}?)"
    assert near_path(str(tmp_path / "x")) == near_path(str(tmp_path / "none" / "x")) == ""


def test_a_uri_that_is_near_is_suggested_by_the_last_part_of_its_path() -> None:
    known = ["file:///notes/tea.md", "file:///notes/cars.md", "memo://one"]
    assert near_uri("cars.md", known) == near_uri("file:///car.md", known) == "; did you mean 'file:///notes/cars.md'?"
    assert near_uri("*.log", known) == near_uri("one", []) == ""
