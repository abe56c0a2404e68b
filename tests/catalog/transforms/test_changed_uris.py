"""URIs in encoded results, changed without touching the rest."""

from __future__ import annotations

import json

import pytest

from carrel.catalog.transforms.changed_uris import change_uris
from carrel.errors import INTERNAL_ERROR, ProtocolError

LINK = {"type": "resource_link", "uri": "a:1", "name": "uri"}
EMBEDDED = {"type": "resource", "resource": {"uri": "a:1", "text": "a:1"}}
TEXT = {"type": "text", "text": "a:1", "uri": "a:1"}


def outer(uri: str) -> str:
    return f"x+{uri}" if uri.startswith("a:") else uri


@pytest.mark.parametrize(
    ("result", "expected"),
    [
        ({"contents": [{"uri": "a:1", "text": "a:1"}]}, {"contents": [{"uri": "x+a:1", "text": "a:1"}]}),
        ({"content": [LINK, TEXT]}, {"content": [{**LINK, "uri": "x+a:1"}, TEXT]}),
        ({"content": [EMBEDDED]}, {"content": [{"type": "resource", "resource": {"uri": "x+a:1", "text": "a:1"}}]}),
        (
            {"messages": [{"role": "user", "content": LINK}]},
            {"messages": [{"role": "user", "content": {**LINK, "uri": "x+a:1"}}]},
        ),
        (
            {"content": [7, {"type": "resource"}], "contents": "uri"},
            {"content": [7, {"type": "resource"}], "contents": "uri"},
        ),
    ],
)
def test_uris_of_contents_links_and_embedded_resources_are_changed(result: object, expected: object) -> None:
    assert json.loads(change_uris(json.dumps(result).encode(), outer)) == expected


@pytest.mark.parametrize("result", [b'{ "content": [] }', b'{ "contents": [{"uri": "b:1"}] }', b'{ "later": 1e400 }'])
def test_a_result_without_uris_to_change_stays_as_it_is(result: bytes) -> None:
    assert change_uris(result, outer) is result


@pytest.mark.parametrize(
    "result",
    [b'{"contents":[{"\\u0075ri":"a:1"}]}', b'{"contents":[{"uri":"b:1","uri":"a:1"}]}'],
    ids=["escaped name", "repeated member"],
)
def test_no_uri_is_missed_however_it_is_written(result: bytes) -> None:
    assert change_uris(result, outer) == b'{"contents":[{"uri":"x+a:1"}]}'


def test_of_a_repeated_member_only_the_one_that_counts_is_returned() -> None:
    assert change_uris(b'{"contents":[{"uri":"a:1","uri":"b:1"}]}', outer) == b'{"contents":[{"uri":"b:1"}]}'


def test_a_result_that_cannot_be_decoded_is_an_error_of_the_server() -> None:
    with pytest.raises(ProtocolError, match="not valid") as wrong:
        change_uris(b'{"contents":[{"uri":"a:1"}],"later":1e999}', outer)
    assert wrong.value.code == INTERNAL_ERROR
