"""Paths under the root of a shared folder, and positions in a walk over them."""

from __future__ import annotations

from typing import Literal, NamedTuple, TypeAlias

__all__ = ["START", "Kind", "Parts", "TreePosition"]

Parts: TypeAlias = tuple[str, ...]
"""A path under the root, as its names. The root itself is ``()``."""

Kind: TypeAlias = Literal["file", "directory", "end"]


class TreePosition(NamedTuple):
    """Position in a walk: after a file, before a directory and its contents, or after them."""

    kind: Kind
    parts: Parts


START = TreePosition("directory", ())
