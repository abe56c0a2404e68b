"""Rows: entries of lists as a picker shows them, without control characters in names."""

from __future__ import annotations

from typing import Any

from carrel.host.filters import uri_of
from carrel.host.selection import Hosted
from carrel.printable import printable
from carrel.studio.api import ItemKind, Key, Row
from carrel.studio.icons import icon_of

__all__ = ["key_of", "row_of", "title_of"]


def key_of(kind: ItemKind, item: Any) -> str:
    """Return the URI, the URI template or the name that identifies an entry of a server."""
    return str(item.name) if kind in ("tool", "prompt") else uri_of(item)


def title_of(item: Any) -> str:
    """Return the title of an entry, or else its name."""
    annotations = getattr(item, "annotations", None)
    return printable(item.title or getattr(annotations, "title", None) or item.name or uri_of(item))


def row_of(kind: ItemKind, found: Hosted[Any]) -> Row:
    """Return the row of an entry."""
    item = found.item
    annotations = getattr(item, "annotations", None)
    audience = getattr(annotations, "audience", None)
    return Row(
        key=Key(server=found.server, uri=key_of(kind, item)),
        kind=kind,
        name=printable(item.name),
        title=title_of(item),
        description=item.description,
        mime_type=getattr(item, "mime_type", None),
        size=getattr(item, "size", None),
        last_modified=getattr(annotations, "last_modified", None),
        priority=getattr(annotations, "priority", None),
        audience=None if audience is None else tuple(audience),
        icon=icon_of(getattr(item, "icons", None)),
    )
