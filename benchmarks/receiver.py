"""Receives one event on each of thousands of connections, with less work per event than a server has to send it."""

import os
import select
import time
from collections.abc import Iterable

from .processes import PATIENCE, ServerFailed

#: Bytes that are read at a time; an event is much shorter.
SIZE = 65536


class Receiver:
    """Reader of connections that are past the head of their responses, without an event loop.

    ``parts`` are bytes that each event has. An event ends with an empty line, and the chunk around it with another one.
    """

    def __init__(self, descriptors: Iterable[int], parts: tuple[bytes, ...]) -> None:
        self._parts = parts
        self._poll = select.epoll()
        self._rest: dict[int, bytes] = {}
        self.number = 0
        for descriptor in descriptors:
            self._poll.register(descriptor, select.EPOLLIN)
            self.number += 1

    def receive(self) -> None:
        """Wait until each connection has received one event.

        Raises:
            ServerFailed: A connection was closed, or sent something else, or events are missing.
        """
        heard: set[int] = set()
        last = time.monotonic()
        while len(heard) < self.number:
            ready = self._poll.poll(1.0, 256)
            if time.monotonic() - last > PATIENCE:
                raise ServerFailed(f"{self.number - len(heard)} of {self.number} events are missing")
            for descriptor, _ in ready:
                data = os.read(descriptor, SIZE)
                if not data:
                    raise ServerFailed("closed a stream")
                if descriptor in self._rest:
                    data = self._rest.pop(descriptor) + data
                if not data.endswith(b"\n\r\n"):
                    self._rest[descriptor] = data
                elif events := data.count(b"data:"):  # else a comment
                    if events > 1 or descriptor in heard or not all(part in data for part in self._parts):
                        raise ServerFailed(f"another message: {data[:200]!r}")
                    heard.add(descriptor)
                    last = time.monotonic()
