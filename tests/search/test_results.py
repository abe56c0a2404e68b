"""Pages of search results."""

from itertools import accumulate

from hypothesis import given
from hypothesis import strategies as st

from carrel.search.hits import least_tokens
from carrel.search.results import PassageResults, SearchPassage, passages_as_markdown
from carrel.vendors.token_estimate import estimate_tokens
from carrel.wire.resources import Resource


def passage(text: str, name: str = "tea.md", first: int = 1) -> SearchPassage:
    last = first + text.count("\n")
    uri = f"file:///{name}"
    return SearchPassage(
        resource=Resource(uri, name),
        source="folder",
        link=f"{uri}?lines={first}-{last}",
        score=1.0,
        first_line=first,
        last_line=last,
        text=text,
    )


def page(*passages: SearchPassage, budget: int = 1000, complete: bool = True) -> str:
    results = PassageResults(query="green tea", passages=list(passages), complete=complete)
    return passages_as_markdown(results, budget)


def test_passages_are_quoted_with_their_links_and_lines() -> None:
    shown = page(passage("Green tea\n\n# not a heading <b>\n", first=7), passage("More", first=20))
    assert shown == (
        "# green tea\n\n"
        "1. [tea.md](<file:///tea.md?lines=7-10>), lines 7-10\n\n   > Green tea\n   >\n   > # not a heading &lt;b>\n\n"
        "2. [tea.md](<file:///tea.md?lines=20-20>), lines 20-20\n\n   > More\n"
    )


def test_a_page_without_passages_and_one_of_an_unfinished_index() -> None:
    assert page() == "# green tea\n\nNothing is found.\n"
    assert page(complete=False).endswith("The index is not complete yet; there may be more.\n")


def test_the_last_passage_is_cut_to_the_budget() -> None:
    long = "\n".join(f"Line {number} of this text is about green tea." for number in range(100))
    shown = page(passage("Green tea"), passage(long, "long.md"), passage("never shown", "rest.md"), budget=300)
    assert "Line 0 of" in shown
    assert "Line 99" not in shown
    assert shown.endswith("   > …\n")
    assert "rest.md" not in shown
    assert 200 <= estimate_tokens(shown) <= 300


def test_a_long_line_is_cut_to_the_budget() -> None:
    for text in ("green tea " * 100_000, "緑茶" * 100_000):
        shown = page(passage(text), passage("never shown", "rest.md"), budget=300)
        assert 250 <= estimate_tokens(shown) <= 300
        assert shown.endswith("\n   > …\n")
        assert "rest.md" not in shown


@given(st.lists(st.text(min_size=1, max_size=300), max_size=4), st.integers(40, 300))
def test_a_page_is_never_over_its_budget_unless_one_line_is(texts: list[str], budget: int) -> None:
    passages = [passage(text, f"{number}.md") for number, text in enumerate(texts)]
    least = estimate_tokens(page(*passages[:1], budget=1))
    assert estimate_tokens(page(*passages, budget=budget)) <= max(budget, least)


#: Texts of marks that a page writes otherwise, of blanks and ends of lines that it leaves out, and of words.
MARKED = st.lists(st.sampled_from(["<", "((", "\n", " ", "\u3000", "\t", "\r", "tea", "12", "茶", "."]), max_size=40)


@given(st.lists(MARKED.map("".join), min_size=1, max_size=8), st.integers(1, 120), st.booleans())
def test_texts_that_fill_a_page_leave_no_room_for_others(parts: list[str], budget: int, complete: bool) -> None:
    texts = [text or "tea" for text in parts]
    passages = [passage(text, f"{number}.md") for number, text in enumerate(texts)]
    enough = next((first for first in accumulate([text] for text in texts) if least_tokens(first) > budget), texts)
    whole = page(*passages, budget=budget, complete=complete)
    assert page(*passages[: len(enough)], budget=budget, complete=complete) == whole
