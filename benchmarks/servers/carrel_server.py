"""The same content served by Carrel: carrel_server.py (stdio|http) (small|full) [PORT [STATE]]."""

import asyncio
import sys

import content

from carrel import Limits, Server

app = Server(content.NAME, version=content.VERSION, page_size=content.RESOURCES)


@app.resource(content.TEMPLATE, mime_type="text/plain")
async def book(author: str, title: str) -> str:
    return content.book(author, title)


@app.tool()
async def add(a: int, b: int) -> int:
    return a + b


@app.tool()
async def add_later(a: int, b: int) -> int:
    await asyncio.sleep(0)
    return a + b


@app.tool()
async def touch() -> str:
    app.resources.changed(content.CHANGING_URI)
    return "touched"


if __name__ == "__main__":
    for entry in content.entries(sys.argv[2]):
        app.resources.add(
            entry.uri, entry.body, name=entry.name, description=entry.description, mime_type=entry.mime_type
        )
    if len(sys.argv) > 4:  # one of several replicas, for a crowd of listeners: benchmarks/replicas.py
        crowd = 100_000
        app.limits = Limits(
            max_connections=crowd,
            max_connections_per_address=crowd,
            max_requests_in_flight=crowd,
            max_sessions=crowd,
            max_sessions_per_client=crowd,
            max_subscriptions=crowd,
            max_listeners_per_client=crowd,
            max_kept_bytes=1 << 30,
            max_kept_bytes_per_client=1 << 30,
        )
        if sys.argv[4] != "memory":
            app.share_state(sys.argv[4], [bytes(32)])
    if sys.argv[1] == "http":
        app.run(transport="http", host="127.0.0.1", port=int(sys.argv[3]))
    else:
        app.run()
