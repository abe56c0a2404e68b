"""Servers over HTTP as processes of their own, which can be killed and started again on the same port."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import os
import socket
from collections.abc import AsyncIterator

from support.forked_command import Fork, launch_script
from support.servers import SERVERS

__all__ = ["free_port", "reachable", "restart", "serving", "start", "stop"]

SHELF = SERVERS / "demo.py"
RUNNING: dict[int, Fork] = {}
NUMBERS = itertools.count()


def free_port() -> int:
    """A port that nobody has, nor gets while its server is away: every test process has ports of its own.

    The ports that the system gives out by itself are above 32,768.
    """
    first = 20_000 + os.getpid() % 250 * 40
    for port in (first + next(NUMBERS) % 40 for _ in range(40)):
        with contextlib.suppress(OSError), socket.socket() as taken:
            taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            taken.bind(("127.0.0.1", port))
            return port
    raise AssertionError("no port is free")


@contextlib.asynccontextmanager
async def serving(port: int) -> AsyncIterator[None]:
    """Serve a shelf on a port, until the end."""
    await start(port)
    try:
        yield
    finally:
        await stop(port)


async def start(port: int) -> None:
    """Start a shelf, and wait until it answers."""
    with open(os.devnull, "r+b") as nothing:
        RUNNING[port] = launch_script(SHELF, [str(port)], [nothing.fileno()] * 3)
    await reachable(port)


async def reachable(port: int) -> None:
    """Wait until a server answers on a port."""
    async with asyncio.timeout(60):
        while True:
            try:
                _, writer = await asyncio.open_connection("127.0.0.1", port)
            except OSError:
                await asyncio.sleep(0.02)
                continue
            writer.close()
            await writer.wait_closed()
            return


async def stop(port: int) -> None:
    """Kill a shelf."""
    process = RUNNING.pop(port)
    process.kill()
    await asyncio.to_thread(process.wait)


async def restart(port: int) -> None:
    """Kill a shelf and start another one in its place."""
    await stop(port)
    await start(port)
