"""Registration of extensions: their methods, and their wrappers of tool calls."""

from __future__ import annotations

import weakref
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from carrel.compat.fastmcp.server.context import Context
from carrel.log import Log

if TYPE_CHECKING:
    from carrel.compat.fastmcp.server.handlers import LowLevelServer

__all__ = ["Extended"]

logger = Log("fastmcp.server")


class Extended:
    """Server with extensions. A tool call passes the first extension first."""

    _mcp_server: LowLevelServer
    _entered: int

    def add_extension(self, extension: Any) -> None:
        """Register an extension, in place of one that came with a provider.

        The server that runs has to have it: from a mounted server, it takes over extensions with ``auto_register``.

        Raises:
            RuntimeError: the server runs already.
            TypeError: the identifier has no prefix.
            ValueError: there is such an extension, it belongs to another server, or one of its methods is taken.
        """
        from carrel.compat.fastmcp.server.extensions import validate_extension_identifier  # loads ``mcp`` 2

        identifier = extension.identifier
        validate_extension_identifier(identifier, owner=type(extension).__name__)
        if identifier in self._extensions and identifier not in self._bundled:
            raise ValueError(f"An extension {identifier!r} is already registered.")
        if self._entered:
            raise RuntimeError(f"{identifier!r} must be registered earlier: the server's lifespan has already started")
        self._bind(extension)
        self._bundled.discard(identifier)

    def required_extensions(self) -> Sequence[Any]:
        """Return the extensions that each server with this server's components has too."""
        own = [each for each in self._extensions.values() if each.auto_register]
        known = {each.identifier for each in own}
        more: Sequence[Any] = super().required_extensions()  # type: ignore[misc]
        return [*own, *(each for each in more if each.identifier not in known)]

    def _add_bundled(self) -> None:
        """Register clones of the extensions that come with providers.

        Raises:
            ValueError: one of them may only be registered explicitly.
        """
        more: Sequence[Any] = super().required_extensions()  # type: ignore[misc]
        for extension in more:
            identifier = extension.identifier
            known = self._extensions.get(identifier)
            if known is not None:
                if identifier in self._bundled and known.settings() != extension.settings():
                    logger.warning("Conflicting bundled configurations of %r: the first one stays", identifier)
                continue
            if not extension.auto_register:
                raise ValueError(f"{identifier!r} has no auto_register: register it with add_extension")
            self._bind(extension.clone())
            self._bundled.add(identifier)

    def _bind(self, extension: Any) -> None:
        from carrel.compat.mcp2.server.extension import only_in_revisions  # which loads the types of ``mcp`` 2

        identifier, added = extension.identifier, self._mcp_server.added
        owner = None if extension._server_ref is None else extension._server_ref()
        if owner not in (None, self):
            raise ValueError(f"{identifier!r} is already bound to another server: register its clone() here")
        before, extension._server_ref = extension._server_ref, weakref.ref(self)
        replaced = self._extensions.get(identifier)
        others = added.keys() - {each.method for each in (replaced.methods() if replaced is not None else ())}
        bindings = {each.method: each for each in extension.methods()}
        if bindings.keys() & others:
            extension._server_ref = before
            raise ValueError(f"{identifier!r}: the method {min(bindings.keys() & others)!r} is already registered")
        for method in added.keys() - others:
            del added[method]
        self._extensions[identifier] = extension
        for method, binding in bindings.items():
            handle = binding.handler if binding.protocol_versions is None else only_in_revisions(binding)
            added[method] = binding.params_type, partial(self._handle_added, handle)

    @property
    def _extensions(self) -> dict[str, Any]:
        found: dict[str, Any] = self._mcp_server.extensions
        return found

    @property
    def _bundled(self) -> set[str]:
        """Identifiers of the extensions that came with providers."""
        found: set[str] = self._mcp_server.bundled
        return found

    async def _handle_added(self, handler: Callable[..., Awaitable[Any]], context: Any, params: Any) -> Any:
        async with Context(fastmcp=self):
            return await handler(context, params)

    def _intercepted(self, call: Callable[[Any], Awaitable[Any]]) -> Callable[[Any], Awaitable[Any]]:
        """Return a tool call inside of the extensions."""
        for extension in reversed(self._extensions.values()):
            call = partial(_intercept, extension, call)
        return call


def _intercept(extension: Any, call: Callable[[Any], Awaitable[Any]], context: Any) -> Awaitable[Any]:
    found: Awaitable[Any] = extension.intercept_tool_call(
        context.message, context.fastmcp_context, partial(call, context)
    )
    return found
