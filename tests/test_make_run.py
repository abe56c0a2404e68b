"""What ``make run`` serves: examples/carrel.toml, with a shop that takes orders meanwhile."""

from __future__ import annotations

import asyncio
import json
import os
import re
import runpy
import shutil
import signal
import sqlite3
import subprocess
import sys
import threading
import urllib.request
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest

from carrel import Client
from support.carrel_process import Errors, command
from support.git import Repository

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parent.parent
SHOP = ROOT / "examples/shop.py"
PATIENCE = 60.0


def test_the_makefile_runs_the_example() -> None:
    text = (ROOT / "Makefile").read_text(encoding="utf-8")
    assert "examples/shop.py build/shop $(BIN)/carrel serve --config examples/carrel.toml" in text
    assert re.search(r"^run: ui\b.*\n.* --studio$", text, re.MULTILINE)


def order(module: dict[str, Any], place: Path) -> None:
    with closing(module["open_shop"](place)) as database:
        module["sell"](database, place / "shop.log")


def shop(folder: Path, *command: str) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run([sys.executable, str(SHOP), str(folder), *command], capture_output=True, timeout=PATIENCE)


def test_a_shop_is_open_while_a_command_runs(tmp_path: Path) -> None:
    for _ in range(2):  # the second time it is there already
        assert shop(tmp_path / "new/shop", sys.executable, "-c", "raise SystemExit(3)").returncode == 3
    with closing(sqlite3.connect(tmp_path / "new/shop/shop.db")) as database:
        assert database.execute("SELECT count(*) FROM orders").fetchone() == (2,)
    lines = (tmp_path / "new/shop/shop.log").read_text(encoding="utf-8").splitlines()
    numbers = [re.search(r"Z INFO order (\d): \w+ bought \w", line) for line in lines]
    assert [found and found[1] for found in numbers] == ["1", "2"]
    assert shop(tmp_path, "no-such-command").returncode != 0


@contextmanager
def running(folder: Path, **env: str) -> Iterator[tuple[str, Errors]]:
    """Run what ``make run`` does, in a copy of its files; give the URL and standard error."""
    (folder / "examples").mkdir()
    shutil.copy(ROOT / "examples/carrel.toml", folder / "examples")
    shutil.copytree(ROOT / "examples/library", folder / "examples/library")
    serve = command("serve", "--config", "examples/carrel.toml", "--http", "0", "--studio")
    with subprocess.Popen(
        [sys.executable, str(SHOP), "build/shop", *serve],
        stdin=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=folder,
        env={**os.environ, "XDG_CACHE_HOME": str(folder / "cache"), **env},
        process_group=0,
    ) as process:
        watchdog = threading.Timer(PATIENCE, os.killpg, (process.pid, signal.SIGKILL))
        watchdog.start()
        try:
            errors = Errors(process)
            url = errors.wait_for(r"URL +(http\S+)")[1]
            assert process.stdout is not None
            look_at(process.stdout.readline().strip())  # it is printed before the URL
            yield url, errors
        finally:
            os.killpg(process.pid, signal.SIGINT)
            errors.text += process.communicate(timeout=PATIENCE)[1]
            watchdog.cancel()
    assert process.returncode == 0, errors.text


def look_at(link: str) -> None:
    """Open the page of a link, and wait until it has the shop."""
    origin, _, token = link.partition("/#token=")
    request = urllib.request.Request(f"{origin}/api/items?q=orders", headers={"Authorization": f"Bearer {token}"})
    while True:
        with urllib.request.urlopen(request, timeout=PATIENCE) as response:
            if any(row["key"]["uri"].endswith("tables/orders/rows") for row in json.load(response)["rows"]):
                return


async def test_a_folder_a_database_a_repository_and_a_log_are_shared_together(tmp_path: Path) -> None:
    repository = Repository(tmp_path / "project")
    (repository.path / "hello.py").write_text("def hello(): pass\n")
    repository.run("add", ".")
    repository.run("commit", "-q", "-m", "First")
    with running(repository.path) as (url, errors):
        async with Client(url) as client:
            uris = [resource.uri async for resource in client.list_resources()]
            kinds = ("README.md", "sqlite:///shop.db/tables/orders/rows", "logs://shop/shop.log", "git://project")
            for kind in kinds:
                assert [uri for uri in uris if uri.endswith(kind)], (kind, uris)
            assert "order 1" in await text_of(client, "logs://shop/shop.log")
            assert '"id":1' in await text_of(client, "sqlite:///shop.db/tables/orders/rows")
            assert "def hello" in await text_of(client, "git://project/file/HEAD/hello.py")
            assert "rows" in await text_of(client, "sqlite:///shop.db/queries/orders_of?customer=Ada")
            async with client.watch("sqlite:///shop.db/tables/orders/rows", "logs://shop/shop.log") as changes:
                module: dict[str, Any] = runpy.run_path(str(SHOP))
                place = repository.path / "build/shop"
                await asyncio.to_thread(order, module, place)
                changed = set()
                async with asyncio.timeout(PATIENCE):
                    async for change in changes:
                        changed.add(change.uri)
                        if len(changed) == 2:
                            break
            async with asyncio.timeout(PATIENCE):
                while "garden.md" not in (found := await text_of(client, "search://garden")):
                    await asyncio.sleep(0.05)  # until the index is there
            assert "projects/garden.md" in found
        assert "is left out" not in errors.text


async def test_a_copy_without_a_repository_is_served_without_it(tmp_path: Path) -> None:
    with running(tmp_path) as (url, errors):
        async with Client(url) as client:
            uris = [resource.uri async for resource in client.list_resources()]
        assert "logs://shop/shop.log" in uris
        assert not [uri for uri in uris if uri.startswith("git:")]
    assert re.search(r"git://\S+ is left out: There is no git repository", errors.text)


async def text_of(client: Client, uri: str) -> str:
    result = await client.read_resource(uri)
    return "\n".join(getattr(content, "text", "") for content in result.contents)
