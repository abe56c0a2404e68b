"""Type variables with a default, which Python has from 3.13 on: here, only type checkers see the default."""

from __future__ import annotations

import typing
from typing import Any

__all__ = ["TypeVar"]


def TypeVar(name: str, *, default: Any = None, **options: Any) -> Any:  # noqa: N802  (it stands for a class)
    """Return a type variable without its default."""
    return typing.TypeVar(name, **options)
