"""JSON Schema (2020-12) of the arguments and of the result of a function.

https://modelcontextprotocol.io/specification/2026-07-28/basic#json-schema-usage
"""

from __future__ import annotations

import inspect
import sys
import typing
from collections import abc
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from os import PathLike
from typing import Any, NamedTuple, get_args, get_origin

import msgspec

from carrel.errors import ConfigError
from carrel.protocol.json_values import to_json, to_jsonable
from carrel.protocol.tables import is_table_type
from carrel.server.schema.parameter import Parameter
from carrel.server.schema.type_hints import Metadata, describe, has_fields, is_pydantic, make_model, walk

__all__ = ["Output", "input_schema", "output_schema", "schemas_of"]

GENERATORS = (abc.Iterator, abc.Iterable, abc.Generator, abc.AsyncIterator, abc.AsyncIterable, abc.AsyncGenerator)
#: Schemas without information about a result, such as the schema of ``list``, which may hold content blocks.
UNSAID: tuple[dict[str, Any], ...] = ({}, {"type": "array"}, {"type": "array", "items": {}})


def input_schema(name: str, parameters: Sequence[Parameter], variadic: Parameter | None) -> dict[str, Any]:
    """Return the JSON Schema of a function's arguments. ``variadic`` is its ``**kwargs``, ``name`` is for messages.

    Raises:
        ConfigError: a type has no schema.
    """
    own = [parameter for parameter in parameters if not parameter.by_pydantic]
    annotations = [parameter.annotation for parameter in own]
    try:
        schemas, definitions = schemas_of(annotations)
        more: Any = variadic_schema(variadic, definitions)
    except TypeError as error:
        raise ConfigError(f"There is no JSON Schema for the parameters of {name}: {error}") from None
    found = {parameter.alias: schema for parameter, schema in zip(own, schemas, strict=True)}
    theirs = [parameter for parameter in parameters if parameter.by_pydantic]
    if theirs:
        try:
            properties, models = model_schemas(theirs, definitions)
        except sys.modules["pydantic"].errors.PydanticUserError as error:
            raise ConfigError(f"There is no JSON Schema for the parameters of {name}: {error}") from None
        found |= properties
        definitions |= models
    properties = {}
    for parameter in parameters:
        schema = properties[parameter.alias] = found[parameter.alias]
        if parameter.description:
            schema["description"] = parameter.description
        if not parameter.required and "default" not in schema:
            schema.update(default_schema(parameter.default))
    required = [parameter.alias for parameter in parameters if parameter.required]
    return {
        "type": "object",
        **({"properties": properties} if properties else {}),
        **({"required": required} if required else {}),
        "additionalProperties": more,
        **({"$defs": definitions} if definitions else {}),
    }


def variadic_schema(variadic: Parameter | None, definitions: dict[str, Any]) -> Any:
    if variadic is None:
        return False
    (schema,), more = schemas_of([variadic.annotation])
    definitions.update(more)
    return schema or True


def schemas_of(annotations: Sequence[Any]) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """Return the JSON Schemas that msgspec makes of types, and the definitions that they refer to."""
    made, definitions = msgspec.json.schema_components(
        annotations, schema_hook=foreign_schema, ref_template="#/$defs/{name}"
    )
    for node in (node for annotation in annotations for node in walk(annotation) if has_fields(node)):
        properties = definitions.get(node.__name__, {}).get("properties", {})
        for name, hint in typing.get_type_hints(node, include_extras=True).items():
            while get_origin(hint) in (typing.Required, typing.NotRequired):
                (hint,) = get_args(hint)
            for item in getattr(hint, "__metadata__", ()):
                if name in properties and describe(item):
                    properties[name].setdefault("description", describe(item))
    return list(made), definitions


def foreign_schema(kind: type) -> dict[str, Any]:
    if kind is object:
        return {}
    if issubclass(kind, PathLike):
        return {"type": "string", "format": "path"}
    raise TypeError(f"{kind.__qualname__} has no schema")


def model_schemas(parameters: Sequence[Parameter], taken: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the JSON Schemas that pydantic makes of parameters, and their definitions, renamed if a name is taken."""
    model = make_model(parameters)
    schema = model.model_json_schema()
    if schema.get("$defs", {}).keys() & taken.keys():
        schema = model.model_json_schema(ref_template="#/$defs/pydantic.{model}")
        schema["$defs"] = {f"pydantic.{name}": item for name, item in schema["$defs"].items()}
    for name, item in schema["properties"].items():
        if item.get("title") == name.replace("_", " ").title():  # forged from the name by pydantic
            del item["title"]
    return schema["properties"], schema.get("$defs", {})


def default_schema(default: Any) -> dict[str, Any]:
    """Return the ``default`` of a JSON Schema, or nothing where JSON cannot express it."""
    try:
        value = to_jsonable(default)
        return {"default": value} if msgspec.json.decode(to_json(default)) == value else {}
    except (TypeError, ValueError, RecursionError, msgspec.MsgspecError):
        return {}


class Output(NamedTuple):
    """How the results of a function are described and encoded."""

    schema: dict[str, Any] | None
    """JSON Schema of the structured content (an object), or None."""
    to_plain: Callable[[Any], Any]
    """Function that converts a result to JSON types."""
    wraps: bool = False
    """Whether the structured content is ``{"result": …}``, because results are no objects."""


def output_schema(name: str, structured: bool | None, annotation: Callable[[], Any]) -> Output:
    """Return the JSON Schema of a function's result, and how results are encoded accordingly.

    ``annotation`` returns the result's annotation, ``name`` is for messages; for ``structured`` see ``Signature``.

    Raises:
        ConfigError: a schema was requested, and the type of the result is unknown or has no schema.
    """
    nothing = Output(None, to_jsonable)
    if structured is False:
        return nothing
    try:
        returns = collected(annotation())
        if returns is inspect.Signature.empty:
            raise TypeError("it is not annotated")
        if is_table_type(returns):
            return Output(wrapped({"type": "array"}), to_jsonable, wraps=True)
        nodes = list(walk(returns))
        package = __name__.partition(".")[0]
        if any(getattr(node, "__module__", "").partition(".")[0] == package for node in nodes if is_class(node)):
            return nothing
        schema, encode = result_schema(returns, nodes)
    except Exception as error:  # pydantic and get_type_hints may raise any exception
        if structured:
            raise ConfigError(f"There is no JSON Schema for the result of {name}: {error}") from None
        return nothing
    if schema.get("type") == "object":
        return Output(schema, encode)
    if not structured and (returns in (None, type(None)) or schema in UNSAID):
        return nothing
    return Output(wrapped(schema), encode, wraps=True)


def wrapped(schema: dict[str, Any]) -> dict[str, Any]:
    """Return the schema of an object whose member ``result`` has a schema."""
    definitions = {"$defs": schema.pop("$defs")} if "$defs" in schema else {}
    return {"type": "object", "properties": {"result": schema}, "required": ["result"], **definitions}


def collected(returns: Any) -> Any:
    """Return the list type for a generator's annotation; return other annotations unchanged."""
    origin = get_origin(returns) or returns
    if origin not in GENERATORS:
        return returns
    arguments = get_args(returns)
    return list[arguments[0]] if arguments else list  # type: ignore[valid-type]


def is_class(node: Any) -> bool:
    return isinstance(node, type) and not isinstance(node, Metadata)


def result_schema(returns: Any, nodes: Sequence[Any]) -> tuple[dict[str, Any], Callable[[Any], Any]]:
    encode: Callable[[Any], Any] = to_jsonable
    if any(is_pydantic(node.value if isinstance(node, Metadata) else node) for node in nodes):
        adapter = sys.modules["pydantic"].TypeAdapter(returns)
        schema = adapter.json_schema(mode="serialization")
        options = {"mode": "json", "by_alias": True, "warnings": False, "fallback": to_jsonable}
        encode = partial(adapter.dump_python, **options)
    else:
        (schema,), definitions = schemas_of([returns])
        schema |= {"$defs": definitions} if definitions else {}
    return at_root(schema), encode


def at_root(schema: dict[str, Any]) -> dict[str, Any]:
    """Inline the definition that the root of a schema refers to, so that its type is at the root."""
    definitions = dict(schema.get("$defs", {}))
    name = schema.get("$ref", "").removeprefix("#/$defs/")
    if name not in definitions:
        return schema
    root = definitions[name]
    used = to_json(definitions)
    if f'"#/$defs/{name}"'.encode() not in used:  # nothing else refers to it
        del definitions[name]
    return {**root, **({"$defs": definitions} if definitions else {})}
