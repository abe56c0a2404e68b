"""Long-running tool calls as tasks: start, follow, resume from another client, and cancel.

    python examples/client_tasks.py

connects to the bakery below, in this process. Most programs only need ``call_tool``, which waits for the result.
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
    """Start a task and print its progress. The program can do other work meanwhile."""
    task = await client.tasks.start_tool("bake", {"loaves": 3})
    async for status in task:
        print(f"followed: {status} {task.message or ''}".rstrip())
    print("followed:", (await task.result()).text)


async def find_again(client: Client) -> None:
    """Start a task with one client, and fetch its result with another client by its id."""
    task = await client.tasks.start_tool("bake", {"loaves": 1})
    async with Client(app) as other:
        again = await other.tasks.get_task(task.id or "")
        print("found again:", (await again.result()).text)


async def cancel(client: Client) -> None:
    """Start a task and cancel it."""
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
