"""Provider of stores: windows by ranged reads, versions, limits, confinement, changes."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from carrel import Client, Server, sources
from carrel.catalog.provider import Interest
from carrel.errors import (
    ConfigError,
    InvalidParams,
    MCPError,
    ProviderUnavailable,
    ResourceForbidden,
    ResourceNotFound,
    ResourceTooLarge,
)
from carrel.sources.stores.address import read_address
from carrel.sources.stores.memory import InMemoryStore
from carrel.sources.stores.options import StoreOptions
from carrel.sources.stores.source import StoreSource
from carrel.sources.stores.store import AccessDenied, EntryPage, GetOptions, GetResult, StoreError, is_shareable
from carrel.sources.workers import ClientLimiter
from carrel.testing import running
from carrel.testing.caller import Caller

BASE = "memory://shelf/"


class CountingStore(InMemoryStore):
    """Store that counts the bytes which it transfers, and can be made to fail."""

    def __init__(self) -> None:
        super().__init__()
        self.transferred: list[int] = []
        self.failure: StoreError | None = None
        self.during: Any = None

    async def get(self, key: str, wanted: GetOptions) -> GetResult | None:
        if self.failure is not None:
            raise self.failure
        part = await super().get(key, wanted)
        self.transferred.append(-1 if part is None else len(part.data))
        if self.during is not None:
            self.during()
        return part

    async def list(self, prefix: str, after: str = "", limit: int = 1000) -> EntryPage:
        if self.failure is not None:
            raise self.failure
        return await super().list(prefix, after, limit)


def shared(store: InMemoryStore, target: str = "memory://shelf", **options: Any) -> StoreSource:
    given = StoreOptions(**{"poll_seconds": 0.02, **options})
    return StoreSource(store, read_address(target, given.alias), given)


async def text(caller: Caller, uri: str) -> str:
    [contents] = await caller.read_resource(uri)
    return str(contents.text)  # type: ignore[union-attr]


async def test_an_unchanged_object_is_not_transferred_twice() -> None:
    store = CountingStore()
    store.put("a.txt", "one\n")
    async with running(shared(store)) as source:
        caller = Caller(source)
        assert await text(caller, f"{BASE}a.txt") == await text(caller, f"{BASE}a.txt") == "one\n"
        assert store.transferred == [4, -1]
        store.put("a.txt", "two\n")
        assert await text(caller, f"{BASE}a.txt") == "two\n"
        assert store.transferred == [4, -1, 4]


async def test_a_window_of_a_large_object_transfers_a_small_part_of_it() -> None:
    store = CountingStore()
    store.put("log.txt", b"".join(b"line %07d\n" % number for number in range(1, 800_001)))
    async with running(shared(store)) as source:
        caller = Caller(source)
        assert await text(caller, f"{BASE}log.txt?tail=2") == "line 0799999\nline 0800000\n"
        assert await text(caller, f"{BASE}log.txt?bytes=13-25") == "line 0000002\n"
        assert await text(caller, f"{BASE}log.txt?lines=3-4") == "line 0000003\nline 0000004\n"
        assert sum(store.transferred) < 600_000
        store.transferred.clear()
        assert await text(caller, f"{BASE}log.txt?lines=500000-500000") == "line 0500000\n"
        assert len(store.transferred) < 10, "it reads ahead, in ever larger parts"


async def test_a_window_is_of_one_version_also_when_the_object_is_replaced_meanwhile() -> None:
    store = CountingStore()
    store.put("log.txt", b"a\n" * 100_000)

    def replace() -> None:
        store.during = None
        store.put("log.txt", b"b\n" * 100_000)

    store.during = replace
    async with running(shared(store)) as source:
        assert await text(Caller(source), f"{BASE}log.txt?tail=2") == "b\nb\n"


async def test_the_cache_has_a_limit() -> None:
    store = CountingStore()
    for number in range(20):
        store.put(f"{number}.txt", "x" * 10_000)
    async with running(shared(store, cache_size=50_000)) as source:
        for number in range(20):
            await text(Caller(source), f"{BASE}{number}.txt")
        assert source._reader._cache.size <= 50_000
        await text(Caller(source), f"{BASE}19.txt")
        assert store.transferred[-1] == -1
        await text(Caller(source), f"{BASE}0.txt")
        assert store.transferred[-1] == 10_000


async def test_a_directory_and_an_object_of_the_same_name_are_two_resources() -> None:
    store = InMemoryStore()
    store.put("docs", "an object")
    store.put("docs/a.md", "inside")
    async with running(shared(store)) as source:
        caller = Caller(source)
        assert await text(caller, f"{BASE}docs") == "an object"
        entries = json.loads(await text(caller, f"{BASE}docs/"))
        assert [entry["uri"] for entry in entries] == [f"{BASE}docs/a.md"]
        assert [entry.uri for entry in await caller.directory(BASE)] == [f"{BASE}docs", f"{BASE}docs/"]


async def test_a_directory_with_too_many_entries_is_read_in_windows() -> None:
    store = InMemoryStore()
    for number in range(300):
        store.put(f"d/{number:03}.txt", "")
    async with running(shared(store, max_objects=100)) as source:
        caller = Caller(source)
        with pytest.raises(ResourceTooLarge) as raised:
            await text(caller, f"{BASE}d/")
        [advised] = [word for word in raised.value.message.split() if word.startswith(BASE)]
        assert '"name":"000.txt"' in await text(caller, advised)
        with pytest.raises(ResourceTooLarge):
            await text(caller, f"{BASE}d/?tail=5")
        assert len(await caller.directory(f"{BASE}d/")) == 300, "lists have pages, and no such limit"


KEYS_WITHOUT_URI = ("../up", "a/../b", "./dot", "a//b", "/lead", "x/./y", "nul\0", "/".join("d" * 200), "k" * 5000)


async def test_keys_that_clients_would_take_for_others_are_left_out_and_harm_nothing_else() -> None:
    store = InMemoryStore()
    for key in (*KEYS_WITHOUT_URI, "fine.txt", "marker/", "z/fine.txt"):
        store.put(key, "secret")
    async with running(shared(store)) as source:
        caller = Caller(source)
        whole = [resource.uri for resource in await caller.resources(1)]
        assert whole == [BASE, f"{BASE}fine.txt", f"{BASE}z/fine.txt"]
        top = [resource.uri for resource in await caller.directory(BASE)]
        assert {f"{BASE}fine.txt", f"{BASE}marker/", f"{BASE}z/"} <= set(top)
        assert not any(".." in uri or "//" in uri.removeprefix("memory://") for uri in top)
        assert json.loads(await text(caller, f"{BASE}marker/")) == []


@pytest.mark.parametrize(
    "end",
    [
        *("../other/x", "%2e%2e/other/x", "..%2fother%2fx", "a/../../other/x", "%2E%2E%2Fother", "a/%2e%2e/x"),
        *("/other/x", "//other/x", "other%2Fx", "other%2fx", "x%00", "%5c..%5cx", ".", "./", "a/./x", "%ff", "..%5c"),
    ],
)
async def test_nothing_outside_of_the_prefix_can_be_read_or_listed(end: str) -> None:
    store = InMemoryStore()
    for key in ("mine/x", "mine/a/x", "other/x", "mineral/x", "x"):
        store.put(key, "text")
    async with running(shared(store, "memory://shelf/mine")) as source:
        caller = Caller(source)
        for uri in (f"{BASE}mine/{end}", f"{BASE}mine/{end}/", f"{BASE}{end}"):
            with pytest.raises((ResourceNotFound, InvalidParams)):
                await caller.read_resource(uri)
            with pytest.raises((ResourceNotFound, InvalidParams)):
                await caller.directory(uri)
        assert [item.uri for item in await caller.resources()] == [f"{BASE}mine/{end}" for end in ("", "a/x", "x")]


@pytest.mark.parametrize("uri", ["memory://other/mine/x", "s3://shelf/mine/x", f"{BASE}mineral/x", f"{BASE}mine"])
async def test_other_stores_and_neighbours_of_the_prefix_are_not_found(uri: str) -> None:
    store = InMemoryStore()
    for key in ("mine/x", "mineral/x", "mine"):
        store.put(key, "text")
    async with running(shared(store, "memory://shelf/mine")) as source:
        with pytest.raises(ResourceNotFound):
            await Caller(source).read_resource(uri)


async def test_what_a_caller_may_not_see_is_not_shown_in_other_spellings_either() -> None:
    store = InMemoryStore()
    for key in ("open.txt", "se+cret.txt", "d/secret.txt", "d/open.txt"):
        store.put(key, "text")
    async with running(shared(store)) as source:
        caller = Caller(source, lambda uri: "cret" not in uri)
        for spelling in ("se%2Bcret.txt", "se+cret.txt", "se%2B%63ret.txt", "d/%73ecret.txt", "d/s%65%63ret.txt"):
            with pytest.raises(ResourceForbidden):
                await caller.read_resource(BASE + spelling)
        assert "secret" not in await text(caller, f"{BASE}d/")
        assert await text(Caller(source), f"{BASE}se+cret.txt") == "text"


async def test_failures_of_the_store_tell_clients_nothing_about_it() -> None:
    store = CountingStore()
    store.put("a.txt", "text")
    async with running(shared(store)) as source:
        store.failure = StoreError("connect to 10.1.2.3 with the key hunter2")
        with pytest.raises(ProviderUnavailable) as raised:
            await Caller(source).read_resource(f"{BASE}a.txt")
        assert "hunter2" not in str(raised.value)
        assert "10.1.2.3" not in str(raised.value)
        store.failure = AccessDenied("no")
        with pytest.raises(ResourceForbidden):
            await Caller(source).read_resource(f"{BASE}a.txt")


async def test_a_store_that_cannot_be_listed_does_not_start() -> None:
    store = CountingStore()
    store.failure = AccessDenied("access denied")
    with pytest.raises(ConfigError, match=r"cannot be listed: .*access denied"):
        async with running(shared(store)):
            pass


async def test_subscribed_directories_and_objects_beyond_the_limit_are_looked_at() -> None:
    store = InMemoryStore()
    for number in range(20):
        store.put(f"a/{number:02}", "")
    store.put("z/last.txt", "one")
    source = shared(store, max_objects=5)
    async with running(source):
        before = await source._look(Interest([f"{BASE}z/last.txt", f"{BASE}z/"]))
        store.put("z/last.txt", "two")
        after = await source._look(Interest([f"{BASE}z/last.txt", f"{BASE}z/"]))
        assert {uri for uri in after if before.get(uri) != after[uri]} == {f"{BASE}z/last.txt", f"{BASE}z/"}
        assert len(after) == 7


@pytest.mark.parametrize(
    "target",
    [
        *("memory:", "memory://", "memory://x?y", "memory://x#y", "memory://x/../y", "memory://x//y", "memory://x/%zz"),
        *("memory://ann@x/", "memory://ann:hunter2@x/", "memory://x:99999999/", "memory://x y/"),
        f"memory://x:{'1' * 5000}/",
    ],
)
def test_a_url_that_names_no_store_is_refused_without_its_secrets(target: str) -> None:
    with pytest.raises(ConfigError) as raised:
        sources.open(target)
    assert "hunter2" not in str(raised.value)


async def test_three_stores_and_an_alias_live_side_by_side() -> None:
    app = Server("three")
    for name in ("one", "two", "three"):
        InMemoryStore.named(f"side-{name}").put("a.txt", name)
        app.add_provider(sources.open(f"memory://side-{name}", alias=f"shelf-{name}"))
    async with Client(app) as client:
        for name in ("one", "two", "three"):
            result = await client.read_resource(f"memory://shelf-{name}/a.txt")
            assert [contents.text for contents in result.contents] == [name]  # type: ignore[union-attr]
            with pytest.raises(MCPError):
                await client.read_resource(f"memory://side-{name}/a.txt")


async def test_one_client_does_not_take_the_turns_of_another() -> None:
    turns = ClientLimiter(per_client=3, total=5)
    inside: list[str] = []
    go = asyncio.Event()

    async def hold(client: str) -> None:
        async with turns.slot(client):
            inside.append(client)
            await go.wait()

    tasks = [asyncio.create_task(hold(client)) for client in (*["greedy"] * 20, "other")]
    for _ in range(10):
        await asyncio.sleep(0)
    assert sorted(inside) == ["greedy", "greedy", "greedy", "other"]
    tasks[4].cancel()
    go.set()
    await asyncio.gather(*tasks, return_exceptions=True)
    assert len(inside) == 20
    assert not turns._clients


@given(st.text(max_size=60))
@example("a%2F..%2Fb")
@example("%C3%28")
@example("\ud800")
def test_any_text_is_a_key_below_the_prefix_or_a_documented_error(end: str) -> None:
    address = read_address("memory://shelf/mine")
    try:
        key = address.key(f"{BASE}mine/{end}")
    except (ResourceNotFound, InvalidParams):
        return
    assert key.startswith("mine/")
    assert not {"", ".", ".."} & set(key.removesuffix("/").split("/"))
    assert address.key(address.uri(key)) == key


@given(st.text(max_size=60, alphabet=st.characters(exclude_categories=["Cs"])))
def test_each_key_that_is_shared_has_a_uri_of_its_own(key: str) -> None:
    address = read_address("memory://shelf/mine")
    if is_shareable(key):
        assert address.key(address.uri(f"mine/{key}")) == f"mine/{key}"


async def test_documents_have_their_text_beside_them() -> None:
    store = CountingStore()
    store.put("page.html", "<h1>Care</h1><p>Feed your pet twice a day.</p>")
    store.put("a.txt", "text")
    async with running(shared(store)) as source:
        caller = Caller(source)
        [_, _, listed] = await caller.resources()
        assert (listed.meta or {}).get("carrel/text") == "?view=text"
        assert (await text(caller, f"{BASE}page.html?view=text")).startswith("# Care")
        transferred = len(store.transferred)
        assert "twice a day" in await text(caller, f"{BASE}page.html?view=text")
        assert len(store.transferred) == transferred, "its text is kept for as long as it is the same"
        templates = [template.uri_template for template in await caller.templates()]
        assert f"{BASE}{{+path}}{{?page}}" in templates
        for end in ("a.txt?view=text", "a.txt?page=1", "page.html?page=9", "?view=text"):
            with pytest.raises(InvalidParams):
                await caller.read_resource(BASE + end)
        with pytest.raises(ResourceNotFound):
            await caller.read_resource(f"{BASE}none.html?view=text")
