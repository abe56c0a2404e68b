"""``--workers``: one worker watches files, databases and APIs for the clients of all, and another one takes over."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from contextlib import suppress
from pathlib import Path

import pytest

from support.database_servers import PostgresClient, postgres
from support.redis_servers import redis_server
from support.web_site import running_site
from support.worker_processes import PATIENCE, running

pytestmark = [pytest.mark.asyncio, pytest.mark.slow]

#: Streams at once: each of three workers has one, but for one in 3,000 runs.
STREAMS = 24


def watches_of(pid):
    """Return how many inotify watches a process has."""
    found = 0
    with suppress(FileNotFoundError):
        for info in Path(f"/proc/{pid}/fdinfo").iterdir():
            with suppress(FileNotFoundError):
                found += info.read_text().count("inotify wd:")
    return found


async def watching(workers, without=()):
    """Return the process that watches files, once there is one, and the number of its watches."""
    async with asyncio.timeout(PATIENCE):
        while True:
            found = {pid: watches_of(pid) for pid in workers.children if pid not in without}
            if any(found.values()):
                break
            await asyncio.sleep(0.02)
    ((pid, number),) = [(pid, number) for pid, number in found.items() if number]
    return pid, number


async def notified(streams, uri):
    """Return the streams that are notified of a change; the others have ended with their worker."""
    found = []
    for stream in streams:
        with suppress(ConnectionError, asyncio.IncompleteReadError, ValueError, AssertionError):  # the worker has ended
            async with asyncio.timeout(PATIENCE):
                message = await stream.message()
                while message["method"] != "notifications/resources/updated":
                    message = await stream.message()
            assert message["params"]["uri"] == uri
            found.append(stream)
    return found


@pytest.mark.parametrize("redis", [False, pytest.param(True, marks=pytest.mark.exhaustive)])
async def test_files_are_watched_by_one_worker_and_by_another_one_when_it_is_killed(tmp_path, redis):
    folder = tmp_path / "notes"
    for name in ("a", "b", "c"):
        (folder / name).mkdir(parents=True)
    note = folder / "a" / "note.md"
    note.write_text("one")
    with redis_server("redis-server") as store:
        shared = ("--state", store.url) if redis else ()
        keys = {"CARREL_STATE_KEYS": "ab" * 32} if redis else {}
        async with running("serve", str(folder), "--http", "0", "--workers", "3", *shared, env=keys) as workers:
            await workers.wait_for("curl -s")
            streams = [await workers.site.listen(note.as_uri()) for _ in range(STREAMS)]
            pid, number = await watching(workers)
            assert number == 4
            note.write_text("two")
            assert len(await notified(streams, note.as_uri())) == STREAMS
            os.kill(pid, signal.SIGKILL)
            note.write_text("three")  # while nobody watches
            killed = time.monotonic()
            left = await notified(streams, note.as_uri())
            took = time.monotonic() - killed
            print(f"announced within {took:.2f} s")
            assert 0 < len(left) < STREAMS
            successor, number = await watching(workers, without=(pid,))
            assert (successor != pid, number) == (True, 4)
            await workers.end()  # the exit code is 143 if the new worker is loading still
            assert workers.errors.count("another one is started") == 1


async def test_a_site_is_polled_once_for_the_subscriptions_of_all_workers(tmp_path):
    poll = 0.5
    async with running_site() as site:
        pages = [f"/docs/{number}" for number in range(STREAMS)]
        uris = [site.page(page, f"Page {page}") for page in pages]
        site.page("/docs/", "Docs")
        (tmp_path / "carrel.toml").write_text(
            f"[http]\nport = 0\nworkers = 3\n[[sources]]\nurl = 'web+{site.origin}/docs/'\n"
            f"private_hosts = ['127.0.0.1']\nfetch_delay = 0.0001\ncache_seconds = 3600\npoll_seconds = {poll}\n"
        )
        async with running("serve", cwd=tmp_path) as workers:
            streams = [await workers.site.listen(uri) for uri in uris]  # each page is for one worker
            for page in pages:
                await asked_again(site, page)
            began, before = time.monotonic(), len(site.asked(pages[0]))
            for _ in range(4):
                await asked_again(site, pages[0])
            polls, took = len(site.asked(pages[0])) - before, time.monotonic() - began
            assert polls <= took / poll + 1, f"{polls} requests in {took:.1f} s"
            for page, uri, stream in zip(pages, uris, streams, strict=True):
                site.page(page, f"New {page}")
                await notified([stream], uri)
            for _ in range(12):  # at each worker, although the pages are cached for an hour
                for uri, page in list(zip(uris, pages, strict=True))[:3]:
                    async with asyncio.timeout(PATIENCE):  # a worker may read the notice after the client
                        while f"New {page}" not in await text_at(workers, uri):
                            await asyncio.sleep(0.02)
            assert await workers.end() == 0


async def text_at(workers, uri):
    """Read a page at any worker."""
    read = await (await workers.site.ask("resources/read", uri=uri)).json()
    return read["result"]["contents"][0]["text"]


async def asked_again(site, page):
    """Wait until a page is requested."""
    before = len(site.asked(page))
    async with asyncio.timeout(PATIENCE):
        while len(site.asked(page)) == before:
            await asyncio.sleep(0.02)


async def test_a_database_is_polled_by_one_worker(tmp_path):
    with postgres() as server, PostgresClient(server) as client:
        client.run("postgres", "CREATE DATABASE shop")
        client.run("shop", "CREATE TABLE books (id int PRIMARY KEY, title text)", "INSERT INTO books VALUES (1, 'one')")
        url = f"postgresql://postgres@/shop?host={server}"
        (tmp_path / "carrel.toml").write_text(
            f"[http]\nport = 0\nworkers = 3\n[[sources]]\nurl = '{url}'\ninterval = 0.5\nalias = 'shop'\n"
        )

        def last_queries():
            """Return the times of the last query of each connection."""
            query = "SELECT pid, query_start FROM pg_stat_activity WHERE datname = 'shop' AND pid <> pg_backend_pid()"
            return dict(line.split("|") for line in client.run("postgres", query).splitlines())

        async with running("serve", cwd=tmp_path) as workers:
            await workers.wait_for("curl -s")
            uri = "postgres://shop/tables/books/rows"
            streams = [await workers.site.listen(uri) for _ in range(STREAMS)]
            before = await asyncio.to_thread(last_queries)
            assert len(before) >= 3, "each worker has a connection"
            polling = set()
            async with asyncio.timeout(PATIENCE):
                for _ in range(6):
                    while (now := await asyncio.to_thread(last_queries)) == before:
                        await asyncio.sleep(0.05)
                    polling |= {pid for pid, at in now.items() if before.get(pid) != at}
                    before = now
            assert len(polling) == 1
            client.run("shop", "INSERT INTO books VALUES (2, 'two')")
            assert len(await notified(streams, uri)) == STREAMS
            assert await workers.end() == 0
