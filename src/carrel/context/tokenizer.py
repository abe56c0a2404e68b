"""Tokenizer of a model: a function, a vocabulary of tiktoken, or the estimate."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any, NamedTuple

from carrel.log import Log
from carrel.vendors.token_estimate import estimate_tokens

__all__ = ["Tokenizer", "tokenizer_of"]

log = Log("carrel.context")


class Tokenizer(NamedTuple):
    """Function that counts the tokens of a text, and its name."""

    name: str
    count: Callable[[str], int]


ESTIMATE = Tokenizer("estimate", estimate_tokens)


def tokenizer_of(given: str | Callable[[str], int] | None) -> Tokenizer:
    """Return the tokenizer for a function that counts, or for the name of a model or vocabulary.

    The estimate is used without either, if tiktoken is not installed, and if it does not have the model.
    """
    if given is None:
        return ESTIMATE
    if callable(given):
        return Tokenizer(getattr(given, "__qualname__", type(given).__name__), given)
    try:
        tiktoken: Any = import_module("tiktoken")
    except ImportError:
        log.debug("tiktoken is not installed: tokens are estimated")
        return ESTIMATE
    try:
        encoding = _encoding(tiktoken, given)
    except (KeyError, ValueError, OSError) as error:  # an unknown model, or a vocabulary that cannot be downloaded
        log.warning("tokens are estimated: tiktoken has no vocabulary of %s: %s", given, error)
        return ESTIMATE
    return Tokenizer(f"tiktoken {encoding.name}", lambda text: len(encoding.encode(text, disallowed_special=())))


def _encoding(tiktoken: Any, name: str) -> Any:
    try:
        return tiktoken.encoding_for_model(name)
    except KeyError:
        return tiktoken.get_encoding(name)
