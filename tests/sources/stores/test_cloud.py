"""Azure and Google, by obstore: on its own store in memory, against real servers, and against one that is hostile.

The server of Google's objects is moto's, which answers for S3: see ``support.s3_server``.
"""

from __future__ import annotations

import gc
import itertools
import json
import logging
from base64 import urlsafe_b64decode
from collections.abc import AsyncIterator, Callable, Mapping
from typing import Any, NamedTuple

import obstore
import pytest
from aiohttp import web
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import padding, rsa
from obstore.store import MemoryStore

from carrel import sources
from carrel.catalog.provider import Provider
from carrel.errors import (
    ConfigError,
    ProviderUnavailable,
    ResourceError,
    ResourceForbidden,
    ResourceNotFound,
    ResourceTooLarge,
)
from carrel.sources.stores.address import read_address
from carrel.sources.stores.cloud import CloudStore
from carrel.sources.stores.options import CloudOptions
from carrel.sources.stores.source import StoreSource
from carrel.sources.stores.store import GetOptions, GetResult, StoreEntry
from carrel.testing import running
from carrel.testing.caller import Caller
from carrel.testing.changes import count_descriptors, fewer_descriptors_than
from sources.stores.test_contract import OPTIONS, StoreContract
from support import azure_server
from support.azure_server import AzureServer
from support.contract_choice import BACKEND
from support.s3_server import S3Server


class Memory(CloudStore):
    """Store of this source whose requests go to obstore's store in memory."""

    def __init__(self, inner: MemoryStore) -> None:
        super().__init__(read_address("az://shelf/docs"), CloudOptions())
        self.inner = inner

    def _connect(self) -> Any:
        return self.inner


class TestCloudSource(StoreContract):
    """Objects below a prefix, in a store of obstore."""

    ordinary = BACKEND
    base = "az://shelf/docs/"
    numbers = itertools.count()

    @pytest.fixture
    def provider(self) -> Provider:
        self.inner = MemoryStore()
        self.fill()
        obstore.put(self.inner, "docs-beside/secret.txt", b"secret")
        return self.again(self)  # type: ignore[arg-type]

    def again(self, provider: Provider) -> Provider:
        return StoreSource(Memory(self.inner), read_address("az://shelf/docs"), CloudOptions(**OPTIONS))

    def put(self, key: str, data: bytes) -> None:
        obstore.put(self.inner, f"docs/{key}", data)

    def delete(self, key: str) -> None:
        obstore.delete(self.inner, f"docs/{key}")


@pytest.mark.parametrize("scheme", ["az", "gs"])
def test_a_url_that_names_no_container_is_refused(scheme: str) -> None:
    for end in ("", "//", "//key:hunter2@shelf", "//shelf/../x"):
        with pytest.raises(ConfigError) as raised:
            sources.open(f"{scheme}:{end}")
        assert "hunter2" not in str(raised.value)


@pytest.mark.slow
@pytest.mark.parametrize("scheme", ["az", "gs"])
async def test_a_server_that_is_not_reached_is_an_error_without_secrets(
    scheme: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AZURE_STORAGE_ACCOUNT_NAME", "account")
    monkeypatch.setenv("AZURE_STORAGE_ACCOUNT_KEY", "aHVudGVyMg==")
    anonymous = scheme == "gs"  # else it asks Google's metadata server for credentials
    source = sources.open(f"{scheme}://shelf", endpoint="http://127.0.0.1:1", timeout=5.0, anonymous=anonymous)
    with pytest.raises(ConfigError, match="cannot be listed") as raised:
        await source.start(None)  # type: ignore[arg-type]
    assert "aHVudGVyMg" not in str(raised.value)


async def test_a_key_that_is_missing_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AZURE_STORAGE_ACCOUNT_NAME", "AZURE_STORAGE_ACCOUNT_KEY"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(ConfigError, match="az://shelf/ cannot be opened"):
        await sources.open("az://shelf").start(None)  # type: ignore[arg-type]


# Against real servers


class Place(NamedTuple):
    """Prefix of its own for a test on a server of Azure's or Google's objects; ``put`` adds to its name."""

    url: str
    options: dict[str, Any]
    put: Callable[[str, bytes | str], None]

    def open(self, **options: Any) -> Provider:
        return sources.open(self.url, **{**self.options, **options})


numbers = itertools.count()
both = pytest.mark.parametrize("scheme", ["az", "gs"])


@pytest.fixture
def place(scheme: str, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Place:
    prefix = f"cloud{next(numbers)}"
    url = f"{scheme}://shelf/{prefix}/"
    if scheme == "gs":
        server: S3Server = request.getfixturevalue("server")
        options = {"endpoint": server.endpoint, "anonymous": True}
        return Place(url, options, lambda key, data: server.put(f"{prefix}{key}", data, access="public-read"))
    azure: AzureServer = request.getfixturevalue("azure")
    for name, value in azure_server.CREDENTIALS.items():
        monkeypatch.setenv(name, value)
    return Place(url, {"endpoint": azure.endpoint}, lambda key, data: azure.put(f"{prefix}{key}", data))


async def text(source: Provider, uri: str) -> str:
    [contents] = await Caller(source).read_resource(uri)
    return str(contents.text)  # type: ignore[union-attr]


@pytest.mark.slow
@both
async def test_windows_of_a_large_object_are_read_and_the_whole_is_refused(place: Place) -> None:
    place.put("/log.txt", b"".join(b"%07d\n" % number for number in range(100_000)))
    async with running(place.open(max_size=100_000)) as source:
        for query, expected in (
            ("tail=1", "0099999\n"),
            ("lines=2-3", "0000001\n0000002\n"),
            ("bytes=400000-400007", "0050000\n"),
            ("bytes=799992-900000", "0099999\n"),
        ):
            assert await text(source, f"{place.url}log.txt?{query}") == expected
        with pytest.raises(ResourceTooLarge, match="800,000 bytes"):
            await text(source, f"{place.url}log.txt")


@pytest.mark.slow
@both
async def test_a_refused_object_leaves_no_connection_open_until_the_next_garbage_collection(place: Place) -> None:
    place.put("/large.txt", bytes(1_000_000))
    async with running(place.open(max_size=1000)) as source:
        gc.disable()
        try:
            for again in range(11):
                with pytest.raises(ResourceTooLarge):
                    await text(source, f"{place.url}large.txt")
                if not again:
                    before = count_descriptors()
            await fewer_descriptors_than(before + 5)
        finally:
            gc.enable()


@pytest.mark.slow
@both
async def test_an_object_that_is_replaced_is_read_anew(place: Place) -> None:
    async with running(place.open()) as source:
        for data in ("one", "two", "two", "three"):
            place.put("/a.txt", data)
            assert await text(source, f"{place.url}a.txt") == data
            assert await text(source, f"{place.url}a.txt?bytes=0-1") == data[:2]


@pytest.mark.slow
@both
async def test_other_containers_and_prefixes_are_not_reached(place: Place) -> None:
    place.put("/a.txt", "text")
    place.put("-secret/a.txt", "secret")
    async with running(place.open()) as source:
        assert await text(source, f"{place.url}a.txt") == "text"
        beside = f"{place.url[:-1]}-secret/a.txt"
        for uri in (beside, beside.replace("cloud", "cloud/../cloud"), beside.replace("shelf", "other")):
            with pytest.raises(ResourceNotFound):
                await Caller(source).read_resource(uri)


@pytest.mark.slow
@pytest.mark.parametrize("scheme", ["gs"])  # Azure and Azurite take no such keys from obstore
async def test_a_level_with_a_key_that_obstore_refuses_says_so_and_others_are_listed(
    place: Place, caplog: pytest.LogCaptureFixture
) -> None:
    for key in ("/good/a.txt", "/good/b//c.txt", "/fine/a.txt"):
        place.put(key, "text")
    async with running(place.open()) as source:
        assert [item.name for item in await Caller(source).directory(f"{place.url}fine/")] == ["a.txt"]
        assert await text(source, f"{place.url}good/a.txt") == "text"
        with caplog.at_level(logging.WARNING), pytest.raises(ProviderUnavailable):
            await Caller(source).resources()
        assert "an empty, '.' or '..' segment" in caplog.text


@pytest.mark.slow
@both
async def test_a_container_that_is_not_there_does_not_start(place: Place, scheme: str) -> None:
    with pytest.raises(ConfigError, match=f"{scheme}://none/ cannot be listed") as raised:
        await sources.open(f"{scheme}://none", **place.options).start(None)  # type: ignore[arg-type]
    assert "404" in str(raised.value)


@pytest.mark.slow
@pytest.mark.parametrize("scheme", ["az"])
async def test_a_wrong_key_is_refused_and_not_told(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AZURE_STORAGE_ACCOUNT_KEY", "aHVudGVyMg==")
    with pytest.raises(ConfigError, match=r"cannot be listed.*403") as raised:
        await place.open().start(None)  # type: ignore[arg-type]
    assert "aHVudGVyMg" not in str(raised.value)


@pytest.mark.slow
@pytest.mark.parametrize("scheme", ["az"])
async def test_a_public_container_of_azure_needs_no_key(
    place: Place, azure: AzureServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("AZURE_STORAGE_ACCOUNT_KEY")
    with pytest.raises(ConfigError, match="cannot be listed"):
        await place.open(anonymous=True).start(None)  # type: ignore[arg-type]
    azure.create("open", "container")
    async with running(sources.open("az://open", **place.options, anonymous=True)) as source:
        assert [item.uri for item in await Caller(source).resources()] == ["az://open/"]


@pytest.mark.slow
@both
async def test_versions_in_lists_are_those_of_objects(place: Place) -> None:
    place.put("/a.txt", "text")
    async with running(place.open()) as source:
        store = source._store  # type: ignore[attr-defined]
        key = f"{place.url.removeprefix('az://shelf/').removeprefix('gs://shelf/')}a.txt"
        [listed] = (await store.list(key)).entries
        assert listed == await store.head(key)


@pytest.mark.slow
@pytest.mark.parametrize("scheme", ["gs"])
async def test_an_object_that_may_not_be_read_is_forbidden(place: Place, server: S3Server) -> None:
    server.put(f"{place.url.removeprefix('gs://shelf/')}private.txt", "secret")
    async with running(place.open()) as source:
        for query in ("", "?tail=1"):
            with pytest.raises(ResourceForbidden):
                await text(source, f"{place.url}private.txt{query}")


# A server that means harm


class Hostile:
    """Server of one object, in Azure's and in Google's way, whose answers to GET are set by a test."""

    def __init__(self) -> None:
        self.endpoint = ""
        self.repeats = False
        self.size = 200_000
        self.answer: Callable[[int, int], web.Response] = lambda first, last: self.part(first, last - first + 1)
        self.asked: list[web.BaseRequest] = []

    @property
    def headers(self) -> dict[str, str]:
        return {"ETag": '"a"', "Last-Modified": "Sun, 22 Nov 2026 10:00:00 GMT"}

    def part(self, first: int, count: int, claims: str | None = None) -> web.Response:
        """Return a response with a range, which need not be the one that it claims to be."""
        claims = claims or f"bytes {first}-{first + count - 1}/{self.size}"
        return web.Response(status=206, body=b"x" * count, headers={**self.headers, "Content-Range": claims})

    async def handle(self, request: web.Request) -> web.StreamResponse:
        self.asked.append(request)
        if self.repeats and ("list-type" in request.query or "comp" in request.query):
            return web.Response(text=endless(request.query), content_type="application/xml")
        if "prefix" in request.query or "list-type" in request.query or "comp" in request.query:
            google = "<ListBucketResult></ListBucketResult>"
            azure = "<EnumerationResults><Blobs></Blobs></EnumerationResults>"
            return web.Response(text=google if "list-type" in request.query else azure, content_type="application/xml")
        if request.method == "HEAD":
            return web.Response(headers={**self.headers, "Content-Length": str(self.size)})
        asked = request.headers.get("Range", request.headers.get("x-ms-range"))
        if asked is None:
            return web.Response(body=b"x" * self.size, headers=self.headers)
        first, last = asked.removeprefix("bytes=").split("-")
        return self.answer(int(first), min(int(last), self.size - 1))


def endless(query: Mapping[str, str]) -> str:
    """Return a page of a list: after the first page comes the second one, again and again."""
    first = "marker" not in query and "continuation-token" not in query
    names = [f"key{number:04}" for number in (range(100) if first else range(100, 200))]
    when = "Sun, 22 Nov 2026 10:00:00 GMT"
    if "comp" in query:
        items = "".join(
            f"<Blob><Name>{name}</Name><Properties><Last-Modified>{when}</Last-Modified><Etag>x</Etag>"
            "<Content-Length>3</Content-Length><Content-Type>text/plain</Content-Type></Properties></Blob>"
            for name in names
        )
        return f"<EnumerationResults><Blobs>{items}</Blobs><NextMarker>again</NextMarker></EnumerationResults>"
    items = "".join(
        f"<Contents><Key>{name}</Key><Size>3</Size><LastModified>2026-11-22T10:00:00Z</LastModified>"
        "<ETag>x</ETag></Contents>"
        for name in names
    )
    return (
        f"<ListBucketResult><IsTruncated>true</IsTruncated>{items}"
        "<NextContinuationToken>again</NextContinuationToken></ListBucketResult>"
    )


@pytest.fixture
async def hostile() -> AsyncIterator[Hostile]:
    server = Hostile()
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", server.handle)
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    server.endpoint = f"http://127.0.0.1:{runner.addresses[0][1]}"
    yield server
    await runner.cleanup()


@pytest.fixture
def opened(scheme: str, hostile: Hostile, monkeypatch: pytest.MonkeyPatch) -> Provider:
    for name, value in azure_server.CREDENTIALS.items():
        monkeypatch.setenv(name, value)
    return sources.open(f"{scheme}://shelf", endpoint=hostile.endpoint, anonymous=True)


@pytest.mark.slow
@both
async def test_a_range_is_read_no_further_than_it_was_asked_for(
    scheme: str, hostile: Hostile, opened: Provider, caplog: pytest.LogCaptureFixture
) -> None:
    uri = f"{scheme}://shelf/a.txt?bytes=100000-100099"
    async with running(opened) as source:
        assert await text(source, uri) == "x" * 100
        damages: dict[str, Callable[[int, int], web.Response]] = {
            "more": lambda first, last: hostile.part(first, 5_000_000, f"bytes {first}-{last}/{hostile.size}"),
            "fewer": lambda first, last: hostile.part(first, last - first, f"bytes {first}-{last}/{hostile.size}"),
            "none": lambda first, last: hostile.part(first, 0, f"bytes {first}-{last}/{hostile.size}"),
            "elsewhere": lambda first, last: hostile.part(first + 1, last - first + 1),
            "unsaid": lambda first, last: web.Response(status=206, body=b"x" * 100, headers=hostile.headers),
            "whole": lambda first, last: web.Response(body=b"x" * hostile.size, headers=hostile.headers),
        }
        for name, answer in damages.items():
            hostile.answer = answer
            with pytest.raises(ProviderUnavailable):
                await text(source, uri)
            assert caplog.records, name
            caplog.clear()


@pytest.mark.slow
@both
async def test_no_more_of_a_range_is_kept_than_was_asked_for(
    scheme: str, hostile: Hostile, opened: Provider, monkeypatch: pytest.MonkeyPatch
) -> None:
    taken: list[int] = []
    part = GetOptions.part

    def note(self: GetOptions, data: bytes, entry: StoreEntry) -> GetResult:
        taken.append(len(data))
        return part(self, data, entry)

    monkeypatch.setattr(GetOptions, "part", note)
    hostile.answer = lambda first, last: hostile.part(first, 50_000_000, f"bytes {first}-{last}/{hostile.size}")
    async with running(opened) as source:
        with pytest.raises(ProviderUnavailable):
            await text(source, f"{scheme}://shelf/a.txt?tail=1")
    [size] = taken
    assert 65_536 < size < 5_000_000


@pytest.mark.slow
@both
async def test_a_list_that_repeats_its_token_is_noticed(scheme: str, hostile: Hostile, opened: Provider) -> None:
    async with running(opened) as source:
        hostile.repeats = True
        for call in (
            lambda: Caller(source).resources(),
            lambda: Caller(source).directory(f"{scheme}://shelf/"),
            lambda: Caller(source).search("key", 5),
        ):
            hostile.asked.clear()
            with pytest.raises(ProviderUnavailable):
                await call()
            assert len(hostile.asked) < 50


@pytest.mark.slow
@both
async def test_a_condition_that_is_ignored_is_noticed(scheme: str, hostile: Hostile, opened: Provider) -> None:
    versions = itertools.count()

    def replaced(first: int, last: int) -> web.Response:
        response = hostile.part(first, last - first + 1)
        response.headers["ETag"] = f'"{next(versions)}"'
        return response

    hostile.answer = replaced
    async with running(opened) as source:
        with pytest.raises(ResourceError, match="changed while it was read"):
            await text(source, f"{scheme}://shelf/a.txt?bytes=100000-100099")


@pytest.mark.slow
async def test_the_key_of_a_service_account_signs_the_requests_to_google(
    hostile: Hostile, monkeypatch: pytest.MonkeyPatch
) -> None:
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    ).decode()
    account = {
        "type": "service_account",
        "client_email": "shelf@project.example",
        "private_key": private,
        "private_key_id": "first",
    }
    monkeypatch.setenv("GOOGLE_SERVICE_ACCOUNT_KEY", json.dumps(account))
    async with running(sources.open("gs://shelf", endpoint=hostile.endpoint)) as source:
        assert await text(source, "gs://shelf/a.txt?bytes=0-3") == "xxxx"
    for request in hostile.asked:
        scheme, _, token = request.headers["Authorization"].partition(" ")
        signed, _, signature = token.rpartition(".")
        key.public_key().verify(decoded(signature), signed.encode(), padding.PKCS1v15(), hashes.SHA256())
        claims = json.loads(decoded(signed.partition(".")[2]))
        assert (scheme, claims["iss"]) == ("Bearer", "shelf@project.example")


def decoded(part: str) -> bytes:
    return urlsafe_b64decode(part + "=" * (-len(part) % 4))
