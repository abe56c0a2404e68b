"""``[audit]`` with ``syslog``, ``stderr`` and ``otel``: rsyslog and OpenTelemetry read the records."""

from __future__ import annotations

import json
import socket
import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from carrel import Client
from carrel.audit import AuditLog, Syslog
from carrel.audit import log as module
from carrel.cli import main
from carrel.errors import ConfigError
from carrel.transports.client.options import ProcessOptions
from support.carrel_process import command
from support.debian import program
from support.http_process import free_port

pytestmark = pytest.mark.slow

SETTINGS = """
global(workDirectory="{folder}" net.enableDNS="off" maxMessageSize="64k")
module(load="imudp")
module(load="imtcp")
module(load="imuxsock" SysSock.Use="off")
input(type="imudp" address="127.0.0.1" port="{port}")
input(type="imtcp" address="127.0.0.1" port="{port}")
input(type="imuxsock" Socket="{folder}/log" UseSpecialParser="off" ParseHostname="on")
template(name="row" type="list") {{ property(name="jsonmesg") constant(value="\\n") }}
action(type="omfile" file="{folder}/rows" template="row")
"""
SERVER = """
import sys
from carrel import Server

app = Server("shop")
app.resources.add("note://one", "1")
"""
PROVIDER = """
from opentelemetry._logs import set_logger_provider
from opentelemetry.sdk._logs import LoggerProvider
from opentelemetry.sdk._logs.export import ConsoleLogRecordExporter, SimpleLogRecordProcessor

provider = LoggerProvider()
provider.add_log_record_processor(SimpleLogRecordProcessor(ConsoleLogRecordExporter(out=open("records", "w"))))
set_logger_provider(provider)
"""


class Rsyslog:
    """rsyslog, which parses what it receives, on one port for UDP and TCP and on a Unix socket."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.port = free_port()
        (folder / "conf").write_text(SETTINGS.format(folder=folder, port=self.port))
        self.process = self.start()

    def start(self) -> subprocess.Popen[bytes]:
        arguments = ["-n", "-f", str(self.folder / "conf"), "-i", str(self.folder / "pid")]
        process = subprocess.Popen([program("rsyslogd"), *arguments], stderr=subprocess.DEVNULL)
        end = time.monotonic() + 60
        while not (self.folder / "log").exists() or not self.listens():
            assert process.poll() is None
            assert time.monotonic() < end
            time.sleep(0.01)
        return process

    def listens(self) -> bool:
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", self.port)) == 0

    def stop(self) -> None:
        self.process.terminate()
        self.process.wait(60)

    def rows(self, count: int) -> list[dict[str, Any]]:
        """Wait for a number of messages, and return them."""
        path, end = self.folder / "rows", time.monotonic() + 60
        while not path.exists() or path.read_bytes().count(b"\n") < count:
            assert time.monotonic() < end, path.read_text() if path.exists() else "nothing"
            time.sleep(0.01)
        return [json.loads(line) for line in path.read_text().splitlines()]


@pytest.fixture
def rsyslog(tmp_path: Path) -> Iterator[Rsyslog]:
    server = Rsyslog(tmp_path)
    try:
        yield server
    finally:
        server.stop()


async def use(folder: Path, settings: str, server: str = SERVER) -> list[str]:
    """Read a resource of a server with an audit log, and return the lines of its standard error."""
    (folder / "server.py").write_text(server)
    (folder / "carrel.toml").write_text(f'[app]\nfile = "server.py"\n[audit]\n{settings}')
    lines: list[str] = []
    options = ProcessOptions(cwd=folder, stderr=lines.append)
    async with Client(command("run", "--config", "carrel.toml"), process=options) as client:
        await client.read_resource("note://one")
    return lines


@pytest.mark.parametrize("scheme", ["udp", "tcp", "unix"])
async def test_rsyslog_reads_the_records_of_a_server(rsyslog: Rsyslog, tmp_path: Path, scheme: str) -> None:
    where = f"unix://{tmp_path}/log" if scheme == "unix" else f"{scheme}://127.0.0.1:{rsyslog.port}"
    await use(tmp_path, f'syslog = "{where}"')
    (row,) = [row for row in rsyslog.rows(2) if "note://one" in row["msg"]]
    assert json.loads(row["msg"])["method"] == "resources/read"
    assert (row["app-name"], row["msgid"], row["protocol-version"]) == ("carrel", "audit", "1")
    assert (row["syslogfacility"], row["syslogseverity"]) == ("13", "6")  # log audit, informational
    assert row["procid"].isdigit()
    assert row["hostname"] == socket.gethostname()


def test_records_wait_until_the_server_is_back(
    rsyslog: Rsyslog, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(module, "RETRY", 0.01)
    log = AuditLog(Syslog(f"tcp://127.0.0.1:{rsyslog.port}"), lambda entry: json.dumps(entry).encode())
    log.start()
    log.write({"time": 1.5, "entry": 1})
    rsyslog.rows(1)
    rsyslog.stop()
    end = time.monotonic() + 60
    number = 1
    while not log.refuses:  # the kernel takes some records of a connection that is broken
        number += 1
        log.write({"time": 1.5, "entry": number, "decision": "denied"})
        time.sleep(0.02)
        assert time.monotonic() < end
    log.write({"time": 1.5, "entry": "last"})
    (rsyslog.folder / "log").unlink(missing_ok=True)
    rsyslog.process = rsyslog.start()
    while log.refuses:
        assert time.monotonic() < end
        time.sleep(0.01)
    log.stop()
    assert "can be written again" in caplog.text
    rows = rsyslog.rows(2)
    while '"last"' not in rows[-1]["msg"]:
        assert time.monotonic() < end
        rows = rsyslog.rows(len(rows) + 1)
    entries = [json.loads(row["msg"])["entry"] for row in rows]
    assert len(entries) == len(set(entries))
    assert any(row["syslogseverity"] == "4" for row in rows)
    assert rows[0]["timereported"].startswith("1970-01-01T00:00:01.5")


def test_a_record_that_is_too_long_for_a_datagram_is_shortened(rsyslog: Rsyslog) -> None:
    log = AuditLog(Syslog(f"udp://127.0.0.1:{rsyslog.port}"), lambda entry: json.dumps(entry).encode())
    log.start()
    log.write({"time": 1.0, "principal": "ann", "target": ["x" * 2000] * 50, "rule": "a.toml:1"})
    log.stop()
    (row,) = rsyslog.rows(1)
    assert json.loads(row["msg"]) == {"time": 1.0, "principal": "ann", "rule": "a.toml:1", "shortened": True}


async def test_standard_error_and_opentelemetry_get_the_records(tmp_path: Path) -> None:
    errors = await use(tmp_path, "stderr = true\notel = true", SERVER + PROVIDER)
    lines = [json.loads(line) for line in errors if line.startswith("{")]
    (line,) = [line for line in lines if line["method"] == "resources/read"]
    assert line["target"] == "note://one"
    text = (tmp_path / "records").read_text()
    assert text.count('"event_name": "carrel.audit"') == len(lines)
    assert '"target": "note://one"' in text


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ("otel = true", "opentelemetry-instrument"),
        ('syslog = "localhost:514"', "is not udp://HOST:PORT"),
        ('syslog = "udp://localhost:x"', "is not udp://HOST:PORT"),
        ("stderr = true\nchain = true", "chain is for a file"),
    ],
)
def test_an_invalid_destination_is_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], settings: str, told: str
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("server.py").write_text(SERVER)
    Path("carrel.toml").write_text(f'[app]\nfile = "server.py"\n[audit]\n{settings}')
    assert main(["run", "--config", "carrel.toml"]) == 2
    errors = capsys.readouterr().err
    assert told in errors
    assert errors.count("\n") == 1


def test_over_tls_only_a_server_with_a_valid_certificate_gets_records(caplog: pytest.LogCaptureFixture) -> None:
    with socket.create_server(("127.0.0.1", 0)) as plain:
        log = AuditLog(Syslog(f"tls://127.0.0.1:{plain.getsockname()[1]}"), lambda entry: b'{"time":1}')
        received = []

        def answer() -> None:
            connection, _ = plain.accept()
            with connection:
                received.append(connection.recv(10_000))
                connection.sendall(b"this is not TLS")

        thread = threading.Thread(target=answer)
        thread.start()
        log.start()
        log.write(1)
        thread.join()
        end = time.monotonic() + 60
        while not log.refuses:
            assert time.monotonic() < end
            time.sleep(0.01)
    assert b"time" not in received[0]


def test_urls() -> None:
    for url in ("udp://logs", "tcp://[::1]:601", "tls://logs.example.org", "unix:///dev/log"):
        assert Syslog(url).name == url
    for url in ("udp://", "http://logs", "unix://dev/log", "udp://logs?x=1", "udp://[::1"):
        with pytest.raises(ConfigError):
            Syslog(url)
