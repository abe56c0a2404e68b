"""Lists page by page: stable while they change, cursors that mean something or are refused, and cheap at any length."""

from __future__ import annotations

import base64
import json
import sys
import threading
import time
import tracemalloc
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from carrel import Server
from carrel.catalog.ordered_list import OrderedList
from carrel.catalog.paging import decode_cursor, encode_cursor, read_cursor, write_cursor
from carrel.errors import ConfigError, InvalidCursor
from carrel.transports import memory
from carrel.transports.memory import MemoryPeer
from support.examples import examples
from support.memory_client import ALL, LATEST, error, listed, result
from support.numbered_provider import Numbers
from support.processor_time import loop


def shelf(count: int, **details: Any) -> Server:
    app = Server("s", **details)
    for number in range(count):
        app.resources.add(f"x://{number}", "")
    return app


def names(page: dict[str, Any]) -> list[str]:
    return [item["uri"].removeprefix("x://") for item in page["resources"]]


# Pages


@pytest.mark.parametrize("revision", ALL)
@pytest.mark.parametrize(
    ("count", "size", "pages"), [(0, 2, 1), (1, 2, 1), (2, 2, 1), (3, 2, 2), (4, 2, 2), (250, 100, 3)]
)
async def test_a_list_comes_in_pages_and_the_last_one_has_no_cursor(
    revision: str, count: int, size: int, pages: int
) -> None:
    app = shelf(count, page_size=size)
    app.resource("y://{a}")(lambda a: a)  # so that there are resources at all
    async with memory.connect(app, revision) as peer:
        cursor: dict[str, str] = {}
        found: list[str] = []
        for number in range(1, pages + 1):
            page = await result(peer, "resources/list", **cursor)
            found += names(page)
            assert ("nextCursor" in page) is (number < pages)
            cursor = {"cursor": page.get("nextCursor", "")}
    assert found == sorted(str(number) for number in range(count))


async def test_a_page_has_100_entries_if_nothing_else_is_said() -> None:
    async with memory.connect(shelf(101)) as peer:
        assert len((await result(peer, "resources/list"))["resources"]) == 100


async def test_every_list_is_paged() -> None:
    app = Server("s", page_size=2)
    for number in range(5):
        app.resources.add(f"x://{number}", "")
        app.resource(f"y{number}://{{a}}")(lambda a: a)
        app.tools.add(lambda: "", name=f"t{number}")
        app.prompts.add(lambda: "", name=f"p{number}")
    async with memory.connect(app) as peer:
        for what, method in {
            "resources": "resources/list",
            "resourceTemplates": "resources/templates/list",
            "tools": "tools/list",
            "prompts": "prompts/list",
        }.items():
            assert len((await result(peer, method))[what]) == 2
            assert len(await listed(peer, what)) == 5


@pytest.mark.parametrize("size", [0, -1])
def test_a_page_has_at_least_one_entry(size: int) -> None:
    with pytest.raises(ConfigError, match="page_size"):
        Server("s", page_size=size)


async def test_entries_that_come_and_go_while_a_reader_pages_are_neither_repeated_nor_hide_others() -> None:
    app = shelf(10, page_size=3)
    async with memory.connect(app) as peer:
        page = await result(peer, "resources/list")
        assert names(page) == ["0", "1", "2"]
        app.resources.remove("x://0")  # before the reader
        app.resources.remove("x://2")  # the one that the cursor stands on
        app.resources.remove("x://3")  # just after
        app.resources.add("x://new", "")
        app.resources.replace("x://5", "other")
        page = await result(peer, "resources/list", cursor=page["nextCursor"])
        assert names(page) == ["4", "5", "6"]
        app.resources.add("x://0", "")  # back, where the reader has been
        page = await result(peer, "resources/list", cursor=page["nextCursor"])
        assert names(page) == ["7", "8", "9"]
        page = await result(peer, "resources/list", cursor=page["nextCursor"])
        assert names(page) == ["new"]
        assert "nextCursor" not in page


async def test_a_cursor_survives_the_end_of_the_list_being_cut_off() -> None:
    app = shelf(5, page_size=2)
    async with memory.connect(app) as peer:
        page = await result(peer, "resources/list")
        for number in (2, 3, 4):
            app.resources.remove(f"x://{number}")
        page = await result(peer, "resources/list", cursor=page["nextCursor"])
        assert (names(page), "nextCursor" in page) == ([], False)


async def test_a_cursor_may_be_used_twice_and_by_other_clients() -> None:
    app = shelf(5, page_size=2)
    async with memory.connect(app) as peer:
        cursor = (await result(peer, "resources/list"))["nextCursor"]
        first = await result(peer, "resources/list", cursor=cursor)
        assert await result(peer, "resources/list", cursor=cursor) == first
    async with memory.connect(app) as other:
        assert names(await result(other, "resources/list", cursor=cursor)) == names(first)


@settings(max_examples=examples(25), deadline=None, derandomize=True)
@given(
    st.lists(st.tuples(st.sampled_from(["add", "remove", "page"]), st.integers(0, 30)), max_size=60), st.integers(1, 5)
)
def test_whatever_happens_meanwhile_what_stays_is_seen_exactly_once(steps: list[tuple[str, int]], size: int) -> None:
    listing: OrderedList[int] = OrderedList()
    for number in range(10):
        listing.put(str(number), number)
    there_all_the_time, seen, after, done = set(map(str, range(10))), [], None, False
    for what, number in [*steps, *[("page", 0)] * 50]:
        key = str(number)
        if what == "add" and key not in listing:
            listing.put(key, number)
        elif what == "remove" and key in listing:
            listing.remove(key)
            there_all_the_time.discard(key)
        elif what == "page" and not done:
            entries, more = listing.page(after, size)
            assert len(entries) <= size
            seen += [key for key, _ in entries]
            done, after = more is None, more
    assert done
    for key in there_all_the_time:
        assert seen.count(key) == 1


def test_a_listing_is_a_collection_of_its_entries() -> None:
    listing: OrderedList[str] = OrderedList()
    listing.put("a", "A")
    listing.put("b", "B")
    listing.put("a", "again")
    assert (list(listing), len(listing), "a" in listing, "c" in listing) == (["again", "B"], 2, True, False)
    assert (listing.get("a"), listing.get("c")) == ("again", None)
    assert listing.remove("a") == "again"
    with pytest.raises(KeyError):
        listing.remove("a")


def test_threads_may_change_a_listing_while_it_is_read() -> None:
    listing: OrderedList[int] = OrderedList()
    for number in range(100):
        listing.put(f"stays {number}", number)
    begin = threading.Barrier(5, timeout=60)
    interval = sys.getswitchinterval()

    def change(name: str) -> None:
        begin.wait()
        for number in range(300):
            listing.put(f"{name} {number}", number)
            if number % 3:
                listing.remove(f"{name} {number}")

    def read() -> None:
        begin.wait()
        for _ in range(30):
            after, seen = None, []
            while True:
                entries, more = listing.page(after, 7)
                seen += [key for key, _ in entries]
                if more is None:
                    break
                after = more
            assert [key for key in seen if key.startswith("stays")] == sorted(
                f"stays {number}" for number in range(100)
            )
            assert len(list(listing)) >= 100

    sys.setswitchinterval(1e-6)
    try:
        with ThreadPoolExecutor(5) as pool:
            jobs = [pool.submit(change, name) for name in "abc"] + [pool.submit(read) for _ in range(2)]
            for job in jobs:
                job.result(timeout=60)
    finally:
        sys.setswitchinterval(interval)
    assert len(listing) == 100 + 3 * 100


def test_a_page_that_was_made_before_a_change_is_not_kept() -> None:
    listing: OrderedList[int] = OrderedList()
    changes = listing.changes
    listing.put("a", 1)
    assert listing.keep_page("r", None, b"old", changes) == b"old"
    assert listing.pages == {}
    listing.keep_page("r", None, b"new", listing.changes)
    assert listing.pages == {("r", None): b"new"}


def test_an_entry_is_encoded_once_until_it_is_replaced() -> None:
    listing: OrderedList[str] = OrderedList()
    listing.put("a", "one")
    encoded: list[str] = []

    def encode(entry: str) -> bytes:
        encoded.append(entry)
        return b'"%b"' % entry.encode()

    for _ in range(2):
        assert [*map(bytes, listing.encoded("r", [("a", "one")], encode))] == [b'"one"']
    listing.put("a", "two")
    assert [*map(bytes, listing.encoded("r", [("a", "two")], encode))] == [b'"two"']
    assert encoded == ["one", "two"]
    assert listing.encoded("r", [("b", "left out")], lambda entry: None) == []


def test_entries_are_in_the_order_of_their_keys_whenever_they_come() -> None:
    listing: OrderedList[int] = OrderedList()
    for number in (5, 3, 9, 1):
        listing.put(str(number), number)
    assert listing.page(None, 2) == ([("1", 1), ("3", 3)], "3")
    listing.put("4", 4)
    listing.remove("3")
    assert listing.page("3", 9) == ([("4", 4), ("5", 5), ("9", 9)], None)


# Cursors


def cursor(value: Any) -> str:
    return base64.b64encode(json.dumps(value, separators=(",", ":")).encode()).decode()


BAD_CURSORS = [
    "",
    " ",
    "abc",
    "W10=",
    "é",
    "\x00",
    "x" * 100_000,
    "[0,1]",
    cursor([]),
    cursor([0]),
    cursor([0, 1, 2]),
    cursor([0, -1]),
    cursor([-1, 0]),
    cursor([0, "a"]),
    cursor([1, 1]),
    cursor([1, "1"]),
    cursor([0, 1.5]),
    cursor([0, None]),
    cursor([True, 1]),
    cursor({"0": 1}),
    cursor([0, 10**30]),
    cursor([0, 3]),  # the number of an entry that there never was
    cursor([0, 2**62]),
    base64.b64encode(b"[" * 100_000).decode(),
    base64.b64encode(b"\xff\xfe").decode(),
    cursor([0, 1]) + "=",
    cursor([0, 1])[:-1],
    cursor([0, 1]) + "\n",
    base64.b64encode(b"[0, 1]").decode(),
]


@pytest.mark.parametrize("bad", BAD_CURSORS, ids=lambda bad: bad[:20])
@pytest.mark.parametrize("method", ["resources/list", "resources/templates/list", "tools/list", "prompts/list"])
async def test_a_cursor_that_was_not_given_out_is_an_invalid_parameter(method: str, bad: str) -> None:
    app = shelf(3, page_size=2)
    app.resource("y://{a}")(lambda a: a)
    app.tools.add(lambda: "", name="t")
    app.prompts.add(lambda: "", name="p")
    async with memory.connect(app) as peer:
        found = await error(peer, method, cursor=bad)
        assert found["code"] == -32602
        assert "cursor" in found["message"]
        assert len(found["message"]) < 200


@pytest.mark.parametrize("bad", [5, True, [], {}])
async def test_a_cursor_that_is_no_text_is_an_invalid_parameter(bad: Any) -> None:
    async with memory.connect(shelf(3)) as peer:
        found = await error(peer, "resources/list", cursor=bad)
        assert (found["code"], "cursor" in found["message"]) == (-32602, True)


@given(st.text(max_size=40), st.text(max_size=40) | st.none())
def test_written_cursors_are_read_back(provider: str, position: str | None) -> None:
    assert read_cursor("list", write_cursor("list", provider, position)) == (provider, position)
    with pytest.raises(InvalidCursor, match="not issued for this list"):
        read_cursor("list", write_cursor("other", provider, position))


@given(st.text(max_size=40) | st.binary(max_size=30).map(lambda data: base64.b64encode(data).decode()))
def test_any_text_is_a_cursor_or_an_invalid_one(text: str) -> None:
    try:
        provider, position = read_cursor("list", text)
    except InvalidCursor:
        return
    assert write_cursor("list", provider, position) == text


@given(st.text(max_size=40))
def test_a_position_is_that_of_its_key_and_no_other_text_is_one(key: str) -> None:
    assert decode_cursor(encode_cursor(key, "list"), "list") == key
    with pytest.raises(InvalidCursor):
        decode_cursor(key, "list")


async def test_a_cursor_of_one_list_is_none_of_another() -> None:
    app = Server("s", page_size=1)
    for number in range(3):
        app.tools.add(lambda: "", name=f"t{number}")
        app.prompts.add(lambda: "", name=f"p{number}")
        app.resources.add(f"x://{number}", "")
        app.resource(f"y://{number}/{{name}}")(lambda name: "")
    methods = ("tools/list", "prompts/list", "resources/list", "resources/templates/list")
    async with memory.connect(app) as peer:
        cursors = {method: (await result(peer, method))["nextCursor"] for method in methods}
        for method in methods:
            for other, cursor in cursors.items():
                if other == method:
                    await result(peer, method, cursor=cursor)
                    continue
                found = await error(peer, method, cursor=cursor)
                assert (found["code"], "not issued for this list" in found["message"]) == (-32602, True)


# Several sources


@pytest.mark.parametrize("size", [1, 2, 3, 5, 7, 100])
async def test_registered_resources_and_those_of_providers_are_one_list(size: int) -> None:
    app = shelf(5, page_size=size)
    for name, count in (("a", 4), ("none", 0), ("b", 6)):
        app.add_provider(Numbers(name, count))
    async with memory.connect(app) as peer:
        found = [item["uri"] for item in await listed(peer)]
        assert found == [
            *(f"x://{number}" for number in range(5)),
            *(f"a:{number}" for number in range(4)),
            *(f"b:{number}" for number in range(6)),
        ]
        assert [item["uriTemplate"] for item in await listed(peer, "resourceTemplates")] == [
            "a:{number}",
            "b:{number}",
            "none:{number}",
        ]


@pytest.mark.parametrize(
    "bad",
    [
        *BAD_CURSORS,
        write_cursor("list_resources", "", "0"),
        write_cursor("list_resources", "a", "x"),
        write_cursor("list_tools", "a", "1"),
    ],
    ids=lambda bad: bad[:20],
)
async def test_with_providers_too_a_wrong_cursor_is_an_invalid_parameter(bad: str) -> None:
    app = shelf(5, page_size=2)
    app.add_provider(Numbers("a", 4))
    async with memory.connect(app) as peer:
        assert (await error(peer, "resources/list", cursor=bad))["code"] == -32602


async def test_a_cursor_goes_on_with_the_next_provider_when_its_own_has_left() -> None:
    app = Server("s", page_size=2)
    for name in ("a", "b", "c"):
        app.add_provider(Numbers(name, 3))
    async with memory.connect(app) as peer:
        page = await result(peer, "resources/list")
        assert [item["uri"] for item in page["resources"]] == ["a:0", "a:1"]
        await app.remove_provider("a")
        found = [item["uri"] for item in await listed(peer, cursor=page["nextCursor"])]
        assert found == ["b:0", "b:1", "b:2", "c:0", "c:1", "c:2"]


async def test_a_cursor_survives_a_restart_and_is_good_for_another_replica() -> None:
    def replica() -> Server:
        app = shelf(5, page_size=2)
        app.add_provider(Numbers("a", 4))
        return app

    seen: list[str] = []
    params: dict[str, str] = {}
    while True:
        async with memory.connect(replica()) as peer:
            page = await result(peer, "resources/list", **params)
        seen += [item["uri"] for item in page["resources"]]
        if "nextCursor" not in page:
            break
        params = {"cursor": page["nextCursor"]}
    assert seen == [*(f"x://{number}" for number in range(5)), *(f"a:{number}" for number in range(4))]


# Cost


async def walk(peer: MemoryPeer, cursor: str | None = None, pages: int = 1_000_000) -> list[float]:
    """Go through so many pages, from the start or from a cursor; return the processor seconds that each took."""
    times: list[float] = []
    params = {} if cursor is None else {"cursor": cursor}
    for _ in range(pages):
        begin = time.process_time()
        page = await result(peer, "resources/list", **params)
        times.append(time.process_time() - begin)
        if "nextCursor" not in page:
            break
        params = {"cursor": page["nextCursor"]}
    return times


@pytest.mark.slow
async def test_50_000_resources_take_less_than_1_kib_each_and_pages_cost_the_same_everywhere() -> None:
    app = Server("s")
    measured, count = 5_000, 50_000

    def add(begin: int, end: int) -> None:
        for number in range(begin, end):
            app.resources.add(f"x://host/folder/{number}.txt", "text")

    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        add(0, measured)
        taken = tracemalloc.get_traced_memory()[0] - before
    finally:
        tracemalloc.stop()
    add(measured, count)
    assert taken / measured < 1024, f"{taken / measured:.0f} bytes each"
    async with memory.connect(app) as peer:
        late = sorted(f"x://host/folder/{number}.txt" for number in range(count))[-5001]
        first = await walk(peer, pages=50)
        last = await walk(
            peer,
            write_cursor(
                "list_resources",
                "",
                encode_cursor(late, "list_resources"),
            ),
        )
        assert len(first) == len(last) == 50
        assert min(last) < 5 * min(first)
        taken = []
        for number in range(count - 20, count):
            begin = time.process_time()
            await result(peer, "resources/read", uri=f"x://host/folder/{number}.txt")
            taken.append(time.process_time() - begin)
        assert min(taken) < loop()


async def test_encoded_pages_are_kept_by_their_bytes_those_that_are_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("carrel.catalog.ordered_list.MAX_PAGE_BYTES", 5000)
    app = shelf(1000, page_size=5)
    pages = app.resources.static.entries.pages
    async with memory.connect(app, LATEST) as peer:
        for cursor in await cursors(peer):
            await result(peer, "resources/list")
            await result(peer, "resources/list", cursor=cursor)
            assert None in {after for _, after in pages}
        assert 3000 < sum(map(len, pages.values())) <= 5000


async def cursors(peer: Any) -> list[str]:
    """Return the cursors of all pages but the first."""
    found: list[str] = []
    page = await result(peer, "resources/list")
    while "nextCursor" in page:
        found.append(page["nextCursor"])
        page = await result(peer, "resources/list", cursor=found[-1])
    return found


async def test_a_page_that_is_kept_ready_does_not_outlive_a_change() -> None:
    app = shelf(2)
    async with memory.connect(app) as peer:
        assert names(await result(peer, "resources/list")) == ["0", "1"]
        app.resources.add("x://2", "")
        assert names(await result(peer, "resources/list")) == ["0", "1", "2"]
        app.resources.replace("x://1", "longer")
        assert (await result(peer, "resources/list"))["resources"][1]["size"] == 6
        app.resources.remove("x://0")
        assert names(await result(peer, "resources/list")) == ["1", "2"]
