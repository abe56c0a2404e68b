"""Live resources: what is added, replaced or changed at run time reaches whoever listens.

    python examples/live.py

starts it on stdio, for a client that speaks to it there.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from carrel import Server


async def tick(app: Server) -> None:
    """Change the clock every second, and put up a new sign every minute."""
    seconds = 0
    while True:
        await asyncio.sleep(1)
        seconds += 1
        app.resources.replace("clock://seconds", str(seconds), mime_type="text/plain")
        if seconds % 60 == 0:
            app.resources.add(f"clock://minutes/{seconds // 60}", "one more minute")


@asynccontextmanager
async def lifespan(app: Server) -> AsyncIterator[None]:
    """Let the clock run while the server does."""
    clock = asyncio.create_task(tick(app))
    yield
    clock.cancel()


app = Server("clock", version="1.0", lifespan=lifespan)
app.resources.add("clock://seconds", "0", mime_type="text/plain")

if __name__ == "__main__":
    app.run()
