"""FastMCP: server with decorators for tools, resources and prompts, over the low-level server of ``mcp`` 1.x."""

from __future__ import annotations

import copy
import secrets
from collections.abc import AsyncIterator, Callable, Collection, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from typing import TYPE_CHECKING, Any, Generic, Literal, TypeVar

from carrel.compat.fastmcp.exceptions import NotFoundError
from carrel.compat.fastmcp.prompts.prompt import Prompt
from carrel.compat.fastmcp.resources.resource import Resource
from carrel.compat.fastmcp.resources.security import DEFAULT_RESOURCE_SECURITY
from carrel.compat.fastmcp.resources.template import ResourceTemplate
from carrel.compat.fastmcp.server.answering import Answering
from carrel.compat.fastmcp.server.auth.access import Authorized
from carrel.compat.fastmcp.server.caching import build_cache_hints
from carrel.compat.fastmcp.server.completions import Completing
from carrel.compat.fastmcp.server.context import set_log_level
from carrel.compat.fastmcp.server.extended import Extended
from carrel.compat.fastmcp.server.handlers import LowLevelServer, register
from carrel.compat.fastmcp.server.http import Running
from carrel.compat.fastmcp.server.providers.base import Provider
from carrel.compat.fastmcp.server.providers.fastmcp_provider import FastMCPProvider
from carrel.compat.fastmcp.server.providers.local_provider import DuplicateBehavior, LocalProvider
from carrel.compat.fastmcp.server.transforms.namespace import Namespace
from carrel.compat.fastmcp.server.transforms.tool_transform import ToolTransform
from carrel.compat.fastmcp.server.transforms.transform import Transform
from carrel.compat.fastmcp.settings import settings
from carrel.compat.fastmcp.tools.tool import Tool
from carrel.compat.fastmcp.tools.tool_transform import ToolTransformConfig
from carrel.compat.fastmcp.utilities.components import read_model
from carrel.compat.fastmcp.utilities.key_value import MemoryStore
from carrel.compat.fastmcp.utilities.types import NotSet
from carrel.compat.generation import fastmcp_generation
from carrel.compat.mcp.types import base
from carrel.protocol import VERSION

if TYPE_CHECKING:
    from carrel.compat.fastmcp.client.sampling import SamplingHandler
    from carrel.compat.fastmcp.server.sampling import Sampling

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
#: Arguments of ``OpenAPIProvider``.
ROUTING = ("route_maps", "route_map_fn", "mcp_component_fn", "mcp_names", "tags", "validate_output")
#: Arguments about the answers to sampling requests, without the client's model.
SAMPLING = ("sampling_handler", "sampling_handler_behavior")


class FastMCP(Authorized, Extended, Answering, Completing, Running, Generic[LifespanResultT]):
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
        providers: Sequence[Any] | None = None,
        transforms: Sequence[Transform] | None = None,
        on_duplicate: DuplicateBehavior | None = None,
        on_duplicate_tools: DuplicateBehavior | None = None,
        on_duplicate_resources: DuplicateBehavior | None = None,
        on_duplicate_prompts: DuplicateBehavior | None = None,
        mask_error_details: bool | None = None,
        include_tags: Collection[str] | None = None,
        exclude_tags: Collection[str] | None = None,
        dereference_schemas: bool = True,
        strict_input_validation: bool | None = None,
        list_page_size: int | None = None,
        tool_serializer: Callable[[Any], str] | None = None,
        dependencies: list[str] | None = None,
        include_fastmcp_meta: bool | None = None,
        tool_transformations: dict[str, ToolTransformConfig] | None = None,
        tasks: bool | None = None,
        resource_security: Any = NotSet,
        experimental_capabilities: dict[str, dict[str, Any]] | None = None,
        cache_ttl: int | None = None,
        cache_scope: Literal["public", "private"] | None = None,
        session_state_store: Any = None,
        **options: Any,
    ) -> None:
        _check_options(options)
        Answering.__init__(self)
        Running.__init__(self, {key: options.get(key) for key in DEFAULTS})
        self.auth = auth
        self.sampling_handler: SamplingHandler | None = options.get("sampling_handler")
        self.sampling_handler_behavior: str = options.get("sampling_handler_behavior") or "fallback"
        self.middleware = list(middleware or ())
        self.dependencies = dependencies or []
        kinds = {"tool": on_duplicate_tools, "resource": on_duplicate_resources, "prompt": on_duplicate_prompts}
        policies = {kind: policy or on_duplicate for kind, policy in kinds.items()}
        policies["template"] = policies["resource"]
        self.local_provider = LocalProvider(policies if any(kinds.values()) else on_duplicate or "warn")
        for provider in (self.local_provider, *(providers or ())):
            self.add_provider(provider)
        for transform in transforms or ():
            self.add_transform(transform)
        for name_, change in (tool_transformations or {}).items():
            self.add_tool_transformation(name_, change)
        if include_tags is not None:
            self.enable(tags=include_tags, only=True)
        if exclude_tags is not None:
            self.disable(tags=exclude_tags)
        self._serializer = tool_serializer
        self._tasks = tasks
        self._resource_security = resource_security if resource_security is not NotSet else _default_security()
        if list_page_size is not None and list_page_size <= 0:
            raise ValueError("list_page_size must be a positive integer")
        masks = settings.mask_error_details if mask_error_details is None else mask_error_details
        self._mask_error_details = masks
        strict = settings.strict_input_validation if strict_input_validation is None else strict_input_validation
        self.strict_input_validation = strict
        self._state_store = MemoryStore() if session_state_store is None else session_state_store
        self._given_store = session_state_store
        self._lifespan = lifespan
        self._lifespan_result: Any = None
        self._entered = 0
        self._leave = AsyncExitStack()
        self._mcp_server = LowLevelServer(
            name or self.generate_name(),
            version=VERSION if version is None else str(version),
            instructions=instructions,
            website_url=website_url,
            icons=None if icons is None else [base.Icon.model_validate(each) for each in read_model(icons)],
            lifespan=lambda _: self._live(),
        )
        self._mcp_server.guard = self._guard
        self._mcp_server.experimental = experimental_capabilities
        self._mcp_server.begun = self._add_bundled
        self._mcp_server.cache_hints = build_cache_hints(cache_ttl, cache_scope)
        register(self, self._mcp_server, strict=strict, page=list_page_size, inline=dereference_schemas)
        for tool in tools or ():
            self.add_tool(tool)
        self._add_bundled()

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name!r})"

    def _sampling(self, context: Any, *options: Any, **tools: Any) -> Sampling:
        """Return a sampling request of a handler."""
        from carrel.compat.fastmcp.server.sampling import Sampling  # few programs use it

        return Sampling(context, *options, **tools)

    @property
    def _local_provider(self) -> LocalProvider:
        return self.local_provider

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
    async def _live(self, *, mounted: bool = False) -> AsyncIterator[Any]:
        """Enter the lifespan, once for all who are in it at the same time.

        The lifespans of extensions belong to the server that runs, not to a server that is mounted.
        """
        self._entered += 1
        try:
            if self._entered == 1:
                await self._leave.enter_async_context(self.lifespan())
                if self._lifespan is not None:
                    self._lifespan_result = await self._leave.enter_async_context(self._lifespan(self))
                for extension in () if mounted else self._extensions.values():
                    await self._leave.enter_async_context(extension.lifespan())
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

    # Components of the server itself

    def add_tool(self, tool: Tool | Function) -> Tool:
        """Register a tool or a function."""
        return self.local_provider.add_tool(tool)

    def remove_tool(self, name: str, version: str | None = None) -> None:
        """Remove a tool.

        Raises:
            NotFoundError: no tool has this name.
        """
        try:
            self.local_provider.remove_tool(name, version)
        except KeyError as error:
            raise NotFoundError(error.args[0]) from None

    def tool(self, name_or_fn: Any = None, *, name: str | None = None, **details: Any) -> Any:
        """Register the decorated function as a tool.

        Raises:
            TypeError: the argument is neither a name nor a function, or there are two names.
        """
        details.setdefault("serializer", self._serializer)
        details.setdefault("task", self._tasks)
        return self.local_provider.tool(name_or_fn, name=name, **details)

    def add_resource(self, resource: Resource | Function) -> Resource | ResourceTemplate:
        """Register a resource, or a function that is marked as one."""
        return self.local_provider.add_resource(resource)

    def add_template(self, template: ResourceTemplate) -> ResourceTemplate:
        """Register a resource template."""
        return self.local_provider.add_template(template)

    def resource(self, uri: str, **details: Any) -> Callable[[Function], Function]:
        """Register the decorated function as a resource, or as a template if the URI has variables."""
        return self.local_provider.resource(uri, **details)

    def add_prompt(self, prompt: Prompt | Function) -> Prompt:
        """Register a prompt or a function."""
        return self.local_provider.add_prompt(prompt)

    def prompt(self, name_or_fn: Any = None, *, name: str | None = None, **details: Any) -> Any:
        """Register the decorated function as a prompt."""
        return self.local_provider.prompt(name_or_fn, name=name, **details)

    # Other servers and providers

    def add_provider(self, provider: Any, *, namespace: str = "") -> None:
        """Add a provider or a server, with a namespace in names and URIs."""
        if isinstance(provider, FastMCP):
            provider._mcp_server.served = True
            self._routes += provider._routes
            provider = FastMCPProvider(provider)
        super().add_provider(provider, namespace=namespace)
        if hasattr(self, "_mcp_server"):
            self._add_bundled()

    def mount(
        self,
        server: Any,
        namespace: Any = None,
        as_proxy: bool | None = None,
        tool_names: dict[str, str] | None = None,
        *,
        prefix: str | None = None,
        **_: Any,
    ) -> None:
        """Add all that another server has, now and later, with a namespace in names and URIs.

        Raises:
            TypeError: it is no ``FastMCP``.
            ValueError: it is this server, or there are two namespaces.
        """
        if isinstance(server, str):  # the order of arguments of 2.x
            server, namespace = namespace, server
        if not isinstance(server, FastMCP):
            raise TypeError(f"mount takes a FastMCP server, not {server!r}")
        if server is self:
            raise ValueError("Cannot mount a server onto itself")
        if prefix is not None and namespace is not None:
            raise ValueError("Cannot specify both 'prefix' and 'namespace'")
        server._mcp_server.served = True
        self._routes += server._routes
        provider: Provider = FastMCPProvider(server)
        if tool_names:
            names = {old: ToolTransformConfig(name=new) for old, new in tool_names.items()}
            provider = provider.wrap_transform(ToolTransform(names))
        self.add_provider(provider, namespace=namespace or prefix or "")

    async def import_server(self, server: Any, prefix: Any = None, **_: Any) -> None:
        """Copy what another server has now, with a prefix in names and URIs."""
        if isinstance(server, str):
            server, prefix = prefix, server
        server._mcp_server.served = True
        change = Namespace(prefix).change if prefix else copy.copy
        for kind, add in (
            ("tool", self.add_tool),
            ("resource", self.add_resource),
            ("resource_template", self.add_template),
            ("prompt", self.add_prompt),
        ):
            for each in await getattr(server, f"list_{kind}s")(run_middleware=False):
                add(change(each))

    def add_tool_transformation(self, tool_name: str, transformation: ToolTransformConfig) -> None:
        """Change a tool."""
        self.add_transform(ToolTransform({tool_name: transformation}))

    def remove_tool_transformation(self, tool_name: str) -> None:
        """Do nothing: transforms stay. Use ``disable`` to hide a tool."""

    @classmethod
    def from_openapi(
        cls, openapi_spec: dict[str, Any], client: Any = None, name: str = "OpenAPI Server", **options: Any
    ) -> FastMCP[Any]:
        """Return a server with the operations of an API that is described in OpenAPI 3."""
        from carrel.compat.fastmcp.server.providers.openapi.provider import OpenAPIProvider

        chosen = {key: options.pop(key) for key in ROUTING if key in options}
        return cls(name=name, providers=[OpenAPIProvider(openapi_spec, client, **chosen)], **options)

    @classmethod
    def from_fastapi(
        cls,
        app: Any,
        name: str | None = None,
        httpx_client_kwargs: dict[str, Any] | None = None,
        **options: Any,
    ) -> FastMCP[Any]:
        """Return a server with the operations of an application of FastAPI, in this process."""
        from carrel.compat.fastmcp.server.providers.openapi.provider import asgi_client

        return cls.from_openapi(app.openapi(), asgi_client(app, httpx_client_kwargs), name or app.title, **options)

    @classmethod
    def as_proxy(cls, backend: Any, **options: Any) -> FastMCPProxy:
        """Return a server in front of another one."""
        return create_proxy(backend, **options)

    @classmethod
    def generate_name(cls, name: str | None = None) -> str:
        """Return a name with random digits."""
        return "-".join([cls.__name__, *([name] if name else []), secrets.token_hex(2)])


def _check_options(options: dict[str, Any]) -> None:
    """Check the arguments of a server that have no parameter."""
    for name in options:
        if name not in DEFAULTS and name not in SAMPLING:
            raise TypeError(f"FastMCP() got an unexpected keyword argument {name!r}")


def _default_security() -> Any:
    """Return the checks of templates' variables, which 3.x does not have."""
    return DEFAULT_RESOURCE_SECURITY if fastmcp_generation() > 3 else None


class FastMCPProxy(FastMCP[Any]):
    """Server in front of another one, which ``client_factory`` reaches."""

    def __init__(self, *, client_factory: Any, provider_error_strategy: Any = "warn", **options: Any) -> None:
        from carrel.compat.fastmcp.server.providers.remote import ProxyProvider  # which loads the client

        super().__init__(**options)
        self.provider_error_strategy = provider_error_strategy
        self.client_factory = client_factory
        self.add_provider(ProxyProvider(client_factory))


def create_proxy(target: Any, **options: Any) -> FastMCPProxy:
    """Return a server in front of another one: a server, client, transport, URL, file or configuration."""
    from carrel.compat.fastmcp.server.providers.remote import client_factory_of

    return FastMCPProxy(client_factory=client_factory_of(target), **options)
