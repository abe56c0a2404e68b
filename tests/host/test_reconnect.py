"""Reconnector of connections: attempts, pauses, signs of life, and no attempts on behalf of requests."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Collection, Iterable
from typing import Any

import pytest

from carrel import Client, Server
from carrel.catalog.provider import Request
from carrel.errors import ProviderUnavailable, TransportError
from carrel.host import RemoteProvider, debounce, reconnect
from carrel.host.debounce import Debouncer
from carrel.host.reconnect import LISTED, Reconnector, Status
from carrel.transports.client.transport import Transport
from carrel.transports.memory import MemoryTransport


class Far:
    """Server that can be reached or not."""

    def __init__(self) -> None:
        self.app = Server("far")
        self.attempts = 0
        self.there = True

    def __call__(self) -> Transport:
        self.attempts += 1
        if not self.there:
            raise TransportError("not there", delivered=False)
        return MemoryTransport(self.app)


class Nothing:
    def publish(self, *_: object, **__: object) -> None:
        """Take note of nothing."""


async def learn(kinds: Collection[str]) -> None:
    """Learn nothing."""


@pytest.fixture(autouse=True)
def pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reconnect, "PAUSES", (1000.0, 4000.0))


async def test_pauses_grow_until_the_server_is_there() -> None:
    far = Far()
    far.there = False
    kept = Reconnector(Client(far), "far", 60.0, learn)
    kept.begin()
    pauses: list[float] = []
    try:
        for _ in range(4):
            status = await kept.settled()
            assert status.name == "failed"
            assert str(status.reason) == "not there"
            assert status.retry_at is not None
            pauses.append(status.retry_at - asyncio.get_running_loop().time())
            kept.retry()
        for pause, least in zip(pauses, (500, 1000, 2000, 2000), strict=True):
            assert least - 100 < pause <= 2 * least
        await kept.settled()
        far.there = True
        kept.retry()
        assert await kept.settled() == Status("ready")
    finally:
        await kept.end()
    assert kept.status == Status("closed")


async def test_requests_to_a_server_that_has_failed_are_no_attempts_to_connect() -> None:
    far = Far()
    far.there = False
    provider = RemoteProvider(far, name="far")
    provider.begin(Nothing())
    try:
        await provider.reconnector.settled()
        attempts = far.attempts
        for _ in range(3):
            with pytest.raises(ProviderUnavailable):
                await provider.list_tools(Request())
            with pytest.raises(ProviderUnavailable):
                await provider.read_resource("x:y", Request())
        assert far.attempts == attempts
    finally:
        await provider.stop()


async def test_a_check_of_a_server_that_answers_changes_nothing() -> None:
    far = Far()
    kept = Reconnector(Client(far), "far", 60.0, learn)
    kept.begin()
    try:
        await kept.settled()
        seen: list[Status] = []
        kept.observers.append(seen.append)
        pinged = asyncio.Event()
        ping = kept.client.ping

        async def noted(*, timeout: float | None = None) -> None:
            await ping(timeout=timeout)
            pinged.set()

        kept.client.ping = noted  # type: ignore[method-assign]
        kept.check()
        async with asyncio.timeout(60):
            await pinged.wait()
        assert seen == []
        assert far.attempts == 1
    finally:
        await kept.end()


async def test_an_attempt_that_takes_too_long_is_given_up() -> None:
    async def never(kinds: Collection[str]) -> None:
        await asyncio.Event().wait()

    kept = Reconnector(Client(Far()), "far", 0.05, never)
    kept.begin()
    try:
        assert str((await kept.settled()).reason) == "it is not ready after 0.05 seconds"
    finally:
        await kept.end()


async def test_a_server_whose_list_changes_all_the_time_is_not_read_all_the_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(debounce, "PAUSES", (1000.0, 1000.0))
    far = Far()
    far.app.tool(name="tool")(lambda: "x")
    read: list[Collection[str]] = []
    told = 0

    async def learn(kinds: Collection[str]) -> None:
        read.append(kinds)

    class Counting(Debouncer[Any]):
        def put(self, kinds: Iterable[Any]) -> None:
            nonlocal told
            told += 1
            super().put(kinds)

    monkeypatch.setattr(reconnect, "Debouncer", Counting)
    kept = Reconnector(Client(far), "far", 60.0, learn)
    kept.begin()
    try:
        await kept.settled()
        async with asyncio.timeout(60):
            for number in itertools.count(1):
                far.app.tool(name=f"tool{number}")(lambda: "x")
                if told >= 10:
                    break
                await asyncio.sleep(0.01)
    finally:
        await kept.end()
    assert read == [LISTED, ["tools"]], "at once, and then no more for 1000 seconds"
