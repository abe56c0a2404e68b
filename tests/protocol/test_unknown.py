"""Unknown members of JSON objects: found in what was sent, however it is written, and put back."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
from msgspec import Raw

from carrel.protocol import unknown
from carrel.protocol.encoding import encode, restored
from carrel.wire.tools import CallToolResult

KNOWN: dict[str, Any] = {"content": [{"type": "text", "text": "ä\n"}], "structuredContent": {"a": [1.5, -3, None]}}
WITH_UNKNOWN = {**KNOWN, "content": [{"type": "text", "text": "ä\n", "w": 1}]}


def read(written: str) -> tuple[CallToolResult, Raw]:
    return msgspec.json.decode(written, type=CallToolResult), Raw(written.encode())


def test_a_struct_with_all_members_of_what_it_was_decoded_from_is_whole() -> None:
    assert unknown.is_whole(*read(json.dumps(KNOWN, separators=(",", ":"), ensure_ascii=False)))


@pytest.mark.parametrize("separators", [(",", ":"), (", ", ": ")])
@pytest.mark.parametrize("escaped", [True, False])
def test_unknown_members_are_found_and_put_back_however_the_json_is_written(
    separators: tuple[str, str], escaped: bool
) -> None:
    result, raw = read(json.dumps(WITH_UNKNOWN, separators=separators, ensure_ascii=escaped))
    assert not unknown.is_whole(result, raw)
    found = unknown.find_raw(result, raw)
    assert found == {"content": {"0": {"w": 1}}}
    assert json.loads(restored(encode(unknown.attach(result, found))))["content"] == WITH_UNKNOWN["content"]


@pytest.mark.parametrize("separators", [(",", ":"), (", ", ": ")])
def test_nothing_is_found_where_all_members_are_known(separators: tuple[str, str]) -> None:
    assert unknown.find_raw(*read(json.dumps(KNOWN, separators=separators))) is None
