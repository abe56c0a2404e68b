"""A repository to fill, and sources of it that are stopped at the end of the test."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest

from carrel.sources.git.options import GitOptions
from carrel.sources.git.source import GitSource
from carrel.testing import Caller, running
from support.git import Repository


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    """Return an empty repository. What is next to it must never be seen."""
    return Repository(tmp_path / "shop")


@pytest.fixture
async def share(repository: Repository) -> AsyncIterator[Callable[..., Awaitable[Caller]]]:
    """Return a function that shares the repository, or another path, and returns a caller."""
    async with AsyncExitStack() as stack:

        async def share(path: Path | None = None, **options: Any) -> Caller:
            source = GitSource(f"git:{path or repository.path}", GitOptions(**options))
            await stack.enter_async_context(running(source))
            return Caller(source)

        yield share
