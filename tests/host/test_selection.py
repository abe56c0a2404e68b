"""Filters and orders of what a host lists."""

from __future__ import annotations

from typing import Any

import pytest

from carrel import Annotations
from carrel.errors import ConfigError
from carrel.host.selection import Hosted, Selection, check, select, wants_server
from carrel.wire.resources import Resource, ResourceTemplate


def resource(name: str, **fields: Any) -> Hosted[Resource]:
    notes = {key: fields.pop(key) for key in ("audience", "priority", "last_modified") if key in fields}
    return Hosted("a", Resource(f"x:{name}", name, annotations=Annotations(**notes) if notes else None, **fields))


def names(selection: Selection, *entries: Hosted[Any]) -> list[str]:
    return [entry.item.name for entry in select(entries, selection)]


def test_what_names_no_audience_is_for_both_and_what_has_no_priority_has_none() -> None:
    entries = [
        resource("both"),
        resource("user", audience=["user"], priority=0.5),
        resource("model", audience=["assistant"]),
    ]
    assert names({"audience": "user"}, *entries) == ["both", "user"]
    assert names({"audience": "assistant"}, *entries) == ["both", "model"]
    assert names({"min_priority": 0.5}, *entries) == ["user"]
    assert names({"min_priority": 0.0}, *entries) == ["both", "user", "model"]


def test_media_types_are_compared_without_parameters_and_case() -> None:
    entries = [resource("a", mime_type="Text/HTML; charset=utf-8"), resource("b", mime_type="image/png"), resource("c")]
    assert names({"mime_type": "text/*"}, *entries) == ["a"]
    assert names({"mime_type": "image/png"}, *entries) == ["b"]


def test_what_does_not_say_comes_last_in_every_order() -> None:
    entries = [
        resource("none"),
        resource("old", priority=0.1, size=1, last_modified="2024-01-01T00:00:00Z"),
        resource("new", priority=0.9, size=9, last_modified="2025-01-01"),
        resource("odd", last_modified="yesterday"),
    ]
    assert names({"sort": "priority"}, *entries) == ["new", "old", "none", "odd"]
    assert names({"sort": "size"}, *entries) == ["new", "old", "none", "odd"]
    assert names({"sort": "recency"}, *entries) == ["new", "old", "none", "odd"]


def test_names_are_sorted_by_what_is_shown_whatever_the_case() -> None:
    assert names({"sort": "name"}, resource("b"), resource("z", title="Alpha"), resource("C")) == ["z", "b", "C"]


def test_templates_are_filtered_by_their_own_prefix() -> None:
    template = Hosted("a", ResourceTemplate("note://{id}", "note"))
    assert select([template], {"uri_prefix": "note://"}) == [template]
    assert select([template], {"uri_prefix": "page://"}) == []


def test_servers_are_selected_by_name_and_tag() -> None:
    assert wants_server({}, "a", ())
    assert wants_server({"servers": ["a"], "tags": ["x", "y"]}, "a", ("y",))
    assert not wants_server({"servers": ["b"]}, "a", ())
    assert not wants_server({"tags": ["x"]}, "a", ("y",))


def test_an_order_that_there_is_not_is_an_error() -> None:
    with pytest.raises(ConfigError, match="there is no order 'recent'; did you mean 'recency'"):
        check({"sort": "recent"})  # type: ignore[typeddict-item]
