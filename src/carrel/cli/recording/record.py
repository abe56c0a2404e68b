"""``carrel record``: a proxy between a client and a server that writes every message to a file."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Mapping
from typing import IO, Literal

from carrel.cli.client.connection import UNREACHABLE, add_target, failed, read_target
from carrel.cli.options import Parser
from carrel.cli.recording.recording import Recorder
from carrel.cli.server.http_options import warn_of_terminal
from carrel.cli.values import positive
from carrel.errors import ConfigError

__all__ = ["parser", "run"]

SUMMARY = "Relay a session between a client and a server, and write every message to a file (JSON lines)."
EXAMPLES = """\
examples:
  carrel record session.jsonl -- npx -y some-server     use this as the command in the application
  carrel record server.py session.jsonl
  carrel record https://example.org/mcp session.jsonl --port 8000

carrel replay serves a recording. It has all messages, including secrets in them, but no HTTP headers.
"""


def parser() -> Parser:
    """Return the argument parser of ``carrel record``."""
    reader = Parser("record", SUMMARY, epilog=EXAMPLES)
    add_target(reader)
    reader.add_argument("file", metavar="FILE", help="the file to write")
    reader.add_argument("--port", metavar="PORT", type=positive, help="for a URL: the port that the client connects to")
    return reader


def run(arguments: list[str]) -> int:
    """Run ``carrel record`` until the client or the server exits, and return the exit code of the server.

    Raises:
        ConfigError: wrong use, or the file cannot be written.
    """
    options, target = read_target(parser(), arguments)
    configured = target.configured
    if isinstance(target.server, str):
        if configured is not None and configured.headers:
            raise ConfigError(
                f"{target.name} has headers in its configuration, which the client has to send here: record the URL "
                f"{configured.shown}, and give them to the client"
            )
        if options.port is None:
            raise ConfigError("a URL needs --port PORT, which the client connects to instead of the server")
        from carrel.cli.recording.http import serve

        serve(target.server, options.file, options.port)
        return 0
    if options.port is not None:
        raise ConfigError("--port is for URLs; a command is recorded on stdio")
    if configured is None:
        return record_process(target.server, options.file)
    return record_process(target.server, options.file, env={**os.environ, **configured.env}, cwd=configured.cwd)


def record_process(command: list[str], file: str, env: Mapping[str, str] | None = None, cwd: str | None = None) -> int:
    """Run a server with our standard streams, line by line through a recorder, and return its exit code."""
    recorder = Recorder(file)
    try:
        process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=env, cwd=cwd)  # noqa: S603
    except OSError as error:
        recorder.close()
        return failed(f"The program {command[0]!r} cannot be started: {error.strerror}", UNREACHABLE)
    warn_of_terminal(hint=None)
    assert process.stdin is not None
    assert process.stdout is not None
    source = os.fdopen(os.dup(0), "rb")
    forward = threading.Thread(target=pump, args=(source, process.stdin, recorder, "in"), daemon=True)
    forward.start()
    try:
        pump(process.stdout, sys.stdout.buffer, recorder, "out")
        return process.wait()
    finally:
        if process.poll() is None:
            process.terminate()
            process.wait()
        recorder.close()


def pump(source: IO[bytes], sink: IO[bytes], recorder: Recorder, direction: Literal["in", "out"]) -> None:
    """Forward lines until the source ends or the sink is closed. Then close the server's standard input."""
    try:
        while line := source.readline():
            recorder.add(direction, line)
            sink.write(line)
            sink.flush()
        if direction == "in":
            sink.close()
    except (BrokenPipeError, ValueError):  # the other side has ended
        return
