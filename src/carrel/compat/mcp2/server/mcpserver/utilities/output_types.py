"""Types that structured results are validated against."""

from __future__ import annotations

import sys
from types import GenericAlias, NoneType
from typing import Annotated, Any, NotRequired, get_args, get_origin

from pydantic import BaseModel, ConfigDict, Field, create_model
from typing_extensions import ReadOnly, TypedDict, get_type_hints, is_typeddict
from typing_inspection.introspection import AnnotationSource, inspect_annotation

__all__ = ["output_type", "readable_typeddict"]

PLAIN = (str, int, float, bool, bytes, NoneType)


def output_type(annotation: Any, kind: Any, name: str) -> tuple[Any, bool]:
    """Return the type for the result of the function ``name``, and whether the result is wrapped in an object.

    ``kind`` is the annotation without metadata. The type is None if there cannot be one.
    """
    if isinstance(kind, GenericAlias) and get_origin(kind) is dict and get_args(kind)[:1] == (str,):
        return Annotated[kind, Field(title=f"{name}DictOutput")], False
    if isinstance(kind, type) and not isinstance(kind, GenericAlias) and kind not in PLAIN:
        if issubclass(kind, BaseModel) or is_typeddict(kind):
            return kind, False
        hints = get_type_hints(kind)
        return (_model_of(kind, hints) if hints else None), False
    return create_model(f"{name}Output", result=annotation), True


def _model_of(kind: type, hints: dict[str, Any]) -> type[BaseModel]:
    """Return the model of a class with annotations, such as a dataclass, with its defaults."""
    fields: dict[str, Any] = {
        key: (hint, getattr(kind, key)) if hasattr(kind, key) else hint
        for key, hint in hints.items()
        if not key.startswith("_")
    }
    return create_model(kind.__name__, __config__=ConfigDict(from_attributes=True), **fields)


def readable_typeddict(kind: Any) -> Any:
    """Return a type that pydantic reads: below Python 3.12, it wants the ``TypedDict`` of ``typing_extensions``."""
    if sys.version_info >= (3, 12) or not is_typeddict(kind) or type(kind).__module__ != "typing":
        return kind
    items: dict[str, Any] = {}
    for name, hint in get_type_hints(kind, include_extras=True).items():
        key = inspect_annotation(hint, annotation_source=AnnotationSource.TYPED_DICT)
        item: Any = Annotated[(key.type, *key.metadata)] if key.metadata else key.type
        if "read_only" in key.qualifiers:
            item = ReadOnly[item]
        needed = name in kind.__required_keys__ or "required" in key.qualifiers
        items[name] = item if needed and "not_required" not in key.qualifiers else NotRequired[item]
    made: Any = TypedDict
    rebuilt = made(kind.__name__, items)
    for attribute in ("__doc__", "__module__", "__qualname__", "__pydantic_config__"):
        if hasattr(kind, attribute):
            setattr(rebuilt, attribute, getattr(kind, attribute))
    return rebuilt
