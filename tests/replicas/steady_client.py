"""The official Python SDK 1.x, calling ``add`` of the program with a journal until standard input ends.

steady_client.py URL PREFIX: calls in a few sessions at once; prints the ids that were acknowledged, and errors.
"""

import asyncio
import datetime
import json
import sys
import traceback

from mcp import ClientSession
from mcp.client.streamable_http import streamable_http_client

AT_ONCE = 4


async def call(url: str, prefix: str, over: asyncio.Event, seen: dict) -> None:
    patience = datetime.timedelta(seconds=60)
    number = 0
    async with streamable_http_client(url) as (read, write, _), ClientSession(read, write, patience) as client:
        await client.initialize()
        while not over.is_set():
            number += 1
            id = f"{prefix}-{number}"
            result = await client.call_tool("add", {"id": id})
            seen["acknowledged"].append(result.content[0].text)


async def attempt(url: str, prefix: str, over: asyncio.Event, seen: dict) -> None:
    try:
        await call(url, prefix, over, seen)
    except Exception:
        seen["errors"].append(f"{prefix}: {traceback.format_exc()}")


async def main() -> None:
    url, prefix = sys.argv[1:]
    over, seen = asyncio.Event(), {"acknowledged": [], "errors": []}
    async with asyncio.TaskGroup() as tasks:
        for number in range(AT_ONCE):
            tasks.create_task(attempt(url, f"{prefix}-{number}", over, seen))
        await asyncio.to_thread(sys.stdin.read)
        over.set()
    print(json.dumps(seen))


asyncio.run(main())
