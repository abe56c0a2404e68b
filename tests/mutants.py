"""Measures the tests of the modules that other code depends on: lines that they run, and mutants that they kill.

A mutant is a module with one small mistake: another comparison, ``and`` for ``or``, a number that is one more, a
condition that is inverted, a function that returns None. Tests kill a mutant by failing. Modules without a test file of
their own are left out, unless a package has no others; then the tests are those of the folder. Slow tests are left out.

python tests/mutants.py [--sample N] [--seed N] [PACKAGE …]    (make mutants)

With the environment variable MUTANT (a path and a number) or COVERED (a path), this is the plugin of pytest that
puts the mutant in the place of the module, or prints which of its lines have run.
"""

from __future__ import annotations

import argparse
import ast
import importlib.machinery
import os
import random
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

ROOT = Path(__file__).parent.parent
SOURCE, TESTS = ROOT / "src" / "carrel", ROOT / "tests"
PACKAGES = ("protocol", "uri", "catalog", "state", "security")
#: How long the tests of one mutant may take, in seconds. A mutant whose tests take longer is killed.
PATIENCE = 300
#: Exit codes of pytest if all tests passed, and if no test was selected.
PASSED, NO_TESTS = 0, 5

OPPOSITES: dict[type[ast.AST], type[ast.AST]] = {
    ast.Eq: ast.NotEq,
    ast.Lt: ast.LtE,
    ast.Gt: ast.GtE,
    ast.In: ast.NotIn,
    ast.Is: ast.IsNot,
    ast.NotEq: ast.Eq,
    ast.LtE: ast.Lt,
    ast.GtE: ast.Gt,
    ast.NotIn: ast.In,
    ast.IsNot: ast.Is,
    ast.And: ast.Or,
    ast.Or: ast.And,
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Add,
}


class Mutation(ast.NodeTransformer):
    """Makes the mistake with one number, and counts all mistakes that there could be."""

    def __init__(self, number: int = -1) -> None:
        self.number = number
        self.count = 0
        self.line = 0

    def chosen(self, node: Any) -> bool:
        self.count += 1
        if self.count - 1 != self.number:
            return False
        self.line = node.lineno
        return True

    def visit_Compare(self, node: ast.Compare) -> ast.AST:
        self.generic_visit(node)
        for position, operator in enumerate(node.ops):
            if self.chosen(node):
                node.ops[position] = OPPOSITES[type(operator)]()  # type: ignore[assignment]
        return node

    def visit_BoolOp(self, node: ast.BoolOp) -> ast.AST:
        self.generic_visit(node)
        if self.chosen(node):
            node.op = OPPOSITES[type(node.op)]()  # type: ignore[assignment]
        return node

    def visit_BinOp(self, node: ast.BinOp) -> ast.AST:
        self.generic_visit(node)
        if type(node.op) in OPPOSITES and self.chosen(node):
            node.op = OPPOSITES[type(node.op)]()  # type: ignore[assignment]
        return node

    def visit_If(self, node: ast.If) -> ast.AST:
        if ast.unparse(node.test) == "TYPE_CHECKING":
            return node
        self.generic_visit(node)
        if self.chosen(node):
            node.test = ast.UnaryOp(ast.Not(), node.test)
        return node

    def visit_Constant(self, node: ast.Constant) -> ast.AST:
        if isinstance(node.value, int) and self.chosen(node):
            return ast.Constant(not node.value if isinstance(node.value, bool) else node.value + 1)
        return node

    def visit_Return(self, node: ast.Return) -> ast.AST:
        self.generic_visit(node)
        absent = node.value is None or (isinstance(node.value, ast.Constant) and node.value.value is None)
        if not absent and self.chosen(node):
            node.value = ast.Constant(None)
        return node

    def visit_arg(self, node: ast.arg) -> ast.AST:
        return node  # annotations change nothing

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.AST:
        if node.value is not None:
            node.value = self.visit(node.value)
        return node

    def function(self, node: Any) -> ast.AST:
        node.body = [self.visit(each) for each in node.body]
        return node

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        return self.function(node)

    def visit_AsyncFunctionDef(self, node: ast.AsyncFunctionDef) -> ast.AST:
        return self.function(node)


def mutated(path: str, number: int) -> tuple[ast.AST, Mutation]:
    mutation = Mutation(number)
    tree = mutation.visit(ast.parse(Path(path).read_text(encoding="utf-8")))
    return ast.fix_missing_locations(tree), mutation


def replace_module(path: str, number: int) -> None:
    """Have a module compiled with a mistake when it is imported."""
    usual = importlib.machinery.SourceFileLoader.get_code

    def get_code(self: importlib.machinery.SourceFileLoader, name: str) -> CodeType | None:
        if self.path != path:
            return usual(self, name)
        return compile(mutated(path, number)[0], path, "exec", dont_inherit=True)  # type: ignore[call-overload, no-any-return]

    importlib.machinery.SourceFileLoader.get_code = get_code  # type: ignore[method-assign, assignment]


class Coverage:
    """Collects the lines of one module that run."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.lines: set[int] = set()
        sys.settrace(self.enter)
        threading.settrace(self.enter)

    def enter(self, frame: FrameType, event: str, argument: Any) -> Any:
        if frame.f_code.co_filename != self.path:
            return None
        self.lines.add(frame.f_lineno)
        return self.step

    def step(self, frame: FrameType, event: str, argument: Any) -> Any:
        self.lines.add(frame.f_lineno)
        return self.step

    def pytest_unconfigure(self) -> None:
        sys.settrace(None)
        there = set(executable(compile(Path(self.path).read_text(encoding="utf-8"), self.path, "exec")))
        sys.__stdout__.write(f"\ncovered {len(there & self.lines)} {len(there)}\n")  # type: ignore[union-attr]


def executable(code: CodeType) -> Iterator[int]:
    """Yield the numbers of the lines of code that can run, those of functions in it included."""
    yield from (line for _, _, line in code.co_lines() if line)
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from executable(constant)


def pytest_configure(config: Any) -> None:
    if "COVERED" in os.environ:
        config.pluginmanager.register(Coverage(os.environ["COVERED"]))


if "MUTANT" in os.environ and __name__ != "__main__":
    replace_module(os.environ["MUTANT"].rpartition(":")[0], int(os.environ["MUTANT"].rpartition(":")[2]))


def tests_of(module: Path) -> Path:
    """Return the test file of a module, or the folder of tests of its package."""
    place = TESTS / module.relative_to(SOURCE)
    own = place.with_name(f"test_{place.name}")
    return own if own.exists() else TESTS / module.relative_to(SOURCE).parts[0]


def modules_of(package: str) -> list[Path]:
    """Return the modules of a package that have a test file of their own, or all of them if none has."""
    modules = [path for path in sorted((SOURCE / package).rglob("*.py")) if mutated(str(path), -1)[1].count]
    return [path for path in modules if tests_of(path).is_file()] or modules


def run(module: Path, **variables: str) -> tuple[int, str]:
    """Run the tests of a module, and return the exit code of pytest and what it printed."""
    paths = os.pathsep.join([str(TESTS), os.environ.get("PYTHONPATH", "")]).rstrip(os.pathsep)
    options = ("-p", "mutants", "-x", "-q", "-n", "0", "-p", "no:cacheprovider", "-m", "not slow")
    try:
        done = subprocess.run(
            [sys.executable, "-m", "pytest", *options, str(tests_of(module))],
            env={**os.environ, **variables, "PYTHONPATH": paths},
            cwd=ROOT,
            capture_output=True,
            text=True,
            timeout=PATIENCE,
        )
    except subprocess.TimeoutExpired:
        return -1, ""
    return done.returncode, done.stdout


def measure(package: str, sample: int, chance: random.Random) -> str:
    """Return a row of the table for a package, and print the mutants that survive."""
    mutants = [(path, number) for path in modules_of(package) for number in range(mutated(str(path), -1)[1].count)]
    chosen = sorted(chance.sample(mutants, min(sample, len(mutants))))
    killed = survived = ran = total = 0
    for module in sorted({path for path, _ in chosen}):
        code, printed = run(module, COVERED=str(module))
        if code == NO_TESTS:
            print(f"{module.relative_to(ROOT)}: no tests but slow ones", flush=True)
            chosen = [each for each in chosen if each[0] != module]
            continue
        assert code == PASSED, printed
        covered, there = map(int, printed.rsplit("covered ", 1)[1].split())
        ran, total = ran + covered, total + there
    for path, number in chosen:
        if run(path, MUTANT=f"{path}:{number}")[0] != PASSED:
            killed += 1
            continue
        survived += 1
        print(f"{path.relative_to(ROOT)}:{mutated(str(path), number)[1].line}: survived ({number})", flush=True)
    share = f"{100 * ran / total:.0f} %" if total else "–"
    return f"| {package} | {len(mutants)} | {killed + survived} | {killed} | {share} |"


def main() -> None:
    parser = argparse.ArgumentParser(description="Count mutants that the tests kill, and lines that they run.")
    parser.add_argument("packages", nargs="*", default=PACKAGES, help="packages of carrel")
    parser.add_argument("--sample", type=int, default=40, help="mutants of each package (default: 40)")
    parser.add_argument("--seed", type=int, default=0, help="which ones (default: 0)")
    given = parser.parse_args()
    rows = [measure(package, given.sample, random.Random(given.seed)) for package in given.packages]
    print("| package | mutants | tried | killed | lines run, of the modules tried |")
    print("| --- | --- | --- | --- | --- |")
    print("\n".join(rows))


if __name__ == "__main__":
    main()
