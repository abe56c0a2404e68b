"""Servers within servers: names and URIs with a namespace."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeVar

from carrel.compat.fastmcp.resources.resource import Resource
from carrel.compat.fastmcp.resources.template import ResourceTemplate
from carrel.compat.fastmcp.utilities.components import FastMCPComponent

__all__ = ["Mounted"]

C = TypeVar("C", bound=FastMCPComponent)


@dataclass
class Mounted:
    """Server within another one: ``add`` is ``namespace_add`` there, and ``data://x`` is ``data://namespace/x``."""

    server: Any
    namespace: str | None = None

    def name(self, name: str) -> str:
        """Return the name of a tool or prompt from outside."""
        return f"{self.namespace}_{name}" if self.namespace else name

    def uri(self, uri: str) -> str:
        """Return a URI from outside."""
        scheme, separator, rest = uri.partition("://")
        return f"{scheme}://{self.namespace}/{rest}" if self.namespace and separator else uri

    def own_name(self, name: str) -> str | None:
        """Return the name that the server itself has for a tool or prompt; None for a name of others."""
        prefix = self.name("")
        return name.removeprefix(prefix) if name.startswith(prefix) else None

    def own_uri(self, uri: str) -> str | None:
        """Return the URI that the server itself has; None for a URI of others."""
        if not self.namespace:
            return uri
        scheme, _, rest = uri.partition("://")
        prefix = f"{self.namespace}/"
        return f"{scheme}://{rest.removeprefix(prefix)}" if rest.startswith(prefix) else None

    def outside(self, component: C) -> C:
        """Return a component as it is seen from outside."""
        if not self.namespace:
            return component
        if isinstance(component, Resource):
            return component.model_copy(update={"uri": self.uri(str(component.uri))})
        if isinstance(component, ResourceTemplate):
            values = {**dict(component), "uri_template": self.uri(component.uri_template)}
            return type(component).model_construct(**values)
        return component.model_copy(update={"name": self.name(component.name)})
