"""What a server answered: results of requests, those that are not the end of them, and errors.

https://modelcontextprotocol.io/specification/2026-07-28/basic#result-responses
https://modelcontextprotocol.io/specification/2026-07-28/basic#error-responses
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any, Generic, TypeVar

import msgspec
from msgspec import UNSET, Raw, UnsetType

from carrel.errors import InvalidMessage, PeerError, ProtocolError
from carrel.printable import printable
from carrel.protocol.encoding import encode
from carrel.protocol.json_values import without_nulls
from carrel.protocol.revision import Request
from carrel.wire.base import Result
from carrel.wire.client_features import InputRequiredResult
from carrel.wire.jsonrpc import ErrorObject
from carrel.wire.resources import read_contents
from carrel.wire.tasks import DetailedTask

__all__ = [
    "LARGE",
    "UNREADABLE",
    "Answer",
    "Waiting",
    "guess_id",
    "read_answer",
    "read_error",
    "read_result",
    "reader",
]

R = TypeVar("R")

#: What decoding raises.
UNREADABLE = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)

#: From how many bytes on it pays to look for the id of an answer first, and to read all of it in one go.
LARGE = 2048
#: Where the id is in what most servers write. These are guesses: what is read says whether they were right.
_ID_FIRST = re.compile(rb'\s*\{\s*(?:"jsonrpc"\s*:\s*"2\.0"\s*,\s*)?"id"\s*:\s*(\d{1,15})\s*,').match
_ID_LAST = re.compile(rb'"id"\s*:\s*(\d{1,15})\s*\}\s*$').search
#: Results that are not the end of a request, by their type (2026-07-28 and its extensions).
UNFINISHED: Mapping[str, type[Result]] = {"input_required": InputRequiredResult, "task": DetailedTask}
#: Members of results in which null is a value, or which nobody but their author understands.
MEANT = frozenset(
    ("_meta", "data", "default", "inputSchema", "outputSchema", "resultType", "structuredContent", "ttl", "ttlMs")
)
#: What may be answered with a question: the operations.
ASKING = frozenset(("call_tool", "get_prompt", "read_resource"))

_read_error = msgspec.json.Decoder(ErrorObject).decode
_read_type = msgspec.json.Decoder(Result).decode


class Waiting(msgspec.Struct, gc=False):
    """A request that waits for its answer. ``owner`` is whatever the application needs to find again."""

    request: Request
    result: type[Result]
    owner: Any


@cache
def reader(kind: type[Any]) -> Callable[[Any], Any]:
    """Return what decodes a type. Each is made when it is first used."""
    return msgspec.json.Decoder(kind, dec_hook=read_contents).decode


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


def guess_id(data: bytes | memoryview) -> int | None:
    """Return what may be the id of an answer, by where most servers write it; None if it is not there."""
    found = _ID_FIRST(data) or _ID_LAST(data[-64:])
    return None if found is None else int(found[1])


def read_answer(kind: type[Result], data: bytes | memoryview) -> Answer[Any] | None:
    """Read an answer with a result of a type that is the end of a request; None if it is anything else."""
    try:
        answer = _answer_reader(kind)(data)
    except UNREADABLE:
        return None
    unusual = answer.jsonrpc != "2.0" or answer.method is not UNSET or answer.error is not UNSET
    return None if unusual or answer.result.result_type not in (UNSET, "complete") else answer


def read_result(waiting: Waiting, raw: Raw, *, typed: bool, tasks: bool, strict: bool = False) -> Any:
    """Read a result. ``typed``: it says of which type it is; ``tasks``: it may be a task.

    Unless ``strict``, null for what is not there is read as that, as some servers write it.

    Raises:
        InvalidMessage: it is wrong, or of a type that makes no sense here.
    """
    try:
        result = reader(waiting.result)(raw)
        if not typed or result.result_type is UNSET or result.result_type == "complete":
            return result
        return _read_unfinished(waiting, raw, result.result_type, tasks)
    except UNREADABLE as error:
        problem = error
    try:
        kind = _read_type(raw).result_type if typed else UNSET
        if kind is not UNSET and kind != "complete":
            return _read_unfinished(waiting, raw, kind, tasks)
        if b"null" in bytes(raw) and not strict:
            cleaned = Raw(encode(without_nulls(msgspec.json.decode(raw), MEANT)))
            return read_result(waiting, cleaned, typed=typed, tasks=tasks, strict=True)
    except UNREADABLE:
        pass
    raise InvalidMessage(f"The answer to {waiting.request.method} is wrong: {printable(problem)}")


def _read_unfinished(waiting: Waiting, raw: Raw, kind: str, tasks: bool) -> Any:
    """Read a result that is not the end of its request."""
    operation = waiting.request.operation
    unfinished = UNFINISHED.get(kind)
    if (
        unfinished is None
        or (kind == "input_required" and operation not in ASKING)
        or (kind == "task" and not (operation == "call_tool" and tasks))
    ):
        shown = printable(kind, 100)
        raise InvalidMessage(f"The answer to {waiting.request.method} has the type {shown!r}, not known here")
    return reader(unfinished)(raw)


def read_error(raw: bytes | Raw, status: int | None = None) -> PeerError | ProtocolError:
    """Return the error that a server answered; if it cannot be read, say so."""
    try:
        error = _read_error(raw)
    except UNREADABLE as problem:
        return InvalidMessage(f"The error that the server answered cannot be read: {printable(problem)}")
    return PeerError(error.code, error.message, None if error.data is UNSET else error.data, status=status)
