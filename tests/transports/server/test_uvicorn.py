"""``app.run("http")``: a process that serves until it is told to stop."""

from __future__ import annotations

import asyncio
import json
import pathlib
import signal
import socket
import sys
from contextlib import asynccontextmanager

import pytest

from carrel import Server
from carrel.errors import ConfigError
from carrel.transports.server.listening import listen
from support.http_requests import ask
from support.raw_http import PATIENCE, Site
from support.stdio_process import SERVERS, environment, text_of

#: Seconds that requests in flight may take at the end, where a test must not wait for so long.
PATIENT = 1000
SIGNALS = pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])


class Process:
    def __init__(self, process: asyncio.subprocess.Process, url: str) -> None:
        self.process = process
        self.url = url
        self.site = Site(int(url.split(":")[-1].split("/")[0]))

    async def end(self, number: int = signal.SIGTERM) -> tuple[int, str, str]:
        """Tell it to stop; return its status, and what it wrote to its streams."""
        self.process.send_signal(number)
        out, errors = await asyncio.wait_for(self.process.communicate(), PATIENCE)
        return self.process.returncode, out.decode(), errors.decode()


async def spawn(*arguments, **options):
    return await asyncio.create_subprocess_exec(
        *(sys.executable, str(SERVERS / "web.py"), json.dumps(options), *arguments),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        env=environment(),
    )


@asynccontextmanager
async def running(**options):
    process = await spawn(**options)
    try:
        lines = [(await asyncio.wait_for(process.stdout.readline(), PATIENCE)).decode().strip() for _ in range(2)]
        assert lines[0] == "started", (await process.communicate())[1].decode()
        child = Process(process, lines[1])
        yield child
        child.site.close()
    finally:
        if process.returncode is None:
            process.kill()
        await process.communicate()


@SIGNALS
async def test_it_says_where_it_is_and_ends_well_when_told_to(number):
    async with running(grace=PATIENT) as child:
        assert child.url == f"http://127.0.0.1:{child.site.port}/mcp"
        reply = await child.site.ask("resources/read", uri="memo://text")
        assert (await reply.json())["result"]["contents"][0]["text"] == "text"
        assert await child.end(number) == (0, "stopped\nafter\n", "")


@SIGNALS
async def test_open_streams_end_properly_and_soon(number):
    async with running(grace=PATIENT) as child:
        listening = [await child.site.listen("memo://text", id=id) for id in range(20)]
        session = await child.site.open()
        standing = await session.get()
        working = await session.call("later", seconds=0.3)
        assert (await working.message())["params"]["progress"] == 1
        idle = await child.site.connect()
        ending = asyncio.create_task(child.end(number))
        for id, stream in enumerate(listening):
            teardown, answer = await stream.messages()
            assert (teardown["method"], teardown["params"]["requestId"]) == ("notifications/cancelled", id)
            assert answer["id"] == id
            assert answer["result"]["resultType"] == "complete"
        assert await standing.messages() == []
        assert text_of((await working.messages())[-1]) == "done"
        await idle.closed()
        status, _, errors = await ending
    assert (status, errors) == (0, "")


async def test_requests_that_take_too_long_are_ended_quietly():
    async with running(grace=0.2) as child:
        session = await child.site.open()
        stream = await session.call("later", seconds=1000)
        await stream.message()
        plain = asyncio.create_task(child.site.call("later", seconds=1000))
        hanging = await session.call("hang", id=3)
        await hanging.message()
        status, _, errors = await child.end()
        assert (await plain).status == 503
        assert await stream.messages() == []
    assert (status, errors) == (0, "")


async def test_an_ipv6_address_is_served():
    async with running(host="::1") as child:
        assert child.url == f"http://[::1]:{child.site.port}/mcp"
        reader, writer = await asyncio.open_connection("::1", child.site.port)
        writer.write(b"GET /other HTTP/1.1\r\nHost: [::1]:%d\r\n\r\n" % child.site.port)
        assert b"404" in await reader.readline()
        writer.close()


async def test_localhost_is_served_on_every_address_it_has_at_one_port():
    addresses = {info[4][0] for info in socket.getaddrinfo("localhost", 0, type=socket.SOCK_STREAM)}
    async with running(host="localhost") as child:
        for address in addresses:
            try:
                _, writer = await asyncio.open_connection(address, child.site.port)
            except OSError:
                assert ":" in address  # a machine without IPv6
            else:
                writer.close()


async def test_by_default_only_this_machine_can_reach_it():
    (listener,) = listen("127.0.0.1", 0)
    with listener:
        assert listener.getsockname()[0] == "127.0.0.1"
    async with running() as child:
        listening = pathlib.Path(f"/proc/{child.process.pid}/net/tcp").read_text()
        assert f"0100007F:{child.site.port:04X}" in listening
        assert f"00000000:{child.site.port:04X}" not in listening


def test_a_port_in_use_is_a_config_error_in_one_line():
    app = Server("web")
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(ConfigError, match=rf"^cannot listen on 127\.0\.0\.1: port {port} is in use$"):
            app.run("http", port=port)


@pytest.mark.parametrize(
    ("host", "reason"),
    [
        ("192.0.2.1", "cannot listen on 192.0.2.1 port 8123: Cannot assign requested address"),
        ("no.such.host.invalid", "cannot listen on no.such.host.invalid: there is no such host"),
        ("a..b", "cannot listen on a..b: there is no such host"),
    ],
)
def test_an_address_that_is_not_ours_is_a_config_error_in_one_line(host, reason):
    with pytest.raises(ConfigError) as raised:
        Server("web").run("http", host=host, port=8123)
    assert str(raised.value) == reason


async def test_the_first_request_of_a_new_connection_is_answered_while_the_server_ends():
    async with running(grace=PATIENT, first_request=PATIENT) as child:
        waiting, used = await child.site.connect(), await child.site.connect()
        assert await (await used.request("GET", path="/healthz")).body() == b'{"status":"ok"}'
        child.process.send_signal(signal.SIGTERM)
        await used.closed()
        reply = await waiting.request("GET", path="/healthz")
        assert (await reply.json(), reply.headers["connection"]) == ({"status": "ok"}, "close")
        await waiting.closed()
        assert await asyncio.wait_for(child.process.wait(), PATIENCE) == 0


async def test_a_connection_without_a_request_does_not_keep_the_server_from_ending():
    async with running(grace=PATIENT, first_request=0) as child:
        waiting, used = await child.site.connect(), await child.site.connect()
        assert await (await used.request("GET", path="/healthz")).body() == b'{"status":"ok"}'
        child.process.send_signal(signal.SIGTERM)
        await waiting.closed()
        assert await asyncio.wait_for(child.process.wait(), PATIENCE) == 0


async def test_a_server_uses_sockets_that_listen_already():
    app = Server("given")
    app.resources.add("memo://1", "one")
    started = asyncio.get_running_loop().create_future()
    listeners = listen("127.0.0.1", 0)
    port = listeners[0].getsockname()[1]
    serving = asyncio.ensure_future(app.run_async("http", listeners=listeners, on_started=started.set_result))
    assert await asyncio.wait_for(started, PATIENCE) == f"http://127.0.0.1:{port}/mcp"
    reply = await asyncio.to_thread(ask, started.result(), "resources/read", uri="memo://1")
    assert reply.result["contents"][0]["text"] == "one"
    serving.cancel()
    with pytest.raises(asyncio.CancelledError):
        await serving
    assert all(listener.fileno() == -1 for listener in listeners)


def test_sockets_that_share_a_port_are_several():
    (one,) = listen("127.0.0.1", 0, reuse_port=True)
    with one:
        port = one.getsockname()[1]
        (other,) = listen("127.0.0.1", port, reuse_port=True)
        with other, pytest.raises(ConfigError, match=f"port {port} is in use"):
            listen("127.0.0.1", port)


async def test_a_start_that_fails_is_the_error_it_is():
    process = await spawn("failing")
    out, errors = await asyncio.wait_for(process.communicate(), PATIENCE)
    assert process.returncode == 1
    assert out == b""
    assert errors.endswith(b"\nRuntimeError: the database is not there\n")


def test_without_uvicorn_it_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "uvicorn", None)
    with pytest.raises(ConfigError, match=r"pip install 'carrel\[http\]'"):
        Server("web").run("http")


async def test_a_server_runs_in_an_event_loop_until_it_is_cancelled() -> None:
    stopped: list[str] = []
    app = Server("async")
    app.resources.add("memo://1", "one")
    app.on_shutdown(lambda: stopped.append("stopped"))
    started: asyncio.Future[str] = asyncio.get_running_loop().create_future()
    serving = asyncio.ensure_future(app.run_async("http", port=0, on_started=started.set_result))
    url = await asyncio.wait_for(started, PATIENCE)
    reply = await asyncio.to_thread(ask, url, "resources/read", uri="memo://1")
    assert reply.result["contents"][0]["text"] == "one"
    serving.cancel()
    with pytest.raises(asyncio.CancelledError):
        await serving
    assert stopped == ["stopped"]


def test_accepted_connections_send_at_once():
    (listener,) = listen("127.0.0.1", 0)
    with listener, socket.create_connection(listener.getsockname()):
        connection, _ = listener.accept()
        with connection:
            assert connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY) == 1
