"""Stop words tell the language of a text."""

from __future__ import annotations

import string

import pytest
from hypothesis import given
from hypothesis import strategies as st

from carrel.search.stop_words import STOP_WORDS, language_of


@pytest.mark.parametrize(
    ("text", "language"),
    [
        ("How do I brew the tea?", "english"),
        ("Wie lange muss der Tee ziehen, bis er nicht mehr bitter ist?", "german"),
        ("Comment faire du thé avec de la menthe", "french"),
        ("Cómo hacer el té sin que sea amargo", "spanish"),
        ("茶を淹れる", "english"),
        ("", "english"),
    ],
)
def test_the_language_of_a_text_has_most_of_its_stop_words(text: str, language: str) -> None:
    assert language_of(text) == language


WORDS = st.sampled_from(sorted(word for known in STOP_WORDS.values() for word in known if word.isascii()))


@given(st.lists(st.tuples(WORDS, st.sampled_from(string.punctuation + string.digits + " \n\x1c")), max_size=12))
def test_words_of_ascii_are_the_words_of_other_texts(parts: list[tuple[str, str]]) -> None:
    text = "".join(word.title() + mark for word, mark in parts)
    assert language_of(text) == language_of(f"{text} ☕")
