"""What holds on every transport: one of somebody's own, and who asks over HTTP."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from carrel.client.client import Client
from carrel.protocol.client import OutgoingMessage
from carrel.protocol.revision import Revision
from carrel.transports.client.options import HTTPOptions
from carrel.transports.client.transport import Receiver
from client.test_messages import everything, slowly
from support.scripted_server import Partner, connected, pack
from support.server_connection import ALL, LATEST, MARCH, NOVEMBER

pytestmark = [pytest.mark.requirement, pytest.mark.slow]


class Wire:
    """A transport that an author might write: it hands messages to a partner in this process."""

    cancels = False
    held = False
    mirrors = False
    streams = False

    def __init__(self, partner: Partner) -> None:
        self.partner = partner
        self.receiver: Receiver | None = None

    async def open(self, receiver: Receiver) -> None:
        self.receiver = receiver
        self.partner._say[None] = lambda data: asyncio.get_running_loop().call_soon(receiver.receive, data)

    def send(self, message: OutgoingMessage) -> None:
        self.partner.written += message.data + b"\n"
        self.partner.spawn(self.hand_over(json.loads(message.data)))

    async def hand_over(self, message: Any) -> None:
        assert self.receiver is not None
        for reply in await self.partner.take(message):
            self.receiver.receive(pack(reply))

    def abandon(self, id: Any) -> None: ...

    def settle(self, revision: Revision) -> None: ...

    async def close(self) -> None:
        await asyncio.gather(*self.partner._tasks)


def without_ids(partner: Partner) -> list[Any]:
    """Return what was sent, without what may be different each time."""

    def plain(value: Any) -> Any:
        if isinstance(value, dict):
            return {key: plain(item) for key, item in value.items() if key not in ("id", "progressToken", "requestId")}
        return value

    return sorted((plain(message) for message in partner.sent), key=json.dumps)


@pytest.mark.parametrize("revision", ALL)
async def test_a_transport_of_ones_own_carries_the_same_messages(revision: str) -> None:
    usual, own = (Partner(revision, {"tools/call": slowly}) for _ in range(2))
    async with connected(usual) as client:
        await everything(client, usual)
    async with Client(lambda: Wire(own)) as client:
        assert client.revision == revision
        await everything(client, own)
    assert without_ids(own) == without_ids(usual)


@pytest.mark.parametrize("revision", [MARCH, NOVEMBER, LATEST])
async def test_every_request_says_who_asks_and_no_address_does(revision: str) -> None:
    partner = Partner(revision, {"tools/call": slowly})
    partner.session = "s"
    async with connected(partner, "http", http=HTTPOptions(auth="the-token")) as client:
        await everything(client, partner)
    expected = {"POST"} if revision == LATEST else {"POST", "GET", "DELETE"}
    assert {exchange.method for exchange in partner.exchanges} == expected
    for exchange in partner.exchanges:
        assert exchange.headers["authorization"] == "Bearer the-token"
        assert "the-token" not in exchange.path
        assert b"the-token" not in exchange.body
