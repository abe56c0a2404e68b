"""Component: base class of tools, resources, templates and prompts."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Self

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from carrel.compat.fastmcp.utilities.tasks import TaskConfig
from carrel.compat.fastmcp.utilities.types import FastMCPBaseModel
from carrel.compat.generation import fastmcp_generation
from carrel.compat.mcp.types.base import Icon

__all__ = ["FastMCPComponent", "get_fastmcp_metadata", "read_model", "read_set", "read_version", "with_visibility"]

OWN = "fastmcp"
"""Key of ``_meta`` with tags and versions. Names below it that begin with an underscore are not sent."""
INTERNAL = "_internal"
VISIBLE = "visibility"


def read_set(given: Any) -> set[Any]:
    """Return a set of values that may be missing."""
    return given if isinstance(given, set) else set(given or ())


def read_version(given: Any) -> str | None:
    """Return a version as text.

    Raises:
        TypeError: the version is neither text nor a number.
        ValueError: the version has an ``@``.
    """
    if given is None:
        return None
    if isinstance(given, bool) or not isinstance(given, str | int | float):
        kind = "bool" if isinstance(given, bool) else type(given).__name__
        raise TypeError(f"Version must be a string, int, or float, got {kind}: {given!r}")
    if "@" in str(given):
        raise ValueError(f"Version string cannot contain '@' (used as key delimiter): {str(given)!r}")
    return str(given)


def read_model(given: Any) -> Any:
    """Return models of ``mcp`` 2, alone or in a list, as values for the models of ``mcp`` 1. Keep other values."""
    if isinstance(given, list):
        return [read_model(each) for each in given]
    if isinstance(given, BaseModel) and type(given).__module__.startswith("carrel.compat.mcp2."):
        return given.model_dump(by_alias=True, exclude_none=True, mode="json")
    return given


def get_fastmcp_metadata(meta: dict[str, Any] | None) -> dict[str, Any]:
    """Return the part of ``_meta`` with tags and versions."""
    found = (meta or {}).get(OWN, (meta or {}).get(f"_{OWN}"))
    return found if isinstance(found, dict) else {}


def with_visibility(meta: dict[str, Any] | None, visible: bool) -> dict[str, Any]:
    """Return the ``_meta`` of a component that is shown or hidden."""
    own = (meta or {}).get(OWN, {})
    return {**(meta or {}), OWN: {**own, INTERNAL: {**own.get(INTERNAL, {}), VISIBLE: visible}}}


class FastMCPComponent(FastMCPBaseModel):
    """Tool, resource, template or prompt of a server."""

    model_config = ConfigDict(extra="forbid", arbitrary_types_allowed=True)

    KEY_PREFIX: ClassVar[str] = ""

    name: str
    version: Annotated[str | None, BeforeValidator(read_version)] = None
    title: str | None = None
    description: str | None = None
    icons: Annotated[list[Icon] | None, BeforeValidator(read_model)] = None
    tags: Annotated[set[str], BeforeValidator(read_set)] = Field(default_factory=set)
    meta: dict[str, Any] | None = None
    task_config: TaskConfig = Field(default_factory=lambda: TaskConfig("forbidden"))
    auth: Any = Field(default=None, exclude=True)

    @classmethod
    def make_key(cls, identifier: str) -> str:
        """Return the key of a name or URI, without a version."""
        return f"{cls.KEY_PREFIX}:{identifier}" if cls.KEY_PREFIX else identifier

    @property
    def key(self) -> str:
        """Name that is unique among all components: ``tool:add@``."""
        return f"{self.make_key(self.identifier)}@{self.version or ''}"

    @property
    def identifier(self) -> str:
        """Name or URI that clients use."""
        return self.name

    def get_meta(self) -> dict[str, Any]:
        """Return ``_meta`` of the component, with its tags and version."""
        found = dict(self.meta or {})
        upstream = found.get(OWN) or {}
        if not isinstance(upstream, dict):
            raise TypeError("meta['fastmcp'] must be a dict")
        own: dict[str, Any] = {"tags": sorted(self.tags)}
        if self.version is not None:
            own["version"] = self.version
        own = {**{key: each for key, each in upstream.items() if not key.startswith("_")}, **own}
        found.pop(OWN, None)
        found[OWN if fastmcp_generation() > 2 else f"_{OWN}"] = own
        return found

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and self.model_dump() == other.model_dump()

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        version = f"version={self.version!r}, " if self.version else ""
        return (
            f"{type(self).__name__}(name={self.name!r}, {version}title={self.title!r}, "
            f"description={self.description!r}, tags={self.tags})"
        )

    def copy(self) -> Self:  # type: ignore[override]
        """Return a copy."""
        return self.model_copy()

    @property
    def enabled(self) -> bool:
        """Whether the component is shown, by its own mark."""
        return bool((self.meta or {}).get(OWN, {}).get(INTERNAL, {}).get(VISIBLE, True))

    def enable(self) -> None:
        """Show the component, in programs for FastMCP 2.

        Raises:
            NotImplementedError: the program is for a later version, in which servers show and hide components.
        """
        self._show("enable")

    def disable(self) -> None:
        """Hide the component, in programs for FastMCP 2.

        Raises:
            NotImplementedError: the program is for a later version, in which servers show and hide components.
        """
        self._show("disable")

    def _show(self, action: str) -> None:
        if fastmcp_generation() > 2:
            raise NotImplementedError(
                f"Component.{action}() was removed in FastMCP 3.0: use server.{action}(keys=['{self.key}'])"
            )
        self.meta = with_visibility(self.meta, action == "enable")

    def get_span_attributes(self) -> dict[str, Any]:
        """Return attributes for traces."""
        return {"fastmcp.component.key": self.key}
