"""Golden conversations through a gateway: clients hear of it what they hear of the server alone, but for a list."""

from __future__ import annotations

import asyncio
import json
import tomllib
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import msgspec
import pytest

from carrel import Server
from carrel.host.remote import RemoteProvider
from carrel.transports.server.dispatcher import Dispatcher
from golden.conversation import HERE, Conversation, Line, conversations
from golden.players import PATIENCE, Mismatch, StreamPlayer

LISTS: Mapping[str, Mapping[str, str]] = tomllib.loads((HERE / "gateway.toml").read_text(encoding="utf-8"))
#: How many entries the applications have on a page.
PAGE_SIZES = {"app": 3, "skills": 2}


def fronted(app: Server[Any], name: str) -> Server[Any]:
    """Return a gateway that says of itself what an application says."""
    said = app.endpoint.description
    info = said.info
    gateway: Server[Any] = Server(
        info.name,
        version=info.version,
        title=info.title,
        description=info.description,
        website_url=info.website_url,
        icons=info.icons or [],
        instructions=said.instructions,
        page_size=PAGE_SIZES.get(name, 100),
        ttl=said.ttl_ms / 1000,
        scope=said.scope,
    )
    gateway.skills()
    return gateway


class GatewayPlayer(StreamPlayer):
    """A client of a gateway in this process, in front of the application, which speaks the same revision.

    ``differences`` are the lines that are otherwise than written.
    """

    differences: set[str]

    async def __aenter__(self) -> GatewayPlayer:
        app = self.build()
        gateway = fronted(app, self.conversation.app)
        gateway.add_provider(RemoteProvider(app, name="far", revision=self.conversation.revision))
        self.app = gateway.endpoint
        self.said: asyncio.Queue[Any] = asyncio.Queue()
        self.differences = set()
        await self.app.start()
        self.dispatcher = Dispatcher(self.app, self)
        return self

    async def __aexit__(self, *exception: object) -> None:
        await self.dispatcher.close()
        await self.app.stop()

    # Channel of the dispatcher

    def send(self, message: bytes, key: object = None) -> None:
        self.said.put_nowait(msgspec.json.decode(message))

    async def drain(self) -> None:
        await asyncio.sleep(0)

    def pause(self, retry: int | None = None) -> None:
        """There is nothing to close."""

    async def write(self, text: str) -> None:
        reply = self.dispatcher.receive(text.encode())
        if reply is not None:
            self.send(reply)

    async def read(self, line: Line) -> Any:
        try:
            async with asyncio.timeout(PATIENCE):
                return await self.said.get()
        except TimeoutError:
            raise self.mismatch(line, f"nothing came in {PATIENCE} s, expected {json.dumps(line.value)}") from None

    def check(self, line: Line, message: Any) -> None:
        result = line.value.get("result") if isinstance(line.value, dict) else None
        if isinstance(result, dict) and "capabilities" in result:  # which are those of the gateway
            line = replace(line, value={**line.value, "result": {**result, "capabilities": "<any>"}})
        try:
            super().check(line, message)
        except Mismatch:
            name = f"{name_of(self.conversation)}:{line.number}"
            if name not in LISTS["differences"]:
                raise
            self.differences.add(name)

    async def finish(self) -> None:
        await super().finish()
        await self.dispatcher.close()
        if not self.said.empty():
            raise self.mismatch(None, f"the server also said {json.dumps(self.said.get_nowait())}")


def name_of(conversation: Conversation) -> str:
    return f"{conversation.revision}/{conversation.path.stem}"


CASES = [
    pytest.param(conversation, id=name_of(conversation))
    for conversation in conversations()
    if conversation.only in (None, "stdio") and name_of(conversation) not in LISTS["undecided"]
]


@pytest.mark.parametrize("conversation", CASES)
async def test_a_client_hears_through_a_gateway_what_it_hears_of_the_server(conversation: Conversation) -> None:
    async with GatewayPlayer(conversation, None) as player:
        await player.play()
    listed = {name for name in LISTS["differences"] if name.partition(":")[0] == name_of(conversation)}
    assert player.differences == listed, "take out of gateway.toml what is the same"


def test_every_conversation_on_the_list_is_one() -> None:
    names = {name_of(conversation) for conversation in conversations()}
    assert {name.partition(":")[0] for each in LISTS.values() for name in each} <= names
