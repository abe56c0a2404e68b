"""A Carrel server in a process of its own, measured while it is attacked, and an honest client that reads meanwhile."""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import re
import socket
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from support import forked_command

__all__ = ["HonestReads", "Server", "connect", "message", "under_attack"]

#: Seconds that a server may take to start, and to stop.
PATIENCE = 60.0

#: Seconds that an answer takes at most where nothing else goes on, on a machine of usual speed.
USUAL = 0.02

#: Where the honest client comes from; attackers are at 127.0.0.1.
HONEST = "127.0.0.2"

META = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "1"},
    "io.modelcontextprotocol/clientCapabilities": {},
}


def message(method: str, id: Any = 1, **params: Any) -> tuple[bytes, dict[str, str]]:
    """Return the body and the headers of a stateless request."""
    body = json.dumps({"jsonrpc": "2.0", "id": id, "method": method, "params": {"_meta": META, **params}}).encode()
    headers = {
        "Content-Type": "application/json",
        "Accept": "application/json, text/event-stream",
        "MCP-Protocol-Version": "2026-07-28",
        "Mcp-Method": method,
    }
    name = params.get("uri") or params.get("name")
    return body, headers if name is None else {**headers, "Mcp-Name": name}


class HonestReads:
    """A thread that sends a small request every few milliseconds over one connection, and notes how long each took.

    ``request`` is what ``message`` returned. A connection that is lost is made again, once; every answer must be a 200.
    """

    def __init__(self, port: int, request: tuple[bytes, dict[str, str]], token: str | None = None) -> None:
        self._port = port
        self._body, headers = request
        self._headers = headers if token is None else {**headers, "Authorization": f"Bearer {token}"}
        self._stop = threading.Event()
        self._answered = threading.Condition()
        self._thread = threading.Thread(target=self._run, name="honest reads")
        self.seconds: list[float] = []
        self.problems: list[str] = []
        self._slowness = 1.0

    def __enter__(self) -> HonestReads:
        self._thread.start()
        self.wait_for(5)
        self._slowness = max(1.0, self.median / USUAL)
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join(PATIENCE)

    def wait_for(self, count: int) -> None:
        """Wait until so many requests more have been answered."""
        with self._answered:
            wanted = len(self.seconds) + count
            assert self._answered.wait_for(lambda: len(self.seconds) >= wanted, PATIENCE), "reads are not answered"
        assert not self.problems

    def _run(self) -> None:
        connection = http.client.HTTPConnection("127.0.0.1", self._port, timeout=PATIENCE, source_address=(HONEST, 0))
        while not self._stop.wait(0.01):
            started = time.perf_counter()
            try:
                try:
                    answer = self._ask(connection)
                except (http.client.RemoteDisconnected, ConnectionResetError, BrokenPipeError):  # it had been idle
                    connection.close()
                    answer = self._ask(connection)
                if answer.status != 200:
                    self.problems.append(f"{answer.status} {answer.read()[:200]!r}")
                answer.read()
            except (OSError, http.client.HTTPException) as error:
                self.problems.append(repr(error))
                connection.close()
            with self._answered:
                self.seconds.append(time.perf_counter() - started)
                self._answered.notify_all()
        connection.close()

    def _ask(self, connection: http.client.HTTPConnection) -> http.client.HTTPResponse:
        connection.request("POST", "/mcp", self._body, self._headers)
        return connection.getresponse()

    @property
    def worst(self) -> float:
        """The longest time that an answer took so far, in seconds."""
        return max(self.seconds, default=0.0)

    @property
    def median(self) -> float:
        """The time that half of the answers took at most, in seconds."""
        return statistics.median(self.seconds)

    def check(self, worst: float = 4.0, median: float = 0.5) -> None:
        """Fail if a request was not answered, or answers took too long. ``benchmarks`` measures times closely.

        A machine on which the first answers were slow gets more time for the others too.
        """
        assert self.problems == []
        assert self.seconds, "no reads were tried"
        worst, median = worst * self._slowness, median * self._slowness
        assert self.worst < worst, f"an honest read took {self.worst:.2f} s"
        assert self.median < median, f"half of the honest reads took over {self.median:.3f} s"


class Server:
    """The server under attack."""

    def __init__(self, process: forked_command.Fork, port: int, log: Path) -> None:
        self.process = process
        self.pid = process.pid
        self.port = port
        self.url = f"http://127.0.0.1:{port}/mcp"
        self._log = log

    def rss(self) -> float:
        """Return how much memory the process has, in MiB."""
        pages = int(Path(f"/proc/{self.pid}/statm").read_text().split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE") / 1024**2

    def descriptors(self) -> int:
        """Return how many files and sockets the process has open."""
        return len(os.listdir(f"/proc/{self.pid}/fd"))

    def log(self) -> str:
        """Return what the process has written to standard error."""
        return self._log.read_text(encoding="utf-8", errors="replace")

    def ask(self, method: str, source: str = "127.0.0.1", **params: Any) -> Any:
        """Send one stateless request, and return the message that answers it."""
        body, headers = message(method, **params)
        with contextlib.closing(connect(self.port, source)) as connection:
            connection.request("POST", "/mcp", body, headers)
            answer = connection.getresponse()
            text = answer.read().decode()
        if answer.headers.get_content_type() == "text/event-stream":
            text = re.findall(r"^data: ?(.+)$", text, re.MULTILINE)[-1]
        return json.loads(text)

    def cpu(self) -> float:
        """Return the seconds of processor time that the server has used."""
        fields = Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def honest_reads(self, uri: str, token: str | None = None) -> HonestReads:
        """Return a client elsewhere that reads a resource again and again while it is entered."""
        return HonestReads(self.port, message("resources/read", uri=uri), token)

    def honest_calls(self, tool: str, token: str | None = None, **arguments: Any) -> HonestReads:
        """Return a client elsewhere that calls a tool again and again while it is entered."""
        return HonestReads(self.port, message("tools/call", name=tool, arguments=arguments), token)


def connect(port: int, source: str = "127.0.0.1", timeout: float = PATIENCE) -> http.client.HTTPConnection:
    """Return a connection from an address of this machine, any of 127.0.0.0/8."""
    return http.client.HTTPConnection("127.0.0.1", port, timeout=timeout, source_address=(source, 0))


@contextlib.contextmanager
def under_attack(*command: str, script: str | Path | None = None, folder: Path | None = None) -> Iterator[Server]:
    """Run a server over HTTP until the block ends.

    Either the arguments of ``carrel``, such as "serve" and a folder (``--http`` is added), or a Python file that runs
    ``app.run("http", port=0, on_started=lambda url: print(url, file=sys.stderr, flush=True))``. ``folder`` is where the
    log goes; a temporary one by default.
    """
    if sys.platform != "linux":
        pytest.skip("attacks are measured by /proc and come from 127.0.0.2: this needs Linux")
    import tempfile

    with tempfile.TemporaryDirectory() as temporary:
        log = Path(folder or temporary) / "server.log"
        with log.open("wb") as stderr, open(os.devnull, "rb") as stdin:
            streams = (stdin.fileno(), stderr.fileno(), stderr.fileno())
            if script is None:
                process = forked_command.launch([*command, "--http", "127.0.0.1:0"], streams)
            else:
                process = forked_command.launch_script(script, command, streams)
        try:
            yield Server(process, _port_of(process, log), log)
        finally:
            process.terminate()
            try:
                process.wait(PATIENCE)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
                raise AssertionError(f"the server did not stop within {PATIENCE} s") from None


def _port_of(process: forked_command.Fork, log: Path) -> int:
    """Wait until the server says where it is."""
    until = time.monotonic() + PATIENCE
    while time.monotonic() < until:
        found = re.search(rb"http://127\.0\.0\.1:(\d+)", log.read_bytes())
        if found is not None:
            port = int(found[1])
            socket.create_connection(("127.0.0.1", port), PATIENCE).close()
            return port
        if process.poll() is not None:
            break
        time.sleep(0.02)
    raise AssertionError(f"the server did not start: {log.read_text()}")
