"""Flow control of one HTTP connection, and the queue of its pipelined requests."""

from __future__ import annotations

import asyncio

import pytest

from carrel.transports.server.http_flow import Flow, Pipeline

pytestmark = pytest.mark.asyncio


class Transport:
    """Transport that records whether it reads."""

    def __init__(self) -> None:
        self.steps: list[str] = []

    def pause_reading(self) -> None:
        self.steps.append("pause")

    def resume_reading(self) -> None:
        self.steps.append("resume")


def flow_of(transport: Transport) -> Flow:
    return Flow(transport)  # type: ignore[arg-type]


async def test_reading_is_paused_and_resumed_once():
    transport = Transport()
    flow = flow_of(transport)
    for step in (flow.resume_reading, flow.pause_reading, flow.pause_reading, flow.resume_reading, flow.resume_reading):
        step()
    assert transport.steps == ["pause", "resume"]


async def test_draining_waits_only_while_writing_is_paused():
    flow = flow_of(Transport())
    await flow.drain()
    flow.pause_writing()
    drained = [asyncio.ensure_future(flow.drain()) for _ in range(2)]
    await asyncio.sleep(0)
    assert not any(task.done() for task in drained)
    flow.resume_writing()
    await asyncio.gather(*drained)
    await flow.drain()


async def test_writing_that_is_paused_again_waits_again():
    flow = flow_of(Transport())
    for _ in range(2):
        flow.pause_writing()
        drained = asyncio.ensure_future(flow.drain())
        await asyncio.sleep(0)
        assert not drained.done()
        flow.resume_writing()
        await drained


async def test_the_oldest_of_the_pipelined_requests_comes_first():
    queue = Pipeline()
    for item in "abcd":
        queue.appendleft(item)
    assert queue.popleft() == "d"
    assert [queue.pop() for _ in range(len(queue))] == ["a", "b", "c"]
    assert not queue
