"""Caches responses as the server allows, and evicts them when the server sends a change notification.

    python examples/client_cache.py

reads a menu several times. Only after a change is the request sent to the cook below.
"""

import asyncio

from carrel import Client, Server
from carrel.types import Cache

app = Server("kitchen", version="1.0")
dishes = ["soup"]
asked = 0


@app.resource("menu://today", mime_type="text/plain", ttl=60, scope="public")
async def menu() -> str:
    """What there is to eat. It may be kept for a minute, for everybody."""
    global asked
    asked += 1
    return ", ".join(dishes)


async def order(client: Client) -> None:
    """Read the menu three times, and again after it has changed."""
    async with client.watch("menu://today") as changes:
        for _ in range(3):
            await show(client)
        dishes.append("bread")
        app.resources.changed("menu://today")
        await anext(changes)
        await show(client)


async def show(client: Client) -> None:
    """Print the menu."""
    for contents in (await client.read_resource("menu://today")).contents:
        print(f"{getattr(contents, 'text', '')} (the cook was asked {asked} times)")


async def main() -> None:
    async with Cache(max_bytes=1_000_000) as cache, Client(app, cache=cache) as client:
        await order(client)
        print(f"{cache.statistics.hits} answers from the cache, {cache.statistics.misses} from the server")


if __name__ == "__main__":
    asyncio.run(main())
