"""Scopes in the challenges of servers of FastMCP 4, resource servers of Auth0, and tokens for other APIs of Entra."""

from __future__ import annotations

import json
import re
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import httpx
import pytest
from pydantic import AnyHttpUrl

from carrel.compat import generation
from carrel.compat.fastmcp import Client, FastMCP
from carrel.compat.fastmcp.exceptions import ToolError
from carrel.compat.fastmcp.server.auth import (
    AccessToken,
    JWTVerifier,
    MultiAuth,
    RemoteAuthProvider,
    StaticTokenVerifier,
    TokenVerifier,
)
from carrel.compat.fastmcp.server.auth.providers.auth0 import Auth0JWTVerifier, Auth0MCPProvider
from carrel.compat.fastmcp.server.auth.providers.azure import AzureJWTVerifier, AzureProvider, EntraOBOToken
from carrel.compat.fastmcp.server.auth.providers.jwt import RSAKeyPair

API = "https://api.example.com"
TOKENS = {"good": {"client_id": "me", "scopes": ["read"]}}


class Lenient(TokenVerifier):
    """Verifier that leaves scopes to the server."""

    async def verify_token(self, token: str) -> AccessToken | None:
        return AccessToken(token=token, client_id="me", scopes=[])


async def challenge(auth: Any, token: str | None = None) -> tuple[int, dict[str, str]]:
    """Return the status and the parameters of the challenge to a request without a token, or with one."""
    headers = {} if token is None else {"authorization": token}
    transport = httpx.ASGITransport(app=FastMCP("guarded", auth=auth).http_app())
    async with httpx.AsyncClient(transport=transport, base_url=API) as client:
        found = await client.get("/mcp", headers=headers)
    return found.status_code, dict(re.findall(r'(\w+)="([^"]*)"', found.headers["www-authenticate"]))


def remote(**options: Any) -> RemoteAuthProvider:
    """Return a resource server that requires a scope."""
    verifier = options.pop("verifier", None) or StaticTokenVerifier(TOKENS, ["read"])
    return RemoteAuthProvider(verifier, [AnyHttpUrl("https://issuer.example.com")], API, **options)


@pytest.mark.parametrize(("version", "error"), [("3.4.11", "invalid_token"), ("4.1.6", None)])
async def test_credentials_of_another_scheme_are_no_token_in_4(
    version: str, error: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(generation, "installed_fastmcp", lambda: version)
    status, parameters = await challenge(remote(), "Basic dTpw")
    assert (status, parameters.get("error")) == (401, error)
    status, parameters = await challenge(remote(), "bearer wrong")
    assert (status, parameters.get("error")) == (401, "invalid_token")


async def test_challenges_name_the_scopes_and_the_metadata_that_are_served() -> None:
    metadata = f"{API}/.well-known/oauth-protected-resource/mcp"
    assert await challenge(remote()) == (401, {"scope": "read", "resource_metadata": metadata})
    assert await challenge(remote(challenge_scopes=["api/read"])) == (
        401,
        {"scope": "api/read", "resource_metadata": metadata},
    )
    lenient = remote(verifier=Lenient(required_scopes=["read"]), challenge_scopes=["api/read"])
    status, parameters = await challenge(lenient, "Bearer poor")
    assert (status, parameters["error"], parameters["scope"]) == (403, "insufficient_scope", "api/read")
    alone = StaticTokenVerifier(TOKENS, ["read"])
    alone.base_url = AnyHttpUrl(API)
    assert await challenge(alone) == (401, {"scope": "read"})


async def test_the_server_or_the_only_verifier_of_several_sources_decides_the_scopes() -> None:
    azure = AzureJWTVerifier(client_id="app", tenant_id="tenant", required_scopes=["read"])
    assert remote(verifier=azure).challenge_scopes == ["api://app/read"]
    assert MultiAuth(server=remote(verifier=azure)).challenge_scopes == ["api://app/read"]
    assert MultiAuth(verifiers={"azure": azure}, required_scopes=["write"]).challenge_scopes == ["api://app/write"]
    assert MultiAuth(verifiers=[azure, StaticTokenVerifier(TOKENS)]).challenge_scopes == []
    assert MultiAuth(verifiers=[azure, StaticTokenVerifier(TOKENS)], required_scopes=["x"]).challenge_scopes == ["x"]
    assert remote(challenge_scopes=["a"]).get_challenge_scopes(["write"]) == ["write"]


@pytest.fixture
def issuer() -> Iterator[str]:
    """The URL of an issuer with an OpenID configuration."""

    class Answers(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            base = f"http://127.0.0.1:{self.server.server_address[1]}"  # type: ignore[str-bytes-safe]
            lists = ("response_types_supported", "subject_types_supported", "id_token_signing_alg_values_supported")
            urls = ("authorization_endpoint", "token_endpoint")
            told = {**{key: ["x"] for key in lists}, **dict.fromkeys(urls, base), "jwks_uri": f"{base}/keys"}
            body = json.dumps({**told, "issuer": f"{base}/", "at": self.path}).encode()
            self.send_response(200)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: Any) -> None:
            """Log nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Answers) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_address[1]}"
        server.shutdown()
        thread.join()


@pytest.mark.slow
async def test_a_resource_server_of_auth0_expects_tokens_for_its_own_url(issuer: str) -> None:
    auth = Auth0MCPProvider(
        config_url=f"{issuer}/.well-known/openid-configuration", base_url=API, required_scopes=["tool:greet"]
    )
    transport = httpx.ASGITransport(app=FastMCP("guarded", auth=auth).http_app())
    async with httpx.AsyncClient(transport=transport, base_url=API) as client:
        told = (await client.get("/.well-known/oauth-protected-resource/mcp")).json()
        forwarded = (await client.get("/.well-known/oauth-authorization-server")).json()
    assert told["authorization_servers"] == [f"{issuer}/"]
    assert forwarded["at"] == "/.well-known/oauth-authorization-server"
    verifier = auth.token_verifier
    assert isinstance(verifier, JWTVerifier)
    assert (verifier.audience, verifier.issuer, verifier.jwks_uri) == (f"{API}/mcp", f"{issuer}/", f"{issuer}/keys")


async def test_permissions_of_auth0_are_scopes() -> None:
    keys = RSAKeyPair.generate()
    verifier = Auth0JWTVerifier(public_key=keys.public_key, issuer="https://a.example/", required_scopes=["greet"])
    for claims, valid in (({"permissions": ["greet"]}, True), ({"permissions": "greet"}, True), ({}, False)):
        token = keys.create_token(issuer="https://a.example/", scopes=["openid"], additional_claims=claims)
        found = await verifier.verify_token(token)
        assert (found is not None) is valid, claims


async def test_tokens_on_behalf_of_users_say_what_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "azure.identity.aio", None)
    options: dict[str, Any] = {"client_id": "app", "required_scopes": ["read"], "base_url": API}
    auth = AzureProvider(client_secret="secret", tenant_id="tenant", **options)
    mail = EntraOBOToken(["https://graph.microsoft.com/Mail.Read"])
    mcp: FastMCP[Any] = FastMCP("mail")

    @mcp.tool
    def read_mail(token: str = mail) -> str:
        return token

    async with Client(mcp) as client:
        assert (await client.list_tools())[0].inputSchema["properties"] == {}
        with pytest.raises(ToolError, match="No access token available"):
            await client.call_tool("read_mail")
    with pytest.raises(ImportError, match="pip install azure-identity"):
        await auth.get_obo_credential("token")
    with pytest.raises(NotImplementedError, match="B2C does not support"):
        await AzureProvider.from_b2c(
            tenant_name="shop", policy_name="login", client_secret="secret", **options
        ).get_obo_credential("token")
