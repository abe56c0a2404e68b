"""The client of FastMCP. See work.py."""

# ruff: noqa: E402 - the cost of imports is measured

import time

begun = time.perf_counter()

from fastmcp import Client
from fastmcp.client.transports import StdioTransport

imported = time.perf_counter()

import asyncio
from base64 import b64decode
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import work
from mcp.client.subscriptions import listen
from mcp_types import ResourceUpdatedNotification

MODES = {"auto": "auto", "2026-07-28": "2026-07-28", "2025-11-25": "legacy"}


class Asker:
    def __init__(self, client: Client, heard: "asyncio.Queue[str]") -> None:
        self.client = client
        self.heard = heard

    async def read(self, uri: str) -> str:
        return (await self.client.read_resource(uri))[0].text

    async def fetch(self, uri: str) -> bytes:
        return b64decode((await self.client.read_resource(uri))[0].blob)

    async def call(self, name: str, arguments: dict[str, int]) -> str:
        return (await self.client.call_tool(name, arguments)).content[0].text

    async def count(self) -> int:
        return len(await self.client.list_resources())

    @asynccontextmanager
    async def watch(self, uris: list[str]) -> AsyncIterator[Callable[[], Awaitable[str]]]:
        session = self.client.session
        if self.client.protocol_version == "2026-07-28":
            async with listen(session, resource_subscriptions=uris) as changes:

                async def changed() -> str:
                    return (await anext(changes)).uri

                yield changed
        else:
            waiting = iter(uris)

            async def subscribe() -> None:
                for uri in waiting:
                    await session.subscribe_resource(uri)

            await work.gather(subscribe, 100)
            yield self.heard.get


@asynccontextmanager
async def connect(where: list[str] | str, revision: str) -> AsyncIterator[Asker]:
    heard: asyncio.Queue[str] = asyncio.Queue()

    async def hear(message: object) -> None:
        if isinstance(message, ResourceUpdatedNotification):
            heard.put_nowait(str(message.params.uri))

    server = where if isinstance(where, str) else StdioTransport(where[0], where[1:], keep_alive=False)
    async with Client(server, mode=MODES[revision], message_handler=hear) as client:
        yield Asker(client, heard)


if __name__ == "__main__":
    work.run(connect, begun, imported)
