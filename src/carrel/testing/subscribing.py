"""Contract of subscriptions: each one that a server accepts is notified of a change, for URIs of every kind."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Collection

import pytest

from carrel.catalog.provider import Provider
from carrel.client.client import Client
from carrel.client.watch import Watch
from carrel.errors import PeerError
from carrel.server.app import Server
from carrel.testing.caller import TIMEOUT
from carrel.testing.hooks import Hooks, skip

__all__ = ["SubscriptionTests"]


class SubscriptionTests(Hooks):
    """Subscriptions of a client, through a server."""

    async def test_every_accepted_subscription_is_notified(self, provider: Provider) -> None:
        if not (provider.offers("watch") and self.reports):
            skip(provider, "no watch")
        app = Server("contract", page_size=1000)
        app.add_provider(provider)
        refused: list[str] = []
        async with Client(app) as client:
            lists = await self.lists_with_new(provider)
            async with client.watch(*lists, lists=["resources"]) as changes:
                uri = await self.create(provider)
                if uri is None:
                    skip(provider, "no way to create a resource", "create")
                refused += await self.notified(changes, lists, listed="created" in self.reports)
            if "changed" in self.reports:
                shown = await self.shown_in(provider, uri)
                assert uri in shown, "the kinds of URIs begin with the URI of the resource"
                for one in shown:
                    await self.readable_or_refused(client, one)
                async with client.watch(*shown) as changes:
                    await self.change(provider, uri)
                    refused += await self.notified(changes, shown)
        assert uri not in refused
        print(f"{type(provider).__name__} refuses {len(refused)} subscriptions", *refused)  # noqa: T201

    @staticmethod
    async def notified(changes: Watch, uris: Collection[str], *, listed: bool = False) -> Collection[str]:
        """Wait until all subscriptions that are not refused are notified; return the refused ones."""
        waiting = {uri for uri in uris if uri not in changes.refused} | ({""} if listed else set())
        try:
            async with asyncio.timeout(TIMEOUT):
                while waiting:
                    change = await anext(changes)
                    waiting.discard(change.uri or "")
        except TimeoutError:
            pytest.fail(f"subscriptions that are accepted and not notified of a change: {sorted(waiting)}")
        return changes.refused

    @staticmethod
    async def readable_or_refused(client: Client, uri: str) -> None:
        """Read a resource, so that each kind of URI is one that there is."""
        reading: Awaitable[object] = client.read_resource(uri)
        try:
            await reading
        except PeerError as error:
            pytest.fail(f"{uri} cannot be read: {error}")
