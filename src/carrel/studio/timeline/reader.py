"""Reader of recorded messages: finds the response of each request, and validates messages by their schema."""

from __future__ import annotations

from typing import Any

import msgspec

from carrel.doctor.schemas import Judge
from carrel.printable import printable
from carrel.protocol.methods import DISCOVER, INITIALIZE
from carrel.protocol.revisions import REVISIONS
from carrel.studio.timeline.facts import Facts
from carrel.studio.timeline.log import Entry

__all__ = ["TimelineReader", "known", "target_of"]

#: Bytes of a message up to which it is judged: validation happens in the event loop.
MAX_JUDGED = 2 * 1024 * 1024
#: Requests without a response that are remembered.
MAX_PENDING = 10_000
MAX_NAME = 200
#: Members of parameters that name the target of a request.
TARGETS = ("name", "uri", "taskId")


class TimelineReader:
    """Reads messages in their order. Remembers the requests that have no response yet."""

    def __init__(self) -> None:
        self._pending: dict[tuple[int, bool, Any], Entry] = {}

    def read(self, entry: Entry) -> None:
        """Set the facts of a message, and complete the facts of its request."""
        try:
            message = msgspec.json.decode(entry.data)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            entry.facts = Facts("other", invalid=(f"not JSON: {printable(error)}",))
            return
        if isinstance(message, list):
            facts = Facts("batch", revision=entry.revision, invalid=self._judge(entry, message, entry.revision, None))
        elif not isinstance(message, dict):
            facts = Facts("other", invalid=("a message is not an object",))
        elif "method" in message:
            facts = self._read_method(entry, message)
        else:
            facts = self._read_response(entry, message)
        entry.facts = facts

    def _read_method(self, entry: Entry, message: dict[str, Any]) -> Facts:
        params = message.get("params")
        method = printable(message["method"], MAX_NAME)
        revision = entry.revision
        if method == INITIALIZE.method and isinstance(params, dict):
            revision = known(params.get("protocolVersion")) or revision
        facts = Facts(
            "request" if "id" in message else "notification",
            method,
            shown_id(message.get("id")),
            target_of(params),
            revision,
            invalid=self._judge(entry, message, revision, None),
        )
        if facts.kind == "request" and facts.id is None:
            facts.invalid = ("the id is neither a text nor a number", *facts.invalid)
        if facts.id is not None:
            self._pending[entry.connection.number, entry.sent, facts.id] = entry
            if len(self._pending) > MAX_PENDING:
                del self._pending[next(iter(self._pending))]
        return facts

    def _read_response(self, entry: Entry, message: dict[str, Any]) -> Facts:
        id = shown_id(message.get("id"))
        request = self._pending.pop((entry.connection.number, not entry.sent, id), None)
        about = None if request is None else request.facts
        facts = Facts("response", id=id, revision=entry.revision, error=error_of(message))
        if request is not None and about is not None:
            facts.method, facts.target, facts.revision = about.method, about.target, about.revision
            facts.counterpart, about.counterpart = request.number, entry.number
            facts.duration = about.duration = round((entry.time - request.time) * 1000, 3)
        result = message.get("result")
        if facts.method == INITIALIZE.method and isinstance(result, dict):
            facts.revision = known(result.get("protocolVersion")) or facts.revision
        if not (facts.method == DISCOVER.method and facts.error is not None):  # of a server that does not know it
            facts.invalid = self._judge(entry, message, facts.revision, facts.method)
        return facts

    def _judge(self, entry: Entry, message: Any, revision: str | None, about: str | None) -> tuple[str, ...]:
        """Return the reasons why a revision does not allow a message. ``about`` is the method of a response."""
        if revision is None or known(revision) is None or len(entry.data) > MAX_JUDGED:
            return ()
        judge = Judge(revision)
        if about is not None:
            judge.asked[message["id"]] = {"method": about}
        return tuple(printable(reason, 400) for reason in judge.received(message))


def known(revision: object) -> str | None:
    """Return the name of a revision if there is such a revision."""
    return revision if isinstance(revision, str) and revision in REVISIONS else None


def shown_id(id: object) -> str | int | None:
    """Return the id of a request or response, or None if it has no valid one."""
    return id if isinstance(id, str | int) and not isinstance(id, bool) else None


def target_of(params: object) -> str | None:
    """Return the tool, prompt, resource or task that a request is about."""
    if not isinstance(params, dict):
        return None
    for name in TARGETS:
        if isinstance(params.get(name), str):
            return params[name]  # type: ignore[no-any-return]
    ref = params.get("ref")
    return target_of(ref) if isinstance(ref, dict) else None


def error_of(message: dict[str, Any]) -> str | None:
    """Return the error in a response: an error response, or the result of a failed tool."""
    error, result = message.get("error"), message.get("result")
    if error is not None:
        given = error if isinstance(error, dict) else {}
        return printable(f"{given.get('code', '')} {given.get('message', '')}".strip() or "error")
    return "isError" if isinstance(result, dict) and result.get("isError") is True else None
