"""Comparison of a program for ``mcp`` 2 on Carrel with the same one on the original."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from compat.comparison import beside, normal, probed
from support.parties import python_program

__all__ = ["PROGRAMS", "compare", "on_carrel", "on_original"]

PROGRAMS = Path(__file__).parent / "programs"


def on_carrel(program: Sequence[str]) -> list[str]:
    """Return the command that runs a program on Carrel, with the packages of the original's environment."""
    return beside("2", program)


def on_original(program: Sequence[str]) -> list[str]:
    """Return the command that runs a program on the original."""
    return python_program("2", *program)


def compare(program: Sequence[str], plan: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Check that a server answers the same on Carrel as on the original, and return the answers."""
    expected: dict[str, Any] = normal(probed(on_original(program), plan)["answers"])
    found = normal(probed(on_carrel(program), plan)["answers"])
    assert found == expected
    return expected
