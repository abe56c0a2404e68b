"""Client side of tasks: tool calls that continue after their response, polled for status, input requests and result.

https://modelcontextprotocol.io/extensions/tasks/overview
https://modelcontextprotocol.io/specification/2025-11-25/basic/utilities/tasks
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import AsyncIterator, Mapping
from contextlib import suppress
from hashlib import sha256
from typing import TYPE_CHECKING, Any, Unpack

import msgspec
from msgspec import UNSET, Raw

from carrel.client.handlers import ClientCall, Handlers
from carrel.client.options import CallOptions
from carrel.client.requests import Requests
from carrel.client.results import PagedList, Results
from carrel.client.tool_calls import ToolCalls
from carrel.errors import InvalidMessage, MCPError, PeerError, TaskCancelled
from carrel.printable import printable
from carrel.protocol.client import ServerNotification
from carrel.protocol.encoding import encode
from carrel.protocol.extensions.tasks import CANCEL_TASK, GET_TASK, UPDATE_TASK
from carrel.protocol.methods import CALL_TOOL, FETCH_TASK_RESULT, LIST_TASKS, LISTEN, RequestType
from carrel.protocol.passed_results import PassedResult
from carrel.wire.base import prepared
from carrel.wire.client_features import InputRequest
from carrel.wire.jsonrpc import ErrorObject
from carrel.wire.resources import ListenParams, SubscriptionFilter
from carrel.wire.tasks import (
    CreateTaskResult,
    DetailedTask,
    ListTasksParams,
    Task,
    TaskParams,
    TaskStatus,
    UpdateTaskParams,
)
from carrel.wire.tools import CallToolParams, CallToolResult, TaskMetadata

if TYPE_CHECKING:
    from carrel.client.connection import ClientConnection

__all__ = ["TaskAnswers", "Tasks", "ToolTask"]

#: Default poll interval of a task in seconds, and the bounds of the interval that a server may set.
INTERVAL = 1.0
SHORTEST, LONGEST = 0.05, 60.0
TERMINAL = frozenset(("completed", "failed", "cancelled"))
#: Maximum number of input requests per task, and maximum number of tasks whose input responses are remembered.
MAX_INPUT_REQUESTS = 1000
MAX_TASKS = 10_000


class TaskAnswers:
    """Answered input requests of one task, by key, so that each is passed to its handler only once.

    A task lists an input request until it has received the response, so the same key may be seen many times.
    """

    def __init__(self) -> None:
        self.lock = asyncio.Lock()
        self.unsent: dict[str, Any] = {}
        """Input responses that the server has not acknowledged yet."""
        self._requests: dict[str, bytes] = {}

    def new(self, requests: Mapping[str, InputRequest]) -> dict[str, InputRequest]:
        """Return the input requests that have not been answered yet.

        Raises:
            InvalidMessage: a key is reused for another request, or there are too many requests.
        """
        found: dict[str, InputRequest] = {}
        for key, request in requests.items():
            known = self._requests.get(key)
            if known is None:
                found[key] = request
            elif known != digest_of(request):
                raise InvalidMessage(
                    f"The server uses the key {printable(key, 100)} of a task again, for another request"
                )
        if len(self._requests) + len(found) > MAX_INPUT_REQUESTS:
            raise InvalidMessage(f"The server asks more than {MAX_INPUT_REQUESTS} requests for one task")
        return found

    def add(self, key: str, request: InputRequest, answer: Any) -> None:
        """Store an input response until it is acknowledged, and the digest of its request for longer."""
        self._requests[key] = digest_of(request)
        self.unsent[key] = answer

    def refused(self) -> None:
        """Drop the responses that the server rejected, so that their requests can be answered again."""
        for key in self.unsent:
            del self._requests[key]
        self.unsent.clear()


def digest_of(request: InputRequest) -> bytes:
    """Return the SHA-256 digest of an input request, independent of the order of its fields."""
    return sha256(msgspec.json.encode(request, order="sorted")).digest()


FINISHED = (CallToolResult, PassedResult)


class Tasks:
    """Tasks of one client: ``client.tasks``."""

    def __init__(self, session: Requests, results: Results, tools: ToolCalls) -> None:
        self._session = session
        self._results = results
        self._tools = tools
        self._answers: dict[str, TaskAnswers] = {}

    async def start_tool(
        self,
        name: str,
        arguments: Mapping[str, Any] | None = None,
        *,
        ttl: float | None = None,
        required: bool = False,
        **options: Unpack[CallOptions],
    ) -> ToolTask:
        """Call a tool as a task, if the server supports it, and return a handle to poll, await or cancel it.

        ``ttl`` is the requested lifetime of the task in seconds (2025-11-25; later the server decides). With
        ``required``, a task is requested only if the tool requires it. For the other options see ``Client.call_tool``.

        https://modelcontextprotocol.io/extensions/tasks/overview
        """
        params = CallToolParams(name=name, arguments=UNSET if arguments is None else Raw(encode(arguments)))
        if await self._tools.may_be_task(name, required=required):
            params.task = TaskMetadata(ttl=None if ttl is None else int(ttl * 1000))
        return await self.start(ClientCall[Any](CALL_TOOL, params, **options))

    async def start(self, call: ClientCall[Any]) -> ToolTask:
        """Call a tool, as a task of 2025-11-25 if the parameters say so; see ``start_tool``."""
        wanted = call.params.task is not None  # type: ignore[attr-defined]
        if wanted:
            call.result = CreateTaskResult
        if not wanted:
            return ToolTask(self, await self._tools.send(call), call)
        starting = asyncio.ensure_future(self._tools.send(call))
        try:
            await asyncio.wait((starting,))
        except asyncio.CancelledError:
            if not self._session.spawn(self._cancel_started(starting)):
                starting.cancel()
            raise
        answer = starting.result()
        return ToolTask(self, answer.task if isinstance(answer, CreateTaskResult) else answer, call)

    async def _cancel_started(self, starting: asyncio.Future[Any]) -> None:
        """Cancel the task of a call whose caller was cancelled, once the response with the task has arrived.

        https://modelcontextprotocol.io/specification/2025-11-25/basic/utilities/cancellation#behavior-requirements
        """
        answer = await starting
        if isinstance(answer, CreateTaskResult):
            self.cancel_later(answer.task.task_id)

    async def get_task(self, id: str, *, handlers: Handlers | None = None, user_data: object = None) -> ToolTask:
        """Return a task that was started earlier, for example by another process.

        Raises:
            PeerError: there is no such task, or it belongs to another client.
        """
        call: ClientCall[Any] = ClientCall(GET_TASK, TaskParams(task_id=id), handlers=handlers, user_data=user_data)
        return ToolTask(self, await self._session.request(call), call)

    def list_tasks(self) -> PagedList[ToolTask]:
        """List this client's tasks on the server (2025-11-25).

        Raises:
            MethodNotFound: the server's revision has no ``tasks/list``.
        """
        return PagedList(self._pages)

    async def _pages(self) -> AsyncIterator[list[ToolTask]]:
        async for page in self._results.pages(LIST_TASKS, ListTasksParams()):
            yield [ToolTask(self, task, ClientCall(GET_TASK, TaskParams(task_id=task.task_id))) for task in page.tasks]

    # For calls and handles

    async def follow(self, state: DetailedTask | CallToolResult, call: ClientCall[Any]) -> CallToolResult:
        """Wait for the task that the server created for a call, and return the result of the call."""
        return await ToolTask(self, state, call).result()

    @property
    def connection(self) -> ClientConnection | None:
        """The connection to the server."""
        return self._session.connection

    async def request(self, call: ClientCall[Any]) -> Any:
        """Send a request about a task, and return its result."""
        return await self._session.request(call)

    async def answer(self, id: str, requests: Mapping[str, InputRequest], call: ClientCall[Any]) -> None:
        """Answer new input requests of a task, and send the responses that the server has not acknowledged."""
        answers = self._answers.get(id)
        if answers is None:
            if len(self._answers) >= MAX_TASKS:
                del self._answers[next(iter(self._answers))]
            answers = self._answers[id] = TaskAnswers()
        async with answers.lock:
            new = answers.new(requests)
            together = call.handlers is not None and call.handlers.together
            for part in [new] if together else [{key: request} for key, request in new.items()]:
                given = await self._session.answer_input(part, call)
                for key, request in part.items():
                    answers.add(key, request, given[key])
            if not answers.unsent:
                return
            params = UpdateTaskParams(task_id=id, input_responses=Raw(encode(answers.unsent)))
            try:
                await self._session.request(ClientCall[Any](UPDATE_TASK, params, repeatable=True))
            except PeerError:
                answers.refused()
                raise
            answers.unsent.clear()

    def forget(self, id: str) -> None:
        """Drop the input responses of a task that has ended."""
        self._answers.pop(id, None)

    def cancel_later(self, id: str) -> None:
        """Request cancellation of a task in the background."""
        self._session.send_later(ClientCall(CANCEL_TASK, TaskParams(task_id=id)))


class ToolTask:
    """Handle of a task: a tool call that may still be running.

    Iterate over it to poll for changes of status; await ``result`` for the result. Its ``id`` outlives the client: see
    ``Tasks.get_task``.
    """

    def __init__(
        self, tasks: Tasks, state: DetailedTask | Task | CallToolResult | PassedResult[Any], call: ClientCall[Any]
    ) -> None:
        self._tasks = tasks
        self._state = state
        self._call = call
        """The call that started the task, which the handlers of its input requests get."""
        self._news = asyncio.Event()

    @property
    def id(self) -> str | None:
        """The task id; None if the call returned its result at once."""
        return None if isinstance(self._state, FINISHED) else self._state.task_id

    @property
    def status(self) -> TaskStatus:
        """The status at the last poll."""
        return "completed" if isinstance(self._state, FINISHED) else self._state.status

    @property
    def message(self) -> str | None:
        """The server's status message, or None."""
        if isinstance(self._state, FINISHED) or self._state.status_message is None:
            return None
        return self._state.status_message

    async def poll(self) -> TaskStatus:
        """Poll the status (``tasks/get``). ``refresh`` and ``result`` answer input requests, this method does not."""
        if self.id is not None and self.status not in TERMINAL:
            state = await self._tasks.request(self._about(GET_TASK, self.id))
            if self.status not in TERMINAL:  # another poll may have been faster
                self._state = state
        return self.status

    async def refresh(self) -> TaskStatus:
        """Poll the status (``tasks/get``), and answer the input requests that the task waits for."""
        await self.poll()
        state = self._state
        if isinstance(state, DetailedTask) and state.status == "input_required" and state.input_requests is not None:
            await self._tasks.answer(state.task_id, state.input_requests, self._call)
        if isinstance(state, DetailedTask | Task) and state.status in TERMINAL:
            self._tasks.forget(state.task_id)
        return self.status

    async def __aiter__(self) -> AsyncIterator[TaskStatus]:
        status = self.status
        yield status
        while status not in TERMINAL:
            await self._pause()
            before, status = (status, self.message), await self.refresh()
            if (status, self.message) != before:
                yield status

    def _about(self, request: RequestType, id: str, timeout: float | None = None) -> ClientCall[Any]:
        """Return a request about the task, with the handlers and the user data of its call."""
        call = self._call
        params = TaskParams(task_id=id)
        about = ClientCall(request, params, timeout=timeout, handlers=call.handlers, user_data=call.user_data)
        about.whole = call.whole and request is FETCH_TASK_RESULT
        return about

    @property
    def interval(self) -> float:
        """Seconds between polls: the server's, within limits."""
        state = self._state
        interval = state.poll_interval_ms if isinstance(state, DetailedTask) else getattr(state, "poll_interval", None)
        return INTERVAL if interval is None else min(LONGEST * 1000, max(SHORTEST * 1000, interval)) / 1000

    async def _pause(self) -> None:
        """Wait for the poll interval, or until the server notifies of a status to act on."""
        try:
            async with asyncio.timeout(self.interval):
                await self._news.wait()
        except TimeoutError:
            pass
        self._news.clear()

    async def listen(self) -> None:
        """Listen for notifications of the task (2026-07-28), so that polls do not wait for their interval.

        Returns if the server does not support that, or ends the stream.

        https://modelcontextprotocol.io/extensions/tasks/overview
        """
        connection = self._tasks.connection
        if not isinstance(self._state, DetailedTask) or connection is None:
            return
        params = ListenParams(notifications=SubscriptionFilter(task_ids=[self._state.task_id]))
        with suppress(MCPError):
            await connection.call(LISTEN, params, timeout=None, subscriber=self)

    def take_notice(self, notice: ServerNotification) -> None:
        """Poll at once after a notification of ``listen``: the first one confirms it, others have a status."""
        if getattr(notice.params, "status", None) != "working":
            self._news.set()

    async def result(self) -> CallToolResult:
        """Wait for the task to end, and return the result of the tool call.

        If this coroutine is cancelled, so is the task.

        Raises:
            PeerError: the call failed.
            TaskCancelled: the task was cancelled.
        """
        try:
            if isinstance(self._state, Task):
                return await self._tasks.request(  # type: ignore[no-any-return]
                    self._about(FETCH_TASK_RESULT, self._state.task_id, math.inf)
                )
            async for _ in self:
                pass
        except asyncio.CancelledError:
            if self.id is not None and self.status not in TERMINAL:
                self._tasks.cancel_later(self.id)
            raise
        return self._end()

    def _end(self) -> CallToolResult:
        state = self._state
        if isinstance(state, FINISHED):
            return state  # type: ignore[return-value]  # a PassedResult if the call asks for one
        assert isinstance(state, DetailedTask)
        if state.status == "cancelled":
            raise TaskCancelled(f"the task was cancelled{': ' + self.message if self.message else ''}")
        try:
            if state.status == "failed":
                error = msgspec.convert(state.error, ErrorObject)
                raise PeerError(error.code, error.message, None if error.data is UNSET else error.data)
            return msgspec.convert(state.result, prepared(CallToolResult))
        except msgspec.ValidationError as error:
            raise InvalidMessage(f"The result of the task is not valid: {error}") from None

    async def cancel(self) -> None:
        """Request cancellation of the task (``tasks/cancel``). It may still complete or fail."""
        if self.id is not None and self.status not in TERMINAL:
            state = await self._tasks.request(self._about(CANCEL_TASK, self.id))
            if isinstance(state, Task):
                self._state = state
