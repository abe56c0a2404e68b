"""Extensions of a server (SEP-2133): settings that it declares, methods, wrappers of tool calls, and a lifespan."""

from __future__ import annotations

import copy
import weakref
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext
from typing import Any, ClassVar, Self, TypeAlias

from carrel.compat.mcp2.server.extension import MethodBinding
from carrel.compat.mcp2.shared.extension import validate_extension_identifier
from carrel.compat.mcp2.types.base import CLIENT_CAPABILITIES_META_KEY

__all__ = [
    "MethodBinding",
    "ServerExtension",
    "ToolCallContinuation",
    "ToolCallOutcome",
    "read_client_extension_settings",
    "settings_in_meta",
    "validate_extension_identifier",
]

#: Result of a tool, or a model of an extension that is the result of the call.
ToolCallOutcome: TypeAlias = Any
ToolCallContinuation: TypeAlias = Callable[[], Awaitable[ToolCallOutcome]]


class ServerExtension:
    """Base of extensions. Each method has a default; ``identifier`` is such as "com.example/search"."""

    identifier: str
    auto_register: ClassVar[bool] = False
    """Whether a server on which the extension's server is mounted has the extension too."""
    _server_ref: weakref.ref[Any] | None = None

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if "identifier" in cls.__dict__:
            validate_extension_identifier(cls.identifier, owner=cls.__name__)

    def clone(self) -> Self:
        """Return a copy that belongs to no server."""
        found = copy.deepcopy(self)
        found._server_ref = None
        return found

    @property
    def server(self) -> Any:
        """The server that has the extension.

        Raises:
            RuntimeError: no server has it.
        """
        found = None if self._server_ref is None else self._server_ref()
        if found is None:
            raise RuntimeError(f"{self.identifier} is not bound to a server: call FastMCP.add_extension with it first")
        return found

    def settings(self) -> dict[str, Any]:
        """Return the settings that the server declares."""
        return {}

    def methods(self) -> Sequence[MethodBinding]:
        """Return the methods."""
        return ()

    def lifespan(self) -> AbstractAsyncContextManager[None]:
        """Return the context manager that is entered for as long as the server runs."""
        return nullcontext()

    async def intercept_tool_call(self, params: Any, context: Any, call_next: ToolCallContinuation) -> ToolCallOutcome:
        """Handle a tool call, around the tool and inside of the middleware."""
        return await call_next()

    def client_settings(self, ctx: Any) -> dict[str, Any] | None:
        """Return the settings with which the client declares the extension in a request, or None."""
        return read_client_extension_settings(ctx, self.identifier)


def read_client_extension_settings(ctx: Any, identifier: str) -> dict[str, Any] | None:
    """Return the settings with which the client declares an extension in a request, or None."""
    return settings_in_meta((ctx.params or {}).get("_meta") or ctx.meta, identifier)


def settings_in_meta(meta: Any, identifier: str) -> dict[str, Any] | None:
    """Return the settings of an extension in the ``_meta`` of a request, or None."""
    found = meta
    for key in (CLIENT_CAPABILITIES_META_KEY, "extensions", identifier):
        found = found.get(key) if hasattr(found, "get") else None
    return dict(found) if isinstance(found, Mapping) else None
