"""A client on sockets: keep-alive connections with one request each in flight, and streams of events.

Just enough of HTTP/1.1 for the answers of an MCP endpoint (a length or chunks, JSON or server-sent events),
so that one core of Python can keep a server on another core busy.
"""

import asyncio
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast

from .messages import FIRST_ID, HANDSHAKE, INITIALIZED, Question, WrongAnswer, id_of, initialize
from .processes import PATIENCE, Process, ServerFailed
from .window import Sample, Window


@dataclass(slots=True)
class Response:
    """One complete HTTP answer."""

    status: int
    head: bytes
    body: bytes

    def message(self) -> bytes:
        """The JSON-RPC answer in the body, out of its event when it came as a stream."""
        if not self.body or self.body[:1] in b"{[":
            return self.body
        for line in self.body.splitlines():
            if line.startswith(b"data:") and id_of(line[5:] or b"{}") is not None:
                return line[5:].strip()
        return self.body


def header(head: bytes, name: bytes) -> bytes | None:
    """The value of a header in the raw head of an answer."""
    lowered = head.lower()
    start = lowered.find(b"\r\n" + name + b":")
    if start < 0:
        return None
    start += len(name) + 3
    end = head.find(b"\r\n", start)
    return head[start : end if end >= 0 else None].strip()


def join_chunks(data: bytes) -> bytes | None:
    """The body that arrived in chunks, or None while the last chunk is missing."""
    parts = []
    position = 0
    while True:
        line = data.find(b"\r\n", position)
        if line < 0:
            return None
        size = int(data[position:line], 16)
        if size == 0:
            return b"".join(parts)
        position = line + 2 + size + 2
        if position > len(data):
            return None
        parts.append(data[line + 2 : position - 2])


class Connection(asyncio.Protocol):
    """One keep-alive connection with at most one request in flight."""

    def __init__(self) -> None:
        self.transport: asyncio.Transport | None = None
        self.waiting: asyncio.Future[Response] | None = None
        self.restart()

    def restart(self) -> None:
        """Discard the received data: the next bytes start a response."""
        self.pieces: list[bytes] = []
        self.size = 0
        self.head: bytes | None = None
        self.length: int | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)

    def connection_lost(self, error: Exception | None) -> None:
        if self.waiting is not None and not self.waiting.done():
            self.waiting.set_exception(ServerFailed(f"closed the connection: {error}"))

    def data_received(self, data: bytes) -> None:
        self.pieces.append(data)
        self.size += len(data)
        if self.head is None:
            whole = b"".join(self.pieces)
            end = whole.find(b"\r\n\r\n")
            if end < 0:
                return
            self.head = whole[:end]
            data = whole[end + 4 :]
            self.pieces = [data]
            self.size = len(data)
            length = header(self.head, b"content-length")
            self.length = None if length is None else int(length)
        if self.length is not None:
            if self.size < self.length:
                return
            body: bytes | None = b"".join(self.pieces)
        else:
            if not data.endswith(b"0\r\n\r\n"):
                return
            body = join_chunks(b"".join(self.pieces))
            if body is None:
                return
        assert self.waiting is not None
        response = Response(int(self.head[9:12]), self.head, body)
        self.restart()
        if not self.waiting.done():
            self.waiting.set_result(response)

    async def exchange(self, request: bytes) -> Response:
        """Send one HTTP request and wait for the answer to it."""
        assert self.transport is not None
        self.waiting = asyncio.get_running_loop().create_future()
        self.transport.write(request)
        return await self.waiting


class Session:
    """One client of a server: its connection, its revision, and the session when the server gave it one."""

    def __init__(self, process: Process, revision: str) -> None:
        self.process = process
        self.revision = revision
        self.connection: Connection | None = None
        self.session = b""

    async def open(self) -> None:
        """Connect, and send the messages that a client of this revision sends before its first request."""
        loop = asyncio.get_running_loop()
        _, self.connection = await loop.create_connection(Connection, "127.0.0.1", self.process.port)
        if self.revision == HANDSHAKE:
            await self.renew()

    async def renew(self) -> None:
        """Open another session on the same connection, as another client would."""
        assert self.connection is not None
        self.session = b""
        question = initialize()
        response = await self.connection.exchange(self.post(question, question.body(FIRST_ID)))
        self.judge(question, response)
        identifier = header(response.head, b"mcp-session-id")
        if identifier is not None:
            self.session = b"Mcp-Session-Id: " + identifier + b"\r\n"
        response = await self.connection.exchange(self.post(question, INITIALIZED))
        if response.status not in (200, 202, 204):
            raise WrongAnswer(f"initialized: HTTP {response.status} {response.body[:200]!r}")

    def fields(self, question: Question) -> bytes:
        """The head of a request, as a client library would send it, without length and session."""
        revision = b"" if question.method == "initialize" else question.headers()
        return (
            b"Host: 127.0.0.1:%d\r\n"
            b"Accept: application/json, text/event-stream\r\n"
            b"Accept-Encoding: identity\r\n"
            b"User-Agent: carrel-benchmarks\r\n"
            b"Content-Type: application/json\r\n" % self.process.port
        ) + revision

    def post(self, question: Question, body: bytes) -> bytes:
        """The bytes of one POST."""
        length = b"Content-Length: %d\r\n\r\n" % len(body)
        return b"POST /mcp HTTP/1.1\r\n" + self.fields(question) + self.session + length + body

    def get(self) -> bytes:
        """The bytes of the GET that opens the stream of a session."""
        return (
            b"GET /mcp HTTP/1.1\r\nHost: 127.0.0.1:%d\r\nAccept: text/event-stream\r\n"
            b"MCP-Protocol-Version: %b\r\n%b\r\n" % (self.process.port, HANDSHAKE.encode(), self.session)
        )

    async def ask(self, question: Question, id: int = FIRST_ID) -> None:
        """Send one question and check its answer."""
        assert self.connection is not None
        self.judge(question, await self.connection.exchange(self.post(question, question.body(id))))

    def judge(self, question: Question, response: Response) -> None:
        """Accept an answer or raise `WrongAnswer`."""
        message = response.message()
        if response.status != 200:
            raise WrongAnswer(f"{question.method}: HTTP {response.status} {message[:300]!r}")
        question.check(message)

    def close(self) -> None:
        """Drop the connection."""
        if self.connection is not None and self.connection.transport is not None:
            self.connection.transport.abort()


async def load(process: Process, questions: Sequence[Question], connections: int, seconds: float) -> Sample:
    """Keep one request in flight on each of `connections` until the window closes."""
    revision = questions[0].revision
    sessions = [Session(process, revision) for _ in range(connections)]
    try:
        for session in sessions:
            await session.open()
        for question in questions:
            await sessions[0].ask(question)
        window = Window(process, seconds, connections)

        async def run(session: Session, number: int) -> None:
            connection = session.connection
            assert connection is not None
            heads = [
                (question, b"POST /mcp HTTP/1.1\r\n" + session.fields(question) + session.session)
                for question in questions
            ]
            while window.closed is None:
                question, head = heads[number % len(heads)]
                number += connections + 1
                body = question.body(FIRST_ID + number % 1_000_000)
                request = head + b"Content-Length: %d\r\n\r\n" % len(body) + body
                sent = time.perf_counter()
                response = await connection.exchange(request)
                session.judge(question, response)
                window.record(sent, time.perf_counter())

        async with asyncio.timeout(PATIENCE + 4 * seconds), asyncio.TaskGroup() as tasks:
            for number, session in enumerate(sessions):
                tasks.create_task(run(session, number))
    finally:
        for session in sessions:
            session.close()
    return window.sample()
