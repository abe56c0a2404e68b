"""Servers of ``socketserver`` in threads."""

from __future__ import annotations

import socket
import threading
from socketserver import TCPServer

__all__ = ["ServingThread", "accept_on"]


class ServingThread:
    """Server in a daemon thread with a name."""

    def __init__(self, server: TCPServer, name: str) -> None:
        self._serving = server
        self._thread = threading.Thread(target=server.serve_forever, name=name, daemon=True)

    def start(self) -> None:
        """Begin to answer."""
        self._thread.start()

    def stop(self) -> None:
        """Stop answering, and close the listener."""
        if self._thread.ident is not None:
            self._serving.shutdown()
            self._thread.join()
        self._serving.server_close()


def accept_on(server: TCPServer, listener: socket.socket) -> None:
    """Let a server accept connections on a socket that listens already, also for other processes."""
    server.socket.close()
    listener.setblocking(False)  # another process may accept a connection first
    server.socket = listener
