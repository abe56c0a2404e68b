"""Reading server-sent events, in whatever pieces they come."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from carrel.errors import InvalidMessage
from carrel.protocol import http
from carrel.protocol.sse import MAX_ID, MAX_RETRY, EventStream
from support.processor_time import loops

BOM = b"\xef\xbb\xbf"

#: Streams, with what is in them: the events, the last id, and the retry time.
STREAMS = [
    (b"", [], "", None),
    (b"data: a\n\n", [("message", b"a")], "", None),
    (b"data:a\n\n", [("message", b"a")], "", None),
    (b"data:  a\n\n", [("message", b" a")], "", None),
    (b"data: a\r\n\r\n", [("message", b"a")], "", None),
    (b"data: a\r\r", [("message", b"a")], "", None),
    (b"data: a\r\n\rdata: b\n\r\n", [("message", b"a"), ("message", b"b")], "", None),
    (b"data: a\ndata: b\r\ndata: c\r\r", [("message", b"a\nb\nc")], "", None),
    (b"data\n\n", [("message", b"")], "", None),
    (b"data:\n\n", [("message", b"")], "", None),
    (b"data\ndata\n\n", [("message", b"\n")], "", None),
    (b"data: a\n", [], "", None),
    (b"data: a", [], "", None),
    (b"\n\n\n", [], "", None),
    (BOM + b"data: a\n\n", [("message", b"a")], "", None),
    (BOM + BOM + b"data: a\n\n", [], "", None),
    (b"data: a\n\n" + BOM + b"data: b\n\n", [("message", b"a")], "", None),
    (BOM, [], "", None),
    (b": comment\n:\ndata: a\n:data: b\n\n", [("message", b"a")], "", None),
    (b"event: x\ndata: a\n\ndata: b\n\n", [("x", b"a"), ("message", b"b")], "", None),
    (b"event: x\n\ndata: a\n\n", [("message", b"a")], "", None),
    (b"event:\ndata: a\n\n", [("message", b"a")], "", None),
    (b"id: 1\ndata: a\n\n", [("message", b"a")], "1", None),
    (b"id: 1\n\n", [], "1", None),
    (b"id: 1\ndata:\n\n", [("message", b"")], "1", None),
    (b"id: 1\n", [], "", None),
    (b"id: 1\n\nid: 2\ndata: a", [], "1", None),
    (b"id: 1\n\nid\n\n", [], "", None),
    (b"id: 1\n\nid:\n\n", [], "", None),
    (b"id: 1\n\nid: 2\x003\n\n", [], "1", None),
    (b"id: 1\n\nid: 2\x1b\n\n", [], "1", None),
    (b"id: 1\n\nid: \xc3\xb6\n\n", [], "ö", None),
    (b"id: 1\n\nid: \xff\n\n", [], "\ufffd", None),
    (b"id: 1\n\nid: " + b"x" * MAX_ID + b"\n\n", [], "x" * MAX_ID, None),
    (b"id: 1\n\nid: x" + b"x" * MAX_ID + b"\n\n", [], "1", None),
    (b"retry: 500\n\n", [], "", 500),
    (b"retry: 500\n", [], "", 500),
    (b"retry: 500\nretry: x\nretry: -1\nretry: 1.5\nretry:\nretry: \xd9\xa1\n", [], "", 500),
    (b"retry: 0\n", [], "", 0),
    (b"retry: " + b"9" * 5000 + b"\n", [], "", MAX_RETRY),
    (b"Data: a\nDATA: b\n data: c\ndatax: d\n\n", [], "", None),
    (b"data: \xff\x00\xf0\n\n", [("message", b"\xff\x00\xf0")], "", None),
    (b"data: a\x0bb\x0cc\x1cd\x85e\xe2\x80\xa8f\n\n", [("message", b"a\x0bb\x0cc\x1cd\x85e\xe2\x80\xa8f")], "", None),
    (b"event: message\r\nid: 7\r\nretry: 3\r\ndata: {}\r\n\r\n", [("message", b"{}")], "7", 3),
]


def read(stream: EventStream, *pieces: bytes) -> list[tuple[str, bytes]]:
    return [(event.name, event.data) for piece in pieces for event in stream.feed(piece)]


@pytest.mark.parametrize(("data", "events", "last_id", "retry"), STREAMS, ids=range(len(STREAMS)))
def test_a_stream_is_read_as_the_standard_says_wherever_it_is_split(
    data: bytes, events: list[tuple[str, bytes]], last_id: str, retry: int | None
) -> None:
    ways = [(data,), tuple(data[i : i + 1] for i in range(len(data)))]
    ways += [(data[:i], data[i:]) for i in range(min(len(data), 200))]
    ways += [(data[:i], b"", data[i : i + 1], data[i + 1 :]) for i in range(min(len(data), 200))]
    for pieces in ways:
        stream = EventStream(100_000)
        assert read(stream, *pieces) == events
        assert (stream.last_id, stream.retry) == (last_id, retry)


def test_a_stream_that_is_read_over_another_connection_knows_where_it_was() -> None:
    stream = EventStream(1000)
    assert read(stream, b"retry: 5\nid: 1\ndata: a\n\nid: 2\nevent: x\ndata: b\ndata: lost") == [("message", b"a")]
    stream.restart()
    assert (stream.last_id, stream.retry) == ("1", 5)
    assert read(stream, BOM + b"data: c\n\n") == [("message", b"c")]
    assert stream.last_id == "1"


def test_a_line_feed_at_the_start_of_another_connection_is_no_part_of_the_last_one() -> None:
    stream = EventStream(1000)
    assert read(stream, b"data: a\r") == []
    stream.restart()
    assert read(stream, b"\ndata: b\n\n") == [("message", b"b")]


@pytest.mark.parametrize(
    "line", [b"data: " + b"x" * 101, b"x" * 107, b": " + b"x" * 107, b"data: " + b"x" * 60 + b"\ndata: " + b"x" * 60]
)
def test_an_event_that_is_too_long_is_refused(line: bytes) -> None:
    with pytest.raises(InvalidMessage, match="100 bytes"):
        read(EventStream(100), *(line[i : i + 1] for i in range(len(line))))


def test_an_event_that_is_just_not_too_long_is_read() -> None:
    data = b"data: " + b"x" * 90 + b"\n\n"
    assert read(EventStream(96), data * 10) == [("message", b"x" * 90)] * 10


def test_lines_without_anything_in_them_are_counted_too() -> None:
    with pytest.raises(InvalidMessage):
        EventStream(1000).feed(b"data\n" * 2000)


@pytest.mark.parametrize("value", [b"", b"x", b"xy"])
def test_the_lines_of_an_event_count_with_the_line_ends_between_them(value: bytes) -> None:
    line = b"data:" + value + b"\n"
    fits = 100 // (len(value) + 1)
    assert len(read(EventStream(100), line * fits + b"\n")[0][1]) == fits * (len(value) + 1) - 1
    with pytest.raises(InvalidMessage):
        EventStream(100).feed(line * (fits + 2))


def test_time_is_linear_however_small_the_pieces_are() -> None:
    piece, stream = b"data: " + b"x" * 250, EventStream(10_000_000)

    def feed() -> None:
        for _ in range(20_000):
            stream.feed(piece)

    assert loops(feed) < 300
    assert len(read(stream, b"\n\n")[0][1]) == 20_000 * len(piece) - 6


@given(st.binary(max_size=200))
def test_bytes_of_all_kinds_are_read_without_an_error_and_the_same_in_pieces(data: bytes) -> None:
    whole, bit = EventStream(10_000), EventStream(10_000)
    assert read(whole, data) == read(bit, *(data[i : i + 1] for i in range(len(data))))
    assert (whole.last_id, whole.retry) == (bit.last_id, bit.retry)


@given(
    st.binary(max_size=50).map(lambda data: data.replace(b"\r", b"").replace(b"\n", b"")),
    st.text("abc123ö-", max_size=20),
    st.none() | st.integers(0, MAX_RETRY),
)
def test_what_our_server_writes_is_what_is_read(data: bytes, id: str, retry: int | None) -> None:
    stream = EventStream(10_000)
    assert read(stream, http.event(data, id, retry, "x")) == [("x", data)]
    assert (stream.last_id, stream.retry) == (id, retry)
