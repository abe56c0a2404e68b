"""Authorization(verify=…): tokens verified by a function of the author."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from typing import Any

import httpx2
import pytest

from carrel.errors import ConfigError
from carrel.security import Authorization, Principal
from carrel.security.server import verifier
from support.http_requests import ask, build
from support.http_server import over_http

USERS: dict[str, Mapping[str, Any]] = {
    "alice-token": {"sub": "alice", "scope": "mcp tools"},
    "bob-token": {"sub": "bob", "scope": "mcp"},
}


async def look_up(token: str) -> Mapping[str, Any] | None:
    return USERS.get(token)


def whoami(url: str, token: str) -> Any:
    return ask(url, "tools/call", token, name="whoami", arguments={}).result["structuredContent"]


def test_claims_become_the_principal_and_scopes_hold() -> None:
    guard = Authorization(verify=look_up, scopes={"*": "mcp", "tools/call": "tools"})
    with over_http(build(), authorization=guard) as origin:
        url = f"{origin}/mcp"
        assert whoami(url, "alice-token")["subject"] == "alice"
        refused = ask(url, "tools/call", "bob-token", name="whoami", arguments={})
        assert (refused.status, refused.challenge["error"]) == (403, "insufficient_scope")
        refused = ask(url, "resources/read", "unknown", uri="memo://open")
        assert (refused.status, refused.challenge["error"]) == (401, "invalid_token")


def test_a_function_that_is_not_asynchronous_is_called_in_a_thread() -> None:
    threads: list[str] = []

    def verify(token: str) -> Principal | None:
        threads.append(threading.current_thread().name)
        return Principal(subject="carol", scopes=frozenset({"admin"})) if token == "carol-token" else None

    guard = Authorization(verify=verify, scopes={"*": "mcp"}, implies={"admin": "mcp"})
    with over_http(build(), authorization=guard) as origin:
        assert whoami(f"{origin}/mcp", "carol-token")["scopes"] == ["admin", "mcp"]
        assert ask(f"{origin}/mcp", "resources/read", "other", uri="memo://open").status == 401
    assert threads
    assert "uvicorn" not in threads


def test_a_verified_token_is_remembered_and_a_refused_one_is_not() -> None:
    asked: list[str] = []

    async def verify(token: str) -> Mapping[str, Any] | None:
        asked.append(token)
        return USERS.get(token)

    guard = Authorization(verify=verify, remember=30)
    with over_http(build(), authorization=guard) as origin:
        url = f"{origin}/mcp"
        for _ in range(3):
            assert ask(url, "resources/read", "bob-token", uri="memo://open").status == 200
            assert ask(url, "resources/read", "unknown", uri="memo://open").status == 401
        assert asked == ["bob-token", "unknown", "unknown", "unknown"]
        later = time.monotonic() + 31
        guard.monotonic = lambda: later
        assert ask(url, "resources/read", "bob-token", uri="memo://open").status == 200
        assert asked.count("bob-token") == 2


@pytest.mark.parametrize("expired", [{"sub": "a", "exp": 1}, Principal(subject="a", expires=1.0)])
def test_an_expired_token_is_refused(expired: Any) -> None:
    async def verify(token: str) -> Any:
        return expired

    with over_http(build(), authorization=Authorization(verify=verify)) as origin:
        refused = ask(f"{origin}/mcp", "resources/read", "a", uri="memo://open")
    assert (refused.status, refused.challenge["error_description"]) == (401, "The access token has expired")


def test_an_audience_that_the_verifier_names_has_to_be_this_server() -> None:
    async def verify(token: str) -> Mapping[str, Any] | None:
        return {"sub": "alice", "aud": f"https://{token}.example/mcp"}

    guard = Authorization(verify=verify, resource="https://this.example/mcp")
    with over_http(build(), authorization=guard) as origin:
        assert ask(f"{origin}/mcp", "resources/read", "this", uri="memo://open").status == 200
        refused = ask(f"{origin}/mcp", "resources/read", "other", uri="memo://open")
    assert (refused.status, refused.challenge["error"]) == (401, "invalid_token")


@pytest.mark.parametrize("answer", [None, {}, {"sub": ""}, {"sub": None}, Principal(subject="")])
def test_a_verifier_that_names_no_subject_lets_no_caller_in(answer: Any) -> None:
    with over_http(build(), authorization=Authorization(verify=lambda token: answer)) as origin:
        refused = ask(f"{origin}/mcp", "resources/read", "the-token", uri="memo://open")
    assert (refused.status, refused.challenge["error"]) == (401, "invalid_token")


@pytest.mark.parametrize("answer", [ValueError("secret detail"), "alice", True, False, ""])
def test_a_verifier_that_fails_lets_no_caller_in(answer: Any, caplog: pytest.LogCaptureFixture) -> None:
    async def verify(token: str) -> Any:
        if isinstance(answer, Exception):
            raise answer
        return answer

    with over_http(build(), authorization=Authorization(verify=verify)) as origin:
        refused = ask(f"{origin}/mcp", "resources/read", "the-token", uri="memo://open")
    assert refused.status == 503
    assert "secret detail" not in str(refused.body)
    assert "the verifier" in caplog.text
    assert "the-token" not in caplog.text


def test_a_verifier_that_takes_too_long_lets_no_caller_in(monkeypatch: pytest.MonkeyPatch) -> None:
    import asyncio

    monkeypatch.setattr(verifier, "TIMEOUT", 0.05)

    async def verify(token: str) -> Any:
        await asyncio.Event().wait()

    with over_http(build(), authorization=Authorization(verify=verify)) as origin:
        assert ask(f"{origin}/mcp", "resources/read", "a", uri="memo://open").status == 503


def test_the_metadata_document_is_there_if_an_issuer_is_named_and_only_then() -> None:
    place = "/.well-known/oauth-protected-resource/mcp"
    with over_http(build(), authorization=Authorization(verify=look_up)) as origin:
        assert httpx2.get(f"{origin}{place}").status_code == 404
        assert "resource_metadata" not in ask(f"{origin}/mcp", "resources/list").challenge
    guard = Authorization("https://auth.example", verify=look_up)
    with over_http(build(), authorization=guard) as origin:
        assert httpx2.get(f"{origin}{place}").json()["authorization_servers"] == ["https://auth.example"]
        assert ask(f"{origin}/mcp", "resources/list").challenge["resource_metadata"] == f"{origin}{place}"
        assert whoami(f"{origin}/mcp", "alice-token")["subject"] == "alice"


def test_what_makes_no_sense_is_an_error_at_once() -> None:
    with pytest.raises(ConfigError, match="needs an issuer, or verify"):
        Authorization()
    with pytest.raises(ConfigError, match="one argument, the token"):
        Authorization(verify=lambda: None)  # type: ignore[arg-type, misc]
    with pytest.raises(ConfigError, match="a function of a token"):
        Authorization(verify="look_up")  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="exclude each other"):
        Authorization("https://auth.example", verify=look_up, jwks_uri="https://auth.example/keys")
