"""Managers of the tools, resources and prompts of a server, for both generations of ``mcp``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from carrel.compat.loggers import get_logger

__all__ = ["PromptManager", "ResourceManager", "ToolManager"]


class ToolManager:
    """Tools by name. The first tool of a name stays."""

    tool_type: type[Any]
    error: type[Exception]

    def __init__(self, warn_on_duplicate_tools: bool = True, *, tools: list[Any] | None = None) -> None:
        self.warn_on_duplicate_tools = warn_on_duplicate_tools
        self._tools: dict[str, Any] = {}
        for tool in tools or ():
            if warn_on_duplicate_tools and tool.name in self._tools:
                get_logger(type(self).__module__).warning("Tool already exists: %s", tool.name)
            self._tools[tool.name] = tool

    def get_tool(self, name: str) -> Any:
        """Return a tool, or None."""
        return self._tools.get(name)

    def list_tools(self) -> list[Any]:
        """Return all tools, in the order of their registration."""
        return list(self._tools.values())

    def add_tool(self, fn: Callable[..., Any], name: str | None = None, **details: Any) -> Any:
        """Register a function, unless there is a tool of that name."""
        tool = self.tool_type.from_function(fn, name, **details)
        known = self._tools.setdefault(tool.name, tool)
        if known is not tool and self.warn_on_duplicate_tools:
            get_logger(type(self).__module__).warning("Tool already exists: %s", tool.name)
        return known

    def remove_tool(self, name: str) -> None:
        """Remove a tool.

        Raises:
            ToolError: no tool has this name.
        """
        if self._tools.pop(name, None) is None:
            raise self.error(f"Unknown tool: {name}")

    async def call_tool(
        self, name: str, arguments: dict[str, Any], context: Any = None, convert_result: bool = False
    ) -> Any:
        """Call a tool.

        Raises:
            ToolError: no tool has this name, the arguments are not valid, or the function failed.
        """
        tool = self._tools.get(name)
        if tool is None:
            raise self.error(f"Unknown tool: {name}")
        return await tool.run(arguments, context=context, convert_result=convert_result)


class ResourceManager:
    """Resources by URI, of which the first stays; and templates."""

    template_type: type[Any]

    def __init__(self, warn_on_duplicate_resources: bool = True, *, resources: list[Any] | None = None) -> None:
        self.warn_on_duplicate_resources = warn_on_duplicate_resources
        self._resources: dict[str, Any] = {}
        self._templates: dict[str, Any] = {}
        for resource in resources or ():
            self.add_resource(resource)

    def add_resource(self, resource: Any) -> Any:
        """Register a resource, unless there is one of that URI."""
        is_new = str(resource.uri) not in self._resources
        known = self._resources.setdefault(str(resource.uri), resource)
        if not is_new and self.warn_on_duplicate_resources:
            get_logger(type(self).__module__).warning("Resource already exists: %s", resource.uri)
        return known

    def add_template(self, fn: Callable[..., Any], uri_template: str, **details: Any) -> Any:
        """Register a function as a template."""
        template = self.template_type.from_function(fn, uri_template, **details)
        self._templates[template.uri_template] = template
        return template

    async def get_resource(self, uri: Any, context: Any = None) -> Any:
        """Return the resource of a URI, or create it from a template.

        Raises:
            ValueError: no resource or template has this URI, or the template's function failed.
        """
        named = str(uri)
        found = self._resources.get(named)
        if found is not None:
            return found
        for template in self._templates.values():
            values = template.matches(named)
            if values:
                try:
                    return await template.create_resource(named, values, context=context)
                except Exception as error:
                    raise ValueError(f"Error creating resource from template: {error}") from error
        raise ValueError(f"Unknown resource: {uri}")

    def list_resources(self) -> list[Any]:
        """Return all resources, in the order of their registration."""
        return list(self._resources.values())

    def list_templates(self) -> list[Any]:
        """Return all templates, in the order of their registration."""
        return list(self._templates.values())


class PromptManager:
    """Prompts by name. The first prompt of a name stays."""

    def __init__(self, warn_on_duplicate_prompts: bool = True) -> None:
        self.warn_on_duplicate_prompts = warn_on_duplicate_prompts
        self._prompts: dict[str, Any] = {}

    def get_prompt(self, name: str) -> Any:
        """Return a prompt; None if there is no such prompt."""
        return self._prompts.get(name)

    def list_prompts(self) -> list[Any]:
        """Return all prompts, in the order of their registration."""
        return list(self._prompts.values())

    def add_prompt(self, prompt: Any) -> Any:
        """Register a prompt, unless there is one of that name."""
        is_new = prompt.name not in self._prompts
        known = self._prompts.setdefault(prompt.name, prompt)
        if not is_new and self.warn_on_duplicate_prompts:
            get_logger(type(self).__module__).warning("Prompt already exists: %s", prompt.name)
        return known

    def remove_prompt(self, name: str) -> None:
        """Remove a prompt.

        Raises:
            ValueError: there is no such prompt.
        """
        if self._prompts.pop(name, None) is None:
            raise ValueError(f"Unknown prompt: {name}")

    async def render_prompt(self, name: str, arguments: dict[str, Any] | None = None, context: Any = None) -> Any:
        """Return the messages of a prompt.

        Raises:
            ValueError: no prompt has this name, or its function failed.
        """
        prompt = self._prompts.get(name)
        if prompt is None:
            raise ValueError(f"Unknown prompt: {name}")
        return await prompt.render(arguments, context=context)
