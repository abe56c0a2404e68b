"""Client session that outlives its connections: reconnection, requests with retries, server requests, notifications.

https://modelcontextprotocol.io/specification/2026-07-28/basic
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias, TypeVar

from msgspec import UNSET, UnsetType

from carrel.client.connect import open_link
from carrel.client.connection import ClientConnection, Progress, Waiter
from carrel.client.endpoints import ServerEndpoint
from carrel.client.handlers import ClientHandlers
from carrel.client.input_required import MAX_ROUNDS, next_round, visit_pages
from carrel.client.negotiation import Found
from carrel.client.retry import Retries
from carrel.errors import (
    UNSUPPORTED_VERSION,
    URL_ELICITATION_REQUIRED,
    ConfigError,
    MethodNotFound,
    PeerError,
    ProtocolError,
    SessionExpired,
    TransportError,
)
from carrel.log import Log
from carrel.printable import printable
from carrel.protocol.client import Connection, Notification, Question
from carrel.protocol.extensions.skills import SKILLS
from carrel.protocol.extensions.tasks import TASKS
from carrel.protocol.methods import SET_LEVEL, Request
from carrel.protocol.revision import Revision
from carrel.protocol.revisions import REQUESTS
from carrel.wire.base import Implementation, LoggingLevel, Params, Result
from carrel.wire.client_features import InputRequiredResult
from carrel.wire.lifecycle import ServerCapabilities
from carrel.wire.utilities import LoggingMessageParams, SetLevelParams

if TYPE_CHECKING:
    from carrel.client.tasks import TaskAnswers

__all__ = ["LogReceiver", "Session", "Wait", "Watcher"]

logger = Log("carrel.client")

P = TypeVar("P", bound=Params)
R = TypeVar("R", bound=Result)

#: Timeout in seconds; UNSET for the client's own timeout, None for no limit.
Wait: TypeAlias = float | UnsetType | None
#: Receives the log messages of a server.
LogReceiver: TypeAlias = Callable[[LoggingMessageParams], Awaitable[None] | None]

COMPLETING = ServerCapabilities(completions={})


class Watcher(Protocol):
    """Receiver of change notifications, implemented by ``carrel.client.watch``."""

    def take_notice(self, notice: Notification) -> None:
        """Handle a notification, if it concerns something that is watched."""

    def miss(self) -> None:
        """Record that notifications may have been missed."""

    async def close(self) -> None:
        """Stop listening."""


class Session:
    """Base class of ``Client``: the session with one server. ``watches`` receive its change notifications."""

    def __init__(
        self,
        way: ServerEndpoint,
        info: Implementation,
        answers: ClientHandlers,
        extensions: Mapping[str, Mapping[str, Any]],
        *,
        wanted: Revision | None,
        timeout: float | None,
        patience: float,
        retries: Retries,
        log: LogReceiver | None,
        log_level: LoggingLevel | None,
    ) -> None:
        self.timeout = timeout
        self.watches: set[Watcher] = set()
        self._way = way
        self._wanted = wanted
        self._info = info
        self._answers = answers
        self._capabilities = answers.capabilities(extensions)
        self._patience = patience
        self._retries = retries
        self._log = log
        self._log_level = log_level
        self._link: ClientConnection | None = None
        self._found: Found | None = None
        self._missing: frozenset[Request[Any, Any]] = frozenset()
        self._has_tasks = False
        self.task_answers: dict[str, TaskAnswers] = {}
        """Answered input requests of tasks, by task id."""
        self._open = False
        self._connecting = asyncio.Lock()
        self._lost: dict[ClientConnection, asyncio.Event] = {}
        self._leaving: dict[ClientConnection, asyncio.Task[None]] = {}
        self._held: dict[str, int] = {}

    # Connecting and closing

    async def connect(self) -> ClientConnection:
        """Return the open connection, connecting first if there is none.

        Raises:
            ConfigError: the client is closed, or the server's program or a package is not installed.
            TransportError: the server cannot be reached.
            PeerError: the server refuses.
            ProtocolError: there is no revision that both sides support.
            AuthorizationError: the server requires authorization.
        """
        link = self._link
        if link is not None and link.error is None:
            return link
        async with self._connecting:
            link = self._link
            if link is not None and link.error is None:
                return link
            if not self._open:
                raise ConfigError("The client is closed; it is open within `async with Client(…) as client:`")
            if link is not None:
                self._link = None
                await self._leave(link)
            link, self._found = await open_link(
                self._way, self._new_connection, self, self._wanted, timeout=self.timeout, patience=self._patience
            )
            self._link = link
            self._missing = frozenset(row for row in REQUESTS.values() if not self.offers(row))
            self._has_tasks = self.capabilities.tasks is not UNSET
            self._lost[link] = asyncio.Event()
            self._held = {}
            self._renewed()
            if self._log_level is not None and not self.stateless and self.offers(SET_LEVEL):
                await link.call(SET_LEVEL, SetLevelParams(level=self._log_level), timeout=self.timeout)
            return link

    async def _leave(self, link: ClientConnection) -> None:
        """Close a lost connection; after ``SessionExpired``, in the background once pending requests are done."""
        if not isinstance(link.error, SessionExpired):
            await link.close()
            return
        task = asyncio.get_running_loop().create_task(link.finish())
        self._leaving[link] = task
        task.add_done_callback(lambda _: self._leaving.pop(link, None))

    def _new_connection(self) -> Connection[Waiter]:
        connection: Connection[Waiter] = Connection(self._info, self._capabilities)
        connection.extend(TASKS)
        connection.extend(SKILLS)
        connection.set_log_level(self._log_level or (None if self._log is None else "info"))
        return connection

    def _renewed(self) -> None:
        """Drop cached state of the server after a reconnect: it may be another server."""

    async def close(self) -> None:
        """Close every watch, fail pending requests, and close the connection. May be called more than once."""
        self._open = False
        for watch in list(self.watches):
            await watch.close()
        link, self._link = self._link, None
        if link is not None:
            await link.close()
            self.lost(link)
        for old, task in list(self._leaving.items()):
            await old.close()
            await asyncio.wait([task])

    # Server information

    @property
    def revision(self) -> str:
        """The negotiated revision."""
        return self._facts.revision.name

    @property
    def stateless(self) -> bool:
        """Whether the revision has no sessions."""
        return self._facts.revision.stateless

    @property
    def server(self) -> Implementation | None:
        """Server info (name and version), as declared by the server and not verified."""
        return self._facts.server

    @property
    def capabilities(self) -> ServerCapabilities:
        """The server's capabilities."""
        return self._facts.capabilities

    @property
    def instructions(self) -> str | None:
        """The server's instructions for a model."""
        return self._facts.instructions

    @property
    def _facts(self) -> Found:
        if self._found is None:
            raise ConfigError("The client has not been connected yet; use `async with Client(…) as client:`")
        return self._found

    @property
    def _server_name(self) -> str:
        """Server name to show to a user: the name that it declares, and its URL or command."""
        server = None if self._found is None else self._found.server
        shown = printable(self._way.shown)
        return shown if server is None else f"{printable(server.name, 100)} ({shown})"

    def offers(self, request: Request[Any, Any]) -> bool:
        """Return whether the server has declared the capability that a request requires."""
        need = request.capability
        if need is None or getattr(self.capabilities, need) is not UNSET:
            return True
        # The oldest revision had completion without a capability for it.
        return need == "completions" and self._facts.revision.project(COMPLETING).completions is UNSET

    def announces(self, kind: str) -> bool:
        """Return whether the server declares ``listChanged`` for a list: "resources", "tools" or "prompts"."""
        offered = getattr(self.capabilities, kind)
        return offered is not UNSET and offered.list_changed is True

    # Requests

    async def request(
        self,
        request: Request[P, R],
        params: P,
        *,
        timeout: Wait = UNSET,
        progress: Progress | None = None,
        meta: Mapping[str, Any] | None = None,
        headers: Callable[[], Mapping[str, str]] | None = None,
        result: type[Result] | None = None,
        repeatable: bool = False,
        answered: list[InputRequiredResult] | None = None,
    ) -> R:
        """Send a request and return its result.

        Input requests of the server are answered, lost connections reopened, and requests that are safe to repeat
        retried; ``repeatable`` marks this one as safe. ``answered`` collects the ``input_required`` results.

        Raises:
            PeerError: the server sent an error response.
            RequestTimeout: there was no response in time.
            TransportError: the server cannot be reached.
            ProtocolError: the server's response is invalid.
            MethodNotFound: the server lacks the capability, or its revision the request.
        """
        failures = rounds = 0
        mended = False
        link = self._link
        while True:
            try:
                if link is None or link.error is not None:
                    link = await self.connect()
                if request in self._missing:
                    raise MethodNotFound(f"The server does not offer {request.capability}")
                answer = await link.call(
                    request,
                    params,
                    timeout=self.timeout if timeout is UNSET else timeout,
                    progress=progress,
                    meta=meta,
                    headers=None if headers is None else headers(),
                    result=result,
                )
            except TransportError as error:
                failures += 1
                safe = repeatable or request.idempotent
                pause = self._retries.pause(error, failures, safe=safe) if self._open else None
                if pause is None:
                    raise
                if isinstance(error, SessionExpired) and link is not None:
                    link.closed(error)
                await asyncio.sleep(pause)
                link = self._link
                continue
            except PeerError as error:
                if mended or not await self._mend(error, request):
                    raise
                mended = True
                link = self._link
                continue
            if not isinstance(answer, InputRequiredResult):
                return answer
            if answered is not None:
                answered.append(answer)
            rounds += 1
            if rounds > MAX_ROUNDS:
                raise ProtocolError(f"The server has asked for input {MAX_ROUNDS} times, and is not done")
            params = await next_round(params, answer, self._answers, self._server_name)

    async def _mend(self, error: PeerError, request: Request[Any, Any]) -> bool:
        """Recover from an error response, if possible; return whether to send the request again."""
        if error.code == UNSUPPORTED_VERSION and self._link is not None:
            self._link.closed(TransportError("the server does not speak the revision any more", delivered=False))
            return True
        if error.code == URL_ELICITATION_REQUIRED:
            return await visit_pages(error, self._answers, self._server_name)
        return False

    # Callbacks of the connection

    def take_notice(self, notice: Notification) -> None:
        """Handle a notification that belongs to no request."""
        if notice.event == "message":
            self._take_log(notice.params)
        elif notice.event == "elicitation_complete":
            self._answers.complete_page(notice.params.elicitation_id)
        else:
            self.changed(notice)
            for watch in list(self.watches):
                watch.take_notice(notice)

    def changed(self, notice: Notification) -> None:
        """Invalidate cached state that a change notification concerns."""

    def _take_log(self, params: LoggingMessageParams) -> None:
        if self._log is None:
            return
        try:
            done = self._log(params)
        except Exception:
            logger.exception("the receiver of log messages failed")
            return
        if inspect.isawaitable(done) and self._link is not None:
            self._link.spawn(done)

    async def answer(self, question: Question) -> Any:
        """Return the result of a server's request (elicitation, sampling, roots)."""
        return await self._answers.answer(question.operation, question.params, self._server_name)

    def interrupted(self) -> None:
        """Record that notifications may have been missed."""
        for watch in list(self.watches):
            watch.miss()

    def lost(self, link: ClientConnection) -> None:
        """Record that a connection is lost, and wake up its watches."""
        event = self._lost.pop(link, None)
        if event is not None:
            event.set()

    # Subscriptions of watches

    async def gone(self, link: ClientConnection) -> None:
        """Wait until a connection is lost."""
        event = self._lost.get(link)
        if event is not None:
            await event.wait()

    def hold(self, uri: str) -> bool:
        """Add a reference to the subscription of a resource; return whether it is the first."""
        self._held[uri] = held = self._held.get(uri, 0) + 1
        return held == 1

    def release(self, link: ClientConnection, uri: str) -> bool:
        """Drop a reference to the subscription of a resource; return whether it was the last."""
        if link is not self._link or uri not in self._held:
            return False
        self._held[uri] -= 1
        if self._held[uri]:
            return False
        del self._held[uri]
        return True
