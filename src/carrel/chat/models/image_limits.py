"""Limits of images: a line of text replaces each image that a vendor would reject.

Otherwise, every later request with the image would be rejected too.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from carrel.wire.content import ContentBlock, EmbeddedResource, ImageContent, TextContent
from carrel.wire.resources import BlobResourceContents

__all__ = ["image_size", "within_limits"]

PNG = b"\x89PNG\r\n\x1a\n"


def within_limits(blocks: Iterable[ContentBlock], most_bytes: int, most_pixels: int) -> list[ContentBlock]:
    """Return blocks with each image that has more bytes, or is wider or higher, replaced by a line that says so."""
    return [_replaced(block, most_bytes, most_pixels) for block in blocks]


def _replaced(block: ContentBlock, most_bytes: int, most_pixels: int) -> ContentBlock:
    if isinstance(block, ImageContent):
        data, mime_type, name = block.data, block.mime_type, "Image"
    elif isinstance(block, EmbeddedResource) and isinstance(block.resource, BlobResourceContents):
        data, mime_type, name = block.resource.blob, block.resource.mime_type or "", block.resource.uri
    else:
        return block
    if not mime_type.startswith("image/"):
        return block
    size = image_size(data)
    if len(data) > most_bytes:
        return TextContent(text=f"[{name}: {len(data)} bytes are too many; this model takes {most_bytes}]")
    if max(size or (0,)) > most_pixels:
        return TextContent(text=f"[{name}: {_times(size)} pixels are too many; this model takes {most_pixels} a side]")
    return block


def _times(size: Sequence[int] | None) -> str:
    return " x ".join(map(str, size or ()))


def image_size(data: bytes) -> tuple[int, int] | None:
    """Return the width and height of a PNG, GIF or JPEG in pixels; None for anything else."""
    if data.startswith(PNG) and len(data) >= 24:
        return int.from_bytes(data[16:20], "big"), int.from_bytes(data[20:24], "big")
    if data.startswith((b"GIF87a", b"GIF89a")) and len(data) >= 10:
        return int.from_bytes(data[6:8], "little"), int.from_bytes(data[8:10], "little")
    return _jpeg_size(data) if data.startswith(b"\xff\xd8") else None


def _jpeg_size(data: bytes) -> tuple[int, int] | None:
    """Return the size in the frame header of a JPEG, which comes after segments with their lengths."""
    offset = 2
    while offset + 9 <= len(data) and data[offset] == 0xFF:
        marker = data[offset + 1]
        if 0xC0 <= marker <= 0xCF and marker not in (0xC4, 0xC8, 0xCC):
            height, width = data[offset + 5 : offset + 7], data[offset + 7 : offset + 9]
            return int.from_bytes(width, "big"), int.from_bytes(height, "big")
        offset += 2 + int.from_bytes(data[offset + 2 : offset + 4], "big")
    return None
