"""Client of the worker process that reads documents. It kills the worker if a request takes too long."""

from __future__ import annotations

import os

import msgspec

from carrel.sources.documents.messages import WorkerRequest, WorkerResponse
from carrel.sources.process import IDLE, ChildProcess, Crashed

__all__ = ["Process"]

#: Environment variables without which Python does not start everywhere.
VARIABLES = ("SYSTEMROOT", "PYTHONHOME", "LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH")


class Process(ChildProcess):
    """Process that reads documents, one at a time; started when it is needed. Its methods block.

    ``seconds`` is the timeout of one request, ``memory`` the address space in bytes (not on Windows and macOS).
    """

    def __init__(self, seconds: float, memory: int) -> None:
        # Do not pass secrets in environment variables to a process that reads untrusted documents.
        environment = {name: os.environ[name] for name in VARIABLES if name in os.environ}
        arguments = (memory, int(seconds) + 1, IDLE)
        module = "carrel.sources.documents.worker"
        super().__init__(module, arguments, environment=environment, directory=os.path.abspath(os.sep))  # noqa: PTH100
        self._seconds = seconds
        self._key: str | None = None

    def has(self, key: str) -> bool:
        """Return whether the document of a key is open, so that a request needs no data."""
        process = self._process
        return process is not None and process.poll() is None and self._key == key

    def ask(self, message: WorkerRequest) -> WorkerResponse:
        """Send a request to the worker, and return its response.

        Raises:
            ProcessTimeout: no response arrived in time.
            Crashed: the process exited.
            CancelledError: the request was cancelled.
        """
        try:
            process = self.started()
            self._key = None
            data = self.exchange(process, msgspec.msgpack.encode(message), self._seconds)
            answer = msgspec.msgpack.decode(data, type=WorkerResponse)
        except msgspec.MsgspecError:
            self.close()
            raise Crashed from None
        except BaseException:
            self.close()
            raise
        self._key = message.key if answer.failure in (None, "no_page") else None
        if answer.last:
            self.close()
        return answer

    def close(self) -> None:
        """End the process; it is started again when it is needed."""
        self._key = None
        super().close()
