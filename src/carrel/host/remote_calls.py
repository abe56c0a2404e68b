"""RemoteCalls: sends requests to a remote server on behalf of clients, and converts its errors for them.

https://modelcontextprotocol.io/specification/2026-07-28/basic#error-responses
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from contextlib import contextmanager
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec
from msgspec import Raw

from carrel.catalog.provider import Request
from carrel.catalog.task_channel import TaskChannel
from carrel.client.answers import may_be_shown
from carrel.client.client import Client
from carrel.client.handlers import ClientCall, Handlers, Progress
from carrel.client.not_found import is_not_found
from carrel.client.options import CallOptions
from carrel.errors import (
    INTERNAL_ERROR,
    INVALID_PARAMS,
    URL_ELICITATION_REQUIRED,
    InvalidCursor,
    InvalidParams,
    LoginRequired,
    MCPError,
    MethodNotFound,
    MissingCapability,
    PeerError,
    ProtocolError,
    ProviderUnavailable,
    ResourceError,
    ResourceNotFound,
    ServerUnavailable,
    URLElicitationRequired,
)
from carrel.host.log_levels import LEVELS, LogLevels
from carrel.host.reconnect import Reconnector
from carrel.host.relay import RELAY, CallLost, InvalidClientResponse, Relay
from carrel.host.relayed import OWN_META, RELAYED
from carrel.host.relays import Relays
from carrel.log import Log
from carrel.protocol.encoding import KEY
from carrel.protocol.extensions.tasks import TASKS
from carrel.protocol.methods import RequestType
from carrel.protocol.passed_results import PassedResult, attached, pass_on
from carrel.wire.base import ClientCapabilities, Params, Result
from carrel.wire.resources import ReadResourceParams

if TYPE_CHECKING:
    from carrel.protocol.server import Call
    from carrel.wire.base import LoggingLevel

__all__ = ["RemoteCalls", "RemoteError", "passed_on"]

log = Log("carrel.host")

_members_of = msgspec.json.Decoder(dict[str, Raw]).decode

T = TypeVar("T")
R = TypeVar("R", bound=Result)
Send = Callable[[Relay | None, CallOptions], Awaitable[T]]

NO_CAPABILITIES = ClientCapabilities()
LOG_LEVEL = "io.modelcontextprotocol/logLevel"
#: Errors to pass through to the client unchanged.
PASSED = (
    *(CallLost, InvalidClientResponse, InvalidParams, LoginRequired, MethodNotFound, MissingCapability),
    *(ProviderUnavailable, ResourceError, ServerUnavailable, URLElicitationRequired),
)


class RemoteError(ProtocolError):
    """Error response of a remote server: its code, message and data, without pages whose URL is not safe to show."""

    def __init__(self, error: PeerError) -> None:
        super().__init__(error.message, error.data)
        self.code = error.code
        if error.code == URL_ELICITATION_REQUIRED:
            pages = safe_pages(error.data)
            self.code = error.code if pages else INTERNAL_ERROR
            self.data = {**error.data, "elicitations": pages} if pages else None
        if error.code == MissingCapability.code:
            self.status = MissingCapability.status


def safe_pages(data: Any) -> list[Any]:
    """Return the elicitations in the data of an error whose URL is safe to show.

    https://modelcontextprotocol.io/specification/2026-07-28/client/elicitation#safe-url-handling
    """
    given = data.get("elicitations") if isinstance(data, dict) else None
    pages = [page for page in given if isinstance(page, dict)] if isinstance(given, list) else []
    return [page for page in pages if isinstance(page.get("url"), str) and may_be_shown(page["url"])]


class RemoteCalls:
    """Sends client requests to one remote server."""

    def __init__(self, client: Client, name: str, reconnector: Reconnector) -> None:
        self._client = client
        self._name = name
        self._reconnector = reconnector
        self.for_one_client = False
        """Whether the session is for one client, or for clients that count as one."""
        self._client_connection: object = None
        self._several = False
        self._relays = Relays(self._is_certain)
        self._levels = LogLevels(client)
        self._lists: set[asyncio.Task[Any]] = set()
        self._failing = ""
        """Error that was logged and has not ended since; other requests fail with it too."""

    @property
    def parked(self) -> int:
        """Number of parked requests, which wait for stateless clients to respond."""
        return len(self._relays)

    async def stop(self) -> None:
        """Cancel parked requests, and list requests in progress."""
        await self._relays.stop()
        for task in self._lists:
            task.cancel()
        await asyncio.gather(*self._lists, return_exceptions=True)

    async def list(self, call: ClientCall[R], limit: float) -> R:
        """Send a list request, and return the response. The timeout is ``limit`` seconds.

        If the caller is cancelled, no cancellation is sent to the server. It would save little, as list requests are
        fast, and servers with the official Python SDK 1.x crash for all clients if a request is cancelled while they
        respond to it.

        Raises:
            TimeoutError: there was no response within ``limit`` seconds.
        """

        async def ask() -> R:
            async with asyncio.timeout(limit):
                return await self._client.session.request(call)

        task = asyncio.ensure_future(ask())
        self._lists.add(task)
        task.add_done_callback(self._lists.discard)
        return await asyncio.shield(task)

    @contextmanager
    def errors(self, request: Request | None = None) -> Iterator[None]:
        """Convert errors for the client: keep the server's error responses, and turn others into ProviderUnavailable.

        If the last attempt to connect has failed, raise ProviderUnavailable at once, as a request would be another
        attempt to connect.
        """
        if self._reconnector.status.name == "failed":
            raise ProviderUnavailable(self._name)
        try:
            yield
        except PeerError as error:
            if error.code == INVALID_PARAMS:
                if request is not None and request.cursor is not None:
                    raise InvalidCursor from error
                raise InvalidParams(error.message, error.data) from error
            raise RemoteError(error) from error
        except PASSED:
            raise
        except UnicodeEncodeError as error:
            raise InvalidParams("Invalid params: it is not valid Unicode") from error
        except (MCPError, TimeoutError) as error:
            text = str(error) or "no answer in time"
            (log.debug if text == self._failing else log.warning)("%s: %s", self._name, text)
            self._failing = text
            self._reconnector.check()
            raise ProviderUnavailable(self._name) from error
        else:
            self._failing = ""

    async def send(
        self,
        label: str,
        request: Request,
        send: Send[T],
        kind: type[Result],
        *,
        repeatable: bool = True,
        as_task: bool = False,
    ) -> T:
        """Send a request on behalf of a client. Forward server requests and progress to the client meanwhile.

        ``label`` must be the same each time the client sends the request; ``kind`` is the type of the result;
        ``as_task``: the client accepts a task.
        """
        call = request.call
        timeout = None
        if request.deadline is not None:
            timeout = max(0.0, request.deadline - asyncio.get_running_loop().time())
        if call is None or request.contexts is None or request.channel is None:
            options: CallOptions = {"timeout": timeout, "meta": meta_of(request, None)}
            with self.errors():
                return await send(None, options)
        session = self._client.session
        stateless = session.connection is not None and session.stateless
        self._note(call.connection)
        level = None if call.peer.log_level is None else LEVELS[call.peer.log_level]
        options = {"timeout": timeout, "meta": meta_of(request, level, stateless=stateless)}
        if stateless:
            options["capabilities"] = self._capabilities(request, as_task=as_task)

        async def relayed(relay: Relay) -> T:
            RELAY.set(relay)
            progress: Progress | None = relay.report if call.progress_token is not None else None
            handlers: Handlers | None = RELAYED if relays else None
            more: CallOptions = {"progress": progress, "handlers": handlers, "user_data": relay}
            try:
                return await send(relay, {**options, **more})
            except PeerError as error:
                raise relay.missing or error  # noqa: B904 - the server's error says less

        logs = level is not None and session.connection is not None and session.capabilities.logging is not None
        relays = logs or can_be_asked(request)
        with self.errors():
            if logs and not stateless and call.peer.log_level is not None:
                await self._levels.want(call.peer.log_level)
            if not relays and call.progress_token is None and not as_task:
                if stateless or not call.peer.revision.stateless:
                    return await send(None, options)
                refusing = Relay(self._name, call.connection, self._is_certain)
                try:
                    return await send(refusing, {**options, "handlers": RELAYED, "user_data": refusing})
                except PeerError as error:
                    raise refusing.missing or error  # noqa: B904
            alone = not stateless and not self._attributes
            return await self._relays.run(
                f"{self._name} {label}", request, relayed, repeatable=repeatable, alone=alone, kind=kind
            )

    def plain_options(self, request: Request) -> CallOptions | None:
        """Return the options of a request during which nothing is sent to the client; None for all other requests.

        The client accepts no server requests, and wants neither progress nor log messages.
        """
        call, connection = request.call, self._client.session.connection
        if call is None or request.channel is None or connection is None or connection.error is not None:
            return None
        peer, params, server = call.peer, call.params, self._client.session.server
        accepted = peer.capabilities
        if accepted is not None and not accepted.elicitation is accepted.sampling is accepted.roots is None:
            return None
        if params.meta is not None and params.meta.progress_token is not None:
            return None
        if peer.log_level is not None and server.capabilities.logging is not None:
            return None
        stateless = server.revision.stateless
        level = None if peer.log_level is None else LEVELS[peer.log_level]
        self._note(call.connection)
        timeout = None
        if request.deadline is not None:
            timeout = max(0.0, request.deadline - asyncio.get_running_loop().time())
        options: CallOptions = {"timeout": timeout, "meta": meta_of(request, level, stateless=stateless)}
        if stateless:
            options["capabilities"] = self._capabilities(request, as_task=False)
        elif peer.revision.stateless:
            options["handlers"] = RELAYED
            options["user_data"] = Relay(self._name, call.connection, self._is_certain)
        return options

    async def ask(self, label: str, request: Request, row: RequestType[Any, R], params: Params) -> R | bytes:
        """Send a request on behalf of a client, and return its result, encoded for the client if there is one.

        Raises:
            ResourceNotFound, ProtocolError: see ``errors``.
        """

        def call(options: CallOptions) -> Coroutine[Any, Any, R]:
            whole = request.call is not None
            return self._client.results.request(ClientCall(row, params, whole=whole, **options))

        async def send(_: object, options: CallOptions) -> R:
            try:
                return await call(options)
            except PeerError as error:
                raise failure(error, params) from error

        options = self.plain_options(request)
        if options is None:
            return passed_on(row, request, await self.send(label, request, send, row.result))  # type: ignore[no-any-return]
        with self.errors():
            try:
                answer = await call(options)
            except PeerError as error:
                relay = options.get("user_data")
                missing = relay.missing if isinstance(relay, Relay) else None
                raise missing or failure(error, params)  # noqa: B904 - as in ``send``
            return passed_on(row, request, answer)  # type: ignore[no-any-return]

    def _note(self, connection: object) -> None:
        """Record which client has sent a request: a server request may arrive after the client request has ended."""
        self._several = self._several or self._client_connection not in (None, connection)
        self._client_connection = connection

    def _is_certain(self) -> bool:
        """Return whether a server request that names no call must be for the client whose call is in flight."""
        one_client = self.for_one_client or not self._several
        return one_client or self._attributes or self._client.session.stateless

    @property
    def _attributes(self) -> bool:
        """Whether server requests arrive on the stream of the client request that caused them."""
        connection = self._client.session.connection
        return connection is not None and connection.transport.streams

    @cached_property
    def _ours(self) -> ClientCapabilities:
        """The capabilities of the client itself."""
        return self._client.session.handlers.capabilities({})

    def _capabilities(self, request: Request, *, as_task: bool) -> ClientCapabilities:
        """Return the capabilities of the client that can be forwarded to the server.

        https://modelcontextprotocol.io/specification/2026-07-28/basic#meta
        """
        assert request.call is not None
        ours, theirs = self._ours, request.call.peer.capabilities
        if theirs is None:
            theirs = NO_CAPABILITIES
        extensions = dict(theirs.extensions or {})
        extensions.pop(TASKS.name, None)
        if as_task:
            extensions[TASKS.name] = {}
        return ClientCapabilities(
            elicitation=None if ours.elicitation is None else theirs.elicitation,
            sampling=None if ours.sampling is None else theirs.sampling,
            roots=None if ours.roots is None else theirs.roots,
            experimental=theirs.experimental,
            extensions=extensions or None,
        )


def failure(error: PeerError, params: Params) -> MCPError:
    """Return the error of a request, which may be that a resource was not found."""
    if isinstance(params, ReadResourceParams) and is_not_found(error, params.uri):
        return ResourceNotFound(params.uri, error.message)
    return error


def passed_on(row: RequestType, request: Request, answer: Any) -> Any:
    """Return a result, encoded for the client of a request of the same method."""
    if type(answer) is not PassedResult:
        return answer
    call = request.call
    if call is None or call.request.operation != row.operation or type(request.channel) is TaskChannel:
        return attached(answer)
    return pass_on(call, answer)


def can_be_asked(request: Request) -> bool:
    """Return whether the client of a request accepts any server requests (elicitation, sampling or roots)."""
    assert request.call is not None
    capabilities = request.call.peer.capabilities
    return capabilities is not None and any(
        each is not None for each in (capabilities.elicitation, capabilities.sampling, capabilities.roots)
    )


def meta_of(request: Request, level: LoggingLevel | None, *, stateless: bool = False) -> dict[str, Any] | None:
    """Return the keys of ``_meta`` to forward. For a stateless server, include the log level of the client."""
    passed: dict[str, Any] = {}
    if request.call is not None and request.call.params.meta:
        passed = {key: value for key, value in request.call.meta.items() if key not in OWN_META}
    if stateless:
        passed[LOG_LEVEL] = level
    if request.call is not None and (found := unknown_params(request.call)):
        passed[KEY] = found
    return passed or None


def unknown_params(call: Call) -> dict[str, Raw]:
    """Return the unknown parameters of a request."""
    members: dict[str, Raw] = _members_of(call.raw)
    for name in call.params.__struct_encode_fields__:
        members.pop(name, None)
    return members


def with_tasks(options: CallOptions) -> CallOptions:
    """Add the tasks extension to the capabilities in the options of a request."""
    declared = options.get("capabilities") or ClientCapabilities()
    extensions = {**(declared.extensions or {}), TASKS.name: dict[str, Any]()}
    return {**options, "capabilities": msgspec.structs.replace(declared, extensions=extensions)}
