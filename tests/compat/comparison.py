"""Comparison of a program on Carrel with the same one on the original, through the client of the official SDK 1.x."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from support.forking import forked
from support.parties import python, python_program

__all__ = ["HERE", "beside", "compare", "on_carrel", "on_original", "original", "packages", "probed", "run", "run_code"]

HERE = Path(__file__).parent
PROBE = HERE / "probe.py"


def original() -> str:
    """Return the path of a Python that has the official SDK 1.x."""
    return python("1")


def packages(environment: str = "1") -> str:
    """Return the folder of the packages of an original's environment."""
    home = Path(python(environment)).parents[1]
    return str(next(home.glob("lib/python*/site-packages")))


def beside(environment: str, program: Sequence[str]) -> list[str]:
    """Return the command that runs a program on Carrel, with the packages of an original's environment beside our own.

    It runs in a fork of a process that has imported what most programs use.
    """
    return forked(sys.executable, str(HERE / "on_carrel.py"), packages(environment), *program)


def on_carrel(program: Sequence[str]) -> list[str]:
    """Return the command that runs a program on Carrel."""
    return beside("1", program)


def on_original(program: Sequence[str]) -> list[str]:
    """Return the command that runs a program on the original."""
    return python_program("1", *program)


def run(command: Sequence[str], cwd: Path | None = None, timeout: float = 200) -> str:
    """Run a command to its end, and return what it prints."""
    done = subprocess.run(
        command,
        capture_output=True,
        text=True,
        cwd=cwd,
        timeout=timeout,
        env={**os.environ, "PYTHONWARNINGS": "default"},
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout


def run_code(code: str, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    """Run code as ``python -c`` does, in a fork of a process that has imported ``carrel.compat``."""
    command = forked(sys.executable, str(HERE / "run_code.py"), code)
    return subprocess.run(command, capture_output=True, text=True, timeout=60, cwd=cwd)


def probed(target: Sequence[str], plan: Mapping[str, Any] | None = None, *, cwd: Path | None = None) -> Any:
    """Return what a server answers to the probe: a command, or a URL."""
    return json.loads(run(python_program("1", str(PROBE), json.dumps(plan or {}), *target), cwd))


def compare(
    program: Sequence[str], plan: Mapping[str, Any] | None = None, *, cwd: Path | None = None
) -> dict[str, Any]:
    """Check that a program answers the same on Carrel as on the original, and return the answers."""
    expected = normal(probed(on_original(program), plan, cwd=cwd)["answers"])
    found = normal(probed(on_carrel(program), plan, cwd=cwd)["answers"])
    assert found == expected
    return expected


def normal(answers: Any) -> Any:
    """Return answers without what may differ: see docs/coming-from-mcp.md."""
    server = answers.get("initialize", {}).get("serverInfo", {})
    server.pop("version", None)  # without one of its own, a server has that of the package
    return json.loads(re.sub(r" at 0x[0-9a-f]+", "", json.dumps(answers)))
