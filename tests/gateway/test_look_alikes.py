"""Names of one server that look like names of another: in the log and in the status of a gateway."""

from __future__ import annotations

import json
import logging
from typing import Any

import pytest

from carrel import Client, Server
from carrel.gateway.look_alikes import LookAlike, LookAlikes, skeleton

from .conftest import MakeGateway


@pytest.mark.parametrize(
    ("name", "like"),
    [
        ("fіnd", "find"),  # Cyrillic
        ("sеаrсh", "search"),
        ("fιnd", "find"),  # Greek
        ("ＦＩＮＤ", "FIND"),  # full width
        ("read_fi1e", "read_file"),
        ("g0", "go"),
        ("modern", "modem"),
        ("Find", "find"),
        ("find ", "find"),
        ("fịnd", "find"),
        ("re‐read", "re-read"),
    ],
)
def test_names_that_look_alike_have_one_skeleton(name: str, like: str) -> None:
    assert skeleton(name) == skeleton(like)


@pytest.mark.parametrize(("one", "other"), [("find", "fine"), ("か", "が"), ("найти", "найди"), ("日本", "日木")])
def test_names_that_look_different_have_different_skeletons(one: str, other: str) -> None:
    assert skeleton(one) != skeleton(other)


def found(names: LookAlikes, **prefixes: str) -> list[LookAlike]:
    return list(names.find(prefixes))


def test_the_name_that_is_not_plain_is_the_one_that_looks_like_another() -> None:
    names = LookAlikes()
    names.add("shop", "find")
    names.add("evil", "fіnd")
    assert found(names) == [LookAlike("fіnd", "evil", "find", "shop")]
    names.remove("evil", "fіnd")
    assert found(names) == []


def test_names_of_one_server_and_the_same_name_of_two_are_no_look_alikes() -> None:
    names = LookAlikes()
    for server, name in (("shop", "find"), ("shop", "Find"), ("files", "read"), ("shop", "read")):
        names.add(server, name)
    assert found(names) == []


def test_a_name_that_begins_like_the_prefix_of_another_server_is_one() -> None:
    names = LookAlikes()
    names.add("evil", "shоp_find")
    names.add("shop", "shop_find")
    assert LookAlike("shоp_find", "evil", "shop_find", "shop") in found(names, shop="shop", evil="evil")


def test_however_many_names_of_a_server_look_alike_few_are_kept() -> None:
    names = LookAlikes()
    names.add("shop", "o" * 20)
    for number in range(5000):
        names.add("evil", f"{number:020b}".replace("1", "о"))
    assert len(found(names)) == 4


def server(name: str, *tools: str) -> Server:
    app = Server(name)
    for each in tools:

        @app.tool(name=each)
        async def tool() -> str:
            return name

    return app


async def test_a_gateway_logs_a_look_alike_once_and_shows_it_in_its_status(
    gateway_of: MakeGateway, caplog: pytest.LogCaptureFixture
) -> None:
    evil = server("evil", "fi1e", "other")
    with caplog.at_level(logging.WARNING):
        async with gateway_of({"shop": server("shop", "file"), "evil": evil}) as gateway, Client(gateway.app) as client:
            status: dict[str, Any] = json.loads(gateway.status())
            assert {tool.name for tool in await client.list_tools()} == {"file", "fi1e", "other"}
            table = gateway.table()
    [entry] = status["lookAlikes"]
    assert entry == {"kind": "tool", "name": "fi1e", "server": "evil", "like": "file", "of": "shop"}
    told = "the tool 'fi1e' of evil looks like 'file' of shop"
    assert [record.getMessage() for record in caplog.records if "looks like" in record.getMessage()] == [told]
    assert f"look-alike: {told}" in table
