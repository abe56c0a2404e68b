"""The gate: no request reaches a route without the token, the exact host, and the origin of the page."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from carrel.studio.gate import PageGate, page_headers
from carrel.studio.routes import make_api
from support.studio_page import Page, folder_server, opened

pytestmark = pytest.mark.slow

ORIGIN = "http://127.0.0.1:8123"


@pytest.fixture
async def page(tmp_path: Path) -> AsyncIterator[Page]:
    (tmp_path / "a.md").write_text("# A\n")
    async with opened(folder_server(tmp_path, "notes")) as page:
        await page.ready("notes")
        yield page


def routes(page: Page) -> list[tuple[str, str]]:
    """Every route of the API, with values for its parameters."""
    found = [
        (method, re.sub(r"\{\w+(:\w+)?\}", "x", route.path))
        for route in make_api(page.studio).routes
        for method in route.methods - {"HEAD"}  # type: ignore[attr-defined]
    ]
    assert len(found) >= 18
    return found


async def status(page: Page, method: str, path: str, headers: dict[str, str]) -> int:
    async with page.session.request(method, page.origin + path, headers=headers) as response:
        assert page.token not in await response.text()
        assert page.token not in str(response.headers)
        return response.status


async def test_every_route_needs_the_token(page: Page) -> None:
    for method, path in routes(page):
        assert await status(page, method, path, {}) == 401, path
        for wrong in ("Bearer ", "Bearer x", f"Basic {page.token}", f"Bearer {page.token}x", page.token):
            assert await status(page, method, path, {"Authorization": wrong}) == 401, path
        assert await status(page, method, f"{path}?token={page.token}", {}) == 401, path
        assert await status(page, method, path, {"Cookie": f"token={page.token}"}) == 401, path


async def test_every_path_needs_the_exact_host(page: Page) -> None:
    port = page.origin.rpartition(":")[2]
    wrong = ("127.0.0.1", "localhost", f"localhost:{port}", "evil.example", f"evil.example:{port}", "127.0.0.1:1", "")
    for method, path in [*routes(page), ("GET", "/"), ("GET", "/assets/x.js"), ("GET", "/s/notes")]:
        for host in wrong:
            assert await status(page, method, path, {**page.headers, "Host": host}) == 421, (path, host)


async def test_every_path_refuses_other_origins_and_sites(page: Page) -> None:
    content = page.studio.links.origin
    for method, path in [*routes(page), ("GET", "/"), ("GET", "/assets/x.js")]:
        for origin in (
            "http://evil.example",
            "null",
            "http://127.0.0.1:1",
            content,
            page.origin.replace("http", "https"),
        ):
            assert await status(page, method, path, {**page.headers, "Origin": origin}) == 403, (path, origin)
        for site in ("cross-site", "same-site", "other"):
            assert await status(page, method, path, {**page.headers, "Sec-Fetch-Site": site}) == 403, (path, site)


async def test_the_page_itself_gets_through(page: Page) -> None:
    own = {**page.headers, "Origin": page.origin, "Sec-Fetch-Site": "same-origin"}
    assert await status(page, "GET", "/api/state", own) == 200
    assert await status(page, "GET", "/api/nothing", own) == 404
    assert await status(page, "POST", "/", own) == 405
    assert await status(page, "OPTIONS", "/api/state", {"Origin": page.origin}) == 401


async def test_responses_have_the_headers_that_protect_the_page(page: Page) -> None:
    for path, headers in [("/", {}), ("/api/state", {}), ("/api/state", page.headers), ("/api/x", page.headers)]:
        async with page.session.get(page.origin + path, headers=headers) as response:
            policy = response.headers["Content-Security-Policy"]
            assert policy.startswith("default-src 'none'; script-src 'self';")
            assert "require-trusted-types-for 'script'" in policy
            assert "unsafe" not in policy
            assert response.headers["Referrer-Policy"] == "no-referrer"
            assert response.headers["Cross-Origin-Opener-Policy"] == "same-origin"
            assert response.headers["Cross-Origin-Resource-Policy"] == "same-origin"
            assert response.headers["X-Content-Type-Options"] == "nosniff"
            assert not [name for name in response.headers if name.lower().startswith("access-control")]
            assert "Set-Cookie" not in response.headers


async def test_websockets_are_refused(page: Page) -> None:
    for path in ("/", "/api/state", "/api/events"):
        with pytest.raises(aiohttp.WSServerHandshakeError):
            await page.session.ws_connect(page.origin + path, headers=page.headers)


async def test_scopes_other_than_http_are_refused() -> None:
    reached = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        reached.append(scope)

    gate = PageGate(ORIGIN, app, page_headers(ORIGIN), api=app, token="secret")
    sent: list[Any] = []

    async def send(message: Any) -> None:
        sent.append(message)

    async def receive() -> Any:
        return {"type": "websocket.connect"}

    headers = [(b"host", b"127.0.0.1:8123"), (b"authorization", b"Bearer secret")]
    await gate({"type": "websocket", "path": "/api/state", "headers": headers}, receive, send)
    assert sent == [{"type": "websocket.close", "code": 1008}]
    for kind in ("lifespan", "webtransport", "other"):
        await gate({"type": kind, "path": "/api/state", "headers": headers}, receive, send)
    assert reached == []
    assert len(sent) == 1


@pytest.mark.parametrize(
    "headers",
    [
        [],
        [(b"host", b"127.0.0.1:8123"), (b"host", b"evil.example")],
        [(b"host", b"127.0.0.1:8123"), (b"Authorization", b"Bearer secret"), (b"authorization", b"Bearer x")],
        [(b"host", b"127.0.0.1:8123"), (b"authorization", b"Bearer secret"), (b"origin", b"")],
        [(b"host", b"127.0.0.1:8123"), (b"authorization", "Bearer sécret".encode())],
    ],
)
async def test_repeated_and_odd_headers_are_refused(headers: list[tuple[bytes, bytes]]) -> None:
    async def app(scope: Any, receive: Any, send: Any) -> None:
        raise AssertionError("reached")

    sent: list[Any] = []

    async def send(message: Any) -> None:
        sent.append(message)

    gate = PageGate(ORIGIN, app, page_headers(ORIGIN), api=app, token="secret")
    await gate({"type": "http", "method": "GET", "path": "/api/state", "headers": headers}, send, send)
    assert sent[0]["status"] in (401, 403, 421)


async def test_links_of_the_content_origin_open_once_and_only_there(page: Page) -> None:
    uri = next(row["key"]["uri"] for row in (await page.get("/items"))["rows"] if row["name"] == "a.md")
    url = (await page.post_and_wait("/links", {"server": "notes", "uri": uri}))["url"]
    origin = page.studio.links.origin
    assert re.fullmatch(re.escape(origin) + r"/[0-9a-f]{32}", url)
    assert origin != page.origin
    path = url.removeprefix(origin)
    async with page.session.get(page.origin + path) as response:
        assert await response.read() != b"# A\n"
    for headers in ({"Host": "evil.example"}, {"Sec-Fetch-Site": "cross-site"}, {"Origin": "http://evil.example"}):
        async with page.session.get(url, headers=headers) as response:
            assert response.status in (403, 421)
    async with page.session.get(url, headers={"Sec-Fetch-Site": "same-site"}) as response:
        assert (response.status, await response.read()) == (200, b"# A\n")
        assert response.headers["Content-Security-Policy"].startswith("sandbox; default-src 'none';")
        assert f"frame-ancestors {page.origin}" in response.headers["Content-Security-Policy"]
        assert response.headers["Content-Disposition"] == 'attachment; filename="a.md"'
        assert response.headers["Cross-Origin-Resource-Policy"] == "cross-origin"
    async with page.session.get(url) as response:
        assert response.status == 404
    async with page.session.get(f"{origin}/api/state", headers=page.headers) as response:
        assert response.status == 404
