"""Processes of git: time limits, memory, cancellation, and what is left behind."""

import asyncio
import os
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from time import monotonic

import pytest

from carrel.sources.git.isolation import Isolation
from carrel.sources.git.process import GitTimeout, ObjectPipe, read_output
from carrel.sources.git.repository import find_repository
from carrel.threads import ThreadPool
from support.git import Repository

MEMORY = 1 << 30


@pytest.fixture
def isolation(repository: Repository) -> Iterator[Isolation]:
    """Return an isolation of a repository with one file."""
    repository.commit("one", **{"a.txt": "one\n"})
    made = Isolation(find_repository(str(repository.path)), MEMORY)
    yield made
    made.close()


def test_the_directory_of_an_isolation_has_nothing_of_the_repository_but_objects_and_is_removed(
    isolation: Isolation,
) -> None:
    assert sorted(os.listdir(isolation.folder)) == ["HEAD", "config", "objects", "refs"]
    isolation.close()
    assert not os.path.exists(isolation.folder)


def test_a_process_that_does_not_answer_is_given_up_at_the_deadline(isolation: Isolation) -> None:
    pipe = ObjectPipe(isolation, "--batch")
    with pytest.raises(GitTimeout):
        pipe.header(monotonic())
    pipe.close()
    with pytest.raises(GitTimeout):
        read_output(isolation, -1, 1000, "cat-file", "--batch-check", "--batch-all-objects")


async def test_a_cancelled_request_stops_waiting_for_git(isolation: Isolation) -> None:
    pipe, pool = ObjectPipe(isolation, "--batch"), ThreadPool(1, 1, 1, "test")
    began, ended = threading.Event(), []

    def wait() -> None:
        began.set()
        try:
            pipe.header(monotonic() + 60)
        except BaseException as error:
            ended.append(type(error))
            raise
        finally:
            pipe.close()

    asking = asyncio.ensure_future(pool.run("", wait))
    await asyncio.to_thread(began.wait)
    asking.cancel()
    await pool.close(10)
    assert ended == [asyncio.CancelledError]
    with pytest.raises(asyncio.CancelledError):
        await asking


def test_output_over_a_limit_is_not_collected(isolation: Isolation) -> None:
    command = ("cat-file", "--batch-check", "--batch-all-objects")
    assert read_output(isolation, 10, 20, *command) is None
    assert len(read_output(isolation, 10, 1000, *command) or b"") > 100


@pytest.mark.skipif(sys.platform != "linux", reason="the memory of another process is limited on Linux only")
def test_a_process_has_no_more_memory_than_allowed(repository: Repository) -> None:
    enough, little = (Isolation(find_repository(str(repository.path)), size) for size in (MEMORY, 3_000_000))

    def hashed(isolation: Isolation) -> tuple[int, bytes]:
        """Hash zeros with a process that has its limit before it gets them."""
        process = isolation.spawn("hash-object", "--stdin", stdin=True)
        output, _ = process.communicate(b"0" * 6_000_000, timeout=60)
        return process.returncode, output

    try:
        status, output = hashed(enough)
        assert status == 0
        assert len(output.strip()) == 40
        status, output = hashed(little)
        assert status != 0
        assert not output
    finally:
        enough.close()
        little.close()


@pytest.mark.skipif(sys.platform != "linux", reason="the memory of git is limited on Linux only")
def test_git_has_its_memory_limit_from_its_first_instruction(
    repository: Repository, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import resource

    git = tmp_path / "git"
    git.write_text("#!/bin/sh\nulimit -S -d; ulimit -H -d\n")
    git.chmod(0o700)
    monkeypatch.setattr("carrel.sources.git.isolation.find_git", lambda: str(git))
    monkeypatch.setattr(resource, "prlimit", lambda *_: None)  # a limit that is set later would be too late
    isolation = Isolation(find_repository(str(repository.path)), MEMORY)
    try:
        output, _ = isolation.spawn("version").communicate(timeout=60)
    finally:
        isolation.close()
    assert output.split() == [b"%d" % (MEMORY // 1024)] * 2
