"""Client session with a server: connects, reconnects, sends requests, and answers server requests.

https://modelcontextprotocol.io/specification/2026-07-28/basic/versioning
https://modelcontextprotocol.io/specification/2026-07-28/basic/patterns/mrtr
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias, TypeVar

from carrel.awaitables import is_awaitable
from carrel.client.connect import ConnectOptions, open_connection
from carrel.client.connection import ClientConnection
from carrel.client.endpoints import ClientEndpoint
from carrel.client.extensions import ClientExtension
from carrel.client.handlers import ClientCall, Handlers, LogMessage, Origin
from carrel.client.negotiation import ServerFacts
from carrel.client.pending_request import Waiter
from carrel.client.retry import Retries
from carrel.client.state import ClientState
from carrel.errors import (
    HEADER_MISMATCH,
    UNSUPPORTED_VERSION,
    URL_ELICITATION_REQUIRED,
    ConfigError,
    MCPError,
    MethodNotFound,
    PeerError,
    ProtocolError,
    SessionExpired,
    TransportError,
)
from carrel.log import Log
from carrel.printable import printable
from carrel.protocol.client import ClientProtocol, IncomingRequest, ServerNotification
from carrel.protocol.methods import SET_LEVEL, RequestType
from carrel.protocol.revision import Revision
from carrel.wire.base import ClientCapabilities, Implementation, LoggingLevel, Result
from carrel.wire.client_features import InputRequest, InputRequiredResult
from carrel.wire.lifecycle import ServerCapabilities
from carrel.wire.utilities import LoggingMessageParams, SetLevelParams

if TYPE_CHECKING:
    from carrel.client.answers import ClientHandlers

__all__ = ["ClientSession", "LogReceiver", "SessionObserver", "SessionOptions", "Watcher"]

logger = Log("carrel.client")

R = TypeVar("R", bound=Result)
#: Receives the log messages of a server.
LogReceiver: TypeAlias = Callable[[LoggingMessageParams], Awaitable[None] | None]


class SessionObserver(Protocol):
    """Part of a client that caches state of the server, such as a ``ClientExtension``."""

    def connected(self) -> None:
        """Reset the state of the server: the connection is new, perhaps to another server."""

    def notified(self, notification: ServerNotification) -> None:
        """Handle a notification of the server."""

    def missed(self) -> None:
        """Drop cached state that notifications invalidate, as some may have been missed."""


class Watcher(Protocol):
    """Receiver of change notifications, implemented by ``carrel.client.watch``."""

    def take_notice(self, notice: ServerNotification) -> None:
        """Handle a notification, if it concerns something that is watched."""

    def miss(self) -> None:
        """Record that notifications may have been missed."""

    async def close(self) -> None:
        """Stop listening."""


class SessionOptions(ConnectOptions, frozen=True, kw_only=True):
    """Options of a session; see ``Client``."""

    info: Implementation
    handlers: Handlers | None = None
    extensions: Sequence[ClientExtension] = ()
    settings: Mapping[str, Mapping[str, Any]] = {}
    """Settings of further extensions to declare, by identifier."""
    retries: Retries = Retries()
    log: LogReceiver | None = None
    log_level: LoggingLevel | None = None


class ClientSession:
    """Session with one server, over one connection after another.

    ``observers`` are notified of connections and notifications, ``watches`` only of change notifications.
    """

    def __init__(self, endpoint: ClientEndpoint, options: SessionOptions) -> None:
        self.endpoint = endpoint
        self.timeout = options.timeout
        self.state = ClientState()
        self.observers: list[SessionObserver] = []
        self.watches: set[Watcher] = set()
        self.connection: ClientConnection | None = None
        """The current connection; None before the first one. It may be lost: see its ``error``."""
        self.doubt: Callable[[], None] | None = None
        """Called when a long-lived stream has broken, so that the server may be gone."""
        self._options = options
        self._answers: ClientHandlers | None = None
        self._log_level = options.log_level
        self._facts: ServerFacts | None = None
        self._missing: frozenset[RequestType] = frozenset()
        self._open = False
        self._connecting = asyncio.Lock()
        self._lost: dict[ClientConnection, asyncio.Event] = {}
        self._leaving: dict[ClientConnection, asyncio.Task[None]] = {}
        names: dict[str, Mapping[str, Any]] = dict(options.settings)
        for extension in options.extensions:
            extension.attach(self)
            self.observers.append(extension)
            if extension.settings is not None:
                names[extension.name] = extension.settings
        if options.handlers is None:
            self._capabilities = ClientCapabilities(extensions=names or None)
        else:
            self._capabilities = self.handlers.capabilities(names)

    @property
    def handlers(self) -> ClientHandlers:
        """The handlers of the server's requests. Few servers send any, so the module is imported when it is needed."""
        if self._answers is None:
            from carrel.client.answers import ClientHandlers

            self._answers = ClientHandlers(self._options.handlers or Handlers())
        return self._answers

    # Connecting and closing

    async def open(self) -> None:
        """Connect for the first time. See ``connect``."""
        self.allow()
        await self.connect()

    def allow(self) -> None:
        """Allow ``connect``, without connecting yet."""
        self._open = True

    async def connect(self) -> ClientConnection:
        """Return the open connection; connect first if necessary.

        Raises:
            ConfigError: the client is closed, or the server's program or a package is not installed.
            TransportError: the server cannot be reached.
            PeerError: the server returned an error response.
            ProtocolError: no revision is supported by both sides.
            AuthorizationError: the server requires authorization.
        """
        connection = self.connection
        if connection is not None and connection.error is None:
            return connection
        async with self._connecting:
            connection = self.connection
            if connection is not None and connection.error is None:
                return connection
            if not self._open:
                raise ConfigError("The client is closed; it is open within `async with Client(…) as client:`")
            self.state.set(
                "connecting" if self._facts is None else "reconnecting",
                self.state.reason if connection is None else connection.error,
            )
            if connection is not None:
                self.connection = None
                await self._leave(connection)
            try:
                return await self._connect()
            except MCPError as error:
                self.state.set("disconnected", error)
                raise
            except BaseException:
                self.state.set("disconnected", TransportError("connecting was cancelled", delivered=False))
                raise

    async def _connect(self) -> ClientConnection:
        options = self._options
        connection, self._facts = await open_connection(
            self.endpoint,
            self._new_connection,
            self,
            options,
        )
        self.connection = connection
        self._missing = self._facts.missing
        self._lost[connection] = asyncio.Event()
        for observer in self.observers:
            observer.connected()
        if self._log_level is not None and not self.stateless and self.server.offers(SET_LEVEL):
            await connection.call(SET_LEVEL, SetLevelParams(level=self._log_level), timeout=self.timeout)
        if connection.error is None:
            self.state.set("connected")
        return connection

    async def _leave(self, connection: ClientConnection) -> None:
        """Close a lost connection; after ``SessionExpired``, in the background once pending requests are done."""
        if not isinstance(connection.error, SessionExpired):
            await connection.close()
            return
        task = asyncio.get_running_loop().create_task(connection.finish())
        self._leaving[connection] = task
        task.add_done_callback(lambda _: self._leaving.pop(connection, None))

    def _new_connection(self) -> ClientProtocol[Waiter]:
        connection: ClientProtocol[Waiter] = ClientProtocol(self._options.info, self._capabilities)
        for extension in self._options.extensions:
            connection.extend(extension.protocol)
        wants_logs = self._options.log is not None or self.handlers.log_of(None) is not None
        connection.set_log_level(self._log_level or ("info" if wants_logs else None))
        return connection

    async def close(self) -> None:
        """Close every watch, fail pending requests, and close the connection. May be called more than once."""
        self._open = False
        for watch in list(self.watches):
            await watch.close()
        connection, self.connection = self.connection, None
        if connection is not None:
            await connection.close()
            self.lost(connection)
        for old, task in list(self._leaving.items()):
            await old.close()
            await asyncio.wait([task])
        if self.endpoint.credentials is not None:
            await self.endpoint.credentials.close()
        self.state.set("closed")

    # Server information

    @property
    def server(self) -> ServerFacts:
        """The server's info, capabilities and instructions.

        Raises:
            ConfigError: the client has not been connected yet.
        """
        if self._facts is None:
            raise ConfigError("The client has not been connected yet; use `async with Client(…) as client:`")
        return self._facts

    @property
    def revision(self) -> Revision:
        """The negotiated revision."""
        return self.server.revision

    @property
    def stateless(self) -> bool:
        """Whether the revision has no sessions."""
        return self.server.revision.stateless

    @property
    def capabilities(self) -> ServerCapabilities:
        """The server's capabilities."""
        return self.server.capabilities

    @property
    def server_extensions(self) -> Mapping[str, Any]:
        """The settings of the extensions that the server declares, by identifier."""
        declared = self.server.capabilities.extensions
        return declared or {}

    @property
    def server_name(self) -> str:
        """The host's name for the server: its URL or its command."""
        return self.endpoint.name

    @property
    def _display_name(self) -> str:
        """Server name to show to a user: the name that it declares, and its URL or command."""
        server = None if self._facts is None else self._facts.info
        shown = printable(self.endpoint.shown)
        return shown if server is None else f"{printable(server.name, 100)} ({shown})"

    def knows(self, request: RequestType) -> bool:
        """Return whether the negotiated revision, or an extension, has a request."""
        return self.connection is not None and self.connection.connection.knows(request)

    # Requests

    async def request(self, call: ClientCall[R]) -> R:
        """Send a request, and return its result.

        Input requests of the server are answered, lost connections reopened, and requests that are safe to repeat
        retried.

        Raises:
            PeerError: the server sent an error response.
            RequestTimeout: there was no response in time.
            TransportError: the server cannot be reached.
            ProtocolError: the server's response is invalid.
            MethodNotFound: the server lacks the capability, or its revision the request.
        """
        failures = 0
        repaired = False
        row, params = call.request, call.params
        connection = self.connection
        while True:
            try:
                if connection is None or connection.error is not None:
                    connection = await self.connect()
                if row in self._missing:
                    raise MethodNotFound(f"The server does not offer {row.capability}")
                answer = await connection.call(
                    row,
                    params,
                    timeout=self.timeout if call.timeout is None else call.timeout,
                    progress=call.progress,
                    meta=call.meta,
                    headers=None if call.headers is None else call.headers.headers(),
                    result=call.result,
                    call=call,
                )
            except TransportError as error:
                failures += 1
                pause = await self._recover(call, error, failures, connection)
                await asyncio.sleep(pause)
                connection = self.connection
                continue
            except PeerError as error:
                if repaired or not await self._repair(call, error):
                    raise
                repaired = True
                connection = self.connection
                continue
            if not isinstance(answer, InputRequiredResult):
                return answer
            from carrel.client.input_required import MAX_ROUNDS, next_round

            call.rounds += 1
            if call.rounds > MAX_ROUNDS:
                raise ProtocolError(f"The server has requested input {MAX_ROUNDS} times, which is the limit")
            params = await next_round(params, answer, self.handlers, self._origin(call))

    async def _recover(
        self, call: ClientCall[Any], error: TransportError, failures: int, connection: ClientConnection | None
    ) -> float:
        """Return the seconds to wait before a call is retried, or raise its error if it is not retried."""
        retries = self._options.retries
        pause = retries.pause(error, failures, safe=call.repeatable or call.request.idempotent) if self._open else None
        if pause is None:
            raise error
        if isinstance(error, SessionExpired) and connection is not None:
            connection.closed(error)
        return pause

    async def _repair(self, call: ClientCall[Any], error: PeerError) -> bool:
        """Remove the cause of an error response, if possible; return whether to send the request again."""
        if error.code == UNSUPPORTED_VERSION and self.connection is not None:
            self.connection.closed(TransportError("the server does not speak the revision any more", delivered=False))
            return True
        if error.code == URL_ELICITATION_REQUIRED:
            from carrel.client.input_required import open_pages

            return await open_pages(error, self.handlers, self._origin(call))
        if error.code == HEADER_MISMATCH and call.headers is not None:
            await call.headers.refresh()
            return True
        return False

    def send_later(self, call: ClientCall[Any]) -> None:
        """Send a request in the background; its result is dropped, and its failure only logged."""
        if self.connection is not None:
            self.connection.spawn(self.connection.call(call.request, call.params, timeout=self.timeout))

    def spawn(self, work: Coroutine[Any, Any, Any]) -> bool:
        """Run a coroutine in the background until the connection is closed; return whether there is a connection."""
        if self.connection is None:
            work.close()
            return False
        self.connection.spawn(work)
        return True

    async def answer_input(self, requests: Mapping[str, InputRequest], call: ClientCall[Any]) -> dict[str, Any]:
        """Handle the input requests that a call caused, and return the responses by key."""
        from carrel.client.input_required import answer_all

        return await answer_all(requests, self.handlers, self._origin(call))

    async def set_log_level(self, level: LoggingLevel) -> None:
        """Set the minimum level of the server's log messages.

        Raises:
            MethodNotFound: the server does not support logging.
        """
        connection = await self.connect()
        self._log_level = level
        if self.stateless:
            connection.connection.set_log_level(level)
        else:
            await self.request(ClientCall(SET_LEVEL, SetLevelParams(level=level)))

    # Callbacks of the connection

    def take_notice(self, notice: ServerNotification) -> None:
        """Handle a notification that is not related to a request."""
        if notice.event == "elicitation_complete":
            self.handlers.complete_page(notice.params.elicitation_id)
        else:
            self.notify(notice)
            for watch in list(self.watches):
                watch.take_notice(notice)

    def notify(self, notice: ServerNotification) -> None:
        """Notify the observers of a notification."""
        for observer in self.observers:
            observer.notified(notice)

    def take_log(
        self, params: LoggingMessageParams, call: ClientCall[Any] | None, calls: tuple[ClientCall[Any], ...]
    ) -> Awaitable[None] | None:
        """Handle a log message. ``call`` caused it; if this is unknown, one of ``calls`` may have."""
        handler = self.handlers.log_of(call)
        receiver = self._options.log
        try:
            if handler is not None:
                origin = Origin(self._display_name, call, calls)
                done = handler(LogMessage(origin, params.level, params.data, params.logger))
            else:
                done = None if receiver is None else receiver(params)
        except Exception:
            logger.exception("the receiver of log messages failed")
            return None
        return done if is_awaitable(done) else None

    async def answer(
        self, request: IncomingRequest, call: ClientCall[Any] | None, calls: tuple[ClientCall[Any], ...]
    ) -> Any:
        """Return the result of a server request (elicitation, sampling, roots).

        ``call`` is the call that caused the request, or None if unknown; ``calls`` are the possible calls.
        """
        return await self.handlers.answer(request.operation, request.params, Origin(self._display_name, call, calls))

    def _origin(self, call: ClientCall[Any]) -> Origin:
        return Origin(self._display_name, call, (call,))

    def broken(self) -> None:
        """Record that a long-lived stream has broken: the server may be gone."""
        if self.doubt is not None:
            self.doubt()

    def interrupted(self) -> None:
        """Record that notifications may have been missed."""
        for observer in self.observers:
            observer.missed()
        for watch in list(self.watches):
            watch.miss()

    def lost(self, connection: ClientConnection) -> None:
        """Record that a connection is lost, and wake up its watches."""
        event = self._lost.pop(connection, None)
        if event is not None:
            event.set()
            if self._open and connection is self.connection:
                self.state.set("disconnected", connection.error)

    async def gone(self, connection: ClientConnection) -> None:
        """Wait until a connection is lost."""
        event = self._lost.get(connection)
        if event is not None:
            await event.wait()
