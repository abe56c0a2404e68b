"""All replicas are restarted one after the other while an official client calls them: no request fails."""

from __future__ import annotations

import asyncio
import json
import signal
from pathlib import Path

import pytest

from support.parties import python_program
from support.redis_servers import redis_server

from .group import replicated

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

CLIENT = Path(__file__).with_name("steady_client.py")
PATIENCE = 120.0
LEASE = 15.0


async def test_no_request_of_an_official_client_fails_while_all_replicas_are_restarted(tmp_path: Path) -> None:
    with redis_server() as store:
        async with replicated("journal", store, tmp_path, lease=LEASE) as group:
            process = await asyncio.create_subprocess_exec(
                *python_program("1", str(CLIENT), group.url, "steady"),
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
            )
            async with asyncio.timeout(PATIENCE):
                while not group.journal():
                    await asyncio.sleep(0.05)
                for member in group.members:
                    before = len(group.journal())
                    await member.end(signal.SIGTERM)
                    await member.start()
                    while len(group.journal()) < before + 20:
                        await asyncio.sleep(0.05)
                output, _ = await process.communicate(b"")
            seen = json.loads(output)
            done = [id for effect, id, _ in group.journal() if effect == "add"]
    assert seen["errors"] == []
    assert sorted(done) == sorted(seen["acknowledged"]), "each call was done once"
    assert len(done) > 80
