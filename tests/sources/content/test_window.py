"""Windows of large files: lines, bytes, the end."""

import asyncio
import os
import threading
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from carrel.catalog.provider import Request
from carrel.errors import ConfigError, InvalidParams, ResourceTooLarge, ServerUnavailable
from carrel.sources.content.text import line_feed
from carrel.sources.content.window import (
    TooFar,
    TooWide,
    Window,
    count_feeds,
    parse_window,
    slice_bytes,
    slice_lines,
    slice_tail,
)
from carrel.sources.files.options import FilesOptions
from carrel.sources.files.read import read_file
from carrel.sources.files.source import FilesSource
from carrel.testing import Caller
from carrel.threads import Job
from carrel.wire.resources import BlobResourceContents, TextResourceContents

GIBIBYTE = 1024**3
EAST_ASIA = ("cp932", "euc_jis_2004", "big5hkscs", "cp949", "iso2022_jp_2")


def of(data: bytes) -> Callable[[int, int], bytes]:
    return lambda offset, size: data[offset : offset + size]


class Counting:
    """Reads a real file, and counts how many bytes were read."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self.count = 0

    def __call__(self, offset: int, size: int) -> bytes:
        data = os.pread(self._descriptor, size, offset)
        self.count += len(data)
        return data


@pytest.mark.parametrize(
    ("query", "window"),
    [
        ("", None),
        ("lines=100-200", Window("lines", 100, 200)),
        ("lines=100-", Window("lines", 100, None)),
        ("lines=7", Window("lines", 7, 7)),
        ("bytes=0-65535", Window("bytes", 0, 65535)),
        ("bytes=5-", Window("bytes", 5, None)),
        ("tail=200", Window("tail", 0, 200)),
    ],
)
def test_a_query_names_a_window(query: str, window: Window | None) -> None:
    assert parse_window(query) == window


@pytest.mark.parametrize(
    ("query", "parameter"),
    [
        ("lines=", "lines"),
        ("lines=0-5", "lines"),
        ("lines=-5", "lines"),
        ("lines=5-4", "lines"),
        ("lines=1-2-3", "lines"),
        ("lines=a-b", "lines"),
        ("lines=1.5-2", "lines"),
        ("lines=１-２", "lines"),
        ("lines=1-2&tail=3", "lines"),
        ("lines=" + "9" * 5000, "lines"),
        ("bytes=-500", "bytes"),
        ("bytes=+1-2", "bytes"),
        ("tail=0", "tail"),
        ("tail=-1", "tail"),
        ("tail=1-2", "tail"),
        ("tail=", "tail"),
        ("head=5", "head"),
        ("x", "x"),
        ("=", "query"),
        ("&", "&"),
    ],
)
def test_a_bad_window_is_refused_by_name_with_an_example(query: str, parameter: str) -> None:
    with pytest.raises(InvalidParams) as raised:
        parse_window(query)
    assert raised.value.parameter == parameter
    assert len(raised.value.message) < 300
    assert any(
        f"{parameter if parameter in ('lines', 'bytes', 'tail') else 'tail'}=" in word
        for word in raised.value.message.split()
    )


lines = st.lists(st.sampled_from(["", "a", "bb", "糖尿病", "x" * 30, "é\r"]), max_size=40)


@given(
    lines,
    st.booleans(),
    st.integers(1, 45),
    st.integers(0, 45),
    st.sampled_from(["utf-8", "utf-16-le", "utf-16-be", "gb18030"]),
)
def test_lines_are_those_between_line_feeds(
    content: list[str], ended: bool, first: int, more: int, encoding: str
) -> None:
    text = "\n".join(content) + ("\n" if ended and content else "")
    data = text.encode(encoding)
    whole = text.split("\n")
    whole = [line + "\n" for line in whole[:-1]] + ([whole[-1]] if whole[-1] else [])
    window = Window("lines", first, first + more)
    if first > len(whole) + 1:
        with pytest.raises(InvalidParams, match=f"line {len(whole)},"):
            slice_lines(of(data), len(data), window, 10_000, encoding, 10_000)
        return
    cut = slice_lines(of(data), len(data), window, 10_000, encoding, 10_000)
    wanted = whole[first - 1 : first + more]
    assert cut.data.decode(encoding) == "".join(wanted)
    assert (cut.first, cut.last) == ((first, first + len(wanted) - 1) if wanted else (None, None))
    assert cut.total in (None, len(whole))


@given(lines, st.booleans(), st.integers(1, 45), st.sampled_from(["utf-8", "utf-16-le", "utf-16-be", "gb18030"]))
def test_a_tail_is_the_last_lines(content: list[str], ended: bool, count: int, encoding: str) -> None:
    text = "\n".join(content) + ("\n" if ended and content else "")
    data = text.encode(encoding)
    whole = text.split("\n")
    whole = [line + "\n" for line in whole[:-1]] + ([whole[-1]] if whole[-1] else [])
    cut = slice_tail(of(data), len(data), Window("tail", 0, count), 10_000, encoding)
    assert cut.data.decode(encoding) == "".join(whole[-count:])


@settings(max_examples=300)
@given(
    st.text(st.sampled_from("a0\n糖é😀㐀𠀀,病ー가"), min_size=1, max_size=60),
    st.integers(1, 9),
    st.sampled_from(["utf-8", "utf-16-le", "utf-16-be", "gb18030", *EAST_ASIA]),
)
def test_byte_windows_that_join_give_the_whole_text(text: str, width: int, encoding: str) -> None:
    data = text.encode(encoding, "ignore")
    text = data.decode(encoding)
    parts = []
    for begin in range(0, len(data), width):
        cut = slice_bytes(of(data), len(data), Window("bytes", begin, begin + width - 1), 1000, encoding)
        parts.append(cut.data.decode(encoding))
    assert "".join(parts) == text


def test_byte_windows_of_what_is_not_text_are_exact() -> None:
    data = bytes(range(256))
    cut = slice_bytes(of(data), 256, Window("bytes", 200, 299), 100, None)
    assert cut.data == data[200:]
    assert (cut.first, cut.last) == (200, 255)
    assert slice_bytes(of(data), 256, Window("bytes", 256, None), 100, None).data == b""
    with pytest.raises(InvalidParams, match="256 bytes"):
        slice_bytes(of(data), 256, Window("bytes", 257, None), 100, None)


def test_a_window_over_the_limit_names_one_that_is_not() -> None:
    data = b"123456789\n" * 100
    for cut, window, expected in (
        (slice_lines, Window("lines", 11, None), "lines=11-15"),
        (slice_lines, Window("lines", 11, 90), "lines=11-15"),
        (slice_tail, Window("tail", 0, 50), "tail=5"),
    ):
        with pytest.raises(TooWide) as raised:
            cut(of(data), len(data), window, 55, "utf-8")
        assert raised.value.queries[0] == expected
        advised = parse_window(expected)
        assert advised is not None
        assert len(cut(of(data), len(data), advised, 55, "utf-8").data) == 50
    with pytest.raises(TooWide) as raised:
        slice_bytes(of(data), len(data), Window("bytes", 10, None), 55, None)
    assert raised.value.queries == ("bytes=10-64",)


def test_a_single_line_over_the_limit_leaves_bytes_to_be_read() -> None:
    data = b"short\n" + b"x" * 1000
    with pytest.raises(TooWide) as raised:
        slice_lines(of(data), len(data), Window("lines", 2, 2), 100, "utf-8", 10_000)
    assert raised.value.queries == ("bytes=6-105",)
    with pytest.raises(TooWide) as raised:
        slice_tail(of(data), len(data), Window("tail", 0, 1), 100, "utf-8")
    assert raised.value.queries == ("bytes=906-1005",)


@pytest.fixture
def gigabyte(tmp_path: Path) -> Path:
    """Return a log of 1 GiB, most of which takes no space."""
    path = tmp_path / "giant.log"
    with open(path, "wb") as file:
        file.write(b"".join(b"first line %d\n" % number for number in range(1000)))
        file.truncate(GIBIBYTE - 30_000)
        file.seek(GIBIBYTE - 30_000)
        file.write(b"\n" + b"".join(b"last line %4d\n" % number for number in range(2000)))
    return path


def test_a_gigabyte_is_tailed_without_being_read(gigabyte: Path) -> None:
    descriptor = os.open(gigabyte, os.O_RDONLY)
    try:
        read_at = Counting(descriptor)
        cut = slice_tail(read_at, gigabyte.stat().st_size, Window("tail", 0, 200), 10**7, "utf-8")
        assert cut.data.splitlines() == [b"last line %4d" % number for number in range(1800, 2000)]
        assert read_at.count <= 65_540
        read_at = Counting(descriptor)
        cut = slice_lines(read_at, gigabyte.stat().st_size, Window("lines", 500, 502), 10**7, "utf-8", 10**7)
        assert cut.data == b"first line 499\nfirst line 500\nfirst line 501\n"
        assert read_at.count <= 2 * 262_144
        read_at = Counting(descriptor)
        assert (
            len(slice_bytes(read_at, gigabyte.stat().st_size, Window("bytes", 10**9, 10**9 + 99), 10**7, "utf-8").data)
            == 100
        )
        assert read_at.count < 2000
    finally:
        os.close(descriptor)


async def test_windows_are_read_by_uri(share: Callable[..., Any], gigabyte: Path) -> None:
    source = await share(gigabyte)
    [tail] = await Caller(source).read_resource(f"{source.uri}?tail=2")
    assert tail.text == "last line 1998\nlast line 1999\n"
    assert tail.uri == f"{source.uri}?tail=2"
    assert tail.meta["carrel/size"] == gigabyte.stat().st_size
    [middle] = await Caller(source).read_resource(f"{source.uri}?lines=10-11")
    assert middle.text == "first line 9\nfirst line 10\n"
    assert middle.meta["carrel/window"] == {"unit": "lines", "first": 10, "last": 11}


async def test_a_file_over_the_limit_names_its_size_the_limit_and_windows_that_work(
    put: Callable[..., Path], share: Callable[..., Any]
) -> None:
    put("big.log", "0123456789abcde\n" * 10_000)
    put("big.bin", os.urandom(160_000))
    source = await share(max_size=100_000)
    for name, count in (("big.log", 3), ("big.bin", 1)):
        with pytest.raises(ResourceTooLarge, match=r"160,000 bytes.*limit of 100,000") as raised:
            await Caller(source).read_resource(f"{source.uri}/{name}")
        windows = [word for word in raised.value.message.split() if word.startswith(source.uri)]
        assert len(windows) == count
        for window in windows:
            [contents] = await Caller(source).read_resource(window)
            assert isinstance(contents, TextResourceContents if name == "big.log" else BlobResourceContents)
    with pytest.raises(ResourceTooLarge) as raised:
        await Caller(source).read_resource(f"{source.uri}/big.log?lines=5-")
    assert f"{source.uri}/big.log?lines=5-6254" in raised.value.message
    assert len((await Caller(source).read_resource(f"{source.uri}/big.log?lines=5-6254"))[0].text) == 100_000


async def test_a_log_with_a_hole_at_its_beginning_has_an_end_that_is_text(
    put: Callable[..., Path], share: Callable[..., Any]
) -> None:
    put("rotated.log", bytes(100_000) + "\n温度 21°\n温度 22°\n".encode())
    source = await share()
    [tail] = await Caller(source).read_resource(f"{source.uri}/rotated.log?tail=1")
    assert tail.text == "温度 22°\n"


async def test_binary_files_have_byte_windows_only(put: Callable[..., Path], share: Callable[..., Any]) -> None:
    put("data.bin", bytes(range(256)) * 10)
    source = await share()
    for query in ("lines=1-2", "tail=3"):
        with pytest.raises(InvalidParams) as raised:
            await Caller(source).read_resource(f"{source.uri}/data.bin?{query}")
        assert raised.value.parameter == "bytes"
    [contents] = await Caller(source).read_resource(f"{source.uri}/data.bin?bytes=10-19")
    assert contents.blob == bytes(range(10, 20))


async def test_windows_of_other_encodings_are_cut_between_their_characters(
    put: Callable[..., Path], share: Callable[..., Any]
) -> None:
    words = {"cp932": "新しい本", "euc_jis_2004": "新しい本", "iso2022_jp_2": "新しい本"}
    texts = {
        encoding: "".join(f"第{number}行,{words.get(encoding, '糖尿病')}\n" for number in range(3000))
        for encoding in ("gb18030", "utf-16", *words)
    }
    for encoding, text in texts.items():
        put(f"{encoding}.txt", text.encode(encoding))
    source = await share()
    for encoding, text in texts.items():
        uri, lines = f"{source.uri}/{encoding}.txt", text.splitlines(keepends=True)
        for query, part in (("tail=2", lines[-2:]), ("lines=1500-1501", lines[1499:1501]), ("lines=1-1", lines[:1])):
            assert (await Caller(source).read_resource(f"{uri}?{query}"))[0].text == "".join(part)
        size = os.path.getsize(os.path.join(source.path, f"{encoding}.txt"))
        pieces = [
            (await Caller(source).read_resource(f"{uri}?bytes={begin}-{min(begin + 9_998, size - 1)}"))[0].text
            for begin in range(0, size, 9_999)
        ]
        assert "".join(pieces) == text


async def test_a_follower_asks_for_the_line_after_the_last_and_gets_nothing_yet(
    put: Callable[..., Path], share: Callable[..., Any]
) -> None:
    path = put("app.log", "one\ntwo\n")
    source = await share()
    uri = f"{source.uri}/app.log?lines=3-"
    [contents] = await Caller(source).read_resource(uri)
    assert contents.text == ""
    with open(path, "a") as file:
        file.write("three\n")
    [contents] = await Caller(source).read_resource(uri)
    assert contents.text == "three\n"
    with pytest.raises(InvalidParams, match="ends with line 3"):
        await Caller(source).read_resource(f"{source.uri}/app.log?lines=9-")


def test_a_file_that_shrinks_or_grows_while_it_is_read_gives_what_is_there(tmp_path: Path) -> None:
    path = tmp_path / "moving.log"
    path.write_text("line\n" * 50_000)
    size = path.stat().st_size

    def shrinking(offset: int, count: int) -> bytes:
        with open(path, "r+b") as file:
            file.truncate(100_000)
            file.seek(offset)
            return file.read(count)

    assert slice_tail(shrinking, size, Window("tail", 0, 3), 10**6, "utf-8").data == b"line\n" * 3
    assert slice_lines(shrinking, size, Window("lines", 19_999, 30_000), 10**6, "utf-8", 10**7).data == b"line\n" * 2
    descriptor = os.open(path, os.O_RDONLY)
    try:
        with open(path, "ab") as file:
            file.write(b"more\n")
        contents = read_file(descriptor, "file:///moving.log", "moving.log", None, FilesOptions(max_size=10**6))
        assert contents.text.endswith("line\nmore\n")
    finally:
        os.close(descriptor)


async def test_a_line_beyond_what_is_looked_through_is_refused_with_the_place_that_was_reached(
    put: Callable[..., Path], share: Callable[..., Any]
) -> None:
    put("long.log", "0123456789\n" + "x" * 2_000_000)
    source = await share(max_scan=500_000)
    uri = f"{source.uri}/long.log"
    with pytest.raises(ResourceTooLarge, match=r"Line 3 is beyond the first 500,000 bytes .* is in line 2;") as refused:
        await Caller(source).read_resource(f"{uri}?lines=3")
    advised = [word for word in refused.value.message.split() if "?" in word]
    assert [part.partition("?")[2].partition("=")[0] for part in advised] == ["bytes", "tail"]
    for window in advised:
        await Caller(source).read_resource(window)
    [contents] = await Caller(source).read_resource(f"{uri}?lines=1")
    assert contents.text == "0123456789\n"
    [contents] = await Caller(source).read_resource(f"{uri}?lines=2-")
    assert len(contents.text) == 2_000_000


def test_line_numbers_beyond_the_scan_limit_are_refused_before_reading() -> None:
    def read_at(offset: int, size: int) -> bytes:
        raise AssertionError("nothing has to be read")

    for encoding, line in (("utf-8", 1002), ("utf-16-le", 502), ("utf-32-be", 252)):
        with pytest.raises(TooFar) as raised:
            slice_lines(read_at, GIBIBYTE, Window("lines", line, None), 10, encoding, 1000)
        assert (raised.value.wanted, raised.value.line, raised.value.offset) == (line, None, None)


def test_a_short_file_may_be_looked_through_in_full_whatever_the_line() -> None:
    with pytest.raises(InvalidParams, match="ends with line 2"):
        slice_lines(of(b"one\ntwo"), 7, Window("lines", 10**15 - 1, None), 10, "utf-8", 7)


def test_a_file_that_becomes_smaller_again_and_again_is_given_up() -> None:
    reads = 0

    def shrinking(offset: int, size: int) -> bytes:
        nonlocal reads
        reads += 1
        return b"x" * (size - 1)

    with pytest.raises(InvalidParams, match="shrank while it was read"):
        slice_tail(shrinking, GIBIBYTE, Window("tail", 0, 3), 10**6, "utf-8")
    assert reads < 10


@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be", "utf-32-le", "utf-32-be"])
def test_line_feeds_of_wide_characters_are_counted_where_characters_begin(encoding: str) -> None:
    text = "\u0a00\u0a0a\n\n\u000a\u0a0a\U0001f600\n" * 3
    broken = b"\x00\xd8\x00\xd8"  # halves of characters
    data = text.encode(encoding) + broken + "\n".encode(encoding)
    assert count_feeds(data, line_feed(encoding)) == 13


@pytest.mark.skipif(not os.path.exists("/proc/self/status"), reason="there is no /proc")
def test_a_file_that_reports_no_size_has_windows_and_a_limit() -> None:
    descriptor = os.open("/proc/self/status", os.O_RDONLY)
    try:
        assert os.fstat(descriptor).st_size == 0
        whole = read_file(descriptor, "file:///status", "status", None, FilesOptions(max_size=10**6))
        assert isinstance(whole, TextResourceContents)
        lines = whole.text.splitlines(keepends=True)
        for query, expected in (("lines=1-2", lines[:2]), ("bytes=0-3", ["Name"]), ("tail=1", lines[-1:])):
            os.lseek(descriptor, 0, os.SEEK_SET)
            contents = read_file(
                descriptor, "file:///status", "status", parse_window(query), FilesOptions(max_size=10**6)
            )
            assert isinstance(contents, TextResourceContents)
            assert contents.text.partition(":")[0] == "".join(expected).partition(":")[0]
        for window in (None, parse_window("lines=1-2")):
            os.lseek(descriptor, 0, os.SEEK_SET)
            with pytest.raises(ResourceTooLarge, match="more than 10 bytes"):
                read_file(descriptor, "file:///status", "status", window, FilesOptions(max_size=10))
    finally:
        os.close(descriptor)


@pytest.mark.parametrize(
    "work",
    [
        lambda uri, source: Caller(source).read_resource(f"{uri}/sparse?lines=5"),
        lambda uri, source: Caller(source).read_resource(f"{uri}/sparse"),
        lambda uri, source: Caller(source).read_resource(f"{uri}/chinese"),
        lambda uri, source: Caller(source).read_resource(uri),
        lambda uri, source: Caller(source).search("name", 10),
        lambda uri, source: Caller(source).complete(f"{source.uri}/{{+path}}", "path", "d/"),
        lambda uri, source: Caller(source).list_resources(None, 10),
        lambda uri, source: Caller(source).list_directory(uri, None, 10),
    ],
    ids=["lines", "whole", "decoding", "directory", "search", "completion", "list", "children"],
)
async def test_the_thread_of_a_request_that_is_cancelled_stops(
    work: Callable[..., Any], put: Callable[..., Path], share: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    os.truncate(put("sparse"), 9 * 1024**2)
    put("chinese", "早上好\n".encode("gb18030") * 200_000)
    put("d/name.txt")
    source = await share()
    entered, ended, job = threading.Event(), threading.Event(), list[Any]()

    def run(self: Job) -> Any:
        # Until it is cancelled, the work does not begin: then every loop that it enters has to see that.
        entered.set()
        while not self.cancelled:
            time.sleep(0.001)
        job.append(plain(self))
        ended.set()
        return job[0]

    plain = Job.run
    monkeypatch.setattr(Job, "run", run)
    task = asyncio.ensure_future(work(source.uri, source))
    assert await asyncio.to_thread(entered.wait, 60)
    task.cancel()
    assert await asyncio.to_thread(ended.wait, 60)
    assert isinstance(job[0][1], asyncio.CancelledError)
    monkeypatch.undo()


async def test_one_client_has_some_of_the_threads_and_a_queue_of_its_own(
    put: Callable[..., Path], share: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    put("a.txt", "a")
    source = await share(threads=2, threads_per_client=1, max_waiting=1)
    go, running = threading.Event(), threading.Semaphore(0)

    def slow(*arguments: Any) -> Any:
        running.release()
        assert go.wait(60)

    monkeypatch.setattr(source._reader, "list_resources", slow)

    def request(client: str) -> Request:
        return Request(call=SimpleNamespace(client=SimpleNamespace(key=client)))

    calls = [asyncio.ensure_future(source.list_resources(request("greedy"))) for _ in range(2)]
    assert await asyncio.to_thread(running.acquire, timeout=60)
    with pytest.raises(ServerUnavailable, match="At most 1 requests of one client wait"):
        await source.read_resource(f"{source.uri}/a.txt", request("greedy"))
    [contents] = (await source.read_resource(f"{source.uri}/a.txt", request("other"))).contents
    assert contents.text == "a"
    go.set()
    await asyncio.gather(*calls)


@pytest.mark.parametrize("option", ["max_size", "max_scan", "threads", "threads_per_client", "max_waiting"])
def test_numbers_that_make_no_sense_are_refused(option: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="1"):
        FilesSource(tmp_path, FilesOptions(**{option: 0}))
