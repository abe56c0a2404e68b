"""Decoding of responses for the client: complete results, intermediate results (input required, tasks), and errors.

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

from carrel.errors import InvalidMessage
from carrel.printable import printable
from carrel.protocol.connection import UNREADABLE, SentRequest
from carrel.wire.base import Result, Wire, make_decoder
from carrel.wire.client_features import InputRequiredResult
from carrel.wire.resources import read_contents
from carrel.wire.tasks import DetailedTask

__all__ = [
    *("LARGE", "TypedResponse", "begins_response", "guess_id", "id_of_response", "read_response", "read_result"),
    "reader",
]

R = TypeVar("R")

#: Size in bytes from which finding the id of a response first, and decoding it in one pass, is faster.
LARGE = 2048
#: Usual positions of the id in a response. These are guesses, verified after decoding.
_ID_FIRST = re.compile(rb'\s*\{\s*(?:"jsonrpc"\s*:\s*"2\.0"\s*,\s*)?"id"\s*:\s*(\d{1,15})\s*,').match
_ID_LAST = re.compile(rb'"id"\s*:\s*(\d{1,15})\s*\}\s*$').search
#: Usual beginnings of a response: with its id, or with an id that follows. Those of requests have a method.
_VERSION = rb'(?:"jsonrpc"\s*:\s*"2\.0"\s*,\s*)?'
_CONTENT = rb'"(?:result|error)"\s*:'
_RESPONSE_ID_FIRST = re.compile(rb"\s*\{\s*" + _VERSION + rb'"id"\s*:\s*(\d{1,15})\s*,\s*' + _VERSION + _CONTENT).match
_RESPONSE_ID_LAST = re.compile(rb"\s*\{\s*" + _VERSION + _CONTENT).match
#: Intermediate results, by ``resultType`` (2026-07-28 and its extensions).
UNFINISHED: Mapping[str, type[Result]] = {"input_required": InputRequiredResult, "task": DetailedTask}

_read_type = msgspec.json.Decoder(Result).decode


@cache
def reader(kind: type[Any]) -> Callable[[Any], Any]:
    """Return the decoder of a type, created on first use and cached."""
    return make_decoder(kind, dec_hook=read_contents)


class TypedResponse(msgspec.Struct, Generic[R], gc=False):
    """Incoming response with a result of a known type. All other messages are decoded as ``Message``."""

    result: R
    id: Any = UNSET
    jsonrpc: Any = UNSET
    method: Raw | UnsetType = UNSET
    error: Raw | UnsetType = UNSET


@cache
def _response_reader(kind: type[Any]) -> Callable[[Any], TypedResponse[Any]]:
    return make_decoder(TypedResponse[kind], dec_hook=read_contents)  # type: ignore[valid-type]


def guess_id(data: bytes | memoryview) -> int | None:
    """Guess the id of a response from its usual positions; None if it is not there."""
    found = _ID_FIRST(data) or _ID_LAST(data[-64:])
    return None if found is None else int(found[1])


def begins_response(head: bytes) -> bool:
    """Return whether a message is a response, by its beginning. If it is unusual, the message may be a response too."""
    return _RESPONSE_ID_FIRST(head) is not None or _RESPONSE_ID_LAST(head) is not None


def id_of_response(head: bytes, tail: bytes) -> int | None:
    """Return the id of a response of which only the beginning and the end were kept; None if it is not there."""
    found = _RESPONSE_ID_FIRST(head)
    if found is None and _RESPONSE_ID_LAST(head) is not None:
        found = _ID_LAST(tail)
    return None if found is None else int(found[1])


def read_response(kind: type[Wire], data: bytes | memoryview) -> TypedResponse[Any] | None:
    """Decode a response with a complete result of a type; None if it is anything else."""
    try:
        response = _response_reader(kind)(data)
    except UNREADABLE:
        return None
    unusual = response.jsonrpc != "2.0" or response.method is not UNSET or response.error is not UNSET
    return None if unusual or response.result.result_type not in (UNSET, "complete") else response


def read_result(waiting: SentRequest[Any], raw: Raw, *, typed: bool, tasks: bool) -> Any:
    """Decode a result. ``typed``: it has a ``resultType``; ``tasks``: it may be a task.

    Raises:
        InvalidMessage: the result is invalid, or of a type that the request cannot have.
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
    except UNREADABLE:
        pass
    raise InvalidMessage(f"The answer to {waiting.request.method} is wrong: {printable(problem)}")


def _read_unfinished(waiting: SentRequest[Any], raw: Raw, kind: str, tasks: bool) -> Any:
    """Decode an intermediate result."""
    request = waiting.request
    added = waiting.result.other_types.get(kind) if issubclass(waiting.result, Result) else None
    if added is not None:
        return reader(added)(raw)
    unfinished = UNFINISHED.get(kind)
    if (
        unfinished is None
        or (kind == "input_required" and not request.asks)
        or (kind == "task" and not (request.deferred and tasks))
    ):
        shown = printable(kind, 100)
        raise InvalidMessage(f"The answer to {waiting.request.method} has the type {shown!r}, not known here")
    return reader(unfinished)(raw)
