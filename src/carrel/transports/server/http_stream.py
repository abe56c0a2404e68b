"""Long-lived SSE streams that GET requests of a session open, or resume with Last-Event-ID.

https://modelcontextprotocol.io/specification/2025-11-25/basic/transports#listening-for-messages-from-the-server
"""

from __future__ import annotations

from carrel.errors import ServerUnavailable
from carrel.protocol.principal import AuthenticatedCaller
from carrel.transports.server.authorizer import Lease
from carrel.transports.server.dispatcher import Work
from carrel.transports.server.http_response import Headers, Receive, Send, disconnected, end, pump, respond_unavailable
from carrel.transports.server.session import StreamableHTTPSession
from carrel.transports.server.streams import Stream

__all__ = ["StandingResponse"]


class StandingResponse:
    """Long-lived stream that a GET request opens or resumes.

    ``after`` is the number of the last event that a client has which resumes a response.
    """

    __slots__ = ("_after", "_caller", "_extra", "_session", "_stream")
    stateless = False

    def __init__(
        self,
        stream: Stream,
        session: StreamableHTTPSession,
        caller: AuthenticatedCaller | None,
        extra: Headers,
        after: int | None = None,
    ) -> None:
        self._stream = stream
        self._session = session
        self._caller = caller
        self._extra = extra
        self._after = after

    async def run(self, receive: Receive, send: Send, patience: float, streams: set[Stream], works: set[Work]) -> None:
        """Send the stream until the client disconnects, its token expires, or the stream or session ends."""
        stream, session = self._stream, self._session
        gone = disconnected(receive, stream)
        lease = Lease(stream.expire)
        lease.extend(self._caller)
        try:
            unended = await pump(stream, gone, send, self._extra, streams, self._after)
        except ServerUnavailable as error:  # the replay cannot be read, and nothing is sent yet
            unended = False
            await respond_unavailable(send, error, self._extra)
        finally:
            gone.cancel()
            lease.cancel()
            if stream.standing:
                session.unlisten(stream)
            session.leave_stream(stream)
            session.mark_replayable(stream)
        if unended:
            await end(send)
