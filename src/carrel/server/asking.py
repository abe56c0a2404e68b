"""Asking the client while a request is in work: the user (elicitation), the model (sampling), or for its roots.

To a client with a session (2025-11-25 and before) a question is a request of its own, on the stream of the call.
A stateless client (2026-07-28) gets an ``InputRequiredResult`` instead and sends the request again with the answers; so
the handler runs from its beginning again, and what it asked before is answered at once.

https://modelcontextprotocol.io/specification/2026-07-28/basic/patterns/mrtr
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Generic, Literal, TypeVar

import msgspec
from msgspec import UNSET, Raw

from carrel.errors import InvalidParams, MissingCapability, PeerError, ProtocolError
from carrel.protocol.encoding import encode
from carrel.wire.asking import (
    CreateMessageParams,
    CreateMessageResult,
    ElicitParams,
    ElicitResult,
    InputRequest,
    InputRequiredResult,
    ListRootsParams,
    ListRootsResult,
    SamplingMessage,
)
from carrel.wire.content import TextContent
from carrel.wire.jsonrpc import ErrorObject, Notification

if TYPE_CHECKING:
    from carrel.protocol.revision import Revision
    from carrel.protocol.server import Answer, Connection
    from carrel.server.context import Context

__all__ = [
    "Elicited",
    "InputRequired",
    "Question",
    "Round",
    "ask",
    "begin",
    "form_question",
    "page_question",
    "roots_question",
    "sampling_question",
    "take_answer",
]

T = TypeVar("T")

#: How often an answer that does not fit is asked for again.
MAX_ATTEMPTS = 3


class InputRequired(BaseException):
    """Ends a handler whose questions a stateless client has yet to answer. Not an error: nothing should catch it."""

    def __init__(self, result: InputRequiredResult) -> None:
        super().__init__("more input is required")
        self.result = result


class Question(msgspec.Struct, frozen=True):
    """A question: the operation, its parameters, what it needs of the client, and how its answer is read.

    ``read`` raises ValueError where the answer does not fit.
    """

    operation: str
    params: ElicitParams | CreateMessageParams | ListRootsParams
    needs: dict[str, Any]
    read: Callable[[Any], Any]

    def check(self, context: Context) -> None:
        """Check that the client can be asked this.

        Raises:
            MissingCapability: it did not declare that it can.
        """
        declared = msgspec.to_builtins(context.capabilities)
        if self.operation not in context.call.peer.revision.questions or not _declares(declared, self.needs):
            raise MissingCapability(self.needs)


def _declares(declared: Mapping[str, Any], needed: Mapping[str, Any]) -> bool:
    for name, inner in needed.items():
        if name not in declared:
            return False
        if name == "elicitation" and inner == {} and declared[name] and "form" not in declared[name]:
            return False  # only "url" was declared
        if inner and not _declares(declared[name] or {}, inner):
            return False
    return True


class Elicited(msgspec.Struct, Generic[T], frozen=True):
    """What the user did. ``content`` is the filled-in form, and None unless ``action`` is "accept"."""

    action: Literal["accept", "decline", "cancel"]
    content: T | None = None
    id: str | None = None
    """Of a page to visit: what names this elicitation, for ``Context.elicitation_completed``."""

    @property
    def accepted(self) -> bool:
        """Whether the user agreed."""
        return self.action == "accept"


class Round(msgspec.Struct):
    """What is known in one run of a handler: the answers of earlier rounds, and what this one still needs."""

    answers: dict[str, Any]
    digests: dict[str, bytes]
    kept: dict[str, Any]
    needed: dict[str, Question] = {}
    asked: dict[str, int] = {}

    def key_for(self, operation: str, key: str | None) -> str:
        """Return the key of a question: the given one, or one by its place among those of its kind."""
        if key is not None:
            return key
        number = self.asked[operation] = self.asked.get(operation, 0) + 1
        return f"{operation}-{number}"


def digest_of(question: Question) -> bytes:
    """Return what tells one question from another, so that no answer is taken for that to a different one."""
    return sha256(question.operation.encode() + encode(question.params))[:16]


def sha256(data: bytes) -> bytes:
    """Hash ``data``; who never asks does not load the library."""
    from hashlib import sha256

    return sha256(data).digest()


def binding_of(context: Context) -> bytes:
    """Return what a sealed state belongs to: the caller, the method, and its parameters."""
    call = context.call
    params = msgspec.json.decode(call.raw)
    salient = {key: params.get(key) for key in ("name", "uri", "arguments")}
    who = getattr(call.principal, "id", None) or ""
    return sha256(encode([who, call.request.method, salient]))


def begin(context: Context) -> Round:
    """Read what a stateless client brought along.

    Raises:
        InvalidParams: its state or its answers are not valid.
    """
    params = context.call.params
    kept: dict[str, Any] = {"answers": {}, "digests": {}, "kept": {}}
    if params.request_state is not UNSET:
        kept = context.app.sealer.open(params.request_state, binding_of(context))
    answers: dict[str, Any] = kept["answers"]
    if params.input_responses is not UNSET:
        try:
            given = msgspec.json.decode(params.input_responses, type=dict[str, Raw])
        except msgspec.ValidationError as error:
            raise InvalidParams(f"Invalid params: inputResponses: {error}", parameter="inputResponses") from None
        answers.update((key, msgspec.json.decode(raw)) for key, raw in given.items() if key not in answers)
    return Round(answers, kept["digests"], kept["kept"])


async def ask(context: Context, questions: Mapping[str | None, Question]) -> list[Any]:
    """Ask the client, and return the answers in the order of the questions.

    Raises:
        MissingCapability: the client cannot be asked that.
        PeerError: the client answered with an error.
        ProtocolError: its answers do not fit, again and again.
    """
    for question in questions.values():
        question.check(context)
    if context.call.task is not None:
        return await _ask_task(context, questions)
    if context.call.peer.revision.stateless:
        return await _ask_stateless(context, questions)
    return list(await asyncio.gather(*(_ask_session(context, question) for question in questions.values())))


async def _ask_task(context: Context, questions: Mapping[str | None, Question]) -> list[Any]:
    """Ask the client of a task, which waits for input meanwhile."""
    task, tasks = context.call.task, context.app.tasks
    if context.call.peer.revision.stateless:
        named = {context.round.key_for(question.operation, key): question for key, question in questions.items()}
        return await tasks.ask(task, named)
    tasks.update(task, "input_required")
    try:
        return list(await asyncio.gather(*(_ask_session(context, question) for question in questions.values())))
    finally:
        tasks.update(task, "working")


async def _ask_stateless(context: Context, questions: Mapping[str | None, Question]) -> list[Any]:
    current = context.round
    found: list[Any] = []
    for given, question in questions.items():
        key = current.key_for(question.operation, given)
        digest = digest_of(question)
        if key in current.answers and current.digests.get(key, digest) == digest:
            try:
                found.append(question.read(current.answers[key]))
            except ValueError:
                pass
            else:
                current.digests[key] = digest
                continue
        current.answers.pop(key, None)
        current.digests.pop(key, None)
        current.needed[key] = question
    if not current.needed:
        return found
    await asyncio.sleep(0)  # questions asked side by side travel together
    raise InputRequired(required(context))


def required(context: Context) -> InputRequiredResult:
    """Return the result that asks for everything that is needed, with the state to come back with."""
    current = context.round
    revision = context.call.peer.revision
    requests = {
        key: InputRequest(method=revision.questions[question.operation], params=revision.project(question.params))
        for key, question in current.needed.items()
    }
    answers = {key: answer for key, answer in current.answers.items() if key in current.digests}
    state: Any = UNSET
    if answers or current.kept:
        value = {"answers": answers, "digests": current.digests, "kept": current.kept}
        state = context.app.sealer.seal(value, binding_of(context))
    return InputRequiredResult(result_type="input_required", input_requests=requests, request_state=state)


async def _ask_session(context: Context, question: Question) -> Any:
    problem = ""
    for _ in range(MAX_ATTEMPTS):
        answer = await _request(context, question)
        try:
            return question.read(answer)
        except ValueError as error:
            problem = str(error)
    raise ProtocolError(f"The client's answers do not fit: {problem}")


class ServerRequest(msgspec.Struct):
    jsonrpc: str
    id: int
    method: str
    params: Any


async def _request(context: Context, question: Question) -> Any:
    """Send a question as a request of our own and wait for its answer."""
    call = context.call
    connection, revision = call.connection, call.peer.revision
    if connection.asked is None:
        connection.asked = {}
    connection.questions += 1
    id = connection.questions
    future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
    connection.asked[id] = future
    method = revision.questions[question.operation]
    params = revision.project(question.params)
    if call.task is not None:
        params = msgspec.structs.replace(params, meta=context.related)
    context.channel.send(encode(ServerRequest("2.0", id, method, params)))
    try:
        return await future
    except asyncio.CancelledError:
        reason = {"requestId": id, "reason": "the request that needed it was cancelled"}
        context.channel.send(encode(Notification("2.0", revision.events["cancelled"], reason)))
        raise
    finally:
        connection.asked.pop(id, None)


def take_answer(connection: Connection, answer: Answer) -> None:
    """Give an answer to whoever waits for it. One that nobody waits for is dropped."""
    future = None if connection.asked is None else connection.asked.get(answer.id)
    if future is None or future.done():
        return
    if answer.error is not UNSET:
        try:
            error = msgspec.json.decode(answer.error, type=ErrorObject)
        except msgspec.DecodeError:
            error = ErrorObject(-32603, "The client answered with an error that cannot be read")
        future.set_exception(PeerError(error.code, error.message, None if error.data is UNSET else error.data))
        return
    try:
        future.set_result(msgspec.json.decode(answer.result))  # type: ignore[arg-type]
    except msgspec.DecodeError as problem:
        future.set_exception(PeerError(-32603, f"The client's answer cannot be read: {problem}"))


def form_question(message: str, kind: Any) -> Question:
    """Return the question that shows a form. See ``Context.elicit``."""
    from carrel.server.forms import form_of

    form = form_of(kind)

    def read(answer: Any) -> Elicited[Any]:
        result = msgspec.convert(answer, ElicitResult)
        if result.action != "accept":
            return Elicited(result.action)
        if result.content is UNSET:
            raise ValueError("the form was accepted, but not filled in")
        return Elicited(result.action, form.read(result.content))

    return Question("elicit", ElicitParams(message=message, requested_schema=form.schema), {"elicitation": {}}, read)


def page_question(message: str, url: str, revision: Revision) -> Question:
    """Return the question that opens a page. See ``Context.elicit_url``.

    Raises:
        ValueError: the URL is neither https: nor, on this machine, http:.
    """
    if not url.startswith(("https://", "http://localhost", "http://127.0.0.1", "http://[::1]")):
        raise ValueError("the page of an elicitation must be at an https: URL")
    id = None if revision.stateless else os.urandom(16).hex()
    params = ElicitParams(mode="url", message=message, url=url, elicitation_id=UNSET if id is None else id)
    return Question(
        "elicit",
        params,
        {"elicitation": {"url": {}}},
        lambda answer: Elicited(msgspec.convert(answer, ElicitResult).action, None, id),
    )


def sampling_question(
    messages: str | SamplingMessage | Sequence[str | SamplingMessage], max_tokens: int, details: dict[str, Any]
) -> Question:
    """Return the question to the client's model. See ``Context.sample``."""
    several = [messages] if isinstance(messages, str | SamplingMessage) else messages
    params = CreateMessageParams(
        messages=[
            SamplingMessage("user", TextContent(message)) if isinstance(message, str) else message
            for message in several
        ],
        max_tokens=max_tokens,
        **details,
    )
    needs: dict[str, Any] = {}
    if params.tools is not UNSET or params.tool_choice is not UNSET:
        needs["tools"] = {}
    if params.include_context not in (UNSET, "none"):
        needs["context"] = {}
    return Question("sample", params, {"sampling": needs}, lambda answer: msgspec.convert(answer, CreateMessageResult))


def roots_question() -> Question:
    """Return the question for the client's roots. See ``Context.roots``."""
    return Question(
        "list_roots", ListRootsParams(), {"roots": {}}, lambda answer: msgspec.convert(answer, ListRootsResult)
    )
