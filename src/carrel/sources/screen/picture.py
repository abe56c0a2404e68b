"""Pictures: pixels as PNG or WebP files, scaled down."""

from __future__ import annotations

from typing import NamedTuple, get_args

from carrel.errors import InvalidParams
from carrel.sources.screen.desktop import Pixels
from carrel.sources.screen.options import ImageFormat

__all__ = ["FORMATS", "Picture", "PictureFormat", "encode", "fitting", "read_form"]

FORMATS: tuple[ImageFormat, ...] = get_args(ImageFormat)
MAX_WIDTH = 65_535
#: zlib's level: 6 makes files 10 % smaller in twice the time.
PNG_LEVEL = 3
WEBP_QUALITY = 80


class PictureFormat(NamedTuple):
    """Form of a picture: its format, and the most pixels across; None for as many as there are."""

    format: ImageFormat
    width: int | None


class Picture(NamedTuple):
    """Encoded picture, with its MIME type and its size in pixels."""

    data: bytes
    mime_type: str
    width: int
    height: int


def read_form(query: str, default: PictureFormat) -> PictureFormat:
    """Parse the query of a URI, ``width=800&format=webp``.

    Raises:
        InvalidParams: it has something else in it.
    """
    form, seen = default, set[str]()
    for part in query.split("&") if query else ():
        name, _, value = part.partition("=")
        if name in seen:
            raise InvalidParams(f"Invalid params: uri: {name} is there twice", parameter="uri")
        seen.add(name)
        if name == "width":
            if not (value.isascii() and value.isdigit() and len(value) < 6 and 0 < int(value) <= MAX_WIDTH):
                raise InvalidParams(
                    f"Invalid params: uri: width is a number of pixels, 1 to {MAX_WIDTH}, as in ?width=800",
                    parameter="uri",
                )
            form = form._replace(width=int(value))
        elif name == "format":
            found = [one for one in FORMATS if one == value]
            if not found:
                raise InvalidParams(f"Invalid params: uri: format is {' or '.join(FORMATS)}", parameter="uri")
            form = form._replace(format=found[0])
        else:
            raise InvalidParams(
                "Invalid params: uri: a picture has width and format, as in ?width=800&format=webp", parameter="uri"
            )
    return form


def encode(pixels: Pixels, form: PictureFormat) -> Picture:
    """Return pixels as a picture, never larger than they are."""
    from io import BytesIO

    from PIL import Image

    image = Image.frombuffer("RGB", pixels[:2], pixels.data, "raw", "BGRX", 0, 1)
    if form.width is not None and form.width < image.width:
        height = max(1, round(image.height * form.width / image.width))
        image = image.resize((form.width, height), Image.Resampling.LANCZOS, reducing_gap=2.0)
    file = BytesIO()
    if form.format == "png":
        image.save(file, "PNG", compress_level=PNG_LEVEL)
    else:
        image.save(file, "WEBP", quality=WEBP_QUALITY)
    return Picture(file.getvalue(), f"image/{form.format}", *image.size)


def fitting(pixels: Pixels, form: PictureFormat, limit: int) -> int | None:
    """Return a width at which the picture has at most ``limit`` bytes; None if even a one-pixel picture has more."""
    width = min(form.width or pixels.width, pixels.width)
    while width > 1:
        width = max(1, width * 2 // 3)
        if len(encode(pixels, form._replace(width=width)).data) <= limit:
            return width
    return None
