"""Component: base class of tools, resources, templates and prompts."""

from __future__ import annotations

from typing import Any, ClassVar

from pydantic import ConfigDict, Field, field_validator

from carrel.compat.fastmcp.utilities.types import FastMCPBaseModel
from carrel.compat.mcp.types.base import Icon

__all__ = ["FastMCPComponent"]


class FastMCPComponent(FastMCPBaseModel):
    """Tool, resource, template or prompt of a server."""

    model_config = ConfigDict(extra="forbid", arbitrary_types_allowed=True)

    kind: ClassVar[str] = ""

    name: str
    version: str | None = None
    title: str | None = None
    description: str | None = None
    icons: list[Icon] | None = None
    tags: set[str] = Field(default_factory=set)
    meta: dict[str, Any] | None = None
    enabled: bool = Field(default=True, exclude=True)
    auth: Any = Field(default=None, exclude=True)

    @field_validator("tags", mode="before")
    @classmethod
    def _read_tags(cls, given: Any) -> Any:
        return given or set()

    @field_validator("version", mode="before")
    @classmethod
    def _read_version(cls, given: Any) -> Any:
        return None if given is None else str(given)

    @property
    def key(self) -> str:
        """Name that is unique among all components: ``tool:add@``."""
        return f"{self.kind}:{self.identifier}@{self.version or ''}"

    @property
    def identifier(self) -> str:
        """Name or URI that clients use."""
        return self.name

    def get_meta(self) -> dict[str, Any]:
        """Return ``_meta`` of the component, with its tags."""
        found = dict(self.meta or {})
        own: dict[str, Any] = {"tags": sorted(self.tags)}
        if self.version is not None:
            own["version"] = self.version
        found["fastmcp"] = {**found.get("fastmcp", {}), **own}
        return found

    def enable(self) -> None:
        """Show the component to clients."""
        self.enabled = True

    def disable(self) -> None:
        """Hide the component from clients."""
        self.enabled = False
