"""The cache gives out what servers allow, to whom they allow it, for as long as they allow it, and nothing else."""

from __future__ import annotations

import inspect
import os
import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from carrel.client.cache import DAY, REMEMBERED, Cache, key_of
from carrel.client.uri_index import UriIndex
from carrel.errors import ConfigError
from carrel.wire.base import CacheableResult, PageParams, RequestMeta
from carrel.wire.prompts import ListPromptsResult
from carrel.wire.resources import (
    BlobResourceContents,
    ListResourcesResult,
    ReadResourceParams,
    ReadResourceResult,
    Resource,
    TextResourceContents,
)
from carrel.wire.tools import ListToolsResult, Tool
from support.examples import examples

READ = "read_resource"
URI = "file:///a.txt"


class Clock:
    """Seconds, as a test wants them to pass."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def cache(clock: Clock) -> Iterator[Cache]:
    cache = Cache(clock=clock)
    yield cache
    cache.close()


def text(of: str = "text", ttl: Any = 1000, scope: Any = "private", uri: str = URI) -> ReadResourceResult:
    return ReadResourceResult(contents=[TextResourceContents(uri, of)], ttl_ms=ttl, cache_scope=scope)


def blob(data: bytes = b"b" * 1000, ttl: Any = 1000, uri: str = URI) -> ReadResourceResult:
    return ReadResourceResult(
        contents=[BlobResourceContents(uri, data, mime_type="image/png")], ttl_ms=ttl, cache_scope="private"
    )


def contents_of(result: CacheableResult | None) -> Any:
    """What was read, as one value; None if there is nothing."""
    if result is None:
        return None
    assert isinstance(result, ReadResourceResult)
    content = result.contents[0]
    return content.text if isinstance(content, TextResourceContents) else content.blob


# How long


async def test_a_result_is_kept_as_long_as_the_server_says(cache: Cache, clock: Clock):
    assert cache.get("s", "p", READ, URI) is None
    assert cache.put("s", "p", READ, URI, text(ttl=1500))
    clock.now += 1.4
    assert contents_of(cache.get("s", "p", READ, URI)) == "text"
    clock.now += 0.1
    assert cache.get("s", "p", READ, URI) is None
    assert cache.statistics.entries == cache.statistics.bytes == 0


@pytest.mark.parametrize("ttl", [0, -1, -(10**30), None])
async def test_without_a_time_in_the_future_nothing_is_kept(cache: Cache, ttl: Any):
    assert not cache.put("s", "p", READ, URI, text(ttl=ttl))
    assert cache.get("s", "p", READ, URI) is None


async def test_a_time_without_end_ends_after_a_day(cache: Cache, clock: Clock):
    cache.put("s", "p", READ, URI, text(ttl=10**400))
    clock.now += DAY / 1000 - 1
    assert cache.get("s", "p", READ, URI) is not None
    clock.now += 1
    assert cache.get("s", "p", READ, URI) is None


async def test_the_user_may_say_how_long_where_the_server_does_not(clock: Clock):
    cache = Cache(default_ttl_ms=2000, clock=clock)
    assert cache.put("s", "p", READ, URI, text(ttl=None, scope=None))
    assert not cache.put("s", "p", READ, "file:///b", text(ttl=0))
    assert not cache.put("s", "p", READ, "file:///b", text(ttl=-5))
    clock.now += 1.9
    found = cache.get("s", "p", READ, URI)
    assert found is not None
    assert found.ttl_ms is None
    assert cache.get("s", "q", READ, URI) is None
    clock.now += 0.2
    assert cache.get("s", "p", READ, URI) is None


async def test_the_remaining_ttl_of_a_cached_result_is_told(cache: Cache, clock: Clock):
    cache.put("s", "p", READ, URI, text(ttl=10_000))
    clock.now += 4
    found = cache.get("s", "p", READ, URI)
    assert found is not None
    assert found.ttl_ms == 6000


async def test_interim_results_are_not_kept(cache: Cache):
    result = text()
    result.result_type = "input_required"
    assert not cache.put("s", "p", READ, URI, result)
    result.result_type = "complete"
    assert cache.put("s", "p", READ, URI, result)


async def test_the_clock_goes_on_while_the_machine_sleeps():
    if sys.platform == "linux":
        import time

        assert abs(Cache()._clock() - time.clock_gettime(time.CLOCK_BOOTTIME)) < 1
    assert Cache()._clock() <= Cache()._clock()


# For whom


async def test_a_private_result_is_for_its_principal_only(cache: Cache):
    cache.put("s", "p", READ, URI, text())
    assert cache.get("s", "q", READ, URI) is None
    assert cache.get("s", "", READ, URI) is None
    assert cache.get("s", "p", READ, URI) is not None


@pytest.mark.parametrize("scope", [None, "private"])
async def test_a_result_that_does_not_say_public_is_private(cache: Cache, scope: Any):
    cache.put("s", "p", READ, URI, text(scope=scope))
    assert cache.get("s", "q", READ, URI) is None


async def test_a_public_result_is_for_all_principals_of_the_server(cache: Cache):
    cache.put("s", "p", READ, URI, text(scope="public"))
    assert contents_of(cache.get("s", "q", READ, URI)) == "text"
    assert cache.get("t", "p", READ, URI) is None


async def test_a_principal_sees_its_own_result_and_not_the_public_one(cache: Cache):
    cache.put("s", "p", READ, URI, text("own"))
    cache.put("s", "q", READ, URI, text("everybody's", scope="public"))
    assert contents_of(cache.get("s", "p", READ, URI)) == "own"
    assert contents_of(cache.get("s", "r", READ, URI)) == "everybody's"


@pytest.mark.parametrize("ttl", [0, 1000])
async def test_the_newest_answer_counts_whatever_scope_the_older_one_had(cache: Cache, ttl: int):
    cache.put("s", "p", READ, URI, text("old", scope="public"))
    cache.put("s", "p", READ, URI, text("new", ttl=ttl))
    assert contents_of(cache.get("s", "p", READ, URI)) == ("new" if ttl else None)
    assert cache.get("s", "q", READ, URI) is None
    cache.put("s", "p", READ, URI, text("newest", ttl=ttl, scope="public"))
    assert contents_of(cache.get("s", "p", READ, URI)) == ("newest" if ttl else None)


async def test_names_that_look_alike_when_joined_are_kept_apart(cache: Cache):
    cache.put("a", "bc", READ, URI, text("1"))
    cache.put("ab", "c", READ, URI, text("2"))
    assert contents_of(cache.get("a", "bc", READ, URI)) == "1"
    assert contents_of(cache.get("ab", "c", READ, URI)) == "2"
    assert cache.get("a", "bc", "read", f"_resource{URI}") is None


# What stands for a request


def test_the_key_of_a_read_is_its_uri_as_it_is_spelled():
    assert key_of(ReadResourceParams(uri=URI)) == URI
    assert key_of(ReadResourceParams(uri="FILE:///a.txt")) == "FILE:///a.txt"
    assert key_of(ReadResourceParams(uri=URI, meta=RequestMeta(progress_token=1))) == URI


def test_every_page_has_a_key_of_its_own():
    keys = [key_of(PageParams()), key_of(PageParams(cursor="")), key_of(PageParams(cursor="x"))]
    assert len({*keys, key_of(PageParams(cursor="{}"))}) == 4


def test_a_request_that_answers_questions_of_the_server_has_no_key():
    assert key_of(ReadResourceParams(uri=URI, request_state="s")) is None
    assert key_of(ReadResourceParams(uri=URI, input_responses=msgspec.Raw(b"{}"))) is None


# What callers do with results


def everything(ttl: int = 1000) -> list[CacheableResult]:
    return [
        ReadResourceResult(
            contents=[
                TextResourceContents(
                    URI, "á\u20ac\U0001f642", mime_type="text/plain", meta={"x/y": {"z": [1, None, 1.5]}}
                ),
                BlobResourceContents("file:///b", b"\x00\xff" * 200, mime_type="image/png", meta={"big": 10**30}),
                BlobResourceContents("file:///c", b""),
                TextResourceContents("file:///d", ""),
            ],
            ttl_ms=ttl,
            cache_scope="private",
            meta={"a": ["b"]},
        ),
        ReadResourceResult(contents=[], ttl_ms=ttl),
        ListToolsResult(
            tools=[Tool(name="t", input_schema={"type": "object", "properties": {"a": {"type": "string"}}})],
            next_cursor="next",
            ttl_ms=ttl,
        ),
        ListResourcesResult(resources=[Resource(uri=URI, name="a", size=5, meta={"k": {}})], ttl_ms=ttl),
    ]


@pytest.mark.parametrize("number", range(4))
async def test_a_cached_result_equals_the_one_that_was_stored(cache: Cache, number: int):
    result = everything()[number]
    assert cache.put("s", "p", "any", "k", result)
    found = cache.get("s", "p", "any", "k")
    assert found == everything()[number]
    assert type(found) is type(result)


@pytest.mark.parametrize("number", range(4))
async def test_no_caller_can_change_what_another_one_gets(cache: Cache, number: int):
    result = everything()[number]
    cache.put("s", "p", "any", "k", result)
    for _ in range(2):
        spoil(result)
        found = cache.get("s", "p", "any", "k")
        assert found == everything()[number]
        result = found


def spoil(value: Any) -> None:
    """Change all that can be changed of a value."""
    if isinstance(value, msgspec.Struct):
        for field in value.__struct_fields__:
            spoil(getattr(value, field))
            setattr(value, field, "spoilt")
    elif isinstance(value, list):
        for item in value:
            spoil(item)
        value.append("spoilt")
    elif isinstance(value, dict):
        for item in value.values():
            spoil(item)
        value["spoilt"] = True


async def test_texts_are_not_copied(cache: Cache):
    result = text("long " * 1000)
    cache.put("s", "p", READ, URI, result)
    assert contents_of(cache.get("s", "p", READ, URI)) is contents_of(result)


# What is forgotten


async def kept(cache: Cache, server: str = "s", principal: str = "p", operation: str = READ) -> set[str]:
    keys = [name[3] for name in cache._entries]
    return {key for key in keys if cache.get(server, principal, operation, key) is not None}


@pytest.mark.parametrize(
    ("changed", "stale"),
    [
        (
            "file:///d/a",
            {"file:///d/a", "file:///d/a?lines=1-5", "file:///d/a#top", "file:///d/a/deep/er", "file:///d"},
        ),
        (
            "file:///d",
            {
                "file:///d",
                "file:///d/a",
                "file:///d/a?lines=1-5",
                "file:///d/a#top",
                "file:///d/a/deep/er",
                "file:///d/ab",
            },
        ),
        (
            "file:///d/",
            {
                "file:///d",
                "file:///d/a",
                "file:///d/a?lines=1-5",
                "file:///d/a#top",
                "file:///d/a/deep/er",
                "file:///d/ab",
            },
        ),
        ("file:///d/a?lines=1-5", {"file:///d", "file:///d/a", "file:///d/a?lines=1-5"}),
        (
            "FILE:///d/%61",
            {"file:///d/a", "file:///d/a?lines=1-5", "file:///d/a#top", "file:///d/a/deep/er", "file:///d"},
        ),
        ("file:///dd", {"file:///dd"}),
        ("memo://1", {"MEMO://1", "memo://1/%7Ex"}),
        ("no uri", set()),
        ("", set()),
    ],
)
async def test_a_resource_that_has_changed_is_stale_with_what_is_in_it_and_around_it(
    cache: Cache, changed: str, stale: set[str]
):
    uris = {"file:///d", "file:///d/a", "file:///d/ab", "file:///dd", "file:///d/a?lines=1-5", "file:///d/a#top"}
    uris |= {"file:///d/a/deep/er", "MEMO://1", "memo://1/%7Ex", "memo://2", "other"}
    for uri in uris:
        cache.put("s", "p", READ, uri, text(uri=uri))
        cache.put("t", "p", READ, uri, text(uri=uri))
    cache.invalidate("s", "resource_updated", changed)
    assert uris - await kept(cache) == stale
    assert await kept(cache, "t") == uris


def test_a_hostile_uri_is_looked_up_in_no_time():
    index = UriIndex()
    for number in range(2000):
        index.add(f"file:///{number}/")
    index.add("file:///")
    deep = "file:///" + "/" * 65_536
    index.add(deep)
    assert set(index.related(deep)) == {"file:///", deep}
    assert deep in index.related("file:///")
    index.discard(deep)
    index.discard(deep)
    assert index.related(deep) == ["file:///"]


LISTS = (
    "list_tools",
    "list_prompts",
    "list_resources",
    "list_resource_templates",
    "list_skills",
    "get_skill",
    "discover",
)


@pytest.mark.parametrize(
    ("event", "stale"),
    [
        ("tools_list_changed", {"list_tools"}),
        ("prompts_list_changed", {"list_prompts"}),
        ("resources_list_changed", {"list_resources", "list_resource_templates", "list_skills", "get_skill"}),
        ("resource_updated", {"list_skills", "get_skill"}),
        ("progress", set()),
    ],
)
async def test_a_list_that_has_changed_is_stale_on_all_pages_for_everybody(cache: Cache, event: str, stale: set[str]):
    keys = ("{}", '{"cursor":"2"}')
    for operation in LISTS:
        for key in keys:
            cache.put("s", "p", operation, key, ListPromptsResult(prompts=[], ttl_ms=1000))
            cache.put("s", "q", operation, key, ListPromptsResult(prompts=[], ttl_ms=1000, cache_scope="public"))
            cache.put("t", "q", operation, key, ListPromptsResult(prompts=[], ttl_ms=1000))
    cache.put("s", "p", READ, URI, text())
    cache.invalidate("s", event, "file:///other")
    for operation in LISTS:
        for key in keys:
            for principal in ("p", "q"):
                assert (cache.get("s", principal, operation, key) is None) == (operation in stale)
            assert cache.get("t", "q", operation, key) is not None
    assert cache.get("s", "p", READ, URI) is not None


async def test_a_server_can_be_forgotten_as_a_whole_or_by_page(cache: Cache):
    page = ListPromptsResult(prompts=[], ttl_ms=1000)
    for server in ("s", "t"):
        for key in ("1", "2"):
            cache.put(server, "p", "list_prompts", key, page)
        cache.put(server, "p", READ, URI, text())
    cache.forget("s", "list_prompts", "1")
    assert cache.get("s", "p", "list_prompts", "1") is None
    assert cache.get("s", "p", "list_prompts", "2") is not None
    cache.forget("s")
    assert {name[0] for name in cache._entries} == {"t"}
    assert cache.statistics.entries == 3
    cache.clear()
    assert cache.statistics.entries == cache.statistics.bytes == 0
    assert cache._names == cache._uris == {}


async def test_an_answer_is_not_kept_if_what_was_asked_for_has_changed_meanwhile(cache: Cache):
    asked = cache.moment
    cache.invalidate("s", "resource_updated", URI)
    assert not cache.put("s", "p", READ, URI, text(), since=asked)
    assert not cache.put("s", "p", READ, f"{URI}?lines=1", text(), since=asked)
    assert cache.put("s", "p", READ, "file:///other", text(), since=asked)
    assert cache.put("t", "p", READ, URI, text(), since=asked)
    assert cache.put("s", "p", READ, URI, text("new"), since=cache.moment)
    assert not cache.put("s", "p", READ, URI, text("old"), since=asked)
    assert contents_of(cache.get("s", "p", READ, URI)) == "new"


async def test_an_answer_that_was_on_its_way_for_too_long_is_not_kept(cache: Cache):
    asked = cache.moment
    for number in range(REMEMBERED + 1):
        cache.forget("other", READ, f"memo://{number}")
        if number == REMEMBERED - 1:
            assert cache.put("s", "p", READ, "file:///in-time", text(), since=asked)
    assert not cache.put("s", "p", READ, URI, text(), since=asked)
    asked = cache.moment
    cache.clear()
    assert not cache.put("s", "p", READ, URI, text(), since=asked)


# How much


async def test_the_least_recently_used_result_is_evicted_first(clock: Clock):
    cache = Cache(max_entries=2, clock=clock)
    for key in ("1", "2"):
        cache.put("s", "p", READ, key, text(key))
    cache.get("s", "p", READ, "1")
    cache.put("s", "p", READ, "3", text("3"))
    assert await kept(cache) == {"1", "3"}
    assert cache.statistics.evictions == 1


async def test_memory_is_bounded_by_what_texts_take_in_it(clock: Clock):
    cache = Cache(max_bytes=100_000, clock=clock)
    for number in range(20):
        assert cache.put("s", "p", READ, str(number), text("\U0001f642" * 5000))  # 20 kB each
        assert cache.statistics.bytes <= 100_000
    assert cache.statistics.entries == 4
    assert not cache.put("s", "p", READ, "large", text("x" * 100_000))
    assert cache.statistics.entries == 4


async def test_hits_and_misses_are_counted(cache: Cache):
    cache.get("s", "p", READ, URI)
    cache.put("s", "p", READ, URI, blob())
    cache.get("s", "p", READ, URI)
    cache.get("s", "q", READ, URI)
    statistics = cache.statistics
    assert (statistics.hits, statistics.misses, statistics.entries) == (1, 2, 1)
    assert 0 < statistics.bytes < 2000


@pytest.mark.parametrize("option", ["max_bytes", "max_entries", "default_ttl_ms"])
async def test_limits_may_be_zero_but_not_less(option: str):
    with pytest.raises(ConfigError):
        Cache(**{option: -1})
    async with Cache(**{option: 0}) as cache:
        cache.put("s", "p", READ, URI, blob(b"x"))


async def test_after_the_end_nothing_is_kept():
    cache = Cache()
    cache.put("s", "p", READ, URI, text())
    cache.close()
    assert not cache.put("s", "p", READ, URI, text())
    assert not cache.put("s", "p", READ, URI, blob())
    assert cache.get("s", "p", READ, URI) is None
    cache.close()


# The model


class Model(RuleBasedStateMachine):
    """A cache, and beside it a list of everything that is in it, with the same rules in the plainest form."""

    SERVERS = st.sampled_from(["s", "t"])
    PRINCIPALS = st.sampled_from(["p", "q"])
    URIS = st.sampled_from(["a:x", "a:x/y", "a:x/y?z", "a:xy", "b:"])

    def __init__(self) -> None:
        super().__init__()
        self.clock = Clock()
        self.cache = Cache(clock=self.clock, max_entries=4)
        self.kept: list[dict[str, Any]] = []  # least recently used first
        self.asked: list[tuple[int, int]] = []
        self.forgotten: list[tuple[str, str | None]] = []

    def teardown(self) -> None:
        self.cache.close()

    def drop(self, condition: Callable[[dict[str, Any]], bool]) -> None:
        self.kept = [entry for entry in self.kept if not condition(entry)]

    @rule(
        server=SERVERS,
        principal=PRINCIPALS,
        uri=URIS,
        ttl=st.sampled_from([None, -1, 0, 1000, 3000]),
        scope=st.sampled_from([None, "private", "public"]),
        size=st.sampled_from([0, 10, 11, 40, 70, 101]),
        late=st.booleans(),
    )
    def put(self, server: str, principal: str, uri: str, ttl: Any, scope: Any, size: int, late: bool) -> None:
        data = os.urandom(size)
        result = blob(data, ttl, uri)
        result.cache_scope = scope
        since, forgotten = self.asked[-1] if late and self.asked else (self.cache.moment, len(self.forgotten))
        done = self.cache.put(server, principal, READ, uri, result, since=since)
        if any(where == server and (what is None or related(what, uri)) for where, what in self.forgotten[forgotten:]):
            assert not done
            return
        self.drop(lambda e: (e["server"], e["uri"]) == (server, uri) and e["owner"] in (principal, None))
        if ttl is None or ttl <= 0:
            assert not done
            return
        if len(self.kept) == 4:
            del self.kept[0]
        owner = None if scope == "public" else principal
        self.kept.append(
            {
                "server": server,
                "owner": owner,
                "uri": uri,
                "data": data,
                "until": self.clock.now + ttl / 1000,
            }
        )
        assert done

    @rule(server=SERVERS, principal=PRINCIPALS, uri=URIS)
    def get(self, server: str, principal: str, uri: str) -> None:
        self.drop(
            lambda e: (
                e["until"] <= self.clock.now and (e["server"], e["uri"]) == (server, uri) and e["owner"] == principal
            )
        )
        mine = [e for e in self.kept if (e["server"], e["uri"]) == (server, uri)]
        found = next((e for e in mine if e["owner"] == principal), None)
        if found is None:
            self.drop(
                lambda e: (
                    e["until"] <= self.clock.now and (e["server"], e["uri"]) == (server, uri) and e["owner"] is None
                )
            )
            found = next((e for e in self.kept if (e["server"], e["uri"], e["owner"]) == (server, uri, None)), None)
        if found is not None:
            self.kept.remove(found)
            self.kept.append(found)
        result = self.cache.get(server, principal, READ, uri)
        assert contents_of(result) == (None if found is None else found["data"])

    @rule(seconds=st.sampled_from([0.5, 1, 2]))
    def wait(self, seconds: float) -> None:
        self.clock.now += seconds

    @rule()
    def ask(self) -> None:
        self.asked.append((self.cache.moment, len(self.forgotten)))

    @rule(server=SERVERS, uri=st.none() | URIS)
    def forget(self, server: str, uri: str | None) -> None:
        if uri is None:
            self.cache.forget(server)
        else:
            self.cache.invalidate(server, "resource_updated", uri)
        self.forgotten.append((server, uri))
        self.drop(lambda e: e["server"] == server and (uri is None or related(uri, e["uri"])))

    @invariant()
    def the_same_is_there_and_would_go_in_the_same_order(self) -> None:
        names = [(entry["server"], entry["owner"], READ, entry["uri"]) for entry in self.kept]
        assert list(self.cache._entries) == names
        assert set(self.cache._names) == {(name[0], READ) for name in names}
        statistics = self.cache.statistics
        assert (statistics.bytes == 0) == (not self.kept)


def related(one: str, other: str) -> bool:
    short, long = sorted((one, other), key=len)
    return long == short or any(long.startswith(short + mark) for mark in "/?#")


TestModel = Model.TestCase
TestModel.settings = settings(max_examples=examples(25), stateful_step_count=40, deadline=None)


def test_every_option_is_documented():
    page = (Path(__file__).parents[2] / "docs" / "client-cache.md").read_text()
    rows = re.findall(r"^\| `(\w+)` \| [^|]* \| ([^|]*) \|$", page, re.MULTILINE)
    assert {name for name, _ in rows} == set(inspect.signature(Cache).parameters)
    defaults = {name: parameter.default for name, parameter in inspect.signature(Cache).parameters.items()}
    written = dict(rows)
    assert (written["max_bytes"], defaults["max_bytes"]) == ("64 MiB", 64 * 1024 * 1024)
    assert (written["max_entries"], defaults["max_entries"]) == ("10,000", 10_000)
    assert (written["max_ttl_ms"], defaults["max_ttl_ms"]) == ("a day", 86_400_000)
