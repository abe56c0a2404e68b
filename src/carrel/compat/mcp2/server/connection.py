"""Connection of a client, for handlers: the client's declaration, and messages that belong to no request."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AsyncExitStack
from functools import cached_property
from typing import Any

import anyio
import msgspec
from typing_extensions import deprecated

from carrel.compat.exchange import notification
from carrel.compat.loggers import get_logger
from carrel.compat.mcp2 import types
from carrel.compat.mcp2.shared.deprecation import LOGGING
from carrel.compat.mcp2.shared.exceptions import MCPDeprecationWarning, NoBackChannelError
from carrel.compat.mcp2.shared.subscriptions import LISTEN_STREAM_METHODS
from carrel.compat.wire import model_of
from carrel.protocol.channel import Channel
from carrel.protocol.server import Call
from carrel.wire.utilities import SEVERITY

__all__ = ["Connection", "allowed_log_levels", "includes"]

logger = get_logger(__name__)


def allowed_log_levels(version: str, meta: Mapping[str, Any] | None) -> frozenset[str]:
    """Return the levels of log messages that a client wants: all, or from 2026-07-28 on those its request asks for."""
    from carrel.compat.mcp2.types.base import LOG_LEVEL_META_KEY
    from carrel.compat.mcp2.types.version import MODERN_PROTOCOL_VERSIONS

    if version not in MODERN_PROTOCOL_VERSIONS:
        return frozenset(SEVERITY)
    least = SEVERITY.get((meta or {}).get(LOG_LEVEL_META_KEY, ""))
    return frozenset() if least is None else frozenset(level for level, value in SEVERITY.items() if value >= least)


def includes(declared: types.ClientCapabilities | None, wanted: types.ClientCapabilities) -> bool:
    """Return whether a client declared all capabilities in ``wanted``; of an extension, its name is enough."""
    if declared is None:
        return False
    have, want = declared.model_dump(exclude_none=True), wanted.model_dump(exclude_none=True)
    for name in set(want.pop("extensions", {})):
        if name not in have.get("extensions", {}):
            return False
    if "experimental" in want and any(
        have.get("experimental", {}).get(name) != value for name, value in want.pop("experimental").items()
    ):
        return False
    return _within(want, have)


def _within(want: Mapping[str, Any], have: Mapping[str, Any]) -> bool:
    for name, value in want.items():
        if isinstance(value, dict):
            if name not in have or (name != "elicitation" and not _within(value, have[name])):
                return False
        elif value and not have.get(name):
            return False
    return True


class Connection:
    """Connection of one client; of a client of 2026-07-28, of one request."""

    def __init__(self, call: Call) -> None:
        peer = call.peer
        self._channel: Channel | None = call.client.channel
        self._stateless = peer.revision.stateless
        self.session_id: str | None = call.client.session_id or None
        self.protocol_version: str = peer.revision.name
        self.initialized = anyio.Event()
        self.initialized.set()
        self.state: dict[str, Any] = {}
        """Values that handlers keep while the client is connected."""
        self.exit_stack = AsyncExitStack()
        """Cleanup for when the client is gone."""
        self._peer = peer

    @cached_property
    def client_capabilities(self) -> types.ClientCapabilities | None:
        """Capabilities that the client declared."""
        declared = self._peer.capabilities
        return None if declared is None else model_of(declared, types.ClientCapabilities)

    @cached_property
    def client_params(self) -> types.InitializeRequestParams | None:
        """Parameters of ``initialize`` that the client sent, or would send; None without its name."""
        if self._peer.client is None or self.client_capabilities is None:
            return None
        return types.InitializeRequestParams(
            protocol_version=self.protocol_version,
            capabilities=self.client_capabilities,
            client_info=model_of(self._peer.client, types.Implementation),
        )

    @property
    def has_standalone_channel(self) -> bool:
        """Whether messages that belong to no request can be sent."""
        return self._channel is not None

    @property
    def initialize_accepted(self) -> bool:
        """Whether the handshake is done, which it is for handlers."""
        return True

    def check_capability(self, capability: types.ClientCapabilities) -> bool:
        """Return whether the client declared all capabilities in ``capability``."""
        return includes(self.client_capabilities, capability)

    async def send_raw_request(self, method: str, params: Mapping[str, Any] | None, opts: Any = None) -> dict[str, Any]:
        """Raise an error: requests to the client belong to the request that is answered.

        Raises:
            NoBackChannelError: always.
        """
        raise NoBackChannelError(method)

    async def notify(self, method: str, params: Mapping[str, Any] | None, opts: Any = None) -> None:
        """Send a notification that belongs to no request, if the client can receive it."""
        if self._channel is None or (self._stateless and method in LISTEN_STREAM_METHODS):
            logger.debug("dropped %s: there is no stream for it", method)
            return
        self._channel.send(notification(method, None if params is None else msgspec.json.encode(params)))
        await self._channel.drain()

    @deprecated(LOGGING, category=MCPDeprecationWarning)
    async def log(
        self, level: str, data: Any, logger: str | None = None, *, meta: dict[str, Any] | None = None
    ) -> None:
        """Send a log message, to clients of the revisions with a handshake."""
        if level in allowed_log_levels(self.protocol_version, None):
            named = {} if logger is None else {"logger": logger}
            await self.notify("notifications/message", {"level": level, "data": data, **named, **_meta(meta)})

    async def send_tool_list_changed(self, *, meta: dict[str, Any] | None = None) -> None:
        """Notify the client that the list of tools has changed."""
        await self.notify("notifications/tools/list_changed", _meta(meta) or None)

    async def send_prompt_list_changed(self, *, meta: dict[str, Any] | None = None) -> None:
        """Notify the client that the list of prompts has changed."""
        await self.notify("notifications/prompts/list_changed", _meta(meta) or None)

    async def send_resource_list_changed(self, *, meta: dict[str, Any] | None = None) -> None:
        """Notify the client that the list of resources has changed."""
        await self.notify("notifications/resources/list_changed", _meta(meta) or None)

    async def send_resource_updated(self, uri: str, *, meta: dict[str, Any] | None = None) -> None:
        """Notify the client that a resource has changed."""
        await self.notify("notifications/resources/updated", {"uri": uri, **_meta(meta)})


def _meta(meta: dict[str, Any] | None) -> dict[str, Any]:
    return {"_meta": meta} if meta else {}
