"""Output of git processes, read with a time limit, and until the request is cancelled."""

from __future__ import annotations

import os
import select
import subprocess
import threading
from collections.abc import Iterable, Iterator
from time import monotonic

from carrel.sources.git.isolation import Isolation, end
from carrel.threads import stop_if_cancelled

__all__ = ["GitFailed", "GitTimeout", "ObjectPipe", "pieces", "read_output"]

CHUNK = 65_536  # as much as a pipe holds
STEP = 200  # milliseconds between checks for cancellation


class GitFailed(Exception):
    """git ended with an error: objects are missing or damaged, or it had too little memory."""


class GitTimeout(Exception):
    """git was stopped at the time limit."""


class ProcessOutput:
    """Standard output of a process, until a time of the monotonic clock."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        assert process.stdout is not None
        self._descriptor = process.stdout.fileno()
        self._process = process
        self._poll = select.poll() if hasattr(select, "poll") else None
        if self._poll is not None:
            self._poll.register(self._descriptor, select.POLLIN)

    def read(self, size: int, deadline: float) -> bytes:
        """Read up to ``size`` bytes; nothing at the end.

        Raises:
            GitTimeout: no output arrived before the deadline.
        """
        if self._poll is None:  # Windows, where pipes cannot be waited for
            timer = threading.Timer(max(deadline - monotonic(), 0), self._process.kill)
            timer.start()
            try:
                data = os.read(self._descriptor, size)
            finally:
                timer.cancel()
            if not data and monotonic() > deadline:
                raise GitTimeout
            return data
        while not self._poll.poll(STEP):
            stop_if_cancelled()
            if monotonic() > deadline:
                raise GitTimeout
        return os.read(self._descriptor, size)


def pieces(isolation: Isolation, seconds: float, *arguments: str) -> Iterator[bytes]:
    """Run git and yield its output as it arrives. If the caller stops, git is stopped.

    Raises:
        GitFailed: it failed, or the repository has links to objects elsewhere.
        GitTimeout: it was still running after so many seconds.
    """
    deadline = monotonic() + seconds
    breaches = isolation.refresh()
    process = isolation.spawn(*arguments)
    try:
        output = ProcessOutput(process)
        while data := output.read(CHUNK, deadline):
            yield data
            stop_if_cancelled()
            if monotonic() > deadline:
                raise GitTimeout
        if process.wait(5) != 0 or isolation.refresh() != breaches:
            raise GitFailed
    finally:
        end(process)


def read_output(isolation: Isolation, seconds: float, limit: int, *arguments: str) -> bytes | None:
    """Run git and return its output; None if that has more than ``limit`` bytes.

    Raises:
        GitFailed: it failed.
        GitTimeout: it was still running after so many seconds.
    """
    parts, total = [], 0
    for data in pieces(isolation, seconds, *arguments):
        total += len(data)
        if total > limit:
            return None
        parts.append(data)
    return b"".join(parts)


class ObjectPipe:
    """Running ``git cat-file --batch`` (or ``--batch-check``), which returns objects by id."""

    def __init__(self, isolation: Isolation, mode: str) -> None:
        self._isolation = isolation
        self._breaches = isolation.refresh()
        self._process = isolation.spawn("cat-file", mode, stdin=True)
        assert self._process.stdin is not None
        self._input = self._process.stdin.fileno()
        self._output = ProcessOutput(self._process)
        self._buffer = b""

    def ask(self, *ids: str) -> None:
        """Request objects. At most 500 are requested, so that neither side blocks on a full pipe.

        Raises:
            GitFailed: git has ended.
        """
        try:
            os.write(self._input, ("\n".join(ids) + "\n").encode())
        except OSError:
            raise GitFailed from None

    def is_sound(self, ids: Iterable[str]) -> bool:
        """Return whether git has had no link to the objects of another repository since it was started."""
        return self._isolation.refresh(ids) == self._breaches

    def header(self, deadline: float) -> list[str]:
        """Read the next line: id, type and size, or the requested name and "missing" or "ambiguous".

        Raises:
            GitFailed: git has exited.
            GitTimeout: git sent no line before the deadline.
        """
        while b"\n" not in self._buffer:
            self._fill(deadline)
        line, _, self._buffer = self._buffer.partition(b"\n")
        return line.decode("ascii", "replace").split(" ")

    def take(self, size: int, deadline: float) -> Iterator[bytes]:
        """Yield the bytes of the object whose header was read, and skip the line feed after it.

        Raises:
            GitFailed: git has ended.
            GitTimeout: they did not arrive before the deadline.
        """
        left = size
        while left:
            if not self._buffer:
                self._fill(deadline)
            data, self._buffer = self._buffer[:left], self._buffer[left:]
            left -= len(data)
            yield data
            stop_if_cancelled()
        while not self._buffer:
            self._fill(deadline)
        if self._buffer[:1] != b"\n":  # more bytes than announced: a damaged object
            raise GitFailed
        self._buffer = self._buffer[1:]

    def take_whole(self, size: int, deadline: float) -> bytes:
        """Return the bytes of the object whose header was read.

        Raises:
            GitFailed: git has ended.
            GitTimeout: they did not arrive before the deadline.
        """
        if len(self._buffer) == size + 1 and self._buffer[-1:] == b"\n":  # it came at once
            data, self._buffer = self._buffer[:-1], b""
            return data
        return b"".join(self.take(size, deadline))

    def _fill(self, deadline: float) -> None:
        data = self._output.read(CHUNK, deadline)
        if not data:
            raise GitFailed
        self._buffer += data

    def close(self) -> None:
        """Stop git."""
        end(self._process)
