"""Carrel's client. See work.py."""

# ruff: noqa: E402 - the cost of imports is measured

import time

begun = time.perf_counter()

from carrel import Client

imported = time.perf_counter()

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import work


class Asker:
    def __init__(self, client: Client) -> None:
        self.client = client

    async def read(self, uri: str) -> str:
        return (await self.client.read_resource(uri)).contents[0].text

    async def fetch(self, uri: str) -> bytes:
        return (await self.client.read_resource(uri)).contents[0].blob

    async def call(self, name: str, arguments: dict[str, int]) -> str:
        return (await self.client.call_tool(name, arguments)).content[0].text

    async def count(self) -> int:
        count = 0
        async for _ in self.client.list_resources():
            count += 1
        return count

    @asynccontextmanager
    async def watch(self, uris: list[str]) -> AsyncIterator[Callable[[], Awaitable[str]]]:
        async with self.client.watch(*uris) as changes:

            async def changed() -> str:
                return (await anext(changes)).uri

            yield changed


@asynccontextmanager
async def connect(where: list[str] | str, revision: str) -> AsyncIterator[Asker]:
    async with Client(where, revision=None if revision == "auto" else revision) as client:
        yield Asker(client)


if __name__ == "__main__":
    work.run(connect, begun, imported)
