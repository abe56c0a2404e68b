"""The Authorization header, the query string, and WWW-Authenticate."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from carrel.protocol.principal import AuthenticatedCaller, HTTPErrorResponse
from carrel.security import StaticTokens
from carrel.security.server.bearer import MalformedRequest, challenge, read_token
from carrel.security.server.static_tokens import make_token
from support.examples import examples

SCOPE: dict[str, Any] = {"path": "/mcp", "headers": [], "type": "http"}


@pytest.fixture(scope="module")
def known(tmp_path_factory: pytest.TempPathFactory) -> tuple[StaticTokens, str]:
    token, line = make_token("alice")
    path: Path = tmp_path_factory.mktemp("tokens") / "tokens.txt"
    path.write_text(line)
    return StaticTokens(path), token


def identify(guard: StaticTokens, header: bytes | None, query: bytes = b"") -> AuthenticatedCaller | HTTPErrorResponse:
    headers = {} if header is None else {b"authorization": header}
    found = asyncio.run(guard.identify({**SCOPE, "query_string": query}, headers, "/mcp"))
    assert b"authorization" not in headers
    return found


@pytest.mark.parametrize("header", [b"Bearer %b", b"bearer %b", b"BEARER %b", b"  Bearer   %b  ", b"Bearer %b\t"])
def test_the_scheme_may_be_in_any_case_and_have_space_around_it(known: tuple[StaticTokens, str], header: bytes):
    guard, token = known
    found = identify(guard, header % token.encode())
    assert isinstance(found, AuthenticatedCaller)
    assert found.principal.subject == "alice"


@pytest.mark.parametrize(
    "header",
    [
        b"Bearer",
        b"Bearer ",
        b"Bearer a b",
        b"Bearer a,b",
        b'Bearer "a"',
        b"Bearer ===",
        b"Bearer a=b",
        b"Bearer \xff",
        b"Bearer a\tb",
        b"Bearer " + b"a" * 16385,
    ],
)
def test_a_malformed_header_is_a_bad_request(known: tuple[StaticTokens, str], header: bytes):
    found = identify(known[0], header)
    assert isinstance(found, HTTPErrorResponse)
    assert found.status == 400
    assert b'error="invalid_request"' in found.headers[0][1]


@pytest.mark.parametrize("header", [None, b"", b"Basic YTpi", b"Bearertoken", b"DPoP abc", b"Digest x=1"])
def test_a_request_without_a_token_gets_a_challenge_without_an_error(known: tuple[StaticTokens, str], header: bytes):
    found = identify(known[0], header)
    assert isinstance(found, HTTPErrorResponse)
    assert found.status == 401
    assert b"error" not in found.headers[0][1]


@pytest.mark.parametrize(
    "query", [b"access_token=%b", b"a=1&access_token=%b", b"access%%5Ftoken=%b", b"ACCESS_TOKEN=%b"]
)
@pytest.mark.parametrize("also", [True, False])
def test_a_token_in_the_url_is_refused_even_beside_a_good_header(
    known: tuple[StaticTokens, str], query: bytes, also: bool
):
    guard, token = known
    found = identify(guard, b"Bearer " + token.encode() if also else None, query % token.encode())
    assert isinstance(found, HTTPErrorResponse)
    assert found.status == 400
    assert b'error="invalid_request"' in found.headers[0][1]
    assert token not in str(found)


@settings(max_examples=examples(125))
@given(header=st.binary(max_size=80) | st.binary(max_size=80).map(lambda rest: b"Bearer " + rest))
def test_any_header_is_a_token_or_none_or_malformed(header: bytes):
    try:
        token = read_token(header)
    except MalformedRequest:
        return
    if token is not None:
        assert token
        assert " " not in token
        assert token.isascii()


@settings(max_examples=examples(50), deadline=None)
@given(header=st.none() | st.binary(max_size=60).map(lambda rest: b"Bearer " + rest), query=st.binary(max_size=60))
def test_any_header_without_a_valid_token_is_answered_with_a_challenge(
    known: tuple[StaticTokens, str], header: bytes, query: bytes
):
    found = identify(known[0], header, query)
    assert isinstance(found, HTTPErrorResponse)
    assert found.status in (400, 401)
    [(name, value)] = found.headers
    assert name == b"www-authenticate"
    assert value.startswith(b"Bearer ")
    assert value.isascii()
    assert b"\n" not in value


def test_a_challenge_says_what_the_specification_has_in_it():
    made = challenge(401, "No", scopes={"files:read"}, metadata="https://mcp.example/.well-known/x")
    assert made.headers == [
        (
            b"www-authenticate",
            b'Bearer scope="files:read", resource_metadata="https://mcp.example/.well-known/x"',
        )
    ]
    made = challenge(403, 'It "lacks" \\ that: ä\n', "insufficient_scope", scopes={"b", "a"})
    assert made.headers[0][1] == (
        b'Bearer error="insufficient_scope", error_description="It \'lacks\' \' that: \'\'", scope="a b"'
    )
    assert challenge(401, "No").headers == [(b"www-authenticate", b'Bearer realm="mcp"')]
