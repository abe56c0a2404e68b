"""Policies over sources that make documents of what they share, as users start them: a token decides what is shown."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from carrel import Client
from carrel.cli import main
from carrel.errors import MCPError
from carrel.transports.client.options import HTTPOptions
from support.carrel_process import serving
from support.git import Repository
from support.shop_database import TABLES

RULES = """
[auth]
tokens = "tokens.txt"

[access.roles]
ann = {{ token = "ann" }}
bob = {{ token = "bob" }}

[[access.rules]]
role = ["ann", "bob"]
allow = "all"

[[access.rules]]
role = "bob"
deny = "all"
resources = "{denied}"
"""


@contextmanager
def two_callers(
    folder: Path, source: str, denied: str, capsys: pytest.CaptureFixture[str]
) -> Iterator[tuple[Client, Client]]:
    """Serve a source over HTTP, and yield the clients of ann, who may read everything, and of bob, who may not."""
    tokens = []
    for name in ("ann", "bob"):
        assert main(["token", "add", name, "--file", str(folder / "tokens.txt")]) == 0
        tokens.append(HTTPOptions(headers={"Authorization": f"Bearer {capsys.readouterr().out.strip()}"}))
    (folder / "carrel.toml").write_text(source + RULES.format(denied=denied))
    with serving("serve", "--config", "carrel.toml", cwd=str(folder)) as (url, _):
        yield Client(url, http=tokens[0]), Client(url, http=tokens[1])


async def texts(client: Client, uris: list[str]) -> list[str]:
    return [(await client.read_resource(uri)).contents[0].text for uri in uris]


async def test_a_repository_shows_only_the_paths_that_a_caller_may_read(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    repository = Repository(tmp_path / "shop")
    repository.commit("First", **{"docs/a.md": "word\n", "secret/b.md": "word secret\n"})
    repository.commit("Second", **{"docs/a.md": "word two\n", "secret/b.md": "word secret two\n"})
    uris = [
        f"git://shop/{path}"
        for path in (
            *("tree/HEAD", "commit/HEAD", "diff/HEAD", "diff/HEAD~1", "diff/HEAD~1..HEAD", "grep/HEAD?query=word"),
            "log/HEAD?path=secret",
        )
    ]
    source = '[[sources]]\nurl = "git:shop"\n'
    with two_callers(tmp_path, source, "git://shop/*/*/secret/**", capsys) as (one, two):
        async with one as ann, two as bob:
            every = await texts(ann, uris)
            assert all("secret" in text for text in every[:-1])
            assert "First" in every[-1]
            seen = await texts(bob, uris)
            assert not any("secret" in text for text in seen[:-1])
            assert all("docs" in text for text in seen[:-1])
            assert '"commits":[\n]' in seen[-1]
            for path in (
                "file/HEAD/secret/b.md",
                "file/HEAD/secret/b.md/",
                "blame/main/secret/b.md",
                "tree/HEAD/secret",
            ):
                with pytest.raises(MCPError, match="not found"):
                    await bob.read_resource(f"git://shop/{path}")
            found = await bob.call_tool("search_resources", {"query": "word"})
            assert "docs/a.md" in str(found.content)
            assert "secret" not in str(found.content)
            template = "git://shop/log/{ref}{?path,limit,after}"
            completed = await bob.complete(template, "path", "", {"ref": "HEAD"})
            assert completed.values == ["docs/"]


async def test_a_database_shows_only_the_tables_that_a_caller_may_read(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    connection = sqlite3.connect(tmp_path / "shop.db")
    connection.executescript(TABLES)
    connection.close()
    uris = [f"sqlite:///shop.db/{path}" for path in ("schema", "dictionary", "diagram", "statistics", "tables")]
    source = '[[sources]]\nurl = "sqlite:///shop.db"\nquery = true\n'
    with two_callers(tmp_path, source, "sqlite:///shop.db/tables/secrets/**", capsys) as (one, two):
        async with one as ann, two as bob:
            assert all("secrets" in text for text in await texts(ann, uris))
            seen = await texts(bob, uris)
            assert not any("secrets" in text for text in seen)
            assert all("orders" in text for text in seen)
            for path in ("schema", "rows", "rows/1"):
                with pytest.raises(MCPError, match="not found"):
                    await bob.read_resource(f"sqlite:///shop.db/tables/secrets/{path}")
            sql = {"sql": "SELECT word FROM secrets"}
            assert "sesame" in str((await ann.call_tool("query_shop", sql)).content)
            refused = await bob.call_tool("query_shop", sql)
            assert refused.is_error
            assert "sesame" not in str(refused.content)
