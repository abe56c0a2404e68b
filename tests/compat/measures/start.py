"""Measure: CPU time of known servers from their start to the end of their lists, on the original and on Carrel."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from statistics import median

from compat.measures.originals import Checkout
from compat.measures.probe import probe
from compat.measures.report import Result
from compat.measures.servers import SERVERS

__all__ = ["measure"]

MEASURED = ("mcp-server-time", "mcp-server-git", "arxiv-mcp-server")
REPEATED = 7
#: Lets Python keep compiled modules, as pip does for the original, even if this environment forbids it.
COMPILED = {"PYTHONDONTWRITEBYTECODE": ""}


def measure(checkout: Checkout, wanted: Sequence[str] = ()) -> Result:
    """Measure the servers by turns, on the original and on Carrel."""
    result = Result(
        "CPU time from the start to the lists", ("server", "original (s)", "Carrel (s)", "Carrel / original")
    )
    for server in SERVERS:
        if server.package not in MEASURED or (wanted and not any(part in server.package for part in wanted)):
            continue
        python = server.python
        original = [str(python.parent / server.command), *server.arguments]
        carrel = checkout.command(python, "run", "--compat", "--", server.command, *server.arguments)
        environments = tuple({**each, **server.variables, **COMPILED} for each in (os.environ, checkout.environ()))
        times: tuple[list[float], list[float]] = ([], [])
        for _ in range(REPEATED + 1):  # the first run compiles modules
            for command, env, found in zip((original, carrel), environments, times, strict=True):
                found.append(seconds(command, env))
        medians = [median(each[1:]) for each in times]
        ratio = f"{medians[1] / medians[0]:.2f}"
        result.lines.append((server.package, *(f"{each:.2f}" for each in medians), ratio))
    return result


def seconds(command: Sequence[str], env: Mapping[str, str]) -> float:
    """Return the CPU time of a server from its start to its lists."""
    return probe(command, calls=False, env=env).seconds
