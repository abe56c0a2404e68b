"""A user who authorizes an application, and what comes after."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from carrel.errors import AuthorizationError, ConfigError
from carrel.security.client import MemoryStore, OAuth
from carrel.transports.client.transport import AuthorizationRejection
from support.authorization_server import OAUTH, OPENID, PROTECTED, ROOT, Authority, running, visit
from support.clock import Clock

Make = Callable[..., OAuth]


async def test_a_user_who_agrees_once_is_let_in(authority: Authority, user: Make):
    who = user()
    assert await visit(who, authority.resource) == 200
    assert await visit(who, authority.resource) == 200
    [request] = authority.requests()
    assert request["response_type"] == "code"
    assert request["resource"] == authority.resource
    assert request["code_challenge_method"] == "S256"
    assert len(request["state"]) >= 32
    assert "scope" not in request
    [exchange] = authority.at("/token")
    assert exchange.form["resource"] == authority.resource
    assert 43 <= len(exchange.form["code_verifier"]) <= 128
    assert len(authority.at("/mcp")) == 3


async def test_every_request_to_authorize_has_a_state_and_a_verifier_of_its_own(authority: Authority, user: Make):
    for _ in range(2):
        await visit(user(), authority.resource)
    first, second = authority.requests()
    assert first["state"] != second["state"]
    assert first["code_challenge"] != second["code_challenge"]


async def test_requests_that_are_refused_together_ask_the_user_once(authority: Authority, user: Make):
    authority.gate = asyncio.Event()
    who = user()
    visits = [asyncio.create_task(visit(who, authority.resource)) for _ in range(20)]
    await authority.arrived.wait()
    authority.gate.set()
    assert await asyncio.gather(*visits) == [200] * 20
    assert len(authority.requests()) == 1


async def test_a_refusal_that_comes_late_is_not_taken_for_one_of_the_new_token(authority: Authority, user: Make):
    who = user()
    before = await who.headers(authority.resource)
    await visit(who, authority.resource)
    challenges = [authority.challenge(401, None).headers["www-authenticate"]]
    assert await who.rejected(AuthorizationRejection(authority.resource, 401, challenges, sent=before))
    assert len(authority.requests()) == 1


async def test_a_failure_is_told_to_all_who_waited_for_it(authority: Authority, user: Make):
    authority.gate = asyncio.Event()
    authority.response = {"error": "access_denied", "error_description": "No.", "code": None}
    who = user()
    challenges = [authority.challenge(401, None).headers["www-authenticate"]]
    refusals = [
        asyncio.create_task(who.rejected(AuthorizationRejection(authority.resource, 401, challenges))) for _ in range(5)
    ]
    await authority.arrived.wait()
    authority.gate.set()
    found = await asyncio.gather(*refusals, return_exceptions=True)
    assert {str(one) for one in found} == {f"{authority.url} did not authorize this application: access_denied: No."}
    assert len(authority.requests()) == 1


async def test_giving_up_on_a_request_does_not_end_the_authorization(authority: Authority, user: Make):
    authority.gate = asyncio.Event()
    who = user()
    impatient = asyncio.create_task(visit(who, authority.resource))
    await authority.arrived.wait()
    impatient.cancel()
    with pytest.raises(asyncio.CancelledError):
        await impatient
    patient = asyncio.create_task(visit(who, authority.resource))
    authority.gate.set()
    assert await patient == 200
    assert len(authority.requests()) == 1


async def test_closing_ends_an_authorization(authority: Authority, user: Make):
    authority.gate = asyncio.Event()
    who = user()
    waiting = asyncio.create_task(visit(who, authority.resource))
    await authority.arrived.wait()
    await who.close()
    with pytest.raises(AuthorizationError, match="was cancelled"):
        await waiting
    authority.gate.set()


# Where tokens come from


@pytest.mark.parametrize("place", [PROTECTED, ROOT])
async def test_metadata_are_found_without_being_told_where(authority: Authority, user: Make, place: str):
    document = authority.documents.pop(PROTECTED)
    authority.documents[place] = {**document, "resource": authority.url if place == ROOT else authority.resource}
    original = authority.challenge

    def silent(*arguments: Any, **options: Any) -> Any:
        response = original(*arguments, **options)
        del response.headers["www-authenticate"]
        return response

    authority.challenge = silent  # type: ignore[method-assign]
    assert await visit(user(), authority.resource) == 200
    looked = [one.path for one in authority.asked if one.path.startswith(ROOT)]
    assert looked == ([PROTECTED] if place == PROTECTED else [PROTECTED, ROOT])
    assert authority.requests()[0]["resource"] == authority.documents[place]["resource"]


async def test_metadata_are_taken_from_where_the_challenge_says(authority: Authority, user: Make):
    authority.documents["/elsewhere.json"] = authority.documents.pop(PROTECTED)
    who = user()
    await who.headers(authority.resource)
    challenges = [f'Basic realm="x", Bearer resource_metadata="{authority.url}/elsewhere.json"']
    assert await who.rejected(AuthorizationRejection(authority.resource, 401, challenges))
    assert [one.path for one in authority.asked][:2] == ["/elsewhere.json", OAUTH]


@pytest.mark.parametrize(
    ("path", "place"),
    [
        ("", OAUTH),
        ("", OPENID),
        ("/tenant", f"{OAUTH}/tenant"),
        ("/tenant", f"{OPENID}/tenant"),
        ("/tenant", f"/tenant{OPENID}"),
    ],
)
async def test_metadata_of_the_authorization_server_may_be_in_all_places_of_the_specification(
    authority: Authority, user: Make, path: str, place: str
):
    issuer = f"{authority.url}{path}"
    authority.documents[place] = {**authority.documents.pop(OAUTH), "issuer": issuer}
    authority.protected["authorization_servers"] = [issuer]
    authority.response = {"iss": issuer}
    assert await visit(user(), authority.resource) == 200
    order = [f"{OAUTH}{path}", f"{OPENID}{path}", f"{path}{OPENID}"] if path else [OAUTH, OPENID]
    looked = [one.path for one in authority.asked if one.path in order]
    assert looked == order[: order.index(place) + 1]


@pytest.mark.parametrize("issuer", ["https://honest.example", "{url}/", "{url}/other", None, 5])
async def test_metadata_of_another_issuer_are_not_used(authority: Authority, user: Make, issuer: Any):
    authority.metadata["issuer"] = issuer.format(url=authority.url) if isinstance(issuer, str) else issuer
    with pytest.raises(AuthorizationError, match="is about the issuer"):
        await visit(user(), authority.resource)
    assert {one.path for one in authority.asked} == {"/mcp", PROTECTED, OAUTH, OPENID}


@pytest.mark.parametrize(
    "resource", ["https://evil.example/mcp", "{url}/other", "{url}/mcp/deeper", "{url}/mc", "{url}/mcp?x=1", "mcp", ""]
)
async def test_metadata_of_another_resource_are_not_used(authority: Authority, user: Make, resource: str):
    authority.protected["resource"] = resource.format(url=authority.url)
    with pytest.raises(AuthorizationError, match="and not about"):
        await visit(user(), authority.resource)
    assert {one.path for one in authority.asked} == {"/mcp", PROTECTED}


async def test_the_resource_is_named_exactly_as_the_server_names_itself(authority: Authority, user: Make):
    authority.protected["resource"] = f"{authority.url}/"
    assert await visit(user(), authority.resource) == 200
    assert authority.requests()[0]["resource"] == f"{authority.url}/"


async def test_the_next_authorization_server_is_used_if_the_first_does_not_answer(authority: Authority, user: Make):
    authority.protected["authorization_servers"] = [f"{authority.url}/gone", authority.url]
    assert await visit(user(), authority.resource) == 200


@pytest.mark.parametrize("revision", [None, "2025-03-26", "2026-07-28"])
async def test_a_server_of_old_issues_its_tokens_itself(authority: Authority, user: Make, revision: str | None):
    del authority.documents[PROTECTED]
    del authority.metadata["code_challenge_methods_supported"]
    assert await visit(user(), authority.resource, revision) == 200
    [request] = authority.requests()
    assert "resource" not in request
    [asked] = authority.at(OAUTH)
    assert asked.headers.get("mcp-protocol-version") == revision


async def test_a_server_of_old_without_any_metadata_has_its_endpoints_in_default_places(
    authority: Authority, user: Make
):
    authority.documents.clear()
    assert await visit(user(), authority.resource, "2025-03-26") == 200
    assert [one.path for one in authority.asked if one.method == "POST" or one.path == "/authorize"] == [
        *("/mcp", "/register", "/authorize", "/token", "/mcp")
    ]


@pytest.mark.parametrize(("issuer", "fits"), [("{url}/", True), ("https://honest.example", False), (None, False)])
async def test_metadata_of_a_server_of_old_have_to_be_about_it(
    authority: Authority, user: Make, issuer: str | None, fits: bool
):
    del authority.documents[PROTECTED]
    authority.metadata["issuer"] = None if issuer is None else issuer.format(url=authority.url)
    authority.response = {"iss": authority.metadata["issuer"]}
    if fits:
        assert await visit(user(), authority.resource) == 200
    else:
        with pytest.raises(AuthorizationError, match="is about the issuer"):
            await visit(user(), authority.resource)
        assert authority.requests() == []


async def test_a_server_cannot_say_of_itself_that_it_is_not_described(authority: Authority, user: Make):
    del authority.metadata["code_challenge_methods_supported"]
    authority.metadata["undescribed"] = True
    with pytest.raises(AuthorizationError, match="PKCE"):
        await visit(user(), authority.resource)


@pytest.mark.parametrize("revision", ["2025-06-18", "2025-11-25"])
async def test_a_server_of_a_newer_revision_needs_metadata(authority: Authority, user: Make, revision: str):
    del authority.documents[PROTECTED]
    with pytest.raises(AuthorizationError, match="names no authorization server"):
        await visit(user(), authority.resource, revision)


@pytest.mark.parametrize(
    ("revision", "methods", "goes"),
    [
        (None, None, False),
        ("2026-07-28", None, False),
        ("2025-11-25", None, False),
        ("2025-06-18", None, True),
        ("2026-07-28", ["plain"], False),
        ("2025-06-18", ["plain"], False),
        ("2026-07-28", [], False),
        ("2026-07-28", ["plain", "S256"], True),
    ],
)
async def test_a_server_without_pkce_is_refused(
    authority: Authority, user: Make, revision: str | None, methods: list[str] | None, goes: bool
):
    authority.metadata["code_challenge_methods_supported"] = methods
    if goes:
        assert await visit(user(), authority.resource, revision) == 200
    else:
        with pytest.raises(AuthorizationError, match="PKCE"):
            await visit(user(), authority.resource, revision)
        assert authority.requests() == []


async def test_pkce_may_be_taken_for_granted_if_the_user_says_so(authority: Authority, user: Make):
    del authority.metadata["code_challenge_methods_supported"]
    assert await visit(user(assume_pkce=True), authority.resource) == 200


# Scopes


@pytest.mark.parametrize(
    ("challenged", "supported", "wanted", "offered", "asked"),
    [
        ("a b", ["c"], (), [], "a b"),
        (None, ["c", "d"], (), [], "c d"),
        (None, None, (), [], None),
        (None, [], (), [], None),
        (None, ["c"], ("w",), [], "w"),
        ("a", ["c"], ("w",), [], "a w"),
        ("a", None, (), ["a", "offline_access"], "a offline_access"),
        (None, ["c"], (), ["offline_access"], "c offline_access"),
        (None, None, (), ["offline_access"], None),
    ],
)
async def test_scopes_are_chosen_in_the_order_of_the_specification(
    authority: Authority,
    user: Make,
    challenged: str | None,
    supported: list[str] | None,
    wanted: tuple[str, ...],
    offered: list[str],
    asked: str | None,
):
    authority.scope = challenged
    authority.protected["scopes_supported"] = supported
    authority.metadata["scopes_supported"] = offered
    assert await visit(user(scopes=wanted), authority.resource) == 200
    [request] = authority.requests()
    assert request.get("scope") == asked
    assert request.get("prompt") == ("consent" if "offline_access" in (asked or "") else None)


async def test_a_client_that_wants_no_refresh_token_does_not_ask_for_one(authority: Authority, user: Make):
    authority.scope = "a"
    authority.metadata["scopes_supported"] = ["a", "offline_access"]
    assert await visit(user(offline=False), authority.resource) == 200
    assert authority.requests()[0]["scope"] == "a"


async def test_more_is_asked_for_when_more_is_needed_and_nothing_is_lost(authority: Authority, user: Make):
    who = user()
    authority.scope = "read"
    assert await visit(who, authority.resource) == 200
    authority.scope = "write"
    assert await visit(who, authority.resource) == 200
    authority.scope = "admin"
    assert await visit(who, authority.resource) == 200
    assert [one["scope"] for one in authority.requests()] == ["read", "read write", "admin read write"]
    authority.scope = "read"
    assert await visit(who, authority.resource) == 200
    assert len(authority.requests()) == 3


async def test_scopes_that_are_not_granted_are_not_asked_for_forever(authority: Authority, user: Make):
    who = user()
    authority.scope, authority.limit = "read", {"read"}
    assert await visit(who, authority.resource) == 200
    authority.scope = "write"
    for _ in range(2):
        with pytest.raises(AuthorizationError, match="asks for write, which its authorization server does not grant"):
            await visit(who, authority.resource)
    assert len(authority.requests()) == 3


async def test_scopes_that_the_token_has_are_not_asked_for_again(authority: Authority, user: Make):
    who = user()
    authority.scope = "read"
    await visit(who, authority.resource)
    authority.responses["/mcp"] = authority.challenge(403, "read", "insufficient_scope")
    with pytest.raises(AuthorizationError, match="asks for read, which the access token already has"):
        await visit(who, authority.resource)
    assert len(authority.requests()) == 1


@pytest.mark.parametrize("header", ["", 'Bearer error="invalid_request"', 'Basic realm="x"', 'Bearer scope="a"'])
async def test_a_refusal_without_a_usable_challenge_is_not_retried(authority: Authority, user: Make, header: str):
    who = user()
    await visit(who, authority.resource)
    sent = await who.headers(authority.resource)
    assert not await who.rejected(AuthorizationRejection(authority.resource, 403, [header], sent=sent))
    assert not await who.rejected(AuthorizationRejection(authority.resource, 500, [header]))


# Tokens that end


async def test_a_token_that_is_about_to_expire_is_renewed_before_it_is_sent(
    authority: Authority, user: Make, clock: Clock
):
    authority.issue = {"refresh_token": "r1", "expires_in": 100}
    who = user(clock=clock)
    await visit(who, authority.resource)
    clock.now += 89
    assert await who.headers(authority.resource) == {"authorization": "Bearer token-2"}
    clock.now += 2
    authority.issue = {"refresh_token": "r2", "expires_in": 100}
    assert await visit(who, authority.resource) == 200
    clock.now += 101
    authority.issue = {"expires_in": 100}
    assert await visit(who, authority.resource) == 200
    clock.now += 101
    assert await visit(who, authority.resource) == 200
    forms = [one.form for one in authority.at("/token")][1:]
    assert [form["refresh_token"] for form in forms] == ["r1", "r2", "r2"]
    assert {form["grant_type"] for form in forms} == {"refresh_token"}
    assert {form["resource"] for form in forms} == {authority.resource}
    assert len(authority.requests()) == 1
    assert "authorization" not in authority.at("/mcp")[0].headers
    assert len(authority.at("/mcp")) == 5  # none was refused but the first


async def test_a_token_is_renewed_once_for_all_who_need_it(authority: Authority, user: Make, clock: Clock):
    authority.issue = {"refresh_token": "r1", "expires_in": 100}
    who = user(clock=clock)
    await visit(who, authority.resource)
    clock.now += 100
    assert await asyncio.gather(*(visit(who, authority.resource) for _ in range(10))) == [200] * 10
    assert len(authority.at("/token")) == 2


async def test_a_token_that_was_taken_back_is_renewed_without_the_user(authority: Authority, user: Make):
    authority.issue = {"refresh_token": "r1"}
    who = user()
    await visit(who, authority.resource)
    authority.granted.clear()
    assert await visit(who, authority.resource) == 200
    assert len(authority.requests()) == 1


@pytest.mark.parametrize("expires", [True, False])
async def test_the_user_is_asked_again_when_the_refresh_token_is_not_good_any_more(
    authority: Authority, user: Make, clock: Clock, expires: bool
):
    authority.issue = {"refresh_token": "r1", "expires_in": 100}
    authority.scope = "a"
    who = user(clock=clock)
    await visit(who, authority.resource)
    authority.granted.clear()
    if expires:
        clock.now += 100
    authority.token_errors = [(400, {"error": "invalid_grant"})]
    assert await visit(who, authority.resource) == 200
    assert [one["scope"] for one in authority.requests()] == ["a", "a"]


@pytest.mark.parametrize("status", [500, 503, 429])
async def test_trouble_at_the_authorization_server_is_no_reason_to_ask_the_user(
    authority: Authority, user: Make, clock: Clock, status: int
):
    authority.issue = {"refresh_token": "r1", "expires_in": 100}
    who = user(clock=clock)
    await visit(who, authority.resource)
    clock.now += 100
    authority.token_errors = [(status, {"error": "temporarily_unavailable"})]
    with pytest.raises(AuthorizationError, match="at the moment: temporarily_unavailable"):
        await visit(who, authority.resource)
    assert await visit(who, authority.resource) == 200
    assert len(authority.requests()) == 1


async def test_tokens_that_are_refused_as_soon_as_they_are_issued_are_not_asked_for_forever(
    authority: Authority, user: Make
):
    authority.accepts = set()
    with pytest.raises(AuthorizationError, match=r"does not accept the access tokens that .* issues"):
        await visit(user(), authority.resource, rounds=20)
    assert len(authority.requests()) <= 3


# What is kept


async def test_tokens_and_registrations_are_there_the_next_time(authority: Authority, user: Make):
    store = MemoryStore()
    await visit(user(store=store), authority.resource)
    again = user(store=store)
    assert await visit(again, authority.resource) == 200
    assert len(authority.requests()) == 1
    authority.granted.clear()
    assert await visit(again, authority.resource) == 200
    assert len(authority.at("/register")) == 1


async def test_accounts_have_tokens_of_their_own(authority: Authority, user: Make):
    store = MemoryStore()
    work, home = user(store=store, account="work"), user(store=store, account="home")
    await visit(work, authority.resource)
    await visit(home, authority.resource)
    assert len(authority.requests()) == 2
    assert work.principal != home.principal


async def test_a_token_that_another_process_has_renewed_is_used(authority: Authority, user: Make, clock: Clock):
    authority.issue = {"refresh_token": "r1", "expires_in": 100}
    store = MemoryStore()
    one, other = user(store=store, clock=clock), user(store=store, clock=clock)
    await visit(one, authority.resource)
    await visit(other, authority.resource)
    clock.now += 100
    await visit(one, authority.resource)
    assert await visit(other, authority.resource) == 200
    assert len(authority.at("/token")) == 2  # not a third time, with a refresh token that has been used


async def test_invalid_stored_tokens_are_not_used(authority: Authority, user: Make):
    store = MemoryStore()
    await visit(user(store=store), authority.resource)
    for name in list(store._texts):
        await store.put(name, "nonsense")
    assert await visit(user(store=store), authority.resource) == 200


async def test_principals_of_users_are_told_apart(authority: Authority, user: Make):
    store = MemoryStore()
    one, other = user(store=store), user()
    assert one.principal == other.principal  # nobody yet
    await visit(one, authority.resource)
    await visit(other, authority.resource)
    again = user(store=store)
    await again.headers(authority.resource)
    assert len({one.principal, other.principal}) == 2
    assert one.principal == again.principal


async def test_a_renewed_token_is_of_the_same_one_who_asks(authority: Authority, user: Make, clock: Clock):
    authority.issue = {"refresh_token": "r1", "expires_in": 100}
    who = user(clock=clock)
    await visit(who, authority.resource)
    before = who.principal
    clock.now += 100
    await visit(who, authority.resource)
    assert who.principal == before


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        ({"client_secret": "s"}, "client_id"),
        ({"client_metadata_url": "http://app.example/client.json"}, "client_metadata_url"),
        ({"client_metadata_url": "https://app.example"}, "client_metadata_url"),
        ({"client_metadata_url": "https://app.example/a/../b"}, "client_metadata_url"),
        ({"redirect_uri": "https://app.example/callback"}, "redirect_uri"),
        ({"redirect_uri": "http://app.example/callback"}, "redirect_uri"),
        ({"redirect_uri": "javascript:alert(1)"}, "redirect_uri"),
        ({"redirect_uri": "http://127.0.0.1/#x"}, "redirect_uri"),
        ({"issuer": "http://auth.example"}, "issuer"),
    ],
)
def test_arguments_that_make_no_sense_are_refused_in_words(arguments: dict[str, Any], complaint: str):
    with pytest.raises(ConfigError, match=complaint):
        OAuth(**arguments)


async def test_two_servers_do_not_share_credentials(authority: Authority, user: Make):
    who = user()
    await visit(who, authority.resource)
    async with running() as other:
        assert await who.headers(other.resource) == {}
        assert await visit(who, other.resource) == 401
        assert all("authorization" not in one.headers for one in other.asked)
