"""Client of the process that reads documents: starts it, asks it, and ends it when it takes too long."""

from __future__ import annotations

import json
import os
import queue
import subprocess
import sys
import threading
from time import monotonic

import msgspec

from carrel.sources.documents.messages import Answer, Crashed, Question, TookTooLong, receive, send
from carrel.threads import stop_if_cancelled

__all__ = ["Process"]

#: Seconds between two looks whether a request was cancelled.
STEP = 0.1
#: Seconds without a question after which the process ends by itself.
IDLE = 60.0
#: Environment variables without which Python does not start everywhere.
VARIABLES = ("SYSTEMROOT", "PYTHONHOME", "LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH")
PROGRAM = """
import json, sys
sys.dont_write_bytecode = True
path, memory, seconds, idle = json.loads(sys.argv[1])
sys.path[:] = path
from carrel.sources.documents.worker import main
main(memory, seconds, idle)
"""


class Process:
    """Process that reads documents, one at a time; started when it is needed. Its methods block.

    ``seconds`` is the time for one question, ``memory`` the address space in bytes (not on Windows and macOS).
    """

    def __init__(self, seconds: float, memory: int) -> None:
        self._seconds = seconds
        self._memory = memory
        self._process: subprocess.Popen[bytes] | None = None
        self._answers: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
        self._reader: threading.Thread | None = None
        self._lock = threading.Lock()
        self._key: str | None = None
        self._stopped = False
        self._used = 0.0

    def has(self, key: str) -> bool:
        """Return whether the document of a key is open, so that a question needs no data."""
        process = self._process
        return process is not None and process.poll() is None and self._key == key

    def ask(self, question: Question) -> Answer:
        """Return the answer to a question.

        Raises:
            TookTooLong: there is none in time.
            Crashed: the process ended.
            CancelledError: the request was cancelled.
        """
        process = self._process
        if process is not None and (monotonic() - self._used > IDLE / 2 or process.poll() is not None):
            self.close()  # it ends, or has ended
            process = None
        try:
            return self._ask(process or self._start(), question)
        except BaseException:
            self.close()
            raise
        finally:
            self._used = monotonic()

    def _ask(self, process: subprocess.Popen[bytes], question: Question) -> Answer:
        assert process.stdin is not None
        self._key = None
        try:
            send(process.stdin, question)
        except (OSError, ValueError):  # the latter if it was closed meanwhile
            raise Crashed from None
        deadline = monotonic() + self._seconds
        while True:
            stop_if_cancelled()
            try:
                data = self._answers.get(timeout=min(STEP, max(0.0, deadline - monotonic())))
                break
            except queue.Empty:
                if monotonic() >= deadline:
                    raise TookTooLong from None
        if data is None:
            raise Crashed
        try:
            answer = msgspec.msgpack.decode(data, type=Answer)
        except msgspec.MsgspecError:
            raise Crashed from None
        self._key = question.key if answer.failure in (None, "no_page") else None
        if answer.last:
            self.close()
        return answer

    def _start(self) -> subprocess.Popen[bytes]:
        path = [os.path.abspath(place) for place in sys.path]  # noqa: PTH100
        arguments = json.dumps([path, self._memory, int(self._seconds) + 1, IDLE])
        # A variable such as a password of the server is not for a process that reads what others wrote.
        environment = {name: os.environ[name] for name in VARIABLES if name in os.environ}
        with self._lock:
            if self._stopped:
                raise Crashed
            self._process = process = subprocess.Popen(  # noqa: S603
                [sys.executable, "-P", "-c", PROGRAM, arguments],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                cwd=os.path.abspath(os.sep),  # noqa: PTH100
                env=environment,
                start_new_session=True,
            )
            answers: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
            self._answers = answers
            self._reader = threading.Thread(
                target=read_answers, args=(process, answers), name="carrel-documents-answers", daemon=True
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
            self._key = None
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
    """Put the answers of a process into a queue, and None when it has ended."""
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
