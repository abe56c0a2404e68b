"""Pages of lists."""

from __future__ import annotations

import base64
import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeVar

__all__ = ["CursorState", "paginate_sequence"]

T = TypeVar("T")


@dataclass
class CursorState:
    """Position in a list."""

    offset: int

    def encode(self) -> str:
        """Return the cursor that clients send."""
        return base64.urlsafe_b64encode(json.dumps({"o": self.offset}).encode()).decode()

    @classmethod
    def decode(cls, cursor: str) -> CursorState:
        """Return the position of a cursor.

        Raises:
            ValueError: the cursor is not valid.
        """
        try:
            offset = json.loads(base64.urlsafe_b64decode(cursor))["o"]
        except (ValueError, KeyError, TypeError):
            offset = None
        if type(offset) is not int or offset < 0:
            raise ValueError(f"Invalid cursor: {cursor}")
        return cls(offset)


def paginate_sequence(items: Sequence[T], cursor: str | None, page_size: int) -> tuple[list[T], str | None]:
    """Return a page of a list, and the cursor of the next one.

    Raises:
        ValueError: the cursor is not valid.
    """
    start = CursorState.decode(cursor).offset if cursor else 0
    end = start + page_size
    return list(items[start:end]), CursorState(end).encode() if end < len(items) else None
