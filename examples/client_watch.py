"""Watches for changes of resources and of the resource list.

    python examples/client_watch.py
    python examples/client_watch.py http://127.0.0.1:8000/mcp file:///notes.md file:///todo.md

Without a server, it watches the kettle below until the water boils. Otherwise it runs until Ctrl-C. Restart the server:
the client reconnects automatically, and reports that changes may have been missed.
"""

import asyncio
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from carrel import Client, MCPError, Server

degrees = 20


async def heat(app: Server) -> None:
    """Heat the water, and put up a sign when it boils."""
    global degrees
    while degrees < 100:
        await asyncio.sleep(0.2)
        degrees += 20
        app.resources.changed("kettle://degrees")
    await asyncio.sleep(0.2)
    app.resources.add("kettle://sign", "Tea time!", name="sign")


@asynccontextmanager
async def lifespan(app: Server) -> AsyncIterator[None]:
    """Heat the water while the server runs."""
    heating = asyncio.create_task(heat(app))
    yield
    heating.cancel()


app = Server("kettle", version="1.0", lifespan=lifespan)


@app.resource("kettle://degrees", mime_type="text/plain")
async def water() -> str:
    """How warm the water is."""
    return f"{degrees} degrees"


async def show(client: Client, uri: str) -> None:
    """Print a resource, or that it was removed."""
    try:
        for contents in (await client.read_resource(uri)).contents:
            print(f"{uri}: {getattr(contents, 'text', 'not a text')[:200]}")
    except MCPError as error:
        print(error)


async def follow(client: Client, uris: list[str], until: str | None) -> None:
    """Print the watched resources, initially and after each change, until the resource ``until`` is listed."""
    async with client.watch(*uris, lists=["resources"]) as changes:
        for refused in changes.refused:
            print(f"the server does not tell about {refused}")
        for uri in uris:
            await show(client, uri)
        async for change in changes:
            if change.kind == "resource" and change.uri is not None:
                await show(client, change.uri)
            else:  # the list has changed, or changes were missed and everything may have changed
                listed = [resource.uri async for resource in client.list_resources()]
                print(f"{'something was missed; ' if change.kind == 'missed' else ''}{len(listed)} resources")
                for uri in uris if change.kind == "missed" else []:
                    await show(client, uri)
                if until in listed:
                    await show(client, until)
                    return


async def main() -> None:
    url, *uris = sys.argv[1:] or ["", "kettle://degrees"]
    try:
        async with Client(url or app) as client:
            await follow(client, uris, None if url else "kettle://sign")
    except MCPError as error:
        sys.exit(str(error))


if __name__ == "__main__":
    try:
        asyncio.run(main())
    except KeyboardInterrupt:
        sys.exit(130)
