"""Tool calls that take long: started, followed, found again by somebody else, cancelled.

    python examples/client_tasks.py

talks to the bakery below, in this process. ``call_tool`` would do for most programs: it waits for the end by itself.
"""

import asyncio

from carrel import Client, Context, Server
from carrel.errors import TaskCancelled

app = Server("bakery", version="1.0")


@app.tool(task="required")
async def bake(loaves: int, context: Context) -> str:
    """Bake bread."""
    for done in range(1, loaves + 1):
        await asyncio.sleep(0.3)
        await context.report_progress(done, loaves, f"loaf {done} of {loaves}")
    return f"{loaves} loaves of bread"


async def follow(client: Client) -> None:
    """Start a task and print how it goes; there is time for something else meanwhile."""
    task = await client.tasks.start_tool("bake", {"loaves": 3})
    async for status in task:
        print(f"followed: {status} {task.message or ''}".rstrip())
    print("followed:", (await task.result()).text)


async def find_again(client: Client) -> None:
    """Start a task with one client, and fetch its result with another one that knows its id."""
    task = await client.tasks.start_tool("bake", {"loaves": 1})
    async with Client(app) as other:
        again = await other.tasks.get_task(task.id or "")
        print("found again:", (await again.result()).text)


async def cancel(client: Client) -> None:
    """Start a task and change one's mind."""
    task = await client.tasks.start_tool("bake", {"loaves": 1000})
    await task.cancel()
    try:
        await task.result()
    except TaskCancelled as error:
        print("cancelled:", error)


async def main() -> None:
    async with Client(app) as client:
        await asyncio.gather(follow(client), find_again(client), cancel(client))


if __name__ == "__main__":
    asyncio.run(main())
