"""Sans-I/O core of a connection, the same for both directions: states, request ids, requests in flight, batches.

Either side sends requests, notifications and responses. ``carrel.protocol.server`` and ``carrel.protocol.client`` are
the two roles on top of it. The connection owns the state of the protocol and nothing else: what transports and the
server keep for a client is in a ``carrel.protocol.channel.ConnectedClient``, which each ``Call`` has.

https://modelcontextprotocol.io/specification/2026-07-28/basic
https://modelcontextprotocol.io/specification/2025-11-25/basic/lifecycle
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import Enum
from functools import cache
from types import MappingProxyType
from typing import Any, Generic, Protocol, TypeAlias, TypeVar

import msgspec
from msgspec import UNSET, Raw, UnsetType

from carrel.errors import InvalidMessage, PeerError, ProtocolError
from carrel.printable import printable
from carrel.protocol.encoding import MARK, encode, restored
from carrel.protocol.methods import CANCELLED, DISCOVER, INITIALIZE, RequestType
from carrel.protocol.revision import Revision
from carrel.wire.base import ClientCapabilities, Id, Implementation, Wire
from carrel.wire.jsonrpc import ErrorObject, Message, NotificationMessage, RequestMessage
from carrel.wire.utilities import CancelledParams

__all__ = [
    *(
        "MAX_BATCH",
        "MAX_SLOT",
        "OPENING",
        "TRANSITIONS",
        "UNREADABLE",
        "Connection",
        "FailedRequest",
        "Ignored",
        "Peer",
        "Requester",
        "SLOT_SHIFT",
    ),
    *("Response", "ConnectionState", "Step", "SentRequest", "is_id", "read_batch", "read_error"),
]

#: Maximum number of messages in a batch.
MAX_BATCH = 500
#: Request ids are integers up to 2^53, which every JSON parser reads exactly: slot << SLOT_SHIFT | number.
SLOT_SHIFT = 32
#: The highest slot: the number of a replica.
MAX_SLOT = (1 << 53 - SLOT_SHIFT) - 1
#: Requests that propose a revision. They are not cancelled before one has been agreed on.
OPENING = (DISCOVER, INITIALIZE)
#: No requests in flight. Idle sessions share this dict, because a separate empty dict for each would cost memory.
NOTHING: Mapping[Id, None] = MappingProxyType({})
#: No requests that were sent. It is never written to: ``ask`` replaces it.
NO_REQUESTS: dict[Id, Any] = {}
#: Exceptions of decoding.
UNREADABLE = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)

_read_error = msgspec.json.Decoder(ErrorObject).decode


# States


class ConnectionState(Enum):
    """State of the session on a connection. Stateless requests need no session, and are possible in every state."""

    NEW = "new"
    """No revision has been agreed on."""
    NEGOTIATING = "negotiating"
    """A revision has been proposed."""
    OPEN = "open"
    """A revision has been agreed on."""
    CLOSED = "closed"


class Step(Enum):
    """Steps that change the state of a connection, taken by either side."""

    PROPOSE = "propose"
    """The client proposes a revision: with ``initialize`` or, to find out whether it is spoken, ``server/discover``."""
    AGREE = "agree"
    """The server has accepted the proposal, or made one that the client accepts."""
    REJECT = "reject"
    """The proposal was answered with an error. A server may refuse a session that it cannot keep after all."""
    CLOSE = "close"


#: The state after each step. A step that is not there is not allowed in that state.
TRANSITIONS: Mapping[ConnectionState, Mapping[Step, ConnectionState]] = {
    ConnectionState.NEW: {Step.PROPOSE: ConnectionState.NEGOTIATING, Step.CLOSE: ConnectionState.CLOSED},
    ConnectionState.NEGOTIATING: {
        Step.PROPOSE: ConnectionState.NEGOTIATING,
        Step.AGREE: ConnectionState.OPEN,
        Step.REJECT: ConnectionState.NEW,
        Step.CLOSE: ConnectionState.CLOSED,
    },
    ConnectionState.OPEN: {Step.REJECT: ConnectionState.NEW, Step.CLOSE: ConnectionState.CLOSED},
    ConnectionState.CLOSED: {Step.CLOSE: ConnectionState.CLOSED},
}


class Peer(msgspec.Struct):
    """The client of a handshake session, or of one stateless request.

    ``log_level`` is the minimum severity of the log messages it wants, a number of ``wire.utilities.SEVERITY``; None
    means no log messages.
    """

    revision: Revision
    client: Implementation | None = None
    capabilities: ClientCapabilities | None = None
    log_level: int | None = None

    def settings(self, extension: str) -> Any:
        """Return the settings of an extension that the client declares, {} if empty; None if it does not declare it."""
        if self.capabilities is None or self.capabilities.extensions is None:
            return None
        return self.capabilities.extensions.get(extension)


# Requests that wait for their responses


class Requester(Protocol):
    """The sender of a request, which gets its result or its error."""

    def resolve(self, result: Any) -> None:
        """Take the result of the request."""

    def fail(self, error: Exception) -> None:
        """Take the error of the request."""


W = TypeVar("W", bound=Requester)


class SentRequest(msgspec.Struct, Generic[W], gc=False):
    """Pending request, the type of its result, and its sender."""

    request: RequestType
    result: type[Wire]
    owner: W
    whole: bool = False
    """Whether the result is a ``PassedResult``."""


class Response(msgspec.Struct, Generic[W], gc=False):
    """The result of a request; for a client, an intermediate one is an ``InputRequiredResult`` or ``DetailedTask``."""

    waiting: SentRequest[W]
    id: Id
    result: Any

    def deliver(self) -> None:
        """Pass the result to the sender of the request."""
        self.waiting.owner.resolve(self.result)


class FailedRequest(msgspec.Struct, Generic[W], gc=False):
    """An error response to a request, or a result that cannot be decoded."""

    waiting: SentRequest[W]
    id: Id
    error: PeerError | ProtocolError

    def deliver(self) -> None:
        """Pass the error to the sender of the request."""
        self.waiting.owner.fail(self.error)


class Ignored(msgspec.Struct, gc=False):
    """An ignored message, with the reason. ``reply`` is the error response to send, if any.

    ``response`` is a response to a request that this connection did not send; another replica of the server may have
    sent it. ``malformed`` is True for data that is not a JSON-RPC message, such as stray output of a program.
    """

    reason: str
    reply: bytes | None = None
    response: Message | None = None
    malformed: bool = False


Answered: TypeAlias = Response[W] | FailedRequest[W] | Ignored


class Connection(Generic[W]):
    """Base of both ends of a connection. ``W`` is the type of the senders of its requests."""

    __slots__ = ("__weakref__", "in_flight", "last_id", "state", "waiting")

    def __init__(self) -> None:
        self.state = ConnectionState.NEW
        self.last_id = 0
        """The id of the last request that was sent."""
        self.waiting: dict[Id, SentRequest[W]] = NO_REQUESTS
        """Requests that were sent and not answered yet, by id."""
        self.in_flight: Mapping[Id, None] = NOTHING
        """Ids of received requests whose responses are pending: they are in use until ``end``."""

    def use_slot(self, slot: int) -> None:
        """Number the requests from now on within a slot: replicas that serve one session have different ones.

        Raises:
            ValueError: ids of that slot would be beyond 2^53.
        """
        if not 0 <= slot <= MAX_SLOT:
            raise ValueError(f"a slot is a number up to {MAX_SLOT}")
        self.last_id = slot << SLOT_SHIFT

    def step(self, step: Step) -> None:
        """Change the state.

        Raises:
            ProtocolError: the step is not allowed in this state.
        """
        state = TRANSITIONS[self.state].get(step)
        if state is None:
            raise ProtocolError(f"{step.value.title()} is not possible: the session is {self.state.value}")
        self.state = state

    def close(self) -> list[tuple[Id, SentRequest[W]]]:
        """Close the connection, and return the requests that will have no response."""
        self.step(Step.CLOSE)
        waiting, self.waiting = self.waiting, {}
        self.in_flight = NOTHING
        return list(waiting.items())

    # Requests to the peer

    def ask(self, request: RequestType, params: Any, owner: W, result: type[Wire] | None = None) -> bytes:
        """Encode a request with the next id, which is then ``last_id``, and register it as pending."""
        self.last_id = id = self.last_id + 1
        data = encode(RequestMessage("2.0", id, request.method, params))
        if data.find(MARK) >= 0:
            data = restored(data)
        if self.waiting is NO_REQUESTS:
            self.waiting = {}
        self.waiting[id] = SentRequest(request, request.result if result is None else result, owner)
        return data

    def cancel(self, id: Id, reason: str) -> bytes | None:
        """Drop a pending request, and encode the notification that cancels it; None if it is not pending.

        https://modelcontextprotocol.io/specification/2026-07-28/basic/patterns/cancellation
        """
        if self.waiting.pop(id, None) is None:
            return None
        return encode(NotificationMessage("2.0", CANCELLED.method, CancelledParams(request_id=id, reason=reason)))

    def take_response(self, id: Any, message: Message) -> Answered[W]:
        """Match a response to the pending request with its id."""
        waiting = self.waiting.pop(id, None) if type(id) is int or type(id) is str else None
        if waiting is None:
            reason = "" if message.error is UNSET else f": {printable(read_error(message.error))}"
            known = printable(id) if is_id(id) else "no request"
            return Ignored(f"a response to {known}, which is not pending{reason}", response=message)
        if message.error is not UNSET:
            if self.state is ConnectionState.NEGOTIATING and waiting.request in OPENING:
                self.step(Step.REJECT)
            return FailedRequest(waiting, id, read_error(message.error))
        if message.result is UNSET:
            return FailedRequest(
                waiting,
                id,
                InvalidMessage(f"The response to {waiting.request.method} has neither a result nor an error"),
            )
        try:
            return Response(waiting, id, self.read(waiting, message.result))
        except ProtocolError as error:
            return FailedRequest(waiting, id, error)

    def read(self, waiting: SentRequest[W], raw: Raw) -> Any:
        """Decode the result of a request, as plain values.

        Raises:
            InvalidMessage: it cannot be decoded.
        """
        try:
            return msgspec.json.decode(raw)
        except UNREADABLE as error:
            raise InvalidMessage(f"The answer to {waiting.request.method} is wrong: {printable(error)}") from None

    # Requests of the peer

    def begin(self, id: Id) -> None:
        """Register a received request whose response is pending. Its id cannot be used again until ``end``."""
        if self.in_flight is NOTHING:
            self.in_flight = {}
        self.in_flight[id] = None  # type: ignore[index]

    def end(self, id: Id) -> None:
        """Remove a received request that was answered or cancelled. One that is not there is no error."""
        if id in self.in_flight:
            if len(self.in_flight) == 1:
                self.in_flight = NOTHING
            else:
                del self.in_flight[id]  # type: ignore[attr-defined]


# Decoding


def is_id(id: Any) -> bool:
    """Return whether the value is a valid id: a string or an integer, but not a bool or float."""
    return type(id) is int or type(id) is str


def read_error(raw: bytes | Raw, status: int | None = None) -> PeerError | ProtocolError:
    """Decode the error of a response; an ``InvalidMessage`` if it is malformed."""
    try:
        error = _read_error(raw)
    except UNREADABLE as problem:
        return InvalidMessage(f"The error that was answered cannot be read: {printable(problem)}")
    return PeerError(error.code, error.message, None if error.data is UNSET else error.data, status=status)


def read_batch(data: bytes) -> list[Raw]:
    """Split a batch into its messages. Of more than ``MAX_BATCH`` it keeps one too many, and skips the rest.

    Raises:
        msgspec.DecodeError: the data is not a JSON array.
    """
    return [raw for raw in msgspec.structs.astuple(_batch_reader()(data)) if raw is not UNSET]


@cache
def _batch_reader() -> Callable[[bytes], Any]:
    fields = [(f"message_{number}", Raw | UnsetType, UNSET) for number in range(MAX_BATCH + 1)]
    return msgspec.json.Decoder(msgspec.defstruct("Messages", fields, array_like=True)).decode
