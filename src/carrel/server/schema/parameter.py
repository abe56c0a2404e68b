"""Parameter of a user's function, its documentation, and the types that need no inspection."""

from __future__ import annotations

import inspect
import types
from collections.abc import Callable
from functools import partial
from typing import Annotated, Any, NamedTuple, Union, get_origin

from msgspec import NODEFAULT

__all__ = ["SIMPLE", "UNIONS", "Dependency", "Documentation", "Parameter", "dependency_of"]

# Types that need no inspection, neither whether JSON can be read into them nor whether pydantic is to do it.
SIMPLE = frozenset({str, int, float, bool, bytes, dict, list, tuple, set, frozenset, object, inspect.Parameter.empty})
UNIONS = (Union, types.UnionType)


class Dependency(NamedTuple):
    """Marker of a parameter that ``make`` makes for each call, and no client gives. ``Depends`` returns it."""

    make: Callable[..., Any]
    use_cache: bool = True


def dependency_of(annotation: Any, default: Any) -> Dependency | None:
    """Return the marker of a parameter: its default, or in ``Annotated``; None for an argument of clients."""
    if type(default) is Dependency:
        return default
    if get_origin(annotation) is Annotated:
        return next((item for item in annotation.__metadata__ if type(item) is Dependency), None)
    return None


class Documentation:
    """Docstring of a function, parsed on first access: it is needed for lists, not at start-up."""

    __slots__ = ("_function", "_read")

    def __init__(self, function: Callable[..., Any]) -> None:
        self._function = function
        self._read: tuple[str | None, dict[str, str]] | None = None

    @property
    def text(self) -> str | None:
        """The docstring without its section on parameters."""
        return self._parse()[0]

    @property
    def parameters(self) -> dict[str, str]:
        """The description of each parameter that has one."""
        return self._parse()[1]

    def _parse(self) -> tuple[str | None, dict[str, str]]:
        if self._read is None:
            function: Any = self._function
            while isinstance(function, partial):
                function = function.func
            text = function.__doc__
            if not (inspect.isroutine(function) or isinstance(function, type)):
                text = type(function).__call__.__doc__ or text
            if text:
                from carrel.server.schema.docstring import read_docstring

                self._read = read_docstring(text)
            else:
                self._read = None, {}
        return self._read


class Parameter:
    """One parameter of a function. ``alias`` is its name on the wire, which only a pydantic ``Field`` can change.

    ``note`` is the description in its annotation. ``default`` is ``msgspec.NODEFAULT`` if the parameter has no default,
    or if only pydantic can create it.
    """

    __slots__ = ("_documentation", "alias", "annotation", "by_pydantic", "default", "name", "note", "required")

    def __init__(self, documentation: Documentation, name: str, annotation: Any, default: Any = NODEFAULT) -> None:
        self.name = self.alias = name
        self.annotation = annotation
        self.default = default
        self.required = default is NODEFAULT
        self.by_pydantic = False
        self.note: str | None = None
        self._documentation = documentation

    @property
    def description(self) -> str | None:
        """Description from ``Annotated``, a ``Field``, or else the docstring of the function."""
        return self.note or self._documentation.parameters.get(self.name)

    def __repr__(self) -> str:
        return f"Parameter({self.name!r}, {self.annotation!r}, required={self.required})"
