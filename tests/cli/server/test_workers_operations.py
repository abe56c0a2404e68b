"""Audit log and metrics with ``--workers``: one file, and one endpoint."""

from __future__ import annotations

import asyncio
import json
import signal

import pytest

from carrel.cli import main
from support.worker_processes import running

pytestmark = [pytest.mark.asyncio, pytest.mark.slow]

PROGRAM = """
import os

from carrel import Server

app = Server("books")

@app.tool
async def pid() -> int:
    return os.getpid()
"""


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
