"""``carrel login`` and ``carrel logout``, against an authorization server, with a program as the browser."""

import asyncio
import os
import subprocess
import sys

import pytest
from aiohttp import web

from support.authorization_server import running
from support.carrel_process import PROGRAM
from support.forking import forked

BROWSER = "import sys, urllib.request; urllib.request.urlopen(sys.argv[1]).read()"
INFO = {
    "protocolVersion": "2025-11-25",
    "capabilities": {"tools": {}},
    "serverInfo": {"name": "vault", "version": "1"},
}
RESULTS = {"initialize": INFO, "tools/list": {"tools": []}, "ping": {}}


@pytest.fixture
async def authority():
    """An authorization server, and an MCP server that it protects."""
    async with running() as found:
        protect = found.protect

        async def answer(asked):
            response = await protect(asked)
            if response.status != 200 or not asked.document:
                return response if response.status != 200 else web.Response(status=405)
            if "id" not in asked.document:
                return web.Response(status=202)
            reply = {"jsonrpc": "2.0", "id": asked.document["id"]}
            result = RESULTS.get(asked.document["method"])
            error = {"code": -32601, "message": "no such method"}
            return web.json_response({**reply, **({"error": error} if result is None else {"result": result})})

        found.protect = answer
        yield found


@pytest.fixture
def carrel(tmp_path):
    """A function that runs a command with a home of its own, and returns its exit code and standard error."""
    browser = tmp_path / "browser"
    browser.write_text(f"#!{sys.executable}\n{BROWSER}\n")
    browser.chmod(0o700)
    environment = {
        **os.environ,
        "XDG_CONFIG_HOME": str(tmp_path),
        "BROWSER": f"{browser} %s",
        "PYTHON_KEYRING_BACKEND": "keyring.backends.fail.Keyring",
    }

    async def run(*arguments):
        process = await asyncio.create_subprocess_exec(
            *forked(sys.executable, PROGRAM, *arguments),
            env=environment,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        async with asyncio.timeout(60):
            _, errors = await process.communicate()
        return process.returncode, errors.decode()

    return run


async def test_a_login_is_for_all_commands_until_logout(authority, carrel):
    url = authority.resource
    code, errors = await carrel("tools", url)
    assert (code, errors) == (
        3,
        f"carrel: {url} requires authorization: carrel login {url}, or --header 'Authorization: Bearer …'\n",
    )
    code, errors = await carrel("login", url, "--scope", "read")
    assert code == 0, errors
    assert errors.splitlines()[-1] == "carrel: logged in to vault"
    assert authority.requests()[0]["scope"] == "read"
    assert await carrel("tools", url) == (0, "")
    authority.metadata["revocation_endpoint"] = f"{authority.url}/revoke"
    authority.responses["/revoke"] = web.Response()
    assert await carrel("logout", url) == (0, f"carrel: logged out of {url}\n")
    assert [(one.form["token_type_hint"], one.form["client_id"]) for one in authority.at("/revoke")] == [
        ("access_token", authority.requests()[0]["client_id"])
    ]
    assert await carrel("logout", url) == (1, f"carrel: there was no login to {url}\n")
    assert (await carrel("tools", url))[0] == 3
    assert len(authority.requests()) == 1


@pytest.mark.parametrize(
    ("status", "reason"),
    [(None, "has no revocation_endpoint in its metadata"), (503, "does not revoke it: status 503")],
)
async def test_a_logout_says_that_the_token_was_not_revoked(authority, carrel, status, reason):
    url = authority.resource
    assert (await carrel("login", url))[0] == 0
    if status is not None:
        authority.metadata["revocation_endpoint"] = f"{authority.url}/revoke"
        authority.responses["/revoke"] = web.Response(status=status)
    code, errors = await carrel("logout", url)
    assert code == 0
    assert errors == f"carrel: logged out of {url}, but its token is good until it expires: {authority.url} {reason}\n"
    assert (await carrel("tools", url))[0] == 3


async def test_a_token_that_is_not_accepted_any_more_needs_another_login_and_no_command_opens_a_browser(
    authority, carrel
):
    url = authority.resource
    assert (await carrel("login", url))[0] == 0
    authority.accepts = set()
    code, errors = await carrel("tools", url)
    assert (code, errors) == (3, f"carrel: {url} requires another login: carrel login {url}\n")
    assert len(authority.requests()) == 1


async def test_the_help_of_logout_says_that_the_token_is_revoked():
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "carrel", "logout", "--help"), stdout=asyncio.subprocess.PIPE
    )
    shown = " ".join((await process.communicate())[0].decode().split())
    assert "delete its token on this machine, and revoke it at the authorization server" in shown
    assert "not told" not in shown


@pytest.mark.parametrize(
    ("target", "complaint"),
    [
        ("server.py", "no such file: server.py"),
        (".", ". has no URL: only servers over HTTP have logins"),
        ("localhost:8000/mcp", "localhost:8000/mcp is not a file; for a URL, write http://localhost:8000/mcp"),
    ],
)
async def test_only_urls_have_logins(carrel, target, complaint):
    for command in ("login", "logout"):
        assert await carrel(command, target) == (2, f"carrel: {complaint}\n")


def test_without_its_packages_a_login_says_what_to_install():
    code = "import sys\nsys.modules['joserfc'] = None\nfrom carrel.cli import main\nsys.exit(main(sys.argv[1:]))"
    done = subprocess.run(
        [sys.executable, "-c", code, "login", "https://mcp.example.org/mcp"],
        capture_output=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 2
    assert b"pip install 'carrel[auth]'" in done.stderr
