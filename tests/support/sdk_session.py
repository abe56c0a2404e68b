"""A session of the official Python SDK's client, in a process of its own."""

from __future__ import annotations

import json
import os
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from support.parties import python_program

PROGRAM = Path(__file__).with_name("sdk_client.py")
PATIENCE = 120.0


class SDKSession:
    """Session: ``call`` asks one thing and returns the answer. ``errors`` is what the server said on stderr, so far."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process
        self.name = self._read()

    def call(self, method: str, *arguments: Any) -> Any:
        """Call a method of the session; ``changed`` waits for a notification that the tools have changed."""
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps([method, *arguments]) + "\n")
        self._process.stdin.flush()
        return self._read()

    def tool(self, name: str, **arguments: Any) -> str:
        """Call a tool and return its text."""
        return str(self.call("call_tool", name, arguments)["content"][0]["text"])

    def tools(self) -> list[str]:
        """Return the names of the tools."""
        return [tool["name"] for tool in self.call("list_tools")["tools"]]

    def _read(self) -> Any:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        assert line, "the client has ended"
        return json.loads(line)


@contextmanager
def sdk_session(*whom: str, stderr: Any = None, env: dict[str, str] | None = None) -> Iterator[SDKSession]:
    """Connect the official client to a URL or a command."""
    with subprocess.Popen(
        python_program("1", str(PROGRAM), *whom),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=stderr,
        text=True,
        env={**os.environ, **(env or {})},
    ) as process:
        watchdog = threading.Timer(PATIENCE, process.kill)
        watchdog.start()
        try:
            yield SDKSession(process)
            assert process.stdin is not None
            process.stdin.close()
            process.wait(PATIENCE)
        finally:
            watchdog.cancel()
            process.kill()
