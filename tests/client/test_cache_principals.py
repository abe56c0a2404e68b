"""Who asks: what a server answered to one is not shown to another who has the same cache."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from carrel import Client, Context, Server
from carrel.client.cache import Cache
from carrel.security import StaticTokens
from carrel.security.server.static_tokens import make_token
from carrel.transports.client.options import HTTPOptions, ProcessOptions
from support.http_server import over_http

pytestmark = pytest.mark.slow


def make_diary() -> Server:
    """A server that answers everybody something else, and lets it be kept."""
    app = Server("diary", ttl=3600, scope="private")

    @app.resource("diary://today")
    async def today(context: Context) -> str:
        return "" if context.principal is None else context.principal.subject

    return app


@pytest.mark.parametrize("way", ["auth", "headers"])
async def test_clients_with_other_tokens_share_nothing_private(way: str, tmp_path: Path) -> None:
    tokens, lines = zip(*(make_token(name) for name in ("alice", "bob")), strict=True)
    (tmp_path / "tokens.txt").write_text("\n".join(lines))
    read: list[Any] = []
    with over_http(make_diary(), authorization=StaticTokens(tmp_path / "tokens.txt")) as origin:
        async with Cache() as cache:
            for token in (*tokens, tokens[0]):
                http = (
                    HTTPOptions(auth=token)
                    if way == "auth"
                    else HTTPOptions(headers={"Authorization": f"Bearer {token}"})
                )
                async with Client(f"{origin}/mcp", cache=cache, http=http) as client:
                    read.append((await client.read_resource("diary://today")).contents[0].text)
            assert (cache.statistics.hits, cache.statistics.entries) == (1, 2)
    assert read == ["alice", "bob", "alice"]


async def test_programs_with_other_variables_share_nothing_private(tmp_path: Path) -> None:
    script = tmp_path / "whose.py"
    script.write_text(
        "import os\nfrom carrel import Server\napp = Server('whose', ttl=3600)\n"
        "app.resources.add('whose://this', os.environ['WHOSE'])\napp.run()\n"
    )
    async with Cache() as cache:
        for name in ("alice", "bob"):
            async with Client(
                [sys.executable, str(script)], process=ProcessOptions(env={"WHOSE": name}), cache=cache
            ) as client:
                assert (await client.read_resource("whose://this")).contents[0].text == name
