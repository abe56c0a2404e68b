"""Grants of the OAuth proxy: when a login ends, and its tokens at the upstream."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any

import pytest

from carrel.security.server.proxy import grants as module
from carrel.security.server.proxy.clients import OAuthError
from carrel.security.server.proxy.grants import SOON, ProxyContext, ProxyGrant, ProxyGrants
from carrel.security.server.proxy.sealing import Sealer
from carrel.security.server.proxy.stores import ProxyMemoryStore
from carrel.security.server.proxy.upstream import (
    Upstream,
    UpstreamClient,
    UpstreamRejected,
    UpstreamTokens,
    UpstreamUser,
)
from carrel.security.server.scopes import Scopes
from support.clock import Clock
from support.token_issuer import Issuer

BACK = "https://app.example/callback"


class Proxy:
    """Grants of a proxy whose upstream is an OpenID provider on this machine."""

    def __init__(self, issuer: Issuer) -> None:
        self.clock = Clock()
        upstream = Upstream(
            name="Upstream",
            client_id="id",
            client_secret="secret",
            issuer=issuer.url,
            token_endpoint=f"{issuer.url}/token",
        )
        self.upstream = UpstreamClient(upstream, "https://mcp.example.org/callback", self.clock)
        self.sealer, self.store = Sealer(), ProxyMemoryStore()
        self.context = ProxyContext(
            "https://mcp.example.org",
            "https://mcp.example.org/mcp",
            Scopes({}, {}),
            self.sealer,
            self.upstream,
            self.clock,
        )
        self.grants = self.replica()

    def replica(self) -> ProxyGrants:
        """Return the grants as another process sees them."""
        return ProxyGrants(self.context, self.store, lambda: None, access_ttl=600, refresh_ttl=6000)

    async def begin(self, tokens: UpstreamTokens) -> ProxyGrant:
        return await self.grants.begin(UpstreamUser("alice", {}), tokens, "client", frozenset(), "resource")


@pytest.fixture
async def proxy(issuer: Issuer) -> AsyncIterator[Proxy]:
    found = Proxy(issuer)
    yield found
    await found.upstream.close()


def issue(issuer: Issuer, status: int = 200, **document: Any) -> None:
    body = {"access_token": "new", "token_type": "Bearer", **document}
    issuer.pages["/token"] = (status, {"content-type": "application/json"}, json.dumps(body).encode())


async def test_a_code_is_not_redeemed_after_the_end_of_the_login(proxy: Proxy) -> None:
    grant = await proxy.begin(UpstreamTokens("access"))
    code = proxy.grants.read_code(await proxy.grants.code(grant, BACK, "challenge"))
    await proxy.store.delete(f"grant-{grant.id}")
    with pytest.raises(OAuthError, match="The login has ended"):
        await proxy.grants.redeem(code)


async def test_a_code_is_valid_until_its_time_is_over(proxy: Proxy) -> None:
    text = await proxy.grants.code(await proxy.begin(UpstreamTokens("access")), BACK, "challenge")
    proxy.clock.now += module.CODE_TTL - 1
    assert proxy.grants.read_code(text).redirect_uri == BACK
    proxy.clock.now += 1
    with pytest.raises(OAuthError, match="not valid"):
        proxy.grants.read_code(text)


async def test_a_user_whom_nobody_can_confirm_later_gets_no_refresh_token(proxy: Proxy) -> None:
    for refresh in (None, "refresh"):
        grant = await proxy.begin(UpstreamTokens("access", refresh))
        code = proxy.grants.read_code(await proxy.grants.code(grant, BACK, "challenge"))
        assert ("refresh_token" in await proxy.grants.redeem(code)) is (refresh is not None)


async def test_an_upstream_token_without_a_refresh_token_is_valid_until_shortly_before_it_expires(proxy: Proxy) -> None:
    grant = await proxy.begin(UpstreamTokens("access", expires=proxy.clock() + SOON + 2))
    assert (await proxy.grants.renew(grant)).access == "access"
    proxy.clock.now += 2
    with pytest.raises(UpstreamRejected, match="has expired, and there is no refresh token"):
        await proxy.grants.renew(grant)


async def test_an_upstream_token_without_an_expiry_is_not_renewed(proxy: Proxy, issuer: Issuer) -> None:
    grant = await proxy.begin(UpstreamTokens("access", "refresh"))
    proxy.clock.now += 10**9
    assert (await proxy.grants.renew(grant)).access == "access"
    assert issuer.forms == []


async def test_the_tokens_of_a_login_that_has_ended_are_not_renewed(proxy: Proxy, issuer: Issuer) -> None:
    issue(issuer)
    grant = await proxy.begin(UpstreamTokens("access", "refresh", expires=proxy.clock()))
    await proxy.grants.end(grant.id)
    with pytest.raises(UpstreamRejected, match="the grant has ended"):
        await proxy.grants.renew(grant)
    assert issuer.forms == []


async def test_a_token_that_another_process_has_renewed_is_taken_from_there(proxy: Proxy, issuer: Issuer) -> None:
    issue(issuer, refresh_token="second", expires_in=3600)
    grant = await proxy.begin(UpstreamTokens("access", "first", expires=proxy.clock()))
    stale = await proxy.grants.load(grant.id)
    assert stale is not None
    await proxy.replica().renew(grant)
    issue(issuer, 400, error="invalid_grant")
    assert (await proxy.grants._refresh_upstream(stale)).refresh == "second"
    renewed = await proxy.grants.load(grant.id)
    assert renewed is not None
    with pytest.raises(UpstreamRejected):
        await proxy.grants._refresh_upstream(renewed)


async def test_the_locks_of_grants_take_limited_memory(proxy: Proxy, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_LOCKS", 2)
    grant = await proxy.begin(UpstreamTokens("access"))
    for _ in range(5):
        await proxy.begin(UpstreamTokens("access"))
        await proxy.grants.renew(grant)
    assert len(proxy.grants._locks) <= 2
    async with proxy.grants._lock("held"):
        for number in range(5):
            proxy.grants._lock(str(number))
        assert proxy.grants._lock("held").locked(), "a lock in use is kept"
