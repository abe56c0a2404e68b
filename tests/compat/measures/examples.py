"""Measure: programs in the documentation and the examples of a package that serve on stdio, or print."""

from __future__ import annotations

import hashlib
import json
import os
import re
import subprocess
import tempfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from compat.measures.comparing import differences, is_list, normal, reason, start_reason
from compat.measures.originals import HOME, Checkout, environment, sources
from compat.measures.probe import LEGACY, MODERN, NoAnswer, probe
from compat.measures.report import Result
from support.forking import forked

__all__ = ["Program", "measure", "programs", "run"]

HERE = Path(__file__).parent
#: Folders with programs, for each package.
FOLDERS = {
    "mcp-1.30.0": ("examples",),
    "mcp-2.3.0": ("docs_src", "examples"),
    "fastmcp-3.4.11": ("examples",),
    "fastmcp-4.1.6": ("examples",),
}
#: What a program contains that makes a server of it, or a client.
MENTIONS = re.compile(r"\b(FastMCP|MCPServer|Server|FastMCPApp)\b")
#: Revisions of the protocol that the servers of a package speak.
REVISIONS = {"mcp-2.3.0": (LEGACY, MODERN), "fastmcp-4.1.6": (LEGACY, MODERN)}
AT_ONCE = 2
RUN_SECONDS = 30
#: How often the original is asked, to find out which of its answers differ from run to run.
REPEATED = 2


@dataclass(frozen=True)
class Program:
    """Program: its name, what follows the command that runs it, its folder, and where it finds its modules."""

    name: str
    arguments: tuple[str, ...]
    folder: Path
    paths: tuple[Path, ...] = ()


def programs(root: Path, folders: Sequence[str]) -> list[Program]:
    """Return the programs in the folders of a package's sources: files, and packages with a ``__main__.py``."""
    found = []
    for folder in folders:
        packages = [path.parent for path in sorted((root / folder).rglob("__main__.py"))]
        found += [
            Program(str(each.relative_to(root)), ("-m", each.name), each.parent, (each.parent,)) for each in packages
        ]
        for path in sorted((root / folder).rglob("*.py")):
            inner = any(each in path.parents for each in packages) or "tests" in path.parts
            if not inner and path.name[0] != "_" and MENTIONS.search(path.read_text()):
                paths = (root, root / folder) if folder == "examples" else (root,)  # docs_src has a module "logging"
                found.append(Program(str(path.relative_to(root)), (str(path),), path.parent, paths))
    return found


def measure(package: str, checkout: Checkout, wanted: Sequence[str] = ()) -> Result:
    """Compare the programs of a package on the original and on Carrel."""
    chosen = [each for each in programs(sources(package), FOLDERS[package]) if named(each.name, wanted)]
    return run(f"Programs of {package}", chosen, package, checkout)


def named(name: str, wanted: Sequence[str]) -> bool:
    return not wanted or any(part in name for part in wanted)


def run(title: str, chosen: Sequence[Program], package: str, checkout: Checkout) -> Result:
    """Compare programs on the original and on Carrel."""
    python = environment(package) / "bin" / "python"
    result = Result(
        title, ("programs that", "revision", "all", "start", "same lists", "same answers", "answers the same")
    )
    revisions = REVISIONS.get(package, (LEGACY,))
    with ThreadPoolExecutor(AT_ONCE) as pool:
        originals = list(pool.map(lambda each: original(each, python, revisions), chosen))
        pairs = [(each, found) for each, found in zip(chosen, originals, strict=True) if "none" not in found]
        compared = list(pool.map(lambda pair: compare(*pair, python, checkout), pairs))
    for revision in revisions:
        rows = [each[revision] for each in compared if revision in each]
        answers = f"{sum(row['same'] for row in rows)} / {sum(row['all'] for row in rows)}"
        counts = [sum(row[key] for row in rows) for key in ("starts", "lists", "answers")]
        result.lines.append(("serve on stdio", revision, len(rows), *counts, answers))
    prints = [each["prints"] for each in compared if "prints" in each]
    if prints:
        row = (len(prints), sum(row["starts"] for row in prints), "", sum(row["answers"] for row in prints), "")
        result.lines.append(("end by themselves", "", *row))
    for (program, _), found in zip(pairs, compared, strict=True):
        result.failures += [(program.name, why) for row in found.values() for why in row["reasons"]]
    return result


def original(program: Program, python: Path, revisions: Sequence[str]) -> dict[str, Any]:
    """Return what a program answers or prints on the original; ``none`` is the reason if it does neither. Cached."""
    code = "".join((HERE / name).read_text() for name in ("probe.py", "launch.py", "examples.py"))
    key = hashlib.sha256(f"{program}{python}{code}".encode()).hexdigest()[:24]
    kept = HOME / "answers" / python.parents[1].name / f"{key}.json"
    if not kept.exists():
        kept.parent.mkdir(parents=True, exist_ok=True)
        kept.write_text(json.dumps(asked(program, python, revisions)))
    found: dict[str, Any] = json.loads(kept.read_text())
    return found


def asked(program: Program, python: Path, revisions: Sequence[str]) -> dict[str, Any]:
    """Run a program on the original."""
    found: dict[str, Any] = {}
    with tempfile.NamedTemporaryFile("r") as note:
        command = forked(str(python), str(HERE / "launch.py"), *program.arguments)
        path = os.pathsep.join(map(str, program.paths))
        env = {**os.environ, "PYTHONPATH": path, "PYTHONWARNINGS": "ignore", "LAUNCHED": note.name}
        try:
            for revision in revisions:
                tries = [probe(command, revision=revision, cwd=program.folder, env=env) for _ in range(REPEATED)]
                first = normal(tries[0])
                varying = [path for each in tries[1:] for path, *_ in differences(first, normal(each))]
                found[revision] = {"answers": first, "varying": varying}
        except NoAnswer as error:
            if not found and str(error) == "the server ended":
                return printed(command, program.folder, env)
            return found or {"none": f"{error}: {start_reason(error.errors)}"}
        return {**found, "name": note.read()}


def printed(command: Sequence[str], folder: Path, env: dict[str, str]) -> dict[str, Any]:
    """Return what a program prints, if it ends with 0."""
    try:
        runs = [
            subprocess.run(
                command, cwd=folder, env=env, stdin=subprocess.DEVNULL, capture_output=True, timeout=RUN_SECONDS
            )
            for _ in range(REPEATED)
        ]
    except subprocess.TimeoutExpired:
        return {"none": "neither serves on stdio nor ends"}
    if runs[0].returncode != 0:
        return {"none": start_reason(runs[0].stderr.decode(errors="replace"))}
    if not runs[0].stdout.strip():
        return {"none": "prints nothing"}
    answers = [normal({"lines": run.stdout.decode(errors="replace").splitlines()}) for run in runs]
    return {"prints": {"answers": answers[0], "varying": [path for path, *_ in differences(*answers)]}}


def compare(program: Program, expected: dict[str, Any], python: Path, checkout: Checkout) -> dict[str, Any]:
    """Return how a program on Carrel compares with what the original answered, for each revision."""
    target, *rest = program.arguments
    name = expected.pop("name", "")
    target += f":{name}" if name else ""
    command = checkout.forked(python, target, *rest)
    env = checkout.environ(program.paths)
    rows = {}
    for key, original in expected.items():
        try:
            if key == "prints":
                found = printed(command, program.folder, env)
                if "none" in found:
                    raise NoAnswer("", found["none"])
                found = found["prints"]["answers"]
            else:
                found = probe(command, revision=key, cwd=program.folder, env=env)
        except NoAnswer as error:
            rows[key] = not_started(original, start_reason(error.errors) if error.errors else str(error))
        else:
            rows[key] = judged(original, found)
    return rows


def not_started(original: dict[str, Any], why: str) -> dict[str, Any]:
    """Return the row of a program that does not start."""
    return {
        "starts": False,
        "lists": False,
        "answers": False,
        "same": 0,
        "all": len(original["answers"]),
        "reasons": [f"does not start: {why}"],
    }


def judged(original: dict[str, Any], found: dict[str, Any]) -> dict[str, Any]:
    """Return the row of a program that starts. Answers of the original that differ from run to run do not count."""
    varying = {tuple(path) for path in original["varying"]}
    unlike = [
        (path, left, right)
        for path, left, right in differences(normal(original["answers"]), normal(found))
        if not any(path[: len(each)] == each or each[: len(path)] == path for each in varying)
    ]
    keys = {path[0] for path, *_ in unlike}
    lists = [key for key in keys if is_list(key)]
    return {
        "starts": True,
        "lists": not lists,
        "answers": not keys,
        "same": len(original["answers"]) - len(keys & original["answers"].keys()),
        "all": len(original["answers"]),
        "reasons": sorted({reason(*each) for each in unlike}),
    }
