"""Server by the official Python SDK 1.x whose tools ask the user: shop.py JOURNAL [PORT], on stdio or over HTTP.

It appends a line to JOURNAL for each effect.
"""

import os
import sys

import anyio
from mcp.server.fastmcp import Context, FastMCP
from pydantic import BaseModel

journal = os.open(sys.argv[1], os.O_WRONLY | os.O_APPEND | os.O_CREAT)
shop = FastMCP("shop", port=int(sys.argv[2]) if len(sys.argv) > 2 else 8000)


def record(effect: str, id: str) -> None:
    """Append a line. It stays if this process is killed."""
    os.write(journal, f"{effect} {id} {os.getpid()}\n".encode())


class Size(BaseModel):
    size: int


class Name(BaseModel):
    name: str


@shop.tool()
async def order(id: str, context: Context) -> str:
    """Reserve goods, ask for size and name, and send the goods."""
    record("reserve", id)
    size = (await context.elicit("Which size? ü", Size)).data
    name = (await context.elicit("For whom?", Name)).data
    record("send", id)
    return f"{size.size} for {name.name}"


@shop.tool()
def pid() -> int:
    """Return the id of this process: each replica starts one."""
    return os.getpid()


@shop.tool()
async def print_label(id: str, context: Context) -> str:
    """Ask for the size of a label, and return as many letters."""
    record("label", id)
    size = (await context.elicit("How many?", Size)).data
    await context.report_progress(1, 2, "half")
    return "ü" * size.size


@shop.tool()
async def wrap(id: str, context: Context) -> str:
    """Ask, then work for a second."""
    await context.elicit("How many?", Size)
    record("wrap", id)
    await anyio.sleep(1)
    return "wrapped"


@shop.tool()
async def bake(id: str, context: Context) -> str:
    """Ask, then work until cancelled."""
    record("knead", id)
    await context.elicit("How many?", Size)
    record("bake", id)
    try:
        await anyio.sleep_forever()
    finally:
        record("stop", id)


shop.run("streamable-http" if len(sys.argv) > 2 else "stdio")
