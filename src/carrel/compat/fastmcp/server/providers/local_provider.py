"""Provider of the components that a server has itself, with the decorators that add them."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any, Literal, TypeAlias, TypeVar

from carrel.compat.fastmcp.apps.config import resolve_ui_mime_type, ui_meta
from carrel.compat.fastmcp.decorators import PromptMeta, ResourceMeta, ToolMeta, get_fastmcp_meta
from carrel.compat.fastmcp.prompts.prompt import Prompt
from carrel.compat.fastmcp.resources.resource import Resource
from carrel.compat.fastmcp.resources.template import ResourceTemplate
from carrel.compat.fastmcp.server.providers.base import Provider
from carrel.compat.fastmcp.settings import settings
from carrel.compat.fastmcp.tools.tool import Tool
from carrel.compat.fastmcp.utilities.components import FastMCPComponent
from carrel.compat.fastmcp.utilities.versions import VersionSpec, version_sort_key
from carrel.compat.generation import fastmcp_generation
from carrel.log import Log

__all__ = ["DuplicateBehavior", "LocalProvider", "decorate"]

C = TypeVar("C", bound=FastMCPComponent)
DuplicateBehavior: TypeAlias = Literal["warn", "error", "replace", "ignore"]
Function: TypeAlias = Callable[..., Any]
CLASSES: dict[str, type[FastMCPComponent]] = {
    "tool": Tool,
    "resource": Resource,
    "resource_template": ResourceTemplate,
    "prompt": Prompt,
}

logger = Log("fastmcp.server")


class LocalProvider(Provider):
    """Components by key. ``on_duplicate`` is a policy, or one by kind of component.

    Raises:
        ValueError: a policy is unknown.
    """

    def __init__(self, on_duplicate: Any = "error") -> None:
        super().__init__()
        given = on_duplicate if isinstance(on_duplicate, dict) else {}
        self._default = (None if given else on_duplicate) or "warn"
        self._policies: dict[str, Any] = given
        for policy in (self._default, *given.values()):
            if policy not in (None, "warn", "error", "replace", "ignore"):
                raise ValueError(
                    f"Invalid on_duplicate value: {policy!r}. Must be one of: warn, error, replace, ignore"
                )
        self._components: dict[str, FastMCPComponent] = {}

    # Components

    def _add_component(self, component: C) -> C:
        key = component.key
        known = self._components.get(key)
        if known is not None:
            message = f"Component already exists: {key}"
            policy = self._policies.get(component.KEY_PREFIX) or self._default
            if policy == "error":
                raise ValueError(message)
            if policy == "ignore":
                return known  # type: ignore[return-value]
            if policy == "warn":
                logger.warning(message)
        base, _, version = key.rpartition("@")
        for other in self._components:
            same, _, another = other.rpartition("@")
            if same == base and bool(another) != bool(version):
                kind, _, name = base.partition(":")
                raise ValueError(
                    f"Cannot add {'versioned' if version else 'unversioned'} {kind} {name!r}: there are "
                    f"{'versioned' if another else 'unversioned'} ones of this name. Version all or none."
                )
        self._components[key] = component
        return component

    def _remove(self, kind: type[FastMCPComponent], identifier: str, version: str | None) -> None:
        keys = [
            key
            for key, each in self._components.items()
            if isinstance(each, kind) and each.identifier == identifier and version in (None, each.version)
        ]
        if not keys:
            of_version = "" if version is None else f" version {version!r}"
            name = kind.KEY_PREFIX.capitalize()
            raise KeyError(f"{name} {identifier!r}{of_version} not found")
        for key in keys:
            del self._components[key]

    def _of(self, kind: str) -> list[Any]:
        return [each for each in self._components.values() if isinstance(each, CLASSES[kind])]

    async def _list_tools(self) -> Sequence[Tool]:
        return self._of("tool")

    async def _list_resources(self) -> Sequence[Resource]:
        return self._of("resource")

    async def _list_resource_templates(self) -> Sequence[ResourceTemplate]:
        return self._of("resource_template")

    async def _list_prompts(self) -> Sequence[Prompt]:
        return self._of("prompt")

    async def _newest(self, kind: str, identifier: str, version: VersionSpec | None) -> Any:
        if kind == "resource_template":
            return await super()._newest(kind, identifier, version)
        exact = self._components.get(f"{CLASSES[kind].make_key(identifier)}@")
        if exact is not None and (version is None or version.matches(None)):
            return exact
        found = [
            each
            for each in self._of(kind)
            if each.identifier == identifier and (version is None or version.matches(each.version))
        ]
        return max(found, key=version_sort_key, default=None)

    # Registration

    def add_tool(self, tool: Tool | Function) -> Tool:
        """Register a tool or a function."""
        return self._add_component(Tool.ensure_tool(tool))

    def add_resource(self, resource: Resource | ResourceTemplate | Function) -> Resource | ResourceTemplate:
        """Register a resource, or a function that is marked as one.

        Raises:
            TypeError: the function has no mark.
        """
        if isinstance(resource, Resource | ResourceTemplate):
            return self._add_component(resource)
        mark = get_fastmcp_meta(resource)
        if not isinstance(mark, ResourceMeta):
            raise TypeError(f"{resource!r} is neither a resource nor a function with the decorator resource")
        return self._add_resource_function(resource, mark)

    def add_template(self, template: ResourceTemplate) -> ResourceTemplate:
        """Register a resource template."""
        return self._add_component(template)

    def add_prompt(self, prompt: Prompt | Function) -> Prompt:
        """Register a prompt or a function."""
        return self._add_component(prompt if isinstance(prompt, Prompt) else Prompt.from_function(prompt))

    def remove_tool(self, name: str, version: str | None = None) -> None:
        """Remove a tool, in all versions unless one is given.

        Raises:
            KeyError: there is no such tool.
        """
        self._remove(Tool, name, version)

    def remove_resource(self, uri: str, version: str | None = None) -> None:
        """Remove a resource.

        Raises:
            KeyError: there is no such resource.
        """
        self._remove(Resource, uri, version)

    def remove_template(self, uri_template: str, version: str | None = None) -> None:
        """Remove a resource template.

        Raises:
            KeyError: there is no such template.
        """
        self._remove(ResourceTemplate, uri_template, version)

    remove_resource_template = remove_template

    def remove_prompt(self, name: str, version: str | None = None) -> None:
        """Remove a prompt.

        Raises:
            KeyError: there is no such prompt.
        """
        self._remove(Prompt, name, version)

    # Decorators

    def tool(self, name_or_fn: Any = None, *, name: str | None = None, **details: Any) -> Any:
        """Register the decorated function as a tool.

        Raises:
            TypeError: the argument is neither a name nor a function, or there are two names.
        """
        meta = ui_meta(details.pop("meta", None), details.get("app"))

        def add(fn: Function, named: str | None) -> Any:
            mark = ToolMeta(name=named, meta=meta, **details)
            return self._add_enabled(mark, self.add_tool(Tool.from_function(fn, metadata=mark)))

        return decorate("tool", name_or_fn, name, add, self.add_tool)

    def resource(self, uri: str, **details: Any) -> Callable[[Function], Any]:
        """Register the decorated function as a resource, or as a template if the URI has variables.

        Raises:
            TypeError: there is no URI.
        """
        if not isinstance(uri, str):
            raise TypeError(
                "The @resource decorator was used incorrectly. "
                "It requires a URI as the first argument. Use @resource('uri') instead of @resource"
            )
        details["meta"] = ui_meta(details.get("meta"), details.get("app"))
        details["mime_type"] = resolve_ui_mime_type(uri, details.get("mime_type"))
        mark = ResourceMeta(uri=uri, **details)

        def decorator(fn: Function) -> Any:
            _check_function(fn, "resource")
            component = self._add_enabled(mark, self._add_resource_function(fn, mark))
            return component if returns_components() else fn

        return decorator

    def prompt(self, name_or_fn: Any = None, *, name: str | None = None, **details: Any) -> Any:
        """Register the decorated function as a prompt.

        Raises:
            TypeError: the argument is neither a name nor a function, or there are two names.
        """

        def add(fn: Function, named: str | None) -> Any:
            mark = PromptMeta(name=named, **details)
            return self._add_enabled(mark, self.add_prompt(Prompt.from_function(fn, metadata=mark)))

        return decorate("prompt", name_or_fn, name, add, self.add_prompt)

    def _add_resource_function(self, fn: Function, mark: ResourceMeta) -> Resource | ResourceTemplate:
        details = mark.details
        uri = details.pop("uri")
        security = details.pop("security", None)
        if "{" not in uri or "}" not in uri:
            resource = Resource.from_function(fn, uri, **details)
            if not resource.callee.parameters:
                return self._add_component(resource)
        template = ResourceTemplate.from_function(fn, uri, **details)  # which says why a resource takes no parameters
        template.security = security
        return self._add_component(template)

    def _add_enabled(self, mark: Any, component: C) -> C:
        """Return a component that was added, after hiding it if its mark says so."""
        if not mark.enabled and fastmcp_generation() == 2:
            component.disable()
        elif not mark.enabled:
            self.disable(keys={component.key})
        return component


def returns_components() -> bool:
    """Return whether decorators return the component in place of the function, as in FastMCP 2."""
    return fastmcp_generation() == 2 or settings.decorator_mode == "object"


def _check_function(fn: Any, decorator: str) -> None:
    if isinstance(fn, classmethod):
        raise TypeError(
            f"To decorate a classmethod, first define the method and then call {decorator}() directly on it."
        )
    if not (inspect.isroutine(fn) or callable(fn) or isinstance(fn, staticmethod)):
        raise TypeError(f"The @{decorator} decorator takes a function, not {fn!r}")


def decorate(
    kind: str,
    given: Any,
    name: str | None,
    add: Callable[[Function, str | None], Any],
    add_component: Callable[[Any], Any],
) -> Any:
    """Return the decorator, or what it returns for a function: the function itself, or the component."""

    def decorator(fn: Function) -> Any:
        _check_function(fn, kind)
        component = add(fn, name or (given if isinstance(given, str) else None))
        return component if returns_components() else fn

    if isinstance(given, FastMCPComponent):
        return add_component(given)
    if isinstance(given, str) and name is not None:
        raise TypeError(f"Cannot specify both a name as first argument and as keyword argument: {given!r} and {name!r}")
    if given is None or isinstance(given, str):
        return decorator
    if not callable(given) and not isinstance(given, classmethod | staticmethod):
        raise TypeError(f"First argument to @{kind} must be a function, string, or None, got {type(given)}")
    return decorator(given)
