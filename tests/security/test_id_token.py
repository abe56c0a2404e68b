"""ID tokens in responses of token endpoints."""

from __future__ import annotations

import base64
import json
from collections.abc import AsyncIterator
from typing import Any

import pytest

from carrel.errors import AuthorizationError
from carrel.security.client import MemoryStore, OAuth
from carrel.security.id_token import LEEWAY, read_id_token
from carrel.security.server.bearer import InvalidToken
from support.authorization_server import Authority, running, visit

NOW = 1_000_000.0
GOOD = {"iss": "https://issuer", "sub": "alice", "aud": "app", "exp": NOW + 60, "iat": NOW, "nonce": "n"}
#: What makes an ID token invalid: claims that differ, and with None those that are missing.
BAD: list[dict[str, Any]] = [
    {"iss": "https://evil.example"},
    {"iss": None},
    {"aud": "another"},
    {"aud": ["another"]},
    {"aud": ["app", "another"]},
    {"aud": ["app", "another"], "azp": "another"},
    {"aud": {"app": 1}},
    {"aud": None},
    {"azp": "another"},
    {"exp": 1},
    {"exp": NOW - LEEWAY},
    {"exp": 10**400},
    {"exp": 1e12},
    {"iat": -(10**400)},
    {"exp": None},
    {"exp": "tomorrow"},
    {"exp": True},
    {"iat": None},
    {"nonce": "another"},
    {"nonce": None},
    {"sub": None},
    {"sub": ""},
    {"sub": ["alice"]},
]


def token(claims: Any, header: Any = None) -> str:
    parts = (header or {"alg": "RS256"}, claims, "signature")
    return ".".join(base64.urlsafe_b64encode(json.dumps(part).encode()).rstrip(b"=").decode() for part in parts)


def read(text: str) -> str:
    claims = read_id_token(text, issuer="https://issuer", client_id="app", nonce="n", now=NOW)
    return str(claims["sub"])


@pytest.mark.parametrize(
    "changes", [{}, {"aud": ["app"]}, {"aud": ["app", "other"], "azp": "app"}, {"exp": NOW - LEEWAY + 1}]
)
def test_an_id_token_for_this_login_says_who_the_user_is(changes: dict[str, Any]) -> None:
    assert read(token({**GOOD, **changes})) == "alice"


@pytest.mark.parametrize("changes", BAD)
def test_an_id_token_that_is_not_for_this_login_is_refused(changes: dict[str, Any]) -> None:
    claims = {name: value for name, value in {**GOOD, **changes}.items() if value is not None}
    with pytest.raises(InvalidToken):
        read(token(claims))


@pytest.mark.parametrize(
    "text",
    [
        "",
        "x",
        "..",
        "a.b.c",
        token([]),
        token(GOOD) + ".x.y",
        token(GOOD, {"alg": "none"}),
        token(GOOD, {"typ": "JWT"}),
    ],
)
def test_text_that_is_no_signed_id_token_is_refused(text: str) -> None:
    with pytest.raises(InvalidToken):
        read(text)


@pytest.fixture
async def authority() -> AsyncIterator[Authority]:
    """An authorization server that issues ID tokens."""
    async with running() as one:
        one.identity = {}
        yield one


async def subject(authority: Authority, *scopes: str) -> str | None:
    """Log in, and return the subject of the login."""
    who = OAuth(authorize=authority.browse, store=MemoryStore(), scopes=scopes)
    try:
        await visit(who, authority.resource)
        return None if who._token is None else who._token.subject
    finally:
        await who.close()


async def test_a_client_that_requests_an_id_token_knows_who_has_logged_in(authority: Authority) -> None:
    assert await subject(authority, "openid") == "alice"
    [request] = authority.requests()
    assert len(request["nonce"]) >= 32


@pytest.mark.parametrize("changes", BAD)
async def test_a_login_ends_if_its_id_token_is_not_valid(authority: Authority, changes: dict[str, Any]) -> None:
    authority.identity = changes
    with pytest.raises(AuthorizationError, match="sent an ID token that is not valid"):
        await subject(authority, "openid")


async def test_an_id_token_that_was_not_requested_counts_only_if_it_is_valid(authority: Authority) -> None:
    assert await subject(authority) == "alice"
    assert "nonce" not in authority.requests()[0]
    authority.identity = {"aud": "another"}
    found = {await subject(authority) for _ in range(2)}
    assert "alice" not in found
    assert len(found) == 2
