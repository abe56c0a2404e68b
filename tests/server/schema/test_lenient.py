"""Arguments as models send them: numbers, lists and objects as text, null for nothing, names of their own."""

from __future__ import annotations

import dataclasses
import datetime
import decimal
import enum
import json
import math
from typing import Annotated, Any, Literal

import msgspec
import pydantic
import pytest

from carrel.protocol.json_values import InvalidArguments
from carrel.server.schema.signature import Signature


class Level(enum.IntEnum):
    LOW = 1
    HIGH = 2


@dataclasses.dataclass
class Point:
    x: int
    y: int = 0


class Size(msgspec.Struct):
    width: float


class Book(pydantic.BaseModel):
    title: str
    pages: int = 0


Positive = Annotated[int, pydantic.Field(gt=0)]
MISSING = object()


def signature_of(annotation: Any, default: Any = MISSING, **options: Any) -> Signature:
    """Return the signature of a function with one parameter, ``value``."""

    def function(value):
        return value

    function.__annotations__ = {"value": annotation}
    function.__defaults__ = () if default is MISSING else (default,)
    return Signature(function, **options)


def decode(signature: Signature, **arguments: Any) -> Any:
    return signature.decode(json.dumps(arguments).encode())


CONVERTED: list[tuple[Any, Any, Any]] = [
    (int, "5", 5),
    (int, "-5", -5),
    (int, "5.0", 5),
    (int, 5.0, 5),
    (float, "5.5", 5.5),
    (float, "5", 5.0),
    (bool, "true", True),
    (bool, "False", False),
    (bool, 1, True),
    (decimal.Decimal, 1.5, decimal.Decimal("1.5")),
    (datetime.datetime, 0, datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)),
    (Literal[1, 2], "2", 2),
    (Level, "2", Level.HIGH),
    (int | None, "5", 5),
    (int | None, "null", None),
    (int | float, "5.5", 5.5),
    (list[int], "[1, 2]", [1, 2]),
    (list[int], ["1", 2], [1, 2]),
    (list[int], '["1", "2"]', [1, 2]),
    (list[str], '["a"]', ["a"]),
    (list[int] | None, "[1]", [1]),
    (list[int] | None, " null ", None),
    (set[int], "[1, 1]", {1}),
    (tuple[int, str], '["1", "a"]', (1, "a")),
    (dict, '{"a": 1}', {"a": 1}),
    (dict[str, float], {"a": "1.5"}, {"a": 1.5}),
    (Point, '{"x": "3"}', Point(3)),
    (Point, {"x": "3", "y": 4.0}, Point(3, 4)),
    (Point | None, '{"x": 3}', Point(3)),
    (Point | list[int], "[1]", [1]),
    (Size, '{"width": "2.5"}', Size(2.5)),
    (Book, '{"title": "Solaris", "pages": "204"}', Book(title="Solaris", pages=204)),
    (Book | None, '{"title": "Solaris"}', Book(title="Solaris")),
    (list[Book], '[{"title": "Solaris"}]', [Book(title="Solaris")]),
    (Positive, "5", 5),
    (list[Positive], ["5"], [5]),
]


@pytest.mark.parametrize(("annotation", "sent", "received"), CONVERTED, ids=str)
def test_what_means_a_value_of_the_type_is_read_as_one(annotation, sent, received):
    found = decode(signature_of(annotation), value=sent)["value"]
    assert (found, type(found)) == (received, type(received))


@pytest.mark.parametrize(("annotation", "sent", "received"), CONVERTED, ids=str)
def test_a_strict_signature_publishes_the_same_schema_and_takes_no_text_for_it(annotation, sent, received):
    strict = signature_of(annotation, strict=True)
    assert strict.input_schema == signature_of(annotation).input_schema
    if isinstance(sent, str):
        with pytest.raises(InvalidArguments):
            decode(strict, value=sent)


@pytest.mark.parametrize(
    ("annotation", "sent"),
    [
        *((str, text) for text in ("5", "true", "null", "[1]", '{"a": 1}')),
        *((Any, text) for text in ("5", "[1]")),
        *((int | str, "5"), (bool | str, "true"), (str | None, "null"), (str | list[str], '["a"]')),
        *((dict[str, int] | str, '{"a": 1}'), (list[str], ["5", "null"]), (dict[str, Any], {"a": "5"})),
        (Book | str, '{"title": "Solaris"}'),
    ],
    ids=str,
)
def test_text_stays_text_where_a_parameter_takes_text(annotation, sent):
    assert decode(signature_of(annotation), value=sent) == {"value": sent}


def test_one_argument_to_convert_leaves_the_others_as_they_are():
    def function(a: int, b: str | list[int], c: list[int], d: str) -> None: ...

    found = decode(Signature(function), a="1", b="[1]", c="[1]", d="[1]")
    assert found == {"a": 1, "b": "[1]", "c": [1], "d": "[1]"}


@pytest.mark.parametrize("annotation", [int, list[int], Point, Positive, Literal["a"]], ids=str)
def test_null_stands_for_an_optional_argument_that_is_left_out(annotation):
    default: Any = object() if annotation is Point else 7
    if annotation is Point:
        default = Point(7)
    assert decode(signature_of(annotation, default), value=None) == {"value": default}
    with pytest.raises(InvalidArguments):
        decode(signature_of(annotation), value=None)
    with pytest.raises(InvalidArguments):
        decode(signature_of(annotation, default, strict=True), value=None)


@pytest.mark.parametrize(
    ("annotation", "sent", "message"),
    [
        (int, "five", "must be an integer, not a string"),
        (int, "", "must be an integer, not a string"),
        (int, "5.5", "must be an integer, not a string"),
        (float, "nan", "must be a number, not a string"),
        (float, "-inf", "must be a number, not a string"),
        (list[float], ["NaN"], "must be a number, not a string"),
        (bool, "maybe", "must be true or false, not a string"),
        (list[int], "[1", "must be an array, not a string"),
        (list[int], "1", "must be an array, not a string"),
        (list[int], "[1, true]", "must be an integer, not a boolean"),
        (str, 5, "must be a string, not an integer"),
        (Point, "[1]", "must be an object, not an array"),
        (Point, '{"z": 1}', "Missing required argument `value.x`"),
        (Positive, "-5", "Input should be greater than 0"),
        (Book, "a book", "Input should be an object"),
    ],
    ids=str,
)
def test_what_means_nothing_of_the_type_is_refused_in_the_same_words(annotation, sent, message):
    with pytest.raises(InvalidArguments) as caught:
        decode(signature_of(annotation), value=sent)
    assert message in str(caught.value)
    assert caught.value.parameter == "value"


def test_keyword_arguments_of_any_name_are_converted_too():
    def function(**numbers: int) -> None: ...

    assert decode(Signature(function), a="1", b=2) == {"a": 1, "b": 2}
    with pytest.raises(InvalidArguments):
        decode(Signature(function, strict=True), a="1")


def test_arguments_of_unknown_names_are_refused_with_the_nearest_names_first():
    def function(city: str, language: str = "", temperature: int = 0) -> None: ...

    with pytest.raises(InvalidArguments) as caught:
        decode(Signature(function), city="Lviv", temprature=1)
    assert str(caught.value) == "Unknown argument `temprature`; the arguments are `temperature`, `city`, `language`"


def test_arguments_of_unknown_names_are_left_out_where_that_is_asked_for():
    def function(a: int, b: Positive = 1) -> None: ...

    signature = Signature(function, ignore_unknown=True)
    assert decode(signature, a=1, session="x") == {"a": 1, "b": 1}
    assert decode(signature, a="1", b="2", session=None) == {"a": 1, "b": 2}
    assert signature.input_schema["additionalProperties"] is False
    assert signature.convert({"a": "1", "session": "x"}) == {"a": 1, "b": 1}
    with pytest.raises(InvalidArguments):
        signature.decode(b"[1]")


def test_empty_text_stands_for_an_optional_text_argument_of_another_type():
    def function(page: int = 3, word: str = "x") -> None: ...

    assert Signature(function).convert({"page": "", "word": ""}) == {"word": ""}
    with pytest.raises(InvalidArguments):
        Signature(function, strict=True).convert({"page": ""})


def test_numbers_are_finite_after_the_conversion():
    found = decode(signature_of(list[float]), value=["1.5", 2])["value"]
    assert all(map(math.isfinite, found))
