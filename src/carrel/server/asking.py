"""Asking the client while a request is in work: the user (elicitation), the model (sampling), or for its roots.

To a client with a session (2025-11-25 and before) a question is a request of its own, on the stream of the call.
A stateless client (2026-07-28) gets an ``InputRequiredResult`` instead and sends the request again with the answers; so
the handler runs from its beginning again, and what it asked before is answered at once.

https://modelcontextprotocol.io/specification/2026-07-28/basic/patterns/mrtr
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Generic, Literal, TypeVar

import msgspec
from msgspec import UNSET, Raw

from carrel.errors import (
    INTERNAL_ERROR,
    InvalidMessage,
    InvalidParams,
    MissingCapability,
    PeerError,
    ProtocolError,
    TransportError,
)
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
    SamplingContent,
    SamplingMessage,
    ToolResultContent,
    ToolUseContent,
)
from carrel.wire.content import AudioContent, TextContent
from carrel.wire.jsonrpc import ErrorObject, Notification

if TYPE_CHECKING:
    from carrel.protocol.revision import Revision
    from carrel.protocol.server import Answer, Call, Connection
    from carrel.server.context import Context

__all__ = [
    "Elicited",
    "InputRequired",
    "Question",
    "Round",
    "abandon",
    "ask",
    "begin",
    "form_question",
    "page_question",
    "required_by",
    "roots_question",
    "sampling_question",
    "take_answer",
    "withdraw",
]

T = TypeVar("T")
log = logging.getLogger("carrel")

#: How often a question is asked, if the answers do not fit.
MAX_ATTEMPTS = 3
#: Hosts whose pages need no https:, because they are on this machine.
LOCAL = ("localhost", "127.0.0.1", "::1")


class InputRequired(BaseException):
    """Ends a handler whose questions a stateless client has yet to answer. Not an error: nothing should catch it."""

    def __init__(self, context: Context) -> None:
        super().__init__("more input is required")
        self.context = context


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
        if "url" not in declared.get("elicitation", ("url",)):
            declared["elicitation"]["form"] = {}  # who names no mode means this one
        known = self.operation in context.call.peer.revision.questions
        if not known or not _declares(declared, self.needs):
            missing = MissingCapability(self.needs)
            if known:
                missing.args = (f"The client does not offer {_dotted(self.needs)}",)
            else:
                missing.args = (f"A client of the revision {context.revision} cannot be asked this",)
            raise missing


def _dotted(needed: Mapping[str, Any]) -> str:
    return " and ".join(f"{name}.{_dotted(inner)}" if inner else name for name, inner in needed.items())


def _declares(declared: Any, needed: Mapping[str, Any]) -> bool:
    return not needed or (
        isinstance(declared, dict)
        and all(name in declared and _declares(declared[name], inner) for name, inner in needed.items())
    )


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
    """What is known in one run of a handler: the answers of earlier rounds, and what this one still needs.

    ``digests`` tell which questions were asked; ``kept`` are the values of ``Context.once``.
    """

    answers: dict[str, Any] = {}
    digests: dict[str, bytes] = {}
    kept: dict[str, Any] = {}
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
    return sha256(msgspec.json.encode([who, call.request.method, salient], order="sorted"))


def begin(context: Context) -> Round:
    """Read what a stateless client brought along.

    Raises:
        InvalidParams: its state or its answers are not valid.
    """
    params = context.call.params
    current, has_state = Round(), params.request_state is not UNSET
    if has_state:
        current = Round(**context.app.sealer.open(params.request_state, binding_of(context)))
    if params.input_responses is not UNSET:
        try:
            given = msgspec.json.decode(params.input_responses, type=dict[str, Raw])
        except msgspec.ValidationError as error:
            raise InvalidParams(f"Invalid params: inputResponses: {error}", parameter="inputResponses") from None
        for key, raw in given.items():
            if key not in current.answers and (key in current.digests or not has_state):
                current.answers[key] = msgspec.json.decode(raw)
    return current


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
        answer = current.answers.pop(key, UNSET)
        if current.digests.setdefault(key, digest) != digest:
            log.warning("%s: question %s is not what it was; make it with once()", context.call.request.method, key)
            current.digests[key] = digest
        elif answer is not UNSET:
            try:
                found.append(question.read(answer))
            except ValueError as error:
                log.debug("the answer to question %s does not fit: %s", key, error)
            else:
                current.answers[key] = answer
                continue
        current.needed[key] = question
    if len(found) == len(questions):
        return found
    await asyncio.sleep(0)  # questions asked side by side travel together
    raise InputRequired(context)


def required_by(error: BaseException) -> InputRequiredResult:
    """Return the result that asks for what ended a handler: ``InputRequired``, or a group of them.

    Raises:
        BaseExceptionGroup: the group holds something else.
    """
    while isinstance(error, BaseExceptionGroup):
        _, others = error.split(InputRequired)
        if others is not None:
            raise others
        error = error.exceptions[0]
    assert isinstance(error, InputRequired)
    return required(error.context)


def required(context: Context) -> InputRequiredResult:
    """Return the result that asks for everything that is needed, with the state to come back with."""
    current = context.round
    revision = context.call.peer.revision
    requests = {
        key: InputRequest(method=revision.questions[question.operation], params=revision.project(question.params))
        for key, question in current.needed.items()
    }
    answers = {key: answer for key, answer in current.answers.items() if key in current.digests}
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


class Pending(msgspec.Struct):
    """A question on its way: whose it is, and what gets the answer."""

    call: Call
    answer: asyncio.Future[Any]


class ServerRequest(msgspec.Struct):
    jsonrpc: str
    id: int
    method: str
    params: Any


async def _request(context: Context, question: Question) -> Any:
    """Send a question as a request of our own and wait for its answer."""
    call = context.call
    connection, revision = call.connection, call.peer.revision
    if getattr(context.channel, "muted", False):  # of all channels only HTTP has one that nobody listens to
        raise InvalidMessage("Invalid request: who does not accept text/event-stream cannot be asked what this needs")
    method = revision.questions[question.operation]
    params = revision.project(question.params)
    if call.task is not None:
        params = msgspec.structs.replace(params, meta=context.related)
    if connection.asked is None:
        connection.asked = {}
    connection.questions += 1
    id = connection.questions
    future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
    connection.asked[id] = Pending(call, future)
    context.channel.send(encode(ServerRequest("2.0", id, method, params)))
    limit = None if call.task is not None else context.app.state_ttl  # a task has an end of its own
    try:
        async with asyncio.timeout(limit):
            try:
                return await future
            except asyncio.CancelledError:
                reason = {"requestId": id, "reason": "the answer is not needed any more"}
                context.channel.send(encode(Notification("2.0", revision.events["cancelled"], reason)))
                raise
    except TimeoutError:
        raise TransportError(f"The client did not answer within {limit:g} seconds") from None
    finally:
        connection.asked.pop(id, None)


def take_answer(connection: Connection, answer: Answer) -> None:
    """Give an answer to whoever waits for it. One that nobody waits for is dropped."""
    pending = None if connection.asked is None else connection.asked.get(answer.id)
    if pending is None or pending.answer.done():
        return
    try:
        if answer.error is UNSET:
            pending.answer.set_result(msgspec.json.decode(answer.result))  # type: ignore[arg-type]
            return
        error = msgspec.json.decode(answer.error, type=ErrorObject)
    except (msgspec.DecodeError, RecursionError) as problem:
        error = ErrorObject(INTERNAL_ERROR, f"The client's answer cannot be read: {problem}")
    pending.answer.set_exception(PeerError(error.code, error.message, None if error.data is UNSET else error.data))


def withdraw(call: Call) -> None:
    """Take back the questions of a call that has been answered, although some part of its handler still waits."""
    for pending in list((call.connection.asked or {}).values()):
        if pending.call.id == call.id and pending.call.task is None:
            pending.answer.cancel()


def abandon(connection: Connection) -> None:
    """Let nobody wait any longer for answers of a client that is gone."""
    for pending in (connection.asked or {}).values():
        if not pending.answer.done():
            pending.answer.set_exception(TransportError("The client went away before it answered"))


def form_question(message: str, kind: Any) -> Question:
    """Return the question that shows a form. See ``Context.elicit``."""
    from carrel.server.forms import form_of

    form = form_of(kind)

    def read(answer: Any) -> Elicited[Any]:
        result = msgspec.convert(answer, ElicitResult)
        if result.action != "accept":
            return Elicited(result.action)
        return Elicited(result.action, form.read({} if result.content is UNSET else result.content))

    params = ElicitParams(message=message, requested_schema=form.schema)
    return Question("elicit_several" if form.several else "elicit", params, {"elicitation": {"form": {}}}, read)


def page_question(message: str, url: str, revision: Revision) -> Question:
    """Return the question that opens a page. See ``Context.elicit_url``.

    Raises:
        ValueError: the URL is neither https: nor, on this machine, http:; or it is not what it looks like.
    """
    from urllib.parse import urlsplit

    parts = urlsplit(url)
    if parts.scheme != "https" and (parts.scheme != "http" or parts.hostname not in LOCAL):
        raise ValueError("the page of an elicitation must be at an https: URL")
    odd = any(character <= " " or character > "~" or character == "\\" for character in url)
    if odd or not parts.hostname or parts.username is not None:
        raise ValueError("the URL of a page names a host, nobody's name or password, and is percent-encoded")
    id = None if revision.stateless else os.urandom(16).hex()
    params = ElicitParams(mode="url", message=message, url=url, elicitation_id=UNSET if id is None else id)
    return Question(
        "elicit_page",
        params,
        {"elicitation": {"url": {}}},
        lambda answer: Elicited(msgspec.convert(answer, ElicitResult).action, None, id),
    )


def sampling_question(
    messages: str | SamplingMessage | Sequence[str | SamplingMessage],
    max_tokens: int,
    details: dict[str, Any],
    revision: Revision,
) -> Question:
    """Return the question to the client's model. See ``Context.sample``.

    Raises:
        ValueError: results of tools are mixed with other content, or do not follow their uses.
    """
    several = [messages] if isinstance(messages, str | SamplingMessage) else messages
    params = CreateMessageParams(
        messages=[
            SamplingMessage("user", TextContent(message)) if isinstance(message, str) else message
            for message in several
        ],
        max_tokens=max_tokens,
        **details,
    )
    blocks = [block for message in params.messages for block in blocks_of(message)]
    check_tool_uses(params.messages)
    needs: dict[str, Any] = {}
    operation = "sample"
    if any(isinstance(block, AudioContent) for block in blocks):
        operation = "sample_with_audio"
    if (
        params.tools is not UNSET
        or params.tool_choice is not UNSET
        or any(isinstance(block, ToolUseContent | ToolResultContent) for block in blocks)
    ):
        operation = "sample_with_tools"
        needs["tools"] = {}
    if params.include_context not in (UNSET, "none") and "sample_with_tools" in revision.questions:
        needs["context"] = {}  # before sampling had capabilities of its own, every client could be asked that
    return Question(operation, params, {"sampling": needs}, lambda answer: msgspec.convert(answer, CreateMessageResult))


def blocks_of(message: SamplingMessage) -> list[SamplingContent]:
    """Return the content of a message as a list."""
    return message.content if isinstance(message.content, list) else [message.content]


def check_tool_uses(messages: Sequence[SamplingMessage]) -> None:
    """Check that what a model wanted called has been called, and is told it, before anything else is said.

    https://modelcontextprotocol.io/specification/2026-07-28/client/sampling#tool-use-and-result-balance

    Raises:
        ValueError: results are mixed with other content, or uses and results do not match.
    """
    wanted: set[str] = set()
    for message in messages:
        blocks = blocks_of(message)
        results = {block.tool_use_id for block in blocks if isinstance(block, ToolResultContent)}
        if results and not all(isinstance(block, ToolResultContent) for block in blocks):
            raise ValueError("a message with results of tools holds nothing else")
        if results != wanted:
            raise ValueError("every use of a tool is followed by one message with the results of all of them")
        wanted = {block.id for block in blocks if isinstance(block, ToolUseContent)}
    if wanted:
        raise ValueError("the uses of tools in the last message have no results yet")


def roots_question() -> Question:
    """Return the question for the client's roots. See ``Context.roots``."""
    return Question(
        "list_roots", ListRootsParams(), {"roots": {}}, lambda answer: msgspec.convert(answer, ListRootsResult)
    )
