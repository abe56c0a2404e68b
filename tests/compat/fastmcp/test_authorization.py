"""Authorization of servers and clients written for ``fastmcp``: they answer as the original does."""

from __future__ import annotations

import contextlib
import json
import threading
from base64 import urlsafe_b64encode
from importlib import import_module
from typing import Any
from urllib.parse import urlsplit

import httpx
import pytest
from starlette.requests import HTTPConnection

from carrel.compat.fastmcp import Client, FastMCP
from carrel.compat.fastmcp.client.auth import BearerAuth, OAuth
from carrel.compat.fastmcp.client.oauth_callback import create_callback_html
from carrel.compat.fastmcp.client.transports import StdioTransport
from carrel.compat.fastmcp.exceptions import ToolError
from carrel.compat.fastmcp.server.auth import (
    AuthContext,
    DebugTokenVerifier,
    JWTVerifier,
    StaticTokenVerifier,
    require_scopes,
    restrict_tag,
    run_auth_checks,
)
from carrel.compat.fastmcp.server.auth.auth import AccessToken, TokenVerifier
from carrel.compat.fastmcp.server.auth.providers.in_memory import InMemoryOAuthProvider
from carrel.compat.fastmcp.server.auth.providers.jwt import RSAKeyPair
from carrel.compat.fastmcp.server.auth.redirect_validation import validate_redirect_uri
from carrel.compat.fastmcp.server.auth.ssrf import SSRFError, ssrf_safe_fetch
from carrel.compat.fastmcp.server.dependencies import CurrentAccessToken, TokenClaim, get_access_token
from carrel.compat.fastmcp.server.middleware.authorization import AuthMiddleware
from carrel.compat.fastmcp.tools.tool import Tool
from carrel.compat.fastmcp.utilities.auth import parse_scopes
from carrel.compat.fastmcp.utilities.key_value import MemoryStore
from carrel.compat.mcp.server.auth.middleware.bearer_auth import BearerAuthBackend
from carrel.compat.mcp.server.auth.settings import ClientRegistrationOptions
from compat.fastmcp.comparison import PROGRAMS, on_carrel, on_original
from compat.test_authorization import ACCEPT, HELLO, Conversation
from compat.test_http import served, serving
from support.http_process import free_port

PROGRAM = str(PROGRAMS / "guarded.py")


def talk_to_server(talk: Conversation) -> None:
    """Read the metadata, register, and present tokens of all kinds."""
    for name in ("oauth-protected-resource/mcp", "oauth-authorization-server", "openid-configuration"):
        talk.ask("GET", f"/.well-known/{name}")
    for token in ("good", "poor", "late", "unknown"):
        talk.ask("POST", "/mcp", json=HELLO, headers={**ACCEPT, "authorization": f"Bearer {token}"})
    talk.ask("POST", "/mcp", json=HELLO, headers=ACCEPT)
    client = talk.ask("POST", "/register", json={"redirect_uris": ["http://localhost:1/callback"]})
    form: dict[str, Any] = {"client_id": "unknown"}
    if client.status_code == 201:
        form = {name: client.json()[name] for name in ("client_id", "client_secret")}
    form |= {"grant_type": "authorization_code", "code": "invented", "code_verifier": "v" * 43}
    talk.ask("POST", "/token", data=form)
    talk.ask("POST", "/token", data={**form, "client_secret": "wrong"})
    talk.ask("POST", "/token", data={**form, "client_id": "unknown"})


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["provider", "remote", "several", "verifier"])
def test_a_server_with_authorization_answers_the_same(kind: str) -> None:
    logs = []
    for command in (on_original, on_carrel):
        port = free_port()
        with (
            served(command([PROGRAM, kind, str(port)]), port),
            httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=60) as client,
        ):
            talk = Conversation(client)
            talk_to_server(talk)
            logs.append(talk.log)
    different = [pair for pair in zip(*logs, strict=True) if pair[0] != pair[1]]
    # the descriptions of invalid tokens are Carrel's words
    assert [pair for pair in different if "invalid_token" not in pair[1][3] or pair[0][:3] != pair[1][:3]] == []


def guarded(auth: Any) -> FastMCP[Any]:
    mcp: FastMCP[Any] = FastMCP("guarded", auth=auth)

    @mcp.tool
    def whoami() -> str:
        token = get_access_token()
        return "nobody" if token is None else f"{token.client_id} {token.claims.get('sub')}"

    return mcp


@pytest.mark.slow
async def test_a_tool_knows_the_token_of_its_caller() -> None:
    keys = RSAKeyPair.generate()
    verifier = JWTVerifier(public_key=keys.public_key, issuer="https://a.example", audience="books")
    token = keys.create_token("ann", "https://a.example", "books", additional_claims={"client_id": "app"})
    mcp = guarded(verifier)

    @mcp.tool
    def claims(subject: str = TokenClaim("sub"), token: Any = CurrentAccessToken()) -> str:  # noqa: B008
        return f"{token.client_id} {subject}"

    @mcp.tool
    def missing(role: str = TokenClaim("role")) -> str:
        return role

    with serving(mcp.http_app()) as origin:
        for auth in (token, BearerAuth(token)):
            async with Client(f"{origin}/mcp", auth=auth) as client:
                assert (await client.call_tool("whoami")).data == "app ann"
                assert (await client.call_tool("claims")).data == "app ann"
                with pytest.raises(ToolError, match="the access token has no claim 'role'"):
                    await client.call_tool("missing")
        other = keys.create_token("ann", "https://a.example", "films")
        with pytest.raises(httpx.HTTPStatusError, match="401 Unauthorized"):
            async with Client(f"{origin}/mcp", auth=other):
                pass
    assert get_access_token() is None


@pytest.mark.slow
async def test_a_client_authorizes_in_the_browser_with_a_server_for_the_redirect(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    visits: list[str] = []

    def follow(url: str) -> None:
        location = httpx.get(url).headers["location"]
        while True:
            with contextlib.suppress(httpx.ConnectError):  # until the client listens
                httpx.get(location)
                return

    def browse(url: str) -> bool:
        visits.append(url)
        threading.Thread(target=follow, args=[url]).start()
        return True

    monkeypatch.setattr("webbrowser.open", browse)
    port = free_port()
    origin = f"http://127.0.0.1:{port}"
    store = MemoryStore()
    with served(on_carrel([PROGRAM, "provider", str(port)]), port):
        for _ in range(2):
            oauth = OAuth(scopes="read", token_storage=store, callback_host="127.0.0.1")
            async with Client(f"{origin}/mcp", auth=oauth) as client:
                assert (await client.call_tool("whoami")).data == "None ['read', 'write']"
    assert [urlsplit(url).path for url in visits] == ["/authorize"]


@pytest.mark.parametrize(
    ("change", "accepted"),
    [
        ({}, True),
        ({"issuer": "https://b.example"}, False),
        ({"audience": "films"}, False),
        ({"audience": ["films", "books"]}, True),
        ({"expires_in_seconds": -1}, False),
        ({"scopes": ["write"]}, False),
    ],
)
async def test_a_verifier_checks_issuer_audience_expiry_and_scopes(change: dict[str, Any], accepted: bool) -> None:
    keys = RSAKeyPair.generate()
    verifier = JWTVerifier(
        public_key=keys.public_key, issuer="https://a.example", audience="books", required_scopes=["read"]
    )
    good: dict[str, Any] = {"issuer": "https://a.example", "audience": "books", "scopes": ["read"]}
    found = await verifier.verify_token(keys.create_token("ann", **{**good, **change}))
    assert (found is not None) is accepted
    assert await verifier.verify_token(RSAKeyPair.generate().create_token("ann", **good)) is None


class OwnVerifier(TokenVerifier):
    """Verifier of a program, which decodes tokens itself."""

    async def verify_token(self, token: str) -> AccessToken | None:
        return AccessToken(token=token, client_id="", scopes=[], claims=json.loads("[" * 20_000 + "]" * 20_000))


@pytest.mark.parametrize("verifier", [JWTVerifier(public_key=RSAKeyPair.generate().public_key), OwnVerifier()])
async def test_a_token_whose_json_is_nested_too_deep_is_refused(verifier: TokenVerifier) -> None:
    header = urlsafe_b64encode(b'{"alg":"RS256","x":' + b"[" * 20_000 + b"]" * 20_000 + b"}").rstrip(b"=")
    request = HTTPConnection({"type": "http", "headers": [(b"authorization", b"Bearer " + header + b".e30.AA")]})
    assert await BearerAuthBackend(verifier).authenticate(request) is None


@pytest.mark.parametrize(
    ("uri", "patterns", "allowed"),
    [
        ("javascript:alert(1)", None, False),
        ("https://a.example/callback", None, True),
        ("http://localhost:9/callback", ["http://localhost:*"], True),
        ("http://localhost@evil.example/callback", ["http://localhost:*"], False),
        ("https://a.example/in/../out", ["https://a.example/in/*"], False),
        ("https://a.example/in/%2e%2e/out", ["https://a.example/in/*"], False),
        ("https://x.a.example/", ["https://*.a.example/*"], True),
        ("https://a.example/", ["https://*.a.example/*"], False),
        ("https://a.example/", [], False),
    ],
)
def test_redirect_uris_fit_patterns_part_by_part(uri: str, patterns: list[str] | None, allowed: bool) -> None:
    assert validate_redirect_uri(uri, patterns) is allowed


async def test_urls_of_clients_are_fetched_from_public_addresses_only() -> None:
    for url in ("http://a.example/", "https://127.0.0.1/x", "https://169.254.169.254/latest", "https://localhost/"):
        with pytest.raises(SSRFError):
            await ssrf_safe_fetch(url)


async def test_checks_of_components_deny_what_they_cannot_decide() -> None:
    tool = Tool.from_function(lambda: None, name="x", tags={"admin"})
    token = AccessToken(token="t", client_id="app", scopes=["read"])

    def failing(context: AuthContext) -> bool:
        raise KeyError

    for checks, expected in (
        ([require_scopes("read")], True),
        ([require_scopes("read", "write")], False),
        ([restrict_tag("admin", scopes=["admin"])], False),
        ([restrict_tag("other", scopes=["admin"])], True),
        ([failing], False),
    ):
        assert await run_auth_checks(checks, AuthContext(token, tool)) is expected  # type: ignore[arg-type]
    assert not await run_auth_checks(require_scopes(), AuthContext(None, tool))


@pytest.mark.slow
async def test_components_are_there_for_callers_who_pass_their_checks() -> None:
    tokens: dict[str, Any] = {
        "reader": {"client_id": "a", "scopes": ["read"]},
        "admin": {"client_id": "b", "scopes": ["read", "admin"]},
    }
    mcp = guarded(StaticTokenVerifier(tokens))
    mcp.add_tool(Tool.from_function(lambda: 1, name="wipe")).auth = require_scopes("admin")
    with serving(mcp.http_app()) as origin:
        for token, seen in (("reader", {"whoami"}), ("admin", {"whoami", "wipe"})):
            async with Client(f"{origin}/mcp", auth=token) as client:
                assert {tool.name for tool in await client.list_tools()} == seen
                if token == "reader":
                    with pytest.raises(Exception, match="Unknown tool"):
                        await client.call_tool("wipe")
                else:
                    assert (await client.call_tool("wipe")).content[0].text == "1"  # type: ignore[union-attr]


async def test_checks_of_middleware_hide_and_refuse_components() -> None:
    mcp = guarded(None)
    mcp.add_middleware(AuthMiddleware(require_scopes("admin")))
    async with Client(mcp) as client:
        assert await client.list_tools() == []
        with pytest.raises(Exception, match="not found or not authorized"):
            await client.call_tool("whoami")


async def test_a_code_of_another_client_is_unknown() -> None:
    provider = InMemoryOAuthProvider(
        "https://a.example", client_registration_options=ClientRegistrationOptions(valid_scopes=["read"])
    )
    assert await provider.load_access_token("x") is None
    assert {route.path for route in provider.get_routes("/mcp")} == {
        "/.well-known/oauth-authorization-server",
        "/.well-known/oauth-protected-resource/mcp",
        "/authorize",
        "/token",
    }


async def test_an_empty_token_is_never_accepted() -> None:
    assert await DebugTokenVerifier().verify_token(" ") is None
    assert await DebugTokenVerifier(lambda token: 1 / 0 > 1).verify_token("x") is None


def test_pages_show_text_of_servers_as_text() -> None:
    assert "<script>" not in create_callback_html("<script>", is_success=False)


@pytest.mark.parametrize(
    ("module", "name", "options", "login"),
    [
        ("google", "GoogleProvider", {}, "https://accounts.google.com/o/oauth2/v2/auth"),
        ("discord", "DiscordProvider", {}, "https://discord.com/oauth2/authorize"),
        ("huggingface", "HuggingFaceProvider", {}, "https://huggingface.co/oauth/authorize"),
        ("workos", "WorkOSProvider", {"authkit_domain": "a.example"}, "https://a.example/oauth2/authorize"),
        ("clerk", "ClerkProvider", {"domain": "a.example"}, "https://a.example/oauth/authorize"),
        (
            "azure",
            "AzureProvider",
            {"tenant_id": "t", "required_scopes": ["read"]},
            "https://login.microsoftonline.com/t/oauth2/v2.0/authorize",
        ),
    ],
)
def test_providers_know_where_users_log_in(module: str, name: str, options: dict[str, Any], login: str) -> None:
    kind = getattr(import_module(f"carrel.compat.fastmcp.server.auth.providers.{module}"), name)
    provider = kind(client_id="id", client_secret="secret", base_url="https://mcp.example", **options)
    url = provider._build_upstream_authorize_url("state", {"scopes": []})
    assert url.startswith(f"{login}?")
    assert {"/consent", "/auth/callback", "/token"} <= {route.path for route in provider.get_routes("/mcp")}


@pytest.mark.parametrize(
    ("module", "name", "options", "server"),
    [
        ("workos", "AuthKitProvider", {"authkit_domain": "https://a.example"}, "https://a.example/"),
        ("supabase", "SupabaseProvider", {"project_url": "https://a.example"}, "https://a.example/auth/v1"),
        (
            "descope",
            "DescopeProvider",
            {"config_url": "https://a.example/v1/apps/agentic/P1/M1/.well-known/openid-configuration"},
            "https://a.example/v1/apps/agentic/P1/M1",
        ),
        (
            "scalekit",
            "ScalekitProvider",
            {"environment_url": "https://a.example", "resource_id": "r"},
            "https://a.example/resources/r",
        ),
        ("keycloak", "KeycloakAuthProvider", {"realm_url": "https://a.example/realms/x"}, "https://a.example/realms/x"),
        (
            "propelauth",
            "PropelAuthProvider",
            {
                "auth_url": "https://a.example",
                "introspection_client_id": "id",
                "introspection_client_secret": "secret",
            },
            "https://a.example/oauth/2.1",
        ),
    ],
)
def test_resource_servers_name_their_authorization_server(
    module: str, name: str, options: dict[str, Any], server: str
) -> None:
    kind = getattr(import_module(f"carrel.compat.fastmcp.server.auth.providers.{module}"), name)
    provider = kind(base_url="https://mcp.example", **options)
    assert list(map(str, provider.authorization_servers)) == [server]
    paths = {route.path for route in provider.get_routes("/mcp")}
    assert "/.well-known/oauth-protected-resource/mcp" in paths


def test_scopes_are_read_from_text_and_lists() -> None:
    assert [parse_scopes(each) for each in (None, "", "a, b c", '["a", "b"]', ["a ", ""])] == [
        None,
        [],
        ["a", "b", "c"],
        ["a", "b"],
        ["a"],
    ]


def test_only_http_has_credentials() -> None:
    with pytest.raises(ValueError, match="does not support auth"):
        Client(StdioTransport("echo", []), auth="oauth")
