"""The server's side of a connection as a state machine: bytes in, events out; results in, bytes out.

A ``Connection`` is one stdio process, one HTTP session, or one stateless HTTP request. It never does I/O. It reads
messages of every revision: a request that carries its version in ``_meta`` is served statelessly, any other one belongs
to the handshake that came before it. Both may be mixed on one connection.

https://modelcontextprotocol.io/specification/2026-07-28/basic/versioning
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from typing import TYPE_CHECKING, Any, TypeAlias

import msgspec
from msgspec import UNSET, Raw, UnsetType

from carrel.errors import (
    INTERNAL_ERROR,
    INVALID_PARAMS,
    INVALID_REQUEST,
    PARSE_ERROR,
    ConfigError,
    HeaderMismatch,
    InvalidMessage,
    InvalidParams,
    MethodNotFound,
    MissingCapability,
    ProtocolError,
    ResourceError,
    ResourceForbidden,
    ResourceNotFound,
    UnsupportedVersion,
)
from carrel.protocol.encoding import encode, encode_error
from carrel.protocol.members import FRAME, NO_PARAMS, SMALL, DuplicateId, names_of, refuse_duplicates
from carrel.protocol.peer import Peer
from carrel.protocol.revision import Request, Revision
from carrel.protocol.revisions import ANNOUNCEMENTS, LATEST, LATEST_HANDSHAKE, REQUESTS, REVISIONS
from carrel.wire.base import Id, Implementation, Params, RequestMeta, Result
from carrel.wire.jsonrpc import ErrorObject, Identified, Message, ResponseMessage
from carrel.wire.lifecycle import InitializeParams, InitializeResult, ServerCapabilities
from carrel.wire.utilities import SEVERITY

if TYPE_CHECKING:
    from carrel.limits import Budget
    from carrel.protocol.extension import Extension
    from carrel.protocol.principal import Principal

__all__ = ["Answer", "Batch", "Call", "Connection", "Description", "Event", "Notification", "Refusal"]

#: How many messages one batch may hold.
MAX_BATCH = 500

_read_message = msgspec.json.Decoder(Message).decode
_read_id = msgspec.json.Decoder(Identified).decode
_check_json = msgspec.json.Decoder(Raw).decode


class _ParamsReaders(dict[type[Params], Callable[[Any], Any]]):
    """The decoders of parameters by type, each made when it is first used: most servers never see most methods."""

    def __missing__(self, kind: type[Params]) -> Callable[[Any], Any]:
        read = self[kind] = msgspec.json.Decoder(kind).decode
        return read


class _Names(dict[type[Params], tuple[tuple[bytes, ...], bool]]):
    """The names that a request has once at most, by the type of its parameters."""

    def __missing__(self, kind: type[Params]) -> tuple[tuple[bytes, ...], bool]:
        names = self[kind] = names_of(kind)
        return names


_names = _Names()
_read_params = _ParamsReaders()
_read_unknown = _read_params[Params]
_read_members = msgspec.json.Decoder(dict[str, Raw]).decode
_read_any = msgspec.json.Decoder().decode
_NO_PARAMS = Raw(b"{}")
_IN_USE = "Invalid request: this id is still in use by another request"
_UNREADABLE = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)


@cache
def _batch_reader() -> Callable[[bytes], Any]:
    """Return a decoder of arrays that keeps one message more than a batch may hold, and skips whatever follows."""
    fields = [(f"message_{number}", Raw | UnsetType, UNSET) for number in range(MAX_BATCH + 1)]
    return msgspec.json.Decoder(msgspec.defstruct("Messages", fields, array_like=True)).decode


class Description(msgspec.Struct):
    """What a server says of itself. ``initialize`` and ``server/discover`` are two encodings of it.

    ``ttl_ms`` and ``scope`` are the freshness hints of results that have none of their own.
    """

    info: Implementation
    capabilities: Callable[[], ServerCapabilities]
    instructions: str | UnsetType = UNSET
    ttl_ms: int = 0
    scope: str = "private"
    revisions: Mapping[str, Revision] = msgspec.field(default_factory=lambda: REVISIONS)
    identity: dict[str, Any] = {}
    """The server's identity as it stands in the ``_meta`` of results."""
    extended: dict[str, Extension] = {}
    """The extensions that this server has, by the methods that they add."""

    def __post_init__(self) -> None:
        self.identity = {"io.modelcontextprotocol/serverInfo": self.info}

    def extend(self, extension: Extension) -> None:
        """Add the methods of an extension.

        Raises:
            ConfigError: one of them is taken.
        """
        for method in extension.requests:
            other = self.extended.get(method)
            if method in LATEST.requests or (other is not None and other.name != extension.name):
                taken = "the protocol itself" if other is None else other.name
                raise ConfigError(f"{extension.name} cannot add the method {method}: {taken} has it")
        self.extended = {**self.extended, **dict.fromkeys(extension.requests, extension)}


class Call(msgspec.Struct):
    """A request that waits for an answer. ``raw`` are its parameters as they came, unknown fields included."""

    connection: Connection
    peer: Peer
    id: Id
    request: Request
    params: Any
    raw: Raw
    headers: Mapping[bytes, bytes] | None = None
    """The headers of a stateless request over HTTP, by lower-case name."""
    principal: Principal | None = None
    """Who calls, where the transport has found that out."""
    cancelled: bool = False
    """Whether the answer is not wanted any more (set by the transport)."""
    task: Any = None
    """The task that the call has become (kept by the server)."""
    detach: Any = None
    """What makes a task of the call, where it may become one (kept by the server)."""

    @property
    def meta(self) -> dict[str, Any]:
        """All of ``_meta``, the keys that the protocol does not know too."""
        return _read_any(self.raw).get("_meta", {})  # type: ignore[no-any-return]

    @property
    def progress_token(self) -> Id | None:
        """The token under which the client wants to hear of progress, if it does."""
        meta: RequestMeta | UnsetType = self.params.meta
        return None if meta is UNSET or meta.progress_token is UNSET else meta.progress_token


class Notification(msgspec.Struct, gc=False):
    """A notification from the client, by our name for it."""

    operation: str
    params: Any


class Answer(msgspec.Struct, gc=False):
    """A response of the client to a request of the server."""

    id: Id
    result: Raw | UnsetType
    error: Raw | UnsetType


class Refusal(msgspec.Struct, gc=False):
    """A message that was not accepted. ``reply`` is what to send, ``status`` the status where HTTP carries it."""

    reply: bytes
    status: int


class Batch(msgspec.Struct, gc=False):
    """Several messages in one (2025-03-26). The replies travel together, as one array."""

    events: list[Event]


Event: TypeAlias = "Call | Notification | Answer | Refusal | Batch"


class Connection:
    """One conversation with one client; or, over stateless HTTP, one request of it.

    ``peer`` is None until a handshake; requests that carry their version have a peer of their own.
    """

    __slots__ = (
        *("__weakref__", "asked", "budget", "channel", "client", "description", "id", "in_flight", "peer"),
        *("questions", "subscriptions", "version_header"),
    )

    def __init__(self, description: Description, budget: Budget | None = None) -> None:
        self.description = description
        self.budget = budget
        """The bytes that may be kept for clients; None without a limit."""
        self.peer: Peer | None = None
        self.id = ""
        self.client = ""
        """Whose limits and budget hold (given by the transport): a principal, an address, or this connection alone."""
        self.channel: Any = None
        """Where messages go that belong to no request (given by the transport)."""
        self.in_flight: dict[Id, Any] | None = None
        """What is being answered, by id: whatever the transport needs to cancel it."""
        self.subscriptions: Any = None
        """What the session wants to hear of (kept by the server)."""
        self.asked: dict[Id, Any] | None = None
        """What was asked of the client and not answered yet, by id (kept by the server)."""
        self.questions = 0
        """How many questions there have been; the last one's id."""
        self.version_header: str | None = None
        """The version that the HTTP headers of a stateless request name."""

    # What is kept for the client

    def take(self, size: int) -> bool:
        """Count bytes that are kept for the client, or return False if there is no room for them."""
        return self.budget is None or self.budget.take(self.client, size)

    def give(self, size: int) -> None:
        """Count bytes less that are kept for the client."""
        if self.budget is not None:
            self.budget.give(self.client, size)

    def has_room(self, size: int) -> bool:
        """Return whether bytes may be kept for the client."""
        return self.budget is None or self.budget.make_room(self.client, size)

    # Bytes in, events out

    def receive(self, data: bytes | memoryview) -> Event:
        """Read one message, or one batch of them.

        What is wrong with it is in the ``Refusal`` that comes back; nothing is raised.
        """
        try:
            message = _read_message(data)
            if type(data) is not bytes or not data.isascii():
                str(data, "utf-8")  # the decoder does not look at the text in what it leaves raw
        except _UNREADABLE as error:
            return self._receive_odd(data, error)
        return self._receive(message, data)

    def _receive(self, message: Message, data: bytes | memoryview) -> Event:
        id, method = message.id, message.method
        try:
            if method is UNSET or message.jsonrpc != "2.0" or not (type(id) is int or type(id) is str):
                return self._receive_other(message, data)
            raw = message.params
            if raw is UNSET:
                raw = _NO_PARAMS
            request = REQUESTS.get(method) or self._added(method)
            read = _read_unknown if request is None else _read_params[request.params]
            try:
                params = read(raw)
            except msgspec.ValidationError as error:
                params, raw = self._read_without_nulls(method, raw, read, error)
            meta = params.meta
            if len(data) > SMALL:
                refuse_duplicates(data, raw)
            else:
                text = data if type(data) is bytes else bytes(data)
                frame = len(text) - len(memoryview(raw)) - len(method) - (len(id) if type(id) is str else 0)
                once = frame <= (FRAME if raw is not _NO_PARAMS else FRAME - NO_PARAMS)
                names, named = _names[type(params)]
                for name in names:
                    if text.count(name) > 1:
                        once = False
                if named and text.count(b'"name"') > (1 if meta is UNSET or meta.client_info is UNSET else 2):
                    once = False
                if not once or (b"\\" in text and b"\\u00" in text):  # a letter of a name may be spelled otherwise
                    refuse_duplicates(text, raw)
            if meta is not UNSET and meta.protocol_version is not UNSET:
                peer = self._stateless_peer(meta)
            elif self.peer is not None:
                peer = self.peer
            else:
                peer = self._new_peer(method, params)
            request = peer.revision.requests.get(method) or self._extended(method, peer)
            if self.in_flight is not None and id in self.in_flight:
                raise InvalidMessage(_IN_USE)
            return Call(self, peer, id, request, params, raw)
        except DuplicateId as error:
            return self._refuse(UNSET, error)
        except ProtocolError as error:
            return self._refuse(id, error, stateless=_is_stateless(message))
        except (msgspec.DecodeError, RecursionError) as error:
            return self._refuse(id, _unreadable(error))

    def _read_without_nulls(
        self, method: str, raw: Raw, read: Callable[[Any], Any], error: msgspec.ValidationError
    ) -> tuple[Any, Raw]:
        """Read parameters again where null stands for those that are not there, and return them without.

        Raises:
            ProtocolError: that is not what is wrong with them.
        """
        if b"null" in bytes(raw):
            try:
                members = _read_members(raw)
                if "_meta" in members and bytes(members["_meta"]) != b"null":
                    members["_meta"] = Raw(encode(_without_nulls(_read_members(members["_meta"]))))
                cleaned = Raw(encode(_without_nulls(members)))
                return read(cleaned), cleaned
            except msgspec.ValidationError:
                pass
        raise self._invalid_params(method, raw, error) from None

    def _added(self, method: str) -> Request | None:
        extension = self.description.extended.get(method)
        return None if extension is None else extension.requests[method]

    def _extended(self, method: str, peer: Peer) -> Request:
        """Return the row of a method that is not the revision's own.

        Raises:
            MethodNotFound: no extension of this server brings it to this peer.
            MissingCapability: the client would have to declare the extension.
        """
        extension = self.description.extended.get(method)
        if extension is None or not (peer.revision.stateless or extension.handshake):
            raise MethodNotFound(f"Method not found: {method[:200]}")
        if extension.mutual and peer.settings(extension.name) is None:
            raise MissingCapability({"extensions": {extension.name: {}}})
        return extension.requests[method]

    def _receive_other(self, message: Message, data: bytes | memoryview) -> Event:
        """Read what is not a request: a notification, a response, or nothing that JSON-RPC knows."""
        id, method = message.id, message.method
        refuse_duplicates(data)
        if message.jsonrpc != "2.0":
            raise InvalidMessage('Invalid request: jsonrpc must be "2.0"')
        if id is not UNSET and type(id) is not int and type(id) is not str:
            raise InvalidMessage("Invalid request: id must be a string or an integer")
        if method is not UNSET:
            row = ANNOUNCEMENTS.get(method)
            if row is None:
                return Notification("unknown", None)
            try:
                params = _read_params[row.params](_NO_PARAMS if message.params is UNSET else message.params)
            except msgspec.ValidationError:
                return Notification("unknown", None)  # nobody can be told: a notification has no answer
            return Notification(row.operation, params)
        if id is not UNSET and (message.result is UNSET) != (message.error is UNSET):
            return Answer(id, message.result, message.error)
        raise InvalidMessage("Invalid request: neither a method, nor a result, nor an error")

    def _receive_odd(self, data: bytes | memoryview, error: Exception) -> Event:
        """Read what is not one JSON object with members of the right types: a batch, or nothing that we know."""
        text = bytes(data)
        if isinstance(error, RecursionError) or not isinstance(error, msgspec.ValidationError):
            return self._refuse(UNSET, _unreadable(error))
        if text.lstrip()[:1] == b"[":
            return self._receive_batch(text)
        try:
            id = _read_id(text).id
        except msgspec.ValidationError:
            id = UNSET
        except _UNREADABLE as worse:
            return self._refuse(UNSET, _unreadable(worse))
        return self._refuse(id, InvalidMessage(f"Invalid request: {error}"))

    def _receive_batch(self, text: bytes) -> Event:
        allowed = self.peer is not None and self.peer.revision.batches
        try:
            messages: Any = (_batch_reader() if allowed else _check_json)(text)
            text.decode()
        except _UNREADABLE as error:
            return self._refuse(UNSET, _unreadable(error))
        if not allowed:
            return self._refuse(UNSET, InvalidMessage("Invalid request: batches are not part of this revision"))
        raws = [raw for raw in msgspec.structs.astuple(messages) if raw is not UNSET]
        if not 0 < len(raws) <= MAX_BATCH:
            return self._refuse(UNSET, InvalidMessage(f"Invalid request: a batch holds 1 to {MAX_BATCH} messages"))
        return Batch(self._receive_each(raws))

    def _receive_each(self, raws: list[Raw]) -> list[Event]:
        events: list[Event] = []
        ids: set[Id] = set()
        for raw in raws:
            if bytes(raw)[:1] == b"[":
                events.append(self._refuse(UNSET, InvalidMessage("Invalid request: a batch within a batch")))
                continue
            event = self.receive(raw)
            if type(event) is Call:
                if not event.peer.revision.batches:
                    event = self._refuse(event.id, InvalidMessage("Invalid request: its revision has no batches"))
                elif event.id in ids:
                    event = self._refuse(event.id, InvalidMessage(_IN_USE))
                else:
                    ids.add(event.id)
            events.append(event)
        return events

    def _stateless_peer(self, meta: RequestMeta) -> Peer:
        """Read the peer from the request's own ``_meta``.

        https://modelcontextprotocol.io/specification/2026-07-28/basic#meta
        """
        name = meta.protocol_version
        assert name is not UNSET
        if self.version_header is not None and self.version_header != name:
            raise HeaderMismatch(
                f"Header mismatch: MCP-Protocol-Version header value {self.version_header[:200]!r} "
                f"does not match body value {name[:200]!r}"
            )
        revision = self.description.revisions.get(name)
        if revision is None:
            raise UnsupportedVersion(name, list(self.description.revisions))
        if not revision.stateless:  # so that no client tries the same again: only what a request can name by itself
            supported = [other.name for other in self.description.revisions.values() if other.stateless]
            message = f"Unsupported protocol version: {name} begins with initialize, and is in no _meta"
            raise UnsupportedVersion(name, supported, message)
        if meta.capabilities is UNSET:
            raise _malformed("io.modelcontextprotocol/clientCapabilities")
        return Peer(
            revision,
            None if meta.client_info is UNSET else meta.client_info,
            meta.capabilities,
            None if meta.log_level is UNSET else SEVERITY[meta.log_level],
        )

    def _new_peer(self, method: str, params: Any) -> Peer:
        """Read the peer from ``initialize``; before that, only a ping may come.

        https://modelcontextprotocol.io/specification/2025-11-25/basic/lifecycle#version-negotiation
        """
        handshakes = [revision for revision in self.description.revisions.values() if not revision.stateless]
        if not isinstance(params, InitializeParams):
            if handshakes and method == "ping":
                return Peer(handshakes[0])
            raise _malformed("io.modelcontextprotocol/protocolVersion", "; clients with a session initialize it first")
        if not handshakes:
            raise UnsupportedVersion(params.protocol_version, list(self.description.revisions))
        revision = self.description.revisions.get(params.protocol_version)
        if revision is None or revision.stateless:
            revision = handshakes[0]
        return Peer(revision, params.client_info, params.capabilities, SEVERITY["info"])

    def _invalid_params(self, method: str, raw: Any, error: msgspec.ValidationError) -> ProtocolError:
        """Say which parameter is wrong; but if the peer's revision has no such method, say that."""
        try:
            meta = _read_unknown(raw).meta
            peer = self._stateless_peer(meta) if meta is not UNSET and meta.protocol_version is not UNSET else self.peer
        except msgspec.ValidationError:
            peer = self.peer
        except ProtocolError as worse:
            return worse
        if peer is not None and method not in peer.revision.requests:
            try:
                self._extended(method, peer)
            except ProtocolError as worse:
                return worse
        reason, _, path = str(error).partition(" - at `$")
        path = path.rstrip("`").lstrip(".")
        if reason.startswith("Object missing required field"):
            name = reason.split("`")[1]
            path = f"{path}.{name}" if path else name
            invalid = InvalidParams(f"Invalid params: {path} is missing", parameter=path)
        else:
            invalid = InvalidParams(f"Invalid params: {path or 'params'}: {reason}", parameter=path or None)
        if path.startswith("_meta"):
            invalid.status = 400
        return invalid

    # Results in, bytes out

    def initialize(self, call: Call) -> InitializeResult:
        """Open the session that ``call`` asks for, and describe the server in its revision.

        Raises:
            InvalidMessage: there is a session already.
        """
        if self.peer is not None:
            raise InvalidMessage("Invalid request: this session is initialized already")
        self.peer = call.peer
        return InitializeResult(
            protocol_version=call.peer.revision.name,
            capabilities=self.description.capabilities(),
            server_info=self.description.info,
            instructions=self.description.instructions,
        )

    def finish(self, call: Call, result: Result) -> Result:
        """Return ``result`` as it travels to the peer of ``call``."""
        description = self.description
        return call.peer.revision.complete(
            result, call.request, description.identity, description.ttl_ms, description.scope
        )

    def reply(self, call: Call, result: Result | bytes) -> bytes:
        """Encode the answer to a call. ``result`` in bytes is one that is finished and encoded already."""
        if type(result) is bytes:
            return b'{"jsonrpc":"2.0","id":%b,"result":%b}' % (encode(call.id), result)
        return encode(ResponseMessage("2.0", call.id, self.finish(call, result)))  # type: ignore[arg-type]

    def refuse(self, call: Call, error: BaseException) -> Refusal:
        """Encode an error. What is not in ``carrel.errors`` becomes a plain -32603 that says nothing about us."""
        return self._refuse(call.id, error, call.peer.revision, stateless=call.peer.revision.stateless)

    def _refuse(
        self,
        id: Any,
        error: BaseException,
        revision: Revision | None = None,
        *,
        stateless: bool = False,
    ) -> Refusal:
        if revision is None:
            revision = LATEST if stateless else LATEST_HANDSHAKE if self.peer is None else self.peer.revision
        if not (type(id) is int or type(id) is str):
            id = UNSET if revision.anonymous_errors else None
        told = self.describe(error, revision)
        status = 200
        if isinstance(error, ProtocolError) and (stateless or self.peer is None or isinstance(error, InvalidMessage)):
            status = error.status
        return Refusal(encode_error(id, told.code, told.message, told.data), status)

    @staticmethod
    def describe(error: BaseException, revision: Revision) -> ErrorObject:
        """Return an exception as an error of the protocol, in the words of a revision."""
        if isinstance(error, MissingCapability) and not revision.stateless:
            return ErrorObject(
                INVALID_REQUEST, f"The client does not offer {', '.join(error.data['requiredCapabilities'])}"
            )
        if isinstance(error, ProtocolError):
            return ErrorObject(error.code, error.message, UNSET if error.data is None else error.data)
        if isinstance(error, ResourceNotFound | ResourceForbidden):
            return ErrorObject(revision.not_found, "Resource not found", {"uri": error.uri})
        if isinstance(error, ResourceError):
            return ErrorObject(INVALID_PARAMS, error.message, {"uri": error.uri})
        return ErrorObject(INTERNAL_ERROR, "Internal error")


def _without_nulls(members: dict[str, Raw]) -> dict[str, Raw]:
    return {name: raw for name, raw in members.items() if len(memoryview(raw)) != 4 or bytes(raw) != b"null"}


def _malformed(key: str, hint: str = "") -> InvalidParams:
    error = InvalidParams(f"Invalid params: _meta lacks {key}{hint}", parameter="_meta")
    error.status = 400
    return error


def _unreadable(error: Exception) -> InvalidMessage:
    if isinstance(error, RecursionError):
        return InvalidMessage("Parse error: nested too deeply", PARSE_ERROR)
    if isinstance(error, msgspec.ValidationError):
        return InvalidMessage(f"Invalid request: {error}", INVALID_REQUEST)
    return InvalidMessage("Parse error: not valid JSON in UTF-8", PARSE_ERROR)


def _is_stateless(message: Message) -> bool:
    """Whether a refused request was meant statelessly (only then do its errors have an HTTP status of their own)."""
    return message.params is not UNSET and b"io.modelcontextprotocol/protocolVersion" in bytes(message.params)
