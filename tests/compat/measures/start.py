"""Measure: CPU time of known servers from their start to the end of their lists, on the original and on Carrel.

A process that only imports the other packages that a server imports shows the least that any implementation needs.
"""

from __future__ import annotations

import ast
import os
import resource
import subprocess
from collections.abc import Mapping, Sequence
from statistics import median

from compat.measures.originals import Checkout
from compat.measures.probe import probe
from compat.measures.report import Result
from compat.measures.servers import SERVERS, Server

__all__ = ["measure"]

MEASURED = ("mcp-server-time", "mcp-server-git", "arxiv-mcp-server")
REPEATED = 7
#: Lets Python keep compiled modules, as pip does for the original, even if this environment forbids it.
COMPILED = {"PYTHONDONTWRITEBYTECODE": ""}
#: Imports modules; a server leaves out modules that are not installed, too.
IMPORT = """
import sys
from importlib import import_module
for name in sys.argv[1:]:
    try:
        import_module(name)
    except ModuleNotFoundError:
        pass
"""


def measure(checkout: Checkout, wanted: Sequence[str] = ()) -> Result:
    """Measure the servers by turns, on the original and on Carrel."""
    result = Result(
        "CPU time from the start to the lists",
        ("server", "original (s)", "Carrel (s)", "Carrel / original", "other imports of the server (s)"),
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
        least = median(import_seconds(server) for _ in range(REPEATED))
        result.lines.append((server.package, *(f"{each:.2f}" for each in medians), ratio, f"{least:.2f}"))
    return result


def seconds(command: Sequence[str], env: Mapping[str, str]) -> float:
    """Return the CPU time of a server from its start to its lists."""
    return probe(command, calls=False, env=env).seconds


def import_seconds(server: Server) -> float:
    """Return the CPU time of a process that imports what the files of a server import, without ``mcp``."""
    name = server.package.replace("-", "_")
    folder = next(server.python.parent.parent.glob(f"lib/*/site-packages/{name}"))
    found: set[str] = set()
    for file in folder.rglob("*.py"):
        for node in ast.parse(file.read_text()).body:
            if isinstance(node, ast.Import):
                found.update(alias.name for alias in node.names)
            elif isinstance(node, ast.ImportFrom) and not node.level:
                found.add(str(node.module))
    modules = sorted(each for each in found if each.partition(".")[0] not in ("__future__", "mcp", "mcp_types", name))
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([str(server.python), "-c", IMPORT, *modules], check=True, env={**os.environ, **COMPILED})
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
