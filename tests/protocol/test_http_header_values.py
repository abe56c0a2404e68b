"""Values in headers: as they are where that is possible, in base64 otherwise."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from carrel.protocol.http import decode_value, encode_value


@pytest.mark.parametrize(
    ("value", "header"),
    [
        ("us-west1", "us-west1"),
        ("Hello, 世界", "=?base64?SGVsbG8sIOS4lueVjA==?="),
        (" padded ", "=?base64?IHBhZGRlZCA=?="),
        ("\tpadded", "=?base64?CXBhZGRlZA==?="),
        ("tab\tbed", "tab\tbed"),
        ("line1\nline2", "=?base64?bGluZTEKbGluZTI=?="),
        ("=?base64?literal?=", "=?base64?PT9iYXNlNjQ/bGl0ZXJhbD89?="),
        ("=?base64?=", "=?base64?PT9iYXNlNjQ/PQ==?="),
        ("=?base64?", "=?base64?"),
        ("\x7f", "=?base64?fw==?="),
        ("\x00", "=?base64?AA==?="),
        ("", ""),
        (42, "42"),
        (-7, "-7"),
        (True, "true"),
        (False, "false"),
    ],
)
def test_values_are_encoded_as_the_specification_has_it(value: str | int | bool, header: str) -> None:
    assert encode_value(value) == header


@given(st.text())
def test_what_is_encoded_is_visible_ascii_and_decodes_to_itself(value: str) -> None:
    header = encode_value(value)
    assert all(" " <= letter <= "~" or letter == "\t" for letter in header)
    assert header.strip(" \t") == header
    assert decode_value("Mcp-Name", header.encode()) == value
