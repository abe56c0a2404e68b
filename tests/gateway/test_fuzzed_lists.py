"""Lists of a hostile server behind a gateway: whatever is in an entry, it costs at most that entry."""

from __future__ import annotations

import asyncio
import copy
import logging
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from carrel import Client, Server
from carrel.gateway import Gateway
from carrel.host.config import ServerConfig
from carrel.host.remote_entries import MAX_LOGGED
from carrel.protocol.extensions.skills import SKILLS
from carrel.transports.memory import MemoryPeer, connect
from support.http_server import over_http
from support.scripted_server import CAPABILITIES, LATEST, Partner, on_http

SESSION = "2025-11-25"
UI = {"extensions": {"io.modelcontextprotocol/ui": {"mimeTypes": ["text/html;profile=mcp-app"]}}}


def nested(levels: int) -> Any:
    value: Any = {}
    for _ in range(levels):
        value = {"properties": {"a": value}}
    return value


ICON = {"src": "https://example.org/i.png", "mimeType": "image/png", "sizes": ["48x48"], "theme": "dark"}
SHOWN = {"audience": ["user"], "priority": 0.5, "lastModified": "2026-01-01T00:00:00Z"}
META = {"ui": {"resourceUri": "ui://a", "visibility": ["model"]}, "ui/resourceUri": "ui://a", "carrel/tags": ["a"]}
USUAL: dict[str, Any] = {"title": "Title", "description": "Text", "icons": [ICON], "_meta": META}
#: An entry of each list that has every member, by the method of the list and its member of the result.
WHOLE: dict[tuple[str, str], dict[str, Any]] = {
    ("tools/list", "tools"): {
        "name": "whole",
        "inputSchema": {"type": "object", "properties": {"a": {"type": "string", "x-mcp-header": "A"}}},
        "outputSchema": {"type": "object"},
        "annotations": {"title": "Title", "readOnlyHint": True, "destructiveHint": False},
        "execution": {"taskSupport": "optional"},
        **USUAL,
    },
    ("resources/list", "resources"): {
        "uri": "a://whole",
        "name": "whole",
        "mimeType": "text/plain",
        "size": 1,
        "annotations": SHOWN,
        **USUAL,
    },
    ("resources/templates/list", "resourceTemplates"): {
        "uriTemplate": "t://whole/{a}",
        "name": "whole",
        "mimeType": "text/plain",
        "annotations": SHOWN,
        **USUAL,
    },
    ("prompts/list", "prompts"): {
        "name": "whole",
        "arguments": [{"name": "a", "title": "A", "description": "Text", "required": True}],
        **USUAL,
    },
    ("skills/list", "skills"): {
        "uri": "skill://whole/SKILL.md",
        "frontmatter": {"name": "whole", "description": "Text"},
        "resources": [{"uri": "skill://whole/SKILL.md", "digest": "sha256:" + "0" * 64, "size": 1}],
    },
}
#: What takes the place of each member of an entry.
VALUES: list[Any] = [
    *(None, 5, True, -1.5e300, 10**30, "", "x", "\u202e\n\0", "x" * 100_000, [], [None], [[]], {}, {"": None}),
    *({"a": {"b": [5]}}, nested(40), nested(400)),
]


def changed(value: Any) -> Iterator[Any]:
    """Yield copies of a value, each with one member in it replaced or removed."""
    members = list(value.items()) if isinstance(value, dict) else list(enumerate(value))
    for key, inner in members:
        for other in VALUES:
            new = copy.copy(value)
            new[key] = other
            yield new
        new = copy.copy(value)
        del new[key]
        yield new
        if isinstance(inner, dict | list):
            for each in changed(inner):
                new = copy.copy(value)
                new[key] = each
                yield new


def entries(whole: dict[str, Any]) -> list[Any]:
    """Return a list with an entry that is right at its beginning and end, and all that can be wrong between."""
    first, last = (
        {name: v.replace("whole", where) if isinstance(v, str) else v for name, v in whole.items()}
        for where in ("first", "last")
    )
    return [first, *changed(whole), *VALUES, last]


@asynccontextmanager
async def gateway_to(partner: Partner) -> AsyncIterator[Gateway]:
    """Give a gateway to a server and to a good one."""
    good = Server("good")

    @good.tool(name="good")
    async def tool() -> str:
        return "good"

    @good.prompt(name="good")
    async def prompt() -> str:
        return "good"

    @good.resource("good://{a}/2", name="good")
    async def template(a: str) -> str:
        return a

    good.resources.add("good://1", "good", name="good")
    async with on_http(partner) as url:
        with over_http(good) as other:
            configs = [
                ServerConfig(name="a-bad", url=url, transport="http"),
                ServerConfig(name="good", url=f"{other}/mcp", transport="http"),
            ]
            async with Gateway(configs, app={"page_size": 10_000}) as gateway:
                yield gateway


async def all_of(peer: MemoryPeer, method: str, member: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    cursor: dict[str, Any] = {}
    while True:
        answer = await peer.request(method, cursor)
        assert "error" not in answer, answer
        found += answer["result"][member]
        if "nextCursor" not in answer["result"]:
            return found
        cursor = {"cursor": answer["result"]["nextCursor"]}


@pytest.mark.parametrize(
    ("far", "near", "capabilities"),
    [
        (LATEST, LATEST, UI),  # passed on as they came
        (LATEST, "2024-11-05", {}),  # converted to the revision with the fewest members
        pytest.param(SESSION, LATEST, {}, marks=pytest.mark.exhaustive),
        pytest.param(SESSION, SESSION, UI, marks=pytest.mark.exhaustive),
    ],
)
async def test_an_entry_that_is_wrong_costs_no_other_entry(
    far: str, near: str, capabilities: dict[str, Any], caplog: pytest.LogCaptureFixture
) -> None:
    declared = {**CAPABILITIES, "extensions": {SKILLS.name: {}}} if far == LATEST else CAPABILITIES
    partner = Partner(far, capabilities=declared)
    typed = {"resultType": "complete", "ttlMs": 0, "cacheScope": "public"} if far == LATEST else {}
    for (method, member), whole in WHOLE.items():
        partner.answers[method] = {member: entries(whole), **typed}
    with caplog.at_level(logging.WARNING):
        async with gateway_to(partner) as gateway, connect(gateway.app, near, **capabilities) as peer:
            for method, member in WHOLE:
                if member == "skills" and (far, near) != (LATEST, LATEST):
                    continue
                shown = str(await all_of(peer, method, member))
                for name in ("first", "last"):
                    assert name in shown, (method, name)
                assert member == "skills" or "good" in shown
                assert "\u202e" not in "".join(
                    str(each.get(key))
                    for each in await all_of(peer, method, member)
                    for key in ("name", "title", "uri")
                )
    assert len([record for record in caplog.records if "is left out" in record.message]) <= 2 * MAX_LOGGED
    assert not [record for record in caplog.records if record.exc_info]


@pytest.mark.parametrize("visibility", [None, 5, True, "model", {}])
async def test_a_visibility_that_is_not_a_list_counts_as_absent(visibility: Any) -> None:
    tool = {"name": "odd", "inputSchema": {"type": "object"}, "_meta": {"ui": {"visibility": visibility}}}
    async with (
        gateway_to(Partner(SESSION, {"tools/list": {"tools": [tool]}})) as gateway,
        Client(gateway.app) as client,
    ):
        assert {each.name for each in await client.list_tools()} == {"odd", "good"}


@pytest.mark.parametrize("answer", [{"error": {"code": -32603, "message": "No"}}, {"tools": 5}, {}, {"tools": None}])
async def test_a_list_that_is_an_error_costs_the_lists_of_others_nothing(answer: dict[str, Any]) -> None:
    async with gateway_to(Partner(SESSION, {"tools/list": answer})) as gateway, Client(gateway.app) as client:
        assert [each.name for each in await client.list_tools()] == ["good"]


@pytest.mark.parametrize("near", ["2024-11-05", "2025-06-18", LATEST])
async def test_unknown_members_pass_with_entries_for_clients_that_have_meta_there_and_not_beside_them(
    near: str,
) -> None:
    tool = {"name": "odd", "inputSchema": {"type": "object"}, "securitySchemes": [{"type": "noauth"}]}
    partner = Partner(SESSION, {"tools/list": {"tools": [tool], "total": 1}})
    async with gateway_to(partner) as gateway, connect(gateway.app, near) as peer:
        result = (await peer.request("tools/list"))["result"]
    odd = next(each for each in result["tools"] if each["name"] == "odd")
    assert "total" not in result
    assert ("securitySchemes" in odd) is (near != "2024-11-05")


async def test_clients_that_list_at_the_same_time_cause_one_request() -> None:
    partner = Partner(LATEST)
    partner.answers["tools/list"] = {
        "resultType": "complete",
        "ttlMs": 0,
        "cacheScope": "public",
        "tools": [{"name": "odd", "inputSchema": {"type": "object"}}],
    }
    async with gateway_to(partner) as gateway, Client(gateway.app) as client:
        before = len(partner.sent_of("tools/list"))
        found = await asyncio.gather(*(gateway.host.servers["a-bad"].items("tool") for _ in range(20)))
        assert await client.list_tools()
    assert [[tool.name for tool in tools] for tools in found] == [["odd"]] * 20
    assert len(partner.sent_of("tools/list")) == before + 1
