"""Entries of servers for other applications: complete, and without secrets."""

from __future__ import annotations

import msgspec
import pytest

from carrel import Server
from carrel.host.config import ServerConfig
from carrel.studio.hand_over import hand_over
from support.studio_page import app_server, opened


def test_a_command_is_handed_over_with_its_arguments() -> None:
    config = ServerConfig(name="notes", command="carrel", args=("serve", "./my notes"), cwd="/home/ada")
    handed = hand_over(config)
    assert handed.entry == {"command": "carrel", "args": ["serve", "./my notes"], "cwd": "/home/ada"}
    assert handed.blank == ()


def test_secrets_are_left_out_and_named() -> None:
    config = ServerConfig(
        name="x", command="x", args=("--token", "hunter2", "postgres://me:hunter2@host/db"), env={"API": "hunter2"}
    )
    handed = hand_over(config)
    assert b"hunter2" not in msgspec.json.encode(handed)
    assert handed.entry is not None
    assert handed.entry["env"] == {"API": ""}
    assert list(handed.blank) == ["********", "postgres://me:********@host/db", "API"]


@pytest.mark.parametrize(
    "arguments",
    [
        ["-H", "Authorization: Bearer hunter2"],
        ["-HAuthorization: hunter2"],
        ["--header", "X-Api-Key: hunter2"],
        ["--header=PRIVATE-TOKEN: hunter2"],
        ["--cookie", "hunter2"],
        ["--mysql-pwd", "hunter2"],
        ["--key=hunter2"],
        ["--token", "-hunter2"],
        ["--token=a b hunter2"],
        ["-u", "me:hunter2"],
        ["-phunter2"],
        ["--Token:hunter2"],
        ["ghp_hunter2"],
        ['{"apiKey": "hunter2"}'],
        ["Server=host;Password=hunter2"],
        ["https://hunter2@host/"],
        ["https://host/#hunter2"],
        ["https://host/?token=hunter2"],
    ],
    ids=" ".join,
)
def test_arguments_that_may_be_secrets_are_left_out(arguments: list[str]) -> None:
    handed = hand_over(ServerConfig(name="x", command="x", args=("before", *arguments, "--port", "8000")))
    assert b"hunter2" not in msgspec.json.encode(handed)
    assert handed.entry is not None
    assert handed.entry["args"][0] == "before"
    assert handed.entry["args"][-2:] == ["--port", "8000"]
    assert handed.blank


@pytest.mark.parametrize(("transport", "type"), [("http", "http"), ("sse", "sse")])
def test_a_url_is_handed_over_without_the_values_of_headers(transport: str, type: str) -> None:
    config = ServerConfig(
        name="x", url="https://a.example/mcp?key=hunter2", headers={"X-Key": "hunter2"}, transport=transport
    )
    handed = hand_over(config)
    assert handed.entry == {"type": type, "url": "https://a.example/mcp?key=********", "headers": {"X-Key": ""}}
    assert list(handed.blank) == ["https://a.example/mcp?key=********", "X-Key"]


@pytest.mark.slow
async def test_a_server_inside_carrel_has_no_entry() -> None:
    async with opened(app_server(Server("inside"))) as page:
        await page.ready("inside")
        assert await page.get("/servers/inside/entry") == {"entry": None, "blank": []}
        assert (await page.ask("GET", "/servers/other/entry"))[0] == 404
