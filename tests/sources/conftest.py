"""A folder to fill, and sources of it that are stopped at the end of the test."""

import os
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest

from carrel.sources import process
from carrel.sources.files.options import FilesOptions
from carrel.sources.files.source import FilesSource
from carrel.testing import running
from carrel.testing.changes import ChangeTests
from support import forked_command
from support.contract_choice import is_repeated


def pytest_itemcollected(item: pytest.Item) -> None:
    """Mark tests of a contract that repeat the tests of another class."""
    if isinstance(item, pytest.Function) and is_repeated(item.cls, item.originalname):
        item.add_marker(pytest.mark.exhaustive)


@pytest.fixture(autouse=True)
def forked_workers(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Fork the processes of sources. Modules that test the start or the limits of these processes override this."""
    monkeypatch.setattr(process, "subprocess", forked_command.SUBPROCESS)
    if request.cls is not None and issubclass(request.cls, ChangeTests):  # it counts open descriptors
        forked_command.start_servers()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return the folder that is shared. What is next to it must never be seen."""
    path = tmp_path / "root"
    path.mkdir()
    return path


@pytest.fixture
def put(folder: Path) -> Callable[..., Path]:
    """Return a function that writes a file into the folder, with the directories above it."""

    def put(path: str | bytes, data: str | bytes = "text\n") -> Path:
        target = Path(os.fsdecode(os.path.join(os.fsencode(folder), os.fsencode(path))))
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(data.encode() if isinstance(data, str) else data)
        return target

    return put


@pytest.fixture
async def share(folder: Path) -> AsyncIterator[Callable[..., Awaitable[FilesSource]]]:
    """Return a function that shares the folder, or another path."""
    async with AsyncExitStack() as stack:

        async def share(path: Path = folder, **options: Any) -> FilesSource:
            source = FilesSource(path, FilesOptions(**options))
            await stack.enter_async_context(running(source))
            return source

        yield share
