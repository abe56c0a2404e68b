"""Resources: what functions and values become, templates, what is refused, and changes at run time."""

from __future__ import annotations

import asyncio
import base64
import dataclasses
import enum
import json
import threading
import time
import uuid
from collections.abc import Callable
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any, Literal

import msgspec
import pydantic
import pytest

from carrel import Annotations, Contents, Context, Icon, Server
from carrel.errors import ConfigError, ResourceForbidden, ResourceNotFound, ResourceTooLarge
from carrel.transports import memory
from carrel.wire.resources import BlobResourceContents, TextResourceContents
from support.memory_client import (
    ALL,
    HANDSHAKES,
    JUNE,
    LATEST,
    MARCH,
    NOVEMBER,
    OLDEST,
    PLAIN,
    error,
    listed,
    read,
    result,
)
from support.processor_time import loop


class Colour(enum.Enum):
    RED = "red"
    BLUE = "blue"


@dataclasses.dataclass
class Point:
    x: int
    y: int


class Spot(msgspec.Struct):
    x: int
    tags: list[str]


class Model(pydantic.BaseModel):
    model_config = pydantic.ConfigDict(populate_by_name=True)
    first_name: str = pydantic.Field(alias="firstName")
    born: date


PNG = b"\x89PNG\r\n\x1a\n\x00"


def one(contents: list[dict[str, Any]]) -> dict[str, Any]:
    assert len(contents) == 1
    return contents[0]


# What values become

JSON = "application/json"
VALUES: list[tuple[Any, str, Any, str]] = [
    ("text", "text", "text", "text/plain"),
    ("", "text", "", "text/plain"),
    ("糖尿病 🍰\n\x00", "text", "糖尿病 🍰\n\x00", "text/plain"),
    (PNG, "blob", PNG, "application/octet-stream"),
    (b"", "blob", b"", "application/octet-stream"),
    (bytearray(PNG), "blob", PNG, "application/octet-stream"),
    (memoryview(PNG), "blob", PNG, "application/octet-stream"),
    ({"a": [1, None, True, 1.5, "糖"]}, "text", {"a": [1, None, True, 1.5, "糖"]}, JSON),
    ([], "text", [], JSON),
    ([1, "two"], "text", [1, "two"], JSON),
    ((1, 2), "text", [1, 2], JSON),
    ({3}, "text", [3], JSON),
    (5, "text", 5, JSON),
    (1.5, "text", 1.5, JSON),
    (True, "text", True, JSON),
    (Point(1, 2), "text", {"x": 1, "y": 2}, JSON),
    ([Point(1, 2)], "text", [{"x": 1, "y": 2}], JSON),
    (Spot(1, ["a"]), "text", {"x": 1, "tags": ["a"]}, JSON),
    (Model(firstName="Ada", born=date(1815, 12, 10)), "text", {"firstName": "Ada", "born": "1815-12-10"}, JSON),
    (
        {"m": Model(firstName="A", born=date(1815, 12, 10))},
        "text",
        {"m": {"firstName": "A", "born": "1815-12-10"}},
        JSON,
    ),
    (datetime(2024, 2, 29, tzinfo=UTC), "text", "2024-02-29T00:00:00Z", JSON),
    (uuid.UUID(int=1), "text", str(uuid.UUID(int=1)), JSON),
    (Colour.RED, "text", "red", JSON),
    (Contents("# x", "text/markdown"), "text", "# x", "text/markdown"),
    (Contents(PNG, "image/png"), "blob", PNG, "image/png"),
    (Contents({"a": 1}), "text", {"a": 1}, JSON),
]


@pytest.mark.parametrize("way", ["value", "sync", "async", "waiting", "template"])
@pytest.mark.parametrize(
    ("value", "field", "expected", "mime_type"), VALUES, ids=lambda value: repr(value).partition(" at 0x")[0][:30]
)
async def test_any_value_becomes_contents(way: str, value: Any, field: str, expected: Any, mime_type: str) -> None:
    app = Server("s")

    def sync() -> Any:
        return value

    async def immediate() -> Any:
        return value

    async def waiting() -> Any:
        await asyncio.sleep(0)
        return value

    async def member(name: str) -> Any:
        return value

    if way == "template":
        app.resource("x://{name}")(member)
    else:
        app.resources.add("x://1", {"value": value, "sync": sync, "async": immediate, "waiting": waiting}[way])
    async with memory.connect(app) as peer:
        content = one(await read(peer, "x://1"))
        assert content["uri"] == "x://1"
        assert content["mimeType"] == mime_type
        if field == "blob":
            assert base64.b64decode(content["blob"], validate=True) == expected
            assert "text" not in content
        else:
            found = content["text"]
            assert (json.loads(found) if mime_type == JSON else found) == expected
            assert "blob" not in content


async def test_the_declared_type_wins_over_the_one_that_a_value_has_by_itself() -> None:
    app = Server("s")
    app.resources.add("x://text", "<p>", mime_type="text/html")
    app.resources.add("x://json", {"a": 1}, mime_type="application/ld+json")
    app.resources.add("x://blob", PNG, mime_type="image/png")
    app.resources.add("x://own", Contents("x", "text/css"), mime_type="text/html")

    @app.resource("y://{a}", mime_type="text/csv")
    async def rows(a: str) -> str:
        return "1,2"

    async with memory.connect(app) as peer:
        found = [one(await read(peer, f"x://{name}"))["mimeType"] for name in ("text", "json", "blob", "own")]
        assert found == ["text/html", "application/ld+json", "image/png", "text/css"]
        assert one(await read(peer, "y://1"))["mimeType"] == "text/csv"


async def test_several_contents_stay_several_and_may_have_their_own_uris() -> None:
    app = Server("s")

    @app.resource("dir://all")
    def everything() -> list[Contents]:
        return [
            Contents("one", uri="dir://all/1", meta={"k": 1}),
            Contents(PNG, "image/png", uri="dir://all/2"),
            Contents({"a": 1}),
        ]

    @app.resource("dir://ready")
    async def ready() -> Any:
        return (TextResourceContents("a:b", "t"), BlobResourceContents("a:c", b"b"))

    async with memory.connect(app) as peer:
        first, second, third = await read(peer, "dir://all")
        assert first == {"uri": "dir://all/1", "text": "one", "mimeType": "text/plain", "_meta": {"k": 1}}
        assert (second["uri"], second["mimeType"]) == ("dir://all/2", "image/png")
        assert (third["uri"], third["text"]) == ("dir://all", '{"a":1}')
        assert await read(peer, "dir://ready") == [{"uri": "a:b", "text": "t"}, {"uri": "a:c", "blob": "Yg=="}]


@pytest.mark.parametrize("registered", ["value", "sync", "async", "waiting", "several", "contents"])
async def test_a_path_is_read_anew_each_time(tmp_path: Path, registered: str) -> None:
    text, picture = tmp_path / "a.md", tmp_path / "b.png"
    text.write_bytes(b"\xef\xbb\xbfone")
    picture.write_bytes(PNG)
    app = Server("s")

    def sync() -> Any:
        return text

    async def immediate() -> Any:
        return text

    async def waiting() -> Any:
        await asyncio.sleep(0)
        return text

    def several() -> Any:
        return [Contents(text), Contents(picture)]

    def contents() -> Any:
        return Contents(text, "text/x-own")

    ways: dict[str, Any] = {
        "value": text,
        "sync": sync,
        "async": immediate,
        "waiting": waiting,
        "several": several,
        "contents": contents,
    }
    app.resources.add("x://a", ways[registered])
    async with memory.connect(app) as peer:
        found = await read(peer, "x://a")
        assert found[0]["text"] == "one"
        assert found[0]["mimeType"] == ("text/x-own" if registered == "contents" else "text/markdown")
        if registered == "several":
            assert base64.b64decode(found[1]["blob"]) == PNG
            assert found[1]["mimeType"] == "image/png"
        text.write_text("two")
        assert (await read(peer, "x://a"))[0]["text"] == "two"


async def test_a_file_that_is_gone_is_an_internal_error_that_names_no_path(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    app = Server("s")
    (tmp_path / "gone.txt").touch()
    app.resources.add("x://a", tmp_path / "gone.txt")
    (tmp_path / "gone.txt").unlink()
    async with memory.connect(app) as peer:
        assert await error(peer, "resources/read", uri="x://a") == PLAIN
    assert len(caplog.records) == 1


async def test_values_without_json_cannot_be_registered_or_returned(caplog: pytest.LogCaptureFixture) -> None:
    app = Server("s")
    with pytest.raises(ConfigError, match="x://a"):
        app.resources.add("x://a", {"a": object()})

    @app.resource("x://b")
    async def strange() -> Any:
        return {"a": object()}

    @app.resource("x://c")
    async def surrogate() -> str:
        return "\ud800"

    async with memory.connect(app) as peer:
        for uri in ("x://b", "x://c"):
            assert await error(peer, "resources/read", uri=uri) == PLAIN
        assert await listed(peer) != []
    assert len(caplog.records) == 2


@pytest.mark.parametrize("revision", ALL)
async def test_a_resource_that_does_not_exist_is_not_found(revision: str) -> None:
    app = Server("s")

    @app.resource("x://{name}")
    async def maybe(name: str) -> str | None:
        if name == "forbidden":
            raise ResourceForbidden(f"x://{name}", "by the rule on line 7")
        if name == "missing":
            raise ResourceNotFound(f"x://{name}")
        return None

    @app.resource("y://none")
    def nothing() -> None:
        return None

    async with memory.connect(app, revision) as peer:
        code = -32602 if revision == LATEST else -32002
        for uri in ("z://1", "x://1", "x://forbidden", "x://missing", "y://none"):
            found = await error(peer, "resources/read", uri=uri)
            assert found == {"code": code, "message": "Resource not found", "data": {"uri": uri}}


async def test_a_resource_that_is_too_large_names_the_limit() -> None:
    app = Server("s")

    @app.resource("x://big")
    def big() -> str:
        raise ResourceTooLarge("x://big", "over 10 MiB; ask for x://big?tail=200")

    async with memory.connect(app) as peer:
        found = await error(peer, "resources/read", uri="x://big")
        data = {"uri": "x://big", "reason": "too large"}
        assert found == {"code": -32602, "message": "over 10 MiB; ask for x://big?tail=200", "data": data}


@pytest.mark.parametrize("uri", ["", "no-scheme", "://x", "x:// y", "1x://a", "x://%zz", "x://a\x00", "x://\\a", "\n"])
async def test_an_invalid_uri_is_an_invalid_parameter_that_is_named(uri: str) -> None:
    app = Server("s")
    app.resources.add("x://1", "one")
    async with memory.connect(app) as peer:
        for method in ("resources/read",):
            found = await error(peer, method, uri=uri)
            assert found["code"] == -32602
            assert "uri" in found["message"]
            assert found["data"] == {"uri": uri, "reason": "invalid"}


@pytest.mark.parametrize("revision", [JUNE, LATEST])
@pytest.mark.parametrize("filling", ["a", "%41", "é", "[", "%", "/", "\x00"])
async def test_a_uri_without_end_is_refused_quickly_and_not_repeated(revision: str, filling: str) -> None:
    app = Server("s")
    app.resources.add("x://1", "one")
    app.resource("x://{a}")(lambda a: a)
    uri = "x://" + filling * (3_000_000 // len(filling))
    requests: list[tuple[str, dict[str, Any]]] = [("resources/read", {"uri": uri})]
    if revision == JUNE:
        requests += [("resources/subscribe", {"uri": uri}), ("resources/unsubscribe", {"uri": uri})]
    async with memory.connect(app, revision) as peer:
        for method, params in requests:
            begin = time.process_time()
            found = await error(peer, method, **params)
            assert time.process_time() - begin < 200 * loop()
            assert found["code"] == -32602
            assert len(json.dumps(found)) < 20_000


# Where values come from


async def test_sync_functions_run_off_the_event_loop_and_async_ones_on_it() -> None:
    app = Server("s")
    loop = threading.get_ident()
    together = threading.Barrier(2, timeout=60)

    @app.resource("x://sync/{n}")
    def sync(n: int) -> str:
        together.wait()  # both at once, so none blocks the other
        return str(threading.get_ident() != loop)

    @app.resource("x://async")
    async def immediate() -> str:
        return str(threading.get_ident() == loop)

    async with memory.connect(app) as peer:
        first, second = (
            peer.start("resources/read", {"uri": "x://sync/1"}),
            peer.start("resources/read", {"uri": "x://sync/2"}),
        )
        assert one(await read(peer, "x://async"))["text"] == "True"
        for reply in await asyncio.gather(first, second):
            assert reply["result"]["contents"][0]["text"] == "True"


async def test_an_async_function_that_never_waits_answers_at_once() -> None:
    app = Server("s")

    @app.resource("x://{name}")
    async def immediate(name: str) -> str:
        return name

    async with memory.connect(app) as peer:
        assert peer.start("resources/read", {"uri": "x://1"}).done()


async def test_methods_partials_and_callable_objects_are_functions_too() -> None:
    class Shelf:
        def __init__(self, name: str) -> None:
            self.name = name

        async def book(self, title: str) -> str:
            return f"{self.name}/{title}"

        def __call__(self) -> str:
            return self.name

    app = Server("s")
    shelf = Shelf("top")
    app.resource("book://{title}")(shelf.book)
    app.resources.add("shelf://top", shelf)
    app.resources.add("lambda://1", lambda: "anonymous")
    async with memory.connect(app) as peer:
        assert one(await read(peer, "book://x"))["text"] == "top/x"
        assert one(await read(peer, "shelf://top"))["text"] == "top"
        assert one(await read(peer, "lambda://1"))["text"] == "anonymous"


async def test_a_decorated_function_can_still_be_called() -> None:
    app = Server("s")

    @app.resource("x://{a}")
    def double(a: int) -> str:
        """Doubles."""
        return str(2 * a)

    assert double(4) == "8"
    assert (double.__name__, double.__doc__) == ("double", "Doubles.")


# Metadata


@pytest.mark.parametrize("revision", ALL)
async def test_everything_that_is_said_about_a_resource_is_listed(revision: str) -> None:
    app = Server("s")
    details: dict[str, Any] = {
        "title": "One",
        "description": "The first",
        "mime_type": "text/markdown",
        "annotations": {"audience": ["user", "assistant"], "priority": 0.5, "lastModified": "2025-01-12T15:00:58Z"},
        "icons": [
            Icon("https://example.com/a.png", mime_type="image/png", sizes=["48x48"]),
            "data:image/png;base64,AA==",
        ],
        "meta": {"com.example/k": 1},
    }
    app.resources.add("x://1", "text", name="one", size=123, **details)

    @app.resource("y://{a}", name="member", **details)
    async def member(a: str) -> str:
        return a

    expected = {
        "title": "One",
        "description": "The first",
        "mimeType": "text/markdown",
        "annotations": {"audience": ["user", "assistant"], "priority": 0.5, "lastModified": "2025-01-12T15:00:58Z"},
        "icons": [
            {"src": "https://example.com/a.png", "mimeType": "image/png", "sizes": ["48x48"]},
            {"src": "data:image/png;base64,AA=="},
        ],
        "_meta": {"com.example/k": 1},
    }
    if revision in (OLDEST, MARCH, JUNE):
        del expected["icons"]
    if revision in (OLDEST, MARCH):
        del expected["title"], expected["_meta"], expected["annotations"]["lastModified"]
    async with memory.connect(app, revision) as peer:
        assert await listed(peer) == [{"uri": "x://1", "name": "one", "size": 123, **expected}]
        assert await listed(peer, "resourceTemplates") == [{"uriTemplate": "y://{a}", "name": "member", **expected}]


async def test_name_description_type_and_size_come_from_the_value_where_nothing_is_said() -> None:
    app = Server("s")
    app.resources.add("x://a/b/memo.txt", "糖")
    app.resources.add("x://a/dir/", PNG)
    app.resources.add("x:", {"a": 1})

    @app.resource("y://now")
    def clock() -> str:
        """Tell the time.

        At length.
        """
        return "now"

    @app.resource("z://{a}")
    def member(a: str) -> str:
        """One of them."""
        return a

    async with memory.connect(app) as peer:
        data, text, blob, made = await listed(peer)
        assert text == {"uri": "x://a/b/memo.txt", "name": "memo.txt", "mimeType": "text/plain", "size": 3}
        assert blob == {"uri": "x://a/dir/", "name": "dir", "mimeType": "application/octet-stream", "size": len(PNG)}
        assert data == {"uri": "x:", "name": "x:", "mimeType": "application/json", "size": 7}
        assert (made["name"], "size" in made, "mimeType" in made) == ("clock", False, False)
        assert made["description"].startswith("Tell the time.")
        (template,) = await listed(peer, "resourceTemplates")
        assert (template["name"], template["description"]) == ("member", "One of them.")


async def test_annotations_may_be_a_struct_or_a_dict_in_either_spelling() -> None:
    app = Server("s")
    app.resources.add("x://1", "", annotations=Annotations(priority=0))
    app.resources.add("x://2", "", annotations={"last_modified": "2025-01-01", "priority": 1})
    app.resources.add("x://3", "", annotations={"lastModified": "2025-01-01T00:00:00+02:00", "audience": []})
    async with memory.connect(app) as peer:
        assert [item["annotations"] for item in await listed(peer)] == [
            {"priority": 0.0},
            {"lastModified": "2025-01-01", "priority": 1.0},
            {"lastModified": "2025-01-01T00:00:00+02:00", "audience": []},
        ]


@pytest.mark.parametrize(
    "details",
    [
        {"annotations": {"priority": 1.1}},
        {"annotations": {"priority": -0.1}},
        {"annotations": {"priority": float("nan")}},
        {"annotations": {"priority": "high"}},
        {"annotations": {"audience": ["robots"]}},
        {"annotations": {"audience": "user"}},
        {"annotations": {"importance": 1}},
        {"annotations": {"lastModified": "yesterday"}},
        {"annotations": {"lastModified": "12/01/2025"}},
        {"annotations": {"last_modified": 5}},
        {"annotations": Annotations(priority=2)},
        {"annotations": Annotations(audience=["robots"])},  # type: ignore[list-item]
        {"annotations": Annotations(last_modified="soon")},
        {"annotations": 5},
        {"icons": ["javascript:alert(1)"]},
        {"icons": ["file:///etc/passwd"]},
        {"icons": ["/relative.png"]},
        {"icons": [{"mimeType": "image/png"}]},
        {"icons": [{"src": "https://x", "colour": "red"}]},
        {"size": -1},
        {"ttl": -1},
        {"scope": "everybody"},
    ],
)
async def test_details_that_make_no_sense_are_refused_at_once(details: dict[str, Any]) -> None:
    app = Server("s")
    with pytest.raises(ConfigError):
        app.resources.add("x://1", "text", **details)
    assert len(app.resources.static.entries) == 0


# Templates


@pytest.mark.parametrize(
    ("annotation", "good", "bad"),
    [
        (int, {"5": 5, "-7": -7, "0": 0}, ["x", "1.5", "", "1_0", " 5", "0x1", "9" * 5000]),
        (float, {"1.5": 1.5, "2": 2.0, "-1e3": -1000.0}, ["x", "nan", "inf", "1_0.5", "1e999"]),
        (bool, {"true": True, "false": False}, ["yes", "2", ""]),
        (uuid.UUID, {str(uuid.UUID(int=7)): uuid.UUID(int=7)}, ["7", "x" * 36]),
        (date, {"2024-02-29": date(2024, 2, 29)}, ["2023-02-29", "yesterday", "2024-2-9"]),
        (Colour, {"red": Colour.RED, "blue": Colour.BLUE}, ["purple", "green", ""]),
        (Literal["a", "b"], {"a": "a", "b": "b"}, ["c", "A"]),
        (Literal[1, 2], {"1": 1, "2": 2}, ["3", "x"]),
        (str, {"5": "5", "%20": " ", "%2F": "/", "%25": "%"}, []),
    ],
    ids=str,
)
async def test_variables_have_the_types_of_the_parameters(
    annotation: Any, good: dict[str, Any], bad: list[str]
) -> None:
    seen: list[Any] = []

    async def member(value: Any) -> str:
        seen.append(value)
        return "ok"

    member.__annotations__["value"] = annotation
    app = Server("s")
    app.resource("x://{+value}" if annotation is float else "x://{value}")(member)
    async with memory.connect(app) as peer:
        for text, value in good.items():
            await read(peer, f"x://{text}")
            assert (seen[-1], type(seen[-1])) == (value, type(value))
        for text in bad:
            found = await error(peer, "resources/read", uri=f"x://{text}".replace(" ", "%20"))
            assert found["code"] == -32602
            assert "value" in found["message"], found
            assert len(found["message"]) < 500
        assert len(seen) == len(good)


async def test_variables_that_a_uri_leaves_out_take_the_default() -> None:
    app = Server("s")

    @app.resource("x://search{?query,limit}")
    async def search(query: str = "all", limit: int = 10) -> Any:
        return [query, limit]

    async with memory.connect(app) as peer:
        for uri, expected in {
            "x://search": ["all", 10],
            "x://search?limit=5": ["all", 5],
            "x://search?limit=5&query=a%20b": ["a b", 5],
        }.items():
            assert json.loads(one(await read(peer, uri))["text"]) == expected
        assert (await error(peer, "resources/read", uri="x://search?limit=many"))["code"] == -32602


async def test_exploded_variables_are_lists_and_dicts() -> None:
    app = Server("s")

    @app.resource("x:{/path*}{?options*}")
    async def deep(path: list[str], options: dict[str, str] | None = None) -> Any:
        return [path, options]

    async with memory.connect(app) as peer:
        assert json.loads(one(await read(peer, "x:/a/b%2Fc?k=v&l=w"))["text"]) == [["a", "b/c"], {"k": "v", "l": "w"}]


async def test_an_exact_uri_comes_before_templates_and_literal_characters_decide_between_them() -> None:
    app = Server("s")

    def say(word: str) -> Callable[..., Any]:
        async def handler(a: str = "", b: str = "") -> str:
            return word

        return handler

    app.resource("x://{a}/{b}")(say("two variables"))
    app.resource("x://list/{b}")(say("longer"))
    app.resource("x://{a}/item")(say("as long, but later"))
    app.resource("x://{+a}")(say("shortest"))
    app.resources.add("x://list/item", "exact")
    async with memory.connect(app) as peer:
        for uri, expected in {
            "x://list/item": "exact",
            "x://list/other": "longer",
            "x://other/item": "as long, but later",
            "x://other/other": "two variables",
            "x://other": "shortest",
            "x://a/b/c": "shortest",
        }.items():
            assert one(await read(peer, uri))["text"] == expected, uri


async def test_of_templates_with_as_many_literals_the_first_one_wins() -> None:
    app = Server("s")

    @app.resource("x://{first}")
    async def first(first: str) -> str:
        return "first"

    @app.resource("x://{second}")
    async def second(second: str) -> str:
        return "second"

    async with memory.connect(app) as peer:
        assert one(await read(peer, "x://1"))["text"] == "first"
        app.resources.remove("x://{first}")
        assert one(await read(peer, "x://1"))["text"] == "second"


@pytest.mark.parametrize("uri", ["X://caf%c3%a9", "x://café", "x://caf%C3%A9", "x://c%61f%C3%A9"])
async def test_an_equivalent_uri_names_the_same_resource_even_beside_a_template(uri: str) -> None:
    app = Server("s")
    app.resources.add("x://café", "exact")

    @app.resource("x://{name}")
    async def member(name: str) -> str:
        return "template"

    async with memory.connect(app) as peer:
        assert one(await read(peer, uri))["text"] == "exact"


@pytest.mark.parametrize(
    ("template", "function"),
    [
        ("x://{a}", lambda: ""),
        ("x://{a}", lambda b: ""),
        ("x://{a}", lambda a, b: ""),
        ("x://{a", lambda a: ""),
        ("x://{a}{", lambda a: ""),
        ("x://{}", lambda: ""),
        ("x://1", lambda a: ""),
        ("no uri", lambda: ""),
        ("x://{a}", lambda *a: ""),
    ],
)
def test_a_template_and_its_function_have_to_fit(template: str, function: Callable[..., Any]) -> None:
    with pytest.raises(ConfigError):
        Server("s").resource(template)(function)


def test_a_function_may_have_more_parameters_if_they_have_defaults_or_take_any() -> None:
    app = Server("s")
    app.resource("x://{a}")(lambda a, b="x": a)
    app.resource("y://{a}")(lambda **anything: str(anything))


def test_a_uri_or_a_template_is_shared_once() -> None:
    app = Server("s")
    app.resources.add("x://a", "1")
    app.resource("x://{a}")(lambda a: a)
    for again in ("x://a", "X://a", "x://%61"):
        with pytest.raises(ConfigError, match="already"):
            app.resources.add(again, "2")
    with pytest.raises(ConfigError, match="already"):
        app.resource("x://{a}")(lambda a: a)
    with pytest.raises(ConfigError, match="size"):
        app.resource("y://{a}", size=5)(lambda a: a)


# At run time


async def test_resources_are_added_replaced_and_removed_while_the_server_runs() -> None:
    app = Server("s")
    app.resources.add("x://0", "zero")
    async with memory.connect(app) as peer:
        app.resources.add("x://1", "one", title="First")
        app.resources.add("x://2", "two")
        assert [item["uri"] for item in await listed(peer)] == ["x://0", "x://1", "x://2"]
        app.resources.replace("x://1", "ONE!")
        (replaced,) = [item for item in await listed(peer) if item["uri"] == "x://1"]
        assert (replaced["title"], replaced["size"]) == ("First", 4)
        assert [item["uri"] for item in await listed(peer)] == ["x://0", "x://1", "x://2"]
        assert one(await read(peer, "x://1"))["text"] == "ONE!"
        app.resources.remove("x://1")
        assert [item["uri"] for item in await listed(peer)] == ["x://0", "x://2"]
        assert (await error(peer, "resources/read", uri="x://1"))["data"] == {"uri": "x://1"}
        with pytest.raises(KeyError):
            app.resources.remove("x://1")
        with pytest.raises(ConfigError, match="no resource"):
            app.resources.replace("x://1", "again")
        app.resources.add("x://1", "back")
        assert [item["uri"] for item in await listed(peer)] == ["x://0", "x://1", "x://2"]


async def test_a_replacement_keeps_what_was_said_and_not_what_followed_from_the_old_value() -> None:
    app = Server("s")
    app.resources.add("x://said", "text", mime_type="text/html", ttl=5, scope="public", annotations={"priority": 1})
    app.resources.add("x://derived", "text")
    app.resources.replace("x://said", "other")
    app.resources.replace("x://derived", {"a": 1})
    async with memory.connect(app) as peer:
        derived, said = await listed(peer)
        assert (said["mimeType"], said["annotations"]) == ("text/html", {"priority": 1.0})
        assert (derived["mimeType"], derived["size"]) == ("application/json", 7)
        assert one(await read(peer, "x://derived"))["mimeType"] == "application/json"
        page = await result(peer, "resources/read", uri="x://said")
        assert (page["ttlMs"], page["cacheScope"]) == (5000, "public")
        app.resources.replace("x://said", "third", ttl=7, title="New")
        page = await result(peer, "resources/read", uri="x://said")
        assert (page["ttlMs"], page["cacheScope"]) == (7000, "public")
        app.resources.replace("x://derived", PNG)
        assert (await listed(peer))[0]["mimeType"] == "application/octet-stream"


async def test_a_replaced_value_is_as_quick_as_a_new_one() -> None:
    app = Server("s")
    app.resources.add("x://1", "one")
    app.resources.replace("x://1", "two")
    async with memory.connect(app) as peer:
        assert peer.start("resources/read", {"uri": "x://1"}).done()


async def test_a_value_can_be_replaced_by_a_function_and_back() -> None:
    app = Server("s")
    app.resources.add("x://1", "one", name="kept")
    async with memory.connect(app) as peer:
        app.resources.replace("x://1", lambda: {"made": True})
        assert json.loads(one(await read(peer, "x://1"))["text"]) == {"made": True}
        assert (await listed(peer))[0]["name"] == "kept"
        app.resources.replace("x://1", b"bytes")
        assert "blob" in one(await read(peer, "x://1"))


# Freshness


async def test_freshness_is_that_of_the_resource_or_else_of_the_server() -> None:
    app = Server("s", ttl=1.5, scope="public")
    app.resources.add("x://plain", "")
    app.resources.add("x://own", "", ttl=60, scope="private")
    app.resources.add("x://none", "", ttl=0)

    @app.resource("y://{a}", ttl=0.25)
    def member(a: str) -> str:
        return a

    async with memory.connect(app) as peer:
        expected = {
            "x://plain": (1500, "public"),
            "x://own": (60_000, "private"),
            "x://none": (0, "public"),
            "y://1": (250, "public"),
        }
        for uri, hints in expected.items():
            page = await result(peer, "resources/read", uri=uri)
            assert (page["ttlMs"], page["cacheScope"]) == hints
        for method in ("resources/list", "resources/templates/list"):
            page = await result(peer, method)
            assert (page["ttlMs"], page["cacheScope"]) == (1500, "public")


@pytest.mark.parametrize("revision", HANDSHAKES)
async def test_older_clients_hear_nothing_of_freshness(revision: str) -> None:
    app = Server("s", ttl=5)
    app.resources.add("x://1", "", ttl=60)
    async with memory.connect(app, revision) as peer:
        assert set(await result(peer, "resources/read", uri="x://1")) == {"contents"}
        assert set(await result(peer, "resources/list")) == {"resources"}


# Reading from within


async def test_a_handler_can_read_other_resources_for_its_caller() -> None:
    app = Server("s")
    app.resources.add("x://1", "one")

    @app.resource("x://who/{name}")
    async def who(name: str, context: Context) -> str:
        await asyncio.sleep(0)
        return f"{name} {context.revision}"

    @app.resource("x://both")
    async def both(context: Context) -> str:
        parts = [
            *(await context.read_resource("x://1")).contents,
            *(await context.read_resource("x://who/me")).contents,
        ]
        return " ".join(part.text for part in parts if isinstance(part, TextResourceContents))

    @app.resource("x://broken")
    async def broken(context: Context) -> str:
        await context.read_resource("x://nowhere")
        return ""

    async with memory.connect(app, NOVEMBER) as peer:
        assert one(await read(peer, "x://both"))["text"] == f"one me {NOVEMBER}"
        assert (await error(peer, "resources/read", uri="x://broken"))["data"] == {"uri": "x://nowhere"}
