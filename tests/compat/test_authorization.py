"""Authorization of servers and clients written for ``mcp`` 1.x: they answer as the original does."""

from __future__ import annotations

import contextlib
import re
from base64 import urlsafe_b64encode
from hashlib import sha256
from typing import Any
from urllib.parse import parse_qs, parse_qsl, urlsplit

import anyio
import httpx
import pytest
from pydantic import AnyHttpUrl, AnyUrl

from carrel.compat.credentials import HTTPXCredentials, credentials_of
from carrel.compat.mcp import ClientSession
from carrel.compat.mcp.client.auth import AuthorizationCodeResult, OAuthClientProvider, OAuthFlowError
from carrel.compat.mcp.client.sse import sse_client
from carrel.compat.mcp.client.streamable_http import streamablehttp_client
from carrel.compat.mcp.server.auth.middleware.auth_context import get_access_token
from carrel.compat.mcp.server.auth.provider import AccessToken
from carrel.compat.mcp.server.auth.settings import AuthSettings
from carrel.compat.mcp.server.fastmcp import FastMCP
from carrel.compat.mcp.shared.auth import (
    OAuthClientInformationFull,
    OAuthClientMetadata,
    OAuthMetadata,
    OAuthToken,
)
from carrel.errors import AuthorizationError
from carrel.transports.client.transport import AuthorizationRejection
from compat.comparison import HERE, on_carrel, on_original
from compat.test_http import served
from support.http_process import free_port

PROGRAM = str(HERE / "programs" / "guarded.py")
REDIRECT = "http://localhost:1/callback"
VERIFIER = "v" * 43
CHALLENGE = urlsafe_b64encode(sha256(VERIFIER.encode()).digest()).rstrip(b"=").decode()
#: Headers to compare.
HEADERS = ("cache-control", "content-type", "location", "pragma", "www-authenticate", "vary")
HELLO = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}},
}
ACCEPT = {"accept": "application/json, text/event-stream"}


class Conversation:
    """Requests to a server, and the parts of its responses to compare."""

    def __init__(self, client: httpx.Client) -> None:
        self._client = client
        self._port = str(client.base_url.port)
        self.log: list[Any] = []

    def ask(self, method: str, path: str, **options: Any) -> httpx.Response:
        response = self._client.request(method, path, **options)
        if path == "/mcp" and response.status_code == 200:
            self.log.append((method, path, 200, "messages"))  # as JSON or as SSE
            return response
        headers = {name: value for name, value in response.headers.items() if name.startswith("access-control")}
        headers |= {name: response.headers[name] for name in HEADERS if name in response.headers}
        said = re.sub(r"(?<=code=)[^&]+|[0-9a-f-]{36,}|(?<=_at\":)\d+", "*", f"{headers} {response.text}")
        said = re.sub(r'(?<=_token":")[^"]+', "*", said).replace(self._port, "PORT")
        self.log.append((method, path, response.status_code, said))
        return response


def talk_to_authorization_server(talk: Conversation) -> None:
    """Register, authorize, exchange, refresh and revoke, and make the mistakes that clients and attackers make."""
    for path in ("/.well-known/oauth-authorization-server", "/.well-known/oauth-protected-resource/mcp"):
        talk.ask("GET", path, headers={"origin": "https://page.example"})
        talk.ask("OPTIONS", path, headers={"origin": "https://a.example", "access-control-request-method": "GET"})
        talk.ask("POST", path)
    wishes: list[dict[str, Any]] = [
        {},
        {"scope": "read write"},
        {"scope": "admin"},
        {"grant_types": ["authorization_code"]},
        {"response_types": ["token"]},
        {"token_endpoint_auth_method": "none"},
        {"redirect_uris": []},
        {"redirect_uris": ["nothing"]},
    ]
    clients = [talk.ask("POST", "/register", json={"redirect_uris": [REDIRECT], **wish}).json() for wish in wishes]
    talk.ask("POST", "/register", content=b"x" * (4 * 1024 * 1024 + 1))
    client = clients[1]
    good = {
        "response_type": "code",
        "client_id": client["client_id"],
        "redirect_uri": REDIRECT,
        "code_challenge": CHALLENGE,
        "state": "s",
        "scope": "read",
    }
    mistakes: list[dict[str, Any]] = [
        {"response_type": "token"},
        {"code_challenge": None},
        {"code_challenge_method": "plain"},
        {"client_id": "unknown"},
        {"client_id": None},
        {"redirect_uri": f"{REDIRECT}/evil"},
        {"redirect_uri": REDIRECT.upper()},
        {"scope": "admin"},
    ]
    for mistake in mistakes:
        params = {key: value for key, value in {**good, **mistake}.items() if value is not None}
        talk.ask("GET", "/authorize", params=params)
        talk.ask("POST", "/authorize", data=params)

    def code() -> str:
        location = talk.ask("GET", "/authorize", params=good).headers["location"]
        return str(parse_qs(urlsplit(location).query)["code"][0])

    secret = {"client_id": client["client_id"], "client_secret": client["client_secret"]}
    form = {"grant_type": "authorization_code", "redirect_uri": REDIRECT, "code_verifier": VERIFIER, **secret}
    wrong: list[dict[str, Any]] = [
        {"code_verifier": "w" * 43},
        {"redirect_uri": f"{REDIRECT}/evil"},
        {"redirect_uri": None},
        {"client_secret": "wrong"},
        {"client_secret": None},
        {"client_id": None},
        {"client_id": "unknown"},
        {"client_id": clients[5]["client_id"], "client_secret": None},
        {"grant_type": "password"},
        {"code": "invented"},
    ]
    for mistake in wrong:
        given = {key: value for key, value in {**form, "code": code(), **mistake}.items() if value is not None}
        talk.ask("POST", "/token", data=given)
    used = code()
    tokens = talk.ask("POST", "/token", data={**form, "code": used}).json()
    talk.ask("POST", "/token", data={**form, "code": used})
    talk.ask("POST", "/token", json={**form, "code": code()})
    bearer = {"authorization": f"Bearer {tokens['access_token']}", **ACCEPT}
    talk.ask("POST", "/mcp", json=HELLO, headers=ACCEPT)
    talk.ask("POST", "/mcp", json=HELLO, headers=bearer)
    refresh = {"grant_type": "refresh_token", "refresh_token": tokens["refresh_token"], **secret}
    talk.ask("POST", "/token", data={**refresh, "scope": "write"})
    more = talk.ask("POST", "/token", data=refresh, headers={"origin": "https://page.example"}).json()
    talk.ask("POST", "/token", data=refresh)
    talk.ask("POST", "/revoke", data={"token": more["access_token"], "client_id": client["client_id"]})
    talk.ask("POST", "/revoke", data=secret)
    for _ in range(2):
        talk.ask("POST", "/revoke", data={"token": more["access_token"], **secret})
    talk.ask("POST", "/mcp", json=HELLO, headers={**ACCEPT, "authorization": f"Bearer {more['access_token']}"})


def talk_to_resource_server(talk: Conversation) -> None:
    """Present tokens of all kinds."""
    talk.ask("GET", "/.well-known/oauth-protected-resource/mcp")
    talk.ask("GET", "/authorize")
    for token in ("", "a.read.mcp", "a.write.mcp", "a.read.other", "late.read.mcp", "nothing"):
        for scheme in ("Bearer", "bearer", "Basic"):
            headers = {**ACCEPT, "authorization": f"{scheme} {token}".strip()}
            talk.ask("POST", "/mcp", json=HELLO, headers=headers)
    talk.ask("GET", "/mcp?access_token=a.read.mcp", headers={"accept": "text/event-stream"})
    talk.ask("DELETE", "/mcp")


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["provider", "verifier"])
def test_a_server_with_authorization_answers_the_same(kind: str) -> None:
    logs = []
    for command in (on_original, on_carrel):
        port = free_port()
        with (
            served(command([PROGRAM, kind, "streamable-http", str(port)]), port),
            httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=60) as client,
        ):
            talk = Conversation(client)
            if kind == "provider":
                talk_to_authorization_server(talk)
            else:
                talk_to_resource_server(talk)
            logs.append(talk.log)
    assert [pair for pair in zip(*logs, strict=True) if pair[0] != pair[1]] == []


class Storage:
    """Token storage in memory."""

    tokens: OAuthToken | None = None
    client: OAuthClientInformationFull | None = None

    async def get_tokens(self) -> OAuthToken | None:
        return self.tokens

    async def set_tokens(self, tokens: OAuthToken) -> None:
        self.tokens = tokens

    async def get_client_info(self) -> OAuthClientInformationFull | None:
        return self.client

    async def set_client_info(self, client_info: OAuthClientInformationFull) -> None:
        self.client = client_info


class User:
    """User who authorizes in a browser, which follows the redirect."""

    def __init__(self) -> None:
        self.visits: list[str] = []

    async def visit(self, url: str) -> None:
        async with httpx.AsyncClient() as browser:
            response = await browser.get(url)
        assert response.status_code == 302, response.text
        self.visits.append(response.headers["location"])

    async def callback(self) -> tuple[str, str | None]:
        given = dict(parse_qsl(urlsplit(self.visits[-1]).query))
        return given["code"], given.get("state")


def credentials(url: str, storage: Storage, user: User) -> OAuthClientProvider:
    metadata = OAuthClientMetadata(redirect_uris=[AnyUrl(REDIRECT)], client_name="test")
    return OAuthClientProvider(url, metadata, storage, user.visit, user.callback)


@pytest.mark.slow
@pytest.mark.parametrize(("transport", "path"), [("streamable-http", "/mcp"), ("sse", "/sse")])
async def test_a_client_authorizes_once_and_refreshes(transport: str, path: str) -> None:
    port, storage, user = free_port(), Storage(), User()
    url = f"http://127.0.0.1:{port}{path}"

    @contextlib.asynccontextmanager
    async def connected() -> Any:
        connect: Any = sse_client if transport == "sse" else streamablehttp_client
        async with (
            connect(url, auth=credentials(url, storage, user)) as streams,
            ClientSession(streams[0], streams[1]) as session,
        ):
            await session.initialize()
            yield session

    with served(on_carrel([PROGRAM, "provider", transport, str(port)]), port):
        async with connected() as session:
            result = await session.call_tool("whoami")
            assert result.content[0].text == "a client None ['read']"
            async with anyio.create_task_group() as group:
                for _ in range(5):
                    group.start_soon(session.call_tool, "whoami")
        assert storage.client is not None
        assert storage.client.issuer == f"http://127.0.0.1:{port}/"
        assert storage.tokens is not None
        assert storage.tokens.refresh_token is not None
        first, storage.tokens = storage.tokens, storage.tokens.model_copy(update={"access_token": ""})
        async with connected() as session:
            await session.call_tool("whoami")
        assert storage.tokens.access_token not in ("", first.access_token)
        assert len(user.visits) == 1


class Names:
    """Verifier of tokens that are names."""

    async def verify_token(self, token: str) -> AccessToken | None:
        return AccessToken(token=token, client_id="app", scopes=["read"], subject=token)


@pytest.mark.slow
async def test_a_session_belongs_to_the_user_who_opened_it() -> None:
    from compat.test_http import serving

    settings = AuthSettings(
        issuer_url=AnyHttpUrl("https://auth.example"), resource_server_url=None, required_scopes=["read"]
    )
    mcp = FastMCP("names", auth=settings, token_verifier=Names())

    @mcp.tool()
    def whoami() -> str:
        token = get_access_token()
        return "nobody" if token is None else str(token.subject)

    call = {"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": {"name": "whoami", "arguments": {}}}
    with serving(mcp.streamable_http_app()) as origin:
        async with httpx.AsyncClient(base_url=origin) as client:
            sessions = {}
            for name in ("ann", "bob"):
                headers = {**ACCEPT, "authorization": f"Bearer {name}"}
                response = await client.post("/mcp", json=HELLO, headers=headers)
                sessions[name] = {**headers, "mcp-session-id": response.headers["mcp-session-id"]}
            for name, headers in sessions.items():
                assert f'"text":"{name}"' in (await client.post("/mcp", json=call, headers=headers)).text
            stolen = {**sessions["ann"], "authorization": sessions["bob"]["authorization"]}
            for method in ("POST", "GET", "DELETE"):
                assert (await client.request(method, "/mcp", json=call, headers=stolen)).status_code == 404
            assert '"text":"ann"' in (await client.post("/mcp", json=call, headers=sessions["ann"])).text
    assert get_access_token() is None


async def test_credentials_of_httpx_are_added_to_requests() -> None:
    found = credentials_of(("ann", "secret"))
    assert found is not None
    assert dict(await found.headers("https://a.example/mcp")) == {"authorization": "Basic YW5uOnNlY3JldA=="}
    assert not await found.rejected(AuthorizationRejection("https://a.example/mcp", 401))
    assert credentials_of(None) is None
    with pytest.raises(TypeError, match=r"must be an httpx\.Auth"):
        credentials_of(object())


class Renewing(httpx.Auth):
    """Credentials that renew a token after a rejection."""

    def __init__(self) -> None:
        self.number = 0

    async def async_auth_flow(self, request: httpx.Request) -> Any:
        request.headers["authorization"] = f"Bearer {self.number}"
        response = yield request
        if response.status_code == 401 and response.headers["www-authenticate"] == 'Bearer error="invalid_token"':
            self.number += 1
            request.headers["authorization"] = f"Bearer {self.number}"
            yield request


async def test_several_rejected_requests_renew_a_token_once() -> None:
    found = HTTPXCredentials(Renewing())
    url = "https://a.example/mcp"
    old = await found.headers(url)
    rejection = AuthorizationRejection(url, 401, ['Bearer error="invalid_token"'], sent=old)
    for _ in range(2):
        assert await found.rejected(rejection)
        assert dict(await found.headers(url)) == {"authorization": "Bearer 1"}
    assert not await found.rejected(rejection._replace(challenges=["Bearer"], sent=await found.headers(url)))


@pytest.mark.parametrize(
    ("given", "announced", "words"),
    [
        (("c", "s"), True, None),
        (AuthorizationCodeResult(code="c", state="s"), False, None),
        (AuthorizationCodeResult(code="c", state="s", iss="https://a.example/"), True, None),
        (AuthorizationCodeResult(code="c", state="s", iss="https://evil.example"), False, "iss mismatch"),
        (AuthorizationCodeResult(code="c", state="s"), True, "missing iss parameter"),
    ],
)
def test_the_redirect_is_of_the_authorization_server(given: Any, announced: bool, words: str | None) -> None:
    provider = credentials("https://mcp.example/mcp", Storage(), User())
    provider.context.oauth_metadata = OAuthMetadata(
        issuer=AnyHttpUrl("https://a.example"),
        authorization_endpoint=AnyHttpUrl("https://a.example/authorize"),
        token_endpoint=AnyHttpUrl("https://a.example/token"),
        authorization_response_iss_parameter_supported=announced,
    )
    with contextlib.nullcontext() if words is None else pytest.raises(OAuthFlowError, match=words):
        assert provider._read_callback(given) == ("c", "s")


async def test_a_failed_authorization_is_an_error_of_authorization() -> None:
    class Failing(httpx.Auth):
        async def async_auth_flow(self, request: httpx.Request) -> Any:
            yield httpx.Request("POST", "http://127.0.0.1:9/token")

    with pytest.raises(AuthorizationError, match="authorization failed"):
        await HTTPXCredentials(Failing()).headers("https://a.example/mcp")


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"auth": None, "token_verifier": Names()}, "without auth settings"),
        ({"auth": True}, "Must specify either"),
        ({"auth": True, "token_verifier": Names(), "auth_server_provider": Names()}, "Cannot specify both"),
    ],
)
def test_settings_take_a_verifier_or_a_provider(options: dict[str, Any], words: str) -> None:
    if options["auth"]:
        options = {**options, "auth": AuthSettings(issuer_url=AnyHttpUrl("https://a.b"), resource_server_url=None)}
    with pytest.raises(ValueError, match=words):
        FastMCP("books", **options)
