"""Parameter of a user's function, and the types that need no inspection."""

from __future__ import annotations

import inspect
import types
from typing import TYPE_CHECKING, Any, Union

from msgspec import NODEFAULT

if TYPE_CHECKING:
    from carrel.server.schema.signature import Signature

__all__ = ["SIMPLE", "UNIONS", "Parameter"]

# Types that need no inspection, neither whether JSON can be read into them nor whether pydantic is to do it.
SIMPLE = frozenset({str, int, float, bool, bytes, dict, list, tuple, set, frozenset, object, inspect.Parameter.empty})
UNIONS = (Union, types.UnionType)


class Parameter:
    """One parameter of a function. ``alias`` is its name on the wire, which only a pydantic ``Field`` can change.

    ``note`` is the description in its annotation. ``default`` is ``msgspec.NODEFAULT`` if there is none, or if only
    pydantic can make it.
    """

    __slots__ = ("_signature", "alias", "annotation", "by_pydantic", "default", "name", "note", "required")

    def __init__(self, signature: Signature, name: str, annotation: Any, default: Any = NODEFAULT) -> None:
        self.name = self.alias = name
        self.annotation = annotation
        self.default = default
        self.required = default is NODEFAULT
        self.by_pydantic = False
        self.note: str | None = None
        self._signature = signature

    @property
    def description(self) -> str | None:
        """Description from ``Annotated``, a ``Field``, or else the docstring of the function."""
        return self.note or self._signature.documentation[1].get(self.name)

    def __repr__(self) -> str:
        return f"Parameter({self.name!r}, {self.annotation!r}, required={self.required})"
