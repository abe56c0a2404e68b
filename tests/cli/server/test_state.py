"""``carrel state`` beside replicas that run: what it shows, and a session that it ends on all of them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest

from carrel.cli import main
from support.carrel_process import carrel, serving
from support.redis_servers import RedisServer, redis_server

pytestmark = pytest.mark.slow

KEY = "ab" * 32
SERVER = """
from carrel import Server

app = Server("shop")
app.resources.add("note://one", "1")
"""
HEADERS = {"accept": "application/json, text/event-stream", "mcp-protocol-version": "2025-11-25"}


# tests/state has everything with either server.
@pytest.fixture(params=["redis-server", pytest.param("valkey-server", marks=pytest.mark.exhaustive)])
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def store(kind: str) -> Iterator[RedisServer]:
    with redis_server(kind) as server:
        yield server


def shown(folder: Path, *arguments: str) -> Any:
    done = carrel("state", *arguments, "--json", cwd=folder, text=True)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


async def test_the_store_of_replicas_is_shown_and_a_session_ended(
    kind: str, store: RedisServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CARREL_STATE_KEYS", KEY)
    (tmp_path / "server.py").write_text(SERVER)
    (tmp_path / "carrel.toml").write_text(
        f'[app]\nfile = "server.py"\n[state]\nurl = "{store.url}"\nprefix = "a[b]*"\n'
    )
    start = ("run", "--config", "carrel.toml")
    with serving(*start, cwd=str(tmp_path)) as (one, _), serving(*start, cwd=str(tmp_path)) as (other, _):
        async with httpx2.AsyncClient(headers=HEADERS, timeout=60) as http:
            begun = {
                "protocolVersion": "2025-11-25",
                "capabilities": {},
                "clientInfo": {"name": "evil\x1b[2J", "version": "1"},
            }
            first = await http.post(one, json=rpc("initialize", begun))
            session = {"mcp-session-id": first.headers["mcp-session-id"]}
            subscribed = await http.post(other, json=rpc("resources/subscribe", {"uri": "note://one"}), headers=session)
            assert "result" in subscribed.text

            found = shown(tmp_path)
            assert found["server"].split()[0].lower() == kind.removesuffix("-server")
            assert len(found["replicas"]) == 2
            assert all(0 < seconds <= 15 for seconds in found["replicas"].values())
            assert found["kinds"]["session"]["records"] == 1
            assert found["kinds"]["session"]["bytes"] > 100
            (row,) = shown(tmp_path, "sessions")
            assert (row["client"], row["revision"], row["subscriptions"]) == ("evil\x1b[2J 1", "2025-11-25", 1)
            text = carrel("state", cwd=tmp_path, text=True).stdout
            assert "Replicas and their leases" in text
            assert "sessions" in text
            people = carrel("state", "sessions", cwd=tmp_path, text=True).stdout
            assert "1 subscription " in people
            assert "\x1b[2J" not in people

            second = await http.post(one, json=rpc("initialize", begun))
            starts = {row["id"] for row in shown(tmp_path, "sessions")}
            assert starts == {answer.headers["mcp-session-id"][:12] for answer in (first, second)}
            start = second.headers["mcp-session-id"][:12]
            assert f"{start} " in carrel("state", "sessions", cwd=tmp_path, text=True).stdout
            assert carrel("state", "end", start[:7], cwd=tmp_path, text=True).returncode == 1
            assert carrel("state", "end", start, cwd=tmp_path, text=True).stdout == "the session has ended\n"
            ended = {"mcp-session-id": second.headers["mcp-session-id"]}
            for url in (one, other):
                assert (await http.post(url, json=rpc("ping", {}), headers=ended)).status_code == 404

            id = session["mcp-session-id"]
            assert carrel("state", "end", id, cwd=tmp_path, text=True).stdout == "the session has ended\n"
            for url in (one, other):
                assert (await http.post(url, json=rpc("ping", {}), headers=session)).status_code == 404
            again = carrel("state", "end", id, cwd=tmp_path, text=True)
            assert again.returncode == 1
            assert "has no session" in again.stderr
            assert shown(tmp_path)["kinds"]["session"]["records"] == 0


def rpc(method: str, params: dict[str, Any]) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ([], "the memory that workers share"),
        (["end"], "usage: carrel state"),
        (["--state", "redis://127.0.0.1:9"], "CARREL_STATE_KEYS"),
        (["list"], "invalid choice: 'list'"),
    ],
)
def test_wrong_use_is_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], arguments: list[str], told: str
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["state", *arguments]) == 2
    errors = capsys.readouterr().err
    assert told in errors
    assert errors.count("\n") == 1


def test_a_store_that_cannot_be_reached_is_named_without_its_password(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("CARREL_STATE_KEYS", KEY)
    assert main(["state", "--state", "redis://ann:sesame@127.0.0.1:9"]) == 2
    errors = capsys.readouterr().err
    assert "redis://ann@127.0.0.1:9 cannot be used" in errors
    assert "sesame" not in errors
