"""A server over HTTP, with HTTP+SSE, for a test to stop. It prints its URL. Argument: seconds of grace."""

import asyncio
import sys

from carrel import Context, Server
from carrel.transports.server import http_sse

app = Server("sse", version="1")


@app.tool()
async def wait(seconds: float, ctx: Context) -> str:
    ctx.report_progress(1)
    await asyncio.sleep(seconds)
    return "waited"


def main() -> None:
    http_sse.GRACE = float(sys.argv[1])
    app.run("http", port=0, sse_path="/sse", on_started=lambda url: print(url, flush=True))


if __name__ == "__main__":
    main()
