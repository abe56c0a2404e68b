"""Pictures of real X displays: their pixels, when they are taken, and what happens when there is nothing to see."""

from __future__ import annotations

import asyncio
import io
import logging
import os
import threading
from collections.abc import Iterator
from typing import Any

import pytest
from PIL import Image

from carrel import sources
from carrel.awaitables import resolved
from carrel.catalog.provider import Provider, Request
from carrel.errors import ConfigError, InvalidParams, ProviderUnavailable, ResourceNotFound
from carrel.sources.screen.desktop import Area, DesktopUnavailable
from carrel.sources.screen.picture import PictureFormat, encode
from carrel.sources.screen.x11 import X11Desktop
from carrel.testing.caller import Caller, Listener, running
from support.displays import HEIGHT, WIDTH, Display, display, need_libraries_of_mss

pytestmark = pytest.mark.slow

RED, GREEN, BLUE = 0xFF0000, 0x00C800, 0x0000FF
HOUR = 3600.0


@pytest.fixture(scope="module")
def shown() -> Iterator[Display]:
    """Return a display whose left half is red, and whose right half is blue with a green square."""
    with display() as opened:
        opened.fill(opened.root, RED, (0, 0, 160, HEIGHT))
        opened.fill(opened.root, BLUE, (160, 0, 160, HEIGHT))
        opened.fill(opened.root, GREEN, (200, 100, 40, 40))
        opened.monitor("Left", (0, 0, 160, HEIGHT))
        opened.monitor("Right", (160, 0, 160, HEIGHT))
        yield opened


def source(shown: Display, path: str = "display", **options: Any) -> Provider:
    return sources.open(f"screen://localhost:{shown.number}/{path}", **{"poll_seconds": 0.05, **options})


async def picture(provider: Provider, uri: str) -> Any:
    [contents] = await Caller(provider).read_resource(uri)
    image = Image.open(io.BytesIO(contents.blob))
    assert contents.mime_type == f"image/{str(image.format).lower()}"
    assert contents.meta["carrel/pixels"] == list(image.size)
    image.load()
    return image


async def taken(provider: Provider, uri: str) -> str:
    [contents] = await Caller(provider).read_resource(uri)
    return str(contents.meta["carrel/captured"])


# Pixels


async def test_a_display_and_its_monitors_are_shown_pixel_by_pixel(shown: Display) -> None:
    async with running(source(shown)) as provider:
        whole = await picture(provider, provider.name)
        assert whole.size == (WIDTH, HEIGHT)
        for place, colour in {
            (0, 0): (255, 0, 0),
            (159, 239): (255, 0, 0),
            (160, 0): (0, 0, 255),
            (199, 100): (0, 0, 255),
            (200, 100): (0, 200, 0),
            (239, 139): (0, 200, 0),
            (240, 139): (0, 0, 255),
        }.items():
            assert whole.getpixel(place) == colour, place
        names = {one.title: one for one in await Caller(provider).resources()}
        assert names["Display"].meta == {"carrel/pixels": [WIDTH, HEIGHT]}
        assert names["Monitor Right"].description == "160 × 240 pixels at 160, 0"
        right = await picture(provider, names["Monitor Right"].uri)
        assert right.size == (160, HEIGHT)
        assert [right.getpixel(place) for place in ((0, 0), (40, 100))] == [(0, 0, 255), (0, 200, 0)]


async def test_pictures_are_scaled_down_but_never_up_and_may_be_webp(shown: Display) -> None:
    async with running(source(shown)) as provider:
        small = await picture(provider, f"{provider.name}?width=32")
        assert (small.format, small.size) == ("PNG", (32, 24))
        assert (small.getpixel((2, 2)), small.getpixel((29, 2))) == ((255, 0, 0), (0, 0, 255))
        assert (await picture(provider, f"{provider.name}?width=9999")).size == (WIDTH, HEIGHT)
        webp = await picture(provider, f"{provider.name}?format=webp&width=64")
        assert (webp.format, webp.size) == ("WEBP", (64, 48))
        red, _, blue = webp.convert("RGB").getpixel((5, 5))
        assert red > 200 > 60 > blue
    async with running(source(shown, image_format="webp", max_width=100)) as provider:
        assert [one.mime_type for one in await Caller(provider).resources()] == ["image/webp"] * 4
        assert (await picture(provider, provider.name)).size == (100, 75)


async def test_one_monitor_alone_may_be_shared(shown: Display) -> None:
    async with running(source(shown, "display/1")) as provider:
        assert [one.uri for one in await Caller(provider).resources()] == [provider.name]
        assert (await picture(provider, provider.name)).getpixel((0, 0)) == (0, 0, 255)
        for other in ("display", "display/0", "display/10"):
            with pytest.raises(ResourceNotFound):
                await Caller(provider).read_resource(f"screen://localhost:{shown.number}/{other}")


async def test_the_display_of_the_environment_is_localhost(shown: Display, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DISPLAY", f":{shown.number}")
    monkeypatch.delenv("WAYLAND_DISPLAY", raising=False)
    monkeypatch.delenv("XDG_SESSION_TYPE", raising=False)
    for target in ("screen:", "screen://localhost/display", "screen://localhost", "SCREEN:///display/"):
        async with running(sources.open(target)) as provider:
            assert (await picture(provider, "screen://localhost/display")).getpixel((0, 0)) == (255, 0, 0)


def test_the_desktop_of_other_platforms_is_that_of_mss(shown: Display, monkeypatch: pytest.MonkeyPatch) -> None:
    need_libraries_of_mss()
    from carrel.sources.screen.native import NativeDesktop

    monkeypatch.setenv("DISPLAY", f":{shown.number}")
    desktop = NativeDesktop()
    whole, monitors = desktop.monitors()
    assert (whole, len(monitors)) == (Area("", 0, 0, WIDTH, HEIGHT), 3)
    right = next(one for one in monitors if one.left == 160)
    pixels = desktop.grab(right)
    assert pixels == X11Desktop(f":{shown.number}").grab(right)
    assert encode(pixels, PictureFormat("png", None))[1:] == ("image/png", 160, HEIGHT)
    with pytest.raises(ConfigError, match="under X11 only"):
        desktop.windows()
    monkeypatch.setenv("DISPLAY", ":59999")
    for ask in (desktop.monitors, lambda: desktop.grab(right)):
        with pytest.raises(DesktopUnavailable):
            ask()


async def test_three_displays_are_shared_at_once(shown: Display) -> None:
    with display() as second, display() as third:
        for one, colour in ((second, GREEN), (third, 0x123456)):
            one.fill(one.root, colour, (0, 0, WIDTH, HEIGHT))
        found = []
        for one in (shown, second, third):
            async with running(source(one)) as provider:
                found.append((await picture(provider, provider.name)).getpixel((0, 0)))
        assert found == [(255, 0, 0), (0, 200, 0), (0x12, 0x34, 0x56)]


# Windows


async def test_windows_of_a_window_manager_are_shared_with_their_titles_and_pixels(shown: Display) -> None:
    note = shown.window("Notes\x1b[31m", GREEN, (10, 20, 60, 50))
    other, menu = shown.window("Other", BLUE, (100, 20, 30, 30)), shown.window("Menu", RED, (140, 20, 5, 5))
    shown.manage(note, other)
    shown.fill(note, RED, (0, 0, 10, 10))
    async with running(source(shown, "windows", min_interval=1e-6)) as provider:
        uri = f"{provider.name}/{note:#x}"
        try:
            folder, *listed = await Caller(provider).resources()
            assert folder.uri == provider.name
            assert {(one.uri, one.name) for one in listed} == {
                (uri, "Notes\\x1b[31m"),
                (f"{provider.name}/{other:#x}", "Other"),
            }
            taken = await picture(provider, uri)
            assert taken.size == (60, 50)
            assert (taken.getpixel((9, 9)), taken.getpixel((10, 10))) == ((255, 0, 0), (0, 200, 0))
            for refused in (menu, shown.root):
                with pytest.raises(ResourceNotFound):
                    await Caller(provider).read_resource(f"{provider.name}/{refused:#x}")
            shown.hide(note)
            with pytest.raises(ResourceNotFound):
                await Caller(provider).read_resource(f"{uri}?width=10")
        finally:
            for window in (note, other, menu):
                shown.destroy(window)
            shown.manage()
        assert await Caller(provider).directory(provider.name) == []


async def test_of_a_window_that_sticks_out_the_part_on_the_display_is_shown(shown: Display) -> None:
    window = shown.window("out", GREEN, (-20, 200, 50, 100))
    shown.manage(window)
    async with running(source(shown, "windows")) as provider:
        try:
            taken = await picture(provider, f"{provider.name}/{window:#x}")
            assert taken.size == (30, 40)
            assert taken.getpixel((29, 39)) == (0, 200, 0)
        finally:
            shown.destroy(window)
            shown.manage()


# When pictures are taken


async def test_a_timer_that_does_not_know_its_time_is_enough(shown: Display, monkeypatch: pytest.MonkeyPatch) -> None:
    loop = asyncio.get_running_loop()
    later = loop.call_at

    def call_at(when: float, callback: Any, *arguments: Any) -> asyncio.Handle:
        """Do as uvloop does: return a handle that is no timer for a time that is now."""
        soon = when < loop.time() + 1
        return loop.call_soon(callback, *arguments) if soon else later(when, callback, *arguments)

    monkeypatch.setattr(loop, "call_at", call_at)
    async with running(source(shown, min_interval=1e-6)) as provider:
        result = await resolved(provider.read_resource(provider.name, Request()))
        assert result.ttl_ms == 0


async def test_a_picture_within_the_interval_is_answered_again_with_its_time(
    shown: Display, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "carrel.sources")
    async with running(source(shown, min_interval=HOUR)) as provider:
        await Caller(provider).resources()
        await Caller(provider).search("display")
        assert "picture" not in caplog.text  # nothing is taken before it is read
        first, *others = await asyncio.gather(*(taken(provider, provider.name) for _ in range(5)))
        shown.fill(shown.root, GREEN, (0, 0, 5, 5))
        try:
            assert {first, await taken(provider, f"{provider.name}?width=50")} == {first, *others}
            assert (await picture(provider, provider.name)).getpixel((0, 0)) == (255, 0, 0)
        finally:
            shown.fill(shown.root, RED, (0, 0, 5, 5))
        assert caplog.text.count("picture taken") == 1
        assert caplog.text.count("a client reads pictures of this screen") == 1


async def test_a_client_whose_threads_are_busy_keeps_no_other_from_its_picture(shown: Display) -> None:
    busy = threading.Event()
    async with running(source(shown)) as provider:
        camera = provider._camera  # type: ignore[attr-defined]
        work = [asyncio.create_task(camera.run("greedy", busy.wait)) for _ in range(20)]
        try:
            await asyncio.sleep(0)  # their turn is first
            shots = [camera.shot(f"{provider.name}{end}", client) for end, client in (("", "greedy"), ("/0", "other"))]
            assert all(await asyncio.gather(*shots))
        finally:
            busy.set()
            await asyncio.gather(*work)


async def test_a_picture_is_forgotten_when_the_next_may_be_taken(shown: Display) -> None:
    async with running(source(shown, min_interval=0.01)) as provider:
        first = await taken(provider, provider.name)
        while await taken(provider, provider.name) == first:
            await asyncio.sleep(0.005)


async def test_a_display_is_read_under_the_uri_of_an_alias_or_with_its_number(shown: Display) -> None:
    async with running(source(shown, alias="localhost/display1")) as provider:
        assert provider.name == "screen://localhost/display1"
        assert (await picture(provider, "screen://localhost/display1?width=64")).size[0] == 64
    async with running(source(shown, "display1")) as provider:
        uri = f"screen://localhost:{shown.number}/display1"
        assert [item.uri for item in await Caller(provider).resources()] == [uri]
        assert await picture(provider, uri)


async def test_subscribers_hear_of_pixels_that_change_and_then_read_them(
    shown: Display, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "carrel.sources")
    async with running(source(shown, min_interval=0.01)) as provider, Listener(provider) as listener:
        uri = f"{provider.name}?width=320"
        assert "picture" not in caplog.text  # watched, but nobody has subscribed
        assert (await picture(provider, uri)).getpixel((0, 0)) == (255, 0, 0)
        shown.fill(shown.root, GREEN, (0, 0, 5, 5))
        try:
            await listener.hear(uri, "changed")
            assert (await picture(provider, uri)).getpixel((0, 0)) == (0, 200, 0)
        finally:
            shown.fill(shown.root, RED, (0, 0, 5, 5))
        await listener.hear(uri, "changed")


# What cannot be shown


async def test_a_display_that_has_gone_is_an_error_that_says_so(caplog: pytest.LogCaptureFixture) -> None:
    # A number that no other test gets when the display has gone.
    with display(number=10_000 + os.getpid() % 40_000) as shown:
        async with running(source(shown, min_interval=1e-6)) as provider:
            await picture(provider, provider.name)
            shown.end()
            for ask in (Caller(provider).resources, lambda: Caller(provider).read_resource(provider.name)):
                with pytest.raises(ProviderUnavailable, match=f"^The display of {provider.name} is not available$"):
                    await ask()
            assert f"the X display :{shown.number}" in caplog.text
        with pytest.raises(ConfigError, match=f"the X display :{shown.number}"):
            async with running(source(shown)):
                pass


async def test_a_display_that_does_not_answer_is_an_error_in_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    with display() as shown:
        provider = source(shown)
        await provider.start(None)  # type: ignore[arg-type]
        monkeypatch.setattr("carrel.sources.screen.camera.PATIENCE", 0.2)
        shown.stall()
        try:
            with pytest.raises(ProviderUnavailable):
                await Caller(provider).read_resource(provider.name)
        finally:
            shown.go_on()
            await provider.stop()


async def test_pixels_in_a_layout_that_cannot_be_read_are_an_error(caplog: pytest.LogCaptureFixture) -> None:
    with display(depth=16) as shown:
        async with running(source(shown)) as provider:
            with pytest.raises(ProviderUnavailable):
                await Caller(provider).read_resource(provider.name)
    assert "24 bits can" in caplog.text


@pytest.mark.parametrize(
    ("environment", "message"),
    [({}, "DISPLAY is not set"), ({"WAYLAND_DISPLAY": "wayland-0", "DISPLAY": ":0"}, "under Wayland")],
)
async def test_without_an_x_display_the_error_says_what_to_do(
    environment: dict[str, str], message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("DISPLAY", "WAYLAND_DISPLAY", "XDG_SESSION_TYPE"):
        monkeypatch.delenv(name, raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(ConfigError, match=f"{message}.*screen::1"):
        async with running(sources.open("screen:")):
            pass


async def test_a_monitor_that_is_not_there_is_an_error(shown: Display) -> None:
    with pytest.raises(ConfigError, match="no such monitor"):
        async with running(source(shown, "display/9")):
            pass


@pytest.mark.parametrize(
    "target",
    [
        *("screen:1", "screen:/display", "screen://example.com/display", "screen://localhost:x/"),
        *("screen://localhost/display/x", "screen://localhost/windows/0x1", "screen://localhost/display?width=1"),
        *("screen::１", "screen://me@localhost/display", "screen:\n", "screen://localhost/display/../windows"),
    ],
)
def test_other_targets_are_errors(target: str) -> None:
    with pytest.raises(ConfigError, match="the screens of this machine are"):
        sources.open(target)


async def test_what_is_wrong_with_a_uri_is_said_before_a_picture_is_taken(
    shown: Display, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "carrel.sources")
    async with running(source(shown)) as provider:
        for query, message in (("width=0", "width=800"), ("format=gif", "png or webp"), ("zoom=2", "width and format")):
            with pytest.raises(InvalidParams, match=message):
                await Caller(provider).read_resource(f"{provider.name}?{query}")
    assert "picture taken" not in caplog.text
