"""Log of every message between a server and its clients, on any transport: as readable lines, or as JSON.

12:01:07.402  ->  tools/call add              #3  118 B
12:01:07.404  <-  tools/call add              #3   96 B  2.1 ms
"""

from __future__ import annotations

import asyncio
import os
import sys
import time
from collections.abc import Awaitable, Callable, Hashable
from typing import TYPE_CHECKING, Any

import msgspec

from carrel.awaitables import is_awaitable
from carrel.cli.terminal.output import duration
from carrel.printable import printable, printable_json
from carrel.protocol.connection import FailedRequest, Response
from carrel.protocol.server import Call, ClientBatch, ClientNotification, ErrorResponse, Event, ServerProtocol

if TYPE_CHECKING:
    from carrel.protocol.channel import Channel, ConnectedClient
    from carrel.server.endpoint import ServerEndpoint

__all__ = ["LoggedConnection", "MessageLog"]

#: Colours by type of message: requests, responses, notifications, errors.
COLOURS = {"in": "36", "out": "32", "note": "33", "error": "31"}
METHOD = 40


class Envelope(msgspec.Struct):
    """Members of a message that the log shows."""

    id: Any = None
    method: str | None = None
    error: dict[str, Any] | None = None


class MessageLog:
    """Message log on standard error. With ``raw``, each message is a line of JSON: time, direction and the message."""

    def __init__(self, *, raw: bool = False, write: Callable[[str], object] | None = None) -> None:
        self._raw = raw
        self._write = write or sys.stderr.write
        self._coloured = write is None and sys.stderr.isatty() and "NO_COLOR" not in os.environ

    def received(self, data: bytes | memoryview, event: Event) -> None:
        """Log a client message, how it was classified, and the error response if it was rejected."""
        if self._raw:
            self._line_of_json("in", bytes(data))
        elif type(event) is Call:
            self._line("in", "->", f"{event.method} {target_of(event)}", event.id, len(data))
        elif type(event) is ClientNotification:
            self._line("note", "->", f"{event.operation}", None, len(data))
        elif type(event) is Response or type(event) is FailedRequest:
            self._line("in", "->", "response", None, len(data))
        elif type(event) is ClientBatch:
            self._line("in", "->", f"batch of {len(event.events)}", None, len(data))
        else:
            self._line("error", "->", "message that is not valid", None, len(data))
        if type(event) is ErrorResponse:
            self.sent(event.reply)

    def answered(self, call: Call, reply: object, started: float) -> None:
        """Log the response to a call. ``reply`` is None if the call was cancelled."""
        data = reply.reply if isinstance(reply, ErrorResponse) else reply
        if isinstance(data, bytes):
            self.sent(data, f"{call.method} {target_of(call)}", time.perf_counter() - started)
        elif not self._raw:
            self._line("error", "--", f"{call.method} {target_of(call)}", call.id, None, "cancelled")

    def sent(self, data: bytes, about: str | None = None, seconds: float | None = None) -> None:
        """Log a message to a client: a response, a notification or a server request."""
        if self._raw:
            self._line_of_json("out", data)
            return
        try:
            message = msgspec.json.decode(data, type=Envelope)
        except msgspec.DecodeError:  # a batch
            message = Envelope(method="batch")
        took = "" if seconds is None else duration(seconds)
        if message.error is not None:
            text = f"{message.error.get('code')} {message.error.get('message')}"
            self._line("error", "<-", about or "error", message.id, len(data), f"{took}  {printable(text)}".strip())
        elif about is None:
            self._line("note", "<-", message.method or "response", message.id, len(data))
        else:
            failed = "  tool error" if b'"isError":true' in data else ""
            self._line("error" if failed else "out", "<-", about, message.id, len(data), took + failed)

    def _line(self, kind: str, arrow: str, about: str, id: object, size: int | None, details: str = "") -> None:
        number = "" if id is None else f"#{printable(id, 20)}"
        amount = "" if size is None else f"{size} B"
        line = f"{printable(about, 100):<{METHOD}} {number:>5} {amount:>9}  {details}".rstrip()
        before, after = (f"\x1b[{COLOURS[kind]}m", "\x1b[0m") if self._coloured else ("", "")
        self._write(f"{clock()}  {before}{arrow}  {line}{after}\n")

    def _line_of_json(self, direction: str, data: bytes) -> None:
        try:
            message: object = msgspec.Raw(data) if msgspec.json.decode(data) is not None else None
        except (msgspec.DecodeError, UnicodeDecodeError):
            message = data.decode("utf-8", "backslashreplace")
        entry = {"time": clock(), "direction": direction, "message": message}
        self._write(f"{printable_json(msgspec.json.encode(entry).decode())}\n")

    def watch(
        self, answer: Callable[[Call, Channel], Any]
    ) -> Callable[[Call, Channel], bytes | ErrorResponse | Awaitable[Any]]:
        """Wrap the function ``answer`` of a server, logging its responses and the messages sent during the call."""

        def logged(call: Call, channel: Channel) -> Any:
            started, client = time.perf_counter(), call.client
            self.follow(client)
            reply = answer(call, LoggedChannel.around(channel, self))
            if isinstance(reply, asyncio.Future):
                reply.add_done_callback(
                    lambda done: self.answered(call, None if done.cancelled() else done.result(), started)
                )
                return reply
            if is_awaitable(reply):
                return self._later(call, reply, started)
            self.answered(call, reply, started)
            return reply

        return logged

    def follow(self, client: ConnectedClient) -> None:
        """Log the messages to a client that belong to no request."""
        if client.channel is not None:
            client.channel = LoggedChannel.around(client.channel, self)

    async def _later(self, call: Call, pending: Awaitable[Any], started: float) -> Any:
        reply = None
        try:
            reply = await pending
            return reply
        finally:
            self.answered(call, reply, started)


class LoggedChannel:
    """Channel that logs its messages. Other attributes of the transport's channel are passed through."""

    def __init__(self, channel: Channel, log: MessageLog) -> None:
        self._channel = channel
        self._log = log

    @classmethod
    def around(cls, channel: Channel, log: MessageLog) -> Channel:
        """Wrap a channel, unless it is already logged."""
        return channel if isinstance(channel, LoggedChannel) else cls(channel, log)

    def send(self, message: bytes, key: Hashable = None) -> None:
        """Log a message and send it."""
        self._log.sent(message)
        self._channel.send(message, key)

    def drain(self) -> Awaitable[None]:
        """Wait until the queue is sent."""
        return self._channel.drain()

    def pause(self, retry: int | None = None) -> None:
        """Have the client reconnect later."""
        self._channel.pause(retry)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._channel, name)


class LoggedConnection(ServerProtocol):
    """Connection that logs incoming messages."""

    __slots__ = ("_log",)

    def __init__(self, endpoint: ServerEndpoint, log: MessageLog) -> None:
        self._log = log
        super().__init__(endpoint.description)

    def receive(self, data: bytes | memoryview) -> Event:
        """Decode one message or batch, and log it."""
        event = super().receive(data)
        self._log.received(data, event)
        return event


def target_of(call: Call) -> str:
    """Return the target of a request: a tool, a prompt or a URI; for ``initialize``, the client name and version."""
    if call.request.method == "initialize":
        client = call.params.client_info
        return f"{client.name} {client.version}"
    target = call.request.find_target(call.params)
    return target if isinstance(target, str) else ""


def clock() -> str:
    now = time.time()
    return f"{time.strftime('%H:%M:%S', time.localtime(now))}.{int(now % 1 * 1000):03d}"
