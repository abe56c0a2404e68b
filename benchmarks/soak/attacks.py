"""The attacks of the soak test, each by a client with a different address. `python -m benchmarks.soak.attacks PORT
FOLDER`

Each attack is repeated until the process exits. The server may accept or reject its requests.
"""

import asyncio
import contextlib
import itertools
import json
import os
import sys
from collections.abc import Awaitable, Callable
from typing import TypeAlias

from .wire import Target, in_session, initialize, post, session_of, stateless

Attack: TypeAlias = Callable[[Target, str], Awaitable[None]]

#: Seconds between two rounds of one attack, so that two processors are enough for attackers and server.
PAUSE = 0.5


async def one_endless_header(target: Target, folder: str) -> None:
    """Send one header that does not end, as fast as it is taken."""
    _, writer = await target.open()
    with contextlib.closing(writer):
        writer.write(b"POST /mcp HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Long: ")
        for _ in range(200):
            writer.write(b"x" * 65536)
            await asyncio.wait_for(writer.drain(), 5)


async def many_small_headers(target: Target, folder: str) -> None:
    """Send hundreds of thousands of headers."""
    _, writer = await target.open()
    with contextlib.closing(writer):
        writer.write(b"POST /mcp HTTP/1.1\r\nHost: 127.0.0.1\r\n")
        for start in range(0, 200_000, 1000):
            writer.write(b"".join(b"X-%d: 1\r\n" % number for number in range(start, start + 1000)))
            await asyncio.wait_for(writer.drain(), 5)


async def an_endless_trailer(target: Target, folder: str) -> None:
    """Send a chunked body whose trailer does not end."""
    _, writer = await target.open()
    with contextlib.closing(writer):
        writer.write(b"POST /mcp HTTP/1.1\r\nHost: 127.0.0.1\r\nTransfer-Encoding: chunked\r\n")
        writer.write(b"Content-Type: application/json\r\n\r\n2\r\n{}\r\n0\r\n")
        for number in range(2000):
            writer.write(b"X-Trailer-%d: %s\r\n" % (number, b"x" * 1000))
            await asyncio.wait_for(writer.drain(), 5)


async def slow_headers(target: Target, folder: str) -> None:
    """Send the head of a request byte by byte on many connections."""
    writers = [(await target.open())[1] for _ in range(50)]
    try:
        for byte in b"POST /mcp HTTP/1.1\r\nHost: 127.0.0.1":
            for writer in writers:
                writer.write(bytes([byte]))
            await asyncio.sleep(0.5)
    finally:
        for writer in writers:
            writer.transport.abort()


async def silent_connections(target: Target, folder: str) -> None:
    """Open connections by the thousand, and say nothing on them."""
    writers = []
    try:
        while len(writers) < 2_600:
            writers.append((await target.open())[1])
        await asyncio.sleep(30)
    finally:
        for writer in writers:
            writer.transport.abort()


async def unfinished_bodies(target: Target, folder: str) -> None:
    """Announce 15 MiB on many connections, send all of it but one byte, and wait."""
    writers = []
    try:
        for _ in range(20):
            _, writer = await target.open()
            writers.append(writer)
            head = post(b"", {"Content-Length": str(15 * 1024 * 1024)})
            writer.write(head)
            for _ in range(15):
                writer.write(b" " * (1024 * 1024 - 1))
                await asyncio.wait_for(writer.drain(), 5)
        await asyncio.sleep(5)
    finally:
        for writer in writers:
            writer.transport.abort()


async def windows_of_a_huge_file(target: Target, folder: str) -> None:
    """Ask for lines of 200 GiB of nothing, and leave."""
    requests = [stateless("resources/read", uri=f"file://{folder}/huge.log?lines=100000") for _ in range(8)]
    tasks = [asyncio.ensure_future(target.send(request)) for request in requests]
    await asyncio.wait(tasks, timeout=1)
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


async def hostile_folders(target: Target, folder: str) -> None:
    """List folders with 140,000 ignore patterns, and with 1,500 links into the depth."""
    for name in ("ignored", "links"):
        await target.send(stateless("resources/directory/read", uri=f"file://{folder}/{name}"))
    answer = await target.send(stateless("resources/list"))
    for _ in range(20):
        cursor = answer.partition(b'"nextCursor":"')[2].partition(b'"')[0].decode()
        if not cursor:
            break
        answer = await target.send(stateless("resources/list", cursor=cursor))


async def linked_files(target: Target, folder: str) -> None:
    """Read through links, which once cost a file descriptor each."""
    for number in range(0, 1500, 50):
        await target.send(stateless("resources/read", uri=f"file://{folder}/links/link{number:04}"))


async def readers_that_stall(target: Target, folder: str) -> None:
    """Request large responses on many connections without reading them."""
    request = stateless("tools/call", close=False, name="large", arguments={"size": 2_000_000})
    writers = []
    try:
        for _ in range(40):
            _, writer = await target.open()
            writer.transport.pause_reading()  # type: ignore[attr-defined]
            writers.append(writer)
            writer.write(request * 20)
        await asyncio.sleep(10)
    finally:
        for writer in writers:
            writer.transport.abort()


async def replays_that_are_never_fetched(target: Target, folder: str) -> None:
    """Have long streams sent in many sessions, and leave before their end."""
    for _ in range(10):
        session = session_of(await target.send(initialize()))
        if not session:
            return
        for id in range(10):
            request = in_session(session, "tools/call", id, name="chatter", arguments={"size": 20_000})
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(0.2):
                    await target.send(request)


async def long_subscriptions(target: Target, folder: str) -> None:
    """Subscribe to resources with long names, in a session and in listens."""
    session = session_of(await target.send(initialize()))
    for number in range(50):
        uri = f"file://{folder}/docs/000.md?lines={number}&{'x' * 60_000}"
        await target.send(in_session(session, "resources/subscribe", uri=uri))
    uris = [f"file://{folder}/docs/000.md?{number}{'x' * 6_000}" for number in range(1_000)]
    writers = []
    try:
        for _ in range(10):
            _, writer = await target.open()
            writers.append(writer)
            writer.write(stateless("subscriptions/listen", notifications={"resourceSubscriptions": uris}))
            await asyncio.wait_for(writer.drain(), 5)
        await asyncio.sleep(5)
    finally:
        for writer in writers:
            writer.transport.abort()


async def sessions_by_the_thousand(target: Target, folder: str) -> None:
    """Open sessions, and leave them."""
    for _ in range(300):
        await target.send(initialize())


async def blocking_calls(target: Target, folder: str) -> None:
    """Call a function that blocks its thread, 200 times at once."""
    request = stateless("tools/call", name="block", arguments={"seconds": 2})
    await asyncio.gather(*(target.send(request) for _ in range(200)), return_exceptions=True)


async def functions_that_break_out(target: Target, folder: str) -> None:
    """Call functions that raise what ends other programs."""
    for name in ("leave", "break_out") * 20:
        await target.send(stateless("tools/call", name=name, arguments={}))


async def patterns_that_blow_up(target: Target, folder: str) -> None:
    """Send text that careless regular expressions take for ever to refuse."""
    for _ in range(10):
        word = " ".join(["a"] * 30_000) + "!"
        await target.send(stateless("tools/call", name="words", arguments={"word": word}))


async def tasks_by_the_thousand(target: Target, folder: str) -> None:
    """Create tasks, and fetch none of their results."""
    session = session_of(await target.send(initialize()))
    for id in range(200):
        task = {"name": "idle", "arguments": {}, "task": {"ttl": 3_600_000}}
        await target.send(in_session(session, "tools/call", id, **task))


async def odd_messages(target: Target, folder: str) -> None:
    """Send invalid messages: deeply nested, duplicated, damaged, and too many at once."""
    deep = b'{"jsonrpc":"2.0","id":1,"method":"ping","params":' + b'{"a":' * 100_000 + b"1" + b"}" * 100_001
    doubled = b'{"jsonrpc":"2.0","id":1,"id":2,"method":"ping","method":"tools/list"}'
    batch = json.dumps([{"jsonrpc": "2.0", "id": id, "method": "ping"} for id in range(10_000)]).encode()
    for body in (deep, doubled, batch, b"\xff\xfe{}", b"{" * 1_000_000, b"[" * 1_000_000):
        await target.send(post(body, {}))


ATTACKS: tuple[Attack, ...] = (
    one_endless_header,
    many_small_headers,
    an_endless_trailer,
    slow_headers,
    silent_connections,
    unfinished_bodies,
    windows_of_a_huge_file,
    hostile_folders,
    linked_files,
    readers_that_stall,
    replays_that_are_never_fetched,
    long_subscriptions,
    sessions_by_the_thousand,
    blocking_calls,
    functions_that_break_out,
    patterns_that_blow_up,
    tasks_by_the_thousand,
    odd_messages,
)


async def repeat(attack: Attack, target: Target, folder: str) -> None:
    """Attack until the process ends."""
    for _ in itertools.count():
        with contextlib.suppress(OSError, TimeoutError, asyncio.IncompleteReadError):
            await attack(target, folder)
        await asyncio.sleep(PAUSE)


async def main(port: int, folder: str, only: list[str]) -> None:
    """Run all attacks at once, or some of them."""
    chosen = [attack for attack in ATTACKS if not only or attack.__name__ in only]
    async with asyncio.TaskGroup() as group:
        for number, attack in enumerate(chosen):
            group.create_task(repeat(attack, Target(port, f"127.0.1.{number + 1}"), folder))


if __name__ == "__main__":
    os.nice(10)  # the honest clients and the server come first
    asyncio.run(main(int(sys.argv[1]), sys.argv[2], sys.argv[3:]))
