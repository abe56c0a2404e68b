"""Replicas behind HAProxy without stickiness: the conformance suite, official clients and the Inspector."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
from _pytest.mark import ParameterSet

from conformance.suite import EXCEPTIONS, RUNS, run_against
from interop.test_asking import ANSWERED, ELSEWHERE
from interop.test_clients import BEFORE_2025_06_18, CANCELLED, MODERN, PAGES, PROGRESS, SEEN, URIS, client, tour
from interop.test_inspector import inspect
from support.parties import node_environment
from support.redis_servers import RedisServer, redis_server

from .group import replicated

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

#: Runs of the suite that every test run has: sessions and the newest revision.
ALWAYS = ("2025-11-25", "2026-07-28")
#: The official clients, and the revisions that they speak.
OFFICIAL = {"1": "2025-11-25", "legacy": "2025-11-25", "auto": "2026-07-28"}
#: The versions of the TypeScript SDK: script, argument, and how they differ from the others. Version 2 reports an
#: unknown resource by the code of 2026-07-28, whatever the server says.
TYPESCRIPT: Mapping[str, tuple[str, str, dict[str, object]]] = {
    "1": ("typescript_sdk_1.cjs", "@modelcontextprotocol/sdk", {**PAGES, "revision": "2025-11-25"}),
    "1 of 2025-06-18": ("typescript_sdk_1.cjs", "sdk-2025-06-18", {**PAGES, "revision": "2025-06-18"}),
    "1 of 2025-03-26": (
        *("typescript_sdk_1.cjs", "sdk-2025-03-26"),
        {**PAGES, **BEFORE_2025_06_18, "revision": "2025-03-26"},
    ),
    "2 legacy": ("typescript_sdk_2.cjs", "legacy", {"uris": URIS, **MODERN, "revision": "2025-11-25"}),
    "2 auto": ("typescript_sdk_2.cjs", "auto", {"uris": URIS, **MODERN}),
}


def clients(always: str) -> list[ParameterSet]:
    """Return the official clients: one for every test run, the others for exhaustive ones."""
    return [
        pytest.param(mode, revision, marks=() if mode == always else pytest.mark.exhaustive)
        for mode, revision in OFFICIAL.items()
    ]


def command(mode: str, url: str) -> list[str]:
    """Return the command of version 1 of the Python SDK, or of version 2 in a mode."""
    return client("python_sdk_1.py", url) if mode == "1" else client("python_sdk_2.py", mode, url)


@pytest.fixture(scope="module", params=["redis-server", pytest.param("valkey-server", marks=pytest.mark.exhaustive)])
def store(request: pytest.FixtureRequest) -> Iterator[RedisServer]:
    with redis_server(request.param) as running:
        yield running


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=() if name in ALWAYS else pytest.mark.exhaustive) for name in RUNS]
)
async def test_replicas_pass_the_conformance_suite(name: str, store: RedisServer, tmp_path: Path) -> None:
    results = tmp_path / "results"
    results.mkdir()
    async with replicated("conformance", store, tmp_path) as group:
        outcomes = await asyncio.to_thread(run_against, group.url, name, results)
    failed = {scenario: outcome.complaints for scenario, outcome in outcomes.items() if outcome.complaints}
    assert set(failed) <= set(EXCEPTIONS), failed
    assert [
        scenario for scenario, outcome in outcomes.items() if not outcome.passed and scenario not in EXCEPTIONS
    ] == []


@pytest.mark.parametrize(("mode", "revision"), clients("auto"))
async def test_the_official_python_clients_see_one_server(
    mode: str, revision: str, store: RedisServer, tmp_path: Path
) -> None:
    async with replicated("golden", store, tmp_path) as group:
        seen = await asyncio.to_thread(tour, *command(mode, group.url))
    assert seen == {**SEEN, **PAGES, **PROGRESS, **(MODERN if mode == "auto" else {"revision": revision})}


@pytest.mark.parametrize(("mode", "revision"), clients("1"))
async def test_the_official_python_clients_answer_any_replica(
    mode: str, revision: str, store: RedisServer, tmp_path: Path
) -> None:
    async with replicated("asking", store, tmp_path) as group:
        seen = await asyncio.to_thread(tour, *command(mode, group.url))
    assert seen == {"revision": revision, "answered": {**ANSWERED, **ELSEWHERE}}


@pytest.mark.parametrize(
    "version",
    [pytest.param(name, marks=() if name in ("1", "2 auto") else pytest.mark.exhaustive) for name in TYPESCRIPT],
)
async def test_the_typescript_clients_see_one_server(version: str, store: RedisServer, tmp_path: Path) -> None:
    script, argument, differing = TYPESCRIPT[version]
    async with replicated("golden", store, tmp_path) as group:
        seen = await asyncio.to_thread(tour, *client(script, argument, group.url), env=node_environment())
    assert seen == {**SEEN, **CANCELLED, **differing}


@pytest.mark.exhaustive
@pytest.mark.parametrize("era", ["legacy", "modern"])
async def test_the_inspector_calls_a_tool_of_replicas(era: str, store: RedisServer, tmp_path: Path) -> None:
    call = ("--method", "tools/call", "--tool-name", "weather", "--tool-arg", "city=Oslo")
    async with replicated("golden", store, tmp_path) as group:
        called = await asyncio.to_thread(inspect, [group.url], era, *call)
    assert called["structuredContent"] == SEEN["structured"]
