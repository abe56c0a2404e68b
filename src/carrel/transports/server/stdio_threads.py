"""Threads that read and write the standard streams where an event loop cannot poll them.

Event loops cannot poll regular files, terminals and the pipes of Windows.
"""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Callable
from typing import Any

from carrel.transports.pipes import write_all

__all__ = ["HIGH_WATER", "ThreadReader", "ThreadWriter"]

#: High-water mark of a write buffer, in bytes: beyond it, no more is read (backpressure).
HIGH_WATER = 1024 * 1024


class ThreadReader:
    """Reader thread for files that an event loop cannot poll (regular files, terminals, Windows pipes).

    It reads on after the event loop has processed the data.
    """

    def __init__(self, fd: int, protocol: asyncio.Protocol) -> None:
        self._fd = fd
        self._protocol = protocol
        self._loop = asyncio.get_running_loop()
        self._may_read = threading.Event()
        self._may_read.set()
        self._paused = False
        self._closed = False
        os.set_blocking(fd, True)
        protocol.connection_made(self)  # type: ignore[arg-type]
        threading.Thread(target=self._read, name="carrel-stdin", daemon=True).start()

    def _read(self) -> None:
        data = b"-"
        while data and not self._closed:
            try:
                data = os.read(self._fd, 65536)
            except OSError:
                data = b""
            self._may_read.clear()
            try:
                self._loop.call_soon_threadsafe(self._take, data)
            except RuntimeError:  # the loop is closed
                break
            self._may_read.wait()
        os.close(self._fd)

    def _take(self, data: bytes) -> None:
        if self._closed:
            return
        if data:
            self._protocol.data_received(data)
        else:
            self._protocol.eof_received()
        if not self._paused:
            self._may_read.set()

    def pause_reading(self) -> None:
        self._paused = True

    def resume_reading(self) -> None:
        self._paused = False
        self._may_read.set()

    def close(self) -> None:
        self._closed = True
        self._may_read.set()


class ThreadWriter:
    """Writer thread for files that an event loop cannot poll, with the same high-water mark."""

    def __init__(self, fd: int, protocol: asyncio.Protocol) -> None:
        self._fd = fd
        self._protocol = protocol
        self._loop = asyncio.get_running_loop()
        self._waiting: list[bytes | None] = []
        self._size = 0
        self._paused = False
        self._closing = False
        self._wake = threading.Condition()
        os.set_blocking(fd, True)
        threading.Thread(target=self._write, name="carrel-stdout", daemon=True).start()

    def write(self, data: bytes) -> None:
        with self._wake:
            self._waiting.append(data)
            self._size += len(data)
            self._wake.notify()
        if self._size > HIGH_WATER and not self._paused:
            self._paused = True
            self._protocol.pause_writing()

    def is_closing(self) -> bool:
        return self._closing

    def get_extra_info(self, name: str) -> None:
        """Return None: there is no pipe to poll."""

    def close(self) -> None:
        self._closing = True
        with self._wake:
            self._waiting.append(None)
            self._wake.notify()

    def _write(self) -> None:
        error: Exception | None = None
        while error is None:
            with self._wake:
                self._wake.wait_for(lambda: self._waiting)
                waiting, self._waiting = self._waiting, []
            data = b"".join(piece for piece in waiting if piece is not None)
            try:
                write_all(self._fd, data)
            except OSError as problem:
                error = problem
            self._call(self._written, len(data))
            if None in waiting:
                break
        os.close(self._fd)
        self._call(self._protocol.connection_lost, error)

    def _call(self, function: Callable[..., None], *arguments: Any) -> None:
        try:
            self._loop.call_soon_threadsafe(function, *arguments)
        except RuntimeError:  # the loop is closed
            pass

    def _written(self, size: int) -> None:
        with self._wake:
            self._size -= size
        if self._paused and self._size <= HIGH_WATER // 4:
            self._paused = False
            self._protocol.resume_writing()
