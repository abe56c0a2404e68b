"""Near-duplicates: of formats, of parts, and texts that only look alike."""

from __future__ import annotations

import pytest

from carrel.context.duplicates import Seen
from context.pages import FORMATS

FIRST, SECOND = ("server", "x://first"), ("server", "x://second")


def numbered(first: int, last: int) -> str:
    return " ".join(f"word{number}" for number in range(first, last))


def seen(*texts: str) -> Seen:
    made = Seen()
    for text in texts:
        made.add(text, FIRST)
    return made


@pytest.mark.parametrize("one", FORMATS)
@pytest.mark.parametrize("other", FORMATS)
def test_a_page_in_two_formats_is_a_near_duplicate(one: str, other: str) -> None:
    assert seen(FORMATS[one]).owner_of(FORMATS[other]) == FIRST


def test_a_part_of_a_text_is_a_near_duplicate() -> None:
    assert seen(numbered(0, 400)).owner_of(numbered(100, 130)) == FIRST


def test_a_text_with_some_more_words_is_a_near_duplicate() -> None:
    assert seen(numbered(0, 70)).owner_of(numbered(0, 100)) == FIRST


def test_a_short_text_does_not_stand_for_a_long_one_that_has_it() -> None:
    assert seen(numbered(0, 50)).owner_of(numbered(0, 100)) is None
    assert seen("green tea").owner_of("green tea is brewed at eighty degrees") is None


def test_many_short_texts_do_not_stand_for_a_long_one() -> None:
    assert seen(*(numbered(at, at + 20) for at in range(0, 70, 20))).owner_of(numbered(0, 160)) is None


def test_texts_with_other_words_in_the_same_markup_are_no_near_duplicates() -> None:
    links = "[{0}](https://example.org/one/two/three/four/five) <b>{0}</b> ```\n``` :ref:`{0} <target of it>`"
    assert seen(links.format("tea")).owner_of(links.format("coffee")) is None


def test_the_resource_that_has_most_is_named() -> None:
    both = seen(numbered(0, 20))
    both.add(numbered(0, 100), SECOND)
    assert both.owner_of(numbered(0, 100)) == SECOND
