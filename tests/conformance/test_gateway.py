"""The conformance suite's server scenarios through ``carrel gateway``, at the two newest revisions.

With CARREL_EXHAUSTIVE, every revision is on each side.

The configuration names the revision of the server, which the gateway reaches over HTTP or starts on stdio. The suite
offers 2025-11-25 whatever it is told, so that a gateway for clients of an older revision speaks that one alone.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
import threading
import tomllib
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from carrel.protocol.revisions import REVISIONS
from conformance.suite import Outcome, fixture, run_against
from support.forking import forked
from support.http_server import over_http

HERE = Path(__file__).parent
EXCEPTIONS: Mapping[str, Mapping[str, Mapping[str, str]]] = tomllib.loads(
    (HERE / "gateway.toml").read_text(encoding="utf-8")
)
TASKS_SINCE = "2025-11-25"
SKILLS = ("skills-directory", "skills-enumeration", "skills-manifest")
#: How many runs of the suite go on at the same time. They wait most of the time.
AT_ONCE = 4


class Case(NamedTuple):
    """A run of the suite: revision of the server and of the client, how the server is reached, and which run it is."""

    far: str
    near: str
    transport: str
    run: str


def exhaustive_cases() -> Iterator[Case]:
    """Yield all runs, the longest first.

    Clients of the two newest revisions have servers of every revision. An older client has a server of the newest
    revision with sessions or without: the catalog between the two sides knows neither revision.
    """
    revisions = sorted(REVISIONS, reverse=True)
    newest = revisions[0]
    for row, near in enumerate(revisions):
        for column, far in enumerate(revisions if row < 2 else [revisions[row % 2]]):
            run = "2025-11-25"
            if near == newest:
                run = near if far >= TASKS_SINCE else "2026-07-28 without extensions"
            both = ("http", "stdio") if row == column else (("http", "stdio")[(row + column) % 2],)
            yield from (Case(far, near, transport, run) for transport in both)
    yield from (Case(newest, newest, "http", run) for run in SKILLS)


def cases() -> Iterator[Case]:
    """Yield the runs of ``make test``, the longest first: both revisions on each side, and both transports.

    The catalog between the two sides knows neither revision, and tests/gateway/test_revisions.py has all pairs.
    """
    *_, sessions, newest = sorted(REVISIONS)
    yield Case(newest, newest, "http", newest)
    yield Case(sessions, newest, "stdio", newest)
    yield Case(newest, sessions, "stdio", "2025-11-25")
    yield Case(newest, newest, "http", SKILLS[0])


CASES = list(exhaustive_cases() if "CARREL_EXHAUSTIVE" in os.environ else cases())
Runs = Callable[[Case], dict[str, Outcome]]


@contextmanager
def listening(command: list[str]) -> Iterator[str]:
    """Run a command that writes its URL on standard error, and give that URL."""
    with subprocess.Popen(command, stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        said = ""
        for line in process.stderr:
            said += line
            if found := re.search(r"ready at (http://\S+)", line):
                break
        else:
            raise AssertionError(said)
        rest = threading.Thread(target=process.stderr.read)
        rest.start()
        try:
            yield found[1]
        finally:
            process.terminate()
            rest.join()


@pytest.fixture(scope="module")
def runs(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Runs]:
    """The runs of the suite that the selected tests need, under way."""
    needed = [
        item.callspec.params["case"]
        for item in request.session.items
        if isinstance(item, pytest.Function) and item.module is request.module and hasattr(item, "callspec")
    ]

    parent = tmp_path_factory.mktemp("runs")  # not in the threads, which would race for the folder above it

    def through_a_gateway(case: Case) -> dict[str, Outcome]:
        folder = Path(tempfile.mkdtemp(dir=parent))
        server: dict[str, Any] = {"url": url} if case.transport == "http" else {"command": program[0]}
        if case.transport == "stdio":
            server["args"] = [*program[1:], "--stdio"]
        file = folder / "mcp.json"
        file.write_text(json.dumps({"mcpServers": {"fixture": {**server, "revision": case.far}}}))
        with listening([*gateway, case.near, str(file), "--http", "0"]) as reached:
            (folder / "results").mkdir()
            return run_against(reached, case.run, folder / "results")

    with ExitStack() as stack:
        url = stack.enter_context(over_http(fixture())) + "/mcp"
        program = forked(sys.executable, str(HERE / "server.py"))
        gateway = forked(sys.executable, str(HERE / "gateway.py"))
        pool = stack.enter_context(ThreadPoolExecutor(AT_ONCE))
        running = {case: pool.submit(through_a_gateway, case) for case in needed}

        def outcomes_of(case: Case) -> dict[str, Outcome]:
            """Return the outcomes of a run; if some are unexpected, those of another: the suite has time limits."""
            outcomes = running[case].result()
            return outcomes if failed(outcomes).keys() == expected(case, outcomes) else through_a_gateway(case)

        yield outcomes_of


def failed(outcomes: Mapping[str, Outcome]) -> dict[str, tuple[str, ...]]:
    """Return the complaints about the scenarios that did not pass."""
    return {name: each.complaints for name, each in outcomes.items() if each.complaints or not each.passed}


def expected(case: Case, outcomes: Mapping[str, Outcome]) -> set[str]:
    """Return the scenarios of a run that a side cannot have."""
    revisions, servers = EXCEPTIONS["revisions"], EXCEPTIONS["servers"]
    cannot = {name for each in (case.far, case.near, "any") for name in revisions.get(each, ())}
    return (cannot | servers.get(case.far, {}).keys()) & outcomes.keys()


@pytest.mark.parametrize("case", CASES, ids="-".join)
def test_scenarios_pass_through_a_gateway_unless_a_side_cannot_have_them(case: Case, runs: Runs) -> None:
    outcomes = runs(case)
    assert failed(outcomes).keys() == expected(case, outcomes), failed(outcomes)
    assert len(outcomes) >= (1 if case.run in SKILLS else 30)
