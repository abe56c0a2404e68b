"""Forms: what a client is shown for a Python type or a schema, and what is made of the answer.

https://modelcontextprotocol.io/specification/2026-07-28/client/elicitation#requested-schema
"""

from __future__ import annotations

import copy
import datetime
import enum
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal, NotRequired, TypedDict

import msgspec
import pydantic
import pytest
from msgspec import Meta

from carrel import Context, Server
from carrel.errors import ConfigError
from carrel.server.elicitation.forms import form_of
from support.answering_client import ELICIT, accepted, answering
from support.memory_client import JUNE, LATEST, NOVEMBER


class Color(enum.Enum):
    """A color, by its code."""

    RED = "#FF0000"
    DARK_BLUE = "#0000FF"
    amber = "#FFBF00"


class Size(enum.StrEnum):
    S = "small"
    XL = "extra large"


COLORS = [
    {"const": "#FF0000", "title": "Red"},
    {"const": "#0000FF", "title": "Dark blue"},
    {"const": "#FFBF00", "title": "Amber"},
]
Email = Annotated[str, Meta(extra_json_schema={"format": "email"})]
Site = Annotated[str, Meta(extra_json_schema={"format": "uri"})]


@dataclass
class Everything:
    """Everything that a form can ask for."""

    name: Annotated[str, Meta(min_length=5, max_length=100, title="Name", description="As on the door")]
    email: Email
    page: Site
    born: datetime.date
    at: datetime.datetime
    share: Annotated[float, Meta(ge=0, le=150)]
    count: Annotated[int, Meta(ge=1)]
    sure: bool
    color: Color
    letter: Literal["z", "a", "m"]
    colors: Annotated[list[Color], Meta(min_length=1, max_length=2)]
    letters: list[Literal["z", "a", "m"]]
    nickname: str | None = None
    town: str = "Oslo"
    height: float = 1.5
    shoes: int = 42
    hungry: bool = False
    size: Size = Size.XL
    mood: Literal["good", "bad"] = "good"
    sizes: set[Size] = field(default_factory=lambda: {Size.S})
    moods: tuple[Literal["good", "bad"], ...] = ("bad",)
    later: datetime.datetime | None = None
    maybe: Color | None = None


SIZES = [{"const": "small", "title": "S"}, {"const": "extra large", "title": "Xl"}]
SHOWN: dict[str, dict[str, Any]] = {
    "name": {"type": "string", "title": "Name", "description": "As on the door", "minLength": 5, "maxLength": 100},
    "email": {"type": "string", "format": "email"},
    "page": {"type": "string", "format": "uri"},
    "born": {"type": "string", "format": "date"},
    "at": {"type": "string", "format": "date-time"},
    "share": {"type": "number", "minimum": 0, "maximum": 150},
    "count": {"type": "integer", "minimum": 1},
    "sure": {"type": "boolean"},
    "color": {"type": "string", "oneOf": COLORS, "description": "A color, by its code."},
    "letter": {"type": "string", "enum": ["z", "a", "m"]},
    "colors": {"type": "array", "items": {"anyOf": COLORS}, "minItems": 1, "maxItems": 2},
    "letters": {"type": "array", "items": {"type": "string", "enum": ["z", "a", "m"]}},
    "nickname": {"type": "string"},
    "town": {"type": "string", "default": "Oslo"},
    "height": {"type": "number", "default": 1.5},
    "shoes": {"type": "integer", "default": 42},
    "hungry": {"type": "boolean", "default": False},
    "size": {"type": "string", "oneOf": SIZES, "default": "extra large"},
    "mood": {"type": "string", "enum": ["good", "bad"], "default": "good"},
    "sizes": {"type": "array", "items": {"anyOf": SIZES}, "default": ["small"]},
    "moods": {"type": "array", "items": {"type": "string", "enum": ["good", "bad"]}, "default": ["bad"]},
    "later": {"type": "string", "format": "date-time"},
    "maybe": {"type": "string", "oneOf": COLORS, "description": "A color, by its code."},
}
FILLED = {
    "name": "Ada Lovelace",
    "email": "ada@example.com",
    "page": "https://example.com/~ada",
    "born": "1815-12-10",
    "at": "2026-01-12T15:00:58Z",
    "share": 30,
    "count": 3.0,
    "sure": True,
    "color": "#0000FF",
    "letter": "a",
    "colors": ["#FFBF00", "#FF0000"],
    "letters": ["m", "z"],
    "nickname": None,
    "unheard": "of",
}


def test_every_type_of_field_is_shown_as_the_specification_has_it() -> None:
    schema = form_of(Everything).schema
    assert schema["properties"] == SHOWN
    assert set(schema) == {"type", "properties", "required"}
    assert schema["required"] == list(SHOWN)[:12]


def test_choices_keep_the_order_of_their_author() -> None:
    properties = form_of(Everything).schema["properties"]
    assert [choice["title"] for choice in properties["color"]["oneOf"]] == ["Red", "Dark blue", "Amber"]
    assert properties["letter"]["enum"] == ["z", "a", "m"]
    assert list(properties) == list(SHOWN)


def test_an_answer_becomes_what_was_asked_for() -> None:
    found = form_of(Everything).read(FILLED)
    assert found == Everything(
        name="Ada Lovelace",
        email="ada@example.com",
        page="https://example.com/~ada",
        born=datetime.date(1815, 12, 10),
        at=datetime.datetime(2026, 1, 12, 15, 0, 58, tzinfo=datetime.UTC),
        share=30.0,
        count=3,
        sure=True,
        color=Color.DARK_BLUE,
        letter="a",
        colors=[Color.amber, Color.RED],
        letters=["m", "z"],
    )
    assert type(found.count) is int


@pytest.mark.parametrize(
    "change",
    [
        {"name": "Ada"},
        {"name": "x" * 101},
        {"name": None},
        {"email": "ada"},
        {"email": "@example.com"},
        {"email": "a da@example.com"},
        {"page": "not a page"},
        {"page": ""},
        {"born": "12/10/1815"},
        {"born": "1815-13-10"},
        {"at": "yesterday"},
        {"share": 151},
        {"share": "30"},
        {"count": 0},
        {"count": 1.5},
        {"count": True},
        {"sure": "yes"},
        {"sure": 1},
        {"color": "Red"},
        {"color": ["#FF0000"]},
        {"letter": "Z"},
        {"colors": []},
        {"colors": ["#FF0000", "#0000FF", "#FFBF00"]},
        {"colors": "#FF0000"},
        {"letters": ["q"]},
        {"town": 5},
        {"later": "soon"},
    ],
    ids=str,
)
def test_an_answer_that_does_not_fit_is_refused(change: dict[str, Any]) -> None:
    with pytest.raises(ValueError):  # noqa: PT011 - whoever notices says it
        form_of(Everything).read({**FILLED, **change})


class Typed(TypedDict):
    name: str
    nickname: NotRequired[Annotated[str, Meta(max_length=3)]]


class Struct(msgspec.Struct, rename="camel"):
    first_name: Annotated[str, "What your friends call you"]
    favourite: Literal["tea", "coffee"] = "tea"


class Model(pydantic.BaseModel):
    name: str = pydantic.Field(min_length=2, title="Your name")
    choice: Literal["z", "a"] = "z"
    color: Color = Color.RED
    many: list[Literal["z", "a"]] = ["z"]
    age: int | None = pydantic.Field(default=None, ge=0, alias="yourAge")


@pytest.mark.parametrize(
    ("kind", "properties", "required", "content", "value"),
    [
        (
            Typed,
            {"name": {"type": "string"}, "nickname": {"type": "string", "maxLength": 3}},
            ["name"],
            {"name": "Ada"},
            {"name": "Ada"},
        ),
        (
            Struct,
            {
                "firstName": {"type": "string", "description": "What your friends call you"},
                "favourite": {"type": "string", "enum": ["tea", "coffee"], "default": "tea"},
            },
            ["firstName"],
            {"firstName": "Ada"},
            Struct("Ada"),
        ),
        (
            Model,
            {
                "name": {"type": "string", "minLength": 2, "title": "Your name"},
                "choice": {"type": "string", "enum": ["z", "a"], "default": "z", "title": "Choice"},
                "color": {
                    "type": "string",
                    "enum": ["#FF0000", "#0000FF", "#FFBF00"],
                    "default": "#FF0000",
                    "description": "A color, by its code.",
                },
                "many": {
                    "type": "array",
                    "items": {"type": "string", "enum": ["z", "a"]},
                    "default": ["z"],
                    "title": "Many",
                },
                "yourAge": {"type": "integer", "minimum": 0, "title": "Yourage"},
            },
            ["name"],
            {"name": "Ada", "yourAge": 36},
            Model(name="Ada", yourAge=36),
        ),
    ],
    ids=["TypedDict", "Struct", "pydantic"],
)
def test_classes_of_every_make_are_forms(
    kind: Any, properties: dict[str, Any], required: list[str], content: dict[str, Any], value: Any
) -> None:
    form = form_of(kind)
    assert form.schema == {"type": "object", "properties": properties, "required": required}
    assert form.read(content) == value
    with pytest.raises(ValueError):  # noqa: PT011 - whoever notices says it
        form.read({})


@pytest.mark.parametrize(
    ("kind", "shown", "given", "value"),
    [
        (str, {"type": "string"}, "x", "x"),
        (int, {"type": "integer"}, 3, 3),
        (float, {"type": "number"}, 3, 3.0),
        (bool, {"type": "boolean"}, True, True),
        (datetime.date, {"type": "string", "format": "date"}, "2026-01-12", datetime.date(2026, 1, 12)),
        (Literal["z", "a"], {"type": "string", "enum": ["z", "a"]}, "a", "a"),
        (Literal["z"], {"type": "string", "enum": ["z"]}, "z", "z"),
        (Size, {"type": "string", "oneOf": SIZES}, "small", Size.S),
        (list[Size], {"type": "array", "items": {"anyOf": SIZES}}, ["small"], [Size.S]),
        (frozenset[Size], {"type": "array", "items": {"anyOf": SIZES}}, ["small"], frozenset([Size.S])),
        (
            Annotated[str, Meta(pattern="^a+$", description="Only a")],
            {"type": "string", "description": "Only a"},
            "aa",
            "aa",
        ),
    ],
    ids=str,
)
def test_a_simple_type_is_a_form_of_one_field(kind: Any, shown: dict[str, Any], given: Any, value: Any) -> None:
    form = form_of(kind)
    assert form.schema == {"type": "object", "properties": {"value": shown}, "required": ["value"]}
    assert form.read({"value": given}) == value
    for odd in ({}, {"value": None}, {"value": {}}, {"Value": given}):
        with pytest.raises(ValueError):  # noqa: PT011 - whoever notices says it
            form.read(odd)


def test_what_cannot_be_shown_is_checked_all_the_same() -> None:
    with pytest.raises(ValueError, match="regex"):
        form_of(Annotated[str, Meta(pattern="^a+$")]).read({"value": "b"})
    schema = {"type": "object", "properties": {"x": {"type": "string", "pattern": "^a+$", "examples": ["aa"]}}}
    form = form_of(schema)
    assert form.schema["properties"] == {"x": {"type": "string"}}
    with pytest.raises(ValueError, match="x"):
        form.read({"x": "b"})


def test_an_optional_value_need_not_be_given() -> None:
    form = form_of(Size | None)
    assert "required" not in form.schema
    assert form.read({}) is form.read({"value": None}) is None
    assert form.read({"value": "small"}) is Size.S


def test_a_form_without_fields_is_valid() -> None:
    form = form_of(None)
    assert form.schema == {"type": "object", "properties": {}}
    assert form.read({}) is None
    assert form.read({"odd": 1}) is None


# Schemas

SCHEMA: dict[str, Any] = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "type": "object",
    "title": "A form",
    "properties": {
        "username": {"type": "string", "description": "GitHub username", "minLength": 1},
        "email": {"type": "string", "format": "email"},
        "age": {"type": "number", "minimum": 0, "maximum": 150},
        "legacy": {"type": "string", "enum": ["b", "a"], "enumNames": ["Bee", "Ay"], "default": "a"},
        "titled": {"type": "string", "oneOf": [{"const": "b", "title": "Bee"}, {"const": "a", "title": "Ay"}]},
        "plain": {"enum": ["b", "a"]},
        "many": {"type": "array", "items": {"enum": ["b", "a"]}, "uniqueItems": True, "minItems": 1},
        "titles": {"type": "array", "items": {"anyOf": [{"const": "b", "title": "Bee"}]}, "default": ["b"]},
    },
    "required": ["username"],
}


def test_a_schema_is_shown_as_far_as_clients_know_it_and_left_alone() -> None:
    before = copy.deepcopy(SCHEMA)
    shown = form_of(SCHEMA).schema
    assert before == SCHEMA
    assert "title" not in shown
    assert shown["$schema"] == SCHEMA["$schema"]
    assert shown["required"] == ["username"]
    changed = {
        "plain": {"type": "string", "enum": ["b", "a"]},
        "many": {"type": "array", "items": {"type": "string", "enum": ["b", "a"]}, "minItems": 1},
    }
    assert shown["properties"] == {**SCHEMA["properties"], **changed}


def test_an_answer_to_a_schema_is_a_dict_with_what_was_asked_for() -> None:
    form = form_of(SCHEMA)
    given = {"username": "ada", "age": 36, "legacy": None, "many": ["a"], "secret": 5}
    assert form.read(given) == {"username": "ada", "age": 36, "many": ["a"]}


@pytest.mark.parametrize(
    "given",
    [
        {},
        {"username": ""},
        {"username": 5},
        {"username": "a", "email": "nobody"},
        {"username": "a", "age": 151},
        {"username": "a", "legacy": "Ay"},
        {"username": "a", "titled": "c"},
        {"username": "a", "plain": "c"},
        {"username": "a", "many": []},
        {"username": "a", "many": ["a", "a"]},
        {"username": "a", "titles": ["a"]},
    ],
    ids=str,
)
def test_an_answer_that_does_not_fit_a_schema_is_refused(given: dict[str, Any]) -> None:
    with pytest.raises(ValueError):  # noqa: PT011 - whoever notices says it
        form_of(SCHEMA).read(given)


def of(**fields: Any) -> dict[str, Any]:
    return {"type": "object", "properties": fields}


class Nested:
    """Classes that cannot be forms."""

    @dataclass
    class Point:
        x: int

    @dataclass
    class Line:
        begin: Nested.Point

    @dataclass
    class Tree:
        children: list[Nested.Tree]


@pytest.mark.parametrize(
    ("kind", "told"),
    [
        ({"type": "string"}, "properties"),
        ({"type": "object"}, "properties"),
        (of(x=5), "schema"),
        (of(x={"type": "object", "properties": {}}), "x: a form has text, numbers"),
        (of(x={"type": "null"}), "not null"),
        (of(x={}), "x: a form has"),
        (of(x={"type": ["string", "null"]}), "x: a form has"),
        (of(x={"type": "array"}), "choice of several"),
        (of(x={"type": "array", "items": {"type": "string"}}), "choice of several"),
        (of(x={"type": "array", "items": True}), "choice of several"),
        (of(x={"type": "string", "format": "password"}), "not password"),
        (of(x={"type": "string", "contentEncoding": "base64"}), "contentEncoding"),
        (of(x={"type": "integer", "exclusiveMinimum": 0}), "exclusiveMinimum"),
        (of(x={"type": "string", "enum": [1, 2]}), "must be text"),
        (of(x={"type": "string", "oneOf": [{"title": "One"}]}), "must be text"),
        (list[str], "choice of several"),
        (dict[str, int], "not object"),
        (bytes, "contentEncoding"),
        (int | str, "a form has"),
        (Literal[1, 2], "must be text"),
        (tuple[int, int], "cannot have prefixItems"),
        (object, "cannot be a form"),
        (Callable[[], int], "cannot be a form"),
        (Annotated[int, Meta(gt=0)], "exclusiveMinimum"),
        (Nested.Line, "begin: a form has"),
        (Nested.Tree, "choice of several"),
        (list[Nested.Point], "choice of several"),
    ],
    ids=str,
)
def test_forms_that_no_client_can_show_are_refused(kind: Any, told: str) -> None:
    with pytest.raises(ConfigError, match=told):
        form_of(kind)


# In the revisions


@dataclass
class Order:
    drink: Literal["tea", "coffee"]
    color: Color
    name: str = "Ada"
    cups: int = 1
    hot: bool = True


@pytest.mark.parametrize("revision", [JUNE, NOVEMBER, LATEST])
async def test_a_form_has_the_words_of_its_revision(revision: str) -> None:
    app = Server("bar")

    @app.tool()
    async def order(context: Context) -> str:
        return repr((await context.elicit("What do you want?", Order)).data)

    answer = accepted(drink="tea", color="#0000FF", cups=2)
    async with answering(app, revision, {ELICIT: answer}) as client:
        text = await client.text("order")
    assert text == repr(Order("tea", Color.DARK_BLUE, cups=2))
    old = revision == JUNE
    names, codes = ["Red", "Dark blue", "Amber"], ["#FF0000", "#0000FF", "#FFBF00"]
    choice: dict[str, Any] = {"enum": codes, "enumNames": names} if old else {"oneOf": COLORS}
    default: Callable[[Any], dict[str, Any]] = lambda value: {} if old else {"default": value}  # noqa: E731
    assert client.asked[0][1]["requestedSchema"] == {
        "type": "object",
        "properties": {
            "drink": {"type": "string", "enum": ["tea", "coffee"]},
            "color": {"type": "string", **choice, "description": "A color, by its code."},
            "name": {"type": "string", **default("Ada")},
            "cups": {"type": "integer", **default(1)},
            "hot": {"type": "boolean", "default": True},
        },
        "required": ["drink", "color"],
    }


async def test_the_dialect_of_a_schema_is_named_where_there_is_a_place_for_it() -> None:
    app = Server("bar")

    @app.tool()
    async def fill(context: Context) -> str:
        return str((await context.elicit("?", {**SCHEMA, "properties": {"username": {"type": "string"}}})).data)

    for revision in (JUNE, NOVEMBER, LATEST):
        async with answering(app, revision, {ELICIT: accepted(username="ada")}) as client:
            assert await client.text("fill") == "{'username': 'ada'}"
        assert ("$schema" in client.asked[0][1]["requestedSchema"]) == (revision != JUNE)


async def test_agreement_needs_no_fields() -> None:
    app = Server("bar")

    @app.tool()
    async def leave(context: Context) -> str:
        return str((await context.elicit("Leave?", None)).accepted)

    for revision in (JUNE, NOVEMBER, LATEST):
        for answer, told in (({"action": "accept"}, "True"), (accepted(), "True"), ({"action": "decline"}, "False")):
            async with answering(app, revision, {ELICIT: answer}) as client:
                assert await client.text("leave") == told
