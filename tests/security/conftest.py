from __future__ import annotations

from collections.abc import Iterator

import pytest

from security.issuer import Issuer
from security.provider import Provider, provider


@pytest.fixture(scope="session")
def auth() -> Iterator[Provider]:
    """A running OpenID provider."""
    with provider() as running:
        yield running


@pytest.fixture
def issuer() -> Iterator[Issuer]:
    """An issuer with keys of ours."""
    running = Issuer()
    yield running
    running.close()
