"""Replicas behind HAProxy, which sends each request to the next replica, whatever its session or connection."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from glob import glob
from pathlib import Path

from support.debian import program
from support.forked_command import Fork, launch, launch_script
from support.http_process import free_port, reachable
from support.redis_servers import PRELOADED, RedisServer

__all__ = ["Group", "Member", "replicated"]

PROGRAM = Path(__file__).with_name("program.py")
#: Key of the store of replicas that are commands.
KEYS = "00" * 32
CONFORMANCE = Path(__file__).parents[1] / "conformance" / "server.py"
#: A connection of a client is not bound to a replica, and nothing but the URL decides where a request goes.
HAPROXY = """
global
    log stderr format raw local0 warning
defaults
    mode http
    timeout connect 5s
    timeout client 300s
    timeout server 300s
    option http-server-close
    retries 8
    option redispatch 1
    option abortonclose
frontend clients
    bind 127.0.0.1:{port}
    default_backend replicas
backend replicas
    balance roundrobin
    {servers}
"""


class Member:
    """One replica. Its ``name`` changes with each process."""

    def __init__(
        self, number: int, application: str, url: str, folder: Path, lease: float | None, *, ahead: int = 0
    ) -> None:
        self.port = free_port()
        self.starts = 0
        self._number = number
        self._script, self._arguments = PROGRAM, [application, str(self.port), url, str(folder)]
        self._command: list[str] = []
        if application == "gateway":
            self._command = ["gateway", str(folder / "carrel.toml"), "--http", str(self.port), "--state", url]
        if application == "conformance":
            self._script, self._arguments = CONFORMANCE, ["--port", str(self.port), "--state", url]
        self._lease = lease
        self.log = folder / f"replica-{number}.log"
        self._ahead = ahead
        self.process: Fork | subprocess.Popen[bytes] | None = None

    @property
    def name(self) -> str:
        return f"{self._number}.{self.starts}"

    @property
    def pid(self) -> int:
        assert self.process is not None
        return self.process.pid

    async def start(self) -> None:
        """Start a process, and wait until it accepts connections."""
        self.starts += 1
        own = [] if self._lease is None else [self.name, str(self._lease)]
        with open(os.devnull, "rb") as nothing, open(self.log, "ab") as log:
            streams = [nothing.fileno(), log.fileno(), log.fileno()]
            if self._command:
                self.process = launch(self._command, streams, environment={**os.environ, "CARREL_STATE_KEYS": KEYS})
            elif self._ahead:
                command = [sys.executable, self._script, *self._arguments, *own]
                self.process = subprocess.Popen(
                    command, stdin=nothing, stdout=log, stderr=log, env={**os.environ, **clock_ahead(self._ahead)}
                )
            else:
                self.process = launch_script(self._script, [*self._arguments, *own], streams)
        await reachable(self.port)

    async def end(self, number: int = signal.SIGKILL) -> None:
        """Send a signal, and wait for the end of the process."""
        assert self.process is not None
        self.process.send_signal(signal.SIGCONT)
        self.process.send_signal(number)
        await asyncio.to_thread(self.process.wait, 60)


def clock_ahead(seconds: int) -> dict[str, str]:
    """Return the environment of a process whose clock is ahead."""
    program("libfaketime")
    return {"LD_PRELOAD": glob(PRELOADED[0])[0], "FAKETIME": f"+{seconds}s", "FAKETIME_DONT_FAKE_MONOTONIC": "1"}


class Group:
    """Replicas, and the ``url`` of all of them together."""

    def __init__(self, members: list[Member], port: int, folder: Path) -> None:
        self.members = members
        self.url = f"http://127.0.0.1:{port}/mcp"
        self.folder = folder

    def journal(self) -> list[tuple[str, str, str]]:
        """Return the effects in the journal: each with its id and the name of the replica."""
        path = self.folder / "journal"
        lines = path.read_text().splitlines() if path.exists() else []
        return [(effect, id, name) for effect, id, name in map(str.split, lines)]

    def logs(self) -> str:
        """Return what the replicas have logged."""
        return "".join(member.log.read_text() for member in self.members)


@asynccontextmanager
async def replicated(
    application: str,
    store: RedisServer,
    folder: Path,
    *,
    replicas: int = 4,
    lease: float | None = None,
    ahead: int = 0,
    port: int | None = None,
) -> AsyncIterator[Group]:
    """Run replicas of ``conformance``, of ``carrel gateway carrel.toml``, or of an application of ``program.py``,
    behind HAProxy.

    The application with a journal has a ``lease``, in seconds. The clock of the last replica is ``ahead``. ``port`` is
    the port of HAProxy, by default any.
    """
    members = [
        Member(number, application, store.url, folder, lease, ahead=ahead if number == replicas - 1 else 0)
        for number in range(replicas)
    ]
    port = free_port() if port is None else port
    servers = "\n    ".join(f"server r{each.port} 127.0.0.1:{each.port}" for each in members)
    configuration = folder / "haproxy.cfg"
    configuration.write_text(HAPROXY.format(port=port, servers=servers))
    proxy = None
    try:
        await asyncio.gather(*(member.start() for member in members))
        with open(folder / "haproxy.log", "wb") as log:
            proxy = subprocess.Popen([program("haproxy"), "-db", "-f", configuration], stdout=log, stderr=log)
        await reachable(port)
        yield Group(members, port, folder)
    finally:
        if proxy is not None:
            proxy.kill()
            proxy.wait()
        for member in members:
            if member.process is not None:
                await member.end()
