"""Terms of texts: as the engine makes them, with each distinct word stemmed once."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from carrel.search import stems
from carrel.search.engine import Engine
from carrel.search.stems import Stems

WORDS = st.sampled_from(
    ["Indexing", "Straße", "naïve", "नमस्ते", "Bücher,", "x_y", "“quoted”", "½", "a" * 60, "Ελληνικά"]
)


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    made = Engine(str(tmp_path_factory.mktemp("terms")), write=True)
    yield made
    made.close()


@settings(max_examples=50)
@given(text=st.lists(WORDS | st.text(max_size=8)).map(" ".join))
def test_terms_of_a_text_are_the_terms_of_the_engine(engine: Engine, text: str) -> None:
    for language in ("english", "german"):
        (terms,) = engine._stemmed([(text, "")], language)
        whole = engine._stemmers["english"](
            text if language == "english" else " ".join(engine._stemmers[language](text))
        )
        assert terms.split() == whole


def test_each_distinct_word_is_stemmed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    def stem(word: str) -> list[str]:
        asked.append(word)
        return [word.removesuffix("s")]

    made = Stems(str.split, stem)
    assert made.of("Leaves, leaves and LEAVES of tea") == "leave leave and leave of tea"
    assert asked == ["leaves", "and", "of", "tea"]
    monkeypatch.setattr(stems, "KEPT", 4)
    assert made.of("cups tea") == "cup tea"
    assert asked[4:] == ["cups", "tea"]
