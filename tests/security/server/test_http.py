"""Authorization over HTTP: every way in, every verb, every kind of stream."""

from __future__ import annotations

import asyncio
import base64
import json
import logging
import re
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from types import SimpleNamespace
from typing import Any

import httpx2
import pytest

from carrel import Context, Limits, Server
from carrel.protocol.principal import AuthenticatedCaller, Principal
from carrel.security import Authorization, Introspection, StaticTokens
from carrel.security.server.static_tokens import make_token
from carrel.transports import memory
from carrel.transports.server import authorizer
from carrel.transports.server.authorizer import Lease
from support.http_requests import ACCEPT, META, ask, build, initialize, request
from support.http_server import over_http
from support.token_issuer import Issuer

RESOURCE = "https://mcp.example/mcp"
SCOPES = {"*": "mcp", "tools/call": "tools", "secret://*": "secrets", "prompts/get": "prompts"}


@pytest.fixture
def guard(issuer: Issuer) -> Authorization:
    return Authorization(issuer.url, resource=RESOURCE, scopes=SCOPES)


def bearer(token: str, **more: str) -> dict[str, str]:
    return {
        **ACCEPT,
        "authorization": f"Bearer {token}",
        **{name.replace("_", "-"): value for name, value in more.items()},
    }


def test_no_way_in_is_without_a_guard(issuer: Issuer, guard: Authorization):
    with over_http(build(), authorization=guard, sse_path="/sse") as origin:
        for path, method in (
            ("/mcp", "POST"),
            ("/mcp/", "POST"),
            ("/mcp", "GET"),
            ("/mcp", "DELETE"),
            ("/mcp", "PUT"),
            ("/mcp", "HEAD"),
            ("/sse", "GET"),
            ("/sse/messages?sessionId=x", "POST"),
            ("/sse/messages", "POST"),
        ):
            with httpx2.Client() as client:
                response = client.request(method, f"{origin}{path}", headers=ACCEPT)
            assert response.status_code == 401, (path, method)
            assert response.headers["www-authenticate"].startswith("Bearer "), (path, method)
            if method != "HEAD":
                assert response.json()["error"]["message"] == "This server requires an access token"
        for body in (b"", b"not json", b"[" * 1000, b'{"jsonrpc":"2.0","method":"notifications/initialized"}'):
            assert request(f"{origin}/mcp", body, {}).status == 401
        assert request(f"{origin}/elsewhere", b"", {}).status == 404


def test_the_body_is_not_read_before_the_token_is(issuer: Issuer, guard: Authorization):
    with over_http(build(Limits(max_message_bytes=10)), authorization=guard) as origin:
        assert request(f"{origin}/mcp", b"x" * 1000, {}).status == 401
        assert request(f"{origin}/mcp", b"x" * 1000, {}, issuer.token()).status == 413


def test_the_same_principal_asks_every_verb(issuer: Issuer, guard: Authorization):
    some, all_ = issuer.token(scope="mcp tools"), issuer.token(scope="mcp tools secrets")
    reference = {"type": "ref/resource", "uri": "secret://{name}"}
    argument = {"name": "name", "value": ""}
    with over_http(build(), authorization=guard) as origin:
        url = f"{origin}/mcp"
        for method, params in (
            ("resources/read", {"uri": "secret://plan"}),
            ("resources/read", {"uri": "SECRET://plan"}),
            ("resources/read", {"uri": "secret://p%6Can"}),
            ("completion/complete", {"ref": reference, "argument": argument}),
            ("subscriptions/listen", {"notifications": {"resourceSubscriptions": ["memo://open", "secret://plan"]}}),
        ):
            refused = ask(url, method, some, **params)
            assert (refused.status, refused.challenge["scope"]) == (403, "mcp secrets tools"), method
            if method != "subscriptions/listen":
                assert ask(url, method, all_, **params).status == 200, method
        for revision in ("2024-11-05", "2025-11-25"):
            session = {"mcp-session-id": initialize(url, some, revision)}
            for number, method in enumerate(("resources/subscribe", "resources/unsubscribe", "resources/read")):
                body = {"jsonrpc": "2.0", "id": number, "method": method, "params": {"uri": "secret://plan"}}
                assert request(url, body, session, some).status == 403, method
                assert request(url, body, session, all_).status == 200, method
        mirrored = {"name": "read_resource", "arguments": {"uri": "secret://plan"}}
        refused = ask(url, "tools/call", some, **mirrored)
        assert "the secret plan" not in json.dumps(refused.body)
        assert refused.body["result"]["isError"] is True
        assert "the secret plan" in json.dumps(ask(url, "tools/call", all_, **mirrored).body)


def test_a_batch_is_refused_as_a_whole_with_all_that_it_takes(issuer: Issuer, guard: Authorization):
    app = build()
    called: list[str] = []

    @app.tool()
    async def note() -> str:
        called.append("note")
        return "noted"

    @app.prompt()
    async def greet() -> str:
        return "Hello"

    batch = [
        {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "note", "arguments": {}}},
        {"jsonrpc": "2.0", "id": 2, "method": "prompts/get", "params": {"name": "greet"}},
        {"jsonrpc": "2.0", "id": 3, "method": "resources/read", "params": {"uri": "secret://plan"}},
        {"jsonrpc": "2.0", "id": 4, "method": "tools/call", "params": {"name": "whoami", "arguments": {}}},
    ]
    with over_http(app, authorization=guard) as origin:
        url = f"{origin}/mcp"
        some, all_ = issuer.token(scope="mcp tools"), issuer.token(scope="mcp tools secrets prompts")
        session = {"mcp-session-id": initialize(url, some, "2025-03-26")}
        refused = request(url, batch, session, some)
        assert (refused.status, refused.challenge["scope"]) == (403, "mcp prompts secrets tools")
        assert called == []
        done = request(url, batch, session, all_)
        assert done.status == 200
        assert called == ["note"]
        assert "alice" in json.dumps(done.body)


def test_an_initialize_that_is_refused_leaves_no_session(issuer: Issuer):
    guard = Authorization(issuer.url, resource=RESOURCE, scopes={"initialize": "start"})
    hello = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}
    body = {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": hello}
    with over_http(build(Limits(max_sessions=1)), authorization=guard) as origin:
        refused = request(f"{origin}/mcp", body, {}, issuer.token())
        assert refused.status == 403
        assert "mcp-session-id" not in refused.headers


def test_the_oauth_clients_of_one_user_share_the_limits_of_the_user(issuer: Issuer):
    guard = Authorization(issuer.url, resource=RESOURCE)
    with over_http(build(Limits(max_sessions_per_client=2)), authorization=guard) as origin:
        url = f"{origin}/mcp"
        tokens = [issuer.token(sub="bob"), *(issuer.token(client_id=f"app-{number}") for number in range(4))]
        sessions = [initialize(url, token) for token in tokens]
        body = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
        found = [
            request(url, body, {"mcp-session-id": session, "mcp-protocol-version": "2025-11-25"}, token).status
            for session, token in zip(sessions, tokens, strict=True)
        ]
    assert found == [200, 404, 404, 200, 200]


def test_broader_scopes_hold_narrower_ones(issuer: Issuer):
    guard = Authorization(issuer.url, resource=RESOURCE, scopes=SCOPES, implies={"admin": "mcp secrets"})
    with over_http(build(), authorization=guard) as origin:
        url = f"{origin}/mcp"
        assert ask(url, "resources/read", issuer.token(scope="admin"), uri="secret://plan").status == 200
        refused = ask(url, "tools/call", issuer.token(scope="admin"), name="whoami", arguments={})
        assert (refused.status, refused.challenge["scope"]) == (403, "mcp secrets tools")


def test_each_call_has_the_token_it_came_with(issuer: Issuer, guard: Authorization):
    """Two calls of one session, at the same time, with tokens of the same principal that allow different things."""
    app = Server("slow")
    both = threading.Barrier(2)

    @app.tool()
    def scopes(context: Context) -> str:
        both.wait(60)
        assert context.principal is not None
        return " ".join(sorted(context.principal.scopes))

    with over_http(app, authorization=guard) as origin:
        url = f"{origin}/mcp"
        tokens = [issuer.token(scope="mcp tools a"), issuer.token(scope="mcp tools b")]
        session = {"mcp-session-id": initialize(url, tokens[0])}

        def call(number: int) -> Any:
            params = {"name": "scopes", "arguments": {}}
            body = {"jsonrpc": "2.0", "id": number, "method": "tools/call", "params": params}
            return [block["text"] for block in request(url, body, session, tokens[number]).result["content"]]

        with ThreadPoolExecutor(2) as pool:
            assert list(pool.map(call, (0, 1))) == [["a mcp tools"], ["b mcp tools"]]


@asynccontextmanager
async def event_stream(client: httpx2.AsyncClient, method: str, url: str, **options: Any) -> AsyncIterator[Any]:
    async with client.stream(method, url, **options) as response:
        assert response.status_code == 200
        yield response.aiter_lines()


async def to_the_end(lines: AsyncIterator[str]) -> list[str]:
    async with asyncio.timeout(60):
        return [line async for line in lines]


#: Seconds after which tokens expire here, and how much earlier leases of streams take them to have expired.
LIFETIME, EARLIER = 100.0, 98.5


@pytest.fixture
def early_leases(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let leases end early, while the tokens are good: then it does not matter how long opening a stream takes."""
    monkeypatch.setattr(authorizer, "time", SimpleNamespace(time=lambda: time.time() + EARLIER))


@pytest.mark.usefixtures("early_leases")
async def test_a_stream_ends_when_the_token_does_that_opened_it(issuer: Issuer, guard: Authorization):
    with over_http(build(), authorization=guard) as origin:
        url = f"{origin}/mcp"
        long = issuer.token()
        session = await asyncio.to_thread(initialize, url, long)
        expires = time.time() + LIFETIME
        short = issuer.token(exp=expires)
        params = {"notifications": {"resourceSubscriptions": ["memo://open"]}, "_meta": META}
        listen = {"jsonrpc": "2.0", "id": 1, "method": "subscriptions/listen", "params": params}
        modern = bearer(short, mcp_method="subscriptions/listen", mcp_protocol_version="2026-07-28")
        async with httpx2.AsyncClient(timeout=60) as client:
            async with (
                event_stream(client, "POST", url, json=listen, headers=modern) as listening,
                event_stream(client, "GET", url, headers=bearer(short, mcp_session_id=session)) as standing,
            ):
                heard, _ = await asyncio.gather(to_the_end(listening), to_the_end(standing))
            assert time.time() >= expires - EARLIER
            assert any("acknowledged" in line for line in heard)
            # the session is still there for whoever brings a token
            listing = {"jsonrpc": "2.0", "id": 2, "method": "resources/list"}
            reply = await client.post(url, json=listing, headers=bearer(long, mcp_session_id=session))
            assert reply.status_code == 200


@pytest.mark.usefixtures("early_leases")
async def test_http_with_sse_has_the_same_guard(issuer: Issuer, guard: Authorization):
    with over_http(build(), authorization=guard, sse_path="/sse") as origin:
        mine, theirs = issuer.token(), issuer.token(sub="bob")
        hello = {"protocolVersion": "2024-11-05", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}
        async with (
            httpx2.AsyncClient(timeout=60) as client,
            event_stream(client, "GET", f"{origin}/sse", headers=bearer(mine)) as lines,
        ):
            endpoint = origin + await data(lines)

            async def post(token: str | None, method: str, **params: Any) -> httpx2.Response:
                body = {"jsonrpc": "2.0", "id": method, "method": method, "params": params}
                headers = ACCEPT if token is None else bearer(token)
                return await client.post(endpoint, json=body, headers=headers)

            assert (await post(None, "initialize", **hello)).status_code == 401
            assert (await post(theirs, "initialize", **hello)).status_code == 404
            assert (await post(mine, "initialize", **hello)).status_code == 202
            assert json.loads(await data(lines))["id"] == "initialize"
            refused = await post(mine, "resources/read", uri="secret://plan")
            assert (refused.status_code, 'scope="mcp secrets"' in refused.headers["www-authenticate"]) == (403, True)
            stronger = issuer.token(scope="mcp tools")
            whoami = await post(stronger, "tools/call", name="whoami", arguments={})
            assert whoami.status_code == 202
            [block] = json.loads(await data(lines))["result"]["content"]
            assert json.loads(block["text"])["scopes"] == ["mcp", "tools"]
        expires = time.time() + LIFETIME
        short = bearer(issuer.token(exp=expires))
        async with (
            httpx2.AsyncClient(timeout=60) as client,
            event_stream(client, "GET", f"{origin}/sse", headers=short) as lines,
        ):
            await to_the_end(lines)
        assert time.time() >= expires - EARLIER


async def test_a_newer_token_keeps_a_stream_open():
    ended, never = asyncio.Event(), asyncio.Event()
    began = time.time()
    lease, endless = Lease(ended.set), Lease(never.set)
    for expires in (began + 0.5, began + 1.5, began + 1.0, None):
        lease.extend(AuthenticatedCaller(Principal(subject="alice", expires=expires)))
    for expires in (began + 0.5, 1e300):
        endless.extend(AuthenticatedCaller(Principal(subject="alice", expires=expires)))
    lease.extend(None)
    async with asyncio.timeout(60):
        await ended.wait()
    assert time.time() >= began + 1.5
    assert not never.is_set()


async def data(lines: AsyncIterator[str]) -> str:
    async with asyncio.timeout(60):
        async for line in lines:
            if line.startswith("data: "):
                return line.removeprefix("data: ")
    raise AssertionError("the stream has ended")


def test_tokens_are_nowhere_in_the_logs(issuer: Issuer, caplog: pytest.LogCaptureFixture):
    caplog.set_level(logging.DEBUG)
    issuer.publish({"active": True, "sub": "alice", "aud": RESOURCE, "scope": "mcp"}, "/introspect")
    asking = Introspection(
        f"{issuer.url}/introspect", issuer=issuer.url, client_id="me", client_secret="our-secret", resource=RESOURCE
    )
    good, bad = issuer.token(), issuer.token(aud="https://other.example")
    for guard in (Authorization(issuer.url, resource=RESOURCE, scopes=SCOPES), asking):
        with over_http(build(), authorization=guard) as origin:
            url = f"{origin}/mcp"
            for token in (good, bad, good + ".x", f"{good} x", good[:-3]):
                for uri in ("memo://open", "secret://plan", "memo://none"):
                    reply = ask(url, "resources/read", token, uri=uri)
                    assert token[:40] not in str(reply)
            with pytest.raises(urllib.error.HTTPError, match="400"):  # this client does not log URLs, as the other does
                urllib.request.urlopen(f"{url}?access_token={good}", b"{}", timeout=60)
    assert "a token was refused" in caplog.text
    for secret in (good, good.split(".")[1], good.split(".")[2], bad, "our-secret"):
        assert secret not in caplog.text
    assert base64.b64encode(b"me:our-secret").decode() not in caplog.text


def test_without_authorization_tokens_mean_nothing():
    with over_http(build()) as origin:
        reply = ask(f"{origin}/mcp", "tools/call", "token", name="whoami", arguments={})
        assert reply.result["structuredContent"] == {"subject": None}


async def test_in_memory_there_is_no_principal():
    async with memory.connect(build()) as peer:
        reply = await peer.request("tools/call", {"name": "whoami", "arguments": {}})
    assert reply["result"]["structuredContent"] == {"subject": None}


def test_an_author_can_look_at_scopes_and_at_what_may_be_read(issuer: Issuer, guard: Authorization):
    app = Server("own rules")

    @app.resource("memo://rules")
    async def rules(context: Context) -> dict[str, Any]:
        assert context.principal is not None
        return {
            "may": [uri for uri in ("memo://x", "secret://x") if context.allows("read", uri)],
            "expires": context.principal.expires,
        }

    with over_http(app, authorization=guard) as origin:
        token = issuer.token(exp=9_999_999_999)
        [contents] = ask(f"{origin}/mcp", "resources/read", token, uri="memo://rules").result["contents"]
    assert json.loads(contents["text"]) == {"may": ["memo://x"], "expires": 9_999_999_999.0}


def loaded(code: str) -> set[str]:
    """Return the packages that are loaded after some code has run in a new process."""
    script = f"import sys\n{code}\nprint(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=60)
    return set(done.stdout.split())


def test_nothing_is_loaded_that_is_not_configured(tmp_path: Any):
    heavy = {"aiohttp", "joserfc", "cryptography"}
    modules = loaded("import carrel")
    assert not {name for name in modules if name.startswith("carrel.security") or name == "carrel.protocol.principal"}
    assert not heavy & modules
    assert not heavy & loaded("import carrel.security")
    path = tmp_path / "tokens.txt"
    path.write_text(make_token("alice")[1])
    assert not heavy & loaded(f"from carrel.security import StaticTokens\nStaticTokens({str(path)!r})")
    modules = loaded("import carrel.transports.server.http")
    assert not {name for name in modules if name.startswith("carrel.security")}


@pytest.mark.parametrize("name", ["joserfc", "aiohttp"])
def test_a_package_that_is_missing_is_named_with_what_brings_it(name: str):
    code = f"""
import sys
sys.modules[{name!r}] = None
from carrel.errors import ConfigError
from carrel.security import Authorization
try:
    Authorization("https://auth.example")
except ConfigError as error:
    print(error)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert re.fullmatch(rf"Authorization needs the package {name}[.a-z]*: pip install 'carrel\[auth\]'\n", done.stdout)


def test_one_authorization_may_guard_several_servers(issuer: Issuer, tmp_path: Any):
    token, line = make_token("alice")
    path = tmp_path / "tokens.txt"
    path.write_text(line)
    for guard, secret in ((Authorization(issuer.url, resource=RESOURCE), issuer.token()), (StaticTokens(path), token)):
        with over_http(build(), authorization=guard) as one, over_http(build(), authorization=guard) as other:
            for origin in (one, other, one):
                assert ask(f"{origin}/mcp", "resources/read", secret, uri="memo://open").status == 200
