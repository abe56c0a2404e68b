"""Differences between two packs."""

from __future__ import annotations

from carrel.context.pack import changes_between
from carrel.context.results import ContextItem


def item(uri: str, text: str, lines: tuple[int, int] | None = None) -> ContextItem:
    return ContextItem(server="s", uri=uri, link=uri, title=uri, lines=lines, tokens=1, score=0.5, reason="", text=text)


def test_items_are_added_removed_and_changed() -> None:
    before = [item("x://same", "a"), item("x://changed", "a"), item("x://gone", "a"), item("x://two", "a", (1, 2))]
    after = [item("x://same", "a"), item("x://changed", "b"), item("x://new", "a"), item("x://two", "a", (1, 2))]
    after.append(item("x://two", "b", (9, 12)))
    changes = changes_between(before, after)
    assert [each.uri for each in changes.added] == ["x://new", "x://two"]
    assert [each.uri for each in changes.removed] == ["x://gone"]
    assert [(each.uri, each.text) for each in changes.changed] == [("x://changed", "b")]
    assert changes
    assert not changes_between(before, before)
    assert [each.lines for each in changes_between(after, before).removed] == [None, (9, 12)]
