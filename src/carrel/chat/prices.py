"""Prices and context windows of language models, to estimate the cost of a conversation.

They come from the package ``genai-prices``, which lists the vendors' own prices, without discounts, taxes and the
vendors' built-in tools. It needs no network.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from functools import cache
from typing import TYPE_CHECKING

import msgspec

from carrel.chat.model import Usage

if TYPE_CHECKING:
    from genai_prices.types import ModelPrice, Provider

__all__ = ["Price", "Prices", "version", "window_of"]

MILLION = 1_000_000
#: Names of vendors in ``genai-prices``, if they differ.
PROVIDERS = {"gemini": "google", "xai": "x-ai"}
#: Vendors whose models ``Prices.known`` returns.
COMPLETED = ("anthropic", "openai", "gemini")


#: Servers on this machine, whose windows are as large as they are set to; often much smaller than the model allows.
LOCAL = ("ollama", "lmstudio", "vllm", "llamacpp", "http", "https")
LOCAL_WINDOW = 32_000
#: Vendors whose current models all have at least this window.
WINDOWS = {"gemini": 1_000_000}
OTHER_WINDOW = 128_000


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


#: Prices of models that the minimum version of ``genai-prices`` does not list yet; its own prices override these.
NEWER = {
    f"openai:{model}": Price(
        input=input,
        output=input * 5,
        cached=input / 20,
        written=input * 1.25,
        long_from=272_000,
        long=Price(input=input * 2, output=input * 7.5, cached=input / 10, written=input * 2.5),
        window=1_050_000,
    )
    for model, input in {"gpt-6.2-astra": 8, "gpt-6.2-sol": 2}.items()
}


class Prices:
    """Prices and context windows of models, by their names as ``--model`` takes them.

    Without the package ``genai-prices`` (``carrel[chat]`` installs it), only ``own`` prices are known.

    Args:
        own: prices that extend and override the published ones.
    """

    def __init__(self, own: Mapping[str, Price] | None = None) -> None:
        self._own = dict(own or {})

    def price(self, model: str) -> Price | None:
        """Return the price of a model, or None if it is unknown."""
        return self._own.get(model) or published(model) or NEWER.get(model)

    def cost(self, model: str, usage: Usage) -> float | None:
        """Return the cost of a request in US dollars, or None if the model's price is unknown."""
        price = self.price(model)
        return None if price is None else price.cost(usage)

    def window(self, model: str) -> int | None:
        """Return the context window of a model in tokens, or None if it is unknown."""
        price = self.price(model)
        return None if price is None else price.window

    def known(self) -> list[str]:
        """Return the names of the models whose prices are known: own ones, and models of the large vendors."""
        found = dict.fromkeys([*self._own, *NEWER])
        for vendor in COMPLETED:
            if provider := find_provider(vendor):
                models = (model for model in provider.models if not model.deprecated)
                found |= dict.fromkeys(f"{vendor}:{model.id}" for model in models)
        return list(found)


def window_of(model: str) -> int:
    """Return the context window of a model without a price, by its name as ``--model`` takes it."""
    vendor = model.partition(":")[0]
    return LOCAL_WINDOW if vendor in LOCAL else WINDOWS.get(vendor, OTHER_WINDOW)


def version() -> str | None:
    """Return the version of the installed list of prices, or None without it."""
    from importlib.metadata import PackageNotFoundError
    from importlib.metadata import version as version_of

    try:
        return version_of("genai-prices")
    except PackageNotFoundError:
        return None


@cache
def find_provider(vendor: str) -> Provider | None:
    """Return the list of a vendor's models, or None."""
    try:
        from genai_prices.data_snapshot import find_provider_by_id, get_snapshot
    except ModuleNotFoundError:
        return None
    return find_provider_by_id(get_snapshot().providers, PROVIDERS.get(vendor, vendor))


def published(model: str) -> Price | None:
    """Return the price of a model in the installed list, or None."""
    vendor, colon, name = model.partition(":")
    provider = find_provider(vendor) if colon and name else None
    found = provider.find_model(name.lower()) if provider else None
    if found is None:
        return None
    listed = found.get_prices(datetime.now(UTC))
    starts = {tier.start for value in _prices(listed) for tier in getattr(value, "tiers", ())}
    price: Price | None = None
    long_from: int | None = None
    for start in sorted({0, *starts}, reverse=True):
        price = _price(listed, start, long_from, price, found.context_window)
        long_from = start
    return price


def _prices(listed: ModelPrice) -> tuple[object, ...]:
    """Return the prices of input, output, input from the cache and input to the cache; each a number or tiers."""
    return listed.input_mtok, listed.output_mtok, listed.cache_read_mtok, listed.cache_write_mtok


def _price(
    listed: ModelPrice, start: int, long_from: int | None, long: Price | None, window: int | None
) -> Price | None:
    """Return the price for requests of more than ``start`` tokens of input, or None if it has none for text."""
    values = [None if value is None else float(_at(value, start)) for value in _prices(listed)]
    input, output, cached, written = values
    if input is None or output is None:
        return None
    return Price(
        input=input, output=output, cached=cached, written=written, long_from=long_from, long=long, window=window
    )


def _at(value: object, start: int) -> float:
    """Return a price at a tier: the price of the last tier that begins there or before."""
    found = getattr(value, "base", value)
    for tier in getattr(value, "tiers", ()):
        if tier.start <= start:
            found = tier.price
    return float(found)  # type: ignore[arg-type]
