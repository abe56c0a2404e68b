"""The contract of providers: all of its tests in one class."""

from __future__ import annotations

import pytest

from carrel.testing.changes import ChangeTests
from carrel.testing.lists import ListTests
from carrel.testing.offers import OfferTests
from carrel.testing.reading import ReadingTests
from carrel.testing.subscribing import SubscriptionTests

__all__ = ["ProviderContract"]


@pytest.mark.asyncio
class ProviderContract(ListTests, ReadingTests, OfferTests, ChangeTests, SubscriptionTests):
    """Contract tests for a provider. Inherit it, provide a fixture ``provider``, and override the hooks that apply."""
