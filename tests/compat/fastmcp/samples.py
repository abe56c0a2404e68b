"""Runs the examples of FastMCP on the original and on Carrel, and prints a table of what differs.

    python tests/compat/fastmcp/samples.py CLONE [PART OF A NAME …]

CLONE is a checkout of PrefectHQ/fastmcp, 3.x. Files that have servers are run over stdio, and probed; programs that run
by themselves are compared by what they print.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[2]))

from compat.comparison import probed, run
from compat.fastmcp.comparison import alike, on_carrel, on_original

PLAN = {"time": 100, "form": {"value": "a", "name": "a"}}

#: Serves what a file defines, as ``fastmcp run`` does.
SERVE = "import sys; from fastmcp.cli import app; sys.argv[0] = 'fastmcp'; app()"


def commands(path: Path) -> tuple[list[str], list[str]]:
    """Return the commands of a file on the original and on Carrel."""
    runs = re.search(r"\.run\w*\(", path.read_text())
    original = [str(path)] if runs else ["-c", SERVE, "run", str(path), "--no-banner"]
    return on_original(original), on_carrel([str(path)])


def attempt(make: Callable[[], Any]) -> tuple[Any, str]:
    """Return what a program answers or prints, or why it does not."""
    try:
        found = make()
    except subprocess.TimeoutExpired:
        return None, "takes longer than the limit"
    except (AssertionError, RuntimeError) as error:
        lines = [line.strip() for line in str(error).splitlines() if line.strip()]
        return None, next((line for line in reversed(lines) if "Error" in line), (lines or [""])[-1])[:200]
    if isinstance(found, dict) and "serverInfo" not in found["answers"]["initialize"]:
        return None, "does not start"
    return found, ""


def differences(expected: Any, found: Any, path: str = "") -> Iterator[str]:
    """Yield where two values differ."""
    if isinstance(expected, dict) and isinstance(found, dict):
        for key in sorted({*expected, *found}):
            yield from differences(expected.get(key), found.get(key), f"{path}/{key}")
    elif isinstance(expected, list) and isinstance(found, list) and len(expected) == len(found):
        for index, (left, right) in enumerate(zip(expected, found, strict=True)):
            yield from differences(left, right, f"{path}/{index}")
    elif expected != found:
        yield f"{path}: {str(expected)[:300]} / {str(found)[:300]}"


def compare(name: str, path: Path) -> str:
    """Return the row of an example."""
    original, carrel = commands(path)
    text = path.read_text()
    if re.search(r"asyncio\.run\(|anyio\.run\(", text) and not re.search(r"\.run\(\)", text):
        expected, refused = attempt(lambda: run(original, path.parent, 60))
        found, failed = attempt(lambda: run(carrel, path.parent, 60))
        if expected is None or found is None:
            return f"| {name} | {refused or 'runs'} | {failed or 'runs'} | | |"
        same = "the same" if expected == found else "other output"
        for line in differences(expected.splitlines(), found.splitlines()):
            print(f"{name}: {line}", file=sys.stderr)
        return f"| {name} | {len(expected.splitlines())} lines | {same} | | |"
    expected, refused = attempt(lambda: probed(original, PLAN, cwd=path.parent))
    found, failed = attempt(lambda: probed(carrel, PLAN, cwd=path.parent))
    if expected is None or found is None:
        if found is None and failed == "does not start":
            done = subprocess.run(carrel, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60)
            failed = (done.stderr.strip().splitlines() or [failed])[-1][:200]
        return f"| {name} | {refused or 'runs'} | {failed or 'runs'} | | |"
    unlike = list(differences(alike(expected["answers"]), alike(found["answers"])))
    for line in unlike:
        print(f"{name}: {line}", file=sys.stderr)
    times = [f"{each['times']['cpu']:.0f}" if each["times"] else "" for each in (expected, found)]
    verdict = f"{len(unlike)} differences" if unlike else "the same"
    return f"| {name} | {len(expected['answers'])} answers | {verdict} | {' | '.join(times)} |"


def main(clone: Path, wanted: Sequence[str]) -> None:
    """Run the examples and print the table."""
    os.environ.setdefault("PYTHONWARNINGS", "ignore")
    root = clone / "examples"
    print("| example | on the original | on Carrel | µs of CPU per call: original | Carrel |")
    print("| --- | --- | --- | --- | --- |")
    for path in sorted(root.rglob("*.py")):
        name = str(path.relative_to(root))
        if wanted and not any(part in name for part in wanted):
            continue
        if re.search(r"FastMCP\(|FastMCP\[", path.read_text()) and not name.startswith("auth/"):
            print(compare(name, path), flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])
