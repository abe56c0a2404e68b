"""Imports in the documentation and the examples: only from the packages that the API reference lists."""

from __future__ import annotations

import ast
import importlib
import re
import textwrap
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.snippets import PAGES, ROOT, python_pages, read, snippets

PUBLIC = re.findall(r"^::: ([\w.]+)$", read("docs/api.md"), re.MULTILINE)
#: Names of other packages, which have the modules of those packages.
MIRRORS = ("carrel.compat.mcp.", "carrel.compat.fastmcp.")
#: Plug-ins and programs of the examples are public code too.
EXAMPLES = [path.relative_to(ROOT).as_posix() for path in sorted((ROOT / "examples").rglob("*.py"))]


def code(place: str) -> Iterator[str]:
    if place.endswith(".py"):
        yield read(place)
    else:
        yield from (snippet.code for snippet in snippets(place, "python"))


def imports(text: str) -> Iterator[tuple[str, str]]:
    """The modules and names that code imports from Carrel; the name is "" for a whole module."""
    for node in ast.walk(ast.parse(textwrap.dedent(text))):
        if isinstance(node, ast.ImportFrom) and (node.module or "").partition(".")[0] == "carrel":
            yield from ((node.module or "", name.name) for name in node.names)
        elif isinstance(node, ast.Import):
            yield from ((name.name, "") for name in node.names if name.name.partition(".")[0] == "carrel")


@pytest.mark.parametrize("place", [*(page for page in python_pages() if page != "CHANGELOG.md"), *EXAMPLES])
def test_only_public_packages_are_imported(place: str) -> None:
    for text in code(place):
        for module, name in imports(text):
            assert module in PUBLIC or f"{module}.".startswith(MIRRORS), f"{module} is not in docs/api.md"
            if module in PUBLIC and name:
                package = importlib.import_module(module)
                offered = name in package.__all__ or f"{module}.{name}" in PUBLIC
                assert offered or Path(str(package.__file__)).with_name(name).is_dir(), (
                    f"{module} does not export {name}"
                )


#: Pages for people who change Carrel itself, and history.
INTERNAL = ("CHANGELOG.md", "CONTRIBUTING.md", "docs/architecture.md")
#: Names with dots that are no modules: a file, and loggers.
NO_MODULES = ("carrel.toml", "carrel.client", "carrel.transports")
DOTTED = re.compile(r"(?<!`)`(carrel(?:\.\w+)+)")


@pytest.mark.parametrize("page", [page for page in PAGES if page not in INTERNAL and DOTTED.search(read(page))])
def test_names_with_dots_are_public(page: str) -> None:
    for name in sorted(set(DOTTED.findall(read(page)))):
        if name in (*PUBLIC, *NO_MODULES) or f"{name}.".startswith("carrel.compat."):
            continue
        package, _, attribute = name.rpartition(".")
        assert package in PUBLIC, f"{name} is in no package of docs/api.md"
        assert attribute in importlib.import_module(package).__all__, f"{package} does not export {attribute}"


#: A class with some of its members, such as `Elicited`: `action`, `data`.
MEMBERS = re.compile(r"`([A-Z]\w+)`: (`[a-z]\w*`(?:(?:, | and |, and )`[a-z]\w*`)+)")


@pytest.mark.parametrize("page", [page for page in PAGES if MEMBERS.search(read(page)) and page != "CHANGELOG.md"])
def test_members_that_a_page_names_exist(page: str) -> None:
    for name, members in MEMBERS.findall(read(page)):
        kind = next(
            getattr(package, name) for package in map(importlib.import_module, PUBLIC) if name in package.__all__
        )
        known = {*dir(kind), *getattr(kind, "__struct_fields__", ())}
        assert set(re.findall(r"`(\w+)`", members)) <= known, name


def test_every_public_package_is_described_in_the_table() -> None:
    assert re.findall(r"^\| `([\w.]+)` \|", read("docs/api.md"), re.MULTILINE) == PUBLIC


@pytest.mark.parametrize("package", PUBLIC)
def test_every_exported_name_is_there(package: str) -> None:
    module = importlib.import_module(package)
    assert [name for name in module.__all__ if not hasattr(module, name)] == []
