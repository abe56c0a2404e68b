"""Audit file of several processes: one order, one hash chain, and no line lost."""

from __future__ import annotations

import errno
import json
import os
import signal
import subprocess
import sys
import threading
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from carrel.audit import FileOptions, verify_files
from carrel.audit.shared_file import SharedAuditFile, lock_of
from carrel.audit.verify import files_of
from carrel.errors import ConfigError

WRITER = """
import json
import sys

from carrel.audit import FileOptions
from carrel.audit.shared_file import SharedAuditFile

path, name, count = sys.argv[1:]
file = SharedAuditFile(FileOptions(path=path, chain=True, max_size=20_000, keep=1000, key=b"key"))
print("ready", flush=True)
sys.stdin.readline()
for number in range(0, int(count), 3):
    file.write([json.dumps({"entry": f"{name}.{each}"}).encode() for each in range(number, number + 3)])
file.close()
"""


def options(path: Path, **given: Any) -> FileOptions:
    return FileOptions(path=str(path), chain=True, key=b"key", **given)


def record(entry: Any) -> bytes:
    return json.dumps({"entry": entry}, separators=(",", ":")).encode()


def entries(path: Path) -> list[Any]:
    return [json.loads(line)["entry"] for file in files_of(str(path)) for line in Path(file).read_bytes().splitlines()]


def test_processes_write_one_chain_over_rotations_and_a_kill_loses_no_line_of_others(tmp_path: Path) -> None:
    path = tmp_path / "audit.jsonl"
    counts = {"a": 600, "b": 600, "killed": 3_000_000}
    processes = {
        name: subprocess.Popen(
            [sys.executable, "-c", WRITER, str(path), name, str(count)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for name, count in counts.items()
    }
    for process in processes.values():
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
    for process in processes.values():
        assert process.stdin is not None
        process.stdin.write("go\n")
        process.stdin.flush()
    assert processes["a"].wait(120) == 0
    processes["killed"].send_signal(signal.SIGKILL)
    assert processes["b"].wait(120) == 0
    for process in processes.values():
        process.communicate()
    found = Counter(entries(path))
    assert set(found.values()) == {1}
    written = [entry for entry in entries(path) if entry.startswith(("a.", "b."))]
    for name in ("a", "b"):
        assert [entry for entry in written if entry.startswith(name)] == [f"{name}.{n}" for n in range(600)]
    assert len(files_of(str(path))) > 2
    assert verify_files(files_of(str(path)), b"key").problems == []


def test_lines_that_did_not_fit_on_the_disk_are_written_later(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "audit.jsonl"
    one, other = SharedAuditFile(options(path)), SharedAuditFile(options(path))
    one.write([record(1)])
    write = os.write

    def full(descriptor: int, data: bytes) -> int:
        if len(data) > 10:
            return write(descriptor, data[: len(data) // 2])
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "write", full)
        with pytest.raises(OSError, match="No space"):
            one.write([record(2), record(3)])
    assert one.unwritten == 2
    other.write([record("other")])
    one.write([record(4)])
    assert entries(path) == [1, "other", 2, 3, 4]
    assert verify_files(files_of(str(path)), b"key").problems == []


def test_the_chain_goes_on_in_a_new_file_after_another_program_has_moved_the_file(tmp_path: Path) -> None:
    path, moved = tmp_path / "audit.jsonl", tmp_path / "moved"
    one, other = SharedAuditFile(options(path)), SharedAuditFile(options(path))
    one.write([record(1)])
    other.write([record(2)])
    path.rename(moved)
    one.write([record(3)])
    other.write([record(4)])
    assert entries(path) == [3, 4]
    assert verify_files([str(moved), str(path)], b"key").problems == []


def test_a_lock_that_cannot_be_opened_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "audit.jsonl.lock").mkdir()
    with pytest.raises(ConfigError, match="cannot be locked"):
        SharedAuditFile(options(tmp_path / "audit.jsonl"))


def test_a_lock_file_that_is_removed_is_made_anew_and_all_processes_lock_it(tmp_path: Path) -> None:
    path = tmp_path / "audit.jsonl"
    one = SharedAuditFile(options(path))
    one.write([record(1)])
    Path(lock_of(str(path))).unlink()
    other = SharedAuditFile(options(path))
    with other._locked():
        writing = threading.Thread(target=one.write, args=([record(3)],))
        writing.start()
        writing.join(0.2)
        assert writing.is_alive(), "it must wait"
        assert entries(path) == [1]
    writing.join(60)
    other.write([record(4)])
    Path(lock_of(str(path))).unlink()
    one.write([record(5)])
    assert entries(path) == [1, 3, 4, 5]
    for file in (one, other):
        file.close()
    assert verify_files(files_of(str(path)), b"key").problems == []
