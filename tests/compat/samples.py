"""Runs the samples of the official SDK's 1.x line on the original and on Carrel, and prints a table of what differs.

    python tests/compat/samples.py CLONE [PART OF A NAME …]

CLONE is a checkout of the branch v1.x of modelcontextprotocol/python-sdk. The samples are run as they are: a file whose
servers are only defined is run over stdio, a package as its command says, and those for HTTP over HTTP.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

sys.path[:0] = [str(Path(__file__).parents[1])]  # the folder of tests

from compat.comparison import normal, original, packages, probed  # noqa: E402

#: Runs the first FastMCP server that a file defines over stdio, or the file itself.
LAUNCH = """
import runpy, sys
from mcp.server.fastmcp import FastMCP
path = sys.argv[1]
sys.path.insert(0, path.rpartition("/")[0])
sys.argv = [path]
found = [each for each in runpy.run_path(path, run_name="sample").values() if isinstance(each, FastMCP)]
if found:
    found[0].run()
else:
    runpy.run_path(path, run_name="__main__")
"""
ON_CARREL = (
    "import site, sys; site.addsitedir(sys.argv.pop(1)); "
    "from carrel.compat import redirect_imports; redirect_imports(); exec(sys.argv.pop(1))"
)
#: Packages of servers, and the options with which they serve HTTP.
HTTP = ("simple-streamablehttp", "simple-streamablehttp-stateless", "sse-polling-demo", "everything-server")
#: Calls that take long, or need the network.
PLAN = {"time": 60, "skip": ["fetch_weather", "process_batch", "take_screenshot", "text_me"]}


def commands(kind: str, arguments: Sequence[str]) -> list[str]:
    """Return the command that runs Python on the original or on Carrel."""
    if kind == "original":
        return [original(), "-c", "import sys; exec(sys.argv.pop(1))", *arguments]
    return [sys.executable, "-c", ON_CARREL, packages(), *arguments]


def free_port() -> int:
    """Return a port that is not in use."""
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


def probe_file(kind: str, path: Path) -> Any:
    """Probe the server in a file."""
    return probed(commands(kind, [LAUNCH, str(path)]), PLAN, cwd=path.parent)


def probe_package(kind: str, folder: Path) -> Any:
    """Probe the server in a package, over stdio or HTTP."""
    module = next(each.name for each in folder.iterdir() if (each / "__init__.py").exists())
    entry = module if (folder / module / "__main__.py").exists() else f"{module}.server"
    code = (
        f"import runpy, sys; sys.path.insert(0, {str(folder)!r}); sys.argv[0] = {module!r}; "
        f"runpy.run_module({entry!r}, run_name='__main__', alter_sys=True)"
    )
    if folder.name not in HTTP:
        return probed(commands(kind, [code]), PLAN, cwd=folder)
    port = free_port()
    server = subprocess.Popen(
        commands(kind, [code, "--port", str(port)]), cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:
        wait_for(port, server)
        return probed([f"http://127.0.0.1:{port}/mcp"], {**PLAN, "time": 0})
    finally:
        server.terminate()
        server.wait(10)


def wait_for(port: int, server: subprocess.Popen[bytes]) -> None:
    """Wait until a server listens.

    Raises:
        RuntimeError: it has ended.
    """
    while server.poll() is None:
        with socket.socket() as tried:
            if tried.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.1)
    raise RuntimeError(f"the server ended with {server.returncode}")


def samples(clone: Path) -> Iterator[tuple[str, Any, Path]]:
    """Yield the samples: name, function that probes it, and path."""
    root = clone / "examples"
    for folder in (root / "fastmcp", root / "snippets" / "servers", root / "snippets" / "servers" / "lowlevel"):
        for path in sorted(folder.glob("*.py")):
            if path.name != "__init__.py":
                yield str(path.relative_to(root)), probe_file, path
    for folder in sorted((root / "servers").iterdir()):
        yield str(folder.relative_to(root)), probe_package, folder


def attempt(probe: Any, kind: str, path: Path) -> tuple[Any, str]:
    """Return what a sample answers, or why it does not."""
    try:
        return probe(kind, path), ""
    except subprocess.TimeoutExpired:
        return None, "takes longer than the limit"
    except (AssertionError, RuntimeError) as error:
        lines = [line for line in str(error).splitlines() if line.strip() and line[:2] != "  "]
        return None, next((line for line in reversed(lines) if "Error" in line), (lines or [""])[-1])[:160]


def differences(expected: Any, found: Any, path: str = "") -> Iterator[str]:
    """Yield where two JSON values differ."""
    if isinstance(expected, dict) and isinstance(found, dict):
        for key in sorted({*expected, *found}):
            yield from differences(expected.get(key), found.get(key), f"{path}/{key}")
    elif isinstance(expected, list) and isinstance(found, list) and len(expected) == len(found):
        for index, (left, right) in enumerate(zip(expected, found, strict=True)):
            yield from differences(left, right, f"{path}/{index}")
    elif expected != found:
        yield f"{path}: {json.dumps(expected)[:200]} / {json.dumps(found)[:200]}"


def main(clone: Path, wanted: Sequence[str]) -> None:
    """Run the samples and print the table."""
    os.environ.setdefault("PYTHONWARNINGS", "ignore")
    print("| sample | on the original | on Carrel | µs of CPU per call: original | Carrel |")
    print("| --- | --- | --- | --- | --- |")
    for name, probe, path in samples(clone):
        if wanted and not any(part in name for part in wanted):
            continue
        expected, refused = attempt(probe, "original", path)
        found, failed = attempt(probe, "carrel", path)
        if expected is None or found is None:
            print(f"| {name} | {refused or 'runs'} | {failed or 'runs'} | | |", flush=True)
            continue
        if "serverInfo" not in expected["answers"]["initialize"]:
            print(f"| {name} | does not start | | | |", flush=True)
            continue
        unlike = list(differences(normal(expected["answers"]), normal(found["answers"])))
        for line in unlike:
            print(f"{name}: {line}", file=sys.stderr)
        times = [f"{each['times']['cpu']:.0f}" if each["times"] else "" for each in (expected, found)]
        verdict = f"{len(unlike)} differences" if unlike else "the same"
        print(f"| {name} | {len(expected['answers'])} answers | {verdict} | {' | '.join(times)} |", flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])
