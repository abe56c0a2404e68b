"""Measures the tests of the packages that other code depends on: lines that they run, and mutants that they kill.

A mutant is a module with one small mistake: another comparison, ``and`` for ``or``, a number that is one more, a
condition that is inverted, a function that returns None. Tests kill a mutant by failing. First come the tests in the
module's own test file, then the other tests of its folder, at last those with generated examples. Tests marked slow
are left out.

python tests/mutants.py [--sample N] [--seed N] [PACKAGE …]    (make mutants)
python tests/mutants.py --lines [PACKAGE …]                    (make coverage)
"""

from __future__ import annotations

import argparse
import ast
import contextlib
import importlib
import importlib.machinery
import os
import pickle
import random
import resource
import sys
import tempfile
import threading
import traceback
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence, Sized
from itertools import groupby
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import pytest
from _pytest.config import ExitCode

ROOT = Path(__file__).parent.parent
SOURCE, TESTS = ROOT / "src" / "carrel", ROOT / "tests"
PACKAGES = ("protocol", "uri", "catalog", "state", "security")
#: Bounds of a mutant: seconds of one test (three minutes, as the machine may be busy), seconds of processor time of all
#: of them, bytes of memory.
TEST_SECONDS, ALL_SECONDS, MEMORY = 180, 300, 8 << 30
OPTIONS = ("-x", "-q", "-n", "0", "-p", "no:cacheprovider", f"--timeout={TEST_SECONDS}")
#: pytest warns of plugins that are imported before it starts.
IMPORTED = ("-W", "ignore::pytest.PytestAssertRewriteWarning")

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

    def chosen(self) -> bool:
        self.count += 1
        return self.count - 1 == self.number

    def visit_Compare(self, node: ast.Compare) -> ast.AST:
        self.generic_visit(node)
        for position, operator in enumerate(node.ops):
            if self.chosen():
                node.ops[position] = OPPOSITES[type(operator)]()  # type: ignore[assignment]
        return node

    def visit_BoolOp(self, node: ast.BoolOp) -> ast.AST:
        self.generic_visit(node)
        if self.chosen():
            node.op = OPPOSITES[type(node.op)]()  # type: ignore[assignment]
        return node

    def visit_BinOp(self, node: ast.BinOp) -> ast.AST:
        self.generic_visit(node)
        if type(node.op) in OPPOSITES and self.chosen():
            node.op = OPPOSITES[type(node.op)]()  # type: ignore[assignment]
        return node

    def visit_If(self, node: ast.If) -> ast.AST:
        if ast.unparse(node.test) == "TYPE_CHECKING":
            return node
        self.generic_visit(node)
        if self.chosen():
            node.test = ast.UnaryOp(ast.Not(), node.test)
        return node

    def visit_Constant(self, node: ast.Constant) -> ast.AST:
        if isinstance(node.value, int) and self.chosen():
            return ast.Constant(not node.value if isinstance(node.value, bool) else node.value + 1)
        return node

    def visit_Return(self, node: ast.Return) -> ast.AST:
        self.generic_visit(node)
        absent = node.value is None or (isinstance(node.value, ast.Constant) and node.value.value is None)
        if not absent and self.chosen():
            node.value = ast.Constant(None)
        return node

    def visit_arg(self, node: ast.arg) -> ast.AST:
        return node  # annotations change nothing

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.AST:
        if node.value is not None:
            node.value = self.visit(node.value)
        return node

    def body(self, node: Any) -> ast.AST:
        """Visit the body alone: options of classes, such as ``gc=False``, change no results."""
        node.body = [self.visit(each) for each in node.body]
        return node

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        return self.body(node)

    def visit_AsyncFunctionDef(self, node: ast.AsyncFunctionDef) -> ast.AST:
        return self.body(node)

    def visit_ClassDef(self, node: ast.ClassDef) -> ast.AST:
        return self.body(node)


def mutate(path: Path, number: int = -1) -> tuple[ast.Module, int]:
    """Return a module with the mistake of this number, and how many mistakes there could be."""
    mutation = Mutation(number)
    tree = mutation.visit(ast.parse(path.read_text(encoding="utf-8")))
    return ast.fix_missing_locations(tree), mutation.count


def difference(path: Path, number: int) -> str:
    """Describe a mutant by its line, before and after."""
    usual, other = (ast.unparse(mutate(path, each)[0]).splitlines() for each in (-1, number))
    before, after = next(pair for pair in zip(usual, other, strict=True) if pair[0] != pair[1])
    return f"{path.relative_to(ROOT)} ({number})\n  - {before.strip()}\n  + {after.strip()}"


def replace_module(path: Path, number: int) -> None:
    """Have a module compiled with a mistake when it is imported."""
    usual = importlib.machinery.SourceFileLoader.get_code

    def get_code(self: importlib.machinery.SourceFileLoader, name: str) -> CodeType | None:
        if self.path != str(path):
            return usual(self, name)
        return compile(mutate(path, number)[0], path, "exec", dont_inherit=True)

    importlib.machinery.SourceFileLoader.get_code = get_code  # type: ignore[method-assign, assignment]


class Chosen:
    """Plugin of pytest: leaves out slow tests, but not those that are only slow because they generate examples."""

    @pytest.hookimpl(tryfirst=True)
    def pytest_collection_modifyitems(self, config: pytest.Config, items: list[pytest.Item]) -> None:
        items[:] = [item for item in items if item.get_closest_marker("slow") is None]


class Failure:
    """Plugin of pytest: keeps the name of the first test that fails, and says if it timed out."""

    test = remark = ""

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed and not self.test:
            self.test = report.nodeid
            self.remark = " (timed out)" if "from pytest-timeout" in report.longreprtext else ""


class Lines:
    """Plugin of pytest: collects the lines of a package that run, by test file."""

    def __init__(self, package: Path) -> None:
        self.prefix = f"{package}{os.sep}"
        self.file = ""
        self.ran: defaultdict[str, set[tuple[str, int]]] = defaultdict(set)
        sys.settrace(self.enter)
        threading.settrace(self.enter)

    def enter(self, frame: FrameType, event: str, argument: Any) -> Any:
        return self.step(frame, event, argument) if frame.f_code.co_filename.startswith(self.prefix) else None

    def step(self, frame: FrameType, event: str, argument: Any) -> Any:
        self.ran[self.file].add((frame.f_code.co_filename, frame.f_lineno))
        return self.step

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        self.file = nodeid.partition("::")[0]


def executable(code: CodeType) -> Iterator[int]:
    """Yield the numbers of the lines of functions. Lines of modules and classes run when they are imported."""
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from executable(constant)
            if constant.co_flags & 1:  # CO_OPTIMIZED: a function
                yield from (line for _, _, line in constant.co_lines() if line)


def modules_of(package: str) -> list[Path]:
    """Return the modules of a package, without contracts, which are tests themselves."""
    return [path for path in sorted((SOURCE / package).rglob("*.py")) if not path.stem.endswith("contract")]


def own_tests(module: Path) -> Path | None:
    """Return the test file of a module, if there is one."""
    place = TESTS / module.relative_to(SOURCE)
    own = place.with_name(f"test_{place.name}")
    return own if own.exists() else None


def other_tests(module: Path) -> Path:
    """Return the folder of tests of the package of a module."""
    return TESTS / module.relative_to(SOURCE).parts[0]


def forked(work: Callable[[], Any]) -> tuple[Any, str]:
    """Call a function in a forked process; return its result, None if a signal ended the process, and the output."""
    with tempfile.TemporaryFile() as printed, tempfile.TemporaryFile() as returned:
        child = os.fork()
        if not child:
            os.dup2(printed.fileno(), 1)
            os.dup2(printed.fileno(), 2)
            try:
                resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
                resource.setrlimit(resource.RLIMIT_CPU, (ALL_SECONDS, ALL_SECONDS))
                returned.write(pickle.dumps(work()))
                returned.flush()
            except BaseException:
                traceback.print_exc()
            finally:
                sys.stdout.flush()
                os._exit(0)
        _, status = os.waitpid(child, 0)
        printed.seek(0)
        returned.seek(0)
        output, data = printed.read().decode(errors="replace"), returned.read()
        if not data and not os.WIFSIGNALED(status):
            sys.exit(output)
        return pickle.loads(data) if data else None, output


def run_tests(*arguments: str, plugins: Sequence[object] = ()) -> int:
    return int(pytest.main([*OPTIONS, *IMPORTED, *arguments], plugins=[Chosen(), *plugins]))


def first_failure(path: Path, number: int, *arguments: str) -> tuple[str, str]:
    """Return the test that fails with a mutant, or another reason for a failure, and a remark; "" if the tests pass."""

    def work() -> tuple[str, str]:
        replace_module(path, number)
        failure, code = Failure(), int(ExitCode.TESTS_FAILED)
        with contextlib.suppress(Exception):  # pytest raises it after the tests, if a mutant leaves sockets open
            code = run_tests(*arguments, plugins=[failure])
        if code in (ExitCode.OK, ExitCode.NO_TESTS_COLLECTED):
            return "", ""
        return failure.test or f"exit code {code}", failure.remark

    return forked(work)[0] or ("a limit of the process", "")


def survives(path: Path, number: int, *arguments: str) -> bool:
    """Return whether a mutant passes the tests. Otherwise print the test that fails."""
    failed, remark = first_failure(path, number, *arguments)
    if "::" in failed:  # perhaps because of a busy machine
        again, remark = first_failure(path, number, f"{ROOT}/{failed}")
        if not again:
            failed, remark = first_failure(path, number, *arguments)
    if failed:
        print(f"{path.relative_to(ROOT)} ({number}): {failed}{remark}", flush=True)
    return not failed


def stages(module: Path) -> Iterator[list[str]]:
    """Yield arguments of pytest: the tests of a module after its own test file, from the nearest to the slowest."""
    own, package = own_tests(module), other_tests(module)
    skipped = [f"--ignore={own}"] if own else []
    near = TESTS / module.relative_to(SOURCE).parent
    if near != package and near.is_dir():
        yield [str(near), *skipped, "-m", "not slow"]
        skipped.append(f"--ignore={near}")
    yield [str(package), *skipped, "-m", "not slow"]
    yield [str(package), "-m", "slow"]


def warm(package: str) -> None:
    """Import the packages that the tests import, but not Carrel, so that forked processes have them.

    Afterwards the tests have to pass without a mutant.
    """

    def imported() -> list[str]:
        run_tests("--collect-only", str(TESTS / package))
        files = {name: getattr(module, "__file__", None) or "" for name, module in sys.modules.items()}
        return [name for name, file in files.items() if "site-packages" in file]

    for name in forked(imported)[0]:
        with contextlib.suppress(Exception):
            importlib.import_module(name)
    code, printed = forked(lambda: run_tests(str(TESTS / package)))
    if code != ExitCode.OK:
        sys.exit(f"The tests of {package} fail without a mutant:\n{printed}")


def measure_mutants(package: str, sample: int, seed: int) -> str:
    """Return a row of the table for a package, and print the mutants that survive."""
    warm(package)
    mutants = [(path, number) for path in modules_of(package) for number in range(mutate(path)[1])]
    chosen = sorted(random.Random(seed).sample(mutants, min(sample, len(mutants))))
    killed = [0, 0]
    for path, number in chosen:
        own = own_tests(path)
        by_own = own is not None and not survives(path, number, str(own), "-m", "not slow")
        if by_own or not all(survives(path, number, *stage) for stage in stages(path)):
            killed[not by_own] += 1
        else:
            print(f"survived: {difference(path, number)}", flush=True)
    return f"| {package} | {len(mutants)} | {len(chosen)} | {killed[0]} | {killed[1]} | {len(chosen) - sum(killed)} |"


def measure_lines(package: str) -> str:
    """Return a row of the table for a package, and print the modules with lines that its tests do not run."""

    def work() -> dict[str, set[tuple[str, int]]]:
        lines = Lines(SOURCE / package)
        assert run_tests("--timeout=0", str(TESTS / package), plugins=[lines]) == ExitCode.OK  # tracing makes it slow
        sys.settrace(None)
        return dict(lines.ran)

    by_file = forked(work)[0]
    ran = set[tuple[str, int]]().union(*by_file.values())
    lines = own_lines = own_ran = all_ran = 0
    for module in modules_of(package):
        there = {(str(module), line) for line in executable(compile(module.read_text("utf-8"), module, "exec"))}
        own = own_tests(module)
        of_own = there & by_file.get(str(own.relative_to(ROOT)), set()) if own else set[tuple[str, int]]()
        lines, all_ran = lines + len(there), all_ran + len(there & ran)
        own_lines, own_ran = own_lines + (len(there) if own else 0), own_ran + len(of_own)
        if missed := {line for _, line in there - ran}:
            by_own = f"{percent(of_own, there)} by {own.name}, " if own else ""
            print(f"{module.relative_to(ROOT)}: {by_own}{percent(there & ran, there)}; not {spans(missed)}", flush=True)
    modules = f"{sum(own_tests(module) is not None for module in modules_of(package))} of {len(modules_of(package))}"
    by_own = f"{100 * own_ran / own_lines:.0f} %" if own_lines else "–"
    return f"| {package} | {modules} | {lines} | {by_own} | {100 * all_ran / lines:.0f} % |"


def spans(lines: Iterable[int]) -> str:
    """Return numbers of lines as text, such as ``3-5, 9``."""
    runs = [[line for _, line in run] for _, run in groupby(enumerate(sorted(lines)), lambda pair: pair[1] - pair[0])]
    return ", ".join(str(run[0]) if len(run) == 1 else f"{run[0]}-{run[-1]}" for run in runs)


def percent(part: Sized, whole: Sized) -> str:
    return f"{100 * len(part) / len(whole):.0f} %"


def main() -> None:
    parser = argparse.ArgumentParser(description="Count mutants that the tests kill, or lines that they run.")
    parser.add_argument("packages", nargs="*", default=PACKAGES, help="packages of carrel")
    parser.add_argument("--sample", type=int, default=30, help="mutants of each package (default: 30)")
    parser.add_argument("--seed", type=int, default=0, help="which ones (default: 0)")
    parser.add_argument("--lines", action="store_true", help="measure coverage instead")
    given = parser.parse_args()
    if given.lines:
        rows = [measure_lines(package) for package in given.packages]
        print("| package | modules with own test file | lines | run by own file | by all tests of the package |")
        print("| --- | --- | --- | --- | --- |")
    else:
        rows = [measure_mutants(package, given.sample, given.seed) for package in given.packages]
        print("| package | mutants | tried | killed by own test file | by other tests of the package | survived |")
        print("| --- | --- | --- | --- | --- | --- |")
    print("\n".join(rows))


if __name__ == "__main__":
    main()
