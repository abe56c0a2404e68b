"""The same content served by Carrel: carrel_server.py (stdio|http) (small|full) [PORT]."""

import asyncio
import sys

import content

from carrel import Server

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
    if sys.argv[1] == "http":
        app.run(transport="http", host="127.0.0.1", port=int(sys.argv[3]))
    else:
        app.run()
