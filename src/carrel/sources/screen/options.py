"""Options of the screen source."""

from __future__ import annotations

from typing import Annotated, Literal, TypeAlias

import msgspec
from msgspec import Meta

from carrel.sources.options import Alias, Count, Size

__all__ = ["ImageFormat", "ScreenOptions", "Seconds"]

Seconds: TypeAlias = Annotated[float, Meta(gt=0, title="SECONDS")]
"""Duration in seconds, more than 0."""

ImageFormat: TypeAlias = Literal["png", "webp"]
"""File format of pictures."""


class ScreenOptions(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Options of a screen: the form of its pictures, and how often they are taken."""

    alias: Alias = None
    image_format: Annotated[ImageFormat, Meta(description="the format of pictures if the URI has no format")] = "png"
    max_width: Annotated[Count | None, Meta(description="scale wider pictures down to this width, in pixels")] = None
    max_size: Annotated[
        Size, Meta(description="the maximum size of a picture; the error for a larger picture names a width that fits")
    ] = 10 * 1024 * 1024
    min_interval: Annotated[
        Seconds, Meta(description="the minimum interval between two pictures of a display or window")
    ] = 1.0
    poll_seconds: Annotated[Seconds, Meta(description="the interval between two polls of subscribed resources")] = 2.0
