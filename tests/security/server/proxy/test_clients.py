"""Clients of the OAuth proxy: registrations, metadata documents, redirect URIs."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Any

import pytest

from carrel.errors import ConfigError
from carrel.security.server.bearer import Unverifiable
from carrel.security.server.proxy import clients
from carrel.security.server.proxy.clients import Clients, OAuthClient, OAuthError, redirect_host
from carrel.security.server.proxy.sealing import Sealer

URL = "https://app.example/client.json"
DOCUMENT = {"client_id": URL, "client_name": "App", "redirect_uris": ["https://app.example/back"]}


def registry(document: Any = DOCUMENT, **options: Any) -> tuple[Clients, list[str]]:
    """Return clients whose metadata documents are all the same, and the URLs that are fetched."""
    given = {"documents": True, **options}
    found = Clients(Sealer(), given.pop("schemes", ()), **given)
    fetched: list[str] = []

    async def fetch(url: str) -> Mapping[str, Any]:
        fetched.append(url)
        if isinstance(document, Exception):
            raise document
        return document  # type: ignore[no-any-return]

    found.fetch = fetch
    return found, fetched


async def test_a_registration_is_in_its_client_id() -> None:
    sealer = Sealer([b"k" * 32])
    issued = Clients(sealer, (), documents=True).register({"client_name": "A", "redirect_uris": ["http://[::1]/x"]})
    assert issued["token_endpoint_auth_method"] == "none"
    again = Clients(Sealer([b"n" * 32, b"k" * 32]), (), documents=True)
    found = await again.find(issued["client_id"])
    assert (found.name, found.redirect_uris) == ("A", ("http://[::1]/x",))
    with pytest.raises(OAuthError, match="not registered"):
        await Clients(Sealer(), (), documents=True).find(issued["client_id"])


async def test_a_metadata_document_is_fetched_once_and_names_its_host() -> None:
    found, fetched = registry()
    for _ in range(3):
        client = await found.find(URL)
    assert (client.name, client.home, client.accepts("https://app.example/back")) == ("App", "app.example", True)
    assert fetched == [URL]
    assert found.key_of(URL) == client.key


@pytest.mark.requirement
@pytest.mark.parametrize(
    ("document", "problem"),
    [
        ({**DOCUMENT, "client_id": "https://app.example/other"}, "another client_id"),
        ({**DOCUMENT, "client_id": None}, "another client_id"),
        ({"client_id": URL}, "redirect_uris must be a list"),
        ({**DOCUMENT, "redirect_uris": ["javascript:x"]}, "A redirect URI is https:"),
        ({**DOCUMENT, "token_endpoint_auth_method": "private_key_jwt"}, "asks for client authentication"),
        (Unverifiable("secret host"), "cannot be fetched"),
    ],
)
async def test_a_metadata_document_that_is_not_valid_is_refused(document: Any, problem: str) -> None:
    found, fetched = registry(document)
    for _ in range(2):
        with pytest.raises(OAuthError, match=problem) as error:
            await found.find(URL)
        assert "secret host" not in str(error.value)
    assert fetched == [URL, URL], "a failure is not kept: the next caller may have better luck"


async def test_a_metadata_document_is_found_right_after_a_failure_of_another_caller() -> None:
    found, _ = registry(Unverifiable("x"))
    with pytest.raises(OAuthError, match="cannot be fetched"):
        await found.find(URL)
    found.fetch = registry()[0].fetch
    assert (await found.find(URL)).name == "App"


@pytest.mark.parametrize(
    "url",
    [
        "https://127.0.0.1/client.json",
        "https://localhost/client.json",
        "https://[::ffff:10.0.0.1]/client.json",
        "https://169.254.169.254/latest/meta-data",
        "https://app.example",
        "https://app.example/",
        "https://app.example/../x",
        "https://user@app.example/x",
        "https://app.example/x#y",
        f"https://app.example/{'x' * 600}",
        "https://\u0430pp.example/client.json",
        "https://app%2eexample/client.json",
        "https://app.example\u3002evil.example/client.json",
        "https://app.example/\u202eclient.json",
    ],
)
async def test_a_client_id_that_may_not_be_fetched_is_not(url: str) -> None:
    found, fetched = registry()
    with pytest.raises(OAuthError):
        await found.find(url)
    assert fetched == []


async def test_metadata_documents_can_be_switched_off_and_are_kept_in_bounds(monkeypatch: pytest.MonkeyPatch) -> None:
    found, fetched = registry(documents=False)
    with pytest.raises(OAuthError, match="not registered"):
        await found.find(URL)
    assert fetched == []
    monkeypatch.setattr(clients, "MAX_DOCUMENTS", 5)
    monkeypatch.setattr(clients, "MAX_DOCUMENTS_PER_HOST", 3)
    found, fetched = echoing()
    for url in (URL, *(f"https://many.example/{number}" for number in range(10)), URL, "https://many.example/9"):
        await found.find(url)
    assert fetched.count(URL) == fetched.count("https://many.example/9") == 1
    assert len(found._known) == 4
    for number in range(10):
        await found.find(f"https://app-{number}.example/client.json")
    assert len(found._known) == 5


def echoing(go: asyncio.Event | None = None) -> tuple[Clients, list[str]]:
    """Return clients whose metadata documents are valid, and the URLs that are fetched, which wait for ``go``."""
    found, fetched = registry()

    async def fetch(url: str) -> Mapping[str, Any]:
        fetched.append(url)
        if go is not None:
            await go.wait()
        return {**DOCUMENT, "client_id": url}

    found.fetch = fetch
    return found, fetched


async def test_metadata_documents_that_wait_to_be_fetched_are_limited_and_each_is_fetched_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(clients, "MAX_FETCHES", 2)
    monkeypatch.setattr(clients, "MAX_WAITING_FETCHES", 3)
    go = asyncio.Event()
    found, fetched = echoing(go)
    urls = [f"https://app-{number}.example/client.json" for number in range(5)]
    asking = [asyncio.create_task(found.find(url)) for url in (*urls, *urls)]
    await until(lambda: len(fetched) == 2)
    with pytest.raises(OAuthError, match="More than 5 metadata documents are being fetched: ") as error:
        await found.find(URL)
    assert (error.value.error, error.value.status) == ("temporarily_unavailable", 503)
    assert len(fetched) == 2
    go.set()
    assert len(await asyncio.gather(*asking)) == 10
    assert sorted(fetched) == urls
    assert (await found.find(URL)).name == "App", "the refusal is not remembered"
    await found.close()


async def test_documents_of_one_host_leave_room_for_others() -> None:
    go = asyncio.Event()
    found, fetched = echoing(go)
    slow = [
        asyncio.create_task(found.find(f"https://{host}/{number}.json"))
        for number in range(50)
        for host in ("slow.example", "SLOW.example", "slow.example.")
    ]
    await until(lambda: len(fetched) == clients.MAX_FETCHES_PER_HOST)
    other = asyncio.create_task(found.find(URL))
    await until(lambda: URL in fetched)
    go.set()
    assert (await other).name == "App"
    refused = [one for one in await asyncio.gather(*slow, return_exceptions=True) if isinstance(one, OAuthError)]
    assert len(refused) == len(slow) - clients.MAX_FETCHES_PER_HOST
    assert {str(one) for one in refused} == {
        "More than 4 metadata documents are being fetched from slow.example: try again later"
    }


async def until(reached: Callable[[], bool]) -> None:
    """Let other tasks run until a condition holds."""
    async with asyncio.timeout(60):
        while not reached():
            await asyncio.sleep(0)


async def test_a_metadata_document_on_the_local_network_is_not_fetched_by_its_name() -> None:
    real = Clients(Sealer(), (), documents=True)
    try:
        with pytest.raises(Unverifiable):
            await real.fetch("https://localhost.localdomain/client.json")
    finally:
        await real.close()


def test_schemes_of_applications_are_allowed_if_they_are_named() -> None:
    found, _ = registry(schemes=["cursor"])
    assert found.register({"redirect_uris": ["cursor://callback/path"]})["redirect_uris"] == ["cursor://callback/path"]
    assert redirect_host("cursor://callback/path") == "cursor:"
    for scheme in ("javascript", "https", "Cursor", "a b", ""):
        with pytest.raises(ConfigError, match="redirect_schemes"):
            registry(schemes=[scheme])


@pytest.mark.parametrize(
    ("registered", "given", "accepted"),
    [
        ("http://localhost/cb", "http://localhost:5/cb", True),
        ("http://[::1]:1/cb", "http://[::1]:5/cb", True),
        ("http://127.0.0.1:1/cb?a=b", "http://127.0.0.1:5/cb?a=b", True),
        ("http://127.0.0.1:1/cb", "http://[::1]:1/cb", False),
        ("http://127.0.0.1:1/cb", "http://127.0.0.1:1/cb/", False),
        ("http://127.0.0.1:1/cb", "http://127.0.0.1:/cb", False),
        ("http://127.0.0.1:1/cb", "http://x@127.0.0.1:1/cb", False),
        ("http://127.0.0.1:1/cb", "http://127.0.0.1:1\\@evil.example/cb", False),
        ("https://app.example/cb", "https://app.example:444/cb", False),
        ("https://app.example/cb", "https://APP.example/cb", False),
    ],
)
def test_redirect_uris_match_exactly_but_for_the_port_of_this_machine(
    registered: str, given: str, accepted: bool
) -> None:
    assert OAuthClient("k", "n", (registered,)).accepts(given) is accepted


def test_a_client_that_needs_another_grant_cannot_register() -> None:
    found, _ = registry()
    with pytest.raises(OAuthError, match="grant_types must include authorization_code"):
        found.register({"redirect_uris": ["https://a.example/"], "grant_types": ["client_credentials"]})
