"""Type hints of parameters and results: the types in them, and whether msgspec or pydantic decodes these."""

from __future__ import annotations

import enum
import inspect
import sys
import typing
from collections import abc
from collections.abc import Iterator, Sequence
from os import PathLike
from typing import Annotated, Any, Literal, TypeVar, get_args, get_origin

import msgspec
from msgspec import NODEFAULT

from carrel.late import is_instance
from carrel.protocol.json_values import read_foreign
from carrel.server.schema.parameter import SIMPLE, UNIONS, Parameter

__all__ = [
    *("Metadata", "describe", "has_fields", "is_array", "is_foreign", "is_pydantic", "make_model", "plain_type"),
    *("read_annotation", "reject_slow_models", "reject_slow_patterns", "values_of", "walk"),
]

KNOWN = {
    *("datetime.datetime", "datetime.date", "datetime.time", "datetime.timedelta", "decimal.Decimal", "uuid.UUID"),
    *("builtins.bytearray", "builtins.memoryview", "builtins.NoneType", "msgspec.Raw", "msgspec.UnsetType"),
}
SETS = (set, frozenset, abc.Set, abc.MutableSet)
CONTAINERS = (*SETS, abc.Sequence, abc.MutableSequence, abc.Collection, abc.Mapping, abc.MutableMapping)


def read_annotation(parameter: Parameter) -> None:
    """Set the fields of a parameter from its annotation: description, alias, default, and whether pydantic decodes it.

    Raises:
        TypeError: neither msgspec nor pydantic can read JSON into this type.
    """
    if is_field(parameter.default):  # name: int = Field(...) is another way to write Annotated
        parameter.annotation = Annotated[parameter.annotation, parameter.default]
        parameter.default = NODEFAULT
    required = parameter.default is NODEFAULT
    if get_origin(parameter.annotation) is Annotated:
        for item in parameter.annotation.__metadata__:
            parameter.note = describe(item) or parameter.note
            if is_field(item):
                required = required and item.is_required()
                parameter.alias = alias_of(item) or parameter.alias
                if parameter.default is NODEFAULT and item.default_factory is None and not item.is_required():
                    parameter.default = item.default
    parameter.required = required
    if parameter.default is None:  # name: int = None
        parameter.annotation = or_none(parameter.annotation)
    parameter.by_pydantic = is_for_pydantic(parameter)


class Metadata(msgspec.Struct, frozen=True):
    """An item of ``Annotated`` beside its type."""

    value: Any


def walk(annotation: Any) -> Iterator[Any]:
    """Yield every type that an annotation is made of, fields of classes included, and each ``Metadata``."""
    seen: set[int] = set()
    nodes = [annotation]
    while nodes:
        node = nodes.pop()
        origin = get_origin(node)
        if origin is Annotated:
            yield from (Metadata(item) for item in node.__metadata__)
            nodes.append(node.__origin__)
            continue
        yield node
        if origin is Literal:
            continue
        if origin is not None:
            nodes += [item for item in get_args(node) if item is not ...]
            if isinstance(origin, type) and origin not in UNIONS:
                nodes.append(origin)
        elif hasattr(node, "__supertype__"):
            nodes.append(node.__supertype__)
        elif type(node).__name__ == "TypeAliasType":
            nodes.append(node.__value__)
        elif isinstance(node, TypeVar):
            nodes += [node.__bound__] if node.__bound__ is not None else node.__constraints__
        elif has_fields(node) and id(node) not in seen:
            seen.add(id(node))
            nodes += typing.get_type_hints(node, include_extras=True).values()


def has_fields(kind: Any) -> bool:
    """Return whether msgspec reads a class field by field."""
    if not isinstance(kind, type):
        return False
    if issubclass(kind, msgspec.Struct) or typing.is_typeddict(kind):
        return True
    marks = ("__dataclass_fields__", "__attrs_attrs__", "_fields" if issubclass(kind, tuple) else "__attrs_attrs__")
    return any(hasattr(kind, mark) for mark in marks) and not is_pydantic(kind)


def is_pydantic(item: Any) -> bool:
    """Return whether only pydantic supports a class, or an item of ``Annotated``."""
    if is_field(item):
        return not only_describes(item)
    if hasattr(item, "__get_pydantic_core_schema__") or hasattr(item, "__pydantic_validator__"):
        return True
    return type(item).__module__.partition(".")[0] in ("annotated_types", "pydantic", "pydantic_core")


def is_foreign(kind: Any) -> bool:
    """Return whether msgspec does not support a class."""
    if not isinstance(kind, type) or kind in SIMPLE or kind in CONTAINERS or kind is Any or has_fields(kind):
        return False
    if issubclass(kind, (enum.Enum, PathLike)):
        return inspect.isabstract(kind)
    return f"{kind.__module__}.{kind.__qualname__}" not in KNOWN


def is_for_pydantic(parameter: Parameter) -> bool:
    """Return whether pydantic decodes a parameter: where the annotation uses it; msgspec does elsewhere.

    pydantic also gets what msgspec cannot do, such as a union of two classes, if it has been imported.

    Raises:
        TypeError: neither can read it.
    """
    annotation = parameter.annotation
    nodes = list(walk(annotation))
    problem: Exception | None = None
    uses_pydantic = any(is_pydantic(node.value if isinstance(node, Metadata) else node) for node in nodes)
    foreign = [node for node in nodes if is_foreign(node) and not is_pydantic(node)]
    reject_slow_patterns(nodes)
    for node in nodes:
        if get_origin(node) in SETS and not is_hashable(plain_type(get_args(node)[0])):
            raise TypeError(f"{node} is not possible, because its items cannot be hashed; use a list")
        if node in foreign and node.__module__ == "collections.abc":  # pydantic would validate it too late
            hint = "; use a list or Sequence" if issubclass(node, abc.Iterable) else ""
            raise TypeError(f"JSON cannot be decoded to {node.__qualname__}{hint}")
    if not uses_pydantic:
        if not foreign:
            try:
                msgspec.json.Decoder(annotation, dec_hook=read_foreign)
                return False
            except (TypeError, ValueError) as error:
                problem = error
        else:
            problem = TypeError(f"JSON cannot be decoded to {foreign[0].__qualname__}")
    if "pydantic" not in sys.modules:
        raise problem or TypeError("its constraints are pydantic's, which is not imported; use msgspec.Meta")
    if any(isinstance(node, type) and issubclass(node, msgspec.Struct) for node in nodes):
        raise problem or TypeError("pydantic and msgspec.Struct do not mix in one type")
    if problem or foreign:  # anything else is pydantic's own, which it is sure to take
        try:
            make_model([parameter]).model_json_schema()["properties"][parameter.alias]
        except Exception as error:
            raise problem or TypeError(str(error).partition("\n")[0]) from None
    return True


def reject_slow_patterns(nodes: Sequence[Any]) -> None:
    """Refuse types with a pattern of ``msgspec.Meta`` that is open to catastrophic backtracking (ReDoS).

    Raises:
        TypeError: there is one; the message has it.
    """
    metas = (node.value for node in nodes if isinstance(node, Metadata) and isinstance(node.value, msgspec.Meta))
    for meta in metas:
        if meta.pattern is not None:
            reject_if_slow(meta.pattern, meta.max_length)


def reject_if_slow(pattern: Any, max_length: int | None) -> None:
    from carrel.server.schema.backtracking import hazard

    problem = hazard(pattern, max_length)
    if problem is not None:
        text = getattr(pattern, "pattern", pattern)
        raise TypeError(
            f"its pattern {text!r} is not safe for untrusted text: {problem}. "
            "A pattern in pydantic.Field or in a schema given by hand takes linear time"
        )


def reject_slow_models(schema: Any) -> None:
    """Refuse pydantic models with patterns for Python's ``re`` that are open to catastrophic backtracking (ReDoS).

    ``schema`` is a core schema of pydantic. By default, its patterns are not for ``re`` and take linear time.

    Raises:
        TypeError: there is one; the message has it.
    """
    strings: list[dict[str, Any]] = []
    nodes, seen, python = [schema], set[int](), False
    while nodes:
        node = nodes.pop()
        if not isinstance(node, dict | list | tuple) or id(node) in seen:
            continue
        seen.add(id(node))
        if isinstance(node, dict):
            python = python or node.get("regex_engine") == "python-re"
            if node.get("type") == "str" and node.get("pattern") is not None:
                strings.append(node)
        nodes += node.values() if isinstance(node, dict) else node
    for node in strings:
        if python or not isinstance(node["pattern"], str):
            reject_if_slow(node["pattern"], node.get("max_length"))


def is_hashable(kind: Any) -> bool:
    """Return whether the values of a type are hashable."""
    kind = get_origin(kind) or kind
    if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
        return kind.__struct_config__.frozen
    return getattr(kind, "__hash__", None) is not None


def is_field(item: Any) -> bool:
    """Return whether an object is a ``FieldInfo``, which pydantic's ``Field`` returns."""
    return is_instance(item, "pydantic.fields", "FieldInfo")


def only_describes(field: Any) -> bool:
    """Return whether a ``Field`` has only a description, and at most a default: no reason to call pydantic."""
    others = ("alias", "validation_alias", "default_factory", "title", "examples", "json_schema_extra", "discriminator")
    return not field.metadata and all(getattr(field, name) is None for name in others)


def alias_of(field: Any) -> str | None:
    """Return the alias that a ``Field`` gives to its input."""
    alias = field.validation_alias or field.alias
    choices = getattr(alias, "choices", (alias,))
    return next((choice for choice in choices if isinstance(choice, str)), None)


def describe(item: Any) -> str | None:
    """Return the description in an item of ``Annotated``: text, ``Meta``, ``Field`` or ``Doc``."""
    text = item if isinstance(item, str) else getattr(item, "description", getattr(item, "documentation", None))
    return text if isinstance(text, str) else None


def or_none(annotation: Any) -> Any:
    """Return the union of a type and None, with the metadata where it was."""
    if get_origin(annotation) is Annotated:
        return Annotated[(or_none(annotation.__origin__), *annotation.__metadata__)]
    return annotation if annotation is Any else typing.Optional[annotation]  # noqa: UP045 - it need not be a class


def make_model(parameters: Sequence[Parameter]) -> Any:
    """Return the pydantic model that decodes these parameters: ``argument_0`` and so on, by their aliases."""
    pydantic = sys.modules["pydantic"]
    fields: dict[str, Any] = {}
    for index, parameter in enumerate(parameters):
        options = {} if parameter.default is NODEFAULT else {"default": parameter.default}
        field = pydantic.Field(alias=parameter.alias, validation_alias=parameter.alias, **options)
        fields[f"argument_{index}"] = (parameter.annotation, field)
    model = pydantic.create_model("Arguments", __config__=pydantic.ConfigDict(strict=True), **fields)
    reject_slow_models(model.__pydantic_core_schema__)
    return model


def plain_type(annotation: Any) -> Any:
    """Return the type itself, without ``Annotated``, ``NewType``, type aliases, and ``| None``."""
    while True:
        if get_origin(annotation) in UNIONS:
            others = [item for item in get_args(annotation) if item is not type(None)]
            if len(others) != 1:
                return annotation
            annotation = others[0]
        elif get_origin(annotation) is Annotated:
            annotation = annotation.__origin__
        elif hasattr(annotation, "__supertype__"):
            annotation = annotation.__supertype__
        elif type(annotation).__name__ == "TypeAliasType":
            annotation = annotation.__value__
        else:
            return annotation


def values_of(annotation: Any) -> tuple[Any, ...]:
    """Return every value a Literal, an Enum or a bool can have, also as the item of an array; else none."""
    kind = plain_type(annotation)
    origin, arguments = get_origin(kind), get_args(kind)
    if kind is bool:
        return (True, False)
    if isinstance(kind, type) and issubclass(kind, enum.Enum):
        return tuple(kind)
    if origin is Literal:
        return tuple(value for value in arguments if value is not None)
    if origin in UNIONS:
        members = [values_of(item) for item in arguments if item is not type(None)]
        return tuple(value for values in members for value in values) if all(members) else ()
    if is_array(origin) and len(set(map(id, arguments)) - {id(...)}) == 1:
        return values_of(arguments[0])
    return ()


def is_array(kind: Any) -> bool:
    """Return whether a class is encoded as a JSON array."""
    others = (str, bytes, bytearray, memoryview, abc.Mapping)
    return isinstance(kind, type) and issubclass(kind, abc.Iterable) and not issubclass(kind, others)
