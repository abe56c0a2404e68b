"""Processor time of one call, with the state in Redis and without.

    python -m replicas.costs [CALLS]      in tests/

Two servers run at the same time, one with Redis and one without. Each gets rounds of calls in turn; the result is the
median of the rounds, in microseconds of processor time of the server and of Redis.
"""

from __future__ import annotations

import asyncio
import os
import statistics
import sys
import tempfile
from pathlib import Path
from typing import Any

from support.redis_servers import redis_server

from .group import Member
from .web import Web

ROUNDS = 9
CALL = {"name": "add", "arguments": {"id": "a"}}


def processor_time(pid: int) -> float:
    """Return the processor time of a process, in seconds."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


async def main(calls: int) -> None:
    """Print the costs as rows of a table."""
    with redis_server() as store, tempfile.TemporaryDirectory() as place:
        assert store.process is not None
        members = {}
        for number, url in enumerate((store.url, "")):
            members[url] = Member(number, "journal", url, Path(place), 15.0)
            await members[url].start()
        for kind, method, params in (
            ("a stateless call", "tools/call", CALL),
            ("a call in a session", "tools/call", CALL),
            ("a read in a session", "resources/read", {"uri": "memo://1"}),
        ):
            costs: dict[str, list[float]] = {}
            for _ in range(ROUNDS):
                for url, member in members.items():
                    web = Web(f"http://127.0.0.1:{member.port}/mcp")
                    client: Any = await web.open() if "session" in kind else web
                    processes = {"server" + (" with Redis" if url else ""): member.pid}
                    if url:
                        processes["redis"] = store.process.pid
                    before = {name: processor_time(pid) for name, pid in processes.items()}
                    for _ in range(calls):
                        await client.ask(method, **params)
                    for name, pid in processes.items():
                        costs.setdefault(name, []).append((processor_time(pid) - before[name]) / calls * 1e6)
                    await web.close()
            print(kind, {name: f"{statistics.median(found):.0f} us" for name, found in costs.items()}, flush=True)
        for member in members.values():
            await member.end()


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1]) if len(sys.argv) > 1 else 1000))
