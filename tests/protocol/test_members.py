"""Members that may occur once: what a request is expected to look like."""

from __future__ import annotations

import json

from carrel.protocol.members import names_of, quotes_of
from carrel.wire.base import PageParams
from carrel.wire.completion import CompleteParams
from carrel.wire.resources import ReadResourceParams
from carrel.wire.tools import CallToolParams


def test_the_quotes_of_a_request_are_counted_if_its_required_parameters_are_text() -> None:
    read = {"jsonrpc": "2.0", "id": 1, "method": "resources/read", "params": {"uri": "a:1"}}
    listed = {"jsonrpc": "2.0", "id": 1, "method": "resources/list", "params": {}}
    assert quotes_of(ReadResourceParams) == json.dumps(read).count('"')
    assert quotes_of(PageParams) == json.dumps(listed).count('"')
    assert quotes_of(CompleteParams) < 0


def test_a_name_is_told_apart_as_meta_has_one_too() -> None:
    names, named = names_of(ReadResourceParams)
    assert not named
    assert {b'"id"', b'"_meta"', b'"uri"'} <= set(names)
    names, named = names_of(CallToolParams)
    assert named
    assert b'"name"' not in names
