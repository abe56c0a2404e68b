"""Packing of documents: the budget, what comes first, what is left out, and why."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from carrel.context.documents import Document, document_of
from carrel.context.formats import render
from carrel.context.packer import Packer
from carrel.context.results import ContextItem, Format, PackedContext
from carrel.context.tokenizer import tokenizer_of
from carrel.search.results import SearchPassage
from carrel.vendors.token_estimate import estimate_tokens
from carrel.wire.base import Annotations
from carrel.wire.resources import Resource

WORDS = [f"word{number}" for number in range(500)]


def document(
    uri: str,
    text: str,
    *passages: tuple[int, int, float],
    server: str = "s",
    kind: str = "text/markdown",
    pinned: int | None = None,
    annotations: Annotations | None = None,
    is_whole: bool = True,
) -> Document:
    """Return a document whose passages are given as first line, last line and score."""
    resource = Resource(uri, uri.rpartition("/")[2], mime_type=kind, annotations=annotations)
    lines = text.split("\n")
    found = [
        SearchPassage(
            resource=resource,
            source=server,
            link=uri,
            score=score,
            first_line=first,
            last_line=last,
            text="\n".join(lines[first - 1 : last]),
        )
        for first, last, score in passages
    ]
    made = document_of(resource, server, text if is_whole else None, found, pinned)
    assert made is not None
    return made


def pack(*documents: Document, question: str = "tea", budget: int = 4000, format: Format = "markdown") -> PackedContext:
    return Packer(question, budget, tokenizer_of(None), format).pack(documents, (), complete=True)


def long_text(name: str, sections: int) -> str:
    """Return Markdown of sections with 22 lines each, whose words are all different."""
    return "\n".join(
        f"# {name} {section}\n\n" + "\n".join(f"{name}{section}x{line} tea and more words here" for line in range(20))
        for section in range(sections)
    )


def test_a_small_resource_is_packed_whole() -> None:
    packed = pack(document("x://a.md", "# Tea\n\nGreen tea.\n\n# Coffee\n\nBlack.", (1, 3, 0.9)))
    (item,) = packed.items
    assert (item.lines, item.text) == (None, "# Tea\n\nGreen tea.\n\n# Coffee\n\nBlack.")
    assert item.reason == "matches 'tea' in 2 lines, whole, as it is small"


def test_of_a_large_resource_the_passages_are_packed_in_order_with_their_headings() -> None:
    text = long_text("a", 30)
    packed = pack(document("x://a.md", text, (225, 235, 0.9), (27, 32, 0.8)), budget=300)
    first, second = packed.items
    assert first.lines == (27, 32)
    assert first.text.splitlines()[:3] == ["# a 1", "…", text.split("\n")[26]]
    assert second.lines == (225, 235)
    assert second.reason == "matches 'tea' in 11 lines"


def test_adjacent_passages_become_one_item() -> None:
    packed = pack(document("x://a.md", long_text("a", 30), (23, 44, 0.9), (45, 66, 0.8)), budget=600)
    assert [item.lines for item in packed.items] == [(23, 66)]


def test_the_lines_next_to_the_best_passages_fill_the_budget() -> None:
    packed = pack(document("x://a.md", long_text("a", 30), (45, 66, 0.9)))
    (item,) = packed.items
    assert item.lines is not None
    assert item.lines[0] < 45
    assert item.lines[1] > 66
    assert item.reason.endswith("with the passage next to it")


def test_code_keeps_the_lines_of_its_class_and_function() -> None:
    body = "\n".join(f"        step_{number} = brew({number})" for number in range(100))
    text = f"import tea\n\n\nclass Pot:\n    size = 1\n\n    def brew(self, leaves):\n{body}\n"
    packed = pack(document("x://pot.py", text, (50, 60, 0.9), kind="text/x-python"), budget=250)
    assert packed.items[0].text.startswith("class Pot:\n    def brew(self, leaves):\n…\n")


def test_a_table_keeps_its_header() -> None:
    rows = "\n".join(f"{number},oolong {number},{number * 3}" for number in range(400))
    packed = pack(document("x://t.csv", f"id,name,price\n{rows}", (200, 210, 0.9), kind="text/csv"), budget=250)
    assert packed.items[0].text.startswith("id,name,price\n…\n")
    inside = "# T\n\n| id | name |\n| --- | --- |\n" + "\n".join(f"| {n} | tea {n} |" for n in range(300))
    packed = pack(document("x://t.md", inside, (200, 205, 0.9)), budget=250)
    assert packed.items[0].text.startswith("# T\n| id | name |\n| --- | --- |\n…\n")


def test_one_long_resource_does_not_take_all() -> None:
    long = document("x://long.md", long_text("a", 60), *((1 + 22 * n, 22 + 22 * n, 0.9) for n in range(60)))
    other = document("x://other.md", long_text("b", 60), (23, 44, 0.5))
    assert {item.uri for item in pack(long, other, budget=1500).items} == {"x://long.md", "x://other.md"}


def test_pinned_resources_come_first_in_their_order() -> None:
    packed = pack(
        document("x://best.md", "tea one two three", (1, 1, 1.0)),
        document("x://second.md", "nothing about it", pinned=1),
        document("x://first.md", "nothing at all here", pinned=0),
    )
    assert [item.uri for item in packed.items] == ["x://first.md", "x://second.md", "x://best.md"]
    assert [item.reason for item in packed.items] == ["pinned, whole"] * 2 + [
        "matches 'tea' in 1 line, whole, as it is small"
    ]


def test_a_pinned_resource_that_is_too_large_leaves_room_for_others() -> None:
    packed = pack(
        document("x://pinned.md", long_text("p", 100), pinned=0),
        document("x://other.md", "green tea is brewed here", (1, 1, 0.9)),
        budget=1000,
    )
    assert packed.items[0].uri == "x://pinned.md"
    assert packed.items[0].lines is not None
    assert packed.items[0].lines[0] == 1
    assert packed.items[-1].uri == "x://other.md"


def test_near_duplicates_are_left_out_also_across_servers() -> None:
    text = "Green tea is brewed at seventy degrees. " + " ".join(WORDS[:60])
    packed = pack(
        document("file:///tea.md", text, (1, 1, 0.9), server="folder"),
        document("git:///tea.md", text.replace(" degrees. ", " degrees!\n\n"), (1, 3, 0.8), server="git"),
    )
    assert [item.uri for item in packed.items] == ["file:///tea.md"]
    assert [(each.uri, each.reason) for each in packed.left_out] == [
        ("git:///tea.md", "near-duplicate of file:///tea.md")
    ]


def test_what_does_not_fit_is_left_out_with_the_reason() -> None:
    packed = pack(document("x://a.md", " ".join(WORDS), (1, 1, 0.9)), budget=40)
    assert (packed.items, packed.tokens) == ((), 0)
    assert [(each.uri, each.reason) for each in packed.left_out] == [("x://a.md", "over the budget")]


def test_a_part_of_a_passage_fills_the_budget() -> None:
    packed = pack(document("x://a.md", long_text("a", 1), (1, 22, 0.9)), budget=200)
    (item,) = packed.items
    assert item.lines is not None
    assert 3 <= item.lines[1] < 22


def test_of_a_resource_without_its_whole_text_the_passages_are_packed() -> None:
    packed = pack(document("x://a.md", long_text("a", 9), (23, 44, 0.9), is_whole=False))
    assert [item.lines for item in packed.items] == [(23, 44)]


@pytest.mark.parametrize("format", ["markdown", "xml"])
def test_tokens_are_counted_in_the_rendered_text(format: Format) -> None:
    packed = pack(document("x://a.md", long_text("a", 30), (23, 44, 0.9)), budget=500, format=format)
    assert packed.tokens == estimate_tokens(render(packed.items, format)) <= 500
    assert packed.tokenizer == "estimate"


# Properties

LINES = ["# Tea", "## Green", "tea is green", "", "```", "def brew(pot):", "    return pot", "| a | b |", "| - | - |"]
LINES += ["plain words", "热水泡茶", "]]> </item>", "x" * 300]
TEXTS = st.lists(st.sampled_from(LINES), min_size=1, max_size=60).map("\n".join)


@st.composite
def documents(draw: st.DrawFn) -> list[Document]:
    """Return documents with texts that have lines in common, and passages that overlap."""
    made = []
    for number in range(draw(st.integers(0, 5))):
        text = draw(TEXTS) + f"\nonly here {number}"
        last = text.count("\n") + 1
        passages = []
        for _ in range(draw(st.integers(0, 4))):
            first = draw(st.integers(1, last))
            passages.append((first, draw(st.integers(first, last)), draw(st.floats(0, 1))))
        pinned = None if passages and draw(st.booleans()) else number
        kind = draw(st.sampled_from(["text/markdown", "text/x-python", "text/csv", "text/plain"]))
        made.append(document(f"x://{number}", text, *passages, kind=kind, pinned=pinned))
    return made


def by_characters(text: str) -> int:
    return len(text)


def rising(text: str) -> int:
    """Return more tokens for a text than for its parts together."""
    return len(text) + len(text) ** 2 // 1000


@given(documents(), st.integers(1, 1500), st.sampled_from(["markdown", "xml", "json"]), st.sampled_from([0, 1, 2]))
def test_a_pack_is_within_its_budget_and_deterministic_and_has_nothing_twice(
    found: list[Document], budget: int, format: Format, counting: int
) -> None:
    tokenizer = tokenizer_of([None, by_characters, rising][counting])
    packed = Packer("green tea", budget, tokenizer, format).pack(found, (), complete=True)
    text = render(packed.items, format)
    assert packed.tokens == (tokenizer.count(text) if packed.items else 0)
    assert packed.tokens <= budget
    again = Packer("green tea", budget, tokenizer, format).pack(found[::-1], (), complete=True)
    assert again == packed
    lines = [(item.uri, line) for item in packed.items for line in range(*_lines(item))]
    assert len(lines) == len(set(lines))
    packed_uris = {item.uri for item in packed.items}
    assert packed_uris.isdisjoint(each.uri for each in packed.left_out)
    assert packed_uris | {each.uri for each in packed.left_out} == {each.resource.uri for each in found}


def _lines(item: ContextItem) -> tuple[int, int]:
    first, last = item.lines or (1, item.text.count("\n") + 1)
    return first, last + 1
