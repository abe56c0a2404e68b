"""The client's side of a conversation as a state machine: calls in, bytes out; bytes in, events out.

A ``Connection`` is one conversation with one server, in whatever revision ``speak`` has set. It never does I/O, it
gives the requests their ids, and it knows which of them wait for an answer.

https://modelcontextprotocol.io/specification/2026-07-28/basic
https://modelcontextprotocol.io/specification/2025-11-25/basic/lifecycle
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any, Generic, TypeAlias, TypeVar

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
from carrel.protocol.encoding import encode, encode_error
from carrel.protocol.extension import Extension
from carrel.protocol.json_values import without_nulls
from carrel.protocol.revision import Request, Revision
from carrel.wire.asking import (
    CreateMessageParams,
    ElicitationCompleteParams,
    ElicitParams,
    InputRequiredResult,
    ListRootsParams,
)
from carrel.wire.base import ClientCapabilities, Id, Implementation, Params, Result, Wire
from carrel.wire.jsonrpc import ErrorObject, Message, Notification, RequestMessage, Response
from carrel.wire.lifecycle import InitializeParams
from carrel.wire.resources import AcknowledgedParams, ResourceUpdatedParams, read_contents
from carrel.wire.tasks import DetailedTask, Task
from carrel.wire.utilities import CancelledParams, LoggingMessageParams, ProgressParams

__all__ = ["Batch", "Connection", "Event", "Failure", "Notice", "Outgoing", "Question", "Reply", "Stray", "Waiting"]

_read_message = msgspec.json.Decoder(Message).decode
_read_error = msgspec.json.Decoder(ErrorObject).decode
_read_batch = msgspec.json.Decoder(list[Raw]).decode
_read_type = msgspec.json.Decoder(Result).decode
_UNREADABLE = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)

#: From how many bytes on it pays to look for the id of an answer first, and to read all of it in one go.
LARGE = 2048
#: Where the id is in what most servers write. These are guesses: what is read says whether they were right.
_ID_FIRST = re.compile(rb'\s*\{\s*(?:"jsonrpc"\s*:\s*"2\.0"\s*,\s*)?"id"\s*:\s*(\d{1,15})\s*,').match
_ID_LAST = re.compile(rb'"id"\s*:\s*(\d{1,15})\s*\}\s*$').search
#: How many messages one batch may hold.
MAX_BATCH = 500

VERSION = "io.modelcontextprotocol/protocolVersion"
SUBSCRIPTION = "io.modelcontextprotocol/subscriptionId"
#: What nobody may say instead of us: headers and answers depend on it.
OURS = (VERSION, "io.modelcontextprotocol/clientCapabilities")
RELATED_TASK = "io.modelcontextprotocol/related-task"

#: What a server may announce, by our names for it.
NOTICES: Mapping[str, type[Wire]] = {
    "cancelled": CancelledParams,
    "elicitation_complete": ElicitationCompleteParams,
    "message": LoggingMessageParams,
    "progress": ProgressParams,
    "resource_updated": ResourceUpdatedParams,
    "subscription_acknowledged": AcknowledgedParams,
    "task": DetailedTask,
    "task_status": Task,
}

#: What a server may ask, by the method.
QUESTIONS: Mapping[str, tuple[str, type[Wire]]] = {
    "elicitation/create": ("elicit", ElicitParams),
    "roots/list": ("list_roots", ListRootsParams),
    "sampling/createMessage": ("sample", CreateMessageParams),
}

#: Results that are not the end of a request, by their type (2026-07-28 and its extensions).
UNFINISHED: Mapping[str, type[Result]] = {"input_required": InputRequiredResult, "task": DetailedTask}
#: What is not cancelled: a server that is not known yet might not know what to make of that.
OPENING = frozenset(("discover", "initialize"))
#: Members of results in which null is a value, or which nobody but their author understands.
MEANT = frozenset(
    ("_meta", "data", "default", "inputSchema", "outputSchema", "resultType", "structuredContent", "ttl", "ttlMs")
)
#: What may be answered with a question: the operations.
ASKING = frozenset(("call_tool", "get_prompt", "read_resource"))


class Outgoing(msgspec.Struct, gc=False):
    """A message on its way to a server.

    ``id`` is that of a request, None for everything else. ``name`` is what the Mcp-Name header repeats, ``headers`` are
    the ``Mcp-Param-`` ones, encoded. ``revision`` is None before one is agreed on. ``endless``: the answer may never
    come, and that is as it should be.
    """

    data: bytes
    method: str = ""
    id: Id | None = None
    name: str | None = None
    revision: Revision | None = None
    headers: Mapping[str, str] = {}
    endless: bool = False


class Waiting(msgspec.Struct, gc=False):
    """A request that waits for its answer. ``owner`` is whatever the application needs to find again."""

    request: Request
    result: type[Result]
    owner: Any


class Reply(msgspec.Struct, gc=False):
    """The result of a request; ``InputRequiredResult`` or ``DetailedTask`` where it is not the end of it."""

    waiting: Waiting
    id: Id
    result: Any


class Failure(msgspec.Struct, gc=False):
    """A request that was answered with an error, or with a result that cannot be read."""

    waiting: Waiting
    id: Id
    error: PeerError | ProtocolError


class Question(msgspec.Struct, gc=False):
    """A request of the server: "elicit", "sample", "list_roots" or "ping"."""

    id: Id
    operation: str
    params: Any


class Notice(msgspec.Struct, gc=False):
    """A notification of the server, by our name for it; ``subscription`` is the listen request it belongs to."""

    event: str
    params: Any
    subscription: Id | None = None


class Stray(msgspec.Struct, gc=False):
    """A message that means nothing here: it is said why. ``reply`` is what to answer, if anything."""

    reason: str
    reply: bytes | None = None


class Batch(msgspec.Struct, gc=False):
    """Several messages in one (2025-03-26)."""

    events: list[Event]


Event: TypeAlias = "Reply | Failure | Question | Notice | Stray | Batch"


@cache
def _reader(kind: type[Any]) -> Callable[[Any], Any]:
    return msgspec.json.Decoder(kind, dec_hook=read_contents).decode


R = TypeVar("R")


class Answer(msgspec.Struct, Generic[R], gc=False):
    """The result of a request, whose type is known, as it comes in. Everything else is left to ``Message``."""

    result: R
    id: Any = UNSET
    jsonrpc: Any = UNSET
    method: Raw | UnsetType = UNSET
    error: Raw | UnsetType = UNSET


@cache
def _answer_reader(kind: type[Any]) -> Callable[[Any], Answer[Any]]:
    return msgspec.json.Decoder(Answer[kind], dec_hook=read_contents).decode  # type: ignore[valid-type]


class Connection:
    """One conversation with one server.

    Args:
        info: who we are.
        capabilities: what the server may ask of us, as the newest revision has it.
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
        """Nothing has been agreed on yet."""
        self.log_level: str | None = None
        self._ids = 0
        self._rows: dict[str, Request] = {}
        self._extended: dict[str, Extension] = {}
        self._notices: dict[str, str] = {}
        self._members: dict[str, Any] = {}
        self._meta: Raw | UnsetType = UNSET

    def speak(self, revision: Revision) -> None:
        """Speak ``revision`` from now on."""
        self.revision = revision
        self._rows = {row.operation: row for row in revision.requests.values()}
        self._notices = {method: name for name, method in revision.events.items()}
        for extension in self._extended.values():
            self._add(extension, revision)
        self._write_meta()

    def extend(self, extension: Extension) -> None:
        """Add the methods and notifications of an extension, for revisions that take it."""
        self._extended[extension.name] = extension
        if self.revision is not None:
            self._add(extension, self.revision)

    def _add(self, extension: Extension, revision: Revision) -> None:
        if revision.stateless or extension.handshake:
            self._rows.update({row.operation: row for row in extension.requests.values()})
            self._notices.update({method: name for name, method in extension.events.items()})

    def set_log_level(self, level: str | None) -> None:
        """Ask for log messages from this level up with every request (stateless revisions)."""
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

    def knows(self, operation: str) -> bool:
        """Say whether the revision, or an extension, has an operation."""
        return operation in self._rows

    def request(
        self,
        operation: str,
        params: Params,
        owner: Any = None,
        *,
        meta: Mapping[str, Any] | None = None,
        progress: bool = False,
        result: type[Result] | None = None,
    ) -> Outgoing:
        """Return a request, which waits for its answer from now on.

        ``meta`` are further keys of ``_meta``. With ``progress``, the request's id is its progress token. ``result`` is
        the type of its result, if that is not the method's usual one.

        Raises:
            MethodNotFound: the revision has no such operation.
        """
        row = self._rows.get(operation)
        revision = self.revision
        if row is None or revision is None:
            spoken = "no revision yet" if revision is None else revision.name
            raise MethodNotFound(f"The server speaks {spoken}, which has no {operation.replace('_', ' ')}")
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
        return Outgoing(data, row.method, id, name, revision, {}, operation == "listen")

    def initialize(self, revision: Revision, owner: Any = None) -> Outgoing:
        """Return the request that opens a session in ``revision``, or in another one, as the server will have it.

        https://modelcontextprotocol.io/specification/2025-11-25/basic/lifecycle#initialization
        """
        row = next(row for row in revision.requests.values() if row.operation == "initialize")
        self.revision = None  # whatever was tried before: until the answer is there, nothing is agreed on
        self._ids = id = self._ids + 1
        self.waiting[id] = Waiting(row, row.result, owner)
        capabilities = self.capabilities
        if capabilities.extensions is not UNSET:
            others = {name for name, extension in self._extended.items() if not extension.handshake}
            spoken = {name: settings for name, settings in capabilities.extensions.items() if name not in others}
            capabilities = msgspec.structs.replace(capabilities, extensions=spoken or UNSET)
        params = revision.project(
            InitializeParams(protocol_version=revision.name, capabilities=capabilities, client_info=self.info)
        )
        return Outgoing(encode(RequestMessage("2.0", id, row.method, params)), row.method, id)

    def announce(self, operation: str, params: Any = UNSET) -> Outgoing:
        """Return a notification, by our name for it.

        Raises:
            MethodNotFound: the revision has no such notification.
        """
        revision = self.revision
        rows = {} if revision is None else {row.operation: row for row in revision.announcements.values()}
        if operation not in rows:
            raise MethodNotFound(f"There is no notification {operation.replace('_', ' ')} in what the server speaks")
        method = rows[operation].method
        return Outgoing(encode(Notification("2.0", method, params)), method, revision=revision)

    def give_up(self, id: Id, reason: str) -> Outgoing | None:
        """Forget a request that nobody waits for, and return what tells the server so; None if it must not be told.

        https://modelcontextprotocol.io/specification/2026-07-28/basic/patterns/cancellation
        """
        waiting = self.waiting.pop(id, None)
        if waiting is None or self.revision is None or (self.opening and waiting.request.operation in OPENING):
            return None
        return self.announce("cancelled", CancelledParams(request_id=id, reason=reason))

    def answer(self, question: Question, result: Any) -> Outgoing:
        """Return the answer to a question of the server. If that belongs to a task, its answer says so too.

        https://modelcontextprotocol.io/specification/2025-11-25/basic/utilities/tasks#associating-task-related-messages
        """
        if self.revision is not None and isinstance(result, msgspec.Struct):
            meta = getattr(question.params, "meta", UNSET)
            if isinstance(meta, dict) and RELATED_TASK in meta:
                own = getattr(result, "meta", UNSET)
                related = {**({} if own is UNSET else own), RELATED_TASK: meta[RELATED_TASK]}
                result = msgspec.structs.replace(result, meta=related)
            result = self.revision.project(result)
        return Outgoing(encode(Response("2.0", question.id, result)), revision=self.revision)

    def refuse(self, question: Question, error: BaseException) -> Outgoing:
        """Return the refusal of a question. What is not in ``carrel.errors`` says nothing about us."""
        if isinstance(error, ProtocolError | PeerError):
            data = UNSET if error.data is None else error.data
            refusal = encode_error(question.id, error.code, error.message, data)
        else:
            refusal = encode_error(question.id, INTERNAL_ERROR, "Internal error")
        return Outgoing(refusal, revision=self.revision)

    # Bytes in, events out

    def receive(self, data: bytes | memoryview) -> Event:
        """Read one message of the server, or one batch of them. Nothing is raised."""
        if len(data) >= LARGE:
            reply = self._receive_large(data)
            if reply is not None:
                return reply
        try:
            message = _read_message(data)
        except _UNREADABLE as error:
            if self.revision is not None and self.revision.batches and bytes(data[:64]).lstrip()[:1] == b"[":
                return self._receive_batch(data)
            return Stray(f"not a message: {_shorten(error)}")
        id, method = message.id, message.method
        if message.jsonrpc != "2.0":
            return Stray('not a message: jsonrpc is not "2.0"')
        if method is UNSET:
            return self._receive_answer(id, message)
        params: Raw = Raw(b"{}") if message.params is UNSET else message.params
        if id is UNSET:
            return self._receive_notice(method, params)
        return self._receive_question(id, method, params)

    def _receive_large(self, data: bytes | memoryview) -> Reply | None:
        """Read a result in one go, without a first look at where it ends; None if it may be anything else."""
        found = _ID_FIRST(data) or _ID_LAST(data[-64:])
        waiting = None if found is None else self.waiting.get(int(found[1]))
        if waiting is None:
            return None
        try:
            message = _answer_reader(waiting.result)(data)
        except _UNREADABLE:
            return None
        id, result = message.id, message.result
        if (
            self.waiting.get(id if type(id) is int else None) is not waiting  # type: ignore[arg-type]
            or message.jsonrpc != "2.0"
            or message.method is not UNSET
            or message.error is not UNSET
            or (result.result_type is not UNSET and result.result_type != "complete")
        ):
            return None
        del self.waiting[id]
        return Reply(waiting, id, result)

    def _receive_answer(self, id: Any, message: Message) -> Event:
        waiting = self.waiting.pop(id, None) if type(id) is int or type(id) is str else None
        if waiting is None:
            told = "" if message.error is UNSET else f": {_shorten(read_error(message.error))}"
            return Stray(f"an answer to {_shorten(id) if _is_id(id) else 'no request'}, which nothing waits for{told}")
        if message.error is not UNSET:
            return Failure(waiting, id, read_error(message.error))
        if message.result is UNSET:
            return Failure(waiting, id, InvalidMessage(f"The answer to {waiting.request.method} is empty"))
        try:
            return Reply(waiting, id, self._read_result(waiting, message.result))
        except _UNREADABLE as error:
            result = self._read_again(waiting, message.result)
            if result is not None:
                return Reply(waiting, id, result)
            wrong = f"The answer to {waiting.request.method} is wrong: {_shorten(error)}"
            return Failure(waiting, id, InvalidMessage(wrong))
        except ProtocolError as error:
            return Failure(waiting, id, error)

    def _read_again(self, waiting: Waiting, raw: Raw) -> Any:
        """Read a result in which null stands for what is not there; None if it is wrong in another way."""
        if b"null" not in bytes(raw):
            return None
        try:
            return self._read_result(waiting, Raw(encode(without_nulls(msgspec.json.decode(raw), MEANT))))
        except (*_UNREADABLE, ProtocolError):
            return None

    def _read_result(self, waiting: Waiting, raw: Raw) -> Any:
        typed = self.revision is not None and self.revision.stateless
        try:
            result = _reader(waiting.result)(raw)
        except msgspec.ValidationError:
            if not typed:
                raise
            result = _read_type(raw)
            if result.result_type in (UNSET, "complete"):
                raise
        kind = result.result_type
        if kind is UNSET or kind == "complete" or not typed:
            return result
        operation = waiting.request.operation
        unfinished = UNFINISHED.get(kind)
        if (
            unfinished is None
            or (kind == "input_required" and operation not in ASKING)
            or (kind == "task" and not (operation == "call_tool" and self.knows("get_task")))
        ):
            raise InvalidMessage(f"The answer to {waiting.request.method} has the type {kind[:100]!r}, not known here")
        return _reader(unfinished)(raw)

    def _receive_notice(self, method: str, params: Raw) -> Event:
        event = self._notices.get(method)
        if event is None:
            return Stray(f"the notification {method[:100]}, not known here")
        try:
            read: Any = _reader(NOTICES.get(event, _Anything))(params)
        except _UNREADABLE as error:
            return Stray(f"the notification {method} is wrong: {_shorten(error)}")
        meta = getattr(read, "meta", None)
        subscription = meta.get(SUBSCRIPTION) if isinstance(meta, dict) else None
        return Notice(event, read, subscription if _is_id(subscription) else None)

    def _receive_question(self, id: Any, method: str, params: Raw) -> Event:
        """Read a request of the server. In a stateless revision there are none, and nothing may answer them."""
        revision = self.revision
        if not _is_id(id):
            return Stray(f"the request {method[:100]} has no proper id")
        if revision is not None and revision.stateless:
            return Stray(f"the request {method[:100]}, which servers of this revision must not send")
        if method == "ping":
            return Question(id, "ping", None)
        operation, kind = QUESTIONS.get(method, ("", Wire))
        if not operation or revision is None or method not in revision.questions.values():
            refusal = encode_error(id, METHOD_NOT_FOUND, f"Method not found: {method[:200]}")
            return Stray(f"the request {method[:100]}, not known here", refusal)
        try:
            return Question(id, operation, _reader(kind)(params))
        except _UNREADABLE as error:
            refusal = encode_error(id, INVALID_PARAMS, f"Invalid params: {_shorten(error)}")
            return Stray(f"the request {method} is wrong: {_shorten(error)}", refusal)

    def _receive_batch(self, data: bytes | memoryview) -> Event:
        try:
            messages = [bytes(raw) for raw in _read_batch(data)]
        except _UNREADABLE as error:
            return Stray(f"not a message: {_shorten(error)}")
        if len(messages) > MAX_BATCH:
            return Stray(f"a batch of {len(messages)} messages; {MAX_BATCH} are allowed")
        return Batch([Stray("a batch within a batch") if each[:1] == b"[" else self.receive(each) for each in messages])


class _Anything(Wire, kw_only=True):
    """Parameters that nobody reads."""

    meta: dict[str, Any] | UnsetType = msgspec.field(default=UNSET, name="_meta")


def _is_id(id: Any) -> bool:
    """Say whether this is an id: neither true nor 1.0 are the 1 that they equal."""
    return type(id) is int or type(id) is str


def _shorten(value: Any) -> str:
    """Return the first words of what a server said, or of what was wrong with it: it may be as long as it likes."""
    return str(value)[:200]


def read_error(raw: bytes | Raw, status: int | None = None) -> PeerError | ProtocolError:
    """Return the error that a server answered; if it cannot be read, say so."""
    try:
        error = _read_error(raw)
    except _UNREADABLE as problem:
        return InvalidMessage(f"The error that the server answered cannot be read: {_shorten(problem)}")
    return PeerError(error.code, error.message, None if error.data is UNSET else error.data, status=status)
