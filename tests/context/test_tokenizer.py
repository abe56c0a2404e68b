"""Tokenizers: a function, a vocabulary of tiktoken, or the estimate."""

from __future__ import annotations

import sys
from types import SimpleNamespace

import pytest

from carrel.context.tokenizer import tokenizer_of
from carrel.vendors.token_estimate import estimate_tokens

TEXT = "Green tea is brewed at seventy degrees."


def vocabulary(name: str) -> SimpleNamespace:
    """Return an encoding of tiktoken that has a token for each word."""
    return SimpleNamespace(name=name, encode=lambda text, disallowed_special: text.split())


def test_tokens_are_estimated_by_default() -> None:
    tokenizer = tokenizer_of(None)
    assert (tokenizer.name, tokenizer.count(TEXT)) == ("estimate", estimate_tokens(TEXT))


def test_a_function_counts() -> None:
    tokenizer = tokenizer_of(len)
    assert (tokenizer.name, tokenizer.count(TEXT)) == ("len", len(TEXT))


def test_a_model_is_counted_by_its_vocabulary_in_tiktoken(monkeypatch: pytest.MonkeyPatch) -> None:
    """The vocabularies of tiktoken are downloaded, so one is put in their place."""

    def no_model(name: str) -> SimpleNamespace:
        raise KeyError(name)

    of_model = SimpleNamespace(encoding_for_model=vocabulary)
    monkeypatch.setitem(sys.modules, "tiktoken", of_model)
    assert tokenizer_of("gpt-x").name == "tiktoken gpt-x"
    assert tokenizer_of("gpt-x").count(TEXT) == 7
    by_name = SimpleNamespace(encoding_for_model=no_model, get_encoding=vocabulary)
    monkeypatch.setitem(sys.modules, "tiktoken", by_name)
    assert tokenizer_of("o200k_base").name == "tiktoken o200k_base"


@pytest.mark.parametrize("error", [KeyError("x"), ValueError("x"), OSError("no network")])
def test_tokens_are_estimated_without_a_vocabulary(monkeypatch: pytest.MonkeyPatch, error: Exception) -> None:
    def fail(name: str) -> SimpleNamespace:
        raise error

    monkeypatch.setitem(sys.modules, "tiktoken", SimpleNamespace(encoding_for_model=fail, get_encoding=fail))
    assert tokenizer_of("unknown").name == "estimate"
    monkeypatch.setitem(sys.modules, "tiktoken", None)
    assert tokenizer_of("gpt-4").name == "estimate"
