"""Measure: the packages' own test suites, with imports of the package redirected to Carrel."""

from __future__ import annotations

import hashlib
import json
import os
import re
import subprocess
import sys
import tempfile
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from compat.measures.originals import HOME, Checkout, environment, sources
from compat.measures.report import Result

__all__ = ["LEFT_OUT", "PART", "left_out", "measure", "parts"]

HERE = Path(__file__).parent
Outcome = tuple[str, str]
#: Files of tests that are left out, by the beginning of their path or a part of their text, and why.
LEFT_OUT = {
    "mcp": (
        (r"^tests/cli/", "the command `mcp`: Carrel has `carrel`"),
        (r"^tests/(docs|examples)/|^tests/test_examples", "checks of its repository: documentation, examples, scripts"),
        (r"^tests/.*(test_ws|websocket)", "WebSocket, which no revision of the protocol has"),
        (r"^tests/server/test_stdio", "descriptors of its process, which the tests replace"),
        (r"^tests/interaction/_|^tests/.*/_", "shared code of tests"),
    ),
    "fastmcp": (
        (r"^tests/(cli|scripts|fs)/", "the command `fastmcp`: Carrel has `carrel`"),
        (r"^tests/(conformance|downstream|docs|skills|integration_tests)/", "checks of its repository, or of services"),
        (r"^tests/tasks/", "the extension for tasks, `fastmcp_tasks`"),
        (r"^tests/contrib/", "contributed modules, which programs can copy"),
        (r"^tests/(telemetry|deprecated)/", "telemetry of the package, and what it deprecated"),
    ),
}
#: Imports of private modules or names of the package, by which a file tests its internals.
PRIVATE = re.compile(
    r"(?m)^\s*(?:from|import) (?:mcp|fastmcp|mcp_types)\b[\w.]*\._\w+|^\s*from (?:mcp|fastmcp)[\w.]* import _"
)
#: Generation of each package: the major version of ``mcp`` that it stands on.
GENERATIONS = {"mcp-1.30.0": 1, "mcp-2.3.0": 2, "fastmcp-3.4.11": 1, "fastmcp-4.1.6": 2}
#: Parts of a test suite that are counted separately, by a pattern of the tests' names.
PARTS = {"authorization": r"^[^:]*(auth|oauth)", "tasks": r"experimental/|[Tt]ask"}
PART = "of these, "
OTHER = "everything else"
WORKERS = "2"
LIMIT = "20"
MAX_WORKERS = "100"  # in place of workers that ended with a test that took too long
MAX_SECONDS = 3600


def measure(package: str, checkout: Checkout, wanted: Sequence[str] = ()) -> Result:
    """Count the tests of a package that pass on the original, and how many of them pass on Carrel."""
    root = sources(package)
    name = package.rpartition("-")[0]
    files = [str(path.relative_to(root)) for path in sorted(root.glob("tests/**/test_*.py"))]
    files = [file for file in files if not wanted or any(part in file for part in wanted)]
    reasons = {file: left_out(root / file, file, LEFT_OUT[name]) for file in files}
    chosen = [file for file in files if reasons[file] is None]
    expected = on_original(package, chosen)
    found, failed = outcomes(package, chosen, checkout)
    result = Result(f"Own tests of {package}", ("files", "pass on the original", "pass on Carrel"))
    folders: dict[str, list[int]] = defaultdict(lambda: [0, 0])
    for test, (outcome, _) in expected.items():
        if outcome != "passed":
            continue
        file = test.partition("::")[0]
        passed, why = found.get(test, ("failed", failed.get(file, "is not collected")))
        counts = folders["/".join(file.split("/")[:3] if file.count("/") > 1 else file.split("/")[:2])]
        counts[0] += 1
        counts[1] += passed == "passed"
        if passed != "passed":
            result.failures.append((test, why or passed))
    total = [sum(each[index] for each in folders.values()) for index in (0, 1)]
    result.lines += [("all", *total), *parts(expected, result)]
    result.lines += ((folder, *counts) for folder, counts in sorted(folders.items()))
    omitted: dict[str, list[str]] = defaultdict(list)
    for file, why in reasons.items():
        if why is not None:
            omitted[why].append(file)
    result.lines += [(f"left out: {len(each)} files: {why}", "", "") for why, each in sorted(omitted.items())]
    return result


def parts(expected: Mapping[str, Outcome], result: Result) -> list[tuple[str, int, int]]:
    """Return how many tests pass on both, of authorization, of tasks, and of everything else."""
    failed = {test for test, _ in result.failures}
    found = {**{name: [0, 0] for name in PARTS}, OTHER: [0, 0]}
    for test, (outcome, _) in expected.items():
        if outcome == "passed":
            counts = found[next((name for name, pattern in PARTS.items() if re.search(pattern, test)), OTHER)]
            counts[0] += 1
            counts[1] += test not in failed
    return [(f"{PART}{name}", counts[0], counts[1]) for name, counts in found.items()]


def left_out(path: Path, file: str, patterns: Sequence[tuple[str, str]]) -> str | None:
    """Return why a file of tests is left out, or None."""
    for pattern, why in patterns:
        if re.search(pattern, file):
            return why
    return "private modules or names of the package" if PRIVATE.search(path.read_text()) else None


def on_original(package: str, files: Sequence[str]) -> dict[str, Outcome]:
    """Return the outcomes of tests on the original, each file's from the cache if they were asked before."""
    code = hashlib.sha256((HERE / "suite_plugin.py").read_bytes()).hexdigest()[:12]
    kept = HOME / "outcomes" / f"{package}-{code}.json"
    known: dict[str, dict[str, Outcome]] = json.loads(kept.read_text()) if kept.exists() else {}
    asked = [file for file in files if file not in known]
    if asked:
        found, _ = outcomes(package, asked, None)
        known |= {file: {} for file in asked}
        for test, outcome in found.items():
            known.setdefault(test.partition("::")[0], {})[test] = outcome
        kept.parent.mkdir(parents=True, exist_ok=True)
        kept.write_text(json.dumps(known))
    return {test: outcome for file in files for test, outcome in known[file].items()}


def outcomes(
    package: str, files: Sequence[str], checkout: Checkout | None
) -> tuple[dict[str, Outcome], dict[str, str]]:
    """Run tests on Carrel, or on the original; return the outcome of each, and the failed statement of each file."""
    python = environment(package) / "bin" / "python"
    with tempfile.TemporaryDirectory() as folder:
        notes, errors = Path(folder, "notes"), Path(folder, "errors")
        env = {**os.environ, "MEASURE_NOTES": str(notes), "MEASURE_ERRORS": str(errors), "PYTHONDONTWRITEBYTECODE": "1"}
        paths = [str(HERE), *([checkout.path] if checkout is not None else [])]
        env |= {"PYTHONPATH": os.pathsep.join(paths)}
        if checkout is not None:
            env["MEASURE_CARREL"] = str(GENERATIONS[package])
        command = [str(python), "-m", "pytest", "-p", "suite_plugin", "-p", "no:cacheprovider", "-q", "-n", WORKERS]
        command += [
            "--max-worker-restart",
            MAX_WORKERS,
            "--timeout",
            LIMIT,
            "--tb=line",
            "-o",
            "xfail_strict=false",
            "-o",
            "log_cli=false",
            *files,
        ]
        done = subprocess.run(
            command, cwd=sources(package), env=env, capture_output=True, text=True, timeout=MAX_SECONDS
        )
        if not notes.exists():
            print(done.stdout[-3000:], done.stderr[-3000:], file=sys.stderr)
            raise RuntimeError("the test suite does not run")
        failed = dict(reversed(list(failed_statements(errors))))
        return json.loads(notes.read_text()), failed


def failed_statements(errors: Path) -> Iterator[tuple[str, str]]:
    """Yield the first failed statements of modules: file, and error."""
    for line in errors.read_text().splitlines() if errors.exists() else ():
        file, error = json.loads(line)
        yield file, error
