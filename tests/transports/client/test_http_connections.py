"""Where the client's end of Streamable HTTP connects to: redirects, connections that are kept, proxies and TLS."""

from __future__ import annotations

import asyncio
import json
import socket
import ssl
import subprocess
import threading
from pathlib import Path
from typing import Any

import pytest

from carrel.errors import (
    ConfigError,
    HTTPStatusError,
    TransportError,
)
from carrel.protocol.methods import LIST_RESOURCES
from carrel.transports.client import http as http_client
from carrel.transports.client.http import HTTPTransport
from carrel.transports.client.options import HTTPOptions
from carrel.wire.base import PageParams
from support.http_scripts import HANDSHAKE, SESSION, client_of, failure_of, never, outcome_of, session
from support.scripted_http_server import Asked, scripted
from support.transport_recorder import Asker

# Redirects


@pytest.mark.parametrize("status", [307, 308])
@pytest.mark.parametrize("absolute", [False, True])
async def test_a_redirect_to_another_path_of_the_same_server_is_followed(status: int, absolute: bool) -> None:
    async def move(asked: Asked) -> None:
        if asked.target == "/mcp":
            location = f"http://{asked.headers['host']}/other?x=1" if absolute else "/other?x=1"
            await asked.respond(status, location=location)
        else:
            assert asked.target == "/other?x=1"
            await asked.result()

    async with scripted(move) as server, client_of(server) as client:
        for _ in range(3):
            await client.ask("list_resources", PageParams())
        assert [asked.body for asked in server.asked[:2]] == [server.asked[0].body] * 2
        assert len(server.asked) == (4 if status == 308 else 6)  # one of them is permanent
        assert server.connections == 1


@pytest.mark.parametrize(
    ("status", "location"),
    [
        (302, "/other"),
        (301, "/other"),
        (303, "/other"),
        (307, "http://127.0.0.1:1/mcp"),
        (308, "http://localhost/mcp"),
        (307, "https://127.0.0.1/mcp"),
        (307, "//example.test/mcp"),
        (307, "ftp://127.0.0.1/"),
        (307, "javascript:alert(1)"),
        (307, "http://[::1"),
        (307, ""),
        (300, "/other"),
        (304, "/other"),
    ],
)
async def test_a_redirect_elsewhere_is_not_followed(status: int, location: str) -> None:
    async def move(asked: Asked) -> None:
        assert asked.target == "/mcp"
        await asked.respond(status, **({"location": location} if location else {}))

    failure = await failure_of(move, headers={"Authorization": "Bearer secret"})
    assert isinstance(failure, HTTPStatusError)
    assert failure.status == status
    assert str(status) in str(failure)
    if "example.test" in location or "localhost" in location:
        assert location.removeprefix("http:") in str(failure)


async def test_redirects_in_circles_end() -> None:
    count = 0

    async def move(asked: Asked) -> None:
        nonlocal count
        count += 1
        await asked.respond(307, location="/mcp")

    assert "redirects in a loop" in str(await failure_of(move))
    assert count == 6


# Connections


async def test_one_connection_serves_one_request_after_the_other() -> None:
    async def answer(asked: Asked) -> None:
        if asked.id % 2:
            await asked.result()
        else:
            await asked.stream()
            await asked.event({"jsonrpc": "2.0", "id": asked.id, "result": {}})
            await asked.end()

    async with scripted(answer) as server, client_of(server) as client:
        for _ in range(20):
            await client.ask("list_resources", PageParams())
        assert server.connections == 1


async def test_a_stream_that_stays_open_after_the_answer_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_client, "ENDING", 0.01)

    async def linger(asked: Asked) -> None:
        await asked.stream()
        await asked.event({"jsonrpc": "2.0", "id": asked.id, "result": {}})
        await never(asked)

    async with scripted(linger) as server, client_of(server) as client:
        await client.ask("list_resources", PageParams())
        async with asyncio.timeout(60):
            while client.transport._background._requests:
                await asyncio.sleep(0)
        await client.ask("list_resources", PageParams())
        assert server.connections == 2


def test_a_connection_that_the_server_has_closed_in_the_meantime_is_not_used() -> None:
    go, closed, listener = threading.Event(), threading.Event(), socket.create_server(("127.0.0.1", 0))
    seen: list[bytes] = []

    def serve() -> None:
        for _ in range(2):
            connection, _ = listener.accept()
            with connection:
                data = connection.recv(65536)
                while b"\r\n\r\n" not in data or not data.endswith(b"}"):
                    data += connection.recv(65536)
                seen.append(data)
                body = b'{"jsonrpc":"2.0","id":%d,"result":{}}' % json.loads(data.partition(b"\r\n\r\n")[2])["id"]
                head = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n" % len(body)
                connection.sendall(head + body)
                go.wait()
            closed.set()

    async def ask() -> None:
        port = listener.getsockname()[1]
        async with Asker(HTTPTransport(f"http://127.0.0.1:{port}/mcp")) as client:
            await client.ask("list_resources", PageParams())
            go.set()
            closed.wait()  # the event loop does not see it
            await client.ask("list_resources", PageParams())

    thread = threading.Thread(target=serve)
    thread.start()
    asyncio.run(ask())
    thread.join()
    listener.close()
    assert len(seen) == 2


async def test_a_long_message_is_sent() -> None:
    async def answer(asked: Asked) -> None:
        await asked.result({"length": len(asked.message["params"]["arguments"]["text"])})

    async with scripted(answer) as server, client_of(server) as client:
        assert await client.call("echo", text="x" * 5_000_000) == {"length": 5_000_000}


async def test_the_query_of_the_url_is_not_in_errors() -> None:
    async def refuse(asked: Asked) -> None:
        assert asked.target == "/mcp?key=secret"
        if asked.id == 1:
            await asked.respond(500)
        else:
            asked.cut()

    async with scripted(refuse) as server, Asker(HTTPTransport(f"{server.url}?key=secret")) as client:
        for _ in range(2):
            failure = await client.recorder.failure(client.start("list_resources", PageParams()))
            assert server.url in str(failure)
            assert "secret" not in str(failure)


async def test_endless_requests_do_not_keep_others_waiting() -> None:
    async def serve(asked: Asked) -> None:
        if asked.message["method"] == "subscriptions/listen":
            await asked.stream(b": open\n\n")
        else:
            await asked.result()

    async with scripted(serve) as server, client_of(server, connections=1) as client:
        for _ in range(5):
            message = client.connection.request(LIST_RESOURCES, PageParams())
            message.data = message.data.replace(b"resources/list", b"subscriptions/listen")
            message.endless = True
            client.transport.send(message)
        assert await client.ask("list_resources", PageParams()) == {}


async def test_questions_can_be_answered_while_all_connections_wait_for_that() -> None:
    questions: list[Asked] = []

    async def serve(asked: Asked) -> None:
        if "method" in asked.message:
            await asked.stream()
            await asked.event({"jsonrpc": "2.0", "id": "q", "method": "roots/list"})
            questions.append(asked)
        else:
            await asked.respond(202)
            question = questions.pop()
            await question.event({"jsonrpc": "2.0", "id": question.id, "result": {}})
            await question.end()

    async with scripted(session(serve)) as server, client_of(server, HANDSHAKE, connections=1) as client:
        await client.shake_hands()
        id = client.start("list_resources", PageParams())
        await client.recorder.until(lambda: client.recorder.notices("roots/list"))
        await client.answer("q", {"roots": []})
        assert await client.recorder.result(id) == {}
        answer = next(asked for asked in server.asked if asked.body and "method" not in asked.message)
        assert answer.message == {"jsonrpc": "2.0", "id": "q", "result": {"roots": []}}
        assert answer.headers["mcp-session-id"] == SESSION


async def test_a_server_that_never_answers_the_connection_is_given_up() -> None:
    with socket.socket() as full:
        full.bind(("127.0.0.1", 0))
        full.listen(0)
        port = full.getsockname()[1]
        fillers = []
        for _ in range(8):  # until the queue is full, and further ones get no answer
            filler = socket.socket()
            filler.setblocking(False)
            filler.connect_ex(("127.0.0.1", port))
            fillers.append(filler)
        async with Asker(HTTPTransport(f"http://127.0.0.1:{port}/mcp", HTTPOptions(connect_timeout=0.05))) as client:
            failure = await client.recorder.failure(client.start("list_resources", PageParams()))
        for filler in fillers:
            filler.close()
    assert type(failure) is TransportError
    assert not failure.delivered


# Proxies and TLS


async def test_a_proxy_of_the_environment_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    async def answer(asked: Asked) -> None:
        await asked.result()

    async with scripted(answer) as proxy:
        monkeypatch.setenv("http_proxy", f"http://me:secret@{proxy.host}")
        monkeypatch.setenv("no_proxy", "other.test")
        async with Asker(HTTPTransport("http://example.test/mcp")) as client:
            await client.ask("list_resources", PageParams())
        (asked,) = proxy.asked
        assert asked.target == "http://example.test/mcp"
        assert asked.headers["proxy-authorization"] == "Basic bWU6c2VjcmV0"


async def test_a_server_that_the_environment_excepts_is_asked_without_a_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")
    monkeypatch.setenv("no_proxy", "example.test")
    assert HTTPTransport("http://www.example.test/mcp")._endpoint._proxy is None
    assert HTTPTransport("http://example.org/mcp")._endpoint._proxy is not None


async def test_no_proxy_leads_to_this_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    async def answer(asked: Asked) -> None:
        await asked.result()

    monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")
    monkeypatch.setenv("all_proxy", "http://127.0.0.1:1")
    monkeypatch.delenv("no_proxy", raising=False)
    assert (await outcome_of(answer))["result"] == {}


def test_a_proxy_that_is_not_supported_is_refused_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("all_proxy", "socks5://127.0.0.1:1080")
    for name in ("http_proxy", "HTTP_PROXY"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(ConfigError, match="socks5"):
        HTTPTransport("http://example.test/mcp")


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Return a file with a key and a certificate of 127.0.0.1 that nobody vouches for."""
    path = tmp_path_factory.mktemp("tls") / "server.pem"
    command = [
        "openssl",
        "req",
        "-x509",
        "-newkey",
        "ec",
        "-pkeyopt",
        "ec_paramgen_curve:P-256",
        "-nodes",
        "-days",
        "2",
    ]
    subject = ["-subj", "/CN=127.0.0.1", "-addext", "subjectAltName=IP:127.0.0.1"]
    key = path.with_suffix(".key")
    subprocess.run([*command, *subject, "-keyout", str(key), "-out", str(path)], check=True, capture_output=True)
    path.write_bytes(path.read_bytes() + key.read_bytes())
    return str(path)


async def test_a_server_must_prove_who_it_is(certificate: str) -> None:
    async def answer(asked: Asked) -> None:
        await asked.result()

    theirs = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    theirs.load_cert_chain(certificate)
    async with scripted(answer, tls=theirs) as server:
        async with client_of(server) as client:
            failure = await client.recorder.failure(client.start("list_resources", PageParams()))
            assert type(failure) is TransportError
            assert not failure.delivered
            assert "certificate" in str(failure).lower()
        assert server.asked == []
        async with client_of(server, tls=ssl.create_default_context(cafile=certificate)) as client:
            for _ in range(3):
                assert await client.ask("list_resources", PageParams()) == {}
        assert server.connections <= 2


def test_a_tls_context_that_verifies_nothing_is_refused() -> None:
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    with pytest.raises(ConfigError, match="verify"):
        HTTPTransport("https://example.test/mcp", HTTPOptions(tls=context))


async def test_a_private_authority_can_be_trusted_and_the_client_proves_who_it_is_too(certificate: str) -> None:
    async def answer(asked: Asked) -> None:
        await asked.result()

    theirs = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    theirs.load_cert_chain(certificate)
    theirs.load_verify_locations(certificate)
    theirs.verify_mode = ssl.CERT_REQUIRED
    async with scripted(answer, tls=theirs) as server:
        async with client_of(server, ca_file=certificate) as client:
            assert type(await client.recorder.failure(client.start("list_resources", PageParams()))) is TransportError
        assert server.asked == []
        async with client_of(server, ca_file=certificate, client_certificate=certificate) as client:
            assert await client.ask("list_resources", PageParams()) == {}


@pytest.mark.parametrize("option", ["ca_file", "client_certificate"])
def test_a_certificate_that_cannot_be_loaded_is_said_at_once(option: str, tmp_path: Path) -> None:
    (tmp_path / "empty.pem").write_text("nothing")
    options: dict[str, Any] = {option: tmp_path / "empty.pem"}
    with pytest.raises(ConfigError, match=f"{option}: .* cannot be loaded"):
        HTTPTransport("https://example.test/mcp", HTTPOptions(**options))


async def test_a_proxy_that_the_options_name_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    async def answer(asked: Asked) -> None:
        await asked.result()

    monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")
    async with scripted(answer) as proxy:
        options = HTTPOptions(proxy=f"http://{proxy.host}")
        async with Asker(HTTPTransport("http://example.test/mcp", options)) as client:
            await client.ask("list_resources", PageParams())
    assert len(proxy.asked) == 1
    assert HTTPTransport("http://example.test/mcp", HTTPOptions(proxy=""))._endpoint._proxy is None


async def test_a_response_that_is_silent_for_too_long_fails() -> None:
    async def wait(asked: Asked) -> None:
        await asyncio.Event().wait()

    async with scripted(wait) as server, client_of(server, read_timeout=0.05) as client:
        failure = await client.recorder.failure(client.start("list_resources", PageParams()))
    assert type(failure) is TransportError
