"""The client's end of HTTP+SSE, with our own server."""

from __future__ import annotations

from typing import Any

import pytest
import pytest_asyncio

from carrel.errors import PeerError
from carrel.protocol.revisions import REVISIONS
from carrel.transports.http_sse_client import HTTPSSETransport
from carrel.wire.resources import ReadResourceParams

from .receiving import Asker
from .site import Site

HANDSHAKE = [name for name, revision in REVISIONS.items() if not revision.stateless]
OLDEST = HANDSHAKE[-1]


@pytest_asyncio.fixture
async def old_site(serve: Any) -> Site:
    return await serve(sse_path="/sse")


def asker(site: Site, revision: str = OLDEST, **options: Any) -> Asker:
    return Asker(HTTPSSETransport(f"http://{site.host}/sse", **options), revision)


@pytest.mark.parametrize("revision", HANDSHAKE)
async def test_a_session_begins_and_requests_are_answered(old_site: Site, revision: str) -> None:
    async with asker(old_site, revision) as client:
        assert (await client.shake_hands())["protocolVersion"] == revision
        result = await client.ask("read_resource", ReadResourceParams(uri="memo://text"))
        assert result["contents"][0]["text"] == "text"


async def test_a_server_of_another_kind_is_told(old_site: Site) -> None:
    client = Asker(HTTPSSETransport(f"http://{old_site.host}/nothing"), OLDEST)
    with pytest.raises(PeerError, match="endpoint") as raised:
        await client.transport.open(client.recorder)
    assert raised.value.status == 404
