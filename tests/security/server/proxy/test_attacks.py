"""Attacks on the OAuth proxy: consent, redirects, codes, tokens, registrations, and pages."""

from __future__ import annotations

import html
import re
import secrets
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

import httpx2
import pytest

from carrel.security.server.bearer import Unverifiable
from carrel.security.server.proxy import clients, grants, login, stores
from support.http_requests import ask
from support.login_provider import LoginProvider, login_provider
from support.login_site import CALLBACK, BareClient, Site, site


@pytest.fixture(scope="module")
def provider() -> Iterator[LoginProvider]:
    with login_provider("keycloak") as running:
        yield running


@pytest.fixture
def place(provider: LoginProvider) -> Iterator[Site]:
    with site("keycloak", provider, scopes={"*": "mcp"}) as running:
        yield running


def call(place: Site, token: str) -> Any:
    return ask(place.url, "tools/call", token, name="whoami", arguments={})


def location(response: httpx2.Response) -> dict[str, str]:
    query = parse_qs(urlsplit(response.headers["location"]).query)
    return {name: values[0] for name, values in query.items()}


# Consent (confused deputy)


@pytest.mark.requirement
def test_every_login_asks_for_consent_whatever_cookies_the_browser_has(place: Site) -> None:
    mine, other = BareClient(place), BareClient(place, "https://evil.example:7/callback")
    with place.browser() as browser:
        assert "code=" in browser.login(mine.url())
        for client in (mine, other):
            page = browser.client.get(client.url())
            assert (page.status_code, "Allow access?" in page.text) == (200, True)
        assert "evil.example:7" in page.text


def test_a_request_goes_upstream_only_from_the_page_of_the_same_browser(place: Site) -> None:
    client = BareClient(place)
    with place.browser() as attacker, place.browser() as victim:
        page = attacker.client.get(client.url())
        victim.client.get(client.url())
        sealed = re.search(r'name="request" value="([^"]+)"', page.text)
        assert sealed is not None
        refused = victim.client.post(
            f"{place.origin}/consent", data={"request": html.unescape(sealed[1]), "decision": "allow"}
        )
        assert (refused.status_code, "location" in refused.headers) == (400, False)
        bare = httpx2.post(f"{place.origin}/consent", data={"request": html.unescape(sealed[1]), "decision": "allow"})
        assert (bare.status_code, "location" in bare.headers) == (400, False)
        assert httpx2.get(f"{place.origin}/consent").status_code == 405


@pytest.mark.parametrize("other", ['prefs={"a": 1, "b": "x"}', "a name=1", "nothing", "caf\xe9=1", "x=", "=x"])
def test_cookies_of_other_applications_on_the_host_do_not_disturb_a_login(place: Site, other: str) -> None:
    client = BareClient(place)
    page = httpx2.get(client.url())
    sealed = re.search(r'name="request" value="([^"]+)"', page.text)
    assert sealed is not None
    form = {"request": html.unescape(sealed[1]), "decision": "allow"}
    mine = page.headers["set-cookie"].partition(";")[0]
    for cookies in (f"{other}; {mine}", f"{mine}; {other}", f"{other};\t{mine}"):
        allowed = httpx2.post(f"{place.origin}/consent", data=form, headers={"cookie": cookies.encode("latin-1")})
        assert allowed.status_code == 303, cookies
    # browsers take neither for the cookie, which only the host itself may set
    for cookies in (f"\xa0{mine}", f"x{mine}", f"={mine}"):
        refused = httpx2.post(f"{place.origin}/consent", data=form, headers={"cookie": cookies.encode("latin-1")})
        assert refused.status_code == 400, cookies


def test_a_form_of_another_site_is_refused(place: Site) -> None:
    with place.browser() as browser:
        page = browser.client.get(BareClient(place).url())
        sealed = re.search(r'name="request" value="([^"]+)"', page.text)
        assert sealed is not None
        for origin in ("https://evil.example", "null"):
            refused = browser.client.post(
                f"{place.origin}/consent",
                data={"request": html.unescape(sealed[1]), "decision": "allow"},
                headers={"origin": origin},
            )
            assert refused.status_code == 403


def test_a_user_who_denies_is_sent_back_with_an_error_and_the_issuer(place: Site) -> None:
    client = BareClient(place)
    answer = client.log_in(decision="deny")
    assert (answer["error"], answer["state"], answer["iss"]) == ("access_denied", client.state, place.origin)
    assert "code" not in answer


def test_a_page_of_the_consent_that_is_too_old_is_refused(place: Site) -> None:
    with place.browser() as browser:
        page = browser.client.get(BareClient(place).url())
        place.pass_time(login.LOGIN_TTL + 1)
        assert browser.submit(page, decision="allow").status_code == 400


# Login at the upstream: state fixation, mix-up


def upstream_request(place: Site, browser: Any, client: BareClient) -> httpx2.Response:
    response: httpx2.Response = browser.submit(browser.client.get(client.url()), decision="allow")
    assert response.headers["location"].startswith(place.provider.origin)
    return response


def test_a_login_that_was_begun_in_another_browser_is_refused(place: Site) -> None:
    client = BareClient(place)
    with place.browser() as attacker, place.browser() as victim:
        begun = upstream_request(place, attacker, client)
        victim.client.get(client.url())
        callback = login_up_to_callback(place, victim, begun.headers["location"])
        refused = victim.client.get(callback)
        assert refused.status_code == 400
        assert "not begun in this browser" in refused.text


def login_up_to_callback(place: Site, browser: Any, url: str) -> str:
    """Log in at the provider, and return where it sends the browser, without going there."""
    origins, browser._origins = browser._origins, (place.provider.origin,)
    try:
        return str(browser.login(url))
    finally:
        browser._origins = origins


def test_a_response_of_the_upstream_is_good_for_one_login(place: Site) -> None:
    with place.browser() as browser:
        begun = upstream_request(place, browser, BareClient(place))
        callback = login_up_to_callback(place, browser, begun.headers["location"])
        assert "code" in location(browser.client.get(callback))
        assert browser.client.get(callback).status_code == 400


def test_two_logins_of_one_browser_do_not_mix(place: Site) -> None:
    one, two = BareClient(place), BareClient(place)
    with place.browser() as browser:
        first, second = upstream_request(place, browser, one), upstream_request(place, browser, two)
        callback = login_up_to_callback(place, browser, second.headers["location"])
        state = location(first)["state"]
        mixed = browser.client.get(re.sub(r"state=[^&]+", f"state={state}", callback))
        assert location(mixed)["error"] == "access_denied"  # PKCE: the code is of the other login
        assert location(mixed)["state"] == one.state


def test_a_response_of_another_authorization_server_is_refused(place: Site) -> None:
    with place.browser() as browser:
        begun = upstream_request(place, browser, BareClient(place))
        callback = login_up_to_callback(place, browser, begun.headers["location"])
        assert "iss=" in callback
        other = re.sub(r"iss=[^&]+", "iss=https%3A%2F%2Fevil.example", callback)
        assert location(browser.client.get(other))["error"] == "access_denied"


def test_a_response_that_lacks_the_issuer_is_refused_if_the_upstream_always_names_it(place: Site) -> None:
    with place.browser() as browser:
        begun = upstream_request(place, browser, BareClient(place))
        callback = login_up_to_callback(place, browser, begun.headers["location"])
        assert location(browser.client.get(re.sub(r"&iss=[^&]+", "", callback)))["error"] == "access_denied"


def test_an_error_of_the_upstream_is_passed_on_without_its_text(place: Site) -> None:
    client = BareClient(place)
    with place.browser() as browser:
        begun = upstream_request(place, browser, client)
        query = {"error": "<script>", "error_description": "x\r\nset-cookie: a=b", "state": location(begun)["state"]}
        query["iss"] = f"{place.provider.origin}/realms/main"
        answer = browser.client.get(f"{place.origin}/callback?{urlencode(query)}")
    assert (location(answer)["error"], location(answer)["state"]) == ("access_denied", client.state)
    assert "%3Cscript" not in answer.headers["location"]


# Authorization requests: redirect URIs, PKCE, resource


@pytest.mark.requirement
@pytest.mark.parametrize(
    "redirect_uri",
    [
        "https://evil.example/callback",
        "http://127.0.0.1:7/callback/more",
        "http://127.0.0.1:7/callback?next=x",
        "http://127.0.0.1.evil.example:7/callback",
        "http://localhost:7/callback",
        "https://127.0.0.1:7/callback",
        "http://user@127.0.0.1:7/callback",
        "http://127.0.0.1:7/callback#x",
        "http://127.0.0.1:x/callback",
        "",
        None,
    ],
)
def test_a_redirect_uri_that_is_not_registered_is_not_gone_to(place: Site, redirect_uri: str | None) -> None:
    answer = httpx2.get(BareClient(place).url(redirect_uri=redirect_uri))
    assert (answer.status_code, "location" in answer.headers) == (400, False)
    assert "href" not in answer.text


def test_the_port_of_a_loopback_redirect_uri_may_differ(place: Site) -> None:
    client = BareClient(place)
    answer = client.log_in(redirect_uri="http://127.0.0.1:54321/callback")
    assert client.redeem(answer["code"]).json()["error"] == "invalid_grant"
    answer = client.log_in(redirect_uri="http://127.0.0.1:54321/callback")
    assert client.redeem(answer["code"], redirect_uri="http://127.0.0.1:54321/callback").status_code == 200


@pytest.mark.parametrize(
    "changes",
    [
        {"code_challenge": None},
        {"code_challenge_method": None},
        {"code_challenge_method": "plain"},
        {"code_challenge": "short"},
        {"response_type": "token"},
        {"resource": "https://other.example/mcp"},
        {"state": "x" * 2000},
    ],
)
def test_a_request_that_is_not_allowed_is_an_error_page_and_no_redirect(
    place: Site, changes: dict[str, str | None]
) -> None:
    answer = httpx2.get(BareClient(place).url(**changes))
    assert (answer.status_code, "location" in answer.headers) == (400, False)
    assert 'href="http://127.0.0.1:7/callback?error=' in answer.text


def test_a_repeated_parameter_is_refused(place: Site) -> None:
    answer = httpx2.get(f"{BareClient(place).url()}&redirect_uri=https://evil.example")
    assert answer.status_code == 400
    assert "evil.example" not in answer.text


# Codes


def test_a_code_is_good_once_and_its_second_use_ends_the_login(place: Site) -> None:
    client = BareClient(place)
    code = client.log_in()["code"]
    tokens = client.redeem(code).json()
    assert call(place, tokens["access_token"]).status == 200
    assert client.redeem(code).json()["error"] == "invalid_grant"
    assert call(place, tokens["access_token"]).status == 401
    assert client.refresh(tokens["refresh_token"]).json()["error"] == "invalid_grant"


def test_a_code_is_good_for_its_client_its_verifier_and_its_redirect_uri_only(place: Site) -> None:
    client, other = BareClient(place), BareClient(place)
    other.verifier = client.verifier
    code = client.log_in()["code"]
    assert other.redeem(code).json()["error"] == "invalid_grant"
    assert client.redeem(code, code_verifier=secrets.token_urlsafe(48)).json()["error"] == "invalid_grant"
    assert client.redeem(code, code_verifier=None).json()["error"] == "invalid_grant"
    assert client.redeem(code, code_verifier="").json()["error"] == "invalid_grant"
    assert client.redeem(code, redirect_uri="https://evil.example").json()["error"] == "invalid_grant"
    assert client.redeem(code, redirect_uri=None).json()["error"] == "invalid_grant"
    assert client.redeem(code, resource="https://other.example").json()["error"] == "invalid_target"
    assert client.redeem(code).status_code == 200


def test_a_code_expires(place: Site) -> None:
    client = BareClient(place)
    code = client.log_in()["code"]
    place.pass_time(61)
    assert client.redeem(code).json()["error"] == "invalid_grant"


@pytest.mark.parametrize("kind", ["access_token", "refresh_token"])
def test_a_token_is_no_code_and_a_code_is_no_token(place: Site, kind: str) -> None:
    client = BareClient(place)
    code = client.log_in()["code"]
    assert call(place, code).status == 401
    assert client.refresh(code).json()["error"] == "invalid_grant"
    tokens = client.redeem(code).json()
    assert client.redeem(tokens[kind]).json()["error"] == "invalid_grant"
    assert call(place, tokens["refresh_token"]).status == 401
    assert client.refresh(tokens["access_token"]).json()["error"] == "invalid_grant"
    assert call(place, client.id).status == 401


# Tokens


@pytest.mark.requirement
def test_a_refresh_token_is_good_once_and_its_second_use_ends_the_login(place: Site) -> None:
    client = BareClient(place)
    first = client.tokens()
    second = client.refresh(first["refresh_token"]).json()
    assert call(place, second["access_token"]).status == 200
    assert client.refresh(first["refresh_token"]).json()["error"] == "invalid_grant"
    assert client.refresh(second["refresh_token"]).json()["error"] == "invalid_grant"
    assert call(place, second["access_token"]).status == 401


def test_a_refresh_token_of_another_client_is_refused_and_stays_good(place: Site) -> None:
    client, other = BareClient(place), BareClient(place)
    tokens = client.tokens()
    assert other.refresh(tokens["refresh_token"]).json()["error"] == "invalid_grant"
    assert client.refresh(tokens["refresh_token"]).status_code == 200


def test_a_token_of_another_server_is_refused_even_if_they_share_keys_and_logins(
    provider: LoginProvider, tmp_path: Any
) -> None:
    shared = {"keys": [b"k" * 32], "store": tmp_path / "logins"}
    with site("keycloak", provider, **shared) as one:
        token = BareClient(one).tokens()["access_token"]
        assert call(one, token).status == 200
        with site("keycloak", provider, **shared) as two:
            refused = call(two, token)
    assert refused.status == 401
    assert "not issued for" in refused.challenge["error_description"]


def test_a_token_of_the_upstream_is_refused(place: Site) -> None:
    token = BareClient(place).tokens()["access_token"]
    upstream = ask(place.url, "tools/call", token, name="upstream", arguments={}).result["content"][0]["text"]
    assert call(place, upstream).status == 401


def test_a_token_that_was_changed_is_refused(place: Site) -> None:
    token = BareClient(place).tokens()["access_token"]
    for index in (0, 5, len(token) // 2, len(token) - 2):
        letter = "A" if token[index] != "A" else "B"
        assert call(place, token[:index] + letter + token[index + 1 :]).status == 401


def test_logins_survive_a_restart_with_the_same_keys_and_are_encrypted(provider: LoginProvider, tmp_path: Any) -> None:
    old, new, store = b"o" * 32, b"n" * 32, tmp_path / "logins"
    with site("keycloak", provider, keys=[old], store=store) as place:
        client = BareClient(place)
        tokens = client.tokens()
        upstream = ask(place.url, "tools/call", tokens["access_token"], name="upstream", arguments={})
        port = urlsplit(place.origin).port
        assert call(place, tokens["access_token"]).status == 200
    kept = b"".join(path.read_bytes() for path in store.iterdir())
    for secret in (upstream.result["content"][0]["text"], tokens["refresh_token"], "alice"):
        assert secret.encode() not in kept
    assert store.stat().st_mode & 0o077 == 0
    with site("keycloak", provider, keys=[new, old], store=store, port=port) as place:
        assert call(place, tokens["access_token"]).status == 200
        client.place = place
        assert client.refresh(tokens["refresh_token"]).status_code == 200


def test_of_two_refreshes_at_the_same_time_none_leaves_a_login(place: Site) -> None:
    client = BareClient(place)
    first = client.tokens()
    with ThreadPoolExecutor(4) as pool:
        answers = list(pool.map(lambda _: client.refresh(first["refresh_token"]), range(4)))
    issued = [one.json() for one in answers if one.status_code == 200]
    assert len(issued) <= 1
    for tokens in (first, *issued):
        assert call(place, tokens["access_token"]).status == 401
        assert client.refresh(tokens["refresh_token"]).status_code == 400


# A store that is full


def fill_up(place: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave no room for another record in the store of a proxy."""
    monkeypatch.setattr(stores, "MAX_RECORDS", len(place.proxy._grants._store._records))  # type: ignore[attr-defined]


@pytest.mark.parametrize("ending", ["replayed token", "replayed code", "revocation"])
def test_a_full_store_keeps_no_login_that_is_replayed_or_revoked(
    place: Site, monkeypatch: pytest.MonkeyPatch, ending: str
) -> None:
    client = BareClient(place)
    code = client.log_in()["code"]
    first = client.redeem(code).json()
    second = client.refresh(first["refresh_token"]).json()
    fill_up(place, monkeypatch)
    if ending == "revocation":
        form = {"client_id": client.id, "token": second["refresh_token"]}
        assert httpx2.post(f"{place.origin}/revoke", data=form).status_code == 200
    else:
        answer = client.redeem(code) if ending == "replayed code" else client.refresh(first["refresh_token"])
        assert (answer.status_code, answer.json()["error"]) == (400, "invalid_grant")
    for tokens in (first, second):
        assert call(place, tokens["access_token"]).status == 401
        assert client.refresh(tokens["refresh_token"]).json()["error"] == "invalid_grant"


def test_a_full_store_refuses_new_logins_and_goes_on_with_those_it_has(
    place: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    client, late = BareClient(place), BareClient(place)
    code = client.log_in()["code"]
    fill_up(place, monkeypatch)
    assert late.log_in()["error"] == "temporarily_unavailable"
    tokens = client.redeem(code).json()
    tokens = client.refresh(tokens["refresh_token"]).json()
    assert call(place, tokens["access_token"]).status == 200
    assert late.log_in()["error"] == "temporarily_unavailable"


def test_logins_that_have_ended_leave_room(place: Site) -> None:
    def kept() -> set[str]:
        return {key.partition("-")[0] for key in place.proxy._grants._store._records}  # type: ignore[attr-defined]

    client = BareClient(place)
    tokens = client.tokens()
    tokens = client.refresh(tokens["refresh_token"]).json()
    assert {"grant", "turn"} <= kept()
    httpx2.post(f"{place.origin}/revoke", data={"client_id": client.id, "token": tokens["access_token"]})
    assert kept() <= {"ended", "logins"}


def test_the_oldest_login_of_a_user_with_too_many_ends_and_other_users_keep_theirs(
    place: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(grants, "MAX_LOGINS_PER_SUBJECT", 2)
    other = BareClient(place).tokens("bob")
    clients = [BareClient(place) for _ in range(4)]
    mine = [client.tokens("alice") for client in clients[:2]]
    httpx2.post(f"{place.origin}/revoke", data={"client_id": clients[1].id, "token": mine[1]["access_token"]})
    mine += [client.tokens("alice") for client in clients[2:]]
    assert [call(place, tokens["access_token"]).status for tokens in mine] == [401, 401, 200, 200]
    assert call(place, other["access_token"]).status == 200


# Who may log in, and with which scopes


def test_admit_decides_who_may_log_in_and_with_which_scopes(provider: LoginProvider) -> None:
    async def admit(user: login.User) -> bool | list[str]:
        assert user.token
        assert user.client_name == "bare"
        return ["mcp", "root"] if user.claims["email"] == "alice@example.org" else False

    with site("keycloak", provider, admit=admit, scopes={"*": "mcp", "tools/call": "tools"}) as place:
        client = BareClient(place)
        assert client.redeem(client.log_in(scope="mcp tools")["code"]).json()["scope"] == "mcp"
        answer = BareClient(place).log_in("mallory")
        assert (answer["error"], "code" in answer) == ("access_denied", False)


@pytest.mark.parametrize("nothing", [[], "", {}, (), frozenset(), None, 0, "unknown", ["tools"], [""]])
def test_a_user_may_not_log_in_if_admit_returns_nothing(provider: LoginProvider, nothing: Any) -> None:
    with site("keycloak", provider, admit=lambda user: nothing, scopes={"*": "mcp", "tools/call": "tools"}) as place:
        answer = BareClient(place).log_in(scope="mcp")
    assert (answer["error"], "code" in answer) == ("access_denied", False)


@pytest.mark.parametrize("nothing", [[], "", {}, ["mcp"]])
def test_a_server_without_scopes_lets_no_user_in_if_admit_returns_scopes(provider: LoginProvider, nothing: Any) -> None:
    with site("keycloak", provider, admit=lambda user: nothing) as place:
        assert BareClient(place).log_in()["error"] == "access_denied"


def test_a_user_may_not_log_in_if_admit_fails(provider: LoginProvider) -> None:
    def admit(user: login.User) -> bool:
        raise KeyError("groups")

    with site("keycloak", provider, admit=admit) as place:
        assert BareClient(place).log_in()["error"] == "access_denied"


def test_scopes_that_were_not_granted_are_not_there(provider: LoginProvider) -> None:
    with site("keycloak", provider, scopes={"*": "mcp", "tools/call": "tools"}) as place:
        client = BareClient(place)
        token = client.redeem(client.log_in(scope="mcp unknown")["code"]).json()
        assert token["scope"] == "mcp"
        refused = call(place, token["access_token"])
    assert (refused.status, refused.challenge["error"]) == (403, "insufficient_scope")


# Registrations


@pytest.mark.parametrize(
    "redirect_uri",
    [
        "javascript:alert(1)",
        "data:text/html,x",
        "http://example.org/callback",
        "https:///callback",
        "https://user@example.org/",
        "https://example.org/#x",
        "https://example.org/\r\nset-cookie:a=b",
        "https://example.org/\u202e",
        "vscode://x/y",
        "//example.org",
        "https://example.org:x/",
        "https://claude.ai%2eexample.org/",
        "https://claude.ai%2f.example.org/",
        "https://claude.ai&next=.example.org/",
        "https://claude.ai;.example.org/",
        "http://[::1].example.org/",
        "http://[::1%25x]/",
        "https://" + "x" * 600,
        5,
    ],
)
def test_a_redirect_uri_that_is_not_allowed_cannot_be_registered(place: Site, redirect_uri: Any) -> None:
    answer = httpx2.post(f"{place.origin}/register", json={"redirect_uris": [redirect_uri]})
    assert (answer.status_code, answer.json()["error"]) == (400, "invalid_redirect_uri")


def test_huge_and_malformed_registrations_are_refused(place: Site) -> None:
    url = f"{place.origin}/register"
    assert httpx2.post(url, content=b"x" * 20_000).status_code == 413
    for content in (b"", b"[]", b"{", b"[" * 10_000, b'{"redirect_uris": {}}', b'{"redirect_uris": []}', b"\xff"):
        assert httpx2.post(url, content=content).status_code == 400
    many = [f"https://example.org/{number}" for number in range(clients.MAX_REDIRECTS + 1)]
    assert httpx2.post(url, json={"redirect_uris": many}).status_code == 400
    long = [f"https://example.org/{number}{'x' * 480}" for number in range(5)]
    assert httpx2.post(url, json={"redirect_uris": long}).status_code == 400


def test_registrations_take_no_memory(place: Site) -> None:
    before = len(place.proxy._grants._store._records)  # type: ignore[attr-defined]
    ids = {BareClient(place).id for _ in range(20)}
    with place.browser() as browser:
        for _ in range(20):
            upstream_request(place, browser, BareClient(place))
    assert len(ids) == 20
    assert len(place.proxy._grants._store._records) == before  # type: ignore[attr-defined]


def test_an_unknown_client_is_refused_everywhere(place: Site) -> None:
    client = BareClient(place)
    client.id = client.id[:-4] + "AAAA"
    page = httpx2.get(client.url())
    assert (page.status_code, "location" in page.headers) == (400, False)
    answer = client.redeem("x")
    assert (answer.status_code, answer.json()["error"]) == (401, "invalid_client")


def test_a_metadata_document_that_could_not_be_fetched_once_lets_the_next_caller_log_in(place: Site) -> None:
    url = "https://app.example/client.json"
    found: list[Any] = [Unverifiable("away"), {"client_id": url, "client_name": "App", "redirect_uris": [CALLBACK]}]

    async def fetch(_: str) -> Any:
        document = found.pop(0)
        if isinstance(document, Exception):
            raise document
        return document

    place.proxy.clients.fetch = fetch
    client = BareClient(place)
    client.id = url
    refused = httpx2.get(client.url())
    assert (refused.status_code, "cannot be fetched" in refused.text) == (400, True)
    assert "code" in client.log_in()


# Pages and headers


def test_a_name_cannot_inject_html_or_hide_text(place: Site) -> None:
    name = "<script>alert(1)</script>\u202e\u200b\r\nSet-Cookie: a=b\"'><img src=x>"
    page = httpx2.get(BareClient(place, client_name=name).url())
    assert page.status_code == 200
    assert "<script" not in page.text
    assert "<img" not in page.text
    assert "\u202e" not in page.text
    assert "&lt;script&gt;" in page.text
    assert "a" not in page.cookies


def test_pages_cannot_be_framed_cached_or_run_scripts(place: Site) -> None:
    for page in (httpx2.get(BareClient(place).url()), httpx2.get(f"{place.origin}/authorize")):
        policy = page.headers["content-security-policy"]
        assert "frame-ancestors 'none'" in policy
        assert "default-src 'none'" in policy
        assert "unsafe" not in policy
        assert page.headers["x-frame-options"] == "DENY"
        assert page.headers["cache-control"] == "no-store"


def test_cookies_are_for_this_server_only_and_not_for_scripts(place: Site) -> None:
    cookie = httpx2.get(BareClient(place).url()).headers["set-cookie"]
    assert "HttpOnly; SameSite=Lax" in cookie
    assert "Domain" not in cookie


def test_the_state_of_a_client_cannot_inject_a_header(place: Site) -> None:
    client = BareClient(place)
    answer = client.log_in(state="a\r\nset-cookie: b=c&code=evil")
    assert answer["state"] == "a\r\nset-cookie: b=c&code=evil"
    assert client.redeem(answer["code"]).status_code == 200


def test_tokens_and_secrets_are_in_no_log(place: Site, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(0)
    client = BareClient(place)
    answer = client.log_in()
    tokens = client.redeem(answer["code"]).json()
    client.redeem(answer["code"])
    text = "\n".join(record.getMessage() for record in caplog.records if record.name.startswith("carrel"))
    for secret in (answer["code"], tokens["access_token"], tokens["refresh_token"], "upstream secret"):
        assert secret not in text
