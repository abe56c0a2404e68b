"""Fixtures that several folders share: their conftest.py files import them."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest

from support.token_issuer import Issuer

__all__ = ["issuer", "quick_collections"]


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
