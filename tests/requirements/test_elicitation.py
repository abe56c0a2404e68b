"""Elicitation by pages, in a session."""

from __future__ import annotations

from carrel import Context, Server
from carrel.transports.memory import MemoryPeer
from server.answering import ELICIT, answering
from server.asking import NOVEMBER, result


# requirement: 2025-11-25:client/elicitation#completion-notifications-for-url-mode-elicitation-1
async def test_only_the_client_that_was_asked_is_told_that_its_user_is_done() -> None:
    app = Server("shop")
    asked: list[tuple[Context, str | None]] = []

    @app.tool()
    async def pay(context: Context) -> str:
        visit = await context.elicit_url("Please pay.", "https://example.com/pay")
        asked.append((context, visit.id))
        return "on the way"

    async with answering(app, NOVEMBER, {ELICIT: {"action": "accept"}}) as client:
        other = MemoryPeer(app, NOVEMBER)
        params = {"protocolVersion": NOVEMBER, "clientInfo": {"name": "other", "version": "1"}}
        await result(other, "initialize", **params, capabilities={"elicitation": {"url": {}}})
        await client.text("pay")
        context, id = asked[0]
        await context.elicitation_completed(id)
        assert (await client.peer.notification())["params"] == {"elicitationId": id}
        await result(other, "ping")
        assert other._notifications.empty()
        await other.dispatcher.close()
