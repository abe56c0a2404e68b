"""Servers that try to lead an application elsewhere, or to get what is not for them."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from typing import Any

import pytest
from aiohttp import web

from carrel import Client
from carrel.errors import AuthorizationError, TransportError
from carrel.security.client import Bearer, OAuth
from carrel.security.client.revocation import NotRevoked
from carrel.security.fetch import MAX_RESPONSE_BYTES
from carrel.transports.client.options import HTTPOptions
from carrel.transports.client.transport import AuthorizationRejection
from support.authorization_server import OAUTH, PROTECTED, Authority, running, visit

Make = Callable[..., OAuth]

#: Hosts that a server which is not on this machine must not lead to.
INSIDE = ["127.0.0.1", "localhost", "[::1]", "10.0.0.1", "169.254.169.254", "[fd00:ec2::254]", "2130706433", "0x7f.1"]


@pytest.mark.parametrize(
    "endpoint",
    [
        "javascript:alert(1)",
        "file:///etc/passwd",
        "data:text/html,x",
        "http://auth.example/authorize",
        "ftp://auth.example/",
        "vbscript:x",
        "ms-settings:x",
        "https://user:password@auth.example/",
        "https://auth.example/a b",
        "https://auth.example\\@evil.example/",
        "//auth.example/",
        "-https://auth.example/",
        "",
    ],
)
async def test_no_page_is_opened_but_of_https_or_this_machine(authority: Authority, user: Make, endpoint: str):
    authority.metadata["authorization_endpoint"] = endpoint
    opened: list[str] = []

    async def browse(url: str) -> str:
        opened.append(url)
        return url

    with pytest.raises(AuthorizationError, match="authorization_endpoint"):
        await visit(user(authorize=browse), authority.resource)
    assert opened == []


@pytest.mark.parametrize("character", ['"', "`", "|", "<", ">", "^", "{", "}", "\x7f", "é", "\u202e"])
async def test_no_page_is_opened_whose_address_holds_what_no_address_has(
    authority: Authority, user: Make, character: str
):
    authority.metadata["authorization_endpoint"] = f"https://auth.example/authorize{character}calc"
    opened: list[str] = []

    async def browse(url: str) -> str:
        opened.append(url)
        return url

    with pytest.raises(AuthorizationError, match="No browser is opened"):
        await visit(user(authorize=browse), authority.resource)
    assert opened == []


@pytest.fixture
def names(monkeypatch: pytest.MonkeyPatch) -> None:
    """All names that end with .example stand for this machine."""
    real = socket.getaddrinfo

    def look_up(host: Any, port: Any, *arguments: Any, **options: Any) -> Any:
        return real("127.0.0.1" if str(host).endswith(".example") else host, port, *arguments, **options)

    monkeypatch.setattr(socket, "getaddrinfo", look_up)


@pytest.mark.parametrize("host", INSIDE)
async def test_a_server_from_elsewhere_does_not_lead_to_metadata_in_here(authority: Authority, user: Make, host: str):
    port = authority.url.rpartition(":")[2]
    for scheme in ("http", "https"):
        who = user()
        await who.headers("https://mcp.example/mcp")
        challenge = f'Bearer resource_metadata="{scheme}://{host}:{port}{PROTECTED}"'
        with pytest.raises(AuthorizationError, match=r"cannot be followed"):
            await who.rejected(AuthorizationRejection("https://mcp.example/mcp", 401, [challenge]))
    assert authority.asked == []


@pytest.mark.parametrize("host", INSIDE)
async def test_documents_from_elsewhere_do_not_lead_to_addresses_in_here(authority: Authority, user: Make, host: str):
    """The document is one of this machine here; what it names is looked at by the same rules."""
    from carrel.security.client.protected_resource import check_discovered_url

    for url in (f"https://{host}/x", f"http://{host}/x"):
        with pytest.raises(AuthorizationError, match="cannot be followed"):
            check_discovered_url(url, "authorization server", found_at="https://mcp.example/x", hosts=())


@pytest.mark.usefixtures("names")
async def test_a_name_that_stands_for_an_address_in_here_is_not_asked(authority: Authority, user: Make):
    port = authority.url.rpartition(":")[2]
    authority.protected["authorization_servers"] = [f"https://rebinding.example:{port}"]
    with pytest.raises(AuthorizationError, match=r"rebinding\.example is not an address of the public Internet"):
        await visit(user(), authority.resource)
    with pytest.raises(AuthorizationError, match="cannot be fetched") as caught:
        await visit(user(hosts=["rebinding.example"]), authority.resource)  # the user has said so, but it has no TLS
    assert "public Internet" not in str(caught.value)


@pytest.mark.parametrize(
    "issuer",
    [
        *("http://auth.example", "https://169.254.169.254", "https://[fd00::1]", "https://2130706433/", "file:///x"),
        *(
            "https://user:password@auth.example",
            "https://auth.example#x",
            "javascript:x",
            "auth.example",
            "",
            "https://[",
        ),
    ],
)
async def test_an_issuer_that_must_not_be_asked_is_not(authority: Authority, user: Make, issuer: str):
    authority.protected["authorization_servers"] = [issuer]
    with pytest.raises(AuthorizationError, match=r"authorization server"):
        await visit(user(), authority.resource)
    assert {one.path for one in authority.asked} == {"/mcp", PROTECTED}


@pytest.mark.parametrize("path", [PROTECTED, OAUTH])
async def test_redirects_of_metadata_are_not_followed(authority: Authority, user: Make, path: str):
    authority.documents["/trap"] = authority.documents.pop(path)
    authority.responses[path] = web.Response(status=302, headers={"location": f"{authority.url}/trap"})
    with pytest.raises(AuthorizationError, match="answered 302"):
        await visit(user(), authority.resource)
    assert authority.at("/trap") == []


@pytest.mark.parametrize("path", ["/token", "/register"])
async def test_redirects_of_endpoints_are_not_followed(authority: Authority, user: Make, path: str):
    async with running() as thief:
        authority.responses[path] = web.Response(status=307, headers={"location": f"{thief.url}{path}"})
        with pytest.raises(AuthorizationError, match="307"):
            await visit(user(), authority.resource)
        assert thief.asked == []


async def test_a_token_that_is_revoked_goes_along_with_no_redirect(authority: Authority, user: Make):
    authority.metadata["revocation_endpoint"] = f"{authority.url}/revoke"
    async with running() as thief:
        for status in (302, 307, 308):
            credentials = user()
            await visit(credentials, authority.resource)
            authority.responses["/revoke"] = web.Response(status=status, headers={"location": f"{thief.url}/revoke"})
            with pytest.raises(NotRevoked, match=str(status)):
                await credentials.revoke(authority.resource)
        assert thief.asked == []
        assert len(authority.at("/revoke")) == 3


@pytest.mark.parametrize(
    "name", ["token_endpoint", "registration_endpoint", "authorization_endpoint", "revocation_endpoint"]
)
@pytest.mark.parametrize(
    "url", ["http://auth.example/x", "file:///x", "/x", "https://a:b@auth.example/x", 7, "https://10.0.0.1/x"]
)
async def test_endpoints_that_must_not_be_asked_are_not(authority: Authority, user: Make, name: str, url: Any):
    authority.metadata[name] = url
    with pytest.raises(AuthorizationError, match=name):
        await visit(user(), authority.resource)
    assert authority.at("/token") == []


@pytest.mark.parametrize("kind", ["user", "bearer"])
@pytest.mark.parametrize(
    "url",
    [
        "http://127.0.0.1:1/mcp",
        "http://localhost:{port}/mcp",
        "https://127.0.0.1:{port}/mcp",
        "https://127.0.0.1.evil.example:{port}/mcp",
        "https://127.0.0.1:{port}@evil.example/mcp",
        "https://evil.example/127.0.0.1:{port}/mcp",
        "https://evil.example\\@127.0.0.1:{port}/mcp",
    ],
)
async def test_a_token_goes_to_no_other_origin(authority: Authority, user: Make, kind: str, url: str):
    first = user()
    await visit(first, authority.resource)
    token = (await first.headers(authority.resource))["authorization"].removeprefix("Bearer ")
    who = first if kind == "user" else Bearer(token)
    assert await visit(who, authority.resource) == 200
    assert await who.headers(url.format(port=authority.url.rpartition(":")[2])) == {}
    assert "authorization" in await who.headers(f"{authority.url}/messages?session=1")
    await who.close()


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
async def test_a_token_goes_along_with_no_redirect(authority: Authority, status: int):
    async with running() as thief:
        for location in (thief.resource, f"http://localhost:{thief.url.rpartition(':')[2]}/mcp"):
            authority.responses["/mcp"] = web.Response(status=status, headers={"location": location})
            with pytest.raises(TransportError, match="which is not followed"):
                async with Client(authority.resource, http=HTTPOptions(auth=Bearer("token"))):
                    pass
        assert authority.at("/mcp")[0].headers["authorization"] == "Bearer token"
        assert thief.asked == []


@pytest.mark.parametrize("url", ["http://mcp.example/mcp", "http://10.0.0.1/mcp", "http://localhost.evil.example/mcp"])
async def test_no_token_is_sent_where_everybody_could_read_it(user: Make, url: str):
    for who in (user(), Bearer("token")):
        with pytest.raises(AuthorizationError, match="is not https"):
            await who.headers(url)


@pytest.mark.parametrize("path", [PROTECTED, OAUTH, "/register", "/token"])
@pytest.mark.parametrize("body", [b" " * (MAX_RESPONSE_BYTES + 1), b"<html>", b"[]", b"[" * 100_000, b"\xff", b""])
async def test_answers_that_are_none_are_errors_in_words(authority: Authority, user: Make, path: str, body: bytes):
    authority.responses[path] = web.Response(body=body, content_type="application/json")
    with pytest.raises(AuthorizationError) as caught:
        await visit(user(), authority.resource)
    assert len(str(caught.value)) < 2000


@pytest.mark.parametrize("path", [PROTECTED, OAUTH, "/register", "/token"])
async def test_answers_that_do_not_come_are_not_waited_for(authority: Authority, user: Make, path: str):
    enough = asyncio.Event()

    class Slow(web.Response):
        async def prepare(self, request: web.BaseRequest) -> Any:
            await enough.wait()
            return await super().prepare(request)

    authority.responses[path] = Slow()
    with pytest.raises(AuthorizationError, match=r"within 0\.2 seconds"):
        await visit(user(timeout=0.2), authority.resource)
    enough.set()


@pytest.mark.parametrize("token", ["", "a b", "a\r\nx-evil: 1", "é", "\x00"])
async def test_a_token_that_cannot_stand_in_a_header_is_none(authority: Authority, user: Make, token: str):
    authority.issue = {"access_token": token}
    with pytest.raises(AuthorizationError, match=r"token"):
        await visit(user(), authority.resource)


@pytest.mark.parametrize("kind", ["mac", "N_A", "dpop", ""])
async def test_a_token_of_an_unknown_type_is_not_used(authority: Authority, user: Make, kind: str):
    authority.issue = {"token_type": kind}
    with pytest.raises(AuthorizationError, match="of a type that is not known"):
        await visit(user(), authority.resource)


async def test_words_of_a_server_are_printed_as_words(authority: Authority, user: Make):
    authority.token_errors = [(400, {"error": "x", "error_description": "a\x1b]0;b\x07\r\nc" + "d" * 5000})]
    with pytest.raises(AuthorizationError) as caught:
        await visit(user(), authority.resource)
    assert str(caught.value).isprintable()
    assert len(str(caught.value)) < 500


async def test_no_secret_is_in_what_is_shown(authority: Authority, user: Make, caplog: pytest.LogCaptureFixture):
    authority.issue = {"refresh_token": "refresh-secret", "access_token": "access-secret"}
    caplog.set_level(0)
    who = user(client_id="id", client_secret="client-secret")
    authority.metadata["token_endpoint_auth_methods_supported"] = ["client_secret_post"]
    await visit(who, authority.resource)
    shown = caplog.text + repr(vars(who)) + repr(who) + repr(await who.identify(who._target.server))  # type: ignore[union-attr]
    for secret in ("refresh-secret", "access-secret"):
        assert secret not in shown
    assert "client-secret" not in caplog.text
    assert "secret" not in repr(Bearer("secret"))
