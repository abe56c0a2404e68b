"""``carrel chat --models``: prints the models of a vendor, with their context windows and prices."""

from __future__ import annotations

from carrel.chat.models.open import default_vendor, list_models
from carrel.chat.prices import Price, Prices, version
from carrel.cli.client.connection import shown
from carrel.cli.terminal.output import table, write_json, write_text

__all__ = ["show_models"]

HEAD = ("MODEL", "WINDOW", "INPUT", "CACHED", "OUTPUT")


async def show_models(vendor: str, *, as_json: bool) -> int:
    """Print the models that a vendor offers for this key. Without a vendor, use the default vendor of a chat.

    Raises:
        ConfigError: there is no such vendor, or its key or package is missing.
        TransportError: the vendor cannot be reached, or answers with an error.
    """
    names = await list_models(vendor or await default_vendor())
    prices = Prices()
    if as_json:
        write_json([as_members(name, prices.price(name)) for name in names])
        return 0
    rows = [row(name, prices.price(name)) for name in names]
    if not rows:
        write_text("There are no models.")
        return 0
    known = any(prices.price(name) for name in names)
    sizes = [max(len(line[at]) for line in (HEAD, *rows)) for at in range(1, len(HEAD))]
    aligned = [
        (line[0], *(f"{cell:>{size}}" for cell, size in zip(line[1:], sizes, strict=True)))
        for line in ((HEAD, *rows) if known else rows)
    ]
    write_text(table("Models", aligned), escape=False)
    if known:
        write_text(
            "\nWindow in tokens; US dollars for a million tokens, list prices of genai-prices"
            f" {version() or '(not installed)'}. Empty: not known."
        )
    return 0


def row(name: str, price: Price | None) -> tuple[str, ...]:
    """Return the table row of a model. Cells of unknown values are empty."""
    if price is None:
        return shown(name), "", "", "", ""
    cached = "" if price.cached is None else f"{price.cached:g}"
    return shown(name), window(price.window), f"{price.input:g}", cached, f"{price.output:g}"


def window(tokens: int | None) -> str:
    return "" if tokens is None else f"{tokens:,}"


def as_members(name: str, price: Price | None) -> dict[str, object]:
    """Return a model as JSON values, with null for unknown values."""
    if price is None:
        return {"model": name, "window": None, "input": None, "cached": None, "output": None}
    return {
        "model": name,
        "window": price.window,
        "input": price.input,
        "cached": price.cached,
        "output": price.output,
    }
