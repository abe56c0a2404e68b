"""Messages between two replicas about a parked call: one has the call, the other one the client's repeated request."""

from __future__ import annotations

from typing import Any, TypeAlias

import msgspec
from msgspec import UNSET

from carrel.errors import (
    INTERNAL_ERROR,
    InvalidParams,
    LoginRequired,
    MissingCapability,
    PeerError,
    ProtocolError,
    ResourceNotFound,
    TransportError,
)
from carrel.host.relay import CallLost, InvalidClientResponse
from carrel.protocol import unknown
from carrel.protocol.connection import UNREADABLE
from carrel.protocol.encoding import encode
from carrel.protocol.passed_results import PassedResult
from carrel.protocol.results import reader
from carrel.protocol.revision import Revision
from carrel.protocol.revisions import REVISIONS
from carrel.wire.base import LoggingLevel, Result, Wire, prepared
from carrel.wire.client_features import (
    CreateMessageParams,
    CreateMessageResult,
    ElicitParams,
    ElicitResult,
    ListRootsParams,
    ListRootsResult,
    ServerRequestParams,
)

__all__ = [
    "Answer",
    "CallMessage",
    "Completed",
    "Detach",
    "Failure",
    "LogReport",
    "OpenPage",
    "Parked",
    "PassOn",
    "ProgressReport",
    "SentAgain",
    "Success",
    "error_of",
    "failure_of",
    "outcome_of",
    "params_of",
    "read_message",
    "response_of",
    "result_of",
    "write_message",
    "write_struct",
]


class PassOn(msgspec.Struct, tag=True):
    """Server request for the client, whose ``Answer`` has the same number. ``params`` are JSON of the type ``kind``."""

    number: int
    kind: str
    params: bytes
    key: str | None


class OpenPage(msgspec.Struct, tag=True):
    """URL mode elicitation for the client, whose ``Answer`` has the same number."""

    number: int
    message: str
    url: str
    key: str | None
    required: bool


class Detach(msgspec.Struct, tag=True):
    """Turn the client's request into a task. The ``Answer`` says whether it is one."""

    number: int


class ProgressReport(msgspec.Struct, tag=True):
    """Progress for the client."""

    progress: float
    total: float | None
    message: str | None


class LogReport(msgspec.Struct, tag=True):
    """Log message for the client; ``data`` is JSON."""

    level: LoggingLevel
    data: bytes
    logger: str | None


class Completed(msgspec.Struct, tag=True):
    """A URL mode elicitation is complete."""

    id: str | None


class Parked(msgspec.Struct, tag=True):
    """The call is parked again: the client has to repeat its request once more."""


class SentAgain(msgspec.Struct, tag=True):
    """The call was dropped for another client, and may be sent again."""


class Success(msgspec.Struct, tag=True):
    """Result of the call: JSON, or None. ``raw`` is the result as received, if it is passed on unchanged.

    There is no ``value`` if it follows from ``raw``.
    """

    value: bytes | None
    raw: bytes | None = None
    revision: str = ""
    foreign: bool = False


class Failure(msgspec.Struct, tag=True):
    """Error of a call or of a server request; ``kind`` is the name of the exception, ``data`` is JSON."""

    kind: str
    message: str
    code: int = INTERNAL_ERROR
    data: bytes = b"null"


class Answer(msgspec.Struct, tag=True):
    """Result of a server request: JSON, an error, or neither if the client has not answered yet."""

    number: int
    value: bytes | None = None
    failure: Failure | None = None


CallMessage: TypeAlias = (
    PassOn
    | OpenPage
    | Detach
    | ProgressReport
    | LogReport
    | Completed
    | Parked
    | SentAgain
    | Success
    | Failure
    | Answer
)

_read = msgspec.msgpack.Decoder(CallMessage).decode

#: Parameters of server requests, and the results, by the name of the type of the parameters.
REQUESTS: dict[str, tuple[type[ServerRequestParams], type[Wire]]] = {
    kind.__name__: (kind, result)
    for kind, result in (
        (ElicitParams, ElicitResult),
        (CreateMessageParams, CreateMessageResult),
        (ListRootsParams, ListRootsResult),
    )
}


def read_message(data: bytes) -> CallMessage:
    """Decode a message."""
    message: CallMessage = _read(data)
    return message


def write_message(message: CallMessage) -> bytes:
    """Encode a message."""
    return msgspec.msgpack.encode(message)


def write_struct(value: msgspec.Struct) -> bytes:
    """Encode a struct with the members that its type does not know."""
    return encode(unknown.whole(value))


def read_struct(kind: type[Any], data: bytes) -> Any:
    """Decode a struct with the members that its type does not know."""
    given = msgspec.json.decode(data)
    return unknown.kept(msgspec.convert(given, prepared(kind)), given)


def params_of(message: PassOn) -> ServerRequestParams:
    """Return the parameters of a server request."""
    params: ServerRequestParams = read_struct(REQUESTS[message.kind][0], message.params)
    return params


def response_of(params: ServerRequestParams, data: bytes) -> Any:
    """Return the client's response to a server request with these parameters."""
    kind = REQUESTS[type(params).__name__][1]
    response = read_struct(kind, data)
    return unknown.distribute(response) if kind is ListRootsResult else response


def outcome_of(result: Any, missing: MissingCapability | None) -> Success | Failure:
    """Return the message with the result of a call, or with the capability that the client was ``missing``."""
    value = result.value if isinstance(result, PassedResult) else result
    if missing is not None and getattr(value, "is_error", False):
        return failure_of(missing)
    if isinstance(result, PassedResult):
        encoded = None if is_plain(result) else encode(value)
        return Success(encoded, bytes(result.raw), result.revision.name, result.foreign is not None)
    return Success(None if result is None else write_struct(result))


def result_of(message: Success, kind: type[Result] | None) -> Any:
    """Return the result of a call, of the type ``kind``."""
    if kind is None:
        return None
    if message.raw is None:
        assert message.value is not None
        return unknown.kept(reader(kind)(message.value), msgspec.json.decode(message.value))
    raw, revision = msgspec.Raw(message.raw), REVISIONS[message.revision]
    if message.value is None:
        return PassedResult(read_plain(kind, raw, revision), raw, revision)
    found = unknown.without_foreign_blocks(raw) if message.foreign else None
    return PassedResult(reader(kind)(message.value), raw, revision, None if found is None else found[1])


def is_plain(result: PassedResult[Any]) -> bool:
    """Return whether the value of a result follows from the result as received, and need not be sent."""
    if result.foreign is not None:
        return False
    try:
        return bool(read_plain(type(result.value), result.raw, result.revision) == result.value)
    except UNREADABLE:
        return False


def read_plain(kind: Any, raw: msgspec.Raw, revision: Revision) -> Any:
    """Decode a result as received."""
    value: Any = reader(kind)(raw)
    if not revision.stateless:
        value.result_type = UNSET
    return value


def failure_of(error: BaseException) -> Failure:
    """Return the message with an error."""
    kind = type(error).__name__
    if isinstance(error, PeerError | ProtocolError):
        return Failure(kind, error.message, error.code, encode(error.data))
    if isinstance(error, ResourceNotFound):
        return Failure(kind, error.message, error.code, encode(error.uri))
    return Failure(kind, str(error) or "no answer in time")


def error_of(failure: Failure) -> Exception:
    """Return the error of a message. Errors without a code mean that the server cannot be reached."""
    data = msgspec.json.decode(failure.data)
    match failure.kind:
        case "PeerError":
            return PeerError(failure.code, failure.message, data)
        case "InvalidParams":
            return InvalidParams(failure.message, data)
        case "InvalidClientResponse":
            return InvalidClientResponse(failure.message, data)
        case "MissingCapability":
            return MissingCapability(data["requiredCapabilities"])
        case "CallLost":
            return CallLost(failure.message)
        case "LoginRequired":
            return LoginRequired(failure.message, (data or {}).get("url"))
        case "ResourceNotFound":
            return ResourceNotFound(data, failure.message)
    return TransportError(failure.message)
