"""Folder of text files as resources, written for the low-level server of ``mcp`` 1.x."""

import asyncio
import os
import sys

import mcp.types as types
from mcp.server import Server
from mcp.server.stdio import stdio_server
from pydantic import AnyUrl

server = Server("医学文档")
FOLDER = sys.argv[1]


@server.list_resources()
async def list_resources() -> list[types.Resource]:
    return [
        types.Resource(
            uri=AnyUrl(f"file://{os.path.join(FOLDER, name)}"), name=name, description="医学文档", mimeType="text/plain"
        )
        for name in sorted(os.listdir(FOLDER))
    ]


@server.read_resource()
async def read_resource(uri: str) -> str:
    path = str(uri).removeprefix("file://")
    from urllib.parse import unquote

    with open(unquote(path), encoding="utf-8") as file:
        return file.read()


async def main() -> None:
    async with stdio_server() as streams:
        await server.run(streams[0], streams[1], server.create_initialization_options())


if __name__ == "__main__":
    asyncio.run(main())
