"""Fixtures of the journeys: a browser for all tests of a process, and a person in front of a studio."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from playwright.async_api import Browser

from support.browser import Person, browsing, opened_page, studio

Visit = Callable[..., AbstractAsyncContextManager[Person]]


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def browser() -> AsyncIterator[Browser]:
    async with browsing() as running:
        yield running


@pytest.fixture
def visit(browser: Browser, request: pytest.FixtureRequest) -> Visit:
    """A function that starts ``carrel studio`` with arguments and opens its page."""
    name = re.sub(r"\W+", "-", request.node.name)

    @asynccontextmanager
    async def visiting(
        *arguments: str,
        cwd: Path | None = None,
        env: Mapping[str, str] | None = None,
        command: str = "studio",
        **options: Any,
    ) -> AsyncIterator[Person]:
        async with (
            studio(*arguments, cwd=cwd, env=env, name=command) as link,
            opened_page(browser, link, name, **options) as person,
        ):
            yield person

    return visiting
