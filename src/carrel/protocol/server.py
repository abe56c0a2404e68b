"""Server-side protocol state machine: bytes in, events out; results in, bytes out.

A ``ServerProtocol`` is one stdio process, one HTTP session, or one stateless HTTP request. It does no I/O. It accepts
messages of every revision: a request that carries its version in ``_meta`` is stateless, any other one belongs to the
session opened by a handshake. Both may be mixed on one connection.

https://modelcontextprotocol.io/specification/2026-07-28/basic/versioning
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Generic, TypeAlias, TypeVar

import msgspec
from msgspec import UNSET, Raw

from carrel.errors import InvalidMessage, MethodNotFound, MissingCapability, ProtocolError, TooManyRequests
from carrel.protocol import connection
from carrel.protocol.connection import (
    MAX_BATCH,
    UNREADABLE,
    ConnectionState,
    FailedRequest,
    Ignored,
    Peer,
    Requester,
    Response,
    Step,
    read_batch,
)
from carrel.protocol.description import Description
from carrel.protocol.encoding import BACKSLASH, MARK, encode, encode_error, restored
from carrel.protocol.members import FRAME, NAMES, NO_PARAMS, QUOTES, SMALL, DuplicateId
from carrel.protocol.methods import AnyParams, RequestType
from carrel.protocol.peers import new_peer, stateless_peer
from carrel.protocol.revision import Revision
from carrel.protocol.revisions import CLIENT_NOTIFICATIONS, LATEST, LATEST_HANDSHAKE, REQUESTS
from carrel.protocol.server_errors import error_object, invalid_params, unreadable
from carrel.wire.base import Id, Params, RequestMeta, Result, Wire, make_decoder
from carrel.wire.jsonrpc import Identified, Message, ResponseMessage
from carrel.wire.lifecycle import InitializeResult
from carrel.wire.tools import CallToolParams

if TYPE_CHECKING:
    from typing_extensions import TypeVar as DefaultTypeVar

    from carrel.protocol.channel import Channel, ConnectedClient
    from carrel.protocol.headers import RequestHeaders
    from carrel.protocol.principal import Principal, View

    P = DefaultTypeVar("P", default=Any)
else:
    P = TypeVar("P")

__all__ = ["Call", "ClientBatch", "ClientNotification", "ErrorResponse", "Event", "Reply", "ServerProtocol"]


_read_message = msgspec.json.Decoder(Message).decode
_read_id = msgspec.json.Decoder(Identified).decode
_check_json = msgspec.json.Decoder(Raw).decode


class _ParamsReaders(dict[type[Wire], Callable[[Any], Any]]):
    """Decoders of parameters by type, created on first use: most servers never receive most methods."""

    def __missing__(self, kind: type[Wire]) -> Callable[[Any], Any]:
        read = self[kind] = make_decoder(kind)
        return read


_read_params = _ParamsReaders()
_read_unknown = _read_params[Params]
_read_meta = msgspec.json.Decoder(AnyParams).decode
_NO_PARAMS = Raw(b"{}")
_IN_USE = "Invalid request: this id is still in use by another request"


class Call(msgspec.Struct, Generic[P]):
    """Incoming request. ``raw`` are its parameters as received, unknown fields included."""

    connection: ServerProtocol
    peer: Peer
    id: Id
    request: RequestType
    params: P
    raw: Raw
    raw_headers: Mapping[bytes, bytes] | None = None
    """The headers of the HTTP request, by lower-case name (set by the transport); None on stdio."""
    principal: Principal | None = None
    """The authenticated caller, where the transport has authenticated the request."""
    view: View | None = None
    """The rights of the caller, set when the request is dispatched; None if nothing is hidden from it."""
    cancelled: bool = False
    """Whether the request was cancelled (set by the transport)."""
    channel: Channel | None = None
    """The channel for messages of the call other than its response, set if it is dispatched through middleware."""
    client: ConnectedClient = None  # type: ignore[assignment]  # set by the transport before it dispatches the request
    """The client, as the transport knows it."""
    address: str = ""
    """The address of the client (set by the transport); empty on stdio."""
    outer: Call | None = None
    """The call whose handler makes this one, such as to read another resource."""

    @property
    def method(self) -> str:
        """Method of the request, such as "tools/call"."""
        return self.request.method

    @property
    def headers(self) -> RequestHeaders:
        """The headers of the HTTP request, by name in any case, without credentials; empty on other transports."""
        from carrel.protocol.headers import RequestHeaders  # loaded on first use

        return RequestHeaders(self.raw_headers or {})

    @property
    def is_cancelled(self) -> bool:
        """Whether the request was cancelled, or the one whose handler makes this call."""
        return self.cancelled or (self.outer is not None and self.outer.is_cancelled)

    @property
    def meta(self) -> dict[str, Any]:
        """All of ``_meta``, including keys unknown to the protocol."""
        return _read_meta(self.raw).meta or {}

    @property
    def progress_token(self) -> Id | None:
        """The progress token, if the client requested progress notifications."""
        params: Any = self.params
        meta: RequestMeta | None = params.meta
        return None if meta is None or meta.progress_token is None else meta.progress_token


class ClientNotification(msgspec.Struct, gc=False):
    """A notification from the client, by its operation name."""

    operation: str
    params: Any


class ErrorResponse(msgspec.Struct, gc=False):
    """Error response to a rejected message: ``reply`` is its encoding, ``status`` the HTTP status.

    ``retry_after`` is the time in seconds after which the request may be sent again, if it is known. ``call`` is the
    rejected request of an unknown method or with invalid parameters, for observers: its request type has no operation.
    """

    reply: bytes
    status: int
    retry_after: float | None = None
    call: Call | None = None


Reply: TypeAlias = bytes | ErrorResponse
"""Encoded response to a request."""


class ClientBatch(msgspec.Struct, gc=False):
    """A JSON-RPC batch (2025-03-26). The responses are sent together, as one array."""

    events: list[Event]


Event: TypeAlias = (
    "Call | ClientNotification | Response[Requester] | FailedRequest[Requester] | Ignored | ErrorResponse | ClientBatch"
)


class ServerProtocol(connection.Connection[Requester]):
    """Server side of a connection to one client; over stateless HTTP, of one request.

    ``peer`` is None until the handshake; each stateless request has a separate peer.
    """

    __slots__ = ("description", "peer", "version_header")

    def __init__(self, description: Description) -> None:
        super().__init__()
        self.description = description
        self.peer: Peer | None = None
        self.version_header: str | None = None
        """The MCP-Protocol-Version header of a stateless request."""

    # Bytes in, events out

    def receive(self, data: bytes | memoryview) -> Event:
        """Decode one message or batch. Invalid input returns a ``ErrorResponse``; nothing is raised."""
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
                quotes = QUOTES[type(params)] + (2 if type(id) is str else 0) - (2 if raw is _NO_PARAMS else 0)
                arguments = params.arguments if type(params) is CallToolParams else UNSET
                if type(arguments) is Raw:
                    quotes += 2 + bytes(arguments).count(b'"')
                once = text.count(b'"') == quotes and BACKSLASH not in text
            if len(text) > SMALL and not once:
                self.description.duplicates.reject(text, raw)
            elif not once:
                frame = len(text) - len(memoryview(raw)) - len(method) - (len(id) if type(id) is str else 0)
                once = frame <= (FRAME if raw is not _NO_PARAMS else FRAME - NO_PARAMS)
                names, named = NAMES[type(params)]
                for name in names:
                    if text.count(name) > 1:
                        once = False
                if named and text.count(b'"name"') > (1 if meta is None or meta.client_info is None else 2):
                    once = False
                if not once or (BACKSLASH in text and b"\\u00" in text):  # a member name may contain an escaped letter
                    self.description.duplicates.reject(text, raw)
            if meta is not None and meta.protocol_version is not None:
                peer = stateless_peer(meta, self.version_header, self.description.revisions)
            elif self.peer is not None:
                peer = self.peer
            else:
                peer = new_peer(method, params, self.description.revisions)
            request = peer.revision.requests.get(method) or self._extended(method, peer)
            if id in self.in_flight:
                raise InvalidMessage(_IN_USE)
            return Call(self, peer, id, request, params, raw)
        except DuplicateId as error:
            return self._reject(UNSET, error)
        except ProtocolError as error:
            rejected = self._reject(id, error, stateless=_is_stateless(message))
            rejected.call = self._rejected_call(message)
            return rejected
        except (msgspec.DecodeError, RecursionError) as error:
            return self._reject(id, unreadable(error))

    def _rejected_call(self, message: Message) -> Call | None:
        """Return a rejected request for observers; None for other messages, and if the revision is not known."""
        id, method, raw = message.id, message.method, message.params
        if method is UNSET or not (type(id) is int or type(id) is str):
            return None
        raw = _NO_PARAMS if raw is UNSET else raw
        try:
            peer = self._peer_of(raw)
        except (ProtocolError, msgspec.ValidationError):
            peer = self.peer
        row = RequestType(method[:200], "", Params, Result)
        return None if peer is None else Call(self, peer, id, row, Params(), raw)

    def _peer_of(self, raw: Any) -> Peer | None:
        """Return the peer of a request by its parameters.

        Raises:
            ProtocolError: its revision is not known.
            msgspec.ValidationError: its metadata is invalid.
        """
        meta = _read_unknown(raw).meta
        if meta is None or meta.protocol_version is None:
            return self.peer
        return stateless_peer(meta, self.version_header, self.description.revisions)

    def _added(self, method: str) -> RequestType | None:
        extension = self.description.extended.get(method)
        return None if extension is None else extension.requests[method]

    def _extended(self, method: str, peer: Peer) -> RequestType:
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
        self.description.duplicates.reject(data)
        if message.jsonrpc != "2.0":
            raise InvalidMessage('Invalid request: jsonrpc must be "2.0"')
        if id is not UNSET and type(id) is not int and type(id) is not str:
            raise InvalidMessage("Invalid request: id must be a string or an integer")
        if method is not UNSET:
            row = CLIENT_NOTIFICATIONS.get(method)
            if row is None:
                return ClientNotification("unknown", None)
            try:
                params = _read_params[row.params](_NO_PARAMS if message.params is UNSET else message.params)
            except msgspec.ValidationError:
                return ClientNotification("unknown", None)  # no error response: notifications have none
            return ClientNotification(row.operation, params)
        if id is not UNSET and (message.result is UNSET) != (message.error is UNSET):
            return self.take_response(id, message)
        raise InvalidMessage("Invalid request: neither a method, nor a result, nor an error")

    def _receive_odd(self, data: bytes | memoryview, error: Exception) -> Event:
        """Decode data that is not a well-formed message object: a batch, or an invalid message."""
        text = bytes(data)
        if isinstance(error, RecursionError) or not isinstance(error, msgspec.ValidationError):
            return self._reject(UNSET, unreadable(error))
        if text.lstrip()[:1] == b"[":
            return self._receive_batch(text)
        try:
            id = _read_id(text).id
        except msgspec.ValidationError:
            id = UNSET
        except UNREADABLE as worse:
            return self._reject(UNSET, unreadable(worse))
        return self._reject(id, InvalidMessage(f"Invalid request: {error}"))

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
            return self._reject(UNSET, unreadable(error))
        if not allowed:
            return self._reject(UNSET, InvalidMessage("Invalid request: batches are not part of this revision"))
        if not 0 < len(raws) <= MAX_BATCH:
            return self._reject(UNSET, InvalidMessage(f"Invalid request: a batch holds 1 to {MAX_BATCH} messages"))
        return ClientBatch(self._receive_each(raws))

    def _receive_each(self, raws: list[Raw]) -> list[Event]:
        events: list[Event] = []
        ids: set[Id] = set()
        for raw in raws:
            if bytes(raw)[:1] == b"[":
                events.append(self._reject(UNSET, InvalidMessage("Invalid request: a batch within a batch")))
                continue
            event = self.receive(raw)
            if type(event) is Call:
                if not event.peer.revision.batches:
                    event = self._reject(event.id, InvalidMessage("Invalid request: its revision has no batches"))
                elif event.id in ids:
                    event = self._reject(event.id, InvalidMessage(_IN_USE))
                else:
                    ids.add(event.id)
            events.append(event)
        return events

    def _invalid_params(self, method: str, raw: Any, error: msgspec.ValidationError) -> ProtocolError:
        """Return the error that names the invalid parameter, or MethodNotFound if the peer has no such method."""
        try:
            peer = self._peer_of(raw)
        except msgspec.ValidationError:
            peer = self.peer
        except ProtocolError as worse:
            return worse
        if peer is not None and method not in peer.revision.requests:
            try:
                self._extended(method, peer)
            except ProtocolError as worse:
                return worse
        return invalid_params(error)

    # Results in, bytes out

    def initialize(self, call: Call) -> InitializeResult:
        """Open the session, and return the result of ``initialize`` in the negotiated revision.

        Raises:
            InvalidMessage: the session is initialized already.
        """
        if self.state is not ConnectionState.NEW:
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

    def reject_session(self) -> None:
        """Undo ``initialize``: the server cannot keep the session."""
        self.step(Step.REJECT)
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
        told, complete = self.description, call.peer.revision.complete
        whole = complete(result, call.request, told.identity, told.ttl_ms, told.scope)  # type: ignore[arg-type]
        data = encode(ResponseMessage("2.0", call.id, whole))
        return data if data.find(MARK) < 0 else restored(data)

    def reject(self, call: Call, error: BaseException) -> ErrorResponse:
        """Encode an error response. Exceptions that are not in ``carrel.errors`` become -32603 without details."""
        return self._reject(call.id, error, call.peer.revision, stateless=call.peer.revision.stateless)

    def _reject(
        self,
        id: Any,
        error: BaseException,
        revision: Revision | None = None,
        *,
        stateless: bool = False,
    ) -> ErrorResponse:
        if revision is None:
            revision = LATEST if stateless else LATEST_HANDSHAKE if self.peer is None else self.peer.revision
        if not (type(id) is int or type(id) is str):
            id = UNSET if revision.anonymous_errors else None
        told = error_object(error, revision)
        status = 200
        if isinstance(error, ProtocolError) and (stateless or self.peer is None or isinstance(error, InvalidMessage)):
            status = error.status
        retry_after = error.retry_after if isinstance(error, TooManyRequests) else None
        return ErrorResponse(encode_error(id, told.code, told.message, told.data), status, retry_after)


def _is_stateless(message: Message) -> bool:
    """Return whether a rejected request was a stateless one, whose errors have their own HTTP status."""
    return message.params is not UNSET and b"io.modelcontextprotocol/protocolVersion" in bytes(message.params)
