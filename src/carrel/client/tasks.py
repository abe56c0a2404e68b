"""Client side of tasks: tool calls that continue after their response, polled for status, input requests and result.

https://modelcontextprotocol.io/extensions/tasks/overview
https://modelcontextprotocol.io/specification/2025-11-25/basic/utilities/tasks
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from hashlib import sha256
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import UNSET, Raw

from carrel.client.input_required import answer_all
from carrel.errors import InvalidMessage, PeerError, TaskCancelled
from carrel.printable import printable
from carrel.protocol.encoding import encode
from carrel.protocol.extensions.tasks import CANCEL_TASK, GET_TASK, UPDATE_TASK
from carrel.protocol.methods import FETCH_TASK_RESULT
from carrel.wire.client_features import InputRequest
from carrel.wire.jsonrpc import ErrorObject
from carrel.wire.tasks import DetailedTask, Task, TaskParams, TaskStatus, UpdateTaskParams
from carrel.wire.tools import CallToolResult

if TYPE_CHECKING:
    from carrel.client.session import Session

__all__ = ["TaskAnswers", "ToolTask"]

#: Default poll interval of a task in seconds, and the bounds of the interval that a server may set.
INTERVAL = 1.0
SHORTEST, LONGEST = 0.05, 60.0
TERMINAL = frozenset(("completed", "failed", "cancelled"))
#: How many input requests of one task are answered, and for how many tasks the answers are remembered.
MAX_QUESTIONS = 1000
MAX_TASKS = 10_000


class TaskAnswers:
    """Answered input requests of one task, by key, so that each is put to its handler once.

    A task lists an input request until it has received the response, so the same key may be seen many times.
    """

    def __init__(self) -> None:
        self.lock = asyncio.Lock()
        self.unsent: dict[str, Any] = {}
        """Input responses that the server has not acknowledged yet."""
        self._questions: dict[str, bytes] = {}

    def new(self, requests: Mapping[str, InputRequest]) -> dict[str, InputRequest]:
        """Return the input requests that have not been answered yet.

        Raises:
            InvalidMessage: a key is reused for another request, or there are too many requests.
        """
        found: dict[str, InputRequest] = {}
        for key, request in requests.items():
            known = self._questions.get(key)
            if known is None:
                found[key] = request
            elif known != digest_of(request):
                raise InvalidMessage(f"The server uses the key {printable(key, 100)} of a task for another question")
        if len(self._questions) + len(found) > MAX_QUESTIONS:
            raise InvalidMessage(f"The server asks more than {MAX_QUESTIONS} questions for one task")
        return found

    def add(self, key: str, request: InputRequest, answer: Any) -> None:
        """Store an input response until it is acknowledged, and the digest of its request for longer."""
        self._questions[key] = digest_of(request)
        self.unsent[key] = answer

    def refused(self) -> None:
        """Drop the responses that the server refused, so that their requests can be answered again."""
        for key in self.unsent:
            del self._questions[key]
        self.unsent.clear()


def digest_of(request: InputRequest) -> bytes:
    """Return the SHA-256 digest of an input request, independent of the order of its fields."""
    return sha256(msgspec.json.encode(request, order="sorted")).digest()


class ToolTask:
    """Handle of a task: a tool call that may still be running.

    Iterate over it to poll for changes of status; await ``result`` for the result. Its ``id`` outlives the client: see
    ``Client.task``.
    """

    def __init__(self, client: Session, state: DetailedTask | Task | CallToolResult) -> None:
        self._client = client
        self._state = state

    @property
    def id(self) -> str | None:
        """The task id; None if the call returned its result at once."""
        return None if isinstance(self._state, CallToolResult) else self._state.task_id

    @property
    def status(self) -> TaskStatus:
        """The status at the last poll."""
        return "completed" if isinstance(self._state, CallToolResult) else self._state.status

    @property
    def message(self) -> str | None:
        """The server's status message; None if there is none."""
        if isinstance(self._state, CallToolResult) or self._state.status_message is UNSET:
            return None
        return self._state.status_message

    async def refresh(self) -> TaskStatus:
        """Poll the status (``tasks/get``), and answer the input requests that the task waits for."""
        if self.id is None or self.status in TERMINAL:
            return self.status
        state: DetailedTask | Task = await self._client.request(GET_TASK, TaskParams(task_id=self.id))
        self._state = state
        if isinstance(state, DetailedTask) and state.status == "input_required" and state.input_requests is not UNSET:
            await self._answer(state.task_id, state.input_requests)
        if state.status in TERMINAL:
            self._client.task_answers.pop(state.task_id, None)
        return state.status

    async def _answer(self, id: str, requests: Mapping[str, InputRequest]) -> None:
        """Answer new input requests, and send the responses that the server has not acknowledged."""
        remembered = self._client.task_answers
        answers = remembered.get(id)
        if answers is None:
            if len(remembered) >= MAX_TASKS:
                del remembered[next(iter(remembered))]
            answers = remembered[id] = TaskAnswers()
        async with answers.lock:
            for key, request in answers.new(requests).items():
                given = await answer_all({key: request}, self._client._answers, self._client._server_name)
                answers.add(key, request, given[key])
            if not answers.unsent:
                return
            params = UpdateTaskParams(task_id=id, input_responses=Raw(encode(answers.unsent)))
            try:
                await self._client.request(UPDATE_TASK, params, repeatable=True)
            except PeerError:
                answers.refused()
                raise
            answers.unsent.clear()

    async def __aiter__(self) -> AsyncIterator[TaskStatus]:
        status = self.status
        yield status
        while status not in TERMINAL:
            await asyncio.sleep(self._interval)
            before, status = (status, self.message), await self.refresh()
            if (status, self.message) != before:
                yield status

    @property
    def _interval(self) -> float:
        state = self._state
        told = state.poll_interval_ms if isinstance(state, DetailedTask) else getattr(state, "poll_interval", UNSET)
        return INTERVAL if told is UNSET else min(LONGEST, max(SHORTEST, told / 1000))

    async def result(self) -> CallToolResult:
        """Wait for the task to end, and return the result of the tool call.

        If this coroutine is cancelled, so is the task.

        Raises:
            PeerError: the call failed.
            TaskCancelled: the task was cancelled.
        """
        try:
            if isinstance(self._state, Task):
                return await self._client.request(
                    FETCH_TASK_RESULT, TaskParams(task_id=self._state.task_id), timeout=None
                )
            async for _ in self:
                pass
        except asyncio.CancelledError:
            link = self._client._link
            if link is not None and self.id is not None and self.status not in TERMINAL:
                link.spawn(link.call(CANCEL_TASK, TaskParams(task_id=self.id), timeout=self._client.timeout))
            raise
        return self._end()

    def _end(self) -> CallToolResult:
        state = self._state
        if isinstance(state, CallToolResult):
            return state
        assert isinstance(state, DetailedTask)
        if state.status == "cancelled":
            raise TaskCancelled(f"the task was cancelled{': ' + self.message if self.message else ''}")
        try:
            if state.status == "failed":
                error = msgspec.convert(state.error, ErrorObject)
                raise PeerError(error.code, error.message, None if error.data is UNSET else error.data)
            return msgspec.convert(state.result, CallToolResult)
        except msgspec.ValidationError as error:
            raise InvalidMessage(f"The end of the task cannot be read: {error}") from None

    async def cancel(self) -> None:
        """Request cancellation of the task (``tasks/cancel``). It may still complete or fail."""
        if self.id is not None and self.status not in TERMINAL:
            state = await self._client.request(CANCEL_TASK, TaskParams(task_id=self.id))
            if isinstance(state, Task):
                self._state = state
