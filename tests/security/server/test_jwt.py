"""Verifying JWTs: what is accepted, and that everything else is refused with words that may leave the server."""

from __future__ import annotations

import asyncio
import base64
import json
import time
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from joserfc.jwk import ECKey, OctKey, OKPKey, RSAKey

from carrel.errors import ConfigError
from carrel.security import Authorization
from carrel.security.server.bearer import InvalidToken, Unverifiable
from carrel.security.server.metadata import canonical
from support.examples import examples
from support.token_issuer import Issuer, sign

RESOURCE = "https://mcp.example/mcp"
SCOPE: dict[str, Any] = {"path": "/mcp", "headers": [], "type": "http"}


async def holder(authorization: Authorization, token: str) -> str:
    """Return who a token belongs to, after everything that a request goes through."""
    principal = await authorization.verify(token)
    authorization.check_audience(principal, SCOPE, "/mcp")
    return principal.subject


async def refusal(authorization: Authorization, token: str) -> str:
    with pytest.raises(InvalidToken) as caught:
        await holder(authorization, token)
    return str(caught.value)


@pytest.fixture
def guard(issuer: Issuer) -> Authorization:
    return Authorization(issuer.url, resource=RESOURCE)


async def test_a_good_token_tells_who_calls(issuer: Issuer, guard: Authorization):
    principal = await guard.verify(issuer.token(scope="a b", act={"sub": "bob"}))
    assert (principal.subject, principal.client, principal.token_id) == ("alice", "app", "1")
    assert principal.scopes == {"a", "b"}
    assert principal.claims["act"] == {"sub": "bob"}
    assert principal.audience == {RESOURCE}
    assert principal.id == json.dumps([issuer.url, "alice", "app"], separators=(",", ":"))
    assert "bob" not in repr(principal)


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"exp": 1}, "expired"),
        ({"exp": None}, "has no expiry"),
        ({"exp": "9999999999"}, "not a time"),
        ({"exp": True}, "not a time"),
        ({"exp": 1e300}, "not a time"),
        ({"nbf": 9_999_999_999}, "not valid yet"),
        ({"nbf": []}, "not a time"),
        ({"aud": None}, "not issued for https://mcp.example/mcp"),
        ({"aud": []}, "not issued for"),
        ({"aud": {"https://mcp.example/mcp": 1}}, "not issued for"),
        ({"aud": "https://mcp.example"}, "not issued for"),
        ({"aud": "https://mcp.example/mcp2"}, "not issued for"),
        ({"aud": "https://mcp.example/mcp/x"}, "not issued for"),
        ({"aud": "http://mcp.example/mcp"}, "not issued for"),
        ({"aud": "https://mcp.example:8443/mcp"}, "not issued for"),
        ({"aud": "https://mcp.example/MCP"}, "not issued for"),
        ({"iss": None}, "issuer that is not accepted"),
        ({"iss": "https://evil.example"}, "issuer that is not accepted"),
        ({"iss": ["a"]}, "issuer that is not accepted"),
        ({"sub": None, "client_id": None}, "has no subject"),
        ({"sub": 7}, "has no subject"),
    ],
)
async def test_claims_that_do_not_hold_are_refused(
    issuer: Issuer, guard: Authorization, changes: dict[str, Any], reason: str
):
    assert reason in await refusal(guard, issuer.token(**changes))


@pytest.mark.parametrize(
    "changes",
    [
        {"aud": ["https://other.example", "HTTPS://MCP.Example/mcp"]},
        {"aud": "https://mcp.example:443/mcp/"},
        {"nbf": 1},
        {"sub": None},
        {"exp": 9_999_999_999.5},
        {"scope": None},
        {"scope": 5},
    ],
)
async def test_claims_that_hold_are_accepted_in_every_form(
    issuer: Issuer, guard: Authorization, changes: dict[str, Any]
):
    assert await holder(guard, issuer.token(**changes)) == ("app" if "sub" in changes else "alice")


async def test_scopes_may_be_a_text_or_a_list_under_either_name(issuer: Issuer, guard: Authorization):
    for claims in (
        {"scope": "a b"},
        {"scope": ["a", "b"]},
        {"scope": None, "scp": "a b"},
        {"scope": None, "scp": ["a", "b"]},
    ):
        assert (await guard.verify(issuer.token(**claims))).scopes == {"a", "b"}


async def test_clocks_may_differ_by_a_little(issuer: Issuer):
    guard = Authorization(issuer.url, resource=RESOURCE, leeway=10)
    now = time.time()
    assert await holder(guard, issuer.token(exp=now - 5)) == "alice"
    assert await holder(guard, issuer.token(nbf=now + 5)) == "alice"
    assert "expired" in await refusal(guard, issuer.token(exp=now - 15))
    assert "not valid yet" in await refusal(guard, issuer.token(nbf=now + 15))


async def test_an_expiry_that_is_null_is_no_expiry(issuer: Issuer, guard: Authorization):
    token = sign(issuer.key, {**issuer.claims(), "exp": None})
    assert "has no expiry" in await refusal(guard, token)


@pytest.mark.parametrize("kind", ["at+jwt", "AT+JWT", "application/at+jwt", "JWT", None])
async def test_access_tokens_by_every_name_are_accepted(issuer: Issuer, guard: Authorization, kind: str | None):
    assert await holder(guard, sign(issuer.key, issuer.claims(), {"typ": kind})) == "alice"


@pytest.mark.parametrize(
    "header",
    [
        {"typ": "logout+jwt"},
        {"typ": "dpop+jwt"},
        {"typ": 5},
        {"typ": "at+jwt "},
        {"crit": ["exp"], "exp": 5},
        {"crit": []},
        {"b64": False, "crit": ["b64"]},
        {"kid": 5},
        {"kid": ["first"]},
    ],
)
async def test_headers_that_are_not_understood_are_refused(
    issuer: Issuer, guard: Authorization, header: dict[str, Any]
):
    head = base64.urlsafe_b64encode(json.dumps({"alg": "ES256", "kid": "first", **header}).encode()).rstrip(b"=")
    body = issuer.token().split(".", 1)[1]
    await refusal(guard, f"{head.decode()}.{body}")


async def test_keys_in_the_token_itself_are_not_looked_at(issuer: Issuer, guard: Authorization):
    other = ECKey.generate_key("P-256", {"kid": "first"})
    issuer.publish({"keys": [other.as_dict()]}, "/evil")
    header = {"jwk": other.as_dict(), "jku": f"{issuer.url}/evil", "x5u": f"{issuer.url}/evil"}
    assert "signature" in await refusal(guard, sign(other, issuer.claims(), header))
    assert "/evil" not in issuer.seen
    assert (
        await holder(guard, sign(issuer.key, issuer.claims(), {"jku": f"{issuer.url}/evil", "made": "up"})) == "alice"
    )


async def test_a_public_key_is_not_taken_for_a_shared_secret(issuer: Issuer, guard: Authorization):
    rsa = RSAKey.generate_key(2048, {"kid": "rsa"})
    issuer.publish({"keys": [rsa.as_dict(), issuer.key.as_dict()]}, "/jwks")
    for secret in (rsa.as_pem(private=False), json.dumps(rsa.as_dict()).encode(), rsa.as_der(private=False)):
        shared = OctKey.import_key(base64.b64encode(secret))
        assert "algorithm" in await refusal(guard, sign(shared, issuer.claims(), {"alg": "HS256", "kid": "rsa"}))


async def test_shared_secrets_among_the_keys_are_left_out(issuer: Issuer, guard: Authorization):
    shared = OctKey.import_key("k" * 32, {"kid": "shared"})
    issuer.publish({"keys": [shared.as_dict(private=True), issuer.key.as_dict()]}, "/jwks")
    assert "algorithm" in await refusal(guard, sign(shared, issuer.claims(), {"alg": "HS256"}))
    assert await holder(guard, issuer.token()) == "alice"


@pytest.mark.parametrize("algorithm", ["none", "None", "NONE", "HS256", "RS1", "", "es256", "ES256K", 5, None])
async def test_no_other_algorithm_is_accepted(issuer: Issuer, guard: Authorization, algorithm: Any):
    head = base64.urlsafe_b64encode(json.dumps({"alg": algorithm, "kid": "first"}).encode()).rstrip(b"=").decode()
    body = issuer.token().split(".")[1]
    for signature in ("", issuer.token().split(".")[2]):
        assert "algorithm" in await refusal(guard, f"{head}.{body}.{signature}")


async def test_a_key_is_for_its_algorithm_and_its_issuer_only(issuer: Issuer):
    other = Issuer()
    try:
        rsa = RSAKey.generate_key(2048, {"kid": "rsa", "alg": "RS256"})
        encrypting = ECKey.generate_key("P-256", {"kid": "encrypting", "use": "enc"})
        signing = ECKey.generate_key("P-256", {"kid": "signing", "key_ops": ["sign"]})
        issuer.publish({"keys": [rsa.as_dict(), encrypting.as_dict(), signing.as_dict()]}, "/jwks")
        guard = Authorization([issuer.url, other.url], resource=RESOURCE)
        assert await holder(guard, sign(rsa, issuer.claims(), {"alg": "RS256"})) == "alice"
        assert "key" in await refusal(guard, sign(rsa, issuer.claims(), {"alg": "PS256"}))
        assert "key" in await refusal(guard, sign(encrypting, issuer.claims()))
        assert "key" in await refusal(guard, sign(signing, issuer.claims()))
        assert await holder(guard, other.token()) == "alice"
        assert "key" in await refusal(guard, sign(other.key, issuer.claims()))
    finally:
        other.close()


async def test_a_token_that_does_not_name_its_key_is_tried_with_those_that_fit(issuer: Issuer, guard: Authorization):
    keys = [ECKey.generate_key("P-256", {"kid": str(number)}) for number in range(3)]
    issuer.publish({"keys": [OKPKey.generate_key("Ed25519").as_dict(), *(key.as_dict() for key in keys)]}, "/jwks")
    assert await holder(guard, sign(keys[2], issuer.claims(), {"kid": None})) == "alice"
    assert "signature" in await refusal(guard, sign(issuer.key, issuer.claims(), {"kid": None}))


@pytest.mark.parametrize(("declared", "used"), [("EdDSA", "Ed25519"), ("Ed25519", "EdDSA"), (None, "EdDSA")])
async def test_both_names_of_ed25519_are_one(issuer: Issuer, guard: Authorization, declared: str | None, used: str):
    key = OKPKey.generate_key("Ed25519", {"kid": "ed", **({"alg": declared} if declared else {})})
    issuer.publish({"keys": [key.as_dict()]}, "/jwks")
    with pytest.warns(match="deprecated") if used == "EdDSA" else no_warning():
        token = sign(key, issuer.claims(), {"alg": used})
    assert await holder(guard, token) == "alice"


def no_warning() -> Any:
    from contextlib import nullcontext

    return nullcontext()


@pytest.mark.parametrize("name", ["size", "kty", "point", "kid", "text", "many"])
async def test_keys_that_are_none_are_left_out_and_the_others_are_used(issuer: Issuer, guard: Authorization, name: str):
    good = issuer.key.as_dict()
    with pytest.warns(match="2048") if name == "size" else no_warning():
        bad: list[Any] = {
            "size": lambda: [RSAKey.generate_key(1024).as_dict()],
            "kty": lambda: [{"kty": ["EC"]}, {"kty": "new"}, {}, {"kty": "EC"}, {"kty": None}],
            "point": lambda: [{**good, "x": good["y"]}, {**good, "x": 5}, {**good, "crv": "P-999"}, {**good, "x": "!"}],
            "kid": lambda: [{**good, "kid": ["first"]}, {**good, "alg": 5, "kid": "x"}],
            "text": lambda: ["key", None, 5, []],
            "many": list,
        }[name]()
    issuer.publish({"keys": [*bad, good]}, "/jwks")
    assert await holder(guard, issuer.token()) == "alice"


async def test_tokens_that_were_found_good_are_not_verified_again_for_a_while(issuer: Issuer):
    guard = Authorization(issuer.url, resource=RESOURCE, remember=60)
    token = issuer.token()
    first = await guard.verify(token)
    assert await guard.verify(token) is first
    later = time.monotonic() + 61
    guard.monotonic = lambda: later
    assert await guard.verify(token) is not first
    guard = Authorization(issuer.url, resource=RESOURCE, remember=0)
    assert await guard.verify(token) is not await guard.verify(token)


async def test_a_key_that_is_gone_takes_its_tokens_along(issuer: Issuer, guard: Authorization):
    old = issuer.token()
    assert await holder(guard, old) == "alice"
    issuer.key = ECKey.generate_key("P-256", {"kid": "second"})
    issuer.publish({"keys": [issuer.key.as_dict()]}, "/jwks")
    later = time.monotonic() + 31  # less than a token is remembered for
    guard.monotonic = lambda: later
    assert await holder(guard, issuer.token()) == "alice"
    assert "key" in await refusal(guard, old)


async def test_unknown_keys_are_looked_for_now_and_then_only(issuer: Issuer, guard: Authorization):
    stranger = ECKey.generate_key("P-256")
    for number in range(50):
        await refusal(guard, sign(stranger, issuer.claims(), {"kid": str(number)}))
    assert issuer.seen.count("/jwks") == 1


async def storm(guard: Authorization, issuer: Issuer, seconds: int) -> None:
    """Have tokens with made-up names of keys verified, twenty in each second."""
    stranger = ECKey.generate_key("P-256")
    begun = guard.monotonic()
    for number in range(seconds * 20):
        guard.monotonic = lambda: begun + number / 20  # noqa: B023
        await refusal(guard, sign(stranger, issuer.claims(), {"kid": f"{begun} {number}"}))


async def test_a_new_key_is_found_within_seconds_of_a_storm_of_unknown_ones(issuer: Issuer, guard: Authorization):
    await storm(guard, issuer, 2)
    issuer.key = ECKey.generate_key("P-256", {"kid": "second"})
    issuer.publish({"keys": [issuer.key.as_dict()]}, "/jwks")
    rotated = guard.monotonic()
    guard.monotonic = lambda: rotated + 1
    assert await holder(guard, issuer.token()) == "alice"


async def test_a_new_key_is_found_within_seconds_in_the_middle_of_a_storm_that_the_issuer_hardly_notices(
    issuer: Issuer, guard: Authorization
):
    await storm(guard, issuer, 40)
    assert issuer.seen.count("/jwks") <= 40 / 5 + 5
    issuer.key = ECKey.generate_key("P-256", {"kid": "second"})
    issuer.publish({"keys": [issuer.key.as_dict()]}, "/jwks")
    await storm(guard, issuer, 6)
    fetched = issuer.seen.count("/jwks")
    assert await holder(guard, issuer.token()) == "alice"
    assert issuer.seen.count("/jwks") == fetched, "the storm itself has had the new key fetched"


async def test_many_at_once_ask_for_the_keys_once(issuer: Issuer, guard: Authorization):
    tokens = [issuer.token(sub=f"user {number}") for number in range(50)]
    found = await asyncio.gather(*(guard.verify(token) for token in tokens))
    assert [principal.subject for principal in found] == [f"user {number}" for number in range(50)]
    assert issuer.seen == ["/.well-known/oauth-authorization-server", "/jwks"]


async def test_many_at_once_do_not_queue_up_for_an_issuer_that_fails(issuer: Issuer, guard: Authorization):
    del issuer.pages["/jwks"]
    found = await asyncio.gather(*(guard.verify(issuer.token()) for _ in range(50)), return_exceptions=True)
    assert {type(error) for error in found} == {Unverifiable}
    assert issuer.seen.count("/jwks") == 1


async def test_keys_that_have_moved_are_found_again(issuer: Issuer, guard: Authorization):
    assert await holder(guard, issuer.token()) == "alice"
    issuer.pages["/elsewhere"] = issuer.pages.pop("/jwks")
    metadata = {"issuer": issuer.url, "jwks_uri": f"{issuer.url}/elsewhere"}
    issuer.publish(metadata, "/.well-known/oauth-authorization-server")
    now = time.monotonic()
    guard.monotonic = lambda: now + 3601
    assert await holder(guard, issuer.token(jti="2")) == "alice"  # with the old keys
    guard.monotonic = lambda: now + 3640
    assert await holder(guard, issuer.token(jti="3")) == "alice"
    assert issuer.seen.count("/elsewhere") == 1


async def test_the_place_of_the_keys_may_be_given(issuer: Issuer):
    issuer.pages["/k"] = issuer.pages.pop("/jwks")
    guard = Authorization(issuer.url, resource=RESOURCE, jwks_uri=f"{issuer.url}/k")
    assert await holder(guard, issuer.token()) == "alice"
    assert issuer.seen == ["/k"]


@pytest.mark.parametrize("depth", [100, 500, 900, 999, 1500, 5000])
async def test_headers_that_are_nested_deeply_are_refused(issuer: Issuer, guard: Authorization, depth: int):
    head = b'{"alg":"ES256","kid":"first","x":' + b"[" * depth + b"]" * depth + b"}"
    await refusal(guard, f"{piece(head)}.{issuer.token().split('.')[1]}.{'A' * 86}")


text = st.text(alphabet=st.characters(codec="ascii", exclude_characters="\x00"), max_size=200)
json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=10), inner, max_size=4),
    max_leaves=12,
)
names = st.sampled_from(["alg", "typ", "kid", "crit", "b64", "jwk", "x5c", "iss", "aud", "exp", "nbf", "sub", "scope"])
objects = st.dictionaries(names, json_values | st.sampled_from(["ES256", "first", "at+jwt"]), max_size=8)
raw = st.binary(max_size=60)


def piece(value: Any) -> str:
    data = value if isinstance(value, bytes) else json.dumps(value).encode("utf-8", "surrogatepass")
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


tokens = st.one_of(
    text,
    st.builds(lambda *parts: ".".join(map(piece, parts)), objects | raw, objects | raw, raw),
    st.lists(text, min_size=2, max_size=5).map(".".join),
)


@settings(max_examples=examples(50), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(token=tokens)
def test_any_text_as_a_token_is_refused_properly(guard: Authorization, token: str):
    async def attempt() -> None:
        with pytest.raises(InvalidToken):
            await guard.verify(token)

    asyncio.run(attempt())


@settings(max_examples=examples(25), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(header=objects, claims=objects | raw)
def test_whatever_the_issuer_signs_is_verified_or_refused(
    issuer: Issuer, guard: Authorization, header: dict[str, Any], claims: Any
):
    if isinstance(claims, dict):
        claims = {**issuer.claims(), **claims}
    signed = f"{piece({'alg': 'ES256', 'kid': 'first', **header})}.{piece(claims)}"
    signature = sign(issuer.key, b"").rsplit(".")[2]

    async def attempt() -> None:
        with pytest.raises(InvalidToken):
            await guard.verify(f"{signed}.{signature}")

    asyncio.run(attempt())


@pytest.mark.parametrize(
    "claims",
    [
        b"[" * 100_000,
        b'{"a":' * 20_000,
        b"\xff",
        b"{}",
        b"null",
        b'{"exp":NaN}',
        b'{"exp":1e999}',
        b'{"iss":"a","iss":"b"}',
    ],
)
async def test_payloads_that_are_no_claims_are_refused(issuer: Issuer, guard: Authorization, claims: bytes):
    await refusal(guard, f"{piece({'alg': 'ES256'})}.{piece(claims)}.{'A' * 86}")


@given(uri=st.text(max_size=60))
def test_the_canonical_form_of_a_canonical_form_is_itself(uri: str):
    assert canonical(canonical(uri)) == canonical(uri)


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        ({"issuer": "auth.example"}, "not a URL"),
        ({"issuer": "http://auth.example"}, "must begin with https://"),
        ({"issuer": "https://auth.example?x"}, "query"),
        ({"issuer": "https://user@auth.example"}, "neither a user"),
        ({"issuer": "https://auth.example#x"}, "neither a user nor a fragment"),
        ({"issuer": "https://[::1"}, "not a URL"),
        ({"issuer": "https://auth.example:99999"}, "not a URL"),
        ({"issuer": []}, "needs an issuer"),
        ({"issuer": ""}, "not a URL"),
        ({"resource": "mcp.example"}, "resource"),
        ({"resource": "http://mcp.example/mcp"}, "must begin with https://"),
        ({"resource": "https://mcp.example/mcp#x"}, "fragment"),
        ({"resource": "https://mcp.example/mcp?x"}, "query"),
        ({"audience": ""}, "audience"),
        ({"audience": []}, "audience"),
        ({"algorithms": ["none"]}, "none"),
        ({"algorithms": ["HS256"]}, "HS256"),
        ({"algorithms": []}, "none"),
        ({"leeway": -1}, "leeway"),
        ({"leeway": 3600}, "leeway"),
        ({"remember": -1}, "remember"),
        ({"keys_pause": 0}, "keys_pause"),
        ({"jwks_uri": "http://auth.example/jwks"}, "jwks_uri"),
        ({"issuer": ["https://a.example", "https://b.example"], "jwks_uri": "https://a.example/k"}, "one issuer"),
        ({"scopes": {"tool/call": "x"}}, "'tool/call' is neither"),
        ({"scopes": {"*": 'a"b'}}, "not a scope"),
        ({"scopes": {"*": "offline_access"}}, "offline_access"),
        ({"implies": {"a b": "c"}}, "implies"),
    ],
)
def test_arguments_that_make_no_sense_are_refused_in_words(arguments: dict[str, Any], complaint: str):
    with pytest.raises(ConfigError, match=complaint):
        Authorization(**{"issuer": "https://auth.example", **arguments})
