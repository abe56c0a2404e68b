"""Which proxy a URL is asked through."""

from __future__ import annotations

from pathlib import Path

import pytest

from carrel.security.fetch import Fetcher
from carrel.transports.client.proxies import find_proxy
from support.token_issuer import Issuer


@pytest.fixture(autouse=True)
def proxies(monkeypatch: pytest.MonkeyPatch):
    for name in ("http_proxy", "https_proxy", "all_proxy", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)
    monkeypatch.setenv("https_proxy", "http://proxy.example:3128")
    monkeypatch.setenv("no_proxy", "inside.example")


def test_the_environment_says_which():
    assert find_proxy("https://auth.example/x") == "http://proxy.example:3128"
    assert find_proxy("http://auth.example/x") is None


@pytest.mark.parametrize(
    "url",
    [
        "https://inside.example/",
        "https://a.inside.example/",
        "https://localhost/",
        "https://127.0.0.2/",
        "https://[::1]/",
    ],
)
def test_no_proxy_leads_to_this_machine_or_to_where_there_should_be_none(url: str):
    assert find_proxy(url) is None


def test_one_for_everything_does_for_what_has_none_of_its_own(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("all_proxy", "proxy.example:1080")
    assert find_proxy("http://auth.example/x") == "http://proxy.example:1080"


async def test_passwords_of_this_user_do_not_go_to_a_server_that_a_document_has_named(
    issuer: Issuer, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
):
    path = tmp_path / "netrc"
    path.write_text("machine 127.0.0.1 login alice password secret\ndefault login alice password secret\n")
    path.chmod(0o600)
    monkeypatch.setenv("NETRC", str(path))
    issuer.publish({"a": 1}, "/token")
    async with Fetcher() as fetcher:
        assert await fetcher.post(f"{issuer.url}/token", {"b": "c"}, {}) == {"a": 1}
    [(headers, _)] = issuer.forms
    assert "authorization" not in {name.lower() for name in headers}


async def test_documents_are_asked_for_by_way_of_the_proxy(issuer: Issuer, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("http_proxy", issuer.url)
    issuer.publish({"by": "proxy"}, "http://auth.example/x")
    async with Fetcher(hosts=()) as fetcher:
        assert await fetcher.get("http://auth.example/x") == {"by": "proxy"}
