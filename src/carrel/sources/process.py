"""Process for work that may take too much memory or time: it answers messages, and is killed if it does not.

A source has a class for its process, and a module whose function ``main`` the process runs, with the functions at the
end of this module.
"""

from __future__ import annotations

import json
import os
import queue
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from time import monotonic
from typing import IO

from carrel.threads import stop_if_cancelled

__all__ = [
    "IDLE",
    "RECYCLED",
    "ChildProcess",
    "Crashed",
    "ProcessTimeout",
    "limit_memory",
    "limit_time",
    "memory_used",
    "open_pipes",
    "receive",
    "send",
    "wait_for",
]

#: Seconds between two looks whether a request was cancelled.
STEP = 0.1
#: Seconds without a message after which the process ends by itself.
IDLE = 60.0
PROGRAM = """
import json, sys
sys.dont_write_bytecode = True
path, module, arguments = json.loads(sys.argv[1])
sys.path[:] = path
from importlib import import_module
import_module(module).main(*arguments)
"""


class ProcessTimeout(Exception):
    """The process takes more time than it may."""


class Crashed(Exception):
    """The process ended: it needed more memory than it may have, or a library failed badly."""


class ChildProcess:
    """Child process that handles one message at a time, started on demand. Its methods block.

    It runs ``main`` of a module with some arguments, which JSON can have.
    """

    def __init__(
        self,
        module: str,
        arguments: Sequence[object],
        *,
        environment: Mapping[str, str],
        directory: str | None = None,
        idle: float = IDLE,
    ) -> None:
        self._module = module
        self._arguments = arguments
        self._environment = environment
        self._directory = directory
        self._idle = idle
        self._process: subprocess.Popen[bytes] | None = None
        self._answers: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
        self._reader: threading.Thread | None = None
        self._lock = threading.Lock()
        self._stopped = False
        self._used = 0.0

    def started(self) -> subprocess.Popen[bytes]:
        """Return the process. Start it if it is not running, or is about to exit because it was idle.

        Raises:
            Crashed: the process was stopped permanently.
            OSError: the process cannot be started.
        """
        process = self._process
        if process is not None and (monotonic() - self._used > self._idle / 2 or process.poll() is not None):
            self.close()
            process = None
        return process or self._start()

    def exchange(self, process: subprocess.Popen[bytes], message: bytes, seconds: float) -> bytes:
        """Send a message, and return the response.

        Raises:
            ProcessTimeout: no response arrived in time.
            Crashed: the process ended.
            CancelledError: the request was cancelled.
        """
        assert process.stdin is not None
        self._used = monotonic()
        try:
            send(process.stdin, message)
        except (OSError, ValueError):  # the latter if it was closed meanwhile
            raise Crashed from None
        return self.wait(seconds)

    def wait(self, seconds: float, *, cancellable: bool = True) -> bytes:
        """Return the next response. Raises the errors of ``exchange``."""
        deadline = monotonic() + seconds
        while True:
            if cancellable:
                stop_if_cancelled()
            try:
                data = self._answers.get(timeout=min(STEP, max(0.0, deadline - monotonic())))
                break
            except queue.Empty:
                if monotonic() >= deadline:
                    raise ProcessTimeout from None
        self._used = monotonic()
        if data is None:
            raise Crashed
        return data

    def _start(self) -> subprocess.Popen[bytes]:
        path = [os.path.abspath(folder) for folder in sys.path]  # noqa: PTH100
        with self._lock:
            if self._stopped:
                raise Crashed
            self._process = process = subprocess.Popen(  # noqa: S603
                [sys.executable, "-P", "-c", PROGRAM, json.dumps([path, self._module, self._arguments])],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                cwd=self._directory,
                env=dict(self._environment),
                start_new_session=True,
            )
            answers: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
            self._answers = answers
            self._reader = threading.Thread(
                target=read_answers, args=(process, answers), name="carrel-process-answers", daemon=True
            )
            self._reader.start()
        return process

    def stop(self) -> None:
        """End the process for good. May be called from any thread."""
        with self._lock:
            self._stopped = True
        self.close()

    def close(self) -> None:
        """End the process; it is started again when it is needed."""
        with self._lock:
            process, self._process = self._process, None
            reader, self._reader = self._reader, None
        if process is None:
            return
        process.kill()
        assert process.stdin is not None
        try:
            process.stdin.close()
        except OSError:
            pass  # something is still unsent
        if reader is not None:
            reader.join()
        process.wait()


def read_answers(process: subprocess.Popen[bytes], answers: queue.SimpleQueue[bytes | None]) -> None:
    """Put the responses of a process into a queue, and None when the process exits."""
    assert process.stdout is not None
    with process.stdout as file:
        while True:
            try:
                data = receive(file)
            except OSError:
                data = None
            answers.put(data)
            if data is None:
                break
    process.wait()


def send(file: IO[bytes], data: bytes) -> None:
    """Write a message: its length, then its bytes.

    Raises:
        OSError: the other side is gone.
    """
    file.write(len(data).to_bytes(4, "big"))
    file.write(data)
    file.flush()


def receive(file: IO[bytes]) -> bytes | None:
    """Read a message; None at the end.

    Raises:
        OSError: the other side is gone.
    """
    head = file.read(4)
    size = int.from_bytes(head, "big")
    data = file.read(size) if len(head) == 4 else b""
    return data if len(head) == 4 and len(data) == size else None


#: Memory (bytes) after which a process ends, because libraries do not give it back.
RECYCLED = 384 * 1024 * 1024


def open_pipes() -> tuple[IO[bytes], IO[bytes]]:
    """Return the files that messages come from and answers go to."""
    source = os.fdopen(0, "rb")
    target = os.fdopen(os.dup(1), "wb")
    silence = os.open(os.devnull, os.O_WRONLY)
    os.dup2(silence, 1)  # output that a library prints is not a response
    return source, target


def wait_for(descriptor: int, seconds: float) -> bool:
    """Wait for a message. Return False if none arrives within ``seconds``."""
    if sys.platform == "win32":
        return True
    import select

    return bool(select.select([descriptor], [], [], seconds)[0])


def limit_memory(memory: int) -> None:
    """Limit memory and files, so that work that exceeds them ends this process only."""
    if sys.platform == "win32":
        return
    import resource

    limits = ((resource.RLIMIT_AS, memory), (resource.RLIMIT_CORE, 0), (resource.RLIMIT_FSIZE, 0))
    for what, limit in limits:
        try:
            resource.setrlimit(what, (limit, limit))
        except (OSError, ValueError):  # macOS has no limit of address space
            pass


def limit_time(seconds: int) -> None:
    """Limit the CPU time of the next message, even if the server that would kill this process is gone."""
    if sys.platform == "win32":
        return
    import resource

    usage = resource.getrusage(resource.RUSAGE_SELF)
    most = int(usage.ru_utime + usage.ru_stime) + seconds + 2
    hard = resource.getrlimit(resource.RLIMIT_CPU)[1]
    resource.setrlimit(resource.RLIMIT_CPU, (most if hard == resource.RLIM_INFINITY else min(most, hard), hard))


def memory_used() -> int:
    """Return the memory that this process has, in bytes; 0 where the system does not show it (all but Linux)."""
    try:
        with open("/proc/self/statm", "rb") as file:  # noqa: PTH123
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError, IndexError):
        return 0
