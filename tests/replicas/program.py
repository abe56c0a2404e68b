"""A replica: program.py APPLICATION PORT STATE FOLDER [NAME LEASE].

STATE is the URL of Redis or Valkey, or empty. APPLICATION is ``golden``, ``asking`` or ``journal``; the last one writes
what it does into FOLDER/journal.
"""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path
from typing import Literal

sys.path.insert(0, str(Path(__file__).parents[1]))

from carrel import Context, Limits, Server
from carrel.state.records import SlotExpired
from carrel.state.redis.state import RedisState

#: Key of all replicas.
KEY = bytes(32)
#: Resources whose changes clients listen to.
URIS = [f"memo://{number}" for number in range(16)]


class Journal:
    """File to which replicas append a line for each effect: the effect, its id, and the name of the replica."""

    def __init__(self, path: str, name: str) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        self._name = name

    def write(self, effect: str, id: str = "-") -> None:
        """Append a line. It stays if this process is killed."""
        os.write(self._file, f"{effect} {id} {self._name}\n".encode())


class StoppedSomewhere(asyncio.Event):
    """Event of all replicas: a file."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self._path = path

    def set(self) -> None:
        self._path.touch()

    async def wait(self) -> Literal[True]:
        while not self._path.exists():
            await asyncio.sleep(0.02)
        return True


def journaled(journal: Journal) -> Server:
    """Return a server whose tools write into a journal."""
    app = Server("journal", limits=Limits(session_ttl=600.0, max_sessions_per_client=100_000))
    for uri in URIS:
        app.resources.add(uri, "text")

    @app.tool
    async def add(id: str) -> str:
        journal.write("add", id)
        return id

    @app.tool
    async def count(context: Context) -> str:
        assert context.session is not None
        number = await context.session.get("number", 0) + 1
        await context.session.set("number", number)
        return str(number)

    @app.tool
    async def change(uri: str) -> str:
        journal.write("change", uri)
        app.resources.changed(uri)
        return uri

    @app.tool
    async def steps(id: str, number: int, context: Context) -> str:
        journal.write("begin", id)
        for step in range(1, number + 1):
            await context.report_progress(step)
            await asyncio.sleep(0.03)
        return id

    @app.tool
    async def greet(id: str, context: Context) -> str:
        journal.write("begin", id)
        answer = await context.elicit("Who?", str)
        journal.write("answer", id)
        return f"Hello {answer.data}"

    @app.tool(task="optional")
    async def job(id: str, seconds: float) -> str:
        journal.write("begin", id)
        await asyncio.sleep(seconds)
        journal.write("job", id)
        return id

    return app


def main(name: str, port: str, url: str, folder: str, *journal: str) -> None:
    """Serve an application."""
    if name == "journal":
        app = journaled(Journal(f"{folder}/journal", journal[0]))
    else:
        from golden import app as golden
        from golden import asking

        app = golden.build(StoppedSomewhere(Path(folder, "stopped"))) if name == "golden" else asking.build()
    if url:
        app.share_state(RedisState(url, [KEY], lease=float(journal[1])) if journal else url, [KEY])
    if journal:
        app.endpoint.replica.on(SlotExpired, lambda _: Journal(f"{folder}/journal", journal[0]).write("fenced"))
    # No comment tells HAProxy that a client is gone.
    app.run("http", port=int(port), keep_alive=600.0)


if __name__ == "__main__":
    main(*sys.argv[1:])
