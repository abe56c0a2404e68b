"""Which patterns may meet text of clients: only those whose time grows no faster than the text."""

from __future__ import annotations

import re
from typing import Annotated, Any, TypedDict

import msgspec
import pydantic
import pytest
from msgspec import Meta

from carrel import Server
from carrel.errors import ConfigError
from carrel.server.elicitation.forms import form_of
from carrel.server.schema.backtracking import hazard
from support.processor_time import loops


@pytest.mark.parametrize(
    "pattern",
    [
        *(
            "",
            "a*",
            "^$",
            "x",
            "[a-z]+",
            r"^\S+$",
            "^.*$",
            "^(a|b)*$",
            r"^https?://",
            "^(red|green|blue)$",
            r"^\s*\d+\s*$",
        ),
        *(r"^[a-z0-9]+(-[a-z0-9]+)*$", r"^\d{4}-\d{2}-\d{2}$", r"^([01]\d|2[0-3]):[0-5]\d$", "^#[0-9a-fA-F]{6}$"),
        *(r"^(\d{1,3}\.){3}\d{1,3}$", "^[a-z]{1,64}[a-z0-9]{1,64}$", "^([0-9a-f]{2}){1,64}$", r"^(\d{1,3},?){1,3}$"),
        "^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$",
        r"^v?\d+\.\d+\.\d+(-[0-9A-Za-z.-]+)?(\+[0-9A-Za-z.-]+)?$",
        r"^(?:[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?\.)+[a-z]{2,63}$",
    ],
)
def test_everyday_patterns_are_harmless(pattern: str) -> None:
    assert hazard(pattern) is None


@pytest.mark.parametrize(
    "pattern",
    [
        *("^(a+)+$", "^(a|a)*$", "^(a|aa)+$", "^(.*)*x$", "(x+x+)+y", r"^(\w+\s?)*$", "^(a*)*$", "^(a?){30}a{30}$"),
        *(r"^(?:\s*\w+\s*)*$", "(?i)^(?:ab|A[BC])*$", "^(?:[^a]|[^b])*$", "^(?:a(?:b|b))*$", "^(a{0,20}){0,20}$"),
    ],
)
def test_patterns_whose_time_doubles_with_every_letter_are_found(pattern: str) -> None:
    problem = hazard(pattern, 100)
    assert problem is not None
    assert "double" in problem


@pytest.mark.parametrize("pattern", [r"^[^@\s]+@[^@\s]+\.[^@\s]+$", r"\s+$", "[a-z]+@x", "^a*a*$", "^.*foo.*bar$"])
def test_quadratic_time_is_for_short_text(pattern: str) -> None:
    assert "square" in str(hazard(pattern))
    assert "square" in str(hazard(pattern, 257))
    assert hazard(pattern, 256) is None


@pytest.mark.parametrize("pattern", ["^(?=a)b", r"(a)\1", "(?<!a)b", "(?P<q>a)(?P=q)", "(a)?(?(1)b|c)"])
def test_patterns_that_look_around_or_back_are_refused(pattern: str) -> None:
    assert str(hazard(pattern)).startswith("it has a ")


def test_harmless_patterns_are_fast_in_deed() -> None:
    text = "a" * 200_000
    for pattern in ("^[a-z]+$", "^[a-z0-9]+(-[a-z0-9]+)*$", "^(a|b)*$", "[a-z]+"):
        assert hazard(pattern) is None
        assert loops(lambda pattern=pattern: re.search(pattern, text + "!")) < 500


class Inside(msgspec.Struct):
    slug: Annotated[str, Meta(pattern="^(a+)+$")]


class Keyed(TypedDict):
    slug: Annotated[str, Meta(pattern="^(a+)+$")]


class Compiled(pydantic.BaseModel):
    slug: Annotated[str, pydantic.Field(pattern=re.compile("^(a+)+$"))]


class Configured(pydantic.BaseModel):
    model_config = pydantic.ConfigDict(regex_engine="python-re")
    slug: Annotated[str, pydantic.Field(pattern="^(a+)+$")]


SLOW = [
    Annotated[str, Meta(pattern="^(a+)+$")],
    list[Annotated[str, Meta(pattern="^(a+)+$")]],
    dict[str, Annotated[str, Meta(pattern="^(a+)+$")] | None],
    *(Inside, Keyed, list[Inside], Compiled, Configured, list[Configured]),
    Annotated[str, pydantic.Field(pattern=re.compile("^(a+)+$"))],
]


@pytest.mark.parametrize("kind", SLOW, ids=str)
def test_a_parameter_with_a_slow_pattern_is_refused_and_named(kind: Any) -> None:
    def publish(slug: kind) -> str:  # type: ignore[valid-type]
        return ""

    publish.__annotations__["slug"] = kind
    app = Server("s")
    with pytest.raises(ConfigError, match=r"publish.*double") as refused:
        app.tools.add(publish, name="publish-page")
    assert "publish-page" in str(refused.value)
    assert "slug" in str(refused.value) or "publish" in str(refused.value)
    assert "(a+)+" in str(refused.value)
    with pytest.raises(ConfigError, match="double"):
        app.prompts.add(publish)
    with pytest.raises(ConfigError, match="double"):
        app.resource("page://{slug}")(publish)


def test_patterns_that_pydantic_matches_itself_take_linear_time() -> None:
    def publish(slug: Annotated[str, pydantic.Field(pattern="^(a+)+$")]) -> str:
        return slug

    app = Server("s")
    app.tools.add(publish)


@pytest.mark.parametrize("kind", [Annotated[str, Meta(pattern="^(a+)+$")], Inside, Configured], ids=str)
def test_a_form_with_a_slow_pattern_is_refused(kind: Any) -> None:
    with pytest.raises(ConfigError, match="double"):
        form_of(kind)
