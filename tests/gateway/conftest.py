"""Gateways over servers in this process, each behind a real client on the in-memory transport."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from typing import Any, Protocol, Unpack

import pytest

from carrel import Client, Server
from carrel.client.options import ClientOptions
from carrel.errors import TransportError
from carrel.gateway import Gateway
from carrel.host import reconnect, remote
from carrel.host.config import ServerConfig
from carrel.host.hosted_server import HostedServer

PATIENCE = 60.0


class MakeGateway(Protocol):
    """Function of the fixture ``gateway_of``."""

    def __call__(
        self, servers: dict[str, Server], *, revisions: dict[str, str] | None = None, **options: Any
    ) -> AbstractAsyncContextManager[Gateway]: ...


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let gateways wait for their servers on a busy machine, unless a test says how long."""
    assert Gateway.__init__.__kwdefaults__ is not None
    monkeypatch.setitem(Gateway.__init__.__kwdefaults__, "enter_timeout", PATIENCE)
    monkeypatch.setattr(remote, "LIST_PATIENCE", PATIENCE)


@pytest.fixture
def down() -> set[str]:
    """Return the names of the servers that cannot be connected to now."""
    return set()


@pytest.fixture
def gateway_of(monkeypatch: pytest.MonkeyPatch, down: set[str]) -> MakeGateway:
    """Return a function that makes a gateway to servers in this process, by name, each at a revision of its own."""
    monkeypatch.setattr(reconnect, "PAUSES", (0.02, 0.05))

    def make(servers: dict[str, Server], *, revisions: dict[str, str] | None = None, **options: Any) -> Gateway:
        async def new_client(hosted: HostedServer, **given: Unpack[ClientOptions]) -> Client:
            name = hosted.name
            client = Client(servers[name], revision=(revisions or {}).get(name), **given)
            connect = client.session.connect

            async def connect_unless_down() -> Any:
                if name in down:
                    raise TransportError(f"{name} --secret-argument cannot be reached", delivered=False)
                return await connect()

            client.session.connect = connect_unless_down  # type: ignore[method-assign]
            return client

        monkeypatch.setattr(HostedServer, "new_client", new_client)
        configs = [ServerConfig(name=name, command="secret-command", env={"KEY": "secret-value"}) for name in servers]
        return Gateway(configs, **options)

    return make


async def until(condition: Callable[[], bool | Awaitable[bool]], changed: Callable[[], Awaitable[object]]) -> None:
    """Wait until a condition holds, which is looked at after each change."""
    async with asyncio.timeout(PATIENCE):
        while True:
            holds = condition()
            if holds is True or (holds is not False and await holds):
                return
            await changed()
