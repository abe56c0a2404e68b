"""Contents that a ``read_resource`` handler returns."""

from dataclasses import dataclass
from typing import Any

__all__ = ["ReadResourceContents"]


@dataclass
class ReadResourceContents:
    """Text or binary contents of a resource, with their MIME type."""

    content: str | bytes
    mime_type: str | None = None
    meta: dict[str, Any] | None = None
