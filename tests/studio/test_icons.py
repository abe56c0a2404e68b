"""Icons: pictures inside of messages only, of formats and sizes that are safe to show."""

from __future__ import annotations

import io
from base64 import b64encode

import pytest
from PIL import Image

from carrel.studio.icons import icon_of
from carrel.wire.base import Icon


def picture(format: str, width: int = 16, height: int = 16) -> str:
    """Return a picture in base64."""
    data = io.BytesIO()
    Image.new("1" if format == "PNG" else "L", (width, height)).save(data, format, quality=1)
    return b64encode(data.getvalue()).decode()


PNG, JPEG = picture("PNG"), picture("JPEG")
SVG = "%3Csvg xmlns=%22http://www.w3.org/2000/svg%22/%3E"


@pytest.mark.parametrize(
    ("src", "mime_type"),
    [
        (f"data:image/png;base64,{PNG}", "image/png"),
        (f"DATA:image/jpg;base64,{JPEG}", "image/jpeg"),
        (f"data:text/html;base64,{PNG}", "image/png"),
        (f"data:image/svg+xml,{SVG}", "image/svg+xml"),
    ],
)
def test_a_picture_is_shown_with_the_type_of_its_contents(src: str, mime_type: str) -> None:
    found = icon_of([Icon(src)])
    assert found is not None
    assert found.startswith(f"data:{mime_type};base64,")


@pytest.mark.parametrize(
    "src",
    [
        "https://tracker.example/icon.png",
        "javascript:alert(1)",
        "file:///etc/passwd",
        "data:image/png;base64,####",
        "data:image/png;base64",
        f"data:image/png;base64,{b64encode(b'<html>').decode()}",
        f"data:image/png;base64,{picture('PNG', 5000, 20)}",
        f"data:image/jpeg;base64,{picture('JPEG', 20, 2000)}",
        f"data:image/png;base64,{PNG}{'A' * 10_000}",
        f"data:image/jpeg;base64,{b64encode(bytes([255, 216, 255, 0])).decode()}",
        "",
    ],
)
def test_everything_else_is_left_out(src: str) -> None:
    assert icon_of([Icon(src)]) is None


def test_an_icon_for_all_themes_comes_first() -> None:
    dark, both = Icon(f"data:,{SVG}", theme="dark"), Icon(f"data:image/png;base64,{PNG}")
    assert (icon_of([dark, both]) or "").startswith("data:image/png")
    assert (icon_of([Icon("https://x/i.png"), dark]) or "").startswith("data:image/svg+xml")
    assert icon_of(None) is icon_of([]) is None
