"""A program in a pseudo-terminal: what it shows is read all the time, and keys are typed."""

from __future__ import annotations

import fcntl
import os
import re
import select
import signal
import struct
import subprocess
import sys
import termios
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from time import monotonic

PATIENCE = 120.0
#: A program asks where the cursor is; the answer is the first line, as nothing here depends on it.
ASKED = b"\x1b[6n"
#: Runs a command, writes its exit code to a pipe, and stays: when the leader of a terminal's session ends, the system
#: throws away what has been written to the terminal and not been read yet.
LEADER = """
import fcntl, os, signal, sys, termios
fcntl.ioctl(0, termios.TIOCSCTTY, 0)
pipe, command = int(sys.argv[1]), sys.argv[2:]
child = os.fork()
if child == 0:
    os.close(pipe)
    os.execvp(command[0], command)
signal.signal(signal.SIGINT, signal.SIG_IGN)
os.write(pipe, b"%d" % os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
while True:
    signal.pause()
"""
CONTROL = re.compile(rb"\x1b\[[0-9;?]*[ -/]*[@-~]|\x1b[()][A-B0]|\x1b[=>78M]|\r")


class Terminal:
    """The terminal's side of a program. ``raw`` is all that was written to it."""

    def __init__(self, descriptor: int, code: int) -> None:
        self._descriptor = descriptor
        self._code = code
        self.raw = b""
        self._seen = 0
        self._news = threading.Condition()
        self.reader = threading.Thread(target=self._read, daemon=True)
        self.reader.start()

    def _read(self) -> None:
        while True:
            try:
                data = os.read(self._descriptor, 65536)
            except OSError:
                data = b""
            if ASKED in data:
                os.write(self._descriptor, b"\x1b[1;1R")
            with self._news:
                self.raw += data
                self._news.notify_all()
            if not data:
                return

    @property
    def text(self) -> str:
        """What was written, without what only places and colours it."""
        return CONTROL.sub(b"", self.raw).decode(errors="replace")

    def wait_for(self, text: str) -> None:
        """Wait until a text is shown after the last one that was waited for."""
        end = monotonic() + PATIENCE
        with self._news:
            while (at := self.text.find(text, self._seen)) < 0:
                over = self._is_over(0)
                left = end - monotonic()
                came = self._news.wait(max(0.0, min(left, 1.0)))
                if left < 0 or (over and not came):
                    raise AssertionError(f"{text!r} is not in: {self.text[self._seen :]}")
            self._seen = at + len(text)

    def type(self, text: str) -> None:
        """Type keys."""
        os.write(self._descriptor, text.encode())

    def ended(self) -> int:
        """Wait for the end, and return the exit code."""
        assert self._is_over(PATIENCE), f"it goes on: {self.text[self._seen :]}"
        return int(os.read(self._code, 10))

    def _is_over(self, seconds: float) -> bool:
        return bool(select.select([self._code], [], [], seconds)[0])


@contextmanager
def in_terminal(command: list[str], *, columns: int = 80, rows: int = 24, **env: str) -> Iterator[Terminal]:
    """Run a command in a pseudo-terminal of its own, whose Ctrl-C it gets."""
    ours, theirs = os.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    code, pipe = os.pipe()
    process = subprocess.Popen(
        [sys.executable, "-ISc", LEADER, str(pipe), *command],
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        env={**os.environ, **env},
        start_new_session=True,
        pass_fds=(pipe,),
    )
    os.close(theirs)
    os.close(pipe)
    terminal = Terminal(ours, code)
    try:
        yield terminal
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        terminal.reader.join(PATIENCE)
        os.close(ours)
        os.close(code)
