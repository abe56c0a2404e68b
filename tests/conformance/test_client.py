"""The conformance suite's client scenarios, at every revision they cover, done by the client."""

from __future__ import annotations

import shlex
import sys
import tomllib
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import pytest

from conformance.suite import Outcome, listed, run_client
from support.forking import forked

HERE = Path(__file__).parent
LISTS = tomllib.loads((HERE / "client_scenarios.toml").read_text(encoding="utf-8"))
#: Scenarios whose servers must not be trusted: the client ends with an error.
REFUSED: set[str] = set(LISTS.pop("refused"))
SCENARIOS: dict[str, list[str]] = LISTS
#: How many scenarios go on at the same time. Some of them measure times, so that more would not do.
AT_ONCE = 3
CASES = [(revision, scenario) for revision, scenarios in SCENARIOS.items() for scenario in scenarios]
Runs = dict[tuple[str, ...], "Future[dict[str, Outcome]]"]


@pytest.fixture(scope="module")
def runs(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Runs]:
    """The runs of the suite that the selected tests need, under way."""
    needed = {
        run_of(item.callspec.params["revision"], item.callspec.params["scenario"])
        for item in request.session.items
        if isinstance(item, pytest.Function) and item.module is request.module and hasattr(item, "callspec")
    }
    client = shlex.join(forked(sys.executable, str(HERE / "client.py"), at_once=AT_ONCE))
    with ThreadPoolExecutor(len(needed)) as pool:
        yield {which: pool.submit(run_client, which, client, tmp_path_factory.mktemp("run")) for which in needed}


def run_of(revision: str, scenario: str) -> tuple[str, ...]:
    """Return the arguments of the run of the suite that a scenario is in."""
    if revision != "extension":
        return ("--suite", "all", "--spec-version", revision)
    return ("--scenario", scenario) if scenario.startswith("sep-2640") else ("--suite", "extensions")


@pytest.mark.parametrize(("revision", "scenario"), CASES)
def test_the_client_passes_the_scenario(revision: str, scenario: str, runs: Runs) -> None:
    outcome = runs[run_of(revision, scenario)].result()[scenario]
    assert not outcome.complaints, "\n".join([*outcome.complaints, outcome.errors])
    assert outcome.passed, "nothing was checked"
    assert ("Traceback" in outcome.errors) is (scenario in REFUSED), outcome.errors


def test_no_scenario_of_the_suite_is_left_out() -> None:
    assert {revision: set(names) for revision, names in SCENARIOS.items()} == listed("client")
