"""Declaration: a tool ready for a vendor: its name, description and schema, and the original names of its arguments."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from carrel.vendors.schemas import restored
from carrel.wire.tools import Tool

__all__ = ["Declaration", "description_of"]


class Declaration(msgspec.Struct, frozen=True):
    """Tool in the format of a vendor, to be sent as it is.

    ``originals`` has the original names of the arguments that the vendor does not accept under their own.
    """

    tool: dict[str, Any]
    originals: Mapping[str, str] = {}

    def arguments(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """Convert the model's arguments to arguments for the server."""
        return restored(given, self.originals)


def description_of(tool: Tool, limit: int | None = None) -> str:
    """Return the description of a tool, cut to ``limit`` characters; its title if it has none."""
    text = tool.description or tool.title or (tool.annotations.title if tool.annotations else None) or ""
    return text if limit is None or len(text) <= limit else text[: limit - 1] + "…"
