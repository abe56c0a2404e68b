"""A worker of ``serve``, ``run`` or ``gateway``: what its process has from the supervisor."""

from __future__ import annotations

import asyncio
import contextlib
import faulthandler
import os
import signal
import socket
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from carrel.state.memory import MemoryState
from carrel.state.remote.state import RemoteState

if TYPE_CHECKING:
    from carrel.server.app import Server
    from carrel.transports.server.options import ServeOptions

__all__ = ["BEAT", "DUMP", "WorkerProcess"]

#: Seconds between two beats of the parent. A worker whose event loop runs sends two messages in this time.
BEAT = 5.0
#: Signal with which the parent asks for the stacks of all threads on standard error.
DUMP = signal.SIGQUIT


class WorkerProcess:
    """This process, one of the workers.

    Args:
        number: 1, 2, and so on.
        listeners: sockets to accept connections from.
        control: socket to the parent. It has ended if the parent has.
        store: socket to the process that holds the store, or None with another store.
    """

    def __init__(
        self, number: int, listeners: Sequence[socket.socket], control: socket.socket, store: socket.socket | None
    ) -> None:
        self.number = number
        self.greets = False
        """Whether this worker prints the startup message."""
        self.metrics: tuple[socket.socket, Sequence[socket.socket]] | None = None
        """Socket for requests of the metrics of all workers, and sockets on which each of them reports its own."""
        self.key = b""
        """Key that all workers have."""
        self._listeners = listeners
        self._control = control
        self._state = None if store is None else RemoteState(store, end)

    def share_state(self, app: Server[Any]) -> None:
        """Share the state of the workers, unless the program has a store that other servers share."""
        settings = app.endpoint.runtime.settings
        if self._state is not None and (settings.state is None or isinstance(settings.state, MemoryState)):
            app.share_state(self._state, settings.state_keys or [self.key])

    def attach(self, http: ServeOptions) -> None:
        """Set the options of ``Server.run("http")``: the sockets, and a message to the parent after the start."""
        greet = http.get("on_started")

        def started(url: str) -> None:
            self._control.setblocking(False)
            faulthandler.register(DUMP, chain=False)
            asyncio.get_running_loop().add_reader(self._control, end)
            self._beat()
            if self.greets and greet is not None:
                greet(url)

        http["listeners"] = self._listeners
        http["on_started"] = started

    def _beat(self) -> None:
        """Tell the parent that this worker is ready, and again and again that its event loop runs."""
        with contextlib.suppress(OSError):  # the parent is stopped, and the buffer is full; or it has ended
            self._control.send(b".")
        asyncio.get_running_loop().call_later(BEAT / 2, self._beat)


def end() -> None:
    """End this process gracefully, because the parent or the process with the store has ended."""
    os.kill(os.getpid(), signal.SIGTERM)
