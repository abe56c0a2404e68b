"""Prices and what requests cost; the table agrees with a list of prices that others keep."""

from __future__ import annotations

from datetime import UTC, date, datetime
from pathlib import Path

import pytest
from genai_prices import Usage as OtherUsage
from genai_prices import calc_price

from carrel.chat.model import Usage
from carrel.chat.models.vendors import VENDORS
from carrel.chat.prices import AS_OF, PRICES, Price, Prices

#: Models that are newer than the list of the others.
NEWER = {"openai:gpt-6.2-astra", "openai:gpt-6.2-sol"}


def test_each_kind_of_token_has_its_price() -> None:
    price = Price(input=2, output=10, cached=0.5, written=3)
    usage = Usage(input_tokens=1_000_000, output_tokens=100_000, cached_tokens=400_000, written_tokens=200_000)
    assert price.cost(usage) == pytest.approx(0.4 * 2 + 0.4 * 0.5 + 0.2 * 3 + 0.1 * 10)


def test_long_requests_cost_more_from_the_first_token() -> None:
    short = Prices().cost("gemini:gemini-2.5-pro", Usage(input_tokens=200_000))
    long = Prices().cost("gemini:gemini-2.5-pro", Usage(input_tokens=200_001))
    assert short == pytest.approx(0.25)
    assert long == pytest.approx(0.5000025)


def test_an_unknown_model_has_no_price() -> None:
    assert Prices().cost("ollama:llama3.3", Usage(input_tokens=5)) is None
    assert Prices().window("anthropic:claude-sonnet-9") is None


def test_dated_versions_have_the_price_of_their_model() -> None:
    assert Prices().price("anthropic:claude-haiku-4-5-20251001") == PRICES["anthropic:claude-haiku-4-5"]
    assert Prices().price("openai:gpt-5.5-2026-04-23") == PRICES["openai:gpt-5.5"]


def test_prices_can_be_replaced_and_added() -> None:
    mine = {"ollama:llama3.3": Price(input=1, output=1), "openai:gpt-6.2-sol": Price(input=1, output=0)}
    assert Prices(mine).cost("ollama:llama3.3", Usage(input_tokens=500_000)) == pytest.approx(0.5)
    assert Prices(mine).cost("openai:gpt-6.2-sol", Usage(input_tokens=500_000)) == pytest.approx(0.5)


def test_windows_are_known_with_the_prices() -> None:
    prices = Prices()
    assert all(prices.window(model) for model in prices.known())
    assert prices.window("anthropic:claude-haiku-4-5-20251001") == 200_000


def test_default_models_have_prices() -> None:
    assert date.fromisoformat(AS_OF)
    for name in ("anthropic", "openai", "gemini"):
        assert Prices().price(f"{name}:{VENDORS[name].default_model}") is not None


@pytest.mark.parametrize("model", sorted(set(PRICES) - NEWER))
@pytest.mark.parametrize("tokens", [10_000, 300_000])
def test_the_table_agrees_with_the_prices_that_others_publish(model: str, tokens: int) -> None:
    vendor, _, name = model.partition(":")
    found = calc_price(
        OtherUsage(input_tokens=tokens, output_tokens=1000, cache_read_tokens=tokens // 2),
        name,
        provider_id={"gemini": "google"}.get(vendor, vendor),
        genai_request_timestamp=datetime.fromisoformat(AS_OF).replace(tzinfo=UTC),
    )
    usage = Usage(input_tokens=tokens, output_tokens=1000, cached_tokens=tokens // 2)
    assert Prices().cost(model, usage) == pytest.approx(float(found.total_price))


def test_the_page_has_the_table() -> None:
    page = (Path(__file__).parents[2] / "docs" / "chat-models.md").read_text(encoding="utf-8")
    assert f"as of {AS_OF}" in page
    for model, price in PRICES.items():
        cached, written = (f"{value:g}" if value is not None else "" for value in (price.cached, price.written))
        assert f"| `{model}` | {price.input:g} | {cached} | {written} | {price.output:g} | {price.window:,} |" in page


def test_the_page_has_the_vendors() -> None:
    page = (Path(__file__).parents[2] / "docs" / "chat-models.md").read_text(encoding="utf-8")
    for vendor in VENDORS.values():
        row = next(line for line in page.splitlines() if line.startswith(f"| `{vendor.name}` |"))
        for word in (vendor.title, *vendor.variables, vendor.host_variable or "", vendor.default_model or "its first"):
            assert word in row
