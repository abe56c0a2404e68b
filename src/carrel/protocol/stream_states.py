"""States of the SSE streams of a Streamable HTTP server, and of their resumption, as tables without I/O.

A stream has a connection, content and, if it is resumable, events that are kept for replay. Each has its own states.
``docs/architecture.md`` walks through a stream that a client resumes.

https://modelcontextprotocol.io/specification/2025-11-25/basic/transports#resumability-and-redelivery
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum

__all__ = ["FOLLOWING", "TRANSITIONS", "FollowStep", "Following", "StreamStates", "StreamStep"]


class StreamConnection(Enum):
    """State of the connection of a stream."""

    NONE = "none"
    """There was no connection yet. Messages are buffered."""
    CLOSE_AFTER_OPENING = "close after opening"
    """There was no connection yet, and the first one will be closed."""
    CONNECTED = "connected"
    CLOSING = "closing"
    """The connection is closed after the buffered messages. The client may resume the stream."""
    ABORTED = "aborted"
    """The connection is closed without the buffered messages, because its client reads too slowly."""
    DISCONNECTED = "disconnected"
    """The last connection is closed. Messages are kept for replay if the stream is resumable, and dropped otherwise."""


class StreamContent(Enum):
    """State of the content of a stream."""

    OPEN = "open"
    ENDING = "ending"
    """The replica that writes the stream is gone: the events in the log are the last ones."""
    COMPLETE = "complete"
    """No message will follow."""


class StreamReplay(Enum):
    """State of the events that are kept for a client that resumes a stream."""

    NONE = "none"
    """The stream is not resumable: its events have no ids, or another replica keeps them."""
    KEPT = "kept"
    DROPPED = "dropped"
    """The stream cannot be resumed any more."""


class StreamStep(Enum):
    """Steps that change the state of a stream."""

    ATTACH = "attach"
    """A connection begins to send the stream. It replaces the previous one, if any."""
    CLOSE = "close"
    """The connection is to be closed: the handler asks the client to reconnect, a token expires, or the like."""
    ABORT = "abort"
    """The client reads too slowly, and has exceeded its budget or a timeout."""
    DETACH = "detach"
    """The connection is closed."""
    END = "end"
    """The replica that writes the stream is gone."""
    COMPLETE = "complete"
    """The response has been sent, or the session has ended."""
    DROP = "drop"
    """The events kept for replay are dropped."""


State = StreamConnection | StreamContent | StreamReplay

#: The state after each step. A step that is not in the row of a state is a bug in that state.
TRANSITIONS: Mapping[State, Mapping[StreamStep, State]] = {
    StreamConnection.NONE: {
        StreamStep.ATTACH: StreamConnection.CONNECTED,
        StreamStep.CLOSE: StreamConnection.CLOSE_AFTER_OPENING,
        StreamStep.ABORT: StreamConnection.ABORTED,
    },
    StreamConnection.CLOSE_AFTER_OPENING: {
        StreamStep.ATTACH: StreamConnection.CLOSING,
        StreamStep.CLOSE: StreamConnection.CLOSE_AFTER_OPENING,
        StreamStep.ABORT: StreamConnection.ABORTED,
    },
    StreamConnection.CONNECTED: {
        StreamStep.ATTACH: StreamConnection.CONNECTED,
        StreamStep.CLOSE: StreamConnection.CLOSING,
        StreamStep.ABORT: StreamConnection.ABORTED,
        StreamStep.DETACH: StreamConnection.DISCONNECTED,
    },
    StreamConnection.CLOSING: {
        StreamStep.ATTACH: StreamConnection.CONNECTED,  # the client reconnects before the old connection is closed
        StreamStep.CLOSE: StreamConnection.CLOSING,
        StreamStep.ABORT: StreamConnection.ABORTED,
        StreamStep.DETACH: StreamConnection.DISCONNECTED,
    },
    StreamConnection.ABORTED: {
        StreamStep.ATTACH: StreamConnection.ABORTED,
        StreamStep.CLOSE: StreamConnection.ABORTED,
        StreamStep.ABORT: StreamConnection.ABORTED,
        StreamStep.DETACH: StreamConnection.DISCONNECTED,
    },
    StreamConnection.DISCONNECTED: {
        StreamStep.ATTACH: StreamConnection.CONNECTED,
        StreamStep.CLOSE: StreamConnection.DISCONNECTED,
        StreamStep.ABORT: StreamConnection.DISCONNECTED,
    },
    StreamContent.OPEN: {
        StreamStep.END: StreamContent.ENDING,
        StreamStep.COMPLETE: StreamContent.COMPLETE,
    },
    StreamContent.ENDING: {
        StreamStep.END: StreamContent.ENDING,
        StreamStep.COMPLETE: StreamContent.COMPLETE,
    },
    StreamContent.COMPLETE: {
        StreamStep.END: StreamContent.COMPLETE,
        StreamStep.COMPLETE: StreamContent.COMPLETE,
    },
    StreamReplay.NONE: {StreamStep.DROP: StreamReplay.DROPPED},
    StreamReplay.KEPT: {StreamStep.DROP: StreamReplay.DROPPED},
    StreamReplay.DROPPED: {StreamStep.DROP: StreamReplay.DROPPED},
}

_CONTENT_STEPS = (StreamStep.END, StreamStep.COMPLETE)

# The states of every request over HTTP: a global is found faster than a member of an enumeration.
_UNCONNECTED, _CONNECTED, _DISCONNECTED = (
    StreamConnection.NONE,
    StreamConnection.CONNECTED,
    StreamConnection.DISCONNECTED,
)
_OPEN, _COMPLETE = StreamContent.OPEN, StreamContent.COMPLETE
_KEPT, _NOT_KEPT = StreamReplay.KEPT, StreamReplay.NONE


class StreamStates:
    """States of one stream: of its connection, of its content, and of the events kept for replay."""

    __slots__ = ("connection", "content", "replay")

    def __init__(self, resumable: bool = False) -> None:
        self.connection = _UNCONNECTED
        self.content = _OPEN
        self.replay = _KEPT if resumable else _NOT_KEPT

    def step(self, step: StreamStep) -> None:
        """Change the state that a step concerns.

        Raises:
            KeyError: the step is not possible in this state.
        """
        if step in _CONTENT_STEPS:
            self.content = TRANSITIONS[self.content][step]  # type: ignore[assignment]
        elif step is StreamStep.DROP:
            self.replay = TRANSITIONS[self.replay][step]  # type: ignore[assignment]
        else:
            self.connection = TRANSITIONS[self.connection][step]  # type: ignore[assignment]

    @property
    def disconnected(self) -> bool:
        """Whether the last connection is closed."""
        return self.connection is StreamConnection.DISCONNECTED

    @property
    def aborted(self) -> bool:
        """Whether the connection is closed because its client reads too slowly."""
        return self.connection is StreamConnection.ABORTED

    @property
    def closing(self) -> bool:
        """Whether the connection, or the first one, is closed after the buffered messages."""
        state = self.connection
        return state is StreamConnection.CLOSING or state is StreamConnection.CLOSE_AFTER_OPENING

    @property
    def complete(self) -> bool:
        """Whether no message will follow."""
        return self.content is _COMPLETE

    @property
    def undisturbed(self) -> bool:
        """Whether the stream is not complete, and its connection is not to be closed."""
        state = self.connection
        open = state is _UNCONNECTED or state is _CONNECTED or state is _DISCONNECTED
        return open and self.content is not _COMPLETE

    @property
    def dropped(self) -> bool:
        """Whether the stream cannot be resumed any more."""
        return self.replay is StreamReplay.DROPPED

    @property
    def replay_only(self) -> bool:
        """Whether the stream is complete and disconnected, and exists only for a client that may resume it."""
        return self.replay is StreamReplay.KEPT and self.complete and self.disconnected


class Following(Enum):
    """State of a stream that follows the log that another replica writes."""

    OPENING = "opening"
    """The events that the client missed are being read."""
    OPENING_STALE = "opening, stale"
    """New events were logged meanwhile."""
    UP_TO_DATE = "up to date"
    READING = "reading"
    """New events are being read."""
    READING_STALE = "reading, stale"
    """Newer events were logged meanwhile."""


class FollowStep(Enum):
    """Steps that change the state of a stream that follows a log."""

    NOTICE = "notice"
    """The other replica has logged events."""
    READ = "read"
    """The log has been read."""
    FAIL = "fail"
    """The log cannot be read: the client has to resume again."""


#: The state after each step. A step that is not in the row of a state is a bug in that state.
FOLLOWING: Mapping[Following, Mapping[FollowStep, Following]] = {
    Following.OPENING: {FollowStep.NOTICE: Following.OPENING_STALE, FollowStep.READ: Following.UP_TO_DATE},
    Following.OPENING_STALE: {FollowStep.NOTICE: Following.OPENING_STALE, FollowStep.READ: Following.READING},
    Following.UP_TO_DATE: {FollowStep.NOTICE: Following.READING},
    Following.READING: {
        FollowStep.NOTICE: Following.READING_STALE,
        FollowStep.READ: Following.UP_TO_DATE,
        FollowStep.FAIL: Following.UP_TO_DATE,
    },
    Following.READING_STALE: {
        FollowStep.NOTICE: Following.READING_STALE,
        FollowStep.READ: Following.READING,
        FollowStep.FAIL: Following.UP_TO_DATE,
    },
}
