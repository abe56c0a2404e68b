"""``carrel.compat.authorizer``: the authorization of a program holds where another command serves its server."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import httpx
import pytest
from pydantic import AnyHttpUrl

from carrel import Server as Outer
from carrel.compat.fastmcp import FastMCP as FastMCP4
from carrel.compat.fastmcp.server.auth import RemoteAuthProvider, StaticTokenVerifier
from carrel.compat.fastmcp.server.dependencies import get_http_request
from carrel.compat.loading import application_of, authorizer_of
from carrel.compat.mcp.server.auth.middleware.auth_context import get_access_token
from carrel.compat.mcp.server.auth.provider import AccessToken, TokenVerifier
from carrel.compat.mcp.server.auth.settings import AuthSettings
from carrel.compat.mcp.server.fastmcp import Context, FastMCP
from carrel.compat.mcp2.server.lowlevel.server import Server
from carrel.compat.mcp2.server.mcpserver import Context as Context2
from carrel.compat.mcp2.server.mcpserver import MCPServer
from carrel.transports.server.http import StreamableHTTP
from support import carrel_process
from support.http_process import free_port, reachable

URL = "http://127.0.0.1:8000/mcp"
METADATA = "/.well-known/oauth-protected-resource/mcp"
ACCEPT = {"accept": "application/json, text/event-stream"}
CALL = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "tools/call",
    "params": {
        "name": "whoami",
        "arguments": {},
        "_meta": {
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientInfo": {"name": "t", "version": "1"},
            "io.modelcontextprotocol/clientCapabilities": {},
        },
    },
}
MODERN = {**ACCEPT, "mcp-protocol-version": "2026-07-28", "mcp-method": "tools/call", "mcp-name": "whoami"}


class Verifier(TokenVerifier):
    """Verifier of two tokens, of which one lacks the scope."""

    async def verify_token(self, token: str) -> AccessToken | None:
        scopes = {"good": ["user"], "other": ["else"]}.get(token)
        return None if scopes is None else AccessToken(token=token, client_id="me", scopes=scopes)


def settings() -> AuthSettings:
    return AuthSettings(
        issuer_url=AnyHttpUrl("https://auth.example"),
        resource_server_url=AnyHttpUrl(URL),
        required_scopes=["user"],
        validate_token_resource=False,
    )


def whoami() -> str:
    """Return the client of the caller."""
    token = get_access_token()
    return "nobody" if token is None else token.client_id


def mcp_1() -> Any:
    server = FastMCP("guarded", auth=settings(), token_verifier=Verifier())
    server.tool()(whoami)
    return server


def mcp_2() -> Any:
    server = MCPServer("guarded", auth=settings(), token_verifier=Verifier())
    server.tool()(whoami)
    return server


def fastmcp() -> Any:
    tokens = {"good": {"client_id": "me", "scopes": ["user"]}, "other": {"client_id": "me", "scopes": ["else"]}}
    verifier = StaticTokenVerifier(tokens, required_scopes=["user"])
    auth = RemoteAuthProvider(verifier, [AnyHttpUrl("https://auth.example")], URL.removesuffix("/mcp"))
    server = FastMCP4("guarded", auth=auth)
    server.tool(whoami)
    return server


@pytest.mark.parametrize(("make", "other"), [(mcp_1, 403), (mcp_2, 403), (fastmcp, 401)])
async def test_the_authorization_of_a_program_holds_on_the_transport_of_a_command(make: Any, other: int) -> None:
    app = application_of(make())
    assert app is not None
    endpoint = StreamableHTTP(app, authorization=authorizer_of(app))
    transport = httpx.ASGITransport(endpoint)
    async with endpoint.lifespan(), httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1:8000") as client:
        statuses = {}
        for token in ("", "bad", "other", "good"):
            headers = {**MODERN, **({"authorization": f"Bearer {token}"} if token else {})}
            response = await client.post("/mcp", headers=headers, json=CALL)
            statuses[token] = response.status_code
            if response.status_code == 401:
                assert f'resource_metadata="http://127.0.0.1:8000{METADATA}"' in response.headers["www-authenticate"]
        assert statuses == {"": 401, "bad": 401, "other": other, "good": 200}
        assert '"me"' in response.text
        described = (await client.get(METADATA)).json()
        assert described["resource"] == URL
        assert described["authorization_servers"] == ["https://auth.example/"]


def named(request: Any) -> str:
    """Return the user and the scopes of a request."""
    return f"{request.user.username} {request.auth.scopes} {request.user.is_authenticated}"


def asking_mcp_1(context: Context) -> str:  # type: ignore[type-arg]
    return named(context.request_context.request)


def asking_mcp_2(context: Context2) -> str:  # type: ignore[type-arg]
    return named(context.request_context.request)


def asking_fastmcp() -> str:
    return named(get_http_request())


@pytest.mark.parametrize(("make", "asking"), [(mcp_1, asking_mcp_1), (mcp_2, asking_mcp_2), (fastmcp, asking_fastmcp)])
async def test_the_request_of_a_handler_has_its_user_on_the_transport_of_a_command(make: Any, asking: Any) -> None:
    server = make()
    server.tool(name="asking")(asking)
    app = application_of(server)
    assert app is not None
    endpoint = StreamableHTTP(app, authorization=authorizer_of(app))
    transport = httpx.ASGITransport(endpoint)
    headers = {**MODERN, "mcp-name": "asking", "authorization": "Bearer good"}
    call = {**CALL, "params": {**CALL["params"], "name": "asking"}}  # type: ignore[dict-item]
    async with endpoint.lifespan(), httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1:8000") as client:
        response = await client.post("/mcp", headers=headers, json=call)
    assert "me ['user'] True" in response.text


def test_a_server_without_authorization_has_no_authorizer() -> None:
    for server in (FastMCP("open"), MCPServer("open"), FastMCP4("open"), Server("open")):
        app = application_of(server)
        assert app is not None
        assert authorizer_of(app) is None


@pytest.mark.parametrize("make", [mcp_1, mcp_2, fastmcp])
async def test_a_guarded_server_that_is_added_to_an_open_one_is_named_once_at_the_start(
    make: Any, caplog: pytest.LogCaptureFixture
) -> None:
    added, between, outer = application_of(make()), Outer("between"), Outer("outer")
    assert added is not None
    outer.add_provider(between)
    between.add_provider(added, namespace="inner")
    outer.add_provider(application_of(FastMCP("open")) or "")
    for authorization, number in ((authorizer_of(added), 0), (None, 1), (None, 1)):
        caplog.clear()
        async with StreamableHTTP(outer, authorization=authorization).lifespan():
            found = [each.message for each in caplog.records if "WITHOUT the authorization" in each.message]
        assert len(found) == number
        assert all(message.startswith("guarded is served WITHOUT") for message in found)


@pytest.mark.slow
async def test_the_command_that_serves_an_open_server_with_a_guarded_one_says_what_to_do(tmp_path: Path) -> None:
    (tmp_path / "outer.py").write_text(
        "from carrel import Server\nfrom carrel.compat.fastmcp import FastMCP\n"
        "from carrel.compat.fastmcp.server.auth import StaticTokenVerifier\n"
        "mcp = FastMCP('guarded', auth=StaticTokenVerifier({'good': {'client_id': 'me'}}))\n"
        "app = Server('outer')\napp.add_provider(mcp._mcp_server.application())\n"
    )
    program = carrel_process.command("run", str(tmp_path / "outer.py"), "--http", str(free_port()))
    process = await asyncio.create_subprocess_exec(*program, stderr=asyncio.subprocess.PIPE)
    assert process.stderr is not None
    try:
        errors = await asyncio.wait_for(process.stderr.readuntil(b"outer is ready"), 60)
    finally:
        process.terminate()
        await process.communicate()
    lines = [line for line in errors.decode().splitlines() if "guarded" in line]
    assert len(lines) == 1, errors
    assert "give the server that serves it authorization=" in lines[0]


def test_a_low_level_server_has_the_authorization_of_its_application() -> None:
    server: Server[Any] = Server("guarded")
    server.streamable_http_app(auth=settings(), token_verifier=Verifier())
    app = application_of(server)
    assert app is not None
    assert authorizer_of(app) is not None


#: Prints what the authorization server of a program answers to requests, one of which has a wrong secret.
SERVER_OF_TOKENS = """
import asyncio, json, sys
from carrel.compat import redirect_imports
redirect_imports(int(sys.argv[1]))
import httpx
from mcp.server.auth.provider import OAuthAuthorizationServerProvider
from mcp.server.auth.settings import AuthSettings, ClientRegistrationOptions
from mcp.server.auth.routes import create_auth_routes
from starlette.applications import Starlette

class Provider(OAuthAuthorizationServerProvider):
    clients = {}
    async def register_client(self, client):
        self.clients[client.client_id] = client
    async def get_client(self, client_id):
        return self.clients.get(client_id)

async def main():
    settings = AuthSettings(issuer_url="http://127.0.0.1:8000", resource_server_url=None)
    registration = ClientRegistrationOptions(enabled=True)
    app = Starlette(routes=create_auth_routes(Provider(), settings.issuer_url, None, registration))
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://127.0.0.1:8000") as client:
        metadata = (await client.get("/.well-known/oauth-authorization-server")).json()
        wish = {"redirect_uris": ["http://localhost:1/callback"], "grant_types": ["authorization_code"]}
        narrow = (await client.post("/register", json=wish)).status_code
        known = (await client.post("/register", json={"redirect_uris": wish["redirect_uris"]})).json()
        form = {"grant_type": "authorization_code", "code": "x", "code_verifier": "x", "client_id": known["client_id"]}
        refused = (await client.post("/token", data={**form, "client_secret": "wrong"})).json()
        found = [metadata["issuer"], narrow, known.get("application_type"), known.get("client_secret_expires_at")]
        print(json.dumps([*found, refused["error"]]))

asyncio.run(main())
"""


@pytest.mark.parametrize(
    ("generation", "expected"),
    [
        (1, ["http://127.0.0.1:8000/", 400, None, None, "unauthorized_client"]),
        (2, ["http://127.0.0.1:8000", 201, "native", 0, "invalid_client"]),
    ],
)
def test_an_authorization_server_answers_as_the_version_of_the_program_does(
    generation: int, expected: list[Any]
) -> None:
    command = [sys.executable, "-c", SERVER_OF_TOKENS, str(generation)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.stdout, done.stderr
    assert json.loads(done.stdout) == expected


@pytest.mark.slow
@pytest.mark.parametrize("command", ["run", "dev"])
async def test_a_command_that_serves_a_program_over_http_refuses_callers_without_a_token(
    tmp_path: Path, command: str
) -> None:
    (tmp_path / "guarded.py").write_text(
        "from mcp.server.auth.provider import AccessToken, TokenVerifier\n"
        "from mcp.server.auth.settings import AuthSettings\nfrom mcp.server.mcpserver import MCPServer\n"
        "class Verifier(TokenVerifier):\n    async def verify_token(self, token):\n"
        "        return AccessToken(token=token, client_id='me', scopes=[]) if token == 'good' else None\n"
        f"auth = AuthSettings(issuer_url='https://auth.example', resource_server_url='{URL}')\n"
        "mcp = MCPServer('guarded', auth=auth, token_verifier=Verifier())\n"
        "@mcp.tool()\ndef whoami() -> str:\n    return 'me'\n"
    )
    port = free_port()
    program = carrel_process.command(command, str(tmp_path / "guarded.py"), "--http", str(port))
    process = await asyncio.create_subprocess_exec(*program, stderr=asyncio.subprocess.DEVNULL)
    try:
        await reachable(port)
        async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}") as client:
            assert (await client.post("/mcp", headers=MODERN, json=CALL)).status_code == 401
            headers = {**MODERN, "authorization": "Bearer good"}
            assert (await client.post("/mcp", headers=headers, json=CALL)).status_code == 200
    finally:
        process.terminate()
        await process.wait()
