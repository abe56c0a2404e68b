"""The OAuth proxy as a client of its upstream: ID tokens, endpoints, and an upstream that fails."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest
from joserfc.jwk import OctKey, RSAKey

from carrel.errors import AuthorizationError, ConfigError
from carrel.protocol.principal import Principal
from carrel.security import OAuthProxy
from carrel.security.server.bearer import InvalidToken, Unverifiable
from carrel.security.server.proxy import providers
from carrel.security.server.proxy.upstream import (
    IDTokens,
    Tenants,
    Upstream,
    UpstreamClient,
    UpstreamRejected,
    UpstreamTokens,
)
from support.login_provider import TENANT
from support.login_site import BareClient, site
from support.token_issuer import Issuer, sign

KEY = RSAKey.generate_key(2048, {"kid": "one", "alg": "RS256"})
WHO = ("id", "secret")
RESOURCE = "https://mcp.example.org/mcp"


def id_token(issuer: str, key: Any = KEY, header: dict[str, Any] | None = None, **changes: Any) -> str:
    claims = {
        "iss": issuer,
        "sub": "alice",
        "aud": "id",
        "exp": int(time.time()) + 60,
        "nonce": "n",
        "tid": TENANT,
        **changes,
    }
    given = {"alg": "RS256", "typ": "JWT", **(header or {})}
    return sign(key, {name: value for name, value in claims.items() if value is not None}, given)


@pytest.fixture
def keys(issuer: Issuer) -> str:
    document = json.dumps({"keys": [KEY.as_dict(private=False)]}).encode()
    issuer.pages["/keys"] = (200, {"content-type": "application/json"}, document)
    return f"{issuer.url}/keys"


def verifier(keys: str, issuer: str | Tenants, alias: str | None = None) -> IDTokens:
    upstream = Upstream(name="Test", client_id="id", client_secret="s", issuer=issuer, issuer_alias=alias)
    return IDTokens(upstream, keys)


@pytest.mark.parametrize("issuer_claim", ["https://accounts.google.com", "accounts.google.com"])
async def test_google_may_name_itself_in_two_ways(keys: str, issuer_claim: str) -> None:
    google = providers.google(*WHO)
    assert isinstance(google.issuer, str)
    found = await verifier(keys, google.issuer, google.issuer_alias).read(id_token(issuer_claim), "n")
    assert found["sub"] == "alice"


async def test_a_tenant_of_entra_has_its_own_issuer_and_the_claim_has_to_agree(keys: str) -> None:
    many = providers.entra(*WHO, tenant="common")
    assert isinstance(many.issuer, Tenants)
    tokens = verifier(keys, many.issuer)
    issuer = f"https://login.microsoftonline.com/{TENANT}/v2.0"
    assert (await tokens.read(id_token(issuer), "n"))["tid"] == TENANT
    for claim, changes in (
        (issuer, {"tid": "00000000-2222-3333-4444-555555555555"}),
        (issuer, {"tid": None}),
        ("https://login.microsoftonline.com/{tenantid}/v2.0", {}),
        ("https://login.microsoftonline.com/tenant/v2.0", {}),
        (f"https://login.microsoftonline.com/{TENANT}/v2.0/more", {}),
        (f"https://evil.example/{TENANT}/v2.0", {}),
    ):
        with pytest.raises(InvalidToken):
            await tokens.read(id_token(claim, **changes), "n")


@pytest.mark.parametrize(
    "changes",
    [
        {"aud": "another"},
        {"aud": ["id", "another"]},
        {"aud": ["id", "another"], "azp": "another"},
        {"azp": "another"},
        {"nonce": "other"},
        {"nonce": None},
        {"iss": "https://evil.example"},
        {"iss": None},
        {"exp": 1},
        {"exp": None},
        {"sub": None},
        {"header": {"alg": "none"}},
        {"header": {"typ": "logout+jwt"}},
        {"header": {"alg": "HS256"}, "key": OctKey.import_key("secret-secret-secret-secret-secret", {"kid": "one"})},
        {"key": RSAKey.generate_key(2048, {"kid": "one"})},
    ],
)
async def test_an_id_token_that_is_not_for_this_login_is_refused(keys: str, changes: dict[str, Any]) -> None:
    given = {"issuer": "https://auth.example", **changes}
    if given.get("header") == {"alg": "none"}:
        token = id_token("https://auth.example").rpartition(".")[0] + "."
    else:
        token = id_token(**given)
    with pytest.raises(InvalidToken):
        await verifier(keys, "https://auth.example").read(token, "n")


async def test_an_id_token_is_verified_each_time(keys: str) -> None:
    tokens, token = verifier(keys, "https://auth.example"), id_token("https://auth.example")
    await tokens.read(token, "n")
    assert tokens.remembered.get(token, tokens.clock()) is None


def test_presets_know_the_endpoints_of_their_providers() -> None:
    github = providers.github(*WHO)
    assert github.authorization_endpoint == "https://github.com/login/oauth/authorize"
    assert github.token_endpoint == "https://github.com/login/oauth/access_token"
    assert github.user_endpoint == "https://api.github.com/user"
    assert providers.google(*WHO).issuer == "https://accounts.google.com"
    assert providers.entra(*WHO, tenant=TENANT).issuer == f"https://login.microsoftonline.com/{TENANT}/v2.0"
    assert providers.auth0(*WHO, domain="team.eu.auth0.com", audience="api").issuer == "https://team.eu.auth0.com/"
    assert providers.auth0(*WHO, domain="team.eu.auth0.com", audience="api").parameters == {"audience": "api"}
    assert providers.keycloak(*WHO, realm_url="https://k.example/realms/a/").issuer == "https://k.example/realms/a"
    assert "secret" not in repr(github)


@pytest.mark.parametrize(
    ("make", "problem"),
    [
        (lambda: OAuthProxy.github(*WHO, resource=RESOURCE), "say who may log in, with admit"),
        (lambda: OAuthProxy.google(*WHO, resource=RESOURCE), "say who may log in, with admit"),
        (lambda: OAuthProxy.entra(*WHO, tenant="common", resource=RESOURCE), "say who may log in, with admit"),
        (lambda: OAuthProxy.entra(*WHO, tenant="contoso.com", resource=RESOURCE), "is neither a tenant id"),
        (lambda: OAuthProxy.auth0(*WHO, domain="a.auth0.com"), "needs resource="),
        (lambda: OAuthProxy.auth0("", "", domain="a.auth0.com", resource=RESOURCE), "client_id and client_secret"),
        (lambda: OAuthProxy.auth0(*WHO, domain="http://a.example", resource=RESOURCE), "must begin with https"),
        (lambda: OAuthProxy.keycloak(*WHO, realm_url="x", resource=RESOURCE), "is not a URL"),
        (lambda: OAuthProxy.auth0(*WHO, domain="a.auth0.com", resource=RESOURCE, keys=[b"x"]), "has 32 bytes"),
        (lambda: OAuthProxy.auth0(*WHO, domain="a.auth0.com", resource=RESOURCE, store="logins"), "needs keys"),
        (lambda: OAuthProxy.auth0(*WHO, domain="a.auth0.com", resource=RESOURCE, audience="x"), "has no audience"),
        (lambda: OAuthProxy.auth0(*WHO, domain="a.auth0.com", resource=RESOURCE, access_ttl=1), "access_ttl must be"),
        (lambda: OAuthProxy(Upstream(name="X", client_id="a", client_secret="b"), resource=RESOURCE), "all three"),
    ],
)
def test_what_is_missing_or_dangerous_is_an_error_at_once(make: Any, problem: str) -> None:
    with pytest.raises(ConfigError, match=problem):
        make()


def client_of(issuer: Issuer) -> UpstreamClient:
    upstream = Upstream(
        name="Test",
        client_id="id",
        client_secret="secret",
        authorization_endpoint=f"{issuer.url}/authorize",
        token_endpoint=f"{issuer.url}/token",
        user_endpoint=f"{issuer.url}/user",
    )
    return UpstreamClient(upstream, "https://mcp.example.org/callback", time.time)


@pytest.mark.parametrize(
    ("status", "document", "kind"),
    [
        (200, {"error": "bad_verification_code"}, UpstreamRejected),
        (400, {"error": "invalid_grant"}, UpstreamRejected),
        (401, {"error": "invalid_client"}, Unverifiable),
        (200, {"error": "incorrect_client_credentials"}, Unverifiable),
        (500, {}, Unverifiable),
        (200, {}, Unverifiable),
        (200, {"access_token": "a", "token_type": "mac"}, Unverifiable),
        (200, {"access_token": 5, "token_type": "bearer"}, Unverifiable),
        (200, [], Unverifiable),
        (200, {"access_token": "a", "token_type": "bearer"}, Unverifiable),  # and there is no user
    ],
)
async def test_a_token_response_that_is_not_one_is_refused(
    issuer: Issuer, status: int, document: Any, kind: type[Exception]
) -> None:
    issuer.pages["/token"] = (status, {"content-type": "application/json"}, json.dumps(document).encode())
    client = client_of(issuer)
    try:
        with pytest.raises(kind):
            await client.redeem("code", "verifier", "nonce")
    finally:
        await client.close()
    assert b"code_verifier=verifier" in issuer.forms[0][1]


@pytest.mark.parametrize(
    ("seconds", "expires"),
    [(3600, 3600), (0.5, 0.5), (0, None), (-1, None), ("60", None), (10**400, None)],
)
async def test_a_token_expires_after_its_seconds_if_they_are_a_number(
    issuer: Issuer, seconds: Any, expires: float | None
) -> None:
    issuer.publish({"access_token": "a", "token_type": "bearer", "expires_in": seconds}, "/token")
    client = client_of(issuer)
    client._clock = lambda: 1000.0
    tokens = await client.refresh(UpstreamTokens("old", "refresh"))
    assert tokens == UpstreamTokens("a", "refresh", None if expires is None else 1000 + expires)
    await client.close()


async def test_nothing_is_asked_for_without_a_refresh_token(issuer: Issuer) -> None:
    client = client_of(issuer)
    with pytest.raises(UpstreamRejected, match="there is no refresh token"):
        await client.refresh(UpstreamTokens("old"))
    assert issuer.forms == []
    await client.close()


@pytest.mark.parametrize(
    ("changes", "kind", "problem"),
    [
        ({}, None, ""),
        ({"nonce": "other"}, UpstreamRejected, "of another login"),
        ({"aud": "other"}, UpstreamRejected, "for another client"),
        (None, Unverifiable, "has sent no ID token"),
    ],
)
async def test_a_login_takes_an_id_token_for_it(
    keys: str, issuer: Issuer, changes: dict[str, Any] | None, kind: type[Exception] | None, problem: str
) -> None:
    issuer.publish(
        {"issuer": issuer.url, "jwks_uri": keys, "token_endpoint": f"{issuer.url}/token"},
        "/.well-known/oauth-authorization-server",
    )
    answer = {"access_token": "a", "token_type": "bearer"}
    issuer.publish(answer if changes is None else {**answer, "id_token": id_token(issuer.url, **changes)}, "/token")
    upstream = Upstream(name="Test", client_id="id", client_secret="secret", issuer=issuer.url)
    client = UpstreamClient(upstream, "https://mcp.example.org/callback", time.time)
    try:
        if kind is None:
            assert (await client.redeem("code", "verifier", "n"))[1].subject == "alice"
            return
        with pytest.raises(kind, match=problem):
            await client.redeem("code", "verifier", "n")
    finally:
        await client.close()


@pytest.mark.parametrize(("named", "fits"), [("{tenantid}", True), ("another", False), (None, False)])
async def test_the_metadata_of_tenants_are_about_their_issuer(issuer: Issuer, named: str | None, fits: bool) -> None:
    tenants = Tenants(f"{issuer.url}/metadata", f"{issuer.url}/{{tenantid}}/v2.0")
    issuer.publish(
        {
            "issuer": None if named is None else f"{issuer.url}/{named}/v2.0",
            "authorization_endpoint": f"{issuer.url}/authorize",
        },
        "/metadata",
    )
    upstream = Upstream(name="Test", client_id="id", client_secret="secret", issuer=tenants)
    client = UpstreamClient(upstream, "https://mcp.example.org/callback", time.time)
    try:
        if fits:
            assert (await client.authorization_url("s", "c", "n")).startswith(f"{issuer.url}/authorize?")
            return
        with pytest.raises(Unverifiable, match="is about the issuer"):
            await client.authorization_url("s", "c", "n")
    finally:
        await client.close()


@pytest.mark.parametrize("document", [{}, {"sub": ""}, {"sub": None}, {"sub": ["a"]}])
async def test_a_user_without_an_identity_is_refused(issuer: Issuer, document: Any) -> None:
    issuer.pages["/token"] = (200, {}, b'{"access_token": "a", "token_type": "bearer"}')
    issuer.pages["/user"] = (200, {}, json.dumps(document).encode())
    client = client_of(issuer)
    try:
        with pytest.raises(Unverifiable, match="does not say who the user is"):
            await client.redeem("code", "verifier", "nonce")
    finally:
        await client.close()


def test_an_upstream_that_cannot_be_reached_is_an_error_page_and_leaves_logins_alone() -> None:
    with site("github") as place:
        client = BareClient(place)
        tokens = client.tokens()
        place.provider.stop()
        place.pass_time(3700)
        answer = client.refresh(tokens["refresh_token"])
        assert (answer.status_code, answer.json()["error"]) == (503, "temporarily_unavailable")
        again = client.refresh(tokens["refresh_token"])
        assert again.status_code == 503  # and not a second use
    with site("keycloak") as place, place.browser() as browser:
        place.provider.stop()
        page = browser.submit(browser.open(BareClient(place).url()), decision="allow")
        assert page.status_code == 503
        assert "Keycloak cannot be reached" in page.text


async def test_there_is_no_upstream_token_for_a_caller_of_another_authorizer() -> None:
    proxy = OAuthProxy.auth0(*WHO, domain="a.auth0.com", resource=RESOURCE)
    for caller in (
        None,
        Principal(subject="alice"),
        Principal(subject="alice", issuer=proxy.issuer, token_id="made up"),
        Principal(subject="alice", issuer="https://a.auth0.com/", token_id="x"),
    ):
        with pytest.raises(AuthorizationError, match="has ended"):
            await proxy.upstream_token(caller)
