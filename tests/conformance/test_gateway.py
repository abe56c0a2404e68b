"""The conformance suite's server scenarios through a gateway, at every revision of the server and of the client.

The gateway reaches the fixture server over stdio, over HTTP and in memory. The suite offers 2025-11-25 whatever it is
told, so that a gateway for clients of an older revision speaks that one alone.
"""

from __future__ import annotations

import contextlib
import sys
import tomllib
from collections.abc import Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from carrel import Server
from carrel.host.remote import RemoteProvider
from carrel.protocol.revisions import REVISIONS
from conformance.suite import Outcome, fixture, run_against
from support.http_server import over_http

HERE = Path(__file__).parent
EXCEPTIONS: Mapping[str, Mapping[str, Mapping[str, str]]] = tomllib.loads(
    (HERE / "gateway.toml").read_text(encoding="utf-8")
)
STATELESS, TASKS_SINCE = "2026-07-28", "2025-11-25"
#: How the gateway reaches the server, where it is not in memory, by the revisions of the server and of the client.
TRANSPORTS: Mapping[tuple[str, str], str] = {
    ("2026-07-28", "2026-07-28"): "http",
    ("2025-11-25", "2026-07-28"): "stdio",
    ("2026-07-28", "2025-11-25"): "stdio",
    ("2025-11-25", "2025-11-25"): "http",
    ("2025-06-18", "2025-11-25"): "stdio",
    ("2025-03-26", "2025-11-25"): "http",
    ("2024-11-05", "2025-11-25"): "stdio",
    ("2025-06-18", "2025-06-18"): "http",
}
SKILLS = ["skills-directory", "skills-enumeration", "skills-manifest"]
#: Runs of the suite: the revision of the server, that of the client, and which run it is, those that take long first.
CASES = [
    (far, near, near if near != STATELESS or far >= TASKS_SINCE else "2026-07-28 without extensions")
    for near in sorted(REVISIONS, reverse=True)
    for far in sorted(REVISIONS, reverse=True)
]
CASES += [(STATELESS, STATELESS, run) for run in SKILLS]
#: How many runs of the suite go on at the same time. They wait most of the time.
AT_ONCE = 4


def through_a_gateway(far: str, near: str, run: str, results: Path) -> dict[str, Outcome]:
    """Do a run of the suite against a gateway to the fixture server."""
    with contextlib.ExitStack() as stack:
        target: Any = fixture()
        transport = "memory" if run in SKILLS else TRANSPORTS.get((far, near), "memory")
        if transport == "http":
            target = stack.enter_context(over_http(target)) + "/mcp"
        elif transport == "stdio":
            target = [sys.executable, str(HERE / "server.py"), "--stdio"]
        gateway: Server[Any] = Server("carrel-conformance", version="1.0")
        gateway.skills()
        gateway.add_provider(RemoteProvider(target, name="fixture", revision=far))
        if near != STATELESS:
            gateway.endpoint.description.revisions = {near: REVISIONS[near]}
            run = "2025-11-25"
        return run_against(gateway, run, results)


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Mapping[tuple[str, str, str], Future[Any]]]:
    with ThreadPoolExecutor(AT_ONCE) as pool:
        yield {case: pool.submit(through_a_gateway, *case, tmp_path_factory.mktemp("run")) for case in CASES}


@pytest.mark.parametrize("case", CASES, ids="-".join)
def test_scenarios_pass_through_a_gateway_unless_a_side_cannot_have_them(
    case: tuple[str, str, str], runs: Mapping[tuple[str, str, str], Future[dict[str, Outcome]]]
) -> None:
    far, near, _ = case
    outcomes = runs[case].result()
    failed = {
        scenario: outcome.complaints
        for scenario, outcome in outcomes.items()
        if outcome.complaints or not outcome.passed
    }
    revisions, servers = EXCEPTIONS["revisions"], EXCEPTIONS["servers"]
    cannot = {name for each in (far, near, "any") for name in revisions.get(each, ())} | servers.get(far, {}).keys()
    assert set(failed) == cannot & outcomes.keys(), failed
    assert len(outcomes) >= (1 if "skills" in case[2] else 30)
