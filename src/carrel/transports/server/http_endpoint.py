"""Methods of the MCP endpoint over Streamable HTTP: POST of one message, and GET and DELETE of sessions.

https://modelcontextprotocol.io/specification/2026-07-28/basic/transports/streamable-http
https://modelcontextprotocol.io/specification/2025-11-25/basic/transports#streamable-http
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable

from carrel.errors import (
    InvalidMessage,
    InvalidParams,
    ProtocolError,
    ServerUnavailable,
)
from carrel.protocol.channel import ConnectedClient
from carrel.protocol.connection import FailedRequest, Ignored, Response
from carrel.protocol.event_ids import decode_event_id
from carrel.protocol.http import verify
from carrel.protocol.methods import INITIALIZE
from carrel.protocol.principal import AuthenticatedCaller
from carrel.protocol.revisions import REVISIONS
from carrel.protocol.server import Call, ClientBatch, ClientNotification, ErrorResponse, Event, Reply
from carrel.transports.server.application import Application
from carrel.transports.server.authorizer import Authorizer, Lease, client_of, owner_of, permit
from carrel.transports.server.dispatcher import absorb, answer_batch, attach, begin, check_load, spawn
from carrel.transports.server.http_request import Bodies, Headers, HTTPExchange, Rejection, accepts, is_json
from carrel.transports.server.http_response import (
    RETRY_LATER,
    PendingResponse,
    answer,
    respond,
    respond_error,
)
from carrel.transports.server.http_stream import StandingResponse
from carrel.transports.server.session import StreamableHTTPSession
from carrel.transports.server.sessions import SessionTable
from carrel.transports.server.streams import MutedStream, Stream

__all__ = ["Endpoint"]


class Endpoint:
    """Endpoint of a server. The methods answer a request, or return a response to send.

    ``sessions`` are the clients' sessions, ``bodies`` reads the bodies of requests.
    """

    def __init__(self, app: Application, sessions: SessionTable, bodies: Bodies, authorizer: Authorizer | None) -> None:
        self._app = app
        self._replica = app.replica
        self._shared = app.replica.shared
        self._sessions = sessions
        self._bodies = bodies
        self._authorization = authorizer
        self._limits = app.limits
        self._in_flight: dict[str, int] = {}
        """Number of stateless requests in flight, by client."""
        self._stateless = frozenset(name.encode() for name, row in REVISIONS.items() if row.stateless)
        self._known = frozenset(name.encode() for name in REVISIONS)

    async def _session(
        self, headers: Headers, caller: AuthenticatedCaller | None, *, required: bool
    ) -> StreamableHTTPSession | None:
        """Return the session that a request belongs to.

        A request of a stateless revision has no session, even if it has a session header.
        """
        version = headers.get(b"mcp-protocol-version")
        id = headers.get(b"mcp-session-id")
        stateless = version is not None and version in self._stateless
        if id is None or stateless:
            if required:
                raise _no_session(version if stateless else None)
            return None
        session = await self._sessions.find(id.decode("latin-1"), owner_of(caller))
        if session is None:
            raise Rejection(404, "There is no such session: it does not exist, or has ended; initialize a new one")
        if version is not None and version not in self._known:
            raise Rejection(400, f"MCP-Protocol-Version {version[:50].decode('latin-1')!r} is not supported")
        session.client.principal = None if caller is None else caller.principal
        return session

    async def post(self, exchange: HTTPExchange, client: str) -> PendingResponse | None:
        """Handle the message of a POST request.

        Raises:
            Rejection: it is refused before the message is read, or has no session.
            ServerUnavailable: the store has failed.
        """
        headers, caller = exchange.headers, exchange.caller
        if not is_json(headers):
            raise Rejection(415, "The content type must be application/json")
        json, events = accepts(headers.get(b"accept", b"*/*"))
        if not json and not events:
            raise Rejection(406, "The Accept header must allow application/json and text/event-stream")
        session = await self._session(headers, caller, required=False) if b"mcp-session-id" in headers else None
        body = await self._bodies.read(headers, exchange.receive, client)
        version = headers.get(b"mcp-protocol-version")
        if session is None:
            connection, served = self._app.connect(), ConnectedClient(self._app.budget, client)
            connection.version_header = None if version is None else version.decode("latin-1").strip(" \t")
        else:
            connection, served = session.connection, session.client
        served.address = client if caller is None else client_of(exchange.scope, None)
        event = connection.receive(body)
        if caller is not None:
            permit(self._authorization, caller, event)
        peer = exchange.scope.get("client")
        attach(event, served, headers, peer[0] if peer else "")
        if type(event) is not Call:
            return await self._post_other(event, session, exchange, json=json, events=events)
        opened = False
        try:
            if not events and event.request.endless:
                raise _stream_required(event)
            if event.peer.revision.stateless:
                verify(event, headers)
                session = None
            elif session is None:
                session = await self._open(event, headers, caller)
                opened = True
        except ServerUnavailable as error:
            reply = self._app.refuse(event, error).reply
            await respond(exchange.send, 503, reply, [RETRY_LATER, *exchange.extra])
            return None
        except ProtocolError as error:
            rejected = self._app.refuse(event, error)
            await respond_error(exchange.send, rejected, exchange.extra)
            return None
        return await self._answer_call(event, session, exchange, opened=opened, json=json, events=events)

    async def _open(self, call: Call, headers: Headers, caller: AuthenticatedCaller | None) -> StreamableHTTPSession:
        """Open the session that a call initializes.

        Raises:
            InvalidParams: it declares a stateless revision in its headers only.
            Rejection: it needs a session and has none.
            ServerUnavailable: there is no room for a session.
        """
        if call.request is not INITIALIZE:
            version = headers.get(b"mcp-protocol-version")
            if version not in self._stateless:
                raise _no_session()
            raise _not_stateless(version)
        return await self._sessions.open(call, owner_of(caller))

    async def _answer_call(
        self,
        call: Call,
        session: StreamableHTTPSession | None,
        exchange: HTTPExchange,
        *,
        opened: bool,
        json: bool,
        events: bool,
    ) -> PendingResponse | None:
        """Answer a call in a session, which it may just have opened, or a stateless one."""
        client = call.client
        send, extra, caller = exchange.send, exchange.extra, exchange.caller
        granted = [*extra, (b"mcp-session-id", session.id.encode())] if opened and session is not None else extra
        stream = _stream(client, session, events=events)
        try:
            limit = self._limits.max_requests_in_flight
            if session is None:
                check_load(call, self._in_flight.get(client.key, 0), limit)
            else:
                session.in_flight.check(call, limit)
            reply = self._app.answer(call, stream)
        except ServerUnavailable as error:
            reply = self._app.refuse(call, error)
        if call.request.endless:
            call.raw_headers = None  # frees memory: there may be many such requests, for long
        await absorb()
        if isinstance(reply, ErrorResponse):
            if opened and session is not None:
                await self._sessions.end(session)
            await respond_error(send, reply, extra)
            return None
        if session is not None:
            session.save()
        if self._shared:
            await self._replica.written()  # so that other replicas know of it before the client does
        if isinstance(reply, bytes):
            if stream.idle and json:
                await answer(send, client, call.id, reply, granted)
                return None
            reply = _ready(reply)
        elif self._shared and not isinstance(reply, asyncio.Future):
            reply = self._written(reply)
        work = begin(self._app, call, reply)
        if session is None:
            self._in_flight[client.key] = self._in_flight.get(client.key, 0) + 1
            work.add_done_callback(lambda _: self._count_down(client.key))
        if caller is not None and call.request.endless:
            lease = Lease(stream.expire)
            lease.extend(caller)
            work.add_done_callback(lease.cancel)
        return PendingResponse(call.id, work, stream, session, granted, json=json)

    async def _written(self, reply: Awaitable[Reply]) -> Reply:
        """Return a response after all changes of its handler are in the store."""
        response = await reply
        await self._replica.written()
        return response

    def _count_down(self, client: str) -> None:
        count = self._in_flight[client] - 1
        if count:
            self._in_flight[client] = count
        else:
            del self._in_flight[client]

    async def _post_other(
        self,
        event: Event,
        session: StreamableHTTPSession | None,
        exchange: HTTPExchange,
        *,
        json: bool,
        events: bool,
    ) -> PendingResponse | None:
        """Handle a notification, a response, a batch or an invalid message."""
        send, extra = exchange.send, exchange.extra
        if type(event) is ErrorResponse:
            self._app.rejected(event)
            await respond_error(send, event, extra)
            return None
        if type(event) is ClientBatch:
            assert session is not None  # only revisions with sessions have batches
            stream = _stream(session.client, session, events=events)
            answers = spawn(self._answer_batch(event, session, stream))
            return PendingResponse(stream, answers, stream, session, extra, json=json)
        if session is None and exchange.headers.get(b"mcp-protocol-version") not in self._stateless:
            raise _no_session()
        if type(event) is Ignored and event.response is not None and session is not None:
            letter = self._sessions.pass_on(session, event.response)
            if letter is not None:
                await self._replica.ask(letter)
        self._take(event, session)
        await self._replica.written()
        await respond(send, 202, b"", extra)
        return None

    def _take(self, event: Event, session: StreamableHTTPSession | None) -> bytes | None:
        if type(event) is ErrorResponse:
            self._app.rejected(event)
            return event.reply
        if type(event) is ClientNotification and session is not None:
            self._sessions.take_notification(session, event)
        elif type(event) is Response or type(event) is FailedRequest:
            event.deliver()
        return None

    async def _answer_batch(self, batch: ClientBatch, session: StreamableHTTPSession, stream: Stream) -> bytes:
        def take(event: Event) -> bytes | None:
            if type(event) is Ignored and event.response is not None:
                letter = self._sessions.pass_on(session, event.response)
                if letter is not None:
                    self._replica.write(letter)
            return self._take(event, session)

        replies = await answer_batch(self._app, batch, stream, session.in_flight, take)
        await self._replica.written()
        return b"[%b]" % b",".join(replies) if replies else b""

    # GET and DELETE: sessions only

    async def get(self, exchange: HTTPExchange) -> StandingResponse:
        """Open or resume a stream.

        Raises:
            Rejection: the request is not for a stream, or has no session.
            ServerUnavailable: the store has failed.
        """
        headers, extra, caller = exchange.headers, exchange.extra, exchange.caller
        if not accepts(headers.get(b"accept", b""))[1]:
            raise Rejection(406, "This is an MCP endpoint: GET is for streams, and must accept text/event-stream")
        session = await self._session(headers, caller, required=True)
        assert session is not None
        last = decode_event_id(headers.get(b"last-event-id", b"").decode("latin-1"))
        missed = None
        if last is not None and not last.bus:
            found = session.find_stream(last.stream)
            if found is not None:
                return StandingResponse(found, session, caller, extra, last.number)
            fetched = await session.fetch_stream(last)
            if fetched is not None:
                return StandingResponse(fetched, session, caller, extra)
            stream = session.new_standing_stream()
        elif last is not None:
            stream, missed = await session.resume(last)
        else:
            stream = session.new_standing_stream()
        session.listen(stream, self._limits.max_streams_per_session)
        if missed is not None:
            for message, key in missed.messages:
                session.deliver(message, key)
            self._app.catch_up(session.connection, missed.changes)
        return StandingResponse(stream, session, caller, extra)

    async def delete(self, exchange: HTTPExchange) -> None:
        """End a session.

        Raises:
            Rejection: the session does not exist.
            ServerUnavailable: the store has failed.
        """
        session = await self._session(exchange.headers, exchange.caller, required=True)
        assert session is not None
        await self._sessions.end(session)
        await respond(exchange.send, 204, b"", exchange.extra)


def _stream(client: ConnectedClient, session: StreamableHTTPSession | None, *, events: bool) -> Stream:
    if not events:
        return MutedStream(client)
    return Stream(client) if session is None else session.new_stream()


def _no_session(version: bytes | None = None) -> Rejection:
    """Return the rejection of a request without a session; ``version`` is the stateless revision that it names."""
    if version is None:
        return Rejection(400, "The Mcp-Session-Id header is missing")
    name = version.decode("latin-1")
    return Rejection(
        405,
        f"GET and DELETE are for sessions, which revision {name} does not have: in a session, MCP-Protocol-Version "
        "must be the negotiated revision",
        [(b"allow", b"POST, OPTIONS")],
    )


def _not_stateless(version: bytes) -> InvalidParams:
    """Return the error for a request whose header names a stateless revision but whose body does not."""
    error = InvalidParams(
        "Invalid params: _meta lacks io.modelcontextprotocol/protocolVersion, which revision "
        f"{version.decode('latin-1')} of the MCP-Protocol-Version header needs; in a session, the header must be "
        "the negotiated revision",
        parameter="_meta",
    )
    error.status = 400
    return error


def _stream_required(call: Call) -> InvalidMessage:
    error = InvalidMessage(f"{call.request.method} is answered with a stream: Accept must allow text/event-stream")
    error.status = 406
    return error


async def _ready(answer: bytes) -> bytes:
    return answer
