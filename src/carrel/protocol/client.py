"""Client-side protocol state machine: calls in, bytes out; bytes in, events out.

A ``ClientProtocol`` is a connection to one server, in the revision that ``speak`` has set. It does no I/O. It assigns
the request ids and tracks the pending requests.

https://modelcontextprotocol.io/specification/2026-07-28/basic
https://modelcontextprotocol.io/specification/2025-11-25/basic/lifecycle
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Generic, TypeAlias, TypeVar

import msgspec
from msgspec import UNSET, Raw

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
from carrel.protocol import connection
from carrel.protocol.connection import (
    MAX_BATCH,
    OPENING,
    UNREADABLE,
    ConnectionState,
    FailedRequest,
    Ignored,
    Requester,
    Response,
    SentRequest,
    Step,
    is_id,
    read_batch,
)
from carrel.protocol.encoding import MARK, encode, encode_error, restored
from carrel.protocol.extension import Extension
from carrel.protocol.methods import CANCELLED, GET_TASK, INITIALIZE, PING, NotificationType, RequestType
from carrel.protocol.passed_results import PassedResult
from carrel.protocol.results import LARGE, guess_id, read_response, read_result, reader
from carrel.protocol.revision import Revision
from carrel.protocol.revisions import SERVER_REQUESTS
from carrel.wire.base import ClientCapabilities, Id, Implementation, Params, Result, Wire
from carrel.wire.jsonrpc import Message, NotificationMessage, RequestMessage, ResponseMessage
from carrel.wire.lifecycle import InitializeParams

__all__ = [
    "ClientProtocol",
    "Event",
    "FailedRequest",
    "Ignored",
    "IncomingRequest",
    "OutgoingMessage",
    "Response",
    "SentRequest",
    "ServerBatch",
    "ServerNotification",
]

_read_message = msgspec.json.Decoder(Message).decode

P = TypeVar("P", bound=Params)
W = TypeVar("W", bound=Requester)


VERSION = "io.modelcontextprotocol/protocolVersion"
SUBSCRIPTION = "io.modelcontextprotocol/subscriptionId"
CAPABILITIES = "io.modelcontextprotocol/clientCapabilities"
LOG_LEVEL = "io.modelcontextprotocol/logLevel"
#: Keys of ``_meta`` that callers cannot override: headers and responses depend on them.
OURS = frozenset((VERSION, CAPABILITIES))
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


class IncomingRequest(msgspec.Struct, gc=False):
    """A server request: "elicit", "sample", "list_roots" or "ping"."""

    id: Id
    operation: str
    params: Any


class ServerNotification(msgspec.Struct, gc=False):
    """A server notification, by its name in Carrel; ``subscription`` is the id of its listen request."""

    event: str
    params: Any
    subscription: Id | None = None


class ServerBatch(msgspec.Struct, Generic[W], gc=False):
    """A JSON-RPC batch (2025-03-26)."""

    events: list[Event[W]]


Event: TypeAlias = "Response[W] | FailedRequest[W] | IncomingRequest | ServerNotification | Ignored | ServerBatch[W]"


class ClientProtocol(connection.Connection[W]):
    """Client side of a connection to one server.

    Args:
        info: name and version of the client.
        capabilities: the client's capabilities, in the form of the newest revision.
    """

    __slots__ = (
        *("_extended", "_members", "_meta", "_notices", "_rows", "capabilities", "info", "keeps", "log_level"),
        "revision",
    )

    def __init__(self, info: Implementation, capabilities: ClientCapabilities) -> None:
        super().__init__()
        self.waiting = {}  # ``request`` writes to it directly
        self.info = info
        self.capabilities = capabilities
        self.revision: Revision | None = None
        self.log_level: str | None = None
        self.keeps = False
        """Whether parameters of server requests, and entries of lists, keep members that their types do not know."""
        self._rows: dict[str, RequestType] = {}
        self._extended: dict[str, Extension] = {}
        self._notices: dict[str, NotificationType] = {}
        self._members: dict[str, Any] = {}
        self._meta: Raw | None = None

    def speak(self, revision: Revision) -> None:
        """Set the revision of the messages that are sent: the one that is proposed, or that the server has chosen."""
        self.step(Step.PROPOSE)
        self.revision = revision
        self._rows = {row.operation: row for row in revision.requests.values()}
        self._notices = {row.method: row for row in revision.events.values()}
        for extension in self._extended.values():
            self._add(extension, revision)
        self._write_meta()

    def settle(self) -> None:
        """Open the session: both sides have agreed on the revision."""
        self.step(Step.AGREE)

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
        self._members, self._meta = {}, None
        if self.revision is None or not self.revision.stateless:
            return
        self._members = {
            VERSION: self.revision.name,
            "io.modelcontextprotocol/clientInfo": self.info,
            CAPABILITIES: self.revision.project(self.capabilities),
        }
        if self.log_level is not None:
            self._members[LOG_LEVEL] = self.log_level
        self._meta = Raw(encode(self._members))

    # Calls in, bytes out

    def knows(self, request: RequestType) -> bool:
        """Return whether the revision, or an extension, has the operation of a request."""
        return request.operation in self._rows

    def request(
        self,
        request: RequestType[P, Any],
        params: P,
        owner: W = None,  # type: ignore[assignment]  # its response is then an event, and nothing else
        *,
        meta: Mapping[str, Any] | None = None,
        progress: bool = False,
        result: type[Result] | None = None,
        capabilities: ClientCapabilities | None = None,
        whole: bool = False,
    ) -> OutgoingMessage:
        """Encode a request, and register it as pending.

        ``meta`` has additional keys of ``_meta``; a log level of None disables log messages. With ``progress``, the
        request's id is its progress token. ``result`` is the type of the result, if it differs from the method's
        default; with ``whole``, the result is a ``PassedResult``. ``capabilities`` replaces the client's capabilities
        in this request (stateless revisions).

        Raises:
            MethodNotFound: the revision has no such operation.
        """
        row = self._rows.get(request.operation)
        revision = self.revision
        if row is None or revision is None:
            spoken = "no revision yet" if revision is None else revision.name
            raise MethodNotFound(f"The server speaks {spoken}, which has no {request.operation.replace('_', ' ')}")
        id = self.last_id + 1
        projection = revision.projections[type(params)]
        if projection is not None:
            params = projection(params)
        if meta or progress or (capabilities is not None and self._members):
            params.meta = self._meta_of(meta or {}, capabilities)  # type: ignore[assignment]
            if progress:
                params.meta["progressToken"] = id  # type: ignore[index]
        else:
            params.meta = self._meta  # type: ignore[assignment]
        name = None if row.name_field is None else getattr(params, row.name_field)
        self.last_id = id  # as in ``ask``, which would be one call more for each request
        data = encode(RequestMessage("2.0", id, row.method, params))
        if data.find(MARK) >= 0:
            data = restored(data)
        self.waiting[id] = SentRequest(row, row.result if result is None else result, owner, whole)
        return OutgoingMessage(data, row.method, id, name, revision, {}, row.endless)

    def _meta_of(self, meta: Mapping[str, Any], capabilities: ClientCapabilities | None) -> dict[str, Any]:
        """Return the ``_meta`` of a request with further keys, or other capabilities than usual."""
        members = {**self._members, **meta}
        if not OURS.isdisjoint(meta):
            members.update((key, self._members[key]) for key in OURS if key in self._members)
        if capabilities is not None and self.revision is not None and CAPABILITIES in self._members:
            members[CAPABILITIES] = self.revision.project(capabilities)
        if members.get(LOG_LEVEL, "") is None:
            del members[LOG_LEVEL]
        return members

    def initialize(self, revision: Revision, owner: W = None) -> OutgoingMessage:  # type: ignore[assignment]
        """Encode the ``initialize`` request that proposes ``revision``; the server may choose another.

        https://modelcontextprotocol.io/specification/2025-11-25/basic/lifecycle#initialization
        """
        self.step(Step.PROPOSE)
        self.revision = None  # not negotiated until the response, even after earlier attempts
        capabilities = self.capabilities
        if capabilities.extensions is not None:
            others = {name for name, extension in self._extended.items() if not extension.handshake}
            spoken = {name: settings for name, settings in capabilities.extensions.items() if name not in others}
            capabilities = msgspec.structs.replace(capabilities, extensions=spoken or None)
        params = revision.project(
            InitializeParams(protocol_version=revision.name, capabilities=capabilities, client_info=self.info)
        )
        return OutgoingMessage(self.ask(INITIALIZE, params, owner), INITIALIZE.method, self.last_id)

    def notify(self, notification: NotificationType, params: Any = UNSET) -> OutgoingMessage:
        """Encode a notification.

        Raises:
            MethodNotFound: the revision has no such notification.
        """
        revision = self.revision
        method = notification.method
        if revision is None or method not in revision.client_notifications:
            name = notification.operation.replace("_", " ")
            raise MethodNotFound(f"There is no notification {name} in the server's revision")
        return OutgoingMessage(encode(NotificationMessage("2.0", method, params)), method, revision=revision)

    def give_up(self, id: Id, reason: str) -> OutgoingMessage | None:
        """Drop a pending request; return its cancellation notification, or None if none may be sent.

        https://modelcontextprotocol.io/specification/2026-07-28/basic/patterns/cancellation
        """
        waiting = self.waiting.get(id)
        data = self.cancel(id, reason)
        if data is None or waiting is None or self.revision is None:
            return None
        if self.state is not ConnectionState.OPEN and waiting.request in OPENING:
            return None
        return OutgoingMessage(data, CANCELLED.method, revision=self.revision)

    def answer(self, request: IncomingRequest, result: Any) -> OutgoingMessage:
        """Encode the response to a server request; one that belongs to a task carries the related-task metadata.

        https://modelcontextprotocol.io/specification/2025-11-25/basic/utilities/tasks#associating-task-related-messages
        """
        if self.revision is not None and isinstance(result, msgspec.Struct):
            meta = getattr(request.params, "meta", None)
            if isinstance(meta, dict) and RELATED_TASK in meta:
                own = getattr(result, "meta", None)
                related = {**(own or {}), RELATED_TASK: meta[RELATED_TASK]}
                result = msgspec.structs.replace(result, meta=related)
            result = self.revision.project(result)
        data = encode(ResponseMessage("2.0", request.id, result))
        return OutgoingMessage(data if data.find(MARK) < 0 else restored(data), revision=self.revision)

    def reject(self, request: IncomingRequest, error: BaseException) -> OutgoingMessage:
        """Encode the error response to a server request. Exceptions not of Carrel become -32603 without details."""
        if isinstance(error, ProtocolError | PeerError):
            data = UNSET if error.data is None else error.data
            response = encode_error(request.id, error.code, error.message, data)
        else:
            response = encode_error(request.id, INTERNAL_ERROR, "Internal error")
        return OutgoingMessage(response, revision=self.revision)

    # Bytes in, events out

    def receive(self, data: bytes | memoryview) -> Event[W]:
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
            return Ignored(f"not a message: {printable(error)}", malformed=True)
        id, method = message.id, message.method
        if message.jsonrpc != "2.0":
            return Ignored('not a message: jsonrpc is not "2.0"', malformed=True)
        if method is UNSET:
            return self.take_response(id if type(id) is int else number_of(id), message)
        params: Raw = Raw(b"{}") if message.params is UNSET else message.params
        if id is UNSET:
            return self._receive_notice(method, params)
        return self._receive_request(id, method, params)

    def _receive_large(self, data: bytes | memoryview) -> Response[W] | None:
        """Decode a large response in one pass, by a guess of its id; None if it may be anything else."""
        guess = guess_id(data)
        waiting = None if guess is None else self.waiting.get(guess)
        if waiting is None or waiting.whole:
            return None
        answer = read_response(waiting.result, data)
        if answer is None or self.waiting.get(answer.id if type(answer.id) is int else None) is not waiting:  # type: ignore[arg-type]
            return None
        del self.waiting[answer.id]
        if self.revision is None or not self.revision.stateless:
            answer.result.result_type = UNSET
        return Response(waiting, answer.id, answer.result)

    def read(self, waiting: SentRequest[W], raw: Raw) -> Any:
        """Decode a result: at once if it is complete, otherwise by ``read_result``."""
        typed = self.revision is not None and self.revision.stateless
        try:
            result = reader(waiting.result)(raw)
            if not typed or result.result_type is UNSET or result.result_type == "complete":
                if not typed:
                    result.result_type = UNSET  # an older revision has none, and this one may be passed on in a newer
                return (
                    result if not waiting.whole or self.revision is None else PassedResult(result, raw, self.revision)
                )
        except UNREADABLE:
            pass
        tasks = GET_TASK.operation in self._rows
        if not waiting.whole or self.revision is None:
            return read_result(waiting, raw, typed=typed, tasks=tasks)
        try:
            return read_result(waiting, raw, typed=typed, tasks=tasks)
        except InvalidMessage:
            from carrel.protocol.unknown import without_foreign_blocks  # few results have any

            known = without_foreign_blocks(raw)
            if known is None:
                raise
            found = read_result(waiting, known[0], typed=typed, tasks=tasks)
            return PassedResult(found, raw, self.revision, known[1]) if type(found) is waiting.result else found

    def _receive_notice(self, method: str, params: Raw) -> Event[W]:
        row = self._notices.get(method)
        if row is None:
            return Ignored(f"the notification {printable(method, 100)}, not known here")
        try:
            read: Any = reader(row.params)(params)
        except UNREADABLE as error:
            return Ignored(f"the notification {method} is wrong: {printable(error)}")
        meta = getattr(read, "meta", None)
        subscription = meta.get(SUBSCRIPTION) if isinstance(meta, dict) else None
        return ServerNotification(row.operation, read, subscription if is_id(subscription) else None)

    def _receive_request(self, id: Any, method: str, params: Raw) -> Event[W]:
        """Decode a server request. Stateless revisions have none, and they must not be answered."""
        revision = self.revision
        if not is_id(id):
            return Ignored(f"the request {printable(method, 100)} has no proper id")
        if revision is not None and revision.stateless:
            return Ignored(f"the request {printable(method, 100)}, which servers of this revision must not send")
        if method == PING.method:
            return IncomingRequest(id, PING.operation, None)
        row = SERVER_REQUESTS.get(method)
        if row is None or revision is None or row not in revision.server_requests.values():
            response = encode_error(id, METHOD_NOT_FOUND, f"Method not found: {printable(method, 200)}")
            return Ignored(f"the request {printable(method, 100)}, not known here", response)
        kind: type[Wire] = row.params
        read: Callable[[Raw], Any] = reader(kind)
        try:
            decoded = read(params)
            if self.keeps:
                from carrel.protocol.unknown import attach, find_raw  # few clients pass anything on

                found = find_raw(decoded, params)
                decoded = decoded if found is None else attach(decoded, found)
            return IncomingRequest(id, row.operation, decoded)
        except UNREADABLE as error:
            response = encode_error(id, INVALID_PARAMS, f"Invalid params: {printable(error)}")
            return Ignored(f"the request {method} is wrong: {printable(error)}", response)

    def _receive_batch(self, data: bytes | memoryview) -> Event[W]:
        try:
            messages = [bytes(raw) for raw in read_batch(bytes(data))]
        except UNREADABLE as error:
            return Ignored(f"not a message: {printable(error)}", malformed=True)
        if len(messages) > MAX_BATCH:
            return Ignored(f"a batch of more than {MAX_BATCH} messages")
        return ServerBatch(
            [Ignored("a batch within a batch") if each[:1] == b"[" else self.receive(each) for each in messages]
        )


def number_of(id: Any) -> Any:
    """Return the number that an id writes as a string or with a fraction of zero, or else the id itself."""
    if type(id) is float:
        return int(id) if id.is_integer() else id
    return int(id) if type(id) is str and len(id) < 17 and id.isascii() and id.isdecimal() else id
