"""Tokens that are bound to a key (RFC 9449)."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Callable
from typing import Any

import pytest
from joserfc import jwt
from joserfc.jwk import ECKey

from carrel.errors import AuthorizationError
from carrel.security.client import MemoryStore, OAuth
from support.authorization_server import Authority, visit
from support.clock import Clock

Make = Callable[..., OAuth]


def read(proof: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the header and the claims of a proof, whose signature has been found to be good."""
    header = jwt.decode(proof, _key(proof), algorithms=["ES256"]).header
    return header, jwt.decode(proof, _key(proof), algorithms=["ES256"]).claims


def _key(proof: str) -> ECKey:
    import json

    piece = proof.split(".")[0]
    return ECKey.import_key(json.loads(base64.urlsafe_b64decode(piece + "=" * (-len(piece) % 4)))["jwk"])


@pytest.fixture
def bound(authority: Authority) -> Authority:
    """A server that wants tokens bound to keys."""
    authority.protected["dpop_bound_access_tokens_required"] = True
    authority.metadata["dpop_signing_alg_values_supported"] = ["ES256", "RS256"]
    authority.issue = {"token_type": "DPoP"}
    return authority


async def test_every_request_has_a_proof_of_its_own(bound: Authority, user: Make, clock: Clock):
    who = user(clock=clock)
    for _ in range(2):
        assert await visit(who, f"{bound.resource}?a=b") == 200
    [exchange] = bound.at("/token")
    header, claims = read(exchange.headers["dpop"])
    assert (header["typ"], header["alg"], set(header["jwk"])) == ("dpop+jwt", "ES256", {"kty", "crv", "x", "y"})
    assert (claims["htm"], claims["htu"], claims["iat"]) == ("POST", f"{bound.url}/token", int(clock.now))
    assert "ath" not in claims
    first, second = [one for one in bound.at("/mcp") if "dpop" in one.headers]
    token = first.headers["authorization"].removeprefix("DPoP ")
    digest = base64.urlsafe_b64encode(hashlib.sha256(token.encode()).digest()).rstrip(b"=").decode()
    found = [read(one.headers["dpop"]) for one in (first, second)]
    assert [claims["ath"] for _, claims in found] == [digest, digest]
    assert {claims["htu"] for _, claims in found} == {bound.resource}  # without the query
    assert len({claims["jti"] for _, claims in found}) == 2
    assert {header["jwk"]["x"] for header, _ in found} == {header["jwk"]["x"] for header in [header]}
    _, claims = read((await who.headers(bound.resource, "GET"))["dpop"])
    assert claims["htm"] == "GET"


async def test_nonces_are_taken_from_both_servers(bound: Authority, user: Make):
    nonces = {"/token": "for-the-issuer", "/mcp": "for-the-server"}

    def wants(path: str, real: Any) -> Any:
        async def answer(asked: Any) -> Any:
            proof = asked.headers.get("dpop")
            if proof is None or read(proof)[1].get("nonce") == nonces[path]:
                return await real(asked)
            response = bound.challenge(400 if path == "/token" else 401, None)
            if path == "/token":
                response = type(response)(
                    status=400, body=b'{"error": "use_dpop_nonce"}', content_type="application/json"
                )
            else:
                response.headers["www-authenticate"] = 'DPoP error="use_dpop_nonce"'
            response.headers["dpop-nonce"] = nonces[path]
            return response

        return answer

    bound.token = wants("/token", bound.token)  # type: ignore[method-assign]
    bound.protect = wants("/mcp", bound.protect)  # type: ignore[method-assign]
    who = user()
    assert await visit(who, bound.resource) == 200
    assert len(bound.at("/token")) == 2
    nonces["/mcp"] = "another"
    assert await visit(who, bound.resource) == 200
    assert len(bound.requests()) == 1


async def test_a_server_that_is_never_content_with_a_nonce_is_given_up_on(bound: Authority, user: Make):
    from aiohttp import web

    who = user()
    assert await visit(who, bound.resource) == 200
    challenge = 'DPoP error="use_dpop_nonce"'
    bound.responses["/mcp"] = web.Response(status=401, headers={"www-authenticate": challenge, "dpop-nonce": "same"})
    with pytest.raises(AuthorizationError, match="does not accept the access tokens"):
        await visit(who, bound.resource, rounds=20)


async def test_a_bound_token_can_be_used_the_next_time_too(bound: Authority, user: Make, clock: Clock):
    bound.issue |= {"refresh_token": "r", "expires_in": 100}
    store = MemoryStore()
    await visit(user(store=store, clock=clock), bound.resource)
    again = user(store=store, clock=clock)
    assert await visit(again, bound.resource) == 200
    clock.now += 100
    assert await visit(again, bound.resource) == 200
    keys = {read(one.headers["dpop"])[0]["jwk"]["x"] for one in bound.asked if "dpop" in one.headers}
    assert len(keys) == 1
    assert len(bound.requests()) == 1


@pytest.mark.parametrize(
    ("wanted", "asked", "offered", "outcome"),
    [
        (None, False, True, "Bearer"),
        (None, True, True, "DPoP"),
        (True, False, True, "DPoP"),
        (False, True, True, "Bearer"),
        (None, True, False, "binds no tokens"),
        (True, False, False, "binds no tokens"),
    ],
)
async def test_tokens_are_bound_where_the_server_or_the_user_says_so(
    authority: Authority, user: Make, wanted: bool | None, asked: bool, offered: bool, outcome: str
):
    authority.protected["dpop_bound_access_tokens_required"] = asked
    authority.metadata["dpop_signing_alg_values_supported"] = ["ES256"] if offered else None
    authority.issue = {"token_type": outcome}
    who = user(dpop=wanted)
    if " " in outcome:
        with pytest.raises(AuthorizationError, match=outcome):
            await visit(who, authority.resource)
        assert authority.at("/token") == []
    else:
        assert await visit(who, authority.resource) == 200
        assert (await who.headers(authority.resource))["authorization"].startswith(f"{outcome} ")


async def test_a_token_that_is_not_bound_is_not_taken_for_one_that_is(bound: Authority, user: Make):
    bound.issue = {"token_type": "Bearer"}
    with pytest.raises(AuthorizationError, match="not bound to a key"):
        await visit(user(dpop=True), bound.resource)
