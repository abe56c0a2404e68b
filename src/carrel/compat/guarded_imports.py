"""Detection of imports that a program guards with ``try``, for example to detect the version of ``mcp``."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from types import FrameType

__all__ = ["is_unconditional"]

#: Modules whose frames are between an import statement and the finder of the module.
MACHINERY = ("importlib", "importlib._bootstrap", "importlib._bootstrap_external", "carrel.compat.redirect", __name__)


def is_unconditional(name: str | None = None) -> bool:
    """Return whether the import that is being resolved is a statement of a module, outside of ``try`` and ``with``.

    An import in a module that another module imports in ``try`` is conditional, too. With ``name``, the statement is
    one that imports this name from a module.
    """
    frame: FrameType | None = sys._getframe()
    while frame is not None and frame.f_globals.get("__name__") in MACHINERY:
        frame = frame.f_back
    if frame is None or frame.f_code.co_name != "<module>":
        return False
    if name is not None and not _imports(Path(frame.f_code.co_filename), frame.f_lineno, name):
        return False
    while frame is not None:
        if frame.f_code.co_name == "<module>" and _is_guarded(Path(frame.f_code.co_filename), frame.f_lineno):
            return False
        frame = frame.f_back
    return True


def _imports(file: Path, line: int, name: str) -> bool:
    """Return whether the statement at a line of a file imports a name from a module."""
    return any(
        isinstance(node, ast.ImportFrom) and _contains(node, line) and any(alias.name == name for alias in node.names)
        for node in _nodes(file)
    )


def _is_guarded(file: Path, line: int) -> bool:
    """Return whether a line of a file is in the body of ``try`` or ``with``."""
    return any(
        _contains(statement, line)
        for node in _nodes(file)
        if isinstance(node, ast.Try | ast.With)
        for statement in node.body
    )


def _nodes(file: Path) -> Iterator[ast.AST]:
    """Yield the syntax nodes of a file; none if it cannot be read."""
    with suppress(OSError, SyntaxError, ValueError):
        yield from ast.walk(ast.parse(file.read_bytes()))


def _contains(statement: ast.stmt, line: int) -> bool:
    return statement.lineno <= line <= (statement.end_lineno or line)
