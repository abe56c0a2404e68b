"""Options of documents, the same for each source that has some."""

from __future__ import annotations

from typing import Annotated, TypeAlias

from msgspec import Meta

__all__ = ["AsText", "Locations"]

AsText: TypeAlias = Annotated[
    bool,
    Meta(
        description="share the text of documents (PDF, Word, …) too",
        extra={"off": "share documents (PDF, Word, …) without their text"},
    ),
]
"""Whether documents are offered as text."""

Locations: TypeAlias = Annotated[bool, Meta(description="include the GPS location of photos")]
"""Whether the metadata of images includes the GPS location."""
