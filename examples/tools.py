"""Tools: schemas from signatures, structured results, progress, and errors that a model can read.

    python examples/tools.py

serves on stdio, for a client that starts this command.
"""

import asyncio
from dataclasses import dataclass
from typing import Annotated

from msgspec import Meta

from carrel import Context, Server, ToolError

app = Server("workshop", version="1.0")


@dataclass
class Plank:
    length: Annotated[float, Meta(gt=0, description="in metres")]
    width: Annotated[float, Meta(gt=0, description="in metres")] = 0.2


@dataclass
class Cut:
    pieces: int
    rest: float


@app.tool(annotations={"readOnlyHint": True})
async def plan(plank: Plank, piece: float) -> Cut:
    """Say how many pieces a plank gives.

    Args:
        plank: what there is
        piece: the length of a piece, in metres
    """
    if piece > plank.length:
        raise ToolError(f"The plank is only {plank.length} m long; ask for shorter pieces.")
    pieces = int(plank.length // piece)
    return Cut(pieces, round(plank.length - pieces * piece, 3))


@app.tool()
async def saw(pieces: int, context: Context) -> str:
    """Saw, and say how it is going."""
    for done in range(1, pieces + 1):
        await asyncio.sleep(0.01)
        await context.report_progress(done, pieces, f"piece {done}")
    return f"{pieces} pieces"


if __name__ == "__main__":
    app.run()
