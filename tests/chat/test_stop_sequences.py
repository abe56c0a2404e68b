"""Stop sequences in text that arrives in pieces."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from carrel.chat.stop_sequences import StopSequences


def test_text_is_cut_before_the_first_sequence() -> None:
    stop = StopSequences(["END", "\n\n"])
    assert [stop.feed(piece) for piece in ("one E", "N two", "\n")] == ["one ", "EN two", ""]
    assert stop.feed("\nthree END") == ""
    assert stop.stopped


def test_text_that_only_began_like_a_sequence_is_given_at_the_end() -> None:
    stop = StopSequences(["END"])
    assert stop.feed("the EN") == "the "
    assert stop.end() == "EN"
    assert not stop.stopped


def test_without_sequences_text_passes_at_once() -> None:
    stop = StopSequences([""])
    assert stop.feed("text") == "text"


@given(st.lists(st.text("ab", max_size=4)), st.lists(st.text("ab", min_size=1, max_size=3), max_size=3))
def test_pieces_make_no_difference(pieces: list[str], sequences: list[str]) -> None:
    stop = StopSequences(sequences)
    found = ""
    for piece in pieces:
        found += stop.feed(piece)
        if stop.stopped:
            break
    found += "" if stop.stopped else stop.end()
    whole = "".join(pieces)
    starts = [whole.find(sequence) for sequence in sequences if sequence in whole]
    assert stop.stopped == bool(starts)
    if not starts:
        assert found == whole
    else:
        assert whole.startswith(found)
        assert not any(sequence in found for sequence in sequences)
