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
CLIP = "%3CclipPath id='c'%3E%3Cpath/%3E%3C/clipPath%3E"
#: A large picture behind the frame header of a small one, which is in a comment and ends in the large one's header.
HIDDEN = b"\xff\xd8\xff\xfe\x00\x10" + b"\xff\xc0\x00\x11\x08\x00\x10\x00\x10\x03\x01\xff\xc0\x00"
HIDDEN += b"\xff\xc0\x00\x11\x08\xff\xff\xff\xff\x03"


@pytest.mark.parametrize(
    ("src", "mime_type"),
    [
        (f"data:image/png;base64,{PNG}", "image/png"),
        (f"DATA:image/jpg;base64,{JPEG}", "image/jpeg"),
        (f"data:text/html;base64,{PNG}", "image/png"),
        (f"data:image/svg+xml,{SVG}", "image/svg+xml"),
        (f"data:,%3Csvg%3E{CLIP}%3C/svg%3E", "image/svg+xml"),
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
        f"data:image/jpeg;base64,{b64encode(HIDDEN).decode()}",
        "data:image/svg+xml,%3Csvg%3E%3Cg id='a'%3E%3Cuse href='%23b'/%3E%3Cuse href='%23b'/%3E%3C/g%3E%3C/svg%3E",
        f"data:,%3Csvg%3E{CLIP * 3}%3C/svg%3E",
        "data:,%3Csvg%3E%3Cx:use y:href='%23b'/%3E%3C/svg%3E",
        "data:,%3C?xml version='1.0'?%3E%3C!DOCTYPE svg [%3C!ENTITY a 'a'%3E]%3E%3Csvg%3E%26a;%3C/svg%3E",
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
