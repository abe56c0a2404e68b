"""Stores of the OAuth proxy: one contract for memory and files."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from carrel.errors import ConfigError, ServerUnavailable
from carrel.security.server.proxy import stores
from carrel.security.server.proxy.stores import ProxyFileStore, ProxyMemoryStore, ProxyStore


@pytest.fixture(params=["memory", "files"])
def make(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[], ProxyStore]:
    return ProxyMemoryStore if request.param == "memory" else lambda: ProxyFileStore(tmp_path / "logins")


async def test_a_record_is_there_until_it_is_deleted_or_replaced(make: Callable[[], ProxyStore]) -> None:
    store = make()
    assert await store.get("a") is None
    await store.put("a", "one", 60)
    await store.put("a", "two", 60)
    assert await store.get("a") == "two"
    await store.delete("a")
    await store.delete("a")
    assert await store.get("a") is None


async def test_a_record_expires_before_it_is_removed(
    make: Callable[[], ProxyStore], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stores, "SWEEP", float("inf"))
    store = make()
    await store.put("a", "one", -1)
    assert await store.get("a") is None
    assert await store.take("a") is None


async def test_of_many_who_take_a_record_one_gets_it(make: Callable[[], ProxyStore]) -> None:
    store = make()
    await store.put("a", "one", 60)
    taken = await asyncio.gather(*(store.take("a") for _ in range(20)))
    assert sorted(taken, key=str) == [*[None] * 19, "one"]


async def test_a_file_without_a_whole_expiry_is_no_record(tmp_path: Path) -> None:
    store = ProxyFileStore(tmp_path)
    for data in (b"", bytes(stores.EXPIRY.size - 1)):
        store._path("a").write_bytes(data)
        assert (await store.get("a"), await store.take("a")) == (None, None)


async def test_expired_records_are_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stores, "SWEEP", -1)
    files, memory = ProxyFileStore(tmp_path), ProxyMemoryStore()
    for store in (files, memory):
        for number in range(10):
            await store.put(str(number), "x", -1)
        await store.put("last", "x", 60)
    assert len(list(tmp_path.iterdir())) == 1
    assert len(memory._records) == 1


async def test_files_are_private_and_what_is_not_a_record_is_left_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stores, "SWEEP", -1)
    tmp_path.chmod(0o755)
    (tmp_path / "short").write_bytes(b"x")
    os.mkfifo(tmp_path / "pipe")
    store = ProxyFileStore(tmp_path)
    await store.put("a", "one", 60)
    assert tmp_path.stat().st_mode & 0o777 == 0o700
    assert {path.name for path in tmp_path.iterdir()} == {store._path("a").name, "short", "pipe"}
    assert store._path("a").stat().st_mode & 0o777 == 0o600
    assert await ProxyFileStore(tmp_path).get("a") == "one"


async def test_a_full_memory_refuses_new_logins_and_stores_what_belongs_to_the_old(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(stores, "MAX_RECORDS", 2)
    store = ProxyMemoryStore()
    await store.put("grant-a", "one", 60)
    await store.put("grant-b", "two", 60)
    with pytest.raises(ServerUnavailable, match="too many logins"):
        await store.put("grant-c", "three", 60)
    for key in ("grant-a", "turn-a", "ended-b"):
        await store.put(key, "new", 60)
        assert await store.get(key) == "new"


def test_a_directory_that_cannot_be_made_is_an_error_at_once(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigError, match="logins cannot be stored in"):
        ProxyFileStore(tmp_path / "file" / "logins")
