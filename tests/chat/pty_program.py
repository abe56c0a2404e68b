"""A program in a pseudo-terminal: what it shows is read all the time, and keys are typed."""

from __future__ import annotations

import fcntl
import os
import re
import struct
import subprocess
import termios
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from time import monotonic

PATIENCE = 60.0
#: A program asks where the cursor is; the answer is the first line, as nothing here depends on it.
ASKED = b"\x1b[6n"
CONTROL = re.compile(rb"\x1b\[[0-9;?]*[ -/]*[@-~]|\x1b[()][A-B0]|\x1b[=>78M]|\r")


class Terminal:
    """The terminal's side of a program. ``raw`` is all that was written to it."""

    def __init__(self, process: subprocess.Popen[bytes], descriptor: int) -> None:
        self.process = process
        self._descriptor = descriptor
        self.raw = b""
        self._seen = 0
        self._news = threading.Condition()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

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
                left = end - monotonic()
                assert left > 0, f"{text!r} is not in: {self.text[self._seen :]}"
                assert self._reader.is_alive(), f"{text!r} is not in: {self.text[self._seen :]}"
                self._news.wait(min(left, 1.0))
            self._seen = at + len(text)

    def type(self, text: str) -> None:
        """Type keys."""
        os.write(self._descriptor, text.encode())

    def ended(self) -> int:
        """Wait for the end, and return the exit code."""
        return self.process.wait(PATIENCE)


@contextmanager
def in_terminal(command: list[str], *, columns: int = 80, rows: int = 24, **env: str) -> Iterator[Terminal]:
    """Run a command in a pseudo-terminal of its own, whose Ctrl-C it gets."""
    ours, theirs = os.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def take() -> None:
        fcntl.ioctl(0, termios.TIOCSCTTY, 0)

    environment = {**os.environ, **env}
    process = subprocess.Popen(
        command,
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        env=environment,
        start_new_session=True,
        preexec_fn=take,
    )
    os.close(theirs)
    try:
        yield Terminal(process, ours)
    finally:
        process.kill()
        process.wait()
        os.close(ours)
