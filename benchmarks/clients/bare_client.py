"""The baseline of the comparison: the cost of encoding a request, waiting for its response and decoding it.

The textbook asyncio client: a future per request on stdio, aiohttp on HTTP. It has no checks, no error handling, no
    timeouts, no server requests, and only the two request shapes of the revisions.
"""

# ruff: noqa: E402 - the cost of imports is measured

import time

begun = time.perf_counter()

import asyncio

import msgspec

imported = time.perf_counter()

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import work


class Content(msgspec.Struct, rename="camel"):
    uri: str = ""
    mime_type: str = ""
    type: str = ""
    text: str = ""
    blob: bytes = b""


class Resource(msgspec.Struct, rename="camel"):
    uri: str
    name: str
    description: str = ""
    mime_type: str = ""


class Params(msgspec.Struct):
    uri: str = ""


class Result(msgspec.Struct, rename="camel"):
    contents: list[Content] = []
    content: list[Content] = []
    resources: list[Resource] = []


class Message(msgspec.Struct):
    id: int | None = None
    method: str | None = None
    params: Params | None = None
    result: Result | None = None


decode = msgspec.json.Decoder(Message).decode
encode = msgspec.json.Encoder().encode
INITIALIZE = {
    "protocolVersion": "2025-11-25",
    "capabilities": {},
    "clientInfo": {"name": "bare", "version": "1"},
}
META = {
    "_meta": {
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientInfo": {"name": "bare", "version": "1"},
        "io.modelcontextprotocol/clientCapabilities": {},
    }
}


class Asker:
    """Whatever `send` is: it takes a request, and sees to it that the future of its id gets the result."""

    def __init__(self, revision: str) -> None:
        self.stateless = revision != "2025-11-25"
        self.ids = 0
        self.waiting: dict[int, asyncio.Future[Any]] = {}
        self.heard: asyncio.Queue[str] = asyncio.Queue()
        self.loop = asyncio.get_running_loop()
        self.send: Callable[[str, dict[str, Any]], Awaitable[Result]] = self.write
        self.writer: asyncio.StreamWriter | None = None

    def encode(self, id: int, method: str, params: dict[str, Any]) -> bytes:
        if self.stateless:
            params = params | META
        return encode({"jsonrpc": "2.0", "id": id, "method": method, "params": params})

    async def write(self, method: str, params: dict[str, Any]) -> Result:
        self.ids = id = self.ids + 1
        future = self.waiting[id] = self.loop.create_future()
        self.writer.write(self.encode(id, method, params) + b"\n")
        await self.writer.drain()
        return await future

    def take(self, data: bytes) -> None:
        message = decode(data)
        if message.method is None:
            waiting = self.waiting.pop(message.id)
            if not waiting.done():
                waiting.set_result(message.result)
        elif message.method == "notifications/resources/updated":
            self.heard.put_nowait(message.params.uri)
        elif message.method == "notifications/subscriptions/acknowledged":
            self.heard.put_nowait("acknowledged")

    async def read(self, uri: str) -> str:
        return (await self.send("resources/read", {"uri": uri})).contents[0].text

    async def fetch(self, uri: str) -> bytes:
        return (await self.send("resources/read", {"uri": uri})).contents[0].blob

    async def call(self, name: str, arguments: dict[str, int]) -> str:
        return (await self.send("tools/call", {"name": name, "arguments": arguments})).content[0].text

    async def count(self) -> int:
        return len((await self.send("resources/list", {})).resources)

    @asynccontextmanager
    async def watch(self, uris: list[str]) -> AsyncIterator[Callable[[], Awaitable[str]]]:
        if self.stateless:
            wanted = {"notifications": {"resourceSubscriptions": uris}}
            listening = asyncio.ensure_future(self.send("subscriptions/listen", wanted))
            await self.heard.get()
            yield self.heard.get
            listening.cancel()
        else:
            waiting = iter(uris)

            async def subscribe() -> None:
                for uri in waiting:
                    await self.send("resources/subscribe", {"uri": uri})

            await work.gather(subscribe, 100)
            yield self.heard.get


@asynccontextmanager
async def connect(where: list[str] | str, revision: str) -> AsyncIterator[Asker]:
    async with (over_http if isinstance(where, str) else on_stdio)(where, Asker(revision)) as client:
        yield client


@asynccontextmanager
async def on_stdio(command: list[str], client: Asker) -> AsyncIterator[Asker]:
    pipe = asyncio.subprocess.PIPE
    child = await asyncio.create_subprocess_exec(*command, stdin=pipe, stdout=pipe, limit=1 << 26)
    client.writer = child.stdin

    async def listen() -> None:
        while line := await child.stdout.readline():
            client.take(line)

    listening = asyncio.create_task(listen())
    if not client.stateless:
        await client.send("initialize", INITIALIZE)
        client.writer.write(b'{"jsonrpc":"2.0","method":"notifications/initialized"}\n')
    yield client
    client.writer.close()
    await child.wait()
    await listening


@asynccontextmanager
async def over_http(url: str, client: Asker) -> AsyncIterator[Asker]:
    import aiohttp

    fixed = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}
    if client.stateless:
        fixed["MCP-Protocol-Version"] = "2026-07-28"

    async with aiohttp.ClientSession(headers=fixed, timeout=aiohttp.ClientTimeout(None)) as session:

        async def events(response: aiohttp.ClientResponse) -> None:
            async for line in response.content:
                if line.startswith(b"data:") and line[5:].strip():
                    client.take(line[5:])

        async def post(method: str, params: dict[str, Any]) -> Result:
            client.ids = id = client.ids + 1
            future = client.waiting[id] = client.loop.create_future()
            headers = {}
            if client.stateless:
                headers = {"Mcp-Method": method}
                if name := params.get("name") or params.get("uri"):
                    headers["Mcp-Name"] = name
            async with session.post(url, data=client.encode(id, method, params), headers=headers) as response:
                if response.content_type == "text/event-stream":
                    await events(response)
                else:
                    client.take(await response.read())
                    if method == "initialize":
                        session.headers["Mcp-Session-Id"] = response.headers["Mcp-Session-Id"]
            return await future

        async def listen() -> None:
            async with session.get(url, headers={"Accept": "text/event-stream"}) as response:
                response.raise_for_status()
                await events(response)

        client.send = post
        if client.stateless:
            yield client
            return
        await client.send("initialize", INITIALIZE)
        session.headers["MCP-Protocol-Version"] = "2025-11-25"
        await session.post(url, data=b'{"jsonrpc":"2.0","method":"notifications/initialized"}')
        listening = asyncio.create_task(listen())
        yield client
        listening.cancel()


if __name__ == "__main__":
    work.run(connect, begun, imported)
