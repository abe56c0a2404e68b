"""Unknown members of JSON objects: found in what was sent, however it is written, and put back."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
from msgspec import Raw

from carrel.protocol import unknown
from carrel.protocol.encoding import FOREIGN, KEY, encode, merged, restored
from carrel.wire.resources import read_contents
from carrel.wire.tools import CallToolResult, ListToolsResult

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


def test_unknown_members_of_the_entries_of_a_list_move_into_the_entries() -> None:
    schema = {"type": "object"}
    tools = [{"name": name, "inputSchema": schema, "x": name} for name in ("a", "b")]
    plain = {"name": "c", "inputSchema": schema}
    given = {"tools": [tools[0], plain, tools[1]], "later": {"y": 1}}
    result = unknown.kept(msgspec.convert(given, ListToolsResult), given)
    spread = unknown.distribute(result)
    assert [unknown.whole(tool) for tool in spread.tools] == given["tools"]
    assert unknown.whole(spread) == given
    assert spread.meta == {KEY: {"later": {"y": 1}}}
    assert spread.tools[1].meta is None


def test_unknown_members_elsewhere_stay_where_they_are() -> None:
    given = {**KNOWN, "structuredContent": {"content": [1]}, "later": [{"content": 1}]}
    result = unknown.kept(msgspec.convert(given, CallToolResult), given)
    assert unknown.whole(unknown.distribute(result)) == given
    known = msgspec.convert(KNOWN, CallToolResult)
    assert unknown.distribute(known) is known
    assert unknown.kept(known, KNOWN) is known


@pytest.mark.parametrize("known", [{"text": "x"}, {"blob": "eA=="}])
def test_unknown_members_of_text_and_of_blobs_of_embedded_resources_are_found(known: dict[str, str]) -> None:
    contents = {"uri": "a:1", **known, "mimeType": "text/plain", "more": 1}
    given = {"content": [{"type": "resource", "resource": contents}]}
    result = msgspec.convert(given, CallToolResult, dec_hook=read_contents)
    assert unknown.find(result, given) == {"content": {"0": {"resource": {"more": 1}}}}


VIDEO = {"type": "video", "data": "AA=="}
TEXT = {"type": "text", "text": "a"}
EMPTY = {"type": "text", "text": ""}


@pytest.mark.parametrize(
    ("result", "readable", "found"),
    [
        (
            {"content": [TEXT, VIDEO]},
            {"content": [TEXT, EMPTY]},
            {"content": {"1": {FOREIGN: VIDEO}}},
        ),
        ({"content": VIDEO}, {"content": EMPTY}, {"content": {FOREIGN: VIDEO}}),
        (
            {"messages": [{"role": "user", "content": TEXT}, {"role": "user", "content": VIDEO}]},
            {
                "messages": [
                    {"role": "user", "content": TEXT},
                    {"role": "user", "content": EMPTY},
                ]
            },
            {"messages": {"1": {"content": {FOREIGN: VIDEO}}}},
        ),
    ],
)
def test_content_blocks_of_unknown_types_are_replaced_by_empty_text_and_put_back(result, readable, found) -> None:
    replaced = unknown.without_foreign_blocks(Raw(encode(result)))
    assert replaced is not None
    assert msgspec.json.decode(replaced[0]) == readable
    assert replaced[1] == found
    assert merged(readable, found) == result


@pytest.mark.parametrize("raw", [encode(KNOWN), b"[]", b"{", b"1", b'{"content":[1,{"type":2}]}'])
def test_nothing_is_replaced_where_all_types_are_known_or_it_is_no_result(raw: bytes) -> None:
    assert unknown.without_foreign_blocks(Raw(raw)) is None


def test_two_trees_are_joined_at_every_level() -> None:
    first, second = {"a": {"0": {"x": 1}}, "b": 1}, {"a": {"0": {"y": 2}, "1": 3}, "b": 2, "c": 4}
    assert unknown.joined(first, second) == {"a": {"0": {"x": 1, "y": 2}, "1": 3}, "b": 1, "c": 4}
