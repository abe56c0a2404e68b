"""The golden conversations over HTTP+SSE, the transport of 2024-11-05: one stream for all that the server says."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncGenerator, Sequence
from typing import Any

import httpx2
import pytest

from golden.conversation import STATELESS, Conversation, Line, conversations
from golden.players import PATIENCE, Player
from support.http_server import over_http

CASES = [
    pytest.param(conversation, id=f"{conversation.revision}/{conversation.path.stem}")
    for conversation in conversations()
    if conversation.only is None and conversation.revision != STATELESS
]


class SsePlayer(Player):
    """A client of HTTP+SSE. An error that answers no request in particular is in the response to its POST."""

    async def __aenter__(self) -> SsePlayer:
        self.open = contextlib.AsyncExitStack()
        self.messages: asyncio.Queue[Any] = asyncio.Queue()
        try:
            url = self.open.enter_context(over_http(self.build(), sse_path="/sse"))
            client = httpx2.AsyncClient(base_url=url, timeout=PATIENCE, trust_env=False)
            self.client = await self.open.enter_async_context(client)
            response = await self.open.enter_async_context(self.client.stream("GET", "/sse"))
            self.events = events(response)
            kind, self.endpoint = await anext(self.events)
            assert kind == "endpoint"
            self.reading = asyncio.create_task(self.read())
            self.open.push_async_callback(self.stop_reading)
        except BaseException:
            await self.open.aclose()
            raise
        return self

    async def __aexit__(self, *exception: object) -> None:
        await self.open.aclose()

    async def read(self) -> None:
        async for kind, data in self.events:
            assert kind == "message"
            self.messages.put_nowait(json.loads(data))

    async def stop_reading(self) -> None:
        self.reading.cancel()
        await asyncio.gather(self.reading, return_exceptions=True)
        await self.events.aclose()

    async def say(self, line: Line) -> None:
        if line.kind == "raw":
            text = line.value
        else:
            message = self.written(line)
            text = json.dumps(message, ensure_ascii=False)
            self.last = message.get("id") if isinstance(message, dict) else None
        headers = {"Content-Type": "application/json"}
        answer = await self.client.post(self.endpoint, content=text.encode(), headers=headers)
        if answer.status_code == 400:
            refused = answer.json()
            if refused.get("id") is not None:
                raise self.mismatch(line, f"this belongs on the stream: {answer.text}")
            self.messages.put_nowait(refused)
        elif answer.status_code != 202 or answer.content:
            raise self.mismatch(line, f"the status is {answer.status_code}, not 202: {answer.text}")

    async def hear(self, block: Sequence[Line]) -> None:
        waiting: dict[object, list[Line]] = {}
        spoken = [line for line in block if line.value is not None]
        for line in spoken:
            waiting.setdefault(self.stream_of(line.value), []).append(line)
        for line in spoken:
            try:
                message = await asyncio.wait_for(self.messages.get(), PATIENCE)
            except TimeoutError:
                raise self.mismatch(line, f"nothing came in {PATIENCE} s, expected {json.dumps(line.value)}") from None
            lines = waiting.get(self.stream_of(message))
            if not lines:
                raise self.mismatch(line, f"expected {json.dumps(line.value)}", f"     got {json.dumps(message)}")
            self.check(lines.pop(0), message)

    async def finish(self) -> None:
        """Hear the rest; after a last ping nothing more may come."""
        await super().finish()
        await self.client.post(self.endpoint, json={"jsonrpc": "2.0", "id": "the last", "method": "ping"})
        last = await asyncio.wait_for(self.messages.get(), PATIENCE)
        if last != {"jsonrpc": "2.0", "id": "the last", "result": {}} or not self.messages.empty():
            raise self.mismatch(None, f"the server also said {json.dumps(last)}")


async def events(response: httpx2.Response) -> AsyncGenerator[tuple[str, str]]:
    """Yield the types and the data of events."""
    kind, data = "message", ""
    async for line in response.aiter_lines():
        name, _, value = line.partition(": ")
        if name == "event":
            kind = value
        elif name == "data":
            data = value
        elif not line and data:
            yield kind, data
            kind, data = "message", ""


@pytest.mark.parametrize("conversation", CASES)
async def test_the_server_says_the_same_over_http_with_sse(conversation: Conversation) -> None:
    async with SsePlayer(conversation, None) as player:
        for line in (*conversation.handshake, *conversation.lines):
            await player.take(line)
        await player.finish()
