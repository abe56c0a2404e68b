"""Ten honest clients: each reads, lists, calls and waits. `python -m benchmarks.soak.honest PORT FOLDER`

One line a second goes to standard output: how many answers there were, the median and the longest time of them in
milliseconds, and how many were wrong.
"""

import asyncio
import statistics
import sys
import time

from .wire import Target, stateless

CLIENTS = 10


async def ask(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, request: bytes) -> bytes:
    """Send a request on a kept connection, and return the body of the answer."""
    writer.write(request)
    head = await reader.readuntil(b"\r\n\r\n")
    length = int(head.lower().partition(b"content-length:")[2].partition(b"\r\n")[0])
    body = await reader.readexactly(length)
    if not head.startswith(b"HTTP/1.1 200"):
        raise ValueError(head.partition(b"\r\n")[0].decode())
    return body


async def client(target: Target, folder: str, seconds: list[float], problems: list[str]) -> None:
    """Ask small things, twenty times a second, and note how long each answer took."""
    questions = [
        (stateless("resources/read", close=False, uri=f"file://{folder}/small.txt"), b"a small text"),
        (stateless("tools/call", close=False, name="add", arguments={"a": 1, "b": 2}), b'"3"'),
        (stateless("tools/list", close=False), b'"add"'),
        (stateless("resources/templates/list", close=False), b"resourceTemplates"),
    ]
    stream = None
    while True:
        for request, expected in questions:
            started = time.perf_counter()
            try:
                async with asyncio.timeout(10):
                    if stream is None:
                        stream = await target.open()
                    if expected not in await ask(*stream, request):
                        problems.append("a wrong answer")
            except (OSError, ValueError, TimeoutError, asyncio.IncompleteReadError) as error:
                problems.append(f"{type(error).__name__} {error}")
                if stream is not None:
                    stream[1].transport.abort()
                stream = None
            seconds.append(time.perf_counter() - started)
            await asyncio.sleep(0.05)


async def main(port: int, folder: str) -> None:
    """Run the clients, and report every second."""
    seconds: list[float] = []
    problems: list[str] = []
    async with asyncio.TaskGroup() as group:
        for number in range(CLIENTS):
            group.create_task(client(Target(port, f"127.0.2.{number + 1}"), folder, seconds, problems))
        while True:
            await asyncio.sleep(1)
            if seconds:
                middle, worst = statistics.median(seconds) * 1000, max(seconds) * 1000
                print(len(seconds), f"{middle:.1f}", f"{worst:.1f}", len(problems), *problems[:1], flush=True)
            seconds.clear()
            problems.clear()


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1]), sys.argv[2]))
