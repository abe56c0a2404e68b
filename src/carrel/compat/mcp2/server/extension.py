"""Extensions of a server: tools, resources and methods under one identifier (SEP-2133)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, TypeAlias

from pydantic import BaseModel

from carrel.compat.mcp2 import types
from carrel.compat.mcp2.server.context import CallNext, HandlerResult, ServerRequestContext
from carrel.compat.mcp2.shared.exceptions import MCPError
from carrel.compat.mcp2.shared.extension import validate_extension_identifier
from carrel.compat.mcp2.types.jsonrpc import METHOD_NOT_FOUND, MISSING_REQUIRED_CLIENT_CAPABILITY

__all__ = [
    "Extension",
    "MethodBinding",
    "RequestHandler",
    "ResourceBinding",
    "ToolBinding",
    "compose_tool_call_handler",
    "only_in_revisions",
    "require_client_extension",
    "validate_extension_identifier",
]

RequestHandler: TypeAlias = Callable[[ServerRequestContext[Any, Any], Any], Awaitable[HandlerResult]]


@dataclass(frozen=True)
class ToolBinding:
    """Tool of an extension, with its ``_meta`` and the other arguments of ``MCPServer.add_tool``."""

    fn: Callable[..., Any]
    meta: dict[str, Any] | None = None
    kwargs: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class ResourceBinding:
    """Resource of an extension."""

    resource: Any


@dataclass(frozen=True)
class MethodBinding:
    """Method of an extension, in some revisions or (None) in all.

    Raises:
        ValueError: the protocol has the method, or there are no revisions.
    """

    method: str
    params_type: type[BaseModel]
    handler: RequestHandler
    protocol_versions: frozenset[str] | None = None

    def __post_init__(self) -> None:
        from carrel.compat.mcp2.types.methods import SPEC_CLIENT_METHODS  # which loads the models of all methods

        if self.method in SPEC_CLIENT_METHODS:
            raise ValueError(
                f"MethodBinding cannot bind spec method {self.method!r}; extension methods are "
                "additive — use Extension.intercept_tool_call or Server.middleware to wrap core behaviour"
            )
        if self.protocol_versions is not None and not self.protocol_versions:
            raise ValueError(
                f"MethodBinding for {self.method!r} has an empty protocol_versions set, so it could "
                "never be served; use None to admit every version"
            )


class Extension:
    """Base of extensions. Each method has a default; ``identifier`` is such as "com.example/search"."""

    identifier: str

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        identifier = cls.__dict__.get("identifier")
        if identifier is not None:
            validate_extension_identifier(identifier, owner=cls.__name__)

    def settings(self) -> dict[str, Any]:
        """Return the settings that the server declares."""
        return {}

    def tools(self) -> Sequence[ToolBinding]:
        """Return the tools."""
        return ()

    def resources(self) -> Sequence[ResourceBinding]:
        """Return the resources."""
        return ()

    def methods(self) -> Sequence[MethodBinding]:
        """Return the methods."""
        return ()

    async def intercept_tool_call(
        self, params: types.CallToolRequestParams, ctx: ServerRequestContext[Any, Any], call_next: CallNext
    ) -> HandlerResult:
        """Handle a tool call, around its handler."""
        return await call_next(ctx)


def compose_tool_call_handler(extensions: Sequence[Extension], handler: RequestHandler) -> RequestHandler:
    """Return the handler of tool calls inside the extensions, of which the first is the outermost."""

    async def handle(ctx: ServerRequestContext[Any, Any], params: types.CallToolRequestParams) -> HandlerResult:
        async def innermost(inner: ServerRequestContext[Any, Any]) -> HandlerResult:
            return await handler(inner, params)

        chain: CallNext = innermost
        for extension in reversed(extensions):
            chain = partial(_intercept, extension, params, chain)
        return await chain(ctx)

    return handle


def _intercept(
    extension: Extension, params: types.CallToolRequestParams, call_next: CallNext, ctx: Any
) -> Awaitable[HandlerResult]:
    return extension.intercept_tool_call(params, ctx, call_next)


def only_in_revisions(method: MethodBinding) -> RequestHandler:
    """Return the handler of a method that refuses requests of other revisions."""
    versions = method.protocol_versions or frozenset()

    async def handle(ctx: ServerRequestContext[Any, Any], params: Any) -> HandlerResult:
        if ctx.protocol_version not in versions:
            raise MCPError(METHOD_NOT_FOUND, "Method not found", method.method)
        return await method.handler(ctx, params)

    return handle


def require_client_extension(ctx: ServerRequestContext[Any, Any], identifier: str) -> None:
    """Check that the client declared an extension.

    Raises:
        MCPError: it did not.
    """
    declared = ctx.session.client_capabilities
    if declared is None or identifier not in (declared.extensions or {}):
        needed = types.ClientCapabilities(extensions={identifier: {}})
        data = types.MissingRequiredClientCapabilityErrorData(required_capabilities=needed)
        raise MCPError(
            MISSING_REQUIRED_CLIENT_CAPABILITY,
            f"Client did not declare required extension {identifier!r}",
            data.model_dump(by_alias=True, mode="json", exclude_none=True),
        )
