"""How listeners end, and what the server cancels."""

from __future__ import annotations

import asyncio

from carrel import Context
from carrel.transports import memory
from requirements.declared import everything
from server.asking import LATEST, result

CANCELLED = "notifications/cancelled"


# requirement: 2026-07-28:basic/patterns/cancellation#top-1
async def test_a_listener_that_the_server_gives_up_is_told_by_a_cancellation() -> None:
    app = everything()
    async with memory.connect(app, LATEST) as peer:
        stream = peer.start("subscriptions/listen", {"notifications": {"toolsListChanged": True}}, id="mine")
        await peer.notification()
        app.end_streams()
        assert "result" in await asyncio.wait_for(stream, 10)
        assert not peer._notifications.empty()
        told = await peer.notification()
        assert (told["method"], told["params"]["requestId"]) == (CANCELLED, "mine")


# requirement: 2026-07-28:basic/patterns/cancellation#top-1b
async def test_nothing_but_a_listener_is_cancelled_by_the_server() -> None:
    app = everything()
    begun = asyncio.Event()

    @app.tool()
    async def slow(context: Context) -> str:
        context.progress(1)
        begun.set()
        await asyncio.Event().wait()
        return "never"

    @app.tool()
    async def broken() -> str:
        inner = asyncio.get_running_loop().create_future()
        asyncio.get_running_loop().call_soon(inner.cancel)
        return await inner

    async with memory.connect(app, LATEST, elicitation={}) as peer:
        peer.start("tools/call", {"name": "slow"}, id="slow")
        await asyncio.wait_for(begun.wait(), 10)
        peer.notify(CANCELLED, {"requestId": "slow"})
        await peer.request("tools/call", {"name": "broken"})
        assert (await result(peer, "tools/call", name="talk"))["resultType"] == "complete"
        told = []
        while not peer._notifications.empty():
            told.append(await peer.notification())
    assert [message for message in told if message["method"] == CANCELLED] == []
