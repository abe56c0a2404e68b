"""What a transport needs of an application. ``carrel.Server`` is one."""

from __future__ import annotations

from typing import Any, Protocol

from carrel.limits import Budget, Limits
from carrel.protocol.channel import Channel
from carrel.protocol.server import Answer, Call, Connection, Refusal

__all__ = ["Application"]


class Application(Protocol):
    """Answers calls, and says when it is to start and to stop."""

    budget: Budget

    @property
    def limits(self) -> Limits:
        """How much is taken from clients, kept for them and done for them."""

    async def start(self) -> None:
        """Get ready. Called once before the first call."""

    async def stop(self) -> None:
        """Let go of everything. Called once after the last call."""

    def connect(self) -> Connection:
        """Return a new connection."""

    def disconnect(self, connection: Connection) -> None:
        """Forget a connection and what it listened to."""

    def answer(self, call: Call, channel: Channel) -> Any:
        """Answer a call: bytes or a ``Refusal`` at once, or a coroutine or future of one of them.

        Whatever a function of the author raises is answered. Only two errors come out of the coroutine, as they may
        also end it from outside: CancelledError and GeneratorExit. The caller knows which it was.
        """

    def refuse(self, call: Call, error: BaseException) -> Refusal:
        """Answer a call with an error, and log it if the client is not told what it is."""

    def take_answer(self, connection: Connection, answer: Answer) -> None:
        """Take the client's answer to a question that a handler asked."""

    def end_streams(self) -> None:
        """End every listen stream gracefully."""
