"""A client that a scripted server asks something, in the way of any revision: its response and its capabilities."""

from __future__ import annotations

from typing import Any

from support.scripted_server import Partner, connected, in_turn, required
from support.server_connection import LATEST

__all__ = ["capabilities", "response_to"]


async def response_to(method: str, revision: str, params: dict[str, Any] | None = None, **options: Any) -> Any:
    """Ask a client with these options; return the result or error with which it responds."""
    if revision == LATEST:
        question = {"method": method} if params is None else {"method": method, "params": params}
        partner = Partner(answers={"tools/call": in_turn(required({"q": question}, "s"), {"content": []})})
        async with connected(partner, **options) as client:
            await client.call_tool("t")
        return partner.sent_of("tools/call")[1]["params"]["inputResponses"]["q"]
    partner = Partner(revision)
    async with connected(partner, **options) as client:
        await client.ping()
        partner.ask(method, params)
        message = await partner.until(None)
    assert message["id"] == "q"
    return message.get("result") or message["error"]


def capabilities(partner: Partner) -> dict[str, Any]:
    """Return the capabilities that a client has declared to its server."""
    message = partner.sent[-1] if partner.stateless else partner.sent_of("initialize")[0]
    params = message["params"]
    found: dict[str, Any] = (
        params["_meta"]["io.modelcontextprotocol/clientCapabilities"] if partner.stateless else params["capabilities"]
    )
    return found
