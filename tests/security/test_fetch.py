"""Asking an authorization server: bounded, and never led elsewhere."""

from __future__ import annotations

import base64
import threading

import pytest

from carrel.errors import ConfigError
from carrel.security import Authorization, Introspection
from carrel.security.discovery import discover, locations
from carrel.security.fetch import MAX_RESPONSE_BYTES, Fetcher, NotThere, check_url
from carrel.security.server.bearer import InvalidToken, Unverifiable
from support.token_issuer import Issuer

OPENID = "/.well-known/openid-configuration"
OAUTH = "/.well-known/oauth-authorization-server"


@pytest.mark.parametrize(
    "url",
    [
        "http://auth.example/x",
        "ftp://auth.example/x",
        "file:///etc/passwd",
        "javascript:alert(1)",
        "https:auth.example",
        "https://",
        "https:///x",
        "https://user:pass@auth.example/x",
        "https://auth.example/x#y",
        "https://auth.example/ x",
        "https://auth.example\\@evil.example/",
        "https://auth.example\n.evil.example/",
        "http://localhost.evil.example/",
        "http://127.0.0.1.evil.example/",
        "http://127.0.0.1@evil.example/",
        "http://[::ffff:10.0.0.1]/",
        "http://10.0.0.1/",
        "http://0.0.0.0/",
        "//auth.example/",
        "",
    ],
)
def test_some_urls_are_never_asked(url: str):
    with pytest.raises(ConfigError):
        check_url(url, "url")


@pytest.mark.parametrize(
    "url", ["https://auth.example/x", "http://localhost:1/", "http://127.0.0.2/", "http://[::1]:80/"]
)
def test_https_and_this_machine_may_be_asked(url: str):
    assert check_url(url, "url") == url


@pytest.mark.parametrize(
    "host",
    [
        "127.0.0.1",
        "localhost",
        "[::1]",
        "10.0.0.1",
        "192.168.1.1",
        "169.254.169.254",
        "[fd00::1]",
        "[fe80::1]",
        "[::ffff:169.254.169.254]",
        "[64:ff9b::a9fe:a9fe]",
        "0.0.0.0",
        "2130706433",
        "0x7f000001",
        "0x7f.1",
        "017700000001",
        "127.1",
        "100.64.0.1",
    ],
)
def test_a_document_from_elsewhere_does_not_lead_to_addresses_in_here(host: str):
    with pytest.raises(ConfigError, match="must not name"):
        check_url(f"https://{host}/keys", "jwks_uri", found_at="https://auth.example")


def test_a_document_may_lead_to_other_names_and_to_its_own_address():
    for url, home in (
        ("https://keys.example/k", "https://auth.example"),
        ("https://8.8.8.8/k", "https://auth.example"),
        ("https://10.0.0.1/k", "https://10.0.0.1"),
        ("http://127.0.0.1:2/k", "http://127.0.0.1:1"),
    ):
        assert check_url(url, "jwks_uri", found_at=home) == url


def test_metadata_are_looked_for_in_the_order_of_the_specification():
    assert locations("https://a.example") == [f"https://a.example{OAUTH}", f"https://a.example{OPENID}"]
    assert locations("https://a.example/") == locations("https://a.example")
    assert locations("https://a.example/t") == [
        f"https://a.example{OAUTH}/t",
        f"https://a.example{OPENID}/t",
        f"https://a.example/t{OPENID}",
    ]


async def test_either_kind_of_metadata_will_do(issuer: Issuer):
    async with Fetcher() as fetcher:
        assert (await discover(issuer.url, fetcher))["jwks_uri"]
        issuer.pages[OPENID] = issuer.pages.pop(OAUTH)
        assert (await discover(issuer.url, fetcher))["jwks_uri"]
        assert issuer.seen == [OAUTH, OAUTH, OPENID]


async def test_metadata_of_another_issuer_are_not_used(issuer: Issuer):
    issuer.publish({"issuer": "https://honest.example", "jwks_uri": f"{issuer.url}/jwks"}, OAUTH)
    guard = Authorization(issuer.url, resource="https://mcp.example/mcp")
    with pytest.raises(Unverifiable, match=r"about the issuer 'https://honest\.example'"):
        await guard.verify(issuer.token())
    assert "/jwks" not in issuer.seen


@pytest.mark.parametrize("uri", [None, 5, "", "http://auth.example/jwks", "file:///etc/passwd", "/jwks"])
async def test_a_place_of_keys_that_must_not_be_asked_is_not(issuer: Issuer, uri: object):
    issuer.publish({"issuer": issuer.url, "jwks_uri": uri}, OAUTH)
    guard = Authorization(issuer.url, resource="https://mcp.example/mcp")
    with pytest.raises(Unverifiable, match="jwks_uri"):
        await guard.verify(issuer.token())


async def test_redirects_are_not_followed(issuer: Issuer):
    issuer.publish(b"", "/jwks", 302, location=f"{issuer.url}/elsewhere")
    issuer.publish({"keys": [issuer.key.as_dict()]}, "/elsewhere")
    guard = Authorization(issuer.url, resource="https://mcp.example/mcp")
    with pytest.raises(Unverifiable, match="answered 302"):
        await guard.verify(issuer.token())
    assert "/elsewhere" not in issuer.seen


@pytest.mark.parametrize(
    ("status", "body", "complaint"),
    [
        (200, b" " * (MAX_RESPONSE_BYTES + 1), "more than"),
        (200, b"<html>", "JSON object"),
        (200, b"[]", "JSON object"),
        (200, b'{"a":\xff}', "JSON object"),
        (200, b"[" * 100_000, "JSON object"),
        (200, b"", "JSON object"),
        (500, b"{}", "answered 500"),
        (204, b"", "answered 204"),
    ],
)
async def test_an_answer_that_is_none_is_an_error(issuer: Issuer, status: int, body: bytes, complaint: str):
    issuer.publish(body, "/x", status)
    async with Fetcher() as fetcher:
        with pytest.raises(Unverifiable, match=complaint):
            await fetcher.get(f"{issuer.url}/x")


async def test_a_missing_document_is_told_from_one_that_cannot_be_had(issuer: Issuer):
    async with Fetcher() as fetcher:
        with pytest.raises(NotThere):
            await fetcher.get(f"{issuer.url}/missing")
        with pytest.raises(Unverifiable, match="cannot be fetched"):
            await fetcher.get("http://127.0.0.1:1/x")


async def test_an_answer_that_does_not_come_is_not_waited_for(issuer: Issuer):
    enough = threading.Event()

    def stall() -> tuple[int, dict[str, str], bytes]:
        enough.wait(30)
        return 200, {}, b"{}"

    issuer.pages["/slow"] = stall
    async with Fetcher(timeout=0.2) as fetcher:
        with pytest.raises(Unverifiable, match=r"within 0\.2 seconds"):
            await fetcher.get(f"{issuer.url}/slow")
    enough.set()


async def test_a_compressed_answer_is_measured_unpacked(issuer: Issuer):
    import gzip

    issuer.publish(gzip.compress(b" " * 50_000_000), "/bomb", **{"content-encoding": "gzip"})
    async with Fetcher() as fetcher:
        with pytest.raises(Unverifiable, match="more than"):
            await fetcher.get(f"{issuer.url}/bomb")


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        ({"active": False}, InvalidToken),
        ({"active": "true"}, Unverifiable),
        ({"active": 1}, Unverifiable),
        ({}, Unverifiable),
        ({"active": True}, InvalidToken),
        ({"active": True, "sub": "alice", "exp": 1}, InvalidToken),
        ({"active": True, "sub": "alice", "exp": "soon"}, InvalidToken),
        ({"active": True, "sub": "alice", "nbf": 9_999_999_999}, InvalidToken),
        ({"active": True, "sub": "alice", "iss": "https://other.example"}, InvalidToken),
    ],
)
async def test_introspection_responses_that_admit_no_client(issuer: Issuer, answer: object, error: type[Exception]):
    issuer.publish(answer, "/introspect")
    guard = Introspection(
        f"{issuer.url}/introspect",
        issuer=issuer.url,
        client_id="me",
        client_secret="secret",
        resource="https://mcp.example/mcp",
    )
    try:
        with pytest.raises(error):
            await guard.verify("token")
    finally:
        await guard.stop()


async def test_a_token_that_is_echoed_is_not_among_the_claims(issuer: Issuer):
    issuer.publish({"active": True, "sub": "alice", "token": "opaque-1", "exp": 9_999_999_999}, "/introspect")
    guard = Introspection(
        f"{issuer.url}/introspect",
        issuer=issuer.url,
        client_id="a:b",
        client_secret="c d",
        resource="https://x.example",
    )
    principal = await guard.verify("opaque-1")
    await guard.stop()
    assert "opaque-1" not in repr(dict(principal.claims))
    [(headers, form)] = issuer.forms
    assert base64.b64decode(headers["authorization"].removeprefix("Basic ")) == b"a%3Ab:c+d"
    assert form == b"token_type_hint=access_token&token=opaque-1"


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        ({"url": "http://auth.example/i"}, "url"),
        ({"client_id": ""}, "client_id"),
        ({"client_secret": ""}, "client_secret"),
        ({"method": "jwt"}, "method"),
        ({"issuer": "auth"}, "issuer"),
        ({"remember": 1e9}, "remember"),
    ],
)
def test_arguments_that_make_no_sense_are_refused_in_words(arguments: dict[str, object], complaint: str):
    good = {"issuer": "https://auth.example", "client_id": "me", "client_secret": "secret"}
    with pytest.raises(ConfigError, match=complaint):
        Introspection(**{**good, **arguments})
