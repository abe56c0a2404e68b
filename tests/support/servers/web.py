"""A server over HTTP. Arguments: a JSON object (options of ``run``, ``grace``, ``first_request``); ``failing``."""

import asyncio
import json
import sys
import threading
from contextlib import asynccontextmanager

from carrel import Context, Server
from carrel.transports.server import http_protocol, http_server


@asynccontextmanager
async def lifespan(app):
    if "failing" in sys.argv:
        raise RuntimeError("the database is not there")
    print("started", flush=True)
    yield
    print("stopped", flush=True)


app = Server("web", version="1", lifespan=lifespan)
app.resources.add("memo://text", "text", name="text")


@app.tool()
async def later(seconds: float, ctx: Context) -> str:
    ctx.report_progress(1)
    await asyncio.sleep(seconds)
    return "done"


@app.tool()
def hang(ctx: Context) -> str:
    ctx.report_progress(1)
    threading.Event().wait()
    return ""


options = json.loads(sys.argv[1])
http_protocol.FIRST_REQUEST = options.pop("first_request", http_protocol.FIRST_REQUEST)
http_server.GRACE = options.pop("grace", http_server.GRACE)
app.run("http", **{"port": 0, "on_started": lambda url: print(url, flush=True), **options})
print("after", flush=True)
