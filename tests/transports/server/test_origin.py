"""DNS rebinding, and pages of other people: Host and Origin, on every route and method.

https://modelcontextprotocol.io/specification/2026-07-28/basic/transports/streamable-http#security--endpoint
"""

from __future__ import annotations

import pytest

from carrel.transports.server.origin import MAX_REMEMBERED, Origins
from support.raw_http import BOTH, modern, modern_headers
from support.stdio_process import encode, initialize, note, request

GOOD_HOSTS = [
    "localhost",
    "localhost:8000",
    "LOCALHOST:1",
    "localhost.",
    "localhost.:80",
    "localhost:",
    "127.0.0.1",
    "127.0.0.1:65535",
    "[::1]",
    "[::1]:8000",
]
BAD_HOSTS = [
    "",
    "evil.example",
    "evil.example:8000",
    "0.0.0.0",
    "0.0.0.0:8000",
    "[::]",
    "[::]:8000",
    "::1",
    "[::1",
    "[::1]x",
    "[::1]8000",
    "[::1]:80:80",
    "[::ffff:127.0.0.1]",
    "127.1",
    "2130706433",
    "0x7f000001",
    "127.0.0.1.evil.example",
    "localhost.evil.example",
    "localhost..",
    "localhost..:80",
    "127.0.0.1..",
    ".",
    "evil.example.localhost:80@127.0.0.1",
    "user@localhost",
    "localhost@evil.example",
    "localhost:80@evil.example",
    "localhost:8000:8000",
    "localhost:80a",
    "localhost:000080",
    "localhost:８０",
    "localhost/",
    "localhost#evil.example",
    "localhost?x",
    "localhost,evil.example",
    "localhost evil.example",
    "http://localhost",
    "localhost\\evil.example",
    "localhost%00.evil.example",
    ".localhost",
    "*",
]
GOOD_ORIGINS = [
    "http://localhost",
    "https://localhost:3000",
    "http://127.0.0.1:5173",
    "http://[::1]:8000",
    "HTTP://LocalHost:80",
]
BAD_ORIGINS = [
    "",
    "null",
    "http://evil.example",
    "https://evil.example:8000",
    "http://0.0.0.0",
    "http://0.0.0.0:8000",
    "http://localhost.evil.example",
    "http://localhost..",
    "http://localhost@evil.example",
    "http://localhost:80@evil.example",
    "http://user@localhost",
    "http://localhost/",
    "http://localhost/path",
    "http://localhost#x",
    "http://localhost?x",
    "http://localhost\\@evil.example",
    "http://localhost http://evil.example",
    "http://localhost, http://evil.example",
    "http://",
    "://localhost",
    "localhost",
    "//localhost",
    "http:localhost",
    "file://localhost",
    "file://",
    "ftp://localhost",
    "chrome-extension://localhost",
    "javascript:alert(1)//localhost",
    "http://[::]",
    "http://127.1",
    "*",
]


def check(origins: Origins, host: str | None, origin: str | None = None) -> str | None:
    headers = {b"host": host, b"origin": origin}
    return origins.check({name: value.encode() for name, value in headers.items() if value is not None})


# The rules


@pytest.mark.parametrize("host", GOOD_HOSTS)
def test_this_machine_goes_by_its_loopback_names(host):
    assert check(Origins((), ()), host) is None


@pytest.mark.parametrize("host", BAD_HOSTS)
def test_a_server_goes_by_no_other_name(host):
    assert "allowed_hosts" in check(Origins((), ()), host)


def test_a_host_has_to_be_there():
    assert check(Origins((), ()), None) is not None


@pytest.mark.parametrize("origin", GOOD_ORIGINS)
def test_pages_of_this_machine_may_call(origin):
    assert check(Origins((), ()), "localhost", origin) is None


@pytest.mark.parametrize("origin", BAD_ORIGINS)
def test_pages_of_others_may_not(origin):
    assert "allowed_origins" in check(Origins((), ()), "localhost", origin)
    assert "allowed_origins" in check(Origins(["*"], ()), "evil.example", origin)


@pytest.mark.parametrize(
    ("allowed", "host"),
    [
        (["mcp.example"], "mcp.example"),
        (["mcp.example"], "MCP.example.:443"),
        (["MCP.Example:8000"], "mcp.example:9000"),
        ("mcp.example", "mcp.example"),
        (["::1", "fe80::1"], "[fe80::1]:8000"),
        (["[fe80::1]"], "[fe80::1]"),
        (["192.0.2.1"], "192.0.2.1:80"),
        (["*"], "anything.example"),
        ("*", ""),
    ],
)
def test_more_hosts_can_be_allowed(allowed, host):
    origins = Origins(allowed, ())
    assert check(origins, host) is None
    assert check(origins, "localhost") is None
    if "*" not in allowed:
        assert check(origins, f"x{host}") is not None
        assert check(origins, host, "https://mcp.example") is None or "mcp.example" not in str(allowed).lower()


@pytest.mark.parametrize(
    ("allowed", "origin"),
    [
        (["https://app.example"], "https://app.example"),
        (["https://APP.example/"], "https://app.example"),
        ("https://app.example", "https://app.example"),
        (["vscode-webview://abc"], "vscode-webview://abc"),
        (["null"], "null"),
        (["*"], "http://evil.example"),
        ("*", "null"),
    ],
)
def test_more_origins_can_be_allowed(allowed, origin):
    assert check(Origins((), allowed), "localhost", origin) is None


@pytest.mark.parametrize("origin", ["http://app.example", "https://app.example:8443", "https://x.app.example"])
def test_an_allowed_origin_is_that_scheme_host_and_port(origin):
    assert check(Origins((), ["https://app.example"]), "localhost", origin) is not None


def test_a_remembered_host_does_not_allow_another_origin():
    origins = Origins((), ())
    for port in range(2 * MAX_REMEMBERED):
        assert check(origins, f"localhost:{port}", "http://localhost") is None
    assert check(origins, "localhost:1", "http://evil.example") is not None
    assert check(origins, "evil.example", "http://localhost") is not None
    assert check(origins, "localhost:1", None) is None


# On the wire


async def everything(site, headers):
    """Send one request of each kind and return the statuses."""
    session = await site.open()
    usual = {"Content-Type": "application/json", "Accept": BOTH}
    requests = [
        ("POST", "/mcp", {**usual}, encode(initialize())),
        ("POST", "/mcp", {**usual, **modern_headers("tools/list")}, encode(modern("tools/list"))),
        ("POST", "/mcp", {**usual, **session.headers}, encode(request(1, "ping"))),
        ("POST", "/mcp", {**usual, **session.headers}, encode(note("notifications/initialized"))),
        ("POST", "/mcp", {**usual}, b"{"),
        ("POST", "/elsewhere", {**usual}, b"{}"),
        ("GET", "/mcp", {**usual, **session.headers}, None),
        ("GET", "/", {}, None),
        ("OPTIONS", "/mcp", {}, None),
        ("PUT", "/mcp", {}, b""),
        ("HEAD", "/mcp", {}, None),
        ("DELETE", "/mcp", {**session.headers}, None),
    ]
    statuses = []
    for method, path, usual, body in requests:
        reply = await site.request(method, {**usual, **headers}, body, path)
        assert "access-control-allow-origin" not in reply.headers
        assert "mcp-session-id" not in reply.headers
        statuses.append(reply.status)
        reply.client.close()
    return statuses


@pytest.mark.parametrize(
    "headers",
    [
        {"Host": "evil.example"},
        {"Host": "0.0.0.0:8000"},
        {"Host": "[::]"},
        {"Host": None},
        {"Origin": "http://evil.example"},
        {"Origin": "null"},
        {"Origin": "http://0.0.0.0:8000"},
        {"Host": "evil.example", "Origin": "http://evil.example"},
    ],
    ids=str,
)
async def test_a_wrong_host_or_origin_is_a_403_on_every_route_and_method(site, headers):
    assert set(await everything(site, headers)) == {403}


async def test_http_1_0_without_a_host_is_refused(site):
    client = await site.connect()
    await client.send(b"GET /mcp HTTP/1.0\r\nAccept: text/event-stream\r\n\r\n")
    assert (await client.read()).status == 403


async def test_forwarded_headers_say_nothing(site):
    forwarded = {"X-Forwarded-Host": "localhost", "Forwarded": "host=localhost"}
    assert (await site.ask("tools/list", {"Host": "evil.example", **forwarded})).status == 403


async def test_the_options_of_the_application_say_who_may_call(serve):
    site = await serve(allowed_hosts=["mcp.example"], allowed_origins=["https://app.example"])
    for host, origin, status in (
        ("mcp.example", None, 200),
        ("mcp.example:8000", "https://app.example", 200),
        ("mcp.example", "https://mcp.example", 200),
        ("localhost", "https://app.example", 200),
        ("mcp.example", "https://evil.example", 403),
        ("evil.example", "https://app.example", 403),
    ):
        assert (await site.ask("tools/list", {"Host": host, "Origin": origin})).status == status


# Pages


async def test_a_page_may_ask_whether_it_may_call(site):
    reply = await site.request(
        "OPTIONS",
        {
            "Origin": "http://localhost:3000",
            "Access-Control-Request-Method": "POST",
            "Access-Control-Request-Headers": "content-type, mcp-method",
        },
    )
    assert (reply.status, await reply.body()) == (204, b"")
    assert reply.headers["access-control-allow-origin"] == "http://localhost:3000"
    assert reply.headers["access-control-allow-methods"] == "GET, POST, DELETE"
    assert reply.headers["access-control-allow-headers"] == "content-type, mcp-method"
    assert reply.headers["vary"] == "origin"
    assert "access-control-allow-credentials" not in reply.headers


async def test_a_page_may_read_answers_streams_and_refusals(site, shop):
    origin = {"Origin": "http://localhost:3000"}
    shop.go.set()
    session = await site.open()
    replies = [
        await site.post(initialize(), origin),
        await site.call("echo", origin, text="x"),
        await session.call("steps", n=1, headers=origin),
        await session.get(headers=origin),
        await session.post(note("notifications/initialized"), origin),
        await site.post(b"{", origin),
        await site.post(request(1, "ping"), {**origin, "Mcp-Session-Id": "nonesuch"}),
        await site.request("PUT", origin),
        await site.request("DELETE", {**session.headers, **origin}),
    ]
    assert [reply.status for reply in replies] == [200, 200, 200, 200, 202, 400, 404, 405, 204]
    for reply in replies:
        assert reply.headers["access-control-allow-origin"] == "http://localhost:3000"
        assert "mcp-session-id" in reply.headers["access-control-expose-headers"]
        assert reply.headers["vary"] == "origin"


async def test_without_a_page_nothing_is_said_about_pages(site):
    reply = await site.call("echo", text="x")
    assert not any(name.startswith("access-control") for name in reply.headers)
