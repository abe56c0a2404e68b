"""Paths in URIs that must stay inside a folder."""

from __future__ import annotations

from pathlib import Path

__all__ = ["PathEscapeError", "contains_path_traversal", "is_absolute_path", "safe_join"]


class PathEscapeError(ValueError):
    """The path is not in the folder."""


def contains_path_traversal(value: str) -> bool:
    """Return whether the ``..`` parts of a relative path lead above its start. Backslashes separate parts too."""
    depth = 0
    for part in value.replace("\\", "/").split("/"):
        if part not in ("", "."):
            depth += -1 if part == ".." else 1
        if depth < 0:
            return True
    return False


def is_absolute_path(value: str) -> bool:
    """Return whether a path is absolute on any system, or begins with the letter of a drive."""
    if value[:1] in ("/", "\\"):
        return bool(value)
    return len(value) > 1 and value[1] == ":" and value[0].isascii() and value[0].isalpha()


def safe_join(base: str | Path, *parts: str) -> Path:
    """Return the resolved path of ``parts`` in the folder ``base``.

    Raises:
        PathEscapeError: the path is outside of the folder, or a part is absolute or has a null character.
    """
    folder = Path(base).resolve()
    for part in parts:
        if "\0" in part:
            raise PathEscapeError(f"Path component contains a null byte; refusing to join onto {folder}")
        if is_absolute_path(part):
            raise PathEscapeError(f"Path component {part!r} is absolute; refusing to join onto {folder}")
    target = folder.joinpath(*parts).resolve()
    if not target.is_relative_to(folder):
        raise PathEscapeError(f"Path {target} escapes base {folder}")
    return target
