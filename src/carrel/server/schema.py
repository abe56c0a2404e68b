"""JSON Schema: made from Python types and docstrings, and checked against.

Both the schemas that are made and those that say nothing about it are of the dialect 2020-12; ``Validator`` also takes
2019-09 and draft-07. https://modelcontextprotocol.io/specification/2026-07-28/basic#json-schema-usage
"""

from __future__ import annotations

import enum
import inspect
import re
import sys
import typing
from collections import abc
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from os import PathLike
from typing import Annotated, Any, Literal, TypeVar, get_args, get_origin

import msgspec
from msgspec import NODEFAULT, ValidationError

from carrel.errors import ConfigError
from carrel.server.signature import (
    REFUSED,
    SIMPLE,
    UNIONS,
    InvalidArguments,
    Parameter,
    Signature,
    join_path,
    read_foreign,
    to_json,
    to_jsonable,
)

__all__ = ["Validator", "input_schema", "output_schema", "read_docstring", "reader_of", "text_of", "values_of"]

KNOWN = {
    *("datetime.datetime", "datetime.date", "datetime.time", "datetime.timedelta", "decimal.Decimal", "uuid.UUID"),
    *("builtins.bytearray", "builtins.memoryview", "builtins.NoneType", "msgspec.Raw", "msgspec.UnsetType"),
}
SETS = (set, frozenset, abc.Set, abc.MutableSet)
CONTAINERS = (*SETS, abc.Sequence, abc.MutableSequence, abc.Collection, abc.Mapping, abc.MutableMapping)


class Metadata(msgspec.Struct, frozen=True):
    """What ``Annotated`` says beside a type."""

    value: Any


def walk(annotation: Any) -> Iterator[Any]:
    """Return every type that an annotation is made of, fields of classes included, and each ``Metadata``."""
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
    """Say whether msgspec reads a class field by field."""
    if not isinstance(kind, type):
        return False
    if issubclass(kind, msgspec.Struct) or typing.is_typeddict(kind):
        return True
    marks = ("__dataclass_fields__", "__attrs_attrs__", "_fields" if issubclass(kind, tuple) else "__attrs_attrs__")
    return any(hasattr(kind, mark) for mark in marks) and not is_pydantic(kind)


def is_pydantic(item: Any) -> bool:
    """Say whether a class, or an item of ``Annotated``, is one that pydantic alone understands."""
    if is_field(item):
        return not only_describes(item)
    if hasattr(item, "__get_pydantic_core_schema__") or hasattr(item, "__pydantic_validator__"):
        return True
    return type(item).__module__.partition(".")[0] in ("annotated_types", "pydantic", "pydantic_core")


def is_foreign(kind: Any) -> bool:
    """Say whether msgspec, and so JSON, knows nothing about a class."""
    if not isinstance(kind, type) or kind in SIMPLE or kind in CONTAINERS or kind is Any or has_fields(kind):
        return False
    if issubclass(kind, (enum.Enum, PathLike)):
        return inspect.isabstract(kind)
    return f"{kind.__module__}.{kind.__qualname__}" not in KNOWN


def is_for_pydantic(parameter: Parameter) -> bool:
    """Say who reads the values of a parameter: pydantic where the annotation uses it, msgspec elsewhere.

    pydantic also gets what msgspec cannot do, such as a union of two classes, if it has been imported.

    Raises:
        TypeError: neither can read it.
    """
    annotation = parameter.annotation
    nodes = list(walk(annotation))
    problem: Exception | None = None
    uses_pydantic = any(is_pydantic(node.value if isinstance(node, Metadata) else node) for node in nodes)
    foreign = [node for node in nodes if is_foreign(node) and not is_pydantic(node)]
    for node in nodes:
        if get_origin(node) in SETS and not is_hashable(plain_type(get_args(node)[0])):
            raise TypeError(f"{node} cannot be, because its items cannot be hashed; use a list")
        if node in foreign and node.__module__ == "collections.abc":  # pydantic would validate it too late
            hint = "; use a list or Sequence" if issubclass(node, abc.Iterable) else ""
            raise TypeError(f"JSON cannot be read into {node.__qualname__}{hint}")
    if not uses_pydantic:
        if not foreign:
            try:
                msgspec.json.Decoder(annotation, dec_hook=read_foreign)
                return False
            except (TypeError, ValueError) as error:
                problem = error
        else:
            problem = TypeError(f"JSON cannot be read into {foreign[0].__qualname__}")
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


def is_hashable(kind: Any) -> bool:
    """Say whether the values of a type can be in a set."""
    kind = get_origin(kind) or kind
    if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
        return kind.__struct_config__.frozen
    return getattr(kind, "__hash__", None) is not None


def is_field(item: Any) -> bool:
    """Say whether this is what pydantic's ``Field`` returns."""
    fields = sys.modules.get("pydantic.fields")
    return fields is not None and isinstance(item, fields.FieldInfo)


def only_describes(field: Any) -> bool:
    """Say whether a ``Field`` is there for its description, and at most a default: no reason to call pydantic."""
    others = ("alias", "validation_alias", "default_factory", "title", "examples", "json_schema_extra", "discriminator")
    return not field.metadata and all(getattr(field, name) is None for name in others)


def alias_of(field: Any) -> str | None:
    """Return the name that a ``Field`` gives to what comes in."""
    alias = field.validation_alias or field.alias
    choices = getattr(alias, "choices", (alias,))
    return next((choice for choice in choices if isinstance(choice, str)), None)


def describe(item: Any) -> str | None:
    """Return the description in an item of ``Annotated``: text, ``Meta``, ``Field`` or ``Doc``."""
    text = item if isinstance(item, str) else getattr(item, "description", getattr(item, "documentation", None))
    return text if isinstance(text, str) else None


def or_none(annotation: Any) -> Any:
    """Return a type that is None too, with the metadata where it was."""
    if get_origin(annotation) is Annotated:
        return Annotated[(or_none(annotation.__origin__), *annotation.__metadata__)]
    return annotation if annotation is Any else typing.Optional[annotation]  # noqa: UP045 - it need not be a class


def make_model(parameters: Sequence[Parameter]) -> Any:
    """Make the pydantic model that reads these parameters: ``argument_0`` and so on, by their aliases."""
    pydantic = sys.modules["pydantic"]
    fields: dict[str, Any] = {}
    for index, parameter in enumerate(parameters):
        options = {} if parameter.default is NODEFAULT else {"default": parameter.default}
        field = pydantic.Field(alias=parameter.alias, validation_alias=parameter.alias, **options)
        fields[f"argument_{index}"] = (parameter.annotation, field)
    return pydantic.create_model("Arguments", __config__=pydantic.ConfigDict(strict=True), **fields)


def plain_type(annotation: Any) -> Any:
    """Return the type itself, without ``Annotated``, ``NewType``, names for types, and ``| None``."""
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
    """Return every value a Literal, an Enum or a bool can have, also as the item of an array; of others, nothing."""
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
    """Say whether a class is written as a JSON array."""
    others = (str, bytes, bytearray, memoryview, abc.Mapping)
    return isinstance(kind, type) and issubclass(kind, abc.Iterable) and not issubclass(kind, others)


def text_of(value: Any) -> str:
    """Write a value of a Literal or Enum as a template variable has it."""
    if isinstance(value, enum.Enum):
        return text_of(value.value) if isinstance(value.value, (str, int, float)) else value.name
    if isinstance(value, bool) or value is None:
        return msgspec.json.encode(value).decode()
    return str(value)


def reader_of(annotation: Any, *, plain: bool = False) -> Callable[[Any], Any] | None:
    """Return what reads text (or lists or dictionaries of it) into a type; None where text may stay as it is.

    What is read raises ``msgspec.ValidationError`` if it does not parse. With ``plain``, arrays and objects stay as
    JSON has them and constraints unchecked, because something else comes after.
    """
    read = read_kind(plain_type(annotation), plain)
    constrained = any(isinstance(node, Metadata) and isinstance(node.value, msgspec.Meta) for node in walk(annotation))
    if plain or not constrained:
        return read
    return lambda value: msgspec.convert(read(value) if read else value, annotation, dec_hook=read_foreign)


def read_kind(kind: Any, plain: bool) -> Callable[[Any], Any] | None:
    origin = get_origin(kind)
    if kind in SCALARS:
        return partial(read_scalar, kind)
    if origin is Literal or (isinstance(kind, type) and issubclass(kind, enum.Enum)):
        return read_choice(kind)
    if origin in UNIONS:
        return read_union(kind, plain)
    if kind is str or kind is Any or kind is object or isinstance(kind, TypeVar):
        return None
    if has_fields(kind) or has_fields(origin) or is_pydantic(kind):
        return partial(read_object, kind, plain)
    if is_array(origin or kind):
        return read_array(kind, plain)
    if isinstance(origin or kind, type) and issubclass(origin or kind, abc.Mapping):
        return read_mapping(kind, plain)
    if f"{kind.__module__}.{kind.__qualname__}" == "decimal.Decimal":
        return partial(read_scalar, kind)
    if is_foreign(kind):
        return partial(read_object, kind, plain)
    return partial(msgspec.convert, type=kind, dec_hook=read_foreign)


def read_integer(text: str) -> int:
    """Read decimal digits, perhaps after a minus; int() alone takes spaces, underscores and digits of all scripts."""
    digits = text[1:] if text[:1] == "-" else text
    if not (digits.isascii() and digits.isdigit()):
        raise ValueError(text)
    return int(text)


def read_number(kind: type, text: str) -> Any:
    """Read a finite decimal number."""
    if not text or text[0] == "+" or text.strip("0123456789.eE+-"):
        raise ValueError(text)
    number = kind(text)
    if number - number != 0:  # 1e999 is infinite
        raise ValueError(text)
    return number


def read_boolean(text: str) -> bool:
    """Read true and false, whatever their case, 1 and 0."""
    return {"true": True, "1": True, "false": False, "0": False}[text.lower()]


SCALARS: dict[Any, tuple[str, Callable[[str], Any]]] = {
    int: ("int", read_integer),
    float: ("float", partial(read_number, float)),
    bool: ("bool", read_boolean),
}


def read_scalar(kind: Any, value: Any) -> Any:
    name, read = SCALARS.get(kind) or ("decimal", partial(read_number, kind))
    if not isinstance(value, str):
        raise ValidationError(f"Expected `{name}`, got `{'array' if isinstance(value, list) else 'object'}`")
    try:
        return read(value)
    except (ValueError, ArithmeticError, LookupError):
        raise ValidationError(f"Expected `{name}`") from None


def read_choice(kind: Any) -> Callable[[Any], Any]:
    """Return what reads a value of an Enum (by value or name) or a Literal."""
    known = {} if get_origin(kind) is Literal else dict(kind.__members__)
    known |= {text_of(value): value for value in (get_args(kind) or kind)}

    def read(value: Any) -> Any:
        if not isinstance(value, str) or value not in known:
            raise ValidationError(f"Invalid enum value {str(value)[:80]!r}")
        return known[value]

    return read


def read_union(kind: Any, plain: bool) -> Callable[[Any], Any]:
    """Return what tries one type after the other; text is tried last, because it takes everything."""
    readers = [reader_of(item, plain=plain) for item in get_args(kind)]

    def read(value: Any) -> Any:
        problem = ValidationError("Invalid value")
        for reader in readers:
            try:
                if reader is not None:
                    return reader(value)
            except REFUSED as error:
                problem = ValidationError(str(error))
        if None in readers:
            return value
        raise problem

    return read


def read_array(kind: Any, plain: bool) -> Callable[[Any], Any]:
    arguments = get_args(kind)
    readers = [reader_of(item, plain=True) for item in arguments if item is not ...]
    by_position = get_origin(kind) is tuple and ... not in arguments
    if not by_position:
        readers = readers[:1]

    def read(value: Any) -> Any:
        if isinstance(value, str) and value.lstrip()[:1] == "[":
            return read_json(value, kind, plain)
        if isinstance(value, Mapping):
            raise ValidationError("Expected `array`, got `object`")
        items = [value] if isinstance(value, str) else list(value)
        for index, item in enumerate(items):
            position = index if by_position else 0
            reader = readers[position] if position < len(readers) else None
            if reader is not None:
                items[index] = reader(item)
        return items if plain else msgspec.convert(items, kind, dec_hook=read_foreign)

    return read


def read_mapping(kind: Any, plain: bool) -> Callable[[Any], Any]:
    arguments = get_args(kind)
    reader = reader_of(arguments[1], plain=True) if arguments else None

    def read(value: Any) -> Any:
        if isinstance(value, str):
            return read_json(value, kind, plain)
        if isinstance(value, Mapping) and reader is not None:
            value = {name: reader(item) for name, item in value.items()}
        return value if plain else msgspec.convert(value, kind, str_keys=True, dec_hook=read_foreign)

    return read


def read_object(kind: Any, plain: bool, value: Any) -> Any:
    if not plain:
        if isinstance(value, str):
            return read_json(value, kind, plain)
        return msgspec.convert(value, kind, strict=False, dec_hook=read_foreign)
    try:
        return msgspec.json.decode(value) if isinstance(value, str) and value[:1] in ("{", "[") else value
    except REFUSED:  # no JSON, and then it may be text to pydantic
        return value


def read_json(text: str, kind: Any, plain: bool) -> Any:
    return msgspec.json.decode(text, type=Any if plain else kind, dec_hook=read_foreign)


def input_schema(signature: Signature) -> dict[str, Any]:
    """Make the schema of a function's arguments.

    Raises:
        ConfigError: a type has no schema.
    """
    own = [parameter for parameter in signature.parameters if not parameter.by_pydantic]
    annotations = [parameter.annotation for parameter in own]
    try:
        schemas, definitions = schemas_of(annotations)
        more: Any = rest_schema(signature, definitions)
    except TypeError as error:
        raise ConfigError(f"There is no JSON Schema for the parameters of {signature.name}: {error}") from None
    found = {parameter.alias: schema for parameter, schema in zip(own, schemas, strict=True)}
    theirs = [parameter for parameter in signature.parameters if parameter.by_pydantic]
    if theirs:
        try:
            properties, models = model_schemas(theirs, definitions)
        except sys.modules["pydantic"].errors.PydanticUserError as error:
            raise ConfigError(f"There is no JSON Schema for the parameters of {signature.name}: {error}") from None
        found |= properties
        definitions |= models
    properties = {}
    for parameter in signature.parameters:
        schema = properties[parameter.alias] = found[parameter.alias]
        if parameter.description:
            schema["description"] = parameter.description
        if not parameter.required and "default" not in schema:
            schema.update(default_schema(parameter.default))
    required = [parameter.alias for parameter in signature.parameters if parameter.required]
    return {
        "type": "object",
        **({"properties": properties} if properties else {}),
        **({"required": required} if required else {}),
        "additionalProperties": more,
        **({"$defs": definitions} if definitions else {}),
    }


def rest_schema(signature: Signature, definitions: dict[str, Any]) -> Any:
    if signature.rest is None:
        return False
    (schema,), more = schemas_of([signature.rest.annotation])
    definitions.update(more)
    return schema or True


def schemas_of(annotations: Sequence[Any]) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """Make schemas with msgspec, and the definitions that they refer to."""
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
    """Make schemas with pydantic. Definitions whose names are taken get another one."""
    model = make_model(parameters)
    schema = model.model_json_schema()
    if schema.get("$defs", {}).keys() & taken.keys():
        schema = model.model_json_schema(ref_template="#/$defs/pydantic.{model}")
        schema["$defs"] = {f"pydantic.{name}": item for name, item in schema["$defs"].items()}
    for name, item in schema["properties"].items():
        if item.get("title") == name.replace("_", " ").title():  # made up from the name by pydantic
            del item["title"]
    return schema["properties"], schema.get("$defs", {})


def default_schema(default: Any) -> dict[str, Any]:
    """Return the default for the schema, or nothing where JSON cannot say it."""
    try:
        value = to_jsonable(default)
        return {"default": value} if msgspec.json.decode(to_json(default)) == value else {}
    except (TypeError, ValueError, RecursionError, msgspec.MsgspecError):
        return {}


def output_schema(signature: Signature) -> tuple[dict[str, Any] | None, Callable[[Any], Any]]:
    """Make the schema of a function's result, and what turns results into what it describes.

    Raises:
        ConfigError: a schema was asked for, and the type of the result is unknown or has none.
    """
    nothing = (None, to_jsonable)
    if signature.structured is False:
        return nothing
    try:
        returns = signature.returns
        if returns is inspect.Signature.empty:
            raise TypeError("it is not annotated")
        nodes = list(walk(returns))
        package = __name__.partition(".")[0]
        if any(getattr(node, "__module__", "").partition(".")[0] == package for node in nodes if is_class(node)):
            return nothing
        schema, encode = result_schema(returns, nodes)
    except Exception as error:  # whatever pydantic and get_type_hints raise over annotations of all kinds
        if signature.structured:
            raise ConfigError(f"There is no JSON Schema for the result of {signature.name}: {error}") from None
        return nothing
    if schema.get("type") == "object":
        return schema, encode
    if not signature.structured:
        return nothing
    definitions = {"$defs": schema.pop("$defs")} if "$defs" in schema else {}
    wrapped = {"type": "object", "properties": {"result": schema}, "required": ["result"], **definitions}
    return wrapped, lambda value: {"result": encode(value)}


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
    """Put the definition that a schema refers to in its place, so that its type can be seen at once."""
    definitions = dict(schema.get("$defs", {}))
    name = schema.get("$ref", "").removeprefix("#/$defs/")
    if name not in definitions:
        return schema
    root = definitions[name]
    used = to_json(definitions)
    if f'"#/$defs/{name}"'.encode() not in used:  # nothing else refers to it
        del definitions[name]
    return {**root, **({"$defs": definitions} if definitions else {})}


ARGUMENTS = re.compile(r"(?:Args|Arguments|Parameters|Params|Other Parameters|Keyword Args|Keyword Arguments):?\s*$")
ENTRY = re.compile(r"\*{0,2}(\w+)\s*(?:\(.*?\))?\s*:(?:\s+|$)(.*)")
FIELD = re.compile(r":(?:param|parameter|arg|argument|key|keyword)\s+(?:[^:]*\s)?\*{0,2}(\w+)\s*:\s*(.*)")
TYPE_FIELD = re.compile(r":(?:type\s+\w+|rtype)\s*:")


def read_docstring(docstring: str | None) -> tuple[str | None, dict[str, str]]:
    """Take a docstring apart: the text without what is said about parameters, and that by parameter.

    Knows the styles of Google (``Args:``), NumPy (underlined ``Parameters``) and Sphinx (``:param name:``).
    """
    lines = inspect.cleandoc(docstring or "").splitlines()
    text: list[str] = []
    found: dict[str, list[str]] = {}
    index = 0
    if (
        len(lines) > 1 and ARGUMENTS.match(lines[0]) and lines[1][:1].strip("- ")
    ):  # cleandoc() saw no first line to go by
        lines[1:] = [f"    {line}" for line in lines[1:]]
    while index < len(lines):
        line = lines[index]
        following = lines[index + 1] if index + 1 < len(lines) else ""
        if ARGUMENTS.match(line) and is_rule(following):
            index = read_numpy(lines, index + 2, found)
        elif ARGUMENTS.match(line) and line.rstrip().endswith(":"):
            index = read_google(lines, index + 1, found)
        elif line.startswith(":") and (FIELD.match(line) or TYPE_FIELD.match(line)):
            index = read_sphinx(lines, index, found)
        else:
            text.append(line)
            index += 1
    told = re.sub(r"\n{3,}", "\n\n", "\n".join(text)).strip()
    return told or None, {name: " ".join(filter(None, parts)) for name, parts in found.items() if any(parts)}


def is_rule(line: str) -> bool:
    return len(line) >= 3 and not line.strip("-")


def read_google(lines: list[str], index: int, found: dict[str, list[str]]) -> int:
    indent = 0
    parts: list[str] = []
    while index < len(lines) and (not lines[index].strip() or lines[index][0].isspace()):
        line = lines[index]
        depth = len(line) - len(line.lstrip())
        indent = indent or depth
        entry = ENTRY.match(line.strip()) if depth == indent else None
        if entry:
            parts = found.setdefault(entry[1], [])
        parts.append(entry[2].strip() if entry else line.strip())
        index += 1
    return index


def read_numpy(lines: list[str], index: int, found: dict[str, list[str]]) -> int:
    parts: list[list[str]] = []
    while index < len(lines) and not (index + 1 < len(lines) and lines[index].strip() and is_rule(lines[index + 1])):
        line = lines[index]
        if line.strip() and not line[0].isspace():
            names = line.partition(":")[0].split(",")
            parts = [found.setdefault(name.strip().lstrip("*"), []) for name in names]
        else:
            for part in parts:
                part.append(line.strip())
        index += 1
    return index


def read_sphinx(lines: list[str], index: int, found: dict[str, list[str]]) -> int:
    entry = FIELD.match(lines[index])
    parts = found.setdefault(entry[1], []) if entry else []
    parts.append(entry[2].strip() if entry else "")
    index += 1
    while index < len(lines) and lines[index][:1].isspace():
        parts.append(lines[index].strip())
        index += 1
    return index


MAX_DEPTH = 100  # of a schema: objects and arrays within each other
MAX_SIZE = 50_000  # of a schema: values of all kinds
MAX_WEIGHT = 10_000  # of a schema: subschemas that one value may have to be compared with
MAX_INSTANCE_DEPTH = 200  # the validator recurses on the native stack, which has an end
DIALECTS = {
    "https://json-schema.org/draft/2020-12/schema": "Draft202012Validator",
    "https://json-schema.org/draft/2019-09/schema": "Draft201909Validator",
    "http://json-schema.org/draft-07/schema": "Draft7Validator",
    "https://json-schema.org/draft-07/schema": "Draft7Validator",
}
REFERENCES = ("$ref", "$dynamicRef", "$recursiveRef")
NAMES = ("properties", "patternProperties", "$defs", "definitions", "dependentSchemas", "dependencies")
DATA = ("enum", "const", "default", "examples", "required", "dependentRequired")


class Validator:
    """Checks values against a JSON Schema that somebody wrote: 2020-12, or what ``$schema`` says.

    No reference is ever fetched, neither from the network nor from files. Schemas that refer to either, that are of
    an unknown dialect or out of bounds are refused at once. That a schema is valid in its dialect is found out by
    ``check``, or else at the first use, because loading the validator takes several milliseconds.

    ``subject`` is what the messages call a value: argument or result.

    Raises:
        ConfigError: the schema is refused; the message says why.
    """

    __slots__ = ("_validator", "schema", "subject")

    def __init__(self, schema: Mapping[str, Any], subject: str = "argument") -> None:
        if not isinstance(schema, Mapping):
            raise ConfigError(f"A JSON Schema is an object here, and not a {type(schema).__qualname__}")
        try:
            self.schema: dict[str, Any] = to_jsonable(dict(schema))
            inspect_schema(self.schema)
            weigh(self.schema, self.schema, {})
        except RecursionError:
            raise ConfigError("A JSON Schema is nested too deeply") from None
        except TypeError as error:
            raise ConfigError(f"A JSON Schema must be JSON: {error}") from None
        except ValueError as error:  # urljoin() over an address with half a bracket
            raise ConfigError(f"A reference in the JSON Schema is not a URI: {error}") from None
        self.subject = subject
        self._validator: Any = None

    def check(self) -> None:
        """Find out whether the schema is valid.

        Raises:
            ConfigError: it is not.
        """
        import jsonschema_rs  # 8 ms, which most servers never need

        if self._validator is None:
            dialect = DIALECTS[self.schema.get("$schema", next(iter(DIALECTS))).rstrip("#")]
            try:
                self._validator = getattr(jsonschema_rs, dialect)(self.schema, retriever=refuse_to_fetch)
            except (jsonschema_rs.ValidationError, jsonschema_rs.ReferencingError, ValueError) as error:
                path = join_path(getattr(error, "instance_path", ()))
                message = shorten(getattr(error, "message", str(error)))
                raise ConfigError(f"The JSON Schema is invalid{' at ' + path if path else ''}: {message}") from None

    def validate(self, instance: Any) -> None:
        """Check a JSON value: dictionaries, lists, text, numbers, booleans and None.

        Raises:
            InvalidArguments: it does not fit.
            ConfigError: the schema is invalid.
        """
        if self._validator is None:
            self.check()
        if depth_over(instance, MAX_INSTANCE_DEPTH):
            raise InvalidArguments(f"The {self.subject} is nested deeper than {MAX_INSTANCE_DEPTH} levels")
        try:
            self._validator.validate(instance)
        except ValueError as error:
            raise self._explain(error) from None

    def _explain(self, error: Any) -> InvalidArguments:
        location: list[str | int] = list(getattr(error, "instance_path", ()))
        kind: Any = getattr(error, "kind", None)
        told = shorten(getattr(error, "message", str(error)))
        match getattr(kind, "name", None):
            case "required":
                location.append(kind.property)
                told = "is required, but missing"
            case "additionalProperties" | "unevaluatedProperties":
                location.append(kind.unexpected[0])
                told = "is unknown"
            case "anyOf" | "oneOf" if hasattr(kind, "context"):
                reasons = (shorten(branch[0].message) for branch in kind.context[:3] if branch)
                told = f"{told} ({'; '.join(reasons)})"
        path = join_path(location)
        subject = f"{self.subject.capitalize()} `{path}`" if path else f"The {self.subject}"
        return InvalidArguments(f"{subject}{' ' if told.startswith('is ') else ': '}{told}", top_of(location), path)


def top_of(location: Sequence[str | int]) -> str | None:
    return str(location[0]) if location else None


def shorten(message: str) -> str:
    """Leave out the middle of a message: values come first in it, and reasons last."""
    return message if len(message) <= 300 else f"{message[:120]} … {message[-120:]}"


def refuse_to_fetch(uri: str) -> Any:
    raise ValueError(f"{uri} is not fetched")


def depth_over(value: Any, limit: int) -> bool:
    """Say whether arrays and objects are nested deeper than the limit, without recursion."""
    level = [value]
    for _ in range(limit):
        level = [
            item
            for node in level
            if isinstance(node, (dict, list, tuple))
            for item in (node.values() if isinstance(node, dict) else node)
        ]
        if not level:
            return False
    return any(isinstance(node, (dict, list, tuple)) for node in level)


def inspect_schema(schema: dict[str, Any]) -> None:
    """Refuse what is too large, of an unknown dialect, or refers to something outside."""
    from urllib.parse import urljoin  # nobody else at the start needs it

    size = 0
    anchors = {""}
    references: list[str] = []
    nodes: list[tuple[Any, int, str, str]] = [(schema, 1, "", "schema")]
    while nodes:
        node, depth, uri, kind = nodes.pop()
        size += 1
        if depth > MAX_DEPTH or size > MAX_SIZE:
            problem = f"nested deeper than {MAX_DEPTH} levels" if depth > MAX_DEPTH else f"over {MAX_SIZE} values"
            raise ConfigError(f"The JSON Schema is {problem}")
        if isinstance(node, list):
            nodes += [(item, depth + 1, uri, kind) for item in node]
        if not isinstance(node, dict):
            continue
        if kind == "schema":
            if isinstance(node.get("$id"), str):
                uri = urljoin(uri, node["$id"])
                anchors.add(uri.partition("#")[0])
            if "$schema" in node and str(node["$schema"]).rstrip("#") not in DIALECTS:
                raise ConfigError(
                    f"JSON Schema dialect {str(node['$schema'])[:200]} is not supported; use 2020-12 or draft-07"
                )
            references += [urljoin(uri, node[key]) for key in REFERENCES if isinstance(node.get(key), str)]
        for key, item in node.items():
            inside = "names" if key in NAMES else "data" if key in DATA else "schema"
            nodes.append((item, depth + 1, uri, inside if kind == "schema" else "schema" if kind == "names" else kind))
    for reference in references:
        document = reference.partition("#")[0]
        if document not in anchors and document not in DIALECTS:
            raise ConfigError(f"The JSON Schema refers to {reference[:200]}, and nothing outside of it is ever fetched")


def weigh(node: Any, root: dict[str, Any], weights: dict[int, int]) -> int:
    """Count the subschemas that one value is compared with at worst, which references can make exponential.

    Raises:
        ConfigError: there are too many, or there is no end to them.
    """
    if not isinstance(node, dict):
        return 1
    if id(node) in weights:
        if weights[id(node)] == 0:
            raise ConfigError("The JSON Schema refers to itself without end")
        return weights[id(node)]
    weights[id(node)] = 0
    total = 1
    for key in ("allOf", "anyOf", "oneOf"):
        items = node.get(key)
        total += sum(weigh(item, root, weights) for item in items) if isinstance(items, list) else 0
    for key in ("not", "if", "then", "else"):
        total += weigh(node[key], root, weights) if key in node else 0
    for key in ("dependentSchemas", "dependencies"):
        items = node.get(key)
        total += sum(weigh(item, root, weights) for item in items.values()) if isinstance(items, dict) else 0
    if isinstance(node.get("$ref"), str):
        total += weigh(find(node["$ref"], root), root, weights)
    if total > MAX_WEIGHT:
        raise ConfigError(f"The JSON Schema compares one value with more than {MAX_WEIGHT} subschemas")
    weights[id(node)] = total
    return total


def find(reference: str, root: dict[str, Any]) -> Any:
    """Follow a JSON pointer within the schema. The validator sees to other references."""
    if reference.partition("#")[0] or (reference != "#" and not reference.startswith("#/")):
        return None
    node: Any = root
    for part in reference.split("/")[1:]:
        name = part.replace("~1", "/").replace("~0", "~")
        if isinstance(node, dict):
            node = node.get(name)
        elif isinstance(node, list) and name.isdigit():
            node = node[int(name)] if int(name) < len(node) else None
        else:
            return None
    return node
