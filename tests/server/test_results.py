"""Results of tools: from the values that functions return to text, content blocks and structured content."""

from __future__ import annotations

import base64
import dataclasses
import datetime
import decimal
import enum
import importlib
import io
import logging
import pathlib
import socket
import subprocess
import sys
import uuid
from collections.abc import AsyncIterator, Iterator
from typing import Any, Literal, NamedTuple, TypedDict

import msgspec
import PIL.Image
import pydantic
import pytest

from carrel import Audio, Contents, File, Image, Server
from carrel.errors import ConfigError
from carrel.transports import memory
from carrel.wire.content import TextContent
from support.memory_client import ALL, LATEST, MARCH, NOVEMBER, OLDEST, call, listed, result


class Colour(enum.Enum):
    RED = "red"


class Model(pydantic.BaseModel):
    x: int


class Note(msgspec.Struct):
    x: int


class Typed(TypedDict):
    x: int


class Pair(NamedTuple):
    x: int
    y: str


@dataclasses.dataclass
class Point:
    x: int


@dataclasses.dataclass
class Holder:
    name: str
    held: Any


def returning(value: Any, annotation: Any = None, **options: Any) -> Server:
    """Return a server with a tool ``t`` that returns a value, with an annotation if one is given."""
    app = Server("s")

    def function() -> Any:
        return value

    function.__annotations__ = {} if annotation is None else {"return": annotation}
    app.tools.add(function, name="t", **options)
    return app


async def answer(app: Server, revision: str = NOVEMBER) -> tuple[dict[str, Any] | None, dict[str, Any]]:
    """Return the output schema of the tool ``t``, and its result."""
    async with memory.connect(app, revision) as peer:
        (tool,) = await listed(peer, "tools")
        return tool.get("outputSchema"), await call(peer, "t")


def wrapped(schema: dict[str, Any]) -> dict[str, Any]:
    return {"type": "object", "properties": {"result": schema}, "required": ["result"]}


UUID = uuid.UUID(int=1)
NO_OBJECTS: list[tuple[Any, Any, dict[str, Any], list[str], Any]] = [
    (int, 5, {"type": "integer"}, ["5"], 5),
    (str, "a", {"type": "string"}, ["a"], "a"),
    (float, 1.5, {"type": "number"}, ["1.5"], 1.5),
    (bool, True, {"type": "boolean"}, ["true"], True),
    (list[str], ["a", "b"], {"type": "array", "items": {"type": "string"}}, ["a", "b"], ["a", "b"]),
    (list[int], [1, 2], {"type": "array", "items": {"type": "integer"}}, ["[1,2]"], [1, 2]),
    (set[int], {1}, {"type": "array", "items": {"type": "integer"}, "uniqueItems": True}, ["[1]"], [1]),
    (int | None, 3, {"anyOf": [{"type": "integer"}, {"type": "null"}]}, ["3"], 3),
    (int | None, None, {"anyOf": [{"type": "integer"}, {"type": "null"}]}, [], None),
    (Literal["a"], "a", {"enum": ["a"]}, ["a"], "a"),
    (Colour, Colour.RED, {"title": "Colour", "enum": ["red"]}, ["red"], "red"),
    (datetime.date, datetime.date(2024, 2, 29), {"type": "string", "format": "date"}, ["2024-02-29"], "2024-02-29"),
    (decimal.Decimal, decimal.Decimal("1.50"), {"type": "string", "format": "decimal"}, ["1.50"], "1.50"),
    (uuid.UUID, UUID, {"type": "string", "format": "uuid"}, [str(UUID)], str(UUID)),
    (pathlib.Path, pathlib.PurePosixPath("/a"), {"type": "string", "format": "path"}, ["/a"], "/a"),
    (bytes, b"ab", {"type": "string", "contentEncoding": "base64"}, ["YWI="], "YWI="),
]


@pytest.mark.parametrize(("annotation", "value", "schema", "texts", "plain"), NO_OBJECTS, ids=str)
async def test_results_that_are_no_objects_are_structured_as_the_member_result(
    annotation: Any, value: Any, schema: Any, texts: list[str], plain: Any
) -> None:
    listed_schema, found = await answer(returning(value, annotation))
    assert listed_schema is not None
    assert listed_schema["required"] == ["result"]
    given = listed_schema["properties"]["result"]
    if "$ref" in given:
        given = listed_schema["$defs"][given["$ref"].rpartition("/")[2]]
    assert given == schema
    assert [block["text"] for block in found["content"]] == texts
    assert found["structuredContent"] == {"result": plain}


@pytest.mark.parametrize(
    ("annotation", "value"),
    [(Point, Point(1)), (Model, Model(x=1)), (Note, Note(1)), (Typed, {"x": 1}), (dict[str, int], {"x": 1})],
    ids=str,
)
async def test_results_that_are_objects_are_structured_as_they_are(annotation: Any, value: Any) -> None:
    schema, found = await answer(returning(value, annotation))
    assert schema is not None
    assert schema["type"] == "object"
    assert (found["content"][0]["text"], found["structuredContent"]) == ('{"x":1}', {"x": 1})


async def test_named_tuples_are_arrays() -> None:
    schema, found = await answer(returning(Pair(1, "a"), Pair))
    assert schema is not None
    assert schema["properties"]["result"]["prefixItems"] == [{"type": "integer"}, {"type": "string"}]
    assert (found["content"][0]["text"], found["structuredContent"]) == ('[1,"a"]', {"result": [1, "a"]})


@pytest.mark.parametrize("revision", ALL)
async def test_a_client_gets_what_its_revision_has(revision: str) -> None:
    schema, found = await answer(returning(5, int), revision)
    assert (schema is None) is (revision in (OLDEST, MARCH))
    assert found.get("structuredContent") == (None if schema is None else {"result": 5})
    assert found["content"] == [{"type": "text", "text": "5"}]


@pytest.mark.parametrize("annotation", [None, Any, object, list, list[Any], TextContent, Image, "Nowhere"], ids=str)
async def test_nothing_is_promised_where_nothing_is_known(annotation: Any) -> None:
    schema, found = await answer(returning(["a"], annotation))
    assert schema is None
    assert "structuredContent" not in found


@pytest.mark.parametrize(("annotation", "value"), [(int, 5), (list[str], ["a"]), (Point, Point(1))], ids=str)
async def test_structured_false_leaves_text_only(annotation: Any, value: Any) -> None:
    schema, found = await answer(returning(value, annotation, structured=False))
    assert schema is None
    assert "structuredContent" not in found


async def test_a_wrong_value_is_an_error_that_says_what_does_not_fit() -> None:
    _, found = await answer(returning(["a"], list[int]))
    assert found["isError"] is True
    assert "t: the result does not conform to the output schema: " in found["content"][0]["text"]


async def test_a_schema_given_by_hand_describes_the_result_as_it_is() -> None:
    app = returning([1], list[int], output_schema={"type": "array"})
    async with memory.connect(app, LATEST) as peer:
        assert (await call(peer, "t"))["structuredContent"] == [1]


# Generators


async def test_generators_are_collected_into_a_list() -> None:
    app = Server("s")

    @app.tool
    def count(to: int) -> Iterator[int]:
        yield from range(to)

    @app.tool
    async def later(to: int) -> AsyncIterator[str]:
        for number in range(to):
            yield str(number)

    @app.tool
    def lazily(to: int):  # type: ignore[no-untyped-def]
        return (number for number in range(to))

    async with memory.connect(app, NOVEMBER) as peer:
        tools = {tool["name"]: tool for tool in await listed(peer, "tools")}
        assert tools["count"]["outputSchema"] == wrapped({"type": "array", "items": {"type": "integer"}})
        assert (await call(peer, "count", to=3))["structuredContent"] == {"result": [0, 1, 2]}
        found = await call(peer, "later", to=2)
        assert [block["text"] for block in found["content"]] == ["0", "1"]
        assert found["structuredContent"] == {"result": ["0", "1"]}
        assert (await call(peer, "lazily", to=2))["content"][0]["text"] == "[0,1]"


# Images, audio, files


PNG = b"\x89PNG\r\n\x1a\n..."


@pytest.mark.parametrize(
    ("value", "kind", "mime_type"),
    [
        (Image(data=PNG), "image", "image/png"),
        (Image(PNG), "image", "image/png"),  # type: ignore[arg-type]
        (Image(data=b"?", format="jpg"), "image", "image/jpeg"),
        (Image(data=b"?", format="svg"), "image", "image/svg+xml"),
        (Image(data=b"?", mime_type="image/avif"), "image", "image/avif"),
        (Image(data=b"?"), "image", "image/png"),
        (Image(data=b"RIFF....WEBP"), "image", "image/webp"),
        (Audio(data=b"?", format="mp3"), "audio", "audio/mpeg"),
        (Audio(data=b"RIFF....WAVE"), "audio", "audio/wav"),
        (Contents(b"?", "image/webp"), "image", "image/webp"),
        (Contents(PNG), "image", "image/png"),
        (Contents(b"?", "audio/ogg"), "audio", "audio/ogg"),
    ],
    ids=repr,
)
async def test_images_and_audio_are_content_blocks(value: Any, kind: str, mime_type: str) -> None:
    schema, found = await answer(returning(value))
    assert schema is None
    (block,) = found["content"]
    assert block == {"type": kind, "data": base64.b64encode(value.data).decode(), "mimeType": mime_type}


async def test_media_is_read_from_files(tmp_path: pathlib.Path) -> None:
    (tmp_path / "a.png").write_bytes(PNG)
    (tmp_path / "a.mp3").write_bytes(b"ID3")
    (tmp_path / "a b.csv").write_text("x,y\n")
    (tmp_path / "a.bin").write_bytes(b"\0")
    assert Image(tmp_path / "a.png").mime_type == "image/png"
    assert Audio(str(tmp_path / "a.mp3")).mime_type == "audio/mpeg"
    values = [File(tmp_path / "a b.csv"), File(tmp_path / "a.bin"), File(data=b"{}", name="x.json"), "and text"]
    _, found = await answer(returning(values))
    assert [block["type"] for block in found["content"]] == ["resource", "resource", "resource", "text"]
    csv, binary, named = (block["resource"] for block in found["content"][:3])
    assert csv == {"uri": "file:///a%20b.csv", "mimeType": "text/csv", "text": "x,y\n"}
    assert binary == {"uri": "file:///a.bin", "mimeType": "application/octet-stream", "blob": "AA=="}
    assert named == {"uri": "file:///x.json", "mimeType": "application/json", "text": "{}"}
    with pytest.raises(FileNotFoundError):
        Image(tmp_path / "b.png")


async def test_contents_with_a_uri_are_embedded_resources() -> None:
    values = [Contents("x", uri="note://1"), Contents(PNG, "image/png", uri="note://2"), Contents({"a": 1})]
    _, found = await answer(returning(values))
    text, image, data = (block["resource"] for block in found["content"])
    assert text == {"uri": "note://1", "mimeType": "text/plain", "text": "x"}
    assert (image["uri"], image["mimeType"]) == ("note://2", "image/png")
    assert data == {"uri": "file:///result", "mimeType": "application/json", "text": '{"a":1}'}


@pytest.mark.parametrize("arguments", [{}, {"path": "a.png", "data": b""}, {"data": "text"}], ids=str)
def test_media_takes_a_path_or_bytes(arguments: Any) -> None:
    with pytest.raises(ConfigError, match="Image takes"):
        Image(**arguments)


@pytest.mark.parametrize("mode", ["RGB", "RGBA", "L", "P", "CMYK", "F", "LAB", "1"])
async def test_images_of_pillow_are_sent_as_png(mode: str) -> None:
    schema, found = await answer(returning(PIL.Image.new(mode, (2, 3)), PIL.Image.Image))
    assert schema is None
    (block,) = found["content"]
    with PIL.Image.open(io.BytesIO(base64.b64decode(block["data"]))) as image:
        assert (block["mimeType"], image.format, image.size) == ("image/png", "PNG", (2, 3))


async def test_images_of_pillow_keep_the_format_they_were_read_in() -> None:
    out = io.BytesIO()
    PIL.Image.new("RGB", (1, 1)).save(out, "JPEG")
    _, found = await answer(returning(["A photo", PIL.Image.open(out)]))
    assert [block.get("mimeType") for block in found["content"]] == [None, "image/jpeg"]


async def test_prompts_and_resources_take_images_too() -> None:
    app = Server("s")

    @app.prompt
    def look() -> list[Any]:
        return ["What is this?", Image(data=PNG), PIL.Image.new("L", (1, 1))]

    app.resources.add("image://1", Image(data=PNG))
    app.resources.add("image://2", PIL.Image.new("L", (1, 1)))
    app.resources.add("text://1", File(data=b"a", name="a.txt"))
    async with memory.connect(app, NOVEMBER) as peer:
        found = await result(peer, "prompts/get", name="look")
        assert [message["content"]["type"] for message in found["messages"]] == ["text", "image", "image"]
        for uri, mime_type in (("image://1", "image/png"), ("image://2", "image/png"), ("text://1", "text/plain")):
            (contents,) = (await result(peer, "resources/read", uri=uri))["contents"]
            assert contents["mimeType"] == mime_type


# Data frames. Their packages take two seconds, so that only these tests import them.


ROWS = [{"city": "Lviv", "people": 717273, "founded": None}, {"city": "a|b", "people": 1, "founded": "1256"}]
TABLE = "| city | people | founded |\n| --- | --- | --- |\n| Lviv | 717273 |  |\n| a\\|b | 1 | 1256 |"


@pytest.mark.slow
@pytest.mark.parametrize("name", ["pandas", "polars"])
@pytest.mark.parametrize("annotated", [True, False])
async def test_data_frames_are_a_table_in_text_and_records_in_structure(name: str, annotated: bool) -> None:
    package = importlib.import_module(name)
    frame = package.DataFrame(ROWS)
    schema, found = await answer(returning(frame, package.DataFrame if annotated else None))
    assert schema == (wrapped({"type": "array"}) if annotated else None)
    assert found["content"] == [{"type": "text", "text": TABLE}]
    assert found["structuredContent"] == {"result": ROWS}


async def test_frames_of_other_kinds_are_read_as_well() -> None:
    import numpy
    import pandas
    import polars

    moment = pandas.Timestamp("2024-02-29T12:00:00Z")
    dated = pandas.DataFrame({"when": [moment]}, index=pandas.Index(["a"], name="key"))
    records = [{"key": "a", "when": "2024-02-29T12:00:00Z"}]
    assert (await answer(returning(dated)))[1]["structuredContent"] == {"result": records}
    for series in (pandas.Series([1, 2]), polars.Series([1, 2])):
        found = (await answer(returning(series)))[1]
        assert found["structuredContent"] == {"result": [1, 2]}
        assert found["content"][0]["text"] == "1\n2"
    lazy = polars.LazyFrame({"a": [1]})
    assert (await answer(returning(lazy)))[1]["structuredContent"] == {"result": [{"a": 1}]}
    inside = {"frame": polars.DataFrame({"a": [1]}), "array": numpy.array([[1, 2]]), "number": numpy.int64(3)}
    expected = {"frame": [{"a": 1}], "array": [[1, 2]], "number": 3}
    assert (await answer(returning(inside)))[1]["structuredContent"] == expected


@pytest.mark.slow
def test_no_package_of_these_is_imported_by_a_server() -> None:
    script = (
        "import asyncio, sys; from carrel import Server; from carrel.transports import memory\n"
        "app = Server('s'); app.tools.add(lambda: {'a': 1}, name='t')\n"
        "async def main():\n"
        "    async with memory.connect(app) as peer: await peer.request('tools/call', {'name': 't'})\n"
        "asyncio.run(main()); print(*sys.modules)"
    )
    found = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=60)
    unwanted = {"pandas", "polars", "numpy", "PIL", "pydantic", "carrel.server.media"}
    assert not set(found.stdout.split()) & unwanted


# Values that cannot be JSON


def broken_values() -> list[tuple[Any, str]]:
    loop: list[Any] = []
    loop.append(loop)
    return [
        (object(), "t: the type object cannot be encoded as JSON, at result"),
        (
            {"items": [1, {"socket": socket.socket}]},
            "t: the type type cannot be encoded as JSON, at result.items[1].socket",
        ),
        ([Holder("a", {1j})], "t: the type complex cannot be encoded as JSON, at result[0].held[0]"),
        (Holder("a", Note(object())), "t: the type object cannot be encoded as JSON, at result.held.x"),  # type: ignore[arg-type]
        (loop, "t: the result contains itself, or is nested too deeply for JSON"),
        ({(1, 2): 3}, "t: the type dict cannot be encoded as JSON, at result"),
    ]


@pytest.mark.parametrize(("value", "message"), broken_values(), ids=lambda each: each if isinstance(each, str) else "")
async def test_an_error_names_the_tool_and_the_path_to_what_cannot_be_json(
    value: Any, message: str, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.ERROR):
        _, found = await answer(returning(value))
    assert found["isError"] is True
    assert found["content"][0]["text"].startswith(message)
    assert "tool t failed" in caplog.text
