"""Subprocess protocol of the stdio client: line-based standard streams, and detection of the exit of the child."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable, Generator
from contextlib import suppress
from functools import partial
from typing import Any

from carrel.protocol.encoding import LF
from carrel.protocol.results import begins_response
from carrel.transports.client.process_group import ProcessGroup
from carrel.transports.lines import Lines
from carrel.transports.pipes import LARGE, enlarge

__all__ = ["ProcessPipes", "describe"]

#: High-water mark of the write buffer, in bytes: beyond it, senders have to wait for the child to read.
HIGH_WATER = 1024 * 1024

#: How many bytes are read at a time, as many as a pipe holds. For 256 KiB, which asyncio would read, memory is mapped
#: and unmapped each time, and that costs as much as the rest of handling a response.
READ_SIZE = 64 * 1024

#: How much of standard error is kept, in bytes.
KEPT = 64 * 1024

#: How much of a response that is too long is skipped, so that only its request fails: times the longest message.
MOST_SKIPPED = 16

#: How many bytes may wait until the child reads them. Requests beyond that fail, and notifications are dropped.
MAX_UNREAD = 64 * 1024 * 1024

#: Bytes per second that are read of the child's standard error, and how many at once before that.
ERROR_RATE, ERROR_BURST = 2 * 1024 * 1024, 8 * 1024 * 1024

#: Seconds to wait for remaining output after the child has exited or closed a stream.
LAST_WORDS = 0.5

#: Seconds to wait for a killed child to exit.
KILLED = 2.0


class Room:
    """Awaitable that resolves when the write buffer has room. Awaiting it is optional (backpressure)."""

    __slots__ = ("event",)

    def __init__(self) -> None:
        self.event = asyncio.Event()
        self.event.set()

    def __await__(self) -> Generator[Any, Any, None]:
        yield from self.event.wait().__await__()


class ProcessPipes(asyncio.SubprocessProtocol):
    """Subprocess protocol for the three standard streams of a child and its exit.

    ``receive`` is called with each line that is not blank, and may return the seconds for which nothing is to be read;
    ``fail`` with the reason when the child has exited or its streams are unusable. ``too_long`` is called with the
    beginning and the end of a message that is too long, and returns whether reading may continue after it. (With
    uvloop, a stream that only the child has closed is not noticed before the child has exited: uvloop keeps the child's
    end open too.)
    """

    def __init__(
        self,
        receive: Callable[[bytes], float | None],
        fail: Callable[[str], None],
        too_long: Callable[[bytes, bytes], bool],
        max_message: int,
        stderr: Callable[[str], object] | None,
    ) -> None:
        self.group: ProcessGroup | None = None
        self.exited = asyncio.Event()
        self.errors = bytearray()
        self._receive = receive
        self._fail = fail
        self._too_long = too_long
        self._lines = Lines(max_message, keep_ends=True)
        self._max_message = max_message
        self._stderr = stderr
        self._error_lines = Lines(KEPT)
        self._closed = asyncio.Event()
        self._held: list[bytes | None] = []
        self._pause: asyncio.TimerHandle | None = None
        self._errors_left = float(ERROR_BURST)
        self._errors_read = 0.0
        self._open: set[Any] = {"stdout", "stderr", "process"}
        self._signs: list[str] = []
        self._last_words: asyncio.TimerHandle | None = None
        self._leaving: list[bytes] = []
        self._size = 0
        self._paused = False
        self._large_requests = self._large_responses = False
        self._room = Room()
        self._loop: Any = None
        self._transport: Any = None
        self._stdin: Any = None

    def connection_made(self, transport: Any) -> None:
        self._loop = asyncio.get_running_loop()
        self._transport = transport
        self._errors_read = self._loop.time()
        self._stdin = transport.get_pipe_transport(0)
        if not self._stdin.is_closing():  # as it is with uvloop when the child has ended by now
            self._stdin.set_write_buffer_limits(high=HIGH_WATER)
        stdout = transport.get_pipe_transport(1)
        if hasattr(stdout, "max_size"):  # only on transports of asyncio itself
            stdout.max_size = READ_SIZE
        self.group = ProcessGroup(transport.get_pid())

    # Writing

    def write(self, data: bytes) -> Room | None:
        """Write a line at the end of this event loop iteration; return an awaitable if the write buffer is full."""
        if LF in data:  # whitespace between tokens of JSON from another encoder
            data = data.replace(b"\n", b" ").replace(b"\r", b" ")
        if not self._leaving:
            self._loop.call_soon(self._flush)
        self._leaving.append(data)
        self._size += len(data)
        if self._paused or self._size > HIGH_WATER:
            self._room.event.clear()
            return self._room
        return None

    @property
    def overfull(self) -> bool:
        """Whether ``MAX_UNREAD`` bytes wait until the child reads them."""
        return self._paused and self._size + self._stdin.get_write_buffer_size() > MAX_UNREAD

    def _flush(self) -> None:
        leaving, self._leaving, self._size = self._leaving, [], 0
        if leaving and not self._stdin.is_closing():
            leaving.append(b"")
            data = b"\n".join(leaving)
            if len(data) >= LARGE and not self._large_requests:
                self._large_requests = True
                enlarge(self._stdin)
            self._stdin.write(data)
        if not self._paused:
            self._room.event.set()

    def pause_writing(self) -> None:
        self._paused = True

    def resume_writing(self) -> None:
        self._paused = False
        self._room.event.set()

    def finish(self) -> None:
        """Flush the write buffer and close the child's standard input."""
        self._flush()
        self._stdin.close()

    # Reading

    def pipe_data_received(self, fd: int, data: bytes) -> None:
        if fd != 1:
            self._take_errors(data)
            return
        if len(data) >= READ_SIZE and not self._large_responses:
            self._large_responses = True
            enlarge(self._transport.get_pipe_transport(1))
        lines = self._lines.feed(data)
        if self._pause is not None:
            self._held += lines
            return
        self._pass_on(lines)

    def _pass_on(self, lines: list[bytes | None]) -> None:
        """Pass on received lines, up to one after which the receiver wants a pause: then the child has to wait."""
        receive = self._receive
        for number, line in enumerate(lines):
            if line is None:
                if self._too_long(*self._lines.ends.pop(0)):
                    continue
                break
            if line and not line.isspace():
                pause = receive(line)
                if pause is not None:
                    self._held = lines[number + 1 :]
                    self._read(1, on=False)
                    self._pause = self._loop.call_later(pause, self._go_on)
                    return
        else:
            if not self._lines.skipping or self._may_skip():
                return
        self._fail(f"has sent a message of more than {self._max_message} bytes (max_message)")

    def _may_skip(self) -> bool:
        """Return whether the rest of a message that is too long can be skipped: it is a response, and has an end."""
        return begins_response(self._lines.head) and self._lines.skipped <= MOST_SKIPPED * self._max_message

    def _go_on(self) -> None:
        """Pass on the lines that were held, and read again."""
        self._pause = None
        held, self._held = self._held, []
        self._pass_on(held)
        if self._pause is None:
            self._read(1, on=True)

    def _read(self, fd: int, *, on: bool) -> None:
        """Begin or stop to read a stream of the child."""
        pipe = self._transport.get_pipe_transport(fd)
        if pipe is not None and not pipe.is_closing():
            pipe.resume_reading() if on else pipe.pause_reading()

    def _take_errors(self, data: bytes) -> None:
        self.errors += data
        if len(self.errors) > KEPT:
            del self.errors[:-KEPT]
        if self._stderr is not None:
            self._pass_errors(self._error_lines.feed(data))
        self._errors_left -= len(data)
        if self._errors_left < 0:
            now = self._loop.time()
            self._errors_left = min(self._errors_left + (now - self._errors_read) * ERROR_RATE, ERROR_BURST)
            self._errors_read = now
            if self._errors_left < 0:  # a flood: the child waits, and not those beside it
                self._read(2, on=False)
                self._loop.call_later(-self._errors_left / ERROR_RATE, partial(self._read, 2, on=True))

    def _pass_errors(self, lines: list[bytes | None]) -> None:
        for line in lines:
            text = f"(a line of more than {KEPT} bytes)" if line is None else line.decode(errors="replace").rstrip("\r")
            try:
                self._stderr(text)  # type: ignore[misc]
            except Exception as error:  # a failing callback does not end the connection
                self._loop.call_exception_handler(
                    {"message": "the callback for standard error failed", "exception": error}
                )

    # Exit of the child

    def pipe_connection_lost(self, fd: int, exc: Exception | None) -> None:
        if fd == 0:
            self.resume_writing()
            self._see("has closed its standard input", None)
        elif fd == 1:
            for line in (*self._held, *self._lines.finish()):
                if line:
                    self._receive(line)
            self._held = []
            self._see("has closed its standard output", "stdout")
        else:
            if self._stderr is not None:
                self._pass_errors(self._error_lines.finish())
            self._open.discard("stderr")
            self._see(None, "stderr")

    def process_exited(self) -> None:
        self.exited.set()
        if self.group is not None:
            self.group.leave()
        self._see(describe(self._transport.get_returncode()), "process")

    def connection_lost(self, exc: Exception | None) -> None:
        self._closed.set()

    def _see(self, sign: str | None, what: str | None) -> None:
        """Record an exit or a closed stream. The others follow soon, unless another process holds the streams too."""
        self._open.discard(what)
        if sign is not None:
            self._signs.insert(0 if what == "process" else len(self._signs), sign)
        if not self._signs:
            return
        if not self._open:
            self._give_up()
        elif self._last_words is None:
            self._last_words = self._loop.call_later(LAST_WORDS, self._give_up)

    def _give_up(self) -> None:
        if self._last_words is not None:
            self._last_words.cancel()
        self._fail(self._signs[0])

    async def close(self) -> None:
        """Wait for the exit of the child, which has been killed, and close its streams."""
        with suppress(TimeoutError):
            async with asyncio.timeout(KILLED):
                await self.exited.wait()
        self._room.event.set()
        if self._pause is not None:
            self._pause.cancel()
        if self._stdin.get_write_buffer_size():  # the child does not read any more
            self._stdin.abort()
        self._transport.close()
        with suppress(TimeoutError):
            async with asyncio.timeout(KILLED):
                await self._closed.wait()
        if self._last_words is not None:
            self._last_words.cancel()


def describe(status: int) -> str:
    """Return a description of the exit status of a process."""
    if status >= 0:
        return f"has ended with exit status {status}"
    try:
        return f"was ended by {signal.Signals(-status).name}"
    except ValueError:
        return f"was ended by signal {-status}"
