"""Real tokens of a real OpenID provider, over a real socket."""

from __future__ import annotations

import base64
import json
import time

import pytest

from carrel.security import Authorization, Introspection
from support.http_requests import ask, build, initialize, request
from support.http_server import over_http
from support.openid_provider import Provider, provider

SCOPES = {
    "*": "mcp",
    "tools/call": "tools",
    "tools/call delete_*": "books:write",
    "secret://*": "secrets:read",
}
ALL = "mcp tools books:write secrets:read admin"


def claims_of(token: str) -> dict:
    return json.loads(base64.urlsafe_b64decode(token.split(".")[1] + "=="))


def test_a_robot_gets_in_with_a_token_for_this_server(auth: Provider):
    with over_http(build(), authorization=Authorization(auth.issuer)) as origin:
        url = f"{origin}/mcp"
        auth.protect(url, "mcp")
        token = auth.robot(url, "mcp")
        seen = ask(url, "tools/call", token, name="whoami", arguments={}).result["structuredContent"]
    assert seen["subject"] == seen["client"] == "robot"
    assert seen["scopes"] == ["mcp"]
    assert seen["issuer"] == auth.issuer
    assert {"aud", "exp", "jti"} <= set(seen["claims"])
    assert token not in seen["everything"]
    assert "authorization" not in seen["everything"].lower()


def test_a_person_gets_in_who_has_logged_in_and_agreed(auth: Provider):
    with over_http(build(), authorization=Authorization(auth.issuer, scopes=SCOPES)) as origin:
        url = f"{origin}/mcp"
        auth.protect(url, ALL)
        tokens = auth.person("alice", url, "mcp tools")
        seen = ask(url, "tools/call", tokens["access_token"], name="whoami", arguments={}).result["structuredContent"]
        session = initialize(url, tokens["access_token"])
        newer = auth.refresh(tokens["refresh_token"], url)["access_token"]
        listing = {"jsonrpc": "2.0", "id": 1, "method": "resources/list"}
        later = request(url, listing, {"mcp-session-id": session}, newer)
        identity = ask(url, "resources/read", tokens["id_token"], uri="memo://open")
    assert (seen["subject"], seen["client"]) == ("alice", "app")
    assert newer != tokens["access_token"]
    assert later.status == 200  # the same person and application, with another token
    assert (identity.status, identity.challenge["error"]) == (401, "invalid_token")  # that one is for the application


@pytest.mark.parametrize("algorithm", ["RS256", "PS256", "ES256", "EdDSA", "Ed25519"])
def test_every_algorithm_of_the_provider_is_verified(auth: Provider, algorithm: str):
    with over_http(build(), authorization=Authorization(auth.issuer)) as origin:
        url = f"{origin}/mcp"
        auth.protect(url, "mcp", alg=algorithm)
        token = auth.robot(url, "mcp")
        header = json.loads(base64.urlsafe_b64decode(token.split(".")[0] + "=="))
        assert header["alg"] == algorithm
        assert ask(url, "resources/read", token, uri="memo://open").status == 200
    with over_http(build(), authorization=Authorization(auth.issuer, algorithms=["RS512"])) as origin:
        url = f"{origin}/mcp"
        auth.protect(url, "mcp", alg=algorithm)
        reply = ask(url, "resources/read", auth.robot(url, "mcp"), uri="memo://open")
        assert (reply.status, reply.challenge["error"]) == (401, "invalid_token")


def test_without_a_token_a_client_is_told_how_to_get_one_and_it_works(auth: Provider):
    """What a client does: it is refused, reads the metadata, asks the server named there, and comes back."""
    with over_http(build(), authorization=Authorization(auth.issuer, scopes=SCOPES)) as origin:
        url = f"{origin}/mcp"
        auth.protect(url, ALL)
        refused = ask(url, "resources/read", uri="memo://open")
        assert refused.status == 401
        assert "error" not in refused.challenge
        metadata = request(refused.challenge["resource_metadata"], None, {}, method="GET")
        assert metadata.status == 200
        assert metadata.body["resource"] == url
        assert metadata.body["authorization_servers"] == [auth.issuer]
        token = auth.robot(metadata.body["resource"], refused.challenge["scope"])
        assert ask(url, "resources/read", token, uri="memo://open").result["contents"][0]["text"] == "robot"


def test_a_client_that_lacks_a_scope_is_told_all_it_takes(auth: Provider):
    with over_http(build(), authorization=Authorization(auth.issuer, scopes=SCOPES)) as origin:
        url = f"{origin}/mcp"
        auth.protect(url, ALL)
        token = auth.robot(url, "mcp")
        refused = ask(url, "tools/call", token, name="delete_book", arguments={"title": "Solaris"})
        assert refused.status == 403
        assert refused.challenge["error"] == "insufficient_scope"
        assert refused.challenge["scope"].split() == ["books:write", "mcp", "tools"]
        assert refused.challenge["resource_metadata"].startswith(origin)
        stronger = auth.robot(url, refused.challenge["scope"])
        done = ask(url, "tools/call", stronger, name="delete_book", arguments={"title": "Solaris"})
        assert done.result["content"][0]["text"] == "Solaris is gone"


def test_a_token_without_the_first_scope_gets_nowhere(auth: Provider):
    with over_http(build(), authorization=Authorization(auth.issuer, scopes=SCOPES)) as origin:
        url = f"{origin}/mcp"
        auth.protect(url, ALL)
        refused = ask(url, "server/discover", auth.robot(url, "admin"))
    assert (refused.status, refused.challenge["scope"]) == (403, "mcp")


def test_a_token_for_another_server_is_refused(auth: Provider):
    with over_http(build(), authorization=Authorization(auth.issuer)) as origin:
        auth.protect("http://127.0.0.1:9/mcp", "mcp")
        token = auth.robot("http://127.0.0.1:9/mcp", "mcp")
        reply = ask(f"{origin}/mcp", "resources/read", token, uri="memo://open")
        assert (reply.status, reply.challenge["error"]) == (401, "invalid_token")
        assert "was not issued for" in reply.challenge["error_description"]
        # nor does it help to pretend that this is the other one
        reply = ask(f"{origin}/mcp", "resources/read", token, {"host": "127.0.0.1:9"}, uri="memo://open")
        assert reply.status == 421


def test_audiences_that_are_configured_are_taken_instead_of_the_url(auth: Provider):
    authorization = Authorization(auth.issuer, audience=["urn:books", "https://books.example/MCP/"])
    with over_http(build(), authorization=authorization) as origin:
        url = f"{origin}/mcp"
        for audience, status in (("urn:books", 200), ("HTTPS://Books.example:443/MCP", 200), (url, 401)):
            auth.protect(url, "mcp", audience=audience)
            assert ask(url, "resources/read", auth.robot(url, "mcp"), uri="memo://open").status == status, audience


def test_a_token_of_another_provider_is_refused(auth: Provider):
    with provider("/tenant") as other, over_http(build(), authorization=Authorization(auth.issuer)) as origin:
        url = f"{origin}/mcp"
        other.protect(url, "mcp")
        reply = ask(url, "resources/read", other.robot(url, "mcp"), uri="memo://open")
    assert (reply.status, reply.challenge["error"]) == (401, "invalid_token")


def test_several_issuers_are_served_at_once_also_one_in_a_path(auth: Provider):
    with provider("/tenant") as other:
        authorization = Authorization([auth.issuer, other.issuer])
        with over_http(build(), authorization=authorization) as origin:
            url = f"{origin}/mcp"
            for one in (auth, other):
                one.protect(url, "mcp")
                assert ask(url, "resources/read", one.robot(url, "mcp"), uri="memo://open").status == 200
            metadata = request(f"{origin}/.well-known/oauth-protected-resource/mcp", None, {}, method="GET")
            assert metadata.body["authorization_servers"] == [auth.issuer, other.issuer]


def test_a_token_that_was_tampered_with_is_refused(auth: Provider):
    with over_http(build(), authorization=Authorization(auth.issuer)) as origin:
        url = f"{origin}/mcp"
        auth.protect(url, "mcp")
        token = auth.robot(url, "mcp")
        head, body, signature = token.split(".")
        claims = {**claims_of(token), "sub": "root"}
        forged = base64.urlsafe_b64encode(json.dumps(claims).encode()).rstrip(b"=").decode()
        none = base64.urlsafe_b64encode(b'{"alg":"none"}').rstrip(b"=").decode()
        for attempt in (
            f"{head}.{forged}.{signature}",
            f"{none}.{forged}.",
            f"{none}.{body}.{signature}",
            f"{head}.{body}.{signature[:-4]}AAAA",
            f"{head}.{body}.",
        ):
            reply = ask(url, "resources/read", attempt, uri="memo://open")
            assert (reply.status, reply.challenge["error"]) == (401, "invalid_token"), attempt
            assert "sub" not in str(reply.body)
        assert ask(url, "resources/read", token, uri="memo://open").status == 200


def test_an_expired_token_is_refused_also_if_it_was_good_before(auth: Provider):
    authorization = Authorization(auth.issuer, leeway=5)
    with over_http(build(), authorization=authorization) as origin:
        url = f"{origin}/mcp"
        auth.protect(url, "mcp", ttl=60)
        token = auth.robot(url, "mcp")
        assert ask(url, "resources/read", token, uri="memo://open").status == 200
        expires = claims_of(token)["exp"]
        authorization.clock = lambda: expires + 4
        assert ask(url, "resources/read", token, uri="memo://open").status == 200
        authorization.clock = lambda: expires + 5
        reply = ask(url, "resources/read", token, uri="memo://open")
    assert (reply.status, reply.challenge["error"]) == (401, "invalid_token")
    assert reply.challenge["error_description"] == "The access token has expired"


def test_new_keys_are_found_when_they_are_needed_and_old_ones_are_forgotten():
    with provider() as auth:
        authorization = Authorization(auth.issuer, keys_pause=30)
        begun = time.monotonic()
        authorization.monotonic = lambda: begun
        with over_http(build(), authorization=authorization) as origin:
            url = f"{origin}/mcp"
            auth.protect(url, "mcp")
            old = auth.robot(url, "mcp")
            assert ask(url, "resources/read", old, uri="memo://open").status == 200
            assert auth.asked("/jwks") == 1

            auth.tell("rotate")
            new = auth.robot(url, "mcp")
            assert ask(url, "resources/read", new, uri="memo://open").status == 401  # it was asked a moment ago
            assert auth.asked("/jwks") == 1

            authorization.monotonic = lambda: begun + 31
            assert ask(url, "resources/read", new, uri="memo://open").status == 200
            assert ask(url, "resources/read", old, uri="memo://open").status == 401
            assert auth.asked("/jwks") == 2


def test_cached_keys_verify_tokens_while_the_provider_is_down():
    with provider() as auth:
        authorization = Authorization(auth.issuer, keys_ttl=60)
        with over_http(build(), authorization=authorization) as origin:
            url = f"{origin}/mcp"
            auth.protect(url, "mcp")
            first, second = auth.robot(url, "mcp"), auth.robot(url, "mcp")
            auth.tell("stop")
            refused = ask(url, "resources/read", first, uri="memo://open")
            assert refused.status == 503
            assert refused.headers["retry-after"]
            assert auth.issuer not in str(refused.body)

            auth.tell("start")
            now = time.monotonic()
            authorization.monotonic = lambda: now + 2
            assert ask(url, "resources/read", first, uri="memo://open").status == 200

            auth.tell("stop")
            authorization.monotonic = lambda: now + 100
            assert ask(url, "resources/read", second, uri="memo://open").status == 200
            authorization.monotonic = lambda: now + 25 * 3600
            assert ask(url, "resources/read", second, uri="memo://open").status == 503


def test_opaque_tokens_are_asked_about(auth: Provider):
    authorization = Introspection(
        f"{auth.issuer}/token/introspection",
        issuer=auth.issuer,
        client_id="resource-server",
        client_secret="resource-server's s%&+ecret",
        scopes=SCOPES,
    )
    begun = time.monotonic()
    authorization.monotonic = lambda: begun
    with over_http(build(), authorization=authorization) as origin:
        url = f"{origin}/mcp"
        auth.protect(url, ALL, opaque=True)
        token = auth.robot(url, "mcp tools")
        assert "." not in token
        before = auth.asked("/token/introspection")
        seen = ask(url, "tools/call", token, name="whoami", arguments={}).result["structuredContent"]
        assert (seen["subject"], seen["scopes"]) == ("robot", ["mcp", "tools"])
        assert ask(url, "resources/read", token, uri="secret://plan").status == 403
        assert auth.asked("/token/introspection") == before + 1  # the answer is good for some seconds

        auth.revoke(token)
        authorization.monotonic = lambda: begun + 11
        refused = ask(url, "resources/read", token, uri="memo://open")
        assert (refused.status, refused.challenge["error"]) == (401, "invalid_token")
        assert "not active" in refused.challenge["error_description"]


@pytest.mark.parametrize("method", ["basic", "post"])
def test_introspection_is_found_by_the_issuer_and_looks_at_the_audience(auth: Provider, method: str):
    authorization = Introspection(
        issuer=auth.issuer, client_id="resource-server", client_secret="resource-server's s%&+ecret", method=method
    )
    with over_http(build(), authorization=authorization) as origin:
        url = f"{origin}/mcp"
        for uri in (url, "http://127.0.0.1:9/mcp"):
            auth.protect(uri, "mcp", opaque=True)
        assert ask(url, "resources/read", auth.robot(url, "mcp"), uri="memo://open").status == 200
        reply = ask(url, "resources/read", auth.robot("http://127.0.0.1:9/mcp", "mcp"), uri="memo://open")
        assert (reply.status, reply.challenge["error"]) == (401, "invalid_token")
        assert ask(url, "resources/read", "never-issued", uri="memo://open").status == 401


def test_a_server_that_may_not_introspect_tokens_admits_no_client(auth: Provider, caplog: pytest.LogCaptureFixture):
    authorization = Introspection(issuer=auth.issuer, client_id="resource-server", client_secret="wrong")
    with over_http(build(), authorization=authorization) as origin:
        url = f"{origin}/mcp"
        auth.protect(url, "mcp", opaque=True)
        token = auth.robot(url, "mcp")
        assert ask(url, "resources/read", token, uri="memo://open").status == 503
    assert "answered 401" in caplog.text
    assert token not in caplog.text
    assert "wrong" not in caplog.text


@pytest.mark.parametrize("revision", ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"])
def test_the_session_of_another_principal_does_not_exist(auth: Provider, revision: str):
    with over_http(build(), authorization=Authorization(auth.issuer)) as origin:
        url = f"{origin}/mcp"
        auth.protect(url, "mcp")
        mine, alsomine, theirs = auth.robot(url), auth.robot(url), auth.robot(url, name="other robot")
        session = {"mcp-session-id": initialize(url, mine, revision)}
        listing = {"jsonrpc": "2.0", "id": 1, "method": "resources/list"}
        assert request(url, listing, session, alsomine).status == 200
        assert request(url, listing, session, theirs).status == 404
        assert request(url, None, session, theirs, method="GET").status == 404
        assert request(url, None, session, theirs, method="DELETE").status == 404
        assert request(url, listing, session).status == 401
        assert request(url, listing, session, mine).status == 200
        assert request(url, None, session, mine, method="DELETE").status == 204
