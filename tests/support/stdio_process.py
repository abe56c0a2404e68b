"""A server on stdio as a child process, and the client's end of its streams."""

from __future__ import annotations

import json
import os
import pathlib
import select
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from support import forked_command
from support.servers import SERVERS

#: Seconds that anything may take.
PATIENCE = 60.0

STATELESS = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "1"},
    "io.modelcontextprotocol/clientCapabilities": {},
}


def request(id: Any, method: str, params: dict[str, Any] | None = None) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": id, "method": method, "params": params or {}}


def stateless(id: Any, method: str, **params: Any) -> dict[str, Any]:
    return request(id, method, {"_meta": STATELESS, **params})


def call(id: Any, tool: str, **arguments: Any) -> dict[str, Any]:
    return request(id, "tools/call", {"name": tool, "arguments": arguments})


def call_with_progress(id: Any, tool: str, **arguments: Any) -> dict[str, Any]:
    return request(id, "tools/call", {"name": tool, "arguments": arguments, "_meta": {"progressToken": id}})


def note(method: str, **params: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "method": method, "params": params}


def cancelled(id: Any) -> dict[str, Any]:
    return note("notifications/cancelled", requestId=id)


def initialize(revision: str = "2025-11-25", id: Any = 0) -> dict[str, Any]:
    client = {"name": "test", "version": "1"}
    return request(id, "initialize", {"protocolVersion": revision, "capabilities": {}, "clientInfo": client})


def text_of(reply: dict[str, Any]) -> str:
    return reply["result"]["content"][0]["text"]


def encode(message: Any) -> bytes:
    return message if isinstance(message, bytes) else json.dumps(message, ensure_ascii=False).encode() + b"\n"


class Child:
    """A process, with the ends of its standard streams that it was started without."""

    def __init__(
        self, process: subprocess.Popen[bytes] | forked_command.Fork, stdin: int, stdout: int, errors: Any
    ) -> None:
        self.process = process
        self.stdin = stdin
        self.stdout = stdout
        self._errors = errors
        self._rest = b""
        self._eof = False

    def send(self, *messages: Any) -> None:
        """Write messages, all at once, and see to it that they leave."""
        data = memoryview(b"".join(map(encode, messages)))
        while data:
            sent = self.send_some(data, PATIENCE)
            assert sent, "the server does not read"
            data = data[sent:]

    def send_some(self, data: bytes | memoryview, patience: float) -> int:
        """Write what the pipe takes; 0 if it takes nothing for ``patience`` seconds."""
        if not select.select([], [self.stdin], [], patience)[1]:
            return 0
        os.set_blocking(self.stdin, False)
        return os.write(self.stdin, data[: 1 << 20])

    def read_line(self) -> bytes | None:
        """Return the next line; None at the end."""
        deadline = time.monotonic() + PATIENCE
        while b"\n" not in self._rest and not self._eof:
            assert select.select([self.stdout], [], [], deadline - time.monotonic())[0], "the server says nothing"
            try:
                data = os.read(self.stdout, 1 << 20)
            except OSError:  # a terminal whose other end is closed
                data = b""
            self._eof = not data
            self._rest += data
        line, end, rest = self._rest.partition(b"\n")
        if not end:
            assert not line, f"the last line has no end: {line!r}"
            return None
        self._rest = rest
        return line

    def read(self) -> dict[str, Any]:
        """Return the next message."""
        line = self.read_line()
        assert line is not None, "the server has ended: " + self.errors()
        return json.loads(line)

    def read_lines(self) -> Iterator[bytes]:
        """Return the lines until the end, fast."""
        pieces = [self._rest]
        while select.select([self.stdout], [], [], PATIENCE)[0] and (data := os.read(self.stdout, 1 << 20)):
            pieces.append(data)
        self._eof, self._rest = True, b""
        yield from b"".join(pieces).splitlines()

    def ask(self, message: dict[str, Any]) -> dict[str, Any]:
        """Send a request and return its response; notifications before it are skipped."""
        self.send(message)
        while (reply := self.read()).get("id") != message["id"]:
            assert "method" in reply, f"not an answer to {message}: {reply}"
        return reply

    def open(self, revision: str = "2025-11-25") -> None:
        """Shake hands."""
        assert self.ask(initialize(revision))["result"]["protocolVersion"] == revision
        self.send(note("notifications/initialized"))

    def hang_up(self) -> None:
        """Close the server's standard input."""
        os.close(self.stdin)
        self.stdin = -1

    def go_deaf(self) -> None:
        """Close the server's standard output."""
        os.close(self.stdout)
        self.stdout = -1

    def wait(self, patience: float = PATIENCE) -> int:
        """Wait for the process to end and return its status."""
        return self.process.wait(patience)

    def finish(self) -> list[dict[str, Any]]:
        """Hang up, and return what still comes until the process has ended well."""
        self.hang_up()
        rest = [json.loads(line) for line in self.read_lines()]
        assert self.wait() == 0
        assert self.errors() == ""
        return rest

    def errors(self) -> str:
        """Return what is on standard error."""
        self._errors.seek(0)
        return self._errors.read().decode()

    @property
    def peak(self) -> int:
        """How much memory the process has ever had, in bytes."""
        status = pathlib.Path(f"/proc/{self.process.pid}/status").read_text()
        return int(status.split("VmHWM:")[1].split()[0]) * 1024


def environment(**variables: str) -> dict[str, str]:
    return {**os.environ, "PYTHONWARNINGS": "default", **variables}


@contextmanager
def running(
    *arguments: str, server: str = "plain.py", env: dict[str, str] | None = None, fork: bool = True
) -> Iterator[Child]:
    """Start a server with pipes."""
    stdin, to_server = os.pipe()
    from_server, stdout = os.pipe()
    with between(stdin, stdout, to_server, from_server, *arguments, server=server, env=env, fork=fork) as child:
        yield child


@contextmanager
def between(
    stdin: int,
    stdout: int,
    to_server: int,
    from_server: int,
    *arguments: str,
    server: str = "plain.py",
    env: dict[str, str] | None = None,
    fork: bool = True,
) -> Iterator[Child]:
    """Start a server with these standard streams, which are closed here; the other two are the client's ends.

    It is a fork unless it has variables of its own, or the test is about the process: its memory or its descriptors.
    """
    with tempfile.TemporaryFile() as errors:
        program = SERVERS / server
        process: subprocess.Popen[bytes] | forked_command.Fork
        if fork and env is None:
            streams = (stdin, stdout, errors.fileno())
            process = forked_command.launch_script(program, arguments, streams, shows_warnings=True)
        else:
            command = [sys.executable, str(program), *arguments]
            variables = environment(**(env or {}))
            process = subprocess.Popen(command, stdin=stdin, stdout=stdout, stderr=errors, env=variables)
        for descriptor in {stdin, stdout}:
            os.close(descriptor)
        child = Child(process, to_server, from_server, errors)
        try:
            yield child
        finally:
            process.kill()
            process.wait()
            for descriptor in {child.stdin, child.stdout} - {-1}:
                os.close(descriptor)
