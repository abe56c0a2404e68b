"""Budgets of a gateway that can be counted: the Python calls of one request, and that results are not decoded again."""

from __future__ import annotations

import json
from types import FrameType
from typing import Any

import pytest

import carrel
from carrel import Server
from carrel.client.client import Client
from carrel.host.relayed import relaying
from carrel.host.remote import RemoteProvider
from carrel.transports.memory import connect
from gateway.echo import LATEST, REQUESTS, RESULTS, SESSION, Echo, answer, between

SOURCE = carrel.__file__.removesuffix("__init__.py")


class Calls:
    """Python functions of the library that are called."""

    def __init__(self) -> None:
        self.names: list[str] = []

    def __call__(self, frame: FrameType, event: str, argument: Any) -> None:
        name = frame.f_code.co_filename
        if event == "call" and name.startswith(SOURCE):
            self.names.append(f"{name.removeprefix(SOURCE)}:{frame.f_code.co_name}")


@pytest.mark.parametrize("near", [SESSION, LATEST])
@pytest.mark.parametrize("far", [SESSION, LATEST])
async def test_a_tool_call_takes_few_calls(monkeypatch: pytest.MonkeyPatch, far: str, near: str) -> None:
    async with between(monkeypatch, far, near) as peer:
        for _ in range(3):
            await answer(peer, "tools/call")
        calls = Calls()
        assert b"score" in await answer(peer, "tools/call", calls)
    assert len(calls.names) <= (91 if far == near else 108), calls.names


@pytest.mark.parametrize("near", [SESSION, LATEST])
@pytest.mark.parametrize("far", [SESSION, LATEST])
async def test_a_tool_call_of_a_remote_provider_takes_few_calls(far: str, near: str) -> None:
    app = Server("gateway")
    app.add_provider(RemoteProvider(Client(lambda: Echo(far), revision=far, **relaying({})), name="far"))
    async with connect(app, near) as peer:
        for _ in range(3):
            await answer(peer, "tools/call")
        calls = Calls()
        assert b"score" in await answer(peer, "tools/call", calls)
    assert len(calls.names) <= (70 if far == near else 84), calls.names


@pytest.mark.parametrize("method", REQUESTS)
async def test_the_result_of_a_server_of_the_same_revision_is_passed_on_as_it_came(
    monkeypatch: pytest.MonkeyPatch, method: str
) -> None:
    async with between(monkeypatch, SESSION, SESSION) as peer:
        assert await answer(peer, method) == b'{"jsonrpc":"2.0","id":77,"result":%b}' % (RESULTS[method] % b"")


@pytest.mark.parametrize("method", REQUESTS)
async def test_in_the_stateless_revision_only_the_name_of_the_server_is_another(
    monkeypatch: pytest.MonkeyPatch, method: str
) -> None:
    async with between(monkeypatch, LATEST, LATEST) as peer:
        given = json.loads(Echo(LATEST).result_of(method))
        passed = json.loads(await answer(peer, method))["result"]
    assert passed.pop("_meta")["io.modelcontextprotocol/serverInfo"]["name"] == "carrel-gateway"
    assert passed == given
