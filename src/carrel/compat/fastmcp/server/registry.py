"""Registry of the tools, resources, templates and prompts that a server has itself."""

from __future__ import annotations

import re
from typing import Any, Generic, Literal, TypeAlias, TypeVar

from carrel.compat.fastmcp.prompts.prompt import Prompt
from carrel.compat.fastmcp.resources.resource import Resource
from carrel.compat.fastmcp.resources.template import ResourceTemplate
from carrel.compat.fastmcp.tools.tool import Tool
from carrel.compat.fastmcp.utilities.components import FastMCPComponent
from carrel.log import Log

__all__ = ["Duplicates", "LocalProvider", "Registry"]

C = TypeVar("C", bound=FastMCPComponent)
Duplicates: TypeAlias = Literal["warn", "error", "replace", "ignore"]

logger = Log("fastmcp.server")


class Registry(Generic[C]):
    """Components by name or URI, and version; clients get the newest version.

    Raises:
        ValueError: ``duplicates`` is not a valid policy.
    """

    def __init__(self, kind: str, duplicates: Duplicates | None = None) -> None:
        if duplicates not in (None, "warn", "error", "replace", "ignore"):
            raise ValueError(
                f"Invalid on_duplicate value: {duplicates!r}. Must be one of: warn, error, replace, ignore"
            )
        self._kind = kind
        self._duplicates = duplicates or "warn"
        self._all: dict[str, dict[str, C]] = {}

    def add(self, component: C) -> C:
        """Add a component.

        Raises:
            ValueError: there is one of this name, and duplicates are errors.
        """
        versions = self._all.setdefault(component.identifier, {})
        version = component.version or ""
        if version in versions:
            message = f"Component already exists: {component.key}"
            if self._duplicates == "error":
                raise ValueError(message)
            if self._duplicates == "ignore":
                return versions[version]
            if self._duplicates == "warn":
                logger.warning(message)
        versions[version] = component
        return component

    def get(self, identifier: str) -> C | None:
        """Return the newest version of a component, or None."""
        versions = self._all.get(identifier)
        return versions[max(versions, key=_order)] if versions else None

    def remove(self, identifier: str) -> None:
        """Remove a component.

        Raises:
            KeyError: no component has this identifier.
        """
        del self._all[identifier]

    def all(self) -> list[C]:
        """Return the newest version of each component, in the order of registration."""
        return [versions[max(versions, key=_order)] for versions in self._all.values()]


def _order(version: str) -> list[tuple[int, Any]]:
    """Return what versions are ordered by: numbers as numbers."""
    parts = re.split(r"[.\-+]", version.removeprefix("v"))
    return [(1, int(part)) if part.isdecimal() else (0, part) for part in parts]


class LocalProvider:
    """Components that a server has itself."""

    def __init__(
        self,
        tools: Duplicates | None = None,
        resources: Duplicates | None = None,
        prompts: Duplicates | None = None,
    ) -> None:
        self.tools: Registry[Tool] = Registry("tool", tools)
        self.resources: Registry[Resource] = Registry("resource", resources)
        self.templates: Registry[ResourceTemplate] = Registry("template", resources)
        self.prompts: Registry[Prompt] = Registry("prompt", prompts)

    def remove_tool(self, name: str) -> None:
        """Remove a tool."""
        self.tools.remove(name)

    def remove_resource(self, uri: str) -> None:
        """Remove a resource."""
        self.resources.remove(uri)

    def remove_resource_template(self, uri_template: str) -> None:
        """Remove a template."""
        self.templates.remove(uri_template)

    def remove_prompt(self, name: str) -> None:
        """Remove a prompt."""
        self.prompts.remove(name)
