"""The conformance suite's client scenarios, at every revision they cover, done by the client."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import pytest

from conformance.suite import Outcome, listed, run_client

HERE = Path(__file__).parent
SCENARIOS: dict[str, list[str]] = tomllib.loads((HERE / "client_scenarios.toml").read_text(encoding="utf-8"))
#: How many scenarios go on at the same time. Some of them measure times, so that more would not do.
AT_ONCE = 3
CASES = [(revision, scenario) for revision, scenarios in SCENARIOS.items() for scenario in scenarios]


@pytest.fixture(scope="module")
def outcomes(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[dict[tuple[str, str], Future[Outcome]]]:
    """The scenarios that the selected tests need, under way."""
    needed = [
        (item.callspec.params["revision"], item.callspec.params["scenario"])
        for item in request.session.items
        if isinstance(item, pytest.Function) and item.module is request.module and hasattr(item, "callspec")
    ]
    with ThreadPoolExecutor(AT_ONCE) as pool:
        yield {
            (revision, scenario): pool.submit(run_client, scenario, revision, tmp_path_factory.mktemp("scenario"))
            for revision, scenario in needed
        }


@pytest.mark.parametrize(("revision", "scenario"), CASES)
def test_the_client_passes_the_scenario(
    revision: str, scenario: str, outcomes: dict[tuple[str, str], Future[Outcome]]
) -> None:
    outcome = outcomes[revision, scenario].result()
    assert not outcome.complaints, "\n".join(outcome.complaints)
    assert outcome.passed, "nothing was checked"


def test_no_scenario_of_the_suite_is_left_out() -> None:
    assert {revision: set(names) for revision, names in SCENARIOS.items()} == listed("client")
