"""Secrets in configurations: what is replaced, and what is left as it is."""

from __future__ import annotations

from typing import Any

import pytest

from carrel.host.config import ServerConfig
from carrel.host.config.secrets import hide

GITHUB = "ghp_16C7e42F292c6912E7710c838347Ae178B4a"
LONG = "a1b2c3d4e5f6g7h8i9j0k1l2"


def replaced(**fields: Any) -> tuple[ServerConfig, dict[str, str]]:
    found: dict[str, str] = {}

    def replace(name: str, secret: str) -> str:
        found[name] = secret
        return f"<{name}>"

    given = {"command": "x"} if "url" not in fields else {"transport": "http"}
    return hide(ServerConfig(name="a", **given, **fields), replace), found  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("API_KEY", "abc"),
        ("GITHUB_TOKEN", GITHUB),
        ("DB_PASSWORD", "x y"),
        ("SLACK_PAT", "x"),
        ("AUTH", "a${X}"),
    ],
)
def test_values_of_the_environment_are_secret_by_their_name(name: str, value: str) -> None:
    server, found = replaced(env={name: value})
    assert server.env == {name: f"<{name}>"}
    assert found == {name: value}


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        ("DATABASE_URL", "postgres://me:hunter2@host/db", "postgres://me:<password>@host/db"),
        ("SETTING", GITHUB, "<SETTING>"),
        ("SETTING", f"a {LONG} b", "a <SETTING> b"),
    ],
)
def test_secrets_in_values_are_found_by_what_they_look_like(name: str, value: str, expected: str) -> None:
    assert replaced(env={name: value})[0].env == {name: expected}


@pytest.mark.parametrize(
    ("args", "expected"),
    [
        (("--api-key", "abc"), ("--api-key", "<api-key>")),
        (("--api-key=abc",), ("--api-key=<api-key>",)),
        (("-e", "TOKEN=abc"), ("-e", "TOKEN=<TOKEN>")),
        (("--header", "Authorization: Bearer abc"), ("--header", "Authorization: <Authorization>")),
        (("postgresql://me:hunter2@host/db",), ("postgresql://me:<password>@host/db",)),
        (("https://x/mcp?api_key=abc&page=2",), ("https://x/mcp?api_key=<api_key>&page=2",)),
        ((GITHUB,), ("<argument>",)),
    ],
)
def test_secrets_in_arguments_are_replaced(args: tuple[str, ...], expected: tuple[str, ...]) -> None:
    assert replaced(args=args)[0].args == expected


def test_secrets_in_headers_and_urls_are_replaced() -> None:
    server, found = replaced(
        url=f"https://me:hunter2@x/api/{LONG}/mcp?token=abc&x=1", headers={"X-Any": "abc", "Accept": "text/plain"}
    )
    assert server.url == "https://me:<password>@x/api/<url>/mcp?token=<token>&x=1"
    assert server.headers == {"X-Any": "<X-Any>", "Accept": "text/plain"}
    assert found == {"password": "hunter2", "url": LONG, "token": "abc", "X-Any": "abc"}


@pytest.mark.parametrize(
    "fields",
    [
        {"env": {"NODE_ENV": "production", "PORT": "8080", "LOG_LEVEL": "DEBUG", "KEY_FILE": "/home/me/key.pem"}},
        {"env": {"TOKEN": "${TOKEN}", "OTHER": "${env:OTHER:-x}"}},
        {"args": ("-y", "@modelcontextprotocol/server-filesystem@2025.7.1", "/home/me/documents", "--verbose")},
        {"args": ("run", "--directory", "/home/me/projects/weather", "weather.py")},
        {"args": ("--api-key", "${env:KEY}", "--api-key=${input:key}")},
        {"url": "https://mcp.example.org/v1/mcp?region=eu-central-1", "headers": {"Authorization": "Bearer ${TOKEN}"}},
        {"args": ("postgres://me:${PASSWORD}@host/db",)},
    ],
)
def test_what_is_no_secret_is_left_as_it_is(fields: dict[str, Any]) -> None:
    server, found = replaced(**fields)
    assert found == {}
    for name, value in fields.items():
        assert getattr(server, name) == value
