"""What an application is known by, and to whom."""

from __future__ import annotations

import base64
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest
from joserfc.jwk import ECKey

from carrel.errors import AuthorizationError
from carrel.security.client import MemoryStore, OAuth, PrivateKey
from carrel.security.client.authorization_server import find_server
from carrel.security.client.client_authentication import ClientIdentity
from carrel.security.client.registration import application_type
from carrel.security.client.tokens import request_token
from support.authorization_server import Authority, running, visit
from support.clock import Clock

Make = Callable[..., OAuth]
DOCUMENT = "https://app.example/client.json"


@pytest.fixture
async def other() -> AsyncIterator[Authority]:
    """Another authorization server."""
    async with running() as one:
        yield one


async def test_an_application_registers_itself_as_what_it_is(authority: Authority, user: Make):
    assert await visit(user(client_name="Test"), authority.resource) == 200
    [asked] = authority.at("/register")
    assert asked.document == {
        "client_name": "Test",
        "redirect_uris": ["http://127.0.0.1/callback"],
        "grant_types": ["authorization_code", "refresh_token"],
        "response_types": ["code"],
        "application_type": "native",
        "token_endpoint_auth_method": "none",
    }
    assert authority.requests()[0]["client_id"] == authority.at("/token")[0].form["client_id"] == "client-1"


async def test_an_application_on_the_web_says_that_it_is_one(authority: Authority, user: Make):
    assert await visit(user(redirect_uri="https://app.example/callback"), authority.resource) == 200
    assert authority.at("/register")[0].document["application_type"] == "web"
    assert authority.requests()[0]["redirect_uri"] == "https://app.example/callback"


@pytest.mark.parametrize(
    ("redirect_uri", "kind"),
    [
        ("https://app.example/callback", "web"),
        ("https://localhost/callback", "native"),
        ("https://127.0.0.1:4711/callback", "native"),
        ("http://127.0.0.1/callback", "native"),
        ("http://[::1]/callback", "native"),
        ("com.example.app:/callback", "native"),
        ("com.example.app://callback", "native"),
    ],
)
def test_an_application_that_is_not_reached_by_https_from_elsewhere_is_native(redirect_uri: str, kind: str):
    assert application_type(redirect_uri) == kind


async def test_a_preregistered_client_comes_first(authority: Authority, user: Make):
    authority.metadata["client_id_metadata_document_supported"] = True
    who = user(client_id="by-hand", client_metadata_url=DOCUMENT)
    assert await visit(who, authority.resource) == 200
    assert authority.requests()[0]["client_id"] == "by-hand"
    assert authority.at("/register") == []


@pytest.mark.parametrize(("supported", "client"), [(True, DOCUMENT), (False, "client-1"), (None, "client-1")])
async def test_a_metadata_document_comes_next_where_it_is_understood(
    authority: Authority, user: Make, supported: bool | None, client: str
):
    authority.metadata["client_id_metadata_document_supported"] = supported
    assert await visit(user(client_metadata_url=DOCUMENT), authority.resource) == 200
    assert authority.requests()[0]["client_id"] == client


async def test_where_nothing_else_is_left_the_user_is_told_what_to_do(authority: Authority, user: Make):
    del authority.metadata["registration_endpoint"]
    with pytest.raises(AuthorizationError, match=r"Register it there by hand, .* say OAuth\(client_id="):
        await visit(user(), authority.resource)


@pytest.mark.parametrize(
    ("status", "answer", "complaint"),
    [
        (400, {"error": "invalid_redirect_uri", "error_description": "Not here"}, "invalid_redirect_uri: Not here"),
        (403, {}, "status 403"),
        (201, {"client_id": None}, "client_id"),
        (200, {"client_id": 7}, "client_id"),
    ],
)
async def test_a_registration_that_fails_is_told_in_words(
    authority: Authority, user: Make, status: int, answer: dict[str, Any], complaint: str
):
    authority.registration_status, authority.registration = status, answer
    with pytest.raises(AuthorizationError, match=complaint):
        await visit(user(), authority.resource)
    assert authority.requests() == []


@pytest.mark.parametrize(
    ("supported", "registered", "sent"),
    [
        (["none"], {}, "none"),
        (["none"], {"client_secret": "s e"}, "none"),
        (None, {"client_secret": "s e"}, "basic"),
        (["client_secret_post", "client_secret_basic"], {"client_secret": "s e"}, "basic"),
        (["client_secret_post"], {"client_secret": "s e"}, "post"),
        (["client_secret_basic"], {"client_secret": "s e", "token_endpoint_auth_method": "client_secret_post"}, "post"),
    ],
)
async def test_a_client_authenticates_as_it_was_registered(
    authority: Authority, user: Make, supported: list[str] | None, registered: dict[str, str], sent: str
):
    authority.metadata["token_endpoint_auth_methods_supported"] = supported
    authority.registration = registered
    assert await visit(user(), authority.resource) == 200
    [asked] = authority.at("/token")
    basic = asked.headers.get("authorization")
    assert (basic is not None) == (sent == "basic")
    assert ("client_secret" in asked.form) == (sent == "post")
    if basic is not None:
        assert base64.b64decode(basic.removeprefix("Basic ")) == b"client-1:s+e"
        assert "client_id" not in asked.form


async def test_a_secret_that_has_expired_is_replaced(authority: Authority, user: Make, clock: Clock):
    authority.registration = {"client_secret": "s", "client_secret_expires_at": clock.now + 50}
    store = MemoryStore()
    await visit(user(store=store, clock=clock), authority.resource)
    authority.granted.clear()
    clock.now += 51
    assert await visit(user(store=store, clock=clock), authority.resource) == 200
    assert len(authority.at("/register")) == 2


async def test_an_application_that_was_forgotten_registers_again(authority: Authority, user: Make):
    authority.issue = {"refresh_token": "r"}
    who = user()
    await visit(who, authority.resource)
    authority.granted.clear()
    authority.token_errors = [(401, {"error": "invalid_client"})]
    assert await visit(who, authority.resource) == 200
    assert len(authority.at("/register")) == 2


async def test_another_authorization_server_knows_nothing_of_what_the_first_has_given(
    authority: Authority, other: Authority, user: Make
):
    authority.registration = {"client_id": "first-client", "client_secret": "first-secret"}
    authority.metadata["token_endpoint_auth_methods_supported"] = ["client_secret_basic"]
    authority.issue = {"refresh_token": "first-refresh"}
    who = user()
    await visit(who, authority.resource)
    first = dict(await who.headers(authority.resource))["authorization"]
    authority.protected["authorization_servers"] = [other.url]
    authority.granted.clear()
    other.issue = {"access_token": "second"}
    authority.granted["second"] = set()
    assert await visit(who, authority.resource) == 200
    assert len(other.at("/register")) == 1
    for one in other.asked:
        everything = repr((dict(one.headers), one.query, one.form, one.document))
        for secret in ("first-client", "first-secret", "first-refresh", first.removeprefix("Bearer ")):
            assert secret not in everything


async def test_a_client_that_is_known_everywhere_has_tokens_of_one_server(
    authority: Authority, other: Authority, user: Make
):
    for one in (authority, other):
        one.metadata["client_id_metadata_document_supported"] = True
    authority.scope = "a"
    authority.issue = {"refresh_token": "first-refresh"}
    who = user(client_metadata_url=DOCUMENT)
    await visit(who, authority.resource)
    authority.protected["authorization_servers"] = [other.url]
    authority.granted.clear()
    authority.scope = "b"
    other.issue = {"access_token": "second"}
    authority.granted["second"] = {"b"}
    assert await visit(who, authority.resource) == 200
    assert "first-refresh" not in repr([one.form for one in other.asked])
    assert other.requests()[0]["scope"] == "b"  # what the other one has granted is nothing here
    authority.protected["authorization_servers"] = [other.url, authority.url]
    authority.granted.clear()
    authority.granted["second"] = {"b"}
    assert await visit(who, authority.resource) == 200
    assert len(authority.requests()) == 1  # it stays with the one that it has


async def test_a_preregistered_client_is_used_with_no_other_server(authority: Authority, other: Authority, user: Make):
    who = user(client_id="by-hand", client_secret="my-secret", issuer=authority.url)
    authority.protected["authorization_servers"] = [other.url]
    with pytest.raises(AuthorizationError, match="are sent to no other authorization server"):
        await visit(who, authority.resource)
    assert other.asked == []


async def test_a_server_of_old_is_one_that_it_may_be_registered_with_too(authority: Authority, user: Make):
    authority.documents.clear()
    with pytest.raises(AuthorizationError, match="are sent to no other authorization server"):
        await visit(user(client_id="by-hand", issuer="https://auth.example"), authority.resource)
    assert authority.at("/token") == authority.requests() == []
    assert await visit(user(client_id="by-hand", issuer=authority.url), authority.resource) == 200


async def test_without_a_name_the_first_server_is_the_one_that_it_was_registered_with(
    authority: Authority, other: Authority, user: Make
):
    store = MemoryStore()
    authority.metadata["token_endpoint_auth_methods_supported"] = ["client_secret_basic"]
    who = user(client_id="by-hand", client_secret="my-secret", store=store)
    assert await visit(who, authority.resource) == 200
    authority.protected["authorization_servers"] = [other.url]
    authority.granted.clear()
    for one in (who, user(client_id="by-hand", client_secret="my-secret", store=store)):
        with pytest.raises(AuthorizationError, match="are sent to no other authorization server"):
            await visit(one, authority.resource)
    assert other.asked == []


async def test_an_application_that_is_called_otherwise_now_does_not_use_old_tokens(authority: Authority, user: Make):
    store = MemoryStore()
    await visit(user(client_id="one", store=store), authority.resource)
    await visit(user(client_id="other", store=store), authority.resource)
    assert [one["client_id"] for one in authority.requests()] == ["one", "other"]


async def test_servers_that_are_not_described_are_registered_with_in_the_default_place(
    authority: Authority, user: Make
):
    authority.documents.clear()
    assert await visit(user(), authority.resource) == 200
    assert len(authority.at("/register")) == 1


async def test_an_application_that_registered_by_itself_signs_nothing(authority: Authority, user: Make):
    key = PrivateKey(ECKey.generate_key("P-256").as_pem(private=True))
    assert await visit(user(client_metadata_url=DOCUMENT, key=key), authority.resource) == 200
    [asked] = authority.at("/token")
    assert "client_assertion" not in asked.form
    authority.metadata["client_id_metadata_document_supported"] = True
    authority.metadata["token_endpoint_auth_methods_supported"] = ["private_key_jwt"]
    assert await visit(user(client_metadata_url=DOCUMENT, key=key), authority.resource) == 200
    assert "client_assertion" in authority.at("/token")[1].form


async def test_a_secret_is_for_the_issuer_that_gave_it(authority: Authority, user: Make):
    who = user()
    assert await who.headers(authority.resource) == {}
    server = await find_server(authority.url, who.fetcher)
    stranger = ClientIdentity(issuer="https://other.example", id="client", secret="secret")
    with pytest.raises(AuthorizationError, match=r"is registered with https://other\.example, and not with"):
        await request_token(who.client_at(server, stranger), {"grant_type": "client_credentials"})
    assert authority.at("/token") == []
    assert "secret" not in repr(stranger)
