"""Live resources: subscribers are notified when a resource is added, replaced or changed at run time.

    python examples/live.py

serves on stdio, for a client that starts this command.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from carrel import Server


async def tick(app: Server) -> None:
    """Change the clock every second, and add a sign every minute."""
    seconds = 0
    while True:
        await asyncio.sleep(1)
        seconds += 1
        app.resources.replace("clock://seconds", str(seconds), mime_type="text/plain")
        if seconds % 60 == 0:
            app.resources.add(f"clock://minutes/{seconds // 60}", "one more minute")


@asynccontextmanager
async def lifespan(app: Server) -> AsyncIterator[None]:
    """Run the clock while the server runs."""
    clock = asyncio.create_task(tick(app))
    yield
    clock.cancel()


app = Server("clock", version="1.0", lifespan=lifespan)
app.resources.add("clock://seconds", "0", mime_type="text/plain")

if __name__ == "__main__":
    app.run()
