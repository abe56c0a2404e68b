"""Server transport for stdio: one JSON message per line on the standard streams, always in UTF-8.

``run`` reserves the standard streams for the protocol: other output to standard output, of this process or of
children, is redirected to standard error, and nothing else can read standard input.

https://modelcontextprotocol.io/specification/2026-07-28/basic/transports/stdio
"""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import stat
import sys
from collections import deque
from collections.abc import Hashable
from contextlib import suppress
from typing import Any

from msgspec import UNSET

from carrel.errors import INVALID_REQUEST, ConfigError
from carrel.heap import LARGE_BLOCK, unmap_large_blocks
from carrel.protocol.encoding import encode_error
from carrel.transports import held_output, process
from carrel.transports.lines import Lines
from carrel.transports.pipes import LARGE, enlarge
from carrel.transports.server.application import Application, HasEndpoint
from carrel.transports.server.dispatcher import UNWEIGHED, Dispatcher
from carrel.transports.server.stdio_threads import HIGH_WATER, ThreadReader, ThreadWriter

__all__ = ["run", "serve"]

#: How many messages a handler may send before it yields to the event loop.
BURST = 64

#: How many bytes of responses are collected into one write.
WRITE_SIZE = 64 * 1024

#: How many requests are started at a time, and the seconds until the next ones, unless a response is ready before.
#: This bounds the memory for responses that turn out to be large and are not read.
AT_ONCE = 16
PAUSE = 0.005

#: Seconds that requests in flight get to finish after the client has closed its end.
GRACE = 5.0


class Stdio(asyncio.Protocol):
    """stdio connection: asyncio protocol of standard input, writer of standard output, channel of the dispatcher."""

    def __init__(self, app: Application) -> None:
        self._dispatcher = Dispatcher(app, self)
        self._lines = Lines(app.limits.max_message_bytes)
        self._limits = app.limits
        self._unanswered: deque[bytes | None] = deque()
        self._at_end = False
        self._burst = 0
        self._reader: Any = None
        self._writer: Any = None
        self._leaving: deque[bytes] = deque()
        self._held: dict[Hashable, bytes] = {}
        self._counted = 0
        self._begun = 0
        self._next: asyncio.Handle | None = None
        self._reading = True
        self._enlarged = False
        self._unmaps = False
        self._may_write = asyncio.Event()
        self._may_write.set()
        self.ended = asyncio.Event()

    # Reading

    def connection_made(self, transport: Any) -> None:
        self._reader = transport

    def data_received(self, data: bytes) -> None:
        self._lines.limit = self._limits.max_message_bytes
        self._unanswered.extend(self._lines.feed(data))
        self._answer()

    def _answer(self) -> None:
        """Dispatch complete messages while the client reads; responses that are ready at once share a write.

        Of requests that take longer, only some are started in one event loop iteration: if their responses are large,
        the client has to read those before more are started.
        """
        unanswered, in_flight, receive = self._unanswered, self._dispatcher.in_flight, self._receive
        before = len(in_flight)
        most = before + AT_ONCE
        while unanswered and self._may_write.is_set() and len(in_flight) < most:
            replies: list[bytes] = []
            size = 0
            while unanswered and size < WRITE_SIZE and len(in_flight) < most:
                reply = receive(unanswered.popleft())
                if reply is not None:
                    replies.append(reply)
                    size += len(reply)
            if replies and not self._leaving:
                self._write(replies)
            elif replies:
                self._leaving += replies
                self._flush()
        if self._at_end and not unanswered:
            self.ended.set()
        elif unanswered and self._may_write.is_set() and self._next is None:
            self._begun += len(in_flight) - before
            pause = PAUSE if self._begun >= AT_ONCE else 0
            self._next = asyncio.get_running_loop().call_later(pause, self._go_on)
        self._choose_to_read()

    def _go_on(self) -> None:
        self._next = None
        self._answer()

    def _choose_to_read(self) -> None:
        """Pause or resume reading: read if the client reads, and all received messages are dispatched."""
        reading = self._may_write.is_set() and not self._unanswered and not self.ended.is_set()
        if reading and not self._reading:
            self._reader.resume_reading()
        elif self._reading and not reading and not self.ended.is_set():
            self._reader.pause_reading()
        self._reading = reading

    def _receive(self, line: bytes | None) -> bytes | None:
        if line is None:
            return encode_error(UNSET, INVALID_REQUEST, f"Message too long: at most {self._lines.limit} bytes")
        if not line or line.isspace():
            return None
        return self._dispatcher.receive(line)

    def eof_received(self) -> None:
        """Handle end of file: dispatch remaining messages, including a last line without a line end, and finish."""
        if not self._at_end:
            self._at_end = True
            self._unanswered.extend(self._lines.finish())
        self._answer()

    def connection_lost(self, error: Exception | None) -> None:
        self.eof_received()

    # Writing

    def open(self, writer: Any) -> None:
        """Set the writer of standard output."""
        self._writer = writer

    def pause_writing(self) -> None:
        """Stop reading while the client reads too slowly (backpressure)."""
        self._may_write.clear()
        self._choose_to_read()

    def resume_writing(self) -> None:
        self._may_write.set()
        self._release()
        self._flush()
        self._answer()

    def _release(self) -> None:
        self._leaving += self._held.values()
        self._held.clear()

    def writing_closed(self) -> None:
        """Handle the loss of the client: cancel all requests and drop all output."""
        self._writer = Nowhere()
        self._may_write.set()
        self._unanswered.clear()
        self._dispatcher.cancel()
        self.ended.set()

    def send(self, message: bytes, key: Hashable = None) -> None:
        """Write a message, batched with others of the same event loop iteration.

        While the client does not read, only the last message per key is buffered, and large ones that exceed the budget
        are dropped. (Responses that exceed it have been replaced by errors, which are small.)
        """
        if self._begun:
            self._begun = 0
            if self._next is not None:
                self._next.cancel()
                self._next = asyncio.get_running_loop().call_soon(self._go_on)
        if self._may_write.is_set():
            self._burst += 1
            if not self._leaving:
                asyncio.get_running_loop().call_soon(self._flush)
            self._leaving.append(message)
            if len(message) >= HIGH_WATER:
                self._flush()  # now, so that the writer may pause, and the next large messages are counted
        elif self._count(len(message)) or len(message) <= UNWEIGHED:
            if key is None:
                self._leaving.append(message)
            else:
                self._held[key] = message

    def _count(self, size: int) -> bool:
        """Charge buffered bytes to the client's budget; return whether there was room."""
        if not self._dispatcher.client.take(size):
            return False
        self._counted += size
        return True

    def _flush(self, *, all: bool = False) -> None:
        """Write buffered messages while the client reads, or all of them."""
        leaving = self._leaving
        while leaving and (all or self._may_write.is_set()):
            messages: list[bytes] = []
            size = 0
            while leaving and size < HIGH_WATER:
                messages.append(leaving.popleft())
                size += len(messages[-1])
            self._write(messages)
        if self._counted and not leaving:
            self._dispatcher.client.give(self._counted)
            self._counted = 0

    def _write(self, messages: list[bytes]) -> None:
        if not self._writer.is_closing():
            messages.append(b"")
            data = b"\n".join(messages)
            if not self._enlarged and len(data) >= LARGE:
                self._enlarged = True
                enlarge(self._writer)
            if not self._unmaps and len(data) >= LARGE_BLOCK:
                self._unmaps = True
                unmap_large_blocks()
            self._writer.write(data)

    async def drain(self) -> None:
        """Wait until the client reads again (backpressure)."""
        if self._burst >= BURST:
            self._burst = 0
            await asyncio.sleep(0)
        await self._may_write.wait()

    def pause(self, retry: int | None = None) -> None:
        """Do nothing: the only stream stays open."""

    def stop_reading(self) -> None:
        """Stop reading messages. Messages held back for a slow reader are released before streams are ended."""
        self._reader.close()
        self._unanswered.clear()
        self._release()  # written by ``close``

    async def close(self, grace: float) -> None:
        """Wait for requests in flight, write all remaining output, and close the writer."""
        await self._dispatcher.close(grace)
        self._release()
        self._flush(all=True)
        self._writer.close()


class Nowhere:
    """Null writer that replaces a writer whose reader is gone."""

    def is_closing(self) -> bool:
        """Return True: nothing can be written any more."""
        return True

    def close(self) -> None:
        """Do nothing."""


class WritingEnd(asyncio.Protocol):
    """asyncio protocol of standard output: forwards flow control and connection loss to ``Stdio``."""

    def __init__(self, stdio: Stdio, closed: asyncio.Event) -> None:
        self.pause_writing = stdio.pause_writing  # type: ignore[method-assign]
        self.resume_writing = stdio.resume_writing  # type: ignore[method-assign]
        self._stdio = stdio
        self._closed = closed

    def connection_lost(self, error: Exception | None) -> None:
        self._closed.set()
        self._stdio.writing_closed()


def claim() -> tuple[int, int]:
    """Reserve standard input and output for the protocol, and return duplicates of their file descriptors.

    Afterwards file descriptor 1 is standard error, here and in child processes, and 0 is empty.

    Raises:
        ConfigError: one of the standard streams is closed.
    """
    if None in (sys.__stdin__, sys.__stdout__, sys.__stderr__):  # their descriptors may be in use for other files
        raise ConfigError("standard input, output and error must be open")
    held_output.release(2)
    source, target = os.dup(0), os.dup(1)
    os.dup2(2, 1)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    if sys.stdout is not None:
        sys.stdout.flush()  # earlier buffered output goes to standard error too
        if hasattr(sys.stdout, "reconfigure"):
            sys.stdout.reconfigure(line_buffering=True)
            with suppress(OSError):  # for a regular file, which has a position
                sys.stdout.reconfigure(errors="backslashreplace")  # as standard error does
    if sys.platform == "win32":
        import msvcrt

        msvcrt.setmode(source, os.O_BINARY)
        msvcrt.setmode(target, os.O_BINARY)
    return source, target


async def _start_reading(loop: asyncio.AbstractEventLoop, source: int, stdio: Stdio, *, shared: bool) -> None:
    mode = os.fstat(source).st_mode
    if stat.S_ISFIFO(mode) and sys.platform != "win32":
        await loop.connect_read_pipe(lambda: stdio, os.fdopen(source, "rb", 0))
    elif stat.S_ISSOCK(mode) and not shared:  # Node and others use socket pairs for child processes
        await loop.create_connection(lambda: stdio, sock=socket.socket(fileno=source))
    else:
        ThreadReader(source, stdio)


async def _start_writing(loop: asyncio.AbstractEventLoop, target: int, ending: WritingEnd, *, shared: bool) -> Any:
    mode = os.fstat(target).st_mode
    if sys.platform == "win32" or shared or not (stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode)):
        return ThreadWriter(target, ending)
    writer, _ = await loop.connect_write_pipe(lambda: ending, os.fdopen(target, "wb", 0))
    writer.set_write_buffer_limits(high=HIGH_WATER)
    return writer


async def serve(served: HasEndpoint, source: int, target: int, *, grace: float = GRACE) -> None:
    """Serve the client on two file descriptors, until it closes its end or SIGTERM or SIGINT arrives.

    The file descriptors are closed at the end. ``grace`` is in seconds.
    """
    loop, app = asyncio.get_running_loop(), served.endpoint
    await app.start()
    try:
        stdio = Stdio(app)
        closed = asyncio.Event()
        shared = os.path.samestat(os.fstat(source), os.fstat(target))  # one socket for both: transports would clash
        writer = await _start_writing(loop, target, WritingEnd(stdio, closed), shared=shared)
        stdio.open(writer)
        signals = _listen_to_signals(loop, stdio.ended)
        try:
            await _start_reading(loop, source, stdio, shared=shared)
            await stdio.ended.wait()
            stdio.stop_reading()
            app.end_streams()
            await stdio.close(grace)
            try:
                await asyncio.wait_for(closed.wait(), grace)  # flush the write buffer
            except TimeoutError:
                if hasattr(writer, "abort"):
                    writer.abort()
        finally:
            for number in signals:
                loop.remove_signal_handler(number)
    finally:
        await app.stop()


def _listen_to_signals(loop: asyncio.AbstractEventLoop, ended: asyncio.Event) -> list[signal.Signals]:
    """Handle SIGTERM and SIGINT like end of file, where signal handlers are supported; return those handled."""
    handled: list[signal.Signals] = []
    for number in (signal.SIGTERM, signal.SIGINT):
        try:
            loop.add_signal_handler(number, ended.set)
        except (NotImplementedError, RuntimeError, ValueError):
            continue  # Windows, or not the main thread
        handled.append(number)
    return handled


async def run_async(app: HasEndpoint) -> None:
    """Serve ``app`` on the standard streams of this process until the client disconnects."""
    source, target = claim()
    await serve(app, source, target)


def run(app: HasEndpoint) -> None:
    """Serve ``app`` on the standard streams of this process, in a new event loop."""
    process.run(run_async(app))
