"""Options of documents, the same for each source that has some."""

from __future__ import annotations

from typing import Annotated, TypeAlias

from msgspec import Meta

__all__ = ["AsText", "Locations"]

AsText: TypeAlias = Annotated[
    bool,
    Meta(
        description="offer documents (PDF, Word, …) as text too",
        extra={"off": "offer documents (PDF, Word, …) as they are only, not as text"},
    ),
]
"""Whether documents are offered as text."""

Locations: TypeAlias = Annotated[bool, Meta(description="tell where photos were taken, if they have it (GPS)")]
"""Whether the metadata of images has the place where they were taken."""
