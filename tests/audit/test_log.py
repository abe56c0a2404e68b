"""AuditLog: complete lines in order, over rotations, restarts, logrotate and full disks."""

from __future__ import annotations

import errno
import json
import os
import threading
import time
from pathlib import Path
from typing import Any, Literal

import pytest

from carrel.audit import AuditFile, AuditLog, FileOptions, verify_files
from carrel.audit import file as file_module
from carrel.audit import log as module
from carrel.audit.verify import files_of
from carrel.errors import ConfigError


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "INTERVAL", 0.001)
    monkeypatch.setattr(module, "RETRY", 0.001)


def encode(entry: Any) -> bytes:
    return json.dumps({"entry": entry}, separators=(",", ":")).encode()


def opened(path: Path, on_full: Literal["refuse", "count"] = "refuse", **options: Any) -> AuditLog:
    log = AuditLog(AuditFile(FileOptions(path=str(path), **options)), encode, on_full)
    log.start()
    return log


def entries(path: Path) -> list[Any]:
    lines = [line for file in files_of(str(path)) for line in Path(file).read_bytes().splitlines()]
    return [record.get("entry", record) for record in map(json.loads, lines)]


def wait_until(condition: Any) -> None:
    end = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.001)


def test_all_lines_are_there_in_order_after_the_end(tmp_path: Path) -> None:
    path = tmp_path / "audit.jsonl"
    log = opened(path)
    for number in range(5000):
        log.write(number)
    log.stop()
    assert entries(path) == list(range(5000))
    assert path.stat().st_mode & 0o777 == 0o600


def test_rotated_files_and_a_restart_continue_the_chain(tmp_path: Path) -> None:
    path = tmp_path / "audit.jsonl"
    for start in (0, 300):
        log = opened(path, chain=True, max_size=4000, keep=100, key=b"key")
        for number in range(start, start + 300):
            log.write(number)
            if number % 50 == 0:
                wait_until(lambda log=log: not log._waiting)
        log.stop()
    assert entries(path) == list(range(600))
    assert len(files_of(str(path))) > 5
    assert all(Path(file).stat().st_size < 4500 for file in files_of(str(path)))
    found = verify_files(files_of(str(path)), b"key")
    assert (found.problems, found.lines, found.number) == ([], 600, 600)
    assert verify_files(files_of(str(path)), b"other").problems


def test_only_some_older_files_are_kept(tmp_path: Path) -> None:
    path = tmp_path / "audit.jsonl"
    log = opened(path, max_size=200, keep=2)
    for number in range(200):
        log.write(number)
    log.stop()
    assert {file.name for file in tmp_path.iterdir()} <= {"audit.jsonl", "audit.jsonl.1", "audit.jsonl.2"}
    assert entries(path)[-1] == 199


def test_a_renamed_file_is_opened_again(tmp_path: Path) -> None:
    path = tmp_path / "audit.jsonl"
    log = opened(path, chain=True)
    log.write(1)
    wait_until(path.read_bytes)
    path.rename(tmp_path / "audit.jsonl.1")
    log.write(2)
    wait_until(lambda: path.exists() and path.read_bytes())
    log.stop()
    assert entries(path) == [1, 2]
    assert verify_files(files_of(str(path))).problems == []


def test_a_line_that_was_not_completed_is_ended_and_found(tmp_path: Path) -> None:
    path = tmp_path / "audit.jsonl"
    log = opened(path, chain=True)
    log.write(1)
    log.stop()
    with path.open("ab") as file:
        file.write(b'{"entry":2,"num')
    log = opened(path, chain=True)
    log.write(3)
    log.stop()
    lines = path.read_bytes().splitlines()
    assert len(lines) == 3
    (problem,) = verify_files([str(path)]).problems
    assert f"{path}:2: the line has no hash" in problem


class Disk:
    """Disk with room for some bytes. It writes a part of what does not fit."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.room = 10**9
        self._write = os.write
        monkeypatch.setattr(file_module.os, "write", self.write)

    def write(self, descriptor: int, data: bytes) -> int:
        if threading.current_thread().name != "carrel-audit":
            return self._write(descriptor, data)
        size = min(self.room, len(data))
        if not size:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        self.room -= size
        return self._write(descriptor, data[:size])


def test_on_a_full_disk_requests_are_refused_and_no_line_is_lost_or_doubled(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    disk = Disk(monkeypatch)
    path = tmp_path / "audit.jsonl"
    log = opened(path, chain=True)
    disk.room = 500
    for number in range(100):
        log.write(number)
    wait_until(lambda: log.refuses)
    log.write(100)  # of a request that was handled meanwhile
    disk.room = 10**9
    wait_until(lambda: not log.refuses)
    log.stop()
    assert entries(path) == list(range(101))
    assert verify_files([str(path)]).problems == []
    assert "requests are refused" in caplog.text


def test_on_a_full_disk_lines_can_be_left_out_and_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    disk = Disk(monkeypatch)
    path = tmp_path / "audit.jsonl"
    log = opened(path, on_full="count", chain=True)
    disk.room = 0
    log.write(1)
    wait_until(lambda: log.is_full)
    assert not log.refuses
    log.write(2)
    log.write(3)
    wait_until(lambda: not log._waiting)
    disk.room = 10**9
    wait_until(lambda: not log.is_full)
    log.write(4)
    log.stop()
    found = entries(path)
    missing = sum(record["missing"] for record in found if isinstance(record, dict))
    assert [record for record in found if isinstance(record, int)] == [1, 4]
    assert missing == 2
    assert verify_files([str(path)]).problems == []


def test_a_disk_that_stays_full_does_not_stop_the_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(module, "PATIENCE", 0.1)
    disk = Disk(monkeypatch)
    log = opened(tmp_path / "audit.jsonl")
    disk.room = 0
    log.write(1)
    wait_until(lambda: log.is_full)
    log.stop()
    assert "1 lines are lost" in caplog.text


def test_too_many_entries_count_as_a_full_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_WAITING", 3)
    path = tmp_path / "audit.jsonl"
    log = AuditLog(AuditFile(FileOptions(path=str(path))), encode)  # its thread does not run yet
    for number in range(5):
        log.write(number)
    assert log.refuses
    log.start()
    wait_until(lambda: not log.refuses)
    log.stop()
    assert entries(path)[:3] == [0, 1, 2]
    assert entries(path)[3]["missing"] == 2


def test_an_entry_that_cannot_be_encoded_does_not_stop_the_log(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "audit.jsonl"
    log = opened(path)
    log.write(object())
    log.write(1)
    log.stop()
    assert [entry if isinstance(entry, int) else entry["missing"] for entry in entries(path)] == [1, 1]
    assert "a line is missing" in caplog.text


def test_a_file_that_cannot_be_opened_is_an_error(tmp_path: Path) -> None:
    for path in (tmp_path, tmp_path / "missing/audit.jsonl"):
        with pytest.raises(ConfigError, match="cannot be opened"):
            AuditFile(FileOptions(path=str(path)))
    link = tmp_path / "link"
    link.symlink_to(tmp_path / "target")
    with pytest.raises(ConfigError, match="cannot be opened"):
        AuditFile(FileOptions(path=str(link)))
