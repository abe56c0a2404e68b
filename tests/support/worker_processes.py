"""A running command with several workers, and its processes."""

from __future__ import annotations

import asyncio
import os
import re
import signal
import subprocess
from contextlib import asynccontextmanager, suppress
from pathlib import Path

from support.carrel_process import COMMAND
from support.raw_http import Site, modern, modern_headers
from support.stdio_process import text_of

PATIENCE = 90.0


class Workers:
    """A running command with several workers."""

    def __init__(self, process, site):
        self.process = process
        self.site = site
        self.errors = ""

    async def wait_for(self, pattern):
        """Read standard error until a line matches."""
        async with asyncio.timeout(PATIENCE):
            while True:
                line = (await self.process.stderr.readline()).decode()
                self.errors += line
                if re.search(pattern, line):
                    return line
                assert line, f"{pattern!r} is not in: {self.errors}"

    async def use(self, tool, client=None, **arguments):
        """Call a tool without a session, on a connection of its own or on ``client``."""
        params = {"name": tool, "arguments": arguments}
        message, headers = modern("tools/call", **params), modern_headers("tools/call", **params)
        return text_of(await (await self.site.post(message, headers, client)).result())

    async def pids(self, number=2, without=()):
        """Return the ids of the processes that answer, once there are so many."""
        found = set()
        async with asyncio.timeout(PATIENCE):
            while len(found) < number:
                with suppress(ConnectionError, asyncio.IncompleteReadError):
                    pid = int(await self.use("pid"))
                    if pid not in without:
                        found.add(pid)
        return found

    async def connect(self, pid):
        """Return a connection to one of the processes."""
        async with asyncio.timeout(PATIENCE):
            while True:
                client = await self.site.connect()
                if int(await self.use("pid", client)) == pid:
                    return client
                client.close()

    @property
    def children(self):
        """Processes that the parent has started: the one with the store, and the workers."""
        pid = self.process.pid
        return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]

    async def end(self, number=signal.SIGTERM):
        """Send a signal to the parent, and return its exit code and what it has printed since."""
        self.process.send_signal(number)
        async with asyncio.timeout(PATIENCE):
            _, errors = await self.process.communicate()
        self.errors += errors.decode()
        return self.process.returncode


@asynccontextmanager
async def running(*arguments, cwd=None, env=None):
    process = await asyncio.create_subprocess_exec(
        *(*COMMAND, *arguments),
        stdin=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        cwd=cwd,
        env={**os.environ, **(env or {})},
    )
    workers = Workers(process, None)
    try:
        line = await workers.wait_for(r"(ready at|URL) +http://")
        workers.site = Site(int(re.search(r"127\.0\.0\.1:(\d+)", line)[1]))
        yield workers
    finally:
        if workers.site is not None:
            workers.site.close()
        if process.returncode is None:
            await workers.end()


def alive(pid):
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


async def gone(pids):
    """Wait until processes have ended."""
    async with asyncio.timeout(PATIENCE):
        while any(map(alive, pids)):
            await asyncio.sleep(0.02)
