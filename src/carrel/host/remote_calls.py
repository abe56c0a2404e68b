"""Requests to a remote server on behalf of clients: what is passed on with them, and the errors they end with.

https://modelcontextprotocol.io/specification/2026-07-28/basic#error-responses
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec
from msgspec import Raw

from carrel.catalog.provider import Request
from carrel.client.client import Client
from carrel.client.handlers import ClientCall, Handlers, Progress
from carrel.client.options import CallOptions
from carrel.errors import (
    INVALID_PARAMS,
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
    URLElicitationRequired,
)
from carrel.host.log_levels import LEVELS, LogLevels
from carrel.host.relay import RELAY, Relay, Relays
from carrel.host.relayed import OWN_META, RELAYED
from carrel.host.upkeep import Upkeep
from carrel.log import Log
from carrel.protocol import unknown
from carrel.protocol.extensions.tasks import TASKS
from carrel.wire.base import ClientCapabilities, Result

if TYPE_CHECKING:
    from carrel.protocol.server import Call
    from carrel.wire.base import LoggingLevel

__all__ = ["RemoteCalls", "RemoteError"]

log = Log("carrel.host")

T = TypeVar("T")
R = TypeVar("R", bound=Result)
Send = Callable[[Relay | None, CallOptions], Awaitable[T]]

LOG_LEVEL = "io.modelcontextprotocol/logLevel"
#: Errors that are meant for the client as they are.
PASSED = (
    *(LoginRequired, MethodNotFound, MissingCapability, InvalidParams, ProviderUnavailable, ResourceError),
    URLElicitationRequired,
)


class RemoteError(ProtocolError):
    """Error of a remote server, with its code, message and data."""

    def __init__(self, error: PeerError) -> None:
        super().__init__(error.message, error.data)
        self.code = error.code
        if error.code == MissingCapability.code:
            self.status = MissingCapability.status


class RemoteCalls:
    """Requests of clients to one remote server."""

    def __init__(self, client: Client, name: str, upkeep: Upkeep) -> None:
        self._client = client
        self._name = name
        self._upkeep = upkeep
        self._relays = Relays()
        self._levels = LogLevels(client)
        self._lists: set[asyncio.Task[Any]] = set()

    @property
    def parked(self) -> int:
        """How many requests wait for stateless clients to come back."""
        return len(self._relays)

    async def stop(self) -> None:
        """Cancel the requests that are kept for stateless clients, and the lists that are still asked for."""
        await self._relays.stop()
        for task in self._lists:
            task.cancel()
        await asyncio.gather(*self._lists, return_exceptions=True)

    async def list(self, call: ClientCall[R], limit: float) -> R:
        """Return the response to a list request, which has ``limit`` seconds.

        If the caller is cancelled, the server is not told: it has answered before that would save anything, and servers
        of the official Python SDK 1.x end if a request is cancelled while they answer it, for all clients.

        Raises:
            TimeoutError: the limit has passed.
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
        """Turn errors of the server into errors for the client: its own as they are, others with its name.

        While the last attempt to connect has failed, no request is tried: that would be another attempt.
        """
        if self._upkeep.status.name == "failed":
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
            log.warning("%s: %s", self._name, error or "no answer in time")
            self._upkeep.check()
            raise ProviderUnavailable(self._name) from error

    async def send(
        self, label: str, request: Request, send: Send[T], *, repeatable: bool = True, as_task: bool = False
    ) -> T:
        """Send a request on behalf of a client, whom the server may ask and notify of progress meanwhile.

        ``label`` is the same each time that the request comes; ``as_task``: the client may get a task for it.
        """
        call = request.call
        timeout = None
        if request.deadline is not None:
            timeout = max(0.0, request.deadline - asyncio.get_running_loop().time())
        if call is None or request.contexts is None or request.channel is None:
            options: CallOptions = {"timeout": timeout, "meta": meta_of(request, None)}
            with self.errors():
                return await send(None, options)
        stateless = self._client.session.connection is not None and self._client.session.stateless
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

        logs = level is not None and self._client.session.capabilities.logging is not None
        relays = logs or can_be_asked(request)
        with self.errors():
            if logs and not stateless and call.peer.log_level is not None:
                await self._levels.want(call.peer.log_level)
            if not relays and call.progress_token is None and not as_task:
                if stateless or not call.peer.revision.stateless:
                    return await send(None, options)
                refusing = Relay(self._name, call.connection)
                try:
                    return await send(refusing, {**options, "handlers": RELAYED, "user_data": refusing})
                except PeerError as error:
                    raise refusing.missing or error  # noqa: B904
            if not stateless and not self._attributes:
                await self._relays.drop_others(call.connection)
            return await self._relays.run(f"{self._name} {label}", request, relayed, repeatable=repeatable)

    @property
    def _attributes(self) -> bool:
        """Whether a question of the server comes on the stream of the request that has caused it."""
        connection = self._client.session.connection
        return connection is not None and connection.transport.streams

    def _capabilities(self, request: Request, *, as_task: bool) -> ClientCapabilities:
        """Return the capabilities of the client of a request, as far as they can be passed on.

        https://modelcontextprotocol.io/specification/2026-07-28/basic#meta
        """
        assert request.call is not None
        ours, theirs = self._client.session.handlers.capabilities({}), request.call.peer.capabilities
        if theirs is None:
            theirs = ClientCapabilities()
        extensions = {name: each for name, each in (theirs.extensions or {}).items() if name != TASKS.name}
        if as_task:
            extensions[TASKS.name] = {}
        return ClientCapabilities(
            elicitation=None if ours.elicitation is None else theirs.elicitation,
            sampling=None if ours.sampling is None else theirs.sampling,
            roots=None if ours.roots is None else theirs.roots,
            experimental=theirs.experimental,
            extensions=extensions or None,
        )


def can_be_asked(request: Request) -> bool:
    """Return whether the client of a request can be asked anything."""
    assert request.call is not None
    capabilities = request.call.peer.capabilities
    return capabilities is not None and any(
        each is not None for each in (capabilities.elicitation, capabilities.sampling, capabilities.roots)
    )


def meta_of(request: Request, level: LoggingLevel | None, *, stateless: bool = False) -> dict[str, Any] | None:
    """Return the keys of ``_meta`` that are passed on; to a stateless server, with the log level of the client."""
    passed: dict[str, Any] = {}
    if request.call is not None and request.call.params.meta:
        passed = {key: value for key, value in request.call.meta.items() if key not in OWN_META}
    if stateless:
        passed[LOG_LEVEL] = level
    if request.call is not None and (found := unknown_params(request.call)):
        passed[unknown.KEY] = found
    return passed or None


def unknown_params(call: Call) -> dict[str, Any] | None:
    """Return the parameters of a request that are not known here."""
    kind: type[msgspec.Struct] = type(call.params)
    if unknown.is_whole(call.params, call.raw):
        return None
    known = unknown.members(kind)
    given = msgspec.json.decode(call.raw, type=dict[str, Raw])
    found = {name: value for name, value in given.items() if name not in known and name != "_meta"}
    return found or None


def required_task(error: MCPError) -> bool:
    """Return whether a request was refused as its client has no tasks (2026-07-28)."""
    if not isinstance(error, PeerError) or error.code != MissingCapability.code or not isinstance(error.data, dict):
        return False
    required = error.data.get("requiredCapabilities")
    extensions = required.get("extensions") if isinstance(required, dict) else None
    return isinstance(extensions, dict) and TASKS.name in extensions


def with_tasks(options: CallOptions) -> CallOptions:
    """Return the options of a request that declares the tasks extension besides its other capabilities."""
    declared = options.get("capabilities") or ClientCapabilities()
    extensions = {**(declared.extensions or {}), TASKS.name: dict[str, Any]()}
    return {**options, "capabilities": msgspec.structs.replace(declared, extensions=extensions)}
