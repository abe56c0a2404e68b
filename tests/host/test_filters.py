"""Filters: the terms that people write."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from carrel import Annotations
from carrel.errors import ConfigError
from carrel.host.filters import ItemFilter
from carrel.host.selection import Hosted, check, select
from carrel.wire.resources import Resource, ResourceTemplate

NOW = datetime(2026, 11, 24, 12, tzinfo=UTC).timestamp()


def resource(name: str, **fields: Any) -> Resource:
    notes = {key: fields.pop(key) for key in ("audience", "priority", "last_modified") if key in fields}
    fields.setdefault("uri", f"file:///notes/{name}")
    return Resource(name=name, annotations=Annotations(**notes) if notes else None, **fields)


ENTRIES = [
    resource(
        "wine.md",
        title="Red Wine",
        mime_type="text/markdown; charset=utf-8",
        size=900,
        priority=0.9,
        last_modified="2026-11-24T11:30:00Z",
    ),
    resource("photo.png", mime_type="image/png", size=5_000_000, audience=["user"], last_modified="2026-01-31"),
    resource("draft.txt", description="a red draft", mime_type="text/plain", priority=0.5, last_modified="2025-06-01"),
    resource("bare", uri="db://shop/bare"),
]


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("", ["wine.md", "photo.png", "draft.txt", "bare"]),
        ("red", ["wine.md", "draft.txt"]),
        ("RED wine", ["wine.md"]),
        ('"red wine"', ["wine.md"]),
        ('"wine red"', []),
        ("red -draft", ["wine.md"]),
        ('-"red wine" red', ["draft.txt"]),
        ("server:docs", ["wine.md", "photo.png", "draft.txt", "bare"]),
        ("server:DO*", ["wine.md", "photo.png", "draft.txt", "bare"]),
        ("server:shop", []),
        ("type:text/markdown", ["wine.md"]),
        ("type:image", ["photo.png"]),
        ("type:text/*", ["wine.md", "draft.txt"]),
        ("-type:text", ["photo.png", "bare"]),
        ("audience:assistant", ["wine.md", "draft.txt", "bare"]),
        ("audience:user", ["wine.md", "photo.png", "draft.txt", "bare"]),
        ("priority:>0.5", ["wine.md"]),
        ("priority:>=0.5", ["wine.md", "draft.txt"]),
        ("priority:0.5", ["draft.txt"]),
        ("changed:<1h", ["wine.md"]),
        ("changed:>7d", ["photo.png", "draft.txt"]),
        ("changed:<1y", ["wine.md", "photo.png"]),
        ("changed:>2026-01-01", ["wine.md", "photo.png"]),
        ("changed:<2026-01-01", ["draft.txt"]),
        ("changed:2026-01-31", ["photo.png"]),
        ("-changed:<1h", ["photo.png", "draft.txt", "bare"]),
        ("size:<1MB", ["wine.md"]),
        ("size:>4.5mb", ["photo.png"]),
        ("size:900", ["wine.md"]),
        ("under:file:///notes/", ["wine.md", "photo.png", "draft.txt"]),
        ("under:file:///notes", ["wine.md", "photo.png", "draft.txt"]),
        ("under:file:///note", []),
        ("under:db:", ["bare"]),
        ("file:///notes/wine.md", ["wine.md"]),  # no field, so it is a word
        ("type:image size:>1MB -draft", ["photo.png"]),
        ("- red", []),  # a minus alone is a word
        ('""', ["wine.md", "photo.png", "draft.txt", "bare"]),
    ],
)
def test_an_entry_must_match_every_term(text: str, names: list[str]) -> None:
    filters = ItemFilter(text, now=NOW)
    filters.check()
    assert [entry.name for entry in ENTRIES if filters.matches("docs", entry)] == names
    hosted = [Hosted("docs", entry) for entry in ENTRIES]
    assert [entry.item.name for entry in filters.select(hosted)] == names


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("priority:high", "a number from 0 to 1"),
        ("changed:soon", "an age or a date"),
        ("size:<many", "a size"),
        ("size:", "the value is missing"),
        ("-type:", "the value is missing"),
        ("audience:robots", "user or assistant"),
    ],
)
def test_an_invalid_term_is_named_and_does_not_filter(text: str, problem: str) -> None:
    filters = ItemFilter(f"{text} red", now=NOW)
    assert filters.terms[0].problem is not None
    assert problem in filters.terms[0].problem
    assert [entry.name for entry in ENTRIES if filters.matches("docs", entry)] == ["wine.md", "draft.txt"]
    with pytest.raises(ConfigError, match=problem):
        check({"filter": text})


def test_terms_know_where_they_are_written_and_words_are_apart_from_fields() -> None:
    text = 'type:image  -draft "red wine" cellar'
    filters = ItemFilter(text, now=NOW)
    assert [text[term.start : term.end] for term in filters.terms] == [term.text for term in filters.terms]
    assert [(term.field, term.value, term.negated) for term in filters.terms] == [
        ("type", "image", False),
        (None, "draft", True),
        (None, "red wine", False),
        (None, "cellar", False),
    ]
    assert filters.words == "red wine cellar"
    assert filters.fields.text == "type:image -draft"


def test_a_selection_takes_a_filter() -> None:
    template = ResourceTemplate("note://{id}", "note")
    entries: list[Hosted[Any]] = [Hosted("shop", template), *(Hosted("docs", entry) for entry in ENTRIES)]
    assert select(entries, {"filter": "server:shop"}) == [Hosted("shop", template)]
    assert select(entries, {"filter": ItemFilter("under:note:"), "sort": "name"}) == [Hosted("shop", template)]
    assert [one.item.name for one in select(entries, {"filter": "type:text", "sort": "size"})] == [
        "wine.md",
        "draft.txt",
    ]


@given(st.text())
def test_any_text_is_a_filter(text: str) -> None:
    filters = ItemFilter(text, now=NOW)
    assert all(text[term.start : term.end] == term.text for term in filters.terms)
    for entry in ENTRIES:
        filters.matches("docs", entry)
