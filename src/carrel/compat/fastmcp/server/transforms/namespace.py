"""Namespace: ``add`` becomes ``namespace_add``, and ``data://x`` becomes ``data://namespace/x``."""

from __future__ import annotations

from typing import Any

from carrel.compat.fastmcp.resources.resource import Resource
from carrel.compat.fastmcp.resources.template import ResourceTemplate
from carrel.compat.fastmcp.server.transforms.transform import ComponentTransform

__all__ = ["Namespace"]


class Namespace(ComponentTransform):
    """Transform that puts components into a namespace."""

    def __init__(self, prefix: str) -> None:
        self._prefix = prefix

    def __repr__(self) -> str:
        return f"Namespace({self._prefix!r})"

    def _uri(self, uri: str) -> str:
        scheme, separator, rest = uri.partition("://")
        return f"{scheme}://{self._prefix}/{rest}" if separator else uri

    def change(self, component: Any) -> Any:
        """Return a component with the namespace."""
        if isinstance(component, Resource):
            return component.model_copy(update={"uri": self._uri(str(component.uri))})
        if isinstance(component, ResourceTemplate):
            return component.model_copy(update={"uri_template": self._uri(component.uri_template)})
        return component.model_copy(update={"name": f"{self._prefix}_{component.name}"})

    def original(self, identifier: str, kind: str) -> str | None:
        """Return the name or URI without the namespace; None if it is outside of the namespace."""
        if kind in ("tool", "prompt"):
            prefix = f"{self._prefix}_"
            return identifier.removeprefix(prefix) if identifier.startswith(prefix) else None
        scheme, separator, rest = identifier.partition("://")
        prefix = f"{self._prefix}/"
        return f"{scheme}://{rest.removeprefix(prefix)}" if separator and rest.startswith(prefix) else None
