"""The official Python SDK's client, told on standard input what to do; prints each answer as a line of JSON.

sdk_client.py (URL | COMMAND ARGUMENT…). A line is a method of the session and its arguments, as a JSON list;
``changed`` waits until the server says that its tools have changed.
"""

import asyncio
import contextlib
import json
import os
import sys

from mcp import ClientSession, StdioServerParameters, types
from mcp.client.stdio import stdio_client
from mcp.client.streamable_http import streamable_http_client


async def main() -> None:
    changed = asyncio.Event()

    async def receive(message: object) -> None:
        if isinstance(message, types.ServerNotification) and isinstance(
            message.root, types.ToolListChangedNotification
        ):
            changed.set()

    async with contextlib.AsyncExitStack() as stack:
        whom = sys.argv[1:]
        if whom[0].startswith("http"):
            read, write, *_ = await stack.enter_async_context(streamable_http_client(whom[0]))
        else:
            server = StdioServerParameters(command=whom[0], args=whom[1:], env=dict(os.environ))
            read, write = await stack.enter_async_context(stdio_client(server))
        client = await stack.enter_async_context(ClientSession(read, write, message_handler=receive))
        opened = await client.initialize()
        print(json.dumps(opened.serverInfo.name), flush=True)
        while line := await asyncio.to_thread(sys.stdin.readline):
            method, *arguments = json.loads(line)
            if method == "changed":
                await changed.wait()
                changed.clear()
                print("null", flush=True)
            else:
                result = await getattr(client, method)(*arguments)
                print(result.model_dump_json(), flush=True)


asyncio.run(main())
