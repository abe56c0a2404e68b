"""Client-side protocol state machine: calls in, bytes out; bytes in, events out.

A ``Connection`` is a connection to one server, in the revision that ``speak`` has set. It does no I/O. It assigns the
request ids and tracks the pending requests.

https://modelcontextprotocol.io/specification/2026-07-28/basic
https://modelcontextprotocol.io/specification/2025-11-25/basic/lifecycle
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias, TypeVar

import msgspec
from msgspec import UNSET, Raw, UnsetType

from carrel.errors import (
    INTERNAL_ERROR,
    INVALID_PARAMS,
    METHOD_NOT_FOUND,
    InvalidMessage,
    MethodNotFound,
    PeerError,
    ProtocolError,
)
from carrel.printable import printable
from carrel.protocol.encoding import encode, encode_error
from carrel.protocol.extension import Extension
from carrel.protocol.methods import CANCELLED, DISCOVER, GET_TASK, INITIALIZE, PING, NotificationType, Request
from carrel.protocol.results import (
    LARGE,
    UNREADABLE,
    Waiting,
    guess_id,
    read_answer,
    read_error,
    read_result,
    reader,
)
from carrel.protocol.revision import Revision
from carrel.protocol.revisions import QUESTIONS
from carrel.wire.base import ClientCapabilities, Id, Implementation, Params, Result, Wire
from carrel.wire.jsonrpc import Message, NotificationMessage, RequestMessage, ResponseMessage
from carrel.wire.lifecycle import InitializeParams
from carrel.wire.utilities import CancelledParams

__all__ = [
    "Batch",
    "Connection",
    "ErrorResponse",
    "Event",
    "Ignored",
    "Notification",
    "OutgoingMessage",
    "Question",
    "Response",
    "Waiting",
]

_read_message = msgspec.json.Decoder(Message).decode
_read_batch = msgspec.json.Decoder(list[Raw]).decode

P = TypeVar("P", bound=Params)

#: Requests that are not cancelled while a connection is opened: the server's revision is not known yet.
OPENING = (DISCOVER, INITIALIZE)
#: Maximum number of messages in a batch.
MAX_BATCH = 500

VERSION = "io.modelcontextprotocol/protocolVersion"
SUBSCRIPTION = "io.modelcontextprotocol/subscriptionId"
#: Keys of ``_meta`` that callers cannot override: headers and responses depend on them.
OURS = (VERSION, "io.modelcontextprotocol/clientCapabilities")
RELATED_TASK = "io.modelcontextprotocol/related-task"


class OutgoingMessage(msgspec.Struct, gc=False):
    """An outgoing message to a server.

    ``id`` is the id of a request, None for all other messages. ``name`` is the value of the Mcp-Name header,
    ``headers`` are the ``Mcp-Param-`` headers, encoded. ``revision`` is None before negotiation. ``endless``: a
    long-lived request (``listen``), whose response may never arrive.
    """

    data: bytes
    method: str = ""
    id: Id | None = None
    name: str | None = None
    revision: Revision | None = None
    headers: Mapping[str, str] = {}
    endless: bool = False


class Response(msgspec.Struct, gc=False):
    """The result of a request; an intermediate one is an ``InputRequiredResult`` or ``DetailedTask``."""

    waiting: Waiting
    id: Id
    result: Any


class ErrorResponse(msgspec.Struct, gc=False):
    """An error response to a request, or a result that cannot be decoded."""

    waiting: Waiting
    id: Id
    error: PeerError | ProtocolError


class Question(msgspec.Struct, gc=False):
    """A server request: "elicit", "sample", "list_roots" or "ping"."""

    id: Id
    operation: str
    params: Any


class Notification(msgspec.Struct, gc=False):
    """A server notification, by its name in Carrel; ``subscription`` is the id of its listen request."""

    event: str
    params: Any
    subscription: Id | None = None


class Ignored(msgspec.Struct, gc=False):
    """An ignored message, with the reason. ``reply`` is the error response to send, if any."""

    reason: str
    reply: bytes | None = None


class Batch(msgspec.Struct, gc=False):
    """A JSON-RPC batch (2025-03-26)."""

    events: list[Event]


Event: TypeAlias = "Response | ErrorResponse | Question | Notification | Ignored | Batch"


class Connection:
    """Client side of a connection to one server.

    Args:
        info: name and version of the client.
        capabilities: the client's capabilities, in the form of the newest revision.
    """

    __slots__ = (
        *("_extended", "_ids", "_members", "_meta", "_notices", "_rows", "capabilities", "info", "log_level"),
        *("opening", "revision", "waiting"),
    )

    def __init__(self, info: Implementation, capabilities: ClientCapabilities) -> None:
        self.info = info
        self.capabilities = capabilities
        self.revision: Revision | None = None
        self.waiting: dict[Id, Waiting] = {}
        self.opening = True
        """Whether the revision is still being negotiated."""
        self.log_level: str | None = None
        self._ids = 0
        self._rows: dict[str, Request[Any, Any]] = {}
        self._extended: dict[str, Extension] = {}
        self._notices: dict[str, NotificationType] = {}
        self._members: dict[str, Any] = {}
        self._meta: Raw | UnsetType = UNSET

    def speak(self, revision: Revision) -> None:
        """Set the negotiated revision."""
        self.revision = revision
        self._rows = {row.operation: row for row in revision.requests.values()}
        self._notices = {row.method: row for row in revision.events.values()}
        for extension in self._extended.values():
            self._add(extension, revision)
        self._write_meta()

    def extend(self, extension: Extension) -> None:
        """Add the methods and notifications of an extension, for revisions that support it."""
        self._extended[extension.name] = extension
        if self.revision is not None:
            self._add(extension, self.revision)

    def _add(self, extension: Extension, revision: Revision) -> None:
        if revision.stateless or extension.handshake:
            self._rows.update({row.operation: row for row in extension.requests.values()})
            self._notices.update({row.method: row for row in extension.events.values()})

    def set_log_level(self, level: str | None) -> None:
        """Set the minimum log level that every request asks for (stateless revisions)."""
        self.log_level = level
        self._write_meta()

    def _write_meta(self) -> None:
        """Prepare the ``_meta`` that every request of a stateless revision carries.

        https://modelcontextprotocol.io/specification/2026-07-28/basic#meta
        """
        self._members, self._meta = {}, UNSET
        if self.revision is None or not self.revision.stateless:
            return
        self._members = {
            VERSION: self.revision.name,
            "io.modelcontextprotocol/clientInfo": self.info,
            "io.modelcontextprotocol/clientCapabilities": self.revision.project(self.capabilities),
        }
        if self.log_level is not None:
            self._members["io.modelcontextprotocol/logLevel"] = self.log_level
        self._meta = Raw(encode(self._members))

    # Calls in, bytes out

    def knows(self, request: Request[Any, Any]) -> bool:
        """Return whether the revision, or an extension, has the operation of a request."""
        return request.operation in self._rows

    def request(
        self,
        request: Request[P, Any],
        params: P,
        owner: Any = None,
        *,
        meta: Mapping[str, Any] | None = None,
        progress: bool = False,
        result: type[Result] | None = None,
    ) -> OutgoingMessage:
        """Encode a request, and register it as pending.

        ``meta`` are further keys of ``_meta``. With ``progress``, the request's id is its progress token. ``result`` is
        the type of its result, if it is not the method's default.

        Raises:
            MethodNotFound: the revision has no such operation.
        """
        row = self._rows.get(request.operation)
        revision = self.revision
        if row is None or revision is None:
            spoken = "no revision yet" if revision is None else revision.name
            raise MethodNotFound(f"The server speaks {spoken}, which has no {request.operation.replace('_', ' ')}")
        self._ids = id = self._ids + 1
        projection = revision.projections.get(type(params))
        if projection is not None:
            params = projection(params)
        if meta or progress:
            members = {**self._members, **(meta or {})}
            members.update((key, self._members[key]) for key in OURS if key in self._members)
            if progress:
                members["progressToken"] = id
            params.meta = members  # type: ignore[assignment]
        else:
            params.meta = self._meta  # type: ignore[assignment]
        name = None if row.name_field is None else getattr(params, row.name_field)
        data = encode(RequestMessage("2.0", id, row.method, params))
        self.waiting[id] = Waiting(row, row.result if result is None else result, owner)
        return OutgoingMessage(data, row.method, id, name, revision, {}, row.endless)

    def initialize(self, revision: Revision, owner: Any = None) -> OutgoingMessage:
        """Encode the ``initialize`` request that proposes ``revision``; the server may choose another.

        https://modelcontextprotocol.io/specification/2025-11-25/basic/lifecycle#initialization
        """
        self.revision = None  # not negotiated until the response, whatever was tried before
        self._ids = id = self._ids + 1
        self.waiting[id] = Waiting(INITIALIZE, INITIALIZE.result, owner)
        capabilities = self.capabilities
        if capabilities.extensions is not UNSET:
            others = {name for name, extension in self._extended.items() if not extension.handshake}
            spoken = {name: settings for name, settings in capabilities.extensions.items() if name not in others}
            capabilities = msgspec.structs.replace(capabilities, extensions=spoken or UNSET)
        params = revision.project(
            InitializeParams(protocol_version=revision.name, capabilities=capabilities, client_info=self.info)
        )
        return OutgoingMessage(encode(RequestMessage("2.0", id, INITIALIZE.method, params)), INITIALIZE.method, id)

    def announce(self, notification: NotificationType, params: Any = UNSET) -> OutgoingMessage:
        """Encode a notification.

        Raises:
            MethodNotFound: the revision has no such notification.
        """
        revision = self.revision
        method = notification.method
        if revision is None or method not in revision.announcements:
            name = notification.operation.replace("_", " ")
            raise MethodNotFound(f"There is no notification {name} in what the server speaks")
        return OutgoingMessage(encode(NotificationMessage("2.0", method, params)), method, revision=revision)

    def give_up(self, id: Id, reason: str) -> OutgoingMessage | None:
        """Drop a pending request; return its cancellation notification, or None if none may be sent.

        https://modelcontextprotocol.io/specification/2026-07-28/basic/patterns/cancellation
        """
        waiting = self.waiting.pop(id, None)
        if waiting is None or self.revision is None or (self.opening and waiting.request in OPENING):
            return None
        return self.announce(CANCELLED, CancelledParams(request_id=id, reason=reason))

    def answer(self, question: Question, result: Any) -> OutgoingMessage:
        """Encode the response to a server request; one that belongs to a task carries the related-task metadata.

        https://modelcontextprotocol.io/specification/2025-11-25/basic/utilities/tasks#associating-task-related-messages
        """
        if self.revision is not None and isinstance(result, msgspec.Struct):
            meta = getattr(question.params, "meta", UNSET)
            if isinstance(meta, dict) and RELATED_TASK in meta:
                own = getattr(result, "meta", UNSET)
                related = {**({} if own is UNSET else own), RELATED_TASK: meta[RELATED_TASK]}
                result = msgspec.structs.replace(result, meta=related)
            result = self.revision.project(result)
        return OutgoingMessage(encode(ResponseMessage("2.0", question.id, result)), revision=self.revision)

    def refuse(self, question: Question, error: BaseException) -> OutgoingMessage:
        """Encode the error response to a server request. Exceptions not of Carrel become -32603 without details."""
        if isinstance(error, ProtocolError | PeerError):
            data = UNSET if error.data is None else error.data
            refusal = encode_error(question.id, error.code, error.message, data)
        else:
            refusal = encode_error(question.id, INTERNAL_ERROR, "Internal error")
        return OutgoingMessage(refusal, revision=self.revision)

    # Bytes in, events out

    def receive(self, data: bytes | memoryview) -> Event:
        """Decode one message or batch from the server. Nothing is raised."""
        if len(data) >= LARGE:
            reply = self._receive_large(data)
            if reply is not None:
                return reply
        try:
            message = _read_message(data)
        except UNREADABLE as error:
            if self.revision is not None and self.revision.batches and bytes(data[:64]).lstrip()[:1] == b"[":
                return self._receive_batch(data)
            return Ignored(f"not a message: {printable(error)}")
        id, method = message.id, message.method
        if message.jsonrpc != "2.0":
            return Ignored('not a message: jsonrpc is not "2.0"')
        if method is UNSET:
            return self._receive_answer(id, message)
        params: Raw = Raw(b"{}") if message.params is UNSET else message.params
        if id is UNSET:
            return self._receive_notice(method, params)
        return self._receive_question(id, method, params)

    def _receive_large(self, data: bytes | memoryview) -> Response | None:
        """Decode a large response in one pass, by a guess of its id; None if it may be anything else."""
        guess = guess_id(data)
        waiting = None if guess is None else self.waiting.get(guess)
        if waiting is None:
            return None
        answer = read_answer(waiting.result, data)
        if answer is None or self.waiting.get(answer.id if type(answer.id) is int else None) is not waiting:  # type: ignore[arg-type]
            return None
        del self.waiting[answer.id]
        return Response(waiting, answer.id, answer.result)

    def _receive_answer(self, id: Any, message: Message) -> Event:
        waiting = self.waiting.pop(id, None) if type(id) is int or type(id) is str else None
        if waiting is None:
            told = "" if message.error is UNSET else f": {printable(read_error(message.error))}"
            return Ignored(
                f"an answer to {printable(id) if _is_id(id) else 'no request'}, which nothing waits for{told}"
            )
        if message.error is not UNSET:
            return ErrorResponse(waiting, id, read_error(message.error))
        if message.result is UNSET:
            return ErrorResponse(waiting, id, InvalidMessage(f"The answer to {waiting.request.method} is empty"))
        typed = self.revision is not None and self.revision.stateless
        try:
            return Response(
                waiting, id, read_result(waiting, message.result, typed=typed, tasks=GET_TASK.operation in self._rows)
            )
        except ProtocolError as error:
            return ErrorResponse(waiting, id, error)

    def _receive_notice(self, method: str, params: Raw) -> Event:
        row = self._notices.get(method)
        if row is None:
            return Ignored(f"the notification {printable(method, 100)}, not known here")
        try:
            read: Any = reader(row.params)(params)
        except UNREADABLE as error:
            return Ignored(f"the notification {method} is wrong: {printable(error)}")
        meta = getattr(read, "meta", None)
        subscription = meta.get(SUBSCRIPTION) if isinstance(meta, dict) else None
        return Notification(row.operation, read, subscription if _is_id(subscription) else None)

    def _receive_question(self, id: Any, method: str, params: Raw) -> Event:
        """Decode a server request. Stateless revisions have none, and they must not be answered."""
        revision = self.revision
        if not _is_id(id):
            return Ignored(f"the request {printable(method, 100)} has no proper id")
        if revision is not None and revision.stateless:
            return Ignored(f"the request {printable(method, 100)}, which servers of this revision must not send")
        if method == PING.method:
            return Question(id, PING.operation, None)
        row = QUESTIONS.get(method)
        if row is None or revision is None or row not in revision.questions.values():
            refusal = encode_error(id, METHOD_NOT_FOUND, f"Method not found: {printable(method, 200)}")
            return Ignored(f"the request {printable(method, 100)}, not known here", refusal)
        kind: type[Wire] = row.params
        try:
            return Question(id, row.operation, reader(kind)(params))
        except UNREADABLE as error:
            refusal = encode_error(id, INVALID_PARAMS, f"Invalid params: {printable(error)}")
            return Ignored(f"the request {method} is wrong: {printable(error)}", refusal)

    def _receive_batch(self, data: bytes | memoryview) -> Event:
        try:
            messages = [bytes(raw) for raw in _read_batch(data)]
        except UNREADABLE as error:
            return Ignored(f"not a message: {printable(error)}")
        if len(messages) > MAX_BATCH:
            return Ignored(f"a batch of {len(messages)} messages; {MAX_BATCH} are allowed")
        return Batch(
            [Ignored("a batch within a batch") if each[:1] == b"[" else self.receive(each) for each in messages]
        )


def _is_id(id: Any) -> bool:
    """Return whether the value is a valid id: a string or an integer, but not a bool or float."""
    return type(id) is int or type(id) is str
