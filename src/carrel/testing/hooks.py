"""Hooks of the contract tests, which the author of a provider implements."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, NoReturn

import pytest

from carrel.catalog.provider import Provider
from carrel.testing.caller import KINDS, Caller, Kind, key_of
from carrel.wire.resources import Resource

__all__ = ["BAD_CURSORS", "HOSTILE", "Hooks", "skip"]

BAD_CURSORS = ("", "0", "1", "nonsense", "bm9uc2Vuc2U", "====", "é", "\0", "../..", "x" * 100_000)
HOSTILE = (
    *("..", "../..", "%2e%2e/x", "%2e%2e%2fx", "%00", "x%00y", "\0", "%", "%zz"),
    *("?", "??", "?lines=", "#", "//", "\\", "é"),
)


def skip(provider: Provider, what: str, hook: str | None = None) -> NoReturn:
    """Skip a test, because the provider does not offer something, or a hook is missing."""
    advice = f"; if it does, override {hook}()" if hook else ""
    pytest.skip(f"{type(provider).__name__} has {what}{advice}")


class Hooks:
    """Hooks to override. If a hook returns None, the feature is not supported, and its tests are skipped."""

    foreign = "carrel-nobody://has/this"
    """A URI that does not belong to the provider."""

    reports: Collection[str] = ("created", "changed", "removed")
    """Kinds of changes that the provider reports."""

    @pytest.fixture
    def provider(self) -> Provider:
        """Return a provider that has not been started. If it lists resources, they are five or more."""
        raise pytest.UsageError(f"{type(self).__name__} needs a fixture called provider")

    def again(self, provider: Provider) -> Provider | None:
        """Return a second instance of the provider, with the same resources, not started: as after a restart."""
        return None

    async def create(self, provider: Provider) -> str | None:
        """Create another resource that is listed, and return its URI. None if that is not possible."""
        return None

    async def change(self, provider: Provider, uri: str) -> None:
        """Change the contents of a resource made by ``create``."""

    async def remove(self, provider: Provider, uri: str) -> None:
        """Remove a resource made by ``create``."""

    async def shown_in(self, provider: Provider, uri: str) -> Collection[str]:
        """Return a URI of each kind that changes when a resource made by ``create`` does: itself, its windows, …."""
        return [uri]

    async def lists_with_new(self, provider: Provider) -> Collection[str]:
        """Return a URI of each kind that changes when ``create`` makes a resource: directories, overviews, …."""
        return []

    def missing(self, provider: Provider) -> str | None:
        """Return a URI that belongs to the provider, but that does not exist. None if it has no resources."""
        return None

    async def too_large(self, provider: Provider) -> str | None:
        """Return the URI of a resource over the size limit; None if there is no limit."""
        return None

    async def container(self, provider: Provider) -> str | None:
        """Return the URI of a resource with at least three entries; None if no resource has any."""
        return None

    async def unreadable(self, provider: Provider) -> Collection[str]:
        """Return URIs that the provider rejects, one for each reason: not shared, not permitted, ….

        Reading them raises ``ResourceNotFound``, ``ResourceForbidden`` or ``InvalidParams``.
        """
        return []

    async def searched(self, provider: Provider) -> tuple[str, str] | None:
        """Return a search query, and the URI of its expected first hit; None if there is no search."""
        return None

    async def completed(self, provider: Provider) -> tuple[str, str, str, str] | None:
        """Return a template, a variable, a partial value, and an expected value; None if there are no templates."""
        return None

    async def called(self, provider: Provider) -> tuple[str, dict[str, Any]] | None:
        """Return the name of a tool, and arguments with which it succeeds; None if there are no tools."""
        return None

    async def prompted(self, provider: Provider) -> tuple[str, dict[str, str]] | None:
        """Return the name of a prompt, and its arguments; None if there are no prompts."""
        return None

    async def settle(self, provider: Provider) -> None:
        """Wait until a server that the test runs in its own event loop has seen that the provider has left."""

    # For the tests

    async def listed(self, provider: Provider, kind: Kind) -> list[Any]:
        """Return the items of a list, or skip the test if there are none."""
        items = await self.items(provider, kind)
        if not items:
            skip(provider, f"no {kind}")
        return items

    async def lists(self, provider: Provider, at_least: int = 1) -> dict[Kind, list[str]]:
        """Return the keys in each list of ``at_least`` items, or skip the test if there is no such list."""
        every = {kind: [key_of(kind, item) for item in await self.items(provider, kind)] for kind in KINDS}
        found = {kind: keys for kind, keys in every.items() if len(keys) >= at_least}
        if not found:
            skip(provider, f"no list of {at_least} items")
        return found

    async def items(self, provider: Provider, kind: Kind) -> list[Any]:
        """Return the items of a list."""
        items = await Caller(provider).all(kind, 1000) if provider.offers(f"list_{kind}") else []
        if kind == "resources" and items:
            assert len(items) >= 5, "the contract needs a provider with five resources"
        assert len({key_of(kind, item) for item in items}) == len(items), f"{kind} are listed twice"
        return items

    async def readable(self, provider: Provider) -> list[Resource]:
        """Return the listed resources, without the one over the size limit."""
        too_large = await self.too_large(provider)
        return [item for item in await self.listed(provider, "resources") if item.uri != too_large]

    def nothing(self, provider: Provider) -> str:
        """Return a URI of the provider where there is nothing, or skip the test."""
        uri = self.missing(provider)
        if uri is not None:
            return uri
        if provider.offers("read_resource"):
            raise pytest.UsageError(f"{type(self).__name__} needs a method called missing")
        skip(provider, "no resources")
