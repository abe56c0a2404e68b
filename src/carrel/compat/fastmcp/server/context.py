"""Context of a request, for functions with a parameter of this type."""

from __future__ import annotations

import uuid
from collections.abc import Awaitable, Generator, Sequence
from contextvars import ContextVar, Token
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias
from weakref import WeakKeyDictionary

from pydantic import AnyUrl
from pydantic_core import PydanticSerializationError, to_jsonable_python

from carrel.compat.application import request_ctx
from carrel.compat.exchange import current_exchange
from carrel.compat.fastmcp.server.elicitation import (
    CancelledElicitation,
    DeclinedElicitation,
    handle_elicit_accept,
    parse_elicit_response_type,
)
from carrel.compat.fastmcp.server.sampling_result import SampleStep, SamplingResult
from carrel.compat.fastmcp.server.transforms.visibility import Visibility
from carrel.compat.mcp import types
from carrel.wire.base import LoggingLevel

__all__ = ["STATES", "Context", "current_context", "request_ctx", "reset_transport", "set_log_level", "set_transport"]

Level: TypeAlias = LoggingLevel

current_context: ContextVar[Context | None] = ContextVar("current_context", default=None)
"""Context of the request that is being answered."""

#: State by session; sessions of stateless clients live as long as one request.
_states: WeakKeyDictionary[Any, dict[str, Any]] = WeakKeyDictionary()
_session_ids: WeakKeyDictionary[Any, str] = WeakKeyDictionary()
_visibilities: WeakKeyDictionary[Any, list[Visibility]] = WeakKeyDictionary()
_levels: WeakKeyDictionary[Any, int] = WeakKeyDictionary()
#: Name of the collection of values in the store of a server.
STATES = "fastmcp_state"
#: How long the store of a server keeps a value after it was set.
STATE_SECONDS = 86_400
LEVELS = ("debug", "info", "notice", "warning", "error", "critical", "alert", "emergency")


_transport: ContextVar[str | None] = ContextVar("_transport", default=None)


def set_transport(transport: str) -> Token[str | None]:
    """Set the transport that contexts name, until ``reset_transport``."""
    return _transport.set(transport)


def reset_transport(token: Token[str | None]) -> None:
    """Undo ``set_transport``."""
    _transport.reset(token)


def set_log_level(session: Any, level: str) -> None:
    """Set the level from which on a session gets log messages."""
    _levels[session] = LEVELS.index(level)


class Done:
    """Awaitable of something that is done already, so that it may be awaited or not."""

    def __await__(self) -> Generator[Any, None, None]:
        return iter(())  # type: ignore[return-value]


@dataclass
class LogData:
    """Data of a log message."""

    msg: str
    extra: dict[str, Any] | None = None


class Context:
    """Context of a request: log messages, progress, requests to the client, state, and the server's own resources."""

    def __init__(self, fastmcp: Any, session: Any = None) -> None:
        self._fastmcp = fastmcp
        self._session = session
        self._own_state: dict[str, Any] = {}
        self._tokens: list[Token[Context | None]] = []
        self.input_responses: dict[str, Any] | None = None
        """Responses to the requests of the ``InputRequiredResult`` that the function returned last."""
        self.request_state: str | None = None
        """``request_state`` of that ``InputRequiredResult``."""

    async def __aenter__(self) -> Context:
        outer = current_context.get()
        if outer is not None:
            self._own_state = outer._own_state
            self._session = self._session or outer._session
        self._tokens.append(current_context.set(self))
        return self

    async def __aexit__(self, *error: object) -> None:
        current_context.reset(self._tokens.pop())

    @property
    def fastmcp(self) -> Any:
        """The server."""
        return self._fastmcp

    @property
    def request_context(self) -> Any:
        """The context in the terms of the low-level server; None outside of a request."""
        return request_ctx.get(None)

    @property
    def lifespan_context(self) -> Any:
        """Value that the lifespan of the server yielded."""
        found = self._fastmcp._lifespan_result
        return {} if found is None else found

    @property
    def session(self) -> Any:
        """Session of the client.

        Raises:
            RuntimeError: no request is being answered.
        """
        found = self.request_context
        if found is not None:
            return found.session
        if self._session is None:
            raise RuntimeError("session is not available because the MCP session has not been established yet.")
        return self._session

    @property
    def transport(self) -> str | None:
        """The transport that the server runs on; None in tests."""
        found: str | None = self._fastmcp._transport
        return _transport.get() or found

    @property
    def request_id(self) -> str:
        """Id of the request.

        Raises:
            RuntimeError: no request is being answered.
        """
        found = self.request_context
        if found is None:
            raise RuntimeError("request_id is not available because the MCP session has not been established yet.")
        return str(found.request_id)

    @property
    def client_id(self) -> str | None:
        """The ``client_id`` in ``_meta`` of the request."""
        found = self.request_context
        return None if found is None or found.meta is None else getattr(found.meta, "client_id", None)

    @property
    def session_id(self) -> str:
        """Id of the session: the transport's id, or a generated one."""
        found = self.request_context
        request = None if found is None else found.request
        given = None if request is None else request.headers.get("mcp-session-id")
        return given or _session_ids.setdefault(self.session, str(uuid.uuid4()))

    def _session_scope_key(self) -> str | None:
        """Return a key for values of a client: of its session, its user or its process; None if it is anonymous."""
        exchange = current_exchange.get(None)
        if exchange is None or not exchange.call.peer.revision.stateless:
            return self.session_id
        principal = exchange.context.principal
        if principal is not None:
            return f"user:{principal.user}"
        return None if self.transport in ("sse", "streamable-http") else "process"

    # Log messages and progress

    async def log(
        self,
        message: str,
        level: Level | None = None,
        logger_name: str | None = None,
        extra: dict[str, Any] | None = None,
    ) -> None:
        """Send a log message to the client."""
        if LEVELS.index(level or "info") < _levels.get(self.session, 0):
            return
        data = {"msg": message, "extra": None if extra is None else dict(extra)}
        await self.session.send_log_message(level or "info", data, logger_name, related_request_id=self.request_id)

    async def debug(self, message: str, logger_name: str | None = None, extra: dict[str, Any] | None = None) -> None:
        """Send a log message of level debug."""
        await self.log(message, "debug", logger_name, extra)

    async def info(self, message: str, logger_name: str | None = None, extra: dict[str, Any] | None = None) -> None:
        """Send a log message of level info."""
        await self.log(message, "info", logger_name, extra)

    async def warning(self, message: str, logger_name: str | None = None, extra: dict[str, Any] | None = None) -> None:
        """Send a log message of level warning."""
        await self.log(message, "warning", logger_name, extra)

    async def error(self, message: str, logger_name: str | None = None, extra: dict[str, Any] | None = None) -> None:
        """Send a log message of level error."""
        await self.log(message, "error", logger_name, extra)

    async def report_progress(self, progress: float, total: float | None = None, message: str | None = None) -> None:
        """Send a progress notification, if the client requested progress."""
        found = self.request_context
        meta = None if found is None else found.meta
        if meta is not None and meta.progressToken is not None:
            await self.session.send_progress_notification(
                meta.progressToken, progress, total, message, related_request_id=self.request_id
            )

    async def send_notification(self, notification: Any) -> None:
        """Send a notification to the client."""
        await self.session.send_notification(notification)

    async def send_tool_list_changed(self) -> None:
        """Notify the client that the list of tools has changed."""
        await self.session.send_tool_list_changed()

    async def send_resource_list_changed(self) -> None:
        """Notify the client that the list of resources has changed."""
        await self.session.send_resource_list_changed()

    async def send_prompt_list_changed(self) -> None:
        """Notify the client that the list of prompts has changed."""
        await self.session.send_prompt_list_changed()

    async def close_sse_stream(self) -> None:
        """Close the SSE stream of the request: the client reconnects for the rest."""
        close = None if self.request_context is None else self.request_context.close_sse_stream
        if close is not None:
            await close()

    # The server's own

    async def list_resources(self) -> list[types.Resource]:
        """Return the resources of the server."""
        return [each.to_mcp_resource() for each in await self._fastmcp.list_resources()]

    async def list_prompts(self) -> list[types.Prompt]:
        """Return the prompts of the server."""
        return [each.to_mcp_prompt() for each in await self._fastmcp.list_prompts()]

    async def get_prompt(self, name: str, arguments: dict[str, Any] | None = None) -> types.GetPromptResult:
        """Return the messages of a prompt of the server."""
        found: types.GetPromptResult = (await self._fastmcp.render_prompt(name, arguments)).to_mcp_prompt_result()
        return found

    async def read_resource(self, uri: str | AnyUrl) -> Any:
        """Read a resource of the server."""
        return await self._fastmcp.read_resource(str(uri))

    # State

    def _state(self) -> dict[str, Any]:
        try:
            return _states.setdefault(self.session, {})
        except RuntimeError:
            return self._own_state

    def _shared(self, key: str) -> tuple[Any, str] | None:
        """Return the ``session_state_store`` and the key of a value in it; None without a store."""
        scope = None if self._fastmcp._given_store is None else self._session_scope_key()
        return None if scope is None else (self._fastmcp._given_store, f"{scope}:{key}")

    def set_state(self, key: str, value: Any, *, serializable: bool = True) -> Awaitable[None]:
        """Keep a value for the session, or only for the request if it is not ``serializable``.

        Must be awaited if the server has a ``session_state_store``.

        Raises:
            TypeError: the value is ``serializable``, but cannot be encoded as JSON.
        """
        if not serializable:
            self._own_state[key] = value
            return Done()
        try:
            plain = to_jsonable_python(value)
        except PydanticSerializationError as error:
            raise TypeError(f"{error}: set_state(…, serializable=False) keeps it for the request") from None
        self._own_state.pop(key, None)
        if (shared := self._shared(key)) is not None:
            put: Awaitable[None] = shared[0].put(shared[1], {"value": plain}, collection=STATES, ttl=STATE_SECONDS)
            return put
        self._state()[key] = value
        return Done()

    async def get_state(self, key: str) -> Any:
        """Return a value, or None."""
        shared = None if key in self._own_state else self._shared(key)
        if shared is None:
            return self._own_state.get(key, self._state().get(key))
        found = await shared[0].get(shared[1], collection=STATES)
        return None if found is None else found["value"]

    async def delete_state(self, key: str) -> None:
        """Forget a value."""
        self._own_state.pop(key, None)
        self._state().pop(key, None)
        if (shared := self._shared(key)) is not None:
            await shared[0].delete(shared[1], collection=STATES)

    # Visibility

    @property
    def session_transforms(self) -> list[Visibility]:
        """Rules of the session, in their order."""
        found = self.request_context
        return [] if found is None else _visibilities.get(found.session, [])

    async def enable_components(self, **what: Any) -> None:
        """Show components to this session, as ``enable`` of a server does to all."""
        await self._add_visibility(Visibility(True, **what), what.get("components"))

    async def disable_components(self, **what: Any) -> None:
        """Hide components from this session, as ``disable`` of a server does from all."""
        await self._add_visibility(Visibility(False, **what), what.get("components"))

    async def reset_visibility(self) -> None:
        """Forget the rules of this session."""
        _visibilities.pop(self.session, None)
        await self._notify(None)

    async def _add_visibility(self, rule: Visibility, kinds: Any) -> None:
        _visibilities.setdefault(self.session, []).append(rule)
        await self._notify(kinds)

    async def _notify(self, kinds: Any) -> None:
        """Notify the client of the lists that have changed."""
        if kinds is None or "tool" in kinds:
            await self.send_tool_list_changed()
        if kinds is None or "resource" in kinds or "template" in kinds:
            await self.send_resource_list_changed()
        if kinds is None or "prompt" in kinds:
            await self.send_prompt_list_changed()

    # Requests to the client

    async def list_roots(self) -> list[types.Root]:
        """Return the roots of the client."""
        found: list[types.Root] = (await self.session.list_roots()).roots
        return found

    def client_extension_settings(self, identifier: str) -> dict[str, Any] | None:
        """Return the settings with which the client declares a protocol extension in this request, or None."""
        from carrel.compat.fastmcp.server.extensions import settings_in_meta  # which loads the types of ``mcp`` 2

        found = self.request_context
        return None if found is None else settings_in_meta(found.meta, identifier)

    def client_supports_extension(self, identifier: str) -> bool:
        """Return whether the client declares a protocol extension, in this request or when its session began."""
        if self.client_extension_settings(identifier) is not None:
            return True
        found = self.request_context
        told = None if found is None else found.session.client_params
        return told is not None and identifier in (getattr(told.capabilities, "extensions", None) or {})

    async def _take_input(self, result: Any) -> None:
        """Send the requests of an ``InputRequiredResult`` to the client, and keep their responses and the state."""
        from carrel.compat.mcp2 import types as newer  # the program has loaded it

        kinds = {
            "elicitation/create": newer.ElicitResult,
            "roots/list": newer.ListRootsResult,
            "sampling/createMessage": newer.CreateMessageResult,
        }
        requests = dict(result.input_requests or {})
        self.input_responses = {
            key: await self.session.send_request(each, kinds[each.method]) for key, each in requests.items()
        }
        self.request_state = result.request_state

    async def elicit(
        self,
        message: str,
        response_type: Any = dict,
        response_title: str | None = None,
        response_description: str | None = None,
        *,
        schema: Any = None,
        **_: Any,
    ) -> Any:
        """Ask the user to fill in a form.

        Raises:
            TypeError: a form cannot have a field of the type.
        """
        kind = response_type if schema is None else schema
        form = parse_elicit_response_type(None if kind is dict else kind, response_title, response_description)
        found = await self.session.elicit(message, form.schema, related_request_id=self.request_id)
        if found.action == "accept":
            return handle_elicit_accept(form, found.content or {})
        return DeclinedElicitation() if found.action == "decline" else CancelledElicitation()

    async def sample(
        self,
        messages: str | Sequence[str | types.SamplingMessage],
        system_prompt: str | None = None,
        include_context: Literal["none", "thisServer", "allServers"] | None = None,
        temperature: float | None = None,
        max_tokens: int | None = None,
        model_preferences: Any = None,
        *,
        result_type: Any = None,
        **options: Any,
    ) -> SamplingResult[Any]:
        """Request a message from the client's model, or from the ``sampling_handler`` of the server.

        The model may call ``tools=``, until it answers, or returns a result of ``result_type``.

        Raises:
            RuntimeError: the model returns no valid result, or calls tools again and again.
            ValueError: the client's model may not call tools.
        """
        sampling = self._fastmcp._sampling(
            self, system_prompt, temperature, max_tokens, model_preferences, include_context, **options
        )
        found: SamplingResult[Any] = await sampling.run(messages, result_type)
        return found

    async def sample_step(
        self,
        messages: str | Sequence[str | types.SamplingMessage],
        *,
        execute_tools: bool = True,
        **options: Any,
    ) -> SampleStep:
        """Request one message, and call the ``tools=`` that the model calls in it, with ``execute_tools``.

        Raises:
            ValueError: the client's model may not call tools.
        """
        step: SampleStep = await self._fastmcp._sampling(self, **options).step(messages, executes=execute_tools)
        return step
