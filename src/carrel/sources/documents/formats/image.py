"""Images: size, format and EXIF, from their headers, by Pillow. Pixels are never decoded."""

from __future__ import annotations

import io
import warnings
from typing import Any

from carrel.sources.documents.formats.document import DocumentFailed, OpenDocument, cell

__all__ = ["open_document"]

FORMATS = ("AVIF", "BMP", "GIF", "JPEG", "PNG", "TIFF", "WEBP")
MAX_VALUE = 200
EXIF_IFD, GPS_IFD = 0x8769, 0x8825
#: EXIF tags: directory, number, and name in the facts.
TAGS = (
    (EXIF_IFD, 0x9003, "date"),  # DateTimeOriginal
    (0, 0x0132, "date"),  # DateTime
    (0, 0x010F, "make"),
    (0, 0x0110, "model"),
    (EXIF_IFD, 0xA434, "lens"),
    (0, 0x010E, "description"),
    (0, 0x013B, "artist"),
    (0, 0x8298, "copyright"),
)
ORIENTATION = 0x0112
SIDEWAYS = (5, 6, 7, 8)


def open_document(data: bytes, format: str, *, locations: bool) -> OpenDocument:
    """Open an image. Its facts have ``width``, ``height`` (in pixels), ``format``, and facts from its EXIF.

    Raises:
        DocumentFailed: it is damaged.
    """
    from PIL import Image, UnidentifiedImageError

    Image.MAX_IMAGE_PIXELS = None  # the limit matters only for decoding
    try:
        with warnings.catch_warnings(), Image.open(io.BytesIO(data), formats=FORMATS) as image:
            warnings.simplefilter("ignore")
            facts: dict[str, str | int | float] = {
                "format": "JPEG" if image.format == "MPO" else image.format or "",
                "width": image.width,
                "height": image.height,
                "mode": image.mode,
            }
            frames = getattr(image, "n_frames", 1) if image.format in ("GIF", "WEBP", "AVIF") else 1
            if frames > 1:
                facts["frames"] = frames
            facts |= exif_of(image, locations)
            if image.format == "TIFF" and facts.get("orientation", 1) in SIDEWAYS:
                facts["width"], facts["height"] = image.height, image.width  # Pillow has turned it, here only
    except (UnidentifiedImageError, OSError, ValueError, SyntaxError, Image.DecompressionBombError):
        raise DocumentFailed("damaged") from None
    return OpenDocument(1, lambda _: shown(facts), facts)


def exif_of(image: Any, locations: bool) -> dict[str, str | int | float]:
    """Return the EXIF facts of an image. The result is empty if the EXIF is missing or damaged."""
    found: dict[str, str | int | float] = {}
    if image.format == "PNG" and "exif" not in image.info:
        return found  # Pillow would decode the pixels, to look after them
    try:
        exif = image.getexif()
        directories = {0: exif, EXIF_IFD: exif.get_ifd(EXIF_IFD)}
        for directory, tag, name in TAGS:
            value = directories[directory].get(tag)
            if isinstance(value, str) and name not in found and (text := plain(value)):
                found[name] = dated(text) if name == "date" else text
        orientation = exif.get(ORIENTATION)
        if isinstance(orientation, int) and 1 <= orientation <= 8:
            found["orientation"] = orientation
        if locations:
            found |= location_of(exif.get_ifd(GPS_IFD))
    except Exception:  # noqa: S110  (an image with invalid EXIF is still an image)
        pass
    return found


def plain(value: str) -> str:
    return cell("".join(letter if letter.isprintable() else " " for letter in value))[:MAX_VALUE]


def dated(value: str) -> str:
    """Return a date as in ISO 8601: EXIF has ``2026:11:22 10:00:00``, without a time zone."""
    date, _, time = value.partition(" ")
    return f"{date.replace(':', '-')}T{time}" if date.count(":") == 2 and time else value


def location_of(gps: dict[int, Any]) -> dict[str, float]:
    """Return the latitude and longitude in degrees."""

    def degrees(tag: int, negative: str) -> float:
        whole, minutes, seconds = (float(part) for part in gps[tag + 1])
        value = whole + minutes / 60 + seconds / 3600
        return round(-value if gps.get(tag) == negative else value, 6)

    return {"latitude": degrees(1, "S"), "longitude": degrees(3, "W")} if 2 in gps and 4 in gps else {}


def shown(facts: dict[str, str | int | float]) -> str:
    """Return facts as Markdown."""
    lines = [f"{facts['format']} image, {facts['width']} × {facts['height']} pixels", ""]
    lines += [f"- {name}: {value}" for name, value in facts.items() if name not in ("format", "width", "height")]
    return "\n".join(lines) + "\n"
