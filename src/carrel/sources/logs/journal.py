"""The journal of systemd, read through ``journalctl -o json``: each unit is a log.

Only the fields that are shown are exported. Arguments are fixed, but for numbers and for names that ``journalctl``
has listed itself; there is no shell. https://www.freedesktop.org/software/systemd/man/latest/journalctl.html
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable, Iterator, Mapping
from math import inf
from threading import Timer
from typing import Any

import msgspec

from carrel.errors import ConfigError
from carrel.sources.logs.entries import LogEntry, Redact
from carrel.sources.logs.formats import Format
from carrel.sources.logs.levels import level_of
from carrel.sources.logs.location import LogInfo
from carrel.sources.logs.options import LogsOptions
from carrel.sources.logs.part import ReadOptions
from carrel.sources.logs.times import TimestampParser, iso

__all__ = ["Journal"]

FIELDS = "MESSAGE,PRIORITY,SYSLOG_IDENTIFIER,_SYSTEMD_UNIT,_PID,_HOSTNAME,_TRANSPORT"
UNIT = "_SYSTEMD_UNIT"
KERNEL = "kernel"
MAX_UNITS = 10_000
MAX_RECORD = 1_048_576  # bytes of one record
PATIENCE = 10.0  # seconds for the list of units


class RecordFormat:
    """Records of the journal, which are read from their lines as they are shown."""

    name = "journal"

    def head(self, line: str, timestamps: TimestampParser) -> None:
        """Return None: records are made by ``entry_of``."""

    def fields(self, line: str) -> Mapping[str, Any]:
        """Return time, host, program and message."""
        time, _, remaining = line.partition(" ")
        host, _, remaining = remaining.partition(" ")
        app, _, message = remaining.partition(": ")
        return {"time": time, "host": host, "app": app, "message": message}


RECORD: Format = RecordFormat()


class Journal:
    """The journal of this machine, or that in a folder.

    Raises:
        ConfigError: journalctl is not installed.
    """

    def __init__(self, options: LogsOptions) -> None:
        self.name = options.log_name or "journal"
        self._options = options
        found = shutil.which("journalctl")
        if found is None:
            raise ConfigError("logs:journal needs journalctl, which comes with systemd, and is not on this machine")
        self._command = [found, "--no-pager", "--quiet"]
        if options.journal_directory is not None:
            self._command += ["--directory", os.path.abspath(options.journal_directory)]  # noqa: PTH100

    def inspect(self) -> None:
        self.logs()

    def follow(self) -> list[str]:
        """Return the command that prints a line for each new record."""
        return [*self._command, "--follow", "--lines=0", "--output=json", f"--output-fields={UNIT},_TRANSPORT"]

    def logs(self) -> Mapping[str, LogInfo]:
        """Return the units that have written something.

        Raises:
            ConfigError: the journal cannot be read.
        """
        try:
            done = subprocess.run(  # noqa: S603
                [*self._command, f"--field={UNIT}"],
                stdin=subprocess.DEVNULL,
                capture_output=True,
                timeout=PATIENCE,
                env=environment(),
                check=False,
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            raise ConfigError(f"the journal cannot be read: {type(error).__name__}") from None
        if done.returncode:
            reason = done.stderr.decode("utf-8", "replace").strip().partition("\n")[0][:200]
            raise ConfigError(f"the journal cannot be read: {reason or f'exit code {done.returncode}'}")
        units = sorted(filter(None, done.stdout.decode("utf-8", "backslashreplace").split("\n")))[:MAX_UNITS]
        return dict.fromkeys([*units, KERNEL], LogInfo())

    def entries(self, log: str, reading: ReadOptions, note: Callable[[str], None]) -> Iterator[LogEntry]:
        """Yield the accepted entries of a unit, the newest first."""
        matched = "_TRANSPORT=kernel" if log == KERNEL else f"{UNIT}={log}"
        command = [*self._command, "--reverse", "--all", "--output=json", f"--output-fields={FIELDS}"]
        if reading.since > -inf:
            command.append(f"--since=@{max(reading.since, 0):.6f}")
        if reading.until < inf:
            command.append(f"--until=@{max(reading.until, 0):.6f}")
        process = subprocess.Popen(  # noqa: S603
            [*command, matched],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=environment(),
        )
        killer = Timer(reading.budget.left, process.kill)
        killer.start()
        assert process.stdout is not None
        try:
            while not reading.budget.is_over() and (line := process.stdout.readline(MAX_RECORD)):
                reading.budget.spend(len(line))
                entry = entry_of(line, reading.redact)
                if entry is None:
                    continue
                if reading.since <= entry.time <= reading.until and reading.accept(entry):
                    yield entry
        finally:
            killer.cancel()
            process.kill()
            process.stdout.close()
            process.wait()

    def forget(self) -> None:
        pass


def environment() -> dict[str, str]:
    """Return the environment of journalctl: no pager, no colours, one language and time zone."""
    kept = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}
    return {
        **kept,
        "LC_ALL": "C.UTF-8",
        "TZ": "UTC",
        "SYSTEMD_COLORS": "0",
        "SYSTEMD_PAGER": "",
        "SYSTEMD_LOG_LEVEL": "crit",
    }


def entry_of(line: bytes, redact: Redact | None = None) -> LogEntry | None:
    """Return the entry of a record; None if it is not whole."""
    try:
        record = msgspec.json.decode(line)
        time = int(record["__REALTIME_TIMESTAMP"]) / 1e6
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError, ValueError, TypeError, KeyError):
        return None
    host, app = (text_of(record.get(name)) or "-" for name in ("_HOSTNAME", "SYSLOG_IDENTIFIER"))
    process = f"[{text_of(record['_PID'])}]" if "_PID" in record else ""
    lines = text_of(record.get("MESSAGE")).rstrip("\n").split("\n")
    try:
        whole = [f"{iso(time)} {host} {app}{process}: {lines[0]}", *lines[1:]]
    except (ValueError, OverflowError, OSError):
        return None
    if redact is not None:
        whole = [redact(each) for each in whole]
    return LogEntry(time, level_of(text_of(record.get("PRIORITY")) or None), whole, RECORD)


def text_of(value: object) -> str:
    """Return a value of a record as text: bytes that are not UTF-8 are a list of numbers, values that are too long are
    null.
    """
    if isinstance(value, str):
        return value
    if isinstance(value, list):
        if all(isinstance(each, int) and 0 <= each < 256 for each in value):
            return bytes(value).decode("utf-8", "backslashreplace")
        return text_of(value[0]) if value else ""  # a field that came several times
    return "" if value is None else str(value)
