"""How the tests of the server ask it: a client in memory, and short ways to what they look at."""

from __future__ import annotations

import re
from typing import Any

from carrel.transports.memory import MemoryPeer

OLDEST, MARCH, JUNE, NOVEMBER, LATEST = "2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25", "2026-07-28"
HANDSHAKES = (OLDEST, MARCH, JUNE, NOVEMBER)
ALL = (*HANDSHAKES, LATEST)
PREFIX = "io.modelcontextprotocol/"


class Plain:
    """Equal to an error that says nothing but that there was one, and under which reference it is in the log."""

    __hash__ = None  # type: ignore[assignment]

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, dict)
            and set(other) == {"code", "message"}
            and other["code"] == -32603
            and re.fullmatch("Internal error, reference [0-9a-f]{8}", other["message"]) is not None
        )

    def __repr__(self) -> str:
        return "<internal error with a reference>"


PLAIN: Any = Plain()


async def result(peer: MemoryPeer, method: str, **params: Any) -> dict[str, Any]:
    """Ask, and return the result."""
    reply = await peer.request(method, params)
    assert "result" in reply, reply
    return reply["result"]


async def error(peer: MemoryPeer, method: str, **params: Any) -> dict[str, Any]:
    """Ask for what must be refused, and return the error."""
    reply = await peer.request(method, params)
    assert "error" in reply, reply
    return reply["error"]


async def read(peer: MemoryPeer, uri: str) -> list[dict[str, Any]]:
    """Read a resource, and return its contents."""
    return (await result(peer, "resources/read", uri=uri))["contents"]


async def listed(peer: MemoryPeer, what: str = "resources", **params: Any) -> list[dict[str, Any]]:
    """Return all pages of a list, as one list."""
    found: list[dict[str, Any]] = []
    method = "resources/templates/list" if what == "resourceTemplates" else f"{what}/list"
    while True:
        page = await result(peer, method, **params)
        found += page[what]
        if "nextCursor" not in page:
            return found
        params["cursor"] = page["nextCursor"]


async def call(peer: MemoryPeer, name: str, /, **arguments: Any) -> dict[str, Any]:
    """Call a tool, and return the result."""
    return await result(peer, "tools/call", name=name, arguments=arguments)


async def complete(peer: MemoryPeer, ref: str, argument: str, value: str = "", **context: str) -> dict[str, Any]:
    """Ask to complete an argument of a prompt, or a variable of a template, and return the completion."""
    kind = {"type": "ref/resource", "uri": ref} if ":" in ref else {"type": "ref/prompt", "name": ref}
    params: dict[str, Any] = {"ref": kind, "argument": {"name": argument, "value": value}}
    if context:
        params["context"] = {"arguments": context}
    return (await result(peer, "completion/complete", **params))["completion"]
