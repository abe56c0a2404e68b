"""``[audit]`` of ``serve``, ``run`` and ``gateway`` on stdio and over HTTP, and ``carrel audit``."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import httpx2
import pytest

from carrel import Client
from carrel.cli import main
from carrel.cli.policy.audit import cells, moment
from carrel.errors import MCPError
from carrel.security.server.static_tokens import make_token
from carrel.transports.client.options import HTTPOptions, ProcessOptions
from carrel.uri.parse import file_uri
from support.carrel_process import command, serving

SERVER = """
from carrel import Server

app = Server("shop")
app.resources.add("note://one", "1")


@app.tool
def echo(text: str) -> str:
    return text


@app.tool
def secret(password: str) -> str:
    return "stored"


@app.tool
def fail() -> str:
    raise ValueError("it failed")
"""
SETTINGS = """
[audit]
file = "audit.jsonl"
chain = true
arguments = ["ech*"]

[access.roles]
ann = { token = "ann" }
local = { local = true }

[[access.rules]]
role = ["ann", "local"]
allow = "all"

[[access.rules]]
role = "*"
deny = "all"
resources = "note://two"
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "server.py").write_text(SERVER)
    return tmp_path


def configure(folder: Path, program: str, more: str = "") -> list[str]:
    """Write ``carrel.toml``, and return the command."""
    text = SETTINGS + more
    if program == "run":
        text += '\n[app]\nfile = "server.py"\n'
    elif program == "gateway":
        first, *arguments = command("run", "server.py")
        text += f"\n[servers.shop]\ncommand = {json.dumps(first)}\nargs = {json.dumps(arguments)}\n"
    else:
        (folder / "notes").mkdir()
        (folder / "notes/a.md").write_text("text")
        text += '\n[[sources]]\npath = "notes"\n'
    (folder / "carrel.toml").write_text(text)
    return [program, "--config", "carrel.toml"]


def records(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / "audit.jsonl").read_text().splitlines()]


@pytest.mark.parametrize("program", ["run", "gateway"])
@pytest.mark.parametrize("revision", ["2025-11-25", "2026-07-28"])
async def test_each_request_on_stdio_has_a_line(folder: Path, program: str, revision: str) -> None:
    async with Client(command(*configure(folder, program)), revision=revision) as client:
        await client.read_resource("note://one")
        with pytest.raises(MCPError):
            await client.read_resource("note://two")
        await client.call_tool("echo", {"text": "said"})
        await client.call_tool("secret", {"password": "sesame"})
        await client.call_tool("fail")
    found = {(line["method"], line.get("target")): line for line in records(folder)}
    read = found["resources/read", "note://one"]
    assert read["rule"].startswith("carrel.toml:")
    assert (read["verb"], read["roles"], read["revision"]) == ("read", ["local"], revision)
    assert read["bytes_out"] > 20 <= read["bytes_in"]
    assert 0 < read["seconds"] < 60
    denied = found["resources/read", "note://two"]
    assert (denied["decision"], denied["outcome"]) == ("denied", "error")
    assert "deny all resources note://two" in denied["rule"]
    assert found["tools/call", "echo"]["arguments"] == {"text": "said"}
    assert found["tools/call", "fail"]["outcome"] == "tool_error"
    text = (folder / "audit.jsonl").read_text()
    assert "sesame" not in text
    assert "stored" not in text


async def test_arguments_with_line_breaks_stay_on_one_line(folder: Path) -> None:
    sent = (
        '{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"echo","arguments":{"text":[\n{"time":1}\n]}}}'
    )
    headers = {"accept": "application/json, text/event-stream", "mcp-protocol-version": "2025-11-25"}
    with serving(*configure(folder, "run"), "--http", "127.0.0.1:0", "--insecure") as (url, _):
        async with httpx2.AsyncClient() as client:
            begun = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "c", "version": "1"}}
            body = {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": begun}
            response = await client.post(url, json=body, headers=headers)
            session = {"mcp-session-id": response.headers["mcp-session-id"]}
            await client.post(url, content=sent, headers={**headers, **session, "content-type": "application/json"})
    (found,) = [line for line in records(folder) if line["method"] == "tools/call"]
    assert found["arguments"] == {"text": [{"time": 1}]}


STATELESS = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientInfo": {"name": "c", "version": "1"},
    "io.modelcontextprotocol/clientCapabilities": {},
}
REJECTED = (("no/such", {}, -32601), ("resources/read", {"uri": ["sesame"]}, -32602))


async def test_requests_of_unknown_methods_and_with_invalid_parameters_have_a_line(folder: Path) -> None:
    token, line = make_token("ann")
    (folder / "tokens.txt").write_text(line)
    with serving(*configure(folder, "run", '[auth]\ntokens = "tokens.txt"\n')) as (url, _):
        async with httpx2.AsyncClient() as client:
            for method, params, code in REJECTED:
                headers = {
                    "mcp-protocol-version": "2026-07-28",
                    "mcp-method": method,
                    "authorization": f"Bearer {token}",
                }
                headers["accept"] = "application/json, text/event-stream"
                body = {"jsonrpc": "2.0", "id": method, "method": method, "params": {**params, "_meta": STATELESS}}
                assert (await client.post(url, json=body, headers=headers)).json()["error"]["code"] == code
    found = {line["request"]: line for line in records(folder)}
    for method, _, code in REJECTED:
        line = found[method]
        assert (line["method"], line["code"], line["outcome"]) == (method, code, "error")
        assert (line["principal"], line["roles"], line["address"]) == ("ann", ["ann"], "127.0.0.1")
    assert "sesame" not in (folder / "audit.jsonl").read_text()


async def test_rejected_requests_of_sessions_on_stdio_have_a_line(folder: Path) -> None:
    arguments = command(*configure(folder, "run"))
    begun = {"protocolVersion": "2025-03-26", "capabilities": {}, "clientInfo": {"name": "c", "version": "1"}}
    sent: list[Any] = [{"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": begun}]
    sent += [
        {"jsonrpc": "2.0", "id": id, "method": method, "params": params}
        for id, (method, params, _) in enumerate(REJECTED, 1)
    ]
    sent.append([{"jsonrpc": "2.0", "id": 3, "method": "no/such", "params": {}}])
    sent.append({"jsonrpc": "2.0", "id": "i" * 5000, "method": "no/such", "params": {}})
    text = "".join(json.dumps(message) + "\n" for message in sent)
    done = subprocess.run(arguments, input=text, capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout.count('"error"') == 4
    found = {line["request"]: (line["method"], line.get("code"), line["client"]) for line in records(folder)}
    assert found[1] == ("no/such", -32601, "c 1")
    assert found[2] == ("resources/read", -32602, "c 1")
    assert found[3] == ("no/such", -32601, "c 1")
    assert found["i" * 2000] == ("no/such", -32601, "c 1"), "the beginning of the id"


async def test_over_http_lines_name_the_caller_and_refused_requests(folder: Path) -> None:
    token, line = make_token("ann")
    (folder / "tokens.txt").write_text(line)
    arguments = configure(folder, "serve", '[auth]\ntokens = "tokens.txt"\n')
    uri = file_uri(folder / "notes/a.md")
    trace = "0af7651916cd43dd8448eb211c80319c"
    with serving(*arguments) as (url, _):
        headers = {"traceparent": f"00-{trace}-b7ad6b7169203331-01"}
        async with Client(url, http=HTTPOptions(auth=token, headers=headers)) as client:
            await client.read_resource(uri)
        async with httpx2.AsyncClient() as http:
            for header, status in ((None, 401), ("Bearer forged-token", 401)):
                given = {} if header is None else {"authorization": header}
                assert (await http.post(url, headers=given, json={})).status_code == status
            assert (await http.get(url, headers={"host": "evil.example"})).status_code == 403
            assert (await http.get(f"{url}/absent")).status_code == 404
    lines = records(folder)
    read = next(line for line in lines if line["method"] == "resources/read")
    assert (read["principal"], read["roles"], read["address"]) == ("ann", ["ann"], "127.0.0.1")
    assert (read["target"], read["trace"]) == (uri, trace)
    refused = [(line["code"], line["method"], line.get("decision")) for line in lines if line.get("event") == "refused"]
    assert refused[:-1] == [(401, "POST /mcp", "denied")] * 2 + [(403, "GET /mcp", "denied")]
    assert refused[-1] == (404, "GET /mcp/absent", None)
    assert {line["address"] for line in lines} == {"127.0.0.1"}
    assert token not in (folder / "audit.jsonl").read_text()
    assert "forged-token" not in (folder / "audit.jsonl").read_text()


async def test_a_disk_that_is_full_answers_503(folder: Path) -> None:
    arguments = configure(folder, "run")
    settings = (folder / "carrel.toml").read_text().replace("audit.jsonl", "/dev/full")
    (folder / "carrel.toml").write_text(settings)
    body = {"jsonrpc": "2.0", "id": 1, "method": "server/discover", "params": {"_meta": META}}
    headers = {"mcp-protocol-version": "2026-07-28", "mcp-method": "server/discover"}
    headers["accept"] = "application/json, text/event-stream"
    with serving(*arguments) as (url, errors):
        async with httpx2.AsyncClient() as http:
            first = await http.post(url, json=body, headers=headers)
            assert first.status_code == 200
            errors.wait_for("requests are refused until it can")
            second = await http.post(url, json=body, headers=headers)
    assert second.status_code == 503
    assert "The audit log cannot be written" in second.json()["error"]["message"]


META = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "1"},
    "io.modelcontextprotocol/clientCapabilities": {},
}


LINES = [
    {"time": 1785225600.0, "principal": "ann", "roles": ["team"], "method": "resources/read", "target": "note://one"},
    {"time": 1785229200.0, "principal": "bob", "method": "tools/call", "target": "\x1b[2Jx", "decision": "denied"},
    {"time": 1785232800.0, "address": "10.0.0.1", "method": "POST /mcp", "decision": "denied", "code": 401},
    {"time": 1785236400.0, "missing": 7},
]


@pytest.mark.parametrize(
    ("options", "shown"),
    [
        ([], ["ann", "bob", "10.0.0.1", "7 lines are missing"]),
        (["--principal", "a*"], ["ann"]),
        (["--role", "team"], ["ann"]),
        (["--target", "note://*"], ["ann"]),
        (["--denied"], ["bob", "10.0.0.1"]),
        (["--errors"], ["bob", "10.0.0.1"]),
        (["--since", "2026-07-28T09:30+00:00"], ["10.0.0.1", "7 lines are missing"]),
        (["--since", "1s"], []),
    ],
)
def test_show_selects_lines(
    folder: Path, capsys: pytest.CaptureFixture[str], options: list[str], shown: list[str]
) -> None:
    (folder / "log").write_text("".join(json.dumps(line) + "\n" for line in LINES))
    assert main(["audit", "show", "log", *options]) == 0
    rows = capsys.readouterr().out.splitlines()[1:]
    assert len(rows) == len(shown)
    assert all(name in row for name, row in zip(shown, rows, strict=True))
    assert not any("\x1b" in row for row in rows)


def test_show_names_no_decision_where_nothing_was_decided() -> None:
    assert list(cells({"method": "no/such", "outcome": "error", "code": -32601}))[4:6] == ["", "error -32601"]
    assert list(cells({"method": "resources/read", "verb": "read", "target": "note://one"}))[4] == "allowed"


def test_show_prints_lines_as_they_are(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "log").write_text("".join(json.dumps(line) + "\n" for line in LINES) + "damaged\n")
    assert main(["audit", "show", "log", "--json", "--principal", "bob"]) == 0
    out, errors = capsys.readouterr()
    assert json.loads(out) == LINES[1]
    assert errors == "carrel: log:5: this is not a line of an audit log\n"


async def test_verify_finds_a_changed_line(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AUDIT_KEY", "sesame")
    arguments = configure(folder, "run")
    settings = (folder / "carrel.toml").read_text().replace("chain = true", 'chain = true\nkey = "${env:AUDIT_KEY}"')
    (folder / "carrel.toml").write_text(settings)
    async with Client(command(*arguments), process=ProcessOptions(env={"AUDIT_KEY": "sesame"})) as client:
        await client.read_resource("note://one")
    assert main(["audit", "verify"]) == 0
    assert "lines are complete and unchanged, up to line" in capsys.readouterr().out
    text = (folder / "audit.jsonl").read_text()
    (folder / "audit.jsonl").write_text(text.replace("note://one", "note://two"))
    assert main(["audit", "verify"]) == 1
    assert "was changed, or its hash was made with another key" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ("[audit]\nkeep = 3\n", "[audit] needs a file, stderr, syslog or otel"),
        ('[audit]\nfile = "a"\nkey = "${env:PATH}"\n', "[audit] key is for chain = true"),
        ('[audit]\nfile = "missing/a"\n', "cannot be opened"),
        ('[audit]\nfile = "a"\nkeep = 0\n', "keep"),
    ],
)
def test_errors_of_settings_are_one_line(
    folder: Path, capsys: pytest.CaptureFixture[str], settings: str, message: str
) -> None:
    (folder / "carrel.toml").write_text(f'{settings}[app]\nfile = "server.py"\n')
    assert main(["run", "--config", "carrel.toml", "--http", "0"]) == 2
    error = capsys.readouterr().err
    assert message in error
    assert error.count("\n") == 1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [(["show"], "no log given"), (["verify", "none"], "there is no file none"), (["show", "--since", "x"], "a time")],
)
def test_wrong_use_is_one_line(
    folder: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], message: str
) -> None:
    assert main(["audit", *arguments]) == 2
    assert message in capsys.readouterr().err


def test_times_are_relative_or_absolute() -> None:
    assert moment("2026-07-28T10:00+00:00") == 1785232800.0
    assert moment("2h") < moment("1m")
