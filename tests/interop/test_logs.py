"""The logs source in ``carrel serve``, read by the Inspector and by the official client, on stdio and over HTTP."""

from __future__ import annotations

import subprocess
from datetime import UTC, datetime
from pathlib import Path

import pytest

from interop.test_inspector import inspect
from support.carrel_process import command, serving
from support.parties import python

PATIENCE = 120.0

CLIENT = """
import asyncio, sys
from datetime import UTC, datetime
from mcp import ClientSession, types
from mcp.client.streamable_http import streamablehttp_client
from pydantic import AnyUrl

URI = AnyUrl("logs://recent?timeframe=5m&level=error")

async def main(url, path):
    updated = asyncio.Event()
    async def heard(message):
        if isinstance(getattr(message, 'root', None), types.ResourceUpdatedNotification):
            assert str(message.root.params.uri) == str(URI)
            updated.set()
    async with (
        streamablehttp_client(url) as (read, write, _),
        ClientSession(read, write, message_handler=heard) as session,
    ):
        await session.initialize()
        assert (await session.read_resource(URI)).contents[0].text == ""
        await session.subscribe_resource(URI)
        with open(path, "a") as file:
            file.write(f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ} ERROR disk full\\n")
        await asyncio.wait_for(updated.wait(), 60)
        print((await session.read_resource(URI)).contents[0].text, end="")
        template = "logs://recent?timeframe={duration}{&level,match}"
        reference = types.ResourceTemplateReference(type="ref/resource", uri=template)
        print((await session.complete(reference, {"name": "level", "value": "e"})).completion.values)

asyncio.run(main(*sys.argv[1:]))
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """Return a folder with logs, and a carrel.toml that shares them."""
    (tmp_path / "logs" / "shop").mkdir(parents=True)
    (tmp_path / "logs" / "a.log").write_text(f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ} INFO started\n")
    (tmp_path / "logs" / "shop" / "b.log").write_text(f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ} WARN slow\n")
    (tmp_path / "carrel.toml").write_text(
        '[[sources]]\nurl = "logs:./logs/*.log"\nlog_name = "app"\n[[sources]]\nurl = "logs:logs/shop"\n'
    )
    return tmp_path


@pytest.mark.parametrize("transport", [pytest.param("stdio", marks=pytest.mark.exhaustive), "http"])
def test_the_inspector_reads_recent_entries_of_all_logs(transport: str, project: Path) -> None:
    uri = "logs://recent?timeframe=5m"
    read = ("--method", "resources/read", "--uri", uri)
    if transport == "stdio":
        serve = command("serve", f"logs:{project}/logs/*.log", f"logs:{project}/logs/shop")
        [contents] = inspect(serve, "auto", *read)["contents"]
    else:
        with serving("serve", cwd=str(project)) as (url, _):
            [contents] = inspect([url], "auto", *read)["contents"]
    assert contents["uri"] == uri
    assert [line.split("Z ")[1] for line in contents["text"].splitlines()] == ["INFO started", "WARN slow"]
    assert "[shop/b.log] " in contents["text"]


def test_the_official_client_is_notified_of_a_new_error(project: Path) -> None:
    with serving("serve", f"logs:{project}/logs/*.log") as (url, _):
        done = subprocess.run(
            [python("1"), "-c", CLIENT, url, str(project / "logs" / "a.log")],
            capture_output=True,
            text=True,
            timeout=PATIENCE,
        )
    assert done.returncode == 0, done.stderr[-3000:]
    assert done.stdout.splitlines()[0].endswith("ERROR disk full")
    assert done.stdout.splitlines()[1] == "['error', 'emergency']"
