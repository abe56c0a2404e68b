"""The manifest of requirements, checked both ways. See README.md."""

from __future__ import annotations

import ast
import re
import tomllib
from functools import cache
from pathlib import Path
from typing import Any

import pytest

HERE = Path(__file__).parent
TESTS = HERE.parent
REVISIONS = ["2026-07-28", "2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05"]
#: The requirements by file, such as "2026-07-28" for servers and "client/2026-07-28" for clients.
MANIFEST: dict[str, list[dict[str, Any]]] = {
    path.relative_to(HERE).with_suffix("").as_posix(): tomllib.loads(path.read_text(encoding="utf-8"))["requirement"]
    for path in sorted(HERE.rglob("*.toml"), reverse=True)
}
BY_ID = {f"{name}:{one['id']}": one for name, several in MANIFEST.items() for one in several}
SCENARIOS = TESTS / "conformance"
#: What a test, or a file of tests, is marked with that holds requirements.
MARK = "pytest.mark.requirement"
CLAIM = re.compile(r"#\s*requirement:\s*(\S+)")
ID = re.compile(r"(?P<page>[a-z][a-z0-9/-]*)#[a-z0-9-]+-[0-9]+[a-z]?")


@cache
def functions(path: Path) -> frozenset[str]:
    """Return the names of the test functions at the top of a file, or nothing if there is none."""
    if not path.is_file():
        return frozenset()
    tree = ast.parse(path.read_text(encoding="utf-8"))
    return frozenset(
        node.name
        for node in tree.body
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test_")
    )


@cache
def marked(path: Path) -> frozenset[str]:
    """Return the test functions of a file that are marked as holding a requirement, each by itself or all at once."""
    text = path.read_text(encoding="utf-8")
    if MARK not in text:
        return frozenset()
    tree = ast.parse(text)
    whole = (ast.unparse(node) for node in tree.body if isinstance(node, ast.Assign))
    if any(line.startswith("pytestmark = ") and MARK in line for line in whole):
        return functions(path)
    return frozenset(
        node.name
        for node in tree.body
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and any(ast.unparse(decorator) == MARK for decorator in node.decorator_list)
    )


@cache
def scenarios() -> frozenset[str]:
    """Return the scenarios of the conformance suite that have to pass."""
    listed = tomllib.loads((SCENARIOS / "scenarios.toml").read_text(encoding="utf-8"))
    excepted = tomllib.loads((SCENARIOS / "exceptions.toml").read_text(encoding="utf-8")).get("exceptions", {})
    return frozenset(name for names in listed.values() for name in names) - excepted.keys()


def exists(test: str) -> bool:
    """Whether a test is there: ``tests/….py::test_name``, ``conformance:scenario`` or ``golden:revision/name``."""
    if test.startswith("conformance:"):
        return test.removeprefix("conformance:") in scenarios()
    if test.startswith("golden:"):
        return (TESTS / "golden" / (test.removeprefix("golden:") + ".jsonl")).is_file()
    path, _, name = test.partition("::")
    return path.startswith("tests/") and name in functions(TESTS.parent / path)


def side(name: str) -> str:
    """Return what stands before the revision: "" for servers, "client/" for clients."""
    return name[: name.rindex("/") + 1] if "/" in name else ""


def held_by(requirement: dict[str, Any], name: str) -> list[str]:
    """Return the tests that hold a requirement, its own and those of the newer one that it repeats."""
    tests: list[str] = list(requirement.get("tests", ()))
    if "same_as" in requirement:
        tests += held_by(BY_ID[side(name) + requirement["same_as"]], name)
    return tests


def claims() -> list[tuple[str, str]]:
    """Return what tests say of themselves: the file, and the requirement that a comment in it names."""
    return [
        (str(path.relative_to(TESTS)), found)
        for path in sorted(TESTS.rglob("*.py"))
        if path != Path(__file__)
        for found in CLAIM.findall(path.read_text(encoding="utf-8"))
    ]


def test_every_revision_has_its_requirements_of_both_sides() -> None:
    assert set(MANIFEST) == {*REVISIONS, *(f"client/{revision}" for revision in REVISIONS)}
    assert all(MANIFEST.values())


@pytest.mark.parametrize("name", MANIFEST)
def test_every_requirement_says_what_it_is(name: str) -> None:
    for one in MANIFEST[name]:
        assert set(one) - {"same_as", "tests"} == {"id", "page", "statement", "level"}, one
        found = ID.fullmatch(one["id"])
        assert found, one["id"]
        assert found["page"] == one["page"]
        assert one["level"] == "MUST"
        assert one["statement"].endswith("."), one["id"]


@pytest.mark.parametrize("name", MANIFEST)
def test_no_requirement_is_there_twice(name: str) -> None:
    ids = [one["id"] for one in MANIFEST[name]]
    assert [id for id in ids if ids.count(id) > 1] == []


@pytest.mark.parametrize("name", MANIFEST)
def test_what_is_inherited_is_there_and_newer(name: str) -> None:
    for one in MANIFEST[name]:
        if "same_as" in one:
            assert side(name) + one["same_as"] in BY_ID, one["id"]
            assert one["same_as"].partition(":")[0] > name.removeprefix(side(name)), one["id"]


@pytest.mark.parametrize("name", MANIFEST)
def test_no_requirement_is_without_a_test(name: str) -> None:
    assert [one["id"] for one in MANIFEST[name] if not held_by(one, name)] == []


@pytest.mark.parametrize("name", MANIFEST)
def test_every_test_that_holds_a_requirement_exists(name: str) -> None:
    named = {test for one in MANIFEST[name] for test in one.get("tests", ())}
    assert sorted(test for test in named if not exists(test)) == []


def test_every_requirement_that_a_test_claims_to_hold_exists() -> None:
    assert [(path, id) for path, id in claims() if id not in BY_ID] == []


def test_every_test_that_is_marked_as_holding_a_requirement_is_named_by_one() -> None:
    named = {test for several in MANIFEST.values() for one in several for test in one.get("tests", ())}
    ours = {
        f"tests/{path.relative_to(TESTS).as_posix()}::{name}"
        for path in TESTS.rglob("test_*.py")
        for name in marked(path)
    }
    assert len(ours) > 150
    assert sorted(ours - named) == []
