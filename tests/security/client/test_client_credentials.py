"""Credentials without a user: applications, workloads, enterprises."""

from __future__ import annotations

import base64
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest
from joserfc import jwt
from joserfc.jwk import ECKey, OKPKey, RSAKey

from carrel.errors import AuthorizationError, ConfigError
from carrel.security.client import (
    Bearer,
    ClientCredentials,
    EnterpriseAuthorization,
    MemoryStore,
    PrivateKey,
    WorkloadIdentity,
)
from carrel.transports.client.transport import AuthorizationRejection
from support.authorization_server import Authority, running, visit
from support.clock import Clock

JWT_BEARER = "urn:ietf:params:oauth:grant-type:jwt-bearer"
ID_JAG = "urn:ietf:params:oauth:token-type:id-jag"


@pytest.fixture
async def closing() -> AsyncIterator[Callable[[Any], Any]]:
    """Close credentials after a test."""
    made: list[Any] = []

    def keep(one: Any) -> Any:
        made.append(one)
        return one

    yield keep
    for one in made:
        await one.close()


@pytest.fixture
async def provider() -> AsyncIterator[Authority]:
    """The identity provider of a company."""
    async with running() as one:
        one.issue = {"access_token": "id-jag", "issued_token_type": ID_JAG, "token_type": "N_A"}
        yield one


@pytest.mark.parametrize(
    ("supported", "sent"), [(["client_secret_basic"], "basic"), (["client_secret_post"], "post"), (None, "basic")]
)
async def test_an_application_gets_a_token_for_itself(
    authority: Authority, closing: Any, supported: list[str] | None, sent: str
):
    authority.metadata["token_endpoint_auth_methods_supported"] = supported
    authority.scope = "a"
    who = closing(ClientCredentials("app", "s e", issuer=authority.url))
    assert await visit(who, authority.resource) == 200
    [asked] = authority.at("/token")
    assert asked.form["grant_type"] == "client_credentials"
    assert asked.form["resource"] == authority.resource
    assert asked.form["scope"] == "a"
    if sent == "basic":
        assert base64.b64decode(asked.headers["authorization"].removeprefix("Basic ")) == b"app:s+e"
    else:
        assert (asked.form["client_id"], asked.form["client_secret"]) == ("app", "s e")
    assert authority.requests() == []


@pytest.mark.parametrize(
    ("algorithm", "key"),
    [
        ("ES256", ECKey.generate_key("P-256")),
        ("RS256", RSAKey.generate_key(2048)),
        ("PS256", RSAKey.generate_key(2048)),
        ("EdDSA", OKPKey.generate_key("Ed25519")),
    ],
)
@pytest.mark.parametrize("written", ["pem", "jwk"])
@pytest.mark.filterwarnings("ignore:EdDSA is deprecated")
async def test_an_application_signs_who_it_is(
    authority: Authority, closing: Any, clock: Clock, algorithm: str, key: Any, written: str
):
    authority.metadata["token_endpoint_auth_methods_supported"] = ["private_key_jwt"]
    given = key.as_pem(private=True) if written == "pem" else key.as_dict(private=True)
    who = closing(ClientCredentials("app", key=PrivateKey(given, algorithm, id="k1"), clock=clock))
    assert await visit(who, authority.resource) == 200
    [asked] = authority.at("/token")
    assert asked.form["client_assertion_type"] == "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"
    assert "client_id" not in asked.form
    assert "client_secret" not in asked.form
    found = jwt.decode(asked.form["client_assertion"], key, algorithms=[algorithm])
    assert found.header == {"alg": algorithm, "typ": "JWT", "kid": "k1"}
    claims = found.claims
    assert claims["iss"] == claims["sub"] == "app"
    assert claims["aud"] == authority.url
    assert claims["exp"] - claims["iat"] <= 300
    assert claims["iat"] == int(clock.now)
    assert len(claims["jti"]) >= 16


async def test_an_application_renews_its_token_by_itself(authority: Authority, closing: Any, clock: Clock):
    authority.metadata["token_endpoint_auth_methods_supported"] = ["client_secret_post"]
    authority.scope = "a b"
    who = closing(ClientCredentials("app", "secret", clock=clock))
    await visit(who, authority.resource)
    clock.now += 3600
    assert await visit(who, authority.resource) == 200
    authority.granted.clear()
    assert await visit(who, authority.resource) == 200
    assert [one.form["scope"] for one in authority.at("/token")] == ["a b"] * 3
    assert len(authority.at("/mcp")) == 5  # refused at first, and when the token was taken back


async def test_an_application_asks_for_more_when_more_is_needed(authority: Authority, closing: Any):
    authority.metadata["token_endpoint_auth_methods_supported"] = ["client_secret_post"]
    authority.scope = "a"
    who = closing(ClientCredentials("app", "secret"))
    await visit(who, authority.resource)
    authority.scope = "b"
    assert await visit(who, authority.resource) == 200
    assert [one.form["scope"] for one in authority.at("/token")] == ["a", "a b"]


@pytest.mark.parametrize(
    ("error", "status"), [("invalid_client", 401), ("unauthorized_client", 400), ("invalid_scope", 400)]
)
async def test_an_application_that_gets_no_token_is_told_why(
    authority: Authority, closing: Any, error: str, status: int
):
    authority.metadata["token_endpoint_auth_methods_supported"] = ["client_secret_post"]
    authority.token_errors = [(status, {"error": error})] * 5
    with pytest.raises(AuthorizationError, match=f"issues no token: {error}"):
        await visit(closing(ClientCredentials("app", "secret")), authority.resource)
    assert len(authority.at("/token")) == 1


async def test_a_secret_is_not_sent_to_an_issuer_that_the_server_has_made_up(
    authority: Authority, provider: Authority, closing: Any
):
    who = closing(ClientCredentials("app", "secret", issuer=authority.url))
    authority.protected["authorization_servers"] = [provider.url]
    with pytest.raises(AuthorizationError, match="are sent to no other authorization server"):
        await visit(who, authority.resource)
    assert provider.asked == []


async def test_a_server_that_takes_no_such_proof_gets_none(authority: Authority, closing: Any):
    for who in (
        ClientCredentials("app", "secret"),
        ClientCredentials("app", key=PrivateKey(ECKey.generate_key("P-256").as_pem(private=True))),
    ):
        authority.metadata["token_endpoint_auth_methods_supported"] = ["tls_client_auth"]
        with pytest.raises(AuthorizationError, match=r"takes no secret|does not take private_key_jwt"):
            await visit(closing(who), authority.resource)
    assert authority.at("/token") == []


@pytest.mark.parametrize("kind", ["text", "function", "coroutine"])
async def test_a_workload_shows_what_its_platform_says_of_it(authority: Authority, closing: Any, kind: str):
    seen: list[str] = []

    def read(issuer: str) -> str:
        seen.append(issuer)
        return "platform-token"

    async def fetch(issuer: str) -> str:
        return read(issuer)

    assertion = {"text": "platform-token", "function": read, "coroutine": fetch}[kind]
    who = closing(WorkloadIdentity(assertion, client_id="job" if kind == "text" else None))
    assert await visit(who, authority.resource) == 200
    [asked] = authority.at("/token")
    assert asked.form["grant_type"] == JWT_BEARER
    assert asked.form["assertion"] == "platform-token"
    assert asked.form.get("client_id") == ("job" if kind == "text" else None)
    assert seen == ([] if kind == "text" else [authority.url])


async def test_a_workload_that_is_refused_does_not_try_again(authority: Authority, closing: Any):
    authority.token_errors = [(400, {"error": "invalid_grant"})] * 5
    with pytest.raises(AuthorizationError, match="invalid_grant"):
        await visit(closing(WorkloadIdentity("platform-token")), authority.resource)
    assert len(authority.at("/token")) == 1


def enterprise(authority: Authority, provider: Authority, **options: Any) -> EnterpriseAuthorization:
    given = {
        "idp_issuer": provider.url,
        "idp_client_id": "at-idp",
        "client_id": "at-server",
        "client_secret": "secret",
        **options,
    }
    authority.metadata["token_endpoint_auth_methods_supported"] = ["client_secret_basic"]
    return EnterpriseAuthorization("id-token", **given)


async def test_a_company_says_what_its_users_may_use(authority: Authority, provider: Authority, closing: Any):
    authority.scope = "a"
    who = closing(enterprise(authority, provider, idp_client_secret="idp-secret"))
    assert await visit(who, authority.resource) == 200
    [exchange] = provider.at("/token")
    assert exchange.form == {
        "grant_type": "urn:ietf:params:oauth:grant-type:token-exchange",
        "requested_token_type": ID_JAG,
        "audience": authority.url,
        "resource": authority.resource,
        "scope": "a",
        "subject_token": "id-token",
        "subject_token_type": "urn:ietf:params:oauth:token-type:id_token",
        "client_id": "at-idp",
    }
    [asked] = authority.at("/token")
    assert asked.form["grant_type"] == JWT_BEARER
    assert asked.form["assertion"] == "id-jag"
    assert base64.b64decode(asked.headers["authorization"].removeprefix("Basic ")) == b"at-server:secret"
    assert authority.requests() == provider.requests() == []


async def test_a_company_that_says_no_ends_it(authority: Authority, provider: Authority, closing: Any):
    provider.token_errors = [(400, {"error": "invalid_grant", "error_description": "Not for you"})]
    with pytest.raises(AuthorizationError, match="invalid_grant: Not for you"):
        await visit(closing(enterprise(authority, provider)), authority.resource)
    assert authority.at("/token") == []


async def test_something_else_than_a_grant_is_not_passed_on(authority: Authority, provider: Authority, closing: Any):
    provider.issue["issued_token_type"] = "urn:ietf:params:oauth:token-type:access_token"
    with pytest.raises(AuthorizationError, match="something else than a grant"):
        await visit(closing(enterprise(authority, provider)), authority.resource)
    assert authority.at("/token") == []


async def test_a_provider_without_metadata_is_asked_where_the_user_says(
    authority: Authority, provider: Authority, closing: Any
):
    provider.documents.clear()
    who = enterprise(authority, provider, idp_token_endpoint=f"{provider.url}/token")
    assert await visit(closing(who), authority.resource) == 200


async def test_a_token_that_is_there_already_is_sent_as_it_is(authority: Authority):
    authority.granted["mine"] = set()
    tokens = iter(["mine", "mine"])

    async def fetch() -> str:
        return next(tokens)

    for who in (Bearer("mine"), Bearer(lambda: "mine"), Bearer(fetch)):
        assert await visit(who, authority.resource) == 200
        await who.close()
    assert Bearer("mine").principal == Bearer("mine").principal != Bearer("other").principal
    assert "mine" not in Bearer("mine").principal


async def test_a_token_that_does_not_do_is_told_in_words(authority: Authority):
    with pytest.raises(AuthorizationError, match="does not accept the token"):
        await visit(Bearer("stale"), authority.resource)
    authority.granted["mine"], authority.scope = set(), "admin"
    with pytest.raises(AuthorizationError, match="requires a token with more scopes: admin"):
        await visit(Bearer("mine"), authority.resource)
    assert not await Bearer("mine").rejected(AuthorizationRejection(authority.resource, 403))


@pytest.mark.parametrize(
    "make",
    [
        lambda: Bearer(""),
        lambda: Bearer("a b"),
        lambda: Bearer("a\r\nb"),
        lambda: ClientCredentials("app"),
        lambda: ClientCredentials("", "secret"),
        lambda: ClientCredentials("app", "secret", issuer="http://auth.example"),
        lambda: PrivateKey("nonsense"),
        lambda: PrivateKey(ECKey.generate_key("P-256").as_pem(private=False)),
        lambda: PrivateKey(RSAKey.generate_key(2048).as_pem(private=True), "ES256"),
        lambda: PrivateKey(ECKey.generate_key("P-256").as_pem(private=True), "HS256"),
        lambda: EnterpriseAuthorization("t", idp_client_id="a", client_id="b"),
        lambda: EnterpriseAuthorization("t", idp_issuer="http://idp.example", idp_client_id="a", client_id="b"),
        lambda: ClientCredentials("a", "s", key=PrivateKey(ECKey.generate_key("P-256").as_pem(private=True))),
    ],
)
def test_invalid_client_credentials_are_refused_at_once(make: Callable[[], Any]):
    with pytest.raises(ConfigError):
        make()


async def test_principals_of_applications_are_told_apart(authority: Authority, closing: Any):
    authority.metadata["token_endpoint_auth_methods_supported"] = ["client_secret_basic"]
    found = set()
    for name in ("a", "b", "a"):
        who = closing(ClientCredentials(name, "secret", store=MemoryStore()))
        await visit(who, authority.resource)
        found.add(who.principal)
    assert len(found) == 2


async def test_clients_declare_what_their_credentials_are(authority: Authority, provider: Authority, closing: Any):
    made = {
        "io.modelcontextprotocol/oauth-client-credentials": ClientCredentials("app", "secret"),
        "io.modelcontextprotocol/enterprise-managed-authorization": enterprise(authority, provider),
    }
    for name, who in made.items():
        assert dict(closing(who).extensions) == {name: {}}
    assert dict(Bearer("token").extensions) == {}
