"""FastMCP: server with decorators for tools, resources and prompts, over the low-level server of ``mcp`` 1.x."""

from __future__ import annotations

import inspect
import secrets
from collections.abc import AsyncIterator, Callable, Collection, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from typing import Any, Generic, NoReturn, TypeVar

from carrel.compat.fastmcp.exceptions import NotFoundError
from carrel.compat.fastmcp.prompts.prompt import Prompt
from carrel.compat.fastmcp.resources.resource import Resource
from carrel.compat.fastmcp.resources.template import ResourceTemplate
from carrel.compat.fastmcp.server.answering import Answering
from carrel.compat.fastmcp.server.auth.access import Authorized
from carrel.compat.fastmcp.server.context import set_log_level
from carrel.compat.fastmcp.server.handlers import LowLevelServer, register
from carrel.compat.fastmcp.server.http import Running
from carrel.compat.fastmcp.server.mounting import Mounted
from carrel.compat.fastmcp.server.registry import Duplicates, LocalProvider
from carrel.compat.fastmcp.server.visibility import Visibility
from carrel.compat.fastmcp.settings import settings
from carrel.compat.fastmcp.tools.tool import Tool, decorated
from carrel.compat.mcp.types import base
from carrel.protocol import VERSION

__all__ = ["FastMCP"]

LifespanResultT = TypeVar("LifespanResultT")
Function = Callable[..., Any]

#: Arguments of 2.x that are defaults of ``run``.
DEFAULTS = (
    "debug",
    "host",
    "json_response",
    "log_level",
    "message_path",
    "port",
    "sse_path",
    "stateless_http",
    "streamable_http_path",
)
INSTEAD = {
    "providers": "mount servers, or use carrel.Server and add_provider (docs/providers.md)",
    "session_state_store": "use the state of carrel.Server (docs/scale.md)",
    "tasks": "use carrel.Server and @app.tool(task=...)",
    "tool_transformations": "write a function that calls the tool",
    "sampling_handler": "give the handler to the client",
}
OPENAPI = "use carrel serve openapi+https://host/openapi.json, or carrel.sources.openapi (docs/sources/openapi.md)"


def _reject(what: str, instead: str) -> NoReturn:
    raise NotImplementedError(f"{what} is not mirrored by carrel.compat: {instead}")


class FastMCP(Authorized, Answering, Running, Generic[LifespanResultT]):
    """Server with decorators for tools, resources and prompts.

    Raises:
        NotImplementedError: an argument is not mirrored; the message says what to use.
        TypeError: there is no such argument.
    """

    def __init__(
        self,
        name: str | None = None,
        instructions: str | None = None,
        *,
        version: str | int | float | None = None,
        website_url: str | None = None,
        icons: list[base.Icon] | None = None,
        auth: Any = None,
        middleware: Sequence[Any] | None = None,
        lifespan: Callable[[Any], AbstractAsyncContextManager[Any]] | None = None,
        tools: Sequence[Tool | Function] | None = None,
        on_duplicate: Duplicates | None = None,
        on_duplicate_tools: Duplicates | None = None,
        on_duplicate_resources: Duplicates | None = None,
        on_duplicate_prompts: Duplicates | None = None,
        mask_error_details: bool | None = None,
        include_tags: Collection[str] | None = None,
        exclude_tags: Collection[str] | None = None,
        dereference_schemas: bool = True,
        strict_input_validation: bool | None = None,
        list_page_size: int | None = None,
        tool_serializer: Callable[[Any], str] | None = None,
        dependencies: list[str] | None = None,
        include_fastmcp_meta: bool | None = None,
        **options: Any,
    ) -> None:
        _check_options(options)
        super().__init__({key: options.get(key) for key in DEFAULTS})
        self.auth = auth
        self.middleware = list(middleware or ())
        self.dependencies = dependencies or []
        self.local_provider = LocalProvider(
            on_duplicate_tools or on_duplicate,
            on_duplicate_resources or on_duplicate,
            on_duplicate_prompts or on_duplicate,
        )
        self._mounts: list[Mounted] = []
        self._visibility = Visibility(include_tags, exclude_tags)
        self._serializer = tool_serializer
        masks = settings.mask_error_details if mask_error_details is None else mask_error_details
        self._mask_error_details = masks
        strict = settings.strict_input_validation if strict_input_validation is None else strict_input_validation
        self.strict_input_validation = strict
        self._lifespan = lifespan
        self._lifespan_result: Any = None
        self._entered = 0
        self._leave = AsyncExitStack()
        self._mcp_server = LowLevelServer(
            name or f"FastMCP-{secrets.token_hex(2)}",
            version=VERSION if version is None else str(version),
            instructions=instructions,
            website_url=website_url,
            icons=icons,
            lifespan=lambda _: self._live(),
        )
        register(self, self._mcp_server, strict=strict, page=list_page_size, inline=dereference_schemas)
        for tool in tools or ():
            self.add_tool(tool)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name!r})"

    @property
    def name(self) -> str:  # type: ignore[override]
        """Name of the server."""
        return self._mcp_server.name

    @property
    def version(self) -> str | None:
        """Version of the server."""
        return self._mcp_server.version

    @property
    def instructions(self) -> str | None:
        """Instructions for models."""
        return self._mcp_server.instructions

    @instructions.setter
    def instructions(self, value: str | None) -> None:
        self._mcp_server.instructions = value

    @property
    def website_url(self) -> str | None:
        """Website of the server."""
        return self._mcp_server.website_url

    @property
    def icons(self) -> list[base.Icon]:
        """Icons of the server."""
        return self._mcp_server.icons or []

    @asynccontextmanager
    async def _live(self) -> AsyncIterator[Any]:
        """Enter the lifespan, once for all who are in it at the same time."""
        self._entered += 1
        try:
            if self._entered == 1:
                for mounted in self._mounts:
                    await self._leave.enter_async_context(mounted.server._live())
                if self._lifespan is not None:
                    self._lifespan_result = await self._leave.enter_async_context(self._lifespan(self))
            yield {} if self._lifespan_result is None else self._lifespan_result
        finally:
            self._entered -= 1
            if self._entered == 0:
                leave, self._leave = self._leave, AsyncExitStack()
                await leave.aclose()
                self._lifespan_result = None

    async def _set_log_level(self, level: Any) -> None:
        set_log_level(self._mcp_server.request_context.session, level)

    def add_middleware(self, middleware: Any) -> None:
        """Add middleware, inside of what there is."""
        self.middleware.append(middleware)

    # Tools

    def add_tool(self, tool: Tool | Function) -> Tool:
        """Register a tool or a function."""
        added = tool if isinstance(tool, Tool) else Tool.from_function(tool, **_marked(tool))
        if self._serializer is not None and added.serializer is None:
            added.serializer = self._serializer
        return self.local_provider.tools.add(added)

    def remove_tool(self, name: str) -> None:
        """Remove a tool.

        Raises:
            NotFoundError: no tool has this name.
        """
        try:
            self.local_provider.remove_tool(name)
        except KeyError:
            raise NotFoundError(f"Tool {name!r} not found") from None

    def tool(self, name_or_fn: Any = None, *, name: str | None = None, **details: Any) -> Any:
        """Register the decorated function as a tool.

        Raises:
            TypeError: the argument is neither a name nor a function, or there are two names.
        """
        return _decorate("tool", name_or_fn, name, lambda fn, named: self._add_function(fn, named, details))

    def _add_function(self, fn: Function, name: str | None, details: dict[str, Any]) -> None:
        self.add_tool(Tool.from_function(fn, name=name, **_given(details)))

    # Resources

    def add_resource(self, resource: Resource | Function) -> Resource | ResourceTemplate:
        """Register a resource, or a function that is marked as one."""
        if isinstance(resource, Resource):
            return self.local_provider.resources.add(resource)
        mark = decorated(resource)
        if mark is None:
            raise TypeError(f"{resource!r} is neither a resource nor a function with the decorator resource")
        return self._add_resource_function(resource, **mark[1])

    def add_template(self, template: ResourceTemplate) -> ResourceTemplate:
        """Register a resource template."""
        return self.local_provider.templates.add(template)

    def _add_resource_function(self, fn: Function, uri: str, **details: Any) -> Resource | ResourceTemplate:
        if "{" in uri and "}" in uri:
            return self.add_template(ResourceTemplate.from_function(fn, uri, **_given(details)))
        resource = Resource.from_function(fn, uri, **_given(details))
        if resource.callee.parameters:
            return self.add_template(ResourceTemplate.from_function(fn, uri, **_given(details)))  # which says why not
        return self.local_provider.resources.add(resource)

    def resource(self, uri: str, **details: Any) -> Callable[[Function], Function]:
        """Register the decorated function as a resource, or as a template if the URI has variables.

        Raises:
            TypeError: there is no URI.
        """
        if not isinstance(uri, str):
            raise TypeError(
                "The @resource decorator was used incorrectly. "
                "It requires a URI as the first argument. Use @resource('uri') instead of @resource"
            )

        def decorator(fn: Function) -> Function:
            _check_function(fn, "resource")
            self._add_resource_function(fn, uri, **details)
            return fn

        return decorator

    # Prompts

    def add_prompt(self, prompt: Prompt | Function) -> Prompt:
        """Register a prompt or a function."""
        added = prompt if isinstance(prompt, Prompt) else Prompt.from_function(prompt, **_marked(prompt))
        return self.local_provider.prompts.add(added)

    def prompt(self, name_or_fn: Any = None, *, name: str | None = None, **details: Any) -> Any:
        """Register the decorated function as a prompt.

        Raises:
            TypeError: the argument is neither a name nor a function, or there are two names.
        """

        def add(fn: Function, named: str | None) -> None:
            self.add_prompt(Prompt.from_function(fn, name=named, **_given(details)))

        return _decorate("prompt", name_or_fn, name, add)

    # Visibility

    def enable(self, *, only: bool = False, **what: Any) -> FastMCP[LifespanResultT]:
        """Show components by ``names``, ``keys``, ``tags`` or kind (``components``); with ``only`` nothing else."""
        self._visibility.add(True, only=only, **_sets(what))
        return self

    def disable(self, **what: Any) -> FastMCP[LifespanResultT]:
        """Hide components by ``names``, ``keys``, ``tags`` or kind (``components``)."""
        self._visibility.add(False, **_sets(what))
        return self

    # Other servers

    def mount(
        self, server: Any, namespace: Any = None, as_proxy: bool | None = None, *, prefix: str | None = None, **_: Any
    ) -> None:
        """Add all that another server has, now and later, with a namespace in names and URIs.

        Raises:
            TypeError: it is no ``FastMCP``.
        """
        if isinstance(server, str):  # the order of arguments of 2.x
            server, namespace = namespace, server
        if not isinstance(server, FastMCP):
            raise TypeError(f"mount takes a FastMCP server, not {server!r}")
        server._mcp_server.served = True
        self._mounts.append(Mounted(server, namespace or prefix or None))
        self._routes += server._routes

    async def import_server(self, server: Any, prefix: Any = None, **_: Any) -> None:
        """Copy what another server has now, with a prefix in names and URIs."""
        if isinstance(server, str):
            server, prefix = prefix, server
        server._mcp_server.served = True
        mounted = Mounted(server, prefix)
        for tool in await server.list_tools(run_middleware=False):
            self.add_tool(mounted.outside(tool))
        for resource in await server.list_resources(run_middleware=False):
            self.add_resource(mounted.outside(resource))
        for template in await server.list_resource_templates(run_middleware=False):
            self.add_template(mounted.outside(template))
        for prompt in await server.list_prompts(run_middleware=False):
            self.add_prompt(mounted.outside(prompt))

    @classmethod
    def from_openapi(cls, *arguments: Any, **options: Any) -> NoReturn:
        """Raise NotImplementedError, which says what to use."""
        _reject("FastMCP.from_openapi", OPENAPI)

    @classmethod
    def from_fastapi(cls, *arguments: Any, **options: Any) -> NoReturn:
        """Raise NotImplementedError, which says what to use."""
        _reject("FastMCP.from_fastapi", OPENAPI)

    @classmethod
    def as_proxy(cls, *arguments: Any, **options: Any) -> NoReturn:
        """Raise NotImplementedError, which says what to use."""
        _reject("FastMCP.as_proxy", "use carrel.Server and add_provider(RemoteProvider(url)) (docs/providers.md)")

    def add_provider(self, provider: Any, *, namespace: str = "") -> None:
        """Mount a server; other providers are not mirrored."""
        if not isinstance(provider, FastMCP):
            _reject("add_provider", INSTEAD["providers"])
        self.mount(provider, namespace or None)

    def add_transform(self, transform: Any) -> NoReturn:
        """Raise NotImplementedError, which says what to use."""
        _reject("add_transform", "mount servers with a namespace, or show and hide components with enable and disable")


def _check_options(options: dict[str, Any]) -> None:
    """Check the arguments of a server that have no parameter."""
    for name, value in options.items():
        if name in INSTEAD:
            if value:
                _reject(f"FastMCP({name}=...)", INSTEAD[name])
        elif name not in DEFAULTS and name != "sampling_handler_behavior":
            raise TypeError(f"FastMCP() got an unexpected keyword argument {name!r}")


def _sets(what: dict[str, Any]) -> dict[str, Any]:
    return {key: {each} if isinstance(each, str) else each for key, each in what.items() if key != "version"}


def _marked(function: Function) -> dict[str, Any]:
    """Return the details that a decorator has left on a function."""
    mark = decorated(function)
    return {} if mark is None else _given(mark[1])


def _given(details: dict[str, Any]) -> dict[str, Any]:
    """Return the given details, without options that have no effect."""
    return {
        key: value
        for key, value in details.items()
        if (value is not None or key == "output_schema") and key not in ("app", "type")
    }


def _check_function(fn: Any, decorator: str) -> None:
    if isinstance(fn, classmethod):
        raise TypeError(
            f"To decorate a classmethod, first define the method and then call {decorator}() directly on it."
        )
    if not (inspect.isroutine(fn) or callable(fn) or isinstance(fn, staticmethod)):
        raise TypeError(f"The @{decorator} decorator takes a function, not {fn!r}")


def _decorate(kind: str, given: Any, name: str | None, add: Callable[[Function, str | None], None]) -> Any:
    """Return the decorator, or the function if it was called with one."""

    def decorator(fn: Function) -> Function:
        _check_function(fn, kind)
        add(fn, name or (given if isinstance(given, str) else None))
        return fn

    if isinstance(given, str) and name is not None:
        raise TypeError(f"Cannot specify both a name as first argument and as keyword argument: {given!r} and {name!r}")
    if given is None or isinstance(given, str):
        return decorator
    if not callable(given) and not isinstance(given, classmethod | staticmethod):
        raise TypeError(f"First argument to @{kind} must be a function, string, or None, got {type(given)}")
    return decorator(given)
