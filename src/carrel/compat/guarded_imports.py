"""Detection of imports that a program guards with ``try``, for example to detect the version of ``mcp``."""

from __future__ import annotations

import ast
import sys
from pathlib import Path
from types import FrameType

__all__ = ["is_unconditional"]

#: Modules whose frames are between an import statement and the finder of the module.
MACHINERY = ("importlib", "importlib._bootstrap", "importlib._bootstrap_external", "carrel.compat.redirect", __name__)


def is_unconditional() -> bool:
    """Return whether the import that is being resolved is a statement of a module, outside of ``try`` and ``with``.

    An import in a module that another module imports in ``try`` is conditional, too.
    """
    frame: FrameType | None = sys._getframe()
    while frame is not None and frame.f_globals.get("__name__") in MACHINERY:
        frame = frame.f_back
    if frame is None or frame.f_code.co_name != "<module>":
        return False
    while frame is not None:
        if frame.f_code.co_name == "<module>" and _is_guarded(Path(frame.f_code.co_filename), frame.f_lineno):
            return False
        frame = frame.f_back
    return True


def _is_guarded(file: Path, line: int) -> bool:
    """Return whether a line of a file is in the body of ``try`` or ``with``."""
    try:
        tree = ast.parse(file.read_bytes())
    except (OSError, SyntaxError, ValueError):
        return False
    return any(
        statement.lineno <= line <= (statement.end_lineno or line)
        for node in ast.walk(tree)
        if isinstance(node, ast.Try | ast.With)
        for statement in node.body
    )
