"""Event log of the resumable streams of one session, in the state that replicas share."""

from __future__ import annotations

from carrel.limits import Limits
from carrel.state.records import Replay, TailLetter
from carrel.state.replica import Replica

__all__ = ["SessionLog"]


class SessionLog:
    """Events of the streams of one session, as the replica that writes them or another one sees them.

    Events are kept for ``session_ttl`` after the last one if they are not dropped before.
    """

    __slots__ = ("_followers", "_limits", "_replica", "_session")

    def __init__(self, replica: Replica, session: str, limits: Limits) -> None:
        self._replica = replica
        self._session = session
        self._limits = limits
        self._followers: dict[str, int] | None = None
        """Replicas on which clients have resumed streams of this one, by stream."""

    async def begin(self, stream: str) -> None:
        """Make a stream known to other replicas, before its client has an event id of it."""
        if self._replica.shared:
            self.append(stream, 0, b"", 0)
            await self._replica.written()

    def append(self, stream: str, number: int, event: bytes, oldest: int) -> None:
        """Append an event, and delete events with numbers below ``oldest``."""
        events = self._replica.state.events
        self._replica.write(events.append(self._session, stream, number, event, oldest, self._limits.session_ttl))
        self._notify(stream)

    def finish(self, stream: str) -> None:
        """Record that no event will follow."""
        self._replica.write(self._replica.state.events.finish(self._session, stream))
        self._notify(stream)

    def drop(self, stream: str) -> None:
        """Remove the events of a stream."""
        self._replica.write(self._replica.state.events.drop(self._session, stream))
        self._notify(stream)
        if self._followers is not None:
            self._followers.pop(stream, None)

    def add_follower(self, stream: str, slot: int) -> None:
        """Notify another replica of new events, and of events that it may have missed."""
        if self._followers is None:
            self._followers = {}
        self._followers[stream] = slot
        self._notify(stream)

    def _notify(self, stream: str) -> None:
        slot = None if self._followers is None else self._followers.get(stream)
        if slot is not None:
            self._replica.notify(slot, TailLetter(self._session, stream))

    async def read(self, stream: str, after: int) -> Replay | None:
        """Return the events of a stream after one; None if there is no such stream in this session.

        Raises:
            ServerUnavailable: the store has failed.
        """
        await self._replica.written()
        return await self._replica.ask(self._replica.state.events.read(self._session, stream, after))
