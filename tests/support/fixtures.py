"""Fixtures that several folders share: their conftest.py files import them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from carrel.client.connect import ConnectOptions
from support.token_issuer import Issuer

__all__ = ["issuer", "unknown_servers"]


@pytest.fixture(autouse=True)
def unknown_servers() -> None:
    """Clients remember nothing of the servers of other tests."""
    ConnectOptions().eras.clear()


@pytest.fixture
def issuer() -> Iterator[Issuer]:
    """An issuer with keys of ours."""
    running = Issuer()
    yield running
    running.close()
