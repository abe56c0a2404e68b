"""The screen shared by ``carrel serve``, read by the official Python client and the Inspector."""

from __future__ import annotations

import asyncio
import base64
import io
from collections.abc import Iterator
from typing import Any

import pytest
from PIL import Image

from carrel import Client, Server, sources
from interop.test_inspector import read_each
from support.carrel_process import command
from support.displays import Display, display
from support.http_server import over_http
from support.sdk_session import sdk_session

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def shown() -> Iterator[Display]:
    with display() as opened:
        opened.fill(opened.root, 0x204060, (0, 0, 320, 240))
        yield opened


def corner(contents: dict[str, Any]) -> object:
    assert contents["mimeType"] == "image/png"
    return Image.open(io.BytesIO(base64.b64decode(contents["blob"]))).getpixel((0, 0))


def test_the_official_client_sees_displays_and_windows_over_stdio(
    shown: Display, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DISPLAY", f":{shown.number}")
    for name in ("WAYLAND_DISPLAY", "XDG_SESSION_TYPE"):
        monkeypatch.delenv(name, raising=False)
    window = shown.window("Shop", 0xFFFFFF, (200, 100, 40, 30))
    targets = ("screen:", f"screen::{shown.number}", "screen://localhost/windows")
    with sdk_session(*command("serve", *targets, "--min-interval", "0.5")) as session:
        listed = {one["uri"]: one for one in session.call("list_resources")["resources"]}
        assert f"screen://localhost:{shown.number}/display/0" in listed
        assert listed[f"screen://localhost/windows/{window:#x}"]["name"] == "Shop"
        [found] = session.call("read_resource", "screen://localhost/display")["contents"]
        assert corner(found) == (0x20, 0x40, 0x60)
        [found] = session.call("read_resource", f"screen://localhost/windows/{window:#x}?width=8")["contents"]
        assert corner(found) == (255, 255, 255)
    shown.destroy(window)


def test_the_official_client_over_http_and_the_inspector_see_a_display(shown: Display) -> None:
    app = Server("screen")
    uri = f"screen://localhost:{shown.number}/display"
    app.add_provider(sources.open(uri))
    with over_http(app) as origin:
        with sdk_session(f"{origin}/mcp") as session:
            [found] = session.call("read_resource", f"{uri}/0?width=10")["contents"]
            assert corner(found) == (0x20, 0x40, 0x60)
            templates = [one["uriTemplate"] for one in session.call("list_resource_templates")["resourceTemplates"]]
            assert templates == [f"{uri}{{/monitor}}{{?width,format}}"]
        stdio = command("serve", uri)
        for contents in read_each([([f"{origin}/mcp"], uri), (stdio, uri)]):
            assert corner(contents) == (0x20, 0x40, 0x60)


async def test_a_subscriber_over_http_is_notified_when_pixels_change(shown: Display) -> None:
    app = Server("screen")
    uri = f"screen://localhost:{shown.number}/display"
    app.add_provider(sources.open(uri, min_interval=0.05, poll_seconds=0.05))
    with over_http(app) as origin:
        async with Client(f"{origin}/mcp") as client:
            await client.read_resource(uri)
            async with client.watch(uri) as changes:
                shown.fill(shown.root, 0x102030, (0, 0, 320, 240))
                async with asyncio.timeout(60):
                    change = await anext(aiter(changes))
    shown.fill(shown.root, 0x204060, (0, 0, 320, 240))
    assert change.uri == uri
