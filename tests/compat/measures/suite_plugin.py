"""Plugin of pytest that runs a package's test suite on Carrel, and notes the outcome of each test.

A module of tests still loads if one of its statements fails, such as the import of a private module: the tests that
need the statement fail, and the other ones run. MEASURE_NOTES is the file of the outcomes, MEASURE_ERRORS the file of
the statements that failed, and MEASURE_CARREL the generation of the package if imports are redirected to Carrel.
"""

from __future__ import annotations

import ast
import json
import os
import sys
import threading
from types import ModuleType

import anyio.lowlevel
import pytest
from _pytest.assertion import rewrite
from _pytest.config import parse_warning_filter

sys.dont_write_bytecode = True
#: A worker ends if a test with its fixtures takes longer; pytest-xdist starts another one.
MAX_TEST_SECONDS = float(os.environ.get("MEASURE_SECONDS", "60"))
plain_rewrite = rewrite.rewrite_asserts

if os.environ.get("MEASURE_CARREL"):
    from carrel.compat import redirect_imports
    from carrel.transports.client import stdio

    for name in [name for name in sys.modules if name.partition(".")[0] in ("fastmcp", "mcp", "mcp_types")]:
        del sys.modules[name]  # another plugin has imported it
    redirect_imports(int(os.environ["MEASURE_CARREL"]))
    sys.modules["mcp.shared._compat"] = compat = ModuleType("mcp.shared._compat")  # for the shared code of tests
    parse_warning_filter.cache_clear()  # filters name classes of the package
    stdio.INHERITED += ("PYTHONPATH",)  # processes find the measured checkout
    compat.resync_tracer = anyio.lowlevel.cancel_shielded_checkpoint


def note(file):
    """Write down why a statement of a module failed."""
    error = sys.exc_info()[1]
    with open(os.environ["MEASURE_ERRORS"], "a") as errors:
        errors.write(json.dumps([file, f"{type(error).__name__}: {error}"[:300]]) + "\n")


def do_nothing(*arguments, **options):
    """Do nothing, in place of a private function that shared code of tests calls, such as to clear a cache."""


def guarded(statement, file):
    """Return a statement that notes its failure instead of ending the module."""
    code = f"__import__({__name__!r}).note({file!r})"
    if file.endswith("conftest.py") and isinstance(statement, ast.ImportFrom) and statement.names[0].name[0] == "_":
        code += f"\n{statement.names[0].name} = __import__({__name__!r}).do_nothing"
    call = ast.parse(code).body
    handler = ast.ExceptHandler(ast.Name("Exception", ast.Load()), None, call)
    whole = ast.copy_location(ast.Try([statement], [handler], [], []), statement)
    for node in ast.walk(handler):
        node.lineno = node.end_lineno = statement.lineno
        node.col_offset = node.end_col_offset = statement.col_offset
    whole.end_lineno = whole.end_col_offset = None
    return whole


def rewrite_guarded(tree, source, module_path=None, config=None):
    """Guard the statements of a module, after pytest has rewritten its assertions."""
    plain_rewrite(tree, source, module_path, config)
    file = os.path.relpath(str(module_path))
    if not file.startswith("tests/"):
        return  # a plugin of pytest
    first = next((index for index, each in enumerate(tree.body) if not is_head(each)), len(tree.body))
    tree.body[first:] = [guarded(part, file) for each in tree.body[first:] for part in parts(each)]


def parts(statement):
    """Return a statement, or for an import of several names, the import of each name."""
    if not isinstance(statement, ast.ImportFrom):
        return [statement]
    single = [ast.ImportFrom(statement.module, [name], statement.level) for name in statement.names]
    return [ast.copy_location(each, statement) for each in single]


def is_head(statement):
    """Return whether a statement has to be at the head of a module."""
    if isinstance(statement, ast.ImportFrom):
        return statement.module == "__future__"
    return isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)


rewrite.rewrite_asserts = rewrite_guarded


class Outcomes:
    """Outcomes of the tests, by their names; the reason of a failure is the first line of its error."""

    def __init__(self):
        self.found = {}

    def pytest_runtest_logreport(self, report):
        if report.failed:
            crash = getattr(report.longrepr, "reprcrash", None)
            message = crash.message if crash is not None else str(report.longrepr).strip().rpartition("\n")[2]
            self.found[report.nodeid] = ["failed", message.partition("\n")[0][:200]]
        elif report.skipped:
            self.found.setdefault(report.nodeid, ["skipped", ""])
        elif report.when == "call":
            self.found.setdefault(report.nodeid, ["passed", ""])

    def pytest_sessionfinish(self):
        with open(os.environ["MEASURE_NOTES"], "w") as notes:
            json.dump(self.found, notes)


class Watchdog:
    """Ends the process of a test that takes too long, also if an event loop ignores the exception of a timeout."""

    @pytest.hookimpl(hookwrapper=True, tryfirst=True)
    def pytest_runtest_protocol(self):
        timer = threading.Timer(MAX_TEST_SECONDS, os._exit, (1,))
        timer.daemon = True
        timer.start()
        yield
        timer.cancel()


def pytest_configure(config):
    config.pluginmanager.register(Watchdog() if hasattr(config, "workerinput") else Outcomes())
