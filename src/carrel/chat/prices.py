"""Prices and context windows of language models, to estimate the cost of a conversation.

List prices of the vendors' APIs, without discounts, taxes and the vendors' built-in tools.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

import msgspec

from carrel.chat.model import Usage

__all__ = ["AS_OF", "PRICES", "SOURCES", "Price", "Prices"]

#: Day when the prices were looked up.
AS_OF = "2026-11-22"
SOURCES = (
    "https://platform.claude.com/docs/en/about-claude/pricing",
    "https://developers.openai.com/api/docs/pricing",
    "https://ai.google.dev/gemini-api/docs/pricing",
)
MILLION = 1_000_000


class Price(msgspec.Struct, frozen=True, kw_only=True):
    """Price of a model, in US dollars for a million tokens.

    ``cached`` is the price of input read from the prompt cache, ``written`` of input written to it; None for the price
    of other input. Requests with more than ``long_from`` tokens of input cost ``long`` in all. ``window`` is the
    context window of the model, in tokens.
    """

    input: float
    output: float
    cached: float | None = None
    written: float | None = None
    long_from: int | None = None
    long: Price | None = None
    window: int | None = None

    def cost(self, usage: Usage) -> float:
        """Return the price of one request, in US dollars."""
        if self.long is not None and self.long_from is not None and usage.input_tokens > self.long_from:
            return self.long.cost(usage)
        plain = max(0, usage.input_tokens - usage.cached_tokens - usage.written_tokens)
        cached = self.input if self.cached is None else self.cached
        written = self.input if self.written is None else self.written
        amounts = (
            plain * self.input,
            usage.cached_tokens * cached,
            usage.written_tokens * written,
            usage.output_tokens * self.output,
        )
        return sum(amounts) / MILLION


def anthropic(input: float, output: float, cached: float, window: int = 1_000_000) -> Price:
    """Return a price of Anthropic, where writing to the cache for five minutes costs a quarter more."""
    return Price(input=input, output=output, cached=cached, written=input * 1.25, window=window)


def openai(input: float, output: float, cached: float, *, writes: bool = True, small: bool = False) -> Price:
    """Return a price of OpenAI: above 272,000 tokens input costs twice as much, and output half as much again.

    ``small`` models have a smaller window and one price; with ``writes``, writing to the cache has a price.
    """
    written = input * 1.25 if writes else None
    if small:
        return Price(input=input, output=output, cached=cached, written=written, window=400_000)
    long = Price(input=input * 2, output=output * 1.5, cached=cached * 2, written=written and written * 2)
    return Price(
        input=input,
        output=output,
        cached=cached,
        written=written,
        long_from=272_000,
        long=long,
        window=1_050_000,
    )


def gemini(input: float, output: float, cached: float) -> Price:
    """Return a price of Google."""
    return Price(input=input, output=output, cached=cached, window=1_048_576)


HAIKU_LONG = anthropic(0.5, 2.5, 0.05)
PRO_LONG = {"gemini-2.5-pro": gemini(2.5, 15, 0.25), "gemini-3.1-pro-preview": gemini(4, 18, 0.4)}

#: Prices by vendor and model. Dated versions of a model cost the same.
PRICES: Mapping[str, Price] = {
    "anthropic:claude-fable-5-2": anthropic(8, 40, 0.2),
    "anthropic:claude-fable-5-1": anthropic(10, 50, 0.25),
    "anthropic:claude-fable-5": anthropic(10, 50, 1),
    "anthropic:claude-mythos-5-2": anthropic(8, 40, 0.2),
    "anthropic:claude-opus-5-5": anthropic(4, 20, 0.2),
    "anthropic:claude-opus-5": anthropic(5, 25, 0.5),
    "anthropic:claude-opus-4-8": anthropic(5, 25, 0.5),
    "anthropic:claude-opus-4-7": anthropic(5, 25, 0.5),
    "anthropic:claude-opus-4-6": anthropic(5, 25, 0.5),
    "anthropic:claude-opus-4-5": anthropic(5, 25, 0.5, 200_000),
    "anthropic:claude-sonnet-5-5": anthropic(2, 10, 0.1),
    "anthropic:claude-sonnet-5": anthropic(2, 10, 0.2),
    "anthropic:claude-sonnet-4-6": anthropic(3, 15, 0.3),
    "anthropic:claude-haiku-5-5": Price(
        input=0.1, output=0.5, cached=0.01, written=0.125, long_from=100_000, long=HAIKU_LONG, window=1_000_000
    ),
    "anthropic:claude-haiku-4-5": anthropic(1, 5, 0.1, 200_000),
    "openai:gpt-6.2-astra": openai(8, 40, 0.4),
    "openai:gpt-6.2-sol": openai(2, 10, 0.1),
    "openai:gpt-6.1-sol": openai(2, 10, 0.1),
    "openai:gpt-6.1-terra": openai(1, 5, 0.05),
    "openai:gpt-6-astra": openai(10, 50, 1),
    "openai:gpt-6-sol": openai(2, 10, 0.2),
    "openai:gpt-6-luna": openai(0.1, 0.5, 0.01),
    "openai:gpt-5.6-sol": openai(4, 20, 0.4),
    "openai:gpt-5.6-terra": openai(2, 12, 0.2),
    "openai:gpt-5.6-luna": openai(0.2, 1.2, 0.02),
    "openai:gpt-5.5": openai(5, 30, 0.5, writes=False),
    "openai:gpt-5.4": openai(2.5, 15, 0.25, writes=False),
    "openai:gpt-5.4-mini": openai(0.75, 4.5, 0.075, writes=False, small=True),
    "openai:gpt-5.4-nano": openai(0.2, 1.25, 0.02, writes=False, small=True),
    "gemini:gemini-3.8-flash": gemini(0.75, 3.75, 0.075),
    "gemini:gemini-3.7-flash": gemini(0.75, 3.75, 0.075),
    "gemini:gemini-3.6-flash": gemini(0.75, 3.75, 0.075),
    "gemini:gemini-3.5-flash": gemini(1.5, 9, 0.15),
    "gemini:gemini-3.5-flash-lite": gemini(0.3, 2.5, 0.03),
    "gemini:gemini-3.1-flash-lite": gemini(0.25, 1.5, 0.025),
    "gemini:gemini-3.1-pro-preview": Price(
        input=2, output=12, cached=0.2, long_from=200_000, long=PRO_LONG["gemini-3.1-pro-preview"], window=1_048_576
    ),
    "gemini:gemini-2.5-pro": Price(
        input=1.25, output=10, cached=0.125, long_from=200_000, long=PRO_LONG["gemini-2.5-pro"], window=1_048_576
    ),
    "gemini:gemini-2.5-flash": gemini(0.3, 2.5, 0.03),
    "gemini:gemini-2.5-flash-lite": gemini(0.1, 0.4, 0.01),
}

DATE = re.compile(r"-(?:\d{8}|\d{4}-\d{2}-\d{2})$")


class Prices:
    """Prices and context windows of models, by their names as ``--model`` takes them.

    Args:
        own: prices that extend and override ``PRICES``.
    """

    def __init__(self, own: Mapping[str, Price] | None = None) -> None:
        self._prices = {**PRICES, **(own or {})}

    def price(self, model: str) -> Price | None:
        """Return the price of a model; None if it is not known."""
        return self._prices.get(model) or self._prices.get(DATE.sub("", model))

    def cost(self, model: str, usage: Usage) -> float | None:
        """Return the cost of a request in US dollars, or None if the model's price is unknown."""
        price = self.price(model)
        return None if price is None else price.cost(usage)

    def window(self, model: str) -> int | None:
        """Return the context window of a model in tokens; None if it is not known."""
        price = self.price(model)
        return None if price is None else price.window

    def known(self) -> list[str]:
        """Return the names of the models whose prices are known."""
        return list(self._prices)
