"""The header rules of stateless requests, and the format of event streams."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from carrel.errors import HeaderMismatch
from carrel.protocol.http import decode_value, event, header_parameters, verify, verify_parameters
from carrel.protocol.server import Call
from support.server_connection import LATEST, called, connected, request

STRING = {"type": "string"}


def sealed(text: str) -> bytes:
    """The base64 form of a header value."""
    return b"=?base64?%b?=" % base64.b64encode(text.encode())


def call(method: str = "tools/call", **params: Any) -> Call:
    return called(connected(), request(method, params, revision=LATEST))


def headers(method: str = "tools/call", name: bytes | None = b"add", **more: bytes) -> dict[bytes, bytes]:
    found = {b"mcp-protocol-version": LATEST.encode(), b"mcp-method": method.encode()}
    if name is not None:
        found[b"mcp-name"] = name
    return found | {key.replace("_", "-").encode(): value for key, value in more.items()}


# Standard headers


@pytest.mark.parametrize(
    ("method", "params", "name"),
    [
        ("tools/call", {"name": "add"}, b"add"),
        ("prompts/get", {"name": "greet"}, b"greet"),
        ("resources/read", {"uri": "file:///a%20b"}, b"file:///a%20b"),
        ("tools/list", {}, None),
        ("server/discover", {}, None),
        ("subscriptions/listen", {"notifications": {}}, None),
    ],
)
def test_headers_that_say_what_the_body_says_are_accepted(method: str, params: Any, name: bytes | None) -> None:
    verify(call(method, **params), headers(method, name))


def test_a_name_header_where_there_is_no_name_does_not_matter() -> None:
    verify(call("tools/list"), headers("tools/list", b"whatever"))


@pytest.mark.parametrize("missing", [b"mcp-protocol-version", b"mcp-method", b"mcp-name"])
def test_a_header_that_is_missing_is_named(missing: bytes) -> None:
    given = headers()
    del given[missing]
    with pytest.raises(HeaderMismatch, match=f"(?i)the {missing.decode()} header is missing") as caught:
        verify(call(name="add"), given)
    assert (caught.value.code, caught.value.status) == (-32020, 400)


@pytest.mark.parametrize(
    ("changed", "value"),
    [
        (b"mcp-protocol-version", b"2025-11-25"),
        (b"mcp-protocol-version", b""),
        (b"mcp-method", b"tools/list"),
        (b"mcp-method", b"Tools/Call"),
        (b"mcp-method", b"=?base64?dG9vbHMvY2FsbA==?="),
        (b"mcp-name", b"subtract"),
        (b"mcp-name", b"Add"),
        (b"mcp-name", b""),
        (b"mcp-name", b"add, add"),
    ],
)
def test_a_header_that_says_something_else_is_refused(changed: bytes, value: bytes) -> None:
    with pytest.raises(HeaderMismatch, match="does not match"):
        verify(call(name="add"), headers() | {changed: value})


@pytest.mark.parametrize("value", [b"a\x00dd", b"add\r\nX: y", b"\x7fadd", b"\xc3\xa9", b"add\x1f"])
@pytest.mark.parametrize("header", [b"mcp-protocol-version", b"mcp-method", b"mcp-name"])
def test_invalid_characters_in_a_header_are_refused(header: bytes, value: bytes) -> None:
    with pytest.raises(HeaderMismatch, match="invalid characters"):
        verify(call(name="add"), headers() | {header: value})


def test_white_space_around_a_value_is_not_part_of_it() -> None:
    verify(call(name="add"), headers(name=b" \tadd\t "))
    with pytest.raises(HeaderMismatch):
        verify(call(name=" add "), headers(name=b" add "))
    verify(call(name=" add "), headers(name=sealed(" add ")))


def test_a_mismatch_quotes_no_more_than_it_has_to() -> None:
    with pytest.raises(HeaderMismatch) as caught:
        verify(call(name="x" * 100_000), headers(name=b"y" * 100_000))
    assert len(str(caught.value)) < 600


# The base64 form


@pytest.mark.parametrize(
    ("value", "header"),
    [
        ("us-west1", b"us-west1"),
        ("Hello, 世界", b"=?base64?SGVsbG8sIOS4lueVjA==?="),
        (" padded ", b"=?base64?IHBhZGRlZCA=?="),
        ("line1\nline2", b"=?base64?bGluZTEKbGluZTI=?="),
        ("=?base64?literal?=", b"=?base64?PT9iYXNlNjQ/bGl0ZXJhbD89?="),
        ("", b"=?base64??="),
        ("=?base64?", b"=?base64?"),
        ("=?base64?=", b"=?base64?="),
        ("=?BASE64?eA==?=", b"=?BASE64?eA==?="),
        ("x=?base64?eA==?=", b"x=?base64?eA==?="),
        ("=?base64?eA==?=x", b"=?base64?eA==?=x"),
    ],
)
def test_values_are_decoded_as_the_table_of_the_specification_has_them(value: str, header: bytes) -> None:
    assert decode_value("Mcp-Name", header) == value


@pytest.mark.parametrize(
    "inside", [b"eA", b"eA=", b"eA==eA==", b"e A==", b"!!!!", b"=", b"eA==\t", b"/w==", b"7aCA", b"-_=="]
)
def test_what_is_no_base64_of_utf_8_is_refused(inside: bytes) -> None:
    with pytest.raises(HeaderMismatch, match="not valid base64 of UTF-8"):
        decode_value("Mcp-Name", b"=?base64?%b?=" % inside)


@given(st.text(max_size=50))
def test_any_text_survives_in_its_base64_form(text: str) -> None:
    assert decode_value("Mcp-Name", sealed(text)) == text


@given(st.binary(max_size=60))
def test_any_bytes_in_a_header_are_read_or_refused(data: bytes) -> None:
    for header in (data, b"=?base64?%b?=" % data):
        try:
            assert isinstance(decode_value("Mcp-Name", header), str)
        except HeaderMismatch:
            pass


# Parameters in headers: which


def test_annotated_properties_are_found_at_any_depth() -> None:
    schema = {
        "type": "object",
        "properties": {
            "region": {"type": "string", "x-mcp-header": "Region"},
            "count": {"type": "integer", "x-mcp-header": "Count"},
            "plain": STRING,
            "where": {
                "type": "object",
                "properties": {"dry": {"type": "boolean", "x-mcp-header": "Dry-Run"}, "properties": STRING},
            },
        },
    }
    assert header_parameters(schema) == {
        b"mcp-param-region": ("region",),
        b"mcp-param-count": ("count",),
        b"mcp-param-dry-run": ("where", "dry"),
    }


@pytest.mark.parametrize(
    "schema", [{}, {"type": "object"}, {"type": "object", "properties": {}}, {"properties": {"a": True}}]
)
def test_most_schemas_have_no_parameters_in_headers(schema: Any) -> None:
    assert header_parameters(schema) == {}


def test_values_that_look_like_an_annotation_are_not_one() -> None:
    looks = {"x-mcp-header": "X"}
    schema = {"properties": {"a": {"const": looks, "default": looks, "enum": [looks], "examples": [looks]}}}
    assert header_parameters(schema) == {}
    assert header_parameters({"properties": {"x-mcp-header": STRING}}) == {}


@pytest.mark.parametrize("name", ["", "a b", "a:b", "a\r\nb", "é", "a/b", '"a"', "a\x00", 5, None, True, ["A"], {}])
def test_a_name_that_no_header_can_have_is_refused(name: Any) -> None:
    with pytest.raises(ValueError, match="is not a header name"):
        header_parameters({"properties": {"a": {"type": "string", "x-mcp-header": name}}})


@pytest.mark.parametrize("kind", ["number", "object", "array", "null", None, ["string", "integer"]])
def test_only_strings_integers_and_booleans_travel_in_headers(kind: Any) -> None:
    with pytest.raises(ValueError, match="only strings, integers and booleans"):
        header_parameters({"properties": {"a": {"type": kind, "x-mcp-header": "A"}}})


def test_names_differ_in_more_than_their_case() -> None:
    schema = {
        "properties": {
            "a": {"type": "string", "x-mcp-header": "Region"},
            "b": {"properties": {"c": {"type": "string", "x-mcp-header": "REGION"}}},
        }
    }
    with pytest.raises(ValueError, match="used twice"):
        header_parameters(schema)


ANNOTATED = {"type": "string", "x-mcp-header": "A"}


@pytest.mark.parametrize(
    "schema",
    [
        ANNOTATED,
        {"items": ANNOTATED},
        {"properties": {"a": {"type": "array", "items": ANNOTATED}}},
        {"properties": {"a": {"type": "array", "prefixItems": [ANNOTATED]}}},
        {"properties": {"a": {"anyOf": [ANNOTATED]}}},
        {"oneOf": [{"properties": {"a": ANNOTATED}}]},
        {"allOf": [{"properties": {"a": ANNOTATED}}]},
        {"not": {"properties": {"a": ANNOTATED}}},
        {"if": {"properties": {"a": ANNOTATED}}},
        {"then": {"properties": {"a": ANNOTATED}}},
        {"else": {"properties": {"a": ANNOTATED}}},
        {"$defs": {"a": ANNOTATED}, "properties": {"a": {"$ref": "#/$defs/a"}}},
        {"patternProperties": {"^a": ANNOTATED}},
        {"additionalProperties": ANNOTATED},
        {"properties": {"a": {"items": {"properties": {"b": ANNOTATED}}}}},
    ],
)
def test_an_annotation_that_is_not_reached_through_properties_alone_is_refused(schema: Any) -> None:
    with pytest.raises(ValueError, match="reached through properties alone"):
        header_parameters(schema)


# Parameters in headers: what they say

EXPECTED = {b"mcp-param-value": ("value",)}


@pytest.mark.parametrize(
    ("value", "header"),
    [
        ("us-west1", b"us-west1"),
        ("Hello, 世界", sealed("Hello, 世界")),
        (" padded ", sealed(" padded ")),
        ("", b""),
        ("true", b"true"),
        ("42", b"42"),
        (True, b"true"),
        (False, b"false"),
        (42, b"42"),
        (42, b"42.0"),
        (42.0, b"42"),
        (-7, b"-7"),
        (0, b"0"),
        (2**53 - 1, b"9007199254740991"),
        (-(2**53) + 1, b"-9007199254740991"),
        (42, sealed("42")),
    ],
)
def test_a_header_that_says_the_value_of_its_argument_is_accepted(value: Any, header: bytes) -> None:
    verify_parameters(EXPECTED, {b"mcp-param-value": header}, {"value": value})


@pytest.mark.parametrize(
    ("value", "header"),
    [
        ("us-west1", b"us-east1"),
        ("us-west1", b"US-WEST1"),
        ("42", b"42.0"),
        (True, b"True"),
        (True, b"1"),
        (False, b""),
        (42, b"43"),
        (42, b""),
        (42, b"forty-two"),
        (42, b"4_2"),
        (42, b"nan"),
        (10**400, b"inf"),
        (2**53, b"9007199254740992"),
        (2**53 + 1, b"9007199254740993"),
        (10**400, b"1" + b"0" * 400),
        (["a"], b"a"),
        ({"a": 1}, b"a"),
    ],
)
def test_a_header_that_says_something_else_than_its_argument_is_refused(value: Any, header: bytes) -> None:
    with pytest.raises(HeaderMismatch, match="does not match"):
        verify_parameters(EXPECTED, {b"mcp-param-value": header}, {"value": value})


@pytest.mark.parametrize("arguments", [{}, {"value": None}, {"other": 1}])
def test_an_argument_that_is_not_there_has_no_header(arguments: Any) -> None:
    verify_parameters(EXPECTED, {}, arguments)
    with pytest.raises(HeaderMismatch, match="not in the arguments"):
        verify_parameters(EXPECTED, {b"mcp-param-value": b"x"}, arguments)


def test_an_argument_without_its_header_is_refused() -> None:
    with pytest.raises(HeaderMismatch, match="Mcp-Param-Value header is missing"):
        verify_parameters(EXPECTED, {}, {"value": "x"})


def test_the_value_is_read_at_the_exact_path() -> None:
    expected = {b"mcp-param-dry": ("where", "dry")}
    verify_parameters(expected, {b"mcp-param-dry": b"true"}, {"where": {"dry": True}, "dry": False})
    for arguments in ({"dry": True}, {"where": "dry"}, {"where": [{"dry": True}]}, {"where": {}}):
        verify_parameters(expected, {}, arguments)


def test_headers_of_other_parameters_are_not_checked() -> None:
    verify_parameters(EXPECTED, {b"mcp-param-value": b"x", b"mcp-param-other": b"\xff"}, {"value": "x"})


@pytest.mark.parametrize("header", [b"\x00", b"\xff", b"a\rb"])
def test_invalid_characters_in_a_parameter_header_are_refused(header: bytes) -> None:
    with pytest.raises(HeaderMismatch, match="invalid characters"):
        verify_parameters(EXPECTED, {b"mcp-param-value": header}, {"value": "x"})


# Event streams


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ({"data": b"{}"}, b"data: {}\n\n"),
        ({"data": b"{}", "id": "7-3"}, b"id: 7-3\ndata: {}\n\n"),
        ({"data": b"{}", "retry": 0}, b"retry: 0\ndata: {}\n\n"),
        ({"data": b"", "id": "1", "retry": 1500}, b"id: 1\nretry: 1500\ndata: \n\n"),
    ],
)
def test_an_event_is_one_block_of_lines(arguments: Any, expected: bytes) -> None:
    assert event(**arguments) == expected


@given(st.text(max_size=80))
def test_an_encoded_message_is_always_one_line_of_an_event(text: str) -> None:
    from carrel.protocol.encoding import encode

    data = encode({"text": text})
    block = event(data)
    assert len(block.splitlines()) == 2
    assert json.loads(block.removeprefix(b"data: ")) == {"text": text}


@pytest.mark.requirement
@pytest.mark.parametrize("number", [2**53, -(2**53), 10**20])
def test_an_integer_that_javascript_cannot_count_is_refused_in_a_header(number: int) -> None:
    expected = {b"mcp-param-count": ("count",)}
    verify_parameters(expected, {b"mcp-param-count": b"%d" % (2**53 - 1)}, {"count": 2**53 - 1})
    with pytest.raises(HeaderMismatch):
        verify_parameters(expected, {b"mcp-param-count": b"%d" % number}, {"count": number})
