"""Extensions of a client: objects that declare, add methods, and hear of connections and notifications."""

from __future__ import annotations

from textwrap import dedent

import pytest

from carrel import Client, Server
from carrel.client import extensions
from carrel.client.extensions import ClientExtension
from carrel.client.handlers import ClientCall
from carrel.errors import ConfigError
from carrel.protocol.client import ServerNotification
from carrel.protocol.extension import Extension
from carrel.protocol.methods import RequestType
from carrel.wire.base import Params, Result
from support.scripted_server import Partner, connected
from support.servers.demo import make_shelf


class GreetParams(Params, kw_only=True):
    name: str


class GreetResult(Result, kw_only=True):
    greeting: str


GREET = RequestType("example/greet", "greet", GreetParams, GreetResult)


class Greetings(ClientExtension):
    protocol = Extension(name="com.example/greetings", requests={GREET.method: GREET}, handshake=True)

    def __init__(self) -> None:
        super().__init__(settings={"polite": True})
        self.heard: list[str] = []

    async def greet(self, name: str) -> str:
        return (await self.session.request(ClientCall(GREET, GreetParams(name=name)))).greeting

    def connected(self) -> None:
        self.heard.append("connected")

    def notified(self, notification: ServerNotification) -> None:
        self.heard.append(notification.event)


@pytest.mark.slow
@pytest.mark.parametrize("revision", ["2025-11-25", "2026-07-28"])
async def test_an_extension_adds_methods_in_every_revision(revision: str) -> None:
    result = {"greeting": "Hello Ada"} | ({"resultType": "complete"} if revision == "2026-07-28" else {})
    partner = Partner(revision, {"example/greet": result})
    greetings = Greetings()
    async with connected(partner, revision=revision, extensions=[greetings]):
        assert await greetings.greet("Ada") == "Hello Ada"
        assert greetings.server_settings is None
        assert greetings.heard == ["connected"]


@pytest.mark.slow
async def test_the_example_of_the_docstring_works() -> None:
    code, _, _ = (extensions.__doc__ or "").partition("\n    greetings = ")
    scope = {name: globals()[name] for name in ("ClientCall", "ClientExtension", "Extension")}
    scope |= {name: globals()[name] for name in ("RequestType", "Params", "Result")}
    exec(dedent(code.partition("\n\n")[2]), scope)
    partner = Partner("2026-07-28", {"example/greet": {"greeting": "Hello Ada", "resultType": "complete"}})
    greetings = scope["Greetings"]()
    async with connected(partner, revision="2026-07-28", extensions=[greetings]):
        assert (await greetings.greet("Ada")).greeting == "Hello Ada"


async def test_an_extension_hears_of_notifications() -> None:
    app = make_shelf()
    greetings = Greetings()
    async with (
        Client(app, revision="2025-11-25", extensions=[greetings]) as client,
        client.watch(lists=["resources"]) as changes,
    ):
        await client.call_tool("put", {"number": 1})
        await anext(changes)
    assert greetings.heard == ["connected", "resources_list_changed"]


def test_an_extension_belongs_to_one_client() -> None:
    greetings = Greetings()
    with pytest.raises(ConfigError, match="belongs to no client yet"):
        _ = greetings.session
    Client(Server("a"), extensions=[greetings])
    with pytest.raises(ConfigError, match="belongs to another client"):
        Client(Server("b"), extensions=[greetings])
