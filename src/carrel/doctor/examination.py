"""Examination of a server: all checks in their order, then the judgement of every recorded message."""

from __future__ import annotations

import time
from collections.abc import Callable

import msgspec

from carrel.client.client import Client
from carrel.doctor.changes import changes_observed
from carrel.doctor.hostile import check_hostile
from carrel.doctor.lists import check_lists
from carrel.doctor.recorder import RecordedMessages
from carrel.doctor.report import Report
from carrel.doctor.schemas import Judge
from carrel.doctor.subject import Subject, record_messages
from carrel.doctor.use import check_errors, check_pings, check_resources, check_subscriptions, check_tools
from carrel.protocol.methods import LIST_CAPABILITIES, LIST_NOTIFICATIONS

__all__ = ["examine"]

MAX_STDERR_LINES = 200
#: Notifications of lists, and the capability that has to declare them.
LIST_CHANGES = {LIST_NOTIFICATIONS[name].method: kind for name, kind in LIST_CAPABILITIES.items()}


async def examine(
    client: Client,
    report: Report,
    recording: RecordedMessages,
    *,
    hostile: bool = False,
    call: bool = False,
    timeout: float = 10.0,
    progress: Callable[[str], None] = lambda _: None,
) -> None:
    """Examine the server of a client that is not connected yet, and complete the report.

    ``recording`` has the lines of its standard error; its messages are added. If ``call`` is set, call all tools, not
    only read-only tools.

    Raises:
        MCPError: there is no connection at all.
    """
    record_messages(client, recording)
    started = time.perf_counter()
    progress("connecting")
    async with client:
        report.timing = {"connect": round((time.perf_counter() - started) * 1000, 2)}
        report.revision = client.revision
        report.server = None if client.server is None else msgspec.to_builtins(client.server)
        subject = Subject(client, recording, report, call=call, timeout=timeout)
        for about, check in (
            ("pings", check_pings),
            ("lists", check_lists),
            ("resources", check_resources),
            ("tools", check_tools_and_changes),
            ("errors", check_errors),
            ("subscriptions", check_subscriptions),
        ):
            progress(about)
            await check(subject)
        ordinary, lines = len(recording.messages), len(recording.errors)
        if hostile:
            progress("hostile input")
            await check_hostile(subject)
        declared: set[str] = {kind for kind in LIST_CHANGES.values() if client.session.server.reports_changes(kind)}
    judge_messages(report, recording.messages[:ordinary], declared, stateless=subject.stateless)
    if lines > MAX_STDERR_LINES:
        report.find("stderr", f"{lines} lines, the first of which is: {recording.errors[0]}")
    report.finish()


async def check_tools_and_changes(subject: Subject) -> None:
    """Call tools, and check that what changes meanwhile is notified of."""
    async with changes_observed(subject):
        await check_tools(subject)


def judge_messages(report: Report, messages: list[tuple[bool, bytes]], declared: set[str], *, stateless: bool) -> None:
    """Judge every message by the schema of the revision."""
    judge = Judge(report.revision)
    for is_sent, data in messages:
        try:
            message = msgspec.json.decode(data)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            if not is_sent:
                report.find("noise", repr(data[:100].decode("utf-8", "backslashreplace")))
            continue
        if is_sent:
            if stateless or message.get("method") != "server/discover":
                judge.sent(message)
            continue
        for error in judge.received(message):
            report.find("schema", error)
        method = message.get("method") if isinstance(message, dict) else None
        kind = LIST_CHANGES.get(method) if isinstance(method, str) else None
        if kind is not None and kind not in declared:
            report.find("undeclared", str(method))
    report.check("messages", judge.count)
