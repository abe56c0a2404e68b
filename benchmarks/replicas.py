"""What a replica, a session, a listener and a change cost: `python -m benchmarks.replicas --listeners 10000`.

Half of the listeners are `subscriptions/listen` streams (2026-07-28), half are GET streams of sessions that subscribe
(2025-11-25). All of them listen for the same resource, which changes twenty times. The figures are the time until
all listeners have the event, the processor time of the server and of this program, which listens, and the memory of the
server. With `--redis`, sessions and changes go through a Redis that is started for the measurement. With `--workers`,
the server has several processes, and the figures are their sums.
"""

import argparse
import asyncio
import contextlib
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from .audience import Audience
from .messages import HANDSHAKE, STATELESS, touch
from .processes import PATIENCE, Contender, Process, ServerFailed
from .receiver import Receiver
from .servers import content

CHANGES = 20
#: Streams that are opened at a time.
STEP = 500
COLUMNS = (
    *("state", "workers", "listeners", "median", "slowest", "processor per listener", "slowest", "of it in the kernel"),
    *("listening", "replica", "session", "GET stream", "listen stream"),
)
#: Seconds between two changes. Changes that follow sooner are sent together.
PAUSE = 0.1
EVENT = (b"notifications/resources/updated", content.CHANGING_URI.encode())


@contextlib.contextmanager
def redis() -> Iterator[str]:
    """Run a Redis, and yield its URL."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "socket")
        command = ["redis-server", "--port", "0", "--unixsocket", str(path), "--save", "", "--dir", folder]
        with subprocess.Popen(command, stdout=subprocess.DEVNULL) as process:
            try:
                end = time.monotonic() + PATIENCE
                while not path.exists():
                    if time.monotonic() > end:
                        raise ServerFailed("redis-server does not start")
                    time.sleep(0.01)
                yield f"unix://{path}"
            finally:
                process.kill()


class Server(Process):
    """A server with its workers."""

    def __init__(self, state: str, workers: int) -> None:
        options = (str(workers), *(() if state == "memory" else (state,)))
        super().__init__(Contender("carrel", "", "crowd_server.py", "", options=options), "http", "small")

    def sum(self, figure: Callable[[int], float]) -> float:
        """Return the sum of a figure of all processes, given by their ids."""
        pid = self.popen.pid
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        return sum(figure(id) for id in (pid, *map(int, children)))

    def cpu(self) -> float:
        return self.sum(lambda pid: time.clock_gettime((~pid << 3) | 2))

    def memory(self) -> int:
        pages = self.sum(lambda pid: int(Path(f"/proc/{pid}/statm").read_text().split()[1]))
        return int(pages) * os.sysconf("SC_PAGE_SIZE")

    def kernel(self) -> float:
        """Return the seconds that the processes have spent in the kernel."""
        ticks = self.sum(lambda pid: int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[12]))
        return ticks / os.sysconf("SC_CLK_TCK")


class Crowd:
    """Listeners of both eras at one server."""

    def __init__(self, server: Server) -> None:
        self.server = server
        self.stateless, self.sessions = Audience(server), Audience(server)
        self.sessions.revision = HANDSHAKE

    async def open(self, audience: Audience, number: int) -> tuple[float, float]:
        """Open streams; return the bytes of the server's memory per session (or 0), and per stream."""
        before = self.server.memory()
        requests = await audience.prepare(number)
        prepared = self.server.memory()
        for start in range(0, number, STEP):
            await audience.connect(requests[start : start + STEP])
        return (prepared - before) / number, (self.server.memory() - prepared) / number

    async def receiver(self) -> Receiver:
        """Return the receiver of all events from now on."""
        assert self.stateless.speaker is not None
        await self.stateless.speaker.open()  # again, as the server closes connections that are idle for long
        return Receiver([*self.stateless.detach(), *self.sessions.detach()], EVENT)

    async def announce(self, receiver: Receiver) -> tuple[float, float, float]:
        """Change the resource.

        Return the seconds until all have heard of it, the processor time of the server, and the time of this process.
        """
        speaker = self.stateless.speaker
        assert speaker is not None
        await asyncio.sleep(PAUSE)
        cpu, own, begun = self.server.cpu(), time.process_time(), time.perf_counter()
        asked = asyncio.ensure_future(speaker.ask(touch(STATELESS)))
        await asyncio.sleep(0)  # the request is sent
        receiver.receive()
        wall, cpu, own = time.perf_counter() - begun, self.server.cpu() - cpu, time.process_time() - own
        await asked
        return wall, cpu, own

    def close(self) -> None:
        """Drop every connection."""
        self.stateless.close()
        self.sessions.close()


async def measure(listeners: int, state: str, workers: int) -> str:
    """Return a line of the table."""
    server = Server(state, workers)
    crowd = Crowd(server)
    try:
        server.wait_for_port()
        await crowd.open(crowd.stateless, 1)
        await crowd.open(crowd.sessions, 1)
        rest = server.memory()
        half = max(1, listeners // 2 - 1)
        session, get = await crowd.open(crowd.sessions, half)
        _, listen = await crowd.open(crowd.stateless, half)
        receiver = await crowd.receiver()
        await crowd.announce(receiver)
        kernel = server.kernel()
        walls, cpus, owns = zip(*[await crowd.announce(receiver) for _ in range(CHANGES)], strict=True)
        kernel = server.kernel() - kernel
    finally:
        crowd.close()
        server.stop()
    ordered, count = sorted(walls), receiver.number
    cells = [
        "memory" if state == "memory" else "Redis",
        f"{workers}",
        f"{count:,}",
        f"{ordered[len(ordered) // 2] * 1000:.0f} ms",
        f"{ordered[-1] * 1000:.0f} ms",
        *(f"{cost / count * 1e6:.1f} us" for cost in (sum(cpus) / CHANGES, max(cpus))),
        f"{kernel / sum(cpus):.0%}",
        f"{sum(owns) / CHANGES / count * 1e6:.1f} us",
        f"{rest / 1e6:.0f} MB",
        *(f"{size / 1e3:.1f} KB" for size in (session, get, listen)),
    ]
    return f"| {' | '.join(cells)} |"


def main() -> None:
    """Print a table."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.replicas", description=__doc__)
    parser.add_argument("--listeners", type=int, nargs="+", default=[1000, 2500, 5000, 10000])
    parser.add_argument("--redis", action="store_true", help="share the state in Redis")
    parser.add_argument("--workers", type=int, default=1, help="processes of the server")
    options = parser.parse_args()
    resource.setrlimit(resource.RLIMIT_NOFILE, (resource.getrlimit(resource.RLIMIT_NOFILE)[1],) * 2)
    print(f"load {os.getloadavg()[0]:.1f}, {len(os.sched_getaffinity(0))} processors", file=sys.stderr)
    print(f"| {' | '.join(COLUMNS)} |\n|{' --- |' * len(COLUMNS)}")
    with redis() if options.redis else contextlib.nullcontext("memory") as state:
        for listeners in options.listeners:
            print(asyncio.run(measure(listeners, state, options.workers)), flush=True)


if __name__ == "__main__":
    main()
