"""The token and revocation endpoints of the OAuth proxy: requests that they refuse."""

from __future__ import annotations

import json
from typing import Any
from urllib.parse import urlencode

import pytest

from carrel.security.server.proxy.clients import Clients
from carrel.security.server.proxy.endpoints import Endpoints
from carrel.security.server.proxy.grants import ProxyContext, ProxyGrants
from carrel.security.server.proxy.sealing import Sealer
from carrel.security.server.proxy.stores import ProxyMemoryStore
from carrel.security.server.proxy.upstream import Upstream, UpstreamClient
from carrel.security.server.scopes import Scopes
from carrel.transports.server.route import HTTPRequest, HTTPResponse
from support.clock import Clock

ISSUER = "https://mcp.example.org"
RESOURCE = f"{ISSUER}/mcp"
FORM = "application/x-www-form-urlencoded"


@pytest.fixture
def clients() -> Clients:
    return Clients(Sealer(), (), documents=False)


@pytest.fixture
def client(clients: Clients) -> str:
    """The id of a registered client."""
    return str(clients.register({"redirect_uris": ["https://app.example/callback"]})["client_id"])


@pytest.fixture
def endpoints(clients: Clients) -> Endpoints:
    clock = Clock()
    upstream = Upstream(
        name="Upstream",
        client_id="id",
        client_secret="secret",
        authorization_endpoint="https://upstream.example/authorize",
        token_endpoint="https://upstream.example/token",
        user_endpoint="https://upstream.example/user",
    )
    upstream_client = UpstreamClient(upstream, f"{ISSUER}/callback", clock)
    context = ProxyContext(ISSUER, RESOURCE, Scopes({}, {}), Sealer(), upstream_client, clock)
    return Endpoints(
        context, clients, ProxyGrants(context, ProxyMemoryStore(), lambda: None, access_ttl=60, refresh_ttl=60)
    )


def request(body: str, **headers: str) -> HTTPRequest:
    named = {"content-type": FORM, **{name.replace("_", "-"): value for name, value in headers.items()}}
    return HTTPRequest(method="POST", path="", query="", headers=named, body=body.encode(), principal=None)


def told(response: HTTPResponse) -> tuple[int, Any]:
    return response.status, json.loads(response.body).get("error")


@pytest.mark.parametrize(
    ("form", "error"),
    [
        ({}, "unsupported_grant_type"),
        ({"grant_type": "password"}, "unsupported_grant_type"),
        ({"grant_type": "client_credentials"}, "unsupported_grant_type"),
        ({"grant_type": "authorization_code"}, "invalid_grant"),
        ({"grant_type": "refresh_token"}, "invalid_grant"),
        ({"grant_type": "refresh_token", "resource": RESOURCE}, "invalid_grant"),
        ({"grant_type": "refresh_token", "resource": f"{ISSUER}/other"}, "invalid_target"),
        ({"grant_type": "refresh_token", "resource": ""}, "invalid_target"),
    ],
)
async def test_a_grant_is_a_code_or_a_refresh_token_for_this_server(
    endpoints: Endpoints, client: str, form: dict[str, str], error: str
) -> None:
    assert told(await endpoints.token(request(urlencode({"client_id": client, **form})))) == (400, error)


@pytest.mark.parametrize("endpoint", ["token", "revoke"])
@pytest.mark.parametrize(
    ("changes", "headers", "refused"),
    [
        ("", {"content_type": "application/json"}, (400, "invalid_request")),
        ("", {"content_type": ""}, (400, "invalid_request")),
        ("", {"authorization": "Basic aWQ6c2VjcmV0"}, (401, "invalid_client")),
        ("&token=x&token=y", {}, (400, "invalid_request")),
        ("x", {}, (401, "invalid_client")),
    ],
)
async def test_a_client_is_public_and_sends_one_form(
    endpoints: Endpoints, client: str, endpoint: str, changes: str, headers: dict[str, str], refused: tuple[int, str]
) -> None:
    asked = request(f"grant_type=refresh_token&refresh_token=x&client_id={client}{changes}", **headers)
    assert told(await getattr(endpoints, endpoint)(asked)) == refused


async def test_a_form_may_name_its_character_set_and_an_unknown_token_is_revoked_already(
    endpoints: Endpoints, client: str
) -> None:
    asked = request(f"client_id={client}&token=unknown", content_type=f"{FORM.title()} ; charset=utf-8")
    assert told(await endpoints.revoke(asked)) == (200, None)


@pytest.mark.parametrize("body", ["", "[]", "null", '{"redirect_uris": ', "[" * 5000])
async def test_a_registration_is_a_json_object(endpoints: Endpoints, body: str) -> None:
    assert told(await endpoints.register(request(body))) == (400, "invalid_client_metadata")
