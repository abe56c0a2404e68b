"""OAuth proxy of ``fastmcp``: logins at an upstream, consent, and what attackers try."""

from __future__ import annotations

import re
from base64 import urlsafe_b64encode
from collections.abc import AsyncIterator
from hashlib import sha256
from typing import Any
from urllib.parse import parse_qs, parse_qsl, urlsplit

import httpx
import pytest
from pydantic import AnyUrl
from starlette.applications import Starlette

from carrel.compat import generation
from carrel.compat.fastmcp.server.auth import OAuthProxy, StaticTokenVerifier
from carrel.compat.fastmcp.server.auth.cimd import CIMDDocument
from carrel.compat.fastmcp.server.auth.oauth_proxy.cookies import SignedCookies
from carrel.compat.fastmcp.server.auth.oauth_proxy.models import ProxyDCRClient
from carrel.compat.fastmcp.server.auth.providers.github import GitHubProvider
from carrel.compat.mcp.shared.auth import InvalidRedirectUriError

BASE = "https://mcp.example"
APP = "http://localhost:5000/callback"
VERIFIER = "v" * 43
CHALLENGE = urlsafe_b64encode(sha256(VERIFIER.encode()).digest()).rstrip(b"=").decode()


class Upstream:
    """Authorization server behind the proxy, which issues the tokens ``first``, ``second`` and so on."""

    names = ("first", "second", "third")

    def __init__(self) -> None:
        self.client_id, self.client_secret = "id", "secret"
        self.asked: list[dict[str, Any]] = []
        self.revoked: list[str] = []

    def _tokens(self, asked: dict[str, Any]) -> dict[str, Any]:
        self.asked.append(asked)
        name = self.names[len(self.asked) - 1]
        return {"access_token": name, "refresh_token": f"again-{name}", "expires_in": 600, "scope": "read"}

    async def fetch_token(self, **asked: Any) -> dict[str, Any]:
        return self._tokens(asked)

    async def refresh_token(self, **asked: Any) -> dict[str, Any]:
        return self._tokens(asked)

    async def revoke_token(self, url: str, token: str) -> None:
        self.revoked.append(token)

    async def aclose(self) -> None:
        """Do nothing."""


class Proxy(OAuthProxy):
    """Proxy with an upstream in this process."""

    def __init__(self, **options: Any) -> None:
        self.upstream = Upstream()
        users = {name: {"client_id": "ann", "scopes": ["read"]} for name in Upstream.names}
        super().__init__(
            upstream_authorization_endpoint="https://login.example/authorize",
            upstream_token_endpoint="https://login.example/token",
            upstream_revocation_endpoint="https://login.example/revoke",
            upstream_client_id="id",
            upstream_client_secret="secret",
            token_verifier=StaticTokenVerifier(users, required_scopes=["read"]),
            base_url=BASE,
            **options,
        )

    def _create_upstream_oauth_client(self) -> Any:
        return self.upstream


class Browser:
    """Browser of a user, and the application that sends it."""

    def __init__(self, proxy: OAuthProxy) -> None:
        transport = httpx.ASGITransport(Starlette(routes=proxy.get_routes("/mcp")))
        self.http = httpx.AsyncClient(transport=transport, base_url=BASE)

    async def begin(self, **changes: Any) -> str:
        """Register an application, and return where the browser is sent for consent."""
        registered = await self.http.post("/register", json={"redirect_uris": [APP], "client_name": "<b>App</b>"})
        self.client = registered.json()["client_id"]
        query = {
            "response_type": "code",
            "client_id": self.client,
            "redirect_uri": APP,
            "code_challenge": CHALLENGE,
            "state": "state of the app",
            **changes,
        }
        response = await self.http.get("/authorize", params=query)
        return str(response.headers["location"])

    async def consent(self, url: str, action: str = "approve") -> httpx.Response:
        page = await self.http.get(url)
        assert "&lt;b&gt;App&lt;/b&gt;" in page.text
        fields = dict(re.findall(r'name="(txn_id|csrf_token)" value="([^"]+)"', page.text))
        return await self.http.post("/consent", data={**fields, "action": action})

    async def login(self) -> dict[str, str]:
        """Consent, and return the parameters of the upstream's login page."""
        response = await self.consent(await self.begin())
        assert response.headers["location"].startswith("https://login.example/authorize?")
        return dict(parse_qsl(urlsplit(response.headers["location"]).query))

    async def code(self) -> str:
        """Log in, and return the code that the application gets."""
        back = await self.http.get(
            "/auth/callback", params={"code": "upstream", "state": (await self.login())["state"]}
        )
        given = parse_qs(urlsplit(back.headers["location"]).query)
        assert given["state"] == ["state of the app"]
        return given["code"][0]

    async def exchange(self, code: str, **changes: Any) -> httpx.Response:
        form = {
            "grant_type": "authorization_code",
            "code": code,
            "redirect_uri": APP,
            "client_id": self.client,
            "code_verifier": VERIFIER,
            **changes,
        }
        return await self.http.post("/token", data=form)

    async def refresh(self, token: str) -> httpx.Response:
        form = {"grant_type": "refresh_token", "refresh_token": token, "client_id": self.client}
        return await self.http.post("/token", data=form)


@pytest.fixture
def proxy() -> Proxy:
    return Proxy()


@pytest.fixture
async def browser(proxy: Proxy) -> AsyncIterator[Browser]:
    found = Browser(proxy)
    async with found.http:
        yield found


async def test_a_login_gives_tokens_of_the_proxy_and_never_of_the_upstream(proxy: Proxy, browser: Browser) -> None:
    asked = await browser.login()
    assert (asked["client_id"], asked["redirect_uri"]) == ("id", f"{BASE}/auth/callback")
    assert asked["code_challenge"] != CHALLENGE
    back = await browser.http.get("/auth/callback", params={"code": "upstream", "state": asked["state"]})
    code = parse_qs(urlsplit(back.headers["location"]).query)["code"][0]
    tokens = (await browser.exchange(code)).json()
    assert "first" not in str(tokens)
    found = await proxy.verify_token(tokens["access_token"])
    assert found is not None
    assert (found.token, found.client_id) == ("first", "ann")
    sent = proxy.upstream.asked[0]["code_verifier"]
    assert urlsafe_b64encode(sha256(sent.encode()).digest()).rstrip(b"=").decode() == asked["code_challenge"]


async def test_tokens_of_the_upstream_and_refresh_tokens_are_not_access_tokens(proxy: Proxy, browser: Browser) -> None:
    tokens = (await browser.exchange(await browser.code())).json()
    assert await proxy.verify_token("first") is None
    assert await proxy.verify_token(tokens["refresh_token"]) is None
    other = Proxy()
    other.set_mcp_path("/other")
    assert await other.verify_token(tokens["access_token"]) is None


async def test_a_code_is_for_one_exchange_with_its_verifier_client_and_redirect_uri(browser: Browser) -> None:
    code = await browser.code()
    for wrong in ({"code_verifier": "w" * 43}, {"redirect_uri": APP + "/x"}, {"client_id": "unknown"}):
        assert (await browser.exchange(code, **wrong)).status_code in (400, 401)
    assert (await browser.exchange(code)).status_code == 200
    again = await browser.exchange(code)
    assert (again.status_code, again.json()["error"]) == (401, "invalid_grant")


async def test_the_browser_that_returns_is_the_one_that_consented(proxy: Proxy, browser: Browser) -> None:
    state = (await browser.login())["state"]
    async with Browser(proxy).http as victim:  # who follows a link of the attacker to the upstream's login
        response = await victim.get("/auth/callback", params={"code": "upstream", "state": state})
        assert response.status_code == 403
        response = await victim.get("/auth/callback", params={"error": "access_denied", "state": state})
        assert response.status_code == 403
    assert proxy.upstream.asked == []


async def test_nobody_reaches_the_upstream_without_consent(proxy: Proxy, browser: Browser) -> None:
    url = await browser.begin()
    assert url.startswith(f"{BASE}/consent?txn_id=")
    txn_id = parse_qs(urlsplit(url).query)["txn_id"][0]
    skipped = await browser.http.get("/auth/callback", params={"code": "upstream", "state": txn_id})
    assert skipped.status_code == 403
    forged = await browser.http.post("/consent", data={"txn_id": txn_id, "action": "approve", "csrf_token": "x"})
    assert forged.status_code == 400
    page = await browser.http.get(url)
    fields = dict(re.findall(r'name="(txn_id|csrf_token)" value="([^"]+)"', page.text))
    async with Browser(proxy).http as other:  # which has not seen the page
        stolen = await other.post("/consent", data={**fields, "action": "approve"})
    assert stolen.status_code == 403
    assert "frame-ancestors 'none'" in page.text.replace("&#x27;", "'")
    assert page.headers["x-frame-options"] == "DENY"


@pytest.mark.parametrize(
    ("running", "issuer", "methods"),
    [
        (2, {"iss": f"{BASE}/"}, ["none", "private_key_jwt"]),
        (1, {}, ["client_secret_post", "client_secret_basic", "private_key_jwt", "none"]),
    ],
)
async def test_responses_and_metadata_name_the_issuer_as_the_version_of_the_program_does(
    monkeypatch: pytest.MonkeyPatch, running: int, issuer: dict[str, str], methods: list[str]
) -> None:
    monkeypatch.setattr(generation, "_running", running)
    browser = Browser(Proxy())
    async with browser.http as http:
        denied = await browser.consent(await browser.begin(), "deny")
        assert dict(parse_qsl(urlsplit(denied.headers["location"]).query)) == {
            "error": "access_denied",
            "state": "state of the app",
            **issuer,
        }
        begun = dict(parse_qsl(urlsplit(await browser.begin(response_type="token")).query))
        assert begun == {
            "error": "unsupported_response_type",
            "error_description": begun["error_description"],
            "state": "state of the app",
            **issuer,
        }
        state = (await browser.login())["state"]
        back = await http.get("/auth/callback", params={"code": "upstream", "state": state})
        given = dict(parse_qsl(urlsplit(back.headers["location"]).query))
        assert given == {"code": given["code"], "state": "state of the app", **issuer}
        metadata = (await http.get("/.well-known/oauth-authorization-server")).json()
    assert metadata["token_endpoint_auth_methods_supported"] == methods
    assert metadata.get("authorization_response_iss_parameter_supported", False) is bool(issuer)
    assert metadata["issuer"] == f"{BASE}/"


async def test_a_remembered_consent_is_not_used_by_pages_of_other_sites() -> None:
    browser = Browser(Proxy(require_authorization_consent="remember"))
    async with browser.http as http:
        await browser.consent(await browser.begin())
        url = await browser.begin(client_id=browser.client)
        for site, status in (("cross-site", 200), ("none", 302)):
            assert (await http.get(url, headers={"sec-fetch-site": site})).status_code == status


async def test_a_refresh_token_is_for_one_use_and_refreshes_the_upstream(proxy: Proxy, browser: Browser) -> None:
    first = (await browser.exchange(await browser.code())).json()
    second = (await browser.refresh(first["refresh_token"])).json()
    assert proxy.upstream.asked[-1]["refresh_token"] == "again-first"
    found = await proxy.verify_token(second["access_token"])
    assert found is not None
    assert found.token == "second"
    assert (await browser.refresh(first["refresh_token"])).status_code == 401


async def test_a_revoked_login_ends_here_and_at_the_upstream(proxy: Proxy, browser: Browser) -> None:
    tokens = (await browser.exchange(await browser.code())).json()
    form = {"token": tokens["refresh_token"], "client_id": browser.client, "client_secret": ""}
    assert (await browser.http.post("/revoke", data=form)).status_code == 200
    assert await proxy.verify_token(tokens["access_token"]) is None
    assert (await browser.refresh(tokens["refresh_token"])).status_code == 401
    assert proxy.upstream.revoked == ["again-first"]


async def test_an_expired_token_of_the_upstream_is_refreshed_on_use(proxy: Proxy, browser: Browser) -> None:
    tokens = (await browser.exchange(await browser.code())).json()
    (known,) = proxy._client_storage._collections["mcp-upstream-tokens"].values()
    known[1]["expires_at"] = 1
    proxy._token_validator.tokens.pop("first")  # type: ignore[attr-defined]
    found = await proxy.verify_token(tokens["access_token"])
    assert found is not None
    assert found.token == "second"


async def test_tokens_for_another_resource_are_refused(browser: Browser) -> None:
    location = await browser.begin(resource="https://other.example/mcp")
    assert "error=invalid_target" in location
    assert (await browser.begin(resource=f"{BASE}/mcp/")).startswith(f"{BASE}/consent")


@pytest.mark.parametrize("uri", ["javascript:alert(1)", "https://evil.example/", "http://localhost:5000/callback/../x"])
async def test_an_application_is_only_sent_to_its_redirect_uri(browser: Browser, uri: str) -> None:
    await browser.begin()
    query = {"response_type": "code", "client_id": browser.client, "redirect_uri": uri, "code_challenge": CHALLENGE}
    response = await browser.http.get("/authorize", params=query)
    assert response.status_code == 400
    port = await browser.http.get("/authorize", params={**query, "redirect_uri": APP.replace("5000", "6000")})
    assert port.status_code == 302


@pytest.mark.parametrize(
    ("running", "metadata", "status"),
    [
        (2, {"redirect_uris": ["http://evil.example/callback"]}, 400),
        (2, {"redirect_uris": ["https://app.example/callback", "myapp://callback", APP]}, 201),
        (2, {"redirect_uris": ["https://app.example/callback"], "application_type": "web"}, 201),
        (2, {"redirect_uris": [APP], "application_type": "web"}, 400),
        (2, {"redirect_uris": None, "application_type": "web"}, 400),
        (2, {"redirect_uris": None}, 201),
        (1, {"redirect_uris": ["http://evil.example/callback"]}, 201),
    ],
)
async def test_an_application_registers_redirect_uris_of_its_type_as_the_version_of_the_program_checks_them(
    monkeypatch: pytest.MonkeyPatch, running: int, metadata: dict[str, Any], status: int
) -> None:
    monkeypatch.setattr(generation, "_running", running)
    async with Browser(Proxy()).http as http:
        response = await http.post("/register", json=metadata)
        assert response.status_code == status
        assert status == 201 or response.json()["error"] == "invalid_redirect_uri"


def test_a_web_application_is_not_sent_to_this_machine_by_a_pattern(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(generation, "_running", 2)
    uri = AnyUrl("http://localhost:5000/callback")
    known: dict[str, Any] = {"client_id": "a", "redirect_uris": [uri]}
    known |= {"allowed_redirect_uri_patterns": ["http://localhost:*"]}
    assert ProxyDCRClient(**known).validate_redirect_uri(uri) == uri
    with pytest.raises(InvalidRedirectUriError, match="not allowed for application_type 'web'"):
        ProxyDCRClient(**known, application_type="web").validate_redirect_uri(uri)


def test_an_application_that_was_configured_by_hand_has_no_redirect_uri_with_a_user() -> None:
    client = ProxyDCRClient(client_id="id", redirect_uris=[APP], allow_unregistered_redirect_uris=True)  # type: ignore[list-item]
    assert client.validate_redirect_uri(APP)  # type: ignore[arg-type]
    for uri in ("javascript:alert(1)", "http://localhost@evil.example/"):
        with pytest.raises(InvalidRedirectUriError):
            client.validate_redirect_uri(uri)  # type: ignore[arg-type]


def test_a_document_of_a_client_has_no_secret_and_lists_its_redirect_uris() -> None:
    facts = {"client_id": "https://app.example/client", "redirect_uris": [APP]}
    assert CIMDDocument.model_validate(facts)
    for change in ({"redirect_uris": []}, {"token_endpoint_auth_method": "client_secret_post"}):
        with pytest.raises(ValueError, match=r"redirect_uri|secret"):
            CIMDDocument.model_validate({**facts, **change})


def test_a_changed_cookie_is_not_read() -> None:
    cookies = SignedCookies(b"key", secure=True)
    value = cookies.sign("payload")
    assert cookies.verify(value) == "payload"
    assert cookies.verify("other" + value) is None
    assert SignedCookies(b"another", secure=True).verify(value) is None


async def test_a_provider_knows_the_endpoints_of_its_service() -> None:
    provider = GitHubProvider(client_id="id", client_secret="secret", base_url=BASE)
    browser = Browser(provider)
    async with browser.http as http:
        response = await browser.consent(await browser.begin())
        assert response.headers["location"].startswith("https://github.com/login/oauth/authorize?")
        assert "scope=user" in response.headers["location"]
        metadata = (await http.get("/.well-known/oauth-authorization-server")).json()
    assert metadata["client_id_metadata_document_supported"] is True
    assert metadata["code_challenge_methods_supported"] == ["S256"]
