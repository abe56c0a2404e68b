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
    image_format: Annotated[ImageFormat, Meta(description="the format of pictures, where the URI names none")] = "png"
    max_width: Annotated[Count | None, Meta(description="make wider pictures so wide, in pixels")] = None
    max_size: Annotated[
        Size, Meta(description="the largest picture; of larger ones the error names a width that fits")
    ] = 10 * 1024 * 1024
    min_interval: Annotated[
        Seconds, Meta(description="the shortest time between two pictures of one display or window")
    ] = 1.0
    poll_seconds: Annotated[Seconds, Meta(description="how often subscribed resources are looked at")] = 2.0
