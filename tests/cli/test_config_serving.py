"""``carrel serve`` and ``carrel run`` with a carrel.toml: real processes, over HTTP and on stdio."""

import json
import os
import subprocess

import pytest

from carrel import Client
from carrel.errors import AuthorizationError, PeerError
from carrel.security.server.static_tokens import make_token
from carrel.transports.client.options import HTTPOptions
from support.carrel_process import carrel, command, serving
from support.http_process import free_port

pytestmark = pytest.mark.slow

FILE = """\
[server]
name = "project"
title = "The project"
instructions = "Ask for a.md first."
tools = false

[http]
port = 0
path = "mcp"
allowed_hosts = "${env:HOSTS:-notes.example,docs.example}"

[auth]
tokens = "tokens.txt"

[limits]
max_message_bytes = "4KiB"

[logging]
format = "json"

[[sources]]
path = "docs"
include = ["*.md"]

[[sources]]
path = "data"
title = "Data"
"""


@pytest.fixture
def folder(tmp_path):
    """A folder with a carrel.toml, and a token that its server accepts."""
    for name in ("docs/a.md", "docs/b.txt", "data/c.csv"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(f"text of {name}")
    (tmp_path / "carrel.toml").write_text(FILE)
    token, line = make_token("alice")
    (tmp_path / "tokens.txt").write_text(f"{line}\n")
    return tmp_path, token


def allowed(token):
    return HTTPOptions(headers={"Authorization": f"Bearer {token}"})


async def test_a_file_says_everything_about_a_server_over_http(folder):
    place, token = folder
    with serving("serve", http=(), cwd=str(place)) as (url, errors):
        assert f"carrel: using {place / 'carrel.toml'}" in errors.text
        with pytest.raises(AuthorizationError):
            async with Client(url):
                pass
        async with Client(url, http=allowed(token)) as client:
            assert (client.server.name, client.server.title) == ("project", "The project")
            assert client.instructions == "Ask for a.md first."
            found = {one.name: one.uri for one in await client.list_resources()}
            assert found.keys() >= {"a.md", "c.csv", "Data"}
            assert "b.txt" not in found
            read = await client.read_resource(found["c.csv"])
            assert read.contents[0].text == "text of data/c.csv"
            assert client.capabilities.tools is None
            with pytest.raises(PeerError, match="at most 4096 bytes"):
                await client.read_resource("file:///" + "x" * 5000)


async def test_flags_win_over_the_environment_and_that_over_the_file(folder):
    place, token = folder
    port = str(free_port())
    with serving("serve", "--path=/flag", http=(), cwd=str(place), CARREL_HTTP_PORT=port, CARREL_SERVER_NAME="env") as (
        url,
        _,
    ):
        assert url == f"http://127.0.0.1:{port}/flag"
        async with Client(url, http=allowed(token)) as client:
            assert client.server.name == "env"


def test_the_same_file_serves_on_stdio(folder):
    place, _ = folder
    hello = {"jsonrpc": "2.0", "id": 1, "method": "server/discover"}
    done = subprocess.run(
        command("serve", "--config", "carrel.toml", "--stdio"),
        input=json.dumps(hello) + "\n",
        capture_output=True,
        text=True,
        cwd=place,
        timeout=120,
        check=True,
    )
    assert json.loads(done.stdout)["id"] == 1
    assert done.stderr == ""


async def test_callers_of_a_server_with_an_issuer_need_its_tokens(folder):
    place, _ = folder
    (place / "issuer.toml").write_text(
        "[http]\nport = 0\n[auth]\nissuer = 'https://auth.example'\n[auth.introspection]\nclient_id = 'x'\n"
        "client_secret = '${env:SECRET}'\n[[sources]]\nurl = 'docs'\n"
    )
    with serving("serve", "--config", str(place / "issuer.toml"), http=(), SECRET="hunter2") as (url, errors):
        errors.wait_for("tokens   https://auth.example")
        errors.wait_for("Authorization: Bearer TOKEN")
        with pytest.raises(AuthorizationError):
            async with Client(url):
                pass
    assert "hunter2" not in errors.text


def test_a_server_does_not_start_if_a_rule_for_scopes_is_empty(folder):
    place, _ = folder
    (place / "scopes.toml").write_text(
        "[http]\nport = 0\n[auth]\nissuer = 'https://auth.example'\nresource = 'https://mcp.example/mcp'\n"
        "scopes = { 'tools/call' = '${env:SCOPE}' }\n[[sources]]\nurl = 'docs'\n"
    )
    done = carrel("serve", "--config", str(place / "scopes.toml"), env={**os.environ, "SCOPE": ""})
    assert done.returncode == 2
    assert b"scopes['tools/call']: no scope is named" in done.stderr


async def test_a_server_in_python_has_its_http_limits_and_sources_from_the_file(folder):
    place, _ = folder
    (place / "code").mkdir()
    (place / "code" / "books.py").write_text(
        "from carrel import Server\nshop = Server('shop')\nbooks = Server('books')\n"
        "@books.tool\ndef add(a: int, b: int) -> int:\n    return a + b\n"
    )
    (place / "app.toml").write_text(
        "[app]\nfile = 'code/books.py:books'\n[http]\nport = 0\n[limits]\nmax_message_bytes = 4096\n"
        "[[sources]]\npath = 'docs'\n"
    )
    with serving("run", "--config", str(place / "app.toml"), http=()) as (url, _):
        async with Client(url) as client:
            assert client.server.name == "books"
            assert (await client.call_tool("add", {"a": 1, "b": 2})).content[0].text == "3"
            assert "a.md" in {one.name for one in await client.list_resources()}
            with pytest.raises(PeerError, match="at most 4096 bytes"):
                await client.call_tool("add", {"a": "1" * 5000, "b": 2})


@pytest.mark.parametrize(
    ("name", "text", "complaint"),
    [
        ("serve", "[http]\nprot = 1", "carrel.toml:2:1: [http] prot: there is no such setting; did you mean 'port'?"),
        (
            "serve",
            "[app]\nfile = 's.py'",
            "carrel.toml:2: [app] is for carrel run, which serves Python code",
        ),
        (
            "run",
            "[http]\nport = 1",
            'no server given: name a file, a module, or [app] of carrel.toml: file = "server.py"',
        ),
        ("run", "[app]\nfile = 's.py'", "no such file: "),
        ("serve", "[auth]\nissuer = 'x'\n[http]\nport = 0\n[[sources]]\npath = '.'", "carrel.toml:2: [auth] "),
    ],
)
def test_a_wrong_file_is_one_line_and_exit_code_2(name, text, complaint, tmp_path):
    (tmp_path / "carrel.toml").write_text(text)
    done = carrel(name, text=True, cwd=tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    assert complaint in done.stderr.splitlines()[-1]


async def test_a_source_that_is_optional_is_left_out_where_it_cannot_be_opened(tmp_path):
    (tmp_path / "a.md").write_text("text")
    (tmp_path / "carrel.toml").write_text(
        '[[sources]]\npath = "a.md"\n'
        '[[sources]]\npath = "away"\noptional = true\n'
        '[[sources]]\nurl = "sqlite:////away/shop.db"\noptional = true\n'
        '[[sources]]\nurl = "git+file:away"\noptional = true\n'
    )
    with serving("serve", cwd=str(tmp_path)) as (url, errors):
        async with Client(url) as client:
            assert [resource.name async for resource in client.list_resources()] == ["a.md"]
    left_out = [line for line in errors.text.splitlines() if "is left out" in line]
    assert [left_out[0], len(left_out)] == [
        f"carrel: {tmp_path / 'away'} is left out: there is no such file or folder",
        3,
    ]


@pytest.mark.parametrize("value", ['"yes"', "1"])
def test_optional_is_true_or_false(tmp_path, value):
    (tmp_path / "carrel.toml").write_text(f'[[sources]]\npath = "a.md"\noptional = {value}\n')
    done = carrel("serve", cwd=tmp_path)
    assert (done.returncode, done.stderr.decode().splitlines()[-1]) == (
        2,
        "carrel: carrel.toml:3:1: [[sources]] optional: expected true or false",
    )
