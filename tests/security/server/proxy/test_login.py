"""Login through the OAuth proxy: lifetimes of pages and cookies, and parameters of requests."""

from __future__ import annotations

import html
import re
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

import pytest

from carrel.security.server.proxy.clients import Clients, OAuthError
from carrel.security.server.proxy.grants import ProxyContext, ProxyGrants
from carrel.security.server.proxy.login import LOGIN_TTL, MAX_COOKIE, MAX_STATE, Login, read_form
from carrel.security.server.proxy.sealing import Sealer
from carrel.security.server.proxy.stores import ProxyMemoryStore
from carrel.security.server.proxy.upstream import Upstream, UpstreamClient, UpstreamTokens, UpstreamUser
from carrel.security.server.scopes import Scopes
from carrel.transports.server.route import HTTPRequest, HTTPResponse
from support.clock import Clock

ISSUER, BACK = "https://mcp.example.org", "https://app.example/callback"
RESOURCE = f"{ISSUER}/mcp"
UPSTREAM = Upstream(
    name="Upstream",
    client_id="id",
    client_secret="secret",
    authorization_endpoint="https://upstream.example/authorize",
    token_endpoint="https://upstream.example/token",
    user_endpoint="https://upstream.example/user",
)


class TrustingUpstream(UpstreamClient):
    """Upstream that takes every code without a request."""

    async def redeem(self, code: str, verifier: str, nonce: str) -> tuple[UpstreamTokens, UpstreamUser]:
        return UpstreamTokens("upstream-token", None, None, None), UpstreamUser("alice", {})


class Browser:
    """Browser of one user, with its cookies, at the endpoints of a login."""

    def __init__(self, redirect_uri: str = BACK) -> None:
        self.clock = Clock()
        upstream = TrustingUpstream(UPSTREAM, f"{ISSUER}/callback", self.clock)
        scopes = Scopes({"*": "mcp", "tools/call": "tools"}, {})
        context = ProxyContext(ISSUER, RESOURCE, scopes, Sealer(), upstream, self.clock)
        self.clients = Clients(context.sealer, (), documents=False)
        grants = ProxyGrants(context, ProxyMemoryStore(), lambda: None, access_ttl=60, refresh_ttl=60)
        self.login = Login(context, self.clients, grants, None)
        self.id: str = self.clients.register({"redirect_uris": [redirect_uri]})["client_id"]
        self.redirect_uri = redirect_uri
        self.cookies: dict[str, str] = {}

    def request(self, query: str = "", body: bytes = b"") -> HTTPRequest:
        cookie = "; ".join(f"{name}={value}" for name, value in self.cookies.items())
        return HTTPRequest(method="", path="", query=query, headers={"cookie": cookie}, body=body, principal=None)

    def keep(self, response: HTTPResponse) -> HTTPResponse:
        """Keep the cookies of a response."""
        pairs = response.headers.items() if hasattr(response.headers, "items") else response.headers
        for name, value in pairs:
            if name == "set-cookie":
                cookie, _, rest = value.partition("=")
                self.cookies[cookie] = rest.partition(";")[0]
        return response

    async def authorize(self, **changes: str) -> HTTPResponse:
        asked = {
            "response_type": "code",
            "client_id": self.id,
            "redirect_uri": self.redirect_uri,
            "code_challenge": "c" * 43,
            "code_challenge_method": "S256",
            **changes,
        }
        return self.keep(await self.login.authorize(self.request(urlencode(asked))))

    async def consent(self, page: HTTPResponse) -> HTTPResponse:
        sealed = re.search(r'name="request" value="([^"]+)"', str(page.body))
        assert sealed is not None, page.body
        form = {"request": html.unescape(sealed[1]), "decision": "allow"}
        return self.keep(await self.login.consent(self.request(body=urlencode(form).encode())))

    async def callback(self, sent: HTTPResponse, **changes: str) -> HTTPResponse:
        query = {"state": location(sent)["state"], "code": "upstream-code", **changes}
        return self.keep(await self.login.callback(self.request(urlencode(query))))


def location(response: HTTPResponse) -> dict[str, str]:
    """Return the query of the address that a response redirects to."""
    url = dict(response.headers)["location"]
    return {name: values[0] for name, values in parse_qs(urlsplit(url).query, keep_blank_values=True).items()}


@pytest.mark.parametrize(("seconds", "status"), [(LOGIN_TTL - 1, 303), (LOGIN_TTL, 400), (LOGIN_TTL + 1, 400)])
async def test_a_consent_page_is_valid_for_the_time_of_a_login(seconds: float, status: int) -> None:
    browser = Browser()
    page = await browser.authorize()
    browser.clock.now += seconds
    assert (await browser.consent(page)).status == status


@pytest.mark.parametrize(("seconds", "status"), [(LOGIN_TTL - 1, 303), (LOGIN_TTL, 400), (LOGIN_TTL + 1, 400)])
async def test_a_login_at_the_upstream_has_its_time_too(seconds: float, status: int) -> None:
    browser = Browser()
    sent = await browser.consent(await browser.authorize())
    browser.clock.now += seconds
    answer = await browser.callback(sent)
    assert answer.status == status
    assert ("code" in location(answer)) if status == 303 else ("location" not in dict(answer.headers))


async def test_a_response_goes_back_with_the_state_and_the_issuer() -> None:
    for state in ("", "a b&c", "s" * MAX_STATE):
        browser = Browser(f"{BACK}?app=1")
        answer = await browser.callback(await browser.consent(await browser.authorize(state=state)))
        found = location(answer)
        assert (found["app"], found["state"], found["iss"], "code" in found) == ("1", state, ISSUER, True)
    browser = Browser()
    answer = await browser.callback(await browser.consent(await browser.authorize()))
    assert sorted(location(answer)) == ["code", "iss"]


async def test_a_login_without_a_code_is_refused_whatever_else_there_is() -> None:
    for changes in ({"code": ""}, {"error": "access_denied"}, {"error": ""}):
        browser = Browser()
        answer = await browser.callback(await browser.consent(await browser.authorize()), **changes)
        assert (answer.status, location(answer)["error"]) == (303, "access_denied")


async def test_a_state_that_is_too_long_is_an_error_page_without_redirect() -> None:
    page = await Browser().authorize(state="s" * (MAX_STATE + 1))
    assert (page.status, "location" in dict(page.headers)) == (400, False)


async def test_a_login_that_does_not_fit_into_a_cookie_is_refused() -> None:
    browser = Browser()
    answer = await browser.consent(await browser.authorize(state="\U0001f642" * MAX_STATE))
    assert 4 * MAX_STATE > MAX_COOKIE  # four bytes of each character
    assert location(answer)["error"] == "invalid_request"
    assert list(browser.cookies) == ["__Host-carrel-browser"]


async def test_scopes_are_those_that_are_known_or_else_the_basic_ones() -> None:
    for asked, shown in (("tools unknown", "tools"), ("unknown", "mcp"), ("", "mcp")):
        page = await Browser().authorize(scope=asked)
        permissions = re.search(r"Permissions</dt>\s*<dd>([^<]*)", str(page.body))
        assert permissions is not None
        assert set(permissions[1].split()) >= {shown}
        assert "unknown" not in permissions[1]


@pytest.mark.parametrize("text", ["a=1&a=2", "a=&a=2", "a=1&a=", "a=&a=", "a&a=1"])
def test_a_repeated_parameter_is_an_error_also_if_it_is_empty(text: str) -> None:
    with pytest.raises(OAuthError, match="A parameter is repeated"):
        read_form(text)


@pytest.mark.parametrize(
    ("text", "found"),
    [("", {}), ("a=", {"a": ""}), ("a=1&b=%26", {"a": "1", "b": "&"}), ("&".join(f"p{n}=" for n in range(50)), 50)],
)
def test_a_form_has_its_parameters_empty_ones_too(text: str, found: Any) -> None:
    form = read_form(text)
    assert (len(form) if isinstance(found, int) else form) == found


@pytest.mark.parametrize("text", ["a=%ff", "&".join(f"p{n}=" for n in range(51))])
def test_a_form_that_is_not_understood_is_an_error(text: str) -> None:
    with pytest.raises(OAuthError, match="not understood"):
        read_form(text)
