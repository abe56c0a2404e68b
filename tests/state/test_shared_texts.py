"""Texts in shared state: logins at one server hold at the others."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager, suppress
from typing import Any

import pytest
import redis

from carrel.errors import ServerUnavailable
from carrel.security import OAuthProxy
from carrel.state.interfaces import StoreUnavailable
from carrel.state.memory import MemoryState
from carrel.state.redis.state import RedisState
from carrel.state.replica import Replica
from carrel.state.shared_texts import SharedTexts
from support.http_requests import ask
from support.http_server import over_http
from support.login_provider import LoginProvider, login_provider, proxy_of
from support.login_site import BareClient, Site, build
from support.redis_servers import RedisServer, redis_server

KEY = bytes(range(32))


@pytest.fixture
def server() -> Iterator[RedisServer]:
    with redis_server() as running:
        yield running


@asynccontextmanager
async def replicas(url: str) -> AsyncIterator[list[Replica]]:
    async with AsyncExitStack() as stack:
        found = [Replica(RedisState(url, [KEY])) for _ in range(2)]
        for replica in found:
            await replica.start()
            stack.push_async_callback(stop, replica)
        yield found


async def stop(replica: Replica) -> None:
    with suppress(StoreUnavailable):
        await replica.stop()


async def test_without_a_store_texts_are_in_memory() -> None:
    replica = Replica(MemoryState())
    texts, others = SharedTexts(lambda: replica, "a"), SharedTexts(lambda: replica, "b")
    await texts.put("key", "grüße", 60)
    assert await texts.get("key") == "grüße"
    assert await others.get("key") is None
    assert await texts.take("key") == "grüße"
    assert await texts.get("key") is None


@pytest.mark.slow
async def test_replicas_share_texts_that_nobody_else_can_read(server: RedisServer) -> None:
    async with replicas(server.url) as (one, other):
        texts, same = SharedTexts(lambda: one, "logins"), SharedTexts(lambda: other, "logins")
        await texts.put("grant-ann", "secret-token")
        assert await same.get("grant-ann") == "secret-token"
        assert await SharedTexts(lambda: other, "others").get("grant-ann") is None
        with redis.Redis(unix_socket_path=str(server.socket)) as client:
            dump = b"".join(client.dump(key) + key for key in client.scan_iter())  # type: ignore[operator]
        assert b"secret-token" not in dump
        assert b"ann" not in dump
        taken = await asyncio.gather(*(store.take("grant-ann") for store in (texts, same) * 5))
        assert taken.count("secret-token") == 1
        server.stop()
        with pytest.raises(ServerUnavailable):
            await texts.get("grant-ann")


# Logins through the OAuth proxy


@contextmanager
def shared_site(server: RedisServer, provider: LoginProvider, resource: str | None = None) -> Iterator[Site]:
    """Run a replica whose users log in at a provider."""
    proxies: list[OAuthProxy] = []
    app = build(proxies)
    app.share_state(server.url, [KEY])
    options: dict[str, Any] = {"keys": [KEY], "store": SharedTexts(lambda: app.endpoint.replica, "logins")}
    listener = socket.create_server(("127.0.0.1", 0))
    origin = f"http://127.0.0.1:{listener.getsockname()[1]}"
    proxies.append(proxy_of("keycloak", provider, resource=resource or f"{origin}/mcp", **options))
    with over_http(app, listener, authorization=proxies[0]):
        yield Site(origin, proxies[0], provider)


@pytest.mark.slow
def test_a_login_at_one_replica_of_an_oauth_proxy_holds_at_the_other(server: RedisServer) -> None:
    with (
        login_provider("keycloak") as provider,
        shared_site(server, provider) as one,
        shared_site(server, provider, one.url) as other,
    ):
        client = BareClient(one)
        tokens = client.tokens()

        def whoami(place: Site, token: str) -> Any:
            return ask(place.url, "tools/call", token, name="whoami", arguments={})

        assert whoami(one, tokens["access_token"]).status == 200
        assert whoami(other, tokens["access_token"]).status == 200
        client.place = other._replace(provider=one.provider)
        renewed = client.refresh(tokens["refresh_token"], resource=one.url)
        assert renewed.status_code == 200, renewed.text
        assert whoami(one, renewed.json()["access_token"]).status == 200
        client.place = one
        assert client.refresh(tokens["refresh_token"]).status_code == 400, "a second use ends the login"
        one.pass_time(60)
        assert whoami(one, renewed.json()["access_token"]).status == 401
