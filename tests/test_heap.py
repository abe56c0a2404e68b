"""Memory that a burst has taken goes back to the operating system."""

import asyncio
import subprocess
import sys

import pytest

from carrel.limits import Limits
from carrel.transports.server import connections

#: Allocates and frees a burst whose blocks are held in place by small ones, and prints what is kept of it, in MB.
BURST = """
import sys
from carrel.heap import INTERVAL, Heap, resident, unmap_large_blocks

heap = Heap()
heap.check(0.0)
before = resident()
if sys.argv[1] == "small":
    blocks, held = [], []
    for _ in range(2_000):
        blocks.append(bytes(bytearray(b"x") * 100_000))
        held.append(bytes(600))
    del blocks
    assert resident() - before > 150_000_000, "the burst is kept without a check"
    heap.check(INTERVAL - 1)
    assert resident() - before > 150_000_000, "it is not time for a check"
    heap.check(INTERVAL)
else:
    unmap_large_blocks()
    for _ in range(3):
        blocks = [bytes(9_000_000) for _ in range(20)]
        held = [bytes(600) for block in range(20)]
        del blocks
print((resident() - before) // 1_000_000)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="the C library of others has no such function")
@pytest.mark.parametrize("kind", ["small", "large"])
def test_a_burst_is_given_back(kind):
    done = subprocess.run([sys.executable, "-c", BURST, kind], capture_output=True, text=True, check=True)
    assert int(done.stdout) < 40


def test_the_memory_is_checked_with_the_connections(monkeypatch):
    checked = []
    monkeypatch.setattr(connections.Heap, "check", lambda self, now: checked.append(now))

    async def run():
        table = connections.Connections(Limits(idle_timeout=0.01), 10)
        table.watch()
        while not checked:
            await asyncio.sleep(0)
        table.stop()

    asyncio.run(asyncio.wait_for(run(), 60))
