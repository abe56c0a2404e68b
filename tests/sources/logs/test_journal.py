"""The journal of systemd: journals made by systemd-journal-remote, read by the real journalctl."""

import asyncio
import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from time import time

import pytest

from carrel.catalog.provider import Interest
from carrel.errors import ConfigError, ResourceNotFound
from carrel.sources.logs.journal import entry_of
from carrel.sources.logs.options import LogsOptions
from carrel.sources.logs.source import LogsSource
from carrel.testing import Caller, running
from support.debian import program


@pytest.fixture
def journal(tmp_path: Path) -> Callable[..., Path]:
    """Return a function that makes a journal of records: instant, unit, priority, message."""
    program("journalctl")
    writer = program("systemd-journal-remote")

    def make(*records: tuple[float, str, int, bytes]) -> Path:
        export = b""
        for number, (instant, unit, priority, message) in enumerate(records):
            fields = {
                "_SYSTEMD_UNIT": unit,
                "PRIORITY": priority,
                "SYSLOG_IDENTIFIER": unit.partition(".")[0],
                "_PID": 7,
            }
            fields |= {"_HOSTNAME": "host", "_BOOT_ID": "0" * 31 + "1", "__MONOTONIC_TIMESTAMP": number + 1}
            fields["__REALTIME_TIMESTAMP"] = int(instant * 1e6)
            export += "".join(f"{name}={value}\n" for name, value in fields.items()).encode()
            export += b"MESSAGE\n" + len(message).to_bytes(8, "little") + message + b"\n\n"
        path = tmp_path / "journal"
        path.mkdir(exist_ok=True)
        name = f"{len(list(path.iterdir()))}.journal"
        subprocess.run([writer, "-o", path / name, "-"], input=export, capture_output=True, check=True)
        return path

    return make


@pytest.mark.asyncio
async def test_units_of_a_journal_are_logs(journal: Callable[..., Path]) -> None:
    now = time()
    folder = journal(
        (now - 7200, "shop.service", 6, b"long ago"),
        (now - 60, "shop.service", 3, b"failed: x=17\n  at line 1"),
        (now - 50, "ssh.service", 6, b"accepted \x1b[31m"),
        (now - 40, "shop.service", 6, b"caf\xe9"),
    )
    source = LogsSource("logs:journal", LogsOptions(journal_directory=str(folder)))
    async with running(source):
        caller = Caller(source)

        async def read(uri: str) -> str:
            return (await caller.read_resource(f"logs://{uri}"))[0].text

        assert [item.uri for item in await caller.directory("logs://journal")] == [
            "logs://journal/kernel",
            "logs://journal/shop.service",
            "logs://journal/ssh.service",
        ]
        recent = await read("recent?timeframe=5m")
        assert [line.partition(": ")[2] for line in recent.splitlines() if line.startswith("[")] == [
            "failed: x=17",
            r"accepted \x1b[31m",
            r"caf\xe9",
        ]
        assert "long ago" in await read("journal/shop.service")
        assert (await read("journal/shop.service?level=error")).endswith("shop[7]: failed: x=17\n  at line 1\n")
        assert "accepted" not in await read("journal/shop.service?tail=9")
        assert json.loads(await read("journal/shop.service?tail=1&fields=app,message"))["app"] == "shop[7]"
        assert json.loads(await read("statistics?timeframe=5m"))["levels"] == {"error": 1, "info": 2}
        for bad in ("journal/shop.service%20--file=x", "journal/--help", "journal/*"):
            with pytest.raises(ResourceNotFound):
                await read(bad)


@pytest.mark.asyncio
async def test_a_new_record_is_reported_for_its_unit(journal: Callable[..., Path]) -> None:
    folder = journal((time() - 60, "shop.service", 6, b"before"))
    source = LogsSource("logs:journal", LogsOptions(journal_directory=str(folder)))
    async with running(source):
        watch = source.watch(Interest(["logs://recent?timeframe=5m"]))
        assert not await anext(watch)
        batch = asyncio.ensure_future(anext(watch))
        async with asyncio.timeout(60):
            while not batch.done():  # journalctl does not say when it listens
                journal((time(), "ssh.service", 6, b"now"))
                await asyncio.wait([batch], timeout=0.5)
        uris = {change.uri for change in await batch}
        assert uris == {
            "logs://journal/ssh.service",
            "logs://recent",
            "logs://statistics",
            "logs://recent?timeframe=5m",
        }
        await watch.aclose()


@pytest.mark.asyncio
async def test_a_journal_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="journal cannot be read"):
        async with running(LogsSource("logs:journal", LogsOptions(journal_directory=str(tmp_path / "missing")))):
            pass


@pytest.mark.parametrize(
    "line", [b"", b"{", b"[]", b"{}", b'{"__REALTIME_TIMESTAMP":"x"}', b'{"__REALTIME_TIMESTAMP":[]}', b"\xff", b"null"]
)
def test_records_that_are_not_whole_are_left_out(line: bytes) -> None:
    assert entry_of(line) is None


def test_messages_may_be_bytes_or_absent_or_several() -> None:
    for message, text in (("[104,255]", r"h\xff"), ("null", ""), ('["a","b"]', "a"), ("[999]", "999")):
        entry = entry_of(f'{{"__REALTIME_TIMESTAMP":"1738310400000000","MESSAGE":{message}}}'.encode())
        assert entry is not None
        assert entry.text == f"2025-01-31T08:00:00Z - -: {text}"
