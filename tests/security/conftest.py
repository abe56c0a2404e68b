from __future__ import annotations

from collections.abc import Iterator

import pytest

from support.fixtures import issuer
from support.openid_provider import Provider, provider

__all__ = ["auth", "issuer"]


@pytest.fixture(scope="session")
def auth() -> Iterator[Provider]:
    """A running OpenID provider."""
    with provider() as running:
        yield running
