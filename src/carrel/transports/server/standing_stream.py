"""SSE streams of GET requests: messages to the client of a session that belong to no request.

They have no separate log. An event id contains the bus position up to which the client has received all changes
(``carrel.protocol.event_ids``). A client that resumes with it receives the later messages of its session from the bus.
If the bus has deleted some of them, the client is notified that everything may have changed.

https://modelcontextprotocol.io/specification/2025-11-25/basic/transports#resumability-and-redelivery
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence

import msgspec

from carrel.protocol.channel import ConnectedClient
from carrel.protocol.event_ids import EventId, encode_event_id, name_stream
from carrel.protocol.http import event
from carrel.state.records import Changed, Notice, SessionMessage
from carrel.transports.server.application import Application
from carrel.transports.server.streams import Stream

__all__ = ["Missed", "StandingEvents", "StandingStream"]


class Missed(msgspec.Struct):
    """Backlog of a client: changes (None if all may have changed), and messages with their keys."""

    changes: list[Changed] | None
    messages: Sequence[tuple[bytes, Hashable]] = ()


class StandingEvents:
    """Event ids of the standing streams of a server, and what clients have missed since one."""

    def __init__(self, app: Application) -> None:
        self._app = app
        self._replica = app.replica

    def name(self, number: int) -> str:
        """Return the name of a stream of this replica."""
        return name_stream(self._replica.state.slot, number, standing=True)

    def id(self, stream: str, position: int | None = None) -> str:
        """Return the id of an event: all changes up to a position, by default of now, have been sent before it."""
        position = self._app.position() if position is None else position
        return encode_event_id(stream, position, self._replica.state.bus_name)

    async def since(self, session: str, last: EventId) -> Missed:
        """Return the messages that a session's client has missed since an event.

        Raises:
            ServerUnavailable: the store has failed.
        """
        notices: list[Notice] | None = None
        if last.bus == self._replica.state.bus_name:
            notices = await self._replica.since(last.number, last.slot)
        if notices is None:
            return Missed(None)
        messages = [
            (notice.message, notice.message if notice.key is None else notice.key)
            for notice in notices
            if isinstance(notice, SessionMessage) and notice.session == session
        ]
        return Missed([notice for notice in notices if isinstance(notice, Changed)], messages)


class StandingStream(Stream):
    """SSE stream of a GET request. Its events have ids if there are ``events``.

    ``resumed`` is the position up to which a client that resumes has got all.
    """

    __slots__ = ("_ids", "_resumed", "name")
    standing = True

    def __init__(
        self,
        owner: ConnectedClient,
        name: str = "",
        events: StandingEvents | None = None,
        *,
        primed: bool = False,
        resumed: int | None = None,
    ) -> None:
        super().__init__(owner, primed=primed)
        self.name = name
        self._ids = events
        self._resumed = resumed

    async def opening(self, after: int | None = None) -> bytes:
        """Return the priming event. While messages are pending, its id says that the client has received none."""
        if self._ids is None or not self.primed:
            return b""
        position = None if self.idle else self._resumed or 0
        return event(b"", self._ids.id(self.name, position), self.retry)

    def _event(self, message: bytes) -> bytes:
        return event(message, "" if self._ids is None else self._ids.id(self.name))

    def _events(self, messages: list[bytes]) -> list[bytes]:
        """Encode messages as events. Only the last one has an id, as a client may get fewer of them."""
        return [*map(event, messages[:-1]), *map(self._event, messages[-1:])]

    def pause(self, retry: int | None = None) -> None:
        """Close the connection: the client is to reconnect after ``retry`` ms, if its revision has this."""
        if self._ids is not None and self.primed and not self.disconnected:
            self.retry = retry
            self.expire()
