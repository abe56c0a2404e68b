"""``carrel audit``: shows the lines of an audit log for people, and verifies its hash chain."""

from __future__ import annotations

import argparse
import fnmatch
import re
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import msgspec

from carrel.audit.verify import files_of, read_lines, verify_files
from carrel.cli.config.read import read_configuration
from carrel.cli.config.settings import AuditSettings
from carrel.cli.options import Parser
from carrel.cli.terminal.messages import print_stderr
from carrel.cli.terminal.output import write_text
from carrel.columns import aligned
from carrel.errors import ConfigError
from carrel.printable import printable

__all__ = ["parser", "run"]

SUMMARY = "Show the audit log of a server, or verify that its lines are complete and unchanged."
EXAMPLES = """\
examples:
  carrel audit show                             the log of ./carrel.toml
  carrel audit show --denied --since 1h
  carrel audit show audit.jsonl --principal ann --target 'notes://blue/*'
  carrel audit verify                           the hashes of [audit] chain = true

Exit codes: 0; 1 if verify finds something; 2 after wrong use.
"""
UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400}
LONGEST = 60


def parser() -> Parser:
    """Return the argument parser of ``carrel audit``."""
    reader = Parser("audit", SUMMARY, epilog=EXAMPLES)
    reader.add_argument("action", metavar="ACTION", choices=("show", "verify"), help="show or verify")
    reader.add_argument(
        "file", metavar="FILE", nargs="?", help="the log, with its rotated files (default: [audit] file)"
    )
    reader.add_argument("--config", metavar="FILE", help="the file with [audit] (default: ./carrel.toml)")
    reader.add_argument("--principal", metavar="NAME", help="show: only requests of this caller; * is any text")
    reader.add_argument("--role", metavar="NAME", help="show: only requests of callers with this role")
    reader.add_argument("--target", metavar="PATTERN", help="show: only this URI, tool or prompt; * is any text")
    reader.add_argument("--since", metavar="TIME", type=moment, help="show: since 15m, 2h, 7d ago, or 2026-03-01T10:00")
    reader.add_argument("--denied", action="store_true", help="show: only what was denied")
    reader.add_argument("--errors", action="store_true", help="show: only what was denied or failed")
    reader.add_argument("--json", action="store_true", help="show: the lines of the log as they are")
    return reader


def moment(text: str) -> float:
    """Parse a time: how long ago, or in ISO 8601, which is in local time unless it has an offset.

    Raises:
        ArgumentTypeError: it is neither.
    """
    found = re.fullmatch(r"(\d{1,9})([smhd])", text)
    if found is not None:
        return time.time() - int(found[1]) * UNITS[found[2]]
    try:
        return datetime.fromisoformat(text).timestamp()
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not a time such as 15m, 2h, 7d or 2026-03-01T10:00") from None


def run(arguments: list[str]) -> int:
    """Run ``carrel audit``.

    Raises:
        ConfigError: invalid arguments, or no log.
    """
    options = parser().parse_args(arguments)
    settings = AuditSettings()
    if options.file is None or options.config is not None:
        settings = read_configuration(options, targeted=False).settings.audit
    path = options.file or settings.file
    if path is None:
        raise ConfigError("no log given: name a file, or a carrel.toml with [audit] file (see carrel audit --help)")
    files = files_of(path)
    if options.action == "verify":
        return verify(files, (settings.key or "").encode())
    return show(files, options)


def verify(files: list[str], key: bytes) -> int:
    """Verify the hash chain, and print the problems or the last number and hash."""
    found = verify_files(files, key)
    if found.problems:
        write_text("\n".join(found.problems) + "\n")
        return 1
    text = f"{found.lines} lines are complete and unchanged, up to line {found.number} ({found.digest})"
    if found.first > 1:
        text += f"; the lines before line {found.first} are not in the files, so changes of this line are not found"
    write_text(f"{text}\n")
    return 0


def show(files: list[str], options: argparse.Namespace) -> int:
    """Print the lines that the options select, as a table or as they are."""
    rows = []
    for place, line in read_lines(files):
        try:
            record = msgspec.json.decode(line, type=dict[str, Any])
        except msgspec.MsgspecError:
            print_stderr(f"carrel: {place}: this is not a line of an audit log")
            continue
        if not selected(record, options):
            continue
        if options.json:
            write_text(line.decode("utf-8", "replace") + "\n")
        else:
            rows.append(list(cells(record)))
    if rows:
        heads = ["TIME", "CALLER", "REQUEST", "TARGET", "DECISION", "OUTCOME", "MS", "BYTES", "RULE"]
        write_text("\n".join(aligned([heads, *rows], None)) + "\n")
    return 0


def selected(record: dict[str, Any], options: argparse.Namespace) -> bool:
    """Return whether the options select a line."""
    targets = record.get("target") or ""
    names = targets if isinstance(targets, list) else [targets]
    denied = record.get("decision") == "denied"
    return (
        (options.principal is None or fnmatch.fnmatchcase(record.get("principal") or "", options.principal))
        and (options.role is None or options.role in record.get("roles", ()))
        and (options.target is None or any(fnmatch.fnmatchcase(name, options.target) for name in names))
        and (options.since is None or record.get("time", 0.0) >= options.since)
        and (not options.denied or denied)
        and (not options.errors or denied or record.get("outcome", "ok") not in ("ok", "open"))
    )


def cells(record: dict[str, Any]) -> Iterator[str]:
    """Yield the cells of a line in the table. The text of peers is escaped."""
    if "missing" in record:
        yield from (clock(record), "", f"{record['missing']} lines are missing", *[""] * 6)
        return
    target = record.get("target") or ""
    names = target if isinstance(target, list) else [target]
    outcome = record.get("outcome", "ok")
    code = "" if "code" not in record else f" {record['code']}"
    yield clock(record)
    yield printable(record.get("principal") or record.get("address") or "local", LONGEST)
    yield printable(record.get("method", ""), LONGEST)
    yield printable(names[0] + (f" and {len(names) - 1} more" if names[1:] else ""), LONGEST)
    yield record.get("decision", "allowed" if "verb" in record else "")  # of other requests, nothing is decided
    yield f"{outcome}{code}"
    yield f"{record.get('seconds', 0.0) * 1000:.1f}"
    yield str(record.get("bytes_out", 0))
    yield printable(record.get("rule") or record.get("message") or "", LONGEST)


def clock(record: dict[str, Any]) -> str:
    """Return the time of a line in UTC."""
    return datetime.fromtimestamp(record.get("time", 0.0), UTC).strftime("%Y-%m-%d %H:%M:%SZ")
