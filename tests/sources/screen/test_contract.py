"""The screen source, held to the contract of all providers: monitors and windows of a display of Xvfb."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from carrel.sources.screen.options import ScreenOptions
from carrel.sources.screen.source import ScreenSource
from carrel.testing import ProviderContract
from support.contract_choice import VARIANT
from support.displays import Display, display

pytestmark = pytest.mark.slow

#: So long that no picture is taken twice in one test, as its time would differ.
OPTIONS = ScreenOptions(min_interval=3600, poll_seconds=0.05, max_size=20_000)


@pytest.fixture(scope="module")
def shown() -> Iterator[Display]:
    with display() as opened:
        for number in range(4):
            opened.monitor(f"Panel-{number}", (80 * number, 0, 80, 240))
        yield opened


class TestMonitors(ProviderContract):
    """A display with five monitors: that of Xvfb, and four that RandR has been told of."""

    ordinary = VARIANT
    shown: Display

    @pytest.fixture
    def provider(self, shown: Display) -> ScreenSource:
        self.shown = shown
        return ScreenSource(f"screen::{shown.number}", OPTIONS)

    def again(self, provider: ScreenSource) -> ScreenSource:
        return ScreenSource(f"screen://localhost:{self.shown.number}/display", OPTIONS)

    def missing(self, provider: ScreenSource) -> str:
        return f"{provider.uri}/7"

    async def unreadable(self, provider: ScreenSource) -> list[str]:
        ends = ["?width=0", "?width=x", "?width=70000", "?format=gif", "?width=1&width=2", "?x=1", "/0/0", "/-1", "/00"]
        return [provider.uri + end for end in ends]

    async def searched(self, provider: ScreenSource) -> tuple[str, str]:
        return "panel-2", f"{provider.uri}/2"

    async def completed(self, provider: ScreenSource) -> tuple[str, str, str, str]:
        return provider.uri + "{/monitor}{?width,format}", "width", "1", "1024"


class TestWindows(ProviderContract):
    """The windows of a display without a window manager."""

    shown: Display
    reports = ("created", "removed")  # test_source.py tests changes of pixels, which need a shorter interval

    @pytest.fixture
    def provider(self, shown: Display) -> Iterator[ScreenSource]:
        self.shown = shown
        opened = [shown.window(title, 0x204060, (10, 10, 40, 30)) for title in ("Notes", "Shop", "笔记", "a b", "")]
        self.first = opened[0]
        opened.append(shown.window("large", 0, (100, 50, 150, 100)))
        shown.noise(opened[-1], 150, 100)
        self.large = opened[-1]
        yield ScreenSource(f"screen://localhost:{shown.number}/windows", OPTIONS)
        for window in opened:
            shown.destroy(window)

    def again(self, provider: ScreenSource) -> ScreenSource:
        return ScreenSource(provider.uri, OPTIONS)

    async def create(self, provider: ScreenSource) -> str:
        return f"{provider.uri}/{self.shown.window('new', 0x123456, (0, 0, 20, 20)):#x}"

    async def lists_with_new(self, provider: ScreenSource) -> list[str]:
        return [provider.uri]

    async def remove(self, provider: ScreenSource, uri: str) -> None:
        self.shown.destroy(int(uri.rpartition("/")[2], 16))

    def missing(self, provider: ScreenSource) -> str:
        return f"{provider.uri}/0x7"

    async def too_large(self, provider: ScreenSource) -> str:
        return f"{provider.uri}/{self.large:#x}"

    async def container(self, provider: ScreenSource) -> str:
        return provider.uri

    async def unreadable(self, provider: ScreenSource) -> list[str]:
        ends = (f"{self.shown.root:#x}", f"{self.first}", f"{self.first:#x}?width=0", f"{self.first:#X}", "0x", "notes")
        return [f"{provider.uri}/{end}" for end in ends]

    async def searched(self, provider: ScreenSource) -> tuple[str, str]:
        return "notes", f"{provider.uri}/{self.first:#x}"

    async def completed(self, provider: ScreenSource) -> tuple[str, str, str, str]:
        return provider.uri + "/{window}{?width,format}", "window", "not", f"{self.first:#x}"
