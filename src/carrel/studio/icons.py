"""Icons of servers and entries, as the page shows them: pictures inside of messages, never loaded from elsewhere.

https://modelcontextprotocol.io/specification/2025-11-25/basic/index#icons
"""

from __future__ import annotations

import re
from base64 import b64decode, b64encode
from binascii import Error
from collections.abc import Iterable, Sequence
from functools import lru_cache
from struct import unpack
from urllib.parse import unquote_to_bytes

from carrel.wire.base import Icon

__all__ = ["icon_of"]

#: Characters of the URI of an icon at most: a window of a list has many icons.
MAX_CHARS = 8192
#: Pixels of a side at most: a small file can have a picture that fills the memory of the browser.
MAX_SIDE = 1024
#: Frame header of a JPEG picture, with its height and width. Headers in other segments are found too.
FRAME = re.compile(rb"\xff[\xc0-\xc3\xc5-\xc7\xc9-\xcb\xcd-\xcf](?=...(....))", re.DOTALL)
#: Elements of a vector graphic that repeat others, level by level: a short one can keep the browser busy for hours.
REPEATING = re.compile(
    rb"<!DOCTYPE|<(?:[\w.-]+:)?(?:use|pattern|marker|filter|mask|image|foreignObject)\b", re.IGNORECASE
)
CLIP = re.compile(rb"<(?:[\w.-]+:)?clipPath\b", re.IGNORECASE)
#: Clip paths at most, for the same reason.
MAX_CLIPS = 2


def icon_of(icons: Iterable[Icon] | None) -> str | None:
    """Return the first icon that can be shown, as a data URI, or None. An icon for all themes comes before others.

    Icons with another scheme than ``data:`` are left out: loading them would tell their host about the user.
    """
    for icon in sorted(icons or (), key=lambda each: each.theme is not None):
        found = _checked(icon.src)
        if found is not None:
            return found
    return None


@lru_cache(1024)
def _checked(src: str) -> str | None:
    """Return a data URI again with the MIME type of its contents, or None if it is not a picture."""
    head, comma, data = src.partition(",")
    if not comma or len(src) > MAX_CHARS or head[:5].lower() != "data:":
        return None
    try:
        raw = unquote_to_bytes(data)
        picture = b64decode(raw, validate=True) if head.lower().endswith(";base64") else raw
    except Error:
        return None
    mime_type, sides = _format_of(picture)
    if mime_type is None or max(sides) > MAX_SIDE:
        return None
    return f"data:{mime_type};base64,{b64encode(picture).decode()}"


def _format_of(picture: bytes) -> tuple[str | None, Sequence[int]]:
    """Return the MIME type of a picture by its first bytes, and its sides in pixels. The declared type is not trusted.

    A vector graphic, which runs no script as a picture, has the size at which it is shown.
    """
    if picture.startswith(b"\x89PNG\r\n\x1a\n") and len(picture) >= 24:
        return "image/png", unpack(">II", picture[16:24])
    if picture.startswith(b"\xff\xd8"):
        sides = [side for frame in FRAME.finditer(picture) for side in unpack(">HH", frame[1])]
        return ("image/jpeg", sides) if sides else (None, ())
    if picture.lstrip().startswith((b"<svg", b"<?xml")):
        repeats = REPEATING.search(picture) is not None or len(CLIP.findall(picture)) > MAX_CLIPS
        return (None, ()) if repeats else ("image/svg+xml", (0,))
    return None, ()
