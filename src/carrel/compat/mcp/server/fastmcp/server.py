"""FastMCP: server with decorators for tools, resources and prompts, over the low-level server."""

from __future__ import annotations

import asyncio
import inspect
import re
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any, Generic, Literal, Unpack

import pydantic_core
from pydantic import AnyUrl

from carrel.compat.loggers import get_logger
from carrel.compat.mcp import types
from carrel.compat.mcp.server.fastmcp.apps import HTTPApps, StreamableHTTPASGIApp
from carrel.compat.mcp.server.fastmcp.context import Context, find_context_parameter
from carrel.compat.mcp.server.fastmcp.exceptions import ResourceError
from carrel.compat.mcp.server.fastmcp.prompts import Prompt, PromptManager
from carrel.compat.mcp.server.fastmcp.resources import FunctionResource, Resource, ResourceManager
from carrel.compat.mcp.server.fastmcp.settings import Settings, SettingsOptions, settings_of
from carrel.compat.mcp.server.fastmcp.tools import Tool, ToolManager
from carrel.compat.mcp.server.fastmcp.utilities.logging import configure_logging
from carrel.compat.mcp.server.lowlevel.helper_types import ReadResourceContents
from carrel.compat.mcp.server.lowlevel.server import LifespanResultT, lifespan
from carrel.compat.mcp.server.lowlevel.server import Server as MCPServer
from carrel.compat.mcp.server.stdio import stdio_server
from carrel.compat.mcp.server.transport_security import TransportSecuritySettings
from carrel.compat.mcp.types import base
from carrel.compat.mcp.types.base import Icon

__all__ = ["Context", "FastMCP", "Icon", "Settings", "StreamableHTTPASGIApp", "TransportSecuritySettings"]

logger = get_logger(__name__)

Function = Callable[..., Any]
Decorator = Callable[[Function], Any]
TRANSPORTS = ("stdio", "sse", "streamable-http")


class FastMCP(HTTPApps, Generic[LifespanResultT]):
    """Server with decorators for tools, resources and prompts.

    Raises:
        ValueError: authorization has settings without a token verifier or provider, or the other way round.
    """

    def __init__(
        self,
        name: str | None = None,
        instructions: str | None = None,
        website_url: str | None = None,
        icons: list[base.Icon] | None = None,
        auth_server_provider: Any = None,
        token_verifier: Any = None,
        event_store: Any = None,
        retry_interval: int | None = None,
        *,
        tools: list[Tool] | None = None,
        **options: Unpack[SettingsOptions],
    ) -> None:
        self.settings: Settings = settings_of(options)
        if any((self.settings.auth, auth_server_provider, token_verifier)):
            from carrel.compat.mcp.server.fastmcp.authorization import check_authorization

            check_authorization(self.settings.auth, auth_server_provider, token_verifier)
        self._auth_server_provider = auth_server_provider
        self._token_verifier = token_verifier
        self.dependencies = self.settings.dependencies
        own = self.settings.lifespan
        self._mcp_server: MCPServer[LifespanResultT, Any] = MCPServer(
            name or "FastMCP",
            instructions=instructions,
            website_url=website_url,
            icons=icons,
            lifespan=lifespan if own is None else lambda _: self._live(own),
        )
        self._mcp_server.guard = lambda _: self.protection().guarded()
        self._tool_manager = ToolManager(self.settings.warn_on_duplicate_tools, tools=tools)
        self._resource_manager = ResourceManager(self.settings.warn_on_duplicate_resources)
        self._prompt_manager = PromptManager(self.settings.warn_on_duplicate_prompts)
        super().__init__()
        self._setup_handlers()
        configure_logging(self.settings.log_level)

    @asynccontextmanager
    async def _live(self, own: Callable[[Any], AbstractAsyncContextManager[Any]]) -> AsyncIterator[Any]:
        async with own(self) as state:
            yield state

    def _setup_handlers(self) -> None:
        server = self._mcp_server
        server.list_tools()(self.list_tools)
        server.call_tool(validate_input=False)(self.call_tool)
        server.list_resources()(self.list_resources)
        server.read_resource()(self.read_resource)
        server.list_prompts()(self.list_prompts)
        server.get_prompt()(self.get_prompt)
        server.list_resource_templates()(self.list_resource_templates)

    @property
    def name(self) -> str:
        """Name of the server."""
        return self._mcp_server.name

    @property
    def instructions(self) -> str | None:
        """Instructions for models."""
        return self._mcp_server.instructions

    @property
    def website_url(self) -> str | None:
        """Website of the server."""
        return self._mcp_server.website_url

    @property
    def icons(self) -> list[base.Icon] | None:
        """Icons of the server."""
        return self._mcp_server.icons

    def get_context(self) -> Context[Any, Any, Any]:
        """Return the context of the request that is being answered; one without a request if none is."""
        try:
            request_context = self._mcp_server.request_context
        except LookupError:
            request_context = None
        return Context(request_context=request_context, fastmcp=self)

    # Tools

    async def list_tools(self) -> list[types.Tool]:
        """Return all tools."""
        return [
            types.Tool(
                name=tool.name,
                title=tool.title,
                description=tool.description,
                inputSchema=tool.parameters,
                outputSchema=tool.output_schema,
                annotations=tool.annotations,
                icons=tool.icons,
                _meta=tool.meta,
            )
            for tool in self._tool_manager.list_tools()
        ]

    async def call_tool(self, name: str, arguments: dict[str, Any]) -> Any:
        """Call a tool."""
        return await self._tool_manager.call_tool(name, arguments, context=self.get_context(), convert_result=True)

    def add_tool(
        self,
        fn: Function,
        name: str | None = None,
        title: str | None = None,
        description: str | None = None,
        annotations: types.ToolAnnotations | None = None,
        icons: list[base.Icon] | None = None,
        meta: dict[str, Any] | None = None,
        structured_output: bool | None = None,
    ) -> None:
        """Register a function as a tool."""
        self._tool_manager.add_tool(
            fn,
            name=name,
            title=title,
            description=description,
            annotations=annotations,
            icons=icons,
            meta=meta,
            structured_output=structured_output,
        )

    def remove_tool(self, name: str) -> None:
        """Remove a tool.

        Raises:
            ToolError: no tool has this name.
        """
        self._tool_manager.remove_tool(name)

    def tool(
        self,
        name: str | None = None,
        title: str | None = None,
        description: str | None = None,
        annotations: types.ToolAnnotations | None = None,
        icons: list[base.Icon] | None = None,
        meta: dict[str, Any] | None = None,
        structured_output: bool | None = None,
    ) -> Decorator:
        """Register the decorated function as a tool.

        Raises:
            TypeError: there are no parentheses.
        """
        _check_called(name, "tool")

        def decorator(fn: Function) -> Function:
            self.add_tool(fn, name, title, description, annotations, icons, meta, structured_output)
            return fn

        return decorator

    # Resources

    async def list_resources(self) -> list[types.Resource]:
        """Return all resources."""
        return [
            types.Resource(
                uri=resource.uri,
                name=resource.name or "",
                title=resource.title,
                description=resource.description,
                mimeType=resource.mime_type,
                icons=resource.icons,
                annotations=resource.annotations,
                _meta=resource.meta,
            )
            for resource in self._resource_manager.list_resources()
        ]

    async def list_resource_templates(self) -> list[types.ResourceTemplate]:
        """Return all resource templates."""
        return [
            types.ResourceTemplate(
                uriTemplate=template.uri_template,
                name=template.name,
                title=template.title,
                description=template.description,
                mimeType=template.mime_type,
                icons=template.icons,
                annotations=template.annotations,
                _meta=template.meta,
            )
            for template in self._resource_manager.list_templates()
        ]

    async def read_resource(self, uri: AnyUrl | str) -> Iterable[ReadResourceContents]:
        """Read a resource.

        Raises:
            ValueError: no resource has this URI.
            ResourceError: it cannot be read.
        """
        resource = await self._resource_manager.get_resource(uri, context=self.get_context())
        if resource is None:
            raise ResourceError(f"Unknown resource: {uri}")
        try:
            content = await resource.read()
        except Exception as error:
            logger.exception("Error reading resource %s", uri)
            raise ResourceError(str(error)) from error
        return [ReadResourceContents(content, resource.mime_type, resource.meta)]

    def add_resource(self, resource: Resource) -> None:
        """Register a resource."""
        self._resource_manager.add_resource(resource)

    def resource(
        self,
        uri: str,
        *,
        name: str | None = None,
        title: str | None = None,
        description: str | None = None,
        mime_type: str | None = None,
        icons: list[base.Icon] | None = None,
        annotations: base.Annotations | None = None,
        meta: dict[str, Any] | None = None,
    ) -> Decorator:
        """Register the decorated function as a resource, or as a template if the URI has variables.

        Raises:
            TypeError: there is no URI.
            ValueError: the parameters of the function are not the variables of the URI.
        """
        if callable(uri):
            raise TypeError(
                "The @resource decorator was used incorrectly. "
                "Did you forget to call it? Use @resource('uri') instead of @resource"
            )
        details: dict[str, Any] = {
            "name": name,
            "title": title,
            "description": description,
            "mime_type": mime_type,
            "icons": icons,
            "annotations": annotations,
            "meta": meta,
        }

        def decorator(fn: Function) -> Function:
            parameters = inspect.signature(fn).parameters
            if not parameters and not ("{" in uri and "}" in uri):
                self.add_resource(FunctionResource.from_function(fn, uri, **details))
                return fn
            variables = set(re.findall(r"{(\w+)}", uri))
            taken = set(parameters) - {find_context_parameter(fn)}
            if variables != taken:
                raise ValueError(f"Mismatch between URI parameters {variables} and function parameters {taken}")
            self._resource_manager.add_template(fn, uri, **details)
            return fn

        return decorator

    # Prompts and completion

    async def list_prompts(self) -> list[types.Prompt]:
        """Return all prompts."""
        return [
            types.Prompt(
                name=prompt.name,
                title=prompt.title,
                description=prompt.description,
                arguments=[
                    types.PromptArgument(name=each.name, description=each.description, required=each.required)
                    for each in prompt.arguments or ()
                ],
                icons=prompt.icons,
            )
            for prompt in self._prompt_manager.list_prompts()
        ]

    async def get_prompt(self, name: str, arguments: dict[str, Any] | None = None) -> types.GetPromptResult:
        """Return the messages of a prompt.

        Raises:
            ValueError: no prompt has this name, an argument is missing or wrong, or the function failed.
        """
        try:
            prompt = self._prompt_manager.get_prompt(name)
            if prompt is None:
                raise ValueError(f"Unknown prompt: {name}")
            messages = await prompt.render(arguments, context=self.get_context())
            return types.GetPromptResult(
                description=prompt.description, messages=pydantic_core.to_jsonable_python(messages)
            )
        except Exception as error:
            logger.exception("Error getting prompt %s", name)
            raise ValueError(str(error)) from error

    def add_prompt(self, prompt: Prompt) -> None:
        """Register a prompt."""
        self._prompt_manager.add_prompt(prompt)

    def prompt(
        self,
        name: str | None = None,
        title: str | None = None,
        description: str | None = None,
        icons: list[base.Icon] | None = None,
    ) -> Decorator:
        """Register the decorated function as a prompt.

        Raises:
            TypeError: there are no parentheses.
        """
        _check_called(name, "prompt")

        def decorator(fn: Function) -> Function:
            self.add_prompt(Prompt.from_function(fn, name, title, description, icons))
            return fn

        return decorator

    def completion(self) -> Decorator:
        """Register the decorated function for completion: reference, argument and context to a ``Completion``."""
        return self._mcp_server.completion()

    # Running

    def run(
        self, transport: Literal["stdio", "sse", "streamable-http"] = "stdio", mount_path: str | None = None
    ) -> None:
        """Serve on a transport until the client is gone or the process is told to stop.

        Raises:
            ValueError: there is no such transport.
        """
        if transport not in TRANSPORTS:
            raise ValueError(f"Unknown transport: {transport}")
        if transport == "stdio":
            asyncio.run(self.run_stdio_async())
        elif transport == "sse":
            asyncio.run(self.run_sse_async(mount_path))
        else:
            asyncio.run(self.run_streamable_http_async())

    async def run_stdio_async(self) -> None:
        """Serve on standard input and output until the client is gone."""
        server = self._mcp_server
        async with stdio_server() as (read, write):
            await server.run(read, write, server.create_initialization_options())


def _check_called(name: Any, decorator: str) -> None:
    if callable(name):
        raise TypeError(
            f"The @{decorator} decorator was used incorrectly. "
            f"Did you forget to call it? Use @{decorator}() instead of @{decorator}"
        )
