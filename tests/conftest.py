"""Set-up of every test process."""

from __future__ import annotations

import atexit
import functools
import gc
import os
import re
import signal
import sys
from collections import defaultdict
from collections.abc import Generator, Iterable
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path

import pytest
from _pytest.runner import runtestprotocol
from hypothesis import HealthCheck, is_hypothesis_test, settings
from xdist.remote import Producer
from xdist.scheduler import LoadFileScheduling

pytest.register_assert_rewrite("support")
from support.examples import examples  # noqa: E402

# Programs in the background of a script ignore Ctrl-C and pass that on to what they start; several tests send it.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# How long an example takes says nothing on a busy machine; pytest-timeout ends a test that hangs. A search with
# CARREL_EXAMPLES tries new examples; otherwise the examples are always the same, so that no run fails by chance.
settings.register_profile(
    "carrel",
    max_examples=examples(40),
    deadline=None,
    derandomize="CARREL_EXAMPLES" not in os.environ,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("carrel")

# Collection makes millions of objects that stay; a collection of garbage would look at all of them.
gc.disable()

#: Values of parameters that make a test slow: ways to connect other than in memory, and all revisions but the newest.
SLOW = {"stdio", "http", "2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"}

#: Dates of revisions in the names of tests: the older ones, and all.
OLDER, DATE = re.compile(r"\[.*(2024-11-05|2025-03-26|2025-06-18)"), re.compile(r"\[.*20\d\d-\d\d-\d\d")

#: Folders of tests with the programs of others, which cost most. With ``make exhaustive`` only, they run for an older
#: revision, unless the older ones are all that they run for. Tests of other folders run for every revision.
NEWER_REVISIONS = {"conformance", "interop"}

TESTS = Path(__file__).parent

#: How many cases of a function ``make quick`` runs, spread over all of its cases.
QUICK_CASES = 6

#: Folders of tests that load the SDKs of vendors and frameworks for agents, which takes 15 seconds in a process.
SDKS = re.compile(r"tests/(agents|chat|vendors)/")

#: Line that marks all tests of a file as slow.
ALL_SLOW = re.compile(r"^pytestmark = .*\bpytest\.mark\.slow\b", re.MULTILINE)

#: How many failures are printed last, and how many characters of each reason.
REASONS, REASON = 20, 1000


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--in-memory", action="store_true", help="fail tests that start processes or use sockets")


def pytest_configure(config: pytest.Config) -> None:
    """Before all tests run in several processes, start the processes that fork: importing takes seconds in each."""
    if config.args_source is config.ArgsSource.TESTPATHS and config.option.tx and not hasattr(config, "workerinput"):
        from support import carrel_process, forked_command, forking

        forked_command.start_servers()
        forking.forked(sys.executable, carrel_process.RUN_PROGRAM, alone=True)


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Leave out files whose tests are all marked slow where slow tests are not run: importing them takes seconds."""
    if config.option.markexpr != "not slow" or not collection_path.match("test_*.py"):
        return None
    return ALL_SLOW.search(collection_path.read_text(encoding="utf-8")) is not None or None


@pytest.hookimpl(tryfirst=True)
def pytest_pycollect_makeitem(collector: pytest.Collector, obj: object) -> list[pytest.Item] | None:
    """Leave out slow functions where slow tests are not run, before a test is made for each of their parameters."""
    if collector.config.option.markexpr != "not slow":
        return None
    slow = any(mark.name == "slow" for mark in getattr(obj, "pytestmark", ()))
    return [] if slow or is_hypothesis_test(obj) else None


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item, nextitem: pytest.Item | None) -> bool | None:
    """Send one report of a test that passes to the process that prints reports, not three.

    Sending and receiving a report takes as long as a short test.
    """
    if not hasattr(item.config, "workerinput"):
        return None
    for report in runtestprotocol(item, log=False, nextitem=nextitem):
        if report.when == "call" or not report.passed:
            item.ihook.pytest_runtest_logreport(report=report)
    item.ihook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)  # prints the progress
    return True


@pytest.fixture
def frequent_polls(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have servers tell clients to ask for the state of a task often."""
    monkeypatch.setattr("carrel.server.tasks.formats.POLL_INTERVAL", 50)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_setup(item: pytest.Item) -> Generator[None, object, object]:
    # Clients remember the eras of servers by URL, and the system gives the port of an earlier test's server again.
    connect = sys.modules.get("carrel.client.connect")
    if connect is not None:
        connect.ConnectOptions().eras.clear()
    with memory_only(item):
        return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, object, object]:
    with memory_only(item):
        return (yield)


def memory_only(item: pytest.Item) -> AbstractContextManager[None]:
    """Keep processes and sockets out of a test if the option says so."""
    if not item.config.getoption("--in-memory"):
        return nullcontext()
    from support.in_memory import in_memory

    return in_memory()


def pytest_xdist_auto_num_workers(config: pytest.Config) -> int:
    """Run two processes more than there are processors, as many tests wait for other processes and for timers.

    Tests in memory do not wait, and each process spends time on collecting all of them.
    """
    return (os.cpu_count() or 1) + (0 if config.getoption("--in-memory") else 2)


class Scheduling(LoadFileScheduling):
    """Runs each file in one process, and all files that load SDKs in the same one."""

    def _split_scope(self, nodeid: str) -> str:
        return "SDKs" if SDKS.match(nodeid) else super()._split_scope(nodeid)


def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> LoadFileScheduling | None:
    """Choose how files are shared between processes, unless an option does."""
    return Scheduling(config, log) if config.getvalue("dist") == "loadfile" else None


def pytest_collection_finish() -> None:
    """Let HTTP clients share what they have loaded, and take the collected tests out of later garbage collections."""
    if "httpx2" in sys.modules:
        import httpcore2

        # A client for one request would spend 20 ms on certificates that no test needs.
        httpcore2.default_ssl_context = functools.cache(httpcore2.default_ssl_context)
    gc.freeze()
    gc.enable()


# Frozen objects would not be freed at exit, of which DuckDB prints pages ("nanobind: leaked"). Later than pytest's own
# five collections, which would look at all of them.
atexit.register(gc.unfreeze)


@pytest.hookimpl(trylast=True)
def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print the name and the reason of the first failures last, in a few lines: long logs may lose their beginning."""
    failures = [*terminalreporter.getreports("failed"), *terminalreporter.getreports("error")]
    if failures:
        terminalreporter.section("reasons of failures")
    for report in failures[:REASONS]:
        crash = getattr(report.longrepr, "reprcrash", None)
        reason = f"{crash.path}:{crash.lineno}: {crash.message}" if crash else report.longreprtext
        terminalreporter.write_line(f"{report.outcome.upper()} {report.nodeid}\n{reason[:REASON]}")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Mark as slow what ``make quick`` leaves out, and deselect what only ``make exhaustive`` runs.

    Slow, next to tests that are marked so, are tests with many examples, over stdio or HTTP, or for another revision
    than the newest.
    """
    for item in items:
        values = item.callspec.params.values() if hasattr(item, "callspec") else ()
        repeated = any(isinstance(value, str) and value in SLOW for value in values)
        if repeated or is_hypothesis_test(getattr(item, "obj", None)):
            item.add_marker(pytest.mark.slow)
    left_out: set[pytest.Item] = set()
    if "CARREL_EXHAUSTIVE" not in os.environ:
        newer = {function_of(item) for item in items if DATE.search(item.nodeid) and not OLDER.search(item.nodeid)}
        left_out = {item for item in items if is_exhaustive(item) or (is_of_older(item) and function_of(item) in newer)}
    if config.option.in_memory:
        left_out |= further_cases(item for item in items if not item.get_closest_marker("slow"))
    if left_out:
        config.hook.pytest_deselected(items=list(left_out))
        items[:] = [item for item in items if item not in left_out]


def further_cases(items: Iterable[pytest.Item]) -> set[pytest.Item]:
    """Return the items beyond ``QUICK_CASES`` of each function: all but the first, the last and some between them."""
    cases: defaultdict[str, list[pytest.Item]] = defaultdict(list)
    for item in items:
        cases[function_of(item)].append(item)
    further: set[pytest.Item] = set()
    for all_cases in cases.values():
        if len(all_cases) > QUICK_CASES:
            last = len(all_cases) - 1
            chosen = {last * number // (QUICK_CASES - 1) for number in range(QUICK_CASES)}
            further.update(case for number, case in enumerate(all_cases) if number not in chosen)
    return further


def is_exhaustive(item: pytest.Item) -> bool:
    return item.get_closest_marker("exhaustive") is not None


def is_of_older(item: pytest.Item) -> bool:
    """Return whether a test runs for an older revision, in a folder whose tests need not run for every one."""
    return OLDER.search(item.nodeid) is not None and item.path.relative_to(TESTS).parts[0] in NEWER_REVISIONS


def function_of(item: pytest.Item) -> str:
    return item.nodeid.partition("[")[0]
