"""Metrics of real servers, read as Prometheus reads them, and the dashboard that shows them."""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import time
from pathlib import Path
from typing import Any

import httpx2
import pytest
from prometheus_client import CollectorRegistry
from prometheus_client.openmetrics.parser import text_string_to_metric_families

from carrel import Client
from carrel.cli import main
from carrel.errors import ConfigError, MCPError
from carrel.metrics import Lag, MetricsListener, ServerState
from carrel.metrics import state as module
from carrel.security.server.static_tokens import make_token
from carrel.transports.client.options import HTTPOptions
from support.carrel_process import serving

OPENMETRICS = {"accept": "application/openmetrics-text; version=1.0.0"}
DASHBOARD = Path(__file__).parents[2] / "examples/grafana.json"
SERVER = """
from carrel import Server
from carrel.search.options import SearchOptions

app = Server("shop")
app.add_search(SearchOptions(folder="index"))
app.resources.add("note://one", "1")
app.resources.add("note://two", "2")


@app.tool
def fail() -> str:
    raise ValueError("it failed")


@app.tool
async def seldom() -> str:
    return "done"
"""
WAITING = """
import asyncio
import os
from pathlib import Path

from carrel import Server

app = Server("waiting")

@app.tool
async def wait() -> str:
    Path("writing").write_text(str(os.getpid()))
    Path("writing").rename("waiting")
    while not Path("go").exists():
        await asyncio.sleep(0.02)
    return "done"
"""
SETTINGS = """
[[sources]]
path = "notes"
[app]
file = "server.py"
[[limits.rules]]
tools = "seldom"
requests = "1/hour"
[metrics]
port = 0
[auth]
tokens = "tokens.txt"
[access.roles]
ann = { token = "ann" }
[[access.rules]]
role = "ann"
allow = "all"
[[access.rules]]
role = "*"
deny = "read"
resources = "note://two"
"""


def read(text: str) -> dict[tuple[str, frozenset[tuple[str, str]]], float]:
    """Return the samples by name and labels."""
    found = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            found[sample.name, frozenset(sample.labels.items())] = sample.value
    return found


def value(samples: dict[Any, float], name: str, **labels: str) -> float:
    return samples.get((name, frozenset(labels.items())), 0.0)


@pytest.fixture
def arguments(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "server.py").write_text(SERVER)
    (tmp_path / "notes").mkdir()
    (tmp_path / "carrel.toml").write_text(SETTINGS)
    return ["run", "--config", "carrel.toml"]


async def test_a_server_that_is_stopping_is_not_ready_but_finishes_its_requests(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("server.py").write_text(WAITING)
    Path("carrel.toml").write_text('[app]\nfile = "server.py"\n[http]\ngrace = 60\n[metrics]\nport = 0\n')
    async with httpx2.AsyncClient() as browser:
        with serving("run", "--config", "carrel.toml") as (metrics, errors):
            ready = metrics.replace("/metrics", "/readyz")
            async with Client(errors.wait_for(r"http://[^\s/]+/mcp")[0]) as client:
                assert (await browser.get(ready)).json() == {"ready": True, "problems": []}
                call = asyncio.ensure_future(client.call_tool("wait"))
                async with asyncio.timeout(60):
                    while not Path("waiting").exists():
                        await asyncio.sleep(0.02)
                    os.kill(int(Path("waiting").read_text()), signal.SIGTERM)
                    while (found := await browser.get(ready)).status_code == 200:
                        await asyncio.sleep(0.02)
                    assert found.json() == {"ready": False, "problems": ["the server is stopping"]}
                    Path("go").touch()
                    assert "done" in str(await call)


async def test_a_server_counts_its_requests_sessions_streams_and_refusals(arguments: list[str]) -> None:
    token, line = make_token("ann")
    Path("tokens.txt").write_text(line)
    with serving(*arguments) as (metrics, errors):
        url = errors.wait_for(r"http://[^\s/]+/mcp")[0]
        http = HTTPOptions(auth=token)
        async with (
            httpx2.AsyncClient() as browser,
            Client(url, http=http, revision="2025-11-25") as old,
            Client(url, http=http, revision="2026-07-28") as new,
        ):
            for client in (old, new):
                await client.read_resource("note://one")
                with pytest.raises(MCPError):
                    await client.read_resource("note://two")
                await client.call_tool("fail")
            await old.call_tool("seldom")
            with pytest.raises(MCPError, match="at most 1 requests per hour"):
                await new.call_tool("seldom")
            await browser.post(url, json={})
            async with new.watch("note://one"):
                samples = read((await browser.get(metrics, headers=OPENMETRICS)).text)
                for era in ("session", "stateless"):
                    for method, outcome in (
                        ("resources/read", "ok"),
                        ("resources/read", "error"),
                        ("tools/call", "tool_error"),
                    ):
                        labels = {"method": method, "outcome": outcome, "era": era}
                        assert value(samples, "carrel_requests_total", **labels) == 1, labels
                        assert value(samples, "mcp_server_operation_duration_seconds_count", **labels) == 1
                assert value(samples, "carrel_denied_total", method="resources/read") == 2
                assert value(samples, "carrel_limited_total", method="tools/call") == 1
                assert value(samples, "carrel_http_refusals_total", status="401") == 1
                assert value(samples, "carrel_sessions") == 1
                assert value(samples, "carrel_streams") >= 1
                assert value(samples, "carrel_subscriptions") >= 1
                assert value(samples, "carrel_connections") >= 2
                assert value(samples, "carrel_received_bytes_total") > 100
                assert value(samples, "carrel_sent_bytes_total") > 1000
                assert value(samples, "carrel_event_loop_lag_seconds") < 60
                assert not any("note://" in label for _, labels in samples for pair in labels for label in pair)
                check_dashboard({name for name, _ in samples})
            origin = metrics.removesuffix("/metrics")
            assert (await browser.get(f"{origin}/healthz")).text == "ok\n"
            assert (await browser.get(f"{origin}/readyz")).json() == {"ready": True, "problems": []}
            assert (await browser.get(f"{origin}/other")).status_code == 404
            assert (await browser.post(metrics)).status_code == 405
            for host, status in (
                ("evil.example", 421),
                ("10.0.0.7:9464", 200),
                ("[::1]:9464", 200),
                ("localhost", 200),
            ):
                assert (await browser.get(metrics, headers={"host": host})).status_code == status, host
            plain = await browser.get(metrics)
            assert plain.headers["content-type"].startswith("text/plain")


def check_dashboard(names: set[str]) -> None:
    """Check that each metric of the dashboard exists."""
    dashboard = json.loads(DASHBOARD.read_text())
    expressions = [target["expr"] for panel in dashboard["panels"] for target in panel["targets"]]
    used = {name for each in expressions for name in re.findall(r"\b(?:carrel|mcp|process)_\w+", each)}
    assert len(used) > 12
    assert used - names <= {"carrel_source_errors_total"}  # has a sample after the first error
    own = {name for name in names if name.startswith("carrel_") and not name.endswith("_created")}
    assert own <= used


async def test_a_source_that_is_away_makes_the_server_unready(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    state = ServerState(
        {"sessions": lambda: 2}, lambda: {"shop": False}, lambda: {"shop": 3}, lambda: ["shop is not available"]
    )
    registry = CollectorRegistry()
    registry.register(module.StateCollector(state))
    listener = MetricsListener("127.0.0.1", 0, registry, state)
    listener.start()
    try:
        async with httpx2.AsyncClient(base_url=f"http://127.0.0.1:{listener.port}") as browser:
            found = await browser.get("/readyz")
            assert (found.status_code, found.json()["problems"]) == (503, ["shop is not available"])
            samples = read((await browser.get("/metrics", headers=OPENMETRICS)).text)
            assert value(samples, "carrel_source_up", source="shop") == 0
            assert value(samples, "carrel_sessions") == 2
            assert value(samples, "carrel_source_errors_total", source="shop") == 3

            monkeypatch.setattr(module, "STUCK", 0.05)
            await state.lag.start()
            time.sleep(0.2)  # the event loop does nothing else meanwhile
            assert state.lag.is_stuck
            await state.lag.stop()
            with pytest.raises(ConfigError, match="cannot listen"):
                MetricsListener("127.0.0.1", listener.port, registry, state)
    finally:
        listener.stop()


async def test_the_delay_of_the_event_loop_is_its_maximum_since_the_last_look(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "INTERVAL", 0.01)
    lag = Lag()
    await lag.start()
    await asyncio.sleep(0.05)
    lag.take()
    time.sleep(0.3)
    await asyncio.sleep(0.05)
    assert 0.25 < lag.take() < 60
    await lag.stop()


def test_a_port_that_is_taken_is_one_line(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    import socket

    Path("tokens.txt").write_text(make_token("ann")[1])
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        Path("carrel.toml").write_text(SETTINGS.replace("port = 0", f"port = {port}"))
        assert main([*arguments, "--http", "0"]) == 2
    assert f"[metrics] cannot listen on 127.0.0.1 port {port}" in capsys.readouterr().err
