"""Server with a tool that reports progress, waits for a file to be written, and asks a question."""

import asyncio
import os
import sys
from pathlib import Path

from carrel import Context, Server

app = Server("slow")


@app.tool
async def work(context: Context) -> str:
    """Report a quarter, and wait for the pipe that the variable DONE names."""
    await context.report_progress(1, 4, "cutting \x1b[31mwood")
    await asyncio.to_thread(Path(os.environ["DONE"]).read_text)
    sys.stderr.write("sawdust\n")
    sys.stderr.flush()
    answer = await context.elicit("Which wood?", {"type": "object", "properties": {"wood": {"type": "string"}}})
    return f"a table of {answer.data['wood']}"
