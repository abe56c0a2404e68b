"""Audit log and metrics with ``--workers``: one file, and one endpoint."""

from __future__ import annotations

import asyncio
import json
import os
import signal
from contextlib import closing
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from carrel.cli import main
from support.http_process import free_port
from support.raw_http import Site
from support.worker_processes import PATIENCE, running

pytestmark = [pytest.mark.asyncio, pytest.mark.slow]

PROGRAM = """
import os

from carrel import Server

app = Server("books")

@app.tool
async def pid() -> int:
    return os.getpid()
"""


async def test_one_endpoint_has_the_metrics_of_all_workers_and_of_their_successors(tmp_path):
    port = free_port()
    (tmp_path / "books.py").write_text(PROGRAM)
    (tmp_path / "carrel.toml").write_text(
        f"[app]\nfile = 'books.py'\n[http]\nport = 0\nworkers = 2\nworker_timeout = 5\n[metrics]\nport = {port}\n"
    )
    async with running("run", cwd=tmp_path) as workers:
        with closing(Site(port)) as site:
            pids = await workers.pids()
            calls = await counted(workers, site, 30)
            assert set(calls) == {"1", "2"}
            for name in ("carrel_sessions", "process_resident_memory_bytes", "carrel_event_loop_lag_seconds"):
                assert set(await samples(site, name)) == {"1", "2"}
            assert len(await samples(site, "process_start_time_seconds")) == 2
            assert await (await site.request("GET", path="/readyz")).json() == {"ready": True, "problems": []}
            await stop(min(pids))
            async with asyncio.timeout(PATIENCE):  # the endpoint answers nevertheless
                while len(await samples(site, "carrel_sessions")) == 2:
                    await asyncio.sleep(0.1)
            assert (await site.request("GET", path="/healthz")).status == 200
            await workers.wait_for("another one is started")
            await workers.pids(1, without=pids)
            workers.process.send_signal(signal.SIGHUP)
            await workers.wait_for("all workers were replaced")
            async with asyncio.timeout(PATIENCE):
                while set(await samples(site, "carrel_sessions")) != {"1", "2"}:
                    await asyncio.sleep(0.1)
        assert await workers.end() == 0
        assert workers.errors.count("metrics are at") == 1


async def stop(pid):
    """Stop a process, and wait until no thread of it can accept a connection any more."""
    os.kill(pid, signal.SIGSTOP)
    async with asyncio.timeout(PATIENCE):
        while any("\nState:\tT" not in (task / "status").read_text() for task in Path(f"/proc/{pid}/task").iterdir()):
            await asyncio.sleep(0.01)


async def samples(site, name):
    """Return the sums of a metric by worker."""
    text = (await (await site.request("GET", path="/metrics", headers={"Connection": "close"})).body()).decode()
    found = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            if sample.name == name:
                worker = sample.labels["worker"]
                found[worker] = found.get(worker, 0) + sample.value
    return found


async def counted(workers, site, calls):
    """Call a tool until each worker has answered, and return the counts, which are exact."""
    before = sum((await samples(site, "carrel_requests_total")).values())
    for _ in range(calls):
        await workers.use("pid")
    after = await samples(site, "carrel_requests_total")
    assert sum(after.values()) == before + calls
    return after


async def test_workers_write_one_audit_file_and_its_chain_holds(tmp_path, monkeypatch, capsys):
    (tmp_path / "books.py").write_text(PROGRAM)
    (tmp_path / "carrel.toml").write_text(
        "[app]\nfile = 'books.py'\n[http]\nport = 0\nworkers = 2\n"
        "[audit]\nfile = 'audit.jsonl'\nchain = true\nmax_size = 10_000\nkeep = 1000\n"
    )
    async with running("run", cwd=tmp_path) as workers:
        pids = await workers.pids()
        calls = 0
        for _ in range(3):
            for _ in range(10):
                found = await asyncio.gather(*(workers.use("pid") for _ in range(4)))
                calls += len(found)
            workers.process.send_signal(signal.SIGHUP)
            await workers.wait_for("all workers were replaced")
        assert not pids & await workers.pids()
        assert await workers.end() == 0
    monkeypatch.chdir(tmp_path)
    assert main(["audit", "verify"]) == 0
    lines = [
        json.loads(line)
        for file in tmp_path.glob("audit.jsonl*")
        if file.suffix != ".lock"
        for line in file.read_bytes().splitlines()
    ]
    assert len([line for line in lines if line.get("method") == "tools/call"]) >= calls
    assert sorted(line["number"] for line in lines) == list(range(1, len(lines) + 1))
