"""Event ids of resumable streams."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from carrel.protocol.connection import MAX_SLOT
from carrel.protocol.event_ids import EventId, decode_event_id, encode_event_id, name_stream, slot_of_stream

SLOTS = st.integers(0, MAX_SLOT)
NUMBERS = st.integers(0, 10**16)
BUSES = st.text("abcdefghijklmnopqrstuvwxyz0123456789", min_size=1, max_size=32)


@given(SLOTS, NUMBERS, NUMBERS)
def test_the_id_of_an_event_of_a_response_is_decoded_as_it_was_encoded(slot, stream, number):
    name = name_stream(slot, stream)
    decoded = decode_event_id(encode_event_id(name, number))
    assert decoded == EventId(name, number)
    assert decoded.slot == slot_of_stream(name) == slot


@given(SLOTS, NUMBERS, NUMBERS, BUSES)
def test_the_id_of_an_event_of_a_get_is_decoded_as_it_was_encoded(slot, stream, position, bus):
    name = name_stream(slot, stream, standing=True)
    decoded = decode_event_id(encode_event_id(name, position, bus))
    assert decoded == EventId(name, position, bus)
    assert decoded.slot == slot


@pytest.mark.parametrize(
    "text",
    [
        *(
            "",
            "-",
            "-1",
            "3",
            "3-7",
            "3.-7",
            "3.ff",
            "3.ff-",
            "3.ff-x",
            "x.ff-7",
            "-3.ff-7",
            "٣.ff-7",
            "3.ff-٧",
        ),
        *("3.gff-7", "3.gff.-7", "3.ff.-7", "3.ff.abc-7", "x.gff.abc-7", "3.gff.abc-", "3.gff.abc-x"),
        *("9" * 20 + ".g1.a-1", f"{MAX_SLOT + 1}.1-1", "0.1-" + "9" * 18),
    ],
)
def test_an_id_that_no_server_has_created_is_none(text):
    assert decode_event_id(text) is None


@given(st.text())
def test_any_text_is_decoded_or_none(text):
    assert decode_event_id(text) is None or "-" in text
