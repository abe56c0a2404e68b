"""Prices, what requests cost, and context windows."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from genai_prices import Usage as OtherUsage
from genai_prices import calc_price

from carrel.chat.model import Usage
from carrel.chat.models.vendors import VENDORS
from carrel.chat.prices import COMPLETED, NEWER, PROVIDERS, Price, Prices, find_provider, window_of


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
    assert Prices().price("anthropic:claude-haiku-4-5-20251001") == Prices().price("anthropic:claude-haiku-4-5")
    assert Prices().price("openai:gpt-5.5-2026-04-23") == Prices().price("openai:gpt-5.5")


def test_prices_can_be_replaced_and_added() -> None:
    mine = {"ollama:llama3.3": Price(input=1, output=1), "openai:gpt-6.2-sol": Price(input=1, output=0)}
    assert Prices(mine).cost("ollama:llama3.3", Usage(input_tokens=500_000)) == pytest.approx(0.5)
    assert Prices(mine).cost("openai:gpt-6.2-sol", Usage(input_tokens=500_000)) == pytest.approx(0.5)


def test_windows_are_known_with_the_prices() -> None:
    assert Prices().window("anthropic:claude-haiku-4-5-20251001") == 200_000
    assert Prices().window("openrouter:anthropic/claude-sonnet-4.5") == 1_000_000
    assert Prices().window("gemini:gemini-2.5-pro") is None
    assert window_of("gemini:gemini-2.5-pro") == 1_000_000
    assert window_of("ollama:llama3.3") == 32_000


def test_default_models_have_prices() -> None:
    for vendor in VENDORS.values():
        if vendor.default_model and vendor.name != "openrouter":
            assert Prices().price(f"{vendor.name}:{vendor.default_model}") is not None


def test_names_of_known_models_are_completed() -> None:
    known = Prices({"ollama:llama3.3": Price(input=1, output=1)}).known()
    assert {"ollama:llama3.3", "anthropic:claude-opus-5-5", "openai:gpt-6.2-sol", "gemini:gemini-3.8-flash"} <= set(
        known
    )
    assert len(known) == len(set(known))


def test_without_the_list_only_own_prices_are_known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "genai_prices.data_snapshot", None)
    find_provider.cache_clear()
    try:
        prices = Prices({"ollama:llama3.3": Price(input=1, output=1)})
        assert prices.price("anthropic:claude-opus-5-5") is None
        assert prices.price("ollama:llama3.3") is not None
        assert "ollama:llama3.3" in prices.known()
    finally:
        find_provider.cache_clear()


LISTED = [f"{vendor}:{model.id}" for vendor in COMPLETED for model in find_provider(vendor).models]  # type: ignore[union-attr]


@pytest.mark.parametrize("tokens", [10_000, 150_000, 210_000, 300_000])
def test_costs_are_those_of_the_list(tokens: int) -> None:
    usage = Usage(input_tokens=tokens, output_tokens=1000, cached_tokens=tokens // 2)
    compared = 0
    for model in LISTED:
        vendor, _, name = model.partition(":")
        price = Prices().price(model)
        if price is None or price.cached is None:
            continue
        found = calc_price(
            OtherUsage(input_tokens=tokens, output_tokens=1000, cache_read_tokens=tokens // 2),
            name,
            provider_id=PROVIDERS.get(vendor, vendor),
        )
        assert price.cost(usage) == pytest.approx(float(found.total_price)), model
        compared += 1
    assert compared > 50


@pytest.mark.parametrize("model", NEWER)
def test_newer_models_cost_more_for_long_requests(model: str) -> None:
    price = NEWER[model]
    assert price.cost(Usage(input_tokens=272_000)) == pytest.approx(0.272 * price.input)
    assert price.cost(Usage(input_tokens=272_001)) == pytest.approx(0.272001 * 2 * price.input)


def test_the_page_has_the_vendors() -> None:
    page = (Path(__file__).parents[2] / "docs" / "chat-models.md").read_text(encoding="utf-8")
    for vendor in VENDORS.values():
        row = next(line for line in page.splitlines() if line.startswith(f"| `{vendor.name}` |"))
        for word in (vendor.title, *vendor.variables, vendor.host_variable or "", vendor.default_model or "its first"):
            assert word in row
