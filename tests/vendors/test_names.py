"""Names of tools as vendors accept them."""

from __future__ import annotations

import re

from hypothesis import given
from hypothesis import strategies as st

from carrel.vendors.names import ToolNames, valid_name

ACCEPTED = re.compile(r"[a-zA-Z_][a-zA-Z0-9_-]{0,63}")


def test_a_valid_name_that_one_server_has_stays_as_it_is() -> None:
    names = ToolNames([("shop", "find"), ("far", "look-up")])
    assert names.name_of("shop", "find") == "find"
    assert names.name_of("far", "look-up") == "look-up"


def test_tools_with_one_name_get_the_name_of_their_server_in_front() -> None:
    names = ToolNames([("shop", "find"), ("far", "find")])
    assert names.name_of("shop", "find") == "shop__find"
    assert names.find("far__find") == ("far", "find")
    assert names.find("find") is None


def test_with_prefix_all_tools_get_the_name_of_their_server() -> None:
    assert ToolNames(prefix=True).name_of("shop", "find") == "shop__find"


def test_characters_that_vendors_refuse_are_replaced_and_the_tool_is_found_again() -> None:
    names = ToolNames([("a", "files/read.all"), ("a", "files_read_all"), ("a", "9lives"), ("a", "größe")])
    seen = [names.name_of("a", tool) for tool in ("files/read.all", "files_read_all", "9lives", "größe")]
    assert len(set(seen)) == 4
    assert all(map(ACCEPTED.fullmatch, seen))
    assert names.find(names.name_of("a", "files/read.all")) == ("a", "files/read.all")


def test_a_tool_keeps_its_name_when_another_server_gets_a_tool_of_that_name() -> None:
    names = ToolNames([("shop", "find")])
    names.add([("far", "find"), ("shop", "find")])
    assert names.name_of("shop", "find") == "find"
    assert names.name_of("far", "find") == "far__find"


def test_long_names_are_cut_and_stay_different() -> None:
    names = ToolNames([("a", "x" * 64), ("a", "x" * 65), ("a", "x" * 66)])
    assert names.name_of("a", "x" * 64) == "x" * 64
    assert len({names.name_of("a", "x" * size) for size in (64, 65, 66)}) == 3


def test_a_name_does_not_depend_on_what_else_was_asked_before() -> None:
    one = ToolNames([("b", "y"), ("a", "x" * 99)])
    other = ToolNames([("a", "x" * 99)])
    assert one.name_of("a", "x" * 99) == other.name_of("a", "x" * 99)


@given(st.lists(st.tuples(st.text(max_size=40), st.text(max_size=90)), max_size=12), st.booleans())
def test_all_names_are_accepted_and_lead_back(tools: list[tuple[str, str]], prefix: bool) -> None:
    names = ToolNames(tools, prefix=prefix)
    for tool in tools:
        name = names.name_of(*tool)
        assert ACCEPTED.fullmatch(name)
        assert names.find(name) == tool


def test_no_name_is_empty() -> None:
    assert valid_name("") == "_"
