"""Times of the sources of `carrel serve`, beside the reference servers: `python -m benchmarks.sources`.

Each server is a process on stdio with the same client. For each row the two take turns, call by call, so that both see
the same machine; the table has the median of a call, and of the time from a change to its notification.
"""

import argparse
import asyncio
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterable, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

from carrel import Client

from . import git_source
from .processes import ROOT, Contender

Ask = Callable[[Client], Awaitable[Any]]

FILESYSTEM = ROOT / ".cache/parties/node/node_modules/@modelcontextprotocol/server-filesystem/dist/index.js"
GIT = Contender("mcp-server-git", "", "", "import mcp_server_git", ("mcp-server-git", "mcp<2"))
SQLITE = Contender("mcp-server-sqlite", "", "", "import mcp_server_sqlite", ("mcp-server-sqlite", "mcp<2"))
FILES, ROWS = 5_000, 100_000


@dataclass(frozen=True, slots=True)
class Task:
    """A timed operation: the request to Carrel, and the request to the other server if it supports the operation."""

    name: str
    carrel: Ask
    other: Ask | None = None
    times: dict[str, list[float]] = field(default_factory=lambda: {"carrel": [], "other": []})


def read(uri: str) -> Ask:
    return lambda client: client.read_resource(uri)


def call(tool: str, **arguments: object) -> Ask:
    async def ask(client: Client) -> None:
        result = await client.call_tool(tool, arguments)
        if result.is_error:
            raise RuntimeError(f"{tool} failed: {result.content}")

    return ask


def notified(uri: str, change: Callable[[], object]) -> Ask:
    """Change something, and wait for the notification."""

    async def ask(client: Client) -> float:
        async with client.watch(uri) as changes:
            began = time.perf_counter()
            await asyncio.to_thread(change)
            async for _ in changes:
                break
            return time.perf_counter() - began

    return ask


# Shared data


def make_files(folder: Path) -> Path:
    """Make text files of 4 KiB in folders of a hundred, and one of 1 MiB."""
    for number in range(FILES):
        place = folder / f"part{number // 100:02}"
        place.mkdir(parents=True, exist_ok=True)
        (place / f"note{number}.txt").write_text(f"Note {number}: water and stone.\n" * 128)
    (folder / "large.txt").write_text("A line of sixty-four characters, with the number of no page..\n" * 16_912)
    return folder


def make_database(path: Path) -> Path:
    """Make a database with a table of 100,000 rows."""
    with sqlite3.connect(path) as database:
        database.execute("CREATE TABLE orders (id INTEGER PRIMARY KEY, customer TEXT NOT NULL, total REAL NOT NULL)")
        rows = ((number, f"customer {number % 1000}", number / 7) for number in range(1, ROWS + 1))
        database.executemany("INSERT INTO orders VALUES (?, ?, ?)", rows)
    database.close()
    return path


# Tasks


def of_files(folder: Path) -> Iterable[Task]:
    small, large, part = folder / "part07/note707.txt", folder / "large.txt", folder / "part07"
    counter = iter(range(1_000_000))
    yield Task(
        "list a folder of 100 files",
        lambda client: client.list_directory(part.as_uri()),
        call("list_directory_with_sizes", path=str(part)),
    )
    yield Task("read 4 KiB", read(small.as_uri()), call("read_text_file", path=str(small)))
    yield Task("read 1 MiB", read(large.as_uri()), call("read_text_file", path=str(large)))
    yield Task("last 20 lines", read(f"{large.as_uri()}?tail=20"), call("read_text_file", path=str(large), tail=20))
    yield Task(
        "find a name in 5,000",
        call("search_resources", query="note4711.txt"),
        call("search_files", path=str(folder), pattern="**/note4711.txt"),
    )
    yield Task("notification", notified(small.as_uri(), lambda: small.write_text(f"{next(counter)}\n")))


def of_git(path: Path) -> Iterable[Task]:
    place, name = {"repo_path": str(path)}, f"git://{path.stem}"
    yield Task("log of 50 commits", read(f"{name}/log/main"), call("git_log", max_count=50, **place))
    yield Task("commit", read(f"{name}/commit/main"), call("git_show", revision="main", **place))
    yield Task("branches", read(f"{name}/branches"), call("git_branch", branch_type="local", **place))
    yield Task("file at a commit", read(f"{name}/file/main~50000/src/dir1/file1.txt"))


def of_sqlite(path: Path) -> Iterable[Task]:
    base = f"sqlite:///{path.name}"

    def insert() -> None:
        with sqlite3.connect(path) as database:
            database.execute("INSERT INTO orders (customer, total) VALUES ('new', 1)")
        database.close()

    yield Task("schema of a table", read(f"{base}/tables/orders/schema"), call("describe_table", table_name="orders"))
    yield Task(
        "100 rows of 100,000",
        read(f"{base}/tables/orders/rows?after=70000&limit=100"),
        call("read_query", query="SELECT * FROM orders WHERE id > 70000 ORDER BY id LIMIT 100"),
    )
    yield Task(
        "SQL query",
        call(
            "query_shop",
            sql="SELECT customer, sum(total) AS paid FROM orders WHERE id < 2000 GROUP BY customer LIMIT 10",
        ),
        call("read_query", query="SELECT customer, sum(total) AS paid FROM orders WHERE id < 2000 GROUP BY 1 LIMIT 10"),
    )
    yield Task("notification", notified(f"{base}/tables/orders/rows", insert))


# Measuring


async def timed(ask: Ask, client: Client) -> float:
    """Return the duration of a call in milliseconds, or the duration that the call measured itself."""
    began = time.perf_counter()
    own = await ask(client)
    return (own if isinstance(own, float) else time.perf_counter() - began) * 1e3


async def measure(tasks: Sequence[Task], carrel: Client, other: Client, calls: int) -> None:
    """Let both answer each task, in turns; the first answers do not count."""
    for task in tasks:
        count = min(calls, 6) if task.other is None else calls
        print(f"{task.name}: {count} calls", file=sys.stderr)
        for number in range(-2, count):
            mine = await timed(task.carrel, carrel)
            theirs = None if task.other is None else await timed(task.other, other)
            if number >= 0:
                task.times["carrel"].append(mine)
                task.times["other"] += [] if theirs is None else [theirs]


def report(kind: str, name: str, tasks: Iterable[Task]) -> None:
    """Print the table of one kind of source."""
    print(f"\n{kind:<28} {'carrel':>9} {name:>18}  {'times':>6}")
    for task in tasks:
        mine, theirs = median(task.times["carrel"]), task.times["other"]
        other = f"{median(theirs):15.2f} ms  {median(theirs) / mine:6.1f}" if theirs else f"{'cannot':>18}"
        print(f"{task.name:<28} {mine:6.2f} ms {other}")


async def compare(
    kind: str, served: Sequence[str], name: str, other: Sequence[str], tasks: Iterable[Task], calls: int
) -> None:
    """Start both servers, and measure and report all tasks of one kind of source."""
    some = list(tasks)
    async with AsyncExitStack() as stack:
        carrel = await stack.enter_async_context(Client([sys.executable, "-m", "carrel", "serve", *served]))
        peer = await stack.enter_async_context(Client(list(other)))
        await measure(some, carrel, peer, calls)
    report(kind, name, some)


async def main(options: argparse.Namespace) -> None:
    if not FILESYSTEM.exists():
        subprocess.run([sys.executable, str(ROOT / "tests/support/parties")], check=True)
    git_source.make()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name).resolve()
        files, database = make_files(folder / "files"), make_database(folder / "shop.db")
        git = git_source.REPOSITORY
        node = ["node", str(FILESYSTEM), str(files)]
        await compare("files", [str(files)], "server-filesystem", node, of_files(files), options.calls)
        python = [str(GIT.interpreter()), "-m", "mcp_server_git", "--repository", str(git)]
        await compare("git, 100,000 commits", [f"git:{git}"], GIT.name, python, of_git(git), options.calls)
        python = [str(SQLITE.interpreter().with_name("mcp-server-sqlite")), "--db-path", str(database)]
        served = [f"sqlite:///{database}", "--query", "--interval", "0.2"]
        await compare("SQLite, 100,000 rows", served, SQLITE.name, python, of_sqlite(database), options.calls)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m benchmarks.sources", description=__doc__)
    parser.add_argument("--calls", type=int, default=50, help="calls of each row (50)")
    asyncio.run(main(parser.parse_args()))
