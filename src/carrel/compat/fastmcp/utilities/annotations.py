"""Annotations of functions: which types they name, and functions with other annotations."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Mapping
from functools import lru_cache
from types import FunctionType, MethodType, UnionType
from typing import Annotated, Any, Union, get_args, get_origin, get_type_hints

from pydantic import Field, TypeAdapter

__all__ = [
    "create_function_without_params",
    "described",
    "find_kwarg_by_type",
    "get_cached_typeadapter",
    "is_class_member_of_type",
    "issubclass_safe",
    "replace_type",
]

MAX_ADAPTERS = 5000


def described(hint: Any) -> Any:
    """Return an annotation, whose only addition is a description if it is a text."""
    inner, *added = get_args(hint) if get_origin(hint) is Annotated else (hint,)
    if len(added) == 1 and isinstance(added[0], str):
        return Annotated[inner, Field(description=added[0])]
    return hint


def issubclass_safe(cls: Any, base: type) -> bool:
    """Return whether a type, or the origin of a generic type, is a subclass; False for other values."""
    found = get_origin(cls) or cls
    return isinstance(found, type) and issubclass(found, base)


def is_class_member_of_type(cls: Any, base: type) -> bool:
    """Return whether a type, or a member of a union, is a subclass."""
    origin = get_origin(cls)
    if origin in (Union, UnionType):
        return any(is_class_member_of_type(each, base) for each in get_args(cls))
    return is_class_member_of_type(get_args(cls)[0], base) if origin is Annotated else issubclass_safe(cls, base)


def _hints(function: Callable[..., Any]) -> dict[str, Any]:
    """Return the annotations of a function, evaluated if they can be."""
    try:
        return get_type_hints(function, include_extras=True)
    except Exception:
        return dict(getattr(function, "__annotations__", {}))


def find_kwarg_by_type(fn: Callable[..., Any], kwarg_type: type) -> str | None:
    """Return the first parameter whose annotation has a type, or None."""
    function = getattr(fn, "__func__", fn)
    hints = _hints(function)
    parameters = inspect.signature(function).parameters.items()
    found = (name for name, each in parameters if is_class_member_of_type(hints.get(name, each.annotation), kwarg_type))
    return next(found, None)


def _copied(fn: Callable[..., Any], annotations: Mapping[str, Any]) -> Any:
    """Return a function, or a bound method, with other annotations."""
    function: Any = getattr(fn, "__func__", fn)
    copied = FunctionType(
        function.__code__, function.__globals__, function.__name__, function.__defaults__, function.__closure__
    )
    copied.__dict__.update(function.__dict__)
    copied.__module__, copied.__qualname__ = function.__module__, function.__qualname__
    copied.__kwdefaults__, copied.__annotations__ = function.__kwdefaults__, dict(annotations)
    return copied


def create_function_without_params(fn: Callable[..., Any], exclude_params: Collection[str]) -> Callable[..., Any]:
    """Return a function whose signature has not the parameters that are excluded."""
    annotations = {name: hint for name, hint in fn.__annotations__.items() if name not in exclude_params}
    copied = _copied(fn, annotations)
    signature = inspect.signature(fn)
    kept = [each for name, each in signature.parameters.items() if name not in exclude_params]
    copied.__signature__ = signature.replace(parameters=kept)
    return MethodType(copied, fn.__self__) if inspect.ismethod(fn) else copied


@lru_cache(MAX_ADAPTERS)
def get_cached_typeadapter(cls: Any) -> TypeAdapter[Any]:
    """Return the validator of a type or of a function's arguments."""
    if (inspect.isfunction(cls) or inspect.ismethod(cls)) and cls.__annotations__:
        hints = {name: described(hint) for name, hint in _hints(cls).items()}
        if hints != cls.__annotations__:
            copied = _copied(cls, hints)
            bound: Any = MethodType(copied, cls.__self__) if inspect.ismethod(cls) else copied
            return TypeAdapter(bound)
    return TypeAdapter(cls)


def replace_type(type_: Any, type_map: Mapping[Any, Any]) -> Any:
    """Return a type in which types are replaced, at any depth."""
    if type_ in type_map:
        return type_map[type_]
    origin = get_origin(type_)
    if not origin:
        return type_
    arguments = tuple(replace_type(each, type_map) for each in get_args(type_))
    return Union[arguments] if origin is UnionType else origin[arguments]  # noqa: UP007
