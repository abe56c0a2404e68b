"""Carrel's client and Carrel's server, with an OpenID provider between them that we did not write."""

from __future__ import annotations

import asyncio
import json
import urllib.request
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from joserfc.jwk import ECKey

from carrel import Client
from carrel.errors import AuthorizationError
from carrel.security import Authorization, Introspection
from carrel.security.client import ClientCredentials, MemoryStore, OAuth, PrivateKey
from carrel.security.client.authorization_server import find_server
from carrel.security.client.authorization_target import AuthorizationTarget
from carrel.security.client.revocation import NotRevoked
from carrel.security.client.tokens import TokenRejected, request_token
from carrel.transports.client.options import HTTPOptions
from support.clock import Clock, pass_time
from support.http_requests import build
from support.http_server import over_http
from support.openid_provider import Provider

SCOPES = {"*": "mcp", "tools/call": "tools", "secret://*": "secrets:read"}
ALL = "mcp tools secrets:read"


@pytest.fixture
def site(auth: Provider) -> Iterator[str]:
    """The URL of a protected server."""
    with over_http(build(), authorization=Authorization(auth.issuer, scopes=SCOPES)) as origin:
        auth.protect(f"{origin}/mcp", ALL)
        yield f"{origin}/mcp"


class Person:
    """Somebody with a browser, who logs in and agrees as often as they are asked."""

    def __init__(self, auth: Provider, login: str = "alice") -> None:
        self.auth = auth
        self.login = login
        self.pages: list[str] = []

    async def browse(self, url: str) -> str:
        self.pages.append(url)
        return await asyncio.to_thread(self.auth.browse, url, self.login)

    async def open(self, url: str) -> None:
        """Come back to wherever the browser is sent."""
        target = await self.browse(url)

        def visit() -> None:
            with urllib.request.urlopen(target, timeout=60) as response:
                assert response.status == 200

        self.visit = asyncio.create_task(asyncio.to_thread(visit))


@asynccontextmanager
async def connect(url: str, who: OAuth | ClientCredentials) -> AsyncIterator[Client]:
    try:
        async with Client(url, http=HTTPOptions(auth=who)) as client:
            yield client
    finally:
        await who.close()


async def whoami(client: Client) -> dict[str, Any]:
    result = await client.call_tool("whoami", {})
    found: dict[str, Any] = json.loads(result.content[0].text)
    return found


async def test_a_person_logs_in_in_a_browser_and_is_let_in(auth: Provider, site: str):
    person = Person(auth)
    async with connect(site, OAuth(open_url=person.open, store=MemoryStore())) as client:
        found = await whoami(client)
        [contents] = (await client.read_resource("memo://open")).contents
        await person.visit
    assert found["subject"] == "alice"
    assert found["scopes"] == ["mcp", "tools"]
    assert contents.text
    assert len(person.pages) == 2  # to get in, and for the tool


async def test_more_is_agreed_to_when_more_is_needed(auth: Provider, site: str):
    person = Person(auth)
    async with connect(site, OAuth(authorize=person.browse, store=MemoryStore())) as client:
        await client.read_resource("memo://open")
        await client.read_resource("secret://plan")
        assert (await whoami(client))["scopes"] == ["mcp", "secrets:read", "tools"]
        await client.read_resource("secret://plan")
    assert len(person.pages) == 3


async def test_tokens_are_renewed_with_tokens_that_change_each_time(auth: Provider, site: str, clock: Clock):
    clock.now = __import__("time").time()
    person = Person(auth)
    store = MemoryStore()
    who = OAuth(authorize=person.browse, store=store, clock=clock, scopes=["mcp", "tools"])
    async with connect(site, who) as client:
        await whoami(client)
        seen = {json.loads(text)["refresh_token"] for text in store._texts.values() if "refresh_token" in text}
        for _ in range(3):
            clock.now += 601
            assert (await whoami(client))["subject"] == "alice"
            seen |= {json.loads(text)["refresh_token"] for text in store._texts.values() if "refresh_token" in text}
    assert len(person.pages) == 1
    assert len(seen) == 4


async def test_a_user_may_take_longer_to_log_in_than_a_server_to_answer(auth: Provider, site: str):
    person = Person(auth)

    async def browse(url: str) -> str:
        pass_time(70)
        await asyncio.sleep(0.01)
        return await person.browse(url)

    who = OAuth(authorize=browse, store=MemoryStore())
    try:
        async with Client(site, http=HTTPOptions(auth=who), patience=50, timeout=60) as client:
            assert client.revision == "2026-07-28"  # the newest: the silence was not the server's
            assert (await whoami(client))["subject"] == "alice"
    finally:
        await who.close()
    assert len(person.pages) == 2


async def test_a_second_process_needs_no_login(auth: Provider, site: str):
    person, store = Person(auth), MemoryStore()
    principals = set()
    for _ in range(2):
        who = OAuth(authorize=person.browse, store=store, scopes=["mcp", "tools"])
        async with connect(site, who) as client:
            assert (await whoami(client))["subject"] == "alice"
            principals.add(who.principal)
    assert len(person.pages) == 1
    assert len(principals) == 1


async def test_persons_are_told_apart(auth: Provider, site: str):
    principals = set()
    for name in ("alice", "bob"):
        who = OAuth(authorize=Person(auth, name).browse, store=MemoryStore(), scopes=["mcp", "tools"])
        async with connect(site, who) as client:
            assert (await whoami(client))["subject"] == name
            principals.add(who.principal)
    assert len(principals) == 2


async def test_calls_at_the_same_time_ask_one_person_once(auth: Provider, site: str):
    person = Person(auth)
    async with connect(site, OAuth(authorize=person.browse, store=MemoryStore())) as client:
        found = await asyncio.gather(*(whoami(client) for _ in range(20)))
    assert {one["subject"] for one in found} == {"alice"}
    assert len(person.pages) == 2


async def test_a_client_that_was_registered_by_hand_is_used(auth: Provider, site: str):
    person = Person(auth)
    who = OAuth(
        client_id="app", issuer=auth.issuer, authorize=person.browse, store=MemoryStore(), scopes=["mcp", "tools"]
    )
    async with connect(site, who) as client:
        assert (await whoami(client))["client"] == "app"


async def test_a_resource_that_the_provider_does_not_know_is_told_in_words(auth: Provider):
    with over_http(build(), authorization=Authorization(auth.issuer)) as origin:
        who = OAuth(authorize=Person(auth).browse, store=MemoryStore())
        with pytest.raises(AuthorizationError, match="did not authorize this application"):
            async with connect(f"{origin}/mcp", who):
                pass


@pytest.mark.parametrize("revision", ["2025-03-26", "2025-06-18", "2025-11-25", "2026-07-28"])
async def test_a_robot_is_let_in_in_every_revision_that_has_authorization(auth: Provider, site: str, revision: str):
    who = ClientCredentials("robot", "robot's s%&+ecret", issuer=auth.issuer, scopes=["mcp", "tools"])
    try:
        async with Client(site, http=HTTPOptions(auth=who), revision=revision) as client:
            assert (await whoami(client))["client"] == "robot"
    finally:
        await who.close()


async def test_a_token_that_was_revoked_is_replaced(auth: Provider):
    authorization = Introspection(
        issuer=auth.issuer, client_id="resource-server", client_secret="resource-server's s%&+ecret", remember=0
    )
    with over_http(build(), authorization=authorization) as origin:
        url = f"{origin}/mcp"
        auth.protect(url, "mcp", opaque=True)
        who = ClientCredentials("robot", "robot's s%&+ecret", issuer=auth.issuer)
        async with connect(url, who) as client:
            await client.read_resource("memo://open")
            before = (await who.headers(url))["authorization"]
            await asyncio.to_thread(auth.revoke, before.removeprefix("Bearer "))
            await client.read_resource("memo://open")
            assert (await who.headers(url))["authorization"] != before


async def test_a_login_that_is_revoked_cannot_be_renewed(auth: Provider, site: str):
    who = OAuth(open_url=Person(auth).open, store=MemoryStore())
    async with connect(site, who) as client:
        await client.read_resource("memo://open")
        token = who._token
        assert token is not None
        assert token.refresh_token
        assert await who.revoke(site)
        assert not await who.revoke(site)
        assert not await who.headers(site)
        identity = await who.identify((await who._target_of(token)).server)
        assert identity is not None
        form = {"grant_type": "refresh_token", "refresh_token": token.refresh_token}
        with pytest.raises(TokenRejected, match="invalid_grant"):
            await request_token(who.client_at((await who._target_of(token)).server, identity), form)


async def test_a_provider_that_does_not_answer_does_not_keep_a_login(auth: Provider, site: str):
    who = OAuth(open_url=Person(auth).open, store=MemoryStore())
    async with connect(site, who) as client:
        await client.read_resource("memo://open")
        auth.tell("stop")
        try:
            with pytest.raises(NotRevoked, match="503"):
                await who.revoke(site)
        finally:
            auth.tell("start")
        assert not await who.headers(site)


async def test_a_robot_signs_who_it_is(auth: Provider, site: str):
    key = ECKey.generate_key("P-256", {"kid": "k", "use": "sig", "alg": "ES256"})
    document = {
        "token_endpoint_auth_method": "private_key_jwt",
        "token_endpoint_auth_signing_alg": "ES256",
        "grant_types": ["client_credentials"],
        "response_types": [],
        "redirect_uris": [],
        "jwks": {"keys": [key.as_dict(private=False)]},
    }
    request = urllib.request.Request(
        f"{auth.issuer}/reg", json.dumps(document).encode(), {"content-type": "application/json"}
    )
    with await asyncio.to_thread(urllib.request.urlopen, request, timeout=60) as response:
        registered = json.loads(response.read())
    signing = PrivateKey(key.as_pem(private=True), "ES256", id="k")
    who = ClientCredentials(registered["client_id"], key=signing, issuer=auth.issuer, scopes=["mcp", "tools"])
    async with connect(site, who) as client:
        assert (await whoami(client))["client"] == registered["client_id"]


async def test_the_provider_binds_tokens_to_our_keys(auth: Provider, site: str):
    who = ClientCredentials("robot", "robot's s%&+ecret", issuer=auth.issuer, dpop=True)
    assert await who.headers(site) == {}
    server = await find_server(auth.issuer, who.fetcher)
    token = await who.grant(AuthorizationTarget(server, site, None, False, True), frozenset(["mcp"]))
    assert token.token_type == "DPoP"
    payload = token.access_token.split(".")[1]
    claims = json.loads(__import__("base64").urlsafe_b64decode(payload + "=="))
    assert who.binding.prover is not None
    assert claims["cnf"] == {"jkt": who.binding.prover.key.thumbprint()}
    await who.close()


async def test_a_provider_that_is_away_is_named(auth: Provider, site: str):
    make: Callable[[], OAuth] = lambda: OAuth(authorize=Person(auth).browse, store=MemoryStore())  # noqa: E731
    auth.tell("stop")
    try:
        with pytest.raises(AuthorizationError, match="answered 503"):
            async with connect(site, make()):
                pass
    finally:
        auth.tell("start")
    async with connect(site, make()) as client:
        await client.read_resource("memo://open")
