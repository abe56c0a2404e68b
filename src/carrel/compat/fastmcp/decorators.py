"""Marks of functions: the details that a decorator without a server leaves for the server that adds the function."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass, field, fields
from typing import Any, ClassVar, Literal, Protocol

from carrel.compat.fastmcp.utilities.types import NotSet

__all__ = [
    "DecoratedPrompt",
    "DecoratedResource",
    "DecoratedTool",
    "Mark",
    "PromptMeta",
    "ResourceMeta",
    "ToolMeta",
    "get_fastmcp_meta",
    "marked",
    "marking",
]

MARK = "__fastmcp__"


@dataclass(frozen=True, kw_only=True)
class Mark:
    """Details of a component of any kind."""

    kind: ClassVar[str] = ""

    name: str | None = None
    version: str | int | None = None
    title: str | None = None
    description: str | None = None
    icons: Any = None
    tags: Any = None
    meta: dict[str, Any] | None = None
    app: Any = None
    task: Any = None
    auth: Any = None
    enabled: bool = True

    @property
    def details(self) -> dict[str, Any]:
        """The given details, as arguments of ``from_function``."""
        values = {each.name: getattr(self, each.name) for each in fields(self) if each.init}
        skipped = ("enabled", "app")
        return {
            key: value
            for key, value in values.items()
            if key not in skipped and value is not NotSet and (value is not None or key == "output_schema")
        }


@dataclass(frozen=True, kw_only=True)
class ToolMeta(Mark):
    """Details of a tool."""

    kind: ClassVar[str] = "tool"

    type: Literal["tool"] = field(default="tool", init=False)
    output_schema: Any = NotSet
    annotations: Any = None
    exclude_args: list[str] | None = None
    serializer: Any = None
    timeout: float | None = None
    run_in_thread: bool = True


@dataclass(frozen=True, kw_only=True)
class ResourceMeta(Mark):
    """Details of a resource or template."""

    kind: ClassVar[str] = "resource"

    type: Literal["resource"] = field(default="resource", init=False)
    uri: str
    annotations: Any = None
    mime_type: str | None = None
    security: Any = NotSet


@dataclass(frozen=True, kw_only=True)
class PromptMeta(Mark):
    """Details of a prompt."""

    kind: ClassVar[str] = "prompt"

    type: Literal["prompt"] = field(default="prompt", init=False)


class DecoratedTool(Protocol):
    """Function with the mark of a tool."""

    __fastmcp__: ToolMeta

    def __call__(self, *arguments: Any, **named: Any) -> Any:
        """Call the function."""


class DecoratedResource(Protocol):
    """Function with the mark of a resource or template."""

    __fastmcp__: ResourceMeta

    def __call__(self, *arguments: Any, **named: Any) -> Any:
        """Call the function."""


class DecoratedPrompt(Protocol):
    """Function with the mark of a prompt."""

    __fastmcp__: PromptMeta

    def __call__(self, *arguments: Any, **named: Any) -> Any:
        """Call the function."""


def marked(function: Callable[..., Any], mark: Mark) -> Callable[..., Any]:
    """Return a function with a mark."""
    setattr(getattr(function, "__func__", function), MARK, mark)
    return function


def marking(make: Callable[..., Mark], name_or_fn: Any, name: str | None) -> Any:
    """Return a function with a mark, or the decorator that marks a function.

    Raises:
        TypeError: the function is a class method, or there are two names.
    """
    if isinstance(name_or_fn, classmethod):
        raise TypeError("a classmethod has no server yet: add the bound method to a server")
    if callable(name_or_fn):
        return marked(name_or_fn, make(name=name))
    if name_or_fn is not None and name is not None:
        raise TypeError("Cannot specify a name both as first argument and as keyword")
    return lambda function: marked(function, make(name=name_or_fn or name))


def get_fastmcp_meta(fn: Any) -> Mark | None:
    """Return the mark of a function, or of the function that it wraps; None without one."""
    for each in (fn, getattr(fn, "__func__", None), inspect.unwrap(fn) if callable(fn) else None):
        found = getattr(each, MARK, None)
        if isinstance(found, Mark):
            return found
    return None
