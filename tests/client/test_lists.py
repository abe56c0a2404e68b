"""Lists in pages: cursors that mean nothing to a client, and pages of any size."""

from __future__ import annotations

from typing import Any

import pytest

from carrel.client.cache import Cache
from carrel.client.handlers import ClientCall
from carrel.errors import PeerError, ProtocolError
from carrel.protocol.methods import LIST_TASKS
from support.covering import covering
from support.scripted_server import Partner, connected
from support.server_connection import ALL, LATEST

pytestmark = pytest.mark.slow


#: Cursors that a client might be tempted to understand.
CURSORS = ["", "0", "null", "2", "page=3", "eyJvIjoxfQ==", "\u2028 \u00e9 \"'\\", " ", "x" * 50_000]
SIZES = [0, 3, 1, 0, 7, 2, 1, 1, 5, 0]


def pages(kind: str, item: Any) -> Any:
    """Answer page after page; each but the last has a cursor."""

    def answer(message: dict[str, Any]) -> dict[str, Any]:
        cursor = message["params"].get("cursor")
        number = 0 if cursor is None else CURSORS.index(cursor) + 1
        following = {"nextCursor": CURSORS[number]} if number < len(CURSORS) else {}
        return {kind: [item(f"{number}-{index}") for index in range(SIZES[number])], **following}

    return answer


LISTS: dict[str, tuple[str, str, Any]] = {
    "resources": ("resources/list", "resources", lambda name: {"uri": f"a:{name}", "name": name}),
    "resource_templates": (
        *("resources/templates/list", "resourceTemplates"),
        lambda name: {"uriTemplate": f"a:{name}", "name": name},
    ),
    "tools": ("tools/list", "tools", lambda name: {"name": name, "inputSchema": {"type": "object"}}),
    "prompts": ("prompts/list", "prompts", lambda name: {"name": name}),
}


@pytest.mark.parametrize(("revision", "listing", "cached"), covering(ALL, list(LISTS), [False, True]))
async def test_pages_may_have_any_size_and_cursors_any_text(revision: str, listing: str, cached: bool) -> None:
    method, kind, item = LISTS[listing]
    partner = Partner(revision, {method: pages(kind, item)})
    async with Cache(default_ttl_ms=60_000) as cache, connected(partner, cache=cache if cached else None) as client:
        names = [each.name async for each in getattr(client, f"list_{listing}")()]
        again = [each.name async for each in getattr(client, f"list_{listing}")()]
    expected = [f"{number}-{index}" for number, size in enumerate(SIZES) for index in range(size)]
    assert names == again == expected
    cursors = [message["params"].get("cursor") for message in partner.sent_of(method)]
    assert cursors == [None, *CURSORS] * (1 if cached else 2)


@pytest.mark.parametrize("revision", ALL)
async def test_a_server_may_have_resources_and_no_method_for_templates(revision: str) -> None:
    missing = {"error": {"code": -32601, "message": "Method not found"}}
    async with connected(Partner(revision, {"resources/templates/list": missing})) as client:
        assert await client.list_resource_templates() == []
    async with connected(Partner(revision, {"resources/list": missing})) as client:
        with pytest.raises(PeerError):
            _ = await client.list_resources()


@pytest.mark.parametrize("revision", ALL)
async def test_a_list_that_goes_in_circles_has_an_end(revision: str) -> None:
    partner = Partner(revision, {"tools/list": {"tools": [], "nextCursor": "again"}})
    async with connected(partner) as client:
        with pytest.raises(ProtocolError):
            _ = await client.list_tools()
    assert len(partner.sent_of("tools/list")) < 5


async def test_the_cursor_of_a_list_of_tasks_is_passed_on_as_it_is() -> None:
    from carrel.wire.tasks import ListTasksParams

    partner = Partner("2025-11-25", {"tasks/list": {"tasks": []}})
    async with connected(partner) as client:
        for cursor in CURSORS:
            await client.session.request(ClientCall(LIST_TASKS, ListTasksParams(cursor=cursor)))
    assert [message["params"]["cursor"] for message in partner.sent_of("tasks/list")] == CURSORS


async def test_a_capability_that_was_not_declared_is_not_used() -> None:
    for revision in ALL:
        partner = Partner(revision, capabilities={})
        async with connected(partner) as client:
            assert await client.list_tools() == []
            for use in (client.call_tool("t"), client.read_resource("a:b"), client.get_prompt("p")):
                with pytest.raises(ProtocolError, match="does not offer"):
                    await use
        opening = 1 if revision == LATEST else 3
        assert len(partner.sent) == opening
