"""Benchmark of search over a folder, compared with ripgrep and git grep: ``python -m benchmarks.search FOLDER…``.

The text files of the folders are copied to a separate folder, split into ``--files`` pieces, and shared by a server.
The benchmark measures the indexing speed, the index size, the event loop lag during indexing, the time of a query
through the ``search`` tool, how soon a changed file is found, and in another process the restart and the memory of a
server that has the index already. The queries are words from the files.

With ``--passages``, it measures instead how long an index with so many passages of the texts takes to open.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import multiprocessing
import random
import re
import resource
import shutil
import subprocess
import tempfile
import threading
import time
from contextlib import suppress
from pathlib import Path

from carrel import Server
from carrel.search.folder import IndexFolder
from carrel.search.index import SearchIndex
from carrel.search.options import SearchOptions
from carrel.search.store import IndexStore
from carrel.transports import memory

ENDS = {".py", ".md", ".rst", ".txt", ".js", ".ts", ".c", ".h", ".json", ".html"}
QUERIES, CHANGES = 200, 10
#: Characters of a passage, and passages of a resource, of an index that is only opened.
PASSAGE, PER_RESOURCE = 1200, 10
WORD = re.compile(r"[^\W\d_]{4,}|[\u4e00-\u9fff\u3040-\u30ff]{2}")


def corpus(folders: list[Path], target: Path, files: int) -> tuple[int, int, list[str]]:
    """Write the texts of folders as so many files; return their number, their bytes, and some words of them."""
    paths = sorted(path for folder in folders for path in folder.rglob("*") if path.suffix in ENDS and path.is_file())
    piece = max(2000, sum(path.stat().st_size for path in paths) // files)
    chosen = random.Random(1)
    chosen.shuffle(paths)
    count = size = 0
    words: set[str] = set()
    for path in paths:
        text = _text(path)
        for at in range(0, len(text), piece):
            if count == files:
                break
            part = text[at : at + piece]
            folder = target / f"{count // 1000:03}"
            folder.mkdir(parents=True, exist_ok=True)
            (folder / f"{path.stem[:40]}-{count}{path.suffix}").write_text(part)
            count += 1
            size += len(part.encode())
            if chosen.random() < 0.01:
                words.update(chosen.sample(found, min(3, len(found))) if (found := WORD.findall(part)) else [])
    return count, size, sorted(words)


def _text(path: Path) -> str:
    try:
        text = path.read_text()
    except (OSError, UnicodeDecodeError):
        return ""
    return text if 200 < len(text) < 1_000_000 else ""


class Lag:
    """Event loop lag, sampled every 5 ms.

    ``own`` is the part of the lag during which Python threads of this process had a core. Other programs cause the
    rest.
    """

    def __init__(self) -> None:
        self.late: list[float] = []
        self.own: list[float] = []

    async def measure(self) -> None:
        """Measure until cancelled."""
        while True:
            used, begin = self._used(), time.perf_counter()
            await asyncio.sleep(0.005)
            late = time.perf_counter() - begin - 0.005
            self.late.append(late)
            self.own.append(min(late, sum(cpu - used.get(name, 0.0) for name, cpu in self._used().items())))

    def _used(self) -> dict[int, float]:
        """Return the seconds of a core that each thread of Python has had."""
        used = {}
        for thread in threading.enumerate():
            with suppress(OSError, TypeError):  # it has ended, or has not begun
                used[thread.ident or 0] = time.clock_gettime(time.pthread_getcpuclockid(thread.ident or 0))
        return used


def share(times: list[float], part: float) -> str:
    """Return a percentile of times, in milliseconds."""
    return f"{sorted(times)[min(len(times) - 1, int(len(times) * part))] * 1000:.1f}"


async def start(folder: Path, cache: Path, label: str, size: int) -> tuple[Server, SearchIndex]:
    """Index a folder, and print how long it takes."""
    app = Server("benchmark")
    app.add_provider(str(folder))
    index = app.add_search(SearchOptions(folder=str(cache)))
    lag = Lag()
    before, begin = resource.getrusage(resource.RUSAGE_SELF), time.perf_counter()
    await app.endpoint.start()
    measuring = asyncio.ensure_future(lag.measure())
    await index.ready()
    measuring.cancel()
    seconds, after = time.perf_counter() - begin, resource.getrusage(resource.RUSAGE_SELF)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    print(
        f"{label}: {seconds:.1f} s, {cpu:.1f} s of a core, {size / 1e6 / seconds:.1f} MB/s, "
        f"{size / 1e6 / cpu:.1f} MB/s a core; {memory_of('VmHWM')} MB of memory\n  event loop late "
        f"p99 {share(lag.late, 0.99)} ms, at most {share(lag.late, 1)} ms; of that by this process "
        f"p99 {share(lag.own, 0.99)} ms, at most {share(lag.own, 1)} ms"
    )
    return app, index


async def ask(app: Server, words: list[str], at_once: int) -> list[float]:
    """Send queries of one to four words through the tool, so many at once, and return their times."""
    chosen = random.Random(2)
    queries = iter([" ".join(chosen.sample(words, chosen.randint(1, 4))) for _ in range(QUERIES)])
    times: list[float] = []
    async with memory.connect(app) as peer:

        async def client() -> None:
            for query in queries:
                begin = time.perf_counter()
                reply = await peer.request("tools/call", {"name": "search", "arguments": {"query": query}})
                assert not reply["result"].get("isError"), reply
                times.append(time.perf_counter() - begin)

        await asyncio.gather(*(client() for _ in range(at_once)))
    return times


async def change(index: SearchIndex, folder: Path) -> list[float]:
    """Change a file several times, and return how long it takes until the change is found."""
    path = next(path for path in sorted(folder.rglob("*")) if path.is_file())
    times = []
    for number in range(CHANGES):
        word = f"zyzzyva{number}q"
        begin = time.perf_counter()
        path.write_text(f"{path.read_text()}\n{word}\n")
        while not (await index.search(word)).hits:
            await asyncio.sleep(0.01)
        times.append(time.perf_counter() - begin)
    return times


def reopen(folder: Path, cache: Path, size: int, words: list[str]) -> None:
    """Print how long a new process takes to pick up the index, and its memory after queries."""

    async def measure() -> None:
        app, _ = await start(folder, cache, "picked up by another process", size)
        await ask(app, words, 1)
        print(
            f"memory of this process after {QUERIES} queries: {memory_of('VmRSS')} MB, without mapped files "
            f"{memory_of('RssAnon')} MB"
        )
        await app.endpoint.stop()

    asyncio.run(measure())


def memory_of(name: str) -> str:
    """Return a figure of the memory of this process in megabytes."""
    status = Path("/proc/self/status")
    found = re.search(rf"{name}:\s+(\d+) kB", status.read_text()) if status.exists() else None
    return "?" if found is None else f"{int(found[1]) / 1024:.0f}"


def open_many(folders: list[Path], cache: Path, count: int) -> None:
    """Write an index of so many passages, and print how long it takes to open."""
    paths = (path for folder in folders for path in sorted(folder.rglob("*")) if path.suffix in ENDS and path.is_file())
    texts = [text[at : at + PASSAGE] for text in map(_text, paths) for at in range(0, len(text), PASSAGE)]
    store = IndexStore(IndexFolder(str(cache), "passages"))
    taken, begin = itertools.islice(itertools.cycle(texts), count), time.process_time()
    for number in range(0, count, PER_RESOURCE):
        parts = list(itertools.islice(taken, PER_RESOURCE))
        passages = [(text, "", 50 * at + 1, 50 * at + 50) for at, text in enumerate(parts)]
        store.engine.put(number + 1, f"file {number}", "", passages, known=False)
    store.commit()
    print(f"{store.engine.documents:,} passages and resources written in {time.process_time() - begin:.0f} s of a core")
    print(f"index: {store.size() / 1e6:.0f} MB")
    store.close()
    times, used = [], time.process_time()
    for _ in range(10):
        begin = time.perf_counter()
        store = IndexStore(IndexFolder(str(cache), "passages"))
        times.append(time.perf_counter() - begin)
        store.close()
    cpu = (time.process_time() - used) / len(times)
    print(f"opened: p50 {share(times, 0.5)} ms, at most {share(times, 1)} ms, {1000 * cpu:.0f} ms of a core")


def others(folder: Path, words: list[str]) -> None:
    """Print how long ripgrep and git grep take for one word, where they are installed."""
    commands = {
        "rg": (["rg", "-i", "-n", "-e"], [str(folder)]),
        "git": (["git", "-C", str(folder), "grep", "-i", "-n", "-e"], []),
    }
    if shutil.which("git") is not None:
        subprocess.run(["git", "init", "-q", str(folder)], check=True)
        subprocess.run(["git", "-C", str(folder), "add", "-A"], check=True, stderr=subprocess.DEVNULL)
    for name, (before, after) in commands.items():
        if shutil.which(name) is None:
            print(f"{name} is not installed (in Debian: apt install ripgrep git)")
            continue
        times = []
        for word in random.Random(3).sample(words, min(20, len(words))):
            begin = time.perf_counter()
            subprocess.run([*before, word, *after], stdout=subprocess.DEVNULL, check=False)
            times.append(time.perf_counter() - begin)
        print(f"{before[0]} for one word: p50 {share(times, 0.5)} ms, p95 {share(times, 0.95)} ms")


async def main() -> None:
    """Measure."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folders", nargs="+", type=Path)
    parser.add_argument("--files", type=int, default=100_000)
    parser.add_argument("--passages", type=int, metavar="NUMBER", help="only open an index of so many passages")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder, cache = Path(temporary, "files"), Path(temporary, "cache")
        if options.passages is not None:
            open_many(options.folders, cache, options.passages)
            return
        count, size, words = corpus(options.folders, folder, options.files)
        print(f"{count:,} files, {size / 1e6:.0f} MB")
        app, index = await start(folder, cache, "indexed", size)
        used = await index.size()
        print(f"index: {used / 1e6:.0f} MB, {used / size:.2f} of the text")
        for at_once in (1, 4):
            times = await ask(app, words, at_once)
            print(f"queries, {at_once} at once: p50 {share(times, 0.5)} ms, p95 {share(times, 0.95)} ms")
        times = await change(index, folder)
        print(f"a changed file is found: p50 {share(times, 0.5)} ms, at most {share(times, 1)} ms")
        await app.endpoint.stop()
        process = multiprocessing.get_context("spawn").Process(target=reopen, args=(folder, cache, size, words))
        process.start()
        await asyncio.to_thread(process.join)
        others(folder, words)


if __name__ == "__main__":
    asyncio.run(main())
