"""S3 against a real server: conditional and ranged requests, hostile keys, credentials, failures."""

from __future__ import annotations

import itertools
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from aiohttp import web

from carrel import sources
from carrel.catalog.provider import Provider
from carrel.errors import ConfigError, ProviderUnavailable, ResourceNotFound, ResourceTooLarge
from carrel.testing import running
from carrel.testing.caller import Caller
from support.s3_server import CREDENTIALS, S3Server

pytestmark = pytest.mark.slow

numbers = itertools.count()


@pytest.fixture
def prefix(server: S3Server, monkeypatch: pytest.MonkeyPatch) -> str:
    for name, value in CREDENTIALS.items():
        monkeypatch.setenv(name, value)
    return f"own{next(numbers)}"


def opened(server: S3Server, prefix: str, **options: Any) -> Provider:
    return sources.open(f"s3://shelf/{prefix}", **{"endpoint": server.endpoint, **options})


async def text(caller: Caller, uri: str) -> str:
    [contents] = await caller.read_resource(uri)
    return str(contents.text)  # type: ignore[union-attr]


def record(source: Provider) -> list[tuple[str, dict[str, str]]]:
    """Record the requests that a source sends: the method, and the headers that matter here."""
    sent: list[tuple[str, dict[str, str]]] = []

    def note(request: Any, **_: object) -> None:
        wanted = ("Range", "If-Match", "If-None-Match")
        headers = {name: request.headers[name] for name in wanted if name in request.headers}
        sent.append(
            (
                request.method,
                {name: str(getattr(value, "decode", lambda v=value: v)()) for name, value in headers.items()},
            )
        )

    source._store._client.meta.events.register("before-send.s3", note)  # type: ignore[attr-defined]
    return sent


async def test_an_object_is_read_with_one_request_and_again_on_condition(server: S3Server, prefix: str) -> None:
    server.put(f"{prefix}/a.txt", "text")
    async with running(opened(server, prefix)) as source:
        sent = record(source)
        for _ in range(2):
            assert await text(Caller(source), f"s3://shelf/{prefix}/a.txt") == "text"
        assert [(method, set(headers)) for method, headers in sent] == [("GET", set()), ("GET", {"If-None-Match"})]


async def test_a_window_is_read_by_ranges_of_one_version(server: S3Server, prefix: str) -> None:
    server.put(f"{prefix}/log.txt", b"".join(b"%07d\n" % number for number in range(200_000)))
    async with running(opened(server, prefix)) as source:
        sent = record(source)
        assert await text(Caller(source), f"s3://shelf/{prefix}/log.txt?tail=1") == "0199999\n"
        assert [headers.get("Range") for _, headers in sent] == ["bytes=0-65535", "bytes=1534464-1599999"]
        assert "If-Match" in sent[1][1]


async def test_a_list_that_begins_again_is_noticed() -> None:
    asked: list[str] = []

    async def answer(request: web.Request) -> web.Response:
        asked.append(request.query.get("start-after", ""))
        objects = "".join(
            f"<Contents><Key>{name}</Key><Size>1</Size><LastModified>2026-11-22T10:00:00Z</LastModified></Contents>"
            for name in ("a.txt", "b.txt")
        )
        more = "<IsTruncated>true</IsTruncated><NextContinuationToken>again</NextContinuationToken>"
        text = f"<ListBucketResult>{objects}{more}</ListBucketResult>"
        return web.Response(text=text, content_type="application/xml")

    app = web.Application()
    app.router.add_route("*", "/{path:.*}", answer)
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    try:
        endpoint = f"http://127.0.0.1:{runner.addresses[0][1]}"
        async with running(sources.open("s3://shelf", endpoint=endpoint, anonymous=True)) as source:
            for call in (lambda: Caller(source).resources(), lambda: Caller(source).search("a", 5)):
                asked.clear()
                with pytest.raises(ProviderUnavailable):
                    await call()
                assert asked == ["", "b.txt"]
    finally:
        await runner.cleanup()


class WithoutRanges:
    """S3 server with one object, which it sends whole, whatever range is asked for."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.url = ""
        self.status = 200
        self.sent: list[int] = []
        self.headers = {"ETag": '"a"', "Last-Modified": "Sun, 22 Nov 2026 10:00:00 GMT"}

    @asynccontextmanager
    async def serve(self) -> AsyncIterator[WithoutRanges]:
        app = web.Application()
        app.router.add_route("*", "/{path:.*}", self.answer)
        runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        self.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
        try:
            yield self
        finally:
            await runner.cleanup()

    async def answer(self, request: web.Request) -> web.StreamResponse:
        if "list-type" in request.query:
            return web.Response(text="<ListBucketResult/>", content_type="application/xml")
        if request.method == "HEAD":
            return web.Response(headers={**self.headers, "Content-Length": str(len(self.data))})
        response = web.StreamResponse(
            status=self.status, headers={**self.headers, "Content-Length": str(len(self.data))}
        )
        await response.prepare(request)
        sent = 0
        try:
            for start in range(0, len(self.data), 65536):
                await response.write(self.data[start : start + 65536])
                sent = start
        finally:
            self.sent.append(sent)
        return response


async def test_a_server_without_ranges_is_read_no_further_than_needed(prefix: str) -> None:
    data = b"x" * 8000 + b"0001000\n" + b"x" * 60_000_000
    async with WithoutRanges(data).serve() as hostile:
        base = "s3://shelf/log/"
        async with running(sources.open("s3://shelf/log", endpoint=hostile.url)) as source:
            assert await text(Caller(source), f"{base}a.txt?bytes=8000-8007") == "0001000\n"
            assert max(hostile.sent) < len(data) // 2
            with pytest.raises(ResourceTooLarge):
                await text(Caller(source), f"{base}a.txt")
            hostile.status = 206
            for claims in ("bytes 1-65536/60000000", "bytes 0-65535/4000", "pages 0-1/2", ""):
                hostile.headers["Content-Range"] = claims
                with pytest.raises(ProviderUnavailable):
                    await text(Caller(source), f"{base}a.txt?bytes=0-1")
            hostile.status = 200
            del hostile.headers["Content-Range"], hostile.headers["Last-Modified"]
            with pytest.raises(ProviderUnavailable):
                await text(Caller(source), f"{base}a.txt?bytes=0-1")


async def test_hostile_keys_are_left_out_and_the_others_listed(server: S3Server, prefix: str) -> None:
    keys = ("a//b", "../up", "./dot", "d/../e", "marker/", "fine.txt", "z/fine.txt", "odd +%2F&;=.txt")
    for key in keys:
        server.put(f"{prefix}/{key}", "text")
    base = f"s3://shelf/{prefix}/"
    async with running(opened(server, prefix)) as source:
        caller = Caller(source)
        odd = f"{base}odd%20%2B%252F%26%3B%3D.txt"
        for limit in (1, 100):
            uris = [item.uri for item in await caller.resources(limit)]
            assert uris == [base, f"{base}fine.txt", odd, f"{base}z/fine.txt"]
        assert await text(caller, odd) == "text"


async def test_levels_have_pages_that_skip_whole_directories(server: S3Server, prefix: str) -> None:
    names = [f"{letter}/{number}.txt" for letter in "abc" for number in range(3)] + ["a.txt", "a0", "c-"]
    for name in names:
        server.put(f"{prefix}/{name}", "")
    base = f"s3://shelf/{prefix}/"
    async with running(opened(server, prefix)) as source:
        sent = record(source)
        first = await Caller(source).list_directory(base, None, 2)
        second = await Caller(source).list_directory(base, first.next_cursor, 100)
        found = [item.uri.removeprefix(base) for item in (*first.items, *second.items)]
        assert found == ["a.txt", "a/", "a0", "b/", "c-", "c/"]
        assert len(sent) == 2


async def test_other_buckets_and_prefixes_are_not_reached(server: S3Server, prefix: str) -> None:
    server.client.create_bucket(Bucket=f"other-{prefix}")
    server.put("secret.txt", "secret", f"other-{prefix}")
    server.put(f"{prefix}-secret/a.txt", "secret")
    async with running(opened(server, prefix)) as source:
        assert len(await Caller(source).resources()) == 1
        for uri in (f"s3://other-{prefix}/secret.txt", f"s3://shelf/{prefix}-secret/a.txt"):
            with pytest.raises(ResourceNotFound):
                await Caller(source).read_resource(uri)


async def test_a_bucket_that_is_not_there_or_not_reached_does_not_start(server: S3Server, prefix: str) -> None:
    with pytest.raises(ConfigError, match="no such bucket"):
        await sources.open("s3://no-such-bucket", endpoint=server.endpoint).start(None)  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="Could not connect") as raised:
        await opened(server, prefix, endpoint="http://127.0.0.1:1", timeout=5.0).start(None)  # type: ignore[arg-type]
    assert CREDENTIALS["AWS_SECRET_ACCESS_KEY"] not in str(raised.value)
    with pytest.raises(ConfigError, match="nobodys-profile"):
        await opened(server, prefix, profile="nobodys-profile").start(None)  # type: ignore[arg-type]


async def test_without_credentials_it_says_which_are_looked_for(
    server: S3Server, prefix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in CREDENTIALS:
        monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("HOME", "/nonexistent")
    with pytest.raises(ConfigError, match="AWS_ACCESS_KEY_ID"):
        await opened(server, prefix).start(None)  # type: ignore[arg-type]
    server.client.put_object(Bucket="shelf", Key=f"{prefix}/a.txt", Body=b"text", ACL="public-read")
    async with running(opened(server, prefix, anonymous=True)) as source:
        assert await text(Caller(source), f"s3://shelf/{prefix}/a.txt") == "text"


@pytest.mark.parametrize("target", ["s3://", "s3:bucket", "s3://key:hunter2@bucket/", "s3://key@bucket", "s3://b/../c"])
def test_a_url_that_names_no_bucket_is_refused(target: str) -> None:
    with pytest.raises(ConfigError) as raised:
        sources.open(target)
    assert "hunter2" not in str(raised.value)
