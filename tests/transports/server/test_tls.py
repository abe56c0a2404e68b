"""TLS of ``app.run("http")``: certificates that change, client certificates, and handshakes as connections."""

from __future__ import annotations

import asyncio
import contextlib
import shutil
import socket
import ssl
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import uvloop

from carrel import Client, Context, Server
from carrel.errors import ConfigError, MCPError
from carrel.limits import Limits
from carrel.transports.client.options import HTTPOptions
from carrel.transports.server import tls
from carrel.transports.server.tls import TLSFiles
from support.certificates import Authority

LOOPS = {"asyncio": asyncio.new_event_loop, "uvloop": uvloop.new_event_loop}
PATIENCE = 60.0


@pytest.fixture(params=LOOPS)
def loop_factory(request: pytest.FixtureRequest) -> Any:
    return LOOPS[request.param]


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path)


def make_app(**options: Any) -> Server:
    app = Server("secure", limits=Limits(**options))
    app.resources.add("note://one", "1")

    @app.tool
    def who(context: Context) -> str:
        return "" if context.principal is None else context.principal.subject

    @app.tool
    def change(text: str) -> str:
        app.resources.replace("note://one", text)
        return text

    return app


@contextlib.contextmanager
def serving(app: Server, loop_factory: Any, **options: Any) -> Iterator[str]:
    """Serve in a thread with a loop of its own, and yield the URL."""
    started = threading.Event()
    found: list[Any] = []

    def say(url: str) -> None:
        found.append(url)
        started.set()

    async def serve() -> None:
        task = asyncio.create_task(app.run_async("http", port=0, on_started=say, **options))
        found.append((asyncio.get_running_loop(), task))
        with contextlib.suppress(asyncio.CancelledError):
            await task

    def run() -> None:
        with asyncio.Runner(loop_factory=loop_factory) as runner:
            runner.run(serve())

    thread = threading.Thread(target=run)
    thread.start()
    try:
        assert started.wait(PATIENCE)
        yield found[1]
    finally:
        loop, task = found[0]
        loop.call_soon_threadsafe(task.cancel)
        thread.join(PATIENCE)
        assert not thread.is_alive()


def trusting(authority: Authority, certificate: Path | None = None) -> HTTPOptions:
    return HTTPOptions(ca_file=authority.root, client_certificate=certificate)


async def text(client: Client, tool: str, **arguments: Any) -> str:
    return (await client.call_tool(tool, arguments)).text


@pytest.mark.parametrize("revision", ["2025-11-25", "2026-07-28"])
async def test_requests_and_streams_go_through_tls(loop_factory: Any, authority: Authority, revision: str) -> None:
    with serving(make_app(), loop_factory, certificate=authority.path) as url:
        assert url.startswith("https://127.0.0.1:")
        async with Client(url, http=trusting(authority), revision=revision) as client:
            large = "text " * 100_000
            async with client.watch("note://one") as changes:
                await text(client, "change", text=large)
                assert (await asyncio.wait_for(anext(aiter(changes)), PATIENCE)).uri == "note://one"
            assert (await client.read_resource("note://one")).contents[0].text == large
            assert await text(client, "who") == ""


async def test_new_connections_have_the_changed_certificate_and_open_streams_go_on(
    loop_factory: Any, authority: Authority, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    new = Authority(tmp_path_of(tmp_path, "new"))
    with serving(make_app(), loop_factory, certificate=authority.path) as url:
        port = int(url.rpartition(":")[2].partition("/")[0])
        async with Client(url, http=trusting(authority)) as client, client.watch("note://one") as changes:
            await text(client, "who")
            shutil.copy(new.path, authority.path)
            await logged(caplog, "has been read again")
            assert ssl.get_server_certificate(("127.0.0.1", port)) in new.path.read_text()
            async with Client(url, http=trusting(new)) as other:
                await text(other, "change", text="2")
            assert (await asyncio.wait_for(anext(aiter(changes)), PATIENCE)).uri == "note://one"

            authority.path.write_text("no certificate")
            await logged(caplog, "the certificate is not changed")
            async with Client(url, http=trusting(new)) as other:
                assert (await other.read_resource("note://one")).contents[0].text == "2"


def tmp_path_of(folder: Path, name: str) -> Path:
    found = folder / name
    found.mkdir()
    return found


async def logged(caplog: pytest.LogCaptureFixture, message: str) -> None:
    async with asyncio.timeout(PATIENCE):
        while message not in caplog.text:
            await asyncio.sleep(0.05)


async def test_a_client_certificate_names_the_caller_and_its_authority_can_be_removed(
    loop_factory: Any, authority: Authority, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    other = Authority(tmp_path_of(tmp_path, "other"))
    ann = authority.issue("ann.pem", {"COMMON_NAME": "ann", "ORGANIZATION_NAME": "Example"})
    bob = other.issue("bob.pem", {"COMMON_NAME": "bob"})
    ca = tmp_path / "ca.pem"
    ca.write_bytes(authority.root.read_bytes() + other.root.read_bytes())
    with serving(make_app(), loop_factory, certificate=authority.path, client_ca=ca) as url:
        port = int(url.rpartition(":")[2].partition("/")[0])
        for certificate, subject in ((ann, "O=Example,CN=ann"), (bob, "CN=bob")):
            async with Client(url, http=trusting(authority, certificate)) as client:
                assert await text(client, "who") == subject
        with pytest.raises(MCPError):
            async with Client(url, http=trusting(authority)) as client:
                await text(client, "who")

        context = ssl.create_default_context(cafile=authority.root)
        context.load_cert_chain(bob)
        first, session = await asyncio.to_thread(status, context, port, None)
        assert b"200" in first
        ca.write_bytes(authority.root.read_bytes())
        await logged(caplog, "has been read again")
        with pytest.raises(OSError, match=r"(?i)alert|reset|closed|eof"):  # the session is not resumed, either
            await asyncio.to_thread(status, context, port, session)
        async with Client(url, http=trusting(authority, ann)) as client:
            assert await text(client, "who") == "O=Example,CN=ann"


def status(context: ssl.SSLContext, port: int, session: Any) -> tuple[bytes, Any]:
    """Ask for the health on a new connection, and return the status line and the session to resume."""
    with (
        socket.create_connection(("127.0.0.1", port), PATIENCE) as plain,
        context.wrap_socket(plain, server_hostname="127.0.0.1", session=session) as connection,
    ):
        connection.sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
        line = connection.recv(100).partition(b"\r\n")[0]
        if not line:
            raise ConnectionResetError("closed")
        return line, connection.session


async def opened(port: int) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    return await asyncio.open_connection("127.0.0.1", port)


async def test_connections_without_a_handshake_are_limited(loop_factory: Any, authority: Authority) -> None:
    app = make_app(max_connections_per_address=3, header_timeout=PATIENCE)
    with serving(app, loop_factory, certificate=authority.path) as url:
        port = int(url.rpartition(":")[2].partition("/")[0])
        silent = [await opened(port) for _ in range(3)]
        async with Client(url, http=trusting(authority)) as client:  # takes the place of the oldest
            assert await text(client, "who") == ""
            with contextlib.suppress(ConnectionError):
                assert await asyncio.wait_for(silent[0][0].read(), PATIENCE) == b""
        for _, writer in silent:
            writer.close()


async def test_a_handshake_has_to_be_complete_in_time(loop_factory: Any, authority: Authority) -> None:
    app = make_app(header_timeout=0.2)
    with serving(app, loop_factory, certificate=authority.path) as url:
        reader, writer = await opened(int(url.rpartition(":")[2].partition("/")[0]))
        with contextlib.suppress(ConnectionError):
            assert await asyncio.wait_for(reader.read(), PATIENCE) == b""
        writer.close()


async def test_clients_without_tls_and_their_noise_harm_nobody(loop_factory: Any, authority: Authority) -> None:
    with serving(make_app(), loop_factory, certificate=authority.path) as url:
        port = int(url.rpartition(":")[2].partition("/")[0])
        for noise in (b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n", b"\x16\x03\x01\xff\xff" + bytes(70_000), b""):
            reader, writer = await opened(port)
            writer.write(noise)
            if not noise:
                writer.write_eof()
            with contextlib.suppress(ConnectionError):
                assert not (await asyncio.wait_for(reader.read(), PATIENCE)).startswith(b"HTTP/")
            writer.close()
        async with Client(url, http=trusting(authority)) as client:
            assert await text(client, "who") == ""


async def test_old_versions_of_tls_are_refused(authority: Authority) -> None:
    context = TLSFiles(str(authority.path)).load()
    assert context.minimum_version == ssl.TLSVersion.TLSv1_2


def test_files_that_cannot_be_used_are_an_error_that_names_them(authority: Authority, tmp_path: Path) -> None:
    other = Authority(tmp_path_of(tmp_path, "other"))
    text = tmp_path / "text.pem"
    text.write_text("text")
    good, missing = str(authority.path), str(tmp_path / "missing.pem")
    encrypted = tmp_path / "encrypted.pem"
    encrypted.write_bytes(authority.encrypted(b"password"))
    for files, message in (
        (TLSFiles(missing), "missing.pem cannot be read: No such file"),
        (TLSFiles(good, missing), "missing.pem cannot be read"),
        (TLSFiles(str(text)), "text.pem: expected a certificate"),
        (TLSFiles(good, str(text)), "web.pem and .*text.pem: expected a certificate"),
        (TLSFiles(good, str(other.path)), "other/web.pem is not the key of the certificate"),
        (TLSFiles(good, str(encrypted)), "unencrypted private key"),
        (TLSFiles(good, None, str(text)), "text.pem: expected certificates of authorities"),
    ):
        with pytest.raises(ConfigError, match=message):
            files.load()


@pytest.mark.parametrize("option", ["key", "client_ca"])
async def test_a_key_and_an_authority_need_a_certificate(option: str) -> None:
    with pytest.raises(ConfigError, match="need a certificate"):
        await make_app().run_async("http", port=0, **{option: "file.pem"})


async def test_a_listener_goes_on_after_it_had_no_descriptors(
    authority: Authority, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(tls, "PAUSE", 0.01)
    failures = [OSError(24, "Too many open files"), ConnectionAbortedError()]

    class Loop(asyncio.SelectorEventLoop):
        async def sock_accept(self, sock: socket.socket) -> Any:
            if failures:
                raise failures.pop(0)
            return await super().sock_accept(sock)

    with serving(make_app(), Loop, certificate=authority.path) as url:
        async with Client(url, http=trusting(authority)) as client:
            assert await text(client, "who") == ""
    assert not failures
    assert "Too many open files" in caplog.text
