"""Comparison of a program for ``fastmcp`` on Carrel with the same one on FastMCP 3.x, through the official client."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from compat.comparison import beside, normal, probed
from support.parties import python_program

__all__ = ["PROGRAMS", "alike", "compare", "on_carrel", "on_original"]

PROGRAMS = Path(__file__).parent / "programs"


def on_carrel(program: Sequence[str]) -> list[str]:
    """Return the command that runs a program on Carrel, with the packages of the original's environment."""
    return beside("fastmcp", program)


def on_original(program: Sequence[str]) -> list[str]:
    """Return the command that runs a program on FastMCP."""
    return python_program("fastmcp", *program)


def alike(answers: Any) -> Any:
    """Return answers without what may differ: see docs/coming-from-fastmcp.md."""
    found = normal(answers)
    return json.loads(re.sub(r"errors\.pydantic\.dev/[0-9.]+", "errors.pydantic.dev", json.dumps(found)))


def compare(
    program: Sequence[str], plan: Mapping[str, Any] | None = None, *, cwd: Path | None = None
) -> dict[str, Any]:
    """Check that a program answers the same on Carrel as on FastMCP, and return the answers."""
    expected: dict[str, Any] = alike(probed(on_original(program), plan, cwd=cwd)["answers"])
    found = alike(probed(on_carrel(program), plan, cwd=cwd)["answers"])
    assert found == expected
    return expected
