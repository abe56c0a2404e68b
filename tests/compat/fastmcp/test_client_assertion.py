"""Clients that authenticate by assertions, with the keys in their documents (CIMD): accepted and refused ones."""

from __future__ import annotations

import math
import time
from base64 import urlsafe_b64encode
from typing import Any

import pytest
from joserfc import jwt
from joserfc.jwk import ECKey, OctKey, RSAKey

from carrel.compat.fastmcp.server.auth.cimd import CIMDDocument
from carrel.compat.fastmcp.server.auth.client_assertion import ASSERTION_TYPE, AssertionValidator
from compat.fastmcp.test_oauth_proxy import APP, BASE, CHALLENGE, Browser, Proxy

CLIENT = "https://app.example/client"
TOKEN = f"{BASE}/token"
KEY = RSAKey.generate_key(2048, {"kid": "one"}, private=True)
OTHER = RSAKey.generate_key(2048, {"kid": "one"}, private=True)


def document(*keys: Any) -> CIMDDocument:
    facts: dict[str, Any] = {
        "client_id": CLIENT,
        "client_name": "<b>App</b>",
        "redirect_uris": [APP],
        "token_endpoint_auth_method": "private_key_jwt",
    }
    if keys:
        facts["jwks"] = {"keys": [key.as_dict(private=False) for key in keys]}
    return CIMDDocument.model_validate(facts)


def assertion(key: Any = KEY, algorithm: str = "RS256", **changes: Any) -> str:
    """Return an assertion of the client. A claim of None is left out."""
    now = int(time.time())
    claims = {"iss": CLIENT, "sub": CLIENT, "aud": TOKEN, "iat": now, "exp": now + 60, "jti": f"{now}", **changes}
    given = {name: value for name, value in claims.items() if value is not None}
    return jwt.encode({"alg": algorithm, "kid": "one"}, given, key, algorithms=[algorithm])


@pytest.mark.parametrize("audience", [TOKEN, BASE, [TOKEN, "https://other.example"]])
async def test_an_assertion_is_accepted_once(audience: Any) -> None:
    validator = AssertionValidator([TOKEN, BASE])
    given = assertion(aud=audience)
    await validator.validate(given, CLIENT, document(KEY))
    with pytest.raises(ValueError, match="replay"):
        await validator.validate(given, CLIENT, document(KEY))
    await validator.validate(assertion(jti="another"), CLIENT, document(KEY))


async def test_keys_of_elliptic_curves_sign_too() -> None:
    key = ECKey.generate_key("P-256", {"kid": "one"}, private=True)
    await AssertionValidator([TOKEN]).validate(assertion(key, "ES256"), CLIENT, document(key))


@pytest.mark.parametrize(
    ("changes", "complaint"),
    [
        ({"iss": "https://evil.example"}, "Invalid JWT assertion"),
        ({"sub": "https://evil.example"}, "sub claim"),
        ({"sub": None}, "sub claim"),
        ({"aud": "https://other.example/token"}, "Invalid JWT assertion"),
        ({"aud": None}, "Invalid JWT assertion"),
        ({"exp": None}, "exp claim"),
        ({"exp": 1}, "Invalid JWT assertion"),
        ({"exp": time.time() + 3600}, "lifetime too long"),
        ({"iat": None, "exp": time.time() + 3600}, "lifetime too long"),
        ({"iat": 1}, "lifetime too long"),
        ({"iat": time.time() + 3000, "exp": time.time() + 3100}, "in the future"),
        ({"exp": math.nan}, "assertion|lifetime"),
        ({"iat": math.nan}, "assertion|future"),
        ({"jti": None}, "jti claim"),
        ({"jti": 1}, "jti claim"),
    ],
)
async def test_claims_that_do_not_name_the_client_this_server_or_a_short_time_are_refused(
    changes: dict[str, Any], complaint: str
) -> None:
    with pytest.raises(ValueError, match=complaint):
        await AssertionValidator([TOKEN]).validate(assertion(**changes), CLIENT, document(KEY))


async def test_other_keys_and_algorithms_are_refused() -> None:
    validator = AssertionValidator([TOKEN])
    secret = OctKey.import_key(b"s" * 32, {"kid": "one"})
    for given in (assertion(OTHER), assertion(secret, "HS256"), "no.token", "", assertion()[:-4] + "AAAA"):
        with pytest.raises(ValueError, match=r"[Aa]ssertion"):
            await validator.validate(given, CLIENT, document(KEY))
    with pytest.raises(ValueError, match="jwks_uri or jwks"):
        await validator.validate(assertion(), CLIENT, document())


async def test_an_assertion_whose_json_is_nested_too_deep_is_refused() -> None:
    header = urlsafe_b64encode(b"[" * 20_000 + b"]" * 20_000).rstrip(b"=").decode()
    with pytest.raises(ValueError, match="nested too deep"):
        await AssertionValidator([TOKEN]).validate(f"{header}.e30.AA", CLIENT, document(KEY))


async def test_a_changed_document_has_other_keys_at_once() -> None:
    validator = AssertionValidator([TOKEN])
    await validator.validate(assertion(), CLIENT, document(KEY))
    with pytest.raises(ValueError, match="Invalid JWT assertion"):
        await validator.validate(assertion(jti="2"), CLIENT, document(OTHER))
    await validator.validate(assertion(OTHER, jti="3"), CLIENT, document(OTHER))


async def test_a_documented_client_gets_tokens_with_its_assertion_alone() -> None:
    proxy = Proxy()
    assert proxy._cimd_fetcher is not None
    proxy._cimd_fetcher._known[CLIENT] = math.inf, document(KEY)
    browser = Browser(proxy)
    query = {"response_type": "code", "client_id": CLIENT, "redirect_uri": APP, "code_challenge": CHALLENGE}

    async def begin(**changes: Any) -> str:
        browser.client = CLIENT
        response = await browser.http.get("/authorize", params={**query, "state": "state of the app"})
        return str(response.headers["location"])

    browser.begin = begin  # type: ignore[method-assign]
    async with browser.http as http:
        metadata = (await http.get("/.well-known/oauth-authorization-server")).json()
        assert "private_key_jwt" in metadata["token_endpoint_auth_methods_supported"]
        code = await browser.code()
        proof = {"client_assertion_type": ASSERTION_TYPE, "client_assertion": assertion(jti="a")}
        for wrong in (
            {},
            {"client_assertion": proof["client_assertion"]},
            {"client_assertion_type": ASSERTION_TYPE},
            {**proof, "client_assertion": assertion(OTHER)},
        ):
            refused = await browser.exchange(code, **wrong)
            assert (refused.status_code, refused.json()["error"]) == (401, "invalid_client")
        assert (await browser.exchange(code, **proof)).status_code == 200
