"""Measure: known servers of other people, the newest release of each in an environment of its own.

Their lists, schemas and capabilities are compared, on the ``mcp`` or ``fastmcp`` that they install and on Carrel. Their
tools are not called: most of them need a service.
"""

from __future__ import annotations

import os
import subprocess
import tempfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from compat.measures.comparing import differences, normal, reason, start_reason
from compat.measures.originals import ROOT, Checkout, environment
from compat.measures.probe import LEGACY, MODERN, NoAnswer, probe
from compat.measures.report import Result

__all__ = ["SERVERS", "Server", "measure", "versions"]

AT_ONCE = 2
#: What servers need that were written for ``mcp`` 1 without saying so.
OLD = ("mcp<2",)
NEO4J = {"NEO4J_URI": "bolt://127.0.0.1:1", "NEO4J_USERNAME": "user", "NEO4J_PASSWORD": "none"}
CLICKHOUSE = {"CLICKHOUSE_HOST": "127.0.0.1", "CLICKHOUSE_USER": "user", "CLICKHOUSE_PASSWORD": "none"}
ATLASSIAN = {
    f"{product}_{name}": value
    for product in ("JIRA", "CONFLUENCE")
    for name, value in {"URL": "http://127.0.0.1:1", "PERSONAL_TOKEN": "none"}.items()
}


@dataclass(frozen=True)
class Server:
    """Server: its package, the arguments of its command, and the variables that it needs."""

    package: str
    arguments: tuple[str, ...] = ()
    variables: dict[str, str] = field(default_factory=dict)
    script: str = ""
    more: tuple[str, ...] = ()  # packages to install besides

    @property
    def command(self) -> str:
        """The name of the command that the package installs."""
        return self.script or self.package

    @property
    def python(self) -> Path:
        """The Python of the server's environment."""
        return environment(f"server-{self.package}", [self.package, *self.more]) / "bin" / "python"


SERVERS = (
    Server("mcp-server-time"),
    Server("mcp-server-git", ("--repository", str(ROOT))),
    Server("mcp-server-fetch"),
    Server("mcp-server-sqlite", ("--db-path", "carrel-measure.db"), more=OLD),
    Server("mcp-server-sentry", ("--auth-token", "none"), more=OLD),
    Server("mcp-alchemy", variables={"DB_URL": "sqlite:///carrel-measure.db"}),
    Server("awslabs.aws-documentation-mcp-server"),
    Server("markitdown-mcp"),
    Server("duckduckgo-mcp-server"),
    Server("excel-mcp-server", ("stdio",)),
    Server("mcp-clickhouse", variables=CLICKHOUSE),
    Server("mcp-atlassian", variables=ATLASSIAN),
    Server("mcp-neo4j-cypher", variables=NEO4J),
    Server("blender-mcp"),
    Server("arxiv-mcp-server"),
)


def measure(checkout: Checkout, wanted: Sequence[str] = ()) -> Result:
    """Compare the lists of the servers on the original and on Carrel."""
    columns = ("server", "packages", "on the original", "on Carrel", "tools", "resources", "prompts")
    result = Result("Servers of other people", columns)
    chosen = [each for each in SERVERS if not wanted or any(part in each.package for part in wanted)]
    with ThreadPoolExecutor(AT_ONCE) as pool:
        for server, (line, reasons) in zip(chosen, pool.map(lambda each: compare(each, checkout), chosen), strict=True):
            result.lines.append(line)
            result.failures += [(server.package, why) for why in reasons]
    return result


def compare(server: Server, checkout: Checkout) -> tuple[Sequence[object], list[str]]:
    """Return the line of a server, and how it differs."""
    python = server.python
    about = ", ".join(f"{name} {version}".strip() for name, version in versions(python, server.package).items())
    original = [str(python.parent / server.command), *server.arguments]
    command = checkout.command(python, "run", "--compat", "--", server.command, *server.arguments)
    variables = {**server.variables, "PYTHONHASHSEED": "0"}  # lists that a server makes from sets keep their order
    environments = {**os.environ, **variables}, {**checkout.environ(), **variables}
    expected, refused = attempt(original, environments[0], LEGACY)
    found, failed = attempt(command, environments[1], LEGACY)
    if expected is None or found is None:
        marks = ("starts" if expected is not None else "does not start", "starts" if found is not None else "does not")
        reasons = [f"{which}: {why}" for which, why in (("original", refused), ("Carrel", failed)) if why]
        return (server.package, about, *marks, "", "", ""), reasons
    unlike = list(differences(expected, found))
    modern, _ = attempt(original, environments[0], MODERN)
    if modern is not None and "result" in modern["discover"]:
        newer, failed = attempt(command, environments[1], MODERN)
        unlike += differences(modern, newer)
    counts = [
        len(expected[f"{kind}/list"].get("result", {}).get(kind, ())) for kind in ("tools", "resources", "prompts")
    ]
    verdict = f"{len(unlike)} differences" if unlike else "the same"
    eras = "both eras" if modern is not None and "result" in modern["discover"] else "2025-11-25"
    return (server.package, about, eras, verdict, *counts), sorted({reason(*each) for each in unlike})


def attempt(command: Sequence[str], env: dict[str, str], revision: str) -> tuple[Any, str]:
    """Return the lists of a server in a revision, or why there are none."""
    try:
        with tempfile.TemporaryDirectory() as folder:
            return normal(probe(command, revision=revision, calls=False, cwd=Path(folder), env=env)), ""
    except NoAnswer as error:
        return None, f"{error}: {start_reason(error.errors)}" if error.errors else str(error)


def versions(python: Path, package: str) -> dict[str, str]:
    """Return the installed versions of a package, and of ``mcp`` and ``fastmcp`` if they are installed."""
    code = (
        "import sys\nfrom importlib.metadata import PackageNotFoundError, version\nfor name in sys.argv[1:]:\n"
        "    try:\n        print(name, version(name))\n    except PackageNotFoundError:\n        pass\n"
    )
    done = subprocess.run(
        [str(python), "-c", code, package, "mcp", "fastmcp"], capture_output=True, text=True, check=True
    )
    lines = [line.split() for line in done.stdout.splitlines()]
    return {("" if name == package else name): version for name, version in lines}
