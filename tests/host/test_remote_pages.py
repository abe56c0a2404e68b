"""Cursors of the lists of remote servers."""

from __future__ import annotations

import pytest

from carrel.catalog.paging import encode_cursor
from carrel.errors import InvalidCursor
from carrel.host.remote_pages import ListPosition, read, write


def test_a_position_is_read_from_its_cursor() -> None:
    position = ListPosition("theirs", "key", 3)
    assert read("tools", write("tools", position)) == position


@pytest.mark.parametrize(
    "text", ["", "{}", "[]", '[1, "key", 3]', "[null, null, -1]", f"[null, null, 0, {'[' * 5000}{']' * 5000}]"]
)
def test_a_forged_cursor_is_invalid(text: str) -> None:
    with pytest.raises(InvalidCursor):
        read("tools", encode_cursor(text, "tools"))
