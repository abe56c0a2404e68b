"""Options of a context, as the methods that pack one take them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypedDict

from carrel.context.results import Format

__all__ = ["BUDGET", "ContextOptions"]

#: Default budget, in tokens.
BUDGET = 8000


class ContextOptions(TypedDict, total=False):
    """Options of ``ContextIndex.context``, which describes them."""

    budget: int
    pin: Iterable[str]
    without: Iterable[str]
    format: Format
    tokenizer: str | Callable[[str], int] | None
