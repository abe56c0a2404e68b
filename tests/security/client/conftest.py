from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import pytest

from carrel.security.client import MemoryStore, OAuth
from support.authorization_server import Authority, running
from support.clock import Clock


@pytest.fixture
async def authority() -> AsyncIterator[Authority]:
    """A protected server that is its own authorization server."""
    async with running() as one:
        yield one


@pytest.fixture
def clock() -> Iterator[Clock]:
    return Clock()  # type: ignore[return-value]


@pytest.fixture
async def user(authority: Authority) -> AsyncIterator[Callable[..., OAuth]]:
    """Make credentials of a user who agrees to everything."""
    made: list[OAuth] = []

    def make(**options: Any) -> OAuth:
        given = {"authorize": authority.browse, "store": MemoryStore(), **options}
        made.append(OAuth(**given))
        return made[-1]

    yield make
    for one in made:
        await one.close()
