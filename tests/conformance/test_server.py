"""The conformance suite's server scenarios, at every revision they cover, against the fixture server."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import pytest

from conformance.suite import EXCEPTIONS, RUNS, Outcome, listed, run

HERE = Path(__file__).parent
SCENARIOS: dict[str, list[str]] = tomllib.loads((HERE / "scenarios.toml").read_text(encoding="utf-8"))
#: How many runs of the suite go on at the same time.
AT_ONCE = 2


def run_of(revision: str, scenario: str) -> str:
    """Say which of ``RUNS`` has a scenario in it."""
    if revision != "extension":
        return revision
    return scenario.removeprefix("sep-2640-") if "skills" in scenario else "2026-07-28"


CASES = [
    pytest.param(revision, scenario, id=f"{revision}-{scenario}")
    for revision, scenarios in SCENARIOS.items()
    for scenario in scenarios
]
Runs = dict[str, "Future[dict[str, Outcome]]"]


@pytest.fixture(scope="module")
def runs(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Runs]:
    """The runs that the selected tests need, under way."""
    needed = {
        run_of(item.callspec.params["revision"], item.callspec.params["scenario"])
        for item in request.session.items
        if isinstance(item, pytest.Function)
        and item.module is request.module
        and hasattr(item, "callspec")
        and "scenario" in item.callspec.params
    }
    with ThreadPoolExecutor(AT_ONCE) as pool:
        longest_first = sorted(needed & set(RUNS), key=lambda name: -len(SCENARIOS.get(name, ())))
        yield {name: pool.submit(run, name, tmp_path_factory.mktemp(name)) for name in longest_first}


@pytest.mark.parametrize(("revision", "scenario"), CASES)
def test_the_scenario_passes_unless_it_is_an_exception(revision: str, scenario: str, runs: Runs) -> None:
    outcome = runs[run_of(revision, scenario)].result()[scenario]
    complaints = "\n".join(outcome.complaints)
    if scenario in EXCEPTIONS:
        passes = outcome.passed and not complaints
        assert not passes, f"it passes: take it out of exceptions.toml ({EXCEPTIONS[scenario]})"
        pytest.xfail(EXCEPTIONS[scenario])
    assert not complaints, complaints
    assert outcome.passed, "nothing was checked"


#: What the older revisions cannot have passed: the suite asks for forms, choices and sound as newer ones have them.
NOT_YET = {
    "2025-06-18": {"elicitation-sep1034-defaults", "elicitation-sep1330-enums"},
    "2025-03-26": {"elicitation-sep1034-defaults", "elicitation-sep1330-enums", "tools-call-elicitation"},
    "2024-11-05": {
        *("elicitation-sep1034-defaults", "elicitation-sep1330-enums", "tools-call-audio", "tools-call-elicitation"),
    },
}


@pytest.mark.parametrize(
    "revision", [pytest.param(name, marks=[] if name == min(NOT_YET) else pytest.mark.exhaustive) for name in NOT_YET]
)
def test_a_server_that_insists_on_an_older_revision_passes_all_that_it_has(revision: str, tmp_path: Path) -> None:
    outcomes = run("2025-11-25", tmp_path, only=revision)
    failed = {scenario: outcome.complaints for scenario, outcome in outcomes.items() if outcome.complaints}
    assert set(failed) == NOT_YET[revision], failed
    assert len(outcomes) >= 30


def test_the_server_starts_by_itself_and_says_where() -> None:
    command = [sys.executable, str(HERE / "server.py"), "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert re.fullmatch(r"Listening on http://127\.0\.0\.1:\d+/mcp\n", process.stdout.readline())
        process.terminate()
        assert process.wait(60) in (0, -signal.SIGTERM)


def test_no_scenario_of_the_suite_is_left_out() -> None:
    assert {revision: set(names) for revision, names in SCENARIOS.items()} == listed("server")


def test_every_exception_is_a_scenario() -> None:
    assert set(EXCEPTIONS) <= {scenario for scenarios in SCENARIOS.values() for scenario in scenarios}
