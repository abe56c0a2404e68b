"""What a server declares, and that it is so."""

from __future__ import annotations

from typing import Any

import pytest

from carrel.transports import memory
from carrel.transports.memory import MemoryPeer
from support.capabilities import declared, everything
from support.memory_client import ALL, LATEST, listed, read, result

pytestmark = pytest.mark.requirement


LISTS = ("tools", "prompts", "resources", "resourceTemplates")


@pytest.mark.parametrize("revision", ALL)
async def test_capabilities_follow_from_what_is_registered(revision: str) -> None:
    app = everything()
    await app.endpoint.start()
    capabilities = (await declared(app, revision))["capabilities"]
    await app.endpoint.stop()
    wanted = {"tools", "prompts", "resources", "logging"}
    assert wanted <= set(capabilities)
    assert ("completions" in capabilities) == (revision != "2024-11-05")


@pytest.mark.parametrize("revision", ALL)
async def test_declared_kinds_are_listed_even_when_empty(revision: str) -> None:
    app = everything()
    async with memory.connect(app, revision) as peer:
        assert {tool["name"] for tool in await listed(peer, "tools")} == {f"tool{n}" for n in range(5)} | {
            "talk",
            "ask",
        }
        assert {prompt["name"] for prompt in await listed(peer, "prompts")} == {f"prompt{n}" for n in range(5)}
        assert {one["uri"] for one in await listed(peer, "resources")} == {f"memo://{n}" for n in range(5)}
        for name in [tool["name"] for tool in await listed(peer, "tools")]:
            app.tools.remove(name)
        assert await listed(peer, "tools") == []


async def test_lists_are_the_same_on_every_connection_and_after_any_request() -> None:
    app = everything()

    async def lists(peer: MemoryPeer) -> dict[str, Any]:
        return {what: await listed(peer, what) for what in LISTS}

    async with memory.connect(app, LATEST, sampling={}) as peer:
        before = await lists(peer)
        await result(peer, "tools/call", name="talk")
        await result(peer, "prompts/get", name="prompt1")
        await read(peer, "memo://1")
        await result(peer, "resources/list")
        other = MemoryPeer(app, LATEST)
        other.capabilities = {"elicitation": {}, "roots": {}}
        assert await lists(peer) == before
        assert await lists(other) == before
        await other.dispatcher.close()
