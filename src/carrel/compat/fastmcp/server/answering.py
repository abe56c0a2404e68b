"""Lists, calls, reads and prompts of a server's components and its mounted servers."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from pydantic import AnyUrl

from carrel.compat.fastmcp.exceptions import FastMCPError, NotFoundError, PromptError, ResourceError, ToolError
from carrel.compat.fastmcp.prompts.prompt import Prompt, PromptResult
from carrel.compat.fastmcp.resources.resource import Resource, ResourceResult
from carrel.compat.fastmcp.resources.template import ResourceTemplate
from carrel.compat.fastmcp.server.context import Context, current_context
from carrel.compat.fastmcp.server.middleware.middleware import MiddlewareContext, run_middleware
from carrel.compat.fastmcp.server.mounting import Mounted
from carrel.compat.fastmcp.server.registry import LocalProvider, Registry
from carrel.compat.fastmcp.server.visibility import Visibility
from carrel.compat.fastmcp.tools.tool import Tool, ToolResult
from carrel.compat.fastmcp.utilities.components import FastMCPComponent
from carrel.compat.mcp import types
from carrel.compat.mcp.shared.exceptions import McpError, UrlElicitationRequiredError
from carrel.log import Log

__all__ = ["Answering"]

C = TypeVar("C", bound=FastMCPComponent)
logger = Log("fastmcp.server")


class Answering:
    """Lists, calls, reads and prompts, inside of the middleware."""

    middleware: list[Any]
    local_provider: LocalProvider
    _mounts: list[Mounted]
    _visibility: Visibility
    _mask_error_details: bool

    async def _inside(
        self, method: str, message: Any, call: Callable[[MiddlewareContext[Any]], Awaitable[Any]], run: bool = True
    ) -> Any:
        """Return the result of a call, with a context and inside of the middleware."""
        async with Context(fastmcp=self) as context:
            request = MiddlewareContext(message=message, method=method, fastmcp_context=context)
            if run and self.middleware:
                return await run_middleware(self.middleware, request, call)
            return await call(request)

    def _shows(self, component: FastMCPComponent) -> bool:
        """Return whether the client sees a component, by the rules of its session and the server."""
        context = current_context.get()
        for rules in (None if context is None else context.visibility, self._visibility):
            verdict = None if rules is None else rules.verdict(component)
            if verdict is not None:
                return verdict
        return component.enabled

    async def _allows(self, component: FastMCPComponent) -> bool:
        """Return whether the caller is authorized to use a component."""
        return True

    # Lists

    async def _all(self, registry: Registry[C], method: str) -> list[C]:
        found: dict[str, C] = {
            each.identifier: each for each in registry.all() if self._shows(each) and await self._allows(each)
        }
        for mounted in self._mounts:
            for each in await getattr(mounted.server, method)():
                outside = mounted.outside(each)
                if self._shows(outside) and await self._allows(outside):
                    found.setdefault(outside.identifier, outside)
        return list(found.values())

    async def list_tools(self, *, run_middleware: bool = True) -> list[Tool]:
        """Return the tools that clients see."""
        found: list[Tool] = await self._inside(
            "tools/list",
            types.ListToolsRequest(),
            lambda _: self._all(self.local_provider.tools, "list_tools"),
            run_middleware,
        )
        return list(found)

    async def list_resources(self, *, run_middleware: bool = True) -> list[Resource]:
        """Return the resources that clients see."""
        found: list[Resource] = await self._inside(
            "resources/list",
            types.ListResourcesRequest(),
            lambda _: self._all(self.local_provider.resources, "list_resources"),
            run_middleware,
        )
        return list(found)

    async def list_resource_templates(self, *, run_middleware: bool = True) -> list[ResourceTemplate]:
        """Return the resource templates that clients see."""
        found: list[ResourceTemplate] = await self._inside(
            "resources/templates/list",
            types.ListResourceTemplatesRequest(),
            lambda _: self._all(self.local_provider.templates, "list_resource_templates"),
            run_middleware,
        )
        return list(found)

    async def list_prompts(self, *, run_middleware: bool = True) -> list[Prompt]:
        """Return the prompts that clients see."""
        found: list[Prompt] = await self._inside(
            "prompts/list",
            types.ListPromptsRequest(),
            lambda _: self._all(self.local_provider.prompts, "list_prompts"),
            run_middleware,
        )
        return list(found)

    async def get_tools(self) -> dict[str, Tool]:
        """Return the tools by name."""
        return {each.name: each for each in await self.list_tools(run_middleware=False)}

    async def get_resources(self) -> dict[str, Resource]:
        """Return the resources by URI."""
        return {str(each.uri): each for each in await self.list_resources(run_middleware=False)}

    async def get_resource_templates(self) -> dict[str, ResourceTemplate]:
        """Return the resource templates by themselves."""
        return {each.uri_template: each for each in await self.list_resource_templates(run_middleware=False)}

    async def get_prompts(self) -> dict[str, Prompt]:
        """Return the prompts by name."""
        return {each.name: each for each in await self.list_prompts(run_middleware=False)}

    # One component

    async def _find(self, registry: Registry[C], name: str, method: str) -> tuple[C, Mounted | None] | None:
        """Return the component of a name or URI, and the server that has it if that is not this one."""
        own = registry.get(name)
        if own is not None:
            return (own, None) if self._shows(own) and await self._allows(own) else None
        by_uri = method == "get_resource"
        for mounted in self._mounts:
            inner = mounted.own_uri(name) if by_uri else mounted.own_name(name)
            found = None if inner is None else await getattr(mounted.server, method)(inner)
            if found is not None:
                outside = mounted.outside(found)
                return (outside, mounted) if self._shows(outside) and await self._allows(outside) else None
        return None

    async def get_tool(self, name: str) -> Tool | None:
        """Return a visible tool, or None."""
        found = await self._find(self.local_provider.tools, name, "get_tool")
        return None if found is None else found[0]

    async def get_resource(self, uri: str) -> Resource | None:
        """Return a visible resource, or None."""
        found = await self._find(self.local_provider.resources, str(uri), "get_resource")
        return None if found is None else found[0]

    async def get_prompt(self, name: str) -> Prompt | None:
        """Return a visible prompt, or None."""
        found = await self._find(self.local_provider.prompts, name, "get_prompt")
        return None if found is None else found[0]

    async def get_resource_template(self, uri: str) -> ResourceTemplate | None:
        """Return the template that matches a URI, or None."""
        for template in self.local_provider.templates.all():
            if self._shows(template) and template.matches(uri) is not None and await self._allows(template):
                return template
        for mounted in self._mounts:
            inner = mounted.own_uri(uri)
            found = None if inner is None else await mounted.server.get_resource_template(inner)
            if found is not None:
                return mounted.outside(found)  # type: ignore[no-any-return]
        return None

    # Calls, reads and prompts

    def _masked(self, message: str, error: Exception) -> str:
        return message if self._mask_error_details else f"{message}: {error}"

    async def call_tool(
        self, name: str, arguments: dict[str, Any] | None = None, *, run_middleware: bool = True
    ) -> ToolResult:
        """Call a tool.

        Raises:
            NotFoundError: no visible component has this name or URI.
            ToolError: it failed.
            ValidationError: the arguments are not valid.
        """
        message = types.CallToolRequestParams(name=name, arguments=arguments or {})
        result: ToolResult = await self._inside(
            "tools/call",
            message,
            lambda context: self._call(context.message.name, context.message.arguments or {}),
            run_middleware,
        )
        return result

    async def _call(self, name: str, arguments: dict[str, Any]) -> ToolResult:
        found = await self._find(self.local_provider.tools, name, "get_tool")
        if found is None:
            raise NotFoundError(f"Unknown tool: {name!r}")
        tool, mounted = found
        if mounted is not None:
            result: ToolResult = await mounted.server.call_tool(mounted.own_name(name), arguments)
            return result
        try:
            return await tool.run(arguments)
        except (FastMCPError, UrlElicitationRequiredError):
            logger.exception("Error calling tool %r", name)
            raise
        except Exception as error:
            logger.exception("Error calling tool %r", name)
            if type(error).__module__.startswith("pydantic"):
                raise
            raise ToolError(self._masked(f"Error calling tool {name!r}", error)) from error

    async def read_resource(self, uri: str | AnyUrl, *, run_middleware: bool = True) -> ResourceResult:
        """Read a resource, or one of a template.

        Raises:
            NotFoundError: no visible component has this name or URI.
            ResourceError: it cannot be read.
        """
        message = types.ReadResourceRequestParams(uri=AnyUrl(str(uri)))
        result: ResourceResult = await self._inside(
            "resources/read", message, lambda context: self._read(str(context.message.uri)), run_middleware
        )
        return result

    async def _read(self, uri: str) -> ResourceResult:
        found = await self._find(self.local_provider.resources, uri, "get_resource")
        template = None if found is not None else await self.get_resource_template(uri)
        if found is None and template is None:
            raise NotFoundError(f"Unknown resource: {uri!r}")
        own = self.local_provider.templates.all()
        mounted = found[1] if found is not None else None
        if mounted is None and template is not None and template not in own:
            mounted = await self._mount_of(uri)
        if mounted is not None:
            result: ResourceResult = await mounted.server.read_resource(mounted.own_uri(uri))
            return result
        try:
            if found is not None:
                return await found[0].read_result()
            assert template is not None
            return await template.read_result(template.matches(uri) or {})
        except (FastMCPError, McpError):
            logger.exception("Error reading resource %r", uri)
            raise
        except Exception as error:
            logger.exception("Error reading resource %r", uri)
            raise ResourceError(self._masked(f"Error reading resource {uri!r}", error)) from error

    async def _mount_of(self, uri: str) -> Mounted | None:
        """Return the server that has a template for a URI."""
        for mounted in self._mounts:
            inner = mounted.own_uri(uri)
            if inner is not None and await mounted.server.get_resource_template(inner) is not None:
                return mounted
        return None

    async def render_prompt(
        self, name: str, arguments: dict[str, Any] | None = None, *, run_middleware: bool = True
    ) -> PromptResult:
        """Return the messages of a prompt.

        Raises:
            NotFoundError: no visible component has this name or URI.
            PromptError: an argument is missing or wrong, or the function failed.
        """
        message = types.GetPromptRequestParams(name=name, arguments=arguments)
        result: PromptResult = await self._inside(
            "prompts/get",
            message,
            lambda context: self._render(context.message.name, context.message.arguments),
            run_middleware,
        )
        return result

    async def _render(self, name: str, arguments: dict[str, Any] | None) -> PromptResult:
        found = await self._find(self.local_provider.prompts, name, "get_prompt")
        if found is None:
            raise NotFoundError(f"Unknown prompt: {name!r}")
        prompt, mounted = found
        if mounted is not None:
            result: PromptResult = await mounted.server.render_prompt(mounted.own_name(name), arguments)
            return result
        try:
            return await prompt.render(arguments)
        except (FastMCPError, McpError):
            logger.exception("Error rendering prompt %r", name)
            raise
        except Exception as error:
            logger.exception("Error rendering prompt %r", name)
            raise PromptError(self._masked(f"Error rendering prompt {name!r}", error)) from error
