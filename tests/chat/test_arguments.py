"""Arguments of tool uses as a model wrote them."""

from __future__ import annotations

import pytest

from carrel.chat.arguments import argument_error, tool_use
from carrel.vendors.declaration import Declaration
from carrel.wire.content import TextContent


@pytest.mark.parametrize(("written", "found"), [("", {}), ("  ", {}), ("{}", {}), ('{"a": [1]}', {"a": [1]})])
def test_json_objects_are_arguments(written: str, found: dict[str, object]) -> None:
    use = tool_use("1", "find", written, {})
    assert use.input == found
    assert argument_error(use) is None


@pytest.mark.parametrize(
    ("written", "reason"),
    [
        ('{"a": ', "not valid JSON"),
        ("[1]", "they are [1], not an object"),
        ("null", "they are null, not an object"),
        ('"x"', "not an object"),
        ("{'a': 1}", "{'a': 1}"),
        ("[" * 200_000, "not valid JSON"),
        ('{"a": 1}{"b": 2}', "Extra data"),
    ],
)
def test_anything_else_becomes_a_tool_error(written: str, reason: str) -> None:
    use = tool_use("1", "find", written, {})
    assert use.input == {}
    result = argument_error(use)
    assert result is not None
    assert result.is_error
    assert result.tool_use_id == "1"
    (text,) = result.content
    assert isinstance(text, TextContent)
    assert reason in text.text
    assert "call it again" in text.text
    assert len(text.text) < 1000


def test_arguments_that_were_cut_off_say_so() -> None:
    result = argument_error(tool_use("1", "find", '{"a": "long', {}, truncated=True))
    assert "cut off at the limit of tokens" in str(result)


def test_arguments_get_the_names_that_the_server_knows() -> None:
    declared = {"find": Declaration({}, {"_filter": "$filter"})}
    assert tool_use("1", "find", '{"_filter": 1, "b": 2}', declared).input == {"$filter": 1, "b": 2}
