"""Starting and stopping: hooks, lifespans, sources, and doing it again."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from carrel import Context, Server
from carrel.catalog.provider import Events, Interest, Provider
from carrel.errors import ConfigError, SourceUnavailable
from carrel.server import lifecycle
from carrel.transports import memory
from support.memory_client import JUNE, call, listed, read
from support.numbered_provider import Numbers


class Noted(Numbers):
    """A source that notes when it starts and stops."""

    def __init__(self, name: str, notes: list[str], fails: bool = False) -> None:
        super().__init__(name, 2)
        self.notes = notes
        self.fails = fails

    async def start(self, events: Events) -> None:
        self.notes.append(f"{self.name} starts")
        if self.fails:
            raise OSError("no such disk")

    async def stop(self) -> None:
        self.notes.append(f"{self.name} stops")


async def test_everything_starts_in_order_and_stops_in_the_opposite_one() -> None:
    notes: list[str] = []

    @asynccontextmanager
    async def lifespan(app: Server) -> AsyncIterator[dict[str, str]]:
        notes.append(f"{app.name} opens")
        yield {"database": "open"}
        notes.append(f"{app.name} closes")

    app = Server("s", lifespan=lifespan)

    @app.on_startup
    async def first() -> None:
        notes.append("async hook")

    @app.on_startup
    def second() -> None:
        notes.append(f"sync hook, {app.state}")

    @app.on_shutdown
    async def third() -> None:
        notes.append("shutdown 1")

    @app.on_shutdown
    def fourth() -> None:
        notes.append("shutdown 2")

    app.add_provider(Noted("a", notes))
    app.add_provider(Noted("b", notes))

    @app.tool()
    async def state(context: Context) -> Any:
        return context.state

    async with memory.connect(app) as peer:
        assert (await call(peer, "state"))["structuredContent"] == {"database": "open"}
        notes.append("serving")
    assert notes == [
        "s opens",
        "async hook",
        "sync hook, {'database': 'open'}",
        "a starts",
        "b starts",
        "serving",
        "b stops",
        "a stops",
        "shutdown 2",
        "shutdown 1",
        "s closes",
    ]


async def test_a_server_may_run_again() -> None:
    notes: list[str] = []
    app = Server("s")
    app.add_provider(Noted("a", notes))
    for _ in range(3):
        async with memory.connect(app, JUNE) as peer:
            assert [item["uri"] for item in await listed(peer)] == ["a:0", "a:1"]
            assert len(await listed(peer, "resourceTemplates")) == 1
            assert (await read(peer, "a:1"))[0]["text"] == "a:1"
    assert notes == ["a starts", "a stops"] * 3


async def test_a_server_starts_once_for_several_transports_and_stops_with_the_last() -> None:
    notes: list[str] = []
    app = Server("s")
    app.on_startup(lambda: notes.append("starts"))
    app.on_shutdown(lambda: notes.append("stops"))
    await asyncio.gather(app.endpoint.start(), app.endpoint.start())
    await app.endpoint.stop()
    assert notes == ["starts"]
    await app.endpoint.stop()
    assert notes == ["starts", "stops"]


async def test_a_server_runs_in_one_event_loop() -> None:
    app = Server("s")
    async with memory.connect(app):
        with pytest.raises(ConfigError, match="another event loop"):
            await asyncio.to_thread(asyncio.run, app.endpoint.start())


@pytest.mark.parametrize("where", ["lifespan", "hook", "provider"])
async def test_a_failing_start_stops_what_has_started(where: str) -> None:
    notes: list[str] = []

    @asynccontextmanager
    async def lifespan(app: Server) -> AsyncIterator[None]:
        if where == "lifespan":
            raise OSError("no such disk")
        notes.append("opens")
        try:
            yield
        finally:
            notes.append("closes")

    app = Server("s", lifespan=lifespan)

    @app.on_startup
    async def hook() -> None:
        if where == "hook":
            raise OSError("no such disk")

    @app.on_shutdown
    def last() -> None:
        notes.append("shutdown")

    app.add_provider(Noted("a", notes))
    app.add_provider(Noted("b", notes, fails=where == "provider"))
    with pytest.raises(OSError, match="no such disk"):
        async with memory.connect(app):
            pytest.fail("it must not start")
    expected = {
        "lifespan": [],
        "hook": ["opens", "closes"],
        "provider": ["opens", "a starts", "b starts", "a stops", "shutdown", "closes"],
    }
    assert notes == expected[where]
    assert len(app.endpoint.catalog.providers) == 1
    with pytest.raises(OSError, match="no such disk"):  # and it may be tried again
        await app.endpoint.start()


async def test_an_optional_provider_that_cannot_be_started_is_left_out_with_a_warning(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lifecycle, "PAUSES", (3600.0, 3600.0))
    notes: list[str] = []
    app = Server("s")
    app.add_provider(Noted("a", notes, fails=True), optional=True)
    app.add_provider(Noted("b", notes), optional=True)
    async with memory.connect(app):
        assert [provider.name for provider in app.endpoint.catalog.providers] == ["", "b"]
        await app.add_provider(Noted("c", notes, fails=True), optional=True)
    assert notes == ["a starts", "b starts", "c starts", "b stops"]
    warnings = [record.getMessage() for record in caplog.records]
    assert warnings == [f"{name} is left out until it can be reached: no such disk" for name in ("a", "c")]


async def test_an_optional_provider_is_started_again_until_it_can_be_or_is_wrongly_configured(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(lifecycle, "PAUSES", (0.001, 0.001))
    failures = {
        "a": [OSError("no such disk"), SourceUnavailable("not there"), None],
        "b": [SourceUnavailable("not there"), ConfigError("a wrong option")],
    }
    ended: dict[str, asyncio.Event] = {name: asyncio.Event() for name in failures}

    class Late(Provider):
        def __init__(self, name: str) -> None:
            self.name = name

        async def start(self, events: Events) -> None:
            failure = failures[self.name].pop(0)
            if not failures[self.name]:
                ended[self.name].set()
            if failure is not None:
                raise failure

    app = Server("s")
    for name in failures:
        app.add_provider(Late(name), optional=True)
    async with memory.connect(app), asyncio.timeout(60):
        for event in ended.values():
            await event.wait()
        while len(app.endpoint.catalog.providers) < 2 or "a wrong option" not in caplog.text:
            await asyncio.sleep(0.001)
        assert [provider.name for provider in app.endpoint.catalog.providers] == ["", "a"]
    assert caplog.text.count("until it can be reached") == 2


async def test_a_provider_that_takes_over_one_that_is_not_optional_is_not_optional_either() -> None:
    class Joining(Noted):
        def join(self, other: object) -> bool:
            return isinstance(other, Joining)

    notes: list[str] = []
    app = Server("s")
    app.add_provider(Joining("a", notes, fails=True), optional=True)
    app.add_provider(Joining("b", notes))
    with pytest.raises(OSError, match="no such disk"):
        async with memory.connect(app):
            pytest.fail("it must not start")


async def test_a_failing_shutdown_hook_does_not_stop_the_others() -> None:
    notes: list[str] = []
    app = Server("s")
    app.add_provider(Noted("a", notes))

    @app.on_shutdown
    def last() -> None:
        notes.append("shutdown 1")

    @app.on_shutdown
    def broken() -> None:
        raise OSError("cannot write")

    with pytest.raises(OSError, match="cannot write"):
        async with memory.connect(app):
            pass
    assert notes == ["a starts", "a stops", "shutdown 1"]
    assert len(app.endpoint.catalog.providers) == 1


async def test_stopping_what_does_not_run_does_nothing() -> None:
    app = Server("s")
    await app.endpoint.stop()
    app.endpoint.end_streams()
    async with memory.connect(app):
        pass
    await app.endpoint.stop()


async def test_watches_on_providers_end_with_the_server() -> None:
    class Watched(Numbers):
        def __init__(self) -> None:
            super().__init__("w", 1)
            self.watching = asyncio.Event()
            self.ended = asyncio.Event()

        async def watch(self, interest: Interest) -> AsyncIterator[Any]:
            self.watching.set()
            try:
                await asyncio.Event().wait()
                yield []
            finally:
                self.ended.set()

    source = Watched()
    app = Server("s")
    app.add_provider(source)
    async with memory.connect(app):
        await asyncio.wait_for(source.watching.wait(), 60)
    assert source.ended.is_set()
    assert app.endpoint.watches._watches == {}


async def test_a_server_that_tells_no_changes_watches_nothing() -> None:
    app = Server("s", subscribe=False, list_changed=False)
    app.add_provider(Numbers("a", 1))
    async with memory.connect(app):
        assert app.endpoint.watches._watches == {}


def test_a_server_serves_on_transports_that_there_are() -> None:
    with pytest.raises(ConfigError, match="'stdio', 'http'"):
        Server("s").run("carrier pigeon")  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="stdio takes no options but log_level: port"):
        Server("s").run("stdio", port=8000)


@pytest.mark.parametrize(
    "arguments",
    [
        {"name": ""},
        {"name": "s", "ttl": -1},
        {"name": "s", "scope": "all"},
        {"name": "s", "page_size": 0},
        {"name": "s", "icons": ["ftp://x"]},
    ],
)
def test_a_server_that_makes_no_sense_is_refused(arguments: dict[str, Any]) -> None:
    with pytest.raises(ConfigError):
        Server(**arguments)
