"""Logins of users to ``carrel gateway`` and at the servers behind it, in their browsers."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import httpx2
import pytest

from carrel import Client, Context, Server
from carrel.security import Authorization
from carrel.security.client import Bearer
from carrel.transports.client.options import HTTPOptions
from support.carrel_process import serving
from support.http_process import free_port
from support.http_server import over_http
from support.openid_provider import Provider, provider

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def auth() -> Iterator[Provider]:
    """An OpenID provider, which issues tokens for the gateway and for the server behind it."""
    with provider() as one:
        yield one


class Running:
    """``carrel gateway`` before one server at which its users log in."""

    def __init__(self, auth: Provider, origin: str) -> None:
        self.auth, self.origin = auth, origin

    async def page(self, user: str) -> str:
        """Return the page that a user is told to open."""
        token = await asyncio.to_thread(self.auth.person, user, f"{self.origin}/mcp", "mcp")
        http = HTTPOptions(auth=Bearer(token["access_token"]))
        async with Client(f"{self.origin}/mcp", http=http) as client:
            await client.list_tools()
            result = await client.call_tool("team_login", {})
        [page] = re.findall(r"http://\S+", result.content[0].text)
        return str(page)

    def registrations(self) -> int:
        """Return how many clients have been registered at the provider."""
        return self.auth.asked("/reg")


class Browser(httpx2.Client):
    """Browser of a user who logs in to the gateway."""

    def begin(self, page: str) -> str:
        """Open a page of the gateway, and return the login to which the browser is sent."""
        sent = self.get(page)
        assert sent.status_code == 303, sent.text
        return str(sent.headers["location"])

    def complete(self, running: Running, login: str, user: str) -> httpx2.Response:
        """Log in, and return the page to which the browser comes back in the end."""
        back = self.get(running.auth.browse(login, user))
        return back if back.status_code != 303 else self.get(back.headers["location"])


@pytest.fixture(scope="module")
def running(auth: Provider, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    app, port = Server("team"), free_port()

    @app.tool
    async def whoami(context: Context) -> str:
        assert context.principal is not None
        return context.principal.subject

    origin, place = f"http://127.0.0.1:{port}", tmp_path_factory.mktemp("gateway")
    with over_http(app, authorization=Authorization(auth.issuer, scopes={"*": "mcp"})) as team:
        for url in (f"{team}/mcp", f"{origin}/mcp"):
            auth.protect(url, "mcp")
        (place / "carrel.toml").write_text(
            f'[auth]\nissuer = "{auth.issuer}"\nresource = "{origin}/mcp"\n'
            f'[gateway]\npublic_url = "{origin}"\n[servers.team]\nurl = "{team}/mcp"\n'
        )
        with serving(
            *("gateway", "--config", str(place / "carrel.toml")),
            http=("--http", str(port)),
            CARREL_GATEWAY_KEYS="0f" * 32,
            XDG_CONFIG_HOME=str(place),
            PYTHON_KEYRING_BACKEND="keyring.backends.null.Keyring",
        ):
            yield Running(auth, origin)


async def test_many_logins_of_one_user_register_one_client_and_leave_those_of_others(running: Running) -> None:
    before = running.registrations()
    anns, bens = await asyncio.gather(running.page("ann"), running.page("ben"))
    assert running.registrations() == before + 1  # of the gateway at the server's authorization server
    with Browser() as first, Browser() as last, Browser() as ben, ThreadPoolExecutor(10) as pool:
        [firsts_login, bens_login] = pool.map(Browser.begin, (first, ben), (anns, bens))
        statuses = list(pool.map(lambda _: httpx2.get(anns).status_code, range(30)))
        assert set(statuses) <= {303, 409}  # begun, or ended by the next one
        lasts_login = last.begin(anns)
        assert running.registrations() == before + 2  # of the gateway at its own issuer
        assert first.complete(running, firsts_login, "ann").status_code == 400
        consent = last.complete(running, lasts_login, "ann")
        assert (consent.status_code, "as ann" in consent.text) == (200, True)
        consent = ben.complete(running, bens_login, "ben")
        assert (consent.status_code, "as ben" in consent.text) == (200, True)


async def test_the_page_of_a_user_is_refused_to_another_one(running: Running) -> None:
    page = await running.page("carol")
    with Browser() as dave:
        refused = dave.complete(running, dave.begin(page), "dave")
    assert (refused.status_code, "for another user" in refused.text) == (403, True)
