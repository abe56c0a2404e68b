"""Options of a context, as the methods that pack one take them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from typing import TypeAlias, TypedDict, get_args

from carrel.context.results import Format

__all__ = ["BUDGET", "MODEL_TOKENS", "Ask", "ContextOptions", "check_options", "uris_of"]

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


def check_options(question: object, *, budget: object, format: object, model_tokens: object) -> None:
    """Check options that programs give.

    Raises:
        TypeError: one has the wrong type.
        ValueError: the budget is less than 1, the tokens for the model are less than 0, or there is no such format.
    """
    if not isinstance(question, str):
        raise TypeError(f"question must be a text, not {question!r}")
    for name, value, least in (("budget", budget, 1), ("model_tokens", model_tokens, 0)):
        if not isinstance(value, int):
            raise TypeError(f"{name} must be a number of tokens, not {value!r}")
        if value < least:
            raise ValueError(f"{name} must be at least {least} token{'s' * (least != 1)}, not {value}")
    if format not in get_args(Format):
        raise ValueError(f"format must be markdown, xml or json, not {format!r}")


def uris_of(name: str, given: object) -> tuple[str, ...]:
    """Return the distinct URIs of an option.

    Raises:
        TypeError: it is not a list of strings.
    """
    if isinstance(given, str):
        raise TypeError(f"{name} must be a list of URIs: [{given!r}]")
    uris = tuple(given) if isinstance(given, Iterable) else (given,)
    wrong = next((each for each in uris if not isinstance(each, str)), None)
    if wrong is not None or not isinstance(given, Iterable):
        raise TypeError(f"{name} must be a list of URIs, and has {wrong!r}")
    return tuple(dict.fromkeys(uris))
