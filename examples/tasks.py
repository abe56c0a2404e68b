"""A tool that takes minutes: clients that support tasks fetch the result later, other clients wait for it.

    python examples/tasks.py

serves on stdio, for a client that starts this command.
"""

import asyncio

from carrel import Context, Server

app = Server("bakery", version="1.0")


@app.tool(task="optional")
async def bake(loaves: int, context: Context) -> str:
    """Bake bread."""
    for done in range(1, loaves + 1):
        await asyncio.sleep(0.01)
        await context.report_progress(done, loaves, f"loaf {done} of {loaves}")
    return f"{loaves} loaves of bread"


if __name__ == "__main__":
    app.run()
