"""One task for several callers: a login continues when a caller is cancelled."""

from __future__ import annotations

import asyncio

import pytest

from carrel.errors import AuthorizationError
from carrel.security.client.shared_task import SharedTask


class Work:
    """Work that ends when ``gate`` is set."""

    def __init__(self) -> None:
        self.gate = asyncio.Event()
        self.begun = 0
        self.ended = 0

    async def __call__(self) -> None:
        self.begun += 1
        await self.gate.wait()
        self.ended += 1


async def test_callers_share_one_task_and_the_next_caller_starts_another() -> None:
    shared, work = SharedTask(), Work()
    callers = asyncio.gather(*(shared.run(work) for _ in range(3)))
    await asyncio.sleep(0)
    work.gate.set()
    await callers
    assert (work.begun, work.ended) == (1, 1)
    assert not await shared.join()
    await shared.run(work)
    assert work.begun == 2


async def test_the_task_continues_when_its_caller_is_cancelled() -> None:
    shared, work = SharedTask(), Work()
    caller = asyncio.ensure_future(shared.run(work))
    await asyncio.sleep(0)
    caller.cancel()
    with pytest.raises(asyncio.CancelledError):
        await caller
    work.gate.set()
    assert await shared.join()
    assert work.ended == 1


async def test_an_error_reaches_every_caller() -> None:
    shared = SharedTask()

    async def fail() -> None:
        raise AuthorizationError("declined")

    found = await asyncio.gather(shared.run(fail), shared.run(fail), return_exceptions=True)
    assert [str(error) for error in found] == ["declined"] * 2


async def test_a_task_that_is_given_up_is_an_error_of_its_callers() -> None:
    shared, work = SharedTask(), Work()
    caller = asyncio.ensure_future(shared.run(work))
    await asyncio.sleep(0)
    await shared.cancel()
    with pytest.raises(AuthorizationError, match="was cancelled"):
        await caller
    assert shared.running is None
    await shared.cancel()
