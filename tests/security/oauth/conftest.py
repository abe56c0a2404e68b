from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import pytest

from carrel.security.client import MemoryStore, OAuth
from security.oauth.authority import Authority, running


@pytest.fixture
async def authority() -> AsyncIterator[Authority]:
    """A protected server that is its own authorization server."""
    async with running() as one:
        yield one


class Clock:
    """Seconds since the epoch, as the test wants them."""

    def __init__(self) -> None:
        self.now = 1_800_000_000.0

    def __call__(self) -> float:
        return self.now


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
