"""Directories that servers may work on."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from carrel.client.handlers import Handlers
from carrel.errors import ConfigError
from carrel.wire.client_features import Root
from support.asked_client import capabilities, response_to
from support.scripted_server import Partner, connected
from support.server_connection import ALL, HANDSHAKES, LATEST, NOVEMBER

pytestmark = [pytest.mark.requirement, pytest.mark.slow]


async def listed(revision: str, roots: Any) -> Any:
    """Ask a client for its roots; return the result or error with which it responds."""
    return await response_to("roots/list", revision, handlers=Handlers(roots=roots))


@pytest.mark.parametrize("revision", ALL)
async def test_roots_are_declared_if_there_are_any_to_be_had(revision: str) -> None:
    for roots, expected in ((None, None), ([], {} if revision == LATEST else {"listChanged": True})):
        partner = Partner(revision)
        async with connected(partner, handlers=Handlers(roots=roots)) as client:
            await client.call_tool("t")
        assert capabilities(partner).get("roots") == expected


@pytest.mark.parametrize("revision", ALL)
async def test_roots_are_file_uris(revision: str, tmp_path: Path) -> None:
    odd = tmp_path / "a b#c?d%é"
    found = (await listed(revision, [tmp_path, str(odd), "file:///srv/data", Root(uri="file:///x", name="X")]))["roots"]
    assert found == [
        {"uri": tmp_path.as_uri(), "name": tmp_path.name},
        {"uri": odd.as_uri(), "name": odd.name},
        {"uri": "file:///srv/data"},
        {"uri": "file:///x", "name": "X"},
    ]


@pytest.mark.parametrize(
    ("root", "uri"),
    [("/srv/../etc", "file:///etc"), ("/srv/./x//y/..", "file:///srv/x"), (Path("/a/b/../../.."), "file:///")],
)
async def test_a_root_has_no_way_up_in_it(root: Any, uri: str) -> None:
    assert (await listed(NOVEMBER, [root]))["roots"][0]["uri"] == uri


@pytest.mark.parametrize(
    "root",
    [
        *("https://example.com/", "ftp://a/b", "file:relative", "file:///srv/../etc", "file:///srv/%2e%2e/etc"),
        *(Root(uri="https://example.com/"), Root(uri="/etc"), Root(uri="file:///a/../b"), "file:///a\x00b"),
    ],
)
async def test_roots_that_are_not_local_file_uris_are_never_sent(root: Any) -> None:
    assert await listed(NOVEMBER, lambda _: [root]) == {"code": -32603, "message": "Internal error"}
    with pytest.raises(ConfigError):
        async with connected(Partner(), handlers=Handlers(roots=[root])):
            pass


@pytest.mark.parametrize("revision", HANDSHAKES)
async def test_without_roots_there_is_no_such_method(revision: str) -> None:
    assert (await listed(revision, None))["code"] == -32601


@pytest.mark.parametrize("revision", ALL)
async def test_a_change_of_the_roots_is_announced_where_it_can_be(revision: str) -> None:
    partner = Partner(revision)
    async with connected(partner, handlers=Handlers(roots=["/a"])) as client:
        await client.change_roots(["/b"])
        await client.call_tool("t")
        announced = partner.sent_of("notifications/roots/list_changed")
        assert len(announced) == (revision != LATEST)
        if revision != LATEST:
            assert announced == [{"jsonrpc": "2.0", "method": "notifications/roots/list_changed"}]
            partner.ask("roots/list")
            assert (await partner.until(None))["result"] == {"roots": [{"uri": "file:///b", "name": "b"}]}


async def test_roots_that_were_not_declared_cannot_be_changed() -> None:
    partner = Partner(NOVEMBER)
    async with connected(partner) as client:
        with pytest.raises(ConfigError):
            await client.change_roots(["/b"])
