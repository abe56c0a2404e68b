"""Structure of the source: circles of imports, those for type checkers included, late imports upwards, places of tests,
sizes of modules.

The layers themselves are checked by import-linter (pyproject.toml), which knows packages, not the files in them.
"""

from __future__ import annotations

import ast
import re
import tomllib
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src"

#: Circles that are still there: the modules of each. Only ever shorter; to be empty.
KNOWN_CIRCLES: tuple[frozenset[str], ...] = ()

#: Imports by name of a module in a higher layer that are still there: who imports, and what.
KNOWN_LATE_IMPORTS: frozenset[tuple[str, str]] = frozenset()

#: Packages whose classes have the names of other packages: ``sync`` has the classes of ``client`` and ``host`` without
#: ``await``, ``compat`` has the classes of ``mcp`` and FastMCP.
MIRRORS = {"compat", "sync"}

#: Most lines of a module, and the modules that are longer, with their most lines. Only ever shorter; to be empty.
MOST_LINES = 480
LONG_MODULES = {
    "carrel.compat.mcp2.client.session": 580,
    "carrel.compat.mcp2.server.mcpserver.server": 570,
}

#: Folders of tests of all packages together.
OF_ALL_PACKAGES = {
    *("attacks", "conformance", "fuzz", "golden", "interop", "release", "replicas", "requirements", "studio/journeys"),
}
#: Packages that are tested elsewhere: the public base classes of tests, and the structs that ``protocol`` encodes.
TESTED_ELSEWHERE = {"testing", "wire"}


def test_every_package_has_a_folder_of_tests_and_every_folder_of_tests_a_package() -> None:
    tests, packages = ROOT / "tests", SOURCE / "carrel"
    folders = {file.parent.relative_to(tests).as_posix() for file in tests.rglob("test_*.py")} - {"."}
    assert {folder for folder in folders if not (packages / folder).is_dir()} == OF_ALL_PACKAGES
    tested = {folder.partition("/")[0] for folder in folders}
    assert {file.parent.name for file in packages.glob("*/__init__.py")} - tested == TESTED_ELSEWHERE


def test_no_files_import_each_other_in_a_circle_but_the_known_ones() -> None:
    found = circles(graph())
    new = [sorted(circle) for circle in found if not any(circle <= known for known in KNOWN_CIRCLES)]
    assert not new, f"files that import each other, perhaps under TYPE_CHECKING: {new}"


def test_the_list_of_known_circles_names_only_modules_that_are_in_one() -> None:
    inside = set[str]().union(*circles(graph()))
    mended = sorted(set[str]().union(*KNOWN_CIRCLES) - inside)
    assert not mended, f"no longer in a circle, so remove them from KNOWN_CIRCLES: {mended}"


def test_no_module_imports_by_name_from_a_higher_layer_but_the_known_ones() -> None:
    upward = {(importer, target) for importer, target in late_imports(SOURCE) if layer(importer) > layer(target)}
    assert upward == KNOWN_LATE_IMPORTS


def test_no_class_has_the_name_of_another_class() -> None:
    modules: dict[str, list[str]] = {}
    for name, path in modules_of(SOURCE).items():
        if name.split(".")[1:2] not in [[mirror] for mirror in MIRRORS]:
            for found in re.findall(r"^class (\w+)", path.read_text(encoding="utf-8"), re.MULTILINE):
                modules.setdefault(found, []).append(name)
    assert {name: found for name, found in modules.items() if len(found) > 1} == {}


def test_no_module_grows_beyond_what_one_can_read_at_once() -> None:
    sizes = {name: len(path.read_bytes().splitlines()) for name, path in modules_of(SOURCE).items()}
    long = {name: size for name, size in sizes.items() if size > LONG_MODULES.get(name, MOST_LINES)}
    assert not long, f"split these modules by their subjects: {long}"
    shortened = [name for name in LONG_MODULES if sizes.get(name, 0) <= MOST_LINES]
    assert not shortened, f"remove these from LONG_MODULES: {shortened}"


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        ({"a": "import top.b", "b": "x = 1"}, []),
        ({"a": "import top.b", "b": "import top.a"}, [{"top.a", "top.b"}]),
        ({"a": "from top import b", "b": "from top.a import x"}, [{"top.a", "top.b"}]),
        ({"a": "from . import b", "b": "from .a import x"}, [{"top.a", "top.b"}]),
        ({"a": "if TYPE_CHECKING:\n    from top.b import B", "b": "import top.a"}, [{"top.a", "top.b"}]),
        ({"a": "def f():\n    import top.b", "b": "import top.c", "c": "import top.a"}, [{"top.a", "top.b", "top.c"}]),
        ({"a": "import top.b", "b": "import_module('top.a')"}, [{"top.a", "top.b"}]),
    ],
)
def test_a_circle_is_found_however_it_is_written(
    tmp_path: Path, files: Mapping[str, str], expected: list[set[str]]
) -> None:
    (tmp_path / "top").mkdir()
    for name, text in {"__init__": "", **files}.items():
        (tmp_path / "top" / f"{name}.py").write_text(text)
    assert circles(graph_of(tmp_path)) == expected


# The graph of imports


def modules_of(source: Path) -> dict[str, Path]:
    """Return the files of all modules by name."""
    names = {path: ".".join(path.relative_to(source).with_suffix("").parts) for path in sorted(source.rglob("*.py"))}
    return {name.removesuffix(".__init__"): path for path, name in names.items()}


@cache
def graph() -> dict[str, frozenset[str]]:
    """Return the imports of the library, without the known late ones."""
    found = graph_of(SOURCE)
    return {name: frozenset(item for item in found[name] if (name, item) not in KNOWN_LATE_IMPORTS) for name in found}


def graph_of(source: Path) -> dict[str, frozenset[str]]:
    """Return the modules that each module imports, anywhere in it."""
    modules = modules_of(source)
    graph: dict[str, set[str]] = {name: set() for name in modules}
    for name, path in modules.items():
        package = name if path.name == "__init__.py" else name.rpartition(".")[0]
        text = path.read_text(encoding="utf-8")
        for node in (ast.walk if calls_import(text) else statements)(ast.parse(text)):
            graph[name].update(target for target in targets(node, package, modules) if target in modules)
    return {name: frozenset(found - {name}) for name, found in graph.items()}


def calls_import(text: str) -> bool:
    return "import_module" in text or "__import__" in text


def statements(tree: ast.AST) -> Iterator[ast.AST]:
    """Yield all statements: a tenth of the nodes."""
    nodes = [tree]
    for node in nodes:
        for field in ("body", "orelse", "finalbody", "handlers", "cases"):
            nodes.extend(getattr(node, field, ()))
    yield from nodes


def targets(node: ast.AST, package: str, modules: Mapping[str, Path]) -> Iterator[str]:
    """Yield the names of the modules that a statement or call imports."""
    if isinstance(node, ast.Import):
        yield from (alias.name for alias in node.names)
    elif isinstance(node, ast.ImportFrom):
        base = node.module or ""
        if node.level:
            above = package.rsplit(".", node.level - 1)[0]
            base = f"{above}.{base}".rstrip(".")
        for alias in node.names:
            submodule = f"{base}.{alias.name}"
            yield submodule if submodule in modules else base
    elif (name := imported_by_name(node)) is not None:
        yield name


def imported_by_name(node: ast.AST) -> str | None:
    """Return the module that a call of ``import_module`` names, if it is one."""
    if not isinstance(node, ast.Call) or not node.args:
        return None
    function, argument = node.func, node.args[0]
    called = function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")
    is_text = isinstance(argument, ast.Constant) and isinstance(argument.value, str)
    return argument.value if called in ("import_module", "__import__") and is_text else None  # type: ignore[attr-defined]


def late_imports(source: Path) -> Iterator[tuple[str, str]]:
    """Yield the imports by name between modules of the project: who imports, and what."""
    modules = modules_of(source)
    for name, path in modules.items():
        text = path.read_text(encoding="utf-8")
        for node in ast.walk(ast.parse(text)) if calls_import(text) else ():
            target = imported_by_name(node)
            if target in modules:
                yield name, str(target)


def circles(graph: Mapping[str, frozenset[str]]) -> list[set[str]]:
    """Return the strongly connected components of more than one module."""
    reach = {name: reachable(name, graph) for name in graph}
    found: list[set[str]] = []
    for name in graph:
        circle = {other for other in reach[name] if name in reach[other]}
        if len(circle) > 1 and circle not in found:
            found.append(circle)
    return found


def reachable(start: str, graph: Mapping[str, frozenset[str]]) -> set[str]:
    """Return the modules that a module imports, directly or through others."""
    seen: set[str] = set()
    waiting = [start]
    while waiting:
        fresh = graph[waiting.pop()] - seen
        seen |= fresh
        waiting += fresh
    return seen


@cache
def layers() -> list[list[str]]:
    """Return the layers of the contract of import-linter, from the highest."""
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["importlinter"][
        "contracts"
    ]
    (contract,) = [contract for contract in contracts if contract["type"] == "layers"]
    return [line.replace("|", ":").replace(" ", "").split(":") for line in contract["layers"]]


def layer(module: str) -> int:
    """Return the layer of a module as its place in that contract: 0 is the highest."""
    for place, packages in enumerate(layers()):
        if any(module == package or module.startswith(f"{package}.") for package in packages):
            return place
    return len(layers())
