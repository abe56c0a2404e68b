"""What a replica, a session, a listener and a change cost: `python -m benchmarks.replicas --listeners 10000`.

Half of the listeners are `subscriptions/listen` streams (2026-07-28), half are GET streams of sessions that subscribe
(2025-11-25). All of them listen for the same resource, which changes twenty times. The figures are the seconds until
all listeners have the event, the processor time of the server, and its memory. With `--redis`, sessions and changes go
through a Redis that is started for the measurement.
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
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from .audience import Audience
from .messages import HANDSHAKE, touch
from .processes import CONTENDERS, PATIENCE, Process, ServerFailed

CHANGES = 20
#: Streams that are opened at a time.
STEP = 500
COLUMNS = (
    *("state", "listeners", "median", "slowest", "processor per listener", "of it in the kernel"),
    *("replica", "session", "GET stream", "listen stream"),
)


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


class Crowd:
    """Listeners of both eras at one server."""

    def __init__(self, process: Process) -> None:
        self.process = process
        self.stateless, self.sessions = Audience(process), Audience(process)
        self.sessions.revision = HANDSHAKE

    async def open(self, audience: Audience, number: int) -> tuple[float, float]:
        """Open streams; return the bytes of the server's memory per session (or 0), and per stream."""
        before = self.process.memory()
        requests = await audience.prepare(number)
        prepared = self.process.memory()
        for start in range(0, number, STEP):
            await audience.connect(requests[start : start + STEP])
        return (prepared - before) / number, (self.process.memory() - prepared) / number

    def kernel(self) -> float:
        """Return the seconds that the server has spent in the kernel."""
        fields = Path(f"/proc/{self.process.popen.pid}/stat").read_text().rpartition(")")[2].split()
        return int(fields[12]) / os.sysconf("SC_CLK_TCK")

    async def announce(self) -> tuple[float, float]:
        """Change the resource; return the seconds until all have heard of it, and the server's processor time."""
        audiences = [audience for audience in (self.stateless, self.sessions) if audience.streams]
        for audience in audiences:
            audience.expect(len(audience.streams))
        speaker = audiences[0].speaker
        assert speaker is not None
        cpu, begun = self.process.cpu(), time.perf_counter()
        await speaker.ask(touch(audiences[0].revision))
        await asyncio.gather(*(audience.wait() for audience in audiences))
        return time.perf_counter() - begun, self.process.cpu() - cpu

    def close(self) -> None:
        """Drop every connection."""
        self.stateless.close()
        self.sessions.close()


async def measure(listeners: int, state: str) -> str:
    """Return a line of the table."""
    process = Process(replace(CONTENDERS["carrel"], options=(state,)), "http", "small")
    crowd = Crowd(process)
    try:
        process.wait_for_port()
        await crowd.open(crowd.stateless, 1)
        await crowd.open(crowd.sessions, 1)
        await crowd.announce()
        rest = process.memory()
        half = max(1, listeners // 2 - 1)
        session, get = await crowd.open(crowd.sessions, half)
        _, listen = await crowd.open(crowd.stateless, half)
        await crowd.announce()
        kernel = crowd.kernel()
        walls, cpus = zip(*[await crowd.announce() for _ in range(CHANGES)], strict=True)
        kernel = crowd.kernel() - kernel
        count = len(crowd.stateless.streams) + len(crowd.sessions.streams)
    finally:
        crowd.close()
        process.stop()
    ordered, cost = sorted(walls), sum(cpus) / CHANGES / count
    cells = [
        "memory" if state == "memory" else "Redis",
        f"{count:,}",
        f"{ordered[len(ordered) // 2] * 1000:.0f} ms",
        f"{ordered[-1] * 1000:.0f} ms",
        f"{cost * 1e6:.1f} us",
        f"{kernel / sum(cpus):.0%}",
        f"{rest / 1e6:.0f} MB",
        *(f"{size / 1e3:.1f} KB" for size in (session, get, listen)),
    ]
    return f"| {' | '.join(cells)} |"


def main() -> None:
    """Print a table."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.replicas", description=__doc__)
    parser.add_argument("--listeners", type=int, nargs="+", default=[1000, 2500, 5000, 10000])
    parser.add_argument("--redis", action="store_true", help="share the state in Redis")
    options = parser.parse_args()
    resource.setrlimit(resource.RLIMIT_NOFILE, (resource.getrlimit(resource.RLIMIT_NOFILE)[1],) * 2)
    print(f"load {os.getloadavg()[0]:.1f}, {len(os.sched_getaffinity(0))} processors", file=sys.stderr)
    print(f"| {' | '.join(COLUMNS)} |\n|{' --- |' * len(COLUMNS)}")
    with redis() if options.redis else contextlib.nullcontext("memory") as state:
        for listeners in options.listeners:
            print(asyncio.run(measure(listeners, state)), flush=True)


if __name__ == "__main__":
    main()
