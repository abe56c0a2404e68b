"""HTTP connections under attack: headers without end, clients that stall, too many connections, malformed requests."""

from __future__ import annotations

import contextlib
import json
import resource
import select
import socket
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from carrel.transports.server.http_protocol import MAX_DISCARDED
from support.measured_server import HonestReads, Server, message, under_attack

#: Seconds that a server gets for what takes it some tenths of a second.
PATIENCE = 60.0

REQUEST = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"
POST = b"POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
NOTE = "note.txt"

#: A server that does not start before it has the limits on descriptors in its arguments.
FEW = """
import resource, sys
from carrel import Limits, Server
resource.setrlimit(resource.RLIMIT_NOFILE, (int(sys.argv[1]), int(sys.argv[2])))
app = Server("few", limits=Limits(idle_timeout=60))
@app.resource("memo://note")
async def note() -> str:
    return "note"
app.run("http", port=0, on_started=lambda url: print(url, file=sys.stderr, flush=True))
"""


@contextlib.contextmanager
def serving(folder: Path, **limits: Any) -> Iterator[Server]:
    (folder / NOTE).write_text("note")
    options = [word for name, value in limits.items() for word in ("--limit", f"{name}={value}")]
    with under_attack("serve", str(folder), *options) as server:
        yield server


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with serving(tmp_path_factory.mktemp("shared")) as server:
        yield server


def uri(folder: Path) -> str:
    return (folder / NOTE).as_uri()


def dial(server: Server, source: str = "127.0.0.1") -> socket.socket:
    return socket.create_connection(("127.0.0.1", server.port), PATIENCE, source_address=(source, 0))


def read_all(connection: socket.socket) -> bytes:
    """Return all that the server sends until it closes."""
    received = bytearray()
    with contextlib.suppress(ConnectionError):
        while data := connection.recv(1 << 16):
            received += data
    return bytes(received)


def read_one(connection: socket.socket) -> None:
    """Read the answer to ``REQUEST``."""
    received = b""
    while not received.endswith(b'{"status":"ok"}'):
        data = connection.recv(1 << 16)
        assert data, received
        received += data


def talk(server: Server, *pieces: bytes) -> tuple[int, str]:
    """Send pieces as far as they are taken; return the status and the error message of the last response."""
    with dial(server) as connection:
        with contextlib.suppress(ConnectionError):
            for piece in pieces:
                connection.sendall(piece)
        return outcome(read_all(connection))


def outcome(received: bytes) -> tuple[int, str]:
    head, _, body = received.rpartition(b"\r\n\r\n")
    assert head, "the server closed without a response"
    assert b"connection: close" in head
    return int(head[head.rindex(b"HTTP/1.1 ") + 9 :][:3]), json.loads(body)["error"]["message"]


def padded(size: int) -> bytes:
    return b"X-Padding: " + b"x" * size + b"\r\n"


# Sizes


def test_endless_headers_are_refused_and_delay_no_other_client(tmp_path: Path) -> None:
    with serving(tmp_path) as server, server.honest_reads(uri(tmp_path)) as reads:
        until(lambda: len(reads.seconds) > 5)
        before = server.rss()
        for _ in range(4):
            status, error = talk(server, REQUEST[:-2] + b"X-Long: ", *[b"x" * 65536] * 64)
            assert (status, "max_header_bytes" in error) == (431, True)
            status, error = talk(server, REQUEST[:-2], *[b"a: b\r\n" * 10_000] * 16)
            assert status == 431
        assert server.rss() < before + 16
        until(lambda: len(reads.seconds) > 20)
    reads.check()


@pytest.mark.parametrize(
    ("request_", "status", "limit"),
    [
        pytest.param(REQUEST[:-2] + padded(70_000) + b"\r\n", 431, "max_header_bytes", id="one header"),
        pytest.param(REQUEST[:-2] + padded(7_000) * 10 + b"\r\n", 431, "max_header_bytes", id="headers"),
        pytest.param(REQUEST[:-2] + b"a: b\r\n" * 101 + b"\r\n", 431, "max_header_count", id="count"),
        pytest.param(b"GET /" + b"x" * 9000 + REQUEST[12:], 414, "max_request_line_bytes", id="request line"),
        pytest.param(b"GET /" + b"x" * 300_000, 414, "max_request_line_bytes", id="request line without end"),
    ],
)
def test_a_head_over_a_limit_is_refused_with_its_name(server: Server, request_: bytes, status: int, limit: str) -> None:
    answer = talk(server, request_)
    assert (answer[0], limit in answer[1]) == (status, True)


def test_trailers_and_chunk_extensions_without_end_are_refused(server: Server) -> None:
    head = POST + b"Transfer-Encoding: chunked\r\n\r\n"
    for pieces in ([b"0\r\nX: ", *[b"x" * 65536] * 16], [b"1;", *[b"x" * 65536] * 16], [b"0" * 65536] * 16):
        status, error = talk(server, head, *pieces)
        assert (status, "max_header_bytes" in error) == (431, True)


def test_trailers_are_not_taken_for_headers(server: Server, tmp_path: Path) -> None:
    body, headers = message("server/discover")
    head = POST + b"Accept: */*\r\nMCP-Protocol-Version: 2026-07-28\r\nTransfer-Encoding: chunked\r\nConnection: close"
    chunked = b"%x\r\n%b\r\n0\r\nMcp-Method: server/discover\r\n\r\n" % (len(body), body)
    assert headers["Mcp-Method"] == "server/discover"
    status, error = talk(server, head + b"\r\n\r\n" + chunked)
    assert (status, "the Mcp-Method header is missing" in error) == (400, True)


def test_a_body_in_small_chunks_is_taken(server: Server) -> None:
    body, headers = message("server/discover")
    lines = "".join(f"{name}: {value}\r\n" for name, value in {**headers, "Connection": "close"}.items()).encode()
    head = b"POST /mcp HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n" + lines
    chunks = b"".join(b"1\r\n%c\r\n" % byte for byte in body + b" " * 200_000)
    with dial(server) as connection:
        connection.sendall(head + b"\r\n" + chunks + b"0\r\n\r\n")
        assert b"200 OK" in read_all(connection)


# Times


def test_clients_that_stall_are_closed(tmp_path: Path) -> None:
    limits = {"header_timeout": 1.5, "idle_timeout": 1.5, "keep_alive_timeout": 1.5}
    with serving(tmp_path, **limits) as server, server.honest_reads(uri(tmp_path)) as reads:
        with dial(server) as connection:
            assert read_all(connection) == b""  # silent
        with dial(server) as connection:
            connection.sendall(REQUEST)
            assert read_all(connection).endswith(b'{"status":"ok"}')  # idle after a response
        status, error = talk(server, REQUEST[:-2])
        assert (status, "header_timeout" in error) == (408, True)
        with dial(server) as connection:
            connection.sendall(b"\r\n" * 1000)
            assert read_all(connection) == b""
        with dial(server) as connection:  # a byte now and then gains nothing
            assert outcome(trickle(connection, REQUEST[:-2] + b"X: " + b"x" * 1000))[0] == 408
    reads.check()


def trickle(connection: socket.socket, data: bytes) -> bytes:
    """Send a byte every twentieth of a second until the server answers."""
    connection.settimeout(0.05)
    for index in range(len(data)):
        connection.sendall(data[index : index + 1])
        with contextlib.suppress(TimeoutError):
            first = connection.recv(1 << 16)
            connection.settimeout(PATIENCE)
            return first + read_all(connection)
    raise AssertionError("there was no answer")


def test_a_client_that_takes_nothing_is_closed_and_one_that_takes_little_is_not(tmp_path: Path) -> None:
    (tmp_path / "large.txt").write_text("x" * 9_000_000)
    body, headers = message("resources/read", uri=(tmp_path / "large.txt").as_uri())
    lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items()).encode()
    request = b"POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n%b\r\n%b" % (len(body), lines, body)
    with serving(tmp_path, write_timeout=3.0) as server, slow(server) as reader, slow(server) as staller:
        reader.sendall(request)
        staller.sendall(request)
        received = 0

        def read_little() -> None:
            nonlocal received
            received += len(reader.recv(20_000))
            time.sleep(0.02)  # a slow client

        until(lambda: read_little() or ended(staller))
        assert 50_000 < received < 9_000_000, "the slow one would be cut by now, too"
        for _ in range(20):
            read_little()
        assert not ended(reader)


def ended(connection: socket.socket) -> bool:
    """Say whether the server has cut a connection."""
    state = connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 1)[0]
    return state != 1  # TCP_ESTABLISHED


def slow(server: Server) -> socket.socket:
    connection = socket.socket()
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    connection.settimeout(PATIENCE)
    connection.connect(("127.0.0.1", server.port))
    return connection


# Numbers


def test_an_address_has_a_limited_number_of_connections_and_others_notice_nothing(tmp_path: Path) -> None:
    with serving(tmp_path, max_connections_per_address=20) as server, contextlib.ExitStack() as stack:
        with server.honest_reads(uri(tmp_path)) as reads:
            before = server.descriptors()
            busy = [stack.enter_context(dial(server)) for _ in range(20)]
            for connection in busy:
                connection.sendall(POST + b"Content-Length: 100\r\n\r\n")
            until(lambda: server.descriptors() >= before + 19)
            refused = stack.enter_context(dial(server))
            received = read_all(refused)
            assert b"retry-after: " in received
            assert outcome(received)[0] == 503
            until(lambda: len(reads.seconds) > 5)
        reads.check()


def test_the_connection_that_was_idle_longest_makes_room_for_a_new_one(tmp_path: Path) -> None:
    limits = {"max_connections_per_address": 5, "idle_timeout": 60, "keep_alive_timeout": 60}
    with serving(tmp_path, **limits) as server, contextlib.ExitStack() as stack:
        with server.honest_reads(uri(tmp_path)) as reads:
            idle = [stack.enter_context(dial(server)) for _ in range(5)]
            for connection in [*idle[1:], idle[0]]:
                connection.sendall(REQUEST)
                read_one(connection)
            stack.enter_context(dial(server)).sendall(REQUEST)
            assert read_all(idle[1]) == b""
            idle[0].sendall(REQUEST)
            read_one(idle[0])
            until(lambda: len(reads.seconds) > 5)
        reads.check()


@pytest.mark.parametrize("loop", ["uvloop", "asyncio"])
def test_few_descriptors_are_never_used_up(tmp_path: Path, loop: str, monkeypatch: pytest.MonkeyPatch) -> None:
    script = tmp_path / "few.py"
    script.write_text(("import sys; sys.modules['uvloop'] = None\n" if loop == "asyncio" else "") + FEW)
    with under_attack("128", "128", script=script) as server, contextlib.ExitStack() as stack:
        with server.honest_reads("memo://note") as reads:
            alone = cost(server, reads)
            for _ in range(400):
                connection = stack.enter_context(dial(server))
                connection.sendall(REQUEST[:-2])
            reads.wait_for(5)
            assert server.descriptors() < 100
        reads.check()
        with server.honest_reads("memo://note") as reads:
            assert cost(server, reads) < 3 * alone + 0.1, "seconds of the processor"
        assert "Traceback" not in server.log()


def cost(server: Server, reads: HonestReads) -> float:
    """Return the seconds of processor time that a server uses during 50 reads."""
    used = server.cpu()
    reads.wait_for(50)
    return server.cpu() - used


def test_the_soft_limit_on_descriptors_is_raised(tmp_path: Path) -> None:
    script = tmp_path / "few.py"
    script.write_text(FEW)
    with under_attack("64", "4096", script=script) as server:
        assert resource.prlimit(server.pid, resource.RLIMIT_NOFILE) == (4096, 4096)


def readable(clients: list[socket.socket]) -> list[socket.socket]:
    return select.select(clients, [], [], 0)[0]


def until(condition: Any) -> None:
    deadline = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < deadline, "it did not happen"
        time.sleep(0.01)


# Malformed requests


@pytest.mark.parametrize(
    ("request_", "status"),
    [
        pytest.param(POST + b"Content-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 400, id="two lengths"),
        pytest.param(POST + b"Content-Length: 3\r\nContent-Length: 4\r\n\r\nabc", 400, id="two different lengths"),
        pytest.param(POST + b"Content-Length: +3\r\n\r\nabc", 400, id="no number"),
        pytest.param(POST + b"Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n", 501, id="a coding"),
        pytest.param(
            POST.replace(b"1.1", b"1.0") + b"Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 400, id="chunked in HTTP/1.0"
        ),
        pytest.param(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nX: a\r\n b\r\n\r\n", 400, id="obs-fold"),
        pytest.param(b"GET /healthz HTTP/1.1\r\nHost: localhost\nX: a\r\n\r\n", 400, id="bare LF"),
        pytest.param(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nX: a\0b\r\n\r\n", 400, id="NUL"),
        pytest.param(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nX : a\r\n\r\n", 400, id="space after a name"),
        pytest.param(b"GET /healthz HTTP/1.1\r\nX: a\r\n\r\n", 400, id="no Host"),
        pytest.param(b"GET http://evil.example/healthz HTTP/1.1\r\nHost: localhost\r\n\r\n", 400, id="another host"),
        pytest.param(b"GET /healthz HTTP/2.0\r\nHost: localhost\r\n\r\n", 505, id="HTTP/2"),
        pytest.param(b"CONNECT localhost:80 HTTP/1.1\r\nHost: localhost\r\n\r\n", 501, id="CONNECT"),
        pytest.param(b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", 400, id="TLS"),
        pytest.param(POST + b"Transfer-Encoding: chunked\r\n\r\nzz\r\n", 400, id="no chunk"),
    ],
)
def test_an_invalid_http_request_is_refused_and_its_connection_closed(
    server: Server, request_: bytes, status: int
) -> None:
    assert talk(server, request_ + REQUEST)[0] == status


def test_an_error_comes_after_the_responses_to_the_requests_before_it(server: Server) -> None:
    with dial(server) as connection:
        connection.sendall(REQUEST * 3 + b"nonsense\r\n\r\n")
        received = read_all(connection)
    assert [part[:3] for part in received.split(b"HTTP/1.1 ")[1:5]] == [b"200", b"200", b"200", b"400"]


def test_requests_that_are_sent_far_ahead_are_refused(server: Server) -> None:
    before = server.rss()
    with dial(server) as connection:
        with contextlib.suppress(ConnectionError):
            connection.sendall(REQUEST * 50_000)
        received = read_all(connection)
    statuses = [part[:3] for part in received.split(b"HTTP/1.1 ")[1:]]
    assert (statuses[0], statuses[-1]) == (b"200", b"503")
    assert server.rss() < before + 8


@pytest.mark.parametrize("protocol", [b"h2c", b"websocket"])
def test_a_request_to_change_the_protocol_is_answered_in_this_one(server: Server, protocol: bytes) -> None:
    body, headers = message("server/discover")
    lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items()).encode()
    upgrade = b"Connection: Upgrade\r\nUpgrade: %b\r\n" % protocol
    request = b"POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n%b%b\r\n" % (len(body), upgrade, lines)
    for cut in (len(body), 10, 0):
        with dial(server) as connection:
            connection.sendall(request + body[:cut])
            if cut < len(body):
                time.sleep(0.05)  # the parts should be read one after the other; this is seen by no event
                connection.sendall(body[cut:])
            connection.sendall(REQUEST[:-2] + b"Connection: close\r\n\r\n")
            received = read_all(connection)
            assert [part[:3] for part in received.split(b"HTTP/1.1 ")[1:]] == [b"200", b"200"]


def test_a_client_that_expects_100_is_told_to_go_on_or_refused_at_once(server: Server) -> None:
    body, headers = message("server/discover")
    lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items()).encode()
    head = b"POST /mcp HTTP/1.1\r\nHost: %b\r\nContent-Length: %d\r\nExpect: 100-continue\r\n%b\r\n"
    with dial(server) as connection:
        connection.sendall(head % (b"localhost", len(body), lines))
        assert connection.recv(1 << 16) == b"HTTP/1.1 100 Continue\r\n\r\n"
        connection.sendall(body)
        received = connection.recv(1 << 16)
        assert b"200 OK" in received
        assert b"connection: close" not in received
    with dial(server) as connection:
        connection.sendall(head % (b"evil.example", len(body), lines))
        assert outcome(read_all(connection))[0] == 403


def test_a_client_that_sends_too_much_still_reads_why(server: Server) -> None:
    length = 100_000_000
    with dial(server) as connection:
        connection.sendall(POST + b"Content-Length: %d\r\n\r\n" % length)
        with contextlib.suppress(ConnectionError):
            for _ in range(200):
                connection.sendall(b"x" * 100_000)
        assert outcome(read_all(connection))[0] == 413


# Bodies


def test_a_refused_request_is_discarded_up_to_a_number_of_bytes(server: Server) -> None:
    piece, sent = b"x" * 1_000_000, 0
    with dial(server) as connection:
        connection.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\nX-Endless: ")
        with contextlib.suppress(ConnectionError):
            while sent < 4 * MAX_DISCARDED:
                sent += connection.send(piece)
    assert MAX_DISCARDED // 2 < sent < 2 * MAX_DISCARDED, "one that stops earlier still reads why"


def test_bodies_that_are_not_complete_have_a_limit_of_each_client_and_of_all(tmp_path: Path) -> None:
    limits = {"max_unfinished_body_bytes": 4_000_000, "max_message_bytes": 1_000_000}
    with serving(tmp_path, **limits) as server, server.honest_reads(uri(tmp_path)) as reads:
        with contextlib.ExitStack() as stack:
            before = server.rss()
            clients = [stack.enter_context(dial(server)) for _ in range(20)]
            for client in clients:
                client.sendall(POST + b"Content-Length: 999999\r\n\r\n" + b"x" * 400_000)
            until(lambda: len(readable(clients)) == 18)  # two of them are within the share
            answers = [outcome(read_all(client)) for client in readable(clients)]
            assert {status for status, _ in answers} == {503}
            assert all("max_unfinished_body_bytes" in error for _, error in answers)
            assert server.rss() < before + 16
            with dial(server, "127.0.0.3") as other:
                other.sendall(POST + b"Content-Length: 500000\r\n\r\n" + b"x" * 400_000)
                other.sendall(b"x" * 100_000)
                assert b"HTTP/1.1 400" in other.recv(1 << 16)  # not JSON: it was read
        until(lambda: len(reads.seconds) > 5)
    reads.check()


@pytest.mark.parametrize("target", ["/mcp", "/sse/messages"])
def test_a_body_that_trickles_in_is_refused(tmp_path: Path, target: str) -> None:
    (tmp_path / NOTE).write_text("note")
    options = ("--sse", "--limit", "body_timeout=0.5")
    with under_attack("serve", str(tmp_path), *options) as server, contextlib.ExitStack() as stack:
        path = target.encode()
        if target != "/mcp":
            stream = stack.enter_context(dial(server))
            stream.sendall(b"GET /sse HTTP/1.1\r\nHost: localhost\r\n\r\n")
            received = b""
            while b"sessionId=" not in received or not received.endswith(b"\n\n\r\n"):
                received += stream.recv(1 << 16)
            path = received.partition(b"data: ")[2].partition(b"\n")[0]
        with dial(server) as connection:
            connection.sendall(POST.replace(b"/mcp", path) + b"Content-Length: 1000\r\n\r\n")
            status, error = outcome(trickle(connection, b" " * 1000))
            assert (status, "body_timeout" in error) == (408, True)


# Behind a proxy


def test_behind_a_trusted_proxy_clients_are_told_apart(tmp_path: Path) -> None:
    (tmp_path / NOTE).write_text("note")
    options = ("--trusted-proxy", "127.0.0.0/29", "--limit", "max_connections_per_address=2")
    limits = ("--limit", "max_unfinished_body_bytes=4000000", "--limit", "max_message_bytes=1000000")
    with under_attack("serve", str(tmp_path), *options, *limits) as server, contextlib.ExitStack() as stack:
        head = POST + b"X-Forwarded-For: 1.1.1.1, %b\r\nContent-Length: 999999\r\n\r\n"
        clients = [stack.enter_context(dial(server)) for _ in range(8)]
        for client in clients:
            client.sendall(head % b"198.51.100.4" + b"x" * 400_000)
        waiting = set(clients)
        while len(waiting) > 2:  # which two of the eight are served is for the event loop to say
            refused, _, _ = select.select(waiting, [], [], PATIENCE)
            assert refused, f"{len(waiting)} of 8 connections are kept"
            for client in refused:
                assert outcome(read_all(client))[0] == 503
            waiting -= set(refused)
        other = stack.enter_context(dial(server))
        other.sendall(head % b"198.51.100.5" + b"x" * 999_999)
        assert b"HTTP/1.1 400" in other.recv(1 << 16)
