"""Observer of requests that writes them to an audit log."""

from __future__ import annotations

import fnmatch
import time
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, Literal

import msgspec

from carrel.audit.log import AuditDestination, AuditLog
from carrel.catalog.access import NAME_VERBS
from carrel.errors import ServerUnavailable
from carrel.log import Log
from carrel.protocol.methods import CALL_TOOL
from carrel.protocol.observer import RejectedRequest, outcome_of
from carrel.protocol.server import Call, ErrorResponse

if TYPE_CHECKING:
    from carrel.protocol.principal import Principal
    from carrel.protocol.server import Reply

__all__ = ["AuditRecord", "AuditRecorder", "Explain"]

log = Log("carrel.audit")

Explain = Callable[[Call, str, str], "tuple[bool, str]"]
"""Returns whether the caller of a call may use a verb on a target, and the rule that decides, in words."""

FULL = "The audit log cannot be written: try again later"
#: Statuses of HTTP that refuse a caller: no or a wrong token, a wrong Host or Origin, too many requests.
DENIED = (401, 403, 421, 429)
#: Characters of a target, a name or a message that are recorded.
MOST = 2000
#: Targets of one request that are recorded.
MOST_TARGETS = 100


class AuditRecord(msgspec.Struct, omit_defaults=True, kw_only=True):
    """Line of an audit log. Times are in seconds since the epoch, ``seconds`` is a duration, sizes are in bytes."""

    time: float
    event: str = "request"
    """``request``, or ``refused`` by HTTP."""
    principal: str | None = None
    issuer: str | None = None
    oauth_client: str | None = None
    roles: list[str] = []
    address: str | None = None
    client: str | None = None
    """Name and version of the client program."""
    method: str = ""
    verb: str | None = None
    target: str | list[str] | None = None
    decision: str = "allowed"
    """``allowed`` or ``denied``."""
    rule: str | None = None
    outcome: str = "ok"
    """``ok``, ``error``, ``tool_error``, ``cancelled``, or ``open`` for a stream that begins."""
    code: int | None = None
    """JSON-RPC error code, or HTTP status."""
    message: str | None = None
    seconds: float = 0.0
    bytes_in: int = 0
    bytes_out: int = 0
    request: int | str | None = None
    session: str | None = None
    trace: str | None = None
    revision: str | None = None
    arguments: msgspec.Raw = msgspec.Raw()


class Answered(msgspec.Struct, gc=False):
    """Response to a call, as it waits to be written."""

    time: float
    call: Call
    size: int
    error: bytes | None
    """The response, if it is an error."""
    outcome: str
    seconds: float


class ErrorBody(msgspec.Struct, frozen=True):
    """Error of an error response."""

    code: int = 0
    message: str = ""


class ErrorReply(msgspec.Struct):
    """Error response."""

    error: ErrorBody = ErrorBody()


class Traced(msgspec.Struct):
    """Parameters with a trace context."""

    class Meta(msgspec.Struct):
        """Metadata of a request."""

        traceparent: str | None = None

    meta: Meta | None = msgspec.field(default=None, name="_meta")


read_error = msgspec.json.Decoder(ErrorReply).decode
read_trace = msgspec.json.Decoder(Traced).decode
encode = msgspec.json.Encoder().encode


class AuditRecorder:
    """Observer that records each call and each refused request.

    Args:
        destinations: where the records are written, each in a separate thread.
        on_full: while a destination cannot be written, refuse requests, or leave out records and count them.
        roles_of: returns the roles of a principal, if there is a policy.
        explain: explains the decision of a policy.
        arguments: patterns of tools whose arguments are recorded.
    """

    def __init__(
        self,
        destinations: Iterable[AuditDestination],
        *,
        on_full: Literal["refuse", "count"] = "refuse",
        roles_of: Callable[[Principal | None], Iterable[str]] | None = None,
        explain: Explain | None = None,
        arguments: Iterable[str] = (),
    ) -> None:
        self._roles_of = roles_of
        self._explain = explain
        self._arguments = tuple(arguments)
        self._logs = [AuditLog(each, self._encode, on_full) for each in destinations]
        self._writes = [each.write for each in self._logs]

    def start(self) -> None:
        """Start the threads of the logs."""
        for each in self._logs:
            each.start()

    def stop(self) -> None:
        """Write all records, and close the destinations."""
        for each in self._logs:
            each.stop()

    # On the event loop

    @property
    def refuses(self) -> bool:
        """Whether requests must be refused, as they cannot be recorded."""
        return any(each.refuses for each in self._logs)

    def admit(self, call: Call) -> None:
        """Refuse calls while the log cannot be written, if it is to refuse them.

        Raises:
            ServerUnavailable: the log cannot be written.
        """
        for each in self._logs:
            if each.is_full and each.refuses:
                raise ServerUnavailable(FULL)

    def answered(self, call: Call, reply: Reply | None, seconds: float) -> None:
        """Record a call with its response."""
        outcome, size = outcome_of(call, reply)
        error = None if type(reply) is bytes or not isinstance(reply, ErrorResponse) else reply.reply
        entry = Answered(time.time(), call, size, error, outcome, seconds)
        for write in self._writes:
            write(entry)

    def http_rejected(self, request: RejectedRequest) -> None:
        """Record a request that HTTP has refused."""
        for write in self._writes:
            write((time.time(), request))

    # In the thread of the log

    def _encode(self, entry: Any) -> bytes:
        record = self._of_call(entry) if isinstance(entry, Answered) else self._of_rejected(*entry)
        return encode(record)

    def _of_rejected(self, when: float, request: RejectedRequest) -> AuditRecord:
        record = AuditRecord(
            time=when,
            event="refused",
            address=request.address or None,
            method=f"{request.method[:20]} {request.path[:MOST]}",
            decision="denied" if request.status in DENIED else "allowed",
            outcome="error",
            code=request.status,
            message=request.message[:MOST],
        )
        self._add_caller(record, request.principal)
        return record

    def _of_call(self, entry: Answered) -> AuditRecord:
        call = entry.call
        client = call.peer.client
        record = AuditRecord(
            time=entry.time,
            address=call.address or None,
            client=None if client is None else f"{client.name} {client.version}"[:MOST],
            method=call.request.method,
            verb=call.request.verb,
            outcome=entry.outcome,
            seconds=round(entry.seconds, 6),
            bytes_in=len(memoryview(call.raw)),
            bytes_out=entry.size,
            request=call.id[:MOST] if isinstance(call.id, str) else call.id,
            session=call.client.session_id or None,
            revision=call.peer.revision.name,
            trace=trace_of(call),
        )
        self._add_caller(record, call.principal)
        self._add_target(record, call)
        if entry.error is not None:
            error = read_error(entry.error).error
            record.code, record.message = error.code, error.message[:MOST]
        if call.request is CALL_TOOL and any(fnmatch.fnmatchcase(call.params.name, each) for each in self._arguments):
            arguments = call.params.arguments
            if isinstance(arguments, msgspec.Raw):
                record.arguments = msgspec.Raw(msgspec.json.format(arguments, indent=-1))  # without line breaks
        return record

    def _add_caller(self, record: AuditRecord, principal: Principal | None) -> None:
        if principal is not None:
            record.principal = principal.subject
            record.issuer = principal.issuer or None
            record.oauth_client = principal.client
        if self._roles_of is not None:
            record.roles = sorted(self._roles_of(principal))

    def _add_target(self, record: AuditRecord, call: Call) -> None:
        targets = [one[:MOST] for one in call.request.find_targets(call.params)]
        if not targets:
            return
        record.target = targets[0] if len(targets) == 1 else targets[:MOST_TARGETS]
        verb = call.request.verb
        if call.view is None or verb is None or not (verb in NAME_VERBS or call.request.names_resources):
            return
        for target in targets:
            allowed, rule = self._decide(call, verb, target)
            record.rule = record.rule or rule or None
            if not allowed:
                record.decision, record.rule = "denied", rule or None
                return

    def _decide(self, call: Call, verb: Any, target: str) -> tuple[bool, str]:
        assert call.view is not None
        try:
            allowed = call.view.allows(verb, target)
            if self._explain is None:
                return allowed, ""
            by_policy, rule = self._explain(call, verb, target)
            return allowed, rule if by_policy == allowed else "the scopes of the access token"
        except Exception:  # names of a gateway may change meanwhile
            log.exception("the decision about %s could not be explained", target)
            return True, "unknown"


def trace_of(call: Call) -> str | None:
    """Return the id of the W3C trace of a call, from ``_meta`` or its HTTP header, or None."""
    parent = None
    if b"traceparent" in bytes(call.raw):
        try:
            meta = read_trace(call.raw).meta
            parent = None if meta is None else meta.traceparent
        except msgspec.ValidationError:
            pass
    if parent is None and call.raw_headers is not None:
        header = call.raw_headers.get(b"traceparent")
        parent = None if header is None else header.decode("latin-1")
    parts = (parent or "").split("-")
    return parts[1] if len(parts) >= 4 and len(parts[1]) == 32 else None
