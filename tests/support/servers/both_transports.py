"""Server on stdio and HTTP at once: `python both_transports.py PORT`."""

from __future__ import annotations

import asyncio
import sys

from carrel import Server

app = Server("both")
app.resources.add("memo://1", "one")


@app.tool
async def change() -> str:
    """Replace memo://1, and tell subscribers."""
    app.resources.replace("memo://1", "two")
    return "changed"


async def main() -> None:
    http = asyncio.create_task(app.run_async("http", port=int(sys.argv[1])))
    await app.run_async("stdio")
    http.cancel()
    await asyncio.gather(http, return_exceptions=True)


if __name__ == "__main__":
    asyncio.run(main())
