"""Stores, held to the contract of all providers: in memory, an archive, and real servers of each kind."""

from __future__ import annotations

import itertools
import os
import tempfile
import zipfile
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from carrel import sources
from carrel.catalog.provider import Provider
from carrel.sources.stores.memory import InMemoryStore
from carrel.testing import ProviderContract
from carrel.testing.caller import Caller
from support import azure_server
from support.azure_server import AzureServer
from support.contract_choice import BACKEND, VARIANT
from support.s3_server import CREDENTIALS, S3Server
from support.sftp_server import SFTPServer
from support.webdav_server import WebDAVServer

FILES: dict[str, bytes] = {
    "a.md": b"# A\n",
    "b.txt": b"one\ntwo\nthree\n",
    "c d.txt": b"with a space\n",
    "docs/api.md": b"# API\n",
    "docs/deep/er.txt": b"deeper\n",
    "docs/x+y#z?.txt": b"odd\n",
    "empty.txt": b"",
    "picture.png": b"\x89PNG\r\n\x1a\n\0\0",
    "笔记.md": "笔记\n".encode(),
}
REMOTE_NAMES = ("a.md", "b.txt", "docs/api.md", "docs/deep/er.txt", "docs/x+y#z?.txt", "empty.txt", "笔记.md")
REMOTE = {name: FILES[name] for name in REMOTE_NAMES}
LARGE = b"0123456789abcdef\n" * 10_000
OPTIONS = {"poll_seconds": 0.05, "max_size": 100_000}


class StoreContract(ProviderContract):
    """Contract of a store whose URIs begin with ``base``; the large file is over the limit."""

    base: str
    numbers: Iterator[int]
    files = FILES

    def put(self, key: str, data: bytes) -> None:
        raise NotImplementedError

    def delete(self, key: str) -> None:
        raise NotImplementedError

    def fill(self) -> None:
        self.numbers = itertools.count()
        for key, data in {**self.files, "large.txt": LARGE}.items():
            self.put(key, data)

    def again(self, provider: Provider) -> Provider:
        raise NotImplementedError

    async def create(self, provider: Provider) -> str:
        key = f"docs/new{next(self.numbers)}.txt"
        self.put(key, b"new")
        return self.base + key

    async def change(self, provider: Provider, uri: str) -> None:
        self.put(uri.removeprefix(self.base), b"changed, and longer")

    async def remove(self, provider: Provider, uri: str) -> None:
        self.delete(uri.removeprefix(self.base))

    async def shown_in(self, provider: Provider, uri: str) -> Collection[str]:
        windows = [f"{uri}?{window}" for window in ("lines=1-1", "tail=1", "bytes=0-1")]
        return [uri, *windows, f"{self.base}docs/", f"{self.base}docs/?lines=1-2", f"{self.base}docs/?tail=1"]

    async def lists_with_new(self, provider: Provider) -> Collection[str]:
        return [f"{self.base}docs/", f"{self.base}docs/?lines=1-3"]

    def missing(self, provider: Provider) -> str:
        return f"{self.base}missing.txt"

    async def too_large(self, provider: Provider) -> str:
        return f"{self.base}large.txt"

    async def container(self, provider: Provider) -> str:
        return f"{self.base}docs/"

    async def unreadable(self, provider: Provider) -> Collection[str]:
        ends = ("../a.md", "%2e%2e/a.md", "docs%2Fapi.md", "docs//api.md", "a.md/", "docs", "a.md#x", "a.md?lines=0")
        return [
            *(self.base + end for end in ends),
            *(f"{self.base}{end}" for end in ("./a.md", "a.md%00", "docs/?bytes=0-1", "missing/")),
        ]

    async def searched(self, provider: Provider) -> tuple[str, str]:
        return "笔记", f"{self.base}%E7%AC%94%E8%AE%B0.md"

    async def completed(self, provider: Provider) -> tuple[str, str, str, str]:
        return f"{self.base}{{+path}}", "path", "docs/d", "docs/deep/"


class TestMemorySource(StoreContract):
    """Objects in memory, below a prefix."""

    base = "memory://contract/shared/"
    store: InMemoryStore

    @pytest.fixture
    def provider(self) -> Provider:
        InMemoryStore._named.pop("contract", None)
        self.store = InMemoryStore.named("contract")
        self.fill()
        self.store.put("outside.txt", b"outside")
        return self.again(self)  # type: ignore[arg-type]

    def again(self, provider: Provider) -> Provider:
        return sources.open("memory://contract/shared", **OPTIONS)

    def put(self, key: str, data: bytes) -> None:
        self.store.put(f"shared/{key}", data)

    def delete(self, key: str) -> None:
        self.store.remove(f"shared/{key}")


class TestZipSource(StoreContract):
    """An archive that is replaced at each change."""

    base = "zip://shelf.zip/"
    path: Path
    members: dict[str, bytes]

    @pytest.fixture
    def provider(self, tmp_path: Path) -> Provider:
        self.path = tmp_path / "shelf.zip"
        self.members = {}
        self.fill()
        return self.again(self)  # type: ignore[arg-type]

    def again(self, provider: Provider) -> Provider:
        return sources.open(f"zip:{self.path}", **OPTIONS)

    def put(self, key: str, data: bytes) -> None:
        self.members[key] = data
        self.write()

    def delete(self, key: str) -> None:
        del self.members[key]
        self.write()

    def write(self) -> None:
        new = self.path.with_suffix(".new")
        with zipfile.ZipFile(new, "w", zipfile.ZIP_DEFLATED) as archive:
            for key, data in self.members.items():
                archive.writestr(key, data)
        os.replace(new, self.path)


class RemoteContract(StoreContract):
    """The same with fewer files and reads, because servers take their time."""

    ordinary = BACKEND
    files = REMOTE
    prefixes = itertools.count()
    prefix: str
    #: Whether a test has written below the prefix: the next one fills another.
    is_written = True

    def fill_prefix(self) -> None:
        """Fill a prefix of a bucket, unless the one of the test before is as it was filled."""
        self.numbers = itertools.count()
        if self.is_written:
            kind = type(self)
            kind.prefix = f"test{next(self.prefixes)}"
            self.fill()
            kind.is_written = False
        self.base += f"{self.prefix}/"

    async def operations(self, provider: Provider) -> AsyncIterator[tuple[str, Callable[[], Awaitable[Any]]]]:
        seen: set[str] = set()  # completion of a path is the same in all templates
        async for name, operation in super().operations(provider):
            if name not in seen:
                seen.add(name)
                yield name, operation

    async def reads(self, provider: Provider) -> AsyncIterator[tuple[str, Callable[[], Awaitable[Any]]]]:
        caller = Caller(provider)
        for end in ("a.md", "b.txt?lines=2-", "b.txt?lines=9", "large.txt", "large.txt?tail=1", "docs/", "missing/"):
            yield f"read {end}", partial(caller.read_resource, self.base + end)


@pytest.mark.slow
class TestS3Source(RemoteContract):
    """A bucket on a real S3 server."""

    base = "s3://shelf/"
    server: S3Server

    @pytest.fixture
    def provider(self, server: S3Server, monkeypatch: pytest.MonkeyPatch) -> Provider:
        for name, value in CREDENTIALS.items():
            monkeypatch.setenv(name, value)
        self.server = server
        self.fill_prefix()
        return self.again(self)  # type: ignore[arg-type]

    def again(self, provider: Provider) -> Provider:
        return sources.open(f"s3://shelf/{self.prefix}", endpoint=self.server.endpoint, **OPTIONS)

    def put(self, key: str, data: bytes) -> None:
        type(self).is_written = True
        self.server.put(f"{self.prefix}/{key}", data)

    def delete(self, key: str) -> None:
        type(self).is_written = True
        self.server.remove(f"{self.prefix}/{key}")


@pytest.mark.slow
class TestGoogleSource(RemoteContract):
    """A bucket, asked for by Google's XML API."""

    ordinary = VARIANT
    base = "gs://shelf/"
    server: S3Server

    @pytest.fixture
    def provider(self, server: S3Server) -> Provider:
        self.server = server
        self.fill_prefix()
        return self.again(self)  # type: ignore[arg-type]

    def again(self, provider: Provider) -> Provider:
        return sources.open(f"gs://shelf/{self.prefix}", endpoint=self.server.endpoint, anonymous=True, **OPTIONS)

    def put(self, key: str, data: bytes) -> None:
        type(self).is_written = True
        self.server.put(f"{self.prefix}/{key}", data, access="public-read")

    def delete(self, key: str) -> None:
        type(self).is_written = True
        self.server.remove(f"{self.prefix}/{key}")


@pytest.mark.slow
class TestAzureSource(RemoteContract):
    """A container of Azurite."""

    base = "az://shelf/"
    azure: AzureServer

    @pytest.fixture
    def provider(self, azure: AzureServer, monkeypatch: pytest.MonkeyPatch) -> Provider:
        for name, value in azure_server.CREDENTIALS.items():
            monkeypatch.setenv(name, value)
        self.azure = azure
        self.fill_prefix()
        return self.again(self)  # type: ignore[arg-type]

    def again(self, provider: Provider) -> Provider:
        return sources.open(f"az://shelf/{self.prefix}", endpoint=self.azure.endpoint, **OPTIONS)

    def put(self, key: str, data: bytes) -> None:
        type(self).is_written = True
        self.azure.put(f"{self.prefix}/{key}", data)

    def delete(self, key: str) -> None:
        type(self).is_written = True
        self.azure.remove(f"{self.prefix}/{key}")


@pytest.mark.slow
class TestSFTPSource(RemoteContract):
    """Files of OpenSSH's server, in a folder of its own for each test."""

    ssh: SFTPServer
    folder: Path

    @pytest.fixture
    def provider(self, ssh: SFTPServer) -> Provider:
        self.ssh = ssh
        self.folder = Path(tempfile.mkdtemp(dir=ssh.files))
        self.base = f"sftp://127.0.0.1:{ssh.port}{self.folder}/"
        self.fill()
        return self.again(self)  # type: ignore[arg-type]

    def again(self, provider: Provider) -> Provider:
        return sources.open(self.ssh.url(self.folder), **self.ssh.options, **OPTIONS)

    def put(self, key: str, data: bytes) -> None:
        path = self.folder / key
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)

    def delete(self, key: str) -> None:
        (self.folder / key).unlink()


@pytest.mark.slow
class TestWebDAVSource(RemoteContract):
    """Files of a WebDAV server, in a folder of its own for each test."""

    dav: WebDAVServer
    folder: Path

    @pytest.fixture
    def provider(self, dav: WebDAVServer) -> Provider:
        self.dav = dav
        self.folder = Path(tempfile.mkdtemp(dir=dav.folder))
        self.base = f"webdav://127.0.0.1:{dav.port}/open/{self.folder.name}/"
        self.fill()
        return self.again(self)  # type: ignore[arg-type]

    def again(self, provider: Provider) -> Provider:
        return sources.open(self.base, **OPTIONS)

    def put(self, key: str, data: bytes) -> None:
        path = self.folder / key
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)

    def delete(self, key: str) -> None:
        (self.folder / key).unlink()
