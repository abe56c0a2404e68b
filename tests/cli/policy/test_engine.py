"""``[access.engine]``: a policy engine decides, asked by AuthZEN: Cerbos, and a server that fails in all ways."""

from __future__ import annotations

import json
import platform
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from multidict import CIMultiDict

from carrel import Client, Server
from carrel.cli import main
from carrel.errors import MCPError
from carrel.policy.authzen import AuthZen
from carrel.policy.authzen_options import AuthZenOptions
from carrel.policy.engine import EngineGate
from carrel.transports.client.options import HTTPOptions
from carrel.uri.parse import file_uri
from support import parties
from support.carrel_process import serving
from support.http_process import free_port

POLICIES = {
    "resource": (
        ["read", "list", "list_directory", "subscribe", "complete"],
        'R.id.endsWith("/notes") || (R.id + "/").contains("/" + P.id + "/")',
    ),
    "tool": (["call"], '"reader" in P.attr.roles && R.id.startsWith("search_")'),
}
SERVER = """
from carrel import Server, Context

app = Server("shop")


@app.tool
def search_books() -> str:
    return "found"


@app.tool
def delete_books() -> str:
    return "deleted"
"""
needs_cerbos = pytest.mark.skipif(
    sys.platform != "linux" or platform.machine() != "x86_64", reason="the package of Cerbos is for Linux on x86-64"
)


@pytest.fixture(scope="module")
def cerbos(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """URL of a Cerbos server: each user reads the folder of their name and its parent, and readers search."""
    folder = tmp_path_factory.mktemp("cerbos")
    (folder / "policies").mkdir()
    for kind, (actions, condition) in POLICIES.items():
        rule = {"actions": actions, "effect": "EFFECT_ALLOW", "roles": ["*"]}
        rule["condition"] = {"match": {"expr": condition}}
        policy = {"resource": kind, "version": "default", "rules": [rule]}
        (folder / f"policies/{kind}.json").write_text(
            json.dumps({"apiVersion": "api.cerbos.dev/v1", "resourcePolicy": policy})
        )
    port = free_port()
    settings = {
        "server": {"httpListenAddr": f"127.0.0.1:{port}", "grpcListenAddr": f"127.0.0.1:{free_port()}"},
        "storage": {"driver": "disk", "disk": {"directory": str(folder / "policies")}},
        "telemetry": {"disabled": True},
    }
    (folder / "cerbos.json").write_text(json.dumps(settings))
    with subprocess.Popen(
        [parties.cerbos(), "server", f"--config={folder / 'cerbos.json'}"], stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        try:
            while "Starting HTTP server" not in process.stdout.readline():
                assert process.poll() is None
            yield f"http://127.0.0.1:{port}"
        finally:
            process.terminate()
            process.stdout.read()


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    for name in ("ann/a.md", "bob/b.md", "open/c.md"):
        (tmp_path / "notes" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "notes" / name).write_text(f"text of {name}")
    (tmp_path / "server.py").write_text(SERVER)
    return tmp_path


def configure(url: str, more: str = "") -> None:
    Path("carrel.toml").write_text(
        f'[access.engine]\nurl = "{url}"\n{more}\n[access.roles]\nreader = {{ token = "ann" }}\n'
        '[auth]\ntokens = "tokens.txt"\n[[sources]]\npath = "notes"\n[app]\nfile = "server.py"\n'
    )


def token(name: str, capsys: pytest.CaptureFixture[str]) -> HTTPOptions:
    assert main(["token", "add", name, "--file", "tokens.txt"]) == 0
    return HTTPOptions(auth=capsys.readouterr().out.strip())


async def names(client: Client) -> list[str]:
    listed = [each.uri.rpartition("/")[2] for each in await client.list_resources()]
    return [*listed, *(tool.name for tool in await client.list_tools())]


@needs_cerbos
@pytest.mark.parametrize("revision", ["2025-11-25", "2026-07-28"])
async def test_cerbos_decides_what_each_caller_sees_and_uses(
    cerbos: str, folder: Path, capsys: pytest.CaptureFixture[str], revision: str
) -> None:
    more = '[audit]\nfile = "audit.jsonl"\n' if revision == "2026-07-28" else ""
    configure(cerbos, f'{more}[limits]\nrequests = "1/hour"\nburst = 12\n')  # asking again does not count
    ann, bob = token("ann", capsys), token("bob", capsys)
    notes = file_uri(folder / "notes")
    with serving("run", "--config", "carrel.toml", cwd=str(folder)) as (url, _):
        async with Client(url, http=ann, revision=revision) as one, Client(url, http=bob, revision=revision) as other:
            assert [await names(one), await names(other)] == [["notes", "a.md", "search_books"], ["notes", "b.md"]]
            assert (await one.read_resource(f"{notes}/ann/a.md")).contents[0].text == "text of ann/a.md"  # type: ignore[union-attr]
            with pytest.raises(MCPError) as denied:
                await one.read_resource(f"{notes}/bob/b.md")
            with pytest.raises(MCPError) as missing:
                await one.read_resource(f"{notes}/bob/x.md")
            assert str(denied.value).replace("b.md", "x.md") == str(missing.value)
            await one.call_tool("search_books")
            for client, tool in ((one, "delete_books"), (other, "search_books")):
                with pytest.raises(MCPError, match="nknown tool"):
                    await client.call_tool(tool)
    if revision == "2026-07-28":
        lines = [json.loads(line) for line in (folder / "audit.jsonl").read_text().splitlines()]
        denied_lines = [(each["principal"], each["target"], each.get("roles")) for each in lines if "decision" in each]
        assert ("bob", "search_books") in [each[:2] for each in denied_lines]
        assert ("ann", "delete_books", ["reader"]) in denied_lines


@needs_cerbos
async def test_without_an_engine_that_answers_everything_is_refused(
    cerbos: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    configure(f"http://127.0.0.1:{free_port()}")
    ann = token("ann", capsys)
    with serving("run", "--config", "carrel.toml", cwd=str(folder)) as (url, errors):
        async with Client(url, http=ann) as client:
            for ask in (client.list_tools(), client.read_resource(file_uri(folder / "notes/ann/a.md"))):
                with pytest.raises(MCPError, match="policy engine does not answer"):
                    await ask
        errors.wait_for("the policy engine does not answer")


def test_settings_that_make_no_sense_are_errors(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "tokens.txt").write_text("")
    for engine, more, message in (
        ('url = "http://pdp.example.com"', "", "must begin with https://"),
        ('url = "https://pdp.example.com"\ntoken = "abc"', "", "token: write"),
        ("cache_seconds = 5", "", "url"),
        ('url = "https://pdp.example.com"\nurls = 1', "", "urls"),
        ('url = "https://pdp.example.com"', '[[access.rules]]\nrole = "*"\nallow = "all"\n', "write one of them"),
    ):
        Path("carrel.toml").write_text(f'[access.engine]\n{engine}\n{more}[[sources]]\npath = "notes"\n')
        assert main(["serve", "--config", "carrel.toml"]) == 2
        assert message in capsys.readouterr().err
    for url in ("https://ann:0pen-sesame@pdp.example.com", "https://pdp.example.com?token=0pen-sesame", "https://[x"):
        Path("carrel.toml").write_text(f'[access.engine]\nurl = "{url}"\n[[sources]]\npath = "notes"\n')
        assert main(["serve", "--config", "carrel.toml"]) == main(["policy", "explain", "read", "a://b"]) == 2
        printed = capsys.readouterr()
        assert "the policy engine" in printed.err
        assert "0pen-sesame" not in printed.out + printed.err
    Path("carrel.toml").write_text('[access.engine]\nurl = "https://pdp.example.com"\n')
    assert main(["policy", "explain", "read", "a://b"]) == 2
    assert "the policy engine https://pdp.example.com" in capsys.readouterr().err


class Decider:
    """AuthZEN server: allows what is in ``allowed``, with the headers and the damage that a test wants."""

    def __init__(self) -> None:
        self.allowed = {"note://1", "note://2", "add"}
        self.headers: dict[str, str] | CIMultiDict[str] = {}
        self.endpoints: dict[str, str] | None = None
        self.body: bytes | None = None
        self.status = 200
        self.questions: list[tuple[str, str]] = []
        self.requests = 0

    async def metadata(self, request: web.Request) -> web.Response:
        if self.endpoints is None:
            return web.Response(status=404)
        return web.json_response({"policy_decision_point": f"http://{request.host}", **self.endpoints})

    async def evaluate(self, request: web.Request) -> web.Response:
        self.requests += 1
        document = await request.json()
        rows = document.get("evaluations") or [document]
        for row in rows:
            self.questions.append((row["action"]["name"], row["resource"]["id"]))
        if self.body is not None or self.status != 200:
            return web.Response(status=self.status, body=self.body, content_type="application/json")
        decisions: list[dict[str, Any]] = [{"decision": row["resource"]["id"] in self.allowed} for row in rows]
        answer = {"evaluations": decisions} if "evaluations" in document else decisions[0]
        return web.json_response(answer, headers=self.headers)


@asynccontextmanager
async def decided(decider: Decider, cache_seconds: float = 0.0) -> AsyncIterator[Server]:
    """Serve an AuthZEN server, and a server whose gate asks it."""
    served = web.Application()
    served.router.add_get("/.well-known/authzen-configuration", decider.metadata)
    served.router.add_post("/access/v1/{which}", decider.evaluate)
    runner = web.AppRunner(served)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    app = Server("notes")
    for number in range(300):
        app.resources.add(f"note://{number}", f"text {number}")

    @app.tool
    def add() -> str:
        return "added"

    url = f"http://127.0.0.1:{runner.addresses[0][1]}"
    gate = app.gate = EngineGate(AuthZen(AuthZenOptions(url, cache_seconds=cache_seconds)), changed=app.list_changed)
    app.middleware(gate)
    try:
        yield app
    finally:
        await gate.close()
        await runner.cleanup()


@pytest.mark.parametrize(
    ("headers", "cache_seconds", "asked"),
    [
        ({}, 0, True),
        ({}, 60, False),
        ({"Cache-Control": "max-age=60"}, 0, False),
        ({"Cache-Control": "no-store"}, 60, True),
        ({"Cache-Control": "max-age=0"}, 60, True),
        ({"Cache-Control": "private, max-age=60, no-cache"}, 60, True),
        (CIMultiDict([("Cache-Control", "max-age=60"), ("Cache-Control", "no-store")]), 60, True),
    ],
)
async def test_decisions_are_cached_as_the_engine_says(
    headers: dict[str, str] | CIMultiDict[str], cache_seconds: float, asked: bool
) -> None:
    decider = Decider()
    decider.headers = headers
    async with decided(decider, cache_seconds) as app, Client(app) as client:
        await client.read_resource("note://1")
        before = decider.requests
        decider.allowed.discard("note://1")
        if asked:
            with pytest.raises(MCPError, match="not found"):
                await client.read_resource("note://1")
        else:
            await client.read_resource("note://1")
        assert (decider.requests > before) is asked


async def test_a_list_has_what_the_engine_allows_and_asks_about_each_entry_once() -> None:
    decider = Decider()
    decider.allowed |= {f"note://{number}" for number in range(0, 300, 7)}
    async with decided(decider) as app, Client(app) as client:
        listed = {each.uri for each in await client.list_resources()}
        assert listed == {target for target in decider.allowed if target.startswith("note:")}
        assert [tool.name for tool in await client.list_tools()] == ["add"]


@pytest.mark.parametrize(
    ("status", "body"),
    [
        (500, b"{}"),
        (401, b'{"decision": true}'),
        (200, b"[]"),
        (200, b"{"),
        (200, b'{"decision": "true", "evaluations": [{"decision": "true"}, {"decision": 1}]}'),
        (200, b'{"decision": null, "evaluations": []}'),
        (200, b'{"allow": true, "evaluations": [{"decision": true}]}'),
        (200, b"x" * 5_000_000),
    ],
)
async def test_an_answer_that_is_not_one_of_the_specification_allows_nothing(status: int, body: bytes) -> None:
    decider = Decider()
    async with decided(decider) as app, Client(app) as client:
        decider.status, decider.body = status, body
        for ask in (client.read_resource("note://1"), client.call_tool("add")):
            with pytest.raises(MCPError, match="policy engine does not answer"):
                await ask
        decider.status, decider.body = 200, None
        await client.read_resource("note://1")


async def test_subscribers_are_notified_of_what_the_engine_allows_at_that_time() -> None:
    decider = Decider()
    async with decided(decider) as app, Client(app) as client, client.watch("note://1", "note://2") as changes:
        decider.allowed.discard("note://1")
        app.list_changed(["note://1", "note://2"])
        while True:
            change = await anext(changes)
            assert change.uri != "note://1"
            if change.uri == "note://2":
                break


async def test_a_decision_for_a_notification_decides_about_no_request() -> None:
    decider = Decider()
    decider.headers = {"Cache-Control": "no-store"}
    async with decided(decider) as app, Client(app) as client, client.watch("note://1") as changes:
        app.list_changed(["note://1"])
        while (await anext(changes)).uri != "note://1":
            pass
        decider.allowed.discard("note://1")
        with pytest.raises(MCPError, match="not found"):
            await client.read_resource("note://1")


async def test_the_metadata_cannot_name_an_endpoint_with_another_scheme(caplog: pytest.LogCaptureFixture) -> None:
    decider = Decider()
    for name in ("evaluation", "evaluations"):
        decider.endpoints = {f"access_{name}_endpoint": "https://pdp.example.com/x"}
        async with decided(decider) as app, Client(app) as client:
            with pytest.raises(MCPError, match="policy engine does not answer"):
                await client.read_resource("note://1")
        assert caplog.text.count("must begin with http://") == 1
        caplog.clear()
    assert decider.requests == 0
