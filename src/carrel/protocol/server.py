"""Server-side protocol state machine: bytes in, events out; results in, bytes out.

A ``Connection`` is one stdio process, one HTTP session, or one stateless HTTP request. It does no I/O. It accepts
messages of every revision: a request that carries its version in ``_meta`` is stateless, any other one belongs to the
session opened by a handshake. Both may be mixed on one connection.

https://modelcontextprotocol.io/specification/2026-07-28/basic/versioning
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, TypeAlias

import msgspec
from msgspec import UNSET, Raw

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
from carrel.protocol import connection
from carrel.protocol.connection import (
    MAX_BATCH,
    UNREADABLE,
    ErrorResponse,
    Ignored,
    Peer,
    Requester,
    Response,
    State,
    Step,
    read_batch,
)
from carrel.protocol.encoding import encode, encode_error
from carrel.protocol.members import FRAME, NO_PARAMS, SMALL, DuplicateId, names_of, quotes_of, refuse_duplicates
from carrel.protocol.methods import PING, Request
from carrel.protocol.revision import Revision
from carrel.protocol.revisions import ANNOUNCEMENTS, LATEST, LATEST_HANDSHAKE, REQUESTS, REVISIONS
from carrel.wire.base import Id, Implementation, Params, RequestMeta, Result, Wire
from carrel.wire.jsonrpc import ErrorObject, Identified, Message, ResponseMessage
from carrel.wire.lifecycle import InitializeParams, InitializeResult, ServerCapabilities
from carrel.wire.tools import CallToolParams
from carrel.wire.utilities import SEVERITY

if TYPE_CHECKING:
    from carrel.limits import Budget
    from carrel.protocol.channel import Channel
    from carrel.protocol.extension import Extension
    from carrel.protocol.principal import Principal, View

__all__ = ["Batch", "Call", "Connection", "Description", "Event", "Notification", "Refusal"]

_read_message = msgspec.json.Decoder(Message).decode
_read_id = msgspec.json.Decoder(Identified).decode
_check_json = msgspec.json.Decoder(Raw).decode


class _ParamsReaders(dict[type[Wire], Callable[[Any], Any]]):
    """Decoders of parameters by type, created on first use: most servers never receive most methods."""

    def __missing__(self, kind: type[Wire]) -> Callable[[Any], Any]:
        read = self[kind] = msgspec.json.Decoder(kind).decode
        return read


class _Names(dict[type[Params], tuple[tuple[bytes, ...], bool]]):
    """Member names that may occur once in a request, by the type of its parameters."""

    def __missing__(self, kind: type[Params]) -> tuple[tuple[bytes, ...], bool]:
        names = self[kind] = names_of(kind)
        return names


class _Quotes(dict[type[Params], int]):
    """Numbers of quotes in requests without duplicates, by the type of their parameters."""

    def __missing__(self, kind: type[Params]) -> int:
        count = self[kind] = quotes_of(kind)
        return count


_names = _Names()
_quotes = _Quotes()
_read_params = _ParamsReaders()
_read_unknown = _read_params[Params]
_read_any = msgspec.json.Decoder().decode
_NO_PARAMS = Raw(b"{}")
_IN_USE = "Invalid request: this id is still in use by another request"


class Description(msgspec.Struct):
    """Description of a server: the content of the results of ``initialize`` and ``server/discover``.

    ``ttl_ms`` and ``scope`` are the default freshness hints of results.
    """

    info: Implementation
    capabilities: Callable[[], ServerCapabilities]
    instructions: str | None = None
    ttl_ms: int = 0
    scope: str = "private"
    revisions: Mapping[str, Revision] = msgspec.field(default_factory=lambda: REVISIONS)
    identity: dict[str, Any] = {}
    """The server's identity in the ``_meta`` of results."""
    extended: dict[str, Extension] = {}
    """Extensions of the server, by the methods that they add."""

    def __post_init__(self) -> None:
        self.identity = {"io.modelcontextprotocol/serverInfo": self.info}

    def extend(self, extension: Extension) -> None:
        """Add the methods of an extension.

        Raises:
            ConfigError: one of the methods exists already.
        """
        for method in extension.requests:
            other = self.extended.get(method)
            if method in LATEST.requests or (other is not None and other.name != extension.name):
                taken = "the protocol itself" if other is None else other.name
                raise ConfigError(f"{extension.name} cannot add the method {method}: {taken} has it")
        self.extended = {**self.extended, **dict.fromkeys(extension.requests, extension)}


class Call(msgspec.Struct):
    """Incoming request. ``raw`` are its parameters as received, unknown fields included."""

    connection: Connection
    peer: Peer
    id: Id
    request: Request[Any, Any]
    params: Any
    raw: Raw
    headers: Mapping[bytes, bytes] | None = None
    """The headers of the HTTP request, by lower-case name, without credentials; None on stdio."""
    principal: Principal | None = None
    """The authenticated caller, where the transport has authenticated the request."""
    view: View | None = None
    """The rights of the caller, set when the request is dispatched; None if nothing is hidden from it."""
    cancelled: bool = False
    """Whether the request was cancelled (set by the transport)."""
    task: Any = None
    """The task that the call has become (kept by the server)."""
    detach: Any = None
    """Turns the call into a task, where that is allowed (kept by the server)."""

    @property
    def method(self) -> str:
        """Method of the request, such as "tools/call"."""
        return self.request.method

    @property
    def meta(self) -> dict[str, Any]:
        """All of ``_meta``, including keys unknown to the protocol."""
        return _read_any(self.raw).get("_meta") or {}

    @property
    def progress_token(self) -> Id | None:
        """The progress token, if the client asked for progress notifications."""
        meta: RequestMeta | None = self.params.meta
        return None if meta is None or meta.progress_token is None else meta.progress_token


class Notification(msgspec.Struct, gc=False):
    """A notification from the client, by its operation name."""

    operation: str
    params: Any


class Refusal(msgspec.Struct, gc=False):
    """Error response to a refused message: ``reply`` is its encoding, ``status`` the HTTP status."""

    reply: bytes
    status: int


class Batch(msgspec.Struct, gc=False):
    """A JSON-RPC batch (2025-03-26). The responses are sent together, as one array."""

    events: list[Event]


Event: TypeAlias = "Call | Notification | Response[Requester] | ErrorResponse[Requester] | Ignored | Refusal | Batch"


class Connection(connection.Connection[Requester]):
    """Server side of a connection to one client; over stateless HTTP, of one request.

    ``peer`` is None until the handshake; stateless requests have a peer of their own.
    """

    __slots__ = ("budget", "channel", "client", "description", "id", "peer", "version_header")

    def __init__(self, description: Description, budget: Budget | None = None) -> None:
        super().__init__()
        self.description = description
        self.budget = budget
        """Budget of bytes kept for clients; None without a limit."""
        self.peer: Peer | None = None
        self.id = ""
        self.client = ""
        """Client for limits and budget (set by the transport): a principal, an address, or this connection alone."""
        self.channel: Channel | None = None
        """Channel of messages that belong to no request; None for a stateless request."""
        self.version_header: str | None = None
        """The MCP-Protocol-Version header of a stateless request."""

    # Budget of bytes kept for the client

    def take(self, size: int) -> bool:
        """Take bytes from the budget of the client; return False if they exceed it."""
        return self.budget is None or self.budget.take(self.client, size)

    def give(self, size: int) -> None:
        """Give bytes back to the budget of the client."""
        if self.budget is not None:
            self.budget.give(self.client, size)

    def has_room(self, size: int) -> bool:
        """Return whether the budget of the client has room for ``size`` bytes."""
        return self.budget is None or self.budget.make_room(self.client, size)

    # Bytes in, events out

    def receive(self, data: bytes | memoryview) -> Event:
        """Decode one message or batch. Invalid input returns a ``Refusal``; nothing is raised."""
        try:
            message = _read_message(data)
            if type(data) is not bytes or not data.isascii():
                str(data, "utf-8")  # the decoder does not validate UTF-8 in raw members
        except UNREADABLE as error:
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
                raise self._invalid_params(method, raw, error) from None
            meta = params.meta
            once = False
            text = data if type(data) is bytes else bytes(data)
            if meta is None:
                quotes = _quotes[type(params)] + (2 if type(id) is str else 0) - (2 if raw is _NO_PARAMS else 0)
                arguments = params.arguments if type(params) is CallToolParams else UNSET
                if type(arguments) is Raw:
                    quotes += 2 + bytes(arguments).count(b'"')
                once = text.count(b'"') == quotes and b"\\" not in text
            if len(text) > SMALL and not once:
                refuse_duplicates(text, raw)
            elif not once:
                frame = len(text) - len(memoryview(raw)) - len(method) - (len(id) if type(id) is str else 0)
                once = frame <= (FRAME if raw is not _NO_PARAMS else FRAME - NO_PARAMS)
                names, named = _names[type(params)]
                for name in names:
                    if text.count(name) > 1:
                        once = False
                if named and text.count(b'"name"') > (1 if meta is None or meta.client_info is None else 2):
                    once = False
                if not once or (b"\\" in text and b"\\u00" in text):  # a member name may contain an escaped letter
                    refuse_duplicates(text, raw)
            if meta is not None and meta.protocol_version is not None:
                peer = self._stateless_peer(meta)
            elif self.peer is not None:
                peer = self.peer
            else:
                peer = self._new_peer(method, params)
            request = peer.revision.requests.get(method) or self._extended(method, peer)
            if id in self.in_flight:
                raise InvalidMessage(_IN_USE)
            return Call(self, peer, id, request, params, raw)
        except DuplicateId as error:
            return self._refuse(UNSET, error)
        except ProtocolError as error:
            return self._refuse(id, error, stateless=_is_stateless(message))
        except (msgspec.DecodeError, RecursionError) as error:
            return self._refuse(id, _unreadable(error))

    def _added(self, method: str) -> Request[Any, Any] | None:
        extension = self.description.extended.get(method)
        return None if extension is None else extension.requests[method]

    def _extended(self, method: str, peer: Peer) -> Request[Any, Any]:
        """Return the request type of a method that an extension adds.

        Raises:
            MethodNotFound: no extension of this server adds it for this peer.
            MissingCapability: the client has not declared the extension.
        """
        extension = self.description.extended.get(method)
        if extension is None or not (peer.revision.stateless or extension.handshake):
            raise MethodNotFound(f"Method not found: {method[:200]}")
        if extension.mutual and peer.settings(extension.name) is None:
            raise MissingCapability({"extensions": {extension.name: {}}})
        return extension.requests[method]

    def _receive_other(self, message: Message, data: bytes | memoryview) -> Event:
        """Decode a message that is not a request: a notification, a response, or an invalid message."""
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
                return Notification("unknown", None)  # no error response: notifications have none
            return Notification(row.operation, params)
        if id is not UNSET and (message.result is UNSET) != (message.error is UNSET):
            return self.take_response(id, message)
        raise InvalidMessage("Invalid request: neither a method, nor a result, nor an error")

    def _receive_odd(self, data: bytes | memoryview, error: Exception) -> Event:
        """Decode data that is not a well-formed message object: a batch, or an invalid message."""
        text = bytes(data)
        if isinstance(error, RecursionError) or not isinstance(error, msgspec.ValidationError):
            return self._refuse(UNSET, _unreadable(error))
        if text.lstrip()[:1] == b"[":
            return self._receive_batch(text)
        try:
            id = _read_id(text).id
        except msgspec.ValidationError:
            id = UNSET
        except UNREADABLE as worse:
            return self._refuse(UNSET, _unreadable(worse))
        return self._refuse(id, InvalidMessage(f"Invalid request: {error}"))

    def _receive_batch(self, text: bytes) -> Event:
        allowed = self.peer is not None and self.peer.revision.batches
        try:
            raws: list[Raw] = []
            if allowed:
                raws = read_batch(text)
            else:
                _check_json(text)
            text.decode()
        except UNREADABLE as error:
            return self._refuse(UNSET, _unreadable(error))
        if not allowed:
            return self._refuse(UNSET, InvalidMessage("Invalid request: batches are not part of this revision"))
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
        """Return the peer that a stateless request declares in its ``_meta``.

        https://modelcontextprotocol.io/specification/2026-07-28/basic#meta
        """
        name = meta.protocol_version
        assert name is not None
        if self.version_header is not None and self.version_header != name:
            raise HeaderMismatch(
                f"Header mismatch: MCP-Protocol-Version header value {self.version_header[:200]!r} "
                f"does not match body value {name[:200]!r}"
            )
        revision = self.description.revisions.get(name)
        if revision is None:
            raise UnsupportedVersion(name, list(self.description.revisions))
        if not revision.stateless:  # list only stateless ones, or the client retries with another handshake revision
            supported = [other.name for other in self.description.revisions.values() if other.stateless]
            message = f"Unsupported protocol version: {name} begins with initialize, and is in no _meta"
            raise UnsupportedVersion(name, supported, message)
        if meta.capabilities is None:
            raise _malformed("io.modelcontextprotocol/clientCapabilities")
        return Peer(
            revision,
            meta.client_info,
            meta.capabilities,
            None if meta.log_level is None else SEVERITY[meta.log_level],
        )

    def _new_peer(self, method: str, params: Any) -> Peer:
        """Return the peer that ``initialize`` declares; before it, only ping is accepted.

        https://modelcontextprotocol.io/specification/2025-11-25/basic/lifecycle#version-negotiation
        """
        handshakes = [revision for revision in self.description.revisions.values() if not revision.stateless]
        if not isinstance(params, InitializeParams):
            if handshakes and method == PING.method:
                return Peer(handshakes[0])
            raise _malformed("io.modelcontextprotocol/protocolVersion", "; clients with a session initialize it first")
        if not handshakes:
            raise UnsupportedVersion(params.protocol_version, list(self.description.revisions))
        revision = self.description.revisions.get(params.protocol_version)
        if revision is None or revision.stateless:
            revision = handshakes[0]
        return Peer(revision, params.client_info, params.capabilities, SEVERITY["info"])

    def _invalid_params(self, method: str, raw: Any, error: msgspec.ValidationError) -> ProtocolError:
        """Return the error that names the invalid parameter, or MethodNotFound if the peer has no such method."""
        try:
            meta = _read_unknown(raw).meta
            peer = self._stateless_peer(meta) if meta is not None and meta.protocol_version is not None else self.peer
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
        """Open the session, and return the result of ``initialize`` in the negotiated revision.

        Raises:
            InvalidMessage: the session is initialized already.
        """
        if self.state is not State.NEW:
            raise InvalidMessage("Invalid request: this session is initialized already")
        self.step(Step.PROPOSE)
        self.step(Step.AGREE)
        self.peer = call.peer
        return InitializeResult(
            protocol_version=call.peer.revision.name,
            capabilities=self.description.capabilities(),
            server_info=self.description.info,
            instructions=self.description.instructions,
        )

    def restore(self, peer: Peer) -> None:
        """Open a session that another replica of the server has begun."""
        self.step(Step.PROPOSE)
        self.step(Step.AGREE)
        self.peer = peer

    def refuse_session(self) -> None:
        """Undo ``initialize``: the server cannot keep the session."""
        self.step(Step.REFUSE)
        self.peer = None

    def finish(self, call: Call, result: Result) -> Result:
        """Return ``result`` completed for the revision of the peer of ``call``."""
        description = self.description
        return call.peer.revision.complete(
            result, call.request, description.identity, description.ttl_ms, description.scope
        )

    def reply(self, call: Call, result: Result | bytes) -> bytes:
        """Encode the response to a call. A ``result`` in bytes is finished and encoded already."""
        if type(result) is bytes:
            return b'{"jsonrpc":"2.0","id":%b,"result":%b}' % (encode(call.id), result)
        return encode(ResponseMessage("2.0", call.id, self.finish(call, result)))  # type: ignore[arg-type]

    def refuse(self, call: Call, error: BaseException) -> Refusal:
        """Encode an error response. Exceptions that are not in ``carrel.errors`` become -32603 without details."""
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
        """Convert an exception to the JSON-RPC error of a revision."""
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
    """Return whether a refused request was a stateless one, whose errors have their own HTTP status."""
    return message.params is not UNSET and b"io.modelcontextprotocol/protocolVersion" in bytes(message.params)
