"""Fixtures that several folders share: their conftest.py files import them."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest

from carrel.client.connect import ConnectOptions
from support.token_issuer import Issuer

__all__ = ["issuer", "quick_collections", "unknown_servers"]


@pytest.fixture(autouse=True)
def unknown_servers() -> None:
    """Clients remember nothing of the servers of other tests."""
    ConnectOptions().eras.clear()


@pytest.fixture(autouse=True, scope="module")
def quick_collections() -> None:
    """Look for garbage of these tests only, since they look for it often.

    The objects stay frozen: with the collected tests among them, each later collection would take a second.
    """
    gc.collect()
    gc.freeze()


@pytest.fixture
def issuer() -> Iterator[Issuer]:
    """An issuer with keys of ours."""
    running = Issuer()
    yield running
    running.close()
