"""Grants of users at the servers of a gateway: asked for, kept apart, encrypted, renewed, revoked."""

import asyncio
import contextlib
import re
import socket
from contextlib import AsyncExitStack, asynccontextmanager
from typing import ClassVar

import httpx2
import msgspec
import pytest
import uvicorn

from carrel import Client, Context, Server
from carrel.client.handlers import Handlers
from carrel.errors import ConfigError
from carrel.gateway import grants as grants_module
from carrel.gateway.browser_login import LOGIN, IssuerLogin
from carrel.gateway.browser_pages import CALLBACK, START, BrowserPages
from carrel.gateway.gateway import Gateway
from carrel.gateway.grants import Grants
from carrel.gateway.vault import KEY_NAME, KEYS, Vault, VaultKeys
from carrel.host.config.server_config import ServerConfig
from carrel.protocol.principal import Principal
from carrel.security import Authorization, StaticTokens
from carrel.security.client import Bearer, FileStore, MemoryStore
from carrel.security.server.static_tokens import make_token
from carrel.state.redis.state import RedisState
from carrel.state.replica import Replica
from carrel.state.shared_texts import SharedTexts
from carrel.transports.client.options import HTTPOptions
from support.clock import Clock
from support.http_server import over_http
from support.openid_provider import provider
from support.redis_servers import redis_server

pytestmark = pytest.mark.slow

SESSION, NEWEST = "2025-11-25", "2026-07-28"
KEY = bytes(range(32))


@pytest.fixture(scope="module")
def auth():
    """A running OpenID provider, which we did not write."""
    with provider() as one:
        yield one


class Team:
    """Protected server that says who calls it, and remembers every header that it gets."""

    def __init__(self, auth):
        self.seen = []
        self.app = Server("team")
        self.tokens = set()

        @self.app.tool
        async def whoami(context: Context) -> str:
            self.runs += 1
            return context.principal.subject

        @self.app.resource("team://me")
        async def me(context: Context) -> str:
            return context.principal.subject

        self.runs = 0
        self.auth = auth

    @contextlib.contextmanager
    def serve(self):
        team = self

        class Recording:
            def __init__(self, app):
                self.app = app

            async def __call__(self, scope, receive, send):
                team.seen.append(repr(scope.get("headers")))

                async def heard():
                    message = await receive()
                    team.seen.append(repr(message.get("body")))
                    return message

                await self.app(scope, heard if scope["type"] == "http" else receive, send)

        authorization = Authorization(self.auth.issuer, scopes={"*": "mcp"})
        asgi = self.app.asgi
        self.app.asgi = lambda **options: Recording(asgi(**options))
        with over_http(self.app, authorization=authorization) as origin:
            self.url = f"{origin}/mcp"
            self.auth.protect(self.url, "mcp")
            yield self


@pytest.fixture(autouse=True)
def closed_browsers():
    """Close the browsers of a test."""
    yield
    while Browser.opened:
        Browser.opened.pop().close()


@pytest.fixture
def team(auth):
    with Team(auth).serve() as one:
        yield one


class Running(uvicorn.Server):
    """uvicorn in the event loop of the test."""

    @contextlib.contextmanager
    def capture_signals(self):
        yield


async def in_header(request):
    """Return the user whom a single sign-on in front of the gateway names."""
    return request.headers.get("x-user")


class Place:
    """A gateway over HTTP, with two people who have tokens for it."""

    def __init__(self, origin, tokens, grants, store):
        self.origin, self.tokens, self.grants, self.store = origin, tokens, grants, store
        self.pages = []

    def client(self, name, revision=NEWEST, visit=None):
        async def show(page):
            self.pages.append(page.url)
            return True if visit is None else await visit(page.url)

        handlers = None if visit is False else Handlers(elicit_url=show)
        http = HTTPOptions(auth=Bearer(self.tokens[name]))
        return Client(f"{self.origin}/mcp", revision=revision, http=http, handlers=handlers)


@asynccontextmanager
async def gateway_to(team, tmp_path, store=None, **options):
    made = {name: make_token(name) for name in ("ann", "ben")}
    path = tmp_path / "tokens"
    path.write_text("\n".join(line for _, line in made.values()))
    store = MemoryStore() if store is None else store
    with socket.create_server(("127.0.0.1", 0)) as listener:
        origin = f"http://127.0.0.1:{listener.getsockname()[1]}"
        grants = Grants(BrowserPages(origin, login=in_header), store=store, keys=[KEY], **options)
        config = ServerConfig(name="team", url=team.url, transport="http")
        async with Gateway([config], grants=grants) as gateway:
            app = gateway.app.asgi(authorization=StaticTokens(path))
            server = Running(uvicorn.Config(app, log_level="critical", lifespan="on", ws="none"))
            serving = asyncio.create_task(server.serve([listener]))
            try:
                yield Place(origin, {name: token for name, (token, _) in made.items()}, grants, store)
            finally:
                server.should_exit = True
                await serving


class Browser:
    """Browser of a person: cookies, and the single sign-on of the gateway."""

    opened: ClassVar[list[httpx2.Client]] = []

    def __init__(self, auth, user, login=None):
        self.auth, self.user, self.login = auth, user, login or user
        self.http = httpx2.Client(headers={"x-user": user})
        self.opened.append(self.http)

    def _start(self, url):
        shown = self.http.get(url)
        if shown.status_code != 200:
            return shown
        ticket = re.search(r'name="ticket" value="([^"]+)"', shown.text)[1]
        return self.http.post(url.partition("?")[0], data={"ticket": ticket})

    def _visit(self, url):
        sent = self._start(url)
        assert sent.status_code == 303, sent.text
        back = self.auth.browse(sent.headers["location"], self.login)
        return self.http.get(back)

    async def start(self, url):
        return await asyncio.to_thread(self._start, url)

    async def visit(self, url):
        """Agree, log in at the server, and come back."""
        response = await asyncio.to_thread(self._visit, url)
        assert response.status_code == 200, response.text
        assert "is connected" in response.text
        return True


async def text(client, tool="whoami"):
    result = await client.call_tool(tool, {})
    return result.content[0].text


@pytest.mark.parametrize("near", [SESSION, NEWEST])
async def test_each_person_logs_in_for_themselves_and_the_call_goes_on(auth, team, tmp_path, near):
    async with gateway_to(team, tmp_path) as place, AsyncExitStack() as stack:
        ann = await stack.enter_async_context(place.client("ann", near, Browser(auth, "ann").visit))
        ben = await stack.enter_async_context(place.client("ben", near, Browser(auth, "ben", "ben-at-work").visit))
        assert [tool.name for tool in await ann.list_tools()] == ["team_login"]
        assert "logged in" in await text(ann, "team_login")
        assert await text(ann) == "ann"
        assert [tool.name for tool in await ben.list_tools()] == ["team_login"]
        assert await text(ben) == "ben-at-work"  # asked while it calls the tool itself
        assert await text(ann) == "ann"
        assert (await ben.read_resource("team://me")).contents[0].text == "ben-at-work"
        assert (await ann.read_resource("team://me")).contents[0].text == "ann"
        assert team.runs == 3
        assert len(place.pages) == 2
        seen = "".join(team.seen)
        for token in place.tokens.values():
            assert token not in seen


async def test_a_client_without_pages_is_told_where_to_log_in(auth, team, tmp_path):
    async with gateway_to(team, tmp_path) as place, place.client("ann", visit=False) as ann:
        await ann.list_tools()
        result = await ann.call_tool("team_login", {})
        assert result.is_error
        [page] = re.findall(r"http://\S+", result.content[0].text)
        assert await Browser(auth, "ann").visit(page)
        assert "logged in" in await text(ann, "team_login")
        assert await text(ann) == "ann"


async def test_a_user_who_says_no_is_not_asked_on_and_on(auth, team, tmp_path):
    async def no(_):
        return False

    async with gateway_to(team, tmp_path) as place, place.client("ann", NEWEST, no) as ann:
        await ann.list_tools()
        result = await ann.call_tool("team_login", {})
        assert result.is_error
        assert "did not want to log in" in result.content[0].text
        assert len(place.pages) == 1


async def pending(place, name="ann"):
    """Make a call of a person, and return the page that they are asked to visit."""
    asked = asyncio.get_running_loop().create_future()

    async def take(url):
        asked.set_result(url)
        return True

    async def call():
        async with place.client(name, NEWEST, take) as client:
            await client.list_tools()
            return await client.call_tool("team_login", {})

    calling = asyncio.create_task(call())
    return await asked, calling


async def end(calling):
    calling.cancel()
    await asyncio.gather(calling, return_exceptions=True)


async def test_a_page_is_not_for_another_user(auth, team, tmp_path):
    async with gateway_to(team, tmp_path) as place:
        page, calling = await pending(place)
        for other in (Browser(auth, "ben"), Browser(auth, "")):
            refused = await other.start(page)
            assert refused.status_code in (401, 403)
            assert "location" not in refused.headers
        forged = await Browser(auth, "ann").start(page.partition("?")[0] + "?ticket=forged")
        assert forged.status_code == 404
        assert await Browser(auth, "ann").visit(page)
        assert not (await calling).is_error


async def test_a_response_counts_once_and_only_in_the_browser_that_was_sent_there(auth, team, tmp_path):
    async with gateway_to(team, tmp_path) as place:
        page, calling = await pending(place)
        ann, eve = Browser(auth, "ann"), Browser(auth, "ann", "eve")
        sent = await ann.start(page)
        url = sent.headers["location"]
        assert "code_challenge_method=S256" in url
        back = await asyncio.to_thread(auth.browse, url, "ann")
        assert back.startswith(f"{place.origin}{CALLBACK}?")
        assert (await asyncio.to_thread(eve.http.get, back)).status_code == 403
        assert (await eve.start(page)).status_code == 403  # begun in another browser
        forged = re.sub(r"state=[^&]+", "state=forged", back)
        assert (await asyncio.to_thread(ann.http.get, forged)).status_code == 400
        assert (await asyncio.to_thread(ann.http.get, f"{place.origin}{CALLBACK}")).status_code == 400
        assert not calling.done()
        assert (await asyncio.to_thread(ann.http.get, back)).status_code == 200
        assert not (await calling).is_error
        assert (await asyncio.to_thread(ann.http.get, back)).status_code == 400  # again
        assert (await ann.start(page)).status_code == 404


async def test_a_response_of_another_issuer_is_refused(auth, team, tmp_path):
    async with gateway_to(team, tmp_path) as place:
        page, calling = await pending(place)
        ann = Browser(auth, "ann")
        sent = await ann.start(page)
        back = await asyncio.to_thread(auth.browse, sent.headers["location"], "ann")
        mixed = re.sub(r"iss=[^&]+", "iss=https%3A%2F%2Fevil.example", back)
        assert (await asyncio.to_thread(ann.http.get, mixed)).status_code == 400
        result = await calling
        assert result.is_error
        assert "another server" in result.content[0].text
        assert (await ann.start(page)).status_code == 404
        assert page.rpartition("=")[2] not in place.grants.pages._by_ticket


async def test_a_response_at_the_redirect_uri_of_another_server_is_refused(auth, team, tmp_path):
    origins = []

    def own_redirect_uri(name):
        return {"redirect_uri": f"{origins[0]}{CALLBACK}/{name}"}

    async with gateway_to(team, tmp_path, oauth=own_redirect_uri) as place:
        origins.append(place.origin)
        page, calling = await pending(place)
        ann = Browser(auth, "ann")
        sent = await ann.start(page)
        back = await asyncio.to_thread(auth.browse, sent.headers["location"], "ann")
        shared = back.replace(f"{CALLBACK}/team?", f"{CALLBACK}?")
        assert (await asyncio.to_thread(ann.http.get, shared)).status_code == 400
        assert (await asyncio.to_thread(ann.http.get, back)).status_code == 200
        assert not (await calling).is_error


async def test_a_login_that_is_not_completed_expires(auth, team, tmp_path):
    async with gateway_to(team, tmp_path) as place:
        place.grants.pages._patience = 0.3
        page, calling = await pending(place)
        result = await calling
        assert result.is_error
        assert "not completed in time" in result.content[0].text
        assert (await Browser(auth, "ann").start(page)).status_code == 404


async def test_grants_are_kept_encrypted_for_the_next_run_and_a_revoked_one_asks_again(auth, team, tmp_path):
    files = FileStore(tmp_path / "grants")
    async with (
        gateway_to(team, tmp_path, files) as place,
        place.client("ann", NEWEST, Browser(auth, "ann").visit) as ann,
    ):
        await ann.list_tools()
        await text(ann, "team_login")
    kept = b"".join(path.read_bytes() for path in (tmp_path / "grants").iterdir())
    seen = "".join(team.seen)
    tokens = re.findall(r"Bearer ([\w.-]+)", seen)
    assert tokens
    for secret in (*tokens, "refresh_token", "access_token", '"ann"', auth.issuer):
        assert secret.encode() not in kept
    async with gateway_to(team, tmp_path, files) as place, AsyncExitStack() as stack:
        ann = await stack.enter_async_context(place.client("ann", NEWEST, Browser(auth, "ann").visit))
        assert [tool.name for tool in await ann.list_tools()] == ["whoami"]
        assert await text(ann) == "ann"
        assert place.pages == []
        [principal] = [grant._principal for grant in place.grants._grants.values()]
        before = auth.asked("/token/revocation")
        assert await place.grants.revoke("team", team.url, principal)
        assert auth.asked("/token/revocation") == before + 2  # the refresh token and the access token
        assert await text(ann) == "ann"
        assert len(place.pages) == 1


async def test_a_login_at_one_gateway_holds_at_its_replicas(auth, team, tmp_path):
    with redis_server() as redis:
        async with AsyncExitStack() as stack:
            clients = []
            for name in ("one", "other"):
                (tmp_path / name).mkdir()
                replica = Replica(RedisState(redis.url, [KEY]))
                await replica.start()
                stack.push_async_callback(replica.stop)
                store = SharedTexts(lambda replica=replica: replica, "grants")
                place = await stack.enter_async_context(gateway_to(team, tmp_path / name, store))
                clients.append(await stack.enter_async_context(place.client("ann", NEWEST, Browser(auth, "ann").visit)))
            one, other = clients
            for client in clients:
                assert [tool.name for tool in await client.list_tools()] == ["team_login"]
            await text(one, "team_login")
            assert await text(one) == "ann"
            assert [tool.name for tool in await other.list_tools()] == ["whoami"]
            assert await text(other) == "ann"
            assert place.pages == [], "the user has logged in once"


async def test_an_entry_is_opened_only_for_its_principal_and_name():
    inner = MemoryStore()
    keys = VaultKeys([KEY], inner)
    ann, ben = Vault(inner, keys, "ann"), Vault(inner, keys, "ben")
    await ann.put('["token","https://issuer","ann"]', "secret")
    assert await ann.get('["token","https://issuer","ann"]') == "secret"
    assert await ben.get('["token","https://issuer","ann"]') is None
    [(name, sealed)] = inner._texts.items()
    assert "secret" not in sealed
    await ben.put('["token","https://issuer","ann"]', "other")
    [copied] = inner._texts.keys() - {name}
    inner._texts[copied] = sealed
    assert await ben.get('["token","https://issuer","ann"]') is None
    other = Vault(inner, VaultKeys([bytes(32)], inner), "ann")
    assert await other.get('["token","https://issuer","ann"]') is None
    await ann.delete('["token","https://issuer","ann"]')
    assert await ann.get('["token","https://issuer","ann"]') is None


async def test_a_key_is_made_once_or_comes_from_the_environment():
    store = MemoryStore()
    one, two = Vault(store, VaultKeys((), store, {}), ""), Vault(store, VaultKeys((), store, {}), "")
    await one.put("name", "text")
    assert await two.get("name") == "text"
    given = Vault(store, VaultKeys((), store, {KEYS: KEY.hex()}), "")
    assert await given.get("name") is None
    with pytest.raises(ConfigError, match="64 hexadecimal digits"):
        VaultKeys((), store, {KEYS: "abc"})


async def test_a_key_that_many_users_need_at_the_same_time_is_made_once():
    class Slow(MemoryStore):
        async def get(self, name):
            await asyncio.sleep(0)
            return await super().get(name)

        async def put(self, name, text):
            puts.append(name)
            await asyncio.sleep(0)
            await super().put(name, text)

    puts = []
    store = Slow()
    keys = VaultKeys((), store, {})
    await asyncio.gather(*(Vault(store, keys, user).put("name", user) for user in ("ann", "ben", "eve")))
    assert puts.count(KEY_NAME) == 1
    later = VaultKeys((), store, {})
    assert [await Vault(store, later, user).get("name") for user in ("ann", "ben", "eve")] == ["ann", "ben", "eve"]


def test_the_public_url_is_https_or_on_this_machine():
    for url in ("http://gateway.example", "gateway.example", "https://", "https://gateway.example/?a=b"):
        with pytest.raises(ConfigError):
            BrowserPages(url)
    assert BrowserPages("https://gateway.example/").redirect_uri == f"https://gateway.example{CALLBACK}"
    assert START != CALLBACK


async def test_on_stdio_the_one_user_logs_in_with_the_browser_of_this_machine(auth, team):
    async def visit(page):
        assert page.url.startswith(auth.issuer)
        back = await asyncio.to_thread(auth.browse, page.url, "ann")
        response = await asyncio.to_thread(httpx2.get, back)
        return response.status_code == 200

    grants = Grants(store=MemoryStore(), keys=[KEY])
    config = ServerConfig(name="team", url=team.url, transport="http")
    for near in (NEWEST, SESSION):
        async with (
            Gateway([config], grants=grants) as gateway,
            Client(gateway.app, revision=near, handlers=Handlers(elicit_url=visit)) as client,
        ):
            await client.list_tools()
            assert "logged in" in await text(client, "team_login")
            assert await text(client) == "ann"


async def test_a_grant_is_renewed_without_the_user(auth, team, tmp_path):
    clock = Clock()
    async with (
        gateway_to(team, tmp_path, oauth=lambda name: {"clock": clock}) as place,
        place.client("ann", NEWEST, Browser(auth, "ann").visit) as ann,
    ):
        await ann.list_tools()
        await text(ann, "team_login")
        before = set(re.findall(r"Bearer ([\w.-]+)", "".join(team.seen)))
        clock.now += 3600
        assert await text(ann) == "ann"
        assert set(re.findall(r"Bearer ([\w.-]+)", "".join(team.seen))) - before
        assert len(place.pages) == 1


async def test_a_grant_that_the_server_does_not_accept_any_more_asks_again_in_the_middle_of_a_call(
    auth, team, tmp_path
):
    for near in (SESSION, NEWEST):
        async with (
            gateway_to(team, tmp_path) as place,
            place.client("ann", near, Browser(auth, "ann").visit) as ann,
        ):
            await ann.list_tools()
            await text(ann, "team_login")
            [grant] = place.grants._grants.values()
            token = msgspec.structs.replace(grant._auth._token, access_token="revoked", refresh_token=None)
            await grant._auth._keep(token)
            runs = team.runs
            assert await text(ann) == "ann"
            assert team.runs == runs + 1
            assert len(place.pages) == 2


async def test_the_user_of_a_browser_logs_in_to_the_gateway_at_its_own_issuer(auth, team, tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as listener:
        origin = f"http://127.0.0.1:{listener.getsockname()[1]}"
        auth.protect(f"{origin}/mcp", "mcp")
        grants = Grants(BrowserPages(origin, login=IssuerLogin(origin, auth.issuer)), store=MemoryStore(), keys=[KEY])
        config = ServerConfig(name="team", url=team.url, transport="http")
        token = auth.person("ann", f"{origin}/mcp", "mcp")["access_token"]
        async with Gateway([config], grants=grants) as gateway:
            app = gateway.app.asgi(authorization=Authorization(auth.issuer))
            server = Running(uvicorn.Config(app, log_level="critical", lifespan="on", ws="none"))
            serving = asyncio.create_task(server.serve([listener]))
            place = Place(origin, {"ann": token}, grants, None)

            def visit(url, login):
                http = Browser(auth, "").http
                asked = http.get(url)
                back = http.get(auth.browse(asked.headers["location"], login))
                if back.status_code != 303:
                    return back
                shown = http.get(back.headers["location"])
                if shown.status_code != 200:
                    return shown
                sent = http.post(url.partition("?")[0], data={"ticket": url.partition("ticket=")[2]})
                return http.get(auth.browse(sent.headers["location"], login))

            try:
                page, calling = await pending(place)
                refused = await asyncio.to_thread(visit, page, "eve")
                assert refused.status_code == 403
                assert "for another user" in refused.text
                done = await asyncio.to_thread(visit, page, "ann")
                assert "is connected" in done.text
                assert not (await calling).is_error
                assert (await asyncio.to_thread(httpx2.get, f"{origin}{LOGIN}?state=x")).status_code == 400
            finally:
                server.should_exit = True
                await serving


async def test_a_server_that_lists_for_all_asks_its_users_when_they_call(auth):
    team = Team(auth)
    inner = team.app.asgi

    class Open:
        """Lets in whatever is no call, without a token."""

        def __init__(self, plain, protected):
            self.plain, self.protected = plain, protected

        async def __call__(self, scope, receive, send):
            messages = [await receive()] if scope["type"] == "http" else []
            body = b"".join(message.get("body", b"") for message in messages)
            called = not messages or b'"tools/call"' in body or "well-known" in scope["path"]

            async def again():
                return messages.pop() if messages else await receive()

            await (self.protected if called else self.plain)(scope, again, send)

    team.app.asgi = lambda **options: Open(inner(), inner(**options))
    with over_http(team.app, authorization=Authorization(auth.issuer, scopes={"*": "mcp"})) as origin:
        auth.protect(f"{origin}/mcp", "mcp")

        async def visit(page):
            back = await asyncio.to_thread(auth.browse, page.url, "ann")
            return (await asyncio.to_thread(httpx2.get, back)).status_code == 200

        config = ServerConfig(name="team", url=f"{origin}/mcp", transport="http")
        for near in (NEWEST, SESSION):
            grants = Grants(store=MemoryStore(), keys=[KEY])
            async with (
                Gateway([config], grants=grants, revision=NEWEST) as gateway,
                Client(gateway.app, revision=near, handlers=Handlers(elicit_url=visit)) as client,
            ):
                assert [tool.name for tool in await client.list_tools()] == ["whoami"]
                assert await text(client) == "ann"
                assert await text(client) == "ann"


async def test_servers_of_one_name_at_two_urls_share_no_grant(auth, team):
    asked = []

    async def visit(page):
        asked.append(page.url)
        back = await asyncio.to_thread(auth.browse, page.url, "ann")
        return (await asyncio.to_thread(httpx2.get, back)).status_code == 200

    grants = Grants(store=MemoryStore(), keys=[KEY])
    with Team(auth).serve() as other:
        async with AsyncExitStack() as stack:
            for url in (team.url, other.url):
                config = ServerConfig(name="team", url=url, transport="http")
                gateway = await stack.enter_async_context(Gateway([config], grants=grants))
                client = Client(gateway.app, handlers=Handlers(elicit_url=visit))
                await stack.enter_async_context(client)
                await client.list_tools()
                assert "logged in" in await text(client, "team_login")
                assert await text(client) == "ann"
    assert len(asked) == 2


async def test_grants_in_memory_are_bounded_and_those_in_use_stay(monkeypatch):
    monkeypatch.setattr(grants_module, "MAX_GRANTS", 2)
    grants = Grants(store=MemoryStore(), keys=[KEY])
    first, second, third = (Principal(subject=name) for name in ("one", "two", "three"))
    used = grants.of("shop", "https://shop.example/mcp", first)
    used.given.append(print)
    idle = grants.of("shop", "https://shop.example/mcp", second)
    grants.of("shop", "https://shop.example/mcp", third)
    assert len(grants._grants) == 2
    assert grants.of("shop", "https://shop.example/mcp", first) is used
    assert grants.of("shop", "https://shop.example/mcp", second) is not idle
    await grants.close()
    assert not grants._closing
