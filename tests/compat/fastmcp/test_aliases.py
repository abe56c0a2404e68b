"""Names of fields and bytes in the results of FastMCP 3 and 4, as a client receives them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

import pytest
from msgspec import UNSET
from pydantic import BaseModel, ConfigDict, Field

from carrel import Client
from carrel.compat import generation
from carrel.compat.fastmcp import FastMCP
from carrel.compat.fastmcp.tools import ToolResult


class Plain(BaseModel):
    """Model with an alias and without a choice."""

    model_config = ConfigDict(populate_by_name=True)
    user_name: str = Field(default="u", alias="userName")


class Named(Plain):
    """Model that writes names of attributes."""

    model_config = ConfigDict(serialize_by_alias=False)


class Aliased(Plain):
    """Model that writes aliases."""

    model_config = ConfigDict(serialize_by_alias=True)


class Nested(BaseModel):
    """Model with each of them."""

    plain: Plain = Plain()
    named: Named = Named()
    aliased: Aliased = Aliased()


@dataclass
class Pair:
    """Dataclass with a model."""

    plain: Plain


class Wide(Plain):
    """Model with a field more than its base."""

    secret: str = "s"


@pytest.fixture(params=["3.4.11", "4.1.6"])
def four(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> bool:
    """Whether the program is for FastMCP 4."""
    monkeypatch.setattr(generation, "installed_fastmcp", lambda: request.param)
    return str(request.param).startswith("4")


async def answer(function: Any) -> tuple[Any, Any, Any]:
    """Return the output schema of a tool, its structured result and its text."""
    mcp = FastMCP("names")
    mcp.tool(function, name="it")
    async with Client(mcp._mcp_server.application()) as client:
        [tool] = await client.list_tools()
        result = await client.call_tool("it")
    return tool.output_schema, result.structured_content, result.content[0].text  # type: ignore[union-attr]


@pytest.mark.parametrize(("kind", "in_3", "in_4"), [(Plain, 1, 0), (Named, 0, 0), (Aliased, 1, 1)])
async def test_a_model_writes_aliases_or_names(kind: type[BaseModel], in_3: int, in_4: int, four: bool) -> None:
    def it() -> Any:
        return kind()

    name = ["user_name", "userName"][in_4 if four else in_3]
    assert (await answer(it))[1:] == ({name: "u"}, f'{{"{name}":"u"}}')
    it.__annotations__["return"] = kind
    schema, structured, _ = await answer(it)
    assert (list(schema["properties"]), structured) == ([name], {name: "u"})
    it.__annotations__["return"] = kind | None
    schema, structured, _ = await answer(it)
    assert list(schema["properties"]["result"]["anyOf"][0]["properties"]) == [name]
    assert structured == {"result": {name: "u"}}


async def test_version_4_asks_each_model_and_version_3_the_outermost(four: bool) -> None:
    def it() -> Nested:
        return Nested()

    schema, structured, _ = await answer(it)
    names = {key: list(each) for key, each in structured.items()}
    assert names == {key: list(each["properties"]) for key, each in schema["properties"].items()}
    plain, named = (["user_name"], ["user_name"]) if four else (["userName"], ["userName"])
    assert names == {"plain": plain, "named": named, "aliased": ["userName"]}


async def test_a_dataclass_and_a_result_that_the_tool_makes_follow_the_same_rule(four: bool) -> None:
    def pair() -> Pair:
        return Pair(Plain())

    def made() -> ToolResult:
        return ToolResult(structured_content=Plain())

    name = "user_name" if four else "userName"
    assert (await answer(pair))[1] == {"plain": {name: "u"}}
    assert (await answer(made))[1] == {name: "u"}


async def test_the_annotation_may_have_metadata_without_a_hash(four: bool) -> None:
    def it() -> Annotated[int, {"unit": "cm"}]:
        return 3

    assert (await answer(it))[1] == {"result": 3}


async def test_version_4_writes_the_fields_of_the_annotation(four: bool) -> None:
    def it() -> Plain:
        return Wide()

    _, structured, text = await answer(it)
    assert ("secret" in structured) != four
    assert "secret" in text


@pytest.mark.parametrize(("data", "text"), [(b"abc", "abc"), (b"\xff\x00", "/wA=")])
async def test_bytes_are_text_or_base64_without_structured_content(data: bytes, text: str, four: bool) -> None:
    def it() -> bytes:
        return data

    assert await answer(it) == (None, UNSET, text)
    it.__annotations__["return"] = Any
    assert await answer(it) == (None, UNSET, text)


async def test_lists_of_bytes_have_a_schema(four: bool) -> None:
    def it() -> list[bytes]:
        return [b"a"]

    schema, structured, text = await answer(it)
    assert schema["properties"]["result"]["items"] == {"type": "string", "format": "binary"}
    assert (structured, text) == ({"result": ["a"]}, '["a"]')
