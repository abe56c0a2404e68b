"""Options of a context, as the methods that pack one take them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from typing import TypeAlias, TypedDict

from carrel.context.results import Format

__all__ = ["BUDGET", "MODEL_TOKENS", "Ask", "ContextOptions"]

#: Default budget, in tokens, and default number of tokens that a model may read and write for one context.
BUDGET, MODEL_TOKENS = 8000, 6000

Ask: TypeAlias = Callable[[str, int], Awaitable[str]]
"""Function that sends a prompt to a model and returns its answer, of at most the given number of tokens."""


class ContextOptions(TypedDict, total=False):
    """Options of ``ContextIndex.context``, which describes them."""

    budget: int
    pin: Iterable[str]
    open: Iterable[str]
    without: Iterable[str]
    format: Format
    tokenizer: str | Callable[[str], int] | None
    model: Ask | None
    model_tokens: int
