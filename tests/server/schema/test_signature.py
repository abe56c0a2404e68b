"""What the server finds out about a function, and how arguments get from JSON or text into a call."""

from __future__ import annotations

import asyncio
import dataclasses
import datetime
import decimal
import enum
import functools
import json
import pathlib
import subprocess
import sys
import typing
import uuid
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Annotated, Any, Literal, NamedTuple, NewType, TypedDict

import msgspec
import pydantic
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import BaseModel, Field

from carrel.errors import ConfigError
from carrel.protocol.json_values import InvalidArguments, to_json, to_jsonable
from carrel.server.schema.parameter import Parameter
from carrel.server.schema.signature import Signature
from carrel.wire.content import ImageContent
from carrel.wire.tools import CallToolResult
from support.examples import examples


class Context:
    """Stands for the class of the server, which is an argument here."""


class Colour(enum.Enum):
    RED = "red"
    GREEN = "green"


class Level(enum.IntEnum):
    LOW = 1
    HIGH = 2


@dataclasses.dataclass
class Point:
    """A place."""

    x: Annotated[int, "How far right."]
    y: float = 0.0


@dataclasses.dataclass
class Tree:
    name: str
    children: list[Tree] = dataclasses.field(default_factory=list)


class Options(TypedDict, total=False):
    size: typing.Required[int]
    unit: str


class Person(msgspec.Struct, rename="camel"):
    given_name: str
    age: int = 0


class Cat(msgspec.Struct, tag=True):
    lives: int


class Dog(msgspec.Struct, tag=True):
    owner: str


class Untagged(msgspec.Struct):
    owner: str


class Pair(NamedTuple):
    first: int
    second: str = "b"


class Book(BaseModel):
    title: str
    pages: int = Field(default=1, ge=1, alias="pageCount")


@pydantic.dataclasses.dataclass
class Shelf:
    number: int = Field(alias="shelfNumber")


UserId = NewType("UserId", int)
NOTHING = object()
MANY = Field(default_factory=list, max_length=1)


def taking(annotation: Any, **default: Any) -> Signature:
    """Return the strict signature of a function with one parameter, ``value``."""

    def function(value):
        return value

    function.__annotations__ = {"value": annotation}
    function.__defaults__ = tuple(default.values())
    return Signature(function, Context, strict=True)


def returning(annotation: Any, **options: Any) -> Signature:
    def function():
        return None

    function.__annotations__ = {"return": annotation}
    return Signature(function, **options)


def decode(signature: Signature, **arguments: Any) -> dict[str, Any]:
    return signature.decode(json.dumps(arguments).encode())


def refusal(signature: Signature, arguments: bytes | dict[str, Any]) -> InvalidArguments:
    data = arguments if isinstance(arguments, bytes) else json.dumps(arguments).encode()
    with pytest.raises(InvalidArguments) as caught:
        signature.decode(data)
    return caught.value


def refusal_or_values(read: Callable[[Any], Any], arguments: Any) -> Any:
    try:
        return read(arguments)
    except InvalidArguments as error:
        return error


def in_a_fresh_process(code: str) -> str:
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False)
    assert found.returncode == 0, found.stderr
    return found.stdout.strip()


# Parameters


def encoded(signature: Signature, value: Any) -> Any:
    """Return a result as ``output_schema`` describes it."""
    plain = signature.to_plain(value)
    return {"result": plain} if signature.wraps else plain


def test_parameters_come_in_order_with_defaults_and_without_the_context():
    def function(a: int, context: Context, b: str = "x", *, c: float = 1.5) -> None: ...

    signature = Signature(function, Context)
    assert [parameter.name for parameter in signature.parameters] == ["a", "b", "c"]
    assert [parameter.required for parameter in signature.parameters] == [True, False, False]
    assert [parameter.default for parameter in signature.parameters] == [msgspec.NODEFAULT, "x", 1.5]
    assert signature.parameters[2].annotation is float
    assert signature.context_name == "context"
    assert "context" not in signature.input_schema["properties"]


@pytest.mark.parametrize("annotation", [Context, Context | None, Annotated[Context, "the call"]], ids=str)
def test_the_context_is_found_however_it_is_annotated(annotation):
    assert taking(annotation).context_name == "value"


def test_without_a_context_type_there_is_no_context():
    def function(a: int) -> None: ...

    assert Signature(function).context_name is None


def test_a_second_context_is_refused():
    def function(one: Context, two: Context) -> None: ...

    with pytest.raises(ConfigError, match=r"Parameter two of .* is a second Context"):
        Signature(function, Context)


def test_positional_varargs_are_refused():
    def function(*names: str) -> None: ...

    with pytest.raises(ConfigError, match=r"Parameter \*names .* arguments come by name"):
        Signature(function)


def test_positional_only_parameters_are_refused():
    def function(a: int, /) -> None: ...

    with pytest.raises(ConfigError, match=r"Parameter a .* positional-only"):
        Signature(function)


def test_an_unbound_method_is_refused():
    class Tools:
        def run(self, a: int) -> None: ...

    run = Tools.run
    run.__qualname__ = "Tools.run"  # as if the class were not in a function
    with pytest.raises(ConfigError, match=r"Parameter self of Tools\.run .* unbound method"):
        Signature(run)


def test_a_name_that_only_type_checkers_know_is_refused():
    def function(a: int, b: Nowhere) -> None: ...  # noqa: F821

    with pytest.raises(ConfigError, match=r"Parameter b of .*'Nowhere' is not defined"):
        Signature(function)


def test_a_local_class_is_known_if_the_function_uses_it():
    @dataclasses.dataclass
    class Local:
        a: int

    def function(value: Local) -> Any:
        return Local(value.a + 1)

    assert decode(Signature(function), value={"a": 1}) == {"value": Local(1)}


def test_callables_without_a_signature_are_refused():
    def function(): ...

    function.__signature__ = "unknown"
    with pytest.raises(ConfigError, match="cannot be inspected"):
        Signature(function)


@pytest.mark.parametrize("kind", ["method", "class", "static", "call", "partial", "wrapped", "async wrapped", "type"])
def test_everything_that_can_be_called_has_a_signature(kind):
    def function(a: int, b: int = 2) -> int:
        """Add."""
        return a + b

    @functools.wraps(function)
    def wrapped(*args, **kwargs):
        return function(*args, **kwargs)

    @functools.wraps(function)
    async def wrapped_async(*args, **kwargs):
        return function(*args, **kwargs)

    class Adder:
        """Adds."""

        def __init__(self, a: int = 0, b: int = 2) -> None: ...

        def method(self, a: int, b: int = 2) -> int: ...

        @classmethod
        def class_method(cls, a: int, b: int = 2) -> int: ...

        @staticmethod
        def static_method(a: int, b: int = 2) -> int: ...

        def __call__(self, a: int, b: int = 2) -> int: ...

    called = {
        "method": Adder().method,
        "class": Adder.class_method,
        "static": Adder.static_method,
        "call": Adder(),
        "partial": functools.partial(function),
        "wrapped": wrapped,
        "async wrapped": wrapped_async,
        "type": Adder,
    }[kind]
    signature = Signature(called)
    assert [parameter.name for parameter in signature.parameters] == ["a", "b"]
    assert [parameter.annotation for parameter in signature.parameters] == [int, int]
    assert decode(signature, a=1) == {"a": 1, "b": 2}
    assert signature.is_async is (kind == "async wrapped")
    if kind in ("partial", "wrapped"):
        assert signature.description == "Add."
    if kind in ("type", "call"):
        assert signature.description == "Adds."


def test_a_classmethod_object_is_refused_with_a_hint():
    class Tools:
        @classmethod
        def run(cls) -> None: ...

    with pytest.raises(ConfigError, match="register the bound method"):
        Signature(Tools.__dict__["run"])


def test_arguments_bound_by_a_partial_are_neither_listed_nor_taken_from_callers():
    def function(path: str, key: str) -> str:
        return path + key

    signature = Signature(functools.partial(function, key="secret"))
    assert [parameter.name for parameter in signature.parameters] == ["path"]
    assert "secret" not in json.dumps(signature.input_schema)
    assert refusal(signature, {"path": "p", "key": "k"}).parameter == "key"


# Whether it can wait


async def never_waits(a: int) -> int:
    async def waits_itself() -> None:
        await asyncio.sleep(0)

    with open(__file__) as file:
        return sum(len(line) for line in file if line) + a + (waits_itself is None)


async def waits_with_await():
    await asyncio.sleep(0)


async def waits_with_async_with():
    async with asyncio.Lock():
        pass


async def waits_with_async_for(items=None):
    async for _ in items:
        pass


async def waits_in_a_comprehension(items=None):
    return [item async for item in items]


async def waits_within_a_comprehension(items=()):
    return [await item for item in items]


@functools.wraps(never_waits)
async def waits_for_what_it_wraps(*args, **kwargs):
    return await never_waits(*args, **kwargs)


def test_an_async_function_without_await_never_waits_and_can_be_driven_by_hand():
    signature = Signature(never_waits)
    assert (signature.is_async, signature.suspends) == (True, False)
    with pytest.raises(StopIteration) as end:
        never_waits(1).send(None)
    assert end.value.value > 1


@pytest.mark.parametrize(
    "function",
    [
        waits_with_await,
        waits_with_async_with,
        waits_with_async_for,
        waits_in_a_comprehension,
        waits_within_a_comprehension,
        waits_for_what_it_wraps,
        functools.partial(waits_with_await),
    ],
)
def test_an_async_function_with_any_kind_of_await_may_wait(function):
    signature = Signature(function)
    assert (signature.is_async, signature.suspends) == (True, True)


def test_methods_partials_and_callable_objects_are_looked_into():
    class Tool:
        async def __call__(self) -> int:
            return 1

        async def method(self) -> None:
            await asyncio.sleep(0)

    assert not Signature(Tool()).suspends
    assert Signature(Tool().method).suspends
    assert not Signature(functools.partial(never_waits, a=1)).suspends


def test_a_plain_function_is_not_async():
    signature = Signature(lambda: 1)
    assert (signature.is_async, signature.suspends) == (False, False)


# Descriptions

GOOGLE = """Find books.

    Looks everywhere.

    Args:
        query (str | None): What to look for,
            in any language.
        limit: How many.

    Returns:
        The books.
    """
NUMPY = """Find books.

    Looks everywhere.

    Parameters
    ----------
    query : str
        What to look for,
        in any language.
    limit : int, optional
        How many.

    Returns
    -------
    The books.
    """
SPHINX = """Find books.

    Looks everywhere.

    :param str query: What to look for,
        in any language.
    :param limit: How many.
    :type limit: int
    :return: The books.
    """


@pytest.mark.parametrize("docstring", [GOOGLE, NUMPY, SPHINX], ids=["Google", "NumPy", "Sphinx"])
def test_docstrings_of_every_style_describe_parameters(docstring):
    def function(query: str, limit: int = 3, undocumented: int = 0) -> list[str]: ...

    function.__doc__ = docstring
    signature = Signature(function)
    assert [parameter.description for parameter in signature.parameters] == [
        "What to look for, in any language.",
        "How many.",
        None,
    ]
    assert signature.description.startswith("Find books.\n\nLooks everywhere.\n\n")
    assert signature.description.endswith("The books.")
    assert "limit" not in signature.description
    properties = signature.input_schema["properties"]
    assert properties["limit"] == {"type": "integer", "description": "How many.", "default": 3}


def test_a_function_without_a_docstring_has_no_description():
    assert Signature(lambda: 1).description is None


@pytest.mark.parametrize(
    "item", ["text", msgspec.Meta(description="text"), Field(description="text")], ids=["str", "Meta", "Field"]
)
def test_annotated_describes_a_parameter_and_wins_over_the_docstring(item):
    def function(value):
        """Do it.

        Args:
            value: Something else.
        """

    function.__annotations__ = {"value": Annotated[int, item]}
    signature = Signature(function)
    assert signature.parameters[0].description == "text"
    assert signature.input_schema["properties"]["value"] == {"type": "integer", "description": "text"}
    assert not signature.parameters[0].by_pydantic


def test_fields_of_nested_classes_are_described_too():
    schema = taking(Point).input_schema
    assert schema["$defs"]["Point"]["properties"]["x"] == {"type": "integer", "description": "How far right."}
    assert schema["$defs"]["Point"]["description"] == "A place."


# Schemas


def test_a_function_without_parameters_takes_nothing():
    signature = Signature(lambda: 1)
    assert signature.input_schema == {"type": "object", "additionalProperties": False}
    assert signature.decode(None) == signature.decode(b"{}") == {}
    assert refusal(signature, {"a": 1}).args == ("Unknown argument `a`; there are no arguments",)


def test_the_schema_names_types_defaults_and_what_is_required():
    def function(a: int, b: list[str] | None = None, c: Literal["x", "y"] = "x", d=NOTHING) -> None: ...

    assert Signature(function).input_schema == {
        "type": "object",
        "properties": {
            "a": {"type": "integer"},
            "b": {"anyOf": [{"type": "array", "items": {"type": "string"}}, {"type": "null"}], "default": None},
            "c": {"enum": ["x", "y"], "default": "x"},
            "d": {},
        },
        "required": ["a"],
        "additionalProperties": False,
    }


def test_the_schema_is_made_once():
    signature = taking(int)
    assert signature.input_schema is signature.input_schema


def test_a_default_of_none_makes_a_parameter_optional():
    signature = taking(int, default=None)
    assert decode(signature, value=None) == decode(signature) == {"value": None}
    assert signature.input_schema["properties"]["value"]["anyOf"][1] == {"type": "null"}


def test_defaults_without_json_are_left_out_of_the_schema():
    for default in (float("nan"), [float("inf")], object(), lambda: 1):
        assert "default" not in taking(Any, default=default).input_schema["properties"]["value"]


def test_defaults_are_passed_as_the_very_objects_they_are():
    default: dict[str, list[int]] = {"a": [1]}
    assert taking(dict[str, list[int]], default=default).decode(b"{}")["value"] is default


def test_extra_schema_of_meta_is_kept():
    schema = taking(Annotated[str, msgspec.Meta(extra_json_schema={"x-mcp-header": "Region"})]).input_schema
    assert schema["properties"]["value"] == {"type": "string", "x-mcp-header": "Region"}


def test_keyword_arguments_of_any_name_are_open():
    def function(a: int, context: Context, **rest: int) -> None: ...

    signature = Signature(function, Context)
    assert signature.open
    assert [parameter.name for parameter in signature.parameters] == ["a"]
    assert signature.input_schema["additionalProperties"] == {"type": "integer"}
    assert decode(signature, a=1, b=2, **{"c d": 3}) == {"a": 1, "b": 2, "c d": 3}
    assert refusal(signature, {"a": 1, "b": "x"}).parameter == "b"
    assert refusal(signature, {"a": 1, "context": 2}).parameter == "context"
    assert signature.convert({"a": "1", "b": "2"}) == {"a": 1, "b": 2}
    with pytest.raises(InvalidArguments, match="Unknown argument `context`"):
        signature.convert({"a": "1", "context": "2"})


def test_open_methods_do_not_take_self_from_callers():
    class Tool:
        def run(self, **rest): ...

    assert refusal(Signature(Tool().run), {"self": 1}).parameter == "self"
    assert Signature(Tool().run).input_schema == {"type": "object", "additionalProperties": True}


# Results


@pytest.mark.parametrize("annotation", [Point, Options, Person, Book, Shelf, dict[str, int], dict, Tree], ids=str)
def test_results_that_are_objects_have_an_output_schema(annotation):
    schema = returning(annotation).output_schema
    assert schema["type"] == "object"


@pytest.mark.parametrize("annotation", [None, Any, object, Callable, list, list[Any], Iterator], ids=str)
def test_results_of_which_nothing_is_known_have_one_only_where_it_is_asked_for(annotation):
    assert returning(annotation).output_schema is None
    assert encoded(returning(annotation), [1]) == [1]


@pytest.mark.parametrize("annotation", [list[Point], Any, None], ids=str)
def test_results_of_which_nothing_is_known_are_wrapped_where_it_is_asked_for(annotation):
    assert encoded(returning(annotation, structured=True), 1) == {"result": 1}


@pytest.mark.parametrize(
    "annotation",
    [int, str, bytes, list[int], list[Point], Point | None, Pair, Iterator[int], list[Book], Level, uuid.UUID],
    ids=str,
)
@pytest.mark.parametrize("structured", [None, True])
def test_other_results_are_wrapped(annotation, structured):
    signature = returning(annotation, structured=structured)
    assert signature.output_schema["type"] == "object"
    assert signature.output_schema["required"] == ["result"]
    assert encoded(signature, 1) == {"result": 1}


@pytest.mark.parametrize(
    "annotation", [ImageContent, CallToolResult, list[ImageContent], list[str | ImageContent]], ids=str
)
@pytest.mark.parametrize("structured", [None, True, False])
def test_content_has_no_output_schema(annotation, structured):
    assert returning(annotation, structured=structured).output_schema is None


def test_structured_false_leaves_the_output_schema_out():
    assert returning(Point, structured=False).output_schema is None


def test_asking_for_the_schema_of_an_unknown_result_is_refused():
    with pytest.raises(ConfigError, match="not annotated"):
        _ = Signature(lambda: 1, structured=True).output_schema
    with pytest.raises(ConfigError, match=r"The result of .* cannot be resolved"):
        _ = returning("Nowhere", structured=True).output_schema
    assert returning("Nowhere").output_schema is None


def test_a_recursive_result_keeps_its_definition():
    schema = returning(Tree).output_schema
    assert schema["properties"]["children"]["items"] == {"$ref": "#/$defs/Tree"}
    assert schema["$defs"]["Tree"]["type"] == "object"


def test_results_are_encoded_by_alias():
    assert encoded(returning(Book), Book(title="Solaris", pageCount=2)) == {"title": "Solaris", "pageCount": 2}
    shelves = encoded(returning(list[Shelf], structured=True), [Shelf(shelfNumber=1)])
    assert shelves == {"result": [{"shelfNumber": 1}]}
    assert encoded(returning(Person), Person("Ada")) == {"givenName": "Ada", "age": 0}


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (Point(1, 2.0), {"x": 1, "y": 2.0}),
        (Person("Ada", 36), {"givenName": "Ada", "age": 36}),
        (Book(title="Solaris"), {"title": "Solaris", "pageCount": 1}),
        (Shelf(shelfNumber=1), {"shelfNumber": 1}),
        ([Book(title="Solaris")], [{"title": "Solaris", "pageCount": 1}]),
        ({"a": {1}, 2: Colour.RED}, {"a": [1], "2": "red"}),
        (Pair(1), [1, "b"]),
        (b"\x00\xff", "AP8="),
        (datetime.date(2020, 1, 2), "2020-01-02"),
        (uuid.UUID(int=1), "00000000-0000-0000-0000-000000000001"),
        (pathlib.PurePosixPath("a/b"), "a/b"),
        (Level.HIGH, 2),
        (decimal.Decimal("1.50"), "1.50"),
        (None, None),
    ],
    ids=lambda value: type(value).__name__,
)
def test_values_of_many_kinds_become_json(value, expected):
    assert json.loads(json.dumps(to_jsonable(value))) == expected
    assert json.loads(to_json(value)) == expected


def test_mappings_of_other_kinds_become_objects():
    class Frozen(Mapping):
        def __getitem__(self, name):
            return {"a": 1}[name]

        def __iter__(self):
            return iter(["a"])

        def __len__(self):
            return 1

    assert to_jsonable(Frozen()) == {"a": 1}


def test_values_without_json_are_type_errors():
    for write in (to_jsonable, to_json):
        with pytest.raises(TypeError, match="Context cannot be encoded as JSON"):
            write([Context()])


# Arguments from JSON


def test_arguments_become_keyword_arguments():
    def function(a: int, b: str = "x", *, c: float = 1.5) -> None: ...

    signature = Signature(function)
    assert decode(signature, a=1) == {"a": 1, "b": "x", "c": 1.5}
    assert decode(signature, c=2, b="y", a=3) == {"a": 3, "b": "y", "c": 2.0}
    assert signature.decode(msgspec.Raw(b'{"a": 1}')) == {"a": 1, "b": "x", "c": 1.5}


@pytest.mark.parametrize(
    ("arguments", "parameter", "message"),
    [
        ({}, "a", "Missing required argument `a`"),
        ({"a": "1"}, "a", "Argument `a` must be an integer, not a string"),
        ({"a": 1.5}, "a", "Argument `a` must be an integer, not a fraction"),
        ({"a": True}, "a", "Argument `a` must be an integer, not a boolean"),
        ({"a": None}, "a", "Argument `a` must be an integer, not null"),
        ({"a": 1, "z": 2}, "z", "Unknown argument `z`; the arguments are `a`, `b`, `c`, `p`"),
        ({"a": 1, "b": "blue"}, "b", 'Argument `b` must be one of "red", "green"'),
        ({"a": 1, "c": -1}, "c", "Argument `c` must be an integer >= 0"),
        ({"a": 1, "p": {"x": "1"}}, "p", "Argument `p.x` must be an integer, not a string"),
        ({"a": 1, "p": {}}, "p", "Missing required argument `p.x`"),
        ({"a": 1, "p": [1]}, "p", "Argument `p` must be an object or null, not an array"),
    ],
)
def test_invalid_arguments_are_named_in_plain_words(arguments, parameter, message):
    def function(
        a: int, b: Colour = Colour.RED, c: Annotated[int, msgspec.Meta(ge=0)] = 0, p: Point | None = None
    ) -> None: ...

    error = refusal(Signature(function, strict=True), arguments)
    assert (str(error), error.parameter) == (message, parameter)


@pytest.mark.parametrize(
    ("annotation", "value", "path", "message"),
    [
        (list[int], [1, "x"], "value[1]", "must be an integer, not a string"),
        (dict[str, int], {"a": "x"}, "value[...]", "must be an integer, not a string"),
        (dict[int, int], {"a": 1}, "value[key]", "must be an integer, not a string"),
        (list[Tree], [{"name": "a", "children": [{"name": 1}]}], "value[0].children[0].name", "must be a string"),
        (int | None, "x", "value", "must be an integer or null, not a string"),
        (uuid.UUID, "x", "value", "must be a UUID"),
        (datetime.date, "x", "value", "must be a date such as"),
        (datetime.datetime, 1, "value", "must be a date and time such as"),
        (datetime.timedelta, "x", "value", "must be a duration such as"),
        (bytes, "!", "value", "must be base64 text"),
        (tuple[int, str], [1], "value", "must be an array of length 2"),
        (list[Level], [3], "value[0]", "must be one of 1, 2"),
        (Literal["a", 2], "b", "value", 'must be one of "a", 2'),
        (pathlib.Path, 1, "value", "must be a string, not an integer"),
        (pathlib.Path, [], "value", "must be a string, not an array"),
        (Annotated[str, msgspec.Meta(min_length=2)], "a", "value", "must be a string of length >= 2"),
        (Annotated[str, msgspec.Meta(pattern="^a")], "b", "value", "must be a string matching regex '^a'"),
        (Cat | Dog, {"type": "Fish"}, "value.type", "Invalid value 'Fish'"),
    ],
    ids=str,
)
def test_the_path_leads_to_what_does_not_fit(annotation, value, path, message):
    error = refusal(taking(annotation), {"value": value})
    assert (error.parameter, error.path) == ("value", path)
    assert str(error).startswith(f"Argument `{path}`")
    assert message in str(error)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "not valid JSON"),
        (b"{", "not valid JSON"),
        (b"[]", "must be an object, not an array"),
        (b"null", "must be an object, not null"),
        (b'{"value": NaN}', "not valid JSON"),
        (b'{"value": "\xff"}', "not valid JSON"),
        (b'{"value": "\\ud800"}', "not valid JSON"),
        (b'{"value": 1e999}', "out of range"),
        (b'{"value": ' + b"1" * 5000 + b"}", "out of range"),
        (b'{"value": ' + b"[" * 100_000, "nested too deeply"),
    ],
)
def test_arguments_that_are_not_an_object_are_refused(data, message):
    assert message in str(refusal(taking(Any), data))


def test_messages_stay_short():
    long = "x" * 100_000
    assert len(str(refusal(taking(int), {long: 1}))) < 400
    assert len(str(refusal(taking(Colour), {"value": long}))) < 400
    assert len(str(refusal(taking(Cat | Dog), {"value": {"type": long}}))) < 400
    assert len(str(refusal(taking(Book), {"value": {"title": long, "pageCount": long}}))) < 400
    with pytest.raises(InvalidArguments) as caught:
        taking(int).convert({"value": long})
    assert len(str(caught.value)) < 400


@pytest.mark.parametrize("text", ["1.0", "1e0", "10E-1", "-0.0", "1e20"])
def test_whole_numbers_are_integers_however_they_are_written(text):
    for annotation in (int, int | None, Annotated[int, Field(le=10**30)]):
        value = taking(annotation).decode(b'{"value": %s}' % text.encode())["value"]
        assert type(value) is int
        assert value == float(text)
    assert taking(Level).decode(b'{"value": 1.0}') == {"value": Level.LOW}
    assert taking(Literal[1]).decode(b'{"value": 1.0}') == {"value": 1}
    assert taking(list[Point]).decode(b'{"value": [{"x": 1.0, "y": 0.5}]}') == {"value": [Point(1, 0.5)]}


def test_floats_stay_floats():
    values = taking(float).decode(b'{"value": 2.0}')
    assert type(values["value"]) is float


def test_large_integers_are_not_rounded():
    assert decode(taking(int), value=2**64 + 1) == {"value": 2**64 + 1}


@pytest.mark.parametrize(
    "name", ["from_", "self_", "_a", "__x", "__post_init__", "__dict__", "args", "ö", "json", "cls"]
)
def test_parameters_may_have_any_name(name):
    namespace: dict[str, Any] = {}
    exec(f"def function({name}: int, other: int = 2): return {name}", namespace)
    signature = Signature(namespace["function"])
    assert decode(signature, **{name: 1}) == {name: 1, "other": 2}
    assert refusal(signature, {name: "x"}).parameter == name
    assert list(signature.input_schema["properties"]) == [name, "other"]
    assert namespace["function"](**decode(signature, **{name: 1})) == 1


def test_annotated_may_hold_what_cannot_be_hashed():
    assert decode(taking(Annotated[int, {"any": ["thing"]}]), value=1) == {"value": 1}


@pytest.mark.parametrize(
    "annotation",
    [
        [1, 2],
        Callable[[int], int],
        Colour.RED,
        Context,
        Iterator[int],
        range,
        set[Point],
        set[list[int]],
        typing.ClassVar[int],
    ],
    ids=str,
)
def test_an_annotation_that_json_cannot_be_read_into_is_refused(annotation):
    def function(value): ...

    function.__annotations__ = {"value": annotation}
    with pytest.raises(ConfigError, match=r"Parameter value of .* cannot be an argument"):
        Signature(function)


def test_an_item_that_cannot_be_hashed_is_refused():
    assert "unhashable" in str(refusal(taking(set), {"value": [[1]]}))
    with pytest.raises(InvalidArguments, match="unhashable"):
        taking(set).convert({"value": "[[1]]"})


def test_a_field_that_cannot_be_resolved_is_refused():
    class Broken(msgspec.Struct):
        a: Nowhere  # noqa: F821

    with pytest.raises(ConfigError, match=r"Parameter value .*'Nowhere' is not defined"):
        taking(Broken)


def test_tagged_unions_are_told_apart():
    assert decode(taking(Cat | Dog), value={"type": "Dog", "owner": "Ada"}) == {"value": Dog("Ada")}


def test_untagged_unions_of_structs_are_refused_at_registration():
    with pytest.raises(ConfigError, match=r"Parameter value .* must be tagged"):
        taking(Untagged | Person)


def test_structs_and_pydantic_do_not_mix_in_one_type_but_do_in_one_function():
    with pytest.raises(ConfigError, match=r"Parameter value .* do not mix"):
        taking(list[Untagged | Book])

    def function(a: Untagged, b: Book) -> None: ...

    found = decode(Signature(function), a={"owner": "Ada"}, b={"title": "Solaris"})
    assert found == {"a": Untagged("Ada"), "b": Book(title="Solaris")}


# pydantic


def test_pydantic_models_are_validated_by_pydantic_and_the_rest_is_not():
    def function(a: int, book: Book, size: Annotated[int, Field(ge=0)] = 3) -> None: ...

    signature = Signature(function)
    assert [parameter.by_pydantic for parameter in signature.parameters] == [False, True, True]
    assert decode(signature, a=1, book={"title": "Solaris", "pageCount": 2}) == {
        "a": 1,
        "book": Book(title="Solaris", pageCount=2),
        "size": 3,
    }
    error = refusal(signature, {"a": 1, "book": {"title": "Solaris", "pageCount": 0}, "size": -1})
    assert (error.parameter, error.path) == ("book", "book.pageCount")
    assert str(error) == (
        "Argument `book.pageCount`: Input should be greater than or equal to 1; "
        "argument `size`: Input should be greater than or equal to 0"
    )


def test_strict_parameters_are_strict_and_models_have_their_own_rules():
    assert refusal(taking(Annotated[int, Field(ge=0)]), {"value": "5"}).parameter == "value"
    assert decode(taking(Book), value={"title": "a", "pageCount": "5"})["value"].pages == 5


def test_fields_in_place_of_defaults_give_name_default_and_description():
    def function(
        a: int = Field(description="The first.", ge=1),
        b: int = Field(default=2, alias="second", le=9),
        c: str = Field("x", description="No more than a description."),
        d: list[int] = MANY,
    ) -> None: ...

    signature = Signature(function)
    assert [parameter.alias for parameter in signature.parameters] == ["a", "second", "c", "d"]
    assert [parameter.required for parameter in signature.parameters] == [True, False, False, False]
    assert decode(signature, a=1) == {"a": 1, "b": 2, "c": "x", "d": []}
    assert decode(signature, a=1, second=3) == {"a": 1, "b": 3, "c": "x", "d": []}
    assert refusal(signature, {"a": 1, "b": 3}).parameter == "b"
    assert refusal(signature, {"a": 1, "second": 10}).parameter == "second"
    assert signature.convert({"a": "1", "second": "3", "c": "y"}) == {"a": 1, "b": 3, "c": "y", "d": []}
    assert signature.input_schema == {
        "type": "object",
        "properties": {
            "a": {"type": "integer", "minimum": 1, "description": "The first."},
            "second": {"type": "integer", "maximum": 9, "default": 2},
            "c": {"type": "string", "description": "No more than a description.", "default": "x"},
            "d": {"type": "array", "items": {"type": "integer"}, "maxItems": 1},
        },
        "required": ["a"],
        "additionalProperties": False,
    }


@pytest.mark.parametrize("name", ["schema", "json", "model_config", "_private", "copy"])
def test_names_that_pydantic_does_not_like_are_fine(name):
    namespace: dict[str, Any] = {"Book": Book}
    exec(f"def function({name}: Book): ...", namespace)
    assert decode(Signature(namespace["function"]), **{name: {"title": "a"}}) == {name: Book(title="a")}


def test_constraints_that_pydantic_refuses_are_refused_at_registration():
    with pytest.raises(ConfigError, match=r"pydantic rejects the parameters of .*'le' must be"):
        taking(Annotated[int, Field(le=1e30)])


def test_broken_json_for_pydantic_is_refused():
    for data in (b'{"value": {"title": "\xff"}}', b'{"value": ' + b"[" * 300 + b"]" * 300 + b"}"):
        assert isinstance(refusal(taking(Book), data), InvalidArguments)


def test_unions_that_msgspec_cannot_tell_apart_are_for_pydantic_if_it_is_there():
    signature = taking(Point | Tree)
    assert decode(signature, value={"name": "a"}) == {"value": Tree("a")}
    assert refusal(signature, {"value": {}}).parameter == "value"


def test_definitions_of_the_same_name_do_not_clash():
    theirs = pydantic.create_model("Point", latitude=(float, ...))

    def function(a, b): ...

    function.__annotations__ = {"a": Point, "b": theirs}
    schema = Signature(function).input_schema
    assert schema["properties"]["a"] != schema["properties"]["b"]
    assert len(schema["$defs"]) == 2


IMPORTS = "import sys; from carrel.server.schema.signature import Signature; from carrel.errors import ConfigError\n"


@pytest.mark.slow
def test_pydantic_and_the_validator_are_never_imported_by_us():
    code = """
import dataclasses, typing, enum
@dataclasses.dataclass
class Point:
    x: int
def function(a: int, b: Point, c: typing.Literal["x"] = "x", d: typing.Annotated[int, "text"] = 1) -> Point: "Doc."
signature = Signature(function)
signature.decode(b'{"a": 1, "b": {"x": 1}}'); signature.input_schema; signature.output_schema; signature.description
print([name for name in ("pydantic", "jsonschema_rs", "annotated_types") if name in sys.modules])
"""
    assert in_a_fresh_process(IMPORTS + code) == "[]"


@pytest.mark.slow
def test_without_pydantic_ambiguous_unions_are_refused_at_registration():
    code = """
import dataclasses
@dataclasses.dataclass
class A:
    x: int
@dataclasses.dataclass
class B:
    y: int
def function(value: A | B): ...
try:
    Signature(function)
except ConfigError as error:
    print(error)
"""
    assert in_a_fresh_process(IMPORTS + code).startswith("Parameter value of function cannot be an argument")


@pytest.mark.slow
def test_without_pydantic_unchecked_constraints_are_refused():
    code = """
import annotated_types, typing
def function(value: typing.Annotated[int, annotated_types.Gt(1)]): ...
try:
    Signature(function)
except ConfigError as error:
    print(error)
"""
    assert "use msgspec.Meta" in in_a_fresh_process(IMPORTS + code)


# Arguments from text


@pytest.mark.parametrize(
    ("annotation", "text", "value"),
    [
        (int, "12", 12),
        (int, "-7", -7),
        (int, "007", 7),
        (int | None, "3", 3),
        (float, "1.5", 1.5),
        (float, "-1e3", -1000.0),
        (bool, "true", True),
        (bool, "False", False),
        (bool, "0", False),
        (uuid.UUID, "00000000-0000-0000-0000-000000000001", uuid.UUID(int=1)),
        (datetime.date, "2020-02-29", datetime.date(2020, 2, 29)),
        (datetime.datetime, "2020-02-29T01:02:03", datetime.datetime(2020, 2, 29, 1, 2, 3)),
        (datetime.time, "01:02:03", datetime.time(1, 2, 3)),
        (decimal.Decimal, "1.50", decimal.Decimal("1.50")),
        (pathlib.PurePosixPath, "a/b", pathlib.PurePosixPath("a/b")),
        (Colour, "red", Colour.RED),
        (Colour, "GREEN", Colour.GREEN),
        (Level, "2", Level.HIGH),
        (Level, "LOW", Level.LOW),
        (Literal["a", 2, True], "2", 2),
        (Literal["a", 2, True], "true", True),
        (Literal["a"] | None, "a", "a"),
        (list[int], ["1", "2"], [1, 2]),
        (list[int], "1", [1]),
        (list[int], "[1, 2]", [1, 2]),
        (list[str], "a", ["a"]),
        (Sequence[str], ["a", "b"], ["a", "b"]),
        (list, ["a", "b"], ["a", "b"]),
        (list, "a", ["a"]),
        (tuple, "[1]", (1,)),
        (dict, {"a": "b"}, {"a": "b"}),
        (dict, '{"a": 1}', {"a": 1}),
        (deque[int], ["1"], deque([1])),
        (deque[int], "[1]", deque([1])),
        (Book | Shelf, '{"shelfNumber": 1}', Shelf(shelfNumber=1)),
        (Point | Tree, '{"name": "a"}', Tree("a")),
        (Point | Tree, {"name": "a"}, Tree("a")),
        (pydantic.HttpUrl, "http://example.com/", pydantic.HttpUrl("http://example.com/")),
        (pydantic.SecretStr, "{not JSON", pydantic.SecretStr("{not JSON")),
        (set[Level], ["1", "HIGH"], {Level.LOW, Level.HIGH}),
        (tuple[int, ...], ["1", "2"], (1, 2)),
        (tuple[int, str], ["1", "2"], (1, "2")),
        (dict[str, int], {"a": "1"}, {"a": 1}),
        (dict[str, str], {"a": "1"}, {"a": "1"}),
        (dict[str, int], '{"a": 1}', {"a": 1}),
        (Point, '{"x": 1}', Point(1)),
        (Point, {"x": "1", "y": "2"}, Point(1, 2.0)),
        (list[Point], '[{"x": 1}]', [Point(1)]),
        (list[Point], ['{"x": 1}'], [Point(1)]),
        (int | str, "1", 1),
        (int | str, "x", "x"),
        (str | int, "1", 1),
        (int | datetime.date, "2020-02-29", datetime.date(2020, 2, 29)),
        (UserId, "5", 5),
        (Annotated[int, msgspec.Meta(ge=0)], "5", 5),
        (Annotated[int, Field(ge=0)], "5", 5),
        (Book, '{"title": "Solaris"}', Book(title="Solaris")),
        (list[Book], ['{"title": "Solaris"}'], [Book(title="Solaris")]),
        (pydantic.SecretStr, "x", pydantic.SecretStr("x")),
        (str, "1", "1"),
        (Any, "1", "1"),
        (str | None, "null", "null"),
    ],
    ids=str,
)
def test_text_is_read_into_types(annotation, text, value):
    found = taking(annotation).convert({"value": text})["value"]
    assert found == value
    assert type(found) is type(value)


@pytest.mark.parametrize(
    ("annotation", "text"),
    [
        *((int, text) for text in ("", " 1", "1 ", "1_000", "١", "+1", "--1", "-", "1.0", "0x1", "1" * 5000, ["1"])),
        *((float, text) for text in ("", "nan", "inf", "-inf", "1e999", " 1", "1_0", "+1", "e", "١", {"a": "1"})),
        *((bool, text) for text in ("", "yes", "2", "t", [])),
        *((decimal.Decimal, text) for text in ("NaN", "Infinity", "1_0", " 1", "x")),
        *((uuid.UUID, text) for text in ("", "x", ["x"])),
        *((datetime.date, text) for text in ("", "yesterday", "2020-02-30")),
        *((Colour, text) for text in ("", "blue", "RED ", ["red"])),
        *((Literal["a", 2], text) for text in ("", "b", "2.0")),
        *((list[int], text) for text in (["x"], "x", "[1", '["x"]', {"a": "1"})),
        *((tuple[int, str], text) for text in (["1"], ["1", "2", "3"], ["x", "2"])),
        *((dict[str, int], text) for text in ("x", "[]", {"a": "x"}, ["a"])),
        *((Point, text) for text in ("x", "{}", '{"x": "1"}', {"x": "y"}, {}, ["1"])),
        (int | datetime.date, "x"),
        (Annotated[int, msgspec.Meta(ge=0)], "-1"),
        (Annotated[int, msgspec.Meta(ge=0)] | None, "-1"),
        (Annotated[str, msgspec.Meta(min_length=2)], "a"),
        (Annotated[int, Field(ge=0)], "-1"),
        (Annotated[int, Field(ge=0)], "1_0"),
        (Book, "x"),
        (Book, "{}"),
        (Point, "[" * 100_000),
    ],
    ids=lambda value: str(value)[:30],
)
def test_text_that_does_not_parse_is_refused_by_name(annotation, text):
    with pytest.raises(InvalidArguments) as caught:
        taking(annotation).convert({"value": text})
    assert caught.value.parameter == "value"
    assert "`value" in str(caught.value)


def test_a_refusal_of_text_says_what_was_expected_and_what_came():
    with pytest.raises(InvalidArguments, match=r"Argument `value` must be an integer, not '1_000'"):
        taking(int).convert({"value": "1_000"})
    with pytest.raises(InvalidArguments, match=r"must be one of \"red\", \"green\", not 'blue'"):
        taking(Colour).convert({"value": "blue"})


def test_missing_and_unknown_text_is_refused_and_defaults_are_left_to_the_function():
    def function(a: str, b: int = 2) -> None: ...

    signature = Signature(function)
    assert signature.convert({"a": "x"}) == {"a": "x"}
    with pytest.raises(InvalidArguments, match="Missing required argument `a`") as caught:
        signature.convert({"b": "1"})
    assert caught.value.parameter == "a"
    with pytest.raises(InvalidArguments, match="Unknown argument `c`") as caught:
        signature.convert({"a": "x", "c": "1"})
    assert caught.value.parameter == "c"


def test_text_is_returned_in_a_new_dictionary():
    given_text = {"value": "x"}
    found = taking(str).convert(given_text)
    assert found == given_text
    assert found is not given_text


@pytest.mark.parametrize(
    ("annotation", "choices"),
    [
        (Literal["a", 2, True, None], ("a", "2", "true")),
        (Literal["a"] | Literal["b"] | None, ("a", "b")),
        (Colour, ("red", "green")),
        (Colour | None, ("red", "green")),
        (Level, ("1", "2")),
        (Annotated[bool, "text"], ("true", "false")),
        (list[Colour], ("red", "green")),
        (str, ()),
        (int | None, ()),
        (Literal["a"] | int, ()),
        (Any, ()),
        (dict[str, Colour], ()),
    ],
    ids=str,
)
def test_parameters_with_few_values_complete_themselves(annotation, choices):
    signature = taking(annotation)
    assert signature.choices(signature.parameters[0]) == choices
    for choice in choices:
        assert signature.convert({"value": choice})


def test_a_parameter_shows_what_it_is():
    assert repr(taking(int).parameters[0]) == "Parameter('value', <class 'int'>, required=True)"
    assert isinstance(taking(int).parameters[0], Parameter)


# Properties

FINITE = st.floats(allow_nan=False, allow_infinity=False)
ROUND_TRIPS: list[tuple[Any, st.SearchStrategy[Any]]] = [
    (int, st.integers()),
    (float, FINITE),
    (str, st.text()),
    (bool, st.booleans()),
    (bytes, st.binary()),
    (int | None, st.none() | st.integers()),
    (list[int], st.lists(st.integers())),
    (set[str], st.sets(st.text())),
    (tuple[int, str], st.tuples(st.integers(), st.text())),
    (dict[str, float], st.dictionaries(st.text(), FINITE)),
    (dict[int, str], st.dictionaries(st.integers(-(2**60), 2**60), st.text())),
    (Colour, st.sampled_from(Colour)),
    (list[Level], st.lists(st.sampled_from(Level))),
    (Literal["a", 1, None], st.sampled_from(["a", 1, None])),
    (uuid.UUID, st.uuids()),
    (datetime.date, st.dates()),
    (datetime.datetime, st.datetimes()),
    (datetime.timedelta, st.timedeltas(datetime.timedelta(-1000), datetime.timedelta(1000))),
    (decimal.Decimal, st.decimals(allow_nan=False, allow_infinity=False)),
    (Point, st.builds(Point, st.integers(), FINITE)),
    (Tree, st.recursive(st.builds(Tree, st.text()), lambda node: st.builds(Tree, st.text(), st.lists(node)))),
    (Person, st.builds(Person, st.text(), st.integers())),
    (Cat | Dog, st.builds(Cat, st.integers()) | st.builds(Dog, st.text())),
    (Pair, st.builds(Pair, st.integers(), st.text())),
    (list[Options], st.lists(st.fixed_dictionaries({"size": st.integers()}, optional={"unit": st.text()}))),
    (Book, st.builds(lambda title, pages: Book(title=title, pageCount=pages), st.text(), st.integers(1))),
    (
        list[Book] | None,
        st.none() | st.lists(st.builds(lambda title: Book(title=title), st.text())),
    ),
]
SIGNATURES = [(taking(annotation), strategy) for annotation, strategy in ROUND_TRIPS]


@given(st.data())
@settings(max_examples=examples(75), deadline=None)
def test_encoded_values_decode_to_the_same(data):
    signature, strategy = data.draw(st.sampled_from(SIGNATURES))
    value = data.draw(strategy)
    assert signature.decode(to_json({"value": value})) == {"value": value}


LEAVES = st.sampled_from(
    [None, True, False, 0, 1, 2, -1, 1.0, 2.0, 1.5, 2**70, "a", "b", "red", "LOW", "", "Cat", "Dog", "1"]
)
NAMES = st.sampled_from(
    ["x", "y", "name", "children", "size", "unit", "givenName", "age", "type", "lives", "owner", "a"]
)
JSON = st.recursive(
    LEAVES, lambda items: st.lists(items, max_size=3) | st.dictionaries(NAMES, items, max_size=4), max_leaves=8
)
# Where the schema cannot say what is read (formats, no duplicates in sets), the two differ on purpose.
EXACT: list[Any] = [
    *(int, float, str, bool, None, Any, int | None, int | str, list[int], list[float | None], dict[str, int]),
    *(tuple[int, str], tuple[int, ...], Colour, Level, Literal["a", 1], Literal["a"] | None, Point, Tree, Options),
    *(Person, Cat | Dog, Pair, list[Point], dict[str, list[Level]], Point | None, Point | int, UserId, pathlib.Path),
    *(Annotated[int, msgspec.Meta(ge=0, lt=2)], Annotated[str, msgspec.Meta(min_length=1, pattern="^[a-z]+$")]),
    *(
        Annotated[list[int], msgspec.Meta(max_length=1)],
        Annotated[int, Field(ge=0)],
        Annotated[list[int], Field(max_length=1)],
    ),
]


@pytest.mark.slow
@pytest.mark.parametrize("annotation", EXACT, ids=str)
def test_the_schema_accepts_exactly_what_is_decoded(annotation):
    import jsonschema_rs

    signature = taking(annotation)
    jsonschema_rs.meta.validate(signature.input_schema)
    validator = jsonschema_rs.Draft202012Validator(signature.input_schema)

    @given(
        JSON
        | st.fixed_dictionaries(
            {}, optional={"x": LEAVES, "y": LEAVES, "size": LEAVES, "type": LEAVES, "owner": LEAVES}
        )
    )
    @settings(max_examples=examples(25), deadline=None)
    def check(value):
        for arguments in ({"value": value}, {"value": value, "other": 1}):
            found = refusal_or_values(signature.decode, json.dumps(arguments).encode())
            accepted = isinstance(found, dict)
            assert accepted or found.parameter in ("value", "other")
            assert accepted or found.path.startswith(found.parameter)
            assert validator.is_valid(arguments) is accepted

    check()


@pytest.mark.parametrize("annotation", [annotation for annotation, _ in ROUND_TRIPS] + EXACT, ids=str)
def test_every_schema_is_valid_in_its_dialect(annotation):
    import jsonschema_rs

    jsonschema_rs.meta.validate(taking(annotation).input_schema)
    signature = returning(annotation, structured=True)
    jsonschema_rs.meta.validate(signature.output_schema)


@given(st.data())
@settings(max_examples=examples(50), deadline=None)
def test_results_conform_to_their_schema(data):
    import jsonschema_rs

    annotation, strategy = data.draw(st.sampled_from(ROUND_TRIPS))
    signature = returning(annotation, structured=True)
    assert jsonschema_rs.is_valid(signature.output_schema, encoded(signature, data.draw(strategy)))


def _fuzzed(a: int, b: Point | None = None, c: list[Level] | None = None, d: Book | None = None, **rest: float): ...


@given(st.binary() | JSON.map(lambda value: json.dumps(value).encode()) | st.text().map(str.encode))
@settings(max_examples=examples(75), deadline=None)
def test_hostile_bytes_are_decoded_or_refused(data):
    signature = Signature(_fuzzed)
    found = refusal_or_values(signature.decode, data)
    assert isinstance(found, dict | InvalidArguments)
    assert str(found)


TEXT_TYPES = [
    *(
        int,
        float,
        bool,
        uuid.UUID,
        datetime.date,
        datetime.datetime,
        datetime.time,
        datetime.timedelta,
        decimal.Decimal,
    ),
    *(bytes, Colour, Level, Literal["a", 1], list[int], tuple[int, str], dict[str, int], Point, Options, Pair, Book),
    *(int | float | None, list[Point], pathlib.Path, Annotated[int, Field(ge=0)], dict[int, Colour], set[Level]),
]
TEXT_SIGNATURES = [taking(annotation) for annotation in TEXT_TYPES]
HOSTILE_TEXT = st.text() | st.text('0123456789-+.eE_ []{}",:ax') | st.sampled_from(["1", "red", "[1]", "{}", "true"])


@given(
    st.sampled_from(TEXT_SIGNATURES),
    HOSTILE_TEXT | st.lists(HOSTILE_TEXT, max_size=3) | st.dictionaries(st.text(), HOSTILE_TEXT, max_size=3),
)
@settings(max_examples=examples(125), deadline=None)
def test_hostile_text_is_read_or_refused_by_name(signature, text):
    found = refusal_or_values(signature.convert, {"value": text})
    assert list(found) == ["value"] if isinstance(found, dict) else found.parameter == "value"


@given(st.integers(), st.sampled_from([int, int | None, Annotated[int, msgspec.Meta(description="x")]]))
def test_every_integer_is_read_back_from_text(number, annotation):
    assert taking(annotation).convert({"value": str(number)}) == {"value": number}
