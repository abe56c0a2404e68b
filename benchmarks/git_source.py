"""The git source on a repository of 100,000 commits, beside `git cat-file --batch`.

    python -m benchmarks.git_source

The repository is made once, in `.cache/bench/git`. Objects are read in turn through a bare pipe to `git cat-file
--batch` and through the source, so that both see the same machine. `benchmarks.sources` compares with mcp-server-git.
"""

import asyncio
import os
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from statistics import median

from carrel.sources.git.source import GitSource
from carrel.testing import Caller, running

ROOT = Path(__file__).parent.parent
REPOSITORY = ROOT / ".cache" / "bench" / "git" / "history.git"
COMMITS, FILES, FOLDERS = 100_000, 2_000, 50
ROUNDS = 15


def stream() -> Iterator[bytes]:
    """Yield the input of `git fast-import`: commits of one file each, in 50 folders."""
    for number in range(COMMITS):
        text = b"line %d\n" % number * 20
        message = b"Commit number %d\n" % number
        path = b"src/dir%d/file%d.txt" % (number % FOLDERS, number % FILES)
        yield b"commit refs/heads/main\ncommitter A <a@example.com> %d +0000\n" % (1_500_000_000 + number * 60)
        yield b"data %d\n%sM 100644 inline %s\ndata %d\n%s\n" % (len(message), message, path, len(text), text)


def make() -> None:
    """Make the repository, packed as git would pack it, unless it is there."""
    if (REPOSITORY / "made").exists():
        return
    print("making a repository of 100,000 commits: a minute", file=sys.stderr)
    subprocess.run(["git", "init", "-q", "--bare", "-b", "main", str(REPOSITORY)], check=True)
    command = ["git", "-C", str(REPOSITORY), "fast-import", "--quiet"]
    with subprocess.Popen(command, stdin=subprocess.PIPE) as process:
        assert process.stdin is not None
        for part in stream():
            process.stdin.write(part)
    for more in (["repack", "-adq"], ["commit-graph", "write", "--reachable", "--no-progress"]):
        subprocess.run(["git", "-C", str(REPOSITORY), *more], check=True)
    (REPOSITORY / "made").touch()


def git(*arguments: str) -> list[str]:
    done = subprocess.run(["git", "-C", str(REPOSITORY), *arguments], capture_output=True, text=True, check=True)
    return done.stdout.splitlines()


class Pipe:
    """`git cat-file --batch`, and the least that reads from it."""

    def __init__(self) -> None:
        command = ["git", "-C", str(REPOSITORY), "cat-file", "--batch"]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0)
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.writing, self.reading = self.process.stdin.fileno(), self.process.stdout.fileno()

    def read(self, id: str) -> bytes:
        os.write(self.writing, f"{id}\n".encode())
        head, _, data = os.read(self.reading, 65_536).partition(b"\n")
        size = int(head.split()[2])
        while len(data) <= size:
            data += os.read(self.reading, 65_536)
        return data[:-1]


def each(read: Callable[[str], object], names: list[str]) -> float:
    """Return the microseconds that reading one takes."""
    began = time.perf_counter()
    for name in names:
        read(name)
    return (time.perf_counter() - began) / len(names) * 1e6


async def timed(ask: Callable[[], Awaitable[object]]) -> float:
    """Return the milliseconds of the median of a few calls, after one that does not count."""
    times = []
    for _ in range(6):
        began = time.perf_counter()
        await ask()
        times.append((time.perf_counter() - began) * 1e3)
    return median(times[1:])


async def objects(source: GitSource) -> None:
    entries = [line.split(None, 3) for line in git("ls-tree", "-r", "main")]
    ids, paths = [entry[2] for entry in entries], [f"{source.uri}/file/main/{entry[3]}" for entry in entries]
    pipe, store, reader = Pipe(), source._reader.opened.store, source._reader
    rows: dict[str, list[float]] = {"git cat-file --batch": [], "object by id": []}
    rows |= {"git cat-file --batch, main:path": [], "file by its URI": []}
    for _ in range(ROUNDS):
        rows["git cat-file --batch"].append(each(pipe.read, ids))
        rows["object by id"].append(each(lambda id: store.read(id, 1_000_000), ids))
        rows["git cat-file --batch, main:path"].append(each(pipe.read, [f"main:{entry[3]}" for entry in entries]))
        rows["file by its URI"].append(each(reader.read_resource, paths))
    pipe.process.kill()
    pipe.process.communicate()
    least = median(rows["git cat-file --batch"])
    for name, times in rows.items():
        print(f"{name:<36} {median(times):8.1f} us  {median(times) / least:5.2f} x")


async def requests(source: GitSource) -> None:
    caller, uri = Caller(source), source.uri
    last = git("rev-list", "--skip=50000", "--max-count=1", "main")[0]
    for path in (
        "log/main",
        f"log/main?after={last}",
        "file/main~50000/src/dir1/file1.txt",
        "commit/main",
        "diff/main",
    ):
        taken = await timed(lambda path=path: caller.read_resource(f"{uri}/{path}"))
        print(f"{path.replace(last, 'COMMIT'):<36} {taken:8.1f} ms")
    print(f"{'list of branches':<36} {await timed(lambda: caller.directory(f'{uri}/branches')):8.1f} ms")
    print(f"{'search for a name':<36} {await timed(lambda: caller.search('file1234', 10)):8.1f} ms")


async def main() -> None:
    make()
    source = GitSource(f"git:{REPOSITORY}")
    async with running(source):
        await objects(source)
        await requests(source)


if __name__ == "__main__":
    asyncio.run(main())
