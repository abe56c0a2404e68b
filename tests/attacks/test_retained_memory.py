"""Clients that have a server keep much: answers they do not read, streams, subscriptions, sessions, tasks."""

from __future__ import annotations

import json
import os
import select
import socket
import subprocess
import sys
import time
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import pytest

from support.measured_server import META, connect, message, under_attack
from support.servers import SERVERS

KEPT = SERVERS / "large_results.py"
SMALL = "memo://small"
TASKS = {**META, "io.modelcontextprotocol/clientCapabilities": {"extensions": {"io.modelcontextprotocol/tasks": {}}}}

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="memory is measured by /proc")


class Client:
    """A client of 2025-11-25 with one session after another, on one connection."""

    def __init__(self, port: int, source: str = "127.0.0.1") -> None:
        self.connection = connect(port, source)
        self.session: str | None = None

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self.connection.close()

    def post(self, method: str, id: Any = 1, **params: Any) -> tuple[int, bytes]:
        headers = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}
        if self.session is not None:
            headers |= {"Mcp-Session-Id": self.session}
        body = json.dumps({"jsonrpc": "2.0", "id": id, "method": method, "params": params})
        self.connection.request("POST", "/mcp", body, headers)
        reply = self.connection.getresponse()
        data = reply.read()
        self.session = reply.headers["mcp-session-id"] or self.session
        return reply.status, data

    def open(self, **capabilities: Any) -> int:
        """Open a session, and return the status of the answer."""
        self.session = None
        client = {"name": "test", "version": "1"}
        status, _ = self.post("initialize", protocolVersion="2025-11-25", capabilities=capabilities, clientInfo=client)
        return status


def request(port: int, **message_of: Any) -> bytes:
    """Return a whole HTTP request."""
    body, headers = message(**message_of)
    lines = [f"POST /mcp HTTP/1.1\r\nHost: 127.0.0.1:{port}", *(f"{name}: {value}" for name, value in headers.items())]
    return ("\r\n".join([*lines, f"Content-Length: {len(body)}"]) + "\r\n\r\n").encode() + body


def settled(measure: Any, seconds: float = 1.0) -> float:
    """Return the most that is measured until it has not grown for some time."""
    most, until = measure(), time.monotonic() + seconds
    while time.monotonic() < until:
        time.sleep(0.02)
        now = measure()
        if now > most + 1:
            most, until = now, time.monotonic() + seconds
    return most


def test_a_client_on_stdio_that_does_not_read_is_read_no_further_and_every_request_is_answered(tmp_path):
    (tmp_path / "large.txt").write_text("x" * 1_000_000)
    uri = (tmp_path / "large.txt").as_uri()
    command = [sys.executable, "-m", "carrel", "serve", str(tmp_path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin is not None
        assert process.stdout is not None

        def rss() -> float:
            pages = int(Path(f"/proc/{process.pid}/statm").read_text().split()[1])
            return pages * os.sysconf("SC_PAGE_SIZE") / 1024**2

        def line(id: int) -> bytes:
            return message("resources/read", id, uri=uri)[0] + b"\n"

        process.stdin.write(line(0))
        process.stdin.flush()
        assert "result" in json.loads(process.stdout.readline())
        before = rss()
        data = memoryview(b"".join(map(line, range(1, 4000))))
        sent = 0
        os.set_blocking(process.stdin.fileno(), False)
        while sent < len(data) and select.select([], [process.stdin], [], 1.0)[1]:
            sent += os.write(process.stdin.fileno(), data[sent : sent + 65536])
        assert settled(rss) - before < 100
        assert sent < len(data), "the server has read everything"
        answers = [json.loads(process.stdout.readline()) for _ in range(bytes(data[:sent]).count(b"\n"))]
        assert sorted(answer["id"] for answer in answers) == list(range(1, len(answers) + 1))
        errors = {answer["error"]["message"].partition(":")[0] for answer in answers if "error" in answer}
        assert errors <= {"Too much is kept for this client already (max_kept_bytes_per_client)"}
        process.stdin.close()
        assert process.wait(60) == 0


def test_connections_that_ask_for_much_and_read_nothing_cost_no_more_than_the_share_of_their_client(tmp_path):
    (tmp_path / "large.txt").write_text("x" * 10_000_000)
    (tmp_path / "small.txt").write_text("small")
    with under_attack("serve", str(tmp_path)) as server, ExitStack() as stack:
        assert "result" in server.ask("resources/read", uri=(tmp_path / "small.txt").as_uri())
        before = server.rss()
        asking = request(server.port, method="resources/read", uri=(tmp_path / "large.txt").as_uri())
        with server.honest_reads((tmp_path / "small.txt").as_uri()) as reads:
            for _ in range(100):
                reader = stack.enter_context(socket.create_connection(("127.0.0.1", server.port)))
                reader.sendall(asking)
            assert settled(server.rss, 2.0) - before < 700  # 1,000 MB of answers take 1,500 MB encoded
        reads.check(worst=5.0)


def test_replayable_events_of_many_sessions_fit_the_share_of_their_client():
    with under_attack(script=KEPT) as server, Client(server.port) as client:
        assert client.open() == 200
        before = server.rss()
        with server.honest_reads(SMALL) as reads:
            for _ in range(40):
                assert client.open() == 200
                params = {"name": "large", "arguments": {"size": 5_000_000}, "_meta": {"progressToken": 1}}
                status, data = client.post("tools/call", **params)
                assert (status, len(data) > 5_000_000) == (200, True)
            assert server.rss() - before < 150  # 200 MB of streams
        reads.check()


def test_subscriptions_are_weighed_by_the_length_of_their_uris():
    with (
        under_attack(script=KEPT) as server,
        Client(server.port) as client,
        Client(server.port, "127.0.0.2") as other,
    ):
        client.open()
        before = server.rss()
        with server.honest_reads(SMALL) as reads:
            for number in range(2000):
                _, data = client.post("resources/subscribe", uri=f"doc://{number}/" + "x" * 60_000)
                if "error" in json.loads(data):
                    break
            assert number < 1000
            assert "max_kept_bytes_per_client" in json.loads(data)["error"]["message"]
            uris = [f"doc://{number}/" + "x" * 15_000 for number in range(1000)]
            refused = server.ask("subscriptions/listen", notifications={"resourceSubscriptions": uris})
            assert "max_kept_bytes_per_client" in refused["error"]["message"]
            assert server.rss() - before < 200
        reads.check()
        other.open()
        assert "result" in json.loads(other.post("resources/subscribe", uri="doc://x")[1])


def test_client_information_counts_against_the_budget():
    with under_attack(script=KEPT) as server, Client(server.port) as client:
        before = server.rss()
        statuses = [client.open(experimental={"x" * 2_000_000: {}}) for _ in range(50)]
        assert (statuses[0], statuses[-1]) == (200, 200)
        assert client.session is None, "an error, and no session"
        assert server.rss() - before < 150


def test_sessions_of_one_client_end_none_of_another():
    with (
        under_attack(script=KEPT) as server,
        Client(server.port) as attacker,
        Client(server.port, "127.0.0.2") as honest,
        Client(server.port, "127.0.0.3") as newcomer,
    ):
        assert honest.open() == 200
        honest.connection.close()  # it comes back on another one
        with server.honest_reads(SMALL) as reads:
            assert {attacker.open() for _ in range(900)} == {200}
            assert honest.post("ping")[0] == 200
            assert newcomer.open() == 200
        reads.check()


def test_tasks_of_one_client_keep_no_other_from_making_some():
    with under_attack(script=KEPT) as server:
        with closing(connect(server.port)) as connection:

            def call(tool: str, **arguments: Any) -> Any:
                body, headers = message("tools/call", name=tool, arguments=arguments, _meta=TASKS)
                connection.request("POST", "/mcp", body, headers)
                return json.loads(connection.getresponse().read())

            before = server.rss()
            finished = [call("result", size=8_000_000) for _ in range(45)]
            assert all("result" in answer for answer in finished), "finished ones give way"
            assert settled(server.rss) - before < 200  # 360 MB of results
            answers = [call("wait") for _ in range(100)]
        assert sum("result" in answer for answer in answers) == 40
        assert "There are too many tasks of this client: at most 40" in answers[-1]["error"]["message"]
        with closing(connect(server.port, "127.0.0.2")) as connection:
            body, headers = message("tools/call", name="wait", arguments={}, _meta=TASKS)
            connection.request("POST", "/mcp", body, headers)
            assert "result" in json.loads(connection.getresponse().read())
