"""Lists, calls, reads and prompts of the components of a server's providers."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any, TypeVar

from pydantic import AnyUrl
from pydantic import ValidationError as PydanticValidationError

from carrel.compat.fastmcp.apps.prefab import addresses, readdress, with_renderer
from carrel.compat.fastmcp.exceptions import (
    AuthorizationError,
    FastMCPError,
    NotFoundError,
    PromptError,
    ResourceError,
    ToolError,
)
from carrel.compat.fastmcp.prompts.prompt import Prompt, PromptResult
from carrel.compat.fastmcp.resources.resource import Resource, ResourceResult
from carrel.compat.fastmcp.resources.template import ResourceTemplate
from carrel.compat.fastmcp.server.background import run_checked
from carrel.compat.fastmcp.server.context import Context, current_context
from carrel.compat.fastmcp.server.handlers import newest, wanted
from carrel.compat.fastmcp.server.middleware.middleware import MiddlewareContext, run_middleware
from carrel.compat.fastmcp.server.providers.addressing import (
    TOOL_HASH_META_KEY,
    is_backend_tool,
    parse_hashed_backend_name,
)
from carrel.compat.fastmcp.server.providers.aggregate import AggregateProvider
from carrel.compat.fastmcp.server.transforms.visibility import is_enabled
from carrel.compat.fastmcp.tools.tool import Tool, ToolResult
from carrel.compat.fastmcp.utilities.versions import VersionSpec, version_sort_key
from carrel.compat.generation import fastmcp_generation
from carrel.compat.mcp import types
from carrel.compat.mcp.shared.exceptions import McpError, UrlElicitationRequiredError
from carrel.log import Log

__all__ = ["Answering"]

C = TypeVar("C", bound=Any)
logger = Log("fastmcp.server")

#: Requests of lists: their methods and messages, by the kind of component.
LISTS: dict[str, tuple[str, Callable[[], Any]]] = {
    "tool": ("tools/list", lambda: types.ListToolsRequest()),
    "resource": ("resources/list", lambda: types.ListResourcesRequest()),
    "resource_template": ("resources/templates/list", lambda: types.ListResourceTemplatesRequest()),
    "prompt": ("prompts/list", lambda: types.ListPromptsRequest()),
}


def _meta_of(version: VersionSpec | None) -> dict[str, Any]:
    if version is None:
        return {}
    limits = {key: value for key, value in vars(version).items() if value is not None}
    wanted: Any = version.eq if list(limits) == ["eq"] else limits
    return {"_meta": {"fastmcp": {"version": wanted}}}


def _unknown(kind: str, name: str) -> NotFoundError:
    return NotFoundError(f"Unknown {kind}: {name if fastmcp_generation() == 2 else repr(name)}")


class Answering(AggregateProvider):
    """Lists, calls, reads and prompts, inside of the middleware."""

    middleware: list[Any]
    _mask_error_details: bool
    _resource_security: Any

    async def _inside(
        self, method: str, message: Any, call: Callable[[MiddlewareContext[Any]], Awaitable[Any]], run: bool = True
    ) -> Any:
        """Return the result of a call, with a context and inside of the middleware."""
        async with Context(fastmcp=self) as context:
            request = MiddlewareContext(message=message, method=method, fastmcp_context=context)
            if run and self.middleware:
                return await run_middleware(self.middleware, request, call)
            return await call(request)

    async def _seen(self, components: list[C]) -> list[C]:
        """Return the components that the client sees, by the rules of the server and of its session."""
        context = current_context.get()
        rules = [] if context is None else context.session_transforms
        for transform in rules:
            components = [transform.change(each) for each in components]
        return [each for each in components if is_enabled(each) and await self._allows(each)]

    def _intercepted(self, call: Callable[[Any], Awaitable[Any]]) -> Callable[[Any], Awaitable[Any]]:
        """Return a tool call inside of the extensions of the server."""
        return call

    async def _allows(self, component: Any) -> bool:
        """Return whether the caller is authorized to use a component."""
        return True

    # Lists

    async def _list(self, kind: str, run: bool) -> list[Any]:
        method, message = LISTS[kind]

        async def call(_: Any) -> list[Any]:
            return await self._seen(await self._listed(kind))

        return list(await self._inside(method, message(), call, run))

    async def list_tools(self, *, run_middleware: bool = True) -> list[Tool]:
        """Return the tools that clients see, in all versions."""
        return await self._list("tool", run_middleware)

    async def list_resources(self, *, run_middleware: bool = True) -> list[Resource]:
        """Return the resources that clients see, in all versions."""
        return await self._list("resource", run_middleware)

    async def list_resource_templates(self, *, run_middleware: bool = True) -> list[ResourceTemplate]:
        """Return the resource templates that clients see, in all versions."""
        return await self._list("resource_template", run_middleware)

    async def list_prompts(self, *, run_middleware: bool = True) -> list[Prompt]:
        """Return the prompts that clients see, in all versions."""
        return await self._list("prompt", run_middleware)

    async def _list_tools_mcp(self) -> list[types.Tool]:
        """Return the tools of the protocol. Subclasses override it to leave tools out."""
        before = fastmcp_generation() < 4
        tools = [each for each in newest(await self.list_tools()) if not (before and is_backend_tool(each))]
        found = [with_renderer(each).to_mcp_tool(name=each.name) for each in tools]
        for tool in found if before else ():
            ((tool.meta or {}).get("fastmcp") or {}).pop(TOOL_HASH_META_KEY, None)
        return found

    async def _call_tool_mcp(self, key: str, arguments: dict[str, Any]) -> Any:
        """Return the result of a tool, of the protocol. Subclasses override it to refuse calls."""
        found = await self.call_tool(key, arguments, version=wanted())
        return found.to_mcp_result() if isinstance(found, ToolResult) else found

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

    async def _found(self, kind: str, identifier: str, version: VersionSpec | None) -> Any:
        """Return the newest version of a component that the client sees, or None."""
        found = await super()._found(kind, identifier, version)
        if found is None:
            return None
        seen = await self._seen([found])
        if seen or version is not None:
            return seen[0] if seen else None
        by_uri = kind == "resource_template"
        others = [
            each
            for each in await self._listed(kind)
            if (each.matches(identifier) is not None if by_uri else each.identifier == identifier)
        ]
        return max(await self._seen(others), key=version_sort_key, default=None)

    # Calls, reads and prompts

    async def _guarded(
        self, verb: str, name: str, kind: type[FastMCPError], call: Awaitable[Any], passed: tuple[type[Exception], ...]
    ) -> Any:
        """Return the result of a call. Errors of its function become errors of ``kind``."""
        what = f"{verb} {name!r}"
        try:
            return await call
        except (FastMCPError, *passed) as error:  # type: ignore[misc]
            logger.log(getattr(error, "log_level", 40), "%s: %s", what, error)
            raise
        except Exception as error:
            logger.exception("%s", what)
            if kind is ToolError and type(error).__module__.startswith("pydantic") and fastmcp_generation() < 4:
                raise
            raise kind(what if self._mask_error_details else f"{what}: {error}") from error

    async def call_tool(
        self,
        name: str,
        arguments: dict[str, Any] | None = None,
        *,
        version: VersionSpec | None = None,
        run_middleware: bool = True,
        task_meta: Any = None,
    ) -> ToolResult:
        """Call a tool.

        Raises:
            NotFoundError: no visible component has this name or URI.
            ToolError: it failed.
            ValidationError: the arguments are not valid.
        """

        async def call(context: Any) -> ToolResult:
            name, arguments = context.message.name, context.message.arguments or {}
            tool = await self.get_tool(name, version)
            if tool is None and (address := parse_hashed_backend_name(name)) is not None:
                tool = await self.get_tool_by_hash(*address)
            if tool is None:
                raise _unknown("tool", name)
            running = run_checked(tool, partial(tool.run, arguments))
            found = self._guarded("Error calling tool", name, ToolError, running, (UrlElicitationRequiredError,))
            return await found  # type: ignore[no-any-return]

        message = types.CallToolRequestParams(name=name, arguments=arguments or {}, **_meta_of(version))
        result: ToolResult = await self._inside("tools/call", message, self._intercepted(call), run_middleware)
        if run_middleware and addresses(getattr(result, "structured_content", None)):
            readdress(result.structured_content or {}, await self.list_tools())
        return result

    async def read_resource(
        self,
        uri: str | AnyUrl,
        *,
        version: VersionSpec | None = None,
        run_middleware: bool = True,
        task_meta: Any = None,
    ) -> ResourceResult:
        """Read a resource, or one of a template.

        Raises:
            NotFoundError: no visible component has this name or URI.
            ResourceError: it cannot be read.
        """

        async def read(context: Any) -> ResourceResult:
            uri = str(context.message.uri)
            reading = await self._reading(uri, version)
            return await self._guarded("Error reading resource", uri, ResourceError, reading, (McpError,))  # type: ignore[no-any-return]

        try:
            message = types.ReadResourceRequestParams(uri=AnyUrl(str(uri)), **_meta_of(version))
        except PydanticValidationError:
            if fastmcp_generation() < 4:
                raise
            raise NotFoundError(f"Unknown resource: {str(uri)!r}") from None
        result: ResourceResult = await self._inside("resources/read", message, read, run_middleware)
        return result

    async def _reading(self, uri: str, version: VersionSpec | None) -> Awaitable[ResourceResult]:
        try:
            found = await self.get_resource(uri, version)
        except AuthorizationError:
            found = None
        if found is not None:
            return run_checked(found, found.read_result)
        template = await self.get_resource_template(uri, version)
        if template is None:
            raise NotFoundError(f"Unknown resource: {uri!r}" + ("" if version is None else f" version {version!r}"))
        values = template.matches(uri) or {}
        security = self._resource_security if template.security is None else template.security
        if security and security.validate(values) is not None:
            raise NotFoundError(f"Unknown resource: {uri!r}")
        return run_checked(template, partial(template.read_result, values))

    async def render_prompt(
        self,
        name: str,
        arguments: dict[str, Any] | None = None,
        *,
        version: VersionSpec | None = None,
        run_middleware: bool = True,
        task_meta: Any = None,
    ) -> PromptResult:
        """Return the messages of a prompt.

        Raises:
            NotFoundError: no visible component has this name or URI.
            PromptError: an argument is missing or wrong, or the function failed.
        """

        async def render(context: Any) -> PromptResult:
            name, arguments = context.message.name, context.message.arguments
            prompt = await self.get_prompt(name, version)
            if prompt is None:
                raise _unknown("prompt", name)
            rendered = run_checked(prompt, partial(prompt.render, arguments))
            return await self._guarded("Error rendering prompt", name, PromptError, rendered, (McpError,))  # type: ignore[no-any-return]

        message = types.GetPromptRequestParams(name=name, arguments=arguments, **_meta_of(version))
        result: PromptResult = await self._inside("prompts/get", message, render, run_middleware)
        return result
