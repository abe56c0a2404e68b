"""Messages from the handler of a request to its client: progress, log messages, and ends of elicitations."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Generator
from math import isfinite
from typing import TYPE_CHECKING, Any, cast

from carrel.catalog.task_channel import task_of
from carrel.protocol.encoding import encode_event
from carrel.wire.base import LoggingLevel
from carrel.wire.client_features import ElicitationCompleteParams
from carrel.wire.utilities import SEVERITY, LoggingMessageParams, ProgressParams

if TYPE_CHECKING:
    from carrel.protocol.channel import Channel
    from carrel.protocol.server import Call
    from carrel.server.task_interface import RunningTask

__all__ = ["ClientMessages", "Sent"]


class Sent:
    """A message that was sent. Awaiting it waits for a slow reader (backpressure); not awaiting it is fine too."""

    __slots__ = ("_channel",)

    def __init__(self, channel: Channel | None) -> None:
        self._channel = channel

    def __await__(self) -> Generator[Any, None, None]:
        if self._channel is not None:
            yield from self._channel.drain().__await__()


class ClientMessages:
    """Sender of messages to the client of a request: base of ``Context``."""

    __slots__ = ("_call", "_channel", "_loop", "_over", "_progress", "_thread")

    def __init__(self, call: Call, channel: Channel) -> None:
        self._call = call
        self._channel = channel
        self._over = False
        """Whether the handler has ended, or was cancelled: then no more messages are sent."""
        self._loop = asyncio.get_running_loop()
        self._thread = threading.get_ident()
        self._progress: float | None = None

    @property
    def task(self) -> RunningTask | None:
        """The task that the call has become."""
        return cast("RunningTask | None", task_of(self._channel))

    @property
    def _related(self) -> dict[str, Any] | None:
        """``_meta`` that names the task of a message; None without a task, and for stateless clients."""
        task = self.task
        if task is None or self._call.peer.revision.stateless:
            return None
        return {"io.modelcontextprotocol/related-task": {"taskId": task.id}}

    def elicitation_completed(self, id: str | None) -> Sent:
        """Notify the client that a URL mode elicitation is complete, even after the response to the call.

        ``id`` is the ``id`` of the ``Elicited``. For clients of other revisions than 2025-11-25 this is a no-op.
        https://modelcontextprotocol.io/specification/2025-11-25/client/elicitation#completion-notifications-for-url-mode-elicitation
        """
        call = self._call
        if id is None or "elicitation_complete" not in call.peer.revision.events:
            return Sent(None)
        message = encode_event(call.peer.revision, "elicitation_complete", ElicitationCompleteParams(elicitation_id=id))
        return self._send(message, call.client.channel if self._over and self.task is None else self._channel)

    def _send(self, message: bytes, channel: Channel | None = None) -> Sent:
        channel = channel or self._channel
        if threading.get_ident() == self._thread:
            channel.send(message)
            return Sent(channel)
        self._loop.call_soon_threadsafe(channel.send, message)
        return Sent(None)

    def pause_stream(self, retry: float | None = None) -> None:
        """Close the SSE stream of this call without ending the call: the client reconnects for its response.

        For long calls over HTTP from clients of 2025-11-25 with a session; otherwise nothing happens. ``retry`` is in
        seconds.
        https://modelcontextprotocol.io/specification/2025-11-25/basic/transports#sending-messages-to-the-server
        """
        milliseconds = None if retry is None else round(retry * 1000)
        if threading.get_ident() == self._thread:
            self._channel.pause(milliseconds)
        else:
            self._loop.call_soon_threadsafe(self._channel.pause, milliseconds)

    @property
    def _is_silent(self) -> bool:
        """Whether messages of the call are dropped: its handler or its task has ended."""
        task = self.task
        return self._over or (task is not None and task.over)

    def report_progress(self, progress: float, total: float | None = None, message: str | None = None) -> Sent:
        """Send a progress notification, if the client requested progress.

        ``progress`` must increase from call to call, in the unit of ``total``. Reports that do not increase, are not
        finite or arrive after the end of the call are dropped.
        https://modelcontextprotocol.io/specification/2026-07-28/basic/patterns/progress
        """
        if self._is_silent or not isfinite(progress):
            return Sent(None)
        if total is not None and not isfinite(total):
            total = None
        task, token = self.task, self._call.progress_token
        if task is not None and (token is None or self._call.peer.revision.stateless):
            share = "" if total is None else f" of {total:g}"
            self._loop.call_soon_threadsafe(task.say, message or f"{progress:g}{share}")
            return Sent(None)
        if token is None or (self._progress is not None and progress <= self._progress):
            return Sent(None)
        self._progress = progress
        params = ProgressParams(
            progress_token=token,
            progress=progress,
            meta=self._related,
            total=total,
            message=message,
        )
        return self._send(encode_event(self._call.peer.revision, "progress", params))

    def log(self, level: LoggingLevel, data: Any, logger: str | None = None) -> Sent:
        """Send a log message, if the client wants that level. ``data`` is any value that can be encoded as JSON.

        Messages after the end of the call are dropped.
        https://modelcontextprotocol.io/specification/2026-07-28/server/utilities/logging

        Raises:
            ValueError: there is no such level.
        """
        severity = SEVERITY.get(level)
        if severity is None:
            raise ValueError(f"{level!r} is not a log level; they are {', '.join(SEVERITY)}")
        threshold = self._call.peer.log_level
        if self._is_silent or threshold is None or severity < threshold:
            return Sent(None)
        params = LoggingMessageParams(meta=self._related, level=level, logger=logger, data=data)
        return self._send(encode_event(self._call.peer.revision, "message", params))

    def debug(self, data: Any, logger: str | None = None) -> Sent:
        """Send a log message of level debug: details for debugging."""
        return self.log("debug", data, logger)

    def info(self, data: Any, logger: str | None = None) -> Sent:
        """Send a log message of level info: normal operation."""
        return self.log("info", data, logger)

    def notice(self, data: Any, logger: str | None = None) -> Sent:
        """Send a log message of level notice: normal but significant events."""
        return self.log("notice", data, logger)

    def warning(self, data: Any, logger: str | None = None) -> Sent:
        """Send a log message of level warning: conditions that may become errors."""
        return self.log("warning", data, logger)

    def error(self, data: Any, logger: str | None = None) -> Sent:
        """Send a log message of level error: failed operations."""
        return self.log("error", data, logger)

    def critical(self, data: Any, logger: str | None = None) -> Sent:
        """Send a log message of level critical: failed components."""
        return self.log("critical", data, logger)

    def alert(self, data: Any, logger: str | None = None) -> Sent:
        """Send a log message of level alert: action must be taken at once."""
        return self.log("alert", data, logger)

    def emergency(self, data: Any, logger: str | None = None) -> Sent:
        """Send a log message of level emergency: the system is unusable."""
        return self.log("emergency", data, logger)
