"""A gateway to fifty servers, with and without four hostile servers: `python -m benchmarks.crowd`.

The servers are processes of the bare server and of `tests/support/servers/hostile.py`: one never responds, one crashes
and restarts, one floods, and one sends list-changed notifications all the time. The figures are the wall time of calls
to the other servers through the gateway, and the memory of the gateway process.
"""

import argparse
import asyncio
import resource
import sys
import time
from pathlib import Path

from carrel import Client
from carrel.client.handlers import Handlers
from carrel.gateway import Gateway
from carrel.host.config import ServerConfig

SERVERS = Path(__file__).parent / "servers"
HOSTILE = Path(__file__).parent.parent / "tests" / "support" / "servers" / "hostile.py"
BAD = ("mute", "dying", "notes", "liar")


def configs(good: int, bad: tuple[str, ...]) -> list[ServerConfig]:
    """The servers of the gateway."""
    bare = str(SERVERS / "bare_stdio.py")
    return [
        *(ServerConfig(name=f"good{n}", command=sys.executable, args=(bare, "stdio", "small")) for n in range(good)),
        *(ServerConfig(name=how, command=sys.executable, args=(str(HOSTILE), how)) for how in bad),
    ]


async def measure(good: int, bad: tuple[str, ...], seconds: float, in_flight: int) -> tuple[str, float]:
    """One line of the table, and the 99th percentile."""
    loop = asyncio.get_running_loop()
    begun = loop.time()
    options = {"prefix": "always", "start_timeout": 5.0, "enter_timeout": 30.0, "handlers": Handlers()}
    async with Gateway(configs(good, bad), **options) as gateway, Client(gateway.app) as client:  # type: ignore[arg-type]
        started = loop.time() - begun
        names = [tool.name for tool in await client.list_tools() if "add" in tool.name and "good" in tool.name]
        end = loop.time() + seconds
        taken: list[float] = []

        async def call(number: int) -> None:
            while loop.time() < end:
                number += 1
                before = time.perf_counter()
                await client.call_tool(names[number % len(names)], {"a": number, "b": 1})
                taken.append(time.perf_counter() - before)
                await asyncio.sleep(0.002)

        spent = time.process_time()
        await asyncio.gather(*(call(number * 7) for number in range(in_flight)))
        spent = time.process_time() - spent
        taken.sort()
        p50, p99 = (taken[len(taken) * part // 100] * 1000 for part in (50, 99))
        memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    line = f"{good:4} good, {len(bad)} hostile | start {started:5.1f} s | {len(taken):6} calls | "
    return f"{line}p50 {p50:6.2f} ms | p99 {p99:6.2f} ms | CPU {spent:5.2f} s | peak {memory:4.0f} MB", p99


def main() -> int:
    """Measure without and with hostile servers, in turns; the exit code is 1 if they make the others twice as slow."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.crowd", description=__doc__)
    parser.add_argument("--good", type=int, default=46)
    parser.add_argument("--seconds", type=float, default=5.0)
    parser.add_argument("--in-flight", type=int, default=8)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    least: dict[tuple[str, ...], float] = {}
    for _ in range(options.rounds):
        for bad in ((), BAD):
            line, p99 = asyncio.run(measure(options.good, bad, options.seconds, options.in_flight))
            least[bad] = min(p99, least.get(bad, p99))
            print(line, flush=True)
    ratio = least[BAD] / least[()]
    print(f"p99 beside hostile servers: {ratio:.2f} times that without them (the least of the rounds)")
    return int(ratio > 2)


if __name__ == "__main__":
    sys.exit(main())
