"""From values to contents, without a server."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from carrel.server.contents import Contents, contents_of, returns_paths
from carrel.wire.resources import BlobResourceContents, TextResourceContents


def test_text_is_text_and_bytes_are_a_blob() -> None:
    assert contents_of("t", "a:b", None) == [TextResourceContents("a:b", "t", mime_type="text/plain")]
    assert contents_of(b"b", "a:b", None) == [BlobResourceContents("a:b", b"b", mime_type="application/octet-stream")]


def test_the_given_type_is_kept() -> None:
    assert contents_of("t", "a:b", "text/css")[0].mime_type == "text/css"
    assert contents_of(b"b", "a:b", "image/png")[0].mime_type == "image/png"
    assert contents_of({}, "a:b", "application/x")[0].mime_type == "application/x"


def test_a_kind_of_text_is_text() -> None:
    class Title(str):
        __slots__ = ()

    assert contents_of(Title("t"), "a:b", None) == [TextResourceContents("a:b", "t", mime_type="text/plain")]


@pytest.mark.parametrize("value", [[], (), [1], ["a", "b"], [{"a": 1}], [None]])
def test_a_list_of_anything_else_is_one_json_text(value: Any) -> None:
    (one,) = contents_of(value, "a:b", None)
    assert isinstance(one, TextResourceContents)
    assert one.mime_type == "application/json"


def test_a_list_of_contents_stays_several() -> None:
    found = contents_of([Contents("a"), TextResourceContents("x:y", "b"), Contents(b"c")], "a:b", None)
    assert [one.uri for one in found] == ["a:b", "x:y", "a:b"]


@pytest.mark.parametrize("value", [object(), [object()], {"a": object()}, Contents(object()), lambda: 0])
def test_values_without_json_are_type_errors(value: Any) -> None:
    with pytest.raises(TypeError):
        contents_of(value, "a:b", None)


@pytest.mark.parametrize(
    ("name", "data", "text", "mime_type"),
    [
        ("a.txt", b"plain", "plain", "text/plain"),
        ("a.md", b"\xef\xbb\xbf# BOM", "# BOM", "text/markdown"),
        ("a.json", b"{}", "{}", "application/json"),
        ("a.svg", b"<svg/>", None, "image/svg+xml"),
        ("a.png", b"text in disguise", None, "image/png"),
        ("a.bin", b"a\x00b", None, "application/octet-stream"),
        ("a.txt", b"\xff\xfe", None, "text/plain"),
        ("noext", b"words", "words", "text/plain"),
        ("noext", b"\xff", None, "application/octet-stream"),
    ],
)
def test_a_file_is_text_if_that_is_what_its_bytes_are(
    tmp_path: Path, name: str, data: bytes, text: str | None, mime_type: str
) -> None:
    path = tmp_path / name
    path.write_bytes(data)
    (one,) = contents_of(path, "a:b", None)
    assert one.mime_type == mime_type
    if text is None:
        assert one == BlobResourceContents("a:b", data, mime_type=mime_type)
    else:
        assert one == TextResourceContents("a:b", text, mime_type=mime_type)


def test_a_file_that_is_not_there_is_an_os_error(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        contents_of(tmp_path / "gone", "a:b", None)
    with pytest.raises(OSError, match=r"directory|denied"):
        contents_of(tmp_path, "a:b", None)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (Path("x"), True),
        (Contents(Path("x")), True),
        ([Contents(Path("x")), "y"], True),
        ([Path("x")], True),
        ("x", False),
        (b"x", False),
        ([], False),
        ([Contents("x")], False),
        ({"a": Path("x")}, False),
        (5, False),
    ],
)
def test_values_with_paths_are_recognised_before_they_are_read(value: Any, expected: bool) -> None:
    assert returns_paths(value) is expected
