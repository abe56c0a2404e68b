"""Where the browser comes back to, and who else may come by."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from urllib.parse import urlsplit

import aiohttp
import pytest

from carrel.errors import AuthorizationError, ConfigError
from carrel.security.client import MemoryStore, OAuth
from carrel.security.client.callback import MAX_REQUEST, Callback
from support.authorization_server import Authority, query_of, visit

Make = Callable[..., OAuth]


async def get(url: str, method: str = "GET") -> tuple[int, str]:
    async with aiohttp.ClientSession() as session, session.request(method, url) as response:
        return response.status, await response.text()


async def test_a_browser_comes_back_to_this_machine_and_is_told_that_all_is_well(authority: Authority, user: Make):
    who = user(authorize=None, open_url=authority.open)
    assert await visit(who, authority.resource) == 200
    [request] = authority.requests()
    parts = urlsplit(request["redirect_uri"])
    assert (parts.scheme, parts.hostname, parts.path) == ("http", "127.0.0.1", "/callback")
    assert parts.port
    status, headers, text = await authority.page()
    assert (status, headers["content-type"]) == (200, "text/plain; charset=utf-8")
    assert "close this window" in text
    assert headers["content-security-policy"] == "default-src 'none'"
    assert headers["cache-control"] == "no-store"
    with pytest.raises(aiohttp.ClientError):  # nobody is there any more
        await get(request["redirect_uri"])


async def test_a_user_who_says_no_is_told_so_there_too(authority: Authority, user: Make):
    authority.response = {"error": "access_denied", "code": None}
    with pytest.raises(AuthorizationError, match="access_denied"):
        await visit(user(authorize=None, open_url=authority.open), authority.resource)
    assert "did not succeed" in (await authority.page()).text


async def test_the_port_of_a_registration_is_used_again_if_it_is_free(authority: Authority, user: Make):
    store = MemoryStore()
    for _ in range(2):
        await visit(user(authorize=None, open_url=authority.open, store=store), authority.resource)
        authority.granted.clear()
    first, second = authority.requests()
    assert first["redirect_uri"] == second["redirect_uri"]
    assert len(authority.at("/register")) == 1
    port = urlsplit(first["redirect_uri"]).port
    taken = await asyncio.start_server(lambda *_: None, "127.0.0.1", port)
    await visit(user(authorize=None, open_url=authority.open, store=store), authority.resource)
    taken.close()
    assert authority.requests()[2]["redirect_uri"] != first["redirect_uri"]
    assert len(authority.at("/register")) == 2


async def test_visits_that_belong_to_no_request_do_not_count(authority: Authority, user: Make):
    seen: list[tuple[int, str]] = []

    async def browse(url: str) -> None:
        query = query_of(url)
        callback, state = query["redirect_uri"], query["state"]
        origin = callback.removesuffix("/callback")
        targets = (
            callback,
            f"{callback}?code=evil",
            f"{callback}?code=evil&state=guessed",
            f"{callback}?code=evil&state=",
            f"{origin}/",
            f"{origin}/favicon.ico",
            f"{origin}/callback/x?state={state}&code=evil",
        )
        seen.extend([await get(target) for target in targets])
        seen.append(await get(f"{callback}?state={state}&code=evil", "POST"))
        await authority.open(url)

    assert await visit(user(authorize=None, open_url=browse), authority.resource) == 200
    assert [status for status, _ in seen] == [400, 400, 400, 400, 404, 404, 404, 405]
    assert authority.at("/token")[0].form["code"] != "evil"


@pytest.mark.parametrize(
    "head", [b"", b"GET", b"\r\n\r\n", b"\xff\xfe\r\n\r\n", b"GET http://[ HTTP/1.1\r\n\r\n", b"x" * (2 * MAX_REQUEST)]
)
async def test_visitors_who_are_no_browser_do_no_harm(authority: Authority, user: Make, head: bytes):
    visitors: list[asyncio.StreamWriter] = []

    async def browse(url: str) -> None:
        parts = urlsplit(query_of(url)["redirect_uri"])
        reader, writer = await asyncio.open_connection(parts.hostname, parts.port)
        visitors.append(writer)
        writer.write(head)
        if head:
            writer.write_eof()
            await reader.read()
        await authority.open(url)  # while that one is still there

    assert await visit(user(authorize=None, open_url=browse), authority.resource) == 200
    assert (await authority.page()).status == 200
    [writer] = visitors
    writer.close()
    with contextlib.suppress(ConnectionError):
        await writer.wait_closed()


async def test_a_user_who_never_comes_back_is_not_waited_for(authority: Authority, user: Make):
    async def browse(url: str) -> None:
        pass

    with pytest.raises(AuthorizationError, match=r"The authorization was not completed within 0\.1 seconds"):
        await visit(user(authorize=None, open_url=browse, patience=0.1), authority.resource)


async def test_a_browser_that_cannot_be_opened_ends_it_at_once(authority: Authority, user: Make):
    async def browse(url: str) -> None:
        raise AuthorizationError("no screen")

    with pytest.raises(AuthorizationError, match="no screen"):
        await visit(user(authorize=None, open_url=browse), authority.resource)


async def test_a_browser_that_stays_open_does_not_keep_the_application_waiting(authority: Authority, user: Make):
    async def browse(url: str) -> None:
        await authority.open(url)
        await asyncio.Event().wait()

    assert await visit(user(authorize=None, open_url=browse), authority.resource) == 200


async def test_localhost_is_waited_at_by_all_of_its_addresses():
    async with Callback("http://localhost/back") as callback:
        waiting = asyncio.create_task(callback.wait("s", 5))
        assert callback.redirect_uri.startswith("http://localhost:")
        port = urlsplit(callback.redirect_uri).port
        assert (await get(f"http://127.0.0.1:{port}/back?state=x"))[0] == 400
        assert (await get(f"http://127.0.0.1:{port}/back?state=s&code=c"))[0] == 200
        assert await waiting == f"http://localhost:{port}/back?state=s&code=c"


async def test_a_port_that_is_taken_is_named():
    async with Callback() as first:
        with pytest.raises(AuthorizationError, match="the port is not free"):
            async with Callback(first.redirect_uri):
                pass


@pytest.mark.parametrize(
    "uri", ["http://0.0.0.0/x", "https://127.0.0.1/x", "http://example.org/", "http://127.0.0.1/?a=b"]
)
def test_a_callback_uri_beyond_loopback_is_refused(uri: str):
    with pytest.raises(ConfigError, match="is not on this machine"):
        Callback(uri)
