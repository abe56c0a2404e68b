"""Runs the conformance suite against the fixture server and the client, and says what came of each scenario."""

from __future__ import annotations

import json
import re
import runpy
import subprocess
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from carrel import Server
from carrel.protocol.revisions import REVISIONS
from support.http_server import over_http
from support.parties import node_environment, node_modules, node_program

__all__ = ["EXCEPTIONS", "RUNS", "Outcome", "fixture", "listed", "run", "run_against", "run_client"]

HERE = Path(__file__).parent
#: Scenarios that are expected to fail, and why.
EXCEPTIONS: Mapping[str, str] = tomllib.loads((HERE / "exceptions.toml").read_text(encoding="utf-8"))["exceptions"]
#: How long one run of the suite may take, in seconds.
PATIENCE = 240
#: The check that every scenario has besides its own.
SCHEMA_CHECK = "wire-schema-valid"
RESULTS = re.compile(r"server-(.+)-\d{4}-\d\d-\d\dT[\d.Z-]+")
CLIENT_RESULTS = re.compile(r"(.+)-\d{4}-\d\d-\d\dT[\d-]+Z")

#: How the suite is started, by the name of the run. Requirement sets include all scenarios of their revision.
RUNS: Mapping[str, tuple[str, ...]] = {
    "2025-03-26": ("--suite", "all", "--spec-version", "2025-03-26"),
    "2025-06-18": ("--suite", "all", "--spec-version", "2025-06-18"),
    "2025-11-25": ("--requirements", "2025-11-25"),
    "2026-07-28": ("--requirements", "2026-07-28"),
    "2026-07-28 without extensions": ("--suite", "all", "--spec-version", "2026-07-28"),
    "skills-directory": ("--scenario", "sep-2640-skills-directory"),
    "skills-enumeration": ("--scenario", "sep-2640-skills-enumeration"),
    "skills-manifest": ("--scenario", "sep-2640-skills-manifest"),
}


@dataclass(frozen=True)
class Outcome:
    """What came of a scenario: which of its own checks it passed, and what was wrong."""

    passed: tuple[str, ...]
    complaints: tuple[str, ...]
    errors: str = ""
    """What a client has written on standard error."""


def suite(*arguments: str) -> list[str]:
    """Return the command line of the suite."""
    program = node_modules() / "@modelcontextprotocol/conformance/dist/index.js"
    return [node_program(), str(program), *arguments]


def run(name: str, results: Path, only: str | None = None) -> dict[str, Outcome]:
    """Do one of ``RUNS``, against a server of its own, and return the outcome of each scenario.

    With ``only``, the server speaks that revision and no other, whatever the suite offers at ``initialize``.
    """
    app = fixture()
    if only is not None:
        app.endpoint.description.revisions = {only: REVISIONS[only]}
    with over_http(app) as origin:
        return run_against(f"{origin}/mcp", name, results)


def fixture() -> Server[Any]:
    """Return a fixture server of its own."""
    app: Server[Any] = runpy.run_path(str(HERE / "server.py"))["app"]
    return app


def run_against(url: str, name: str, results: Path) -> dict[str, Outcome]:
    """Do one of ``RUNS`` against the server at a URL, and return the outcome of each scenario."""
    command = suite("server", "--url", url, "--output-dir", str(results), *RUNS[name])
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=PATIENCE, env=node_environment(), cwd=results
    )
    outcomes = {
        found[1]: outcome_of(json.loads((directory / "checks.json").read_text(encoding="utf-8")))
        for directory in results.iterdir()
        if (found := RESULTS.fullmatch(directory.name)) is not None
    }
    if not outcomes:
        raise AssertionError(f"the suite has no results:\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
    return outcomes


def run_client(which: Sequence[str], command: str, results: Path) -> dict[str, Outcome]:
    """Have a client do the scenarios that the arguments ``which`` select, and return the outcome of each."""
    done = subprocess.run(
        suite("client", "--command", command, *which, "--timeout", str(PATIENCE * 1000), "-o", str(results)),
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        env=node_environment(),
        cwd=results,
    )
    outcomes: dict[str, Outcome] = {}
    for file in results.rglob("checks.json"):
        outcome = outcome_of(json.loads(file.read_text(encoding="utf-8")))
        errors = file.with_name("stderr.txt").read_text(encoding="utf-8")
        found = CLIENT_RESULTS.fullmatch(file.parent.relative_to(results).as_posix())
        assert found is not None, file
        outcomes[found[1]] = Outcome(outcome.passed, outcome.complaints, errors)
    if not outcomes:
        raise AssertionError(f"the suite has no results:\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
    return outcomes


def outcome_of(checks: list[dict[str, Any]]) -> Outcome:
    complaints = tuple(
        f"{check['status']} {check['id']}: {check['description']}\n    {check.get('errorMessage')}"
        for check in checks
        if check["status"] in ("FAILURE", "WARNING")
    )
    passed = (check["id"] for check in checks if check["status"] == "SUCCESS" and check["id"] != SCHEMA_CHECK)
    return Outcome(tuple(passed), complaints)


def listed(side: str) -> dict[str, set[str]]:
    """Return the names of the suite's scenarios for a "server" or "client", by revision, or under "extension"."""
    found: dict[str, set[str]] = {}
    printed = subprocess.run(suite("list", f"--{side}"), capture_output=True, text=True, check=True, timeout=60).stdout
    for name, revisions in re.findall(r"^  - (\S+) \[(.+)\]$", printed, re.MULTILINE):
        for revision in revisions.split(","):
            found.setdefault(revision, set()).add(name)
    return found
