"""Requests to the client during a request (elicitation, sampling, roots), and multi round-trip requests (MRTR).

For a client with a session (2025-11-25 and before), a server request is sent on the stream of the call. A stateless
client (2026-07-28) gets an ``InputRequiredResult`` instead, and repeats its request with the answers. The handler then
runs again from its beginning, and earlier server requests return their answers at once.

https://modelcontextprotocol.io/specification/2026-07-28/basic/patterns/mrtr
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Protocol, cast

import msgspec
from msgspec import UNSET, Raw

from carrel.catalog.request import InputRequired
from carrel.catalog.task_channel import task_of
from carrel.errors import INTERNAL_ERROR, InvalidMessage, InvalidParams, PeerError, ProtocolError, TransportError
from carrel.log import Log
from carrel.printable import printable
from carrel.protocol.encoding import encode
from carrel.wire.base import Id
from carrel.wire.client_features import InputRequest, InputRequiredResult

if TYPE_CHECKING:
    from carrel.protocol.channel import Channel
    from carrel.protocol.methods import RequestType
    from carrel.protocol.server import Call, ServerProtocol
    from carrel.server.elicitation.client_requests import Capable, ClientRequest
    from carrel.server.elicitation.request_state import Exchanges, RequestStateCipher
    from carrel.server.options import ServerSettings
    from carrel.server.task_interface import RunningTask

    class Exchanging(Protocol):
        """Interface of ``Runtime`` for multi round-trip requests."""

        settings: ServerSettings

        @property
        def state_cipher(self) -> RequestStateCipher: ...
        @property
        def exchanges(self) -> Exchanges: ...

    class Asker(Capable, Protocol):
        """Context of a request whose handler sends requests to its client."""

        _channel: Channel
        _repeatable: bool

        @property
        def _runtime(self) -> Exchanging:
            """The runtime of the server."""

        @property
        def _this_round(self) -> Round:
            """State of this run of the handler."""

        @property
        def _related(self) -> dict[str, Any] | None:
            """``_meta`` that names the task of a message."""


__all__ = [
    "MAX_ATTEMPTS",
    "PendingClientRequest",
    "Round",
    "abandon",
    "ask",
    "begin",
    "invalid_answer",
    "required_by",
    "use_state",
    "withdraw",
]

log = Log("carrel")

#: Number of attempts for a request whose answers are not valid.
MAX_ATTEMPTS = 3
#: Bytes in the id of a request over its rounds.
EXCHANGE_ID = 16


class Round(msgspec.Struct):
    """State of one run of a handler: the answers of earlier rounds, and the requests still open.

    ``digests`` identify the requests that were asked; ``attempts`` counts the invalid answers to each; ``kept`` are the
    values of ``Context.once``. ``exchange`` is the id of the request over all rounds, and ``step`` is how many times it
    was answered with requests.
    """

    answers: dict[str, Any] = {}
    digests: dict[str, bytes] = {}
    attempts: dict[str, int] = {}
    kept: dict[str, Any] = {}
    needed: dict[str, ClientRequest] = {}
    asked: dict[str, int] = {}
    exchange: bytes = b""
    step: int = 0

    def key_for(self, operation: str, key: str | None) -> str:
        """Return the given key of a server request, or a key from its operation and number."""
        if key is not None:
            return key
        number = self.asked[operation] = self.asked.get(operation, 0) + 1
        return f"{operation}-{number}"


def digest_of(request: ClientRequest) -> bytes:
    """Return the digest of a request, so that no answer is used for a different one. ``_meta`` makes no difference."""
    params = request.params
    if params.meta is not None:
        params = msgspec.structs.replace(params, meta=None)
    return sha256(request.operation.encode() + encode(params))[:16]


def sha256(data: bytes) -> bytes:
    """Return the SHA-256 digest of ``data``; hashlib is loaded on first use."""
    from hashlib import sha256

    return sha256(data).digest()


def binding_of(context: Asker) -> bytes:
    """Return the digest that binds a request state to the caller, the method, and its parameters."""
    call = context._call
    params = msgspec.json.decode(call.raw)
    salient = {key: params.get(key) for key in ("name", "uri", "arguments")}
    who = getattr(call.principal, "id", None) or ""
    return sha256(msgspec.json.encode([who, call.request.method, salient], order="sorted"))


def begin(context: Asker) -> Round:
    """Return the round of a request, from the ``requestState`` and ``inputResponses`` of a stateless client.

    Raises:
        InvalidParams: its state or its answers are not valid.
    """
    params = context._call.params
    current, has_state = Round(), params.request_state is not None
    if has_state:
        current = Round(**context._runtime.state_cipher.open(params.request_state, binding_of(context)))
    if params.input_responses is not UNSET and bytes(params.input_responses) != b"null":
        try:
            given = msgspec.json.decode(params.input_responses, type=dict[str, Raw])
        except msgspec.ValidationError as error:
            raise InvalidParams(f"Invalid params: inputResponses: {error}", parameter="inputResponses") from None
        for key, raw in given.items():
            if key not in current.answers and (key in current.digests or not has_state):
                current.answers[key] = msgspec.json.decode(raw)
    return current


async def use_state(context: Asker) -> None:
    """Take the ``requestState`` of a request, before its handler does anything.

    Raises:
        InvalidParams: it was used before, or is not valid.
    """
    current, params = context._this_round, context._call.params
    if current.exchange and not context._repeatable:
        answers = b"" if params.input_responses is UNSET else sha256(bytes(params.input_responses))
        await context._runtime.exchanges.use(current.exchange, current.step, answers, context._call.client.key)


async def ask(context: Asker, requests: Mapping[str | None, ClientRequest]) -> list[Any]:
    """Send requests to the client, and return the answers in the same order.

    Raises:
        MissingCapability: the client did not declare the capability.
        PeerError: the client answered with an error.
        ProtocolError: its answers are not valid: ``MAX_ATTEMPTS`` answers of a user, or one answer of a program.
    """
    from carrel.server.elicitation.client_requests import check  # loaded on first use

    await check(context, requests.values())
    task = cast("RunningTask | None", task_of(context._channel))
    if task is not None:
        return await _ask_task(context, task, requests)
    if context._call.peer.revision.stateless:
        return await _ask_stateless(context, requests)
    return list(await asyncio.gather(*(_ask_session(context, request) for request in requests.values())))


async def _ask_task(context: Asker, task: RunningTask, requests: Mapping[str | None, ClientRequest]) -> list[Any]:
    """Send requests to the client of a task, whose status is ``input_required`` meanwhile."""
    if context._call.peer.revision.stateless:
        key_for = context._this_round.key_for
        return await task.ask([(key_for(each.operation, key), each) for key, each in requests.items()])
    task.update("input_required")
    try:
        return list(await asyncio.gather(*(_ask_session(context, request) for request in requests.values())))
    finally:
        task.update("working")


async def _ask_stateless(context: Asker, requests: Mapping[str | None, ClientRequest]) -> list[Any]:
    current = context._this_round
    found: list[Any] = []
    for given, request in requests.items():
        key = current.key_for(request.operation, given)
        digest = digest_of(request)
        answer = current.answers.pop(key, UNSET)
        if current.digests.setdefault(key, digest) != digest:
            log.warning(
                "%s: request %s differs from the previous round; make it with once()",
                context._call.request.method,
                key,
            )
            current.digests[key] = digest
        elif answer is not UNSET:
            try:
                found.append(request.read(answer))
            except ValueError as error:
                current.attempts[key] = current.attempts.get(key, 0) + 1
                if not request.again or current.attempts[key] >= MAX_ATTEMPTS:
                    current.answers[key] = answer  # which is as wrong in the next round
                    raise invalid_answer(key, error) from None
                log.debug("the answer to request %s does not fit: %s", key, error)
            else:
                current.answers[key] = answer
                continue
        current.needed[key] = request
    if len(found) == len(requests):
        return found
    await asyncio.sleep(0)  # concurrent requests go into one result
    raise InputRequired(context)


def invalid_answer(key: str, error: ValueError) -> InvalidParams:
    """Return the error for an answer that does not fit its request."""
    return InvalidParams(f"Invalid params: inputResponses.{printable(key, 100)}: {printable(error)}", parameter=key)


async def required_by(error: BaseException) -> InputRequiredResult:
    """Return the result of a handler that ended with ``InputRequired``, or a group of them.

    Raises:
        BaseExceptionGroup: the group holds something else.
    """
    while isinstance(error, BaseExceptionGroup):
        _, others = error.split(InputRequired)
        if others is not None:
            raise others
        error = error.exceptions[0]
    assert isinstance(error, InputRequired)
    return await required(error.context)


async def required(context: Asker) -> InputRequiredResult:
    """Return the ``InputRequiredResult`` with all open requests and the ``requestState``."""
    current = context._this_round
    revision = context._call.peer.revision
    requests = {
        key: InputRequest(
            method=revision.server_requests[request.operation].method, params=revision.project(request.params)
        )
        for key, request in current.needed.items()
    }
    answers = {key: answer for key, answer in current.answers.items() if key in current.digests}
    if current.exchange:
        await context._runtime.exchanges.ask(current.exchange)
    value = {
        "answers": answers,
        "digests": current.digests,
        "attempts": current.attempts,
        "kept": current.kept,
        "exchange": current.exchange or os.urandom(EXCHANGE_ID),
        "step": current.step + 1,
    }
    state = context._runtime.state_cipher.seal(value, binding_of(context))
    return InputRequiredResult(result_type="input_required", input_requests=requests, request_state=state)


async def _ask_session(context: Asker, request: ClientRequest) -> Any:
    problem = ""
    for _ in range(MAX_ATTEMPTS):
        answer = await _request(context, request)
        try:
            return request.read(answer)
        except ValueError as error:
            if not request.again:
                method = context._call.peer.revision.server_requests[request.operation].method
                raise ProtocolError(f"The client's answer to {method} is malformed: {printable(error)}") from None
            problem = printable(error)
    raise ProtocolError(f"The client's answers are not valid: {problem}")


class PendingClientRequest(msgspec.Struct, eq=False):
    """Pending request to the client: its call, the future of its answer, and where it was sent, if it was.

    ``origin`` is the channel of the call.
    """

    call: Call
    origin: Channel
    request: RequestType
    params: Any
    answer: asyncio.Future[Any]
    id: Id = 0
    connection: ServerProtocol | None = None
    channel: Channel | None = None

    @property
    def task(self) -> RunningTask | None:
        """The task that the call has become."""
        return cast("RunningTask | None", task_of(self.origin))

    def send(self, connection: ServerProtocol, channel: Channel) -> None:
        """Send the request to a client."""
        message = connection.ask(self.request, self.params, self)
        self.id, self.connection, self.channel = connection.last_id, connection, channel
        channel.send(message)

    def resolve(self, result: Any) -> None:
        """Take the client's answer."""
        if not self.answer.done():
            self.answer.set_result(result)

    def fail(self, error: Exception) -> None:
        """Take the client's error, or the decoding error of an answer."""
        if isinstance(error, InvalidMessage):
            error = PeerError(INTERNAL_ERROR, f"The client's answer cannot be read: {error.message}")
        if not self.answer.done():
            self.answer.set_exception(error)

    def cancel(self) -> None:
        """Drop the request, and notify the client, if it was sent to one."""
        if self.connection is not None and self.channel is not None:
            message = self.connection.cancel(self.id, "the answer is not needed any more")
            if message is not None:
                self.channel.send(message)

    def forget(self) -> None:
        """Drop the request: a later answer is ignored."""
        if self.connection is not None:
            self.connection.waiting.pop(self.id, None)
        self.connection = self.channel = None


async def _request(context: Asker, request: ClientRequest) -> Any:
    """Send a JSON-RPC request and wait for its answer."""
    call = context._call
    revision = call.peer.revision
    if getattr(context._channel, "muted", False):  # only HTTP has a channel without a reader
        raise InvalidMessage(
            "Invalid request: the server has to send a request to the client, so Accept must allow text/event-stream"
        )
    row, params = revision.server_requests[request.operation], revision.project(request.params)
    pending = PendingClientRequest(call, context._channel, row, params, asyncio.get_running_loop().create_future())
    limit: float | None = context._runtime.settings.state_ttl
    task = pending.task
    if task is None:
        pending.send(call.connection, context._channel)
    else:
        limit = None  # a task has a separate time to live
        pending.params = msgspec.structs.replace(
            params, meta={**(params.meta or {}), **(context._related or {})} or None
        )
        task.deliver(pending)
    try:
        async with asyncio.timeout(limit):
            try:
                return await pending.answer
            except asyncio.CancelledError:
                pending.cancel()
                raise
    except TimeoutError:
        raise TransportError(f"The client did not answer within {limit:g} seconds") from None
    finally:
        pending.forget()


def pending_of(connection: ServerProtocol) -> list[PendingClientRequest]:
    """Return the pending requests to a client."""
    return [each.owner for each in connection.waiting.values() if isinstance(each.owner, PendingClientRequest)]


def withdraw(call: Call) -> None:
    """Cancel the pending requests of a call that has been answered, although some part of its handler still waits."""
    for pending in pending_of(call.connection):
        if pending.call.raw is call.raw and pending.task is None:  # an id may be in use again
            pending.answer.cancel()


def abandon(connection: ServerProtocol) -> None:
    """Fail the pending requests to a client that is gone. Those of a task are kept for tasks/result."""
    for pending in pending_of(connection):
        task = pending.task
        if task is not None:
            pending.forget()
            task.keep(connection, pending)
        else:
            pending.fail(TransportError("The client went away before it answered"))
