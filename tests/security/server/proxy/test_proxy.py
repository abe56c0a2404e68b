"""Login through the OAuth proxy, with providers set up like the real ones, and clients that find their way in."""

from __future__ import annotations

import asyncio
import socket
import subprocess
import sys
from typing import Any

import httpx2
import pytest
from starlette.applications import Starlette
from starlette.routing import Mount

from carrel import Client
from carrel.errors import ConfigError
from carrel.security import OAuthProxy
from carrel.security.client import MemoryStore, OAuth
from carrel.types import HTTPOptions, HTTPRequest
from support.http_requests import ask
from support.http_server import over_http
from support.login_provider import STYLES, TENANT, login_provider, proxy_of
from support.login_site import BareClient, Site, build, site


def user_of(place: Site, login: str = "alice") -> OAuth:
    """Return the credentials of a client whose user logs in with a browser of their own."""

    async def authorize(url: str) -> str:
        with place.browser() as browser:
            return await asyncio.to_thread(browser.login, url, login)

    return OAuth(authorize=authorize, store=MemoryStore(), client_name="Carrel's test")


def whoami(place: Site, token: str) -> Any:
    return ask(place.url, "tools/call", token, name="whoami", arguments={})


@pytest.mark.parametrize("style", STYLES)
async def test_a_client_logs_in_through_a_provider_that_knows_nothing_of_it(style: str) -> None:
    with site(style, scopes={"*": "books:read"}) as place:
        async with Client(place.url, http=HTTPOptions(auth=user_of(place))) as client:
            seen = (await client.call_tool("whoami")).structured_content
            token = (await client.call_tool("upstream")).content[0].text
        assert seen["issuer"] == place.origin
        assert seen["scopes"] == ["books:read"]
        if style == "github":
            assert seen["subject"].isdigit()
            assert (seen["claims"]["login"], seen["claims"]["iss"]) == ("alice", place.origin)
        else:
            assert seen["subject"] == (f"{TENANT}/oid-alice" if "entra" in style else "alice")
            assert seen["claims"]["email"] == "alice@example.org"
        assert token
        assert token not in str(seen)
        asked = place.provider.tell("asked")
        sent = next(row for row in asked if row["route"] == "authorization")
        assert sent["code_challenge_method"] == "S256"
        assert sent["redirect_uri"] == f"{place.origin}/callback"
        assert all("resource" not in row for row in asked)


@pytest.mark.parametrize("style", ["github", "keycloak"])
def test_a_login_is_refreshed_until_the_provider_refuses_the_user(style: str) -> None:
    with site(style) as place:
        client = BareClient(place)
        first = client.tokens()
        assert whoami(place, first["access_token"]).status == 200
        place.pass_time(3700)
        assert whoami(place, first["access_token"]).challenge["error_description"] == "The access token has expired"
        second = client.refresh(first["refresh_token"]).json()
        assert whoami(place, second["access_token"]).status == 200
        assert second["refresh_token"] != first["refresh_token"]

        place.provider.tell("ban", login="alice")
        refused = client.refresh(second["refresh_token"])
        assert (refused.status_code, refused.json()["error"]) == (400, "invalid_grant")
        place.proxy.remembered.clear()
        assert whoami(place, second["access_token"]).status == 401


def test_the_upstream_token_is_renewed_when_it_has_expired() -> None:
    with site("keycloak", access_ttl=3600) as place:
        token = BareClient(place).tokens()["access_token"]
        seen = ask(place.url, "tools/call", token, name="upstream", arguments={}).result["content"][0]["text"]
        again = ask(place.url, "tools/call", token, name="upstream", arguments={}).result["content"][0]["text"]
        assert seen == again
        place.pass_time(700)
        later = ask(place.url, "tools/call", token, name="upstream", arguments={}).result["content"][0]["text"]
        assert later != seen


def test_a_revoked_token_ends_the_login() -> None:
    with site("keycloak") as place:
        client, other = BareClient(place), BareClient(place)
        tokens = client.tokens()
        form = {"token": tokens["refresh_token"]}
        assert httpx2.post(f"{place.origin}/revoke", data={**form, "client_id": other.id}).status_code == 200
        assert whoami(place, tokens["access_token"]).status == 200
        assert httpx2.post(f"{place.origin}/revoke", data={**form, "client_id": client.id}).status_code == 200
        assert whoami(place, tokens["access_token"]).status == 401
        assert client.refresh(tokens["refresh_token"]).json()["error"] == "invalid_grant"


def test_the_metadata_name_the_endpoints_and_are_their_own_issuer() -> None:
    with site("keycloak", scopes={"*": "books:read", "tools/call": "books:write"}) as place:
        resource = httpx2.get(f"{place.origin}/.well-known/oauth-protected-resource/mcp").json()
        assert resource["authorization_servers"] == [place.origin]
        found = httpx2.get(f"{place.origin}/.well-known/oauth-authorization-server").json()
    assert found["issuer"] == place.origin
    assert found["registration_endpoint"] == f"{place.origin}/register"
    assert found["code_challenge_methods_supported"] == ["S256"]
    assert found["authorization_response_iss_parameter_supported"] is True
    assert found["client_id_metadata_document_supported"] is True
    assert found["scopes_supported"] == ["books:read", "books:write"]


async def test_a_client_logs_in_where_the_server_is_mounted_below_a_path() -> None:
    listener = socket.create_server(("127.0.0.1", 0))
    origin = f"http://127.0.0.1:{listener.getsockname()[1]}"
    with login_provider("keycloak") as provider:
        where = {"resource": f"{origin}/books/mcp", "issuer": f"{origin}/books"}
        proxy = proxy_of("keycloak", provider, **where)
        mcp = build([proxy]).asgi(authorization=proxy)
        outer = Starlette(routes=[Mount("/books", mcp)], lifespan=mcp.lifespan)

        class Mounted:
            def asgi(self, **_: Any) -> Any:
                return outer

        with over_http(Mounted(), listener):  # type: ignore[arg-type]
            place = Site(origin, proxy, provider)
            auth = HTTPOptions(auth=user_of(place))
            async with Client(f"{origin}/books/mcp", http=auth) as client:
                seen = (await client.call_tool("whoami")).structured_content
    assert (seen["subject"], seen["issuer"]) == ("alice", f"{origin}/books")


def test_the_proxy_is_loaded_only_when_it_is_used() -> None:
    program = "import sys, carrel.security; print([name for name in sys.modules if 'security.server.proxy' in name])"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_a_custom_route_cannot_take_the_place_of_one_of_the_proxy() -> None:
    proxy = OAuthProxy.auth0("id", "secret", domain="a.auth0.com", resource="https://mcp.example.org/mcp")
    app = build([proxy])

    @app.route("/token", methods=["POST"])
    async def token(request: HTTPRequest) -> tuple[int, dict[str, str], str]:
        return 200, {}, ""

    with pytest.raises(ConfigError, match="two routes have the path /token"):
        app.asgi(authorization=proxy)
