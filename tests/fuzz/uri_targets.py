"""Fuzz target of everything that clients send to sources: URIs, cursors and what is typed, through a whole server.

A request has a result, or an error that says what is wrong. An internal error is a finding.
"""

# ruff: noqa: E501  (the seeds are easier to read in rows)

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from fuzz.cleanup import cleanup

__all__ = ["SEEDS", "TARGETS"]

Target = Callable[[bytes], None]

LINES = "".join(f"2025-01-31 08:00:{second:02} INFO entry {second}\n" for second in range(60))


def fill(folder: Path) -> None:
    """Make a repository, a database, logs and documents."""
    from support.git import Repository

    repository = Repository(folder / "repo")
    repository.commit("First", **{"a.txt": "one\ntwo\n", "b/c d.txt": "three\n"})
    repository.run("tag", "-m", "Version 1", "v1")
    repository.run("branch", "feature/login")
    repository.commit("Second\n\nMore.", **{"a.txt": "one\n2\n"})
    with sqlite3.connect(folder / "shop.db") as setup:
        setup.executescript(
            "CREATE TABLE t (id INTEGER PRIMARY KEY, v TEXT); CREATE TABLE k (a TEXT, b BLOB, PRIMARY KEY (a, b)) WITHOUT ROWID;"
        )
        setup.executemany("INSERT INTO t VALUES (?, ?)", [(number, "text") for number in range(9)])
        setup.executemany("INSERT INTO k VALUES (?, ?)", [("a,b", b"\x00"), ("\\", b"\xff"), ("", b"")])
    setup.close()
    (folder / "logs").mkdir()
    (folder / "logs" / "web.log").write_text(LINES)
    (folder / "docs").mkdir()
    (folder / "docs" / "tea.md").write_text("# Tea\n\nGreen tea, 绿茶, 上下文协议.\n")


def requests() -> Target:
    """``resources/read``, lists with a cursor, and completion, of files, git, a database, logs and the search."""
    from carrel import Server, sources
    from carrel.search.options import SearchOptions
    from carrel.transports.memory import MemoryPeer

    path = Path(cleanup.enter_context(TemporaryDirectory(prefix="carrel-fuzz-")))
    fill(path)
    app = Server("fuzz", page_size=3)
    for target, options in (
        (path / "docs", {}),
        (f"git:{path}/repo", {}),
        (f"sqlite:///{path}/shop.db", {"queries": {"some": "SELECT * FROM t WHERE v = :word AND id > :least"}}),
        (f"logs:{path}/logs/*.log", {"timezone": "UTC"}),
    ):
        app.add_provider(sources.open(target, **options))
    app.add_search(SearchOptions(folder=str(path / "index")))
    runner = cleanup.enter_context(asyncio.Runner())
    peer = runner.run(opened(app, MemoryPeer))
    cleanup.callback(lambda: runner.run(app.endpoint.stop()))
    first = runner.run(peer.request("resources/list"))
    docs = f"file://{path}/docs/"

    def run(data: bytes) -> None:
        text = (
            data[1:].decode("utf-8", "replace").replace("DOCS/", docs).replace("CURSOR/", first["result"]["nextCursor"])
        )
        method, params = request_of(data[0] % 3 if data else 0, text)
        reply: Any = runner.run(peer.request(method, params))
        assert "error" not in reply or not reply["error"]["message"].startswith("Internal error"), (
            method,
            params,
            reply,
        )

    return run


async def opened(app: Any, kind: Any) -> Any:
    """Start a server, and return a client of it."""
    await app.endpoint.start()
    return kind(app, "2026-07-28")


def request_of(number: int, text: str) -> tuple[str, dict[str, Any]]:
    """Return a request by its number, with a text in it."""
    if number == 0:
        return "resources/read", {"uri": text}
    if number == 1:
        return "resources/list", {"cursor": text}
    template, _, typed = text.partition(" ")
    name, _, value = typed.partition("=")
    return "completion/complete", {
        "ref": {"type": "ref/resource", "uri": template},
        "argument": {"name": name, "value": value},
    }


TARGETS: dict[str, Callable[[], Target]] = {"requests": requests}
SEEDS: dict[str, list[bytes]] = {
    "requests": [
        *(
            b"\x00" + uri.encode()
            for uri in (
                *("DOCS/tea.md", "DOCS/tea.md?lines=1-2", "DOCS/tea.md?bytes=0-9", "DOCS/?recursive", "DOCS/tea.md?tail=1"),
                *("git://repo", "git://repo/branches", "git://repo/branch/main", "git://repo/tag/v1", "git://repo/commit/HEAD~1"),
                *("git://repo/tree/main/b", "git://repo/file/feature%2Flogin/b/c%20d.txt?lines=1-1", "git://repo/blame/main/a.txt"),
                *("git://repo/diff/v1..main", "git://repo/diff/HEAD~1...HEAD?path=a.txt", "git://repo/log/main?limit=1&path=a.txt"),
                *("git://repo/grep/main?query=one&path=a", "git://repo/log/HEAD^1~0?after=4b825dc642cb6eb9a060e54bf8d69288fbee4904"),
                *("sqlite:///shop.db/tables/t/rows?after=3&limit=2&columns=v&format=csv", "sqlite:///shop.db/tables/t/rows/7"),
                *("sqlite:///shop.db/tables/k/rows/a%5C,b,0x00", "sqlite:///shop.db/queries/some?word=text&least=1&limit=2"),
                *("sqlite:///shop.db/schema?format=json", "sqlite:///shop.db/diagram?format=svg", "sqlite:///shop.db/tables/k/rows"),
                *("sqlite:///shop.db/tables/k/rows?after=a%5C,b,0x00", "sqlite:///shop.db/tables/t/statistics?format=json"),
                *("logs://recent?timeframe=5m&level=error&match=x", "logs://recent?since=2025-01-31&until=2025-02-01&tail=3&fields=*"),
                *("logs://logs/web.log?match=(%3Fi)entry%20%5Cd%2B&skip=2&tail=9", "logs://statistics?timeframe=9999d&log=web.log"),
                *("logs://logs/web.log?since=1738310400&until=2025-01-31T08:00:30%2B01:00&level=warn", "logs://logs?tail=50"),
                *("search://green%20tea?limit=5&source=docs&mime_type=text/*", "search://%E7%BB%BF%E8%8C%B6", "search://a?limit=100", "search://tea?limit=000000005"),
            )
        ),
        *(b"\x01" + cursor for cursor in (b"CURSOR/", b"eyJhIjoxfQ", b"0:", b"AAAAAGl0ZW1z", b"fuzz/0/x")),
        *(
            b"\x02" + text
            for text in (
                *(b"git://repo/file/{ref}/{+path} path=b/c", b"git://repo/log/{ref}{?path,limit,after} ref=fe"),
                *(b"git://repo/blame/{ref}/{+path}{?lines} path=a", b"git://repo/diff/{base}..{ref}{?path} base=v"),
                *(b"logs://recent?timeframe={duration}{&level,match} level=w", b"DOCS/{+path}{?lines} path=t"),
                *(b"logs://logs/{+log}{?timeframe,since,until,level,match,tail,fields} log=w", b"git://repo/tag/{name} name=v"),
                *(b"search://{+query}{?limit,source,mime_type} query=te", b"sqlite:///shop.db/diagram{?format} format=s"),
                b"sqlite:///shop.db/tables/{table}/rows/{key}{?columns,format} key=1",
            )
        ),
    ]
}  # fmt: skip
