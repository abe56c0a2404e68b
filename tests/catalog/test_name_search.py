"""Search by name."""

from __future__ import annotations

from carrel.catalog.name_search import filter_choices, search_names
from carrel.catalog.provider import Request
from carrel.catalog.rules import READING, Rule, Rules
from carrel.wire.resources import Resource

RESOURCES = [
    Resource("a:1", "green tea"),
    Resource("a:2", "tea"),
    Resource("a:3", "coffee", title="Tea and more"),
    Resource("a:4", "coffee"),
]


def found(query: str, request: Request) -> list[str]:
    return [hit.resource.uri for hit in search_names(RESOURCES, query, request).items]


def test_choices_that_begin_with_the_text_come_before_the_choices_that_contain_it() -> None:
    assert filter_choices(["black tea", "Tea", "TEAPOT", "coffee"], "teA") == ["Tea", "TEAPOT", "black tea"]
    assert filter_choices(["b", "a"], "") == ["b", "a"]


def test_resources_are_found_by_title_name_and_uri_and_the_best_have_the_highest_scores() -> None:
    assert found("tea", Request()) == ["a:2", "a:3", "a:1"]
    assert found("a:4", Request()) == ["a:4"]
    hits = search_names(RESOURCES, "tea", Request()).items
    assert hits[0].score == 1
    assert 1 > hits[1].score > hits[2].score > 0


def test_no_more_than_the_limit_are_found_and_nothing_without_words() -> None:
    assert found("tea", Request(limit=2)) == ["a:2", "a:3"]
    assert found(" \t", Request()) == []


def test_resources_that_are_hidden_are_not_found() -> None:
    view = Rules([Rule("a:*", READING), Rule("a:2", READING, allow=False)]).view()
    assert found("tea", Request(view=view)) == ["a:3", "a:1"]
