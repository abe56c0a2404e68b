"""Changes of what a server offers are kept with their differences, and the page is told."""

from __future__ import annotations

from carrel.studio.events import PageEvents
from carrel.studio.interfaces import Interfaces
from carrel.wire.tools import Tool


def tool(name: str, description: str = "x") -> Tool:
    return Tool(name=name, description=description, input_schema={"type": "object"})


def test_the_first_lists_are_no_change_and_later_ones_are_compared() -> None:
    events = PageEvents()
    interfaces = Interfaces(events)
    interfaces.note("one", {"tool": [tool("add"), tool("old"), tool("same")]})
    interfaces.note("two", {"tool": []})
    assert events.seq == 0
    interfaces.note("one", {"tool": [tool("add", "Add two numbers"), tool("new"), tool("same")]})
    assert events.seq == 1
    (change,) = interfaces.changes
    assert change.server == "one"
    assert [(item.name, item.change) for item in change.items] == [
        ("add", "changed"),
        ("new", "added"),
        ("old", "removed"),
    ]
    lines = [line.kind + line.text.strip() for hunk in change.items[0].hunks for line in hunk.lines]
    assert '-"description": "x",' in lines
    assert '+"description": "Add two numbers",' in lines


def test_equal_lists_and_other_kinds_are_no_change() -> None:
    interfaces = Interfaces(PageEvents())
    interfaces.note("one", {"tool": [tool("add")], "prompt": []})
    interfaces.note("one", {"tool": [tool("add")]})
    interfaces.note("two", {"tool": [tool("other")]})
    assert not interfaces.changes


def test_long_lists_are_not_compared_and_long_changes_are_cut() -> None:
    interfaces = Interfaces(PageEvents())
    interfaces.note("one", {"tool": [tool("a")]})
    interfaces.note("one", {"tool": [tool(f"t{number}") for number in range(3000)]})
    assert not interfaces.changes
    interfaces.note("one", {"tool": [tool(f"t{number}") for number in range(1000)]})
    (change,) = interfaces.changes
    assert len(change.items) == 200
    assert change.more == 801
